/* region_recover.c: repairs what is found in a table's file, and closes the file such that it can be checked.
 *
 * If the file was closed cleanly, all pages must match their checksums. Otherwise each page must have its mark, and
 * each slot must be one that the table can have written. An impossible slot or page is emptied and counted as damaged.
 * Recovery never guesses.
 *
 * After a power cut the pages of a file are of different ages. A key may have become full and lost its slot in a newer
 * page, and have been charged in another slot since. If the page of its first slot is an older version, the key has two
 * slots, and a lookup may find the full one first. So slots of full keys are emptied, which changes nothing else, since
 * a full key needs no slot. The reasons are in docs/internals/table-files.md. */
#include "core/wide.h"
#include "os/file.h"
#include "store/table/plans.h"
#include "store/table/region_file.h"
#include "store/table/table.h"

/* A table that was made, or last moved, this long ago gets a later epoch, since times are valid for 9 years. */
static const weir_ns old_ns = UINT64_C(126230400000000000); /* 4 years */

/* If the clock has advanced by more than this since the table was last used, recovery does not trust it until the next
 * opening, if it is still ahead then. */
static const weir_ns jump_ns = UINT64_C(31557600000000000); /* a year */

static const struct weir_state unowned = { 0, 0 };

/* Bounds for full_at in slots, in ns since the epoch. */
struct times {
	uint64_t now;    /* full by then: the slot is emptied */
	uint64_t latest; /* full after then: no limit of this table allows that */
	uint64_t ahead;  /* how much later than `latest` slots of histories may be */
};

static uint64_t pages_of(const struct weir__region *region)
{
	return region->lines * WEIR__LINE_SLOTS / WEIR__PAGE_SLOTS;
}

static union weir__atomic16 *page_at(const struct weir__region *region, uint64_t page)
{
	return region->slots + page * WEIR__PAGE_SLOTS;
}

/* --- marks ------------------------------------------------------------------------------------------------------ */

static uint32_t own_of_mark(const struct weir__region *region, uint64_t page)
{
	return (uint32_t)weir__hash(&region->secret, &page, sizeof(page));
}

static struct weir_state mark_with_sum(const struct weir__region *region, uint64_t page)
{
	const union weir__atomic16 *const slots = page_at(region, page);
	const uint64_t sum = weir__hash(&region->secret, slots + 1, WEIR__PAGE_BYTES - sizeof(*slots));

	return weir__slot_mark(own_of_mark(region, page), (uint32_t)sum >> WEIR__SLOT_TAG_BITS);
}

static bool is_marked(const struct weir__region *region, uint64_t page)
{
	const struct weir_state mark = page_at(region, page)->state;

	return weir__slot_is_mark(mark) && weir__slot_own(mark) == own_of_mark(region, page);
}

void weir__region_mark_pages(const struct weir__region *region)
{
	for (uint64_t page = 0; page < pages_of(region); page++)
		page_at(region, page)->state = weir__slot_mark(own_of_mark(region, page), 0);
}

void weir__region_mark_lost_pages(const struct weir__region *region)
{
	for (uint64_t page = 0; page < pages_of(region); page++) {
		union weir__atomic16 *const at = page_at(region, page);
		struct weir_state seen = weir__atomic16_load(at);

		while (!weir__slot_is_mark(seen) &&
		       !weir__atomic16_swap(at, seen, weir__slot_mark(own_of_mark(region, page), 0)))
			seen = weir__atomic16_load(at);
	}
}

static void check_page(struct weir__region *region, uint64_t page, bool was_closed)
{
	union weir__atomic16 *const slots = page_at(region, page);

	if (is_marked(region, page) && (!was_closed || weir__slot_equal(slots->state, mark_with_sum(region, page))))
		return;
	weir__region_count_damage(region, WEIR__DAMAGED_PAGES, 1);
	memset(slots, 0, WEIR__PAGE_BYTES);
	slots->state = mark_with_sum(region, page);
}

int weir__region_seal(struct weir__region *region)
{
	const struct weir_state closed = weir__region_seal_limits(region);
	int error;

	for (uint64_t page = 0; page < pages_of(region); page++) {
		const struct weir_state mark = mark_with_sum(region, page);

		/* Do not write a page that has not changed. */
		if (is_marked(region, page) && !weir__slot_equal(page_at(region, page)->state, mark))
			page_at(region, page)->state = mark;
	}
	error = weir__file_sync(region->file);
	if (error != 0)
		return error;
	region->header->closed.state = closed;
	return weir__file_sync_memory(region->header, sizeof(*region->header));
}

/* --- slots ------------------------------------------------------------------------------------------------------ */

/* The longest time in which a key becomes full under a limit as it is, or under one of its earlier plans whose slots
 * can still be read. If not even the newest plan can be read, it returns the longest possible time. */
static uint64_t longest_under(const struct weir__region *region, struct weir__region_limit *entry)
{
	const uint64_t number = weir__plans_number(entry);
	uint64_t longest = 0;

	for (uint64_t ago = 0; ago <= number && ago <= region->n_old_plans; ago++) {
		struct weir__plans_limit of_then;

		if (!weir__plans_read(region, entry, number - ago, &of_then))
			return ago == 0 ? WEIR_TABLE_DURATION_MAX : longest;
		if (weir__plans_longest(&of_then.limit) > longest)
			longest = weir__plans_longest(&of_then.limit);
	}
	return longest;
}

/* The longest time in which a key of any limit of this table becomes full. If limits were damaged, it returns the
 * longest possible time. */
static uint64_t longest_used(const struct weir__region *region)
{
	uint64_t longest = region->damaged[WEIR__DAMAGED_LIMITS] > 0 ? WEIR_TABLE_DURATION_MAX : 0;

	for (uint32_t i = 0; i < region->limits_max; i++) {
		struct weir__region_limit *const entry = &region->limits[i];
		const uint64_t under = weir__limit_is_used(entry->identity.state.lo) ? longest_under(region, entry) : 0;

		if (under > longest)
			longest = under;
	}
	return longest > 0 ? weir__min(longest, WEIR_TABLE_DURATION_MAX) : WEIR_TABLE_DURATION_MAX;
}

static uint64_t since_epoch(const struct weir__region *region, weir_ns at)
{
	return at > region->epoch ? weir__min(at - region->epoch, WEIR__SLOT_TIME_MAX) : 0;
}

/* A machine may not know the time yet when it starts. Recovery then uses the last time that the table knew. Otherwise
 * all keys would seem to have used more than they can. */
static struct times times_of(const struct weir__region *region, weir_ns now, bool was_closed)
{
	const uint64_t moved_at = since_epoch(region, weir__clock_anchor_moved_at(&region->header->clock));
	struct times times = { .now = was_closed ? 0 : since_epoch(region, now), .latest = since_epoch(region, now) };

	if (region->header->made_for & WEIR__REGION_REPLAYS)
		return (struct times){ .now = 0, .latest = UINT64_MAX };
	if (moved_at > times.latest)
		times.latest = moved_at;
	times.ahead = longest_used(region) / 8; /* see table_history.c */
	/* A wait takes tokens ahead, and after a step back of the clock keys may have used more. Each adds at most a
	 * minute. */
	times.latest += longest_used(region) + 2 * WEIR__STEP_BACK_MAX;
	return times;
}

static bool can_be(struct weir_state slot, const struct times *times)
{
	if (weir__slot_fingerprint(slot) == 0)
		return weir__slot_equal(slot, unowned);
	switch (weir__slot_tag(slot)) {
	case WEIR__SLOT_CLAIMED:
		return true;
	case WEIR__SLOT_ARENA:
		return weir__slot_full_at(slot) <= weir__add_saturating(times->latest, times->ahead);
	default: /* of any generation of its limit */
		return weir__slot_full_at(slot) <= times->latest;
	}
}

/* Whether the thread that claimed the slot is gone, or the slot's key has used nothing and is not held after a change
 * of its limit. */
static bool is_left_over(struct weir_state slot, const struct times *times, const struct weir_state *hold)
{
	return weir__slot_tag(slot) == WEIR__SLOT_CLAIMED ||
	       (weir__slot_full_at(slot) <= times->now && !weir__table_holds(hold, slot, times->now));
}

static void check_slots(struct weir__region *region, uint64_t page, const struct times *times)
{
	const struct weir_state hold = region->header->hold.state;
	union weir__atomic16 *const slots = page_at(region, page);

	for (uint32_t i = 1; i < WEIR__PAGE_SLOTS; i++) {
		const struct weir_state slot = slots[i].state;

		if (weir__slot_equal(slot, unowned))
			continue;
		if (!can_be(slot, times))
			weir__region_count_damage(region, WEIR__DAMAGED_SLOTS, 1);
		else if (!is_left_over(slot, times, &hold))
			continue;
		slots[i].state = unowned;
	}
}

/* --- the epoch -------------------------------------------------------------------------------------------------- */

static uint64_t check_of_epoch(const struct weir__region *region, weir_ns epoch)
{
	return weir__hash(&region->secret, &epoch, sizeof(epoch));
}

static void set_epoch(struct weir__region *region, weir_ns epoch)
{
	struct weir__region_header next;
	const struct weir_state before = { .lo = region->header->epoch, .hi = region->header->check };

	memcpy(&next, region->header, sizeof(next));
	next.epoch = epoch;
	next.check = weir__region_check_of(&next);
	(void)weir__atomic16_swap((union weir__atomic16 *)(void *)&region->header->epoch, before,
				  (struct weir_state){ .lo = next.epoch, .hi = next.check });
	region->epoch = epoch;
}

/* Moves to the epoch that the header announces all slots that have not been moved yet. Slots that have not been moved
 * are full after `past`, and slots that have been moved are full before it. */
static int finish_move(struct weir__region *region)
{
	const struct weir_state next = region->header->next_epoch.state;
	const uint64_t shift = next.lo - region->epoch;
	const uint64_t past = weir__region_made_at(region) - region->epoch + shift;
	int error;

	if (next.lo > region->epoch && next.lo <= UINT64_MAX / 2 && next.hi == check_of_epoch(region, next.lo)) {
		for (uint64_t i = 0; i < region->lines * WEIR__LINE_SLOTS; i++) {
			struct weir_state *const slot = &region->slots[i].state;

			if (!weir__slot_is_mark(*slot) && weir__slot_full_at(*slot) > past)
				slot->hi -= shift << WEIR__SLOT_TAG_BITS;
		}
		error = weir__file_sync(region->file);
		if (error != 0)
			return error;
		set_epoch(region, next.lo);
		region->header->hold.state = (struct weir_state){ 0, 0 }; /* holds were over before the move */
		error = weir__file_sync_memory(region->header, sizeof(*region->header));
		if (error != 0)
			return error;
	}
	weir__region_count_damage(region, WEIR__DAMAGED_FIELDS,
				  !weir__slot_equal(next, unowned) && next.hi != check_of_epoch(region, next.lo));
	region->header->next_epoch.state = unowned;
	return 0;
}

/* Empties the slots of keys that have used nothing. Returns false if a key is full only at `end` or later, or if a key
 * has a history, which contains many times. */
static bool keep_before(const struct weir__region *region, uint64_t now, uint64_t end)
{
	bool all = true;

	for (uint64_t i = 0; i < region->lines * WEIR__LINE_SLOTS; i++) {
		struct weir_state *const slot = &region->slots[i].state;

		if (weir__slot_is_mark(*slot))
			continue;
		if (weir__slot_full_at(*slot) <= now)
			*slot = unowned;
		all &= weir__slot_full_at(*slot) < end && weir__slot_tag(*slot) != WEIR__SLOT_ARENA;
	}
	return all;
}

/* Moves the epoch as if the table were made now. The move is announced first, and each step is on the disk before the
 * next, so it can be continued wherever it was interrupted. If a key takes longer to become full than the table is old,
 * it would be unknown whether its slot has been moved. The epoch is moved only once the table is old enough. */
static int move_epoch(struct weir__region *region, weir_ns now, weir_ns used_at)
{
	const weir_ns made_at = weir__region_made_at(region), epoch = region->epoch, age = now - made_at;
	int error;

	if (region->header->made_for & WEIR__REGION_REPLAYS || made_at == 0 || now < made_at || age < old_ns ||
	    now - used_at > jump_ns || region->header->hold.state.hi > now - epoch ||
	    !keep_before(region, now - epoch, now - epoch + age))
		return 0;
	error = weir__file_sync(region->file);
	if (error != 0)
		return error;
	region->header->next_epoch.state = (struct weir_state){ .lo = epoch + age,
								.hi = check_of_epoch(region, epoch + age) };
	error = weir__file_sync_memory(region->header, sizeof(*region->header));
	return error == 0 ? finish_move(region) : error;
}

/* ---------------------------------------------------------------------------------------------------------------- */

/* A hold that ends later than any slot can belongs to a change that did not reach the disk, or is damaged. */
static void check_hold(struct weir__region *region, const struct times *times)
{
	struct weir_state *const hold = &region->header->hold.state;
	const uint64_t possible = weir__add_saturating(times->latest, WEIR_TABLE_DURATION_MAX);

	if (hold->hi <= times->latest && hold->lo <= hold->hi)
		return;
	weir__region_count_damage(region, WEIR__DAMAGED_FIELDS, hold->hi > possible || hold->lo > hold->hi);
	*hold = unowned;
}

static void note_damage(const struct weir__region *region, weir_ns now)
{
	uint64_t damages = 0;

	for (int i = 0; i < WEIR__DAMAGES; i++)
		damages += region->damaged[i];
	if (damages == 0)
		return;
	region->header->counts[WEIR__DAMAGED_AT].state = unowned;
	weir__region_add_count(region, WEIR__DAMAGED_AT, now);
}

int weir__region_recover(struct weir__region *region, weir_ns now)
{
	struct weir__region_header *const header = region->header;
	const uint64_t closed = weir__region_read_closed(region);
	const bool was_closed = closed != 0;
	struct times times;
	weir_ns used_at;
	int error;

	for (uint64_t page = 0; page < pages_of(region); page++)
		check_page(region, page, was_closed);
	/* This word must reach the disk before anything changes. Otherwise a power cut could leave checksums of the old
	 * contents. */
	header->closed.state = unowned;
	error = weir__file_sync_memory(header, sizeof(*header));
	if (error != 0)
		return error;
	weir__region_recover_limits(region, closed);
	used_at = weir__clock_anchor_moved_at(&header->clock);
	error = finish_move(region);
	if (error != 0)
		return error;
	times = times_of(region, now, was_closed);
	check_hold(region, &times);
	for (uint64_t page = 0; page < pages_of(region); page++)
		check_slots(region, page, &times);
	weir__region_recover_histories(region);
	note_damage(region, now);
	for (uint32_t i = 0; i < WEIR__STRIPES;
	     i++) /* the owners are threads of another boot, or of the file that this is a copy of */
		atomic_store(&weir__region_stripe(region, i)->owner, 0);
	weir__clock_anchor_init(&header->clock);
	return move_epoch(region, now, used_at);
}
