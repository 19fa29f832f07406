/* http_reply.h: an HTTP response, written directly to the output buffer.
 *
 * The body is written first, after room for the head. When all is known the head is written and the body moved next to
 * it. Nothing is allocated. A response that does not fit becomes a 500, which always fits. */
#ifndef WEIR_WIRE_HTTP_REPLY_H
#define WEIR_WIRE_HTTP_REPLY_H

#include <weir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	WEIR__REPLY_HEADERS_SIZE = 1536, /* bytes of headers besides those that every response has */
	WEIR__REPLY_HEAD_ROOM = WEIR__REPLY_HEADERS_SIZE + 512,
	WEIR__REPLY_DATE_SIZE = 40,
};

/* The Date header, which changes once a second. */
struct weir__http_date {
	uint64_t second; /* Unix time; 0: not written yet */
	char text[WEIR__REPLY_DATE_SIZE];
	size_t length;
};

/* What weir__reply_end makes: bytes of HTTP/1.1; for HTTP/2, status, type, headers and body apart, where they were
 * written; or the same with the bare words of a problem as the body. */
enum weir__reply_form { WEIR__REPLY_BYTES, WEIR__REPLY_PARTS, WEIR__REPLY_WORDS };

struct weir__http_reply {
	char *bytes;   /* start of the response */
	size_t size;   /* room from there on, at least WEIR__REPLY_HEAD_ROOM */
	size_t length; /* of the whole response, once it has ended */
	size_t body_length, headers_length;
	bool is_full;         /* something did not fit */
	bool is_without_body; /* response to HEAD */
	bool says_close;      /* the connection is closed after it */
	bool says_keep_alive; /* for HTTP/1.0, where it is not the default */
	uint8_t form;         /* enum weir__reply_form */
	unsigned status;      /* of a response in parts, once it has ended; and its Content-Type */
	const char *type;
	const struct weir__http_date *date;
	char headers[WEIR__REPLY_HEADERS_SIZE];
};

/* Begins a response at `bytes`. */
static inline void weir__reply_init(struct weir__http_reply *reply, char *bytes, size_t size,
				    const struct weir__http_date *date)
{
	reply->bytes = bytes;
	reply->size = size;
	reply->length = reply->body_length = reply->headers_length = 0;
	reply->is_full = reply->is_without_body = reply->says_close = reply->says_keep_alive = false;
	reply->form = WEIR__REPLY_BYTES;
	reply->date = date;
}

void weir__http_date_set(struct weir__http_date *date, weir_ns now);

/* Writes piece by piece: `to` is where to write. Returns the position after the new piece. */
static inline char *weir__put(char *to, const char *bytes, size_t n)
{
	memcpy(to, bytes, n);
	return to + n;
}

#define WEIR__PUT(to, literal) weir__put(to, "" literal, sizeof(literal) - 1)

/* Returns where n bytes of the body, or of the headers, can be written piece by piece; NULL: no room. They become part
 * of it when weir__reply_wrote or weir__reply_head_wrote gets the end of what was written. */
char *weir__reply_room(struct weir__http_reply *reply, size_t n);
void weir__reply_wrote(struct weir__http_reply *reply, const char *end);
char *weir__reply_head_room(struct weir__http_reply *reply, size_t n);
void weir__reply_head_wrote(struct weir__http_reply *reply, const char *end);

/* Returns the bytes of the valid UTF-8 character beyond ASCII that is at `at`; 0: none. n is at least 1. */
size_t weir__reply_utf8(const unsigned char *at, size_t n);

/* Writes a JSON string with quotes, at most 6 n + 2 bytes. */
char *weir__put_string(char *to, const char *bytes, size_t n);

/* Append to the body. */
void weir__reply_add(struct weir__http_reply *reply, const char *bytes, size_t n);
void weir__reply_add_text(struct weir__http_reply *reply, const char *text);
void weir__reply_add_number(struct weir__http_reply *reply, uint64_t number);
/* Append text as in a JSON string; invalid UTF-8 becomes U+FFFD. The second function adds the quotes. */
void weir__reply_add_escaped(struct weir__http_reply *reply, const char *bytes, size_t n);
void weir__reply_add_string(struct weir__http_reply *reply, const char *bytes, size_t n);

/* Append a member of an object: `name` includes its quotes, any comma or brace before it, and the colon. */
void weir__reply_add_member(struct weir__http_reply *reply, const char *name, uint64_t number);
void weir__reply_add_word(struct weir__http_reply *reply, const char *name, const char *word);

/* A literal, whose length is known at compile time. */
#define WEIR__REPLY_ADD(reply, literal) weir__reply_add(reply, "" literal, sizeof(literal) - 1)

/* Append to the headers. The caller writes name, value and line end. */
void weir__reply_head(struct weir__http_reply *reply, const char *bytes, size_t n);
void weir__reply_head_text(struct weir__http_reply *reply, const char *text);
void weir__reply_head_number(struct weir__http_reply *reply, uint64_t number);

#define WEIR__REPLY_HEAD(reply, literal) weir__reply_head(reply, "" literal, sizeof(literal) - 1)

/* Ends the response: writes its head. */
void weir__reply_end(struct weir__http_reply *reply, unsigned status, const char *type);

/* Ends the response with a problem document (RFC 9457). The body written so far is dropped, headers stay. */
void weir__reply_problem(struct weir__http_reply *reply, unsigned status, const char *detail);

/* The reason phrase of a status, such as "Not Found". */
const char *weir__reply_words(unsigned status);

#define WEIR__TYPE_JSON "application/json"
#define WEIR__TYPE_PROBLEM "application/problem+json"
#define WEIR__TYPE_HTML "text/html; charset=utf-8"
#define WEIR__TYPE_TEXT "text/plain; charset=utf-8"

#endif
