/* lease_eventual.c: decides requests by mirrors, and updates the mirrors from replies of the store behind.
 *
 * The mirror of a key is its own slot in the table. A second slot records the units that wait: allowed here, and not
 * confirmed by the store (eventual.h). The two slots change one after the other, and other workers may change either at
 * any moment. So the order matters:
 * - A charge is first counted as waiting, then charged to the mirror.
 * - For a reply, the mirror is read, then the units that wait. The sum of the reply and these units is written only if
 *   the mirror has not changed. So a unit that another worker allows meanwhile counts at least once. If another worker
 *   has handled a later reply by then, the write may only add usage.
 * - Pushed units wait until the reply to their push is in the mirror. Only one push of a key is under way, and the
 *   reply to an earlier one confirms nothing.
 * A race can make a unit count twice until the next reply. The reasons are in docs/internals/eventual.md. */
#include "core/notation.h"
#include "store/lease_internal.h"
#include "store/table/decision.h"

/* How long a slot with waiting units is kept. It is renewed while the store does not reply. */
static const weir_ns keep_ns = UINT64_C(60000000000);

/* A key and the slot that records what waits for it. */
struct record {
	struct lease *lease;
	const struct weir_table_limit *limit;
	const struct rule *rule;
	uint64_t key_hash; /* of the mirror */
	uint64_t hash;     /* of the slot */
	struct weir__place place;
	struct weir__waiting waiting;
	weir_ns end;
};

/* It does not depend on the limit: after a change of the limit, the units that wait must still be found and pushed. */
static uint64_t salt_of(const struct lease *lease)
{
	return lease->anchor * UINT64_C(0xd6e8feb86659fd93) ^ UINT64_C(0x5851f42d4c957f2d);
}

static struct record record_of(struct lease *lease, const struct weir_table_limit *limit, const struct rule *rule,
			       uint64_t key_hash)
{
	return (struct record){ .lease = lease,
				.limit = limit,
				.rule = rule,
				.key_hash = key_hash,
				.hash = weir__held_hash(key_hash, salt_of(lease)) };
}

/* Returns false if the key has no slot. A slot that has ended stays until it is reused. The time of the last reply in
 * it wraps around after 18 minutes, so it is cleared then. */
static bool find(struct record *record)
{
	for (;;) {
		weir__held_find(record->lease->options.table, record->limit, record->hash, &record->place);
		if (WEIR__LIKELY(!weir__place_is_claim(&record->place)))
			break;
		weir__table_await_claim(&record->place);
	}
	if (record->place.slot == NULL) {
		record->waiting = (struct weir__waiting){ .units = 0 };
		record->end = 0;
		return false;
	}
	record->waiting = weir__waiting_unpack(weir__slot_own(record->place.seen));
	record->end = weir__held_end(record->lease->options.table, record->place.seen);
	if (WEIR__UNLIKELY(record->end <= record->lease->at))
		record->end &= ~(weir_ns)WEIR__HEARD_MASK;
	return true;
}

static uint32_t heard_of(const struct record *record)
{
	return (uint32_t)record->end & WEIR__HEARD_MASK;
}

static bool is_heard(const struct record *record)
{
	return weir__heard_within(heard_of(record), record->lease->at, record->rule->number, record->rule->valid);
}

/* Whether the mirror exists and is valid. If its slot was evicted, the key would seem to be full. So even a full key
 * needs a slot here. */
static bool is_known(const struct record *record)
{
	struct weir__place mirror;

	if (!is_heard(record))
		return false;
	weir__held_find_made(record->lease->options.table, record->key_hash,
			     weir__fingerprint_in(record->key_hash, WEIR__VIEW_WORD(record->limit, mark)), &mirror);
	return mirror.slot != NULL && !weir__place_is_claim(&mirror);
}

static void set_end(struct record *record, weir_ns end, uint32_t heard)
{
	record->end = ((end + WEIR__HEARD_MASK) & ~(weir_ns)WEIR__HEARD_MASK) | heard;
}

/* When the last unit that waits was allowed, or up to a millisecond later. */
static weir_ns allowed_at(const struct record *record)
{
	return (record->end & ~(weir_ns)WEIR__HEARD_MASK) - keep_ns;
}

/* The owner of a key counts all units that wait for it, because another process may allow them or confirm them. */
static void count_waiting(const struct record *record, enum weir__lease_count what, uint64_t units)
{
	if (record->waiting.owner == record->lease->owner)
		weir__lease_count(record->lease, what, units);
}

/* Without units that wait, a slot is useless once its mirror has expired. */
static void let_expire(struct record *record)
{
	if (record->waiting.units == 0)
		set_end(record, record->lease->at + 2 * record->rule->valid, heard_of(record));
}

/* Returns false if the slot has changed: find it again. */
static bool put(struct record *record)
{
	const struct weir_state next = weir__held_slot(record->lease->options.table, record->limit, record->hash,
						       weir__waiting_pack(&record->waiting), record->end);

	if (!weir__atomic16_swap(record->place.slot, record->place.seen, next))
		return false;
	record->place.seen = next;
	return true;
}

static struct weir_verdict peek(struct lease *lease, const struct weir_claim *claim, uint64_t hash, weir_ns now,
				uint64_t cost)
{
	return weir__table_step(lease->options.table, claim->limit, hash, weir_step_peek,
				weir__table_clamp(lease->options.table, now), cost, NULL);
}

/* --- deciding ---------------------------------------------------------------------------------------------------- */

enum reserved { RESERVED, FULL, UNKNOWN };

static void unqueue(struct record *record)
{
	do {
		if (!find(record))
			return;
		record->waiting.is_queued = false;
	} while (!put(record));
}

/* Whether half of `ahead` waits, and no push is queued or under way. */
static bool is_due(const struct record *record)
{
	const struct weir__waiting *const waiting = &record->waiting;

	return waiting->units > 0 && waiting->units >= record->rule->ahead / 2 && !waiting->is_queued &&
	       !waiting->is_pushing;
}

/* Queues a push before the next sync, so that few requests have to wait for the store. Call it only after the mirror
 * has allowed: otherwise a flood of denied requests would push all the time. */
static void push_if_due(struct record *record, const struct weir_claim *claim, struct rule *rule)
{
	do {
		if (WEIR__LIKELY(!is_due(record)))
			return;
		record->waiting.is_queued = true;
	} while (!put(record) && find(record));
	if (record->waiting.is_queued && !weir__lease_push(record->lease, claim, rule))
		unqueue(record);
}

/* Counts the cost as waiting. FULL: more than `ahead` would wait. UNKNOWN: the mirror is not valid. Pushes up to
 * *ret_turn do not contain the cost. */
static enum reserved reserve(struct record *record, const struct weir_claim *claim, struct rule *rule,
			     uint32_t *ret_turn)
{
	struct lease *const lease = record->lease;
	bool is_new_owner;

	do {
		if (!find(record) || !is_known(record))
			return UNKNOWN;
		if (record->waiting.asks > 0 || claim->cost > rule->ahead ||
		    record->waiting.units + claim->cost > rule->ahead)
			return FULL;
		record->waiting.units += (uint32_t)claim->cost;
		record->waiting.is_used = true;
		is_new_owner = record->waiting.owner == 0;
		if (is_new_owner)
			record->waiting.owner = lease->owner;
		set_end(record, lease->at + keep_ns, heard_of(record));
	} while (!put(record));
	*ret_turn = record->waiting.turn;
	count_waiting(record, WEIR__AHEAD_COUNTED, is_new_owner ? record->waiting.units : claim->cost);
	if (WEIR__UNLIKELY(is_new_owner) && !weir__lease_watch_mirror(lease, claim, rule))
		weir__lease_count(lease, WEIR__LEASE_DROPPED, 1);
	return RESERVED;
}

/* The mirror did not allow these units after all. If a push has begun meanwhile, it may contain them: then they stay,
 * and the store counts them. */
static void unreserve(struct record *record, uint64_t units, uint32_t turn)
{
	do {
		if (!find(record) || record->waiting.turn != turn || record->waiting.units < units)
			return;
		record->waiting.units -= (uint32_t)units;
	} while (!put(record));
	count_waiting(record, WEIR__AHEAD_COUNTED, 0 - units);
}

/* Marks a key that denies as used, so that it is read from the store every sync. */
static void note_use(struct record *record, const struct weir_claim *claim, const struct rule *rule)
{
	bool is_new_owner;

	do {
		if (!find(record) || (record->waiting.is_used && record->waiting.owner != 0))
			return;
		record->waiting.is_used = true;
		is_new_owner = record->waiting.owner == 0;
		if (is_new_owner)
			record->waiting.owner = record->lease->owner;
	} while (!put(record));
	if (is_new_owner && !weir__lease_watch_mirror(record->lease, claim, rule))
		weir__lease_count(record->lease, WEIR__LEASE_DROPPED, 1);
}

static weir__step *step_of(enum weir__store_operation operation)
{
	return operation == WEIR__STORE_UPTO ? weir_step_upto : weir_step_take;
}

enum found weir__eventual_take(struct lease *lease, const struct weir__store_request *request, uint32_t i,
			       struct rule *rule, struct weir_verdict *ret_verdict)
{
	const struct weir_claim *const claim = &request->claims[i];
	const uint64_t hash = request->hashes ? request->hashes[i] : weir__lease_hash_of(claim);
	struct record record = record_of(lease, claim->limit, rule, hash);
	uint64_t least = claim->cost;
	uint32_t turn;

	switch (reserve(&record, claim, rule, &turn)) {
	case UNKNOWN:
		return BEHIND;
	case RESERVED:
		*ret_verdict = weir__table_step(lease->options.table, claim->limit, hash, step_of(request->operation),
						weir__table_clamp(lease->options.table, request->now), claim->cost,
						NULL);
		if (WEIR__UNLIKELY(ret_verdict->granted != claim->cost))
			unreserve(&record, claim->cost - ret_verdict->granted, turn);
		if (WEIR__UNLIKELY(!ret_verdict->allowed))
			return DENIED_HERE;
		push_if_due(&record, claim, rule);
		return HERE;
	case FULL:
		if (request->operation == WEIR__STORE_UPTO && least > 1)
			least = 1;
		*ret_verdict = peek(lease, claim, hash, request->now, least);
		if (ret_verdict->allowed)
			return BEHIND;
		note_use(&record, claim, rule);
	}
	return DENIED_HERE;
}

/* Call it when all claims are counted as waiting. Charges all their mirrors, or none. */
static bool charge_together(struct split *split, const uint64_t *hashes)
{
	const struct weir__store_request *const whole = split->whole;
	struct weir_table *const table = split->lease->options.table;
	struct weir_decision decision;

	if (whole->operation == WEIR__STORE_TAKE)
		(void)weir__table_decide_while(NULL, table, split->claims, hashes, split->part.n, whole->now,
					       split->verdicts, &decision);
	else
		(void)weir__table_charge_while(NULL, table, split->claims, hashes, split->part.n, whole->now,
					       whole->max_delay, split->verdicts, &decision);
	return decision.verdict.allowed;
}

/* Whether all mirrors are known and one denies. Fills in the verdicts. */
static bool is_denied_together(struct split *split, struct record *records, const uint64_t *hashes)
{
	const struct weir__store_request *const whole = split->whole;
	bool is_denied = false;

	for (uint32_t i = 0; i < split->part.n; i++) {
		if (!find(&records[i]) || !is_known(&records[i]))
			return false;
		split->verdicts[i] = peek(split->lease, &split->claims[i], hashes[i], whole->now,
					  split->claims[i].cost);
		is_denied |= !split->verdicts[i].allowed;
	}
	for (uint32_t i = 0; i < split->part.n && is_denied; i++) {
		if (split->verdicts[i].allowed)
			continue;
		note_use(&records[i], &split->claims[i], records[i].rule);
		if (whole->operation == WEIR__STORE_TAKE)
			weir__table_count(split->lease->options.table, split->claims[i].limit, false);
	}
	return is_denied;
}

enum found weir__eventual_take_together(struct split *split)
{
	struct lease *const lease = split->lease;
	struct record records[WEIR_TABLE_CLAIMS_MAX];
	struct rule *rules[WEIR_TABLE_CLAIMS_MAX];
	uint64_t hashes[WEIR_TABLE_CLAIMS_MAX];
	uint32_t turns[WEIR_TABLE_CLAIMS_MAX], n = 0;
	bool is_allowed = false;

	for (uint32_t i = 0; i < split->part.n; i++) {
		const struct weir_claim *const claim = &split->claims[i];

		rules[i] = weir__lease_rule(lease, claim->limit);
		if (rules[i] == NULL || rules[i]->ahead == 0)
			return BEHIND;
		hashes[i] = weir__lease_hash_of(claim);
		records[i] = record_of(lease, claim->limit, rules[i], hashes[i]);
	}
	while (n < split->part.n && reserve(&records[n], &split->claims[n], rules[n], &turns[n]) == RESERVED)
		n++;
	if (n == split->part.n)
		is_allowed = charge_together(split, hashes);
	for (uint32_t i = 0; i < n && is_allowed; i++)
		push_if_due(&records[i], &split->claims[i], rules[i]);
	if (is_allowed)
		return HERE;
	for (uint32_t i = 0; i < n; i++)
		unreserve(&records[i], split->claims[i].cost, turns[i]);
	return n == split->part.n || is_denied_together(split, records, hashes) ? DENIED_HERE : BEHIND;
}

bool weir__eventual_peek(struct lease *lease, const struct weir__store_request *request, uint32_t i, struct rule *rule,
			 struct weir_verdict *ret_verdict)
{
	const struct weir_claim *const claim = &request->claims[i];
	const uint64_t hash = request->hashes ? request->hashes[i] : weir__lease_hash_of(claim);
	struct record record = record_of(lease, claim->limit, rule, hash);

	if (!find(&record) || !is_known(&record))
		return false;
	*ret_verdict = peek(lease, claim, hash, request->now, claim->cost);
	return true;
}

/* The mirror first: in the other order, a reply in between could remove the units from the mirror twice. */
bool weir__eventual_undo(struct lease *lease, const struct weir__store_request *request, struct rule *rule)
{
	const struct weir_claim *const claim = request->claims;
	struct record record = record_of(lease, claim->limit, rule, weir__lease_hash_of(claim));
	const uint64_t units = weir__min(claim->cost, request->charged_cost);
	const struct weir__charge charge = { request->charged_at, request->charged_cost };

	if (!find(&record) || !is_known(&record) || record.waiting.is_pushing || record.waiting.units < units)
		return false;
	request->verdicts[0] = weir__table_undo(lease->options.table, claim->limit, claim->key, claim->key_length,
						request->now, &charge, units);
	unreserve(&record, request->verdicts[0].granted, record.waiting.turn);
	return true;
}

void weir__eventual_forget(struct lease *lease, const struct weir_claim *claim)
{
	struct rule *const rule = weir__lease_rule(lease, claim->limit);
	struct record record = record_of(lease, claim->limit, rule, weir__lease_hash_of(claim));
	uint32_t units;

	do {
		if (!find(&record))
			return;
		units = record.waiting.units;
		record.waiting.units = 0;
		record.waiting.is_pushing = record.waiting.is_unsure = false;
		record.waiting.turn = (record.waiting.turn + 1) % WEIR__TURNS;
	} while (!put(&record));
	count_waiting(&record, WEIR__AHEAD_CONFIRMED, units);
}

/* --- replies of the store ----------------------------------------------------------------------------------------- */

/* A push is complete. `units`, which the store has charged, or dropped because their window is over, wait no longer.
 * is_lost: the push had units and got no reply. */
static void confirm(struct record *record, uint32_t units, uint32_t turn, bool is_lost)
{
	do {
		if (!find(record) || !record->waiting.is_pushing || record->waiting.turn != turn)
			return;
		record->waiting.is_pushing = false;
		record->waiting.is_unsure |= is_lost;
		record->waiting.units -= units < record->waiting.units ? units : record->waiting.units;
		let_expire(record);
	} while (!put(record));
	count_waiting(record, WEIR__AHEAD_CONFIRMED, units);
}

/* Units that the store's verdict already counts as used. */
struct told {
	uint32_t pushed, turn; /* `pushed` still wait until the push of this turn is confirmed */
	uint32_t reserved;
};

struct unheard {
	struct record *record;
	struct told told;
};

/* Returns the units that wait and that the reply does not count. Reads last whether another worker has handled a later
 * reply: that worker notes its reply before it confirms units, so confirmed units are never missed. */
static uint64_t unheard_units(void *unheard_, bool *ret_only_raises)
{
	const struct unheard *const unheard = unheard_;
	const struct told *const told = &unheard->told;
	const struct weir__waiting *const waiting = &unheard->record->waiting;
	uint64_t counted = told->reserved;

	weir__read_barrier();
	(void)find(unheard->record);
	weir__read_barrier();
	*ret_only_raises |= !weir__lease_is_latest(unheard->record->lease);
	if (waiting->is_pushing && waiting->turn == told->turn)
		counted += told->pushed;
	return waiting->units - weir__min(waiting->units, counted);
}

/* Writes the reply into the mirror. Call it before the pushed units are confirmed: after that, workers may allow as
 * many others, and must decide by a mirror that has the reply. */
static void overwrite(struct record *record, uint64_t key_hash, const struct weir_verdict *said, bool is_whole,
		      struct told told)
{
	struct lease *const lease = record->lease;
	struct weir_table *const table = lease->options.table;
	const weir_ns now = lease->options.now ? lease->options.now(lease->options.context) : weir_table_now(table);
	struct unheard unheard = { record, told };

	weir__table_overwrite_with(table, record->limit, key_hash, now, said, !is_whole, unheard_units, &unheard);
}

/* Whether a push of another process is under way. If that process was killed, the slot says so until take_over. */
static bool is_pushed_by_another(const struct record *record)
{
	return record->waiting.is_pushing && record->waiting.owner != 0 &&
	       record->waiting.owner != record->lease->owner;
}

/* The mirror has the reply to a request that was submitted at sent_at. A reply by an older plan does not tell how much more
 * than the limit was used. So the mirror of a limit that was raised since may have too much left. */
static void set_heard(struct record *record, weir_ns sent_at, uint64_t number, bool is_decided, bool was_frozen)
{
	const bool is_current = number == weir__plans_number(record->limit->entry);
	const weir_ns age = record->lease->at - sent_at;

	do {
		if (!find(record))
			return;
		record->waiting.asks -= was_frozen && record->waiting.asks > 0;
		if (is_decided && is_current && !is_pushed_by_another(record) &&
		    !weir__heard_within(heard_of(record), record->lease->at, number, age)) {
			record->end = (record->end & ~(weir_ns)WEIR__HEARD_MASK) | weir__heard_code(sent_at, number);
			record->waiting.is_unsure = false;
			let_expire(record);
		}
	} while (!put(record));
}

/* --- requests for the store --------------------------------------------------------------------------------------- */

/* Units that this call already pushes for the same key, because of an earlier claim. */
static uint32_t pushed_before(const struct split *split, const struct weir_claim *claim, uint64_t hash, uint32_t turn)
{
	for (uint32_t k = 0; k < split->n_asked; k++)
		if (split->asked[k].is_pushing && split->asked[k].hash == hash && split->asked[k].turn == turn &&
		    split->claims[split->asked[k].of].limit == claim->limit)
			return split->asked[k].pushed;
	return 0;
}

/* An estimate by the store's clock that is never too early: the store must not drop a unit as one of an earlier window.
 * The store's clock has whole microseconds, and clock rates differ by up to a thousandth. */
static weir_ns in_store_time(const struct lease *lease, weir_ns at)
{
	return lease->sent_offset ? at + lease->sent_offset + (lease->at - lease->heard_at) / 1000 + 1000 : WEIR_NEVER;
}

/* Clears what another process had under way, if that process no longer uses the key: a running owner pushes every sync,
 * so the store replies and the mirror stays valid. */
static void take_over(struct record *record)
{
	if (record->waiting.owner == 0 || record->waiting.owner == record->lease->owner || is_heard(record))
		return;
	record->waiting.is_pushing = record->waiting.is_queued = record->waiting.is_unsure = false;
	record->waiting.asks = 0;
	record->waiting.turn = (record->waiting.turn + 1) % WEIR__TURNS;
	record->waiting.owner = 0;
}

/* Prepares an exact request for a key. If the mirror is close to the limit, or not valid, it allows nothing until the
 * reply (is_frozen). Otherwise the store reserves the units that the mirror may allow meanwhile. Returns false if the
 * slot has changed: call it again. */
static bool begin_ask(struct split *split, struct record *record, const struct weir_claim *claim,
		      struct asked_key *asked, uint64_t left)
{
	struct lease *const lease = record->lease;
	const bool is_charge = weir__store_charges(split->whole->operation), is_there = find(record);
	const uint64_t ahead = record->rule->ahead;
	uint64_t unsaid;
	bool is_new_owner;

	if (!is_there) {
		record->waiting.turn = (uint32_t)(lease->at >> WEIR__HEARD_BITS) % WEIR__TURNS;
		set_end(record, lease->at + keep_ns, 0);
	}
	take_over(record);
	asked->is_frozen = is_charge && record->waiting.asks < WEIR__ASKS_MOST &&
			   (!is_known(record) || left < weir__add_saturating(claim->cost, ahead));
	record->waiting.asks += asked->is_frozen;
	asked->is_pushing = record->waiting.units > 0 && !record->waiting.is_pushing && !record->waiting.is_unsure;
	asked->pushed = asked->is_pushing ? record->waiting.units : 0;
	if (asked->is_pushing) {
		record->waiting.is_pushing = true;
		record->waiting.turn = (record->waiting.turn + 1) % WEIR__TURNS;
	}
	asked->turn = record->waiting.turn;
	unsaid = asked->is_frozen || record->waiting.units > ahead ? record->waiting.units : ahead;
	unsaid -= weir__min(unsaid,
			    asked->is_pushing ? asked->pushed : pushed_before(split, claim, asked->hash, asked->turn));
	asked->reserved = is_charge ? (uint32_t)unsaid : 0;
	is_new_owner = record->waiting.units > 0 && record->waiting.owner == 0;
	if (is_new_owner)
		record->waiting.owner = lease->owner;
	let_expire(record);
	if (!weir__held_put(lease->options.table, record->limit, record->hash, &record->place,
			    weir__held_slot(lease->options.table, record->limit, record->hash,
					    weir__waiting_pack(&record->waiting), record->end),
			    split->whole->now))
		return false;
	if (!is_new_owner)
		return true;
	count_waiting(record, WEIR__AHEAD_COUNTED, record->waiting.units);
	if (!weir__lease_watch_mirror(lease, claim, record->rule))
		weir__lease_count(lease, WEIR__LEASE_DROPPED, 1);
	return true;
}

/* The push completes before the request that it precedes. weir__eventual_heard reads its outcome. */
static struct weir__store_request *keep_before(struct weir__store_request *request)
{
	return request;
}

static void complete_before(struct weir__store_request *request)
{
	(void)request;
}

static const struct weir__store_caller before_caller = { keep_before, complete_before };

void weir__eventual_ask(struct split *split)
{
	struct lease *const lease = split->lease;
	struct weir__store_request *const before = &split->before;
	uint32_t n = 0;

	split->n_asked = 0;
	for (uint32_t j = 0; j < split->part.n; j++) {
		const struct weir_claim *const claim = &split->claims[j];
		const struct rule *const rule = weir__lease_rule(lease, claim->limit);
		struct asked_key asked = { .of = j };
		struct record record;
		uint64_t left;

		if (rule == NULL || rule->ahead == 0)
			continue;
		asked.hash = weir__lease_hash_of(claim);
		asked.number = weir__plans_number(claim->limit->entry);
		record = record_of(lease, claim->limit, rule, asked.hash);
		left = peek(lease, claim, asked.hash, split->whole->now, 0).remaining;
		while (!begin_ask(split, &record, claim, &asked, left))
			;
		split->asked[split->n_asked++] = asked;
		if (asked.pushed == 0 && asked.reserved == 0)
			continue;
		split->pushed[n] = (struct weir_claim){ claim->limit, claim->key, claim->key_length, asked.pushed };
		split->pushes[n++] = (struct weir__store_push){ in_store_time(lease, allowed_at(&record)),
								asked.reserved };
		weir__lease_count(lease, WEIR__AHEAD_PUSHES, asked.is_pushing);
	}
	*before = (struct weir__store_request){ .operation = WEIR__STORE_PUSH,
						.is_each = true,
						.n = n,
						.claims = split->pushed,
						.verdicts = split->pushed_verdicts,
						.now = split->whole->now,
						.pushes = split->pushes,
						.outcome = WEIR__STORE_UNREACHED,
						.caller = &before_caller };
	split->part.before = n > 0 ? before : NULL;
	split->sent_at = lease->at;
}

void weir__eventual_moved(struct split *split)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < split->n_asked && split->part.before; k++)
		if (split->asked[k].pushed > 0 || split->asked[k].reserved > 0)
			split->pushed[n++].key = split->part.claims[split->asked[k].of].key;
}

void weir__eventual_heard(struct split *split)
{
	struct lease *const lease = split->lease;
	const bool is_decided = split->part.outcome == WEIR__STORE_DECIDED && split->part.fallback_nodes == 0;
	const bool is_pushed = split->before.outcome == WEIR__STORE_DECIDED;
	const bool is_lost = split->before.outcome == WEIR__STORE_UNANSWERED;

	for (uint32_t k = 0; k < split->n_asked; k++) {
		const struct asked_key *const asked = &split->asked[k];
		const struct weir_claim *const claim = &split->whole->claims[split->of[asked->of]];
		struct record record = record_of(lease, claim->limit, &lease->rules[claim->limit->index], asked->hash);

		if (is_decided)
			overwrite(&record, asked->hash, &split->part.verdicts[asked->of], split->part.is_whole,
				  (struct told){ asked->pushed, asked->turn, asked->reserved });
		if (asked->is_pushing)
			confirm(&record, is_pushed ? asked->pushed : 0, asked->turn, is_lost);
		set_heard(&record, split->sent_at, asked->number, is_decided, asked->is_frozen);
	}
	split->n_asked = 0;
}

/* --- pushes in the background ------------------------------------------------------------------------------------- */

bool weir__eventual_begin_push(struct lease *lease, const struct weir_claim *claim, const struct rule *rule,
			       uint32_t *ret_units, uint32_t *ret_turn, struct weir__store_push *ret_push)
{
	struct record record = record_of(lease, claim->limit, rule, weir__lease_hash_of(claim));
	bool is_needed;

	do {
		if (!find(&record))
			return false;
		is_needed = !record.waiting.is_pushing && (record.waiting.units > 0 || record.waiting.is_used);
		record.waiting.is_queued = false;
		if (is_needed) {
			record.waiting.is_pushing = true;
			record.waiting.is_used = false;
			record.waiting.turn = (record.waiting.turn + 1) % WEIR__TURNS;
		}
	} while (!put(&record));
	*ret_units = record.waiting.is_unsure ? 0 : record.waiting.units;
	*ret_turn = record.waiting.turn;
	*ret_push = (struct weir__store_push){ in_store_time(lease, allowed_at(&record)), 0 };
	weir__lease_count(lease, WEIR__AHEAD_PUSHES, is_needed);
	return is_needed;
}

void weir__eventual_end_push(struct lease *lease, const struct weir_claim *claim, const struct rule *rule,
			     uint32_t units, uint32_t turn, weir_ns sent_at, uint64_t number,
			     const struct weir__store_request *push, const struct weir_verdict *verdict)
{
	const uint64_t hash = weir__lease_hash_of(claim);
	struct record record = record_of(lease, claim->limit, rule, hash);

	if (push->outcome == WEIR__STORE_DECIDED)
		overwrite(&record, hash, verdict, push->is_whole, (struct told){ units, turn, 0 });
	confirm(&record, push->outcome == WEIR__STORE_DECIDED ? units : 0, turn,
		push->outcome == WEIR__STORE_UNANSWERED && units > 0);
	if (push->outcome == WEIR__STORE_DECIDED)
		set_heard(&record, sent_at, number, true, false);
}

/* Whether the window of the last unit is over for sure. A window that begins with a request may have begun with it. */
static bool is_over(const struct record *record, const struct weir_plan *plan)
{
	const struct lease *const lease = record->lease;
	const weir_ns allowed = allowed_at(record);

	if (plan->kind < WEIR_KIND_WINDOW || lease->at <= allowed)
		return false;
	if (plan->kind == WEIR_KIND_WINDOW && !(plan->flags & WEIR_PLAN_FIRST) && lease->heard_offset != 0)
		return in_store_time(lease, allowed) / plan->period <
		       (lease->at + lease->heard_offset - (lease->at - lease->heard_at) / 1000) / plan->period;
	return lease->at - allowed > weir__slot_longest(plan);
}

/* Renews the slot while the store does not reply. From then on, the last unit seems to be allowed now. So this first drops
 * units of windows that are over, as the store would. */
static void keep_waiting(struct record *record)
{
	const struct lease *const lease = record->lease;
	struct weir__view view;

	if (record->waiting.units == 0 || record->end - lease->at > keep_ns / 2)
		return;
	weir__view_load(record->limit, &view);
	if (!record->waiting.is_pushing && is_over(record, &view.format.plan))
		record->waiting.units = 0;
	set_end(record, lease->at + keep_ns, is_heard(record) ? heard_of(record) : 0);
}

bool weir__eventual_look(struct lease *lease, const struct weir_claim *claim, struct rule *rule, bool all)
{
	struct record record = record_of(lease, claim->limit, rule, weir__lease_hash_of(claim));
	bool is_needed, is_queued;
	uint32_t units;

	do {
		if (!find(&record) || record.waiting.owner != lease->owner)
			return false;
		units = record.waiting.units;
		keep_waiting(&record);
		is_needed = record.waiting.units > 0 || (record.waiting.is_used && !all);
		is_queued = is_needed && !record.waiting.is_queued && !record.waiting.is_pushing;
		record.waiting.is_queued |= is_queued;
		if (!is_needed)
			record.waiting.owner = 0;
	} while (!put(&record));
	weir__lease_count(lease, WEIR__AHEAD_CONFIRMED, units - record.waiting.units);
	if (is_queued && !weir__lease_push(lease, claim, rule))
		unqueue(&record);
	return is_needed;
}

void weir__eventual_let_go(struct lease *lease, const struct weir_claim *claim, const struct rule *rule)
{
	struct record record = record_of(lease, claim->limit, rule, weir__lease_hash_of(claim));

	do {
		if (!find(&record) || record.waiting.owner != lease->owner)
			return;
		record.waiting.is_queued = false;
		record.waiting.owner = 0;
	} while (!put(&record));
}
