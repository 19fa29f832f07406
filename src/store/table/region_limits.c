/* region_limits.c: recovers the limits of a table in a file, their old plans and the counters. The caller is alone with
 * the file.
 *
 * An entry is sound if its identity matches its name and text, and its newest plan is possible. Any other entry is
 * emptied and counted as damaged, and the limit can be added again. An entry that was only half written, by a process
 * that was killed, is emptied and not counted, since nothing was charged under it.
 *
 * A search for a limit ends at the first free entry. So a free entry with used ones behind it, which would not be found
 * any more, is marked as EMPTIED.
 *
 * If the file was closed cleanly, all of this must match its checksums, and there must be as many limits and old plans
 * as were counted then. */
#include "store/table/plans.h"
#include "store/table/region_file.h"
#include "store/table/slot.h"

/* More than a thread can count: that would take 22 years at 10^8 decisions per second. */
#define COUNT_MOST (UINT64_C(1) << 56)

#define CLOSED (UINT64_C(1) << 63)

static const struct weir_state unowned = { 0, 0 };

void weir__region_count_damage(struct weir__region *region, enum weir__region_count which, uint64_t n)
{
	if (n == 0)
		return;
	region->damaged[which] += n;
	weir__region_add_count(region, which, n);
}

/* --- checksums -------------------------------------------------------------------------------------------------- */

static bool is_used(const struct weir__region *region, uint32_t index)
{
	return weir__limit_is_used(region->limits[index].identity.state.lo);
}

static uint64_t sum_of_entry(const struct weir__region *region, uint32_t index)
{
	return is_used(region, index) ?
		       weir__hash(&region->secret, &region->limits[index], sizeof(region->limits[index])) | 1 :
		       0;
}

/* The checksum of the counters. It leaves out the owner, which is set again on opening. */
static uint64_t sum_of_stripe(const struct weir__region *region, const struct weir__stripe *stripe)
{
	const uint64_t parts[] = {
		weir__hash(&region->secret, &stripe->inserted,
			   offsetof(struct weir__stripe, sum) - offsetof(struct weir__stripe, inserted)),
		weir__hash(&region->secret, stripe->limits, region->limits_max * sizeof(stripe->limits[0])),
	};

	return weir__hash(&region->secret, parts, sizeof(parts));
}

static uint64_t sum_of_words(const struct weir__region *region)
{
	const struct weir__region_header *const header = region->header;
	const uint64_t parts[] = { header->hold.state.lo,          header->hold.state.hi,
				   header->clock.next.state.lo,    header->clock.next.state.hi,
				   header->clock.current.state.lo, header->clock.current.state.hi };

	return weir__hash(&region->secret, parts, sizeof(parts));
}

/* The value of `closed` for the file as it is now. */
static uint64_t count_all(const struct weir__region *region)
{
	uint64_t limits = 0, old_plans = 0;

	for (uint32_t i = 0; i < region->limits_max; i++)
		limits += is_used(region, i);
	for (uint32_t i = 0; i < region->n_old_plans; i++)
		old_plans += region->old_plans[i].owner.state.lo != 0;
	return CLOSED | limits << 32 | old_plans;
}

static uint64_t hash_of_closed(const struct weir__region *region, uint64_t closed)
{
	return weir__hash(&region->secret, &closed, sizeof(closed));
}

/* It does not write words that have not changed. */
struct weir_state weir__region_seal_limits(struct weir__region *region)
{
	const uint64_t closed = count_all(region);

	for (uint32_t i = 0; i < region->limits_max; i++)
		if (region->sums[i] != sum_of_entry(region, i))
			region->sums[i] = sum_of_entry(region, i);
	for (uint32_t i = 0; i < WEIR__STRIPES + WEIR__STRIPES_COMMON; i++) {
		struct weir__stripe *const stripe = weir__region_stripe(region, i);
		const uint64_t sum = sum_of_stripe(region, stripe);

		if (stripe->sum != sum)
			stripe->sum = sum;
	}
	region->header->words_sum = sum_of_words(region);
	return (struct weir_state){ closed, hash_of_closed(region, closed) };
}

uint64_t weir__region_read_closed(struct weir__region *region)
{
	const struct weir_state closed = region->header->closed.state;
	const bool is_sound = weir__slot_equal(closed, unowned) ||
			      (closed.lo & CLOSED && closed.hi == hash_of_closed(region, closed.lo));

	weir__region_count_damage(region, WEIR__DAMAGED_FIELDS, !is_sound);
	return is_sound ? closed.lo : 0;
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

static bool is_all_zero(const struct weir__region_limit *entry)
{
	static const struct weir__region_limit zero;

	return memcmp(entry, &zero, sizeof(zero)) == 0;
}

static enum weir__plans_state check_entry(const struct weir__region *region, uint32_t index, bool was_closed)
{
	struct weir__region_limit *const entry = &region->limits[index];
	const bool is_begun = !weir__slot_equal(entry->plans[0].words[WEIR__PLAN_WORDS - 1].state, unowned);
	const enum weir__plans_state otherwise = is_begun || was_closed ? WEIR__PLANS_DAMAGED : WEIR__PLANS_UNWRITTEN;
	enum weir__plans_state plans;
	struct weir_limit first;

	if (was_closed && region->sums[index] != sum_of_entry(region, index))
		return WEIR__PLANS_DAMAGED;
	if (is_all_zero(entry))
		return WEIR__PLANS_FREE;
	if (!is_used(region, index) || !weir__region_first_limit(region, index, &first))
		return otherwise;
	plans = weir__plans_check(region, entry, &first);
	return plans == WEIR__PLANS_UNWRITTEN && was_closed ? WEIR__PLANS_DAMAGED : plans;
}

/* The counters start over, since another limit may get this place. */
static void empty_entry(const struct weir__region *region, uint32_t index)
{
	memset(&region->limits[index], 0, sizeof(region->limits[index]));
	for (uint32_t i = 0; i < WEIR__STRIPES + WEIR__STRIPES_COMMON; i++)
		memset(&weir__region_stripe(region, i)->limits[index], 0, sizeof(struct weir__limit_counters));
}

/* How far an entry is from the place where the search for it begins. */
static uint64_t distance_of(const struct weir__region *region, uint32_t index)
{
	const uint64_t first = region->limits[index].identity.state.lo % region->limits_max;

	return (index + region->limits_max - first) % region->limits_max;
}

/* Marks the free entries that a search must pass. It goes round backwards, twice: the first time only to find out how
 * far the entries at the start reach back beyond the end. */
static void put_in_order(const struct weir__region *region)
{
	const struct weir_state emptied = { .lo = WEIR__LIMIT_EMPTIED };
	uint64_t reach = 0; /* how many entries from here on a search must pass */

	for (uint64_t n = 0; n < 2 * (uint64_t)region->limits_max; n++) {
		const uint32_t i = region->limits_max - 1 - (uint32_t)(n % region->limits_max);
		struct weir_state *const identity = &region->limits[i].identity.state;
		const bool is_passed = reach > 0;

		reach -= is_passed;
		if (is_used(region, i))
			reach = distance_of(region, i) > reach ? distance_of(region, i) : reach;
		else if (n >= region->limits_max && !weir__slot_equal(*identity, is_passed ? emptied : unowned))
			*identity = is_passed ? emptied : unowned;
	}
}

static uint64_t recover_entries(struct weir__region *region, bool was_closed)
{
	uint64_t damaged = 0;

	for (uint32_t i = 0; i < region->limits_max; i++) {
		struct weir__region_limit *const entry = &region->limits[i];
		enum weir__plans_state state;

		if (entry->identity.state.lo == WEIR__LIMIT_EMPTIED)
			entry->identity.state = unowned;
		state = check_entry(region, i, was_closed);
		damaged += state == WEIR__PLANS_DAMAGED;
		if (state == WEIR__PLANS_DAMAGED || state == WEIR__PLANS_UNWRITTEN)
			empty_entry(region, i);
		else if (entry->change.state.hi != 0) /* the thread that changed it is gone */
			entry->change.state.hi = 0;
	}
	put_in_order(region);
	return damaged;
}

/* If a limit is there twice, the entry that a search does not find is emptied. */
static uint64_t recover_copies(struct weir__region *region)
{
	uint64_t damaged = 0;
	uint32_t found;

	for (uint32_t i = 0; i < region->limits_max; i++)
		if (is_used(region, i) &&
		    weir__region_find_identity(region, region->limits[i].identity.state.lo, &found) && found != i) {
			region->limits[i].identity.state.lo = WEIR__LIMIT_EMPTIED; /* searches go on */
			damaged++;
		}
	for (uint32_t i = 0; i < region->limits_max && damaged > 0; i++)
		if (region->limits[i].identity.state.lo == WEIR__LIMIT_EMPTIED)
			empty_entry(region, i);
	if (damaged > 0)
		put_in_order(region);
	return damaged;
}

/* --- the rest --------------------------------------------------------------------------------------------------- */

static uint64_t recover_old_plans(const struct weir__region *region)
{
	uint64_t damaged = 0;

	for (uint32_t i = 0; i < region->n_old_plans; i++) {
		struct weir__region_old_plan *const old = &region->old_plans[i];
		const enum weir__plans_state state = weir__plans_check_old(region, old);

		damaged += state == WEIR__PLANS_DAMAGED;
		if (state == WEIR__PLANS_DAMAGED || state == WEIR__PLANS_UNWRITTEN)
			memset(old, 0, sizeof(*old));
	}
	return damaged;
}

static uint64_t recover_counters(_Atomic uint64_t *counters, size_t n)
{
	uint64_t damaged = 0;

	for (size_t i = 0; i < n; i++)
		if (atomic_load_explicit(&counters[i], memory_order_relaxed) > COUNT_MOST) {
			atomic_store(&counters[i], 0);
			damaged++;
		}
	return damaged;
}

static uint64_t recover_stripe(const struct weir__region *region, struct weir__stripe *stripe, bool was_closed)
{
	enum { FIRST = offsetof(struct weir__stripe, inserted), END = offsetof(struct weir__stripe, sum) };

	if (was_closed && stripe->sum != sum_of_stripe(region, stripe)) {
		memset(stripe, 0, region->stripe_bytes);
		return 1;
	}
	return recover_counters(&stripe->inserted, (END - FIRST) / sizeof(uint64_t)) +
	       recover_counters(stripe->limits[0].of, region->limits_max * (size_t)2);
}

static uint64_t recover_words(const struct weir__region *region, bool was_closed)
{
	struct weir__region_header *const header = region->header;
	uint64_t damaged = 0;

	for (int i = 0; i < WEIR__REGION_COUNTS; i++)
		if (!weir__region_count_is_sound(region, (enum weir__region_count)i)) {
			header->counts[i].state = unowned;
			damaged++;
		}
	if (was_closed ? header->words_sum == sum_of_words(region) : weir__clock_anchor_is_sound(&header->clock))
		return damaged;
	if (was_closed)
		header->hold.state = unowned;
	weir__clock_anchor_init(&header->clock);
	return damaged + 1;
}

static uint64_t limits_of(uint64_t closed)
{
	return (closed & ~CLOSED) >> 32;
}

/* How many more there were when the file was closed. */
static uint64_t missing(uint64_t then, uint64_t now)
{
	return then > now ? then - now : 0;
}

void weir__region_recover_limits(struct weir__region *region, uint64_t closed)
{
	const bool was_closed = closed != 0;
	const uint64_t found = count_all(region);
	uint64_t fields = recover_words(region, was_closed);
	uint64_t limits;

	/* This comes before entries are emptied, which changes counters. */
	for (uint32_t i = 0; i < WEIR__STRIPES + WEIR__STRIPES_COMMON; i++)
		fields += recover_stripe(region, weir__region_stripe(region, i), was_closed);
	limits = recover_entries(region, was_closed);
	limits += recover_copies(region);
	fields += recover_old_plans(region);
	if (was_closed) {
		const uint64_t lost = missing(limits_of(closed), limits_of(found));

		limits = limits > lost ? limits : lost; /* an entry without its identity is both damaged and lost */
		fields += missing((uint32_t)closed, (uint32_t)found);
	}
	weir__region_count_damage(region, WEIR__DAMAGED_LIMITS, limits);
	weir__region_count_damage(region, WEIR__DAMAGED_FIELDS, fields);
}
