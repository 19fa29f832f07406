/* trace_test.c: traceparent as W3C defines it, and trace spans that pass from one thread to another. */
#include "observe/trace.h"

#include <pthread.h>
#include <stdlib.h>

#include "check.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"
#define ZEROS "0000000000000000"

static void traceparents(void)
{
	static const struct {
		const char *what, *text;
		bool is_one, is_sampled;
	} rows[] = {
		{ "sampled", "00-" TRACE "-" SPAN "-01", true, true },
		{ "not sampled", "00-" TRACE "-" SPAN "-00", true, false },
		{ "unknown flags", "00-" TRACE "-" SPAN "-fe", true, false },
		{ "and the one that is known", "00-" TRACE "-" SPAN "-ff", true, true },
		{ "a later version", "01-" TRACE "-" SPAN "-01", true, true },
		{ "a later version with more", "cc-" TRACE "-" SPAN "-01-what-the-future-has", true, true },
		{ "a later version with nothing behind the hyphen", "cc-" TRACE "-" SPAN "-01-", true, true },
		{ "a later version with more, but no hyphen", "cc-" TRACE "-" SPAN "-01.what", false, false },
		{ "version 00 with more", "00-" TRACE "-" SPAN "-01-what", false, false },
		{ "version 00 with a hyphen more", "00-" TRACE "-" SPAN "-01-", false, false },
		{ "version ff", "ff-" TRACE "-" SPAN "-01", false, false },
		{ "a version that is not a number", "0x-" TRACE "-" SPAN "-01", false, false },
		{ "capitals in the trace", "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", false, false },
		{ "capitals in the span", "00-" TRACE "-B7AD6B7169203331-01", false, false },
		{ "capitals in the flags", "00-" TRACE "-" SPAN "-0A", false, false },
		{ "a trace of zeros", "00-" ZEROS ZEROS "-" SPAN "-01", false, false },
		{ "a span of zeros", "00-" TRACE "-" ZEROS "-01", false, false },
		{ "other signs between them", "00_" TRACE "_" SPAN "_01", false, false },
		{ "a space before it", " 00-" TRACE "-" SPAN "-01", false, false },
		{ "one digit of flags", "00-" TRACE "-" SPAN "-1", false, false },
		{ "no flags", "00-" TRACE "-" SPAN, false, false },
		{ "a trace that is too short", "00-0af7651916cd43dd8448eb211c8031-" SPAN "-01--", false, false },
		{ "letters beyond f", "00-0gf7651916cd43dd8448eb211c80319c-" SPAN "-01", false, false },
		{ "nothing", "", false, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__trace_parent parent = { .is_sampled = false };
		char trace[33] = "", span[17] = "";

		if (weir__traceparent_read(rows[i].text, strlen(rows[i].text), &parent) != rows[i].is_one ||
		    parent.is_sampled != rows[i].is_sampled)
			check_fail(__FILE__, __LINE__, rows[i].what);
		if (!rows[i].is_one)
			continue;
		weir__trace_write_hex(parent.trace, sizeof(parent.trace), trace);
		weir__trace_write_hex(parent.span, sizeof(parent.span), span);
		CHECK_TEXT(trace, TRACE);
		CHECK_TEXT(span, SPAN);
	}
}

/* No prefix of a traceparent is valid, and nothing is read beyond its end. */
static void beginnings(void)
{
	static const char text[] = "00-" TRACE "-" SPAN "-01";

	for (size_t n = 0; n < WEIR__TRACEPARENT; n++) {
		struct weir__trace_parent parent;
		char *const copy = malloc(n + 1);

		memcpy(copy, text, n);
		CHECK(!weir__traceparent_read(copy, n, &parent));
		free(copy);
	}
}

static void a_full_ring_drops(void)
{
	struct weir__span_ring *const ring = weir__span_ring_new();
	struct weir__span spans[3] = { { .begun = 0 } };

	for (uint64_t i = 0; i < WEIR__SPANS_WAITING + 5; i++) {
		spans[0].begun = i;
		CHECK_EQ(weir__span_ring_put(ring, &spans[0]), i < WEIR__SPANS_WAITING);
	}
	CHECK_EQ(atomic_load(&ring->dropped), 5);
	CHECK_EQ(weir__span_ring_take(ring, spans, 3), 3);
	CHECK_EQ(spans[0].begun, 0);
	CHECK_EQ(spans[2].begun, 2);
	CHECK_EQ(weir__span_ring_waiting(ring), WEIR__SPANS_WAITING - 3);
	CHECK(weir__span_ring_put(ring, &spans[0]));
	free(ring);
}

enum { PASSED = 50000 };

static void *put_all(void *ring)
{
	struct weir__span span = { .begun = 0 };

	for (uint64_t i = 0; i < PASSED; i++) {
		span.begun = span.ended = i;
		span.key_hash = ~i;
		(void)weir__span_ring_put(ring, &span);
	}
	return NULL;
}

/* Spans arrive complete and in order, and every lost one is counted. */
static void from_thread_to_thread(void)
{
	struct weir__span_ring *const ring = weir__span_ring_new();
	struct weir__span spans[64];
	uint64_t taken = 0, next = 0;
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, put_all, ring) == 0);
	while (taken + atomic_load(&ring->dropped) < PASSED || weir__span_ring_waiting(ring) > 0) {
		const size_t n = weir__span_ring_take(ring, spans, 64);

		for (size_t i = 0; i < n; i++) {
			if (spans[i].begun < next || spans[i].ended != spans[i].begun ||
			    spans[i].key_hash != ~spans[i].begun)
				check_fail(__FILE__, __LINE__, "a span is torn, or out of order");
			next = spans[i].begun + 1;
		}
		taken += n;
	}
	(void)pthread_join(thread, NULL);
	CHECK_EQ(taken + atomic_load(&ring->dropped), PASSED);
	free(ring);
}

TESTS(TEST(traceparents), TEST(beginnings), TEST(a_full_ring_drops), TEST(from_thread_to_thread))
