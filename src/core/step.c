/* step.c: the public steps, built from what each kind of plan provides (algorithm.h).
 * The reasons are in docs/internals/core.md. */
#include "core/step.h"

#include "core/algorithm.h"
#include "core/argument.h"
#include "core/small.h"
#include "core/text.h"

static const struct weir__algorithm *const algorithms[] = {
	[WEIR_KIND_BUCKET] = &weir__bucket_algorithm,     [WEIR_KIND_INTERVAL] = &weir__interval_algorithm,
	[WEIR_KIND_WINDOW] = &weir__window_algorithm,     [WEIR_KIND_COUNTER] = &weir__counter_algorithm,
	[WEIR_KIND_SEGMENTS] = &weir__segments_algorithm, [WEIR_KIND_LOG] = &weir__log_algorithm,
};

static bool counts_denied(const struct weir_plan *plan)
{
	return plan->flags & WEIR_PLAN_COUNT_ALL;
}

/* For kinds with more state, and when the clock is behind. Out of line, so that the other paths need no stack frame for
 * it. */
static __attribute__((noinline)) bool allow_whole(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	if (algorithms[plan->kind]->allow(plan, state, now, cost))
		return true;
	if (counts_denied(plan) && !weir__small_has(plan)) /* a fixed window has already counted it */
		algorithms[plan->kind]->count_denied(plan, state, now, cost);
	return false;
}

/* One function per kind, so that each saves only the registers that it needs. */
#define ALLOW(kind)                                                                                                    \
	static bool allow_##kind(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)                \
	{                                                                                                              \
		const enum weir__answer answer = weir__##kind##_decide(plan, state, now, cost, false);                 \
                                                                                                                       \
		if (WEIR__UNLIKELY(answer == WEIR__BEHIND))                                                            \
			return allow_whole(plan, state, now, cost);                                                    \
		return answer == WEIR__ALLOWED;                                                                        \
	}

ALLOW(bucket)
ALLOW(interval)
ALLOW(window)
ALLOW(counter)

bool weir_step_allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	static bool (*const allow[])(const struct weir_plan *, void *, weir_ns, uint64_t) = {
		[WEIR_KIND_BUCKET] = allow_bucket,  [WEIR_KIND_INTERVAL] = allow_interval,
		[WEIR_KIND_WINDOW] = allow_window,  [WEIR_KIND_COUNTER] = allow_counter,
		[WEIR_KIND_SEGMENTS] = allow_whole, [WEIR_KIND_LOG] = allow_whole,
	};

	return allow[plan->kind](plan, state, now, cost);
}

/* Kinds with a struct weir_state have no fits: allow on a copy gives the same result. */
static bool fits(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	const struct weir__algorithm *const algorithm = algorithms[plan->kind];
	struct weir_state copy;

	if (algorithm->fits)
		return algorithm->fits(plan, state, now, cost);
	copy = *(const struct weir_state *)state;
	return algorithm->allow(plan, &copy, now, cost);
}

static struct weir_verdict verdict_before(const struct weir_plan *plan, const void *state, weir_ns now)
{
	struct weir_verdict verdict = { .limit = plan->most };

	if (plan->flags & WEIR_PLAN_SHAPE)
		verdict.delay = weir__saturate(weir__div_up(weir__bucket_used(plan, state, now), plan->count));
	return verdict;
}

/* Fills in the fields of a denial. Under count_all, call it after the denied cost is counted. */
static void explain_denial(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost,
			   struct weir_verdict *verdict)
{
	verdict->delay = 0;
	verdict->never = cost > plan->most;
	verdict->retry_after = verdict->never ? WEIR_NEVER :
						algorithms[plan->kind]->retry_after(plan, state, now, cost);
}

struct weir_verdict weir_step_take(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	const struct weir__algorithm *const algorithm = algorithms[plan->kind];
	struct weir_verdict verdict;

	algorithm->notice(plan, state, now);
	verdict = verdict_before(plan, state, now);
	verdict.allowed = weir_step_allow(plan, state, now, cost);
	if (verdict.allowed)
		verdict.granted = cost;
	else
		explain_denial(plan, state, now, cost, &verdict);
	algorithm->level(plan, state, now, &verdict);
	return verdict;
}

struct weir_verdict weir_step_peek(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	const struct weir__algorithm *const algorithm = algorithms[plan->kind];
	struct weir_verdict verdict;

	algorithm->notice(plan, state, now);
	verdict = verdict_before(plan, state, now);
	verdict.allowed = fits(plan, state, now, cost);
	if (!verdict.allowed)
		explain_denial(plan, state, now, cost, &verdict);
	algorithm->level(plan, state, now, &verdict);
	return verdict;
}

struct weir_tokens weir_step_tokens(const struct weir_plan *plan, void *state, weir_ns now)
{
	const struct weir__algorithm *const algorithm = algorithms[plan->kind];
	struct weir_verdict verdict;

	algorithm->notice(plan, state, now);
	if (plan->kind == WEIR_KIND_BUCKET)
		return weir__bucket_tokens(plan, state, now);
	algorithm->level(plan, state, now, &verdict);
	return (struct weir_tokens){ verdict.remaining, 0, 1 };
}

struct weir_verdict weir_step_upto(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	const struct weir__algorithm *const algorithm = algorithms[plan->kind];
	struct weir_verdict verdict;

	algorithm->notice(plan, state, now);
	verdict = verdict_before(plan, state, now);
	algorithm->level(plan, state, now, &verdict);
	verdict.granted = weir__min(cost, verdict.remaining);
	verdict.allowed = verdict.granted > 0 || cost == 0;
	if (verdict.allowed) {
		algorithm->allow(plan, state, now, verdict.granted);
	} else {
		if (counts_denied(plan))
			algorithm->count_denied(plan, state, now, cost);
		explain_denial(plan, state, now, 1, &verdict);
	}
	algorithm->level(plan, state, now, &verdict);
	return verdict;
}

struct weir_verdict weir_step_refund(const struct weir_plan *plan, void *state, weir_ns now, uint64_t n)
{
	struct weir_verdict verdict = { .allowed = true, .limit = plan->most };

	algorithms[plan->kind]->notice(plan, state, now);
	algorithms[plan->kind]->refund(plan, state, now, n);
	algorithms[plan->kind]->level(plan, state, now, &verdict);
	return verdict;
}

struct weir_verdict weir__step_undo(const struct weir_plan *plan, void *state, weir_ns now,
				    const struct weir__charge *charge, uint64_t n)
{
	struct weir_verdict verdict = { .allowed = true, .limit = plan->most };

	algorithms[plan->kind]->notice(plan, state, now);
	if (!counts_denied(plan))
		verdict.granted = algorithms[plan->kind]->undo(plan, state, now, charge, weir__min(n, charge->cost));
	algorithms[plan->kind]->level(plan, state, now, &verdict);
	return verdict;
}

void weir_step_convert(const struct weir_plan *from, const struct weir_plan *to, void *state, weir_ns now)
{
	algorithms[from->kind]->convert(from, to, state, now);
}

/* A plain sliding counter whose count outgrows 32 bits. */
static bool widens(const struct weir_plan *from, const struct weir_plan *to)
{
	return from->kind == WEIR_KIND_COUNTER && to->kind == WEIR_KIND_SEGMENTS && to->room == 1;
}

static int refuse(struct weir_message *ret_message, const char *words)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, words);
	return WEIR_ERR_CHANGE;
}

int weir_step_convertible(const struct weir_plan *from, const struct weir_plan *to, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(from, ret_message);
	WEIR__NOT_NULL(to, ret_message);

	const uint32_t options = WEIR_PLAN_SHAPE | WEIR_PLAN_FIRST | WEIR_PLAN_COUNT_ALL;
	const bool is_bucket = from->kind == WEIR_KIND_BUCKET || from->kind == WEIR_KIND_INTERVAL;
	struct weir__text why;

	if ((from->kind != to->kind && !widens(from, to)) || (from->flags & options) != (to->flags & options) ||
	    (from->kind == WEIR_KIND_SEGMENTS && from->room != to->room))
		return refuse(
			ret_message,
			"a limit in use keeps its algorithm and options; only the rate and burst of a bucket, or the count of a window, may change");
	if (!is_bucket && from->period != to->period)
		return refuse(ret_message, "a window in use keeps its period; only its count may change");
	if (from->kind == WEIR_KIND_LOG && to->most > from->room) {
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why, "the log has room for ");
		weir__text_add_number(&why, from->room);
		weir__text_add(&why, " events; a count above that needs one with more memory");
		return WEIR_ERR_ROOM;
	}
	return WEIR_OK;
}
