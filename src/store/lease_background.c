/* lease_background.c: draws units from the store behind, returns units of lots that are not used, and pushes charges.
 *
 * Claims of one limit are gathered for a few milliseconds, or until another request goes to the store, and are then
 * sent as one request. So with a thousand keys one call carries many of them. No request of a client waits for this. */
#include <stdlib.h>
#include <string.h>

#include "core/notation.h"
#include "os/monotonic.h"
#include "store/lease_internal.h"

enum {
	CLAIMS_MOST = 128,     /* in a request */
	BACKGROUNDS_MOST = 64, /* requests, open and under way */
	SPARE_MOST = 8,
	CHUNK_BYTES = 16 * 1024,
	WATCH_BYTES_MOST = 256 * 1024 * 1024,
	PUT_TRIES = 16,
	TICK_NS = 1000,      /* of the store's clock */
	LOOKS_A_TURN = 4096, /* keys that one turn looks at, so that requests do not wait long */
};

enum { DRAW, GIVE, PUSH, OPEN }; /* struct rule.open */

static const weir_ns other_clock_ns = 20000000000; /* as in fallback_store.c */
static const weir_ns gather_ns = 4000000;          /* at most; an eighth of the duration of a short lease */
static const weir_ns count_nodes_ns = 100000000;
static const weir_ns first_class_ns = 8000000; /* each class of watches waits twice as long as the one before */

/* A request that draws, returns or pushes units, for keys of one limit. */
struct background {
	struct weir__store_request request; /* first member: the two convert by a cast */
	struct lease *lease;
	struct background *next, *previous;
	const struct weir_table_limit *limit;
	struct weir__lease_terms terms;
	uint64_t salt;
	weir_ns sent_at;
	uint64_t number; /* of the limit's plan when it was sent */
	bool is_window, is_open;
	size_t keys_used, keys_room;
	char *keys;
	struct weir_claim claims[CLAIMS_MOST];
	struct weir_verdict verdicts[CLAIMS_MOST];
	uint64_t ends[CLAIMS_MOST]; /* in us by the store's clock */
	size_t key_at[CLAIMS_MOST];
	struct weir__store_push pushes[CLAIMS_MOST];
	uint32_t turns[CLAIMS_MOST]; /* of pushes */
};

/* --- watches ----------------------------------------------------------------------------------------------------- */

/* A lot to look at: if nothing of it was spent since the last look, its units are returned. The entry has the hash of
 * the lot's slot, because after a change of the limit the key no longer leads to the slot. */
struct watch_entry {
	weir_ns end;
	uint64_t hash;
	uint32_t fingerprint;
	uint32_t limit; /* index */
	uint32_t units;
	uint16_t due; /* in ticks, modulo 2^16 ticks, which are more than a minute */
	uint16_t key_length;
	char key[];
} __attribute__((packed, aligned(4))); /* there may be millions */

enum { TICK_SHIFT = 20 }; /* a tick is about a millisecond */

static uint16_t ticks_at(weir_ns at)
{
	return (uint16_t)(at >> TICK_SHIFT);
}

struct watch_chunk {
	struct watch_chunk *next;
	size_t first, used;
	char bytes[CHUNK_BYTES];
};

static size_t entry_size(size_t key_length)
{
	return (offsetof(struct watch_entry, key) + key_length + 3) & ~(size_t)3;
}

/* The list for lots of this duration: it waits at most half of the duration. */
static unsigned class_of(weir_ns duration)
{
	unsigned class = 0;

	while (class + 1 < WATCH_CLASSES && first_class_ns << (class + 1) <= duration / 2)
		class ++;
	return class;
}

void weir__lease_init_watches(struct lease *lease)
{
	for (unsigned class = 0; class < WATCH_CLASSES; class ++)
		lease->watches[class].wait = first_class_ns << class;
}

/* `lot` is copied, besides `due`. Returns false if memory runs out. */
static bool add_entry(struct lease *lease, const struct watch_entry *lot, const char *key, unsigned class)
{
	struct watch *const watch = &lease->watches[class];
	const size_t size = entry_size(lot->key_length);
	struct watch_entry *entry;

	if (size > CHUNK_BYTES)
		return false; /* no key is that long */
	if (watch->last == NULL || watch->last->used + size > CHUNK_BYTES) {
		struct watch_chunk *const chunk = lease->watch_bytes < WATCH_BYTES_MOST ? malloc(sizeof(*chunk)) : NULL;

		if (chunk == NULL)
			return false;
		lease->watch_bytes += sizeof(*chunk);
		chunk->next = NULL;
		chunk->first = chunk->used = 0;
		if (watch->last)
			watch->last->next = chunk;
		else
			watch->first = chunk;
		watch->last = chunk;
	}
	entry = (void *)&watch->last->bytes[watch->last->used];
	watch->last->used += size;
	*entry = *lot;
	entry->due = ticks_at(lease->at + watch->wait);
	if (lot->key_length > 0)
		memcpy(entry->key, key, lot->key_length);
	watch->n++;
	return true;
}

static void watch(struct lease *lease, const struct watch_entry *lot, const char *key, unsigned class)
{
	if (!add_entry(lease, lot, key, class))
		weir__lease_count(lease, WEIR__LEASE_DROPPED, 1);
}

/* An entry is due when its tick is over. An entry never waits longer than its list: if it seems to, its tick was over long
 * ago, because the process or the machine was stopped. */
static weir_ns due_of(const struct lease *lease, const struct watch *watch, const struct watch_entry *entry)
{
	const uint16_t ticks = (uint16_t)(entry->due + 1 - ticks_at(lease->at));

	return ticks == 0 || ticks > (watch->wait >> TICK_SHIFT) + 2 ?
		       lease->at :
		       ((lease->at >> TICK_SHIFT) + ticks) << TICK_SHIFT;
}

/* The list for this `sync`. If there are more different ones than lists, a list of lots that waits no longer. */
static unsigned sync_class_of(struct lease *lease, weir_ns sync)
{
	for (unsigned class = WATCH_CLASSES; class < WATCH_CLASSES + SYNC_CLASSES; class ++)
		if (lease->watches[class].wait == sync || lease->watches[class].first == NULL) {
			lease->watches[class].wait = sync;
			return class;
		}
	return class_of(2 * sync);
}

bool weir__lease_watch_mirror(struct lease *lease, const struct weir_claim *claim, const struct rule *rule)
{
	const weir_ns sync = rule->eventual.sync > 0 ? rule->eventual.sync : first_class_ns;
	const struct watch_entry entry = { .limit = claim->limit->index, .key_length = (uint16_t)claim->key_length };

	return add_entry(lease, &entry, claim->key, sync_class_of(lease, sync));
}

static struct watch_entry *first_entry(struct watch *watch)
{
	return watch->first ? (struct watch_entry *)(void *)&watch->first->bytes[watch->first->first] : NULL;
}

static void drop_first(struct lease *lease, struct watch *watch)
{
	struct watch_chunk *const chunk = watch->first;

	chunk->first += entry_size(first_entry(watch)->key_length);
	watch->n--;
	if (chunk->first < chunk->used)
		return;
	watch->first = chunk->next;
	if (watch->first == NULL)
		watch->last = NULL;
	lease->watch_bytes -= sizeof(*chunk);
	free(chunk);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static void unlink_background(struct background *background)
{
	struct lease *const lease = background->lease;

	if (background->previous)
		background->previous->next = background->next;
	else
		lease->backgrounds = background->next;
	if (background->next)
		background->next->previous = background->previous;
	lease->n_backgrounds--;
}

static void free_background(struct background *background)
{
	free(background->keys);
	free(background);
}

static void recycle(struct background *background)
{
	struct lease *const lease = background->lease;

	unlink_background(background);
	if (lease->n_spare_backgrounds == SPARE_MOST) {
		free_background(background);
		return;
	}
	background->next = lease->spare_backgrounds;
	lease->spare_backgrounds = background;
	lease->n_spare_backgrounds++;
}

static struct background *new_background(struct lease *lease)
{
	struct background *background = lease->spare_backgrounds;

	if (lease->n_backgrounds == BACKGROUNDS_MOST)
		return NULL;
	if (background) {
		lease->spare_backgrounds = background->next;
		lease->n_spare_backgrounds--;
	} else {
		background = calloc(1, sizeof(*background));
		if (background == NULL)
			return NULL;
		background->lease = lease;
	}
	background->previous = NULL;
	background->next = lease->backgrounds;
	if (lease->backgrounds)
		lease->backgrounds->previous = background;
	lease->backgrounds = background;
	lease->n_backgrounds++;
	background->keys_used = 0;
	background->request.n = 0;
	background->is_open = true;
	return background;
}

/* The request stays where it is. */
static struct weir__store_request *keep(struct weir__store_request *request)
{
	return request;
}

static void complete(struct weir__store_request *request);

static const struct weir__store_caller caller = { keep, complete };

/* Takes out the keys for which there is nothing to push any more. Returns how many remain. */
static uint32_t begin_pushes(struct background *background, const struct rule *rule)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < background->request.n; i++) {
		struct weir_claim claim = background->claims[i];
		uint32_t units;

		if (!weir__eventual_begin_push(background->lease, &claim, rule, &units, &background->turns[n],
					       &background->pushes[n]))
			continue;
		claim.cost = units;
		background->claims[n++] = claim;
	}
	return n;
}

/* Leases begin here, before the request is sent. */
static void submit_background(struct background *background, struct rule *rule)
{
	struct lease *const lease = background->lease;
	struct weir__store_request *const request = &background->request;
	const enum weir__store_operation operation = request->operation;
	const bool is_push = operation == WEIR__STORE_PUSH;
	uint32_t n = request->n;

	for (int i = DRAW; rule && i < OPEN; i++)
		if (rule->open[i] == background)
			rule->open[i] = NULL;
	for (uint32_t i = 0; i < n; i++)
		background->claims[i].key = background->keys + background->key_at[i];
	background->is_open = false;
	weir__lease_read_clock(lease);
	if (is_push)
		n = begin_pushes(background, rule);
	if (n == 0) {
		recycle(background);
		return;
	}
	background->sent_at = lease->at;
	background->number = weir__plans_number(background->limit->entry);
	*request = (struct weir__store_request){ .operation = operation,
						 .is_each = true,
						 .n = n,
						 .claims = background->claims,
						 .verdicts = background->verdicts,
						 .now = weir_table_now(lease->options.table),
						 .lease_duration = background->terms.duration,
						 .lease_most = background->terms.most,
						 .lease_ends = background->ends,
						 .pushes = is_push ? background->pushes : NULL,
						 .caller = &caller };
	if (weir__store_submit(lease->options.store, request))
		complete(request);
}

void weir__lease_send(struct lease *lease)
{
	struct background *next;

	if (lease->gather_until == 0)
		return;
	lease->gather_until = 0;
	for (struct background *background = lease->backgrounds; background; background = next) {
		next = background->next;
		if (background->is_open)
			submit_background(background, &lease->rules[background->limit->index]);
	}
}

static bool add_key(struct background *background, const struct weir_claim *claim)
{
	const size_t used = background->keys_used + claim->key_length;

	if (used > background->keys_room) {
		const size_t room = 2 * used + 1024;
		char *const keys = realloc(background->keys, room);

		if (keys == NULL)
			return false;
		background->keys = keys;
		background->keys_room = room;
	}
	if (claim->key_length > 0) /* if the limit has no key, keys may be NULL */
		memcpy(background->keys + background->keys_used, claim->key, claim->key_length);
	background->key_at[background->request.n] = background->keys_used;
	background->keys_used = used;
	return true;
}

/* Returns false if too much is under way, or memory ran out. */
static bool add(struct lease *lease, const struct weir_claim *claim, struct rule *rule, int which, uint64_t units,
		uint64_t end_us)
{
	static const enum weir__store_operation operations[] = {
		[DRAW] = WEIR__STORE_GRANT, [GIVE] = WEIR__STORE_RETURN, [PUSH] = WEIR__STORE_PUSH
	};
	const weir_ns usual = which == PUSH ? rule->eventual.sync : rule->terms.duration;
	const weir_ns until = lease->at + weir__min(gather_ns, usual / 8);
	struct background *background = rule->open[which];

	if (background && (background->salt != rule->salt || background->request.n == CLAIMS_MOST)) {
		submit_background(background, rule);
		lease->has_sent = true; /* so that the next flush sends it */
		background = NULL;
	}
	if (background == NULL) {
		background = new_background(lease);
		if (background == NULL)
			return false;
		background->request.operation = operations[which];
		background->limit = claim->limit;
		background->terms = rule->terms;
		background->salt = rule->salt;
		background->is_window = rule->is_window;
		rule->open[which] = background;
	}
	if (!add_key(background, claim))
		return false;
	background->claims[background->request.n] = (struct weir_claim){ claim->limit, NULL, claim->key_length, units };
	background->ends[background->request.n++] = end_us;
	if (lease->gather_until == 0 || lease->gather_until > until)
		lease->gather_until = until;
	return true;
}

void weir__lease_draw(struct lease *lease, const struct weir_claim *claim, struct rule *rule, uint64_t units)
{
	if (lease->is_leaving)
		return;
	weir__lease_count(lease, WEIR__LEASE_DRAWS, 1);
	if (!add(lease, claim, rule, DRAW, units, 0))
		weir__lease_count(lease, WEIR__LEASE_DROPPED, 1);
}

void weir__lease_give_back(struct lease *lease, const struct weir_claim *claim, struct rule *rule, uint64_t units,
			   weir_ns end)
{
	const uint64_t now_us = (lease->at + lease->heard_offset) / 1000;
	const uint32_t index = end >> WEIR__LOT_INDEX_SHIFT & (WEIR__LOT_INDEXES - 1);

	if (units == 0)
		return;
	if (end <= lease->at || end & WEIR__LOT_OFF_GRID || lease->heard_offset == 0) {
		weir__lease_count(lease, WEIR__LEASE_EXPIRED, units);
		return;
	}
	if (add(lease, claim, rule, GIVE, units, weir__lot_end_near(&rule->terms, index, now_us))) {
		weir__lease_count(lease, WEIR__LEASE_GIVEN, units);
	} else {
		weir__lease_count(lease, WEIR__LEASE_EXPIRED, units);
		weir__lease_count(lease, WEIR__LEASE_DROPPED, 1);
	}
}

bool weir__lease_push(struct lease *lease, const struct weir_claim *claim, struct rule *rule)
{
	if (add(lease, claim, rule, PUSH, 0, 0))
		return true;
	weir__lease_count(lease, WEIR__LEASE_DROPPED, 1);
	return false;
}

/* --- lots -------------------------------------------------------------------------------------------------------- */

/* The end of a lot, counted from before the request was sent. It is early enough that the other facts in its lowest
 * bits (WEIR__LOT_END_BITS) never make it late. */
static weir_ns end_of_lot(const struct lease *lease, const struct background *background,
			  const struct weir_verdict *verdict, uint64_t end_us)
{
	const weir_ns duration = background->terms.duration;
	const weir_ns lent = end_us * 1000 - weir__min(end_us * 1000, background->request.decided_at);
	weir_ns valid = duration, end, left;

	WEIR__HOLDS(duration >= 4000); /* see weir__lease_terms_of */
	if (background->is_window)     /* the lease ends with the window at the latest */
		valid = weir__min(valid, verdict->reset_after - verdict->reset_after / 1000);
	else if (lent < duration) /* so does one of a newer plan, which may be a window */
		valid = lent - lent / 1000;
	end = (background->sent_at + valid - WEIR__LOT_END_BITS) & ~(weir_ns)WEIR__LOT_END_BITS;
	if (end <= lease->at)
		return 0;
	left = (end - lease->at) / (duration / 256);
	if (end_us % (duration / 4000) != 0)
		end |= WEIR__LOT_OFF_GRID;
	end |= (weir_ns)weir__lot_index(&background->terms, end_us) << WEIR__LOT_INDEX_SHIFT;
	return end | weir__min(left, WEIR__LOT_LEFT_MASK);
}

/* A lot has arrived. It replaces the previous one, the rest of which is returned. */
static void put_lot(struct lease *lease, const struct background *background, struct rule *rule, uint32_t i)
{
	const struct weir_claim *const claim = &background->claims[i];
	const struct weir_verdict *const verdict = &background->verdicts[i];
	struct weir_table *const table = lease->options.table;
	const uint64_t hash = weir__held_hash(weir__hash(&claim->limit->secret, claim->key, claim->key_length),
					      rule->salt);
	const weir_ns end = end_of_lot(lease, background, verdict, background->ends[i]);
	const uint32_t size = weir__lot_size_code(verdict->granted);
	const struct weir__lot lot = { .units = (uint32_t)weir__lot_size(size), .size = size };
	struct weir__lot before = { .units = 0 };
	struct weir__place place;
	weir_ns end_before = 0;

	for (int tries = 0; end > 0 && tries < PUT_TRIES; tries++) {
		weir__held_find(table, claim->limit, hash, &place);
		if (weir__place_is_claim(&place)) {
			weir__table_await_claim(&place);
			continue;
		}
		if (!weir__held_put(table, claim->limit, hash, &place,
				    weir__held_slot(table, claim->limit, hash, weir__lot_pack(&lot), end),
				    background->request.now))
			continue;
		if (place.slot && weir__slot_fingerprint(place.seen) != 0) {
			before = weir__lot_unpack(weir__slot_own(place.seen));
			end_before = weir__held_end(table, place.seen);
		}
		if (before.size > 0)
			weir__lease_give_back(lease, claim, rule, before.units, end_before);
		weir__lease_give_back(lease, claim, rule, verdict->granted - lot.units, end);
		watch(lease,
		      &(struct watch_entry){ .end = end,
					     .hash = hash,
					     .fingerprint = weir__held_fingerprint(claim->limit, hash),
					     .limit = claim->limit->index,
					     .units = lot.units,
					     .key_length = (uint16_t)claim->key_length },
		      claim->key, class_of(rule->terms.duration));
		return;
	}
	weir__lease_count(lease, WEIR__LEASE_EXPIRED, verdict->granted);
}

static void take_grants(struct lease *lease, const struct background *background)
{
	struct rule *const rule = weir__lease_rule(lease, background->limit);
	const bool is_current = rule && rule->salt == background->salt;

	for (uint32_t i = 0; i < background->request.n; i++) {
		const uint64_t granted = background->verdicts[i].granted;

		if (granted == 0 || granted > WEIR__LOT_UNITS_MOST)
			continue;
		weir__lease_count(lease, WEIR__LEASE_GRANTED, granted);
		if (is_current)
			put_lot(lease, background, rule, i);
		else
			weir__lease_count(lease, WEIR__LEASE_EXPIRED, granted);
	}
}

static void take_pushes(struct lease *lease, const struct background *background)
{
	const struct weir__store_request *const request = &background->request;
	const struct rule *const rule = &lease->rules[background->limit->index];

	for (uint32_t i = 0; i < request->n; i++)
		weir__eventual_end_push(lease, &background->claims[i], rule, (uint32_t)background->claims[i].cost,
					background->turns[i], background->sent_at, background->number, request,
					&background->verdicts[i]);
}

/* A grant without a reply is void: if the store made it, it counts the units as used when the lease ends. */
static void complete(struct weir__store_request *request)
{
	struct background *const background = (struct background *)(void *)request;
	struct lease *const lease = background->lease;

	weir__lease_read_clock(lease);
	if (request->outcome == WEIR__STORE_DECIDED)
		weir__lease_heard(lease, request->decided_at, background->sent_at);
	if (request->operation == WEIR__STORE_PUSH) {
		take_pushes(lease, background);
	} else if (request->outcome == WEIR__STORE_DECIDED) {
		if (request->operation == WEIR__STORE_GRANT)
			take_grants(lease, background);
		else
			for (uint32_t i = 0; i < request->n; i++)
				weir__lease_count(lease, WEIR__LEASE_RETURNED, request->verdicts[i].granted);
	}
	recycle(background);
}

/* Returns the place of a reply in the order of replies; 0: a worker has handled a later one. The store's clock has
 * whole microseconds, so the rest of a time numbers the replies of one instant, which may be parts of one call. A time
 * that is older than any delay explains means that the store has another clock now. */
static weir_ns order_of(struct weir__lease_shared *shared, weir_ns decided_at)
{
	const weir_ns instant = decided_at - decided_at % TICK_NS;
	weir_ns seen = atomic_load_explicit(&shared->latest, memory_order_relaxed), mine;

	do {
		if (seen >= instant + TICK_NS - 1 && seen - instant < other_clock_ns)
			return 0;
		mine = seen - seen % TICK_NS == instant ? seen + 1 : instant;
	} while (!atomic_compare_exchange_weak(&shared->latest, &seen, mine));
	return mine;
}

bool weir__lease_is_latest(const struct lease *lease)
{
	return lease->order != 0 && atomic_load(&lease->options.shared->latest) == lease->order;
}

void weir__lease_heard(struct lease *lease, weir_ns decided_at, weir_ns sent_at)
{
	lease->order = order_of(lease->options.shared, decided_at);
	lease->heard_offset = decided_at - lease->at;
	lease->sent_offset = decided_at - sent_at;
	lease->heard_at = lease->at;
}

/* --- looking at keys --------------------------------------------------------------------------------------------- */

enum { LOT_IS_GONE, LOT_IS_USED, LOT_IS_TAKEN };

/* Takes the units of a lot out of its slot, unless some were spent since the last look. Spent units may be refunded
 * until the lease ends, so the slot stays if there are any. all: takes the units in any case, and the slot does not
 * stay. */
static int take_out(struct lease *lease, const struct watch_entry *entry, bool all, uint32_t *ret_units,
		    bool *ret_stays)
{
	struct weir_table *const table = lease->options.table;
	struct weir__place place;
	struct weir_state next;

	do {
		struct weir__lot lot, spent = { .units = 0 };

		*ret_stays = false;
		weir__held_find_made(table, entry->hash, entry->fingerprint, &place);
		if (place.slot == NULL || weir__place_is_claim(&place) ||
		    weir__held_end(table, place.seen) != entry->end)
			return LOT_IS_GONE; /* replaced, evicted or forgotten */
		lot = weir__lot_unpack(weir__slot_own(place.seen));
		if (lot.is_denied || lot.size == 0)
			return LOT_IS_GONE;
		*ret_units = lot.units;
		*ret_stays = !all && entry->end > lease->at && lot.units < weir__lot_size(lot.size);
		if (*ret_stays && lot.units < entry->units)
			return LOT_IS_USED;
		spent.size = weir__lot_size_code(weir__lot_size(lot.size) - lot.units);
		next = *ret_stays ? weir__slot_make(weir__slot_fingerprint(place.seen), weir__lot_pack(&spent),
						    weir__slot_full_at(place.seen), 0) :
				    (struct weir_state){ 0, 0 };
	} while (!weir__atomic16_swap(place.slot, place.seen, next));
	return LOT_IS_TAKEN;
}

/* Charges that wait are pushed even if the limit has become exact. */
static void look_at_mirror(struct lease *lease, const struct weir_claim *claim, bool all)
{
	struct rule *const rule = claim->limit ? &lease->rules[claim->limit->index] : NULL;

	if (rule && weir__eventual_look(lease, claim, rule, all) && !weir__lease_watch_mirror(lease, claim, rule))
		weir__lease_count(lease, WEIR__LEASE_DROPPED, 1);
}

/* Looks at the first key of a list. Returns the units of a lot that was not used since the last look. If the limit was
 * changed meanwhile, the units only count as expired: the store counts them as used. */
static void look_at(struct lease *lease, unsigned class, bool all)
{
	struct watch *const of = &lease->watches[class];
	struct watch_entry *const entry = first_entry(of);
	const struct weir_table_limit *const limit = atomic_load_explicit(&lease->options.table->limits[entry->limit],
									  memory_order_acquire);
	const struct weir_claim claim = { limit, entry->key, entry->key_length, 0 };
	struct rule *const rule = limit ? weir__lease_rule(lease, limit) : NULL;
	const bool is_current =
		rule && entry->end != 0 &&
		entry->hash == weir__held_hash(weir__hash(&limit->secret, entry->key, entry->key_length), rule->salt);
	struct watch_entry again;
	uint32_t units = 0;
	bool stays;
	int found;

	if (entry->end == 0) {
		look_at_mirror(lease, &claim, all || rule == NULL || rule->ahead == 0);
		drop_first(lease, of);
		return;
	}
	found = take_out(lease, entry, all || !is_current, &units, &stays);
	if (found == LOT_IS_TAKEN && is_current)
		weir__lease_give_back(lease, &claim, rule, units, entry->end);
	else if (found == LOT_IS_TAKEN)
		weir__lease_count(lease, WEIR__LEASE_EXPIRED, units);
	if (stays) {
		again = *entry;
		again.units = found == LOT_IS_USED ? units : 0;
		watch(lease, &again, entry->key, class);
	}
	drop_first(lease, of);
}

static void count_nodes(struct lease *lease)
{
	struct weir__store *const store = lease->options.store;
	struct weir__store_status status;

	if (store->status == NULL || (lease->counted_at != 0 && lease->at - lease->counted_at < count_nodes_ns))
		return;
	store->status(store, &status);
	lease->nodes = status.nodes > 0 ? status.nodes : 1;
	lease->counted_at = lease->at;
}

static void publish(struct lease *lease)
{
	for (int i = 0; i < WEIR__LEASE_COUNTS; i++)
		if (lease->counts[i] != 0) {
			atomic_fetch_add_explicit(&lease->options.shared->counts[i], lease->counts[i],
						  memory_order_relaxed);
			lease->counts[i] = 0;
		}
}

static weir_ns do_what_is_due(struct lease *lease, weir_ns now)
{
	weir_ns next = WEIR_NEVER;
	unsigned looks = 0;

	if (!lease->has_any && lease->backgrounds == NULL && lease->watch_bytes == 0)
		return WEIR_NEVER;
	weir__lease_read_clock(lease);
	count_nodes(lease);
	for (unsigned class = 0; class < WATCH_CLASSES + SYNC_CLASSES; class ++) {
		struct watch *const of = &lease->watches[class];

		while (of->first && due_of(lease, of, first_entry(of)) <= lease->at && looks++ < LOOKS_A_TURN)
			look_at(lease, class, false);
		if (of->first)
			next = weir__min(next, due_of(lease, of, first_entry(of)));
	}
	if (lease->gather_until != 0 && lease->gather_until <= lease->at) {
		weir__lease_send(lease);
		weir__store_flush(lease->options.store);
	}
	if (lease->gather_until != 0)
		next = weir__min(next, lease->gather_until);
	if (next == WEIR_NEVER)
		return WEIR_NEVER;
	return next <= lease->at ? now : weir__add_saturating(now, next - lease->at);
}

/* Publishes last: a worker without connections may not run again. */
weir_ns weir__lease_due(struct lease *lease, weir_ns now)
{
	const weir_ns next = do_what_is_due(lease, now);

	publish(lease);
	return next;
}

/* Keys with units that wait are looked at again until these are confirmed. A process that takes over gets the lots. */
bool weir__lease_leave(struct lease *lease, bool goes_on)
{
	lease->is_leaving = true;
	lease->is_left = goes_on;
	weir__lease_read_clock(lease);
	for (unsigned class = 0; class < WATCH_CLASSES + SYNC_CLASSES; class ++) {
		struct watch *const of = &lease->watches[class];

		for (size_t n = of->n; n > 0 && lease->n_backgrounds < BACKGROUNDS_MOST; n--)
			if (goes_on && first_entry(of)->end != 0)
				drop_first(lease, of);
			else
				look_at(lease, class, true);
	}
	weir__lease_send(lease);
	weir__store_flush(lease->options.store);
	publish(lease);
	return lease->backgrounds == NULL && lease->watch_bytes == 0;
}

/* The process that takes over the table must not wait for replies to this one. */
static void let_go(struct lease *lease)
{
	for (struct background *background = lease->backgrounds; background; background = background->next)
		if (background->request.operation == WEIR__STORE_PUSH && !background->is_open) {
			background->request.outcome = WEIR__STORE_UNANSWERED;
			take_pushes(lease, background);
		}
	for (unsigned class = 0; class < WATCH_CLASSES + SYNC_CLASSES; class ++)
		for (struct watch *const of = &lease->watches[class]; of->first; drop_first(lease, of)) {
			const struct watch_entry *const entry = first_entry(of);
			const struct weir_claim claim = { atomic_load(&lease->options.table->limits[entry->limit]),
							  entry->key, entry->key_length, 0 };

			if (claim.limit && entry->end == 0)
				weir__eventual_let_go(lease, &claim, &lease->rules[entry->limit]);
		}
}

static void abandon(struct weir__lease_shared *shared, struct background *background)
{
	struct weir__lease_background *const as_shared = (void *)background;
	struct weir__lease_background *first = atomic_load(&shared->abandoned);

	do
		background->next = (void *)first;
	while (!atomic_compare_exchange_weak(&shared->abandoned, &first, as_shared));
}

void weir__lease_shared_fini(struct weir__lease_shared *shared)
{
	struct background *background = (void *)atomic_exchange(&shared->abandoned, NULL);

	while (background) {
		struct background *const next = background->next;

		free_background(background);
		background = next;
	}
}

void weir__lease_fini(struct lease *lease)
{
	if (lease->is_left)
		let_go(lease);
	while (lease->backgrounds) {
		struct background *const background = lease->backgrounds;

		lease->backgrounds = background->next;
		if (background->is_open)
			free_background(background);
		else
			abandon(lease->options.shared, background);
	}
	while (lease->spare_backgrounds) {
		struct background *const background = lease->spare_backgrounds;

		lease->spare_backgrounds = background->next;
		free_background(background);
	}
	for (unsigned class = 0; class < WATCH_CLASSES + SYNC_CLASSES; class ++)
		while (lease->watches[class].first)
			drop_first(lease, &lease->watches[class]);
}
