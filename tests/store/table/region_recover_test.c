/* region_recover_test.c: recovery of a file that was not closed, was damaged, or is old. */
/* Covers: src/store/table/region_histories.c */
#include <fcntl.h>

#include "files.h"

enum { KEYS = 2000, ROOM = 2 * KEYS }; /* so that none is evicted */

#define YEAR S(31557600)

static const char limit_text[] = "10/day", short_text[] = "5/min fixed_window";

static struct weir_table_stats stats_now(struct weir_table *table)
{
	return stats_of(table, weir_table_now(table));
}

static uint64_t pages_of(const struct weir_table *table)
{
	return slots_of(table) / WEIR__PAGE_SLOTS;
}

static union weir__atomic16 *page_at(const struct weir_table *table, uint64_t page)
{
	return table->region.slots + page * WEIR__PAGE_SLOTS;
}

/* Charges keys 0 to n - 1. */
static void charge(struct weir_table *table, uint32_t n)
{
	const struct weir_table_limit *const limit = limit_in(table, limit_text);

	for (uint32_t i = 0; i < n; i++)
		CHECK(weir_table_allow(table, limit, &i, sizeof(i), weir_table_now(table), 10));
}

/* How many of them have no usage. */
static uint32_t dropped(struct weir_table *table, uint32_t n)
{
	const struct weir_table_limit *const limit = limit_in(table, limit_text);
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++)
		found += weir_table_peek(table, limit, &i, sizeof(i), weir_table_now(table), 1).allowed;
	return found;
}

static uint32_t taken_in(const struct weir_table *table, uint64_t page)
{
	uint32_t taken = 0;

	for (uint32_t i = 1; i < WEIR__PAGE_SLOTS; i++)
		taken += weir__slot_fingerprint(page_at(table, page)[i].state) != 0;
	return taken;
}

/* --- marks ------------------------------------------------------------------------------------------------------ */

/* In a full table, no key takes the slot of a page mark or is found there. */
static void marks_stay(void)
{
	struct weir_table *table = file_table(100);
	const uint64_t pages = pages_of(table);
	const struct weir_table_limit *const counted = limit_in(table, "1/day fixed_window");

	CHECK(pages > 0);
	CHECK_EQ((uintptr_t)table->region.slots % WEIR__PAGE_BYTES, 0);
	CHECK_EQ(slots_of(table) % WEIR__PAGE_SLOTS, 0);
	CHECK_EQ(stats_now(table).live, 0);
	charge(table, 5000);
	CHECK_EQ(stats_now(table).capacity, slots_of(table) - pages);
	CHECK(stats_now(table).live > stats_now(table).capacity * 99 / 100);
	CHECK(stats_now(table).evicted > 0);
	for (uint32_t i = 0; i < 5000; i++) /* also while all other slots are in use */
		(void)weir_table_allow(table, counted, &i, sizeof(i), weir_table_now(table), 1);
	for (uint64_t page = 0; page < pages; page++)
		CHECK(weir__slot_is_mark(page_at(table, page)->state));
	leave(table);
	table = file_table(100);
	CHECK_EQ(stats_now(table).damaged_pages, 0);
	CHECK_EQ(stats_now(table).damaged_slots, 0);
	weir_table_free(table);
	clean_up();
}

static void damage_first_page(struct weir_table *table, int how)
{
	union weir__atomic16 *const slots = page_at(table, 1);
	unsigned char page[WEIR__PAGE_BYTES];

	switch (how) {
	case 0: /* never written */
		memset(slots, 0, WEIR__PAGE_BYTES);
		break;
	case 1: /* something else */
		memset(slots, 0x5a, WEIR__PAGE_BYTES);
		break;
	case 2: /* the mark alone */
		slots->state.lo ^= UINT64_C(1) << 40;
		break;
	case 3: /* a sector that was lost */
		memset(slots, 0, 512);
		break;
	default: /* written to another place */
		memcpy(page, page_at(table, 2), sizeof(page));
		memcpy(slots, page, sizeof(page));
		break;
	}
}

static void a_page_without_its_mark_starts_anew(void)
{
	for (int how = 0; how < 5; how++) {
		struct weir_table *table = file_table(ROOM);
		uint32_t lost;

		charge(table, KEYS);
		CHECK_EQ(dropped(table, KEYS), 0);
		lost = taken_in(table, 1);
		CHECK(lost > 20);
		damage_first_page(table, how);
		leave(table);
		table = file_table(ROOM);
		CHECK_EQ(stats_now(table).damaged_pages, 1);
		CHECK_EQ(stats_now(table).damaged_slots, 0);
		CHECK(weir_table_now(table) - stats_now(table).damaged_at < S(60));
		CHECK_EQ(taken_in(table, 1), 0);
		CHECK_EQ(dropped(table, KEYS), lost);
		charge(table, 0);
		leave(table);
		table = file_table(ROOM); /* it stays reported, but counts once */
		CHECK_EQ(stats_now(table).damaged_pages, 1);
		CHECK_EQ(dropped(table, KEYS), lost);
		weir_table_free(table);
		clean_up();
	}
}

/* One bit of a slot that stays plausible: only checksums show it. */
static void closed_cleanly_every_bit_counts(void)
{
	for (int was_closed = 0; was_closed < 2; was_closed++) {
		struct weir_table *table = file_table(ROOM);
		const size_t at = (size_t)((unsigned char *)page_at(table, 1) - (unsigned char *)table->region.header);
		unsigned char slots[WEIR__PAGE_BYTES];
		size_t taken = 1;
		int file;

		charge(table, KEYS);
		(was_closed ? weir_table_free : leave)(table);
		file = open(path, O_RDWR | O_CLOEXEC);
		CHECK_EQ(pread(file, slots, sizeof(slots), (off_t)at), sizeof(slots));
		while (slots[taken * 16] == 0)
			taken++;
		slots[taken * 16 + 9] ^= 1; /* 16 ns of the time at which it is full */
		CHECK_EQ(pwrite(file, slots, sizeof(slots), (off_t)at), sizeof(slots));
		close(file);
		table = file_table(ROOM);
		CHECK_EQ(stats_now(table).damaged_pages, was_closed);
		CHECK_EQ(taken_in(table, 1) == 0, was_closed);
		weir_table_free(table);
		clean_up();
	}
}

/* --- slots ------------------------------------------------------------------------------------------------------ */

static void slots_that_cannot_be(void)
{
	enum { KEPT, EMPTIED, DAMAGED };
	static const struct {
		const char *what;
		uint32_t fingerprint, own;
		int64_t full_in; /* from now on, in ns */
		uint32_t tag;
		int found, found_if_closed;
	} rows[] = {
		{ "owes for an hour", 1, 5, S(3600), 0, KEPT, KEPT },
		{ "counted", 1, 5, S(3600), WEIR__SLOT_COUNTED, KEPT, KEPT },
		{ "all that can be owed", 1, 5, S(86400), 0, KEPT, KEPT },
		{ "and by a clock that went back", 1, 5, S(86519), 0, KEPT, KEPT },
		{ "more than can be owed", 1, 5, S(86600), 0, DAMAGED, DAMAGED },
		{ "for years", 1, 5, 10 * YEAR, WEIR__SLOT_COUNTED, DAMAGED, DAMAGED },
		{ "whole", 1, 5, -1000000000, 0, EMPTIED, KEPT },
		{ "a claim", 1, 5, S(3600), WEIR__SLOT_CLAIMED, EMPTIED, EMPTIED },
		{ "a claim of what cannot be", 1, 5, 10 * YEAR, WEIR__SLOT_CLAIMED, EMPTIED, EMPTIED },
		{ "of another generation", 1, 5, S(3600), 3, KEPT, KEPT },
		{ "of no limit, with usage", 0, 0, S(3600), 0, DAMAGED, DAMAGED },
		{ "of no limit, with other bits", 0, 5, INT64_MIN, 0, DAMAGED, DAMAGED },
	};

	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		const bool is_closed = i % 2;
		const int expected = is_closed ? rows[i / 2].found_if_closed : rows[i / 2].found;
		struct weir_table *table = file_table(ROOM);
		const uint64_t now = weir_table_now(table) - table->epoch;
		struct weir_state slot;

		(void)limit_in(table, limit_text);
		(void)limit_in(table, short_text);
		slot = weir__slot_make(rows[i / 2].fingerprint, rows[i / 2].own,
				       rows[i / 2].full_in == INT64_MIN ? 0 : now + (uint64_t)rows[i / 2].full_in,
				       rows[i / 2].tag);
		page_at(table, 1)[3].state = slot;
		(is_closed ? weir_table_free : leave)(table);
		table = file_table(ROOM);
		if (weir__slot_equal(page_at(table, 1)[3].state, slot) != (expected == KEPT) ||
		    stats_now(table).damaged_slots != (expected == DAMAGED) || stats_now(table).damaged_pages != 0) {
			check_fail(__FILE__, __LINE__, "what was expected");
			printf("# %s, closed: %d\n", rows[i / 2].what, is_closed);
		}
		weir_table_free(table);
		clean_up();
	}
}

/* If a limit is unreadable or missing, the largest possible usage is unknown: then nothing is rejected as too much. */
static void limits_that_cannot_be_read(void)
{
	for (int damage = 0; damage < 2; damage++) {
		struct weir_table *table = file_table(ROOM);
		const struct weir_table_limit *const limit = limit_in(table, limit_text);
		struct weir_state slot;

		slot = weir__slot_make(1, 0, weir_table_now(table) - table->epoch + 10 * YEAR, 0);
		page_at(table, 1)[3].state = slot;
		if (damage)
			table->region.limits[limit->index].plans[0].words[0].state.hi ^= 1;
		else
			memset(&table->region.limits[limit->index], 0, sizeof(struct weir__region_limit));
		leave(table);
		table = file_table(ROOM);
		CHECK(weir__slot_equal(page_at(table, 1)[3].state, slot));
		weir_table_free(table);
		clean_up();
	}
}

/* The machine starts with a clock in 1970, or a year behind: usage is kept. */
static void a_clock_that_is_behind(void)
{
	static const weir_ns behind[] = { 0, YEAR };

	for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
		struct weir_table *table = file_table(ROOM);
		const weir_ns now = weir_table_now(table);

		charge(table, 100);
		CHECK_EQ(weir__region_recover(&table->region, behind[i] ? now - behind[i] : S(1000)), 0);
		CHECK_EQ(stats_now(table).damaged_slots, 0);
		CHECK_EQ(dropped(table, 100), 0);
		weir_table_free(table);
		clean_up();
	}
}

/* A key that was full, lost its slot and was charged in another, if the page of the first is older. */
static void a_key_that_is_there_twice(void)
{
	struct weir_table *table = file_table(ROOM);
	const struct weir_table_limit *const limit = limit_in(table, limit_text);
	const uint64_t hash = hash_of(limit, "key", 3);
	union weir__atomic16 *const home = weir__table_home(table, hash), *const other = weir__table_alternate(table,
													       hash);
	const uint64_t now = weir_table_now(table) - table->epoch;

	CHECK(home != other);
	home[1].state = weir__slot_make(weir__fingerprint(hash), 0, now - S(1), 0);
	other[1].state = weir__slot_make(weir__fingerprint(hash), 0, now + S(86400), 0);
	CHECK(weir_table_peek(table, limit, "key", 3, weir_table_now(table), 1).allowed);
	leave(table);
	table = file_table(ROOM);
	CHECK(!weir_table_peek(table, limit_in(table, limit_text), "key", 3, weir_table_now(table), 1).allowed);
	weir_table_free(table);
	clean_up();
}

/* A limit was made slower: a slot that looks full may not be, until its hold time is over. */
static void slots_that_are_held(void)
{
	static const struct {
		weir_ns since, until; /* from two hours ago */
		bool is_kept;
		bool holds_on;
	} rows[] = {
		{ S(0), S(0), false, false },       { S(3000), S(10000), true, true }, /* whole after the change */
		{ S(5000), S(10000), false, true },                                    /* before it */
		{ S(3000), S(7000), false, true },                                     /* over */
		{ S(3000), YEAR, false, false }, /* longer than any limit can have held it */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_table *table = file_table(ROOM);
		const uint64_t then = weir_table_now(table) - table->epoch - S(7200);
		const struct weir_state slot = weir__slot_make(1, 5, then + S(4000), 0);
		const struct weir_state hold = rows[i].until ? (struct weir_state){ then + rows[i].since,
										    then + rows[i].until } :
							       (struct weir_state){ 0, 0 };

		(void)limit_in(table, limit_text);
		table->region.header->hold.state = hold;
		page_at(table, 1)[3].state = slot;
		leave(table);
		table = file_table(ROOM);
		CHECK_EQ(weir__slot_equal(page_at(table, 1)[3].state, slot), rows[i].is_kept);
		CHECK_EQ(weir__slot_equal(table->region.header->hold.state, hold), rows[i].holds_on || !rows[i].until);
		weir_table_free(table);
		clean_up();
	}
}

/* State of another boot: threads that count, and the clock. */
static void threads_and_clocks_of_another_boot(void)
{
	struct weir_table *table = file_table(ROOM);

	for (uint32_t i = 0; i < WEIR__STRIPES; i++)
		atomic_store(&weir__region_stripe(&table->region, i)->owner, weir__thread_identity() + 1);
	weir__clock_anchor_begin(&table->region.header->clock, S(1), S(5000000000));
	leave(table);
	table = file_table(ROOM);
	for (uint32_t i = 0; i < WEIR__STRIPES; i++)
		CHECK_EQ(atomic_load(&weir__region_stripe(&table->region, i)->owner), 0);
	CHECK(weir_table_now(table) + S(1) > weir_clock_now() && weir_table_now(table) < weir_clock_now() + S(1));
	weir_table_free(table);
	clean_up();
}

/* --- histories -------------------------------------------------------------------------------------------------- */

enum { LOGS = 10, EVENTS = 12 };

static const char log_text[] = "20/day sliding_log";

static struct weir_table *table_of_logs(void)
{
	struct weir_table_options options = file_options(KEYS);

	options.arena_bytes = 64 << 10;
	options.size_bytes += options.arena_bytes;
	return table_with(&options);
}

static void charge_logs(struct weir_table *table)
{
	const struct weir_table_limit *const limit = limit_in(table, log_text);

	for (uint32_t event = 0; event < EVENTS; event++)
		for (uint32_t key = 0; key < LOGS; key++)
			CHECK(weir_table_allow(table, limit, &key, sizeof(key), weir_table_now(table) + event, 1));
}

/* How many keys have all their events. */
static uint32_t whole_logs(struct weir_table *table)
{
	const struct weir_table_limit *const limit = limit_in(table, log_text);
	uint32_t found = 0;

	for (uint32_t key = 0; key < LOGS; key++)
		found += weir_table_peek(table, limit, &key, sizeof(key), weir_table_now(table), 0).remaining ==
			 20 - EVENTS;
	return found;
}

static union weir__atomic16 *slot_of_log(struct weir_table *table, uint32_t key)
{
	return place_of(table, limit_in(table, log_text), &key, sizeof(key)).slot;
}

static struct weir__root *root_of_log(struct weir_table *table, uint32_t key)
{
	return (struct weir__root *)(void *)weir__arena_chunk(&table->region.arena,
							      weir__slot_root(slot_of_log(table, key)->state));
}

/* What a row does to a table of logs, how many keys then have all their events, and what is counted. */
static void damage_none(struct weir_table *table)
{
	(void)table;
}

static void leave_a_chunk(struct weir_table *table)
{
	CHECK(weir__arena_take(&table->region.arena, weir_table_now(table)) != 0);
}

static void forget_what_is_taken(struct weir_table *table)
{
	for (uint32_t i = 0; i < table->region.arena.n; i++)
		atomic_store(&table->region.arena.taken[i], 0);
}

static void lead_to_another_key(struct weir_table *table)
{
	slot_of_log(table, 0)->state = weir__slot_make(
		weir__slot_fingerprint(slot_of_log(table, 0)->state), weir__slot_root(slot_of_log(table, 1)->state),
		weir__slot_full_at(slot_of_log(table, 0)->state), WEIR__SLOT_ARENA);
}

static void lead_out_of_the_arena(struct weir_table *table)
{
	slot_of_log(table, 0)->state = weir__slot_make_root(weir__slot_fingerprint(slot_of_log(table, 0)->state),
							    WEIR__SLOT_ROOT_MASK, 0,
							    weir__slot_full_at(slot_of_log(table, 0)->state));
}

static void share_a_leaf(struct weir_table *table)
{
	atomic_store(&root_of_log(table, 0)->refs[0], atomic_load(&root_of_log(table, 1)->refs[0]));
}

static void shape_it_wrongly(struct weir_table *table)
{
	atomic_store(&root_of_log(table, 0)->shape, UINT64_MAX);
}

static void move_in_a_circle(struct weir_table *table)
{
	root_of_log(table, 0)->newest.state = (struct weir_state){ weir__slot_root(slot_of_log(table, 0)->state),
								   UINT64_MAX };
}

/* As left by a process that was killed before it updated the slot. */
static void move_half(struct weir_table *table)
{
	struct weir__root *const root = root_of_log(table, 0);
	const uint32_t to = weir__arena_take(&table->region.arena, weir_table_now(table));

	memcpy(weir__arena_chunk(&table->region.arena, to), root, sizeof(*root));
	root->newest.state = (struct weir_state){ to, UINT64_MAX };
}

static void histories_that_were_damaged(void)
{
	static const struct {
		const char *what;
		void (*damage)(struct weir_table *table);
		uint32_t whole, damaged;
	} rows[] = {
		{ "nothing", damage_none, LOGS, 0 },
		{ "an unused chunk", leave_a_chunk, LOGS, 0 },
		{ "chunks that seem free", forget_what_is_taken, LOGS, 0 },
		{ "another key's", lead_to_another_key, LOGS - 1, 1 },
		{ "none of that number", lead_out_of_the_arena, LOGS - 1, 1 },
		{ "a leaf of two", share_a_leaf, LOGS, 0 }, /* one has it, and the other all its units still */
		{ "a shape that cannot be", shape_it_wrongly, LOGS - 1, 1 },
		{ "moved to itself", move_in_a_circle, LOGS - 1, 1 },
		{ "moved, and its slot not told", move_half, LOGS, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_table *table = table_of_logs();
		size_t used;
		bool is_right;

		charge_logs(table);
		used = stats_now(table).arena_used;
		CHECK_EQ(whole_logs(table), LOGS);
		rows[i].damage(table);
		leave(table);
		table = table_of_logs();
		is_right = CHECK_EQ(whole_logs(table), rows[i].whole);
		is_right &= CHECK_EQ(stats_now(table).damaged_slots, rows[i].damaged);
		is_right &= CHECK_EQ(stats_now(table).damaged_pages, 0);
		CHECK(stats_now(table).arena_used <= used);
		if (!is_right)
			printf("# %s\n", rows[i].what);
		weir_table_free(table);
		clean_up();
	}
}

/* --- the epoch -------------------------------------------------------------------------------------------------- */

/* Recovers at a later time, as a later open would. */
static void recover_at(struct weir_table *table, weir_ns now)
{
	weir__clock_anchor_begin(&table->region.header->clock, S(1), now - S(10));
	CHECK_EQ(weir__region_recover(&table->region, now), 0);
	table->epoch = table->region.epoch;
}

/* The sum of the times at which keys are full, in Unix time, and how many there are. */
static weir_ns sum_of_times(const struct weir_table *table, uint64_t *ret_n)
{
	weir_ns sum = 0;

	*ret_n = 0;
	for (size_t i = 0; i < slots_of(table); i++) {
		const struct weir_state slot = table->region.slots[i].state;

		if (weir__slot_fingerprint(slot) == 0)
			continue;
		++*ret_n;
		sum += weir__slot_full_at(slot) + table->region.epoch;
	}
	return sum;
}

/* Charges keys at a time that is years ahead. */
static void charge_at(struct weir_table *table, weir_ns now, uint32_t n)
{
	const struct weir_table_limit *const limit = limit_in(table, limit_text);

	for (uint32_t i = 0; i < n; i++)
		CHECK(weir_table_allow(table, limit, &i, sizeof(i), now, 1 + i % 10));
}

static void an_old_table_gets_a_later_epoch(void)
{
	struct weir_table *table = file_table(ROOM);
	const weir_ns epoch = table->epoch, now = weir_table_now(table);
	uint64_t n_before, n;
	weir_ns sum;

	recover_at(table, now + 3 * YEAR); /* not yet */
	CHECK_EQ(table->epoch, epoch);
	charge_at(table, now + 5 * YEAR, 500);
	sum = sum_of_times(table, &n_before);
	weir__clock_anchor_begin(&table->region.header->clock, S(1), now);
	CHECK_EQ(weir__region_recover(&table->region, now + 5 * YEAR), 0); /* a jump of the clock, which may be wrong */
	CHECK_EQ(table->region.epoch, epoch);
	recover_at(table, now + 5 * YEAR);
	CHECK(table->epoch > epoch + 5 * YEAR - S(60) && table->epoch < epoch + 5 * YEAR + S(60));
	CHECK_EQ(sum_of_times(table, &n), sum);
	CHECK_EQ(n, n_before);
	CHECK_EQ(stats_now(table).damaged_slots, 0);
	CHECK_EQ(table->region.header->next_epoch.state.lo, 0);
	CHECK_EQ(table->region.header->check, weir__region_check_of(table->region.header));
	leave(table);
	table = file_table(ROOM); /* the header is valid */
	CHECK_EQ(table->epoch > epoch + 4 * YEAR, true);
	weir_table_free(table);
	clean_up();
}

/* Killed after a part was moved: the next recovery continues, and nothing is moved twice. */
static void a_move_that_was_cut_off(void)
{
	for (size_t cut = 0; cut < 2000; cut += 97) {
		struct weir_table *table = file_table(ROOM);
		const weir_ns epoch = table->epoch, now = weir_table_now(table), age = 5 * YEAR;
		const weir_ns next = epoch + age;
		uint64_t n_before, n;
		weir_ns sum;

		charge_at(table, now + age, 500);
		sum = sum_of_times(table, &n_before);
		table->region.header->next_epoch.state =
			(struct weir_state){ .lo = next, .hi = weir__hash(&table->region.secret, &next, sizeof(next)) };
		for (size_t i = 0; i < cut && i < slots_of(table); i++) {
			struct weir_state *const slot = &table->region.slots[i].state;

			if (weir__slot_fingerprint(*slot) != 0)
				slot->hi -= age << WEIR__SLOT_TAG_BITS;
		}
		recover_at(table, now + age + S(30));
		CHECK_EQ(table->region.epoch, next);
		CHECK_EQ(sum_of_times(table, &n), sum);
		CHECK_EQ(n, n_before);
		leave(table);
		clean_up();
	}
}

/* A key has usage for longer than the table's age: nothing is moved. */
static void a_move_that_has_to_wait(void)
{
	struct weir_table *table = file_table(ROOM);
	const weir_ns epoch = table->epoch, now = weir_table_now(table);
	const struct weir_table_limit *const limit = limit_in(table, "1/2000day");
	uint64_t n;
	weir_ns sum;

	CHECK(weir_table_allow(table, limit, "key", 3, now + 5 * YEAR, 1));
	sum = sum_of_times(table, &n);
	recover_at(table, now + 5 * YEAR);
	CHECK_EQ(table->epoch, epoch);
	CHECK_EQ(sum_of_times(table, &n), sum);
	CHECK_EQ(n, 1);
	recover_at(table, now + 6 * YEAR);
	CHECK(table->epoch > epoch);
	CHECK_EQ(sum_of_times(table, &n), sum);
	CHECK_EQ(n, 1);
	leave(table);
	clean_up();
}

/* Times of a replay cannot be compared with the real time. */
static void replays_are_left_alone(void)
{
	struct weir_table_options options = file_options(KEYS);
	struct weir_table *table;
	uint64_t n;
	weir_ns sum;

	options.made_at = S(1000000000); /* in 2001 */
	table = table_with(&options);
	charge_at(table, options.made_at, 500);
	sum = sum_of_times(table, &n);
	leave(table);
	table = table_with(&options);
	CHECK_EQ(sum_of_times(table, &n), sum);
	CHECK_EQ(n, 500);
	CHECK_EQ(stats_now(table).damaged_slots, 0);
	weir_table_free(table);
	clean_up();
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(marks_stay),
		TEST(a_page_without_its_mark_starts_anew),
		TEST(closed_cleanly_every_bit_counts),
		TEST(slots_that_cannot_be),
		TEST(limits_that_cannot_be_read),
		TEST(a_clock_that_is_behind),
		TEST(a_key_that_is_there_twice),
		TEST(slots_that_are_held),
		TEST(threads_and_clocks_of_another_boot),
		TEST(histories_that_were_damaged),
		TEST(an_old_table_gets_a_later_epoch),
		TEST(a_move_that_was_cut_off),
		TEST(a_move_that_has_to_wait),
		TEST(replays_are_left_alone),
	};

	choose_path();
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
