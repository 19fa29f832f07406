/* lease_background.c: draws units from the store behind, gives back what is not used, and looks at lots for that.
 *
 * Claims of one limit are gathered for a few milliseconds, or until something else goes to the store, and are then one
 * request. So with a thousand keys a call carries many of them. No request of a client waits for any of this. */
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
	LOOKS_A_TURN = 4096, /* lots that one turn looks at, so that requests do not wait for long */
};

enum { DRAW, GIVE }; /* struct rule.open */

static const weir_ns gather_ns = 4000000; /* at most; an eighth of the duration of a short lease */
static const weir_ns count_nodes_ns = 100000000;
static const weir_ns first_class_ns = 8000000; /* each class of watches waits twice as long as the one before */

/* A request that draws units of keys of one limit, or gives them back. */
struct background {
	struct weir__store_request request; /* first member: the two convert by a cast */
	struct lease *lease;
	struct background *next, *previous;
	const struct weir_table_limit *limit;
	struct weir__lease_terms terms;
	uint64_t salt;
	weir_ns sent_at;
	bool is_window, is_open;
	size_t keys_used, keys_room;
	char *keys;
	struct weir_claim claims[CLAIMS_MOST];
	struct weir_verdict verdicts[CLAIMS_MOST];
	uint64_t ends[CLAIMS_MOST]; /* in us by the store's clock */
	size_t key_at[CLAIMS_MOST];
};

/* --- watches ----------------------------------------------------------------------------------------------------- */

/* A lot to look at: if nothing of it was spent since, it is given back. */
struct watch_entry {
	weir_ns due, end;
	uint32_t limit; /* index */
	uint32_t units;
	uint16_t key_length;
	char key[];
};

struct watch_chunk {
	struct watch_chunk *next;
	size_t first, used;
	char bytes[CHUNK_BYTES];
};

static size_t entry_size(size_t key_length)
{
	return (offsetof(struct watch_entry, key) + key_length + 7) & ~(size_t)7;
}

/* Lots are looked at after at most half of their duration, by a list of lots that all wait equally long. */
static unsigned class_of(weir_ns duration)
{
	unsigned class = 0;

	while (class + 1 < WATCH_CLASSES && first_class_ns << (class + 1) <= duration / 2)
		class ++;
	return class;
}

static void watch(struct lease *lease, const struct weir_claim *claim, weir_ns duration, weir_ns end, uint32_t units)
{
	const unsigned class = class_of(duration);
	struct watch *const watch = &lease->watches[class];
	const size_t size = entry_size(claim->key_length);
	struct watch_entry *entry;

	if (size > CHUNK_BYTES)
		return; /* no key is that long */
	if (watch->last == NULL || watch->last->used + size > CHUNK_BYTES) {
		struct watch_chunk *const chunk = lease->watch_bytes < WATCH_BYTES_MOST ? malloc(sizeof(*chunk)) : NULL;

		if (chunk == NULL) {
			weir__lease_count(lease, WEIR__LEASE_DROPPED, 1);
			return;
		}
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
	*entry = (struct watch_entry){ .due = lease->at + (first_class_ns << class),
				       .end = end,
				       .limit = claim->limit->index,
				       .units = units,
				       .key_length = (uint16_t)claim->key_length };
	memcpy(entry->key, claim->key, claim->key_length);
}

static struct watch_entry *first_entry(struct watch *watch)
{
	return watch->first ? (struct watch_entry *)(void *)&watch->first->bytes[watch->first->first] : NULL;
}

static void drop_first(struct lease *lease, struct watch *watch)
{
	struct watch_chunk *const chunk = watch->first;

	chunk->first += entry_size(first_entry(watch)->key_length);
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

/* The end counts from here, before the request is sent. */
static void submit_background(struct background *background, struct rule *rule)
{
	struct lease *const lease = background->lease;
	struct weir__store_request *const request = &background->request;
	const uint32_t n = request->n;
	const enum weir__store_operation operation = request->operation;

	for (int i = DRAW; rule && i <= GIVE; i++)
		if (rule->open[i] == background)
			rule->open[i] = NULL;
	for (uint32_t i = 0; i < n; i++)
		background->claims[i].key = background->keys + background->key_at[i];
	background->is_open = false;
	weir__lease_read_clock(lease);
	background->sent_at = lease->at;
	*request = (struct weir__store_request){ .operation = operation,
						 .is_each = true,
						 .n = n,
						 .claims = background->claims,
						 .verdicts = background->verdicts,
						 .now = weir_table_now(lease->options.table),
						 .lease_duration = background->terms.duration,
						 .lease_most = background->terms.most,
						 .lease_ends = background->ends,
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
	memcpy(background->keys + background->keys_used, claim->key, claim->key_length);
	background->key_at[background->request.n] = background->keys_used;
	background->keys_used = used;
	return true;
}

/* Returns false if too much is under way, or memory ran out. */
static bool add(struct lease *lease, const struct weir_claim *claim, struct rule *rule, int which, uint64_t units,
		uint64_t end_us)
{
	const weir_ns until = lease->at + weir__min(gather_ns, rule->terms.duration / 8);
	struct background *background = rule->open[which];

	if (background && (background->salt != rule->salt || background->request.n == CLAIMS_MOST)) {
		submit_background(background, rule);
		lease->has_sent = true; /* the next flush takes it along */
		background = NULL;
	}
	if (background == NULL) {
		background = new_background(lease);
		if (background == NULL)
			return false;
		background->request.operation = which == DRAW ? WEIR__STORE_GRANT : WEIR__STORE_RETURN;
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
			   uint32_t index, weir_ns end)
{
	const uint64_t now_us = (lease->at + lease->heard_offset) / 1000;

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

/* --- lots -------------------------------------------------------------------------------------------------------- */

/* The last instant at which this server may spend of a lot: counted from before the request was sent. */
static weir_ns end_of_lot(const struct lease *lease, const struct background *background,
			  const struct weir_verdict *verdict, uint64_t end_us)
{
	const weir_ns duration = background->terms.duration;
	weir_ns valid = duration, end, left;

	if (background->is_window) /* the lease ends with the window at the latest */
		valid = weir__min(valid, verdict->reset_after - verdict->reset_after / 1000);
	end = (background->sent_at + valid) & ~(weir_ns)WEIR__LOT_END_BITS;
	if (end <= lease->at)
		return 0;
	left = (end - lease->at) / (duration / 256);
	if (end_us % (duration / 4000) != 0)
		end |= WEIR__LOT_OFF_GRID;
	return end | weir__min(left, WEIR__LOT_LEFT_MASK);
}

/* A lot has arrived. It replaces the one before, whose rest is given back. */
static void put_lot(struct lease *lease, const struct background *background, struct rule *rule, uint32_t i)
{
	const struct weir_claim *const claim = &background->claims[i];
	const struct weir_verdict *const verdict = &background->verdicts[i];
	struct weir_table *const table = lease->options.table;
	const uint64_t hash = weir__held_hash(weir__hash(&claim->limit->secret, claim->key, claim->key_length),
					      rule->salt);
	const weir_ns end = end_of_lot(lease, background, verdict, background->ends[i]);
	const struct weir__lot lot = { .units = (uint32_t)verdict->granted,
				       .index = weir__lot_index(&rule->terms, background->ends[i]),
				       .size = weir__lot_size_code(verdict->granted) };
	struct weir__lot before = { .units = 0 };
	struct weir__place place;
	weir_ns end_before = 0;

	for (int tries = 0; end > 0 && tries < PUT_TRIES; tries++) {
		weir__held_find(table, claim->limit, hash, &place);
		if (weir__place_is_claim(&place))
			continue;
		if (!weir__held_put(table, claim->limit, hash, &place,
				    weir__held_slot(table, claim->limit, hash, weir__lot_pack(&lot), end),
				    background->request.now))
			continue;
		if (place.slot && weir__slot_fingerprint(place.seen) != 0) {
			before = weir__lot_unpack(weir__slot_own(place.seen));
			end_before = weir__held_end(table, place.seen);
		}
		if (before.size > 0)
			weir__lease_give_back(lease, claim, rule, before.units, before.index, end_before);
		watch(lease, claim, rule->terms.duration, end, lot.units);
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

/* A grant without a reply is void: if the store made it, its units wait there for the end of the lease. */
static void complete(struct weir__store_request *request)
{
	struct background *const background = (struct background *)(void *)request;
	struct lease *const lease = background->lease;

	weir__lease_read_clock(lease);
	if (request->outcome == WEIR__STORE_DECIDED) {
		weir__lease_heard(lease, request->decided_at);
		if (request->operation == WEIR__STORE_GRANT)
			take_grants(lease, background);
		else
			for (uint32_t i = 0; i < request->n; i++)
				weir__lease_count(lease, WEIR__LEASE_RETURNED, request->verdicts[i].granted);
	}
	recycle(background);
}

void weir__lease_heard(struct lease *lease, weir_ns decided_at)
{
	lease->heard_offset = decided_at - lease->at;
}

/* --- what is due ------------------------------------------------------------------------------------------------- */

/* Takes the rest of a lot out of its slot, if it is still this lot. all: even if it is in use. Returns false if the lot
 * is in use, with what is left of it. */
static bool take_out(struct lease *lease, const struct weir_claim *claim, struct rule *rule,
		     const struct watch_entry *entry, bool all, uint32_t *ret_units)
{
	struct weir_table *const table = lease->options.table;
	const uint64_t hash = weir__held_hash(weir__hash(&claim->limit->secret, claim->key, claim->key_length),
					      rule->salt);
	struct weir__place place;
	struct weir__lot lot;

	do {
		weir__held_find(table, claim->limit, hash, &place);
		if (place.slot == NULL || weir__place_is_claim(&place) ||
		    weir__held_end(table, place.seen) != entry->end)
			return true; /* replaced, evicted or forgotten */
		lot = weir__lot_unpack(weir__slot_own(place.seen));
		if (lot.is_denied || lot.size == 0)
			return true;
		if (!all && entry->end > lease->at && lot.units < entry->units) {
			*ret_units = lot.units;
			return false;
		}
	} while (!weir__atomic16_swap(place.slot, place.seen, (struct weir_state){ 0, 0 }));
	weir__lease_give_back(lease, claim, rule, lot.units, lot.index, entry->end);
	return true;
}

/* Looks at a lot. One that was not used since the last look is given back. */
static void look_at(struct lease *lease, struct watch *of, bool all)
{
	struct watch_entry *const entry = first_entry(of);
	const struct weir_table_limit *const limit = atomic_load_explicit(&lease->options.table->limits[entry->limit],
									  memory_order_acquire);
	const struct weir_claim claim = { limit, entry->key, entry->key_length, 0 };
	struct rule *const rule = limit ? weir__lease_rule(lease, limit) : NULL;
	uint32_t units;

	/* Of a limit that was changed, nothing finds the slot any more. */
	if (rule && !take_out(lease, &claim, rule, entry, all, &units))
		watch(lease, &claim, rule->terms.duration, entry->end, units);
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

weir_ns weir__lease_due(struct lease *lease, weir_ns now)
{
	weir_ns next = WEIR_NEVER;
	unsigned looks = 0;

	publish(lease);
	if (!lease->has_any && lease->backgrounds == NULL && lease->watch_bytes == 0)
		return WEIR_NEVER;
	weir__lease_read_clock(lease);
	count_nodes(lease);
	for (unsigned class = 0; class < WATCH_CLASSES; class ++) {
		struct watch *const of = &lease->watches[class];

		while (of->first && first_entry(of)->due <= lease->at && looks++ < LOOKS_A_TURN)
			look_at(lease, of, false);
		if (of->first)
			next = weir__min(next, first_entry(of)->due);
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

bool weir__lease_leave(struct lease *lease)
{
	lease->is_leaving = true;
	weir__lease_read_clock(lease);
	for (unsigned class = 0; class < WATCH_CLASSES; class ++) {
		struct watch *const of = &lease->watches[class];

		while (of->first && lease->n_backgrounds < BACKGROUNDS_MOST)
			look_at(lease, of, true);
	}
	weir__lease_send(lease);
	weir__store_flush(lease->options.store);
	publish(lease);
	return lease->backgrounds == NULL && lease->watch_bytes == 0;
}

void weir__lease_fini(struct lease *lease)
{
	while (lease->backgrounds) {
		struct background *const background = lease->backgrounds;

		unlink_background(background);
		free_background(background);
	}
	while (lease->spare_backgrounds) {
		struct background *const background = lease->spare_backgrounds;

		lease->spare_backgrounds = background->next;
		free_background(background);
	}
	for (unsigned class = 0; class < WATCH_CLASSES; class ++)
		while (lease->watches[class].first)
			drop_first(lease, &lease->watches[class]);
}

/* --- tables ------------------------------------------------------------------------------------------------------ */

/* The lowest bits are random enough, so that an anchor never returns. */
void weir__lease_begin(struct weir_table *table, bool goes_on, weir_ns boot_now)
{
	_Atomic uint64_t *const anchor = &table->region.header->lease_anchor;

	if (goes_on && atomic_load(anchor) != 0)
		return;
	atomic_store(anchor, weir_table_now(table) - boot_now);
}
