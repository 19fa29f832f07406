/* clock_anchor_test.c: the anchor of a shared clock, which any process may move. All clocks are arguments. */
#include "os/clock.h"

#include "check.h"

#define MS(n) (UINT64_C(n) * 1000000)
#define S(n) (UINT64_C(n) * 1000000000)

static const weir_ns begin = S(5000), offset = S(1790000000);

static struct weir__clock_anchor anchor_at_begin(void)
{
	struct weir__clock_anchor anchor;

	weir__clock_anchor_begin(&anchor, begin, begin + offset);
	return anchor;
}

static weir_ns read_at(struct weir__clock_anchor *anchor, weir_ns monotonic)
{
	return monotonic + weir__clock_anchor_at(anchor, monotonic);
}

/* Reads and moves the anchor every 100 ms; the wall clock is `ahead` from `from` on. Returns the last reading. */
static weir_ns run(struct weir__clock_anchor *anchor, weir_ns from, weir_ns to, uint64_t ahead)
{
	weir_ns last = 0;

	for (weir_ns at = from; at <= to; at += MS(1)) {
		const weir_ns now = read_at(anchor, at);

		CHECK(now >= last);
		last = now;
		if ((at - from) % MS(100) == 0)
			weir__clock_anchor_move(anchor, at, at + ahead);
	}
	return last;
}

static void it_is_the_time_of_day(void)
{
	struct weir__clock_anchor anchor = anchor_at_begin();

	CHECK_EQ(read_at(&anchor, begin), begin + offset);
	CHECK_EQ(read_at(&anchor, begin + S(3600)), begin + S(3600) + offset);
	CHECK_EQ(run(&anchor, begin, begin + S(10), offset), begin + S(10) + offset);
}

static void small_errors_are_taken_out_gently(void)
{
	struct weir__clock_anchor anchor = anchor_at_begin();
	const weir_ns after_1s = run(&anchor, begin, begin + S(1), offset + MS(100));
	weir_ns late;

	CHECK(after_1s > begin + S(1) + offset);
	CHECK(after_1s <= begin + S(1) + offset + 500000); /* 500 ppm */
	late = run(&anchor, begin + S(1), begin + S(300), offset + MS(100));
	CHECK(late > begin + S(300) + offset + MS(100) - 2000 && late < begin + S(300) + offset + MS(100) + 2000);
}

static void a_wall_clock_set_back_slows_it_down(void)
{
	struct weir__clock_anchor anchor = anchor_at_begin();
	const weir_ns after_10s = run(&anchor, begin, begin + S(10), offset - S(3600));

	CHECK(after_10s >= begin + S(10) + offset - 5000000);
	CHECK(after_10s < begin + S(10) + offset);
}

static void a_rate_that_nobody_ends_ends_by_itself(void)
{
	struct weir__clock_anchor anchor = anchor_at_begin();

	(void)run(&anchor, begin, begin + MS(300), offset + MS(100));
	CHECK(read_at(&anchor, begin + S(86400)) <= begin + S(86400) + offset + 1500000);
}

static void a_jump_is_announced_and_happens_for_all_at_once(void)
{
	struct weir__clock_anchor anchor = anchor_at_begin();
	weir_ns before, at;

	weir__clock_anchor_move(&anchor, begin + MS(100), begin + MS(100) + offset + S(3600));
	for (at = begin + MS(100); at < begin + MS(300); at += MS(1)) { /* no reader jumps for 200 ms */
		before = read_at(&anchor, at);
		CHECK_EQ(before, at + offset);
	}
	CHECK_EQ(read_at(&anchor, begin + MS(300)), begin + MS(300) + offset + S(3600));
	/* A reader whose counter is a little behind still reads the old time. */
	CHECK_EQ(read_at(&anchor, begin + MS(299)), begin + MS(299) + offset);
}

static void one_who_comes_too_late_changes_nothing(void)
{
	struct weir__clock_anchor anchor = anchor_at_begin();
	struct weir_state next;

	weir__clock_anchor_move(&anchor, begin + MS(100), begin + MS(100) + offset + 1000);
	next = anchor.next.state;
	weir__clock_anchor_move(&anchor, begin + MS(110), begin + MS(110) + offset + S(9));
	CHECK_EQ(anchor.next.state.hi, next.hi);
	CHECK_EQ(anchor.next.state.lo, next.lo);
}

TESTS(TEST(it_is_the_time_of_day), TEST(small_errors_are_taken_out_gently), TEST(a_wall_clock_set_back_slows_it_down),
      TEST(a_rate_that_nobody_ends_ends_by_itself), TEST(a_jump_is_announced_and_happens_for_all_at_once),
      TEST(one_who_comes_too_late_changes_nothing))
