/* http.h: parses HTTP/1.1 requests with llhttp. Pure: bytes in, a request out.
 *
 * A request is read in place. The caller passes the bytes read so far again, together with new ones, at any address,
 * because the reader keeps offsets. So an idle connection needs no reader, and a request that comes byte by byte is
 * parsed only once. It rejects requests that two parsers could understand differently: see WEIR__HTTP_ERRORS. The
 * reasons are in docs/internals/protocols.md. */
#ifndef WEIR_WIRE_HTTP_H
#define WEIR_WIRE_HTTP_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WEIR__HTTP_HEAD_MAX = 16 * 1024,  /* request line and headers, with the empty line at the end */
	WEIR__HTTP_BODY_MAX = 128 * 1024, /* the body itself, without chunk framing */
	WEIR__HTTP_HEADERS_MAX = 64,
	WEIR__HTTP_EXTRA_MAX = 16 * 1024, /* names and values of chunk extensions and trailers, which are ignored */
};

/* name, status, text */
#define WEIR__HTTP_ERRORS(X)                                                                                           \
	X(NONE, 0, "")                                                                                                 \
	X(SYNTAX, 400, "malformed HTTP/1.1 request (RFC 9112)")                                                        \
	X(VERSION, 505, "unsupported HTTP version; use HTTP/1.1 or HTTP/1.0")                                          \
	X(METHOD, 501, "CONNECT and PRI are not supported; use GET, HEAD, POST, PUT or DELETE")                        \
	X(TARGET, 400, "invalid target; use a path, with or without a query, and without a fragment")                  \
	X(URI_SIZE, 414, "the target is too long; request line and headers have at most 16384 bytes in total")         \
	X(HEAD_SIZE, 431, "headers too long; request line and headers have at most 16384 bytes in total")              \
	X(HEADERS, 431, "too many headers; use at most 64")                                                            \
	X(BARE_LF, 400, "a line ends with LF; use CR LF")                                                              \
	X(FOLDED, 400, "a header line begins with a space; write each header on one line")                             \
	X(NAMELESS, 400, "a header has no name before its colon")                                                      \
	X(NO_HOST, 400, "missing Host header")                                                                         \
	X(HOSTS, 400, "more than one Host header; send one")                                                           \
	X(CODING, 501, "unsupported Transfer-Encoding; use chunked, once, with HTTP/1.1")                              \
	X(EXPECTATION, 417, "unsupported Expect; use 100-continue")                                                    \
	X(BODY_SIZE, 413, "the body is too long; use at most 131072 bytes")                                            \
	X(EXTRA_SIZE, 431, "chunk extensions and trailers are too long; use at most 16384 bytes")

enum weir__http_error {
#define FAULT_NAME(name, status, text) WEIR__HTTP_ERROR_##name,
	WEIR__HTTP_ERRORS(FAULT_NAME)
#undef FAULT_NAME
};

enum weir__http_status { WEIR__HTTP_COMPLETE, WEIR__HTTP_MORE, WEIR__HTTP_BAD };

struct weir__http_slice {
	char *bytes; /* in the caller's buffer; may be decoded in place */
	size_t length;
};

struct weir__http_span {
	uint32_t at, length; /* offset from the beginning of the request */
};

struct weir__http_header {
	struct weir__http_span name, value;
};

/* The state of an incomplete request. Do not clear the whole struct: most of it is headers, and clearing them takes
 * time. */
struct weir__http_reader {
	llhttp_t parser;
	size_t length; /* bytes to pass again: the head, and as much of the body as has come */
	uint32_t head_length, body_length, body_wanted;
	uint32_t extra; /* bytes of chunk extensions and trailers */
	uint32_t base;  /* offset of `piece` */
	const char *piece;
	char *bytes;
	const char *name;    /* start of the latest piece of a header name */
	const char *framing; /* line ends from here on are not checked yet */
	char before;         /* the byte before `framing` */
	uint8_t phase;
	bool is_value;         /* the last span was a value */
	bool is_kept_alive;    /* valid once the head is complete */
	bool expects_continue; /* the client waits for 100 Continue; the caller clears it after sending that */
	uint8_t fault;
	uint32_t fault_at; /* offset of the error in the request; in chunks: where they begin */
	struct weir__http_span target;
	uint32_t n;
	struct weir__http_header headers[WEIR__HTTP_HEADERS_MAX];
};

struct weir__http_request {
	llhttp_method_t method;
	struct weir__http_slice path, query, body; /* not decoded; the query is without the ? */
	bool is_kept_alive;
	const struct weir__http_reader *reader;
	char *bytes;
};

void weir__http_init(struct weir__http_reader *reader);

/* The first reader->length of the n bytes are the same as in the last call. The others are new. COMPLETE: *ret_request
 * points into the bytes, and the first *ret_used of them are used up. MORE: all were read. Pass the first
 * reader->length again. BAD: see reader->fault. */
enum weir__http_status weir__http_read(struct weir__http_reader *reader, char *bytes, size_t n, size_t *ret_used,
				       struct weir__http_request *ret_request);

/* A request whose head has been read (reader->head_length is not 0), and maybe not all of its body. */
void weir__http_request_of(const struct weir__http_reader *reader, char *bytes, struct weir__http_request *ret_request);

/* Finds the first header of this name, which is in lower case. Returns false if it is not found. */
bool weir__http_find(const struct weir__http_request *request, const char *name, struct weir__http_slice *ret_value);

/* Whether two headers of this name have different values: other servers may use either. */
bool weir__http_is_disputed(const struct weir__http_request *request, const char *name);

unsigned weir__http_error_status(enum weir__http_error fault);
const char *weir__http_error_words(enum weir__http_error fault);
/* The words of the first error with this status. */
const char *weir__http_error_words_of(unsigned status);
/* llhttp's explanation of a syntax error; NULL: none. */
const char *weir__http_error_reason(const struct weir__http_reader *reader);

/* Decodes %XX, and + as a space, in place, as in queries of forms. Returns false if a % is not followed by two
 * hexadecimal digits. */
bool weir__http_decode(struct weir__http_slice *slice);
/* The same for a path, where a + stays a +. */
bool weir__http_decode_path(struct weir__http_slice *slice);

#endif
