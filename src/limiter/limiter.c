/* limiter.c: one limit with one state for many threads.
 *
 * A slot of 16 bytes holds the state and, in the top 16 bits that slim plans leave clear, the generation of the limit.
 * A step reads the slot, reads the plan of its generation, computes, and does a compare-and-swap. A thread that read a
 * plan while it was being replaced fails to swap, because the generation has moved on. A thread that has nothing to
 * write checks the generation once more. There are two places for plans, used in turn.
 *
 * State that does not fit a slot (logs, segments, limits near 2^64) is decided under the lock. The slot then has the
 * generation LOCKED. A change of the limit may move a limiter from one mode to the other. */
#include "limiter/limiter.h"

#include <stdatomic.h>
#include <string.h>

#include "core/argument.h"
#include "core/log.h"
#include "core/reserve.h"
#include "core/segments.h"
#include "core/small.h"
#include "core/text.h"
#include "os/atomic16.h"
#include "os/canceller.h"
#include "os/pause.h"

enum {
	GENERATION_SHIFT = WEIR__SLIM_BITS - 64,
	GENERATIONS = 0xfffe, /* even, so that the two places for plans alternate also when it wraps */
	LOCKED = 0xffff,
	LEAST_STATE = 24,
};

/* A plan as words that may be read while they are written. */
struct shared_plan {
	_Atomic uint64_t kind_and_flags, count, period, most, room;
};

struct weir_limiter {
	union weir__atomic16 slot;
	_Atomic weir_ns debt_at, debt_until; /* a struct weir__debt; written under the lock or before the swap */
	struct shared_plan plans[2];         /* for even and odd generations */
	struct weir__lock lock;
	uint32_t generation;          /* under the lock: the newest generation that was in the slot */
	struct weir_limit limit;      /* under the lock */
	struct weir__waiters waiters; /* under the lock */
	/* Under the lock: at least LEAST_STATE bytes, so that a plain sliding counter can be widened. */
	uint64_t state[] __attribute__((aligned(64)));
};

_Static_assert(sizeof(struct weir_limiter) + LEAST_STATE <= WEIR_LIMITER_SIZE, "see limiter.h");
_Static_assert(WEIR_KIND_COUNT_ <= UINT32_MAX, "kind_and_flags packs two 32-bit words");

static void publish_plan(struct shared_plan *place, const struct weir_plan *plan)
{
	atomic_store_explicit(&place->kind_and_flags, plan->kind | (uint64_t)plan->flags << 32, memory_order_release);
	atomic_store_explicit(&place->count, plan->count, memory_order_release);
	atomic_store_explicit(&place->period, plan->period, memory_order_release);
	atomic_store_explicit(&place->most, plan->most, memory_order_release);
	atomic_store_explicit(&place->room, plan->room, memory_order_release);
}

/* Acquire, because the generation in the slot must be checked after these loads. The words may be a mix of two plans.
 * Each word is of a valid plan of the same kind, but the generation has then moved on and the result is discarded. */
static inline struct weir_plan read_plan(struct shared_plan *place)
{
	const uint64_t kind_and_flags = atomic_load_explicit(&place->kind_and_flags, memory_order_acquire);

	return (struct weir_plan){
		.kind = (uint32_t)kind_and_flags,
		.flags = (uint32_t)(kind_and_flags >> 32),
		.count = atomic_load_explicit(&place->count, memory_order_acquire),
		.period = atomic_load_explicit(&place->period, memory_order_acquire),
		.most = atomic_load_explicit(&place->most, memory_order_acquire),
	};
}

static struct weir__debt read_debt(struct weir_limiter *limiter)
{
	return (struct weir__debt){
		.at = atomic_load_explicit(&limiter->debt_at, memory_order_acquire),
		.until = atomic_load_explicit(&limiter->debt_until, memory_order_acquire),
	};
}

static void raise_to(_Atomic weir_ns *instant, weir_ns least)
{
	weir_ns seen = atomic_load_explicit(instant, memory_order_relaxed);

	while (seen < least && !atomic_compare_exchange_weak_explicit(instant, &seen, least, memory_order_release,
								      memory_order_relaxed))
		;
}

/* Call this before a state with reserved usage is put into the slot, so that no thread finds it there unexplained. On
 * one clock both instants only rise: when two threads reserve at once, the slower must not hide the reservation of the
 * other. */
static void note_debt(struct weir_limiter *limiter, const struct weir_plan *plan, const struct weir_state *state,
		      weir_ns now)
{
	const struct weir__debt before = read_debt(limiter);
	const struct weir__debt debt = weir__reserve_debt(plan, state, &before, now);

	if (before.at > debt.at) { /* a new clock */
		atomic_store_explicit(&limiter->debt_until, debt.until, memory_order_release);
		atomic_store_explicit(&limiter->debt_at, debt.at, memory_order_release);
	} else {
		raise_to(&limiter->debt_until, debt.until);
		raise_to(&limiter->debt_at, debt.at);
	}
}

static inline bool has_debt(struct weir_limiter *limiter)
{
	return atomic_load_explicit(&limiter->debt_at, memory_order_acquire) != 0;
}

/* Marks the plan if the usage was reserved. Costs one comparison for a limiter that never reserved. */
static inline void mark_debt(struct weir_limiter *limiter, struct weir_plan *plan, const struct weir_state *state,
			     weir_ns now)
{
	if (WEIR__UNLIKELY(has_debt(limiter))) {
		const struct weir__debt debt = read_debt(limiter);

		if (weir__reserve_explains(plan, state, &debt, now))
			plan->flags |= WEIR_PLAN_RESERVED;
	}
}

/* One attempt at a step on the slot. */
struct attempt {
	struct weir_state seen, next;
	uint64_t generation;
	struct weir_plan plan;
};

/* Returns false if the slot is not in use. Then take the lock. */
static bool begin(struct weir_limiter *limiter, struct attempt *attempt, weir_ns now)
{
	attempt->seen = weir__atomic16_load(&limiter->slot);
	attempt->generation = attempt->seen.hi >> GENERATION_SHIFT;
	if (WEIR__UNLIKELY(attempt->generation == LOCKED))
		return false;
	attempt->plan = read_plan(&limiter->plans[attempt->generation & 1]);
	attempt->next.lo = attempt->seen.lo;
	attempt->next.hi = attempt->seen.hi & WEIR__SLIM_HI_MAX;
	mark_debt(limiter, &attempt->plan, &attempt->next, now);
	return true;
}

/* Whether the limit has not changed meanwhile, so that a decision with nothing to write is valid. */
static inline bool is_still(struct weir_limiter *limiter, uint64_t generation)
{
	return __atomic_load_n(&limiter->slot.state.hi, __ATOMIC_ACQUIRE) >> GENERATION_SHIFT == generation;
}

/* Returns false if another thread was faster. */
static inline bool swap(struct weir_limiter *limiter, struct weir_state seen, struct weir_state next,
			uint64_t generation)
{
	next.hi |= generation << GENERATION_SHIFT;
	return WEIR__LIKELY(weir__atomic16_swap(&limiter->slot, seen, next));
}

/* Publishes a decision. Returns false if the step must begin again. */
static inline bool put(struct weir_limiter *limiter, struct weir_state seen, struct weir_state next,
		       uint64_t generation)
{
	if (next.lo == seen.lo && (next.hi | generation << GENERATION_SHIFT) == seen.hi)
		return is_still(limiter, generation);
	if (swap(limiter, seen, next, generation))
		return true;
	weir__back_off();
	return false;
}

static bool finish(struct weir_limiter *limiter, const struct attempt *attempt)
{
	return put(limiter, attempt->seen, attempt->next, attempt->generation);
}

/* Takes the lock if the limiter decides under it. Returns whether it did. */
static bool lock_if_locked(struct weir_limiter *limiter)
{
	weir__lock_acquire(&limiter->lock);
	if (weir__atomic16_load(&limiter->slot).hi >> GENERATION_SHIFT == LOCKED)
		return true;
	weir__lock_release(&limiter->lock);
	return false;
}

/* Under the lock. The state of a small kind. */
static struct weir_state *locked_state(struct weir_limiter *limiter)
{
	return (struct weir_state *)(void *)limiter->state;
}

/* Under the lock. The plan in force. */
static struct weir_plan locked_plan(struct weir_limiter *limiter, weir_ns now)
{
	struct shared_plan *const place = &limiter->plans[limiter->generation & 1];
	struct weir_plan plan = read_plan(place);

	plan.room = atomic_load_explicit(&place->room, memory_order_relaxed);
	if (weir__small_has(&plan))
		mark_debt(limiter, &plan, locked_state(limiter), now);
	return plan;
}

typedef struct weir_verdict step(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

static struct weir_verdict run(struct weir_limiter *limiter, step *take_step, weir_ns now, uint64_t cost)
{
	struct weir_verdict verdict;
	struct attempt attempt;

	for (;;) {
		if (begin(limiter, &attempt, now)) {
			verdict = take_step(&attempt.plan, &attempt.next, now, cost);
			if (finish(limiter, &attempt))
				return verdict;
		} else if (lock_if_locked(limiter)) {
			const struct weir_plan plan = locked_plan(limiter, now);

			verdict = take_step(&plan, limiter->state, now, cost);
			weir__lock_release(&limiter->lock);
			return verdict;
		}
	}
}

static struct weir_verdict allow_only(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	return (struct weir_verdict){ .allowed = weir_step_allow(plan, state, now, cost) };
}

/* Handles every case. Out of line: it passes plan and state by address, which would keep those of the common path in
 * memory instead of registers. */
static __attribute__((noinline)) bool allow_whole(struct weir_limiter *limiter, weir_ns now, uint64_t cost)
{
	return run(limiter, allow_only, now, cost).allowed;
}

/* Retries until it succeeds, without a lock. */
static __attribute__((noinline)) bool allow_small(struct weir_limiter *limiter, weir_ns now, uint64_t cost)
{
	for (;;) {
		const struct weir_state seen = weir__atomic16_load(&limiter->slot);
		const uint64_t generation = seen.hi >> GENERATION_SHIFT;
		struct weir_state next = { seen.lo, seen.hi & WEIR__SLIM_HI_MAX };
		enum weir__answer answer;
		struct weir_plan plan;

		if (WEIR__UNLIKELY(generation == LOCKED || has_debt(limiter)))
			return allow_whole(limiter, now, cost);
		plan = read_plan(&limiter->plans[generation & 1]);
		answer = weir__small_decide(&plan, &next, now, cost);
		if (WEIR__UNLIKELY(answer == WEIR__BEHIND))
			return allow_whole(limiter, now, cost);
		if (WEIR__LIKELY(put(limiter, seen, next, generation)))
			return answer == WEIR__ALLOWED;
	}
}

static __attribute__((noinline)) bool allow_after_back_off(struct weir_limiter *limiter, weir_ns now, uint64_t cost)
{
	weir__back_off();
	return allow_small(limiter, now, cost);
}

/* The first attempt at a smooth bucket, the default, is inline. It makes only tail calls, so it saves few registers.
 * One loop for all kinds was 10 % slower. */
bool weir_limiter_allow(struct weir_limiter *limiter, weir_ns now, uint64_t cost)
{
	const struct weir_state seen = weir__atomic16_load(&limiter->slot);
	const uint64_t generation = seen.hi >> GENERATION_SHIFT;

	if (WEIR__LIKELY(generation != LOCKED && !has_debt(limiter))) {
		const struct weir_plan plan = read_plan(&limiter->plans[generation & 1]);
		struct weir_state next = { seen.lo, seen.hi & WEIR__SLIM_HI_MAX };

		if (WEIR__LIKELY(plan.kind == WEIR_KIND_BUCKET)) {
			const enum weir__answer answer = weir__bucket_decide(&plan, &next, now, cost, false);

			if (answer == WEIR__ALLOWED)
				return swap(limiter, seen, next, generation) ? true :
									       allow_after_back_off(limiter, now, cost);
			if (answer == WEIR__DENIED && WEIR__LIKELY(is_still(limiter, generation)))
				return false;
		}
	}
	return allow_small(limiter, now, cost);
}

struct weir_verdict weir_limiter_take(struct weir_limiter *limiter, weir_ns now, uint64_t cost)
{
	return run(limiter, weir_step_take, now, cost);
}

struct weir_verdict weir_limiter_upto(struct weir_limiter *limiter, weir_ns now, uint64_t cost)
{
	return run(limiter, weir_step_upto, now, cost);
}

struct weir_verdict weir_limiter_peek(struct weir_limiter *limiter, weir_ns now, uint64_t cost)
{
	return run(limiter, weir_step_peek, now, cost);
}

struct weir_verdict weir_limiter_refund(struct weir_limiter *limiter, weir_ns now, uint64_t n)
{
	return run(limiter, weir_step_refund, now, n);
}

uint64_t weir_limiter_tokens(struct weir_limiter *limiter, weir_ns now)
{
	return weir_limiter_peek(limiter, now, 0).remaining;
}

struct weir_tokens weir_limiter_tokens_exact(struct weir_limiter *limiter, weir_ns now)
{
	struct weir_tokens tokens;
	struct attempt attempt;

	for (;;) {
		if (begin(limiter, &attempt, now)) {
			tokens = weir_step_tokens(&attempt.plan, &attempt.next, now);
			if (finish(limiter, &attempt))
				return tokens;
		} else if (lock_if_locked(limiter)) {
			const struct weir_plan plan = locked_plan(limiter, now);

			tokens = weir_step_tokens(&plan, limiter->state, now);
			weir__lock_release(&limiter->lock);
			return tokens;
		}
	}
}

static size_t needed_size(const struct weir_plan *plan)
{
	const size_t state = weir_plan_state_size(plan);

	return sizeof(struct weir_limiter) + (state > LEAST_STATE ? state : LEAST_STATE);
}

size_t weir_limiter_size(const struct weir_limit *limit)
{
	struct weir_plan plan;

	if (weir_plan_compile(limit, &plan, NULL) != WEIR_OK)
		return 0;
	return needed_size(&plan);
}

int weir_limiter_init(void *memory, size_t size, const struct weir_limit *limit, struct weir_limiter **ret_limiter,
		      struct weir_message *ret_message)
{
	WEIR__NOT_NULL(memory, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(ret_limiter, ret_message);

	struct weir_limiter *limiter = memory;
	struct weir_plan plan;
	size_t needed;
	int error;

	error = weir_plan_compile(limit, &plan, ret_message);
	if (error != WEIR_OK)
		return error;
	needed = needed_size(&plan);
	error = weir__argument_memory(memory, size, needed, WEIR_LIMITER_ALIGN, "limiter", ret_message);
	if (error != WEIR_OK)
		return error;
	if (plan.kind == WEIR_KIND_LOG)
		plan.room += (size - needed) / sizeof(struct weir__event);
	/* For a log, clear only the header: entries are written before they are read, so their pages need not be
	 * touched yet. */
	memset(limiter, 0, plan.kind == WEIR_KIND_LOG ? sizeof(*limiter) + weir__log_size(0) : needed);
	limiter->limit = *limit;
	publish_plan(&limiter->plans[0], &plan);
	publish_plan(&limiter->plans[1], &plan);
	if (!(plan.flags & WEIR_PLAN_SLIM))
		limiter->slot.state.hi = (uint64_t)LOCKED << GENERATION_SHIFT;
	*ret_limiter = limiter;
	return WEIR_OK;
}

int weir_limiter_init_text(void *memory, size_t size, const char *text, struct weir_limiter **ret_limiter,
			   struct weir_message *ret_message)
{
	WEIR__NOT_NULL(memory, ret_message);
	WEIR__NOT_NULL(text, ret_message);
	WEIR__NOT_NULL(ret_limiter, ret_message);

	struct weir_limit limit;
	const int error = weir_limit_parse(text, strlen(text), &limit, ret_message);

	return error != WEIR_OK ? error : weir_limiter_init(memory, size, &limit, ret_limiter, ret_message);
}

struct weir_limit weir_limiter_limit(struct weir_limiter *limiter)
{
	struct weir_limit limit;

	weir__lock_acquire(&limiter->lock);
	limit = limiter->limit;
	weir__lock_release(&limiter->lock);
	return limit;
}

/* Under the lock. Whether the waiter still waits for its reservation. */
static bool is_pending(const struct weir__waiter *waiter, weir_ns now)
{
	return waiter->cost > 0 && waiter->reservation.cost > 0 && waiter->reservation.act_at > now;
}

/* Under the lock. Converts a state, and the debt that explains it, if any. The reservations of waiting threads are
 * first given back, then made again in the same order under the new limit. */
static void convert(struct weir_limiter *limiter, const struct weir_plan *from, const struct weir_plan *to, void *state,
		    weir_ns now)
{
	struct weir_plan in_debt = *to;
	bool is_debt = from->flags & WEIR_PLAN_RESERVED;

	for (struct weir__waiter *waiter = limiter->waiters.last; waiter; waiter = waiter->previous)
		if (is_pending(waiter, now))
			weir_step_refund(from, state, now, weir__add_saturating(waiter->cost, waiter->inherited));
	weir_step_convert(from, to, state, now);
	in_debt.flags |= WEIR_PLAN_RESERVED;
	for (struct weir__waiter *waiter = limiter->waiters.first; waiter; waiter = waiter->next)
		if (is_pending(waiter, now)) {
			weir__reserve_take(&in_debt, state, now, waiter->cost, WEIR_NEVER, &waiter->after_change);
			is_debt = true;
		}
	if (is_debt)
		note_debt(limiter, to, state, now);
}

/* Under the lock, after a change. Passes the new instants to the waiting threads and wakes them. */
static void tell_waiters(struct weir_limiter *limiter, weir_ns now)
{
	for (struct weir__waiter *waiter = limiter->waiters.first; waiter; waiter = waiter->next) {
		if (is_pending(waiter, now)) {
			const bool has_hope = waiter->after_change.cost > 0;

			waiter->reservation = waiter->after_change;
			waiter->inherited = 0;
			__atomic_store_n(&waiter->act_at, has_hope ? waiter->reservation.act_at : WEIR_NEVER,
					 __ATOMIC_RELEASE);
		}
		weir__canceller_poke(waiter->canceller);
	}
}

/* Under the lock. Swaps the slot to the new plan, while other threads decide in it. */
static void change_slot(struct weir_limiter *limiter, weir_ns now, const struct weir_plan *to, uint32_t generation)
{
	struct attempt attempt;

	do {
		const bool is_open = begin(limiter, &attempt, now);

		WEIR__HOLDS(is_open); /* only the thread that holds the lock closes the slot */
		(void)is_open;
		*locked_state(limiter) = attempt.next;
		convert(limiter, &attempt.plan, to, limiter->state, now);
		attempt.next = *locked_state(limiter);
		if (!(to->flags & WEIR_PLAN_SLIM)) {
			attempt.next = (struct weir_state){ 0, 0 };
			generation = LOCKED;
		}
		attempt.next.hi |= (uint64_t)generation << GENERATION_SHIFT;
	} while (!weir__atomic16_swap(&limiter->slot, attempt.seen, attempt.next));
}

/* Under the lock, for a limiter whose slot is closed. Opens the slot if the new plan is slim. */
static void change_locked(struct weir_limiter *limiter, weir_ns now, const struct weir_plan *from,
			  const struct weir_plan *to, uint32_t generation)
{
	struct weir_state open;

	convert(limiter, from, to, limiter->state, now);
	if (!(to->flags & WEIR_PLAN_SLIM))
		return;
	open = *locked_state(limiter);
	open.hi |= (uint64_t)generation << GENERATION_SHIFT;
	while (!weir__atomic16_swap(&limiter->slot, weir__atomic16_load(&limiter->slot), open))
		;
}

int weir_limiter_change(struct weir_limiter *limiter, weir_ns now, const struct weir_limit *limit,
			struct weir_message *ret_message)
{
	WEIR__NOT_NULL(limiter, ret_message);
	WEIR__NOT_NULL(limit, ret_message);

	struct weir_plan from, to;
	uint32_t generation;
	int error;

	error = weir_plan_compile(limit, &to, ret_message);
	if (error != WEIR_OK)
		return error;
	weir__lock_acquire(&limiter->lock);
	from = locked_plan(limiter, now);
	/* Once wide, a counter stays wide: it may have counted more than fits 32 bits. */
	if (from.kind == WEIR_KIND_SEGMENTS && to.kind == WEIR_KIND_COUNTER)
		weir__segments_widen(&to);
	error = weir_step_convertible(&from, &to, ret_message);
	if (error == WEIR_OK) {
		if (to.kind == WEIR_KIND_LOG)
			to.room = from.room;
		generation = (limiter->generation + 1) % GENERATIONS;
		publish_plan(&limiter->plans[generation & 1], &to);
		if (weir__atomic16_load(&limiter->slot).hi >> GENERATION_SHIFT == LOCKED)
			change_locked(limiter, now, &from, &to, generation);
		else
			change_slot(limiter, now, &to, generation);
		limiter->generation = generation;
		limiter->limit = *limit;
		tell_waiters(limiter, now);
	}
	weir__lock_release(&limiter->lock);
	return error;
}

static struct weir_verdict reserve_in(struct weir_limiter *limiter, const struct weir_plan *plan,
				      struct weir_state *state, weir_ns now, uint64_t cost, weir_ns max_wait,
				      struct weir_reservation *ret_reservation)
{
	const struct weir_verdict verdict = weir__reserve_take(plan, state, now, cost, max_wait, ret_reservation);

	if (verdict.granted > 0)
		note_debt(limiter, plan, state, now);
	return verdict;
}

bool weir__limiter_can_reserve(struct weir_limiter *limiter)
{
	const struct weir_plan plan = read_plan(&limiter->plans[0]); /* kind and options never change */

	return weir__reserve_has(&plan);
}

int weir_limiter_reserve(struct weir_limiter *limiter, weir_ns now, uint64_t cost, weir_ns max_wait,
			 struct weir_reservation *ret_reservation, struct weir_verdict *ret_verdict)
{
	struct attempt attempt;

	if (weir__limiter_shapes(limiter)) {
		*ret_verdict = weir__limiter_depart(limiter, now, cost, max_wait, ret_reservation);
		return WEIR_OK;
	}
	if (!weir__limiter_can_reserve(limiter))
		return WEIR_ERR_UNSUPPORTED;
	for (;;) {
		if (begin(limiter, &attempt, now)) {
			*ret_verdict = reserve_in(limiter, &attempt.plan, &attempt.next, now, cost, max_wait,
						  ret_reservation);
			if (finish(limiter, &attempt))
				return WEIR_OK;
		} else if (lock_if_locked(limiter)) {
			const struct weir_plan plan = locked_plan(limiter, now);

			*ret_verdict = reserve_in(limiter, &plan, locked_state(limiter), now, cost, max_wait,
						  ret_reservation);
			weir__lock_release(&limiter->lock);
			return WEIR_OK;
		}
	}
}

struct weir__lock *weir__limiter_lock(struct weir_limiter *limiter)
{
	return &limiter->lock;
}

struct weir__waiters *weir__limiter_waiters(struct weir_limiter *limiter)
{
	return &limiter->waiters;
}

struct weir_verdict weir__limiter_reserve_held(struct weir_limiter *limiter, weir_ns now, uint64_t cost,
					       weir_ns max_wait, struct weir_reservation *ret_reservation)
{
	struct weir_verdict verdict;
	struct attempt attempt;
	struct weir_plan plan;

	while (begin(limiter, &attempt, now)) {
		verdict = reserve_in(limiter, &attempt.plan, &attempt.next, now, cost, max_wait, ret_reservation);
		if (finish(limiter, &attempt))
			return verdict;
	}
	plan = locked_plan(limiter, now);
	return reserve_in(limiter, &plan, locked_state(limiter), now, cost, max_wait, ret_reservation);
}

bool weir__limiter_shapes(struct weir_limiter *limiter)
{
	return read_plan(&limiter->plans[0]).flags & WEIR_PLAN_SHAPE; /* options never change */
}

struct weir_verdict weir__limiter_depart(struct weir_limiter *limiter, weir_ns now, uint64_t cost, weir_ns max_wait,
					 struct weir_reservation *ret_departure)
{
	struct weir_verdict verdict;
	struct attempt attempt;

	for (;;) {
		if (begin(limiter, &attempt, now)) {
			verdict = weir__reserve_departure(&attempt.plan, &attempt.next, now, cost, max_wait,
							  ret_departure);
			if (finish(limiter, &attempt))
				return verdict;
		} else if (lock_if_locked(limiter)) {
			const struct weir_plan plan = locked_plan(limiter, now);

			verdict = weir__reserve_departure(&plan, locked_state(limiter), now, cost, max_wait,
							  ret_departure);
			weir__lock_release(&limiter->lock);
			return verdict;
		}
	}
}

void weir__limiter_refund_held(struct weir_limiter *limiter, weir_ns now, uint64_t n)
{
	struct attempt attempt;
	struct weir_plan plan;

	while (begin(limiter, &attempt, now)) {
		weir_step_refund(&attempt.plan, &attempt.next, now, n);
		if (finish(limiter, &attempt))
			return;
	}
	plan = locked_plan(limiter, now);
	weir_step_refund(&plan, limiter->state, now, n);
}

uint64_t weir__limiter_cancel_held(struct weir_limiter *limiter, weir_ns now, struct weir_reservation *reservation)
{
	struct attempt attempt;
	struct weir_plan plan;
	uint64_t given;

	while (begin(limiter, &attempt, now)) {
		given = weir__reserve_cancel(&attempt.plan, &attempt.next, now, reservation);
		if (finish(limiter, &attempt)) {
			reservation->cost = 0;
			return given;
		}
	}
	plan = locked_plan(limiter, now);
	given = weir__reserve_cancel(&plan, locked_state(limiter), now, reservation);
	reservation->cost = 0;
	return given;
}

uint64_t weir_limiter_cancel(struct weir_limiter *limiter, weir_ns now, struct weir_reservation *reservation)
{
	uint64_t given;

	if (!weir__limiter_can_reserve(limiter) && !weir__limiter_shapes(limiter))
		return 0;
	weir__lock_acquire(&limiter->lock);
	given = weir__limiter_cancel_held(limiter, now, reservation);
	weir__lock_release(&limiter->lock);
	return given;
}
