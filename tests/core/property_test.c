/* property_test.c: properties that hold for every algorithm on any trace. Limits, times and costs are random; the seed
 * is fixed. */
#include "rows.h"

enum { TRACES = 2000, STEPS = 200 };

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint64_t below(uint64_t n)
{
	return any() % n;
}

static struct weir_limit any_limit(void)
{
	struct weir_limit limit = weir_limit_of((enum weir_algorithm)below(5), 1 + below(40), 1 + below(5000));

	if (limit.algorithm <= WEIR_LEAKY_BUCKET)
		limit.burst = 1 + below(60);
	limit.refill_interval = limit.algorithm == WEIR_TOKEN_BUCKET && below(2);
	limit.shape = limit.algorithm == WEIR_LEAKY_BUCKET && below(2);
	limit.align_first = limit.algorithm == WEIR_FIXED_WINDOW && below(2);
	if (limit.algorithm == WEIR_SLIDING_COUNTER && below(2)) {
		limit.segments = 2 + below(9);
		limit.period *= limit.segments;
	}
	return limit;
}

struct subject {
	struct weir_limit limit;
	struct weir_plan plan;
	size_t size;
	void *state, *copy;
	weir_ns now;
};

static void begin(struct subject *subject)
{
	subject->limit = any_limit();
	CHECK_EQ(weir_plan_compile(&subject->limit, &subject->plan, NULL), WEIR_OK);
	subject->size = weir_plan_state_size(&subject->plan);
	subject->state = fresh_state(&subject->plan);
	subject->copy = fresh_state(&subject->plan);
	subject->now = UINT64_C(1790000000000000000) + below(1000000);
}

static void end(struct subject *subject)
{
	free(subject->state);
	free(subject->copy);
}

static void save(struct subject *subject)
{
	memcpy(subject->copy, subject->state, subject->size);
}

static bool is_as_saved(const struct subject *subject)
{
	return memcmp(subject->copy, subject->state, subject->size) == 0;
}

static void go_on(struct subject *subject)
{
	subject->now += below(4) ? below(subject->limit.period / 4 + 2) : below(3 * subject->limit.period);
}

static void a_denial_changes_nothing_and_retry_after_is_exact(void)
{
	unsigned denied = 0;

	for (int trace = 0; trace < TRACES; trace++) {
		struct subject s;

		begin(&s);
		for (int step = 0; step < STEPS; step++, go_on(&s)) {
			const uint64_t cost = below(s.plan.most + 2);
			struct weir_verdict v;

			save(&s);
			v = weir_step_take(&s.plan, s.state, s.now, cost);
			if (v.allowed)
				continue;
			CHECK(is_as_saved(&s));
			CHECK_EQ(v.never, cost > s.plan.most);
			if (v.never)
				continue;
			denied++;
			CHECK(v.retry_after > 0);
			CHECK(!weir_step_peek(&s.plan, s.state, s.now + v.retry_after - 1, cost).allowed);
			CHECK(weir_step_peek(&s.plan, s.state, s.now + v.retry_after, cost).allowed);
			CHECK(is_as_saved(&s));
		}
		end(&s);
	}
	CHECK(denied > TRACES);
}

static void at_reset_after_it_answers_as_if_fresh(void)
{
	for (int trace = 0; trace < TRACES; trace++) {
		struct subject s;

		begin(&s);
		for (int step = 0; step < STEPS; step++, go_on(&s)) {
			const struct weir_verdict v = weir_step_take(&s.plan, s.state, s.now, below(s.plan.most + 1));
			const weir_ns then = s.now + v.reset_after;

			CHECK_EQ(weir_step_peek(&s.plan, s.state, then, 0).remaining, s.plan.most);
			CHECK_EQ(weir_step_peek(&s.plan, s.state, then, 0).reset_after, 0);
			if (v.reset_after > 1)
				CHECK(weir_step_peek(&s.plan, s.state, then - 1, 0).reset_after > 0);
		}
		end(&s);
	}
}

/* A key that is full again may be forgotten at any time: no later verdict differs. */
static void forgetting_a_fresh_key_changes_no_answer(void)
{
	for (int trace = 0; trace < TRACES; trace++) {
		struct subject s;

		begin(&s);
		for (int step = 0; step < STEPS; step++, go_on(&s)) {
			const uint64_t cost = below(s.plan.most + 1);
			struct weir_verdict kept, forgotten;

			if (weir_step_peek(&s.plan, s.state, s.now, 0).reset_after == 0)
				memset(s.copy, 0, s.size);
			kept = weir_step_take(&s.plan, s.state, s.now, cost);
			forgotten = weir_step_take(&s.plan, s.copy, s.now, cost);
			CHECK(is_same_verdict(&kept, &forgotten));
			save(&s);
		}
		end(&s);
	}
}

/* The most that may be allowed in an interval of this length, both ends included. */
static uint64_t most_admitted(const struct weir_limit *limit, weir_ns duration)
{
	const uint64_t count = limit->count, periods = duration / limit->period;

	switch (limit->algorithm) {
	case WEIR_TOKEN_BUCKET:
		if (limit->refill_interval)
			return limit->burst + count * (periods + 1);
		return limit->burst + count * duration / limit->period;
	case WEIR_LEAKY_BUCKET:
		return limit->burst + count * duration / limit->period;
	case WEIR_FIXED_WINDOW:
		return count * (periods + 2);
	default:
		return count * (periods + 1) + (limit->algorithm == WEIR_SLIDING_COUNTER ? count : 0);
	}
}

/* The clock steps back by up to `swing`. A request allowed then counts at the time of the newest one before it. */
static void check_every_interval(weir_ns swing)
{
	for (int trace = 0; trace < TRACES; trace++) {
		weir_ns times[STEPS];
		uint64_t costs[STEPS];
		size_t n = 0;
		struct subject s;

		begin(&s);
		for (int step = 0; step < STEPS; step++, go_on(&s)) {
			const uint64_t cost = 1 + below(s.plan.most);

			const weir_ns now = below(2) ? s.now : s.now - below(swing + 1);

			if (weir_step_allow(&s.plan, s.state, now, cost)) {
				times[n] = n > 0 && times[n - 1] > now ? times[n - 1] : now;
				costs[n++] = cost;
			}
		}
		for (size_t from = 0; from < n; from++) {
			uint64_t sum = 0;

			for (size_t to = from; to < n; to++) {
				sum += costs[to];
				CHECK(sum <= most_admitted(&s.limit, times[to] - times[from]));
			}
		}
		end(&s);
	}
}

static void in_every_interval_no_more_than_burst_and_rate_admit(void)
{
	check_every_interval(0);
}

static void nor_on_a_clock_that_swings_by_a_minute(void)
{
	check_every_interval(100);
	check_every_interval(10000);
	check_every_interval(S(60));
}

static void the_largest_numbers_saturate(void)
{
	static const uint64_t ends[] = { 0, 1, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX };

	for (int trace = 0; trace < 20000; trace++) {
		struct weir_limit limit = any_limit();
		struct weir_plan plan;
		void *state;

		if (limit.algorithm != WEIR_SLIDING_LOG && below(2))
			limit.count = ends[1 + below(4)];
		if (below(2))
			limit.period = ends[1 + below(4)];
		if (limit.segments > 1 || below(2))
			limit.segments = limit.period == UINT64_MAX && limit.segments > 1 ? 3 : 1;
		limit.burst = below(2) ? ends[1 + below(4)] : limit.burst;
		if (weir_plan_compile(&limit, &plan, NULL) != WEIR_OK)
			continue;
		state = fresh_state(&plan);
		for (int step = 0; step < 20; step++) {
			const weir_ns now = below(2) ? ends[below(5)] : any();
			const uint64_t cost = below(2) ? ends[below(5)] : below(4);
			const struct weir_verdict before = weir_step_peek(&plan, state, now, cost);
			const struct weir_verdict v = weir_step_take(&plan, state, now, cost);

			CHECK_EQ(v.allowed, before.allowed);
			CHECK(v.remaining <= plan.most);
			CHECK(!v.allowed || v.remaining == before.remaining - cost || cost == 0);
			CHECK(v.allowed || v.remaining < cost);
		}
		free(state);
	}
}

TESTS(TEST(a_denial_changes_nothing_and_retry_after_is_exact), TEST(at_reset_after_it_answers_as_if_fresh),
      TEST(forgetting_a_fresh_key_changes_no_answer), TEST(in_every_interval_no_more_than_burst_and_rate_admit),
      TEST(nor_on_a_clock_that_swings_by_a_minute), TEST(the_largest_numbers_saturate))
