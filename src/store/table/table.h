/* table.h: the declarations that the files of the table share.
 *
 * A key has 16 candidate slots: 8 in its home pair of cache lines and 8 in an alternate pair. Most keys are found in
 * the first line of the home pair, at the cost of one cache miss. Every change of a slot is one compare-and-swap of its
 * 16 bytes. table_find.c says which changes are allowed, and tests/models checks them. The reasons are in
 * docs/internals/table.md. */
#ifndef WEIR_STORE_TABLE_TABLE_H
#define WEIR_STORE_TABLE_TABLE_H

#include <weir/table.h>

#include "core/step.h"
#include "store/table/leaf_hints.h"
#include "store/table/stripe.h"
#include "store/table/view.h"

/* The progress of this process in its search for chunks that nothing refers to. */
struct weir__sweep {
	_Atomic bool is_at_work;
	weir_ns since;
	uint64_t line;
	uint32_t chunk;
	size_t marks_bytes;
	unsigned char marks[]; /* followed by the chunks that the last sweep suspected */
};

struct weir_table {
	struct weir__region region;
	weir_ns epoch;
	bool is_shared;
	struct weir__clock clock;  /* of a shared table */
	struct weir__sweep *sweep; /* of a table with an arena; may be NULL */
	struct weir__leaf_hints leaf_hints;
	_Atomic uint64_t evict_next;
	uint32_t inline_slots; /* of 16 candidates, how many are the share of inline limits */
	/* With a large limits_max, the handles of limits lie side by side, on huge pages. Otherwise NULL. */
	unsigned char *handles;
	size_t handles_bytes;
	_Atomic size_t handles_used;
	struct weir_table_limit *_Atomic limits[];
};

/* A key to look up, under the limit as it is now. */
struct weir__key {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	uint64_t hash;
	uint32_t fingerprint; /* of this era */
	struct weir__view view;
};

/* Where a key is, and what its slot contained. */
struct weir__place {
	union weir__atomic16 *slot; /* NULL: the key has no slot */
	struct weir_state seen;     /* all zero if the key has no slot */
	unsigned line;              /* index among its candidate lines; LINES: no slot */
	bool is_old;                /* packed by an older plan */
	uint64_t era;               /* of its fingerprint */
};

/* A change of a slot, recorded so that it can be taken back. */
struct weir__change {
	uint64_t number;                 /* of the limit's plan that was applied */
	union weir__atomic16 *slot;      /* NULL: nothing was changed */
	struct weir_state before, after; /* for keys whose state is in the slot */
	struct weir__slot_format format; /* which packed `after` */
	uint64_t event_at;               /* for keys that have a history */
};

/* A condition of a decision: it is made only while the word has this value. A thread that changes several limits
 * together changes the word first. So a thread that reads the plans and then finds the word unchanged has seen none of
 * the plans that came after the change of the word. */
struct weir__epoch_check {
	void *const _Atomic *word;
	const void *is;
};

/* NULL: no condition. Acquire. */
static inline bool weir__epoch_check_holds(const struct weir__epoch_check *epoch_check)
{
	return epoch_check == NULL || atomic_load_explicit(epoch_check->word, memory_order_acquire) == epoch_check->is;
}

/* Restates a verdict for another limit, with the same number of units used. */
static inline void weir__verdict_as_of(struct weir_verdict *verdict, uint64_t limit)
{
	const uint64_t used = verdict->limit - weir__min(verdict->limit, verdict->remaining);

	verdict->limit = limit;
	verdict->remaining = limit - weir__min(limit, used);
}

static inline void weir__table_count(const struct weir_table *table, const struct weir_table_limit *limit, bool allowed)
{
	WEIR__HOLDS(limit->table == table);
	WEIR__COUNT(&table->region, limits[limit->index].of[allowed], 1);
}

/* Clamps a time to the range that slots can hold. */
static inline weir_ns weir__table_clamp(const struct weir_table *table, weir_ns now)
{
	if (WEIR__LIKELY(now - table->epoch <= WEIR__SLOT_TIME_MAX))
		return now;
	return now < table->epoch ? table->epoch : table->epoch + WEIR__SLOT_TIME_MAX;
}

/* The lowest bit is the group: 1 for the table's own limits, 0 for inline limits. The other 31 bits distinguish keys. 0
 * means that a slot has no key. So one in 2^31 inline keys is counted with the table's own keys. */
static inline uint32_t weir__fingerprint_in(uint64_t hash, uint32_t mark)
{
	const uint32_t bits = ((uint32_t)hash | 1) ^ mark;

	return bits ? bits : 1;
}

/* The fingerprint of a key of the table's own limits, in the first era. */
static inline uint32_t weir__fingerprint(uint64_t hash)
{
	return weir__fingerprint_in(hash, 0);
}

/* Whether a key of an inline limit has the slot. */
static inline bool weir__slot_is_inline(struct weir_state slot)
{
	return weir__slot_fingerprint(slot) != 0 && !(weir__slot_fingerprint(slot) & 1);
}

static inline union weir__atomic16 *weir__table_line(const struct weir_table *table, uint64_t bits)
{
	return table->region.slots + (bits * table->region.lines >> 32) * WEIR__LINE_SLOTS;
}

static inline union weir__atomic16 *weir__table_home(const struct weir_table *table, uint64_t hash)
{
	return weir__table_line(table, hash >> 32);
}

/* The first line of the alternate pair, unless the two pairs are the same: see weir__table_lines. */
static inline union weir__atomic16 *weir__table_alternate(const struct weir_table *table, uint64_t hash)
{
	return weir__table_line(table, (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* NULL: there are no hints. */
static inline _Atomic uint64_t *weir__table_leaf_hint(const struct weir_table *table, const union weir__atomic16 *slot)
{
	return weir__leaf_hint(&table->leaf_hints, (uint64_t)(slot - table->region.slots));
}

/* Prefetches the history that the slot refers to: its root and, with a hint, its leaves at the same time. */
static inline void weir__table_fetch_history(const struct weir_table *table, const struct weir__place *place)
{
	_Atomic uint64_t *const hint = weir__table_leaf_hint(table, place->slot);

	weir__history_fetch_root(&table->region.arena, weir__slot_root(place->seen));
	if (hint)
		weir__leaf_hint_fetch(&table->region.arena, hint);
}

/* The lines that a key may be in: its home line, the other line of that pair, and the two of the alternate pair. */
static inline void weir__table_lines(const struct weir_table *table, uint64_t hash,
				     union weir__atomic16 *ret_lines[WEIR__LINES])
{
	union weir__atomic16 *const slots = table->region.slots;
	const size_t home = (size_t)(weir__table_home(table, hash) - slots) / WEIR__LINE_SLOTS;
	size_t other = (size_t)(weir__table_alternate(table, hash) - slots) / WEIR__LINE_SLOTS;

	if ((home ^ other) < 2) /* the same pair; the number of lines is a multiple of four */
		other ^= 2;
	ret_lines[0] = slots + home * WEIR__LINE_SLOTS;
	ret_lines[1] = slots + (home ^ 1) * WEIR__LINE_SLOTS;
	ret_lines[2] = slots + other * WEIR__LINE_SLOTS;
	ret_lines[3] = slots + (other ^ 1) * WEIR__LINE_SLOTS;
}

/* Which slots of a line have this fingerprint, one bit each. There are no branches, since the processor could not
 * predict which slot it is. The caller reads a match again, all 16 bytes at once, so these reads need not be atomic
 * together. */
static inline unsigned weir__line_matches(union weir__atomic16 *line, uint32_t fingerprint)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	const __m128i *const slots = (const __m128i *)(const void *)line;
	const __m128i first = _mm_unpacklo_epi32(slots[0], slots[1]), last = _mm_unpacklo_epi32(slots[2], slots[3]);
	const __m128i equal = _mm_cmpeq_epi32(_mm_unpacklo_epi64(first, last), _mm_set1_epi32((int)fingerprint));

	return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(equal));
#else
	unsigned matches = 0;

	for (unsigned i = 0; i < WEIR__LINE_SLOTS; i++)
		matches |= (unsigned)((uint32_t)__atomic_load_n(&line[i].state.lo, __ATOMIC_RELAXED) == fingerprint)
			   << i;
	return matches;
#endif
}

/* Finds a slot of a line with this fingerprint, other than `except`. Prefers a settled slot to a claim. */
static inline struct weir__place weir__line_find(union weir__atomic16 *line, uint32_t fingerprint,
						 const union weir__atomic16 *except)
{
	struct weir__place claim = { NULL, { 0, 0 }, 0, false, 0 };
	unsigned matches = weir__line_matches(line, fingerprint);

	for (; matches; matches &= matches - 1) {
		union weir__atomic16 *const slot = line + __builtin_ctz(matches);
		const struct weir_state seen = weir__atomic16_load(slot);

		if (slot == except || weir__slot_fingerprint(seen) != fingerprint)
			continue;
		if (WEIR__LIKELY(weir__slot_tag(seen) != WEIR__SLOT_CLAIMED))
			return (struct weir__place){ slot, seen, 0, false, 0 };
		claim = (struct weir__place){ slot, seen, 0, false, 0 };
	}
	return claim;
}

/* Writes field by field. A copy of the struct would wait until the parts that were just written have left the
 * processor's store buffer. For the same reason places and states are written to where they are wanted, not
 * returned. */
static inline void weir__place_set(struct weir__place *place, union weir__atomic16 *slot, struct weir_state seen,
				   unsigned line)
{
	place->slot = slot;
	place->seen.lo = seen.lo;
	place->seen.hi = seen.hi;
	place->line = line;
	place->is_old = false;
}

static inline bool weir__place_is_claim(const struct weir__place *place)
{
	return place->slot && weir__slot_tag(place->seen) == WEIR__SLOT_CLAIMED;
}

/* Counts how often usage was forgiven to keys with this fingerprint: removed from their slots before it had
 * refilled. */
static inline _Atomic uint64_t *weir__table_forgiven(const struct weir_table *table, uint32_t fingerprint)
{
	return &table->region.header->forgiven[(fingerprint >> 1) % WEIR__FORGIVEN];
}

/* Prepares the key for a lookup, under its limit as it is now. */
static inline void weir__key_init(struct weir__key *key, struct weir_table *table, const struct weir_table_limit *limit,
				  uint64_t hash)
{
	key->table = table;
	key->limit = limit;
	key->hash = hash;
	weir__view_load(limit, &key->view);
	key->fingerprint = weir__fingerprint_in(hash, key->view.mark);
}

/* Finds the slot of the key and its state. Without a slot, nothing is used. The state of a key that has a history is
 * not set. If a key is in a slot although its limit now has histories, the state is a plain counter's. Removes a claim
 * that no thread seems to be working on. If the limit was changed meanwhile, starts again with the new view. */
void weir__table_find_anywhere(struct weir__key *key, struct weir__place *ret_place, struct weir_state *ret_state);

/* The same, with a fast path for a key in its home line that was packed by the newest plan. */
static inline void weir__table_find(struct weir__key *key, struct weir__place *ret_place, struct weir_state *ret_state)
{
	const struct weir__place place = weir__line_find(weir__table_home(key->table, key->hash), key->fingerprint,
							 NULL);

	if (WEIR__UNLIKELY(place.slot == NULL || weir__place_is_claim(&place) ||
			   weir__slot_generation(place.seen) != (key->view.format.tag & WEIR__SLOT_GENERATION_MASK))) {
		weir__table_find_anywhere(key, ret_place, ret_state);
		return;
	}
	*ret_state = weir__slot_unpack(&key->view.format, place.seen);
	weir__place_set(ret_place, place.slot, place.seen, 0);
}

/* Whether a slot whose full_at has passed may belong to a key that is not full. full_at follows the plan that packed
 * the slot. If the limit has since been changed to a slower rate or a larger burst, full_at is too early. So the change
 * holds such slots until no key can have usage from before it. While a clock is behind the change (now < hold->lo), all
 * slots are held. */
static inline bool weir__table_holds(const struct weir_state *hold, struct weir_state slot, uint64_t now)
{
	return now < hold->hi && (now < hold->lo || weir__slot_full_at(slot) > hold->lo);
}

/* Announces that usage is about to be removed from the key's slot. Call it after the key was found and before the
 * swap. */
static inline void weir__table_forgive(const struct weir__key *key, const struct weir__place *place)
{
	atomic_fetch_add(
		weir__table_forgiven(key->table, place->slot ? weir__slot_fingerprint(place->seen) : key->fingerprint),
		1);
}

/* Prefetches what weir__table_find will need beyond the home line, unless the key is in its home line. */
void weir__table_prefetch_rest(const struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash);

/* Waits until a claim is settled. Removes it if that takes too long. Then look again. */
void weir__table_await_claim(const struct weir__place *claim);

/* Gives a key without a slot a slot with this content. Returns false if something changed: start again from
 * weir__table_find. */
bool weir__table_claim(const struct weir__key *key, struct weir_state content, weir_ns now,
		       union weir__atomic16 **ret_slot);

/* Puts a decision into effect; place->slot is then the key's slot. Returns false if something changed: start again. */
bool weir__table_put(const struct weir__key *key, struct weir__place *place, struct weir_state next, weir_ns now);

/* Packs the key's slot for this state. */
static inline struct weir_state weir__key_pack(const struct weir__key *key, const struct weir_state *state)
{
	return weir__slot_pack(&key->view.format, key->fingerprint, state);
}

typedef struct weir_verdict weir__step(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* Whether the step removes usage that has not refilled: see table_decide.c. */
static inline bool weir__step_forgives(weir__step *step)
{
	return step == weir_step_refund;
}

/* Takes a step for a key. A key that was packed by an older plan is packed by the newest, even if nothing else changes
 * because the step denies or only peeks. So the plan of a key stays known as long as the key is touched. ret_change may
 * be NULL. Returns false if the epoch check fails; nothing was decided then. */
bool weir__table_step_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			    const struct weir_table_limit *limit, uint64_t hash, weir__step *step, weir_ns now,
			    uint64_t cost, struct weir_verdict *ret_verdict, struct weir__change *ret_change);

/* A take in two halves, with the effect of a take whose thread was slow between its read and its
 * swap. */
struct weir__prepared {
	struct weir__key key;
	struct weir__place place;
	struct weir_state before, next; /* the state, and the slot after the charge */
};

/* Returns false if the key has a history or was packed by an older plan: then take a whole step. */
bool weir__table_prepare(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash, weir_ns now,
			 uint64_t cost, struct weir__prepared *ret_prepared, struct weir_verdict *ret_verdict);

/* Turns the verdict of the prepared charge into the verdict of a peek. Returns false if a peek changes the state, because
 * the clock has stepped back: then take a whole step. */
bool weir__table_peek_prepared(const struct weir__prepared *prepared, weir_ns now, uint64_t cost,
			       struct weir_verdict *verdict);

/* Makes the charge. Returns false if something changed meanwhile. ret_change is as of weir__table_step_while. */
bool weir__table_put_prepared(struct weir__prepared *prepared, weir_ns now, struct weir__change *ret_change);

/* weir__table_step_while for limits whose keys have a history. */
bool weir__table_step_history(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			      const struct weir_table_limit *limit, uint64_t hash, weir__step *step, weir_ns now,
			      uint64_t cost, struct weir_verdict *ret_verdict, struct weir__change *ret_change);

/* weir__table_undo for limits whose keys have a history. */
struct weir_verdict weir__table_undo_history(struct weir_table *table, const struct weir_table_limit *limit,
					     uint64_t hash, weir_ns now, const struct weir__charge *charge, uint64_t n);

static inline struct weir_verdict weir__table_step(struct weir_table *table, const struct weir_table_limit *limit,
						   uint64_t hash, weir__step *step, weir_ns now, uint64_t cost,
						   struct weir__change *ret_change)
{
	struct weir_verdict verdict;

	(void)weir__table_step_while(NULL, table, limit, hash, step, now, cost, &verdict, ret_change);
	return verdict;
}

/* How the events of a key's history are laid out. */
struct weir__shape weir__table_shape(const struct weir_plan *plan);

/* Bytes of arena for this many keys with this many events each. SIZE_MAX: too many. */
size_t weir__history_arena_size(const struct weir_plan *plan, uint64_t keys, uint64_t events);

/* Takes a chunk. If none is free, folds the keys that have used least into their slots, but never the one in slot
 * `except`. Returns 0 if it finds no chunk. */
uint32_t weir__table_take_chunk(struct weir_table *table, weir_ns now, const union weir__atomic16 *except);

/* Takes up to n chunks in the same way, of which only the first may be one that was not free. Returns how many. */
uint32_t weir__table_take_chunks(struct weir_table *table, weir_ns now, const union weir__atomic16 *except,
				 uint32_t *numbers, uint32_t n);

/* Folds the key of a place into its slot. If anything has changed meanwhile, nothing happens, or another thread folds
 * it. */
void weir__table_fold(struct weir_table *table, const struct weir__place *place);

/* Gives up the history that a slot refers to, if any. Call it after the slot was taken from its key. */
void weir__table_forget_history(struct weir_table *table, struct weir_state slot);

/* Takes units out of the event in which they were counted, unless something was forgiven since. */
void weir__table_take_back_event(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				 weir_ns now, uint64_t event_at, uint64_t units, uint64_t forgiven);

enum weir__log_answer { WEIR__LOG_DENIED, WEIR__LOG_ALLOWED, WEIR__LOG_UNDECIDED };

/* The short path for a sliding log. WHOLE: nothing was decided. Take the long path. */
enum weir__log_answer weir__table_allow_log(struct weir_table *table, const struct weir_table_limit *limit,
					    uint64_t hash, weir_ns now, uint64_t cost);

/* Continues the search for chunks that nothing refers to, by a bounded amount of work. */
void weir__table_sweep(struct weir_table *table, weir_ns clock);

/* weir_table_inspect, but with the verdict of a peek of this cost. For a key whose state is in its slot, both describe
 * the same moment. */
struct weir_table_key weir__table_inspect(struct weir_table *table, const struct weir_table_limit *limit,
					  const void *key, size_t key_length, weir_ns now, uint64_t cost);

/* weir_table_change_limit. also_same: a change to an equal limit also counts as a change and converts keys. */
int weir__table_change_limit(struct weir_table *table, const struct weir_table_limit *limit,
			     const struct weir_limit *to, weir_ns now, bool also_same,
			     struct weir_message *ret_message);

/* The same in two steps: stage writes the plan, settle puts it into force. If the limit is the same already, nothing is
 * staged. settle returns false if another thread has put the plan into force or has changed the limit instead. */
WEIR__BETWEEN_LIBRARIES int weir__table_stage_limit(struct weir_table *table, const struct weir_table_limit *limit,
						    const struct weir_limit *to, weir_ns now, bool also_same,
						    struct weir__plans_staged *ret_staged,
						    struct weir_message *ret_message);
WEIR__BETWEEN_LIBRARIES bool weir__table_settle_limit(struct weir_table *table, const struct weir_table_limit *limit,
						      const struct weir__plans_staged *staged);

/* Gives back up to n units of one charge of a key: see weir__step_undo. If the limit was changed since the charge, what
 * has refilled is computed by the limit as it is now. */
struct weir_verdict weir__table_undo(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				     size_t key_length, weir_ns now, const struct weir__charge *charge, uint64_t n);

/* Overwrites the state of a key with the limit, remaining and reset_after that another store reported for it at `now`.
 * only_raises: nothing is written if the table already has as much usage. One swap and no allocation. A charge of a key
 * with a history that another thread makes at the same moment may be lost. */
void weir__table_overwrite(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			   size_t key_length, weir_ns now, const struct weir_verdict *said, bool only_raises);

/* The same for a key whose state is in its slot, of which this server knows more usage than the other store: `more` units.
 * It is called after the slot was read, and the slot is written only if it has not changed since. So a charge that is
 * counted in `more` first, and then in the slot, is never lost. A key of which nothing is used keeps a slot, which is free
 * for other keys, so that the caller can tell it from a key that was evicted. `more` may set *ret_only_raises, because a later reply of the
 * other store has come. Then the key has no more left than by both states, at any time. If the limit has been changed so that
 * the key has a history, `more` is not called. */
void weir__table_overwrite_with(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				weir_ns now, const struct weir_verdict *said, bool only_raises,
				uint64_t (*more)(void *context, bool *ret_only_raises), void *context);

enum { WEIR__INLINE_SHARE = 25 }; /* unless it is set */

/* Sets how much of a full table is for the keys of inline limits, in percent from 1 to 99. Call it before the table is
 * used. */
void weir__table_set_inline_share(struct weir_table *table, uint32_t percent);

/* The secret of a limit: two hashes of its name, or of other bytes that set its keys apart. */
struct weir__hash_secret weir__limit_secret(const struct weir__hash_secret *of_table, const void *space,
					    size_t space_length);

/* Key counts that are quick to get, however large the table is. `live` is estimated from at most slots_most slots, at
 * about 1 ns per slot. */
struct weir__table_key_count {
	/* As in struct weir_table_stats. */
	uint64_t capacity, live, inserted, evicted, folded, plans_lost, arena_bytes, arena_used;
	uint64_t damaged[WEIR__DAMAGES];    /* by enum weir__region_count */
	struct weir__mapping_state mapping; /* of a table with a guard */
	uint64_t seen;                      /* live keys in the slots that were read */
	bool is_exact;                      /* all slots were read */
};

void weir__table_look(struct weir_table *table, weir_ns now, uint64_t slots_most,
		      struct weir__table_key_count *ret_count);

/* weir_table_limit_stats for the limit with this index. */
void weir__table_limit_stats(const struct weir_table *table, uint32_t index, struct weir_table_limit_stats *ret_stats);

/* weir_table_take for a key that is already hashed. The caller counts the decision. */
void weir__table_take_hashed(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash, weir_ns now,
			     uint64_t cost, struct weir_verdict *ret_verdict);

/* weir_table_peek at a cost of 0 for a key that is already hashed. */
struct weir_verdict weir__table_peek_hashed(struct weir_table *table, const struct weir_table_limit *limit,
					    uint64_t hash, weir_ns now);

/* weir_table_take and weir_table_decide for keys that are already hashed, as long as the epoch check holds. hashes may
 * be NULL. If the check fails they return false and WEIR_ERR_CHANGE, and nothing was decided. */
bool weir__table_take_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			    const struct weir_table_limit *limit, uint64_t hash, weir_ns now, uint64_t cost,
			    struct weir_verdict *ret_verdict);
int weir__table_decide_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			     const struct weir_claim *claims, const uint64_t *hashes, size_t n, weir_ns now,
			     struct weir_verdict *verdicts, struct weir_decision *ret_decision);

/* weir__table_decide_while for a part of a decision, or of a wait: the limits' statistics do not count it. The caller
 * counts the complete decision. Denied if a limit that shapes would delay the request by more than max_delay. */
int weir__table_charge_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			     const struct weir_claim *claims, const uint64_t *hashes, size_t n, weir_ns now,
			     weir_ns max_delay, struct weir_verdict *verdicts, struct weir_decision *ret_decision);

/* Prefetches the home line of a key with this hash, and the counters of the limit with this entry. */
WEIR__BETWEEN_LIBRARIES void weir__table_prefetch_take(const struct weir_table *table,
						       const struct weir__region_limit *entry, uint64_t hash);

/* weir_table_allow for a key that is already hashed. The caller counts the decision. */
bool weir__table_allow_hashed(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
			      weir_ns now, uint64_t cost);

#endif
