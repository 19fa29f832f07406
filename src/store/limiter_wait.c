/* limiter_wait.c: waiting for a limiter.
 *
 * Where a limiter can reserve, a wait is a reservation: made once, in order of arrival, and then slept on until its own
 * instant; nobody polls and nobody is woken for another. Else the thread sleeps for the exact retry_after and asks again.
 * Either way it is in the limiter's list meanwhile, so that a change of the limit finds it. */
#include "store/limiter.h"

#include "os/canceller.h"

static void join(struct weir__waiters *waiters, struct weir__waiter *self)
{
	self->previous = waiters->last;
	self->next = NULL;
	*(waiters->last ? &waiters->last->next : &waiters->first) = self;
	waiters->last = self;
}

static void leave(struct weir__waiters *waiters, struct weir__waiter *self)
{
	*(self->previous ? &self->previous->next : &waiters->first) = self->next;
	*(self->next ? &self->next->previous : &waiters->last) = self->previous;
}

/* Sleeps until the reservation may act, or need not be waited for any more. */
static int sleep_until_act(struct weir__waiter *self, weir_ns deadline)
{
	for (;;) {
		/* The word first: a change stores act_at before it changes the word. */
		const uint32_t word = weir__canceller_word(self->canceller);
		const weir_ns act_at = __atomic_load_n(&self->act_at, __ATOMIC_ACQUIRE);
		const weir_ns now = weir_clock_now();

		if (act_at == WEIR_NEVER)
			return WEIR_ERR_NEVER;
		if (act_at <= now)
			return WEIR_OK;
		if (weir__canceller_says_cancelled(word))
			return WEIR_ERR_CANCELLED;
		if (act_at > deadline)
			return WEIR_ERR_DEADLINE;
		weir__canceller_sleep_until(self->canceller, word, now, act_at);
	}
}

static int wait_by_reservation(struct weir_limiter *limiter, struct weir__waiter *self, weir_ns deadline)
{
	struct weir__lock *const lock = weir__limiter_lock(limiter);
	struct weir_verdict verdict;
	weir_ns now;
	int error;

	weir__lock_acquire(lock);
	now = weir_clock_now(); /* under the lock: the order of the list is the order of time */
	verdict = weir__limiter_reserve_held(limiter, now, self->cost, deadline > now ? deadline - now : 0,
					     &self->reservation);
	self->act_at = self->reservation.act_at;
	if (verdict.allowed && verdict.delay > 0)
		join(weir__limiter_waiters(limiter), self);
	weir__lock_release(lock);
	if (!verdict.allowed)
		return verdict.never ? WEIR_ERR_NEVER : WEIR_ERR_DEADLINE;
	if (verdict.delay == 0)
		return WEIR_OK;

	error = sleep_until_act(self, deadline);
	weir__lock_acquire(lock);
	leave(weir__limiter_waiters(limiter), self);
	weir__lock_release(lock);
	if (error == WEIR_ERR_CANCELLED || error == WEIR_ERR_DEADLINE)
		weir_limiter_cancel(limiter, weir_clock_now(), &self->reservation);
	return error;
}

/* A shaping bucket's request was admitted at now; it departs after the delay. A change of the limit does not move it. */
static int wait_for_departure(struct weir_limiter *limiter, struct weir__waiter *self, uint64_t cost,
			      weir_ns departs_at, weir_ns deadline)
{
	int error;

	self->act_at = departs_at;
	error = sleep_until_act(self, deadline);
	if (error != WEIR_OK)
		weir_limiter_refund(limiter, weir_clock_now(), cost);
	return error;
}

static int wait_by_asking(struct weir_limiter *limiter, struct weir__waiter *self, uint64_t cost, weir_ns deadline)
{
	for (;;) {
		/* The word first: a change after the question changes it, and the sleep is none. */
		const uint32_t word = weir__canceller_word(self->canceller);
		const weir_ns now = weir_clock_now();
		const struct weir_verdict verdict = weir_limiter_take(limiter, now, cost);

		if (verdict.allowed)
			return wait_for_departure(limiter, self, cost, weir__add_saturating(now, verdict.delay),
						  deadline);
		if (verdict.never)
			return WEIR_ERR_NEVER;
		if (weir__canceller_says_cancelled(word))
			return WEIR_ERR_CANCELLED;
		if (weir__add_saturating(now, verdict.retry_after) > deadline)
			return WEIR_ERR_DEADLINE;
		weir__canceller_sleep_until(self->canceller, word, now, weir__add_saturating(now, verdict.retry_after));
	}
}

int weir_limiter_wait(struct weir_limiter *limiter, uint64_t cost, weir_ns deadline, struct weir_canceller *canceller)
{
	struct weir__lock *const lock = weir__limiter_lock(limiter);
	struct weir_canceller own = { 0 };
	struct weir__waiter self = { .canceller = canceller ? canceller : &own };
	int error;

	if (cost == 0)
		return WEIR_OK;
	if (weir__limiter_can_reserve(limiter)) {
		self.cost = cost;
		return wait_by_reservation(limiter, &self, deadline);
	}
	weir__lock_acquire(lock);
	join(weir__limiter_waiters(limiter), &self);
	weir__lock_release(lock);
	error = wait_by_asking(limiter, &self, cost, deadline);
	weir__lock_acquire(lock);
	leave(weir__limiter_waiters(limiter), &self);
	weir__lock_release(lock);
	return error;
}
