/* sizing.h: the size of a leaky bucket with a queue, from two rates and a wait, without a log.
 * Pure integer arithmetic, exact as long as two reduced fractions fit 64 bits.
 *
 * In a queue of `places` that drains at the rate `outflow`, a request behind n others departs n / outflow later. A
 * request that finds the queue empty does not wait. So the last place waits (places - 1) / outflow. */
#ifndef WEIR_REPLAY_SIZING_H
#define WEIR_REPLAY_SIZING_H

#include <weir/limit.h>

struct weir__rate {
	uint64_t count;
	weir_ns period;
};

struct weir__sizing_wish {
	struct weir__rate inflow, outflow;
	weir_ns wait;  /* the longest that is acceptable */
	weir_ns lasts; /* how long the inflow lasts; 0: not known */
};

/* A constant inflow that meets an empty queue. */
struct weir__sizing {
	uint64_t places;    /* as many as possible while the last one waits no longer than the wish */
	weir_ns last_waits; /* (places - 1) / outflow, rounded up to ns */
	weir_ns drains;     /* places / outflow, rounded up: from full to empty without inflow */

	bool overflows;             /* more flows in than out. false: one place is enough for a constant inflow */
	uint64_t passes;            /* overflows: how many requests are allowed before the first denial */
	weir_ns denies_at;          /* overflows: when the first denied request arrives, rounded up */
	uint64_t denied, denied_of; /* overflows: after that, the share of denied requests, in lowest terms */

	/* With `lasts`: */
	uint64_t arrive;        /* requests within that time, the first at its beginning */
	uint64_t places_needed; /* to deny none of them */
	weir_ns would_wait;     /* the longest wait with this number of places, rounded up */
	/* places_needed is more than `places`. `enough` is then the least outflow, per outflow.period, that keeps the
	 * wish. */
	bool is_too_long;
	uint64_t enough;
};

/* Returns NULL, or what is wrong with the wish. */
const char *weir__sizing_calculate(const struct weir__sizing_wish *wish, struct weir__sizing *ret_sizing);

/* The decisions of a limit on n requests at a constant rate. */
struct weir__sizing_run {
	uint64_t allowed, denied;
	uint64_t passed;   /* before the first denial */
	weir_ns denied_at; /* the first denied; only if `denied` > 0 */
	weir_ns longest_delay;
};

/* Sends n requests through a limiter with this limit, which has a state of constant size. Errors as
 * weir_limiter_init. */
int weir__sizing_try(const struct weir_limit *limit, struct weir__rate inflow, uint64_t n,
		     struct weir__sizing_run *ret_run, struct weir_message *ret_message);

#endif
