/* table_spray_test.c: a flood of new keys beside keys that the same limit throttles. The table is soon full of keys
 * with usage, so every new key evicts another. Throttled keys must not be evicted, and the memory must not grow. The
 * test's clock advances evenly, 10 s in all. */
#include <weir/weir.h>

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "table_crew.h"

/* One in THROTTLED_EACH requests is for a throttled key. The flood has SPRAY_PER_KEY requests for each key of the
 * table's capacity. */
enum { THROTTLED_MOST = 1000, THROTTLED_LEAST = 50, THROTTLED_EACH = 4, SPRAY_PER_KEY = 100 };

static const weir_ns start = UINT64_C(1790000000000000000), run_ns = UINT64_C(10000000000);

static uint64_t spray = 300000;

struct storm {
	struct weir_plan plan;
	struct weir_table *table;
	const struct weir_table_limit *limit;
	uint64_t random, requests, in_all;
	uint32_t throttled;                 /* keys */
	uint64_t sprayed;                   /* keys */
	uint64_t denied;                    /* of these: they hit another key's slot */
	uint64_t admitted[THROTTLED_MOST];  /* by the table */
	uint64_t allowance[THROTTLED_MOST]; /* what the limit alone would have allowed at the same times */
	struct weir_state states[THROTTLED_MOST];
};

static weir_ns now_in(const struct storm *storm)
{
	return start + run_ns / storm->in_all * storm->requests;
}

static void ask_throttled(struct storm *storm, uint32_t key)
{
	const weir_ns now = now_in(storm);

	storm->admitted[key] += weir_table_allow(storm->table, storm->limit, &key, sizeof(key), now, 1);
	storm->allowance[key] += weir_step_allow(&storm->plan, &storm->states[key], now, 1);
}

static void ask_strange(struct storm *storm)
{
	const uint64_t key[2] = { next_random(&storm->random), storm->sprayed++ };

	storm->denied += !weir_table_allow(storm->table, storm->limit, key, sizeof(key), now_in(storm), 1);
}

static void rage_until(struct storm *storm, uint64_t requests)
{
	for (; storm->requests < requests; storm->requests++) {
		if (storm->requests % THROTTLED_EACH == 0)
			ask_throttled(storm, (uint32_t)(storm->requests / THROTTLED_EACH % storm->throttled));
		else
			ask_strange(storm);
	}
}

static uint64_t resident_bytes(void)
{
	unsigned long long pages = 0;
	FILE *const file = fopen("/proc/self/statm", "re");

	if (file == NULL || fscanf(file, "%*u %llu", &pages) != 1)
		bail_out("/proc/self/statm", "cannot be read");
	fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void storm_init(struct storm *storm, const char *text, uint64_t n)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(n / SPRAY_PER_KEY, 0),
						    .made_at = start };
	struct weir_message why;
	struct weir_limit limit;

	memset(storm, 0, sizeof(*storm));
	storm->random = seed_of(n);
	storm->throttled = n / SPRAY_PER_KEY / 1000 > THROTTLED_MOST ? THROTTLED_MOST :
								       (uint32_t)(n / SPRAY_PER_KEY / 1000);
	if (storm->throttled < THROTTLED_LEAST)
		storm->throttled = THROTTLED_LEAST;
	storm->in_all = n / (THROTTLED_EACH - 1) * THROTTLED_EACH;
	if (weir_limit_parse(text, strlen(text), &limit, &why) != WEIR_OK ||
	    weir_plan_compile(&limit, &storm->plan, &why) != WEIR_OK ||
	    weir_table_new(&options, &storm->table, &why) != WEIR_OK ||
	    weir_table_add_limit(storm->table, "same", &limit, &storm->limit, &why) != WEIR_OK)
		bail_out(text, why.text);
}

/* While no key is full again, each insertion beyond the capacity evicts another key. */
static void check_all_owe(const struct storm *storm)
{
	struct weir_table_stats stats;

	weir_table_stats(storm->table, now_in(storm), &stats);
	CHECK(stats.inserted + storm->denied >= storm->sprayed);
	CHECK(stats.evicted > 0);
	CHECK(stats.evicted + stats.capacity >= stats.inserted);
	CHECK(stats.evicted < stats.inserted);
}

/* No key is allowed more than 1 % above what the limit alone allows, nor all together more than 1 % below. */
static void check_throttled(const struct storm *storm, const char *text)
{
	uint64_t admitted = 0, allowance = 0, above = 0, most_above = 0;

	for (size_t i = 0; i < storm->throttled; i++) {
		const uint64_t more = storm->admitted[i] > storm->allowance[i] ?
					      storm->admitted[i] - storm->allowance[i] :
					      0;

		admitted += storm->admitted[i];
		allowance += storm->allowance[i];
		above += more * 100 > storm->allowance[i];
		most_above = more > most_above ? more : most_above;
	}
	printf("# %s: %" PRIu32 " throttled keys got %" PRIu64 " of %" PRIu64
	       "; the most that one got above its limit is %" PRIu64 "\n",
	       text, storm->throttled, admitted, allowance, most_above);
	CHECK_EQ(above, 0);
	CHECK(admitted * 100 >= allowance * 99);
	CHECK(allowance > storm->throttled);
}

static void rage(const char *text, uint64_t n)
{
	struct storm *const storm = malloc(sizeof(*storm));
	struct weir_table_stats stats;
	uint64_t before, after;

	if (storm == NULL)
		bail_out("memory", "the system has none");
	storm_init(storm, text, n);
	rage_until(storm, storm->in_all / 25);
	check_all_owe(storm);
	rage_until(storm, storm->in_all / 4);
	before = resident_bytes();
	rage_until(storm, storm->in_all);
	after = resident_bytes();
	weir_table_stats(storm->table, now_in(storm), &stats);
	printf("# %" PRIu64 " keys sprayed on %" PRIu64 " slots: %" PRIu64 " evicted, %" PRIu64
	       " owe; resident %" PRIu64 " KiB, %+" PRId64 " KiB\n",
	       storm->sprayed, stats.capacity, stats.evicted, stats.live, after / 1024,
	       ((int64_t)after - (int64_t)before) / 1024);
	check_throttled(storm, text);
	CHECK(storm->denied <= 8); /* one in 270 million hits another key's slot */
	CHECK(stats.live <= stats.capacity);
	CHECK(after <= before + (1u << 20));
	weir_table_free(storm->table);
	free(storm);
}

static void a_spray_washes_out_no_bucket(void)
{
	rage("2/s burst 100", spray);
}

static void a_spray_washes_out_no_window(void)
{
	rage("100/5s fixed_window", spray / 3);
	rage("100/5s sliding_counter", spray / 3);
	rage("50/5s refill interval burst 100", spray / 3);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(a_spray_washes_out_no_bucket),
		TEST(a_spray_washes_out_no_window),
	};

	if (argc > 1) /* full size */
		spray = strtoull(argv[1], NULL, 10);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
