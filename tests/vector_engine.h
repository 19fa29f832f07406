/* vector_engine.h: the interface between vectors.c and what it tests. One engine for each way in which Weir decides. */
#ifndef WEIR_TESTS_VECTOR_ENGINE_H
#define WEIR_TESTS_VECTOR_ENGINE_H

#include <weir/weir.h>

enum { VECTOR_CLAIMS_MAX = 16 };

struct vector_engine {
	const char *name;
	weir_ns grain; /* times are multiples of this; 0: any time */

	/* `begin` runs before a vector's first subject is made, with the first and last time of its rows; `end` after
	 * the last one is dropped. `between` runs before each row, with the earliest time from the previous row on.
	 * Each may be NULL. */
	void (*begin)(weir_ns earliest, weir_ns latest);
	void (*end)(void);
	void (*between)(weir_ns earliest);

	/* Return why the engine skips a vector with this limit and this sum of costs, or with these times; NULL to play
	 * it. A NULL function skips nothing. An operation below may be NULL if the engine does not have it. */
	const char *(*skips_limit)(const struct weir_limit *limit, uint64_t costs);
	const char *(*skips_times)(weir_ns earliest, weir_ns latest);

	/* A subject is one limit with one key. log_room: events that a sliding log must hold after any later change of
	 * its limit. Returns NULL if the limit is rejected. */
	void *(*make)(const struct weir_limit *limit, uint64_t log_room);
	void (*drop)(void *subject);

	struct weir_verdict (*take)(void *subject, weir_ns now, uint64_t cost);
	struct weir_verdict (*upto)(void *subject, weir_ns now, uint64_t cost);
	struct weir_verdict (*peek)(void *subject, weir_ns now, uint64_t cost);
	struct weir_verdict (*refund)(void *subject, weir_ns now, uint64_t n);
	struct weir_verdict (*undo)(void *subject, weir_ns now, uint64_t n, weir_ns charged_at, uint64_t cost);
	int (*change)(void *subject, weir_ns now, const struct weir_limit *limit);
	int (*reserve)(void *subject, weir_ns now, uint64_t cost, struct weir_reservation *ret_reservation,
		       struct weir_verdict *ret_verdict);
	void (*cancel)(void *subject, weir_ns now, struct weir_reservation *reservation);

	/* Decides several subjects in one call; a subject may occur twice. NULL: vectors.c uses peek and take. */
	struct weir_decision (*all)(void *const *subjects, const uint64_t *costs, size_t n, weir_ns now,
				    struct weir_verdict *verdicts);
};

/* The engines of this program. */
extern const struct vector_engine *const vector_engines[];
extern const size_t vector_engines_n;

extern const struct vector_engine core_engine, limiter_engine, table_engine, shared_table_engine, file_table_engine,
	evicting_table_engine;

#endif
