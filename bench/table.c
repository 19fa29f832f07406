/* table.c: measures decisions on many keys, and prints one line of JSON. bench/table.py runs it.
 *
 *     table one OPTION...          weir_table_allow, key by key
 *     table batch OPTION...        weir_table_allow_batch, TOGETHER keys at a time
 *     table bare OPTION...         the least a table can do: hash, clock, one 16-byte load and compare-and-swap there
 *     table bare_batch OPTION...   the same, TOGETHER at a time: hash all and fetch their memory, then swap all
 *
 *     --keys N      (1000000); all keys are in the table before the measurement
 *     --limit TEXT  instead of KEYS_LIMIT; some requests may be denied
 *     --file PATH   puts the table into this file, which must not exist, and removes it at the end
 *     --zipf        draws keys with a Zipf distribution: see keys.h
 *     --seconds S, --count N, --threads N: see workers.h
 *
 * The line also has the memory of the keys, and values of weir_table_stats after all were inserted. */
#include <weir/table.h>

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "keys.h"
#include "os/atomic16.h"
#include "os/memory.h"
#include "store/table/hash.h"
#include "workers.h"

enum {
	TOGETHER = 32,
	BATCH = 32 * TOGETHER,
	MORE_MAX = 400,
};

struct subject {
	uint32_t keys;
	const char *text;          /* of the limit */
	const char *file;          /* NULL: private memory */
	struct keys_order *orders; /* one a thread */
	struct weir_table *table;
	const struct weir_table_limit *limit;

	/* Bare. */
	struct weir__hash_secret secret;
	union weir__atomic16 *slots;
	uint64_t slots_n;
};

/* --- what is measured --------------------------------------------------------------------------------------------- */

static uint64_t batch_one(const void *subject_, size_t thread)
{
	const struct subject *const subject = subject_;
	struct keys_order order = subject->orders[thread];
	char key[KEY_ROOM] = "user:";
	uint64_t allowed = 0;

	for (size_t i = 0; i < BATCH; i++) {
		keys_write(key, keys_next(&order, subject->keys));
		allowed += weir_table_allow(subject->table, subject->limit, key, KEY_LENGTH,
					    weir_table_now(subject->table), 1);
	}
	subject->orders[thread] = order;
	return allowed;
}

static uint64_t batch_batch(const void *subject_, size_t thread)
{
	const struct subject *const subject = subject_;
	struct keys_order order = subject->orders[thread];
	char keys[TOGETHER][KEY_ROOM];
	struct weir_claim claims[TOGETHER];
	bool is_allowed[TOGETHER];
	uint64_t allowed = 0;

	for (size_t k = 0; k < TOGETHER; k++)
		memcpy(keys[k], "user:", KEY_PREFIX);
	for (size_t i = 0; i < BATCH; i += TOGETHER) {
		for (size_t k = 0; k < TOGETHER; k++) {
			keys_write(keys[k], keys_next(&order, subject->keys));
			claims[k] = (struct weir_claim){ subject->limit, keys[k], KEY_LENGTH, 1 };
		}
		weir_table_allow_batch(subject->table, claims, TOGETHER, weir_table_now(subject->table), is_allowed);
		for (size_t k = 0; k < TOGETHER; k++)
			allowed += is_allowed[k];
	}
	subject->orders[thread] = order;
	return allowed;
}

static union weir__atomic16 *bare_slot(const struct subject *subject, const char *key)
{
	const uint64_t hash = weir__hash(&subject->secret, key, KEY_LENGTH);

	return &subject->slots[(uint64_t)((weir__u128_slot)hash * subject->slots_n >> 64)];
}

static void bare_swap(union weir__atomic16 *slot, weir_ns now)
{
	struct weir_state seen;

	do
		seen = weir__atomic16_load(slot);
	while (!weir__atomic16_swap(slot, seen, (struct weir_state){ now, seen.hi + 1 }));
}

static uint64_t batch_bare(const void *subject_, size_t thread)
{
	const struct subject *const subject = subject_;
	struct keys_order order = subject->orders[thread];
	char key[KEY_ROOM] = "user:";

	for (size_t i = 0; i < BATCH; i++) {
		keys_write(key, keys_next(&order, subject->keys));
		bare_swap(bare_slot(subject, key), weir_clock_now());
	}
	subject->orders[thread] = order;
	return BATCH;
}

static uint64_t batch_bare_batch(const void *subject_, size_t thread)
{
	const struct subject *const subject = subject_;
	struct keys_order order = subject->orders[thread];
	union weir__atomic16 *slots[TOGETHER];
	char key[KEY_ROOM] = "user:";

	for (size_t i = 0; i < BATCH; i += TOGETHER) {
		const weir_ns now = weir_clock_now();

		for (size_t k = 0; k < TOGETHER; k++) {
			keys_write(key, keys_next(&order, subject->keys));
			slots[k] = bare_slot(subject, key);
			__builtin_prefetch(slots[k], 1);
		}
		for (size_t k = 0; k < TOGETHER; k++)
			bare_swap(slots[k], now);
	}
	subject->orders[thread] = order;
	return BATCH;
}

/* --- preparation -------------------------------------------------------------------------------------------------- */

static void insert_all(const struct subject *subject)
{
	char keys[TOGETHER][KEY_ROOM];
	struct weir_claim claims[TOGETHER];
	bool is_allowed[TOGETHER];

	for (uint32_t number = 0; number < subject->keys;) {
		size_t n = 0;

		for (; n < TOGETHER && number < subject->keys; n++, number++) {
			memcpy(keys[n], "user:", KEY_PREFIX);
			keys_write(keys[n], number);
			claims[n] = (struct weir_claim){ subject->limit, keys[n], KEY_LENGTH, 1 };
		}
		weir_table_allow_batch(subject->table, claims, n, weir_table_now(subject->table), is_allowed);
	}
}

/* Large enough for keys that have used up their limit. */
static size_t arena_size(const struct subject *subject)
{
	struct weir_message why;
	struct weir_limit limit;

	if (weir_limit_parse(subject->text, strlen(subject->text), &limit, &why) != WEIR_OK)
		errx(2, "%s: %s", subject->text, why.text);
	return weir_table_arena_size(&limit, subject->keys, 0);
}

/* Writes additional values for the line of JSON to `more`. */
static void begin_table(struct subject *subject, char more[static MORE_MAX])
{
	const size_t arena_bytes = arena_size(subject);
	const struct weir_table_options options = { .size_bytes = weir_table_size(subject->keys, 0) + arena_bytes,
						    .arena_bytes = arena_bytes,
						    .file = subject->file };
	const double before = keys_resident_bytes();
	struct weir_table_stats stats;
	struct weir_message why;
	double after;

	if (weir_table_new(&options, &subject->table, &why) != WEIR_OK ||
	    weir_table_add_limit_text(subject->table, "per-user", subject->text, &subject->limit, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	insert_all(subject);
	after = keys_resident_bytes();
	weir_table_stats(subject->table, weir_table_now(subject->table), &stats);
	/* A few keys in ten million share a fingerprint and a place. */
	if (stats.live + stats.evicted + 10 < subject->keys)
		errx(1, "%" PRIu64 " keys live and %" PRIu64 " evicted, of %" PRIu32, stats.live, stats.evicted,
		     subject->keys);
	snprintf(more, MORE_MAX, ", \"bytes_per_key\": %.3f, \"evicted_ppm\": %.3f, \"size_bytes\": %zu",
		 (after - before) / subject->keys, 1e6 * (double)stats.evicted / subject->keys, stats.size_bytes);
}

/* Memory of the same size and kind as the table's, with all pages touched. */
static void begin_bare(struct subject *subject)
{
	const size_t size = weir_table_size(subject->keys, 0), page = weir__memory_page();
	void *memory;

	if (weir__memory_new((size + page - 1) / page * page, &memory) != 0 ||
	    weir__memory_random(&subject->secret, sizeof(subject->secret)) != 0)
		err(1, "%zu bytes", size);
	subject->slots = memory;
	subject->slots_n = size / sizeof(*subject->slots);
	for (uint64_t i = 0; i < subject->slots_n; i++)
		subject->slots[i].state = (struct weir_state){ 1, 1 };
}

static const struct {
	const char *name;
	uint64_t (*batch)(const void *subject, size_t thread);
	bool is_bare;
} modes[] = {
	{ "one", batch_one, false },
	{ "batch", batch_batch, false },
	{ "bare", batch_bare, true },
	{ "bare_batch", batch_bare_batch, true },
};

int main(int argc, char **argv)
{
	static struct keys_order orders[WORKERS_MAX];
	struct subject subject = { .keys = 1000000, .text = KEYS_LIMIT, .orders = orders };
	struct work work = { .subject = &subject, .each = BATCH, .is_allowed = true, .seconds = 0.5, .threads = 1 };
	char more[MORE_MAX] = "";
	bool is_zipf = false, is_bare = false;

	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0) {
			work.batch = modes[i].batch;
			is_bare = modes[i].is_bare;
		}
	}
	if (!work.batch)
		errx(2,
		     "usage: table one|batch|bare|bare_batch [--keys N] [--limit TEXT] [--file PATH] [--zipf] [--seconds S | --count N] [--threads N]");
	for (int i = 2; i < argc; i++) {
		const char *const name = argv[i];

		if (strcmp(name, "--zipf") == 0)
			is_zipf = true;
		else if (++i == argc)
			errx(2, "%s: missing value", name);
		else if (strcmp(name, "--keys") == 0)
			subject.keys = (uint32_t)strtoul(argv[i], NULL, 10);
		else if (strcmp(name, "--limit") == 0)
			subject.text = argv[i];
		else if (strcmp(name, "--file") == 0)
			subject.file = argv[i];
		else if (!work_option(&work, name, argv[i]))
			errx(2, "unknown option: %s", name);
	}
	work.is_mixed = strcmp(subject.text, KEYS_LIMIT) != 0;
	work_check(&work);
	if (subject.keys < 1 || subject.keys > KEYS_MAX)
		errx(2, "--keys must be 1 to %d", KEYS_MAX);
	weir_clock_now(); /* the first call calibrates the clock */
	if (is_bare)
		begin_bare(&subject);
	else
		begin_table(&subject, more);
	for (size_t i = 0; i < work.threads; i++)
		orders[i] = keys_order_of(i, NULL);
	if (is_zipf) {
		const uint32_t *const drawn = keys_draw_zipf(subject.keys);

		for (size_t i = 0; i < work.threads; i++)
			orders[i] = keys_order_of(i, drawn);
	}
	work_measure(&work, more);
	weir_table_free(subject.table);
	if (subject.file)
		unlink(subject.file);
	return 0;
}
