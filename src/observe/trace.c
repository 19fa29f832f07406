/* trace.c: traceparent, as in https://www.w3.org/TR/trace-context/, and a ring of spans. */
#include "observe/trace.h"

#include <stdlib.h>
#include <string.h>

#include "core/hex.h"

/* --- traceparent ------------------------------------------------------------------------------------------------- */

/* Lower case only, as the standard requires. */
static int digit_of(char c)
{
	return c >= 'A' && c <= 'F' ? -1 : weir__hex_digit(c);
}

static bool read_hex(const char *text, size_t n, unsigned char *ret_bytes)
{
	for (size_t i = 0; i < n; i++) {
		const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret_bytes[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
	unsigned char all = 0;

	for (size_t i = 0; i < n; i++)
		all |= bytes[i];
	return all == 0;
}

/* VERSION-TRACE-SPAN-FLAGS, of 2, 32, 16 and 2 digits. */
bool weir__traceparent_read(const char *text, size_t length, struct weir__trace_parent *ret_parent)
{
	enum { TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, NO_VERSION = 0xff, SAMPLED = 1 };
	struct weir__trace_parent parent;
	unsigned char version, flags;

	if (length < WEIR__TRACEPARENT || !read_hex(text, 1, &version) || version == NO_VERSION)
		return false;
	if (length > WEIR__TRACEPARENT && (version == 0 || text[WEIR__TRACEPARENT] != '-'))
		return false;
	if (text[TRACE_AT - 1] != '-' || text[SPAN_AT - 1] != '-' || text[FLAGS_AT - 1] != '-' ||
	    !read_hex(text + TRACE_AT, WEIR__TRACE_ID, parent.trace) ||
	    !read_hex(text + SPAN_AT, WEIR__SPAN_ID, parent.span) || !read_hex(text + FLAGS_AT, 1, &flags) ||
	    is_zero(parent.trace, WEIR__TRACE_ID) || is_zero(parent.span, WEIR__SPAN_ID))
		return false;
	parent.is_sampled = flags & SAMPLED;
	*ret_parent = parent;
	return true;
}

void weir__trace_write_hex(const unsigned char *bytes, size_t n, char *ret_text)
{
	*weir__hex_write(ret_text, bytes, n) = '\0';
}

/* --- the ring ---------------------------------------------------------------------------------------------------- */

struct weir__span_ring *weir__span_ring_new(void)
{
	struct weir__span_ring *const ring = aligned_alloc(_Alignof(struct weir__span_ring), sizeof(*ring));

	if (ring) {
		atomic_init(&ring->written, 0);
		atomic_init(&ring->dropped, 0);
		atomic_init(&ring->read, 0);
	}
	return ring;
}

/* Acquire: the reader has finished copying the entry that is overwritten. Release: the span is written before the
 * reader sees it. */
bool weir__span_ring_put(struct weir__span_ring *ring, const struct weir__span *span)
{
	const uint32_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);

	if (written - atomic_load_explicit(&ring->read, memory_order_acquire) == WEIR__SPANS_WAITING) {
		atomic_store_explicit(&ring->dropped, atomic_load_explicit(&ring->dropped, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		return false;
	}
	ring->spans[written % WEIR__SPANS_WAITING] = *span;
	atomic_store_explicit(&ring->written, written + 1, memory_order_release);
	return true;
}

size_t weir__span_ring_waiting(const struct weir__span_ring *ring)
{
	return atomic_load_explicit(&ring->written, memory_order_relaxed) -
	       atomic_load_explicit(&ring->read, memory_order_relaxed);
}

size_t weir__span_ring_take(struct weir__span_ring *ring, struct weir__span *ret_spans, size_t most)
{
	const uint32_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
	const uint32_t waiting = atomic_load_explicit(&ring->written, memory_order_acquire) - read;
	const uint32_t n = waiting < most ? waiting : (uint32_t)most;

	for (uint32_t i = 0; i < n; i++)
		ret_spans[i] = ring->spans[(read + i) % WEIR__SPANS_WAITING];
	atomic_store_explicit(&ring->read, read + n, memory_order_release);
	return n;
}
