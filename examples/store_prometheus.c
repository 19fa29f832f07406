/* store_prometheus.c: the statistics of a store in Prometheus's text format, as a program would serve them at /metrics.
 *
 *     store_prometheus [URL]        with a URL in Redis, else in a table */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/store.h>

static void print_one(const char *name, const char *type, const char *help, uint64_t value)
{
	printf("# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name, value);
}

/* Labels are quoted: backslash, quote and newline are escaped. */
static void print_label(const char *value)
{
	for (; *value; value++)
		switch (*value) {
		case '\n':
			(void)fputs("\\n", stdout);
			break;
		case '\\':
		case '"':
			(void)putchar('\\');
			/* fall through */
		default:
			(void)putchar(*value);
		}
}

static void print_limit(void *context, const struct weir_store_limit_stats *stats)
{
	(void)context;
	(void)fputs("myapp_limit_decisions_total{limit=\"", stdout);
	print_label(stats->name);
	printf("\",result=\"allowed\"} %" PRIu64 "\nmyapp_limit_decisions_total{limit=\"", stats->allowed);
	print_label(stats->name);
	printf("\",result=\"denied\"} %" PRIu64 "\n", stats->denied);
}

/* Buckets are cumulative. A microsecond has six decimals, so no number is rounded. */
static void print_latency(const struct weir_store_stats *stats)
{
	uint64_t count = 0;

	printf("# HELP myapp_store_duration_seconds Decisions by Redis, by duration.\n"
	       "# TYPE myapp_store_duration_seconds histogram\n");
	for (int i = 0; i < WEIR_STORE_LATENCIES; i++) {
		const uint64_t bound_us = (uint64_t)WEIR_STORE_LATENCY_FIRST_US << i;

		count += stats->latency_counts[i];
		if (i < WEIR_STORE_LATENCIES - 1)
			printf("myapp_store_duration_seconds_bucket{le=\"%" PRIu64 ".%06" PRIu64 "\"} %" PRIu64 "\n",
			       bound_us / 1000000, bound_us % 1000000, count);
	}
	printf("myapp_store_duration_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n"
	       "myapp_store_duration_seconds_sum %" PRIu64 ".%06" PRIu64 "\n"
	       "myapp_store_duration_seconds_count %" PRIu64 "\n",
	       count, stats->latency_sum_us / 1000000, stats->latency_sum_us % 1000000, count);
}

static int print_metrics(struct weir_store *store)
{
	struct weir_store_stats stats = { .size_bytes = sizeof(stats) };

	if (weir_store_stats(store, &stats) != WEIR_OK)
		return 1;
	printf("# HELP myapp_limit_decisions_total Decisions on each limit.\n"
	       "# TYPE myapp_limit_decisions_total counter\n");
	weir_store_each_limit(store, print_limit, NULL);
	print_one("myapp_store_up", "gauge", "Whether the store can be called.", stats.health == WEIR_STORE_UP);
	print_one("myapp_store_nodes", "gauge", "Programs that share the store.", stats.nodes);
	print_one("myapp_store_fallback_decisions_total", "counter", "Requests that the fallback decided.",
		  stats.by_fallback);
	print_one("myapp_store_unreached_total", "counter", "Requests that were not sent.", stats.unreached);
	print_one("myapp_store_unanswered_total", "counter", "Requests without a reply in time.", stats.unanswered);
	print_one("myapp_store_deferred_keys", "gauge", "Keys with charges still to be made.", stats.deferred_keys);
	print_one("myapp_table_keys", "gauge", "Keys in use in the table.", stats.keys_live);
	print_one("myapp_table_evictions_total", "counter", "Keys that lost their slot while in use.",
		  stats.keys_evicted);
	print_latency(&stats);
	return 0;
}

/* Some traffic to count. */
static int decide_some(struct weir_store *store)
{
	const struct weir_table_limit *per_user, *quoted;
	struct weir_store_answer answer;
	struct weir_message why;

	if (weir_store_add_limit_text(store, "per-user", "10/hour", &per_user, &why) != WEIR_OK ||
	    weir_store_add_limit_text(store, "say \"hello\"", "3/hour", &quoted, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	for (int i = 0; i < 12; i++)
		if (weir_store_take(store, i < 11 ? per_user : quoted, "ada", 3, 1, &answer) != WEIR_OK)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0) };
	const weir_ns patience = 5000000000;
	struct weir_table *table = NULL;
	struct weir_store *store = NULL;
	struct weir_message why;
	int error;

	if (argc > 1) {
		error = weir_store_redis(argv[1], NULL, &store, &why);
	} else {
		error = weir_table_new(&options, &table, &why);
		if (error == WEIR_OK)
			error = weir_store_table(table, &store, &why);
	}
	if (error == WEIR_OK)
		error = weir_store_wait(store, patience, &why);
	if (error != WEIR_OK)
		fprintf(stderr, "%s\n", why.text);
	else
		error = decide_some(store) || print_metrics(store);
	weir_store_free(store);
	weir_table_free(table);
	return error != WEIR_OK;
}
