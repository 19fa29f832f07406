/* http.h: requests of HTTP/1.1, as llhttp reads them. Pure: bytes in, a request out.
 *
 * A request is read where it lies. What has come of it is given again with what comes next, at any address, since the
 * reader keeps offsets: so a connection that is idle needs no reader, and one that sends byte by byte is read once.
 * Whatever two readers could understand in two ways is refused: see the list of faults. */
#ifndef WEIR_WIRE_HTTP_H
#define WEIR_WIRE_HTTP_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WEIR__HTTP_HEAD_MAX = 16 * 1024,  /* request line and headers, with the empty line behind them */
	WEIR__HTTP_BODY_MAX = 128 * 1024, /* of the body itself, without what chunks have around it */
	WEIR__HTTP_HEADERS_MAX = 64,
	WEIR__HTTP_EXTRA_MAX = 16 * 1024, /* names and values of chunk extensions and trailers, which nobody reads */
};

/* name, status, what is said of it */
#define WEIR__HTTP_ERRORS(X)                                                                                           \
	X(NONE, 0, "")                                                                                                 \
	X(SYNTAX, 400, "this is not HTTP/1.1 as RFC 9112 has it")                                                      \
	X(VERSION, 505, "the version is none of HTTP/1.1 and HTTP/1.0")                                                \
	X(METHOD, 501, "CONNECT and PRI are not done here; use GET, HEAD, POST, PUT or DELETE")                        \
	X(TARGET, 400, "the target is a path, with a query or without, and has no fragment")                           \
	X(URI_SIZE, 414, "the target is too long; request line and headers have 16384 bytes at most, together")        \
	X(HEAD_SIZE, 431, "request line and headers have 16384 bytes at most, together")                               \
	X(HEADERS, 431, "there are 64 headers at most")                                                                \
	X(BARE_LF, 400, "a line ends with CR LF, and this one with LF alone")                                          \
	X(FOLDED, 400, "a header is one line, and this one begins with a space")                                       \
	X(NAMELESS, 400, "a header has a name before its colon")                                                       \
	X(NO_HOST, 400, "a request of HTTP/1.1 has a Host header")                                                     \
	X(HOSTS, 400, "a request has one Host header")                                                                 \
	X(CODING, 501, "the only Transfer-Encoding is chunked, once, in HTTP/1.1")                                     \
	X(EXPECTATION, 417, "the only expectation is 100-continue")                                                    \
	X(BODY_SIZE, 413, "a body has 131072 bytes at most")                                                           \
	X(EXTRA_SIZE, 431, "chunk extensions and trailers have 16384 bytes at most")

enum weir__http_error {
#define FAULT_NAME(name, status, text) WEIR__HTTP_ERROR_##name,
	WEIR__HTTP_ERRORS(FAULT_NAME)
#undef FAULT_NAME
};

enum weir__http_status { WEIR__HTTP_COMPLETE, WEIR__HTTP_MORE, WEIR__HTTP_BAD };

struct weir__http_slice {
	char *bytes; /* in what was read: whoever reads it may decode it in place */
	size_t length;
};

struct weir__http_span {
	uint32_t at, length; /* from the beginning of the request */
};

struct weir__http_header {
	struct weir__http_span name, value;
};

/* A request that is not whole yet. Not to be zeroed as a whole: the headers are most of it. */
struct weir__http_reader {
	llhttp_t parser;
	size_t length; /* of what is to be given again: the head, or the head and as much of the body as has come */
	uint32_t head_length, body_length, body_wanted;
	uint32_t extra; /* bytes of extensions and trailers */
	uint32_t base;  /* where what is being read begins */
	const char *piece;
	char *bytes;
	const char *name;    /* where the last one begins, as far as it was read at once */
	const char *framing; /* from here on nothing was looked at for its line ends */
	char before;         /* the last byte of what was */
	uint8_t phase;
	bool is_value;         /* the last span was one */
	bool is_kept_alive;    /* once the head is whole */
	bool expects_continue; /* the client waits to be told to send the body; to be cleared by who does */
	uint8_t fault;
	uint32_t fault_at; /* the byte of the request where it is wrong; of chunks, where they begin */
	struct weir__http_span target;
	uint32_t n;
	struct weir__http_header headers[WEIR__HTTP_HEADERS_MAX];
};

struct weir__http_request {
	llhttp_method_t method;
	struct weir__http_slice path, query, body; /* without the ?; nothing is decoded */
	bool is_kept_alive;
	const struct weir__http_reader *reader;
	char *bytes;
};

void weir__http_init(struct weir__http_reader *reader);

/* The first reader->length of the n bytes are those of before; the others are new. WHOLE: *ret_request is in the bytes, of
 * which *ret_used are done with. MORE: all were read; the first reader->length are needed again. BAD: the fault tells. */
enum weir__http_status weir__http_read(struct weir__http_reader *reader, char *bytes, size_t n, size_t *ret_used,
				       struct weir__http_request *ret_request);

/* The value of the first header of this name, which is in small letters. False: there is none. */
bool weir__http_find(const struct weir__http_request *request, const char *name, struct weir__http_slice *ret_value);

/* Whether there are two headers of this name with different values: nobody knows which one others believe. */
bool weir__http_is_disputed(const struct weir__http_request *request, const char *name);

unsigned weir__http_error_status(enum weir__http_error fault);
const char *weir__http_error_words(enum weir__http_error fault);
/* What llhttp has to say of it; NULL: nothing. */
const char *weir__http_error_reason(const struct weir__http_reader *reader);

/* Decodes %XX in place, and + as a space, as forms write queries. False: a % is not followed by two hexadecimal digits. */
bool weir__http_decode(struct weir__http_slice *slice);
/* Likewise of a path, where a + is a +. */
bool weir__http_decode_path(struct weir__http_slice *slice);

#endif
