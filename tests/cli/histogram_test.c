/* histogram_test.c: percentiles of known numbers. */
#include "cli/histogram.h"

#include <string.h>

#include "check.h"

static struct weir__histogram histogram;

static void an_empty_one_has_nothing(void)
{
	memset(&histogram, 0, sizeof(histogram));
	CHECK_EQ(weir__histogram_at(&histogram, 500), 0);
	CHECK_EQ(weir__histogram_at(&histogram, 1000), 0);
}

static void small_numbers_are_exact(void)
{
	memset(&histogram, 0, sizeof(histogram));
	for (uint64_t i = 1; i <= 200; i++)
		weir__histogram_add(&histogram, i);
	CHECK_EQ(histogram.n, 200);
	CHECK_EQ(weir__histogram_at(&histogram, 0), 1);
	CHECK_EQ(weir__histogram_at(&histogram, 500), 100);
	CHECK_EQ(weir__histogram_at(&histogram, 990), 198);
	CHECK_EQ(weir__histogram_at(&histogram, 999), 200); /* rank 199.8, rounded up */
	CHECK_EQ(weir__histogram_at(&histogram, 1000), 200);
}

static void the_most_is_exact(void)
{
	static const uint64_t rows[] = { 0, 1, 255, 256, 257, 1000000007, UINT64_MAX - 1, UINT64_MAX };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(&histogram, 0, sizeof(histogram));
		weir__histogram_add(&histogram, rows[i]);
		CHECK_EQ(weir__histogram_at(&histogram, 1000), rows[i]);
		CHECK_EQ(weir__histogram_at(&histogram, 1), rows[i]);
	}
}

/* The larger number keeps the maximum from hiding how wide a bin is. */
static void large_numbers_are_at_most_a_128th_too_high(void)
{
	for (unsigned bit = 0; bit < 63; bit++)
		for (int off = -1; off <= 1; off++) {
			const uint64_t number = (UINT64_C(1) << bit) + (uint64_t)(int64_t)off;
			uint64_t told;

			memset(&histogram, 0, sizeof(histogram));
			weir__histogram_add(&histogram, number);
			weir__histogram_add(&histogram, UINT64_MAX);
			told = weir__histogram_at(&histogram, 500);
			CHECK(told >= number);
			CHECK(told - number <= number / 128);
		}
}

TESTS(TEST(an_empty_one_has_nothing), TEST(small_numbers_are_exact), TEST(the_most_is_exact),
      TEST(large_numbers_are_at_most_a_128th_too_high))
