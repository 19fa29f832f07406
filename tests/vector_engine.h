/* vector_engine.h: what the vectors are played on. One engine for each way in which Weir decides. */
#ifndef WEIR_TESTS_VECTOR_ENGINE_H
#define WEIR_TESTS_VECTOR_ENGINE_H

#include <weir/weir.h>

struct vector_engine {
	const char *name;

	/* A subject is one limit with one key. log_room: events a sliding log must be able to hold, whatever its limit is
	 * changed to later. NULL if the limit is refused. */
	void *(*make)(const struct weir_limit *limit, uint64_t log_room);
	void (*drop)(void *subject);

	struct weir_verdict (*take)(void *subject, weir_ns now, uint64_t cost);
	struct weir_verdict (*upto)(void *subject, weir_ns now, uint64_t cost);
	struct weir_verdict (*peek)(void *subject, weir_ns now, uint64_t cost);
	struct weir_verdict (*refund)(void *subject, weir_ns now, uint64_t n);
	int (*change)(void *subject, weir_ns now, const struct weir_limit *limit);
	int (*reserve)(void *subject, weir_ns now, uint64_t cost, struct weir_reservation *ret_reservation,
		       struct weir_verdict *ret_verdict);
	void (*cancel)(void *subject, weir_ns now, struct weir_reservation *reservation);
};

extern const struct vector_engine core_engine, limiter_engine;

#endif
