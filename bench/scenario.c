/* scenario.c: the table of scenarios.
 *
 * "allow" and "deny" take the longest of the common paths: the bucket is neither full nor empty, and the previous
 * window counts. "turn": each decision is the first of the next window or interval. "idle": each decision comes after
 * the limit has become full again. */
#include "scenario.h"

#include <err.h>
#include <string.h>

#define S(n) ((n)*UINT64_C(1000000000))
#define H(n) S((n)*UINT64_C(3600))
#define MS(n) ((n)*UINT64_C(1000000))

/* A midnight, so that windows aligned to the clock start at it. */
#define MIDNIGHT H(24 * UINT64_C(20000))

/* clang-format off */
const struct scenario scenarios[] = {
	/* kind, mode, limit, what happens first: at, cost, times; start, advance; allowed, constant size */
	{ "token_bucket", "allow", "1000/s burst 100", { { 0, 50, 1 } }, MS(1), MS(1), true, true },
	{ "token_bucket", "deny", "1/hour burst 1", { { 0, 1, 1 } }, 1, 1, false, true },
	{ "token_bucket", "idle", "1000/s burst 100", { { 0, 50, 1 } }, S(1), S(1), true, true },

	{ "leaky_bucket", "allow", "1000/s leaky queue 100", { { 0, 50, 1 } }, MS(1), MS(1), true, true },
	{ "leaky_bucket", "deny", "1/hour leaky queue 1", { { 0, 1, 1 } }, 1, 1, false, true },
	{ "leaky_bucket", "idle", "1000/s leaky queue 100", { { 0, 50, 1 } }, S(1), S(1), true, true },

	{ "interval", "allow", "1000000/day refill interval burst 1000000", { { 0, 10, 1 } }, 1, 1, true, true },
	{ "interval", "deny", "1/day refill interval burst 1", { { 0, 1, 1 } }, 1, 1, false, true },
	{ "interval", "turn", "1/s refill interval burst 1000", { { 0, 500, 1 } }, S(1), S(1), true, true },
	{ "interval", "idle", "1/s refill interval burst 1", { { 0, 1, 1 } }, S(5), S(5), true, true },

	{ "fixed_window", "allow", "1000000/day fixed_window", { { 0, 10, 1 } }, 1, 1, true, true },
	{ "fixed_window", "deny", "1/day fixed_window", { { 0, 1, 1 } }, 1, 1, false, true },
	{ "fixed_window", "turn", "10/s fixed_window", { { 0, 1, 1 } }, S(1), S(1), true, true },

	{ "window_align_first", "allow", "1000000/day fixed_window align first", { { 0, 10, 1 } }, 1, 1, true, true },
	{ "window_align_first", "deny", "1/day fixed_window align first", { { 0, 1, 1 } }, 1, 1, false, true },
	{ "window_align_first", "turn", "10/s fixed_window align first", { { 0, 1, 1 } }, S(1), S(1), true, true },

	{ "window_count_all", "allow", "1000000/day fixed_window count all", { { 0, 10, 1 } }, 1, 1, true, true },
	{ "window_count_all", "deny", "1/day fixed_window count all", { { 0, 1, 1 } }, 1, 1, false, true },

	/* At noon, half of the previous day's count is added. A nanosecond later that is rounded down. */
	{ "sliding_counter", "allow", "4000000/day sliding_counter",
	  { { 0, 3000000, 1 }, { H(36), 2000000, 1 } }, H(36) + 1, 1, true, true },
	{ "sliding_counter", "deny", "4000000/day sliding_counter",
	  { { 0, 4000000, 1 }, { H(36) + 1, 2000001, 1 } }, H(36) + 2, 1, false, true },
	{ "sliding_counter", "turn", "10/s sliding_counter", { { 0, 1, 1 } }, S(1), S(1), true, true },
	{ "sliding_counter", "idle", "10/s sliding_counter", { { 0, 1, 1 } }, S(3), S(3), true, true },

	{ "segments_6", "allow", "6000000/day sliding_counter segments 6",
	  { { 0, 3000000, 1 }, { H(20), 1000000, 1 } }, H(25), 1, true, false },
	{ "segments_6", "deny", "6/day sliding_counter segments 6", { { 0, 6, 1 } }, 1, 1, false, false },

	/* Each request comes just when the oldest of a hundred leaves. */
	{ "sliding_log_100", "allow", "100/100ns sliding_log", { { 0, 1, 100 } }, 100, 1, true, false },
	{ "sliding_log_100", "deny", "100/day sliding_log", { { 0, 1, 100 } }, 100, 1, false, false },
};
/* clang-format on */

const size_t scenarios_n = sizeof(scenarios) / sizeof(scenarios[0]);

const struct scenario *scenario_find(const char *kind, const char *mode)
{
	for (size_t i = 0; i < scenarios_n; i++) {
		if (strcmp(scenarios[i].kind, kind) == 0 && strcmp(scenarios[i].mode, mode) == 0)
			return &scenarios[i];
	}
	return NULL;
}

void scenario_begin(const struct scenario *scenario, struct scene *ret_scene)
{
	struct weir_limit limit;
	struct weir_message why;

	*ret_scene = (struct scene){ .start = MIDNIGHT + scenario->start, .advance = scenario->advance };
	if (weir_limit_parse(scenario->limit, strlen(scenario->limit), &limit, &why) != WEIR_OK ||
	    weir_plan_compile(&limit, &ret_scene->plan, &why) != WEIR_OK)
		errx(1, "%s: %s", scenario->limit, why.text);
	if (weir_plan_state_size(&ret_scene->plan) > sizeof(ret_scene->state))
		errx(1, "%s: its state is larger than SCENARIO_STATE_WORDS", scenario->limit);
	for (size_t i = 0; i < sizeof(scenario->before) / sizeof(scenario->before[0]); i++) {
		for (uint64_t n = 0; n < scenario->before[i].times; n++) {
			if (!weir_step_allow(&ret_scene->plan, ret_scene->state, MIDNIGHT + scenario->before[i].at + n,
					     scenario->before[i].cost))
				errx(1, "%s %s: what happens first is denied", scenario->kind, scenario->mode);
		}
	}
}
