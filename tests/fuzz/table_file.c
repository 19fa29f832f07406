/* table_file.c: opens a file of any bytes as a table and uses it. It must not crash, loop forever or access memory
 * beyond the file. A file that was opened once opens again.
 *
 * The first byte of an input says what follows: the file itself, or changes to a valid one. Each change is an offset (3
 * bytes), a length and that many bytes. Flags repair what random bytes would hardly get right: */
#include "file.h"
#include "require.h"
#include "store/table/region_file.h"
#include "store/table/table.h"

enum {
	IS_WHOLE = 1,     /* the file itself */
	MEND_HEADER = 2,  /* its checksum */
	MEND_MARKS = 4,   /* checksums of all pages */
	MEND_CLOSED = 8,  /* marks a clean shutdown, with valid checksums */
	MEND_NEXT = 16,   /* the hash of the announced epoch */
	MEND_LIMITS = 32, /* the ids of limits, from their names and texts */
	CHANGES = 3,      /* of the first limit in the valid file, so that it has old plans */
	PLACE_BYTES = 3,
	KEYS = 8, /* with usage in the valid file */
	ARENA_BYTES = 4096,
};

/* The same for all files, so that inputs mean the same in every process. */
static const struct weir__hash_secret secret = { 1, 2 };
static const weir_ns made_at = UINT64_C(1790000000000000000);

static const char *const texts[] = { "10/s burst 5", "20/min fixed_window", "5/min sliding_counter",
				     "8/min sliding_log" };

enum { LIMITS = sizeof(texts) / sizeof(texts[0]) };

static const char path[] = "table"; /* any name: there is only one file */
static unsigned char sound[FUZZ_FILE_MOST];
static size_t sound_size;

struct limits {
	const struct weir_table_limit *at[LIMITS];
	size_t n;
};

/* is_ours: all limits in the file are ours, so damage must not use up the room for them. */
static struct limits add_limits(struct weir_table *table, bool is_ours)
{
	struct limits limits = { .n = 0 };

	for (size_t i = 0; i < LIMITS; i++) {
		struct weir_limit limit;
		int error = weir_limit_parse(texts[i], strlen(texts[i]), &limit, NULL);

		if (error == WEIR_OK)
			error = weir_table_find_limit(table, texts[i], &limit, &limits.at[limits.n], NULL);
		limits.n += error == WEIR_OK;
		require(!is_ours || error != WEIR_ERR_FULL || table->region.limits_max < LIMITS,
			"a damaged limit takes the place of another");
	}
	return limits;
}

static void use(struct weir_table *table, const struct limits *limits, uint32_t keys, weir_ns now)
{
	struct weir_claim claims[LIMITS];
	struct weir_decision decision;
	struct weir_table_stats stats;
	bool allowed[LIMITS];

	for (size_t i = 0; i < limits->n; i++)
		claims[i] = (struct weir_claim){ limits->at[i], "joint", 5, 1 };
	for (uint32_t key = 0; key < keys; key++)
		for (size_t i = 0; i < limits->n; i++) {
			const struct weir_table_limit *const limit = limits->at[i];

			(void)weir_table_allow(table, limit, &key, sizeof(key), now, 1);
			(void)weir_table_take(table, limit, &key, sizeof(key), now + key, 2);
			(void)weir_table_peek(table, limit, &key, sizeof(key), now, 1);
			(void)weir_table_inspect(table, limit, &key, sizeof(key), now);
			(void)weir_table_refund(table, limit, &key, sizeof(key), now, 1);
			if (key % 3 == 1)
				(void)weir_table_reset(table, limit, &key, sizeof(key));
		}
	if (limits->n > 0) {
		(void)weir_table_decide(table, claims, limits->n, now, NULL, &decision);
		weir_table_allow_batch(table, claims, limits->n, now, allowed);
	}
	weir_table_stats(table, now, &stats);
	require(stats.live <= stats.capacity, "more keys than slots");
	require(stats.limits <= stats.limits_max, "more limits than places");
}

/* Makes the file that inputs change: a table with usage for some keys. */
static void make_sound(void)
{
	struct weir_table_options options = {
		.arena_bytes = ARENA_BYTES, .limits_max = LIMITS, .file = path, .made_at = made_at
	};
	struct weir__region_header *header;
	struct weir_table *table;
	struct limits limits;

	do /* the smallest valid size */
		options.size_bytes += WEIR__PAGE_BYTES;
	while (weir_table_new(&options, &table, NULL) == WEIR_ERR_ROOM);
	header = table->region.header;
	header->secret = table->region.secret = secret;
	header->check = weir__region_check_of(header);
	weir__region_mark_pages(&table->region);
	limits = add_limits(table, true);
	use(table, &limits, KEYS, made_at);
	for (int i = 0; i < CHANGES; i++)
		require(weir_table_change_limit_text(table, limits.at[0], i % 2 ? texts[0] : "11/s burst 5", made_at,
						     NULL) == WEIR_OK,
			"a change");
	sound_size = table->region.size_bytes;
	weir_table_free(table);
	require(weir_table_new(&options, &table, NULL) == WEIR_OK, "it does not open again");
	memcpy(sound, table->region.header, sound_size);
	weir_table_free(table);
}

static void mend_limits(const struct weir__region *region)
{
	for (uint32_t i = 0; i < region->limits_max; i++) {
		struct weir__region_limit *const entry = &region->limits[i];
		const char *const name = (const char *)entry->name, *const text = (const char *)entry->text;

		if (entry->identity.state.lo == 0)
			continue;
		entry->identity.state.lo = weir__hash(&region->secret, name, strnlen(name, sizeof(entry->name) - 1)) |
					   1;
		entry->identity.state.hi = weir__hash(&region->secret, text, strnlen(text, sizeof(entry->text) - 1));
	}
}

static void mend(unsigned char *file, size_t size, unsigned what)
{
	struct weir__region_header header;
	struct weir__region region;

	if (size < sizeof(header))
		return;
	memcpy(&header, file, sizeof(header));
	if (what & MEND_NEXT)
		header.next_epoch.state.hi = weir__hash(&header.secret, &header.next_epoch.state.lo,
							sizeof(header.next_epoch.state.lo));
	if (what & MEND_HEADER)
		header.check = weir__region_check_of(&header);
	memcpy(file, &header, sizeof(header));
	if (!(what & (MEND_MARKS | MEND_CLOSED | MEND_LIMITS)) ||
	    weir__region_check_header(&header, size, &(struct weir_table_options){ .file = path }, NULL) != WEIR_OK)
		return;
	weir__region_lay_out(&region, file, &header);
	if (what & MEND_LIMITS)
		mend_limits(&region);
	if (!(what & (MEND_MARKS | MEND_CLOSED)))
		return;
	weir__region_mark_pages(&region);
	region.header->closed.state = (struct weir_state){ 0, 0 };
	if (what & MEND_CLOSED)
		(void)weir__region_seal(&region);
}

static void change_sound(const uint8_t *data, size_t size)
{
	memcpy(fuzz_file, sound, sound_size);
	while (size > PLACE_BYTES) {
		const size_t at = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % sound_size;
		size_t n = data[PLACE_BYTES];

		data += PLACE_BYTES + 1;
		size -= PLACE_BYTES + 1;
		n = n < size ? n : size;
		n = n < sound_size - at ? n : sound_size - at;
		memcpy(fuzz_file + at, data, n);
		data += n;
		size -= n;
	}
}

static void write_file(const uint8_t *data, size_t size)
{
	const unsigned what = data[0];
	const size_t whole = size - 1 < FUZZ_FILE_MOST ? size - 1 : FUZZ_FILE_MOST;
	const size_t file_size = what & IS_WHOLE ? whole : sound_size;

	fuzz_file_resize(file_size);
	if (what & IS_WHOLE)
		memcpy(fuzz_file, data + 1, whole);
	else
		change_sound(data + 1, size - 1);
	mend(fuzz_file, file_size, what);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct weir_table_options options = { .file = path };
	struct weir_table *table;
	struct limits limits;

	if (sound_size == 0)
		make_sound();
	if (size == 0)
		return 0;
	write_file(data, size);
	if (weir_table_new(&options, &table, NULL) != WEIR_OK)
		return 0;
	/* A limit whose name was changed and whose id was repaired is a different limit. */
	limits = add_limits(table, !(data[0] & (IS_WHOLE | MEND_LIMITS)));
	use(table, &limits, 2, weir_table_now(table));
	use(table, &limits, 2, made_at);
	weir_table_free(table);
	require(weir_table_new(&options, &table, NULL) == WEIR_OK, "what was opened does not open again");
	weir_table_free(table);
	return 0;
}
