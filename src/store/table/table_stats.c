/* table_stats.c: statistics of a table. */
#include "store/table/region_file.h"
#include "store/table/table.h"

/* Counts live keys in the first `slots` slots. */
static uint64_t count_live(const struct weir_table *table, uint64_t now, uint64_t slots)
{
	uint64_t live = 0;

	for (uint64_t i = 0; i < slots; i++) {
		const uint64_t hi = __atomic_load_n(&table->region.slots[i].state.hi, __ATOMIC_RELAXED);

		live += hi >> WEIR__SLOT_TAG_BITS > now && hi >> 32 != UINT32_MAX; /* and not a mark */
	}
	return live;
}

static uint64_t read_counter(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint32_t count_limits(const struct weir__region *region)
{
	uint32_t limits = 0;

	for (uint32_t i = 0; i < region->limits_max; i++)
		limits += weir__limit_is_used(weir__atomic16_load(&region->limits[i].identity).lo);
	return limits;
}

static size_t arena_used(const struct weir__region *region)
{
	return (size_t)weir__arena_used(&region->arena) * (WEIR__CHUNK_BYTES + 1);
}

void weir_table_stats(struct weir_table *table, weir_ns now, struct weir_table_stats *ret_stats)
{
	const struct weir__region *const region = &table->region;
	struct weir_table_stats stats = {
		.capacity = region->lines * WEIR__LINE_SLOTS - weir__region_marks(region),
		.live = count_live(table, weir__table_clamp(table, now) - table->epoch,
				   region->lines * WEIR__LINE_SLOTS),
		.size_bytes = region->size_bytes,
		.limits = count_limits(region),
		.limits_max = region->limits_max,
		.arena_bytes = region->arena_bytes,
		.arena_used = arena_used(region),
		.damaged_pages = weir__region_count(region, WEIR__DAMAGED_PAGES),
		.damaged_slots = weir__region_count(region, WEIR__DAMAGED_SLOTS),
		.damaged_limits = weir__region_count(region, WEIR__DAMAGED_LIMITS),
		.damaged_fields = weir__region_count(region, WEIR__DAMAGED_FIELDS),
		.damaged_at = weir__region_count(region, WEIR__DAMAGED_AT),
		.plans_lost = weir__region_count(region, WEIR__PLANS_LOST),
	};
	uint64_t decisions = 0, elsewhere;

	for (uint32_t i = 0; i < WEIR__STRIPES + WEIR__STRIPES_COMMON; i++) {
		struct weir__stripe *const stripe = weir__region_stripe(region, i);

		stats.inserted += read_counter(&stripe->inserted);
		stats.evicted += read_counter(&stripe->evicted);
		stats.regained += read_counter(&stripe->regained);
		stats.folded += read_counter(&stripe->folded);
		stats.lost_races += read_counter(&stripe->lost_races);
		stats.absent += read_counter(&stripe->probes[WEIR__LINES - 1]);
		for (int line = 1; line < WEIR__LINES; line++)
			stats.probes[line] += read_counter(&stripe->probes[line - 1]);
		for (uint32_t limit = 0; limit < stats.limits_max; limit++)
			decisions += read_counter(&stripe->limits[limit].of[false]) +
				     read_counter(&stripe->limits[limit].of[true]);
	}
	/* Decisions in the home line are not counted, since that would slow down each of them. They are all decisions
	 * minus the counted ones. */
	elsewhere = stats.absent + stats.probes[1] + stats.probes[2] + stats.probes[3];
	stats.probes[0] = decisions > elsewhere ? decisions - elsewhere : 0;
	*ret_stats = stats;
}

/* Keys are spread over slots by their hash, so any part of the table is representative. */
void weir__table_look(struct weir_table *table, weir_ns now, uint64_t slots_most,
		      struct weir__table_key_count *ret_count)
{
	const struct weir__region *const region = &table->region;
	const uint64_t slots = region->lines * WEIR__LINE_SLOTS;
	const uint64_t looked = slots < slots_most ? slots : slots_most;
	const uint64_t live = count_live(table, weir__table_clamp(table, now) - table->epoch, looked);
	struct weir__table_key_count key_count = { .capacity = slots - weir__region_marks(region),
						   .live = (uint64_t)((unsigned __int128)live * slots / looked),
						   .plans_lost = weir__region_count(region, WEIR__PLANS_LOST),
						   .arena_bytes = region->arena_bytes,
						   .arena_used = arena_used(region),
						   .seen = live,
						   .is_exact = looked == slots };

	key_count.mapping = region->guard ? weir__mapping_guard_state(region->guard) :
					    (struct weir__mapping_state){ .is_named = true };
	for (int i = 0; i < WEIR__DAMAGES; i++)
		key_count.damaged[i] = weir__region_count(region, (enum weir__region_count)i);
	for (uint32_t i = 0; i < WEIR__STRIPES + WEIR__STRIPES_COMMON; i++) {
		struct weir__stripe *const stripe = weir__region_stripe(region, i);

		key_count.inserted += read_counter(&stripe->inserted);
		key_count.evicted += read_counter(&stripe->evicted);
		key_count.folded += read_counter(&stripe->folded);
	}
	if (key_count.live >
	    key_count.inserted) /* a sample of few keys is inexact; other processes may have counted more */
		key_count.live = key_count.inserted;
	*ret_count = key_count;
}

void weir__table_limit_stats(const struct weir_table *table, uint32_t index, struct weir_table_limit_stats *ret_stats)
{
	struct weir_table_limit_stats stats = { 0, 0 };

	for (uint32_t i = 0; i < WEIR__STRIPES + WEIR__STRIPES_COMMON; i++) {
		struct weir__limit_counters *const counters = &weir__region_stripe(&table->region, i)->limits[index];

		stats.allowed += read_counter(&counters->of[true]);
		stats.denied += read_counter(&counters->of[false]);
	}
	*ret_stats = stats;
}

void weir_table_limit_stats(struct weir_table *table, const struct weir_table_limit *limit,
			    struct weir_table_limit_stats *ret_stats)
{
	weir__table_limit_stats(table, limit->index, ret_stats);
}
