/* settings_numbers.c: reads and writes numbers with units, and says what would be right for a setting. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/notation.h"
#include "server/settings.h"

#define GIB (UINT64_C(1) << 30)

struct unit {
	const char *word;
	uint64_t factor;
};

enum { UNITS = 8 };

/* Largest unit first. The last one is for numbers without a unit. */
static void units_of(enum weir__setting_kind kind, struct unit units[UNITS])
{
	static const struct unit of_counts[UNITS] = { { "g", 1000000000 }, { "m", 1000000 }, { "k", 1000 }, { "", 1 } };
	static const struct unit of_bytes[UNITS] = {
		{ "TiB", GIB << 10 }, { "GiB", GIB }, { "MiB", GIB >> 10 }, { "KiB", GIB >> 20 }, { "", 1 }
	};

	if (kind == WEIR__SETTING_COUNT) {
		memcpy(units, of_counts, sizeof(of_counts));
	} else if (kind == WEIR__SETTING_BYTES) {
		memcpy(units, of_bytes, sizeof(of_bytes));
	} else { /* durations, with the units of limits */
		_Static_assert((int)UNITS == (int)WEIR__PERIOD_WORDS + 1, "and one without a word");
		for (size_t i = 0; i < WEIR__PERIOD_WORDS; i++)
			units[i] = (struct unit){ weir__period_words[i].word, weir__period_words[i].period };
		units[UNITS - 1] = (struct unit){ "", 1000000000 };
	}
}

static bool read_mode(const char *text, size_t length, uint64_t *ret_mode)
{
	uint64_t mode = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '7' || length > 4)
			return false;
		mode = mode << 3 | (uint64_t)(text[i] - '0');
	}
	*ret_mode = mode;
	return length > 0;
}

bool weir__settings_read_number(enum weir__setting_kind kind, const char *text, size_t length, uint64_t *ret_number)
{
	struct unit units[UNITS];
	uint64_t number = 0;
	size_t digits = 0;

	if (kind == WEIR__SETTING_MODE)
		return read_mode(text, length, ret_number);
	for (; digits < length && isdigit((unsigned char)text[digits]); digits++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(text[digits] - '0'), &number))
			return false;
	units_of(kind, units);
	for (size_t i = 0; digits > 0 && i < UNITS && units[i].word; i++)
		if (strlen(units[i].word) == length - digits &&
		    strncasecmp(units[i].word, text + digits, length - digits) == 0)
			return !__builtin_mul_overflow(number, units[i].factor, ret_number);
	return false;
}

void weir__settings_write_number(enum weir__setting_kind kind, uint64_t number, char *ret_text, size_t size)
{
	struct unit units[UNITS] = { { "", 1 } };

	if (kind != WEIR__SETTING_COUNT && number > 0)
		units_of(kind, units);
	for (size_t i = 0;; i++)
		if (number % units[i].factor == 0) {
			(void)snprintf(ret_text, size, "%llu%s", (unsigned long long)(number / units[i].factor),
				       units[i].word);
			return;
		}
}

void weir__settings_write_right(const struct weir__setting *setting, char *ret_text, size_t size)
{
	/* by kind */
	static const char *const whats[] = { "a whole number", "bytes", "a duration" };
	static const char *const hows[] = { "1000, 500k or 5m", "65536, 64KiB or 4MiB", "30s, 5min or 1hour" };
	char least[32], most[32];

	if (setting->kind <= WEIR__SETTING_DURATION) {
		weir__settings_write_number(setting->kind, setting->least, least, sizeof(least));
		weir__settings_write_number(setting->kind, setting->most, most, sizeof(most));
		(void)snprintf(ret_text, size, "use %s from %s to %s, written as %s", whats[setting->kind], least, most,
			       hows[setting->kind]);
	} else if (setting->kind == WEIR__SETTING_CHOICE) {
		(void)snprintf(ret_text, size, "use one of %s", setting->words);
	} else if (setting->kind == WEIR__SETTING_MODE) {
		(void)snprintf(ret_text, size, "use a mode in octal digits up to 0777, such as 0660");
	} else if (setting->kind == WEIR__SETTING_URL) {
		(void)snprintf(ret_text, size, "use a URL such as redis://127.0.0.1:6379");
	} else if (setting->kind == WEIR__SETTING_TEXT) {
		(void)snprintf(ret_text, size, "use a %s of 1 to %d bytes", setting->value[0] == 'P' ? "path" : "name",
			       WEIR__SETTING_TEXT_SIZE - 1);
	} else if (setting->kind == WEIR__SETTING_WHERE) {
		(void)snprintf(
			ret_text, size,
			"use HOST:PORT, tls://HOST:PORT or the path of a socket, such as %s, [::1]:%s or ./socket%s",
			setting->unset, strchr(setting->unset, ':') + 1, setting->least == 0 ? "; or none" : "");
	} else if (setting->kind == WEIR__SETTING_PROXIES) {
		(void)snprintf(ret_text, size,
			       "use a network or address, such as 10.0.0.0/8 or 2001:db8::1, or unix; or none");
	} else if (setting->kind == WEIR__SETTING_HEADERS) {
		(void)snprintf(ret_text, size,
			       "use HEADER=ATTRIBUTE, such as x-api-key=api_key, each attribute once, and none of "
			       "ip, method, path and host; or none");
	} else if (setting->kind == WEIR__SETTING_HOSTS) {
		(void)snprintf(
			ret_text, size,
			"use a name without a port, such as weir.example.com or *.example.com, or * for any; or none");
	} else {
		(void)snprintf(ret_text, size,
			       "use names, each with a password and a role, as docs/reference/settings.md shows");
	}
}
