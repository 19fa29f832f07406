/* limit.h: a limit as a person states it, and its notation as text.
 *
 * A limit is plain data: copy it as you like, and free nothing. All functions here are pure and may be called from any
 * thread. None of them decides a request. weir_plan_compile (plan.h) checks a limit once and turns it into a plan,
 * which the steps run on. weir_limiter_init (limiter.h) and weir_table_add_limit (table.h) do that for you.
 *
 *     RATE [ALGORITHM] [OPTION VALUE]...
 *
 *     100/min burst 20                    a token bucket, the default algorithm
 *     7/min                               burst is the count unless given: 7
 *     5/s leaky queue 50                  a leaky bucket that shapes: the verdict says when to depart
 *     5/s leaky burst 50                  a leaky bucket that polices: no delay; so does a plain 5/s leaky
 *     10/s refill interval burst 30       ten tokens at once each second, instead of one every 100 ms
 *     1000/hour sliding_log               exact, remembers each request
 *     100/min sliding_counter             weighted previous window
 *     100/min sliding_counter segments 6  the same over six sub-windows of 10 s
 *     10/s fixed_window align first       windows start at a key's first request, not on the clock
 *     10/s fixed_window count all         denied requests count too
 *
 * RATE is COUNT/PERIOD. A period is ns, us, ms, s, min, hour, day or week, optionally with a number before it: 10/30s,
 * 1/250ms, 500/2day. Other words for these are sec, second, minute, h, hr, d and w, and plurals. `m` is rejected,
 * because it may mean a month. A count may have decimals and is then an exact fraction: 0.5/s is 1/2s, and 2.5/s is
 * 5/2s, a burst of 5 unless given. Words are separated by spaces. Options come in any order, once each. Newlines at the
 * end are ignored. */
#ifndef WEIR_LIMIT_H
#define WEIR_LIMIT_H

#include <weir/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum weir_algorithm {
	WEIR_TOKEN_BUCKET,    /* tokens flow in at the rate, up to burst; a request takes its cost */
	WEIR_LEAKY_BUCKET,    /* water leaks out at the rate; a request adds its cost, up to burst */
	WEIR_FIXED_WINDOW,    /* at most count in each period */
	WEIR_SLIDING_LOG,     /* at most count in any period; remembers every request */
	WEIR_SLIDING_COUNTER, /* at most count by estimate: this window plus the weighted previous one */
};

/* For a bool, the comment gives the meaning of false, then of true. burst and segments have no default: fill a limit
 * with weir_limit_of, or parse it from text. */
struct weir_limit {
	enum weir_algorithm algorithm;
	uint64_t count;       /* the rate is count per period, an exact fraction; 1 or more */
	weir_ns period;       /* 1 or more */
	uint64_t burst;       /* buckets: the most that one request can take at once; 1 or more */
	uint64_t segments;    /* sliding counter: sub-windows in a period; must divide it. others: 1 */
	bool refill_interval; /* token bucket: tokens flow in smoothly | count at once, each period */
	bool shape;           /* leaky bucket: police | shape, the verdict carries the delay until departure */
	bool align_first;     /* fixed window: starts at multiples of the period | at a key's first request */
	bool count_all;       /* windows: only allowed requests count | denied ones too, even if they can never fit */
};

/* Maxima. weir_plan_compile rejects a limit beyond them; it never rounds. Any count, period and burst up to 2^64-1 is
 * legal, with these exceptions. Smooth buckets, with count/period in lowest terms, need 2^64 * count + burst * period
 * <= 2^128, which only numbers near 2^64 exceed. The others are: */
#define WEIR_LOG_COUNT_MAX UINT64_C(0xffffffff) /* sliding log: its state is 24 bytes, plus 16 per unit of count */
#define WEIR_SEGMENTS_MAX UINT64_C(1048576)     /* sliding counter: its state is 16 bytes, plus 8 per sub-window */

/* The longest text that weir_limit_print writes, including the NUL. */
#define WEIR_LIMIT_TEXT_MAX 160

/* Returns a limit of count per period with every option at its default: burst = count, segments = 1. */
static inline struct weir_limit weir_limit_of(enum weir_algorithm algorithm, uint64_t count, weir_ns period)
{
	struct weir_limit limit;

	limit.algorithm = algorithm;
	limit.count = count;
	limit.period = period;
	limit.burst = count;
	limit.segments = 1;
	limit.refill_interval = false;
	limit.shape = false;
	limit.align_first = false;
	limit.count_all = false;
	return limit;
}

/* Parses the notation above from text[0..length). The text needs no NUL, and is not kept. WEIR_ERR_SYNTAX:
 * ret_message->at is the position, and the message says what was expected. Text that parses may still be an invalid
 * limit, such as 0/s: weir_plan_compile checks that. */
WEIR_API int weir_limit_parse(const char *text, size_t length, struct weir_limit *ret_limit,
			      struct weir_message *ret_message);

/* Writes the limit in the notation above, in its shortest form and with a NUL, into text, which must have room for
 * WEIR_LIMIT_TEXT_MAX bytes. Returns the length without the NUL. Parsing that text gives the same limit again, and a
 * text in shortest form prints back to itself. Options that the algorithm does not have are not written. */
WEIR_API size_t weir_limit_print(const struct weir_limit *limit, char *text);

/* Returns "token_bucket", "leaky_bucket" and so on, for metrics and messages. The text is constant. (In the notation a
 * leaky bucket is `leaky`.) */
WEIR_API const char *weir_algorithm_name(enum weir_algorithm algorithm);

#ifdef __cplusplus
}
#endif
#endif
