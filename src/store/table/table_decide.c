/* table_decide.c: several limits, one answer.
 *
 * Look at all; if one denies, nothing is charged. Else charge one after the other, the one with least left first, since
 * that is the one which others may exhaust meanwhile. If one is, the charges before it are taken back.
 *
 * Taking back must never give more than was charged and is still there, or more than the limit would be admitted:
 *  - A bucket leaks from the charge on, and others may have built upon it since: what has leaked is not given back.
 *  - A window, interval or counter gives back only within the window it was charged in.
 *  - Whoever resets or refunds a key, or lets it give way, has found its slot, then counts up `forgiven`, then swaps. If
 *    that moved since before the charge, nobody knows what became of the charge, and it stays. (Here the slot is read
 *    first, then `forgiven`: a swap in between makes this one fail, unless the same bits are there again. So it is
 *    looked at once more after the swap.)
 *  - If the limit was changed since and the key touched, what it was charged is not what it would be charged now: that
 *    stays, too.
 *  - Nothing is taken out of a bucket that shapes, or that others wait for: they build on what it owes.
 *  - If the caller's time is not that of the table's clock, nobody knows how much has leaked. */
#include "core/bucket.h"
#include "os/pause.h"
#include "store/table/table.h"

struct part {
	const struct weir_table_limit *limit;
	uint64_t hash, cost;
	uint64_t forgiven;    /* before it was charged */
	uint32_t fingerprint; /* at that time */
	struct weir_verdict verdict;
	struct weir__change change;
	uint64_t number; /* of its plan when it was first looked at */
	bool is_seen, is_charged;
};

struct joint {
	const struct weir__epoch_check *epoch_check;
	struct weir_table *table;
	weir_ns now;
	struct part parts[WEIR_TABLE_CLAIMS_MAX];
	size_t n;
	unsigned char part_of[WEIR_TABLE_CLAIMS_MAX]; /* the part that answers for a claim */
};

/* The same key under the same limit is one part, with the costs added. */
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
			joint->parts[part] = (struct part){ .limit = limit, .hash = hash };
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

/* If the limit was changed since the part was first looked at, the step is by the new plan, but the numbers that are told
 * are those of the old one: so that all of an answer is as of one moment. */
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

static bool all_would_allow(struct joint *joint)
{
	bool all = true;

	for (size_t i = 0; i < joint->n; i++) {
		step_part(joint, &joint->parts[i], weir_step_peek);
		all &= joint->parts[i].verdict.allowed;
	}
	return all;
}

/* Parts by what would be left, least first. */
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

/* Takes cost out of a state that was `charged` right after it was charged. False: it is not known to be in there. */
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

/* The state less the part, if that is known to be in there still. */
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

/* What was taken out of a key is put in again, as far as its slot can hold it; into a new one if it has none. */
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
	if (weir__format_has_histories(&part->limit->first)) {
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
	/* Forgiven and charged to the same bits while this thread was on its way to the swap: that charge was another's. */
	if (atomic_load(weir__table_forgiven(joint->table, fingerprint)) != part->forgiven)
		put_back(joint, part);
}

enum outcome { ALL_DENIED, ALL_CHARGED, STALE };

/* Takes back what was charged of the parts before that of this place in the order. */
static void take_back_before(struct joint *joint, const unsigned char order[], size_t place)
{
	while (place-- > 0)
		if (!counts_all(&joint->parts[order[place]])) {
			take_back(joint, &joint->parts[order[place]]);
			step_part(joint, &joint->parts[order[place]], weir_step_peek);
		}
}

/* Charges all, or none if somebody else was faster at one. A limit that would have admitted, and was changed to one that
 * does not, says nothing of those it was asked with. */
static enum outcome charge_all(struct joint *joint)
{
	unsigned char order[WEIR_TABLE_CLAIMS_MAX] = { 0 };

	order_parts(joint, order);
	for (size_t i = 0; i < joint->n; i++) {
		struct part *const part = &joint->parts[order[i]];

		part->fingerprint = weir__fingerprint_in(part->hash, WEIR__VIEW_WORD(part->limit, era_mark));
		part->forgiven = atomic_load(weir__table_forgiven(joint->table, part->fingerprint));
		step_part(joint, part, weir_step_take);
		part->is_charged = true;
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

/* Before anything is charged, all has been looked at: if the premise holds then, all that was seen rests on it. */
static enum outcome decide_all(struct joint *joint)
{
	struct part *const first = &joint->parts[0];
	bool would_allow;

	if (joint->n == 1) {
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

/* Denied: only limits that count all are charged, those that have not been yet; what they say is what is left now. One
 * that has denied does not admit after all because others have moved on meanwhile. */
static void count_attempt(struct joint *joint)
{
	for (size_t i = 0; i < joint->n; i++) {
		struct part *const part = &joint->parts[i];
		const bool denied = !part->verdict.allowed;

		if (!counts_all(part))
			continue;
		if (!part->is_charged)
			step_part(joint, part, weir_step_take);
		step_part(joint, part, weir_step_peek);
		part->verdict.allowed &= !denied;
	}
}

/* The claim that decided. */
static size_t decider(const struct joint *joint, size_t n_claims)
{
	size_t decided_by = 0;

	for (size_t i = 1; i < n_claims; i++)
		if (weir__verdict_decides_more(&joint->parts[joint->part_of[i]].verdict,
					       &joint->parts[joint->part_of[decided_by]].verdict))
			decided_by = i;
	return decided_by;
}

static void count_decision(const struct joint *joint, bool allowed)
{
	for (size_t i = 0; i < joint->n; i++)
		if (allowed || !joint->parts[i].verdict.allowed)
			weir__table_count(joint->table, joint->parts[i].limit, allowed);
}

static struct weir_verdict join_verdicts(const struct joint *joint, bool allowed)
{
	struct weir_verdict of_parts[WEIR_TABLE_CLAIMS_MAX], joined;

	for (size_t i = 0; i < joint->n; i++)
		of_parts[i] = joint->parts[i].verdict;
	joined = weir_verdict_join(of_parts, joint->n);
	joined.allowed = allowed;
	return joined;
}

int weir__table_decide_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			     const struct weir_claim *claims, const uint64_t *hashes, size_t n, weir_ns now,
			     struct weir_verdict *verdicts, struct weir_decision *ret_decision)
{
	struct joint joint;
	enum outcome outcome;
	bool allowed;

	if (n < 1 || n > WEIR_TABLE_CLAIMS_MAX)
		return WEIR_ERR_LIMIT;
	joint.epoch_check = epoch_check;
	joint.table = table;
	joint.now = weir__table_clamp(table, now);
	joint.n = 0;
	join_claims(&joint, claims, hashes, n);
	outcome = decide_all(&joint);
	if (outcome == STALE)
		return WEIR_ERR_CHANGE;
	allowed = outcome == ALL_CHARGED;
	ret_decision->decided_by = decider(&joint, n);
	count_decision(&joint, allowed);
	if (!allowed)
		count_attempt(&joint);
	ret_decision->verdict = join_verdicts(&joint, allowed);
	for (size_t i = 0; verdicts && i < n; i++)
		verdicts[i] = joint.parts[joint.part_of[i]].verdict;
	return WEIR_OK;
}

int weir_table_decide(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
		      struct weir_verdict *verdicts, struct weir_decision *ret_decision)
{
	return weir__table_decide_while(NULL, table, claims, NULL, n, now, verdicts, ret_decision);
}
