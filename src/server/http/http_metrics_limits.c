/* http_metrics_limits.c: the metrics of limits.
 *
 * All limits and their numbers are collected once, before anything is written. So a response describes one policy, and
 * requests are the sum of allowed and rejected. If there is not enough room, the first limits are written. */
#include <stdlib.h>
#include <string.h>

#include "core/notation.h"
#include "engine/limit_row.h"
#include "guard/guard.h"
#include "observe/limit_stats.h"
#include "server/http/http_call.h"
#include "server/http/http_metrics.h"
#include "server/policy_loader.h"
#include "server/settings.h"
#include "wire/digits.h"

enum {
	LIMITS_MAX = 1000,
	LABELS_ROOM = 192 * 1024, /* of all limits: at seven samples each, these fill the response */
	OTHERS_MOST = 64 * 1024,  /* of the response, for all other metrics */
};

static const enum weir__metric of_limits[] = {
	WEIR__METRIC_REQUESTS,       WEIR__METRIC_ALLOWED,       WEIR__METRIC_REJECTED, WEIR__METRIC_SHADOW_REJECTED,
	WEIR__METRIC_DELAYED,        WEIR__METRIC_DELAY_SECONDS, WEIR__METRIC_FILL,     WEIR__METRIC_LEVEL,
	WEIR__METRIC_CAPACITY,       WEIR__METRIC_SHARED,        WEIR__METRIC_RATE,     WEIR__METRIC_LEASE_BOUND,
	WEIR__METRIC_EVENTUAL_BOUND,
};

enum { OF_LIMITS = sizeof(of_limits) / sizeof(of_limits[0]) };

struct row {
	const char *labels;
	size_t labels_length;
	bool is_shadow, is_delaying, is_leaky, is_shared, has_fill, has_plan;
	struct weir_table_limit_stats stats;
	uint64_t delayed, delay_ns, capacity;
	uint64_t lease_bound; /* units; 0: the limit is not leased */
	bool is_eventual;
	uint64_t eventual_bound;
	struct weir__decimal fill, rate;
};

/* A response that is being collected. */
struct page {
	struct weir__http_call *call;
	weir_ns now;
	size_t room; /* bytes of samples that may still be written */
	uint32_t n;  /* rows */
	uint32_t left_out;
	size_t labels_used;
	struct weir__labels one;
	struct row rows[LIMITS_MAX + 1]; /* + 1: inline limits */
	char labels[LABELS_ROOM];
};

/* --- samples ----------------------------------------------------------------------------------------------------- */

/* Whether the limit has a sample of this metric. */
static bool is_told(const struct row *row, enum weir__metric metric)
{
	switch (metric) {
	case WEIR__METRIC_ALLOWED:
	case WEIR__METRIC_REJECTED:
		return !row->is_shadow;
	case WEIR__METRIC_SHADOW_REJECTED:
		return row->is_shadow;
	case WEIR__METRIC_DELAYED:
	case WEIR__METRIC_DELAY_SECONDS:
		return row->is_delaying;
	case WEIR__METRIC_FILL:
		return row->has_fill;
	case WEIR__METRIC_LEVEL:
		return row->has_fill && row->is_leaky;
	case WEIR__METRIC_SHARED:
		return row->is_shared;
	case WEIR__METRIC_LEASE_BOUND:
		return row->lease_bound > 0;
	case WEIR__METRIC_EVENTUAL_BOUND:
		return row->is_eventual;
	case WEIR__METRIC_CAPACITY:
	case WEIR__METRIC_RATE:
		return row->has_plan;
	default:
		return true;
	}
}

/* 1 minus a share, which is at most 1. */
static struct weir__decimal rest_of(struct weir__decimal share)
{
	const uint32_t one = 1000000000;

	return share.whole > 0       ? (struct weir__decimal){ 0, 0 } :
	       share.billionths == 0 ? (struct weir__decimal){ 1, 0 } :
				       (struct weir__decimal){ 0, one - share.billionths };
}

static struct weir__decimal value_of(const struct row *row, enum weir__metric metric)
{
	switch (metric) {
	case WEIR__METRIC_ALLOWED:
		return (struct weir__decimal){ row->stats.allowed, 0 };
	case WEIR__METRIC_REJECTED:
	case WEIR__METRIC_SHADOW_REJECTED:
		return (struct weir__decimal){ row->stats.denied, 0 };
	case WEIR__METRIC_DELAYED:
		return (struct weir__decimal){ row->delayed, 0 };
	case WEIR__METRIC_DELAY_SECONDS:
		return weir__decimal_of_ns(row->delay_ns);
	case WEIR__METRIC_FILL:
		return row->fill;
	case WEIR__METRIC_LEVEL:
		return rest_of(row->fill);
	case WEIR__METRIC_SHARED:
		return (struct weir__decimal){ 1, 0 };
	case WEIR__METRIC_CAPACITY:
		return (struct weir__decimal){ row->capacity, 0 };
	case WEIR__METRIC_RATE:
		return row->rate;
	case WEIR__METRIC_LEASE_BOUND:
		return (struct weir__decimal){ row->lease_bound, 0 };
	case WEIR__METRIC_EVENTUAL_BOUND:
		return (struct weir__decimal){ row->eventual_bound, 0 };
	default:
		return (struct weir__decimal){ row->stats.allowed + row->stats.denied, 0 };
	}
}

static size_t length_of(const struct row *row, enum weir__metric metric)
{
	const struct weir__metric_row *const what = &weir__metric_rows[metric];
	const struct weir__decimal value = value_of(row, metric);

	/* 4: two braces, the space before the value, and the line break. 10: a point and nine digits. */
	return strlen(what->name) + strlen(weir__metric_suffix(what->type)) + row->labels_length + 4 +
	       weir__count_digits(value.whole) + (value.billionths ? 10 : 0);
}

/* --- collecting -------------------------------------------------------------------------------------------------- */

/* Adds the limit, if there is room for all its samples. */
static void add_row(struct page *page, const char *name, const char *algorithm, const struct row *told)
{
	const struct weir__settings *const settings = page->call->context->settings;
	struct weir__labels *const labels = &page->one;
	struct row *const row = &page->rows[page->n];
	size_t needed = 0;

	labels->n = 0;
	weir__labels_add(labels, "algorithm", algorithm);
	weir__labels_add(labels, "service", settings ? settings->service : "");
	weir__labels_add(labels, "limit", name);
	*row = *told;
	row->labels = page->labels + page->labels_used;
	row->labels_length = labels->n;
	for (size_t i = 0; i < OF_LIMITS; i++)
		needed += is_told(row, of_limits[i]) ? length_of(row, of_limits[i]) : 0;
	if (needed > page->room || labels->n > LABELS_ROOM - page->labels_used) {
		page->left_out++;
		return;
	}
	memcpy(page->labels + page->labels_used, labels->at, labels->n);
	page->labels_used += labels->n;
	page->room -= needed;
	page->n++;
}

/* Reads the statistics of the workers about the limit. */
static void look(const struct page *page, const struct weir_table_limit *limit, struct row *row)
{
	struct weir__limit_stats_set *const stats_set = page->call->context->stats_set;
	struct weir__limit_stats_sum seen;

	if (stats_set == NULL) {
		row->is_delaying = false; /* nothing counts delays */
		return;
	}
	weir__limit_stats_set_delays(stats_set, limit, &row->delayed, &row->delay_ns);
	row->has_fill = weir__limit_stats_set_limit(stats_set, limit, (uint32_t)(page->now / 1000000000),
						    WEIR__LIMIT_STATS_FILL_SECONDS, &seen);
	if (row->has_fill) /* each share was rounded down, by half a unit on average: add that */
		row->fill = weir__decimal_of_share(seen.fill + seen.decided / 2, seen.decided * WEIR__FILL_ONE);
}

/* A limit without key parts has one level. Only the table's is read, because another store would have to be called and
 * waited for. */
static void look_at_level(const struct page *page, const struct weir__guard_row *told, struct row *row)
{
	const struct weir__context *const context = page->call->context;
	struct weir_verdict level;

	if (context->store->table == NULL && told->store != WEIR_POLICY_STORE_TABLE)
		return;
	level = weir_table_peek(context->table, told->limit, "", 0, page->now, 0);
	row->has_fill = true;
	row->fill = weir__decimal_of_share(level.remaining, level.limit);
}

static void collect(void *page_, const struct weir__guard_row *told)
{
	struct page *const page = page_;
	struct weir__lease_terms terms;
	struct weir_limit limit;
	struct row row;
	uint64_t ahead;

	if (told->limit == NULL || told->mode == WEIR_MODE_OFF)
		return;
	limit = told->now;
	row = (struct row){ .is_shadow = told->mode == WEIR_MODE_SHADOW,
			    .is_delaying = limit.shape,
			    .is_leaky = limit.algorithm == WEIR_LEAKY_BUCKET,
			    .is_shared = !told->is_keyed,
			    .has_plan = true,
			    .capacity = weir__limit_is_bucket(&limit) ? limit.burst : limit.count,
			    .rate = weir__decimal_of_rate(limit.count, limit.period) };
	if (weir__limit_row_is_leased(page->call->context, told, &terms))
		row.lease_bound = terms.most;
	ahead = weir__limit_row_ahead(page->call->context, told);
	row.is_eventual = ahead > 0;
	row.eventual_bound = weir__limit_row_bound(page->call->context, ahead);
	weir_table_limit_stats(page->call->context->table, told->limit, &row.stats);
	look(page, told->limit, &row);
	if (!told->is_keyed)
		look_at_level(page, told, &row);
	add_row(page, told->name, weir_algorithm_name(limit.algorithm), &row);
}

/* No limit of a policy has brackets in its name. */
static void collect_inline(struct page *page)
{
	const struct weir_table_limit *const counted = page->call->context->limits.counted_as;
	struct row row = { .is_delaying = true };

	weir_table_limit_stats(page->call->context->table, counted, &row.stats);
	look(page, counted, &row);
	add_row(page, "(inline)", "any", &row);
}

/* Limits beyond LIMITS_MAX are counted as left out, without a look at them. */
static void begin(void *page_, uint32_t n, uint32_t all)
{
	struct page *const page = page_;

	page->left_out += all - n;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

static void write_metric(struct weir__metrics *metrics, const struct page *page, enum weir__metric metric)
{
	weir__metrics_begin(metrics, metric);
	for (uint32_t i = 0; i < page->n; i++) {
		const struct row *const row = &page->rows[i];

		if (is_told(row, metric))
			weir__metrics_add_decimal(metrics, row->labels, row->labels_length, value_of(row, metric));
	}
}

bool weir__http_metrics_limits(struct weir__http_call *call, struct weir__metrics *metrics)
{
	const size_t taken = WEIR__REPLY_HEAD_ROOM + OTHERS_MOST;
	struct page *const page = malloc(sizeof(*page));

	if (page == NULL)
		return false;
	page->call = call;
	page->now = weir_table_now(call->context->table);
	page->room = call->reply->size > taken ? call->reply->size - taken : 0;
	page->n = page->left_out = 0;
	page->labels_used = 0;
	collect_inline(page);
	if (call->context->loader)
		weir__guard_list(call->context->guard, 0, LIMITS_MAX, begin, collect, page);
	for (size_t i = 0; i < OF_LIMITS; i++)
		write_metric(metrics, page, of_limits[i]);
	weir__metrics_one(metrics, WEIR__METRIC_LIMITS_LEFT_OUT, page->left_out);
	free(page);
	return true;
}
