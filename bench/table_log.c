/* table_log.c: measures sliding logs of many keys, and prints one line of JSON. bench/table_log.py runs it.
 *
 *     table_log one OPTION...      weir_table_allow, key by key
 *     table_log batch OPTION...    weir_table_allow_batch, TOGETHER keys at a time, all at the time of the first
 *
 *     table_log full OPTION...     measures the memory of full logs, and no time
 *
 *     --keys N     (100000)
 *     --seconds S, --count N: see workers.h
 *
 * See log_load.h for the load and the warm-up. */
#include <weir/table.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log_load.h"
#include "workers.h"

enum {
	TOGETHER = 32,
	BATCH = 32 * TOGETHER,
	KEY_BYTES = 32, /* memory of a key besides its events */
	MORE_MAX = 400,
};

struct subject {
	struct log_load load;
	struct weir_table *table;
	const struct weir_table_limit *limit;
	weir_ns start;
};

static uint64_t batch_one(const void *subject_, size_t thread)
{
	struct subject *const subject = *(struct subject *const *)subject_;
	struct log_load load = subject->load;
	char key[KEY_ROOM] = "user:";
	uint64_t allowed = 0;

	(void)thread;
	for (size_t i = 0; i < BATCH; i++, load.n++) {
		keys_write(key, keys_next(&load.order, load.keys));
		allowed += weir_table_allow(subject->table, subject->limit, key, KEY_LENGTH,
					    subject->start + log_load_ns(&load, weir_table_now(subject->table)), 1);
	}
	subject->load = load;
	return allowed;
}

static uint64_t batch_batch(const void *subject_, size_t thread)
{
	struct subject *const subject = *(struct subject *const *)subject_;
	struct log_load load = subject->load;
	char keys[TOGETHER][KEY_ROOM];
	struct weir_claim claims[TOGETHER];
	bool is_allowed[TOGETHER];
	uint64_t allowed = 0;

	(void)thread;
	for (size_t k = 0; k < TOGETHER; k++)
		memcpy(keys[k], "user:", KEY_PREFIX);
	for (size_t i = 0; i < BATCH; i += TOGETHER, load.n += TOGETHER) {
		for (size_t k = 0; k < TOGETHER; k++) {
			keys_write(keys[k], keys_next(&load.order, load.keys));
			claims[k] = (struct weir_claim){ subject->limit, keys[k], KEY_LENGTH, 1 };
		}
		weir_table_allow_batch(subject->table, claims, TOGETHER,
				       subject->start + log_load_ns(&load, weir_table_now(subject->table)), is_allowed);
		for (size_t k = 0; k < TOGETHER; k++)
			allowed += is_allowed[k];
	}
	subject->load = load;
	return allowed;
}

static bool ask(void *subject_, uint32_t number, uint64_t since_first_ns)
{
	const struct subject *const subject = subject_;
	char key[KEY_ROOM] = "user:";

	keys_write(key, number);
	return weir_table_allow(subject->table, subject->limit, key, KEY_LENGTH, subject->start + since_first_ns, 1);
}

/* Large enough for full logs. */
static size_t arena_bytes(uint32_t keys)
{
	struct weir_limit limit;

	if (weir_limit_parse(LOG_LIMIT_TEXT, strlen(LOG_LIMIT_TEXT), &limit, NULL) != WEIR_OK)
		abort();
	return weir_table_arena_size(&limit, keys, 0);
}

static void make_table(struct subject *subject)
{
	const uint32_t keys = subject->load.keys;
	const size_t arena = arena_bytes(keys);
	const struct weir_table_options options = { .size_bytes = weir_table_size(keys, 0) + arena,
						    .arena_bytes = arena };
	struct weir_message why;

	if (weir_table_new(&options, &subject->table, &why) != WEIR_OK ||
	    weir_table_add_limit_text(subject->table, "per-user", LOG_LIMIT_TEXT, &subject->limit, &why) != WEIR_OK)
		errx(1, "%s: %s", LOG_LIMIT_TEXT, why.text);
	subject->start = weir_table_now(subject->table);
}

/* Writes additional values for the line of JSON to `more`. */
static void begin(struct subject *subject, char more[static MORE_MAX])
{
	struct weir_table_stats stats;
	uint64_t events;

	make_table(subject);
	events = log_load_warm_up(&subject->load, ask, subject);
	weir_table_stats(subject->table, subject->start + log_load_ns(&subject->load, 0), &stats);
	snprintf(more, MORE_MAX, ", \"events\": %" PRIu64 ", \"evicted\": %" PRIu64, events, stats.evicted);
}

static void measure_full(struct subject *subject)
{
	const double before = keys_resident_bytes();
	const uint64_t step_ns = LOG_WINDOW_NS / ((uint64_t)subject->load.keys * LOG_LIMIT * 2);
	uint64_t events = 0, asked = 0;
	double grown;

	make_table(subject);
	for (int i = 0; i < LOG_LIMIT; i++)
		for (uint32_t number = 0; number < subject->load.keys; number++)
			events += ask(subject, number, asked++ * step_ns);
	grown = keys_resident_bytes() - before;
	if (events != (uint64_t)subject->load.keys * LOG_LIMIT)
		errx(1, "a log was full too soon");
	printf("{\"events\": %" PRIu64 ", \"bytes_per_event\": %.3f, \"grown_bytes\": %.0f}\n", events,
	       (grown - (double)KEY_BYTES * subject->load.keys) / (double)events, grown);
}

int main(int argc, char **argv)
{
	static struct subject subject;
	struct subject *const subject_ = &subject;
	struct work work = { .subject = &subject_, .each = BATCH, .is_mixed = true, .seconds = 0.5, .threads = 1 };
	char more[MORE_MAX];
	uint32_t keys = 100000;

	if (argc > 1 && strcmp(argv[1], "one") == 0)
		work.batch = batch_one;
	else if (argc > 1 && strcmp(argv[1], "batch") == 0)
		work.batch = batch_batch;
	else if (argc < 2 || strcmp(argv[1], "full") != 0)
		errx(2, "usage: table_log one|batch|full [--keys N] [--seconds S | --count N]");
	for (int i = 2; i < argc; i += 2) {
		if (i + 1 == argc)
			errx(2, "%s: missing value", argv[i]);
		else if (strcmp(argv[i], "--keys") == 0)
			keys = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (!work_option(&work, argv[i], argv[i + 1]))
			errx(2, "unknown option: %s", argv[i]);
	}
	if (work.batch)
		work_check(&work);
	if (work.threads != 1)
		errx(2, "--threads must be 1: the requests have one order");
	subject.load = log_load_of(keys);
	weir_clock_now(); /* the first call calibrates the clock */
	if (work.batch) {
		begin(&subject, more);
		work_measure(&work, more);
	} else {
		measure_full(&subject);
	}
	weir_table_free(subject.table);
	return 0;
}
