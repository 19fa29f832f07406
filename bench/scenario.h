/* scenario.h: situations in which a single step is measured. Time is an argument, so each decision is known.
 *
 * A scenario lasts for SCENARIO_DECISIONS decisions. To measure more, start again from the same state. */
#ifndef WEIR_BENCH_SCENARIO_H
#define WEIR_BENCH_SCENARIO_H

#include <weir/step.h>

enum {
	SCENARIO_DECISIONS = 1000,
	SCENARIO_STATE_WORDS = 512,
};

struct scenario {
	const char *kind;
	const char *mode; /* "allow" and "deny": the common path. "turn", "idle": see scenario.c */
	const char *limit;
	/* What happens first: `times` requests of this cost, one ns apart. Instants count from midnight of some day. */
	struct {
		weir_ns at;
		uint64_t cost;
		uint64_t times;
	} before[2];
	weir_ns start, advance; /* times of the measured decisions */
	bool is_allowed;
	bool is_constant_size; /* its state is 16 bytes: the targets for instructions apply */
};

extern const struct scenario scenarios[];
extern const size_t scenarios_n;

/* A scenario that is ready to run. The first decision is at `start`. */
struct scene {
	struct weir_plan plan;
	weir_ns start, advance;
	uint64_t state[SCENARIO_STATE_WORDS] __attribute__((aligned(16)));
};

/* NULL: not found. */
const struct scenario *scenario_find(const char *kind, const char *mode);

/* Exits with a message if the limit is invalid, or if a request of `before` is denied. */
void scenario_begin(const struct scenario *scenario, struct scene *ret_scene);

#endif
