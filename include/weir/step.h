/* step.h: the algorithms as arithmetic.
 *
 * A step is (plan, state, now, cost) -> (state, answer). It reads no clock, takes no lock, allocates nothing and
 * cannot fail. Where state lives, and what makes a step atomic, is a store's business: limiter.h is the smallest one.
 *
 * State is weir_plan_state_size bytes, aligned to 8 (16 for the atomics of stores). All zero is fresh: a key that was
 * never seen, a bucket that is whole, a window that is over. Forgetting a fresh key changes no answer. State holds no
 * pointers; it means something only under the plan it was made by (weir_step_convert carries it over to another).
 *
 * Rules for all:
 * - A denial leaves the state as it was (but see clocks below). Under count_all a take counts whatever the answer, so a
 *   store that decides several limits together and is denied by one takes from those that count all.
 * - A cost of 0 is always admitted and changes nothing. A cost above plan->most is denied for ever.
 * - `now` may be earlier than before. By up to 60 s, nothing extra is admitted: instants stand where they were. By
 *   more it is a new clock: what is owed is kept, but never more than one full burst or window from that moment on.
 *   Noticing a new clock changes the state even where the request is denied, or only peeks.
 * - The step back is what the state shows: from the time at which a bucket that owes so much was empty, from the
 *   start of a window or interval, from the newest event of a log. */
#ifndef WEIR_STEP_H
#define WEIR_STEP_H

#include <weir/plan.h>
#include <weir/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The state of every constant-size kind, 128 bits. What the words hold is private to the kind; stores may rely on
 * this: zero is fresh, and under a plan with WEIR_PLAN_SLIM the top 16 bits of hi are always 0. */
struct weir_state {
	uint64_t lo, hi;
};

/* Admits and charges cost, or not. The fastest step: no division on the common path, nothing else is told. */
WEIR_API bool weir_step_allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* The same decision with everything there is to say about it. */
WEIR_API struct weir_verdict weir_step_take(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* Charges as many as there are, at most cost; verdict.granted tells. None there: denied, and retry_after is until
 * there is one. */
WEIR_API struct weir_verdict weir_step_upto(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* What take would answer, without charging: remaining and reset_after are those of now. Counts nothing even under
 * count_all. */
WEIR_API struct weir_verdict weir_step_peek(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* Gives n back, never above full: always allowed. A log gives back its newest events, a sliding counter first what
 * the current window counted. */
WEIR_API struct weir_verdict weir_step_refund(const struct weir_plan *plan, void *state, weir_ns now, uint64_t n);

/* Carries state over from one plan to another of the same limit with another rate or burst. A bucket keeps its tokens,
 * cut to the new burst; one that was full is not, under a larger burst. What it owes beyond empty stays owed. With
 * refill interval a new period starts at the change. A window keeps what it has counted.
 * Only what weir_step_convertible accepts may be converted, in memory that has room for either state; a log keeps its
 * ring, so `to->room` must be set to `from->room`. */
WEIR_API void weir_step_convert(const struct weir_plan *from, const struct weir_plan *to, void *state, weir_ns now);

/* 0, or WEIR_ERR_CHANGE: the kind, the options or, for windows, the period would change. WEIR_ERR_ROOM: the state has
 * no room for so many events. */
WEIR_API int weir_step_convertible(const struct weir_plan *from, const struct weir_plan *to,
				   struct weir_message *ret_message);

#ifdef __cplusplus
}
#endif
#endif
