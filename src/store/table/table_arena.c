/* table_arena.c: takes chunks of a table's arena for histories, folds keys into their slots to free some, and reclaims
 * chunks that nothing refers to. */
#include <string.h>

#include "store/table/table.h"

enum {
	EVICT_TRIES = 8,  /* the most keys that give up their histories for one chunk */
	EVICT_LINES = 32, /* lines that are searched for the key that has used least */
	EVICT_LINES_MOST = 1 << 16,
	SWEEP_EACH = 16, /* chunks taken between two parts of a sweep */
	SWEEP_LINES = 256,
	SWEEP_CHUNKS = 2048,
};

size_t weir__history_arena_size(const struct weir_plan *plan, uint64_t keys, uint64_t events)
{
	const struct weir__shape shape = weir__table_shape(plan);
	const uint64_t most = weir__shape_cells(&shape);
	const uint64_t chunks = weir__history_chunks(&shape, events == 0 ? most : weir__min(events, most));
	uint64_t all;

	if (__builtin_mul_overflow(chunks, keys, &all) || all > WEIR__CHUNKS_MOST)
		return SIZE_MAX;
	return weir__arena_bytes(all);
}

/* Whether the first of two keys gives up its history before the second. Keys that have used nothing come first, then
 * the key that has used least of its limit. */
static bool is_lower(const struct weir__arena *arena, struct weir_state a, struct weir_state b, uint64_t now)
{
	const bool a_is_full = weir__slot_full_at(a) <= now, b_is_full = weir__slot_full_at(b) <= now;

	if (a_is_full != b_is_full)
		return a_is_full;
	if (!a_is_full && weir__slot_level(a) != weir__slot_level(b))
		return weir__slot_level(a) < weir__slot_level(b);
	if (!a_is_full) {
		const uint64_t of_a = weir__history_units(arena, weir__slot_root(a));
		const uint64_t of_b = weir__history_units(arena, weir__slot_root(b));

		if (of_a != of_b)
			return of_a < of_b;
	}
	return a.hi < b.hi;
}

/* The slots that refer to histories, of one group of limits. */
struct group {
	struct weir__place lowest; /* of those looked at, the first to give up its history */
	uint32_t n;
};

enum { OWN, INLINE, GROUPS };

/* Looks at the slots of a line. */
static void look_at_line(struct weir_table *table, uint64_t line, const union weir__atomic16 *except, uint64_t now,
			 struct group groups[GROUPS])
{
	for (uint32_t i = 0; i < WEIR__LINE_SLOTS; i++) {
		union weir__atomic16 *const slot = table->region.slots + line * WEIR__LINE_SLOTS + i;
		const struct weir_state seen = weir__atomic16_load(slot);
		struct group *const group = &groups[weir__slot_is_inline(seen) ? INLINE : OWN];

		if (slot == except || weir__slot_tag(seen) != WEIR__SLOT_ARENA || weir__slot_root(seen) == 0)
			continue;
		group->n++;
		if (group->lowest.slot == NULL || is_lower(&table->region.arena, seen, group->lowest.seen, now))
			group->lowest = (struct weir__place){ slot, seen, 0, false, 0 };
	}
}

/* Which of the two keys gives up its history. A key that has used nothing comes first, then a key of an inline limit if
 * inline limits have more than their share. slot is NULL if no key was found. */
static struct weir__place lowest_of(const struct weir_table *table, const struct group groups[GROUPS], uint64_t now)
{
	const struct weir__place own = groups[OWN].lowest, inlined = groups[INLINE].lowest;
	const uint32_t all = groups[OWN].n + groups[INLINE].n;

	if (own.slot == NULL || inlined.slot == NULL)
		return own.slot ? own : inlined;
	if (weir__slot_full_at(own.seen) <= now)
		return own;
	if (weir__slot_full_at(inlined.seen) <= now)
		return inlined;
	return groups[INLINE].n * WEIR__CANDIDATES > all * table->inline_slots ? inlined : own;
}

void weir__table_fold(struct weir_table *table, const struct weir__place *place)
{
	const uint32_t fingerprint = weir__slot_fingerprint(place->seen), root = weir__slot_root(place->seen);
	uint32_t units;

	if (weir__history_fold(&table->region.arena, root, fingerprint, &units) &&
	    weir__atomic16_swap(place->slot, place->seen,
				weir__slot_make_folded(fingerprint, units, weir__slot_level(place->seen),
						       weir__slot_full_at(place->seen)))) {
		WEIR__COUNT(&table->region, folded, 1);
		weir__history_discard(&table->region.arena, root);
	}
}

/* Takes the history of one key. The key is removed if it has used nothing, and otherwise folded. Each search starts
 * after the lines of the one before, so that all lines get their turn. Returns false if no key was found. */
static bool free_history(struct weir_table *table, weir_ns now, const union weir__atomic16 *except)
{
	const uint64_t since_epoch = now - table->epoch;
	struct group groups[GROUPS] = { 0 };
	struct weir__place lowest;
	uint64_t line = atomic_fetch_add(&table->evict_next, EVICT_LINES) % table->region.lines;

	for (uint32_t looked = 0; looked < EVICT_LINES_MOST && looked < table->region.lines; looked++) {
		if (looked >= EVICT_LINES && groups[OWN].n + groups[INLINE].n > 0)
			break;
		look_at_line(table, line, except, since_epoch, groups);
		line = line + 1 == table->region.lines ? 0 : line + 1;
	}
	lowest = lowest_of(table, groups, since_epoch);
	if (lowest.slot == NULL)
		return false;
	if (weir__slot_full_at(lowest.seen) > since_epoch) {
		weir__table_fold(table, &lowest);
		return true;
	}
	atomic_fetch_add(weir__table_forgiven(table, weir__slot_fingerprint(lowest.seen)), 1);
	if (weir__atomic16_swap(lowest.slot, lowest.seen, (struct weir_state){ 0, 0 }))
		weir__table_forget_history(table, lowest.seen);
	return true;
}

static void mark(void *context, uint32_t number)
{
	unsigned char *const marks = context;

	marks[(number - 1) / 8] |= (unsigned char)(1u << (number - 1) % 8);
}

static void unmark(unsigned char *marks, uint32_t number)
{
	marks[(number - 1) / 8] &= (unsigned char)~(1u << (number - 1) % 8);
}

static bool is_marked(const unsigned char *marks, uint32_t number)
{
	return marks[(number - 1) / 8] >> (number - 1) % 8 & 1;
}

/* Marks the chunks that some slots refer to. Once all slots have been read, old chunks that are not marked are
 * suspected. A chunk that the previous sweep suspected, too, is given back. Only one thread sweeps at a time.
 *
 * A chunk that was taken before the sweep began and is in use has been referred to by the same slot all the time. A
 * suspected chunk may belong to a thread that has just taken it out of use and is about to give it back. The second
 * sweep is for such chunks. This assumes that no thread sleeps for an hour between taking a chunk and referring to it,
 * or for two stamps between taking one out of use and giving it back. */
static void sweep_some(struct weir_table *table, struct weir__sweep *sweep, weir_ns clock)
{
	struct weir__arena *const arena = &table->region.arena;
	unsigned char *const suspects = sweep->marks + sweep->marks_bytes;

	if (weir__arena_is_long_after(arena, clock, sweep->since)) /* ages would become ambiguous: start over */
		sweep->line = sweep->chunk = 0;
	if (sweep->line == 0 && sweep->chunk == 0) {
		if (!weir__arena_is_next(arena, clock, sweep->since))
			return;
		memset(sweep->marks, 0, sweep->marks_bytes);
		sweep->since = clock;
	}
	for (int i = 0; i < SWEEP_LINES && sweep->line < table->region.lines; i++, sweep->line++)
		for (uint32_t j = 0; j < WEIR__LINE_SLOTS; j++) {
			const struct weir_state seen = weir__atomic16_load(table->region.slots +
									   sweep->line * WEIR__LINE_SLOTS + j);

			if (weir__slot_tag(seen) == WEIR__SLOT_ARENA && weir__slot_fingerprint(seen) != 0)
				weir__history_visit(arena, weir__slot_root(seen), mark, sweep->marks);
		}
	if (sweep->line < table->region.lines)
		return;
	for (int i = 0; i < SWEEP_CHUNKS && sweep->chunk < arena->n; i++) {
		const uint32_t number = ++sweep->chunk;

		if (is_marked(sweep->marks, number)) {
			unmark(suspects, number);
		} else if (!is_marked(suspects, number)) {
			if (weir__arena_is_old(arena, number, sweep->since))
				mark(suspects, number);
		} else {
			unmark(suspects, number);
			if (weir__arena_reclaim(arena, number, sweep->since))
				WEIR__COUNT(&table->region, regained, 1);
		}
	}
	if (sweep->chunk == arena->n)
		sweep->line = sweep->chunk = 0;
}

void weir__table_sweep(struct weir_table *table, weir_ns clock)
{
	struct weir__sweep *const sweep = table->sweep;
	bool is_at_work = false;

	if (sweep == NULL || !atomic_compare_exchange_strong(&sweep->is_at_work, &is_at_work, true))
		return;
	sweep_some(table, sweep, clock);
	atomic_store(&sweep->is_at_work, false);
}

uint32_t weir__table_take_chunk(struct weir_table *table, weir_ns now, const union weir__atomic16 *except)
{
	struct weir__arena *const arena = &table->region.arena;
	const weir_ns clock = weir_table_now(table);
	uint32_t number = weir__arena_take(arena, clock);

	if (atomic_fetch_add_explicit(&arena->takes, 1, memory_order_relaxed) % SWEEP_EACH == 0)
		weir__table_sweep(table, clock);
	for (int i = 0; number == 0 && i < EVICT_TRIES; i++) {
		if (!free_history(table, now, except))
			return 0;
		number = weir__arena_take(arena, clock);
	}
	return number;
}

uint32_t weir__table_take_chunks(struct weir_table *table, weir_ns now, const union weir__atomic16 *except,
				 uint32_t *numbers, uint32_t n)
{
	struct weir__arena *const arena = &table->region.arena;
	const weir_ns clock = weir_table_now(table);
	const uint32_t taken = weir__arena_take_some(arena, clock, numbers, n);

	atomic_fetch_add_explicit(&arena->takes, taken, memory_order_relaxed);
	for (uint32_t i = 0; i < taken; i += SWEEP_EACH)
		weir__table_sweep(table, clock);
	if (taken > 0)
		return taken;
	numbers[0] = weir__table_take_chunk(table, now, except);
	return numbers[0] != 0;
}

void weir__table_forget_history(struct weir_table *table, struct weir_state slot)
{
	if (weir__slot_tag(slot) == WEIR__SLOT_ARENA)
		weir__history_give_up(&table->region.arena, weir__slot_root(slot), weir__slot_fingerprint(slot));
}
