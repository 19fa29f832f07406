/* words.c: bytes, times and sizes in a form for people. */
#include "cli/words.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "core/utf8.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* `mark` is put before each of the characters in `escaped`. */
static void write_safe(FILE *out, const unsigned char *at, size_t n, const char *escaped, char mark)
{
	while (n > 0) {
		const struct weir__utf8 first = weir__utf8_first(at, n);

		if (first.is_character && !weir__utf8_is_hidden(first.character)) {
			if (strchr(escaped, *at))
				putc(mark, out);
			fwrite(at, 1, first.length, out);
		} else {
			for (size_t i = 0; i < first.length; i++)
				fprintf(out, "\\x%02x", at[i]);
		}
		at += first.length;
		n -= first.length;
	}
}

void weir__words_safe(FILE *out, const char *text)
{
	write_safe(out, (const unsigned char *)text, strlen(text), "", 0);
}

void weir__words_safe_bytes(FILE *out, const void *bytes, size_t n)
{
	write_safe(out, bytes, n, "", 0);
}

void weir__words_quoted(FILE *out, const void *bytes, size_t n)
{
	putc('"', out);
	write_safe(out, bytes, n, "\"\\", '\\');
	putc('"', out);
}

void weir__words_in_csv(FILE *out, const void *bytes, size_t n)
{
	static const char formula[] = { '=', '+', '-', '@' };

	putc('"', out);
	if (n > 0 && memchr(formula, *(const unsigned char *)bytes, sizeof(formula)))
		putc('\'', out);
	write_safe(out, bytes, n, "\"", '"');
	putc('"', out);
}

void weir__words_for_shell(FILE *out, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

	if (*text && text[strspn(text, plain)] == '\0') {
		fputs(text, out);
		return;
	}
	putc('\'', out);
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", out);
		else
			putc(*text, out);
	putc('\'', out);
}

void weir__words_instant(weir_ns at, char *text)
{
	const time_t seconds = (time_t)(at / SECOND);
	struct tm utc;
	size_t length;

	gmtime_r(&seconds, &utc); /* cannot fail: the year is 2554 at most */
	length = strftime(text, WEIR__WORDS_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
	(void)snprintf(text + length, WEIR__WORDS_SIZE - length, ".%09uZ", (unsigned)(at % SECOND));
}

/* Durations below `below` are printed as units and parts; a part without a name is a tenth of the unit. */
static const struct {
	weir_ns below, unit, part;
	const char *unit_name, *part_name;
} durations[] = {
	{ US, 1, 1, "ns", "" },
	{ MS, US, US / 10, "us", NULL },
	{ SECOND, MS, MS / 10, "ms", NULL },
	{ MINUTE, SECOND, SECOND / 10, "s", NULL },
	{ HOUR, MINUTE, SECOND, "min", "s" },
	{ DAY, HOUR, MINUTE, "h", "min" },
	{ UINT64_MAX, DAY, HOUR, "d", "h" },
};

void weir__words_span(weir_ns span, char *text)
{
	size_t row = 0;
	uint64_t parts, per_unit, units, rest;

	for (;; row++) {
		parts = span / durations[row].part + (span % durations[row].part != 0);
		if (durations[row].below == UINT64_MAX || parts < durations[row].below / durations[row].part)
			break;
	}
	per_unit = durations[row].unit / durations[row].part;
	units = parts / per_unit;
	rest = parts % per_unit;
	if (span == 0)
		(void)snprintf(text, WEIR__WORDS_SIZE, "0 s");
	else if (rest == 0)
		(void)snprintf(text, WEIR__WORDS_SIZE, "%" PRIu64 " %s", units, durations[row].unit_name);
	else if (durations[row].part_name == NULL)
		(void)snprintf(text, WEIR__WORDS_SIZE, "%" PRIu64 ".%" PRIu64 " %s", units, rest,
			       durations[row].unit_name);
	else
		(void)snprintf(text, WEIR__WORDS_SIZE, "%" PRIu64 " %s %" PRIu64 " %s", units, durations[row].unit_name,
			       rest, durations[row].part_name);
}

void weir__words_size(uint64_t bytes, char *text)
{
	static const char *const units[] = { "kB", "MB", "GB", "TB", "PB", "EB" };
	double size = (double)bytes / 1000;
	size_t unit = 0;

	for (; size >= 999.95; unit++)
		size /= 1000;
	if (bytes < 1000)
		(void)snprintf(text, WEIR__WORDS_SIZE, "%" PRIu64 " B", bytes);
	else
		(void)snprintf(text, WEIR__WORDS_SIZE, "%.1f %s", size, units[unit]);
}
