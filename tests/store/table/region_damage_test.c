/* region_damage_test.c: random damage anywhere in a file. Opening fails with advice, or succeeds: then all limits can
 * be added and used, and no number is impossibly large. */
/* Covers: src/store/table/region_limits.c */
#include <fcntl.h>

#include "files.h"

enum { KEYS = 300, LIMITS_MAX = 16, LIMITS = 12, ARENA = 64 * 1024, CHANGES = 12 };

static uint64_t rounds = 600;

/* The counts of a table far from any real use. */
static const uint64_t count_most = UINT64_C(1) << 62;

static unsigned char *sound[2], *changed; /* not closed; closed cleanly */
static size_t size, slots_at;

static struct weir_table_options options_of(void)
{
	return (struct weir_table_options){ .size_bytes = weir_table_size(2000, LIMITS_MAX) + ARENA,
					    .arena_bytes = ARENA,
					    .limits_max = LIMITS_MAX,
					    .file = path };
}

static const char *name_of(uint32_t i)
{
	static char name[32];

	(void)snprintf(name, sizeof(name), "limit %u", (unsigned)i);
	return name;
}

static const char *text_of(uint32_t i)
{
	static const char *const texts[] = { "10/day", "20/hour fixed_window", "5/hour sliding_counter",
					     "8/min sliding_log" };

	return texts[i % 4];
}

/* The limit of this name, as last changed if it is still there. NULL: it cannot be added. */
static const struct weir_table_limit *find(struct weir_table *table, uint32_t i)
{
	const struct weir_table_limit *found = NULL;
	struct weir_limit limit;
	struct weir_message why;
	const int error = weir_limit_parse(text_of(i), strlen(text_of(i)), &limit, NULL) == WEIR_OK ?
				  weir_table_find_limit(table, name_of(i), &limit, &found, &why) :
				  WEIR_ERR_SYNTAX;

	if (error != WEIR_OK)
		printf("# %s: %s\n", name_of(i), why.text);
	return error == WEIR_OK ? found : NULL;
}

static void use(struct weir_table *table, const struct weir_table_limit *limit, uint32_t keys)
{
	for (uint32_t key = 0; key < keys; key++) {
		(void)weir_table_allow(table, limit, &key, sizeof(key), weir_table_now(table), 1);
		(void)weir_table_take(table, limit, &key, sizeof(key), weir_table_now(table), 2);
		(void)weir_table_peek(table, limit, &key, sizeof(key), weir_table_now(table), 1);
		if (key % 16 == 1)
			(void)weir_table_reset(table, limit, &key, sizeof(key));
	}
}

static void read_file(unsigned char *bytes)
{
	const int file = open(path, O_RDONLY | O_CLOEXEC);

	CHECK_EQ(pread(file, bytes, size, 0), size);
	close(file);
}

static void write_file(const unsigned char *bytes)
{
	const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	CHECK_EQ(pwrite(file, bytes, size, 0), size);
	close(file);
}

static struct weir_table *open_file(void)
{
	const struct weir_table_options options = options_of();

	return table_with(&options);
}

/* A file with limits, some of them changed, and keys in use. */
static void make_sound(void)
{
	struct weir_table *table = open_file();

	for (uint32_t i = 0; i < LIMITS; i++) {
		const struct weir_table_limit *const limit = find(table, i);

		use(table, limit, KEYS / LIMITS);
		for (uint64_t change = 0; i % 4 == 0 && change < CHANGES; change++)
			CHECK_EQ(weir_table_change_limit_text(table, limit, change % 2 ? "10/day" : "11/day",
							      weir_table_now(table), NULL),
				 WEIR_OK);
	}
	size = table->region.size_bytes;
	slots_at = (size_t)((unsigned char *)table->region.slots - (unsigned char *)table->region.header);
	for (int i = 0; i < 2; i++)
		sound[i] = malloc(size);
	changed = malloc(size);
	leave(table);
	read_file(sound[0]);
	weir_table_free(open_file());
	read_file(sound[1]);
}

/* --- damage ----------------------------------------------------------------------------------------------------- */

static void write_random(size_t at, size_t n)
{
	for (size_t i = 0; i < n && at + i < size; i++)
		changed[at + i] = (unsigned char)any();
}

static void damage_words(size_t from, size_t end)
{
	for (uint64_t n = 1 + below(20); n > 0; n--) {
		static const uint64_t words[] = { 0, 1, UINT64_MAX, UINT64_C(1) << 63, UINT32_MAX };
		const uint64_t word = below(2) ? any() : words[below(5)];

		memcpy(changed + from + below((end - from) / 8) * 8, &word, sizeof(word));
	}
}

/* Copies a page of the file, or a part of it, to another place. */
static void misplace(size_t from, size_t end)
{
	const size_t n = 64 * (1 + below(64)), to = from + below((end - from) / 64) * 64,
		     at = below((size - n) / 64) * 64;

	memmove(changed + to, changed + at, n < end - to ? n : end - to);
}

static void damage(size_t from, size_t end, uint64_t how)
{
	size_t at = from + below(end - from), n = 1 + below(5000);

	n = n < end - at ? n : end - at;
	switch (how) {
	case 0:
		write_random(at, n);
		break;
	case 1:
		damage_words(from, end);
		break;
	case 2:
		for (uint64_t flips = 1 + below(8); flips > 0; flips--)
			changed[from + below(end - from)] ^= (unsigned char)(1u << below(8));
		break;
	case 3:
		memset(changed + at, 0, n);
		break;
	case 4:
		misplace(from, end);
		break;
	default:
		write_random(from, end - from); /* all of it */
		break;
	}
}

/* --- after it --------------------------------------------------------------------------------------------------- */

static void check_stats(struct weir_table *table)
{
	const struct weir_table_stats stats = stats_of(table, weir_table_now(table));

	CHECK(stats.live <= stats.capacity && stats.limits <= stats.limits_max);
	CHECK(stats.inserted < count_most && stats.evicted < count_most && stats.absent < count_most &&
	      stats.regained < count_most && stats.lost_races < count_most && stats.plans_lost < 1000);
	for (int i = 0; i < 4; i++)
		CHECK(stats.probes[i] < count_most);
	CHECK(stats.arena_used <= stats.arena_bytes);
	CHECK(stats.damaged_pages <= slots_of(table) / WEIR__PAGE_SLOTS && stats.damaged_slots <= slots_of(table));
	CHECK(stats.damaged_limits <= LIMITS_MAX);
	CHECK(stats.damaged_fields < 10000);
	CHECK((stats.damaged_pages + stats.damaged_slots + stats.damaged_limits + stats.damaged_fields > 0) ==
	      (stats.damaged_at > 0));
	CHECK(stats.damaged_at <= weir_table_now(table));
}

/* All limits can be added and used, as far as there is room. */
static void check_use(struct weir_table *table)
{
	for (uint32_t i = 0; i < LIMITS_MAX; i++) {
		const struct weir_table_limit *const limit = find(table, i);
		struct weir__region_words words;
		uint32_t index;

		if (limit == NULL) {
			check_fail(__FILE__, __LINE__, "a limit that cannot be added");
			continue;
		}
		CHECK(weir__region_find_limit(&table->region, name_of(i), &index) &&
		      weir__region_read_limit(&table->region, index, &words));
		CHECK_TEXT(words.name, name_of(i));
		use(table, limit, 20);
		CHECK(weir_table_change_limit_text(table, limit, i % 4 == 0 ? "12/day" : text_of(i),
						   weir_table_now(table), NULL) == WEIR_OK);
		use(table, limit, 5);
	}
	CHECK_EQ(stats_of(table, weir_table_now(table)).limits, LIMITS_MAX);
}

static void check_refusal(const struct weir_message *why)
{
	CHECK(strstr(why->text, "remove it") != NULL);
}

/* Returns whether the file could be opened. */
static bool open_damaged(void)
{
	const struct weir_table_options options = options_of();
	struct weir_message why = { 0, "" };
	struct weir_table *table;
	uint64_t damages;

	write_file(changed);
	if (weir_table_new(&options, &table, &why) != WEIR_OK) {
		check_refusal(&why);
		return false;
	}
	check_stats(table);
	check_use(table);
	damages = stats_of(table, 0).damaged_limits;
	weir_table_free(table);
	table = open_file(); /* everything was repaired */
	CHECK_EQ(stats_of(table, 0).damaged_limits, damages);
	for (int i = 0; i < WEIR__DAMAGES; i++)
		CHECK_EQ(table->region.damaged[i], 0);
	CHECK_EQ(stats_of(table, 0).limits, LIMITS_MAX);
	weir_table_free(table);
	return true;
}

static void any_damage_anywhere(void)
{
	const struct weir_table_options options = options_of();
	struct weir__region layout;
	size_t areas[7];
	uint64_t opened = 0;

	weir__region_lay_out(&layout, sound[0], (const struct weir__region_header *)(const void *)sound[0]);
	areas[0] = 0;
	areas[1] = sizeof(struct weir__region_header);
	areas[2] = (size_t)((unsigned char *)layout.old_plans - sound[0]);
	areas[3] = (size_t)(layout.stripes - sound[0]);
	areas[4] = slots_at;
	areas[5] = size - options.arena_bytes;
	areas[6] = size;
	for (uint64_t round = 0; round < rounds; round++) {
		const uint64_t area = below(8), how = below(6), was_closed = below(2);
		const bool had_failed = check_failed;
		/* The variable part of the header is small, so it is a separate area. */
		const size_t from = area == 7 ? offsetof(struct weir__region_header, check) + 8 :
				    area == 6 ? 0 :
						areas[area];
		const size_t end = area == 7 ? offsetof(struct weir__region_header, forgiven) :
				   area == 6 ? size :
					       areas[area + 1];

		memcpy(changed, sound[was_closed], size);
		damage(from, end, how);
		opened += open_damaged();
		if (check_failed && !had_failed)
			printf("# round %" PRIu64 ": area %" PRIu64 ", how %" PRIu64 ", closed %" PRIu64 "\n", round,
			       area, how, was_closed);
	}
	printf("# %" PRIu64 " of %" PRIu64 " were opened\n", opened, rounds);
	CHECK(opened > rounds / 2 && opened < rounds);
	clean_up();
}

/* --- what is counted -------------------------------------------------------------------------------------------- */

static struct weir__region layout_of(unsigned char *file)
{
	struct weir__region layout;

	weir__region_lay_out(&layout, file, (const struct weir__region_header *)(const void *)file);
	return layout;
}

static struct weir_table_stats stats_after(void)
{
	struct weir_table_stats stats;
	struct weir_table *table;

	write_file(changed);
	table = open_file();
	stats = stats_of(table, weir_table_now(table));
	weir_table_free(table);
	return stats;
}

/* Damages all limits, as a mistake with dd does. */
static void all_limits_are_damaged(void)
{
	for (int was_closed = 0; was_closed < 2; was_closed++) {
		struct weir__region layout;
		struct weir_table *table;

		memcpy(changed, sound[was_closed], size);
		layout = layout_of(changed);
		write_random((size_t)((unsigned char *)layout.limits - changed), LIMITS_MAX * sizeof(*layout.limits));
		CHECK_EQ(stats_after().damaged_limits, LIMITS_MAX);
		table = open_file();
		CHECK_EQ(stats_of(table, 0).limits, 0);
		check_use(table);
		weir_table_free(table);
		clean_up();
	}
}

/* In a file that was closed cleanly, every flipped bit is detected, in each part. */
static void closed_cleanly_every_bit_counts(void)
{
	for (uint64_t round = 0; round < 200; round++) {
		struct weir__region layout;
		struct weir_table_stats stats;
		uint64_t found, at;
		uint32_t used = 0;

		memcpy(changed, sound[1], size);
		layout = layout_of(changed);
		switch (round % 4) {
		case 0:
			while (!weir__limit_is_used(layout.limits[used].identity.state.lo) || below(4))
				used = (uint32_t)below(LIMITS_MAX);
			at = (uint64_t)((unsigned char *)&layout.limits[used] - changed) +
			     below(sizeof(*layout.limits));
			break;
		case 1:
			at = (uint64_t)(layout.stripes - changed) + layout.stripe_bytes * below(WEIR__STRIPES) +
			     offsetof(struct weir__stripe, inserted) + below(64);
			break;
		case 2:
			at = offsetof(struct weir__region_header, hold) + below(16);
			break;
		default:
			do
				used = (uint32_t)below(layout.n_old_plans);
			while (layout.old_plans[used].owner.state.lo == 0);
			at = (uint64_t)((unsigned char *)&layout.old_plans[used] - changed) + below(80);
			break;
		}
		changed[at] ^= (unsigned char)(1u << below(8));
		stats = stats_after();
		found = round % 4 == 0 ? stats.damaged_limits : stats.damaged_fields;
		if (found != 1)
			printf("# round %" PRIu64 ": byte %" PRIu64 "\n", round, at);
		CHECK_EQ(found, 1);
		clean_up();
	}
}

/* Zeros look like free entries: only the counts at the close show that entries are missing. */
static void zeros_are_counted(void)
{
	struct weir__region layout;
	struct weir_table_stats stats;

	memcpy(changed, sound[1], size);
	layout = layout_of(changed);
	memset(layout.limits, 0, (size_t)(layout.stripes - (unsigned char *)layout.limits));
	stats = stats_after();
	CHECK_EQ(stats.damaged_limits, LIMITS);
	CHECK(stats.damaged_fields > 0);
	clean_up();
}

/* An emptied entry does not hide those that were added after it. */
static void a_lost_limit_hides_no_other(void)
{
	for (uint32_t lost = 0; lost < LIMITS_MAX; lost++)
		for (int how = 0; how < 3; how++) {
			struct weir__region layout;
			struct weir_table *table;
			uint32_t index, n = 0;

			memcpy(changed, sound[0], size);
			layout = layout_of(changed);
			if (!weir__limit_is_used(layout.limits[lost].identity.state.lo))
				continue;
			if (how == 0)
				layout.limits[lost].identity.state.lo ^= 4;
			else if (how == 1)
				memset(&layout.limits[lost], 0, sizeof(layout.limits[lost]));
			else /* a copy of another limit */
				layout.limits[lost] = layout.limits[(lost + 1) % LIMITS_MAX];
			write_file(changed);
			table = open_file();
			for (uint32_t i = 0; i < LIMITS; i++)
				n += weir__region_find_limit(&table->region, name_of(i), &index);
			CHECK_EQ(n, LIMITS - 1);
			CHECK_EQ(stats_of(table, 0).limits, LIMITS - 1);
			if (how == 0)
				CHECK_EQ(stats_of(table, 0).damaged_limits, 1);
			check_use(table);
			weir_table_free(table);
			clean_up();
		}
}

/* A limit that was being added when its process was killed is not damage. */
static void half_a_limit_is_no_damage(void)
{
	struct weir_table *table;
	struct weir__region layout;
	uint32_t used = 0;

	memcpy(changed, sound[0], size);
	layout = layout_of(changed);
	while (!weir__limit_is_used(layout.limits[used].identity.state.lo) || layout.limits[used].change.state.lo > 0)
		used++;
	memset(layout.limits[used].plans, 0, sizeof(layout.limits[used].plans));
	memset(layout.limits[used].text, 0, sizeof(layout.limits[used].text));
	write_file(changed);
	table = open_file();
	CHECK_EQ(stats_of(table, 0).damaged_limits, 0);
	CHECK_EQ(stats_of(table, 0).limits, LIMITS - 1);
	check_use(table);
	weir_table_free(table);
	clean_up();
}

/* Damage is reported by counts that cannot be random. */
static void counts_are_not_random(void)
{
	struct weir_table_stats stats;

	memcpy(changed, sound[0], size);
	for (size_t at = 128; at < 256; at++)
		changed[at] = (unsigned char)any();
	stats = stats_after();
	CHECK(stats.damaged_slots == 0 && stats.damaged_pages == 0 && stats.plans_lost == 0);
	CHECK(stats.damaged_fields > 0);
	clean_up();
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(all_limits_are_damaged), TEST(counts_are_not_random),       TEST(closed_cleanly_every_bit_counts),
		TEST(zeros_are_counted),      TEST(a_lost_limit_hides_no_other), TEST(half_a_limit_is_no_damage),
		TEST(any_damage_anywhere),
	};
	int result;

	if (argc > 1) /* full size */
		rounds = strtoull(argv[1], NULL, 10);
	choose_path();
	make_sound();
	clean_up();
	result = check_run(tests, sizeof(tests) / sizeof(tests[0]));
	for (int i = 0; i < 2; i++)
		free(sound[i]);
	free(changed);
	return result;
}
