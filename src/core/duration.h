/* duration.h: a duration as people write it: a whole number and a unit, as in 500ms, 5s or 1min. The units are those of
 * limits, with their other words, such as 1h (notation.h). */
#ifndef WEIR_CORE_DURATION_H
#define WEIR_CORE_DURATION_H

#include <string.h>

#include "core/notation.h"

/* 0: the word is not a unit. */
static inline weir_ns weir__duration_unit(const char *word, size_t n)
{
	for (size_t i = 0; i < WEIR__PERIOD_WORDS; i++)
		if (strlen(weir__period_words[i].word) == n && memcmp(word, weir__period_words[i].word, n) == 0)
			return weir__period_words[i].period;
	for (size_t i = 0; i < WEIR__PERIOD_ALIASES; i++)
		if (strlen(weir__period_aliases[i].word) == n && memcmp(word, weir__period_aliases[i].word, n) == 0)
			return weir__period_aliases[i].period;
	return 0;
}

/* Returns false if the text is not a duration, or one of more than `most`. */
static inline bool weir__duration_read(const char *text, size_t n, weir_ns most, weir_ns *ret_duration)
{
	uint64_t number = 0;
	size_t digits = 0;
	weir_ns unit;

	for (; digits < n && text[digits] >= '0' && text[digits] <= '9'; digits++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(text[digits] - '0'), &number))
			return false;
	unit = digits > 0 ? weir__duration_unit(text + digits, n - digits) : 0;
	if (unit == 0 || number > most / unit)
		return false;
	*ret_duration = number * unit;
	return true;
}

#endif
