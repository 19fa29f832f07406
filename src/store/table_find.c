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
static struct weir__place look(const struct candidates *candidates, uint32_t fingerprint,
			       const union weir__atomic16 *own_claim)
{
	struct weir__place claim = { NULL, { 0, 0 }, LINES };

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

void weir__table_prefetch_rest(const struct weir_table *table, uint64_t hash)
{
	struct candidates candidates;

	if (WEIR__LIKELY(weir__line_matches(weir__table_home(table, hash), weir__fingerprint(hash)) != 0))
		return;
	candidates = candidates_of(table, hash);
	prefetch_rest(&candidates);
}

struct weir__place weir__table_find_anywhere(struct weir_table *table, uint64_t hash)
{
	const struct candidates candidates = candidates_of(table, hash);

	prefetch_rest(&candidates);
	for (;;) {
		const struct weir__place place = look(&candidates, weir__fingerprint(hash), NULL);

		if (!weir__place_is_claim(&place))
			return place;
		await_claim(&place);
	}
}

/* Zero, or owes nothing by any clock. The mark of a file's page is nobody's, but not zero. */
static bool is_free(struct weir_state slot, uint64_t now)
{
	return slot.hi == 0 ||
	       (weir__slot_fingerprint(slot) != 0 && weir__slot_fresh_at(slot) + clocks_differ_ns <= now);
}

/* Whether a's key gives way before b's, both of the same sort. Of windows the one of which less is used, whatever of it
 * is left: else strangers who ask once would wash out those who have used theirs up. */
static bool gives_way_before(struct weir_state a, struct weir_state b)
{
	if (weir__slot_is_counted(a) && weir__slot_level(a) != weir__slot_level(b))
		return weir__slot_level(a) < weir__slot_level(b);
	return a.hi < b.hi;
}

/* Where a new key goes: what is free longest, first of all what was never used, so that a clock that steps back finds what
 * it knew. In a full table it is the slot of the key that is closest to fresh; so never a mark, which is furthest. */
static struct weir__place choose(const struct candidates *candidates, uint64_t now, bool *ret_is_free)
{
	struct weir__place longest_free[2] = { { NULL, { 0, 0 }, 0 }, { NULL, { 0, 0 }, 0 } };
	struct weir__place closest[2] = { { NULL, { 0, 0 }, 0 }, { NULL, { 0, 0 }, 0 } }; /* not counted, and counted */
	unsigned taken[2] = { 0, 0 };

	for (unsigned i = 0; i < CANDIDATES; i++) {
		union weir__atomic16 *const slot = candidate(candidates, i);
		const struct weir_state seen = weir__atomic16_load(slot);
		const unsigned pair = i / PAIR_SLOTS;

		if (!is_free(seen, now)) {
			struct weir__place *const other = &closest[weir__slot_is_counted(seen)];

			taken[pair]++;
			if (other->slot == NULL || gives_way_before(seen, other->seen))
				*other = (struct weir__place){ slot, seen, 0 };
		} else if (longest_free[pair].slot == NULL || seen.hi < longest_free[pair].seen.hi) {
			longest_free[pair] = (struct weir__place){ slot, seen, 0 };
		}
	}
	*ret_is_free = true;
	if (longest_free[0].slot && (taken[0] < PAIR_CROWDED || taken[0] <= taken[1]))
		return longest_free[0];
	if (longest_free[1].slot)
		return longest_free[1];
	*ret_is_free = false;
	if (closest[0].slot == NULL || (closest[1].slot && closest[1].seen.hi < closest[0].seen.hi))
		return closest[1];
	return closest[0];
}

/* Steps 2 and 3. */
static bool settle(const struct candidates *candidates, const struct weir__place *mine, struct weir_state content)
{
	for (;;) {
		const struct weir__place other = look(candidates, weir__slot_fingerprint(content), mine->slot);

		if (other.slot == NULL)
			return weir__atomic16_swap(mine->slot, mine->seen, content);
		if (!weir__place_is_claim(&other) || other.slot < mine->slot) {
			remove_claim(mine);
			return false;
		}
		remove_claim(&other);
	}
}

bool weir__table_claim(struct weir_table *table, uint64_t hash, struct weir_state content, weir_ns now,
		       union weir__atomic16 **ret_slot)
{
	const struct candidates candidates = candidates_of(table, hash);
	const struct weir_state claim = weir__slot_make(weir__slot_fingerprint(content), weir__thread_nonce(),
							weir__slot_fresh_at(content), WEIR__SLOT_CLAIMED);
	struct weir__place mine;
	bool was_free, owed;

	mine = choose(&candidates, now - table->epoch, &was_free);
	/* The key itself, settled by somebody since it was not found. */
	if (weir__slot_fingerprint(mine.seen) == weir__slot_fingerprint(claim))
		return false;
	if (!was_free)
		atomic_fetch_add(weir__table_forgiven(table, weir__slot_fingerprint(mine.seen)), 1);
	if (!weir__atomic16_swap(mine.slot, mine.seen, claim))
		return false;
	owed = weir__slot_fresh_at(mine.seen) > now - table->epoch;
	weir__table_forget_history(table, mine.seen);
	mine.seen = claim;
	if (!was_free && owed)
		WEIR__COUNT(&table->region, gave_way, 1);
	if (!settle(&candidates, &mine, content))
		return false;
	WEIR__COUNT(&table->region, inserted, 1);
	*ret_slot = mine.slot;
	return true;
}
