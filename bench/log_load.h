/* log_load.h: the requests of the benchmark of sliding logs. peers/log.go makes the same requests.
 *
 * Keys are uniform. Each key gets LOG_OFFERED requests a minute, and LOG_LIMIT are allowed: logs are full, and almost
 * two thirds of the requests are allowed. With the real clock, a fast contender would fill all logs in a second and
 * then only deny. So the time of a request is computed from its number. Each request still reads the clock, as a
 * program would, but uses only one bit of it.
 *
 * The warm-up is LOG_WARM_UP_MINUTES of that time. During the first minute keys appear one after another. If all keys
 * started together, all logs would be full at the same time. Then everything is allowed for 40 seconds and nothing for
 * 20, in a cycle, and the result would depend on how far a contender gets. */
#ifndef WEIR_BENCH_LOG_LOAD_H
#define WEIR_BENCH_LOG_LOAD_H

#include <err.h>
#include <stdbool.h>

#include "keys.h"

enum {
	LOG_LIMIT = 100,
	LOG_OFFERED = 150,
	LOG_WARM_UP_MINUTES = 2,
	LOG_STEP_LEAST_NS = 2000, /* so that no two requests have the same microsecond */
};

#define LOG_LIMIT_TEXT "100/min sliding_log"
#define LOG_WINDOW_NS UINT64_C(60000000000)

struct log_load {
	struct keys_order order;
	uint64_t n; /* requests so far */
	uint64_t step_ns;
	uint32_t keys;
};

static inline struct log_load log_load_of(uint32_t keys)
{
	const uint64_t step_ns = keys ? LOG_WINDOW_NS / ((uint64_t)keys * LOG_OFFERED) : 0;

	if (step_ns < LOG_STEP_LEAST_NS)
		errx(2, "keys are 1 to %d", (int)(LOG_WINDOW_NS / LOG_OFFERED / LOG_STEP_LEAST_NS));
	return (struct log_load){ keys_order_of(0, NULL), 0, step_ns, keys };
}

/* Time of the next request, in ns after the first. */
static inline uint64_t log_load_ns(const struct log_load *load, uint64_t clock)
{
	return load->n * load->step_ns + (clock & 1);
}

static inline uint64_t log_load_minute(const struct log_load *load)
{
	return (uint64_t)load->keys * LOG_OFFERED;
}

/* Runs the warm-up: calls `ask` for each request. Returns how many events the logs then have: the requests that were
 * allowed within the last minute. */
static inline uint64_t log_load_warm_up(struct log_load *load,
					bool (*ask)(void *subject, uint32_t number, uint64_t since_first_ns),
					void *subject)
{
	const uint64_t end = LOG_WARM_UP_MINUTES * log_load_minute(load), last = end - log_load_minute(load);
	uint64_t events = 0;

	for (; load->n < end; load->n++) {
		const uint32_t number = keys_next(&load->order, load->keys);

		if (number < load->n / LOG_OFFERED && ask(subject, number, log_load_ns(load, 0)))
			events += load->n >= last;
	}
	return events;
}

#endif
