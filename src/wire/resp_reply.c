/* resp_reply.c: reads replies, for a client. */
#include "wire/resp_line.h"

enum form {
	NO_FORM,
	FORM_LINE,     /* the value is on the line */
	FORM_BULK,     /* the line has the length */
	FORM_ELEMENTS, /* the line has the number of elements */
	FORM_PAIRS,
};

/* Indexed by the first byte. */
static const struct {
	unsigned char form, type;
} kinds[256] = {
	['+'] = { FORM_LINE, WEIR__RESP_SIMPLE },     ['-'] = { FORM_LINE, WEIR__RESP_ERROR },
	[':'] = { FORM_LINE, WEIR__RESP_INTEGER },    ['_'] = { FORM_LINE, WEIR__RESP_NULL },
	['#'] = { FORM_LINE, WEIR__RESP_BOOLEAN },    [','] = { FORM_LINE, WEIR__RESP_DOUBLE },
	['('] = { FORM_LINE, WEIR__RESP_BIG_NUMBER }, ['$'] = { FORM_BULK, WEIR__RESP_BULK },
	['!'] = { FORM_BULK, WEIR__RESP_ERROR },      ['='] = { FORM_BULK, WEIR__RESP_VERBATIM },
	['*'] = { FORM_ELEMENTS, WEIR__RESP_ARRAY },  ['~'] = { FORM_ELEMENTS, WEIR__RESP_SET },
	['>'] = { FORM_ELEMENTS, WEIR__RESP_PUSH },   ['%'] = { FORM_PAIRS, WEIR__RESP_MAP },
	['|'] = { FORM_PAIRS, WEIR__RESP_ATTRIBUTE },
};

void weir__resp_reply_init(struct weir__resp_reply *reply)
{
	reply->n = 0;
	reply->fault = WEIR__RESP_ERROR_NONE;
	reply->depth = 0;
	reply->missing = 1;
	reply->place.buffer = NULL;
	weir__resp_place_next(&reply->place, 0);
}

static enum weir__resp_status refuse(struct weir__resp_reply *reply, enum weir__resp_error fault)
{
	reply->fault = fault;
	return WEIR__RESP_BAD;
}

/* --- values of one line ----------------------------------------------------------------------------------------- */

static size_t skip_digits(const char *text, size_t n, size_t from)
{
	while (from < n && text[from] >= '0' && text[from] <= '9')
		from++;
	return from;
}

static size_t skip_sign(const char *text, size_t n, size_t from)
{
	return from < n && (text[from] == '-' || text[from] == '+') ? from + 1 : from;
}

static bool is_big_number(const char *text, size_t n)
{
	const size_t first = skip_sign(text, n, 0);

	return first < n && skip_digits(text, n, first) == n;
}

static bool is_word(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* 1, -1.5, .5e-3, inf, -inf, nan */
static bool is_double(const char *text, size_t n)
{
	const size_t first = skip_sign(text, n, 0);
	size_t end = skip_digits(text, n, first), digits = end - first;

	if (is_word(text + first, n - first, "inf") || is_word(text + first, n - first, "nan"))
		return true;
	if (end < n && text[end] == '.') {
		const size_t point = end;

		end = skip_digits(text, n, point + 1);
		digits += end - point - 1;
	}
	if (digits == 0)
		return false;
	if (end < n && (text[end] == 'e' || text[end] == 'E')) {
		const size_t exponent = skip_sign(text, n, end + 1);

		end = skip_digits(text, n, exponent);
		if (end == exponent)
			return false;
	}
	return end == n;
}

/* Parses the text as a value of the token's type. Returns false if it is not one. */
static bool read_value(struct weir__resp_token *token)
{
	const char *text = token->text.bytes;
	const size_t n = token->text.length;

	switch (token->type) {
	case WEIR__RESP_INTEGER:
		if (n > 1 && text[0] == '+' && text[1] != '-')
			return weir__resp_number(text + 1, n - 1, &token->number);
		return weir__resp_number(text, n, &token->number);
	case WEIR__RESP_NULL:
		return n == 0;
	case WEIR__RESP_BOOLEAN:
		token->number = n == 1 && text[0] == 't';
		return n == 1 && (text[0] == 't' || text[0] == 'f');
	case WEIR__RESP_DOUBLE:
		return is_double(text, n);
	case WEIR__RESP_BIG_NUMBER:
		return is_big_number(text, n);
	default:
		return true;
	}
}

/* --- tokens ----------------------------------------------------------------------------------------------------- */

/* A value is complete: one less is missing at this level. A parent that is complete thereby gets its span. */
static void count_value(struct weir__resp_reply *reply)
{
	for (;;) {
		uint32_t first,
			*missing = reply->depth > 0 ? &reply->levels[reply->depth - 1].missing : &reply->missing;

		if (--*missing > 0 || reply->depth == 0)
			return;
		first = reply->levels[--reply->depth].token;
		reply->tokens[first].span = reply->n - first;
		/* An attribute is not a value: the value it belongs to is still missing. */
		if (reply->tokens[first].type == WEIR__RESP_ATTRIBUTE)
			return;
	}
}

static enum weir__resp_status begin_elements(struct weir__resp_reply *reply, struct weir__resp_token *token,
					     int64_t elements)
{
	if (elements > (int64_t)(reply->tokens_max - reply->n))
		return refuse(reply, WEIR__RESP_ERROR_REPLY_SIZE);
	token->number = elements;
	token->text = (struct weir__resp_slice){ NULL, 0 };
	if (elements == 0) {
		if (token->type != WEIR__RESP_ATTRIBUTE)
			count_value(reply);
		return WEIR__RESP_COMPLETE;
	}
	if (reply->depth >= reply->depth_max || reply->depth >= WEIR__RESP_DEPTH_MOST)
		return refuse(reply, WEIR__RESP_ERROR_REPLY_SIZE);
	reply->levels[reply->depth++] = (struct weir__resp_level){ reply->n - 1, (uint32_t)elements };
	return WEIR__RESP_COMPLETE;
}

/* Reads the bytes of a bulk, whose token is the newest. `at` is at the first of them. */
static enum weir__resp_status read_bulk(struct weir__resp_reply *reply, const char *buffer, size_t size)
{
	struct weir__resp_place *place = &reply->place;
	struct weir__resp_token *token = &reply->tokens[reply->n - 1];
	const char *bytes = buffer + place->at;
	const size_t length = (size_t)place->bulk;

	if (size - place->at < (uint64_t)place->bulk + 2)
		return WEIR__RESP_MORE;
	if (bytes[length] != '\r' || bytes[length + 1] != '\n')
		return refuse(reply, WEIR__RESP_ERROR_LINE);
	token->text = (struct weir__resp_slice){ bytes, length };
	if (token->type == WEIR__RESP_VERBATIM) {
		if (length < 4 || bytes[3] != ':')
			return refuse(reply, WEIR__RESP_ERROR_VALUE);
		token->text = (struct weir__resp_slice){ bytes + 4, length - 4 };
	}
	weir__resp_place_next(place, place->at + length + 2);
	count_value(reply);
	return WEIR__RESP_COMPLETE;
}

/* Interprets the line of a token, without its type byte. `at` is after the line. */
static enum weir__resp_status read_text(struct weir__resp_reply *reply, struct weir__resp_token *token, enum form form)
{
	int64_t number;

	if (form == FORM_LINE) {
		if (!read_value(token))
			return refuse(reply, WEIR__RESP_ERROR_VALUE);
		count_value(reply);
		return WEIR__RESP_COMPLETE;
	}
	if (!weir__resp_number(token->text.bytes, token->text.length, &number) || number < -1)
		return refuse(reply, WEIR__RESP_ERROR_VALUE);
	if (number == -1) { /* RESP2's nulls */
		if (token->type != WEIR__RESP_BULK && token->type != WEIR__RESP_ARRAY)
			return refuse(reply, WEIR__RESP_ERROR_VALUE);
		token->type = WEIR__RESP_NULL;
		token->text.length = 0;
		count_value(reply);
		return WEIR__RESP_COMPLETE;
	}
	if (form == FORM_PAIRS && __builtin_mul_overflow(number, 2, &number))
		return refuse(reply, WEIR__RESP_ERROR_REPLY_SIZE);
	if (form != FORM_BULK)
		return begin_elements(reply, token, number);
	if (number > reply->bulk_max)
		return refuse(reply, WEIR__RESP_ERROR_REPLY_SIZE);
	reply->place.bulk = number;
	return WEIR__RESP_COMPLETE;
}

static enum weir__resp_status read_token(struct weir__resp_reply *reply, const char *buffer, size_t size)
{
	struct weir__resp_place *place = &reply->place;
	const char *line = buffer + place->at;
	struct weir__resp_token *token;
	enum weir__resp_status found;
	size_t length;

	if (place->at == size)
		return WEIR__RESP_MORE;
	if (kinds[(unsigned char)line[0]].form == NO_FORM)
		return refuse(reply, WEIR__RESP_ERROR_TYPE);
	if (reply->n == reply->tokens_max)
		return refuse(reply, WEIR__RESP_ERROR_REPLY_SIZE);
	found = weir__resp_line(place, buffer, size, '\r', reply->line_max);
	length = place->scanned;
	if (found == WEIR__RESP_BAD)
		return refuse(reply, WEIR__RESP_ERROR_LINE);
	if (found == WEIR__RESP_MORE || size - place->at < length + 2)
		return WEIR__RESP_MORE;
	if (line[length + 1] != '\n')
		return refuse(reply, WEIR__RESP_ERROR_LINE);
	weir__resp_place_next(place, place->at + length + 2);
	token = &reply->tokens[reply->n++];
	*token = (struct weir__resp_token){ .type = kinds[(unsigned char)line[0]].type,
					    .span = 1,
					    .text = { line + 1, length - 1 } };
	return read_text(reply, token, kinds[(unsigned char)line[0]].form);
}

static void follow(struct weir__resp_reply *reply, const char *buffer)
{
	const uintptr_t from = (uintptr_t)reply->place.buffer;

	for (uint32_t i = 0; i < reply->n; i++)
		if (reply->tokens[i].text.bytes != NULL)
			reply->tokens[i].text.bytes = weir__resp_moved(reply->tokens[i].text.bytes, from, buffer);
}

enum weir__resp_status weir__resp_reply_read(struct weir__resp_reply *reply, const char *buffer, size_t size,
					     size_t *ret_used)
{
	struct weir__resp_place *place = &reply->place;

	*ret_used = 0;
	if (reply->missing == 0) { /* the last call completed a reply */
		reply->n = 0;
		reply->missing = 1;
	} else if (place->buffer != buffer) {
		follow(reply, buffer);
	}
	place->buffer = buffer;
	while (reply->missing > 0) {
		const enum weir__resp_status status = place->bulk >= 0 ? read_bulk(reply, buffer, size) :
									 read_token(reply, buffer, size);

		if (status != WEIR__RESP_COMPLETE)
			return status;
	}
	*ret_used = place->at;
	place->at = 0;
	return WEIR__RESP_COMPLETE;
}
