/* step.h: the algorithms as arithmetic, for your own stores.
 *
 * A step is (plan, state, now, cost) -> (state, verdict). It reads no clock, takes no lock, allocates nothing and
 * cannot fail. You own the state, and you make a step atomic: two threads must not step the same state at once.
 * limiter.h is the smallest store.
 *
 *     struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, 10, UINT64_C(1000000000));      10/s
 *     struct weir_state state = { 0, 0 };
 *     struct weir_plan plan;
 *
 *     if (weir_plan_compile(&limit, &plan, NULL) == WEIR_OK && weir_step_allow(&plan, &state, weir_clock_now(), 1))
 *             serve();
 *
 * State is weir_plan_state_size bytes, aligned to 8 (16 for the atomics of stores). All zero means nothing is used: a
 * key that was never seen, a full bucket, a window that has reset. Dropping the state of such a key changes no
 * decision. State holds no pointers. It has a meaning only under the plan it was made by; weir_step_convert carries it
 * over to another plan.
 *
 * Rules for all:
 * - A denial leaves the state unchanged (but see clocks below). Under count_all a take counts whether it is allowed or
 *   denied. A store that decides several limits together, and is denied by one of them, must therefore still take from
 *   the limits that count all.
 * - A cost of 0 is always allowed and changes nothing. A cost above plan->most is always denied.
 * - `now` may be earlier than before. If it steps back by up to 60 s, nothing extra is allowed: the instants in the
 *   state stay. If it steps back further, it is a new clock: usage is kept, but cut to one burst or window from that
 *   moment on. Noticing a new clock changes the state even if the request is denied or only peeks.
 * - How far `now` stepped back is measured from an instant in the state: when a bucket with this usage was empty, when
 *   a window or interval started, or the newest event of a log.
 *
 * Refill interval: the first charge of a full bucket starts an interval of one period. At the end of each interval
 * `count` tokens flow in at once, up to the burst, and the next interval starts, until the bucket is full again. A
 * denial or a cost of 0 starts nothing. Only a charge, a refund or a change of the limit moves the interval in the
 * state on. After a step back of up to 60 s no tokens flow in before that interval ends. A new clock starts a new
 * interval. */
#ifndef WEIR_STEP_H
#define WEIR_STEP_H

#include <weir/plan.h>
#include <weir/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The 128-bit state of every kind whose state has a constant size. The meaning of the words is private to the kind.
 * Stores may rely on two facts. All zero means that nothing is used. Under a plan with WEIR_PLAN_SLIM the top 16 bits
 * of hi are always 0. */
struct weir_state {
	uint64_t lo, hi;
};

/* Charges cost if that many units are left, and returns whether it did. This is the fastest step: it does not divide on
 * the common path, and returns no verdict. */
WEIR_API bool weir_step_allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* The same decision with the full verdict. */
WEIR_API struct weir_verdict weir_step_take(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* Charges as many units as are left, at most cost. Their number is verdict.granted. If no unit is left, the request is
 * denied, and retry_after is the time until one is. */
WEIR_API struct weir_verdict weir_step_upto(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* Returns the verdict that take would give, without charging. remaining and reset_after describe the state now. Peeking
 * counts nothing, even under count_all. */
WEIR_API struct weir_verdict weir_step_peek(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* Returns what is left now as an exact number. Charges and counts nothing. */
WEIR_API struct weir_tokens weir_step_tokens(const struct weir_plan *plan, void *state, weir_ns now);

/* Gives back n units, at most what is used. The verdict is always allowed. A log gives back its newest events. A
 * sliding counter first gives back what the current window counted. */
WEIR_API struct weir_verdict weir_step_refund(const struct weir_plan *plan, void *state, weir_ns now, uint64_t n);

/* Carries state over from one plan of a limit to another with a different rate or burst. A bucket keeps what was used,
 * cut to the new burst, so a full bucket stays full. Usage beyond the burst, which reservations caused, stays. A
 * fraction that the new unit of 1/count ns cannot hold is rounded up, towards waiting longer. With refill interval,
 * tokens that are due at the change flow in by the old plan. If the period stays, the current interval goes on and ends
 * with the new count of tokens. If the period changes, a new interval starts at the change. A window keeps what it has
 * counted.
 *
 * Convert only what weir_step_convertible accepts, in memory that has room for both states. A log keeps its ring, so
 * set `to->room` to `from->room`. */
WEIR_API void weir_step_convert(const struct weir_plan *from, const struct weir_plan *to, void *state, weir_ns now);

/* Returns WEIR_OK if weir_step_convert accepts these plans. WEIR_ERR_CHANGE: the kind, the options or, for windows, the
 * period would change. WEIR_ERR_ROOM: a log's state has no room for the events of the new count. */
WEIR_API int weir_step_convertible(const struct weir_plan *from, const struct weir_plan *to,
				   struct weir_message *ret_message);

#ifdef __cplusplus
}
#endif
#endif
