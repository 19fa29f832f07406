/* http_reply.c: writes response heads, bodies and JSON. */
#include "wire/http_reply.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "wire/digits.h"

static const struct row {
	unsigned status;
	const char *words;
} rows[] = {
	{ 200, "OK" },
	{ 204, "No Content" },
	{ 304, "Not Modified" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 417, "Expectation Failed" },
	{ 422, "Unprocessable Content" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 503, "Service Unavailable" },
	{ 505, "HTTP Version Not Supported" },
};

const char *weir__reply_words(unsigned status)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].status == status)
			return rows[i].words;
	return "Unknown";
}

void weir__http_date_set(struct weir__http_date *date, weir_ns now)
{
	const uint64_t second = now / 1000000000;
	const time_t seconds = (time_t)second;
	struct tm parts;

	if (second == date->second)
		return;
	date->second = second;
	date->length = gmtime_r(&seconds, &parts) ?
			       strftime(date->text, sizeof(date->text), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts) :
			       0;
}

/* --- bodies ----------------------------------------------------------------------------------------------------- */

char *weir__reply_room(struct weir__http_reply *reply, size_t n)
{
	if (n <= reply->size - WEIR__REPLY_HEAD_ROOM - reply->body_length)
		return reply->bytes + WEIR__REPLY_HEAD_ROOM + reply->body_length;
	reply->is_full = true;
	return NULL;
}

void weir__reply_wrote(struct weir__http_reply *reply, const char *end)
{
	reply->body_length = (size_t)(end - reply->bytes) - WEIR__REPLY_HEAD_ROOM;
}

void weir__reply_add(struct weir__http_reply *reply, const char *bytes, size_t n)
{
	char *const to = weir__reply_room(reply, n);

	if (to)
		weir__reply_wrote(reply, weir__put(to, bytes, n));
}

void weir__reply_add_text(struct weir__http_reply *reply, const char *text)
{
	weir__reply_add(reply, text, strlen(text));
}

void weir__reply_add_number(struct weir__http_reply *reply, uint64_t number)
{
	char *const to = weir__reply_room(reply, WEIR__DIGITS_MOST);

	if (to)
		weir__reply_wrote(reply, weir__put_digits(to, number));
}

size_t weir__reply_utf8(const unsigned char *at, size_t n)
{
	const size_t length = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2;
	uint32_t code = *at & (0xffu >> (length + 1));

	if (*at < 0xc2 || *at > 0xf4 || length > n)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	if ((length == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) ||
	    (length == 4 && (code < 0x10000 || code > 0x10ffff)))
		return 0;
	return length;
}

static char *put_escaped_byte(char *to, unsigned char byte)
{
	static const char digits[] = "0123456789abcdef";

	if (byte == '"' || byte == '\\' || byte == '\n') {
		*to++ = '\\';
		*to++ = (char)(byte == '\n' ? 'n' : byte);
		return to;
	}
	to = WEIR__PUT(to, "\\u00");
	*to++ = digits[byte >> 4];
	*to++ = digits[byte & 15];
	return to;
}

/* At most 6 n bytes. */
static char *put_escaped(char *to, const char *bytes, size_t n)
{
	const unsigned char *const from = (const unsigned char *)bytes;

	for (size_t i = 0; i < n;) {
		size_t length;

		if (from[i] < 0x7f && from[i] >= 0x20 && from[i] != '"' && from[i] != '\\') {
			*to++ = bytes[i++];
			continue;
		}
		length = from[i] < 0x80 ? 0 : weir__reply_utf8(from + i, n - i);
		if (length > 0)
			to = weir__put(to, bytes + i, length);
		else if (from[i] < 0x80)
			to = put_escaped_byte(to, from[i]);
		else
			to = WEIR__PUT(to, "\xef\xbf\xbd");
		i += length > 0 ? length : 1;
	}
	return to;
}

char *weir__put_string(char *to, const char *bytes, size_t n)
{
	*to++ = '"';
	to = put_escaped(to, bytes, n);
	*to++ = '"';
	return to;
}

void weir__reply_add_escaped(struct weir__http_reply *reply, const char *bytes, size_t n)
{
	char *const to = weir__reply_room(reply, 6 * n);

	if (to)
		weir__reply_wrote(reply, put_escaped(to, bytes, n));
}

void weir__reply_add_string(struct weir__http_reply *reply, const char *bytes, size_t n)
{
	char *const to = weir__reply_room(reply, 6 * n + 2);

	if (to)
		weir__reply_wrote(reply, weir__put_string(to, bytes, n));
}

void weir__reply_add_member(struct weir__http_reply *reply, const char *name, uint64_t number)
{
	weir__reply_add_text(reply, name);
	weir__reply_add_number(reply, number);
}

void weir__reply_add_word(struct weir__http_reply *reply, const char *name, const char *word)
{
	weir__reply_add_text(reply, name);
	weir__reply_add_string(reply, word, strlen(word));
}

/* --- heads ------------------------------------------------------------------------------------------------------ */

char *weir__reply_head_room(struct weir__http_reply *reply, size_t n)
{
	if (n <= sizeof(reply->headers) - reply->headers_length)
		return reply->headers + reply->headers_length;
	reply->is_full = true;
	return NULL;
}

void weir__reply_head_wrote(struct weir__http_reply *reply, const char *end)
{
	reply->headers_length = (size_t)(end - reply->headers);
}

void weir__reply_head(struct weir__http_reply *reply, const char *bytes, size_t n)
{
	char *const to = weir__reply_head_room(reply, n);

	if (to)
		weir__reply_head_wrote(reply, weir__put(to, bytes, n));
}

void weir__reply_head_text(struct weir__http_reply *reply, const char *text)
{
	weir__reply_head(reply, text, strlen(text));
}

void weir__reply_head_number(struct weir__http_reply *reply, uint64_t number)
{
	char digits[WEIR__DIGITS_MOST];

	weir__reply_head(reply, digits, (size_t)(weir__put_digits(digits, number) - digits));
}

static char *put_status(char *to, unsigned status)
{
	const char *words;

	if (status == 200)
		return WEIR__PUT(to, "HTTP/1.1 200 OK\r\n");
	words = weir__reply_words(status);
	to = WEIR__PUT(to, "HTTP/1.1 ");
	to = weir__put_digits(to, status);
	*to++ = ' ';
	to = weir__put(to, words, strlen(words));
	return WEIR__PUT(to, "\r\n");
}

/* The longest head: status line 60 bytes, Date 40, Content-Type 60, Content-Length 40, Connection 30. */
_Static_assert((int)WEIR__REPLY_HEAD_ROOM >= (int)WEIR__REPLY_HEADERS_SIZE + 60 + 40 + 60 + 40 + 30 + 2, "heads fit");

void weir__reply_end(struct weir__http_reply *reply, unsigned status, const char *type)
{
	const bool has_body = status != 204 && status != 304;
	char *to = reply->bytes;

	if (reply->is_full) {
		reply->is_full = false;
		reply->headers_length = 0;
		weir__reply_problem(reply, 500, "the response is too long");
		return;
	}
	if (reply->form != WEIR__REPLY_BYTES) {
		reply->status = status;
		reply->type = type;
		return;
	}
	to = put_status(to, status);
	to = weir__put(to, reply->date->text, reply->date->length);
	if (has_body) {
		to = WEIR__PUT(to, "Content-Type: ");
		to = weir__put(to, type, strlen(type));
		to = WEIR__PUT(to, "\r\nContent-Length: ");
		to = weir__put_digits(to, reply->body_length);
		to = WEIR__PUT(to, "\r\n");
	}
	if (reply->says_close)
		to = WEIR__PUT(to, "Connection: close\r\n");
	else if (reply->says_keep_alive)
		to = WEIR__PUT(to, "Connection: keep-alive\r\n");
	to = weir__put(to, reply->headers, reply->headers_length);
	to = WEIR__PUT(to, "\r\n");
	if (has_body && !reply->is_without_body) {
		memmove(to, reply->bytes + WEIR__REPLY_HEAD_ROOM, reply->body_length);
		to += reply->body_length;
	}
	reply->length = (size_t)(to - reply->bytes);
}

void weir__reply_problem(struct weir__http_reply *reply, unsigned status, const char *detail)
{
	reply->body_length = 0;
	if (reply->form == WEIR__REPLY_WORDS) {
		weir__reply_add_text(reply, detail);
		weir__reply_end(reply, status, WEIR__TYPE_TEXT);
		return;
	}
	WEIR__REPLY_ADD(reply, "{\"type\":\"about:blank\",\"title\":\"");
	weir__reply_add_text(reply, weir__reply_words(status));
	WEIR__REPLY_ADD(reply, "\",\"status\":");
	weir__reply_add_number(reply, status);
	WEIR__REPLY_ADD(reply, ",\"detail\":");
	weir__reply_add_string(reply, detail, strlen(detail));
	WEIR__REPLY_ADD(reply, "}\n");
	weir__reply_end(reply, status, WEIR__TYPE_PROBLEM);
}
