/* resp.h: RESP, the protocol of Redis clients, versions 2 and 3: reads requests and replies, writes replies.
 *
 * Pure: no sockets, no allocation, no policy. Readers return slices of the caller's buffer. Writers write to memory
 * that the caller provides.
 *
 * Bytes may come in any pieces. A reader that needs more remembers its position: it looks at no byte of a line or a
 * bulk twice, however many calls it takes. Between two calls the caller may move the bytes, or the array of slices or
 * tokens, if it keeps their contents. The reasons are in docs/internals/protocols.md. */
#ifndef WEIR_WIRE_RESP_H
#define WEIR_WIRE_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__resp_slice {
	const char *bytes;
	size_t length;
};

enum weir__resp_status {
	WEIR__RESP_MORE,     /* incomplete: call again with the same bytes and more */
	WEIR__RESP_COMPLETE, /* one request or reply */
	WEIR__RESP_BAD,      /* not RESP: report `fault` and close the connection; the reader cannot go on */
};

/* Errors of requests have the texts of Redis, which are sent to the client. */
#define WEIR__RESP_ERRORS(X)                                                                                           \
	X(NONE, "")                                                                                                    \
	X(MULTIBULK_LENGTH, "invalid multibulk length")                                                                \
	X(BULK_LENGTH, "invalid bulk length")                                                                          \
	X(NO_BULK, "expected '$', got '?'")                                                                            \
	X(QUOTES, "unbalanced quotes in request")                                                                      \
	X(INLINE_SIZE, "too big inline request")                                                                       \
	X(MULTIBULK_LINE, "too big mbulk count string")                                                                \
	X(BULK_LINE, "too big bulk count string")                                                                      \
	X(UNAUTHENTICATED_MULTIBULK, "unauthenticated multibulk length")                                               \
	X(UNAUTHENTICATED_BULK, "unauthenticated bulk length")                                                         \
	X(TYPE, "unknown type of reply")                                                                               \
	X(LINE, "a line of a reply does not end in CR LF, or is too long")                                             \
	X(VALUE, "a reply does not hold what its type says")                                                           \
	X(REPLY_SIZE, "a reply is too large or too deep")

enum weir__resp_error {
#define WEIR__RESP_ERROR_ENUM(name, words) WEIR__RESP_ERROR_##name,
	WEIR__RESP_ERRORS(WEIR__RESP_ERROR_ENUM)
#undef WEIR__RESP_ERROR_ENUM
};

/* The position in a line whose end has not been seen yet, or in an incomplete bulk. */
struct weir__resp_place {
	const char *buffer; /* the buffer of the last call: tells whether it has moved */
	size_t at;          /* bytes of this request or reply that are used up */
	size_t scanned;     /* bytes from `at` that do not contain the end of the line */
	int64_t bulk;       /* length of the bulk at `at`; -1: a line is there */
};

/* --- requests --------------------------------------------------------------------------------------------------- */

enum {
	/* Before AUTH, as in Redis: an unauthenticated client must not fill memory. */
	WEIR__RESP_UNAUTHENTICATED_ARGUMENTS = 10,
	WEIR__RESP_UNAUTHENTICATED_BULK = 16384,
	WEIR__RESP_LINE_MAX = 65536, /* the same as in Redis */
};

struct weir__resp_request {
	/* Set by the caller. `arguments` has room for arguments_max; a request with more is an error. */
	struct weir__resp_slice *arguments;
	uint32_t arguments_max;
	uint32_t line_max; /* bytes of an inline command, or of a line with a length, without its end; at least 4 */
	int64_t bulk_max;  /* bytes of an argument */
	bool is_unauthenticated; /* the client has not passed AUTH */

	/* COMPLETE: number of arguments, at least 1. */
	uint32_t n;

	/* BAD: what is wrong. */
	enum weir__resp_error fault;
	char got; /* with NO_BULK: the byte found instead of '$' */

	uint32_t wanted; /* arguments of the multibulk being read; 0: none */
	struct weir__resp_place place;
};

/* Does not set the caller's fields. */
void weir__resp_request_init(struct weir__resp_request *request);

/* Reads the request at the beginning of the buffer of `size` bytes. *ret_used is the number of bytes that are used up,
 * for any status. The next call begins after them. The arguments of a COMPLETE request point into them.
 *
 * Arguments of inline commands are unescaped in place, so the buffer is not const. As Redis does, this skips empty
 * lines and multibulks without arguments, and accepts any two bytes as the CR LF after a bulk, and any byte as the LF
 * after a CR. A NUL is a byte like any other. (Redis 7.0 would wait forever for the end of a line that contains
 * one.) */
enum weir__resp_status weir__resp_request_read(struct weir__resp_request *request, char *buffer, size_t size,
					       size_t *ret_used);

/* --- writing replies -------------------------------------------------------------------------------------------- */

/* A value that does not fit, and everything after it, is not written. But all bytes are counted: if `length` is above
 * `size` at the end, it is the size needed. The functions return whether everything has fitted so far. */
struct weir__resp_writer {
	char *bytes;
	size_t size;
	size_t length;
	int resp_version; /* 2 or 3; types that RESP2 lacks are written as Redis does */
	bool has_maps;    /* replies that name their values are maps, not arrays; only with version 3 */
};

/* Writes a text of one line. CR and LF become spaces. An error begins with its code: "ERR no such limit". */
bool weir__resp_write_simple(struct weir__resp_writer *writer, const char *text, size_t length);
bool weir__resp_write_error(struct weir__resp_writer *writer, const char *text, size_t length);
bool weir__resp_write_integer(struct weir__resp_writer *writer, int64_t number);
/* An integer. Above 2^63-1 a big number, in RESP2 a bulk. */
bool weir__resp_write_unsigned(struct weir__resp_writer *writer, uint64_t number);
bool weir__resp_write_bulk(struct weir__resp_writer *writer, const void *bytes, size_t length);
/* Appends complete replies that were written before. */
bool weir__resp_write_replies(struct weir__resp_writer *writer, const char *bytes, size_t length);
/* One bulk, which consists of n slices. */
bool weir__resp_write_bulk_of(struct weir__resp_writer *writer, const struct weir__resp_slice *slices, size_t n);
/* `format` is three characters, such as txt. In RESP2 a bulk. */
bool weir__resp_write_verbatim(struct weir__resp_writer *writer, const char *format, const void *bytes, size_t length);
/* number / 10^places, written exactly, without floating point. At most 18 places. In RESP2 a bulk. */
bool weir__resp_write_double(struct weir__resp_writer *writer, int64_t number, unsigned places);
bool weir__resp_write_boolean(struct weir__resp_writer *writer, bool is_true); /* in RESP2 an integer */
/* RESP2 has two nulls, RESP3 only one. */
bool weir__resp_write_null(struct weir__resp_writer *writer);
bool weir__resp_write_null_array(struct weir__resp_writer *writer);
/* Heads of types with n elements, or n pairs for a map. In RESP2 all are arrays, and a map has 2 n elements. */
bool weir__resp_write_array(struct weir__resp_writer *writer, uint64_t n);
bool weir__resp_write_map(struct weir__resp_writer *writer, uint64_t n);
bool weir__resp_write_set(struct weir__resp_writer *writer, uint64_t n);
bool weir__resp_write_push(struct weir__resp_writer *writer, uint64_t n);
/* An array that begins with n integers. The caller writes its other elements. */
bool weir__resp_write_integers_first(struct weir__resp_writer *writer, size_t elements, const int64_t *numbers,
				     size_t n);

static inline bool weir__resp_write_integers(struct weir__resp_writer *writer, const int64_t *numbers, size_t n)
{
	return weir__resp_write_integers_first(writer, n, numbers, n);
}

/* The reply to a BAD request, byte for byte the same as Redis's. */
bool weir__resp_write_protocol_error(struct weir__resp_writer *writer, const struct weir__resp_request *request);

/* --- reading replies -------------------------------------------------------------------------------------------- */

enum weir__resp_type {
	WEIR__RESP_SIMPLE,
	WEIR__RESP_ERROR, /* a simple error, or a bulk error */
	WEIR__RESP_INTEGER,
	WEIR__RESP_BULK,
	WEIR__RESP_VERBATIM, /* `text` is the part after "txt:" */
	WEIR__RESP_NULL,
	WEIR__RESP_BOOLEAN,
	WEIR__RESP_DOUBLE,
	WEIR__RESP_BIG_NUMBER,
	/* types with elements: */
	WEIR__RESP_ARRAY,
	WEIR__RESP_MAP,
	WEIR__RESP_SET,
	WEIR__RESP_PUSH,      /* out of band: the reply to the command is still to come */
	WEIR__RESP_ATTRIBUTE, /* a map about the value that follows; not a value itself */
};

/* A reply is a sequence of tokens: an array is its own token, then its elements. */
struct weir__resp_token {
	enum weir__resp_type type;
	uint32_t span;  /* tokens of this value, including itself; the next sibling is this much further */
	int64_t number; /* integers, booleans. Types with elements: how many; a pair of a map counts as two */
	struct weir__resp_slice text; /* types without elements; for numbers, the digits as received */
};

enum { WEIR__RESP_DEPTH_MOST = 16 };

struct weir__resp_level {
	uint32_t token;
	uint32_t missing; /* elements */
};

struct weir__resp_reply {
	/* Set by the caller. `tokens` has room for tokens_max; a reply with more is an error. */
	struct weir__resp_token *tokens;
	uint32_t tokens_max;
	uint32_t depth_max; /* nesting; at most WEIR__RESP_DEPTH_MOST */
	uint32_t line_max;
	int64_t bulk_max;

	uint32_t n; /* COMPLETE: number of tokens */
	enum weir__resp_error fault;

	uint32_t depth;
	uint32_t missing; /* 1 until the reply itself is complete */
	struct weir__resp_level levels[WEIR__RESP_DEPTH_MOST];
	struct weir__resp_place place;
};

void weir__resp_reply_init(struct weir__resp_reply *reply);

/* Like weir__resp_request_read, but lines must end in CR LF, and numbers must be valid: the sender is a program, not a
 * person at a terminal. Streamed strings and arrays ($?, *?) are errors; no server sends them. */
enum weir__resp_status weir__resp_reply_read(struct weir__resp_reply *reply, const char *buffer, size_t size,
					     size_t *ret_used);

/* The text of an error. For requests it lacks the prefix "Protocol error: ". */
const char *weir__resp_error_words(enum weir__resp_error fault);

#endif
