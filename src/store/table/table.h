/* table.h: what the files of the table share.
 *
 * A key has 16 candidate slots: 8 in its home pair of cache lines, 8 in an alternate pair. Most are found in the first
 * line of the first pair, at the cost of one miss. All that changes a slot is one compare-and-swap of its 16 bytes;
 * table_find.c says what that may be, and tests/models checks it. */
#ifndef WEIR_STORE_TABLE_TABLE_H
#define WEIR_STORE_TABLE_TABLE_H

#include <weir/table.h>

#include "core/step.h"
#include "store/table/history.h"
#include "store/table/stripe.h"
#include "store/table/view.h"

/* How far this process has come in its search for chunks that nothing refers to. */
struct weir__sweep {
	_Atomic bool is_at_work;
	weir_ns since;
	uint64_t line;
	uint32_t chunk;
	size_t marks_bytes;
	unsigned char marks[]; /* and after these, what was not marked the last time */
};

struct weir_table {
	struct weir__region region;
	weir_ns epoch;
	bool is_shared;
	struct weir__clock clock;  /* of a shared one */
	struct weir__sweep *sweep; /* of one with an arena */
	_Atomic uint64_t evict_next;
	/* Where there may be very many limits, their handles lie side by side, on huge pages; else NULL. */
	unsigned char *handles;
	size_t handles_bytes;
	_Atomic size_t handles_used;
	struct weir_table_limit *_Atomic limits[];
};

/* A key that is looked for, under a limit as it is by now. */
struct weir__key {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	uint64_t hash;
	uint32_t fingerprint, previous; /* of this era, and of the one before; the same if there is none */
	struct weir__view view;
};

/* Where a key is, and what was there. */
struct weir__place {
	union weir__atomic16 *slot; /* NULL: nowhere */
	struct weir_state seen;     /* all zero if nowhere */
	unsigned line;              /* of its candidates; LINES: nowhere */
	bool is_old;                /* packed by an older plan */
};

/* One change of a slot, to be able to take it back. */
struct weir__change {
	uint64_t number;                 /* of the limit's plan that it went by */
	union weir__atomic16 *slot;      /* NULL: nothing was changed */
	struct weir_state before, after; /* of keys that are in their slot */
	struct weir__slot_format format; /* by which it was packed */
	uint64_t event_at;               /* of keys that have a history */
};

/* What a decision rests on: it is made only while the word is this. Who changes limits together changes the word first: so
 * whoever has looked at the plans, and then finds the word as it was, has seen none of those that came after it. */
struct weir__epoch_check {
	void *const _Atomic *word;
	const void *is;
};

/* NULL: it rests on nothing. */
static inline bool weir__epoch_check_holds(const struct weir__epoch_check *epoch_check)
{
	return epoch_check == NULL || atomic_load_explicit(epoch_check->word, memory_order_acquire) == epoch_check->is;
}

/* A verdict on a key as that of a limit of so many, of which as much is used. */
static inline void weir__verdict_as_of(struct weir_verdict *verdict, uint64_t limit)
{
	const uint64_t used = verdict->limit - weir__min(verdict->limit, verdict->remaining);

	verdict->limit = limit;
	verdict->remaining = limit - weir__min(limit, used);
}

/* Which of two claims has decided. Denied: whoever denies longest. Allowed: whoever has least left. */
static inline bool weir__verdict_decides_more(const struct weir_verdict *a, const struct weir_verdict *b)
{
	if (a->allowed != b->allowed)
		return !a->allowed;
	if (a->allowed)
		return a->remaining < b->remaining;
	return a->never != b->never ? a->never : a->retry_after > b->retry_after;
}

static inline void weir__table_count(const struct weir_table *table, const struct weir_table_limit *limit, bool allowed)
{
	WEIR__HOLDS(limit->table == table);
	WEIR__COUNT(&table->region, limits[limit->index].of[allowed], 1);
}

/* Beyond the times that slots can hold, time stands still. */
static inline weir_ns weir__table_clamp(const struct weir_table *table, weir_ns now)
{
	if (WEIR__LIKELY(now - table->epoch <= WEIR__SLOT_TIME_MAX))
		return now;
	return now < table->epoch ? table->epoch : table->epoch + WEIR__SLOT_TIME_MAX;
}

static inline uint32_t weir__fingerprint_in(uint64_t hash, uint32_t era_mark)
{
	const uint32_t bits = (uint32_t)hash ^ era_mark;

	return bits ? bits : 1;
}

/* In the first era. */
static inline uint32_t weir__fingerprint(uint64_t hash)
{
	return weir__fingerprint_in(hash, 0);
}

static inline union weir__atomic16 *weir__table_line(const struct weir_table *table, uint64_t bits)
{
	return table->region.slots + (bits * table->region.lines >> 32) * WEIR__LINE_SLOTS;
}

static inline union weir__atomic16 *weir__table_home(const struct weir_table *table, uint64_t hash)
{
	return weir__table_line(table, hash >> 32);
}

/* The first line of the alternate pair, unless that is the home pair. */
static inline union weir__atomic16 *weir__table_alternate(const struct weir_table *table, uint64_t hash)
{
	return weir__table_line(table, (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* The lines that a key may be in: home, the other one of that pair, the two of the alternate pair. */
static inline void weir__table_lines(const struct weir_table *table, uint64_t hash,
				     union weir__atomic16 *ret_lines[WEIR__LINES])
{
	union weir__atomic16 *const slots = table->region.slots;
	const size_t home = (size_t)(weir__table_home(table, hash) - slots) / WEIR__LINE_SLOTS;
	size_t other = (size_t)(weir__table_alternate(table, hash) - slots) / WEIR__LINE_SLOTS;

	if ((home ^ other) < 2) /* the same pair; lines come in fours */
		other ^= 2;
	ret_lines[0] = slots + home * WEIR__LINE_SLOTS;
	ret_lines[1] = slots + (home ^ 1) * WEIR__LINE_SLOTS;
	ret_lines[2] = slots + other * WEIR__LINE_SLOTS;
	ret_lines[3] = slots + (other ^ 1) * WEIR__LINE_SLOTS;
}

/* Which of a line's slots have this fingerprint, a bit each. Without branches: which one it is cannot be foretold. What
 * is found is looked at again, all 16 bytes at once, so these reads need not be atomic together. */
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

/* A slot of a line with this fingerprint, other than `except`; settled, if there is one. */
static inline struct weir__place weir__line_find(union weir__atomic16 *line, uint32_t fingerprint,
						 const union weir__atomic16 *except)
{
	struct weir__place claim = { NULL, { 0, 0 }, 0, false };
	unsigned matches = weir__line_matches(line, fingerprint);

	for (; matches; matches &= matches - 1) {
		union weir__atomic16 *const slot = line + __builtin_ctz(matches);
		const struct weir_state seen = weir__atomic16_load(slot);

		if (slot == except || weir__slot_fingerprint(seen) != fingerprint)
			continue;
		if (WEIR__LIKELY(weir__slot_tag(seen) != WEIR__SLOT_CLAIMED))
			return (struct weir__place){ slot, seen, 0, false };
		claim = (struct weir__place){ slot, seen, 0, false };
	}
	return claim;
}

/* Field by field: a copy of the whole would wait until what was just written in parts has left the processor's store
 * buffer. That is why places and states are not returned, but written where they are wanted. */
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

/* What is taken from the slots of keys with this fingerprint without having leaked. */
static inline _Atomic uint64_t *weir__table_forgiven(const struct weir_table *table, uint32_t fingerprint)
{
	return &table->region.header->forgiven[fingerprint % WEIR__FORGIVEN];
}

/* The key as its limit is now. */
static inline void weir__key_init(struct weir__key *key, struct weir_table *table, const struct weir_table_limit *limit,
				  uint64_t hash)
{
	key->table = table;
	key->limit = limit;
	key->hash = hash;
	weir__view_load(limit, &key->view);
	key->fingerprint = weir__fingerprint_in(hash, key->view.era_mark);
	key->previous = weir__fingerprint_in(hash, key->view.previous_mark);
}

/* Where the key is, and what it owes: if it is nowhere, what a key owes that was never used. Removes a claim that nobody
 * seems to be at work on. If the limit was changed meanwhile, the key is looked for anew. */
void weir__table_find_anywhere(struct weir__key *key, struct weir__place *ret_place, struct weir_state *ret_state);

/* The same, quickly if it is in its home line and packed by the newest plan. */
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

/* Whether a slot that says its key is whole now may be that of one that is not. It goes by the plan that it was packed by.
 * If the limit has been changed since, to a slower rate or a larger burst, that is too early: so the change holds such
 * slots until no key can owe anything from before. All of them, as long as a clock is behind the change. */
static inline bool weir__table_holds(const struct weir_state *hold, struct weir_state slot, uint64_t now)
{
	return now < hold->hi && (now < hold->lo || weir__slot_full_at(slot) > hold->lo);
}

/* Says that something is about to be taken from the key's slot. */
static inline void weir__table_forgive(const struct weir__key *key, const struct weir__place *place)
{
	atomic_fetch_add(
		weir__table_forgiven(key->table, place->slot ? weir__slot_fingerprint(place->seen) : key->fingerprint),
		1);
}

/* Fetches what find will need beyond the home line, unless the key is there. */
void weir__table_prefetch_rest(const struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash);

/* Gives a key that is nowhere a slot with this content. False: something changed, begin again from find. */
bool weir__table_claim(const struct weir__key *key, struct weir_state content, weir_ns now,
		       union weir__atomic16 **ret_slot);

/* What was decided becomes so, and place says where. False: something changed, begin again. */
bool weir__table_put(const struct weir__key *key, struct weir__place *place, struct weir_state next, weir_ns now);

/* The key's slot as it is when it owes this. */
static inline struct weir_state weir__key_pack(const struct weir__key *key, const struct weir_state *state)
{
	return weir__view_pack(&key->view, key->fingerprint, state);
}

typedef struct weir_verdict weir__step(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

/* Takes something from a key that has not leaked: see table_decide.c. */
static inline bool weir__step_forgives(weir__step *step)
{
	return step == weir_step_refund || step == weir__step_refund_of;
}

/* Takes a step for a key. A key that was packed by an older plan is packed by the newest even where nothing else changes,
 * denied or only looked at: so as long as it is touched, its plan is known. ret_change may be NULL. False: the premise does
 * not hold, and nothing was decided. */
bool weir__table_step_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			    const struct weir_table_limit *limit, uint64_t hash, weir__step *step, weir_ns now,
			    uint64_t cost, struct weir_verdict *ret_verdict, struct weir__change *ret_change);

/* The same for limits whose keys have a history. */
bool weir__table_step_history(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			      const struct weir_table_limit *limit, uint64_t hash, weir__step *step, weir_ns now,
			      uint64_t cost, struct weir_verdict *ret_verdict, struct weir__change *ret_change);

static inline struct weir_verdict weir__table_step(struct weir_table *table, const struct weir_table_limit *limit,
						   uint64_t hash, weir__step *step, weir_ns now, uint64_t cost,
						   struct weir__change *ret_change)
{
	struct weir_verdict verdict;

	(void)weir__table_step_while(NULL, table, limit, hash, step, now, cost, &verdict, ret_change);
	return verdict;
}

/* How the events of a key's history are kept. */
struct weir__shape weir__table_shape(const struct weir_plan *plan);

/* Bytes of arena for so many keys with so many events. */
size_t weir__history_arena_size(const struct weir_plan *plan, uint64_t keys, uint64_t events);

/* A chunk, for which keys that are closer to fresh give way, but for that of one slot; 0 if there is none to be had. */
uint32_t weir__table_take_chunk(struct weir_table *table, weir_ns now, const union weir__atomic16 *except);

/* A slot that was taken from its key: what it refers to is given up. */
void weir__table_forget_history(struct weir_table *table, struct weir_state slot);

/* Takes units out of the event in which they were counted, unless something was forgiven since. */
void weir__table_take_back_event(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				 weir_ns now, uint64_t event_at, uint64_t units, uint64_t forgiven);

enum weir__log_answer { WEIR__LOG_DENIED, WEIR__LOG_ALLOWED, WEIR__LOG_WHOLE };

/* The short way for a sliding log. WHOLE: nothing was decided, take the other. */
enum weir__log_answer weir__table_allow_log(struct weir_table *table, const struct weir_table_limit *limit,
					    uint64_t hash, weir_ns now, uint64_t cost);

/* Looks for some more chunks that nothing refers to. */
void weir__table_sweep(struct weir_table *table, weir_ns clock);

/* weir_table_inspect, but with the verdict of a peek of this cost: both of one moment. */
struct weir_table_key weir__table_inspect(struct weir_table *table, const struct weir_table_limit *limit,
					  const void *key, size_t key_length, weir_ns now, uint64_t cost);

/* weir_table_change_limit. also_same: a change to the limit as it is counts as one, too, and carries keys over. */
int weir__table_change_limit(struct weir_table *table, const struct weir_table_limit *limit,
			     const struct weir_limit *to, weir_ns now, bool also_same,
			     struct weir_message *ret_message);

/* The same in two steps: the plan is written, then it becomes the limit's. If nothing is to be changed nothing is staged.
 * False: that is so already, by another thread, or somebody else has changed the limit instead. */
WEIR__BETWEEN_LIBRARIES int weir__table_stage_limit(struct weir_table *table, const struct weir_table_limit *limit,
						    const struct weir_limit *to, weir_ns now, bool also_same,
						    struct weir__plans_staged *ret_staged,
						    struct weir_message *ret_message);
WEIR__BETWEEN_LIBRARIES bool weir__table_settle_limit(struct weir_table *table, const struct weir_table_limit *limit,
						      const struct weir__plans_staged *staged);

/* Gives back up to n of what a key of a sliding counter or log was charged at that instant, and nothing that it was charged
 * later. Returns how much that was. */
uint64_t weir__table_refund_of(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			       size_t key_length, weir_ns charged_at, uint64_t n);

/* The secret of a limit: two hashes of its name, or of what else tells its keys from others. */
struct weir__hash_secret weir__limit_secret(const struct weir__hash_secret *of_table, const void *space,
					    size_t space_length);

/* What is soon known of a table, however large it is: `live` is reckoned from so many slots at most, each of which takes some
 * 1 ns. */
struct weir__table_key_count {
	uint64_t capacity, live, inserted, evicted; /* as in struct weir_table_stats */
	uint64_t seen;                              /* live keys in these slots */
	bool is_exact;                              /* they are all there are */
};

void weir__table_look(struct weir_table *table, weir_ns now, uint64_t slots_most,
		      struct weir__table_key_count *ret_glance);

/* weir_table_limit_stats of the limit that has this entry. */
void weir__table_limit_stats(const struct weir_table *table, uint32_t index, struct weir_table_limit_stats *ret_stats);

/* weir_table_take of a key that has been hashed. The caller counts. */
void weir__table_take_hashed(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash, weir_ns now,
			     uint64_t cost, struct weir_verdict *ret_verdict);

/* weir_table_take and weir_table_decide, of keys that have been hashed, while the premise holds; hashes may be NULL. False,
 * WEIR_ERR_CHANGE: it does not; then nothing was decided. */
bool weir__table_take_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			    const struct weir_table_limit *limit, uint64_t hash, weir_ns now, uint64_t cost,
			    struct weir_verdict *ret_verdict);
int weir__table_decide_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			     const struct weir_claim *claims, const uint64_t *hashes, size_t n, weir_ns now,
			     struct weir_verdict *verdicts, struct weir_decision *ret_decision);

/* Asks for the slots that a key with this hash may be in first, and for the counters of the limit with this entry. */
WEIR__BETWEEN_LIBRARIES void weir__table_prefetch_take(const struct weir_table *table,
						       const struct weir__region_limit *entry, uint64_t hash);

/* weir_table_allow of a key that has been hashed. The caller counts. */
bool weir__table_allow_hashed(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
			      weir_ns now, uint64_t cost);

#endif
