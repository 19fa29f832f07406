/* lease_store.c: spends held units, and passes the rest of a request to the store behind. lease_background.c draws and
 * returns units. lease_eventual.c decides by mirrors, and lease_rules.c says which limits are leased or eventual. */
#include "store/lease_internal.h"

#include <stdlib.h>

#include "core/notation.h"
#include "store/table/decision.h"

enum { DENIED_PARTS = 16, USES_LEAST = 4 };

static const weir_ns no_memory_ns = 1000000000; /* retry_after of a request that is denied because memory ran out */

/* --- rules ------------------------------------------------------------------------------------------------------- */

/* Reads the rules again if they have changed, and the clock. Returns whether any limit is leased. */
static inline bool begin(struct lease *lease)
{
	const uint64_t version = lease->options.version(lease->options.context) + 1;

	if (WEIR__UNLIKELY(version != lease->version)) {
		lease->has_any = lease->options.has_any(lease->options.context);
		lease->version = version;
	}
	if (lease->has_any)
		weir__lease_read_clock(lease);
	return lease->has_any;
}

/* --- held units -------------------------------------------------------------------------------------------------- */

static inline uint64_t hash_of(const struct weir__store_request *request, uint32_t i)
{
	const struct weir_claim *const claim = &request->claims[i];

	return request->hashes ? request->hashes[i] : weir__hash(&claim->limit->secret, claim->key, claim->key_length);
}

/* An UPTO is denied only if no unit is left. */
static uint64_t least_of(const struct weir__store_request *request, uint32_t i)
{
	const uint64_t cost = request->claims[i].cost;

	return request->operation == WEIR__STORE_UPTO ? weir__min(cost, 1) : cost;
}

/* What the store last said is left, plus what has refilled since. The fallback keeps it in the table. */
static struct weir_verdict mirror_of(const struct lease *lease, const struct weir_claim *claim, uint64_t hash,
				     weir_ns now, uint64_t cost)
{
	return weir__table_step(lease->options.table, claim->limit, hash, weir_step_peek,
				weir__table_clamp(lease->options.table, now), cost, NULL);
}

/* The verdict of a request that held units cover. `held` units are left after it. */
static struct weir_verdict covered(const struct lease *lease, const struct weir_claim *claim, uint64_t hash,
				   weir_ns now, uint64_t held, weir_ns end)
{
	struct weir_verdict verdict = weir__table_peek_hashed(lease->options.table, claim->limit, hash, now);

	verdict.remaining = weir__min(verdict.limit, weir__add_saturating(verdict.remaining, held));
	verdict.granted = claim->cost;
	if (end > lease->at && verdict.reset_after < end - lease->at) /* the key is not full while units are lent */
		verdict.reset_after = end - lease->at;
	return verdict;
}

/* The verdict of a request that costs as much as one that the store has just denied, or more. */
static struct weir_verdict denied(const struct lease *lease, const struct weir_claim *claim, uint64_t hash, weir_ns now,
				  uint64_t least, weir_ns end)
{
	struct weir_verdict verdict = mirror_of(lease, claim, hash, now, least);

	verdict.allowed = false;
	verdict.granted = 0;
	verdict.delay = 0;
	if (!verdict.never && verdict.retry_after < end - lease->at)
		verdict.retry_after = end - lease->at;
	if (verdict.reset_after < verdict.retry_after && !verdict.never)
		verdict.reset_after = verdict.retry_after;
	return verdict;
}

/* What a request does with the key's slot. */
struct spending {
	const struct weir_claim *claim;
	struct rule *rule;
	uint64_t hash; /* of the key under its limit */
	weir_ns now;
	/* If the lot does not cover the cost, all its units are taken out, and the store behind decides the rest.
	 * false: the cost exceeds the limit, so the store behind gets all of it. */
	bool takes_rest;
	uint64_t least; /* cost of which a denial is a denial of this request */
	uint64_t held;  /* HERE: units left */
	weir_ns end;    /* HERE and DENIED_HERE: of the slot */
	struct taken taken;
};

/* Whether this server should draw more: half of the lot is spent, or its lease ends soon. Before the end of a window, a
 * new lot would end with the window, too. */
static bool is_due(const struct rule *rule, const struct weir__lot *lot, weir_ns left)
{
	return !lot->is_renewing &&
	       (lot->units <= weir__lot_size(lot->size) / 2 || (left < rule->terms.duration / 4 && !rule->is_window));
}

/* Counts the usage of a key without a lot. Draws units once the usage is USES_LEAST times the cost of this request. Two
 * requests can be close together by chance: with many keys that are seldom used, nearly all units would be returned
 * unspent. `elapsed` is the time in which lot.units were used; 0: this is the first use. */
static bool count_use(struct lease *lease, const struct spending *spending, const struct weir__place *place,
		      struct weir__lot lot, weir_ns end, weir_ns elapsed)
{
	const struct weir__lease_terms *const terms = &spending->rule->terms;
	const struct weir_claim *const claim = spending->claim;
	const uint64_t hash = weir__held_hash(spending->hash, spending->rule->salt);
	uint64_t want = 0;

	lot.units = (uint32_t)weir__min(weir__add_saturating(lot.units, claim->cost), WEIR__LOT_UNITS_MOST);
	if (elapsed > 0 && !lot.is_renewing && lot.units / USES_LEAST >= claim->cost)
		want = weir__lease_want(terms, lot.units, elapsed, lease->nodes);
	lot.is_renewing |= want > 0;
	if (!weir__held_put(lease->options.table, claim->limit, hash, place,
			    weir__held_slot(lease->options.table, claim->limit, hash, weir__lot_pack(&lot), end),
			    spending->now))
		return false;
	if (want > 0)
		weir__lease_draw(lease, claim, spending->rule, want);
	return true;
}

/* The slot has ended. If it ended recently, its usage says what the key demands. */
static bool start_over(struct lease *lease, const struct spending *spending, const struct weir__place *place)
{
	const struct weir__lease_terms *const terms = &spending->rule->terms;
	const struct weir__lot old = weir__lot_unpack(weir__slot_own(place->seen));
	const weir_ns ended = weir__held_end(lease->options.table, place->seen);
	const bool is_known = place->slot && lease->at - ended < terms->duration;
	struct weir__lot lot = { .units = 0 };

	if (is_known && old.is_denied) /* demand is above the limit */
		lot.units = (uint32_t)weir__min(terms->most, WEIR__LOT_UNITS_MOST);
	else if (is_known && old.size > 0)
		lot.units = (uint32_t)(weir__lot_size(old.size) - weir__min(weir__lot_size(old.size), old.units));
	if (!count_use(lease, spending, place, lot, lease->at + terms->duration, is_known ? terms->duration : 0))
		return false;
	if (place->slot && old.size > 0)
		weir__lease_count(lease, WEIR__LEASE_EXPIRED, old.units);
	return true;
}

static bool spend_from_lot(struct lease *lease, struct spending *spending, const struct weir__place *place,
			   struct weir__lot lot, enum found *ret_found)
{
	const struct weir_claim *const claim = spending->claim;
	const struct weir__lease_terms *const terms = &spending->rule->terms;
	const weir_ns end = weir__held_end(lease->options.table, place->seen), left = end - lease->at;
	const uint32_t held = lot.units;
	uint64_t want = 0;

	*ret_found = claim->cost <= lot.units ? HERE : BEHIND;
	if (*ret_found == BEHIND && !spending->takes_rest)
		return true;
	lot.units = *ret_found == HERE ? lot.units - (uint32_t)claim->cost : 0;
	if (is_due(spending->rule, &lot, left) && (*ret_found == HERE || held == 0)) {
		const uint64_t size = weir__lot_size(lot.size);

		want = weir__lease_want(terms, size - weir__min(size, lot.units),
					terms->duration - weir__min(terms->duration, left), lease->nodes);
		lot.is_renewing = want > 0;
	}
	if (!weir__atomic16_swap(place->slot, place->seen,
				 weir__slot_make(weir__slot_fingerprint(place->seen), weir__lot_pack(&lot),
						 weir__slot_full_at(place->seen), 0)))
		return false;
	if (WEIR__UNLIKELY(want > 0))
		weir__lease_draw(lease, claim, spending->rule, want);
	spending->held = lot.units;
	spending->end = end;
	spending->taken.units = held - lot.units;
	spending->taken.end = end;
	spending->taken.salt = spending->rule->salt;
	lease->counts[WEIR__LEASE_SPENT] += held - lot.units;
	return true;
}

/* Spends held units if they cover the cost. Notes demand. */
static enum found spend(struct lease *lease, struct spending *spending)
{
	struct weir_table *const table = lease->options.table;
	const uint64_t hash = weir__held_hash(spending->hash, spending->rule->salt);
	enum found found = BEHIND;
	struct weir__place place;

	spending->taken.refunds = atomic_load_explicit(&table->region.header->lease_refunds_done, memory_order_acquire);
	for (;;) {
		struct weir__lot lot;

		weir__held_find(table, spending->claim->limit, hash, &place);
		if (WEIR__UNLIKELY(weir__place_is_claim(&place))) {
			weir__table_await_claim(&place);
			continue;
		}
		if (place.slot == NULL && spending->claim->cost == 0)
			return BEHIND;
		lot = weir__lot_unpack(weir__slot_own(place.seen));
		spending->end = place.slot ? weir__held_end(table, place.seen) : 0;
		if (place.slot == NULL || spending->end <= lease->at) {
			if (start_over(lease, spending, &place))
				return BEHIND;
		} else if (lot.is_denied) {
			return spending->least >= lot.units ? DENIED_HERE : BEHIND;
		} else if (WEIR__LIKELY(lot.size > 0)) {
			if (WEIR__LIKELY(spend_from_lot(lease, spending, &place, lot, &found)))
				return found;
		} else if (count_use(lease, spending, &place, lot, spending->end,
				     spending->rule->terms.duration + 1 -
					     weir__min(spending->rule->terms.duration, spending->end - lease->at))) {
			return BEHIND;
		}
	}
}

/* Puts spent units back into their lot, up to the units that were drawn. Returns false if the lot was replaced or has
 * ended. */
static bool put_into_lot(struct lease *lease, const struct weir_claim *claim, const struct rule *rule, uint64_t hash,
			 uint64_t units, weir_ns end, uint64_t *ret_put)
{
	struct weir_table *const table = lease->options.table;
	struct weir__place place;
	struct weir__lot lot;

	do {
		weir__held_find(table, claim->limit, weir__held_hash(hash, rule->salt), &place);
		if (place.slot == NULL || weir__place_is_claim(&place) || weir__held_end(table, place.seen) != end ||
		    end <= lease->at)
			return false;
		lot = weir__lot_unpack(weir__slot_own(place.seen));
		if (lot.is_denied || lot.size == 0)
			return false;
		*ret_put = weir__min(units, weir__lot_size(lot.size) - weir__min(weir__lot_size(lot.size), lot.units));
		lot.units += (uint32_t)*ret_put;
	} while (!weir__atomic16_swap(place.slot, place.seen,
				      weir__slot_make(weir__slot_fingerprint(place.seen), weir__lot_pack(&lot),
						      weir__slot_full_at(place.seen), 0)));
	lease->counts[WEIR__LEASE_SPENT] -= *ret_put;
	return true;
}

/* Whether a refund may have put units into the lot since these were taken out. Then these may have been returned to the
 * store already. A refund is counted before it looks at the lot, and again when it is done. */
static bool is_refunded_since(const struct lease *lease, const struct taken *taken)
{
	return atomic_load(&lease->options.table->region.header->lease_refunds_begun) != taken->refunds;
}

/* The store behind has denied: puts the units back into their lot, or returns them to the store. */
static void put_back(struct lease *lease, const struct weir_claim *claim, const struct taken *taken)
{
	struct rule *rule = weir__lease_rule(lease, claim->limit);
	uint64_t put;

	if (taken->units == 0)
		return;
	if (rule && (rule->salt != taken->salt || rule->ahead > 0))
		rule = NULL; /* the limit was changed: the units cannot be used */
	if (rule && put_into_lot(lease, claim, rule, weir__hash(&claim->limit->secret, claim->key, claim->key_length),
				 taken->units, taken->end, &put))
		return;
	if (is_refunded_since(lease, taken))
		return;
	lease->counts[WEIR__LEASE_SPENT] -= taken->units;
	if (rule && taken->end > lease->at)
		weir__lease_give_back(lease, claim, rule, taken->units, taken->end);
	else
		weir__lease_count(lease, WEIR__LEASE_EXPIRED, taken->units);
}

/* The store denied, and no units are held: notes it, so that such requests are denied here for a while. */
static void note_denial(struct lease *lease, const struct weir_claim *claim, struct rule *rule, uint64_t least,
			const struct weir_verdict *verdict, weir_ns now)
{
	struct weir_table *const table = lease->options.table;
	const uint64_t hash = weir__held_hash(weir__hash(&claim->limit->secret, claim->key, claim->key_length),
					      rule->salt);
	const weir_ns shortest = rule->terms.duration / DENIED_PARTS;
	const weir_ns wait = verdict->retry_after < shortest ? shortest : verdict->retry_after;
	const weir_ns end = lease->at + weir__min(wait, rule->terms.duration);
	const struct weir__lot lot = { .units = (uint32_t)least, .is_denied = true };
	struct weir__place place;

	if (verdict->never || least > WEIR__LOT_UNITS_MOST)
		return;
	weir__held_find(table, claim->limit, hash, &place);
	if (place.slot && (weir__place_is_claim(&place) || (weir__lot_unpack(weir__slot_own(place.seen)).size > 0 &&
							    weir__lot_unpack(weir__slot_own(place.seen)).units > 0)))
		return;
	(void)weir__held_put(table, claim->limit, hash, &place,
			     weir__held_slot(table, claim->limit, hash, weir__lot_pack(&lot), end), now);
}

/* --- splits ------------------------------------------------------------------------------------------------------ */

/* The whole request moves, with its keys and inline limits. */
static struct weir__store_request *keep_part(struct weir__store_request *part)
{
	struct split *const split = (struct split *)(void *)part;
	struct weir__store_request *const kept = split->whole->caller->keep(split->whole);

	if (kept == NULL)
		return NULL;
	split->whole = kept;
	part->claims = split->claims + split->room;
	for (uint32_t i = 0; i < part->n; i++) {
		split->claims[split->room + i] = kept->claims[split->of[i]];
		split->claims[split->room + i].cost = split->claims[i].cost;
	}
	weir__eventual_moved(split);
	return part;
}

/* --- completing -------------------------------------------------------------------------------------------------- */

static bool is_in_part(const struct split *split, uint32_t i)
{
	for (uint32_t j = 0; j < split->part.n; j++)
		if (split->of[j] == i)
			return true;
	return false;
}

/* The store behind has decided the rest of a claim. is_allowed: the request is allowed. */
static void finish_claim(struct split *split, uint32_t j, bool is_allowed)
{
	struct weir__store_request *const whole = split->whole;
	const uint32_t i = split->of[j];
	const struct weir_claim *const claim = &whole->claims[i];
	const struct taken *const taken = &split->taken[i];
	struct weir_verdict *const verdict = &whole->verdicts[i];
	struct rule *const rule = weir__lease_rule(split->lease, claim->limit);

	*verdict = split->part.verdicts[j];
	if (whole->operation == WEIR__STORE_UPTO) {
		verdict->granted += taken->units;
		if (taken->units > 0) {
			verdict->allowed = true;
			verdict->retry_after = 0;
		}
	} else if (!weir__store_charges(whole->operation)) {
		verdict->remaining = weir__min(verdict->limit, weir__add_saturating(verdict->remaining, taken->units));
		if (taken->units > 0 && whole->operation != WEIR__STORE_REFUND && verdict->remaining >= claim->cost &&
		    !verdict->allowed) {
			verdict->allowed = true;
			verdict->retry_after = 0;
		}
	} else if (is_allowed) {
		verdict->granted += taken->units;
	} else {
		verdict->remaining = weir__min(verdict->limit, weir__add_saturating(verdict->remaining, taken->units));
		put_back(split->lease, claim, taken);
	}
	if (rule && rule->ahead == 0 && weir__store_charges(whole->operation) && taken->units == 0 &&
	    !verdict->allowed && split->part.fallback_nodes == 0)
		note_denial(split->lease, claim, rule, least_of(whole, i), verdict, whole->now);
}

/* An all-or-nothing request was denied: puts back the units of claims that held units covered. */
static void put_all_back(struct split *split)
{
	struct weir__store_request *const whole = split->whole;

	for (uint32_t i = 0; i < whole->n; i++)
		if (!is_in_part(split, i)) {
			struct weir_verdict *const verdict = &whole->verdicts[i];

			put_back(split->lease, &whole->claims[i], &split->taken[i]);
			verdict->granted = 0;
			verdict->remaining = weir__min(verdict->limit,
						       weir__add_saturating(verdict->remaining, split->taken[i].units));
		}
}

static void count_all(struct split *split)
{
	const struct weir__store_request *const whole = split->whole;

	for (uint32_t i = 0; i < whole->n; i++)
		if (!is_in_part(split, i) && whole->operation == WEIR__STORE_TAKE)
			weir__table_count(split->lease->options.table, whole->claims[i].limit, true);
}

/* The store behind has not decided: puts back the units that were taken out for its claims. */
static void undo_part(struct split *split)
{
	for (uint32_t j = 0; j < split->part.n; j++)
		if (weir__store_charges(split->whole->operation))
			put_back(split->lease, &split->whole->claims[split->of[j]], &split->taken[split->of[j]]);
}

/* Call it when the store behind has completed its part. */
static void finish(struct split *split)
{
	const struct weir__store_request *const part = &split->part;
	struct weir__store_request *const whole = split->whole;
	const bool is_decided = part->outcome == WEIR__STORE_DECIDED;
	bool is_allowed = is_decided;

	weir__lease_read_clock(split->lease);
	if (is_decided && part->fallback_nodes == 0)
		weir__lease_heard(split->lease, part->decided_at, split->sent_at);
	weir__eventual_heard(split);
	for (uint32_t j = 0; j < part->n && is_decided; j++)
		is_allowed = is_allowed && part->verdicts[j].allowed;
	for (uint32_t j = 0; j < part->n && is_decided; j++)
		finish_claim(split, j, whole->is_each ? part->verdicts[j].allowed : is_allowed);
	if (!is_decided)
		undo_part(split);
	whole->outcome = part->outcome;
	whole->decided_at = part->decided_at;
	whole->fallback_nodes = part->fallback_nodes;
	whole->is_uncertain = part->is_uncertain;
	whole->is_behind = part->is_behind;
	whole->is_closed = part->is_closed;
	whole->is_stored = part->is_stored || (whole->operation == WEIR__STORE_INSPECT && split->taken[0].units > 0);
	whole->full_at = part->full_at;
	if (whole->is_each)
		return;
	if (is_allowed)
		count_all(split);
	else
		put_all_back(split);
	if (whole->n > 1)
		whole->decision = weir__decision_of(whole->verdicts, whole->n);
}

static void complete_part(struct weir__store_request *part)
{
	struct split *const split = (struct split *)(void *)part;
	struct weir__store_request *const whole = split->whole;
	const struct weir__store *const store = &split->lease->store;

	finish(split);
	weir__lease_split_recycle(split);
	weir__store_complete(store, whole);
}

static const struct weir__store_caller part_caller = { keep_part, complete_part };

/* --- submitting -------------------------------------------------------------------------------------------------- */

static bool submit_behind(struct lease *lease, struct weir__store_request *request)
{
	lease->has_sent = true; /* gathered draws and pushes then go in the same call */
	return weir__store_submit(lease->options.store, request);
}

/* Returns true if the request is complete. */
static bool submit_part(struct split *split)
{
	struct weir__store_request *const part = &split->part, *const whole = split->whole;

	*part = (struct weir__store_request){ .operation = whole->operation,
					      .is_each = whole->is_each,
					      .n = part->n,
					      .claims = split->claims,
					      .verdicts = split->verdicts,
					      .now = whole->now,
					      .max_delay = whole->max_delay,
					      .charged_at = whole->charged_at,
					      .charged_cost = whole->charged_cost,
					      .charged_nodes = whole->charged_nodes,
					      .charged_full_at = whole->charged_full_at,
					      .caller = &part_caller };
	weir__eventual_ask(split);
	if (!submit_behind(split->lease, part))
		return false;
	finish(split);
	weir__lease_split_recycle(split);
	return true;
}

static void add_to_part(struct split *split, const struct weir__store_request *whole, uint32_t i,
			const struct taken *taken)
{
	split->of[split->part.n] = i;
	split->claims[split->part.n] = whole->claims[i];
	if (weir__store_charges(whole->operation))
		split->claims[split->part.n].cost -= taken->units;
	split->taken[i] = *taken;
	split->part.n++;
}

static bool complete_here(const struct lease *lease, struct weir__store_request *request)
{
	request->outcome = WEIR__STORE_DECIDED;
	request->decided_at = lease->at;
	request->fallback_nodes = WEIR__STORE_IN_LEASE;
	request->is_uncertain = request->is_behind = request->is_closed = false;
	request->n_current = request->n;
	return true;
}

static bool deny_without_memory(const struct lease *lease, struct weir__store_request *request)
{
	for (uint32_t i = 0; i < request->n; i++)
		request->verdicts[i] = (struct weir_verdict){ .retry_after = no_memory_ns,
							      .reset_after = no_memory_ns };
	(void)complete_here(lease, request);
	request->is_closed = true;
	if (!request->is_each && request->n > 1)
		request->decision = weir__decision_of(request->verdicts, request->n);
	return true;
}

/* A mirror decided the single claim. */
static bool complete_by_mirror(const struct lease *lease, struct weir__store_request *request)
{
	(void)complete_here(lease, request);
	request->decided_at = request->now;
	request->fallback_nodes = WEIR__STORE_IN_MIRROR;
	return true;
}

static struct spending spending_of(const struct weir__store_request *request, uint32_t i, struct rule *rule)
{
	const struct weir_claim *const claim = &request->claims[i];

	return (struct spending){ .claim = claim,
				  .rule = rule,
				  .hash = hash_of(request, i),
				  .now = request->now,
				  .least = least_of(request, i),
				  .takes_rest = request->operation == WEIR__STORE_UPTO ||
						claim->cost <= WEIR__VIEW_WORD(claim->limit, format.plan.most) };
}

static bool lease_rule_is_mirror(struct lease *lease, const struct weir__store_request *request)
{
	const struct rule *const rule = weir__lease_rule(lease, request->claims[0].limit);

	return rule && rule->ahead > 0;
}

static bool has_leased(struct lease *lease, const struct weir__store_request *request)
{
	const struct weir_table_limit *limit = NULL;

	for (uint32_t i = 0; i < request->n; i++)
		if (request->claims[i].limit != limit) {
			limit = request->claims[i].limit;
			if (weir__lease_rule(lease, limit))
				return true;
		}
	return false;
}

/* Decides a claim by held units or its mirror. Returns false if the store behind has to decide it. */
static inline bool take_here(struct lease *lease, struct weir__store_request *request, uint32_t i,
			     struct taken *ret_taken)
{
	const struct weir_claim *const claim = &request->claims[i];
	struct rule *const rule = weir__lease_rule(lease, claim->limit);
	struct spending spending;
	enum found found;

	*ret_taken = (struct taken){ .units = 0 };
	if (rule == NULL)
		return false;
	if (rule->ahead > 0) {
		found = weir__eventual_take(lease, request, i, rule, &request->verdicts[i]);
		if (found == BEHIND)
			return false;
		lease->counts[found == HERE ? WEIR__AHEAD_ALLOWED : WEIR__AHEAD_DENIED]++;
		if (request->operation != WEIR__STORE_DEPART)
			weir__table_count(lease->options.table, claim->limit, found == HERE);
		return true;
	}
	spending = spending_of(request, i, rule);
	found = spend(lease, &spending);
	if (WEIR__LIKELY(found == HERE)) {
		request->verdicts[i] = covered(lease, claim, spending.hash, request->now, spending.held, spending.end);
		lease->counts[WEIR__LEASE_ALLOWED]++;
	} else if (found == DENIED_HERE) {
		request->verdicts[i] = denied(lease, claim, spending.hash, request->now, spending.least, spending.end);
		lease->counts[WEIR__LEASE_DENIED]++;
	} else {
		*ret_taken = spending.taken;
		return false;
	}
	if (request->operation != WEIR__STORE_DEPART)
		weir__table_count(lease->options.table, claim->limit, found == HERE);
	return true;
}

/* Each claim by itself, or a single one. */
static bool take_each(struct lease *lease, struct weir__store_request *request)
{
	struct split *split = NULL;

	if (!weir__epoch_check_holds(request->epoch_check)) {
		request->outcome = WEIR__STORE_STALE;
		return true;
	}
	for (uint32_t i = 0; i < request->n; i++) {
		struct taken taken;

		if (take_here(lease, request, i, &taken))
			continue;
		if (split == NULL)
			split = weir__lease_split_new(lease, request->n);
		if (split == NULL) {
			put_back(lease, &request->claims[i], &taken);
			return deny_without_memory(lease, request);
		}
		split->whole = request;
		add_to_part(split, request, i, &taken);
	}
	if (split)
		return submit_part(split);
	return lease_rule_is_mirror(lease, request) ? complete_by_mirror(lease, request) :
						      complete_here(lease, request);
}

/* The mirrors have decided the part. */
static bool complete_part_here(struct split *split, bool is_allowed)
{
	struct lease *const lease = split->lease;
	const struct weir__store_request *const whole = split->whole;
	const uint32_t n = split->part.n;

	split->part = (struct weir__store_request){ .n = n,
						    .verdicts = split->verdicts,
						    .outcome = WEIR__STORE_DECIDED,
						    .decided_at = whole->now,
						    .fallback_nodes = WEIR__STORE_IN_MIRROR };
	split->n_asked = 0;
	lease->counts[is_allowed ? WEIR__AHEAD_ALLOWED : WEIR__AHEAD_DENIED]++;
	finish(split);
	weir__lease_split_recycle(split);
	return true;
}

/* Several claims, all or nothing: takes out held units first, then mirrors or the store behind decide the rest. */
static bool take_together(struct lease *lease, struct weir__store_request *request)
{
	struct split *const split = weir__lease_split_new(lease, request->n);

	if (split == NULL)
		return deny_without_memory(lease, request);
	if (!weir__epoch_check_holds(request->epoch_check)) {
		request->outcome = WEIR__STORE_STALE;
		weir__lease_split_recycle(split);
		return true;
	}
	split->whole = request;
	for (uint32_t i = 0; i < request->n; i++) {
		struct rule *const rule = weir__lease_rule(lease, request->claims[i].limit);
		struct spending spending = spending_of(request, i, rule);

		if (rule && rule->ahead == 0 && spend(lease, &spending) == HERE) {
			split->taken[i] = spending.taken;
			request->verdicts[i] = covered(lease, &request->claims[i], spending.hash, request->now,
						       spending.held, spending.end);
		} else {
			add_to_part(split, request, i, &spending.taken);
		}
	}
	if (split->part.n > 0) {
		const enum found found = weir__eventual_take_together(split);

		return found == BEHIND ? submit_part(split) : complete_part_here(split, found == HERE);
	}
	count_all(split);
	weir__lease_split_recycle(split);
	lease->counts[WEIR__LEASE_ALLOWED]++;
	request->decision = weir__decision_of(request->verdicts, request->n);
	return complete_here(lease, request);
}

/* Returns the units that are held for a key. */
static uint64_t held_of(struct lease *lease, const struct weir_claim *claim, const struct rule *rule, uint64_t hash,
			weir_ns *ret_end)
{
	struct weir__place place;
	struct weir__lot lot;

	weir__held_find(lease->options.table, claim->limit, weir__held_hash(hash, rule->salt), &place);
	if (place.slot == NULL || weir__place_is_claim(&place))
		return 0;
	*ret_end = weir__held_end(lease->options.table, place.seen);
	lot = weir__lot_unpack(weir__slot_own(place.seen));
	return lot.is_denied || lot.size == 0 || *ret_end <= lease->at ? 0 : lot.units;
}

/* Refunds units into the key's lot, up to the units that were spent of it. Also forgets a noted denial, because the
 * store refunds the rest. Returns how many units were refunded here. */
static uint64_t refund_here(struct lease *lease, const struct weir_claim *claim, const struct rule *rule, uint64_t hash)
{
	struct weir__region_header *const header = lease->options.table->region.header;
	struct weir__place place;
	uint64_t put = 0;

	atomic_fetch_add(&header->lease_refunds_begun, 1);
	weir__held_find(lease->options.table, claim->limit, weir__held_hash(hash, rule->salt), &place);
	if (place.slot && !weir__place_is_claim(&place)) {
		if (weir__lot_unpack(weir__slot_own(place.seen)).is_denied)
			(void)weir__atomic16_swap(place.slot, place.seen, (struct weir_state){ 0, 0 });
		else if (!put_into_lot(lease, claim, rule, hash, claim->cost,
				       weir__held_end(lease->options.table, place.seen), &put))
			put = 0; /* the lot was replaced or has ended */
	}
	atomic_fetch_add(&header->lease_refunds_done, 1);
	return put;
}

/* Decides a peek here if held units cover it. */
static bool peek_here(struct lease *lease, struct weir__store_request *request)
{
	const struct weir_claim *const claim = request->claims;
	const uint64_t hash = hash_of(request, 0);
	weir_ns end;
	const uint64_t held = held_of(lease, claim, weir__lease_rule(lease, claim->limit), hash, &end);

	if (held == 0 || held < claim->cost)
		return false;
	request->verdicts[0] = covered(lease, claim, hash, request->now, held, end);
	request->verdicts[0].granted = 0;
	return complete_here(lease, request);
}

/* Adds the held units to the units that the store says are left. A refund goes into the lot first: the store counts all
 * of a lot as used, so only this server knows what was spent of it. */
static bool look(struct lease *lease, struct weir__store_request *request)
{
	struct split *split;

	if (request->n == 1 && request->operation == WEIR__STORE_PEEK && lease_rule_is_mirror(lease, request)) {
		if (weir__eventual_peek(lease, request, 0, weir__lease_rule(lease, request->claims[0].limit),
					request->verdicts))
			return complete_by_mirror(lease, request);
	} else if (request->n == 1 && request->operation == WEIR__STORE_PEEK && peek_here(lease, request)) {
		return true;
	}
	split = weir__lease_split_new(lease, request->n);
	if (split == NULL)
		return submit_behind(lease, request);
	split->whole = request;
	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];
		const struct rule *const rule = weir__lease_rule(lease, claim->limit);
		const uint64_t hash = hash_of(request, i);
		struct taken taken = { .units = 0 };
		const bool is_leased = rule && rule->ahead == 0;
		uint64_t refunded = 0;

		if (is_leased && request->operation == WEIR__STORE_REFUND)
			refunded = refund_here(lease, claim, rule, hash);
		if (is_leased)
			taken.units = (uint32_t)held_of(lease, claim, rule, hash, &taken.end);
		if (refunded > 0 && refunded == claim->cost) {
			request->verdicts[i] = covered(lease, claim, hash, request->now, taken.units, taken.end);
			request->verdicts[i].granted = 0;
			continue;
		}
		add_to_part(split, request, i, &taken);
		split->claims[split->part.n - 1].cost -= refunded;
	}
	if (split->part.n > 0)
		return submit_part(split);
	weir__lease_split_recycle(split);
	return complete_here(lease, request);
}

/* Forgets the held units of keys that are about to be reset: the store forgets them, too. */
static void forget(struct lease *lease, const struct weir__store_request *request)
{
	struct weir_table *const table = lease->options.table;

	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];
		const struct rule *const rule = weir__lease_rule(lease, claim->limit);
		struct weir__place place;

		if (rule == NULL)
			continue;
		if (rule->ahead > 0) {
			weir__eventual_forget(lease, claim);
			continue;
		}
		do
			weir__held_find(table, claim->limit, weir__held_hash(hash_of(request, i), rule->salt), &place);
		while (place.slot && !weir__atomic16_swap(place.slot, place.seen, (struct weir_state){ 0, 0 }));
		if (place.slot && !weir__place_is_claim(&place) &&
		    weir__lot_unpack(weir__slot_own(place.seen)).size > 0)
			weir__lease_count(lease, WEIR__LEASE_EXPIRED,
					  weir__lot_unpack(weir__slot_own(place.seen)).units);
	}
}

/* Undoes a charge in the lot from which it was spent. Returns false if the lot was replaced: it arrived after the
 * charge then. */
static bool undo_here(struct lease *lease, const struct weir__store_request *request)
{
	const struct weir_claim *const claim = request->claims;
	struct rule *const rule = weir__lease_rule(lease, claim->limit);
	const uint64_t hash = hash_of(request, 0);
	const uint64_t units = weir__min(claim->cost, request->charged_cost);
	weir_ns end = 0;
	struct weir__place place;
	uint64_t held, put;

	if (rule == NULL || rule->ahead > 0)
		return false;
	weir__held_find(lease->options.table, claim->limit, weir__held_hash(hash, rule->salt), &place);
	if (place.slot == NULL)
		return false;
	end = weir__held_end(lease->options.table, place.seen);
	if (request->charged_at < weir__lot_arrived(&rule->terms, end) ||
	    !put_into_lot(lease, claim, rule, hash, units, end, &put))
		return false;
	held = held_of(lease, claim, rule, hash, &end);
	request->verdicts[0] = covered(lease, claim, hash, request->now, held, end);
	request->verdicts[0].granted = put;
	return true;
}

/* Undoes a charge in its lot if possible, or else in the store, as of when it was charged. */
static bool undo(struct lease *lease, struct weir__store_request *request)
{
	if (request->n == 1 && lease->has_any && undo_here(lease, request))
		return complete_here(lease, request);
	request->charged_nodes = 0;
	request->charged_at = lease->heard_offset ? request->charged_at + lease->heard_offset : 0;
	return submit_behind(lease, request);
}

/* The same for a charge that mirrors allowed. Its time is by the table's clock. */
static bool undo_in_mirror(struct lease *lease, struct weir__store_request *request)
{
	const bool is_mirror = lease->has_any && lease_rule_is_mirror(lease, request);

	if (request->n == 1 && is_mirror &&
	    weir__eventual_undo(lease, request, weir__lease_rule(lease, request->claims[0].limit)))
		return complete_by_mirror(lease, request);
	weir__lease_read_clock(lease);
	request->charged_nodes = 0;
	request->charged_at = lease->heard_offset ?
				      request->charged_at + (lease->at + lease->heard_offset - request->now) :
				      0;
	return is_mirror ? look(lease, request) : submit_behind(lease, request);
}

static bool has_mirror(struct lease *lease, const struct weir__store_request *request)
{
	for (uint32_t i = 0; i < request->n; i++) {
		const struct rule *const rule = weir__lease_rule(lease, request->claims[i].limit);

		if (rule && rule->ahead > 0)
			return true;
	}
	return false;
}

static bool submit(struct weir__store *store, struct weir__store_request *request)
{
	struct lease *const lease = (struct lease *)(void *)store;
	const bool has_any = begin(lease);

	if (WEIR__UNLIKELY(weir__store_gives_back(request->operation) &&
			   request->charged_nodes == WEIR__STORE_IN_LEASE))
		return undo(lease, request);
	if (WEIR__UNLIKELY(weir__store_gives_back(request->operation) &&
			   request->charged_nodes == WEIR__STORE_IN_MIRROR))
		return undo_in_mirror(lease, request);
	if (!has_any || !has_leased(lease, request))
		return submit_behind(lease, request);
	if (WEIR__LIKELY(weir__store_charges(request->operation)))
		return request->is_each || request->n == 1 ? take_each(lease, request) : take_together(lease, request);
	if (request->operation == WEIR__STORE_PEEK || request->operation == WEIR__STORE_INSPECT ||
	    request->operation == WEIR__STORE_REFUND)
		return look(lease, request);
	if (request->operation == WEIR__STORE_RESET)
		forget(lease, request);
	return has_mirror(lease, request) ? look(lease, request) : submit_behind(lease, request);
}

/* --- the store --------------------------------------------------------------------------------------------------- */

static void flush(struct weir__store *store)
{
	struct lease *const lease = (struct lease *)(void *)store;

	if (lease->has_sent)
		weir__lease_send(lease);
	lease->has_sent = false;
	weir__store_flush(lease->options.store);
}

static void collect(struct weir__store *store)
{
	weir__store_collect(((struct lease *)(void *)store)->options.store);
}

static weir_ns due(struct weir__store *store, weir_ns now)
{
	return weir__lease_due((struct lease *)(void *)store, now);
}

static bool leave(struct weir__store *store, bool goes_on)
{
	return weir__lease_leave((struct lease *)(void *)store, goes_on);
}

static void status(struct weir__store *store, struct weir__store_status *ret_status)
{
	struct lease *const lease = (struct lease *)(void *)store;

	lease->options.store->status(lease->options.store, ret_status);
	for (int i = 0; i < WEIR__LEASE_COUNTS; i++)
		ret_status->lease[i] = atomic_load_explicit(&lease->options.shared->counts[i], memory_order_relaxed);
}

static void free_store(struct weir__store *store)
{
	struct lease *const lease = (struct lease *)(void *)store;

	while (lease->spare) {
		struct split *const split = lease->spare;

		lease->spare = split->next_spare;
		weir__lease_split_free(split);
	}
	lease->options.store->free(lease->options.store);
	weir__lease_fini(lease);
	free(lease);
}

struct weir__store *weir__lease_store_new(const struct weir__lease_options *options)
{
	const size_t n = options->table->region.limits_max;
	struct lease *const lease = calloc(1, sizeof(*lease) + n * sizeof(lease->rules[0]));

	if (lease == NULL)
		return NULL;
	lease->options = *options;
	lease->nodes = 1;
	lease->owner = 1 + (uint32_t)(atomic_load(&options->table->region.header->lease_processes) % WEIR__OWNERS);
	weir__lease_init_watches(lease);
	lease->store = (struct weir__store){ .converts_on_look = options->store->converts_on_look,
					     .submit = submit,
					     .flush = flush,
					     .collect = collect,
					     .due = due,
					     .leave = leave,
					     .status = options->store->status ? status : NULL,
					     .free = free_store };
	return &lease->store;
}
