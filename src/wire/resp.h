/* resp.h: RESP, the protocol that Redis clients speak, in its versions 2 and 3: requests and replies read, replies
 * written.
 *
 * Pure: no sockets, no allocation, no policy. What is read stays where it lies, in the caller's buffer, and is handed
 * out as slices of it; what is written goes to memory that the caller provides.
 *
 * Bytes may come in any pieces. A reader that needs more remembers what it has seen: no byte of a line or of a bulk is
 * looked at twice, however many calls it takes. The caller may move the bytes between two calls, or the array that
 * slices or tokens go to, as long as it keeps what they hold. */
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
	WEIR__RESP_MORE,     /* not whole yet: call again with the same bytes and more */
	WEIR__RESP_COMPLETE, /* one request or reply */
	WEIR__RESP_BAD,      /* no RESP: say `fault` and close; the reader is of no more use */
};

/* What Redis calls it; requests get that as an answer. */
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
	X(TYPE, "no such type of reply")                                                                               \
	X(LINE, "a line of a reply does not end in CR LF, or is too long")                                             \
	X(VALUE, "a reply does not hold what its type says")                                                           \
	X(REPLY_SIZE, "a reply is too large or too deep")

enum weir__resp_error {
#define WEIR__RESP_ERROR_ENUM(name, words) WEIR__RESP_ERROR_##name,
	WEIR__RESP_ERRORS(WEIR__RESP_ERROR_ENUM)
#undef WEIR__RESP_ERROR_ENUM
};

/* A line of which the end has not been seen yet, or a bulk of which not all bytes are there. */
struct weir__resp_place {
	const char *buffer; /* where it was in the last call: tells that it has moved */
	size_t at;          /* bytes of this request or reply that are done with */
	size_t scanned;     /* from `at`: the line does not end in these */
	int64_t bulk;       /* length of the bulk at `at`, or -1: a line is there */
};

/* --- requests --------------------------------------------------------------------------------------------------- */

enum {
	/* Before AUTH, as in Redis: who has not said who they are does not get to fill memory. */
	WEIR__RESP_UNAUTHENTICATED_ARGUMENTS = 10,
	WEIR__RESP_UNAUTHENTICATED_BULK = 16384,
	WEIR__RESP_LINE_MAX = 65536, /* Redis's own */
};

struct weir__resp_request {
	/* The caller's. `arguments` has room for arguments_max; a request with more is refused. */
	struct weir__resp_slice *arguments;
	uint32_t arguments_max;
	uint32_t line_max; /* bytes of an inline command, or of a line with a length, without its end: at least 4 */
	int64_t bulk_max;  /* bytes of an argument */
	bool is_stranger;  /* has not passed AUTH */

	/* Of a request that is WHOLE: at least 1. */
	uint32_t n;

	/* Of one that is BAD. */
	enum weir__resp_error fault;
	char got; /* with NO_BULK */

	uint32_t wanted; /* arguments of a multibulk that has begun, else 0 */
	struct weir__resp_place place;
};

/* Fields of the caller are set by it, before or after. */
void weir__resp_request_init(struct weir__resp_request *request);

/* Reads the request with which the `size` bytes of the buffer begin. *ret_used is how many bytes from its beginning are
 * done with, whatever the status: the next call begins behind them. What is WHOLE points into them.
 *
 * Arguments of inline commands are unescaped in place: that is why the buffer is not const. As Redis does, this skips
 * empty lines and multibulks of no arguments, and takes any two bytes for the CR LF behind a bulk, and any for an LF
 * behind a CR. A NUL is a byte like others; Redis 7.0 would wait for ever for the end of a line that has one. */
enum weir__resp_status weir__resp_request_read(struct weir__resp_request *request, char *buffer, size_t size,
					       size_t *ret_used);

/* --- replies, written ------------------------------------------------------------------------------------------- */

/* What does not fit is not written, nor is anything behind it, but all is counted: if `length` is above `size` at the
 * end, it is the size that would do. Functions say whether everything has fitted so far. */
struct weir__resp_writer {
	char *bytes;
	size_t size;
	size_t length;
	int protocol; /* 2 or 3: what RESP2 has no type for is written as Redis does */
};

/* Texts of one line: CR and LF within become spaces. An error begins with its code: "ERR no such limit". */
bool weir__resp_write_simple(struct weir__resp_writer *writer, const char *text, size_t length);
bool weir__resp_write_error(struct weir__resp_writer *writer, const char *text, size_t length);
bool weir__resp_write_integer(struct weir__resp_writer *writer, int64_t number);
/* An integer; above 2^63-1 a big number, in RESP2 a bulk. */
bool weir__resp_write_unsigned(struct weir__resp_writer *writer, uint64_t number);
bool weir__resp_write_bulk(struct weir__resp_writer *writer, const void *bytes, size_t length);
/* Whole replies that were written before. */
bool weir__resp_write_replies(struct weir__resp_writer *writer, const char *bytes, size_t length);
/* One bulk, of the bytes of n slices one after the other. */
bool weir__resp_write_bulk_of(struct weir__resp_writer *writer, const struct weir__resp_slice *slices, size_t n);
/* `format` is three characters, such as txt. In RESP2 a bulk. */
bool weir__resp_write_verbatim(struct weir__resp_writer *writer, const char *format, const void *bytes, size_t length);
/* number / 10^places, exactly: Weir has no floating point to round. At most 18 places. In RESP2 a bulk. */
bool weir__resp_write_double(struct weir__resp_writer *writer, int64_t number, unsigned places);
bool weir__resp_write_boolean(struct weir__resp_writer *writer, bool is_true); /* in RESP2 an integer */
/* RESP2 knows two, of which RESP3 has made one. */
bool weir__resp_write_null(struct weir__resp_writer *writer);
bool weir__resp_write_null_array(struct weir__resp_writer *writer);
/* Heads of what n elements follow; of a map n pairs. In RESP2 all are arrays, a map one of 2 n elements. */
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

/* The answer to a request that is BAD, as Redis gives it to the byte. */
bool weir__resp_write_protocol_error(struct weir__resp_writer *writer, const struct weir__resp_request *request);

/* --- replies, read ---------------------------------------------------------------------------------------------- */

enum weir__resp_type {
	WEIR__RESP_SIMPLE,
	WEIR__RESP_ERROR, /* of one line, or a bulk */
	WEIR__RESP_INTEGER,
	WEIR__RESP_BULK,
	WEIR__RESP_VERBATIM, /* `text` is what follows "txt:" */
	WEIR__RESP_NULL,
	WEIR__RESP_BOOLEAN,
	WEIR__RESP_DOUBLE,
	WEIR__RESP_BIG_NUMBER,
	/* what has elements: */
	WEIR__RESP_ARRAY,
	WEIR__RESP_MAP,
	WEIR__RESP_SET,
	WEIR__RESP_PUSH,      /* out of band: the reply that is awaited is still to come */
	WEIR__RESP_ATTRIBUTE, /* a map that says something of the value behind it, and is none itself */
};

/* A reply is its tokens in the order in which they come: an array, then its elements. */
struct weir__resp_token {
	enum weir__resp_type type;
	uint32_t span;                /* tokens it is made of, with itself: the next beside it is that much further */
	int64_t number;               /* integers, booleans; elements, of which a pair of a map is two */
	struct weir__resp_slice text; /* all that have no elements; of numbers, how they were written */
};

enum { WEIR__RESP_DEPTH_MOST = 16 };

struct weir__resp_level {
	uint32_t token;
	uint32_t missing; /* elements */
};

struct weir__resp_reply {
	/* The caller's. `tokens` has room for tokens_max; a reply with more is refused. */
	struct weir__resp_token *tokens;
	uint32_t tokens_max;
	uint32_t depth_max; /* arrays in arrays: at most WEIR__RESP_DEPTH_MOST */
	uint32_t line_max;
	int64_t bulk_max;

	uint32_t n; /* tokens of one that is WHOLE */
	enum weir__resp_error fault;

	uint32_t depth;
	uint32_t missing; /* 1 until the value itself has come */
	struct weir__resp_level levels[WEIR__RESP_DEPTH_MOST];
	struct weir__resp_place place;
};

void weir__resp_reply_init(struct weir__resp_reply *reply);

/* As weir__resp_request_read. Here lines must end in CR LF, and numbers be numbers: who sends them is a program, not a
 * person at a terminal. Streamed strings and arrays ($?, *?) are refused; no server sends them. */
enum weir__resp_status weir__resp_reply_read(struct weir__resp_reply *reply, const char *buffer, size_t size,
					     size_t *ret_used);

/* What the fault is, in words; those of requests without "Protocol error: ". */
const char *weir__resp_error_words(enum weir__resp_error fault);

#endif
