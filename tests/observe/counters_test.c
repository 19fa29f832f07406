/* counters_test.c: how often unmatched requests are logged, and how many a line reports. */
#include "observe/counters.h"

#include "check.h"

static struct weir__counters_set *set;

static void count(uint32_t worker, int64_t n)
{
	weir__counters_add(&weir__counters_set_of(set, worker)->unmatched, n);
}

/* The number that a log line would report at this time; UINT64_MAX: no line. */
static uint64_t line_at(uint64_t now_s)
{
	uint64_t n = 99;

	return weir__counters_set_log_unmatched(set, now_s, &n) ? n : UINT64_MAX;
}

static void once_a_minute_for_all_workers(void)
{
	struct weir__counters_sum sum;

	set = weir__counters_set_new(2);
	count(0, 1);
	CHECK_EQ(line_at(1000), 1);
	count(0, 3);
	count(1, 4);
	CHECK_EQ(line_at(1000), UINT64_MAX);
	CHECK_EQ(line_at(1059), UINT64_MAX);
	CHECK_EQ(line_at(1060), 7);
	/* a worker whose clock is behind */
	CHECK_EQ(line_at(1059), UINT64_MAX);
	count(1, 1);
	CHECK_EQ(line_at(5000), 1);
	/* a clock that was set back is a new clock */
	count(1, 2);
	CHECK_EQ(line_at(100), 2);
	CHECK_EQ(line_at(101), UINT64_MAX);
	weir__counters_set_sum(set, &sum);
	CHECK_EQ(sum.unmatched, 11);
	CHECK_EQ(sum.unmatched_denied, 0);
	weir__counters_set_free(set);
}

TESTS(TEST(once_a_minute_for_all_workers))
