/* spin_test.c: when a loop spins and when it sleeps. Times are arguments. */
#include "os/spin.h"

#include "check.h"

enum { MOST = 50000, SHORT = 10000, LONG = 60000 };

static void note(struct weir__spin *spin, int times, uint64_t waited_ns, uint64_t now)
{
	for (int i = 0; i < times; i++)
		weir__spin_note(spin, waited_ns, now);
}

static struct weir__spin awake(void)
{
	struct weir__spin spin = { .most_ns = MOST };

	note(&spin, WEIR__SPIN_STREAK, SHORT, 0);
	return spin;
}

static void it_sleeps_at_first(void)
{
	const struct weir__spin spin = { .most_ns = MOST };

	CHECK(!weir__spin_is_on(&spin));
}

static void short_sleeps_in_a_row_begin_it(void)
{
	struct weir__spin spin = { .most_ns = MOST };

	note(&spin, WEIR__SPIN_STREAK - 1, MOST, 0);
	CHECK(!weir__spin_is_on(&spin));
	note(&spin, 1, LONG, 0); /* a long one breaks the row */
	note(&spin, WEIR__SPIN_STREAK - 1, MOST, 0);
	CHECK(!weir__spin_is_on(&spin));
	note(&spin, 1, MOST, 0);
	CHECK(weir__spin_is_on(&spin));
}

static void with_0_it_never_begins(void)
{
	struct weir__spin spin = { .most_ns = 0 };

	note(&spin, 1000, 0, 0);
	CHECK(!weir__spin_is_on(&spin));
}

static void a_first_one_in_vain_ends_it(void)
{
	struct weir__spin spin = awake();

	note(&spin, 1, LONG, 0);
	CHECK(!weir__spin_is_on(&spin));
}

/* Spinning continues while at most one in five waits is in vain. */
static void it_lasts_while_it_pays(void)
{
	struct weir__spin spin = awake();

	for (int i = 0; i < 1000; i++) {
		note(&spin, WEIR__SPIN_TRUST, SHORT, 0);
		note(&spin, 1, LONG, 0);
	}
	CHECK(weir__spin_is_on(&spin));
	for (int i = 0; i < 100 && weir__spin_is_on(&spin); i++) {
		note(&spin, WEIR__SPIN_TRUST - 1, SHORT, 0);
		note(&spin, 1, LONG, 0);
	}
	CHECK(!weir__spin_is_on(&spin));
}

static void it_rests_before_it_begins_again(void)
{
	struct weir__spin spin = awake();

	note(&spin, 1, LONG, 7);
	note(&spin, 100, SHORT, 7 + WEIR__SPIN_REST_LEAST_NS - 1);
	CHECK(!weir__spin_is_on(&spin));
	note(&spin, 1, SHORT, 7 + WEIR__SPIN_REST_LEAST_NS);
	CHECK(weir__spin_is_on(&spin));
}

/* How long spinning pauses after this many failed attempts in a row. */
static uint64_t rest_after(struct weir__spin *spin, int tries, uint64_t *now)
{
	for (int i = 0; i < tries; i++) {
		note(spin, WEIR__SPIN_STREAK, SHORT, *now += WEIR__SPIN_REST_MOST_NS);
		CHECK(weir__spin_is_on(spin));
		note(spin, 1, LONG, *now);
		CHECK(!weir__spin_is_on(spin));
	}
	return spin->rests_until - *now;
}

/* Notes waits until spinning ends. Returns the pause. */
static uint64_t rest_of(struct weir__spin *spin, uint64_t waited_ns, uint64_t now)
{
	while (weir__spin_is_on(spin))
		note(spin, 1, waited_ns, now);
	return spin->rests_until - now;
}

static void rests_double_and_shrink_slowly_while_it_pays(void)
{
	struct weir__spin spin = { .most_ns = MOST };
	uint64_t now = 0;

	CHECK_EQ(rest_after(&spin, 1, &now), WEIR__SPIN_REST_LEAST_NS);
	CHECK_EQ(rest_after(&spin, 1, &now), 2 * WEIR__SPIN_REST_LEAST_NS);
	CHECK_EQ(rest_after(&spin, 2, &now), 8 * WEIR__SPIN_REST_LEAST_NS);
	CHECK_EQ(rest_after(&spin, 100, &now), WEIR__SPIN_REST_MOST_NS);
	note(&spin, WEIR__SPIN_STREAK + WEIR__SPIN_TRUST_MAX + 100, SHORT, now += WEIR__SPIN_REST_MOST_NS);
	CHECK_EQ(rest_of(&spin, LONG, now), WEIR__SPIN_REST_MOST_NS);
	note(&spin, WEIR__SPIN_STREAK + WEIR__SPIN_TRUST_MAX + 3000, SHORT, now += WEIR__SPIN_REST_MOST_NS);
	CHECK_EQ(rest_of(&spin, LONG, now), WEIR__SPIN_REST_LEAST_NS);
}

/* A wait that was interrupted by another thread's need for the processor counts as in vain, however short. */
static void it_ends_where_others_want_the_processor(void)
{
	struct weir__spin spin = awake();

	CHECK_EQ(rest_of(&spin, WEIR__SPIN_IN_VAIN, 0), WEIR__SPIN_REST_LEAST_NS);
}

TESTS(TEST(it_sleeps_at_first), TEST(short_sleeps_in_a_row_begin_it), TEST(with_0_it_never_begins),
      TEST(a_first_one_in_vain_ends_it), TEST(it_lasts_while_it_pays), TEST(it_rests_before_it_begins_again),
      TEST(rests_double_and_shrink_slowly_while_it_pays), TEST(it_ends_where_others_want_the_processor))
