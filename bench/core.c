/* core.c: measures decisions, one mode at a time, and prints one line of JSON. bench/core.py runs it.
 *
 *     core scenarios                      the kinds and modes of `step` and `take`, one a line
 *     core step KIND MODE [OPTION]...     weir_step_allow by itself; time is made up
 *     core take KIND MODE [OPTION]...     weir_step_take, the full verdict
 *     core hot allow|used|deny [OPTION]...  one limiter that every thread calls, clock included
 *     core clock [OPTION]...              weir_clock_now by itself
 *     core cas [OPTION]...                one 16-byte load and compare-and-swap by themselves
 *     core clock_cas [OPTION]...          the least a limiter can do: the clock, one 16-byte load, one compare-and-swap
 *     core clock_blind_cas [OPTION]...    the same without the load: only a single thread knows what to expect
 *
 *     --seconds S   duration (0.5), after a warm-up; the clock is read after each BATCH decisions
 *     --count N     exactly N decisions, a multiple of BATCH, without a warm-up: for counting instructions
 *     --threads N   (1), each pinned to its own processor
 *
 * A run fails if a decision is not what its mode says, because it would measure something else. */
#include <weir/weir.h>

#include <err.h>
#include <stdio.h>
#include <string.h>

#include "os/atomic16.h"
#include "scenario.h"
#include "workers.h"

enum { BATCH = SCENARIO_DECISIONS };

/* The argument of the batch functions below. Each decides BATCH times and returns how many were allowed. */
struct subject {
	struct scene scene;
	struct weir_limiter *limiter;
};

static uint64_t batch_step(const void *subject_, size_t thread)
{
	const struct subject *const subject = subject_;
	struct scene scene;
	weir_ns now = subject->scene.start;
	uint64_t allowed = 0;

	(void)thread;
	memcpy(&scene, &subject->scene, offsetof(struct scene, state) + weir_plan_state_size(&subject->scene.plan));
	for (size_t i = 0; i < BATCH; i++) {
		allowed += weir_step_allow(&scene.plan, scene.state, now, 1);
		now += scene.advance;
	}
	return allowed;
}

static uint64_t batch_take(const void *subject_, size_t thread)
{
	const struct subject *const subject = subject_;
	struct scene scene;
	weir_ns now = subject->scene.start;
	uint64_t allowed = 0;

	(void)thread;
	memcpy(&scene, &subject->scene, offsetof(struct scene, state) + weir_plan_state_size(&subject->scene.plan));
	for (size_t i = 0; i < BATCH; i++) {
		allowed += weir_step_take(&scene.plan, scene.state, now, 1).allowed;
		now += scene.advance;
	}
	return allowed;
}

static uint64_t batch_hot(const void *subject_, size_t thread)
{
	const struct subject *const subject = subject_;
	uint64_t allowed = 0;

	(void)thread;
	for (size_t i = 0; i < BATCH; i++)
		allowed += weir_limiter_allow(subject->limiter, weir_clock_now(), 1);
	return allowed;
}

static uint64_t batch_clock(const void *subject, size_t thread)
{
	uint64_t allowed = 0;

	(void)subject;
	(void)thread;
	for (size_t i = 0; i < BATCH; i++)
		allowed += weir_clock_now() != 0;
	return allowed;
}

static union weir__atomic16 bare_slot __attribute__((aligned(64)));

static uint64_t batch_clock_cas(const void *subject, size_t thread)
{
	uint64_t swapped = 0;

	(void)subject;
	(void)thread;
	for (size_t i = 0; i < BATCH; i++) {
		const weir_ns now = weir_clock_now();
		const struct weir_state seen = weir__atomic16_load(&bare_slot);

		swapped += weir__atomic16_swap(&bare_slot, seen, (struct weir_state){ now, seen.hi + 1 });
	}
	return swapped;
}

static uint64_t batch_cas(const void *subject, size_t thread)
{
	uint64_t swapped = 0;

	(void)subject;
	(void)thread;
	for (size_t i = 0; i < BATCH; i++) {
		const struct weir_state seen = weir__atomic16_load(&bare_slot);

		swapped += weir__atomic16_swap(&bare_slot, seen, (struct weir_state){ seen.lo + i, seen.hi + 1 });
	}
	return swapped;
}

/* The expected value stays in registers, so each round has only the clock and the swap. */
static uint64_t batch_clock_blind_cas(const void *subject, size_t thread)
{
	struct weir_state seen = weir__atomic16_load(&bare_slot);
	uint64_t swapped = 0;

	(void)subject;
	(void)thread;
	for (size_t i = 0; i < BATCH; i++) {
		const struct weir_state next = { weir_clock_now(), seen.hi + 1 };

		swapped += weir__atomic16_swap(&bare_slot, seen, next);
		seen = next;
	}
	return swapped;
}

/* The same limits as in peers/core.go. */
static const struct {
	const char *mode, *limit;
	bool is_allowed;
} hot_limits[] = {
	{ "allow", "1000000000/s burst 1000000000", true }, /* refilled faster than requests come */
	{ "used", "1/s burst 1000000000000", true },        /* never full again, and never empty in a run */
	{ "deny", "1/hour burst 1", false },                /* empty from the start */
};

static void begin_hot(const char *mode, struct subject *subject, struct work *work)
{
	static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE];
	struct weir_message why;

	for (size_t i = 0; i < sizeof(hot_limits) / sizeof(hot_limits[0]); i++) {
		if (strcmp(hot_limits[i].mode, mode) != 0)
			continue;
		if (weir_limiter_init_text(memory, sizeof(memory), hot_limits[i].limit, &subject->limiter, &why) !=
		    WEIR_OK)
			errx(1, "%s: %s", hot_limits[i].limit, why.text);
		weir_limiter_allow(subject->limiter, weir_clock_now(), 1);
		work->is_allowed = hot_limits[i].is_allowed;
		work->batch = batch_hot;
		return;
	}
	errx(2, "hot: unknown mode: %s", mode);
}

static const struct {
	const char *name;
	uint64_t (*batch)(const void *subject, size_t thread);
} bare[] = {
	{ "clock", batch_clock },
	{ "cas", batch_cas },
	{ "clock_cas", batch_clock_cas },
	{ "clock_blind_cas", batch_clock_blind_cas },
};

/* Returns how many arguments name the subject. */
static int begin(int n, char **arguments, struct subject *subject, struct work *work)
{
	const char *const what = n > 0 ? arguments[0] : "";

	for (size_t i = 0; i < sizeof(bare) / sizeof(bare[0]); i++) {
		if (strcmp(what, bare[i].name) == 0) {
			work->batch = bare[i].batch;
			work->is_allowed = true;
			return 1;
		}
	}
	if (n >= 2 && strcmp(what, "hot") == 0) {
		begin_hot(arguments[1], subject, work);
		return 2;
	}
	if (n >= 3 && (strcmp(what, "step") == 0 || strcmp(what, "take") == 0)) {
		const struct scenario *const scenario = scenario_find(arguments[1], arguments[2]);

		if (!scenario)
			errx(2, "unknown scenario: %s %s", arguments[1], arguments[2]);
		scenario_begin(scenario, &subject->scene);
		work->is_allowed = scenario->is_allowed;
		work->batch = strcmp(what, "step") == 0 ? batch_step : batch_take;
		return 3;
	}
	errx(2, "usage: core scenarios | step KIND MODE | take KIND MODE | hot MODE | clock | cas | clock_cas | "
		"clock_blind_cas, [--seconds S | --count N] [--threads N]");
}

int main(int argc, char **argv)
{
	static struct subject subject;
	struct work work = { .subject = &subject, .each = BATCH, .seconds = 0.5, .threads = 1 };
	int used;

	if (argc == 2 && strcmp(argv[1], "scenarios") == 0) {
		for (size_t i = 0; i < scenarios_n; i++)
			printf("%s %s %s\n", scenarios[i].kind, scenarios[i].mode,
			       scenarios[i].is_constant_size ? "constant" : "grows");
		return 0;
	}
	used = 1 + begin(argc - 1, argv + 1, &subject, &work);
	for (int i = used; i < argc; i += 2) {
		if (i + 1 == argc || !work_option(&work, argv[i], argv[i + 1]))
			errx(2, "unknown option, or its value is missing: %s", argv[i]);
	}
	work_check(&work);
	weir_clock_now(); /* the first call calibrates the clock */
	work_measure(&work, "");
	return 0;
}
