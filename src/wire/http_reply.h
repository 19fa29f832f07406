/* http_reply.h: an answer of HTTP, written straight to where it is sent from.
 *
 * The body is written first, behind room for the head; when all is known the head is put in its place. Nothing is
 * allocated. What does not fit makes the answer a 500, which does. */
#ifndef WEIR_WIRE_HTTP_REPLY_H
#define WEIR_WIRE_HTTP_REPLY_H

#include <weir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	WEIR__REPLY_HEADERS_SIZE = 1536, /* of headers that an answer has beside those of all */
	WEIR__REPLY_HEAD_ROOM = WEIR__REPLY_HEADERS_SIZE + 512,
	WEIR__REPLY_DATE_SIZE = 40,
};

/* The Date header, which changes once a second. */
struct weir__http_date {
	uint64_t second; /* of Unix time, 0: none was written */
	char text[WEIR__REPLY_DATE_SIZE];
	size_t length;
};

struct weir__http_reply {
	char *bytes;   /* where it begins */
	size_t size;   /* room from there on, WEIR__REPLY_HEAD_ROOM or more */
	size_t length; /* of all of it, when it has ended */
	size_t body_length, headers_length;
	bool is_full;         /* something did not fit */
	bool is_without_body; /* to HEAD */
	bool says_close;      /* the connection is closed behind it */
	bool says_keep_alive; /* to who would not expect it: HTTP/1.0 */
	const struct weir__http_date *date;
	char headers[WEIR__REPLY_HEADERS_SIZE];
};

/* One that begins here. */
static inline void weir__reply_init(struct weir__http_reply *reply, char *bytes, size_t size,
				    const struct weir__http_date *date)
{
	reply->bytes = bytes;
	reply->size = size;
	reply->length = reply->body_length = reply->headers_length = 0;
	reply->is_full = reply->is_without_body = reply->says_close = reply->says_keep_alive = false;
	reply->date = date;
}

void weir__http_date_set(struct weir__http_date *date, weir_ns now);

/* Writing piece by piece: `to` is what was written before, and what is behind the new piece is returned. */
static inline char *weir__put(char *to, const char *bytes, size_t n)
{
	memcpy(to, bytes, n);
	return to + n;
}

#define WEIR__PUT(to, literal) weir__put(to, "" literal, sizeof(literal) - 1)

/* Where so many bytes of the body, or of the headers, can be written piece by piece; NULL: there is no room. They are part
 * of it once the end of what was written is told. */
char *weir__reply_room(struct weir__http_reply *reply, size_t n);
void weir__reply_wrote(struct weir__http_reply *reply, const char *end);
char *weir__reply_head_room(struct weir__http_reply *reply, size_t n);
void weir__reply_head_wrote(struct weir__http_reply *reply, const char *end);

/* How many bytes of valid UTF-8 beyond ASCII are here, as one character; 0: none. n is 1 or more. */
size_t weir__reply_utf8(const unsigned char *at, size_t n);

/* A string of JSON in quotes, at most 6 n + 2 bytes. */
char *weir__put_string(char *to, const char *bytes, size_t n);

/* Writing to the body. */
void weir__reply_add(struct weir__http_reply *reply, const char *bytes, size_t n);
void weir__reply_add_text(struct weir__http_reply *reply, const char *text);
void weir__reply_add_number(struct weir__http_reply *reply, uint64_t number);
/* As JSON has it in a string; what is no UTF-8 becomes U+FFFD. The second one adds the quotes. */
void weir__reply_add_escaped(struct weir__http_reply *reply, const char *bytes, size_t n);
void weir__reply_add_string(struct weir__http_reply *reply, const char *bytes, size_t n);

/* A member of an object: `name` is with its quotes, what comes before it, and the colon. */
void weir__reply_add_member(struct weir__http_reply *reply, const char *name, uint64_t number);
void weir__reply_add_word(struct weir__http_reply *reply, const char *name, const char *word);

/* A literal, the length of which is known. */
#define WEIR__REPLY_ADD(reply, literal) weir__reply_add(reply, "" literal, sizeof(literal) - 1)

/* Writing to the headers: name, value and line end are all the caller's. */
void weir__reply_head(struct weir__http_reply *reply, const char *bytes, size_t n);
void weir__reply_head_text(struct weir__http_reply *reply, const char *text);
void weir__reply_head_number(struct weir__http_reply *reply, uint64_t number);

#define WEIR__REPLY_HEAD(reply, literal) weir__reply_head(reply, "" literal, sizeof(literal) - 1)

/* Ends it. */
void weir__reply_end(struct weir__http_reply *reply, unsigned status, const char *type);

/* A problem of RFC 9457: what has been written of a body is dropped, headers stay. Also ends it. */
void weir__reply_problem(struct weir__http_reply *reply, unsigned status, const char *detail);

/* The words of a status, such as Not Found. */
const char *weir__reply_words(unsigned status);

#define WEIR__TYPE_JSON "application/json"
#define WEIR__TYPE_PROBLEM "application/problem+json"
#define WEIR__TYPE_HTML "text/html; charset=utf-8"
#define WEIR__TYPE_TEXT "text/plain; charset=utf-8"

#endif
