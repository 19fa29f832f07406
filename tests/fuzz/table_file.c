/* table_file.c: a file of any bytes is opened as a table and used. No crash, no endless loop, no access outside of it; and
 * what was once opened opens again.
 *
 * The first byte of an input says what follows: the file itself, or changes to a sound one, each its place (3 bytes), a
 * length and so many bytes. Bits of it mend what chance would hardly get right: */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/region_file.h"
#include "store/table.h"

enum {
	IS_WHOLE = 1,    /* the file itself */
	MEND_HEADER = 2, /* its checksum */
	MEND_MARKS = 4,  /* marks of all pages */
	MEND_CLOSED = 8, /* closed cleanly, with sound checksums */
	MEND_NEXT = 16,  /* the hash of the epoch that is announced */
	PLACE_BYTES = 3,
	KEYS = 8, /* that owe in the sound file */
	ARENA_BYTES = 4096,
	SIZE_MOST = 1 << 16,
};

/* Of all sound files: inputs then mean the same in every process. */
static const struct weir__hash_secret secret = { 1, 2 };
static const weir_ns made_at = UINT64_C(1790000000000000000);

static const char *const texts[] = { "10/s burst 5", "20/min fixed_window", "5/min sliding_counter",
				     "8/min sliding_log" };

enum { LIMITS = sizeof(texts) / sizeof(texts[0]) };

static char path[64];
static unsigned char sound[SIZE_MOST];
static size_t sound_size;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void remove_file(void)
{
	unlink(path);
}

static void use(struct weir_table *table, uint32_t keys, weir_ns now)
{
	const struct weir_table_limit *limits[LIMITS];
	struct weir_claim claims[LIMITS];
	struct weir_decision decision;
	struct weir_table_stats stats;
	bool allowed[LIMITS];
	size_t n = 0;

	for (size_t i = 0; i < LIMITS; i++)
		if (weir_table_add_limit_text(table, texts[i], texts[i], &limits[n], NULL) == WEIR_OK)
			n++;
	for (size_t i = 0; i < n; i++)
		claims[i] = (struct weir_claim){ limits[i], "joint", 5, 1 };
	for (uint32_t key = 0; key < keys; key++)
		for (size_t i = 0; i < n; i++) {
			(void)weir_table_allow(table, limits[i], &key, sizeof(key), now, 1);
			(void)weir_table_take(table, limits[i], &key, sizeof(key), now + key, 2);
			(void)weir_table_peek(table, limits[i], &key, sizeof(key), now, 1);
			(void)weir_table_inspect(table, limits[i], &key, sizeof(key), now);
			(void)weir_table_refund(table, limits[i], &key, sizeof(key), now, 1);
			if (key % 3 == 1)
				(void)weir_table_reset(table, limits[i], &key, sizeof(key));
		}
	if (n > 0) {
		(void)weir_table_decide(table, claims, n, now, NULL, &decision);
		weir_table_allow_batch(table, claims, n, now, allowed);
	}
	weir_table_stats(table, now, &stats);
	require(stats.live <= stats.capacity, "more keys than slots");
}

/* The file that inputs change: a table in which some keys owe. */
static void make_sound(void)
{
	struct weir_table_options options = {
		.arena_bytes = ARENA_BYTES, .limits_max = LIMITS, .file = path, .made_at = made_at
	};
	struct weir__region_header *header;
	struct weir_table *table;

	(void)snprintf(path, sizeof(path), "/dev/shm/weir-fuzz-%d", (int)getpid());
	atexit(remove_file);
	do /* the smallest that there is */
		options.size_bytes += WEIR__PAGE_BYTES;
	while (weir_table_new(&options, &table, NULL) == WEIR_ERR_ROOM);
	header = table->region.header;
	header->secret = table->region.secret = secret;
	header->check = weir__region_check_of(header);
	weir__region_mark_pages(&table->region);
	use(table, KEYS, made_at);
	sound_size = table->region.size_bytes;
	require(sound_size <= SIZE_MOST, "too large");
	weir_table_free(table);
	require(weir_table_new(&options, &table, NULL) == WEIR_OK, "it does not open again");
	memcpy(sound, table->region.header, sound_size);
	weir_table_free(table);
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
	if (!(what & (MEND_MARKS | MEND_CLOSED)) ||
	    weir__region_check_header(&header, size, &(struct weir_table_options){ .file = path }, NULL) != WEIR_OK)
		return;
	weir__region_lay_out(&region, file, &header);
	weir__region_mark_pages(&region);
	if (what & MEND_CLOSED)
		(void)weir__region_seal(&region); /* which cannot sync what is no file, but that is done last */
	atomic_store(&((struct weir__region_header *)(void *)file)->is_closed, what & MEND_CLOSED ? 1 : 0);
}

static size_t read_input(const uint8_t *data, size_t size, unsigned char *file)
{
	const unsigned what = data[0];

	data++;
	size--;
	if (what & IS_WHOLE) {
		size = size < SIZE_MOST ? size : SIZE_MOST;
		memcpy(file, data, size);
		mend(file, size, what);
		return size;
	}
	memcpy(file, sound, sound_size);
	while (size > PLACE_BYTES) {
		const size_t at = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % sound_size;
		size_t n = data[PLACE_BYTES];

		data += PLACE_BYTES + 1;
		size -= PLACE_BYTES + 1;
		n = n < size ? n : size;
		n = n < sound_size - at ? n : sound_size - at;
		memcpy(file + at, data, n);
		data += n;
		size -= n;
	}
	mend(file, sound_size, what);
	return sound_size;
}

static void write_file(const unsigned char *bytes, size_t size)
{
	const int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	require(file >= 0 && write(file, bytes, size) == (ssize_t)size, "cannot write");
	close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned char file[SIZE_MOST] __attribute__((aligned(4096)));
	const struct weir_table_options options = { .file = path };
	struct weir_table *table;

	if (sound_size == 0)
		make_sound();
	if (size == 0)
		return 0;
	write_file(file, read_input(data, size, file));
	if (weir_table_new(&options, &table, NULL) != WEIR_OK)
		return 0;
	use(table, 2, weir_table_now(table));
	use(table, 2, made_at);
	weir_table_free(table);
	require(weir_table_new(&options, &table, NULL) == WEIR_OK, "what was opened does not open again");
	weir_table_free(table);
	return 0;
}
