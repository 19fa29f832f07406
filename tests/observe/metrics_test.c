/* metrics_test.c: pages of metrics, byte by byte: numbers, labels, heads and histograms, in both formats. */
#include "observe/metrics.h"

#include "check.h"

enum { SIZE = 64 * 1024 };

static char out[SIZE];
static struct weir__http_reply reply;
static struct weir__metrics metrics;

static void begin(bool is_openmetrics)
{
	weir__reply_init(&reply, out, SIZE, NULL);
	metrics = (struct weir__metrics){ &reply, is_openmetrics, WEIR__METRICS_N };
}

static const char *written(void)
{
	out[WEIR__REPLY_HEAD_ROOM + reply.body_length] = '\0';
	return out + WEIR__REPLY_HEAD_ROOM;
}

static const char *as_text(struct weir__decimal decimal)
{
	begin(false);
	metrics.metric = WEIR__METRIC_HOLDS;
	weir__metrics_add_decimal(&metrics, "", 0, decimal);
	return written() + sizeof("rate_limiter_holds"); /* and a space */
}

static void numbers_are_decimal(void)
{
	CHECK_TEXT(as_text((struct weir__decimal){ 0, 0 }), "0\n");
	CHECK_TEXT(as_text((struct weir__decimal){ 0, 1 }), "0.000000001\n");
	CHECK_TEXT(as_text((struct weir__decimal){ 1, 500000000 }), "1.5\n");
	CHECK_TEXT(as_text((struct weir__decimal){ UINT64_MAX, 999999999 }), "18446744073709551615.999999999\n");

	CHECK_TEXT(as_text(weir__decimal_of_share(0, 7)), "0\n");
	CHECK_TEXT(as_text(weir__decimal_of_share(7, 7)), "1\n");
	CHECK_TEXT(as_text(weir__decimal_of_share(1, 3)), "0.333333\n");
	CHECK_TEXT(as_text(weir__decimal_of_share(2, 3)), "0.666667\n");
	CHECK_TEXT(as_text(weir__decimal_of_share(UINT64_MAX - 1, UINT64_MAX)), "1\n");
	CHECK_TEXT(as_text(weir__decimal_of_share(UINT64_MAX, UINT64_MAX)), "1\n");
	CHECK_TEXT(as_text(weir__decimal_of_share(5, 0)), "0\n");

	CHECK_TEXT(as_text(weir__decimal_of_ns(256)), "0.000000256\n");
	CHECK_TEXT(as_text(weir__decimal_of_ns(UINT64_MAX)), "18446744073.709551615\n");

	CHECK_TEXT(as_text(weir__decimal_of_rate(100, 1000000000)), "100\n");
	CHECK_TEXT(as_text(weir__decimal_of_rate(100, UINT64_C(60000000000))), "1.666666666\n");
	CHECK_TEXT(as_text(weir__decimal_of_rate(1, UINT64_MAX)), "0\n");
	CHECK_TEXT(as_text(weir__decimal_of_rate(UINT64_MAX, UINT64_MAX)), "1000000000\n");
	CHECK_TEXT(as_text(weir__decimal_of_rate(UINT64_MAX, 1)), "18446744073709551615\n");
}

static const char *label_of(const char *value)
{
	static struct weir__labels labels;

	labels.n = 0;
	weir__labels_add(&labels, "l", value);
	labels.at[labels.n] = '\0';
	return labels.at;
}

static void labels_may_be_any_bytes(void)
{
	CHECK_TEXT(label_of(""), "l=\"\"");
	CHECK_TEXT(label_of("per-ip|plan=gold"), "l=\"per-ip|plan=gold\"");
	CHECK_TEXT(label_of("a\"b\\c\nd"), "l=\"a\\\"b\\\\c\\nd\"");
	CHECK_TEXT(label_of("\xc3\xa9\t\xf0\x9f\x98\x80"), "l=\"\xc3\xa9\t\xf0\x9f\x98\x80\"");
	CHECK_TEXT(label_of("a\xff"), "l=\"a\\\\xFF\"");
	CHECK_TEXT(label_of("\xc3"), "l=\"\\\\xC3\"");
	CHECK_TEXT(label_of("\xed\xa0\x80"), "l=\"\\\\xED\\\\xA0\\\\x80\"");
}

/* Labels are cut to the room, but never within a character or its escape. */
static void labels_are_bounded(void)
{
	static char value[2 * WEIR__LABELS_SIZE];
	static struct weir__labels labels;

	memset(value, '\xff', sizeof(value) - 1);
	labels.n = 0;
	weir__labels_add(&labels, "l", value);
	CHECK_EQ(labels.n, 3 + (WEIR__LABELS_SIZE - 4) / 5 * 5 + 1);
	CHECK_EQ(labels.at[labels.n - 1], '"');

	memset(value, 'a', sizeof(value) - 1);
	labels.n = 0;
	weir__labels_add(&labels, "l", value);
	CHECK_EQ(labels.n, WEIR__LABELS_SIZE);
	CHECK_EQ(labels.at[labels.n - 1], '"');
	weir__labels_add(&labels, "m", "b");
	CHECK_EQ(labels.n, WEIR__LABELS_SIZE);
}

static void heads_are_those_of_the_format(void)
{
	begin(false);
	weir__metrics_one(&metrics, WEIR__METRIC_TABLE_INSERTED, 7);
	CHECK_TEXT(written(),
		   "# HELP rate_limiter_table_inserted_total Keys that were given a slot.\n"
		   "# TYPE rate_limiter_table_inserted_total counter\nrate_limiter_table_inserted_total 7\n");
	begin(true);
	weir__metrics_one(&metrics, WEIR__METRIC_TABLE_INSERTED, 7);
	CHECK_TEXT(written(), "# HELP rate_limiter_table_inserted Keys that were given a slot.\n"
			      "# TYPE rate_limiter_table_inserted counter\nrate_limiter_table_inserted_total 7\n");
	begin(true);
	weir__metrics_one(&metrics, WEIR__METRIC_TABLE_CAPACITY, 9);
	CHECK_TEXT(written(), "# HELP rate_limiter_table_capacity_keys Keys that the table has room for.\n"
			      "# TYPE rate_limiter_table_capacity_keys gauge\n"
			      "# UNIT rate_limiter_table_capacity_keys keys\nrate_limiter_table_capacity_keys 9\n");
	begin(false);
	metrics.metric = WEIR__METRIC_BUILD;
	weir__metrics_add_word(&metrics, "version", "1", 1);
	CHECK_TEXT(written(), "rate_limiter_build_info{version=\"1\"} 1\n");
}

static void histograms_add_up(void)
{
	static const uint64_t counts[] = { 2, 0, 3 };
	const struct weir__metrics_histogram histograms = { counts, 3, 64000, 1500000 };

	begin(false);
	metrics.metric = WEIR__METRIC_WAIT_SECONDS;
	weir__metrics_add_histogram(&metrics, "a=\"b\"", 5, &histograms);
	CHECK_TEXT(
		written(),
		"rate_limiter_wait_duration_seconds_bucket{a=\"b\",le=\"0.000064\"} 2\n"
		"rate_limiter_wait_duration_seconds_bucket{a=\"b\",le=\"0.000128\"} 2\n"
		"rate_limiter_wait_duration_seconds_bucket{a=\"b\",le=\"+Inf\"} 5\n"
		"rate_limiter_wait_duration_seconds_sum{a=\"b\"} 0.0015\nrate_limiter_wait_duration_seconds_count{a=\"b\"} 5\n");
}

static bool ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Names end with their unit, and not with a suffix of the format. */
static void rows_are_sound(void)
{
	for (size_t i = 0; i < WEIR__METRICS_N; i++) {
		const struct weir__metric_row *const row = &weir__metric_rows[i];

		CHECK(ends_with(row->name, row->unit));
		CHECK(!ends_with(row->name, "_total") && !ends_with(row->name, "_info") &&
		      !ends_with(row->name, "_count"));
		CHECK(ends_with(row->help, ".") && strpbrk(row->help, "\n\\") == NULL);
		for (size_t j = 0; j < i; j++)
			CHECK(strcmp(row->name, weir__metric_rows[j].name) != 0);
	}
}

TESTS(TEST(numbers_are_decimal), TEST(labels_may_be_any_bytes), TEST(labels_are_bounded),
      TEST(heads_are_those_of_the_format), TEST(histograms_add_up), TEST(rows_are_sound))
