/* table_find.c: who has which slot.
 *
 * A key has at most one settled slot. To look one up takes several reads, during which others insert, so a new slot is
 * taken in two swaps:
 *
 *   1. claim: put {fingerprint, a nonce of this claim} into a slot, CLAIMED
 *   2. look at all other candidates once more. Settled there: withdraw. Claimed there: of two claims the one at the
 *      lower address goes on and removes the other, the other withdraws.
 *   3. settle: swap the claim for the charged state. This is when the key is charged.
 *
 * Of two who insert the same key at once, at least one does step 2 after the other's step 1, and so sees it. Anybody may
 * remove a claim at any time: its owner then fails at step 3 and begins again. So a process that dies leaves nothing
 * that others wait for. The nonce keeps a late step 3 from settling somebody else's claim.
 *
 * Whoever charges a key's slot that was reclaimed meanwhile fails to swap. tests/models/table_slots.pml is this as a
 * model. */
#include "os/pause.h"
#include "store/table.h"

enum {
	LINES = WEIR__LINES, /* home, the other one of that pair, the two of the alternate pair */
	CANDIDATES = LINES * WEIR__LINE_SLOTS,
	PAIR_SLOTS = 2 * WEIR__LINE_SLOTS,
	/* A home pair with fewer taken slots gets the key without a look at how full the alternate pair is. More lets
	 * more keys be in the line that is looked at first, less lets fewer give way when the table is nearly full; at
	 * two thirds 6 gives 86 % and 16 ppm, 7 gives 89 % and 334 ppm, 5 gives 82 % and 0.4 ppm. */
	PAIR_CROWDED = 6,
	PATIENCE = 64, /* pauses for a claim of somebody else, who needs about one */
};

/* What is fresh for less than this may yet owe by another clock, or by the time that a thread has read before it lost
 * its processor for a while. */
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

/* A slot of the key other than the own claim: a settled one if one is seen, else a claim. */
static struct weir__place look_for(const struct candidates *candidates, uint32_t fingerprint,
				   const union weir__atomic16 *own_claim)
{
	struct weir__place claim = { NULL, { 0, 0 }, LINES, false };

	for (unsigned line = 0; line < LINES; line++) {
		struct weir__place place = weir__line_find(candidates->lines[line], fingerprint, own_claim);

		if (place.slot == NULL)
			continue;
		place.line = line;
		if (!weir__place_is_claim(&place))
			return place;
		claim = place;
	}
	return claim;
}

/* Of this era or the one before. That is looked for first: a slot may come to have this era's fingerprint while it is
 * looked for, never the other way. If there are two, this era's is the key's. */
static struct weir__place look(const struct candidates *candidates, const struct weir__key *key,
			       const union weir__atomic16 *own_claim)
{
	struct weir__place before = { NULL, { 0, 0 }, LINES, false }, place;

	if (key->previous != key->fingerprint)
		before = look_for(candidates, key->previous, own_claim);
	place = look_for(candidates, key->fingerprint, own_claim);
	return place.slot && (before.slot == NULL || !weir__place_is_claim(&place)) ? place : before;
}

static bool remove_claim(const struct weir__place *claim)
{
	return weir__atomic16_swap(claim->slot, claim->seen, (struct weir_state){ 0, 0 });
}

/* Its owner is at work, most likely; or was killed. */
static void await_claim(const struct weir__place *claim)
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
	const uint32_t fingerprint = weir__fingerprint_in(hash, WEIR__VIEW_WORD(limit, era_mark));
	struct candidates candidates;

	if (WEIR__LIKELY(weir__line_matches(weir__table_home(table, hash), fingerprint) != 0))
		return;
	candidates = candidates_of(table, hash);
	prefetch_rest(&candidates);
}

/* Whether the limit is as the key's view says, after all that was looked at before. */
static bool is_current(const struct weir__key *key)
{
	weir__read_barrier();
	return weir__plans_number(key->limit->entry) == key->view.number;
}

static struct weir__place find_slot(struct weir__key *key)
{
	const struct candidates candidates = candidates_of(key->table, key->hash);

	prefetch_rest(&candidates);
	for (;;) {
		const struct weir__place place = look(&candidates, key, NULL);

		if (weir__place_is_claim(&place))
			await_claim(&place);
		else if (place.slot || WEIR__LIKELY(is_current(key)))
			return place;
		else /* it may be there, but of a later era */
			weir__key_init(key, key->table, key->limit, key->hash);
	}
}

struct weir__place weir__table_find_anywhere(struct weir__key *key, struct weir_state *ret_state)
{
	for (;;) {
		struct weir__place place = find_slot(key);

		*ret_state = key->view.absent;
		if (place.slot == NULL || weir__format_has_histories(&key->view.format) ||
		    weir__view_unpack(key->limit, &key->view, place.seen,
				      weir__slot_fingerprint(place.seen) == key->fingerprint, ret_state, &place.is_old))
			return place;
		weir__key_init(key, key->table, key->limit, key->hash);
	}
}

/* Owes nothing by this clock, whatever its limit has been changed to. The mark of a file's page is nobody's, but not
 * zero. */
static bool is_whole(struct weir_state slot, uint64_t now)
{
	return slot.hi == 0 || (weir__slot_fingerprint(slot) != 0 && weir__slot_fresh_at(slot) <= now);
}

/* And by any other clock. */
static bool is_free(struct weir_state slot, uint64_t now)
{
	return slot.hi == 0 || weir__slot_fresh_at(slot) + clocks_differ_ns <= now;
}

/* Of two keys of the same sort, the one of lower rank gives way: it is closer to fresh. Of windows the one of which less is
 * used, whatever of it is left: else strangers who ask once would wash out those who have used theirs up. */
static uint64_t rank(struct weir_state slot, bool is_counted)
{
	const uint64_t level = is_counted ? weir__slot_level(slot) : 0;

	return level << (64 - WEIR__SLOT_TAG_BITS) | weir__slot_fresh_at(slot);
}

enum { NONE = CANDIDATES };

/* The best of some candidates so far. */
struct best {
	uint64_t rank; /* the lowest */
	uint32_t own;  /* of those with the same, the lowest */
	unsigned candidate;
};

static void note(struct best *best, uint64_t rank, uint32_t own, unsigned candidate)
{
	if (rank > best->rank || (rank == best->rank && own >= best->own))
		return;
	*best = (struct best){ rank, own, candidate };
}

/* Where a new key goes: what is whole longest, first of all what was never used, so that a clock that steps back finds what
 * it knew. In a full table it is one that is held, else the slot of the key that is closest to fresh; so never a mark,
 * which is furthest. */
static struct weir__place choose(const struct candidates *candidates, uint64_t now, const struct weir_state *hold)
{
	const struct best none = { UINT64_MAX, UINT32_MAX, NONE };
	struct best whole[2] = { none, none }, held = none;
	struct best owing[2] = { none, none }; /* not counted, and counted */
	struct weir_state seen[CANDIDATES];
	unsigned taken[2] = { 0, 0 }, chosen;

	for (unsigned i = 0; i < CANDIDATES; i++)
		seen[i] = weir__atomic16_load(candidate(candidates, i));
	for (unsigned i = 0; i < CANDIDATES; i++) {
		const bool is_counted = weir__slot_is_counted(seen[i]);

		if (WEIR__LIKELY(!is_whole(seen[i], now))) {
			note(&owing[is_counted], rank(seen[i], is_counted), weir__slot_own(seen[i]), i);
			taken[i / PAIR_SLOTS]++;
		} else if (weir__table_holds(hold, seen[i], now)) {
			note(&held, seen[i].hi, 0, i);
			taken[i / PAIR_SLOTS]++;
		} else {
			note(&whole[i / PAIR_SLOTS], seen[i].hi, 0, i);
		}
	}
	if (whole[0].candidate != NONE && (taken[0] < PAIR_CROWDED || taken[0] <= taken[1]))
		chosen = whole[0].candidate;
	else if (whole[1].candidate != NONE)
		chosen = whole[1].candidate;
	else if (held.candidate != NONE)
		chosen = held.candidate;
	else if (owing[0].candidate == NONE ||
		 (owing[1].candidate != NONE && seen[owing[1].candidate].hi < seen[owing[0].candidate].hi))
		chosen = owing[1].candidate;
	else
		chosen = owing[0].candidate;
	return (struct weir__place){ candidate(candidates, chosen), seen[chosen], 0, false };
}

/* Steps 2 and 3. */
static bool settle(const struct weir__key *key, const struct candidates *candidates, const struct weir__place *mine,
		   struct weir_state content)
{
	for (;;) {
		const struct weir__place other = look(candidates, key, mine->slot);

		if (other.slot == NULL && is_current(key))
			return weir__atomic16_swap(mine->slot, mine->seen, content);
		if (other.slot == NULL || !weir__place_is_claim(&other) || other.slot < mine->slot) {
			remove_claim(mine);
			return false;
		}
		remove_claim(&other);
	}
}

/* Settled, but so late that the limit has come to the next era but one, in which nobody looks for this slot: then it is
 * taken back, unless somebody has found it before. */
static bool is_out_of_sight(const struct weir__key *key, union weir__atomic16 *slot, struct weir_state content)
{
	const uint64_t era = key->view.number / WEIR__SLOT_GENERATIONS;

	return WEIR__UNLIKELY(weir__plans_number(key->limit->entry) / WEIR__SLOT_GENERATIONS > era + 1) &&
	       !weir__format_has_histories(&key->view.format) &&
	       weir__atomic16_swap(slot, content, (struct weir_state){ 0, 0 });
}

bool weir__table_claim(const struct weir__key *key, struct weir_state content, weir_ns now,
		       union weir__atomic16 **ret_slot)
{
	struct weir_table *const table = key->table;
	const struct candidates candidates = candidates_of(table, key->hash);
	const struct weir_state claim = weir__slot_make(weir__slot_fingerprint(content), weir__thread_nonce(),
							weir__slot_fresh_at(content), WEIR__SLOT_CLAIMED);
	const struct weir_state hold = weir__atomic16_load(&table->region.header->hold);
	const uint64_t since_epoch = now - table->epoch;
	struct weir__place mine = choose(&candidates, since_epoch, &hold);
	const bool owed = !is_whole(mine.seen, since_epoch);

	/* The key itself, settled by somebody since it was not found. */
	if (weir__slot_fingerprint(mine.seen) == key->fingerprint || weir__slot_fingerprint(mine.seen) == key->previous)
		return false;
	if (!is_free(mine.seen, since_epoch) || weir__table_holds(&hold, mine.seen, since_epoch))
		atomic_fetch_add(weir__table_forgiven(table, weir__slot_fingerprint(mine.seen)), 1);
	if (!weir__atomic16_swap(mine.slot, mine.seen, claim))
		return false;
	weir__table_forget_history(table, mine.seen);
	mine.seen = claim;
	if (owed)
		WEIR__COUNT(&table->region, gave_way, 1);
	if (!settle(key, &candidates, &mine, content) || is_out_of_sight(key, mine.slot, content))
		return false;
	WEIR__COUNT(&table->region, inserted, 1);
	*ret_slot = mine.slot;
	return true;
}
