/* verdict_test.c: several verdicts joined into one. */
#include <weir/verdict.h>

#include "check.h"

static void one_denies_all(void)
{
	const struct weir_verdict verdicts[] = {
		{ .allowed = true, .limit = 9, .remaining = 8, .granted = 1, .reset_after = 70, .delay = 5 },
		{ .allowed = false, .limit = 3, .remaining = 1, .retry_after = 30, .reset_after = 30 },
		{ .allowed = false, .limit = 5, .remaining = 2, .retry_after = 20, .reset_after = 20 },
	};
	const struct weir_verdict joint = weir_verdict_join(verdicts, 3);

	CHECK(!joint.allowed);
	CHECK(!joint.never);
	CHECK_EQ(joint.limit, 3);
	CHECK_EQ(joint.remaining, 1);
	CHECK_EQ(joint.granted, 0);
	CHECK_EQ(joint.retry_after, 30);
	CHECK_EQ(joint.reset_after, 70);
	CHECK_EQ(joint.delay, 0);
}

static void one_never_makes_all_never(void)
{
	const struct weir_verdict verdicts[] = {
		{ .never = true, .limit = 9, .remaining = 8, .retry_after = WEIR_NEVER },
		{ .allowed = true, .limit = 3, .remaining = 1 },
	};

	const struct weir_verdict other_way_round[] = { verdicts[1], verdicts[0] };

	CHECK(weir_verdict_join(verdicts, 2).never);
	CHECK(weir_verdict_join(other_way_round, 2).never);
	CHECK(!weir_verdict_join(verdicts, 2).allowed);
}

static void all_allow(void)
{
	const struct weir_verdict verdicts[] = {
		{ .allowed = true, .limit = 9, .remaining = 3, .granted = 1, .delay = 5 },
		{ .allowed = true, .limit = 3, .remaining = 1, .granted = 7, .delay = 9 },
	};
	const struct weir_verdict joint = weir_verdict_join(verdicts, 2);

	CHECK(joint.allowed);
	CHECK_EQ(joint.granted, 7);
	CHECK_EQ(joint.delay, 9);
	CHECK(weir_verdict_join(verdicts, 1).remaining == 3);
}

TESTS(TEST(one_denies_all), TEST(one_never_makes_all_never), TEST(all_allow))
