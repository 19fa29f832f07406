/* vector_engine.h: what the vectors are played on. One engine for each way in which Weir decides. */
#ifndef WEIR_TESTS_VECTOR_ENGINE_H
#define WEIR_TESTS_VECTOR_ENGINE_H

#include <weir/weir.h>

enum { VECTOR_CLAIMS_MAX = 16 };

struct vector_engine {
	const char *name;
	weir_ns grain; /* it knows only times that are multiples of this; 0: all */

	/* Before the first subject of a vector, whose rows lie between these times, and after its last; and before each
	 * row, with the earliest time from the row before on. NULL: nothing to do. */
	void (*begin)(weir_ns earliest, weir_ns latest);
	void (*end)(void);
	void (*between)(weir_ns earliest);

	/* Why a vector with such a limit and so many units asked for in all, or with such times, is not for this engine;
	 * NULL if it is. A NULL function: everything is. An operation below that is NULL is one that the engine does not
	 * have. */
	const char *(*skips_limit)(const struct weir_limit *limit, uint64_t costs);
	const char *(*skips_times)(weir_ns earliest, weir_ns latest);

	/* A subject is one limit with one key. log_room: events a sliding log must be able to hold, whatever its limit is
	 * changed to later. NULL if the limit is refused. */
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

	/* Decides several together, as one call; the same may come twice. NULL: it is done by peek and take. */
	struct weir_decision (*all)(void *const *subjects, const uint64_t *costs, size_t n, weir_ns now,
				    struct weir_verdict *verdicts);
};

/* Those that a program plays on. */
extern const struct vector_engine *const vector_engines[];
extern const size_t vector_engines_n;

extern const struct vector_engine core_engine, limiter_engine, table_engine, shared_table_engine, file_table_engine,
	evicting_table_engine;

#endif
