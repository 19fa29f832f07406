/* The order of arrivals: spreading over a second, durations, the reorder window, late lines, and long gaps. */
#include "replay/log_order.h"

#include <stdlib.h>

#include "check.h"

#define S UINT64_C(1000000000)
#define MS UINT64_C(1000000)

enum { LINES_MAX = 1000 };

static struct weir__log_line line_at(weir_ns at, bool is_whole_second, weir_ns duration)
{
	struct weir__log_line line = { .stamp = { .at = at, .is_whole_second = is_whole_second },
				       .has_stamp = true,
				       .has_duration = duration > 0,
				       .duration = duration,
				       .cost = 1 };

	line.values[0] = (struct weir__slice){ "value", 5 };
	return line;
}

static void add(struct weir__log_order *order, weir_ns at, bool is_whole_second, weir_ns duration, uint64_t number)
{
	const struct weir__log_line line = line_at(at, is_whole_second, duration);

	CHECK(weir__log_order_add(order, &line, 0, number));
}

/* Takes all that is ready, and checks the line numbers and arrivals. */
static size_t expect(struct weir__log_order *order, const uint64_t (*rows)[2], size_t n)
{
	const struct weir__log_record *const *records;
	size_t found = 0, some;

	while ((some = weir__log_order_take(order, 3, &records)) > 0)
		for (size_t i = 0; i < some; i++, found++) {
			if (found >= n)
				continue;
			CHECK_EQ(records[i]->line, rows[found][0]);
			CHECK_EQ(records[i]->arrival, rows[found][1]);
			CHECK(weir__slice_is(records[i]->values[0], "value"));
			CHECK(records[i]->values[1].at == NULL);
		}
	CHECK_EQ(found, n);
	return found;
}

/* Each value may be a line of the longest length, if several attributes are mapped from one field. */
static void long_values_of_many_attributes_fit(void)
{
	enum { LONG = WEIR__LOG_LINE_MAX - 1 };
	struct weir__log_order *const order = weir__log_order_new(WEIR__LOG_VALUES_MAX, 0, SIZE_MAX);
	const struct weir__log_record *const *records;
	struct weir__log_line line = line_at(5 * S, false, 0);
	char *const text = malloc(LONG);
	size_t n, found = 0;

	memset(text, 'a', LONG);
	add(order, 5 * S, false, 0, 1);
	for (size_t i = 0; i < WEIR__LOG_VALUES_MAX; i++)
		line.values[i] = (struct weir__slice){ text, LONG };
	CHECK(weir__log_order_add(order, &line, 0, 2));
	line.values[4].at = NULL;
	CHECK(weir__log_order_add(order, &line, 0, 3));
	add(order, 5 * S, false, 0, 4);
	CHECK(weir__log_order_end(order));
	while ((n = weir__log_order_take(order, 3, &records)) > 0)
		for (size_t i = 0; i < n; i++) {
			const struct weir__log_record *const record = records[i];
			const bool is_long = record->line == 2 || record->line == 3;

			CHECK_EQ(record->line, ++found);
			CHECK_EQ(record->values[0].n, is_long ? LONG : 5);
			CHECK(memcmp(record->values[0].at, is_long ? text : "value", is_long ? LONG : 5) == 0);
			CHECK(!is_long || memcmp(record->values[31].at, text, LONG) == 0);
		}
	CHECK_EQ(found, 4);
	weir__log_order_free(order);
	free(text);
}

static void lines_of_a_second_are_spread(void)
{
	struct weir__log_order *const order = weir__log_order_new(2, 0, SIZE_MAX);

	for (uint64_t i = 0; i < 3; i++)
		add(order, 5 * S, true, 0, i + 1);
	add(order, 6 * S, true, 0, 4);
	expect(order, (const uint64_t[][2]){ { 1, 5 * S }, { 2, 5 * S + 333333333 }, { 3, 5 * S + 666666666 } }, 3);
	CHECK(weir__log_order_end(order));
	expect(order, (const uint64_t[][2]){ { 4, 6 * S } }, 1);
	CHECK_EQ(weir__log_order_counts(order)->spread, 4);
	CHECK_EQ(weir__log_order_counts(order)->late, 0);
	weir__log_order_free(order);
}

static void durations_are_subtracted(void)
{
	struct weir__log_order *const order = weir__log_order_new(2, 10 * S, SIZE_MAX);

	add(order, 20 * S, false, 1, 1);
	add(order, 21 * S, false, 5 * S, 2); /* it began before the first */
	add(order, 22 * S, true, 500 * MS, 3);
	add(order, 22 * S, true, 0, 4); /* the second of two in its second */
	CHECK(weir__log_order_end(order));
	expect(order,
	       (const uint64_t[][2]){
		       { 2, 16 * S }, { 1, 20 * S - 1 }, { 3, 21 * S + 500 * MS }, { 4, 22 * S + 500 * MS } },
	       4);
	CHECK_EQ(weir__log_order_counts(order)->late, 0);
	weir__log_order_free(order);
}

/* A duration longer than the time since 1970 ends there. */
static void a_duration_may_be_too_long(void)
{
	struct weir__log_order *const order = weir__log_order_new(2, 0, SIZE_MAX);

	add(order, 5 * S, false, UINT64_MAX, 1);
	CHECK(weir__log_order_end(order));
	expect(order, (const uint64_t[][2]){ { 1, 0 } }, 1);
	weir__log_order_free(order);
}

static void lines_are_sorted_within_the_window(void)
{
	struct weir__log_order *const order = weir__log_order_new(2, 3 * S, SIZE_MAX);

	add(order, 10 * S + 1, false, 0, 1);
	add(order, 8 * S, false, 0, 2);
	add(order, 10 * S, false, 0, 3);
	add(order, 13 * S, false, 0, 4);
	expect(order, (const uint64_t[][2]){ { 2, 8 * S } }, 1);
	add(order, 14 * S, false, 0, 5);
	expect(order, (const uint64_t[][2]){ { 3, 10 * S }, { 1, 10 * S + 1 } }, 2);
	add(order, 9 * S, false, 0, 6); /* one second beyond the window */
	CHECK(weir__log_order_end(order));
	expect(order, (const uint64_t[][2]){ { 6, 10 * S + 1 }, { 4, 13 * S }, { 5, 14 * S } }, 3);
	CHECK_EQ(weir__log_order_counts(order)->late, 1);
	CHECK_EQ(weir__log_order_counts(order)->latest_late, S + 1);
	weir__log_order_free(order);
}

/* From 1970 to 2262 and back: no loop over the seconds between. */
static void gaps_may_be_centuries(void)
{
	struct weir__log_order *const order = weir__log_order_new(2, 10 * S, SIZE_MAX);

	add(order, 0, true, 0, 1);
	add(order, WEIR__LOG_TIME_END - S, true, 1, 2);
	add(order, 5 * S, true, 0, 3);
	CHECK(weir__log_order_end(order));
	expect(order, (const uint64_t[][2]){ { 1, 0 }, { 3, 5 * S }, { 2, WEIR__LOG_TIME_END - S - 1 } }, 3);
	weir__log_order_free(order);
}

/* With durations, arrivals wait in buckets of their own. A gap in the log must not stop them. */
static void a_gap_after_a_duration(void)
{
	struct weir__log_order *const order = weir__log_order_new(2, 10 * S, SIZE_MAX);

	add(order, 100 * S, true, 2 * S, 1);
	add(order, 150 * S, true, 0, 2);
	add(order, 900 * S, true, 7 * S, 3);
	add(order, 901 * S, true, 0, 4);
	CHECK(weir__log_order_end(order));
	expect(order, (const uint64_t[][2]){ { 1, 98 * S }, { 2, 150 * S }, { 3, 893 * S }, { 4, 901 * S } }, 4);
	CHECK_EQ(weir__log_order_counts(order)->late, 0);
	weir__log_order_free(order);
}

/* What is held is limited: the oldest second becomes ready early, and what follows of it is late. */
static void memory_is_bounded(void)
{
	enum { MANY = 200000 };
	struct weir__log_order *const order = weir__log_order_new(2, 10 * S, 1 << 20);
	const struct weir__log_record *const *records;
	uint64_t taken = 0;
	weir_ns last = 0;
	size_t n;

	for (uint64_t i = 0; i < MANY; i++) {
		add(order, 100 * S, true, i % 3 * S, i + 1);
		while ((n = weir__log_order_take(order, 64, &records)) > 0)
			for (size_t j = 0; j < n; j++, taken++) {
				CHECK(records[j]->arrival >= last);
				last = records[j]->arrival;
			}
	}
	CHECK(taken > MANY / 2);
	CHECK(weir__log_order_counts(order)->released_early > 0);
	CHECK(weir__log_order_end(order));
	while ((n = weir__log_order_take(order, 64, &records)) > 0)
		taken += n;
	CHECK_EQ(taken, MANY);
	weir__log_order_free(order);
}

/* Random lines: the records are the same as by sorting all of them. */
static int compare(const void *a_, const void *b_)
{
	const uint64_t *const a = a_, *const b = b_;

	return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] < b[1] ? -1 : a[1] > b[1];
}

static void random_lines_are_sorted(void)
{
	uint64_t state = 88172645463325252u;

	for (int round = 0; round < 100; round++) {
		struct weir__log_order *const order = weir__log_order_new(2, 10 * S, SIZE_MAX);
		static uint64_t expected[LINES_MAX][2], rows[LINES_MAX][2];
		weir_ns at = 50 * S;

		for (uint64_t i = 0; i < LINES_MAX; i++) {
			weir_ns stamp, duration;

			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			at += state % 100 == 0 ? state % (40 * S) : state % (20 * MS);
			stamp = at - (state >> 20) % (3 * S);
			duration = (state >> 30) % 4 == 0 ? (state >> 10) % (5 * S) : 0;
			add(order, stamp, false, duration, i + 1);
			expected[i][0] = stamp - duration;
			expected[i][1] = i + 1;
		}
		CHECK(weir__log_order_end(order));
		qsort(expected, LINES_MAX, sizeof(expected[0]), compare);
		for (size_t i = 0; i < LINES_MAX; i++) {
			rows[i][0] = expected[i][1];
			rows[i][1] = expected[i][0];
		}
		expect(order, rows, LINES_MAX);
		CHECK_EQ(weir__log_order_counts(order)->late, 0);
		weir__log_order_free(order);
	}
}

TESTS(TEST(long_values_of_many_attributes_fit), TEST(lines_of_a_second_are_spread), TEST(durations_are_subtracted),
      TEST(a_duration_may_be_too_long), TEST(lines_are_sorted_within_the_window), TEST(gaps_may_be_centuries),
      TEST(a_gap_after_a_duration), TEST(memory_is_bounded), TEST(random_lines_are_sorted))
