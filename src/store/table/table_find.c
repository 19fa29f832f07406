/* table_find.c: which key has which slot.
 *
 * A key has at most one settled slot. A lookup takes several reads, during which other threads insert keys. So a new
 * slot is taken in two swaps:
 *
 *   1. claim: put {fingerprint, a nonce of this claim} into a slot, CLAIMED
 *   2. look at all other candidates once more. If the key is settled there, withdraw. If it is claimed there, the claim
 *      at the lower address goes on and removes the other one, and the other one withdraws. If the limit was changed
 *      meanwhile, withdraw.
 *   3. settle: swap the claim for the charged state. This is when the key is charged.
 *
 * If two threads insert the same key at once, at least one of them does step 2 after the other's step 1, and so sees
 * it. Any thread may remove a claim at any time. The owner of the claim then fails at step 3 and starts again. So a
 * process that dies leaves nothing that others wait for. The nonce keeps a late step 3 from settling another thread's
 * claim.
 *
 * If a key's slot is reclaimed while a thread is about to charge it, the thread's swap fails.
 * tests/models/table_slots.pml is a model of this protocol.
 * The reasons are in docs/internals/table.md. */
#include "core/uninitialized.h"
#include "os/pause.h"
#include "store/table/table.h"

enum {
	LINES = WEIR__LINES, /* home, the other line of that pair, the two of the alternate pair */
	CANDIDATES = WEIR__CANDIDATES,
	PAIR_SLOTS = 2 * WEIR__LINE_SLOTS,
	/* A home pair with fewer taken slots than this gets the key without a look at how full the alternate pair is. A
	 * larger number puts more keys into the line that is read first. A smaller number evicts fewer keys when the
	 * table is nearly full. At two thirds full, 6 gives 86 % and 16 ppm, 7 gives 89 % and 334 ppm, 5 gives 82 % and
	 * 0.4 ppm. */
	PAIR_CROWDED = 6,
	PATIENCE = 64, /* pauses to wait for another thread's claim, which takes about one */
};

/* A key that has been full for less than this may still have usage by another clock, or by the time that a thread read
 * before it was descheduled for a while. */
static const weir_ns clocks_differ_ns = 100000000;

struct candidates {
	union weir__atomic16 *lines[LINES];
};

static struct candidates candidates_of(const struct weir_table *table, uint64_t hash)
{
	struct candidates candidates;

	weir__table_lines(table, hash, candidates.lines);
	return candidates;
}

static union weir__atomic16 *candidate(const struct candidates *candidates, unsigned i)
{
	return candidates->lines[i / WEIR__LINE_SLOTS] + i % WEIR__LINE_SLOTS;
}

/* The bit of the slot as in weir__line_matches. 0 if the slot is in another line. */
static unsigned bit_in_line(const union weir__atomic16 *line, const union weir__atomic16 *slot)
{
	const uintptr_t at = ((uintptr_t)slot - (uintptr_t)line) / sizeof(*slot);

	return at < WEIR__LINE_SLOTS ? 1u << at : 0;
}

/* Finds a slot of the key other than the caller's own claim. Prefers a settled slot to a claim. */
static void look_for(const struct candidates *candidates, uint32_t fingerprint, const union weir__atomic16 *own_claim,
		     struct weir__place *ret_place)
{
	unsigned matches = 0;

	weir__place_set(ret_place, NULL, (struct weir_state){ 0, 0 }, LINES);
	for (unsigned line = 0; line < LINES; line++)
		matches |= weir__line_matches(candidates->lines[line], fingerprint) &
			   ~bit_in_line(candidates->lines[line], own_claim);
	for (unsigned line = 0; matches != 0 && line < LINES; line++) {
		const struct weir__place place = weir__line_find(candidates->lines[line], fingerprint, own_claim);

		if (place.slot == NULL)
			continue;
		weir__place_set(ret_place, place.slot, place.seen, line);
		if (!weir__place_is_claim(&place))
			return;
	}
}

static uint32_t fingerprint_of_era(const struct weir__key *key, uint64_t era)
{
	return weir__fingerprint_in(key->hash, weir__era_mark(era) | key->limit->group_mark);
}

/* Finds a slot of this era or of an earlier one. Earlier eras are searched first, since a slot may get this era's
 * fingerprint during the search, but never the reverse. If several are found, the settled slot of the latest era is the
 * key's. */
static void look(const struct candidates *candidates, const struct weir__key *key,
		 const union weir__atomic16 *own_claim, struct weir__place *ret_place)
{
	const struct weir__view *const view = &key->view;
	struct weir__place before, found;

	weir__place_set(&before, NULL, (struct weir_state){ 0, 0 }, LINES);
	for (uint32_t i = 0; WEIR__UNLIKELY(i < view->n_eras); i++) {
		look_for(candidates, fingerprint_of_era(key, view->first_era + i), own_claim, &found);
		found.era = view->first_era + i;
		if (found.slot &&
		    (before.slot == NULL || weir__place_is_claim(&before) || !weir__place_is_claim(&found)))
			before = found;
	}
	look_for(candidates, key->fingerprint, own_claim, ret_place);
	ret_place->era = weir__format_has_histories(&view->format) ? 0 : view->number / WEIR__SLOT_GENERATIONS;
	if (WEIR__UNLIKELY(before.slot != NULL) && (ret_place->slot == NULL || weir__place_is_claim(ret_place)))
		*ret_place = before;
}

/* Whether a slot with this fingerprint may be the key's. */
static bool may_own(const struct weir__key *key, uint32_t fingerprint)
{
	bool may = fingerprint == key->fingerprint;

	for (uint32_t i = 0; !may && WEIR__UNLIKELY(i < key->view.n_eras); i++)
		may = fingerprint == fingerprint_of_era(key, key->view.first_era + i);
	return may;
}

static bool remove_claim(const struct weir__place *claim)
{
	return weir__atomic16_swap(claim->slot, claim->seen, (struct weir_state){ 0, 0 });
}

/* The owner is most likely at work, but may have been killed. */
void weir__table_await_claim(const struct weir__place *claim)
{
	for (int i = 0; i < PATIENCE; i++) {
		weir__pause();
		if (!weir__slot_equal(weir__atomic16_load(claim->slot), claim->seen))
			return;
	}
	remove_claim(claim);
}

static void prefetch_rest(const struct candidates *candidates)
{
	for (unsigned i = 1; i < LINES; i++)
		__builtin_prefetch(candidates->lines[i], 1);
}

void weir__table_prefetch_rest(const struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash)
{
	const uint32_t fingerprint = weir__fingerprint_in(hash, WEIR__VIEW_WORD(limit, mark));
	struct candidates candidates;

	if (WEIR__LIKELY(weir__line_matches(weir__table_home(table, hash), fingerprint) != 0))
		return;
	candidates = candidates_of(table, hash);
	prefetch_rest(&candidates);
}

/* Whether the limit is still as the key's view says. The barrier orders all earlier reads before this check. */
static bool is_current(const struct weir__key *key)
{
	weir__read_barrier();
	return weir__plans_number(key->limit->entry) == key->view.number;
}

static void find_slot(struct weir__key *key, struct weir__place *ret_place)
{
	const struct candidates candidates = candidates_of(key->table, key->hash);

	prefetch_rest(&candidates);
	for (;;) {
		look(&candidates, key, NULL, ret_place);
		if (weir__place_is_claim(ret_place))
			weir__table_await_claim(ret_place);
		else if (ret_place->slot || WEIR__LIKELY(is_current(key)))
			return;
		else /* the key may have a slot of a later era */
			weir__key_init(key, key->table, key->limit, key->hash);
	}
}

void weir__table_find_anywhere(struct weir__key *key, struct weir__place *ret_place, struct weir_state *ret_state)
{
	for (;;) {
		find_slot(key, ret_place);
		ret_state->lo = ret_state->hi = 0;
		if (ret_place->slot == NULL ||
		    (weir__format_has_histories(&key->view.format) &&
		     weir__slot_tag(ret_place->seen) == WEIR__SLOT_ARENA) ||
		    weir__view_unpack(key->limit, &key->view, ret_place->seen, ret_place->era, ret_state,
				      &ret_place->is_old))
			return;
		weir__key_init(key, key->table, key->limit, key->hash);
	}
}

/* Whether the slot was never used, or its key has used nothing by this clock and by the plan that packed it. Holds are
 * not considered. The mark of a file's page has fingerprint 0 but is not zero, so it is not reusable. */
static bool is_reusable(struct weir_state slot, uint64_t now)
{
	const unsigned was_never = slot.hi == 0, is_owned = weir__slot_fingerprint(slot) != 0;
	const unsigned is_full = weir__slot_full_at(slot) <= now;

	return was_never | (is_owned & is_full); /* without branches: see first_reusable_of */
}

/* Whether the key has used nothing by any other clock either. */
static bool is_free(struct weir_state slot, uint64_t now)
{
	return slot.hi == 0 || weir__slot_full_at(slot) + clocks_differ_ns <= now;
}

enum { PAIR = (1 << PAIR_SLOTS) - 1, ALL = (1 << CANDIDATES) - 1 };

/* The contents of the candidates. The two halves are read separately; the swap compares both halves of the one that is
 * chosen. There are two arrays because to assemble a slot in memory costs more than to read it. */
struct seen {
	uint64_t lo[CANDIDATES], hi[CANDIDATES];
};

static struct weir_state slot_of(const struct seen *seen, unsigned i)
{
	return (struct weir_state){ seen->lo[i], seen->hi[i] };
}

_Static_assert(CANDIDATES == 1 << WEIR__SLOT_TAG_BITS, "the number of a candidate takes the place of its tag");

/* The candidate with the earliest full_at of those in `of`, one bit each, at least one. Here and below no branch
 * depends on which one it is, since the processor could not predict that. */
static unsigned first_reusable_of(const struct seen *seen, unsigned of)
{
	uint64_t least = UINT64_MAX;

#pragma GCC unroll 16
	for (unsigned i = 0; i < CANDIDATES; i++) {
		const uint64_t is_other = (of >> i & 1) - UINT64_C(1);
		const uint64_t numbered = ((seen->hi[i] & ~(uint64_t)WEIR__SLOT_TAG_MASK) | i) | is_other;

		least = numbered < least ? numbered : least;
	}
	return (unsigned)least & WEIR__SLOT_TAG_MASK;
}

/* What a key has counted, to tell keys of one level apart. */
static uint64_t units_of(const struct weir_table *table, struct weir_state slot)
{
	const uint64_t own = weir__slot_own(slot) & ((UINT32_C(1) << WEIR__SLOT_LEVEL_SHIFT) - 1);

	if (weir__slot_tag(slot) != WEIR__SLOT_ARENA)
		return own;
	if (weir__slot_is_folded(slot))
		return own & WEIR__SLOT_ROOT_MASK;
	return weir__history_units(&table->region.arena, weir__slot_root(slot));
}

/* Of two keys with levels, the one with the lower rank is evicted. It has used less of its window, however much time of
 * the window is left. Otherwise new keys with one request each would evict keys that have used up theirs. */
static weir__u128 rank(const struct weir_table *table, struct weir_state slot)
{
	return (weir__u128)((uint64_t)weir__slot_level(slot) << WEIR__TOTAL_BITS | units_of(table, slot)) << 64 |
	       weir__slot_full_at(slot);
}

static unsigned lowest_ranked_of(const struct weir_table *table, const struct seen *seen, unsigned of)
{
	weir__u128 least = ~(weir__u128)0;
	unsigned lowest = 0;

	for (; of; of &= of - 1) {
		const unsigned i = (unsigned)__builtin_ctz(of);
		const weir__u128 its = rank(table, slot_of(seen, i));
		const bool is_lower = its < least;

		least = is_lower ? its : least;
		lowest = is_lower ? i : lowest;
	}
	return lowest;
}

/* The key that is closest to full of those in `of`, if all candidates have used something. */
static unsigned closest_to_full(const struct weir_table *table, const struct seen *seen, unsigned of)
{
	unsigned counted = 0, plain_first, counted_lowest;

	for (unsigned i = 0; i < CANDIDATES; i++)
		counted |= (unsigned)weir__slot_has_level(slot_of(seen, i)) << i;
	counted &= of;
	if (WEIR__LIKELY(counted == 0))
		return first_reusable_of(seen, of);
	counted_lowest = lowest_ranked_of(table, seen, counted);
	if (counted == of)
		return counted_lowest;
	plain_first = first_reusable_of(seen, of & ~counted);
	return seen->hi[counted_lowest] < seen->hi[plain_first] ? counted_lowest : plain_first;
}

/* The candidates of the group that has to evict a key. It is the group of inline limits if the new key would give them
 * more than their share, else the group of the table's own limits. If the group has no candidate, returns all
 * candidates of both groups. Marks belong to neither group. */
static unsigned group_to_evict(const struct seen *seen, const struct weir__key *key)
{
	unsigned own = 0, inlined = 0;

	for (unsigned i = 0; i < CANDIDATES; i++) {
		own |= (unsigned)(seen->lo[i] & 1) << i;
		inlined |= (unsigned)weir__slot_is_inline(slot_of(seen, i)) << i;
	}
	if ((unsigned)__builtin_popcount(inlined) + key->limit->group_mark > key->table->inline_slots)
		return inlined ? inlined : ALL;
	return own ? own : ALL;
}

/* Which of the reusable candidates are held. */
static unsigned held_of(const struct seen *seen, unsigned whole, uint64_t now, const struct weir_state *hold)
{
	unsigned held = 0;

	for (unsigned i = 0; i < CANDIDATES && now < hold->hi; i++)
		held |= (unsigned)weir__table_holds(hold, slot_of(seen, i), now) << i;
	return held & whole;
}

/* The number of slots of a pair that are not in `these`. */
static unsigned others_of_pair(unsigned these, unsigned pair)
{
	return PAIR_SLOTS - (unsigned)__builtin_popcount(these >> (pair * PAIR_SLOTS) & PAIR);
}

/* The first slot of the home pair that was never used, if enough are left that the pair is not crowded. `choose` would find the
 * same slot, but looks at twice as many. NULL: look at all. */
static union weir__atomic16 *first_never_used(const struct candidates *candidates, uint64_t now,
					      const struct weir_state *hold)
{
	unsigned never = 0;

#pragma GCC unroll 8
	for (unsigned i = 0; i < PAIR_SLOTS; i++) {
		const uint64_t hi = __atomic_load_n(&candidate(candidates, i)->state.hi, __ATOMIC_RELAXED);

		never |= (unsigned)(hi == 0) << i;
	}
	if (now < hold->hi || others_of_pair(never, 0) >= PAIR_CROWDED)
		return NULL;
	return candidate(candidates, (unsigned)__builtin_ctz(never));
}

/* Chooses the slot for a new key. It takes the slot that has been full longest, and a slot that was never used before
 * all others, so that a clock that steps back still finds its keys. If no candidate is free, it takes one that is held,
 * or else the key that is closest to full, of the group that has more than its share. It never takes a mark, whose
 * full_at is the latest. */
static void choose(const struct candidates *candidates, const struct weir__key *key, uint64_t now,
		   const struct weir_state *hold, struct weir__place *ret_place)
{
	union weir__atomic16 *const never_used = first_never_used(candidates, now, hold);
	unsigned whole = 0, held, free, chosen;
	struct seen seen WEIR__UNINITIALIZED;

	if (never_used) {
		weir__place_set(ret_place, never_used, (struct weir_state){ 0, 0 }, 0);
		return;
	}
	for (unsigned line = 0, i = 0; line < LINES; line++) {
#pragma GCC unroll 4
		for (unsigned slot = 0; slot < WEIR__LINE_SLOTS; slot++, i++) {
			const struct weir_state *const at = &candidates->lines[line][slot].state;

			seen.lo[i] = __atomic_load_n(&at->lo, __ATOMIC_RELAXED);
			seen.hi[i] = __atomic_load_n(&at->hi, __ATOMIC_RELAXED);
			whole |= (unsigned)is_reusable(slot_of(&seen, i), now) << i;
		}
	}
	held = held_of(&seen, whole, now, hold);
	free = whole & ~held;
	if (free == 0) {
		chosen = held ? first_reusable_of(&seen, held) :
				closest_to_full(key->table, &seen, group_to_evict(&seen, key));
	} else {
		const unsigned taken = others_of_pair(free, 0);
		const bool is_home = (free & PAIR) != 0 && (taken < PAIR_CROWDED || taken <= others_of_pair(free, 1));

		chosen = first_reusable_of(&seen, is_home || free <= PAIR ? free & PAIR : free & ~(unsigned)PAIR);
	}
	weir__place_set(ret_place, candidate(candidates, chosen), slot_of(&seen, chosen), 0);
}

/* Steps 2 and 3. Returns false if the claim was withdrawn or removed. */
static bool settle(const struct weir__key *key, const struct candidates *candidates, const struct weir__place *mine,
		   struct weir_state content)
{
	struct weir__place other;

	for (;;) {
		look(candidates, key, mine->slot, &other);
		if (other.slot == NULL && is_current(key))
			return weir__atomic16_swap(mine->slot, mine->seen, content);
		if (other.slot == NULL || !weir__place_is_claim(&other) || other.slot < mine->slot) {
			remove_claim(mine);
			return false;
		}
		remove_claim(&other);
	}
}

/* Whether the slot was settled so late that its limit has reached an era in which no lookup finds the slot. Then the
 * slot is freed again, unless another thread has found it before. */
static bool is_out_of_sight(const struct weir__key *key, union weir__atomic16 *slot, struct weir_state content)
{
	struct weir__view newest;

	if (WEIR__LIKELY(is_current(key)) || weir__format_has_histories(&key->view.format))
		return false;
	weir__view_load(key->limit, &newest);
	return !weir__view_sees(&newest, key->view.number) &&
	       weir__atomic16_swap(slot, content, (struct weir_state){ 0, 0 });
}

bool weir__table_claim(const struct weir__key *key, struct weir_state content, weir_ns now,
		       union weir__atomic16 **ret_slot)
{
	struct weir_table *const table = key->table;
	const struct candidates candidates = candidates_of(table, key->hash);
	const struct weir_state claim = weir__slot_make(weir__slot_fingerprint(content), weir__thread_nonce(),
							weir__slot_full_at(content), WEIR__SLOT_CLAIMED);
	const struct weir_state hold = weir__atomic16_load(&table->region.header->hold);
	const uint64_t since_epoch = now - table->epoch;
	struct weir__place mine;
	bool used;

	choose(&candidates, key, since_epoch, &hold, &mine);
	used = !is_reusable(mine.seen, since_epoch);
	/* Another thread has settled the key itself since the lookup. */
	if (may_own(key, weir__slot_fingerprint(mine.seen)))
		return false;
	if (!is_free(mine.seen, since_epoch) || weir__table_holds(&hold, mine.seen, since_epoch))
		atomic_fetch_add(weir__table_forgiven(table, weir__slot_fingerprint(mine.seen)), 1);
	if (!weir__atomic16_swap(mine.slot, mine.seen, claim))
		return false;
	weir__table_forget_history(table, mine.seen);
	mine.seen = claim;
	if (used)
		WEIR__COUNT(&table->region, evicted, 1);
	if (!settle(key, &candidates, &mine, content) || is_out_of_sight(key, mine.slot, content))
		return false;
	WEIR__COUNT(&table->region, inserted, 1);
	*ret_slot = mine.slot;
	if (WEIR__UNLIKELY(key->view.n_eras > 0) && now >= key->view.eras_until)
		weir__view_forget_eras(key->limit, &key->view);
	return true;
}
