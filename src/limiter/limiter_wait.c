/* limiter_wait.c: waiting for a limiter.
 *
 * If the limiter can reserve, a wait is a reservation. The thread makes it once, in order of arrival, and sleeps until
 * its own instant. No thread polls, and none is woken for another. A bucket that shapes has departures instead of
 * reservations. For all other limits the thread sleeps for the exact retry_after and tries again. Either way the thread
 * is in the limiter's list meanwhile, so that a change of the limit finds it. */
#include "limiter/limiter.h"

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

/* Sleeps until the reservation may act, or the wait must end. */
static int sleep_until_act(struct weir__waiter *self, weir_ns deadline)
{
	for (;;) {
		/* Read the word first: a change stores act_at before it changes the word. */
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

static weir_ns time_left(weir_ns now, weir_ns deadline)
{
	return deadline > now ? deadline - now : 0;
}

/* Gives back what a wait has reserved. The part that later waits were built upon passes to the next of them. It comes
 * back when that wait is cancelled, too, or when the limit changes. If that wait is served instead, the time has passed
 * unused. */
static void give_back(struct weir_limiter *limiter, struct weir__waiter *self, weir_ns now)
{
	const uint64_t given = weir__limiter_cancel_held(limiter, now, &self->reservation);

	if (given == self->cost)
		weir__limiter_refund_held(limiter, now, self->inherited);
	else if (self->next)
		self->next->inherited = weir__add_saturating(self->next->inherited,
							     self->cost - given + self->inherited);
}

/* Decides under the lock, where no change can move the reservation, how a wait ends. Returns false if a change has
 * moved it. Then sleep again. */
static bool settle(struct weir_limiter *limiter, struct weir__waiter *self, int *error)
{
	const weir_ns now = weir_clock_now();

	if (self->reservation.cost == 0) /* a change gave it back, and no wait will help */
		*error = WEIR_ERR_NEVER;
	else if (self->reservation.act_at <= now)
		*error = WEIR_OK;
	else if (*error == WEIR_OK)
		return false;
	else
		give_back(limiter, self, now);
	leave(weir__limiter_waiters(limiter), self);
	return true;
}

static int wait_by_reservation(struct weir_limiter *limiter, struct weir__waiter *self, weir_ns deadline)
{
	struct weir__lock *const lock = weir__limiter_lock(limiter);
	struct weir_verdict verdict;
	bool is_settled;
	weir_ns now;
	int error;

	weir__lock_acquire(lock);
	now = weir_clock_now(); /* under the lock, so that the list is in order of time */
	verdict = weir__limiter_reserve_held(limiter, now, self->cost, time_left(now, deadline), &self->reservation);
	self->act_at = self->reservation.act_at;
	if (verdict.allowed && verdict.delay > 0)
		join(weir__limiter_waiters(limiter), self);
	weir__lock_release(lock);
	if (!verdict.allowed)
		return verdict.never ? WEIR_ERR_NEVER : WEIR_ERR_DEADLINE;
	if (verdict.delay == 0)
		return WEIR_OK;
	do {
		error = sleep_until_act(self, deadline);
		weir__lock_acquire(lock);
		is_settled = settle(limiter, self, &error);
		weir__lock_release(lock);
	} while (!is_settled);
	return error;
}

/* An allowed request departs at its time, even if the limit changes. */
static int wait_for_departure(struct weir_limiter *limiter, struct weir__waiter *self,
			      struct weir_reservation *departure, weir_ns deadline)
{
	weir_ns now;
	int error;

	__atomic_store_n(&self->act_at, departure->act_at, __ATOMIC_RELEASE);
	error = sleep_until_act(self, deadline);
	if (error == WEIR_OK)
		return WEIR_OK;
	weir__lock_acquire(weir__limiter_lock(limiter));
	now = weir_clock_now();
	if (departure->act_at <= now)
		error = WEIR_OK;
	else
		weir__limiter_cancel_held(limiter, now, departure);
	weir__lock_release(weir__limiter_lock(limiter));
	return error;
}

/* Tries once. Under count_all a denied attempt counts, so after the first attempt it takes only what a peek allows. */
static struct weir_verdict ask(struct weir_limiter *limiter, weir_ns now, uint64_t cost, weir_ns deadline,
			       bool is_first, struct weir_reservation *ret_departure)
{
	if (!is_first) {
		const struct weir_verdict verdict = weir_limiter_peek(limiter, now, cost);

		if (!verdict.allowed)
			return verdict;
	}
	if (weir__limiter_shapes(limiter))
		return weir__limiter_depart(limiter, now, cost, time_left(now, deadline), ret_departure);
	ret_departure->act_at = now;
	return weir_limiter_take(limiter, now, cost);
}

static int wait_by_asking(struct weir_limiter *limiter, struct weir__waiter *self, uint64_t cost, weir_ns deadline)
{
	for (bool is_first = true;; is_first = false) {
		/* Read the word first: a change after the attempt changes it, and the sleep returns at once. */
		const uint32_t word = weir__canceller_word(self->canceller);
		const weir_ns now = weir_clock_now();
		struct weir_reservation departure = { 0 };
		struct weir_verdict verdict;

		if (weir__canceller_says_cancelled(word))
			return WEIR_ERR_CANCELLED;
		verdict = ask(limiter, now, cost, deadline, is_first, &departure);
		if (verdict.allowed)
			return departure.act_at <= now ? WEIR_OK :
							 wait_for_departure(limiter, self, &departure, deadline);
		if (verdict.never)
			return WEIR_ERR_NEVER;
		/* Denied with a delay: there is room, but the departure would be too late. */
		if (verdict.delay > 0 || weir__add_saturating(now, verdict.retry_after) > deadline)
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

	if (weir_canceller_is_cancelled(self.canceller))
		return WEIR_ERR_CANCELLED;
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
