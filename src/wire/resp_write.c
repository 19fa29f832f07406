/* resp_write.c: writes replies. */
#include <string.h>

#include "wire/digits.h"
#include "wire/resp.h"

enum {
	LINE_MOST = 1 + WEIR__DIGITS_MOST + 1 + 2 /* type, number with sign and point, CR LF */
};

static const char *const words[] = {
#define FAULT_WORDS(name, text) [WEIR__RESP_ERROR_##name] = (text),
	WEIR__RESP_ERRORS(FAULT_WORDS)
#undef FAULT_WORDS
};

const char *weir__resp_error_words(enum weir__resp_error fault)
{
	return words[fault];
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

static inline char *put_number(char *to, int64_t number)
{
	if (number >= 0)
		return weir__put_digits(to, (uint64_t)number);
	*to = '-';
	return weir__put_digits(to + 1, 0 - (uint64_t)number);
}

static inline char *put_end(char *to)
{
	to[0] = '\r';
	to[1] = '\n';
	return to + 2;
}

/* The head of a bulk or of an array: a type, a number and CR LF. */
static inline char *put_head(char *to, char type, uint64_t number)
{
	*to = type;
	return put_end(weir__put_digits(to + 1, number));
}

static inline char *put_integer(char *to, int64_t number)
{
	*to = ':';
	return put_end(put_number(to + 1, number));
}

/* --- appending -------------------------------------------------------------------------------------------------- */

/* Counts n more bytes. Returns where they go, or NULL if they do not fit. */
static char *claim(struct weir__resp_writer *writer, size_t n)
{
	const size_t before = writer->length;

	writer->length = n < SIZE_MAX - before ? before + n : SIZE_MAX;
	return writer->length <= writer->size ? writer->bytes + before : NULL;
}

static bool has_room(const struct weir__resp_writer *writer, size_t n)
{
	return writer->length <= writer->size && writer->size - writer->length >= n;
}

static bool fits(const struct weir__resp_writer *writer)
{
	return writer->length <= writer->size;
}

static bool add(struct weir__resp_writer *writer, const void *bytes, size_t n)
{
	char *to = claim(writer, n);

	if (to == NULL)
		return false;
	if (n > 0)
		memcpy(to, bytes, n);
	return true;
}

static bool add_head(struct weir__resp_writer *writer, char type, uint64_t number)
{
	char line[LINE_MOST];

	if (has_room(writer, LINE_MOST)) {
		writer->length = (size_t)(put_head(writer->bytes + writer->length, type, number) - writer->bytes);
		return true;
	}
	return add(writer, line, (size_t)(put_head(line, type, number) - line));
}

static bool add_body(struct weir__resp_writer *writer, const void *bytes, size_t n)
{
	add(writer, bytes, n);
	return add(writer, "\r\n", 2);
}

static bool add_line(struct weir__resp_writer *writer, char type, const char *text, size_t length)
{
	char *to;

	add(writer, &type, 1);
	to = claim(writer, length);
	for (size_t i = 0; to != NULL && i < length; i++)
		to[i] = text[i];
	for (size_t i = 0; to != NULL && i < length; i++)
		if (to[i] == '\r' || to[i] == '\n')
			to[i] = ' ';
	return add(writer, "\r\n", 2);
}

/* --- replies ---------------------------------------------------------------------------------------------------- */

bool weir__resp_write_simple(struct weir__resp_writer *writer, const char *text, size_t length)
{
	return add_line(writer, '+', text, length);
}

bool weir__resp_write_error(struct weir__resp_writer *writer, const char *text, size_t length)
{
	return add_line(writer, '-', text, length);
}

bool weir__resp_write_integer(struct weir__resp_writer *writer, int64_t number)
{
	char line[LINE_MOST];

	if (has_room(writer, LINE_MOST)) {
		writer->length = (size_t)(put_integer(writer->bytes + writer->length, number) - writer->bytes);
		return true;
	}
	return add(writer, line, (size_t)(put_integer(line, number) - line));
}

bool weir__resp_write_integers_first(struct weir__resp_writer *writer, size_t elements, const int64_t *numbers,
				     size_t n)
{
	char *to;

	if (n >= SIZE_MAX / LINE_MOST || !has_room(writer, (n + 1) * LINE_MOST)) {
		add_head(writer, '*', elements);
		for (size_t i = 0; i < n; i++)
			weir__resp_write_integer(writer, numbers[i]);
		return fits(writer);
	}
	to = put_head(writer->bytes + writer->length, '*', elements);
	for (size_t i = 0; i < n; i++)
		to = put_integer(to, numbers[i]);
	writer->length = (size_t)(to - writer->bytes);
	return true;
}

/* Writes a number of a type that RESP2 lacks: there it is a bulk. */
static bool add_digits(struct weir__resp_writer *writer, char type, const char *digits, size_t n)
{
	if (writer->resp_version < 3)
		return weir__resp_write_bulk(writer, digits, n);
	return add_line(writer, type, digits, n);
}

bool weir__resp_write_unsigned(struct weir__resp_writer *writer, uint64_t number)
{
	char digits[WEIR__DIGITS_MOST];

	if (number <= INT64_MAX)
		return weir__resp_write_integer(writer, (int64_t)number);
	return add_digits(writer, '(', digits, (size_t)(weir__put_digits(digits, number) - digits));
}

bool weir__resp_write_double(struct weir__resp_writer *writer, int64_t number, unsigned places)
{
	char digits[LINE_MOST], *to = digits;
	uint64_t whole = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	uint64_t scale = 1;

	for (; places > 0 && whole % 10 == 0; places--) /* 1.50 is 1.5 */
		whole /= 10;
	for (unsigned i = 0; i < places; i++)
		scale *= 10;
	if (number < 0)
		*to++ = '-';
	to = weir__put_digits(to, whole / scale);
	if (places > 0) {
		/* Prints the fraction with a 1 in front, which keeps its leading zeros; the point then replaces the
		 * 1. */
		char *point = to;

		to = weir__put_digits(to, whole % scale + scale);
		*point = '.';
	}
	return add_digits(writer, ',', digits, (size_t)(to - digits));
}

bool weir__resp_write_bulk(struct weir__resp_writer *writer, const void *bytes, size_t length)
{
	add_head(writer, '$', length);
	return add_body(writer, bytes, length);
}

bool weir__resp_write_replies(struct weir__resp_writer *writer, const char *bytes, size_t length)
{
	return add(writer, bytes, length);
}

bool weir__resp_write_bulk_of(struct weir__resp_writer *writer, const struct weir__resp_slice *slices, size_t n)
{
	size_t length = 0;

	for (size_t i = 0; i < n; i++)
		length += slices[i].length;
	add_head(writer, '$', length);
	for (size_t i = 0; i < n; i++)
		add(writer, slices[i].bytes, slices[i].length);
	return add(writer, "\r\n", 2);
}

bool weir__resp_write_verbatim(struct weir__resp_writer *writer, const char *format, const void *bytes, size_t length)
{
	enum { FORMAT_BYTES = 3 };

	if (writer->resp_version < 3)
		return weir__resp_write_bulk(writer, bytes, length);
	add_head(writer, '=', (uint64_t)length + FORMAT_BYTES + 1);
	add(writer, format, FORMAT_BYTES);
	add(writer, ":", 1);
	return add_body(writer, bytes, length);
}

bool weir__resp_write_boolean(struct weir__resp_writer *writer, bool is_true)
{
	if (writer->resp_version < 3)
		return weir__resp_write_integer(writer, is_true);
	return add(writer, is_true ? "#t\r\n" : "#f\r\n", 4);
}

bool weir__resp_write_null(struct weir__resp_writer *writer)
{
	return writer->resp_version < 3 ? add(writer, "$-1\r\n", 5) : add(writer, "_\r\n", 3);
}

bool weir__resp_write_null_array(struct weir__resp_writer *writer)
{
	return writer->resp_version < 3 ? add(writer, "*-1\r\n", 5) : add(writer, "_\r\n", 3);
}

bool weir__resp_write_array(struct weir__resp_writer *writer, uint64_t n)
{
	return add_head(writer, '*', n);
}

bool weir__resp_write_map(struct weir__resp_writer *writer, uint64_t n)
{
	return writer->resp_version < 3 ? add_head(writer, '*', 2 * n) : add_head(writer, '%', n);
}

bool weir__resp_write_set(struct weir__resp_writer *writer, uint64_t n)
{
	return add_head(writer, writer->resp_version < 3 ? '*' : '~', n);
}

bool weir__resp_write_push(struct weir__resp_writer *writer, uint64_t n)
{
	return add_head(writer, writer->resp_version < 3 ? '*' : '>', n);
}

bool weir__resp_write_protocol_error(struct weir__resp_writer *writer, const struct weir__resp_request *request)
{
	static const char begin[] = "-ERR Protocol error: ";
	const char *text = words[request->fault];
	const size_t n = strlen(text);
	const bool is_got = request->fault == WEIR__RESP_ERROR_NO_BULK;
	char got[] = { request->got, '\'' }; /* replaces the question mark and quote at the end of the text */

	if (got[0] == '\r' || got[0] == '\n')
		got[0] = ' ';
	add(writer, begin, sizeof(begin) - 1);
	add(writer, text, is_got ? n - sizeof(got) : n);
	if (is_got)
		add(writer, got, sizeof(got));
	return add(writer, "\r\n", 2);
}
