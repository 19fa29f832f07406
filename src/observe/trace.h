/* trace.h: W3C trace context and OpenTelemetry spans.
 *
 * A request may say which trace it belongs to, and its decision becomes a span of that trace. Spans go from the worker
 * to the exporter thread (span_exporter.h) through a ring of WEIR__SPANS_WAITING. When the ring is full, a span is
 * dropped and counted. */
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
	WEIR__TRACEPARENT = 55,     /* characters, in version 00 */
	WEIR__TRACESTATE_MAX = 128, /* characters; a longer one is not passed on */
	WEIR__SPAN_LIMIT = 128,     /* bytes of a limit's name, with its NUL */
	WEIR__SPANS_WAITING = 4096, /* in the ring of a worker; a power of two */
};

/* The caller's span, from traceparent. */
struct weir__trace_parent {
	unsigned char trace[WEIR__TRACE_ID], span[WEIR__SPAN_ID];
	bool is_sampled;
};

/* Parses a traceparent. Returns false if it is invalid. Then treat it as absent. Versions after 00 may have more fields
 * at the end. */
bool weir__traceparent_read(const char *text, size_t length, struct weir__trace_parent *ret_parent);

/* Lower-case hexadecimal digits, and a NUL. */
void weir__trace_write_hex(const unsigned char *bytes, size_t n, char *ret_text);

/* The span of a decision. */
struct weir__span {
	unsigned char trace[WEIR__TRACE_ID], id[WEIR__SPAN_ID], parent[WEIR__SPAN_ID];
	bool has_parent, is_server, is_allowed;
	const char *algorithm; /* a string literal */
	uint32_t shadow_denied;
	uint64_t key_hash;
	weir_ns begun, ended, delay; /* begun and ended are since 1970 */
	char limit[WEIR__SPAN_LIMIT];
	char state[WEIR__TRACESTATE_MAX + 1];
};

/* From one writer thread to one reader thread. */
struct weir__span_ring {
	_Alignas(64) _Atomic uint32_t written; /* by the writer; `written` and `read` wrap */
	_Atomic uint64_t dropped;
	_Alignas(64) _Atomic uint32_t read; /* by the reader */
	struct weir__span spans[WEIR__SPANS_WAITING];
};

/* NULL: no memory. Free it with free(). */
struct weir__span_ring *weir__span_ring_new(void);

/* Returns false if the ring is full. The drop is counted. */
bool weir__span_ring_put(struct weir__span_ring *ring, const struct weir__span *span);

/* Takes the oldest spans, at most `most`. Returns their number. */
size_t weir__span_ring_take(struct weir__span_ring *ring, struct weir__span *ret_spans, size_t most);
size_t weir__span_ring_waiting(const struct weir__span_ring *ring);

#endif
