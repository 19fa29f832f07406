/* table_wait.c: waiting for a key.
 *
 * A slot has no list of waiters, and a bucket does not need one. A wait of less than half a minute takes its tokens at
 * once, before they have refilled, and sleeps until they have. The slot has then used more than a burst, as after a
 * step back of the clock, and every other request is denied until it has used less. Usage of more than a minute beyond
 * the burst would be taken for a new clock. A caller that would wait longer sleeps until the wait is short enough and
 * tries again. Callers that wait for windows do the same. */
#include "store/table/table_wait.h"

#include "core/bucket.h"
#include "core/reserve.h"
#include "os/canceller.h"
#include "store/table/decision.h"

/* How much a slot may use beyond its burst, as time. The other half of a minute is left for clocks that step back
 * meanwhile. */
static const weir_ns ahead_max = WEIR__STEP_BACK_MAX / 2;

struct wait {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	uint64_t hash, cost;
	weir_ns deadline;
	struct weir_canceller *canceller;
	bool is_first;           /* with count all a denied try counts, so later tries take only what a peek allows */
	bool is_too_late;        /* denied, and would not be allowed before the deadline either */
	struct weir_state taken; /* the state right after tokens were taken ahead */
	uint64_t taken_by;       /* the number of the limit's plan at that time */
};

typedef struct weir_verdict take_ahead(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
				       uint64_t cost, weir_ns max_wait, struct weir_reservation *ret_reservation);

static weir_ns time_left(weir_ns now, weir_ns deadline)
{
	return deadline > now ? deadline - now : 0;
}

static struct weir_verdict reserve(struct wait *wait, take_ahead *take, weir_ns now, weir_ns max_wait,
				   struct weir_reservation *ret_reservation)
{
	struct weir_state before, state, next;
	struct weir_verdict verdict;
	struct weir__place place;
	struct weir__key key;

	do {
		weir__key_init(&key, wait->table, wait->limit, wait->hash);
		weir__table_find(&key, &place, &state);
		before = state;
		verdict = take(&key.view.format.plan, &state, now, wait->cost, max_wait, ret_reservation);
		next = place.is_old || !weir__slot_equal(before, state) ? weir__key_pack(&key, &state) : place.seen;
	} while (!weir__table_put(&key, &place, next, now));
	wait->taken = state;
	wait->taken_by = key.view.number;
	return verdict;
}

/* Gives nothing back in two cases. If the bucket is now full earlier than right after the tokens were taken, another
 * thread has forgiven them since. If the limit has been changed, the tokens taken are not the tokens that it would
 * charge now. */
static uint64_t give_back(const struct wait *wait, weir_ns now, const struct weir_reservation *reservation)
{
	struct weir__place place;
	struct weir__key key;
	struct weir_state state;
	uint64_t given;

	do {
		weir__key_init(&key, wait->table, wait->limit, wait->hash);
		weir__table_find(&key, &place, &state);
		if (key.view.number != wait->taken_by || weir__state_wide(&state) < weir__state_wide(&wait->taken))
			return 0;
		given = weir__reserve_cancel(&key.view.format.plan, &state, now, reservation);
		if (given == 0)
			return 0;
		weir__table_forgive(&key, &place);
	} while (!weir__table_put(&key, &place, weir__key_pack(&key, &state), now));
	return given;
}

/* Tries once. If denied, retry_after is the time until the next try, and is_too_late says that it is past the
 * deadline. */
static struct weir_verdict ask(struct wait *wait, weir_ns now, struct weir_reservation *ret_reservation)
{
	const struct weir_plan *const plan = &wait->limit->first.plan; /* for its kind and flags, which never change */
	const bool shapes = plan->flags & WEIR_PLAN_SHAPE, was_first = wait->is_first;
	const weir_ns left = time_left(now, wait->deadline);
	struct weir_verdict verdict;
	weir_ns ahead = 0;

	wait->is_first = false;
	*ret_reservation = (struct weir_reservation){ .act_at = now };
	if (plan->kind == WEIR_KIND_BUCKET && !shapes) {
		ahead = weir__min(left, ahead_max);
		verdict = reserve(wait, weir__reserve_take, now, ahead, ret_reservation);
	} else {
		verdict = weir__table_step(wait->table, wait->limit, wait->hash,
					   was_first && !shapes ? weir_step_take : weir_step_peek, now, wait->cost,
					   NULL);
		if (verdict.allowed && shapes) {
			verdict = reserve(wait, weir__reserve_departure, now, left, ret_reservation);
			ahead = verdict.delay > 0 ? left : 0; /* denied with a delay: there is room, but too late */
		} else if (verdict.allowed && !was_first) {
			verdict = weir__table_step(wait->table, wait->limit, wait->hash, weir_step_take, now,
						   wait->cost, NULL);
		}
	}
	wait->is_too_late = !verdict.allowed && weir__add_saturating(ahead, verdict.retry_after) > left;
	return verdict;
}

/* Sleeps until the request that took tokens ahead may go. Returns WEIR_ERR_CANCELLED after giving them back. */
static int sleep_until_act(const struct wait *wait, struct weir_reservation *reservation)
{
	for (;;) {
		const uint32_t word = weir__canceller_word(wait->canceller);
		const weir_ns now = weir_table_now(wait->table);

		if (reservation->act_at <= now)
			return WEIR_OK;
		if (weir__canceller_says_cancelled(word)) {
			(void)give_back(wait, now, reservation);
			return WEIR_ERR_CANCELLED;
		}
		weir__canceller_sleep_until(wait->canceller, word, now, reservation->act_at);
	}
}

static int wait_for(struct wait *wait)
{
	for (;;) {
		const uint32_t word = weir__canceller_word(wait->canceller);
		const weir_ns now = weir__table_clamp(wait->table, weir_table_now(wait->table));
		struct weir_reservation reservation;
		struct weir_verdict verdict;

		if (weir__canceller_says_cancelled(word))
			return WEIR_ERR_CANCELLED;
		verdict = ask(wait, now, &reservation);
		if (verdict.allowed || verdict.never || wait->is_too_late)
			weir__table_count(wait->table, wait->limit, verdict.allowed);
		if (verdict.allowed)
			return sleep_until_act(wait, &reservation);
		if (verdict.never)
			return WEIR_ERR_NEVER;
		if (wait->is_too_late)
			return WEIR_ERR_DEADLINE;
		weir__canceller_sleep_until(wait->canceller, word, now, weir__add_saturating(now, verdict.retry_after));
	}
}

int weir_table_wait(struct weir_table *table, const struct weir_table_limit *limit, const void *key, size_t key_length,
		    uint64_t cost, weir_ns deadline, struct weir_canceller *canceller)
{
	struct weir_canceller own = { 0 };
	struct wait wait = {
		.table = table,
		.limit = limit,
		.hash = weir__hash(&limit->secret, key, key_length),
		.cost = cost,
		.deadline = deadline,
		.canceller = canceller ? canceller : &own,
		.is_first = true,
	};

	if (weir_canceller_is_cancelled(wait.canceller))
		return WEIR_ERR_CANCELLED;
	return cost == 0 ? WEIR_OK : wait_for(&wait);
}

/* Where a reservation has the count of its rate, which in a table has at most 32 bits. The number of the plan is above
 * it, of which 32 bits are enough: a reservation lives for half a minute. */
enum { COUNT = 2 };
_Static_assert(WEIR_TABLE_RATE_MAX <= UINT32_MAX, "the count leaves room for the number of the plan");

static bool can_reserve(const struct weir_table_limit *limit)
{
	return limit->first.plan.kind == WEIR_KIND_BUCKET;
}

int weir_table_reserve(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
		       size_t key_length, weir_ns now, uint64_t cost, weir_ns max_wait,
		       struct weir_reservation *ret_reservation, struct weir_verdict *ret_verdict)
{
	struct wait wait = {
		.table = table,
		.limit = limit,
		.hash = weir__hash(&limit->secret, key, key_length),
		.cost = cost,
	};
	struct weir_reservation reservation;
	struct weir_verdict verdict;

	if (!can_reserve(limit))
		return WEIR_ERR_UNSUPPORTED;
	now = weir__table_clamp(table, now);
	if (limit->first.plan.flags & WEIR_PLAN_SHAPE) /* its usage is never more than the burst */
		verdict = reserve(&wait, weir__reserve_departure, now, max_wait, &reservation);
	else
		verdict = reserve(&wait, weir__reserve_take, now, weir__min(max_wait, ahead_max), &reservation);
	weir__table_count(table, limit, verdict.allowed);
	reservation.private_[COUNT] |= wait.taken_by << 32;
	*ret_reservation = reservation;
	*ret_verdict = verdict;
	return WEIR_OK;
}

uint64_t weir_table_cancel(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			   size_t key_length, weir_ns now, struct weir_reservation *reservation)
{
	struct wait wait = {
		.table = table,
		.limit = limit,
		.hash = weir__hash(&limit->secret, key, key_length),
	};
	struct weir_reservation taken = *reservation;
	weir__u128 full_at = (weir__u128)taken.private_[1] << 64 | taken.private_[0];
	struct weir__key at;

	if (!can_reserve(limit) || reservation->cost == 0)
		return 0;
	reservation->cost = 0;
	weir__key_init(&at, table, limit, wait.hash);
	if ((uint32_t)at.view.number != taken.private_[COUNT] >> 32)
		return 0;
	taken.private_[COUNT] &= UINT32_MAX;
	/* A departure stores the state after it was taken. Any other reservation stores the instant at which it may
	 * act. */
	if (!(limit->first.plan.flags & WEIR_PLAN_SHAPE))
		full_at += weir__bucket_duration(&at.view.format.plan);
	weir__state_set_wide(&wait.taken, full_at);
	wait.taken_by = at.view.number;
	return give_back(&wait, weir__table_clamp(table, now), &taken);
}

struct weir_verdict weir__table_depart(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				       weir_ns now, uint64_t cost, weir_ns max_delay)
{
	struct wait wait = { .table = table, .limit = limit, .hash = hash, .cost = cost };
	struct weir_reservation reservation;
	struct weir_verdict verdict;

	now = weir__table_clamp(table, now);
	if (!(limit->first.plan.flags & WEIR_PLAN_SHAPE))
		return weir__table_step(table, limit, hash, weir_step_take, now, cost, NULL);
	verdict = reserve(&wait, weir__reserve_departure, now, max_delay, &reservation);
	if (!verdict.allowed && verdict.delay > 0) {
		verdict = weir__table_step(table, limit, hash, weir_step_peek, now, cost, NULL);
		weir__verdict_deny_late(&verdict);
	}
	return verdict;
}

struct weir_verdict weir__table_cancel(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				       weir_ns now, uint64_t cost, weir_ns full_at)
{
	struct weir_state state, before, next;
	struct weir_verdict verdict;
	struct weir__place place;
	struct weir__key key;
	uint64_t given;

	now = weir__table_clamp(table, now);
	full_at = weir__table_clamp(table, full_at);
	do {
		weir__key_init(&key, table, limit, hash);
		weir__table_find(&key, &place, &state);
		before = state;
		next = place.seen;
		given = weir__reserve_cancel_departure(&key.view.format.plan, &state, now, cost, full_at);
		if (place.is_old || !weir__slot_equal(before, state))
			next = weir__key_pack(&key, &state);
		if (given > 0) /* after the key was found, before it changes: see table_decide.c */
			weir__table_forgive(&key, &place);
	} while (!weir__table_put(&key, &place, next, now));
	verdict = weir_step_peek(&key.view.format.plan, &state, now, 0);
	verdict.granted = given;
	verdict.delay = 0;
	return verdict;
}
