/* table_arena.c: takes chunks of a table's arena for histories, evicts keys to free some, and reclaims those that
 * nothing refers to. */
#include <string.h>

#include "store/table/table.h"

enum {
	EVICT_TRIES = 8,  /* the most keys that are evicted for one chunk */
	EVICT_LINES = 32, /* lines that are searched for the key closest to full */
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

	if (__builtin_mul_overflow(chunks, keys, &all) || all > UINT32_MAX - 4)
		return SIZE_MAX;
	return weir__arena_bytes(all);
}

/* Finds the slot that refers to a history and is closest to full, in this line or `closest` from the lines before. */
static struct weir__place closest_in(struct weir_table *table, uint64_t line, const union weir__atomic16 *except,
				     struct weir__place closest)
{
	for (uint32_t i = 0; i < WEIR__LINE_SLOTS; i++) {
		union weir__atomic16 *const slot = table->region.slots + line * WEIR__LINE_SLOTS + i;
		const struct weir_state seen = weir__atomic16_load(slot);

		if (slot != except && weir__slot_tag(seen) == WEIR__SLOT_ARENA &&
		    (closest.slot == NULL || seen.hi < closest.seen.hi))
			closest = (struct weir__place){ slot, seen, 0, false, 0 };
	}
	return closest;
}

/* Evicts one key. Each search starts after the lines of the one before, so that all lines get their turn. Returns false
 * if no key was found. */
static bool evict(struct weir_table *table, weir_ns now, const union weir__atomic16 *except)
{
	struct weir__place closest = { NULL, { 0, 0 }, 0, false, 0 };
	uint64_t line = atomic_fetch_add(&table->evict_next, EVICT_LINES) % table->region.lines;

	for (uint32_t looked = 0; looked < EVICT_LINES_MOST && looked < table->region.lines; looked++) {
		if (looked >= EVICT_LINES && closest.slot)
			break;
		closest = closest_in(table, line, except, closest);
		line = line + 1 == table->region.lines ? 0 : line + 1;
	}
	if (closest.slot == NULL)
		return false;
	atomic_fetch_add(weir__table_forgiven(table, weir__slot_fingerprint(closest.seen)), 1);
	if (!weir__atomic16_swap(closest.slot, closest.seen, (struct weir_state){ 0, 0 }))
		return true;
	if (weir__slot_full_at(closest.seen) > now - table->epoch)
		WEIR__COUNT(&table->region, evicted, 1);
	weir__table_forget_history(table, closest.seen);
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
 * sweep is for these. What remains is an assumption: no thread sleeps for an hour between taking a chunk and referring
 * to it, or for two stamps between taking one out of use and giving it back. */
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
				weir__history_visit(arena, weir__slot_own(seen), mark, sweep->marks);
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
		if (!evict(table, now, except))
			return 0;
		number = weir__arena_take(arena, clock);
	}
	return number;
}

void weir__table_forget_history(struct weir_table *table, struct weir_state slot)
{
	if (weir__slot_tag(slot) == WEIR__SLOT_ARENA)
		weir__history_give_up(&table->region.arena, weir__slot_own(slot), weir__slot_fingerprint(slot));
}
