/* tally.c: the counters of all workers, each in cache lines of its own. */
#include "serve/tally.h"

#include <weir/clock.h>
#include <weir/limiter.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Lines of the log about one kind of thing. */
struct lines {
	struct weir_limiter *limiter;
	_Atomic uint64_t left_out; /* since one was written */
	_Alignas(WEIR_LIMITER_ALIGN) unsigned char room[WEIR_LIMITER_SIZE];
};

struct weir__tallies {
	uint32_t n;
	time_t made;    /* by a clock that nobody sets */
	time_t made_at; /* of Unix time */
	struct lines lines[WEIR__TOLD_N];
	struct weir__tally of[];
};

static const char *const line_limits[WEIR__TOLD_N] = { [WEIR__TOLD_STRANGER] = "10/s", [WEIR__TOLD_PAUSE] = "1/10s" };

static time_t seconds_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

struct weir__tallies *weir__tallies_new(uint32_t workers)
{
	const size_t size = sizeof(struct weir__tallies) + workers * sizeof(struct weir__tally);
	struct weir__tallies *const tallies = aligned_alloc(_Alignof(struct weir__tallies), size);
	bool is_whole = true;

	if (tallies == NULL)
		return NULL;
	memset(tallies, 0, size);
	tallies->n = workers;
	tallies->made = seconds_now();
	tallies->made_at = time(NULL);
	for (int what = 0; what < WEIR__TOLD_N; what++) {
		struct lines *const lines = &tallies->lines[what];

		is_whole &= weir_limiter_init_text(lines->room, sizeof(lines->room), line_limits[what], &lines->limiter,
						   NULL) == WEIR_OK;
	}
	if (is_whole)
		return tallies;
	free(tallies);
	return NULL;
}

void weir__tallies_free(struct weir__tallies *tallies)
{
	free(tallies);
}

struct weir__tally *weir__tallies_of(struct weir__tallies *tallies, uint32_t worker)
{
	return tallies ? &tallies->of[worker] : NULL;
}

uint64_t weir__tallies_age_s(const struct weir__tallies *tallies)
{
	return (uint64_t)(seconds_now() - tallies->made);
}

uint64_t weir__tallies_made_at_s(const struct weir__tallies *tallies)
{
	return (uint64_t)tallies->made_at;
}

void weir__tallies_sum(struct weir__tallies *tallies, struct weir__tally_sum *ret_sum)
{
	*ret_sum = (struct weir__tally_sum){ .connections = { 0 } };
	for (uint32_t i = 0; i < tallies->n; i++) {
		for (int why = 0; why < WEIR__PAUSES; why++)
			ret_sum->pauses[why] += atomic_load_explicit(&tallies->of[i].pauses[why], memory_order_relaxed);
		ret_sum->in_flight += atomic_load_explicit(&tallies->of[i].in_flight, memory_order_relaxed);
		ret_sum->overflows += atomic_load_explicit(&tallies->of[i].overflows, memory_order_relaxed);
		for (int wire = 0; wire < WEIR__WIRES; wire++) {
			ret_sum->connections[wire] += atomic_load_explicit(&tallies->of[i].connections[wire],
									   memory_order_relaxed);
			ret_sum->requests[wire] += atomic_load_explicit(&tallies->of[i].requests[wire],
									memory_order_relaxed);
			ret_sum->strangers[wire] += atomic_load_explicit(&tallies->of[i].strangers[wire],
									 memory_order_relaxed);
		}
	}
}

bool weir__tallies_may_tell(struct weir__tallies *tallies, enum weir__told what, uint64_t *ret_left_out)
{
	struct lines *const lines = &tallies->lines[what];

	if (!weir_limiter_allow(lines->limiter, weir_clock_now(), 1)) {
		(void)atomic_fetch_add_explicit(&lines->left_out, 1, memory_order_relaxed);
		return false;
	}
	*ret_left_out = atomic_exchange_explicit(&lines->left_out, 0, memory_order_relaxed);
	return true;
}
