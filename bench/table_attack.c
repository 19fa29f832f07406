/* table_attack.c: measures a table under attack, and prints one line of JSON. bench/table.py runs it.
 *
 *     table_attack spray [--keys N] [--spray-keys N]   a table for --keys (1000000) gets --spray-keys (10000000) new
 *                                                      keys, beside requests of HELD throttled keys
 *     table_attack crafted [--keys N]                  --keys (100000) that collide under a hash without a secret */
#include <weir/table.h>

#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "keys.h"
#include "store/table/hash.h"
#include "workers.h"

static struct weir_table *new_table(uint32_t keys, const char *limit_text, const struct weir_table_limit **ret_limit)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(keys, 0) };
	struct weir_message why;
	struct weir_table *table;

	if (weir_table_new(&options, &table, &why) != WEIR_OK ||
	    weir_table_add_limit_text(table, "per-user", limit_text, ret_limit, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	return table;
}

static struct weir_table_stats stats_of(struct weir_table *table)
{
	struct weir_table_stats stats;

	weir_table_stats(table, weir_table_now(table), &stats);
	return stats;
}

/* --- spray -------------------------------------------------------------------------------------------------------- */

/* A new key ("stranger") is in use for 6 s after its request, so soon more are in use than the table has slots.
 * Throttled keys are in use for up to ten minutes. */
#define SPRAY_LIMIT "10/min burst 100"
static const double spray_burst = 100, spray_per_second = 10.0 / 60;

enum {
	HELD = 1000,
	BLOCK = 1024,     /* strangers between two readings of the clock */
	HELD_EACH = 128,  /* requests of throttled keys after each block */
	FILL_FACTOR = 3,  /* strangers for each key of the table's capacity, before the measurement */
	STRIDE = 61803399 /* visits each number of eight digits once, scattered */
};

struct spray {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	uint32_t held_admitted[HELD], held_next;
};

static bool ask(struct spray *spray, const char *prefix, uint32_t number)
{
	char key[KEY_ROOM];

	memcpy(key, prefix, KEY_PREFIX);
	keys_write(key, number);
	return weir_table_allow(spray->table, spray->limit, key, KEY_LENGTH, weir_table_now(spray->table), 1);
}

static void ask_held(struct spray *spray, uint32_t n)
{
	for (; n > 0; n--) {
		const uint32_t number = spray->held_next++ % HELD;

		spray->held_admitted[number] += ask(spray, "held:", number);
	}
}

/* Sends n strangers, starting with number `from`. Returns how many were allowed. */
static uint64_t ask_strangers(struct spray *spray, const char *prefix, uint64_t from, uint64_t n)
{
	uint64_t admitted = 0;

	for (uint64_t i = from; i < from + n; i++)
		admitted += ask(spray, prefix, (uint32_t)(i * STRIDE % KEYS_MAX));
	return admitted;
}

static void print_spray(const struct spray *spray, double elapsed)
{
	const struct weir_table_stats stats = stats_of(spray->table);
	const double held_limit = spray_burst + spray_per_second * elapsed;
	uint64_t sum = 0, most = 0;

	for (size_t i = 0; i < HELD; i++) {
		sum += spray->held_admitted[i];
		most = spray->held_admitted[i] > most ? spray->held_admitted[i] : most;
	}
	printf(", \"held_above_limit\": %.5f, \"held_most_above_limit\": %.5f, \"held_limit\": %.1f, \"evicted\": %" PRIu64
	       ", \"live\": %" PRIu64 ", \"capacity\": %" PRIu64 "}\n",
	       (double)sum / HELD / held_limit - 1, (double)most / held_limit - 1, held_limit, stats.evicted,
	       stats.live, stats.capacity);
}

static void measure_spray(uint32_t keys, uint64_t strangers)
{
	static struct spray spray;
	double start, began, seconds = 0, resident;
	uint64_t admitted = 0, done = 0;

	work_pin(work_nth_processor(0));
	spray.table = new_table(keys, SPRAY_LIMIT, &spray.limit);
	start = work_seconds();
	ask_held(&spray, HELD * 2 * (uint32_t)spray_burst);
	for (uint64_t filled = 0; filled < FILL_FACTOR * (uint64_t)keys; filled += BLOCK) {
		ask_strangers(&spray, "fill:", filled, BLOCK);
		ask_held(&spray, HELD_EACH);
	}
	resident = keys_resident_bytes();
	for (; done < strangers; done += BLOCK) {
		began = work_seconds();
		admitted += ask_strangers(&spray, "user:", done, BLOCK);
		seconds += work_seconds() - began;
		ask_held(&spray, HELD_EACH);
	}
	printf("{\"strangers\": %" PRIu64 ", \"admitted\": %" PRIu64 ", \"ns\": %.4f, \"resident_growth_bytes\": %.0f",
	       done, admitted, 1e9 * seconds / (double)done, keys_resident_bytes() - resident);
	print_spray(&spray, work_seconds() - start);
	weir_table_free(spray.table);
}

/* --- crafted ------------------------------------------------------------------------------------------------------ */

enum {
	LETTERS = 8,
	CRAFTED_LENGTH = LETTERS + 8,
	PASSES = 60, /* over all keys of each kind, in turn */
};

typedef char crafted_key[CRAFTED_LENGTH];

static void write_digits(char *key, uint32_t number)
{
	keys_write(key + LETTERS - KEY_PREFIX, number);
}

/* The hashes to attack: FNV-1a, and weir__hash with a secret of zeros. They are split in two, to make the search
 * faster: begin_unkeyed hashes the letters, end_... the digits. end_... return the bits that choose the cache
 * line. */
struct unkeyed {
	uint32_t fnv1a;
	struct weir__sip sip;
};

static inline uint32_t fnv1a_add(uint32_t hash, uint64_t word)
{
	for (unsigned i = 0; i < 8; i++)
		hash = (hash ^ (uint32_t)(word >> (8 * i) & 0xff)) * 16777619u;
	return hash;
}

static struct unkeyed begin_unkeyed(uint64_t letters)
{
	struct unkeyed begun = { .fnv1a = fnv1a_add(2166136261u, letters),
				 .sip = { UINT64_C(0x736f6d6570736575), UINT64_C(0x646f72616e646f6d),
					  UINT64_C(0x6c7967656e657261), UINT64_C(0x7465646279746573) } };

	weir__sip_add(&begun.sip, letters);
	return begun;
}

static inline uint32_t end_fnv1a(struct unkeyed begun, uint64_t digits)
{
	return fnv1a_add(begun.fnv1a, digits);
}

static inline uint32_t end_zero_secret(struct unkeyed begun, uint64_t digits)
{
	weir__sip_add(&begun.sip, digits);
	weir__sip_add(&begun.sip, (uint64_t)CRAFTED_LENGTH << 56);
	begun.sip.v2 ^= 0xff;
	for (unsigned i = 0; i < 3; i++)
		weir__sip_round(&begun.sip);
	return (uint32_t)((begun.sip.v0 ^ begun.sip.v1 ^ begun.sip.v2 ^ begun.sip.v3) >> 32);
}

/* One thread's part of the search for keys. */
struct crafter {
	crafted_key *keys;
	uint32_t n;
	uint64_t pairs; /* pairs of cache lines in the table */
	bool is_fnv1a;
	char letter; /* the first letter of its keys */
};

static inline __attribute__((always_inline)) void craft_by(struct crafter *crafter,
							   uint32_t (*end)(struct unkeyed begun, uint64_t digits))
{
	const uint32_t bound = (uint32_t)((UINT64_C(1) << 32) / crafter->pairs); /* below it: the first pair */
	crafted_key key = "aaaaaaa";
	uint32_t found = 0;

	key[0] = crafter->letter;
	for (key[LETTERS - 1] = 'a'; key[LETTERS - 1] <= 'z'; key[LETTERS - 1]++) {
		const struct unkeyed begun = begin_unkeyed(weir__hash_word((const unsigned char *)key));

		for (uint32_t number = 0; number < KEYS_MAX; number++) {
			if (end(begun, keys_digits(number)) >= bound)
				continue;
			write_digits(key, number);
			memcpy(crafter->keys[found++], key, sizeof(key));
			if (found == crafter->n)
				return;
		}
	}
	errx(1, "found too few keys for one pair of cache lines");
}

/* Checks that the hash above is the same as the library's. */
static void check_crafted(const struct crafter *crafter)
{
	static const struct weir__hash_secret zeros = { 0, 0 };

	for (uint32_t i = 0; !crafter->is_fnv1a && i < crafter->n; i++) {
		const uint64_t bits = weir__hash(&zeros, crafter->keys[i], CRAFTED_LENGTH) >> 32;

		if (bits * crafter->pairs >> 32 != 0)
			errx(1, "weir__hash differs from the hash in this file");
	}
}

static void *craft(void *crafter_)
{
	struct crafter *const crafter = crafter_;

	if (crafter->is_fnv1a)
		craft_by(crafter, end_fnv1a);
	else
		craft_by(crafter, end_zero_secret);
	check_crafted(crafter);
	return NULL;
}

/* Uses two threads, because the search takes most of the time. */
static void craft_all(crafted_key *keys, uint32_t n, uint64_t pairs, bool is_fnv1a)
{
	struct crafter crafters[2] = { { keys, n / 2, pairs, is_fnv1a, 'a' },
				       { keys + n / 2, n - n / 2, pairs, is_fnv1a, 'b' } };
	pthread_t thread;

	if (pthread_create(&thread, NULL, craft, &crafters[1]) != 0)
		errx(1, "no thread");
	craft(&crafters[0]);
	pthread_join(thread, NULL);
}

static void choose_at_random(crafted_key *keys, uint32_t n)
{
	uint64_t state = 1;

	for (uint32_t i = 0; i < n; i++) {
		for (size_t k = 0; k < LETTERS; k++)
			keys[i][k] = (char)('a' + keys_below(&state, 26));
		write_digits(keys[i], keys_below(&state, KEYS_MAX));
	}
}

/* Keys of one kind, in a table of their own. */
struct kind {
	const char *name;
	crafted_key *keys;
	struct weir_table *table;
	const struct weir_table_limit *limit;
	uint64_t evicted; /* while they were inserted */
	double fastest_ns;
};

static void shuffle(crafted_key *keys, uint32_t n)
{
	uint64_t state = 2;

	for (uint32_t i = n - 1; i > 0; i--) {
		const uint32_t other = keys_below(&state, i + 1);
		crafted_key key;

		memcpy(key, keys[i], sizeof(key));
		memcpy(keys[i], keys[other], sizeof(key));
		memcpy(keys[other], key, sizeof(key));
	}
}

static double pass(const struct kind *kind, uint32_t n)
{
	const double start = work_seconds();
	uint32_t allowed = 0;

	for (uint32_t i = 0; i < n; i++)
		allowed += weir_table_allow(kind->table, kind->limit, kind->keys[i], CRAFTED_LENGTH,
					    weir_table_now(kind->table), 1);
	if (allowed != n)
		errx(1, "%s: %" PRIu32 " of %" PRIu32 " were allowed, not all", kind->name, allowed, n);
	return 1e9 * (work_seconds() - start) / n;
}

static void measure_crafted(uint32_t n)
{
	struct kind kinds[] = { { .name = "random" }, { .name = "fnv1a" }, { .name = "zero_secret" } };
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

	for (size_t i = 0; i < KINDS; i++) {
		struct kind *const kind = &kinds[i];

		kind->table = new_table(n, KEYS_LIMIT, &kind->limit);
		kind->keys = calloc(n, sizeof(crafted_key));
		if (!kind->keys)
			err(1, "keys");
		if (i == 0)
			choose_at_random(kind->keys, n);
		else
			craft_all(kind->keys, n, stats_of(kind->table).capacity / 8, i == 1);
		shuffle(kind->keys, n);
	}
	work_pin(work_nth_processor(0));
	for (size_t i = 0; i < KINDS; i++) {
		kinds[i].fastest_ns = pass(&kinds[i], n);
		kinds[i].evicted = stats_of(kinds[i].table).evicted;
	}
	for (size_t k = 0; k < PASSES; k++) {
		for (size_t i = 0; i < KINDS; i++) {
			const double ns = pass(&kinds[i], n);

			kinds[i].fastest_ns = k == 0 || ns < kinds[i].fastest_ns ? ns : kinds[i].fastest_ns;
		}
	}
	for (size_t i = 0; i < KINDS; i++) {
		printf("%s\"%s\": {\"ns\": %.4f, \"evicted_ppm\": %.2f}", i == 0 ? "{" : ", ", kinds[i].name,
		       kinds[i].fastest_ns, 1e6 * (double)kinds[i].evicted / n);
		weir_table_free(kinds[i].table);
		free(kinds[i].keys);
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	const bool is_spray = argc > 1 && strcmp(argv[1], "spray") == 0;
	uint32_t keys = is_spray ? 1000000 : 100000;
	uint64_t strangers = 10000000;

	if (!is_spray && !(argc > 1 && strcmp(argv[1], "crafted") == 0))
		errx(2, "usage: table_attack spray [--keys N] [--spray-keys N] | crafted [--keys N]");
	for (int i = 2; i < argc; i += 2) {
		if (i + 1 < argc && strcmp(argv[i], "--keys") == 0)
			keys = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (i + 1 < argc && is_spray && strcmp(argv[i], "--spray-keys") == 0)
			strangers = strtoull(argv[i + 1], NULL, 10);
		else
			errx(2, "unknown option, or its value is missing: %s", argv[i]);
	}
	if (keys < 2 || keys > KEYS_MAX || strangers < 1 || strangers > KEYS_MAX)
		errx(2, "--keys must be 2 to %d", KEYS_MAX);
	if (is_spray)
		measure_spray(keys, strangers);
	else
		measure_crafted(keys);
	return 0;
}
