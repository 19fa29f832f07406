/* table_decide.c: one decision on several limits.
 *
 * Look at all limits. If one denies, nothing is charged. Otherwise charge one limit after the other, the one with the
 * least remaining first, since other requests are most likely to exhaust that one meanwhile. If a limit is exhausted,
 * the charges before it are taken back.
 *
 * The first look computes the charge, so that the charge is only a swap. If the swap fails, or the key needs more than a
 * swap, the charge is a whole step.
 *
 * Taking back must never return more than was charged and still counts, nor allow more than the limit:
 * - A bucket refills from the charge on, and other requests may have built upon it. What has refilled is not given
 *   back.
 * - A window, interval or counter gives back only within the window it was charged in.
 * - A thread that resets, refunds or evicts a key finds its slot, then increments `forgiven`, then swaps. If `forgiven`
 *   has moved since before the charge, it is unknown what became of the charge, and the charge stays. (This file reads
 *   the slot first, then `forgiven`. A swap in between makes its own swap fail, unless the same bits are there again.
 *   So it reads `forgiven` once more after the swap.)
 * - If the limit was changed since and the key was touched, the charge is not what it would be now. It stays, too.
 * - Nothing is taken out of a bucket that shapes or that others wait for, since they build on what it has used.
 * - If the caller's time is not the time of the table's clock, it is unknown how much has refilled: it stays. */
#include "core/bucket.h"
#include "core/uninitialized.h"
#include "os/pause.h"
#include "store/table/decision.h"
#include "store/table/table.h"

struct part {
	const struct weir_table_limit *limit;
	uint64_t hash, cost;
	uint64_t forgiven;    /* before the charge */
	uint32_t fingerprint; /* before the charge */
	struct weir_verdict verdict;
	struct weir__change change;
	uint64_t number; /* of its plan when it was first looked at */
	bool is_seen, is_charged;
	bool is_prepared; /* its charge is computed */
	struct weir__prepared prepared;
};

struct joint {
	const struct weir__epoch_check *epoch_check;
	struct weir_table *table;
	weir_ns now;
	weir_ns max_delay; /* the longest that the caller accepts */
	struct part parts[WEIR_TABLE_CLAIMS_MAX];
	size_t n;
	unsigned char part_of[WEIR_TABLE_CLAIMS_MAX]; /* the part that each claim belongs to */
};

/* Claims for the same key under the same limit become one part, with their costs added. */
static void join_claims(struct joint *joint, const struct weir_claim *claims, const uint64_t *hashes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct weir_table_limit *const limit = claims[i].limit;
		const uint64_t hash = hashes ? hashes[i] :
					       weir__hash(&limit->secret, claims[i].key, claims[i].key_length);
		size_t part = 0;

		__builtin_prefetch(weir__table_home(joint->table, hash), 1);
		while (part < joint->n && (joint->parts[part].limit != limit || joint->parts[part].hash != hash))
			part++;
		if (part == joint->n) {
			joint->parts[part].limit = limit;
			joint->parts[part].hash = hash;
			joint->parts[part].cost = 0;
			joint->parts[part].is_seen = joint->parts[part].is_charged = false;
			joint->n++;
		}
		joint->parts[part].cost = weir__add_saturating(joint->parts[part].cost, claims[i].cost);
		joint->part_of[i] = (unsigned char)part;
	}
}

static bool counts_all(const struct part *part)
{
	return part->limit->first.plan.flags & WEIR_PLAN_COUNT_ALL;
}

static bool is_changed(const struct part *part)
{
	return part->change.number != part->number;
}

/* If the limit was changed since the part was first looked at, the step follows the new plan, but the verdict reports
 * the numbers of the old one. So all verdicts of a decision are of one moment. */
static void step_part(struct joint *joint, struct part *part, weir__step *step)
{
	const uint64_t limit = part->verdict.limit;

	(void)weir__table_step_while(NULL, joint->table, part->limit, part->hash, step, joint->now, part->cost,
				     &part->verdict, &part->change);
	if (!part->is_seen)
		part->number = part->change.number;
	else if (is_changed(part))
		weir__verdict_as_of(&part->verdict, limit);
	part->is_seen = true;
}

/* Call it after a denial. Whether this limit allows the request stays as decided, even if the attempt was counted or
 * other threads have charged the key since. */
static void look_again(struct joint *joint, struct part *part)
{
	const struct weir_verdict before = part->verdict;

	step_part(joint, part, weir_step_peek);
	if (part->verdict.never != before.never) /* the limit was changed */
		part->verdict.retry_after = before.retry_after;
	part->verdict.allowed = before.allowed;
	part->verdict.never = before.never;
}

static bool is_late(const struct joint *joint, const struct part *part)
{
	return part->verdict.allowed && part->verdict.delay > joint->max_delay;
}

/* Looks at a part, and computes its charge if that is possible with one look. */
static void look_at(struct joint *joint, struct part *part)
{
	part->is_prepared = weir__table_prepare(joint->table, part->limit, part->hash, joint->now, part->cost,
						&part->prepared, &part->verdict);
	if (!part->is_prepared) {
		step_part(joint, part, weir_step_peek);
		return;
	}
	part->number = part->prepared.key.view.number;
	part->is_seen = true;
}

static bool look_at_all(struct joint *joint)
{
	bool all = true;

	for (size_t i = 0; i < joint->n; i++) {
		look_at(joint, &joint->parts[i]);
		all &= joint->parts[i].verdict.allowed && !is_late(joint, &joint->parts[i]);
	}
	return all;
}

/* Reports the parts as they are without a charge. Returns whether one of them denies: a peek that records a new clock
 * looks at its key again, which others may have changed. */
static bool peek_at_all(struct joint *joint)
{
	bool denies = false;

	for (size_t i = 0; i < joint->n; i++) {
		struct part *const part = &joint->parts[i];

		if (part->is_prepared &&
		    !weir__table_peek_prepared(&part->prepared, joint->now, part->cost, &part->verdict))
			step_part(joint, part, weir_step_peek);
		if (is_late(joint, part))
			weir__verdict_deny_late(&part->verdict);
		denies |= !part->verdict.allowed;
	}
	return denies;
}

static bool all_would_allow(struct joint *joint)
{
	for (;;) {
		if (look_at_all(joint))
			return true;
		if (WEIR__LIKELY(peek_at_all(joint)))
			return false;
	}
}

/* Orders parts by what would remain, least first. */
static void order_parts(const struct joint *joint, unsigned char order[])
{
	for (size_t i = 0; i < joint->n; i++) {
		const uint64_t left = joint->parts[i].verdict.remaining;
		size_t at = i;

		for (; at > 0 && joint->parts[order[at - 1]].verdict.remaining > left; at--)
			order[at] = order[at - 1];
		order[at] = (unsigned char)i;
	}
}

/* Takes cost out of a state. `charged` is what the state was right after the charge. Returns false if it is not known
 * whether the cost is still in there. */
static bool take_out(const struct weir_plan *plan, const struct weir_state *charged, struct weir_state *state,
		     uint64_t cost, weir_ns elapsed)
{
	if (plan->kind == WEIR_KIND_BUCKET) {
		const weir__u128 price = weir__mul(cost, plan->period), leaked = weir__mul(elapsed, plan->count);
		const weir__u128 full_at = weir__state_wide(state);

		if (price <= leaked || full_at < price || plan->flags & WEIR_PLAN_SHAPE)
			return false;
		weir__state_set_wide(state, full_at - (price - leaked));
		return true;
	}
	if (plan->kind == WEIR_KIND_COUNTER) {
		if (state->hi != charged->hi || (state->lo & UINT32_MAX) < cost)
			return false;
		state->lo -= cost;
		return true;
	}
	if (state->lo != charged->lo || state->hi < cost)
		return false;
	state->hi -= cost;
	return true;
}

/* Computes the state without the part. Returns false if it is not known whether the part is still in there. */
static bool state_without(const struct joint *joint, const struct part *part, const struct weir_state *seen,
			  struct weir_state *ret_state)
{
	const struct weir__slot_format *const format = &part->change.format;
	const struct weir_state charged = weir__slot_unpack(format, part->change.after);
	const weir_ns clock = weir_table_now(joint->table); /* after the slot was read */

	*ret_state = weir__slot_unpack(format, *seen);
	if (clock < joint->now || weir__slot_fingerprint(*seen) != part->fingerprint ||
	    weir__slot_tag(*seen) != format->tag)
		return false;
	if (format->plan.kind == WEIR_KIND_BUCKET &&
	    weir__bucket_used(&format->plan, ret_state, clock) > weir__bucket_duration(&format->plan))
		return false;
	return take_out(&format->plan, &charged, ret_state, part->cost,
			clock - joint->now + (joint->table->is_shared ? WEIR__CLOCKS_DIFFER_MAX : 0));
}

/* Puts back what was taken out of a key, as far as its slot can hold it. A key without a slot gets a new one. */
static void put_back(const struct joint *joint, const struct part *part)
{
	const struct weir_state charged = weir__slot_unpack(&part->change.format, part->change.after);
	const struct weir_plan *plan;
	struct weir__place place;
	struct weir__key key;
	struct weir_state state;

	do {
		weir__key_init(&key, joint->table, part->limit, part->hash);
		weir__table_find(&key, &place, &state);
		plan = &key.view.format.plan;
		if (weir__format_has_histories(&key.view.format)) { /* since the charge */
			(void)weir__table_step(joint->table, part->limit, part->hash, weir_step_take, joint->now,
					       part->cost, NULL);
			return;
		}
		if (plan->kind == WEIR_KIND_BUCKET) {
			const weir__u128 now = weir__mul(joint->now, plan->count), full_at = weir__state_wide(&state);

			weir__state_set_wide(&state,
					     (full_at > now ? full_at : now) + weir__mul(part->cost, plan->period));
		} else if (plan->kind == WEIR_KIND_COUNTER) {
			state.lo += weir__min(part->cost, plan->most - weir__min(plan->most, state.lo & UINT32_MAX));
			state.hi = place.slot ? state.hi : charged.hi;
		} else {
			state.hi += weir__min(part->cost, plan->most - weir__min(plan->most, state.hi));
			state.lo = place.slot ? state.lo : charged.lo;
		}
	} while (!weir__table_put(&key, &place, weir__key_pack(&key, &state), joint->now));
}

static void take_back(struct joint *joint, const struct part *part)
{
	const struct weir__slot_format *const format = &part->change.format;
	const struct weir__change *const change = &part->change;
	const uint32_t fingerprint = part->fingerprint;
	struct weir_state seen, next, state;

	if (change->slot == NULL)
		return;
	if (weir__format_has_histories(format)) {
		weir__table_take_back_event(joint->table, part->limit, part->hash, joint->now, change->event_at,
					    part->cost, part->forgiven);
		return;
	}
	if (weir__slot_fingerprint(change->after) != fingerprint)
		return;
	for (;;) {
		seen = weir__atomic16_load(change->slot);
		if (atomic_load(weir__table_forgiven(joint->table, fingerprint)) != part->forgiven)
			return;
		if (weir__slot_equal(seen, change->after))
			next = change->before;
		else if (state_without(joint, part, &seen, &state))
			next = weir__slot_pack(format, fingerprint, &state);
		else
			return;
		if (weir__atomic16_swap(change->slot, seen, next))
			break;
		weir__back_off();
	}
	/* The key was forgiven and then charged to the same bits just before the swap. The charge taken out was another
	 * thread's. */
	if (atomic_load(weir__table_forgiven(joint->table, fingerprint)) != part->forgiven)
		put_back(joint, part);
}

enum outcome { ALL_DENIED, ALL_CHARGED, STALE };

/* Takes back the charges of the parts before this place in the order. */
static void take_back_before(struct joint *joint, const unsigned char order[], size_t place)
{
	while (place-- > 0) {
		struct part *const part = &joint->parts[order[place]];

		if (counts_all(part))
			continue;
		take_back(joint, part);
		look_again(joint, part);
		part->verdict.retry_after = 0; /* it allowed the request, and has not counted it */
	}
}

/* Charges all, or none if another thread exhausts one of them first. STALE: a limit that was changed meanwhile denied
 * by its new plan, and the epoch check failed. The other limits may have been looked at by older plans. */
static enum outcome charge_all(struct joint *joint)
{
	unsigned char order[WEIR_TABLE_CLAIMS_MAX] = { 0 };

	order_parts(joint, order);
	for (size_t i = 0; i < joint->n; i++) {
		struct part *const part = &joint->parts[order[i]];

		part->fingerprint = weir__fingerprint_in(part->hash, WEIR__VIEW_WORD(part->limit, mark));
		part->forgiven = atomic_load(weir__table_forgiven(joint->table, part->fingerprint));
		if (!part->is_prepared || !weir__table_put_prepared(&part->prepared, joint->now, &part->change))
			step_part(joint, part, weir_step_take);
		part->is_charged = true;
		if (is_late(joint, part)) { /* others took departures meanwhile */
			take_back(joint, part);
			weir__verdict_deny_late(&part->verdict);
		}
		if (part->verdict.allowed)
			continue;
		take_back_before(joint, order, i);
		if (is_changed(part) && !weir__epoch_check_holds(joint->epoch_check))
			return STALE;
		WEIR__COUNT(&joint->table->region, lost_races, 1);
		return ALL_DENIED;
	}
	return ALL_CHARGED;
}

/* All parts are looked at before anything is charged. If the epoch check holds after that, it held for all that was
 * seen. */
static enum outcome decide_all(struct joint *joint)
{
	struct part *const first = &joint->parts[0];
	bool would_allow;

	if (joint->n == 1 && joint->max_delay == WEIR_NEVER) {
		if (!weir__table_step_while(joint->epoch_check, joint->table, first->limit, first->hash, weir_step_take,
					    joint->now, first->cost, &first->verdict, &first->change))
			return STALE;
		first->number = first->change.number;
		first->is_seen = first->is_charged = true;
		return first->verdict.allowed ? ALL_CHARGED : ALL_DENIED;
	}
	would_allow = all_would_allow(joint);
	if (!weir__epoch_check_holds(joint->epoch_check))
		return STALE;
	return would_allow ? charge_all(joint) : ALL_DENIED;
}

/* After a denial, charges only the limits with count all, if they have not been charged yet. Their verdicts report what
 * remains now. */
static void count_attempt(struct joint *joint)
{
	for (size_t i = 0; i < joint->n; i++) {
		struct part *const part = &joint->parts[i];
		const struct weir_verdict verdict = part->verdict;

		if (!counts_all(part))
			continue;
		if (!part->is_charged)
			step_part(joint, part, weir_step_take);
		part->verdict = verdict;
		look_again(joint, part);
	}
}

static void count_decision(const struct joint *joint, bool allowed)
{
	for (size_t i = 0; i < joint->n; i++)
		if (allowed || !joint->parts[i].verdict.allowed)
			weir__table_count(joint->table, joint->parts[i].limit, allowed);
}

static inline int decide(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			 const struct weir_claim *claims, const uint64_t *hashes, size_t n, weir_ns now,
			 weir_ns max_delay, struct weir_verdict *verdicts, struct weir_decision *ret_decision,
			 bool is_counted)
{
	struct weir_verdict found[WEIR_TABLE_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct joint joint WEIR__UNINITIALIZED;
	enum outcome outcome;

	if (n < 1 || n > WEIR_TABLE_CLAIMS_MAX)
		return WEIR_ERR_LIMIT;
	joint.epoch_check = epoch_check;
	joint.table = table;
	joint.now = weir__table_clamp(table, now);
	joint.max_delay = max_delay;
	joint.n = 0;
	join_claims(&joint, claims, hashes, n);
	outcome = decide_all(&joint);
	if (outcome == STALE)
		return WEIR_ERR_CHANGE;
	if (is_counted)
		count_decision(&joint, outcome == ALL_CHARGED);
	if (outcome == ALL_DENIED)
		count_attempt(&joint);
	verdicts = verdicts ? verdicts : found;
	for (size_t i = 0; i < n; i++)
		verdicts[i] = joint.parts[joint.part_of[i]].verdict;
	*ret_decision = weir__decision_of(verdicts, n);
	return WEIR_OK;
}

int weir__table_decide_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			     const struct weir_claim *claims, const uint64_t *hashes, size_t n, weir_ns now,
			     struct weir_verdict *verdicts, struct weir_decision *ret_decision)
{
	return decide(epoch_check, table, claims, hashes, n, now, WEIR_NEVER, verdicts, ret_decision, true);
}

int weir__table_charge_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			     const struct weir_claim *claims, const uint64_t *hashes, size_t n, weir_ns now,
			     weir_ns max_delay, struct weir_verdict *verdicts, struct weir_decision *ret_decision)
{
	return decide(epoch_check, table, claims, hashes, n, now, max_delay, verdicts, ret_decision, false);
}

int weir_table_decide(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
		      struct weir_verdict *verdicts, struct weir_decision *ret_decision)
{
	return weir__table_decide_while(NULL, table, claims, NULL, n, now, verdicts, ret_decision);
}
