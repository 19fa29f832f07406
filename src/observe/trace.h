/* trace.h: traces as W3C and OpenTelemetry have them: who asks says which trace a request is part of, and what was decided
 * becomes a span of it. Spans go from the worker that made them to whoever sends them (span_exporter.h) through a ring that holds
 * so many; one that finds no room is dropped, and counted. */
#ifndef WEIR_OBSERVE_TRACE_H
#define WEIR_OBSERVE_TRACE_H

#include <weir/types.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WEIR__TRACE_ID = 16, /* bytes */
	WEIR__SPAN_ID = 8,
	WEIR__TRACEPARENT = 55,     /* characters of version 00 */
	WEIR__TRACESTATE_MAX = 128, /* characters that are passed along; one that is longer is not */
	WEIR__SPAN_LIMIT = 128,     /* bytes of the name of a limit, with its NUL */
	WEIR__SPANS_WAITING = 4096, /* of a worker; a power of two */
};

/* The span that a request comes from. */
struct weir__trace_parent {
	unsigned char trace[WEIR__TRACE_ID], span[WEIR__SPAN_ID];
	bool is_sampled;
};

/* A traceparent. False: it is none, and is to be taken as if it were not there. Versions after 00 may say more behind what
 * 00 says. */
bool weir__traceparent_read(const char *text, size_t length, struct weir__trace_parent *ret_parent);

/* Hexadecimal digits, in small letters, and a NUL. */
void weir__trace_write_hex(const unsigned char *bytes, size_t n, char *ret_text);

/* A decision. */
struct weir__span {
	unsigned char trace[WEIR__TRACE_ID], id[WEIR__SPAN_ID], parent[WEIR__SPAN_ID];
	bool has_parent, is_server, is_allowed;
	const char *algorithm; /* a literal */
	uint32_t shadow_denied;
	uint64_t key_hash;
	weir_ns begun, ended, delay; /* the first two since 1970 */
	char limit[WEIR__SPAN_LIMIT];
	char state[WEIR__TRACESTATE_MAX + 1];
};

/* From one thread to one other. */
struct weir__span_ring {
	_Alignas(64) _Atomic uint32_t written; /* by the first; both counts go on for ever */
	_Atomic uint64_t dropped;
	_Alignas(64) _Atomic uint32_t read; /* by the other */
	struct weir__span spans[WEIR__SPANS_WAITING];
};

/* NULL: no memory. It ends by free(). */
struct weir__span_ring *weir__span_ring_new(void);

/* False: there was no room, and it was counted. */
bool weir__span_ring_put(struct weir__span_ring *ring, const struct weir__span *span);

/* The oldest, as many as there are and `most` at most. */
size_t weir__span_ring_take(struct weir__span_ring *ring, struct weir__span *ret_spans, size_t most);
size_t weir__span_ring_waiting(const struct weir__span_ring *ring);

#endif
