/* duration.h: a duration as people write it: a whole number and a unit, as in 500ms, 5s or 1min. The units are those of
 * limits (notation.h). */
#ifndef WEIR_CORE_DURATION_H
#define WEIR_CORE_DURATION_H

#include <string.h>

#include "core/notation.h"

/* Returns false if the text is not a duration, or one of more than `most`. */
static inline bool weir__duration_read(const char *text, size_t n, weir_ns most, weir_ns *ret_duration)
{
	uint64_t number = 0;
	size_t digits = 0;

	for (; digits < n && text[digits] >= '0' && text[digits] <= '9'; digits++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(text[digits] - '0'), &number))
			return false;
	for (size_t i = 0; i < WEIR__PERIOD_WORDS && digits > 0; i++) {
		const struct weir__period_word *const unit = &weir__period_words[i];

		if (n - digits != strlen(unit->word) || memcmp(text + digits, unit->word, n - digits) != 0)
			continue;
		if (number > most / unit->period)
			return false;
		*ret_duration = number * unit->period;
		return true;
	}
	return false;
}

#endif
