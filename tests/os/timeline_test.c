/* timeline_test.c: how the clock is adjusted. Ticks and wall clock are arguments. */
#include "os/timeline.h"

#include "check.h"

#define S(n) (UINT64_C(n) * 1000000000)
#define MS(n) (UINT64_C(n) * 1000000)

/* A counter of 2.5 GHz in step with the monotonic clock, and a wall clock with an offset. */
static struct weir__clock_sample sample_at(weir_ns monotonic, int64_t wall_offset)
{
	return (struct weir__clock_sample){ .ticks = 1000 + monotonic / 2 * 5,
					    .monotonic = monotonic,
					    .wall = S(1790000000) + monotonic + (uint64_t)wall_offset };
}

static const uint64_t true_rate = (uint64_t)(((weir__ticks_wide)2 << WEIR__RATE_SHIFT) / 5);

static void a_rate_from_two_samples(void)
{
	const struct weir__clock_sample a = sample_at(S(1), 0), b = sample_at(S(3), 0);
	struct weir__clock_sample slow = b;

	CHECK_EQ(weir__timeline_rate(&a, &b), true_rate);
	CHECK_EQ(weir__timeline_rate(&b, &a), 0);
	CHECK_EQ(weir__timeline_rate(&a, &a), 0);
	slow.ticks = a.ticks + 1000000000;
	CHECK_EQ(weir__timeline_rate(&a, &slow), 0); /* 2 ns a tick */
}

static void a_line_tells_the_time(void)
{
	const struct weir__clock_sample start = sample_at(S(1), 0);
	const struct weir__timeline line = weir__timeline_start(&start, true_rate);

	CHECK_EQ(weir__timeline_at(&line, start.ticks), start.wall);
	CHECK(S(1790000011) - weir__timeline_at(&line, sample_at(S(11), 0).ticks) < 10);
	CHECK_EQ(weir__timeline_at(&line, start.ticks - 1), start.wall); /* constant before its start */
	/* not read for an hour, and for years */
	CHECK(S(1790003601) - weir__timeline_at(&line, sample_at(S(3601), 0).ticks) < 10000);
}

struct run {
	struct weir__timeline line;
	struct weir__clock_sample last;
	weir_ns monotonic, newest;
};

static struct run begin(void)
{
	struct run run = { .monotonic = S(1) };

	run.last = sample_at(run.monotonic, 0);
	run.line = weir__timeline_start(&run.last, true_rate + true_rate / 10000); /* calibrated 100 ppm too fast */
	return run;
}

/* Lets 100 ms pass, reads by the old and the new line, and adjusts. */
static void go_on(struct run *run, int64_t wall_offset)
{
	struct weir__clock_sample sample;
	struct weir__timeline next;

	run->monotonic += MS(100);
	sample = sample_at(run->monotonic, wall_offset);
	next = weir__timeline_steer(&run->line, &run->last, &sample, 2500000);
	for (uint64_t ticks = sample.ticks; ticks < next.bend + 1000; ticks += 997) {
		/* Up to the bend some readers use the old line and some the new one. */
		const weir_ns by_new = weir__timeline_at(&next, ticks), by_old = weir__timeline_at(&run->line, ticks);

		CHECK(by_new >= run->newest);
		if (ticks < next.bend) {
			CHECK(by_new >= by_old);
			CHECK(by_new - by_old <= 2 || next.rate_before == 0);
		}
		run->newest = by_new;
	}
	run->line = next;
	run->last = sample;
}

static int64_t error_now(const struct run *run, int64_t wall_offset)
{
	const struct weir__clock_sample sample = sample_at(run->monotonic + MS(2), wall_offset);

	return (int64_t)(weir__timeline_at(&run->line, sample.ticks) - sample.wall);
}

static void a_wrong_rate_is_steered_away(void)
{
	struct run run = begin();

	for (int i = 0; i < 100; i++)
		go_on(&run, 0);
	CHECK(error_now(&run, 0) > -1000 && error_now(&run, 0) < 1000);
}

static void a_wall_clock_set_forward_a_little_is_slewed_to(void)
{
	struct run run = begin();
	weir_ns before;

	for (int i = 0; i < 100; i++)
		go_on(&run, 0);
	before = run.newest;
	go_on(&run, 900000000);
	CHECK(run.newest - before < MS(102));
	for (int i = 0; i < 10; i++)
		go_on(&run, 900000000);
	/* a second at no more than 500 ppm */
	CHECK(error_now(&run, 900000000) < -899000000 && error_now(&run, 900000000) > -900000000);
}

static void a_wall_clock_far_ahead_is_followed_at_once(void)
{
	struct run run = begin();

	for (int i = 0; i < 10; i++)
		go_on(&run, 0);
	go_on(&run, 3600000000000);
	CHECK(error_now(&run, 3600000000000) > -1000000 && error_now(&run, 3600000000000) < 1000000);
	for (int i = 0; i < 10; i++)
		go_on(&run, 3600000000000);
}

static void a_wall_clock_set_back_is_waited_for(void)
{
	struct run run = begin();
	weir_ns before;

	for (int i = 0; i < 100; i++)
		go_on(&run, 0);
	before = run.newest;
	for (int i = 0; i < 100; i++)
		go_on(&run, -3600000000000);
	/* ten seconds, 500 ppm slower */
	CHECK(run.newest - before < S(10) - 4900000 && run.newest - before > S(10) - 5100000);
}

static void a_counter_that_jumps_keeps_its_rate(void)
{
	struct run run = begin();
	struct weir__clock_sample sample;

	for (int i = 0; i < 100; i++)
		go_on(&run, 0);
	/* Suspended: ten seconds of ticks in which the monotonic clock stood still; then the counter starts over. */
	sample = sample_at(run.monotonic, 0);
	sample.ticks += 25000000000;
	sample.monotonic += MS(100);
	run.line = weir__timeline_steer(&run.line, &run.last, &sample, 2500000);
	CHECK(run.line.rate_after < true_rate + true_rate / 1000 && run.line.rate_after > true_rate - true_rate / 1000);
	run.last = sample;
	run.newest = weir__timeline_at(&run.line, run.line.bend + 2500000);
	sample.ticks = 5;
	sample.monotonic += MS(2);
	run.line = weir__timeline_steer(&run.line, &run.last, &sample, 2500000);
	CHECK(weir__timeline_at(&run.line, 6) >= run.newest);
	CHECK(run.line.rate_after < true_rate + true_rate / 1000 && run.line.rate_after > true_rate - true_rate / 1000);
}

/* Calibrated 100 ppm too fast and not read for ten seconds: the new line starts at the sample, with the rate measured
 * over that time. */
static void a_line_that_nobody_read_for_long_begins_anew(void)
{
	const struct run run = begin();
	const struct weir__clock_sample sample = sample_at(S(11), 0);
	const struct weir__timeline next = weir__timeline_restart(&run.line, &run.last, &sample, 250000000);

	CHECK_EQ(weir__timeline_at(&next, sample.ticks), sample.wall);
	CHECK_EQ(next.rate_after, true_rate);
	CHECK_EQ(weir__timeline_at(&next, sample.ticks - 1000), sample.wall); /* constant before its start */
}

/* The new line does not start before a time that the old line may have returned: it was in use for up to 100 ms. */
static void nor_does_it_go_back_then(void)
{
	const struct run run = begin();
	const struct weir__clock_sample sample = sample_at(S(11), -11000000000);
	const struct weir__timeline next = weir__timeline_restart(&run.line, &run.last, &sample, 250000000);

	CHECK_EQ(weir__timeline_at(&next, sample.ticks), weir__timeline_at(&run.line, run.last.ticks + 250000000));
	CHECK(weir__timeline_at(&next, sample.ticks) > sample.wall);
}

TESTS(TEST(a_rate_from_two_samples), TEST(a_line_tells_the_time), TEST(a_wrong_rate_is_steered_away),
      TEST(a_wall_clock_set_forward_a_little_is_slewed_to), TEST(a_wall_clock_far_ahead_is_followed_at_once),
      TEST(a_wall_clock_set_back_is_waited_for), TEST(a_counter_that_jumps_keeps_its_rate),
      TEST(a_line_that_nobody_read_for_long_begins_anew), TEST(nor_does_it_go_back_then))
