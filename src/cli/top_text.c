/* top_text.c: cells of text, cut and padded. */
#include "cli/top_text.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "core/utf8.h"

bool weir__top_text_locale(void)
{
	return setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* A character that does not fit ends the line: nothing that follows may take its place. */
static void append(struct weir__top_text *text, const char *bytes, size_t n, unsigned columns)
{
	const unsigned left = text->most - text->columns;

	if (columns > left && n != columns) {
		text->most = text->columns;
		return;
	}
	if (columns > left)
		n = columns = left;
	if (n >= WEIR__TOP_LINE_SIZE - text->length)
		return;
	memcpy(text->bytes + text->length, bytes, n);
	text->length += n;
	text->bytes[text->length] = '\0';
	text->columns += columns;
}

void weir__top_text_ink(struct weir__top_text *text, const char *escape)
{
	append(text, escape, strlen(escape), 0);
}

void weir__top_text_put(struct weir__top_text *text, const char *bytes, unsigned columns)
{
	append(text, bytes, strlen(bytes), columns);
}

/* The text to show for the first character of some bytes. */
struct piece {
	char bytes[32];
	size_t length;
	unsigned columns;
	size_t used; /* input bytes that it stands for */
};

/* Returns the character itself if it has a width and the terminal can show it; else its bytes in hexadecimal. */
static struct piece next_piece(const struct weir__top_text *text, const char *bytes, size_t n)
{
	const struct weir__utf8 first = weir__utf8_first((const unsigned char *)bytes, n);
	struct piece piece = { .used = first.length };
	int width = -1;

	if (first.is_character && !weir__utf8_is_hidden(first.character))
		width = first.character < 0x7f ? 1 : text->is_utf8 ? wcwidth((wchar_t)first.character) : -1;
	if (width > 0) {
		memcpy(piece.bytes, bytes, first.length);
		piece.length = first.length;
		piece.columns = (unsigned)width;
		return piece;
	}
	for (size_t i = 0; i < first.length; i++)
		piece.length += (size_t)snprintf(piece.bytes + piece.length, sizeof(piece.bytes) - piece.length,
						 "\\x%02x", (unsigned char)bytes[i]);
	piece.columns = (unsigned)piece.length;
	return piece;
}

static unsigned columns_of(const struct weir__top_text *text, const char *bytes)
{
	const size_t n = strlen(bytes);
	unsigned columns = 0;

	for (size_t i = 0; i < n;) {
		const struct piece piece = next_piece(text, bytes + i, n - i);

		columns += piece.columns;
		i += piece.used;
	}
	return columns;
}

void weir__top_text_add(struct weir__top_text *text, const char *bytes, unsigned columns)
{
	const size_t n = strlen(bytes);
	const bool is_cut = columns_of(text, bytes) > columns;
	unsigned left = is_cut && columns > 0 ? columns - 1 : columns;

	for (size_t i = 0; i < n;) {
		const struct piece piece = next_piece(text, bytes + i, n - i);

		if (piece.columns > left)
			break;
		append(text, piece.bytes, piece.length, piece.columns);
		left -= piece.columns;
		i += piece.used;
	}
	if (is_cut && columns > 0)
		weir__top_text_put(text, text->is_utf8 ? "…" : "~", 1);
}

void weir__top_text_to(struct weir__top_text *text, unsigned column)
{
	while (text->columns < column && text->columns < text->most && text->length + 1 < WEIR__TOP_LINE_SIZE)
		append(text, " ", 1, 1);
}

void weir__top_text_cell(struct weir__top_text *text, const char *bytes, unsigned columns)
{
	const unsigned end = text->columns + columns;

	weir__top_text_add(text, bytes, columns);
	weir__top_text_to(text, end);
}

void weir__top_text_right(struct weir__top_text *text, const char *bytes, unsigned columns)
{
	const size_t length = strlen(bytes);

	if (length < columns)
		weir__top_text_to(text, text->columns + columns - (unsigned)length);
	append(text, bytes, length, (unsigned)length);
}

void weir__top_text_bar(struct weir__top_text *text, unsigned thousandths, unsigned columns)
{
	const unsigned full = (thousandths * columns + 500) / 1000;

	for (unsigned i = 0; i < columns; i++)
		weir__top_text_put(text, i < full ? text->is_utf8 ? "█" : "#" : text->is_utf8 ? "░" : ".", 1);
}

void weir__top_text_height(struct weir__top_text *text, unsigned eighths)
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const signs[] = { " ", ".", ":", "-", "=", "+", "*", "#", "@" };

	weir__top_text_put(text, (text->is_utf8 ? blocks : signs)[eighths > 8 ? 8 : eighths], 1);
}

/* --- numbers ----------------------------------------------------------------------------------------------------- */

/* Rounds to the nearest multiple of `part`, without overflow. */
static uint64_t rounded(uint64_t number, uint64_t part)
{
	return number / part + (number % part >= part - part / 2);
}

void weir__top_number(uint64_t number, char text[WEIR__TOP_NUMBER_SIZE])
{
	static const char letters[] = "kMGTPE";
	uint64_t one = 1000, tenths;
	size_t letter = 0;

	if (number < 100000) {
		(void)snprintf(text, WEIR__TOP_NUMBER_SIZE, "%" PRIu64, number);
		return;
	}
	for (; rounded(number, one) >= 1000 && letter + 1 < sizeof(letters) - 1; letter++)
		one *= 1000;
	tenths = rounded(number, one / 10);
	if (tenths < 1000)
		(void)snprintf(text, WEIR__TOP_NUMBER_SIZE, "%u.%u%c", (unsigned)(tenths / 10), (unsigned)(tenths % 10),
			       letters[letter]);
	else
		(void)snprintf(text, WEIR__TOP_NUMBER_SIZE, "%" PRIu64 "%c", rounded(number, one), letters[letter]);
}

void weir__top_tenths(uint64_t tenths, char text[WEIR__TOP_NUMBER_SIZE])
{
	if (tenths < 10000)
		(void)snprintf(text, WEIR__TOP_NUMBER_SIZE, "%u.%u", (unsigned)(tenths / 10), (unsigned)(tenths % 10));
	else
		weir__top_number(rounded(tenths, 10), text);
}

void weir__top_age(uint64_t seconds, char text[WEIR__TOP_NUMBER_SIZE])
{
	static const struct {
		uint64_t seconds, below;
		const char *large, *small;
	} units[] = { { 86400, 3600, "d", "h" }, { 3600, 60, "h", "min" }, { 60, 1, "min", "s" } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (seconds >= units[i].seconds) {
			(void)snprintf(text, WEIR__TOP_NUMBER_SIZE, "%" PRIu64 " %s %" PRIu64 " %s",
				       seconds / units[i].seconds, units[i].large,
				       seconds % units[i].seconds / units[i].below, units[i].small);
			return;
		}
	(void)snprintf(text, WEIR__TOP_NUMBER_SIZE, "%" PRIu64 " s", seconds);
}
