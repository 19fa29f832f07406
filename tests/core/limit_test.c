/* limit_test.c: limits printed as text. */
#include "rows.h"

static void check_prints(struct weir_limit limit, const char *expected)
{
	char text[WEIR_LIMIT_TEXT_MAX];
	const size_t length = weir_limit_print(&limit, text);

	CHECK_TEXT(text, expected);
	CHECK_EQ(length, strlen(expected));
}

static void every_option_prints_once(void)
{
	struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, 100, S(60));

	check_prints(limit, "100/min");
	limit.burst = 20;
	check_prints(limit, "100/min burst 20");
	limit.refill_interval = true;
	check_prints(limit, "100/min burst 20 refill interval");
	limit = weir_limit_of(WEIR_LEAKY_BUCKET, 5, S(1));
	check_prints(limit, "5/s leaky");
	limit.shape = true;
	check_prints(limit, "5/s leaky queue 5");
	limit = weir_limit_of(WEIR_FIXED_WINDOW, 5, S(1));
	limit.align_first = limit.count_all = true;
	limit.burst = 7; /* not a window's option */
	check_prints(limit, "5/s fixed_window align first count all");
	limit = weir_limit_of(WEIR_SLIDING_COUNTER, 5, S(60));
	limit.segments = 6;
	check_prints(limit, "5/min sliding_counter segments 6");
}

static void periods_print_in_the_largest_unit_that_divides(void)
{
	check_prints(weir_limit_of(WEIR_TOKEN_BUCKET, 1, S(86400)), "1/day");
	check_prints(weir_limit_of(WEIR_TOKEN_BUCKET, 1, S(7200)), "1/2hour");
	check_prints(weir_limit_of(WEIR_TOKEN_BUCKET, 1, S(90)), "1/90s");
	check_prints(weir_limit_of(WEIR_TOKEN_BUCKET, 1, MS(250)), "1/250ms");
	check_prints(weir_limit_of(WEIR_TOKEN_BUCKET, 1, US(1500)), "1/1500us");
	check_prints(weir_limit_of(WEIR_TOKEN_BUCKET, 1, 1), "1/ns");
	check_prints(weir_limit_of(WEIR_TOKEN_BUCKET, UINT64_MAX, UINT64_MAX),
		     "18446744073709551615/18446744073709551615ns");
}

static void the_longest_text_fits(void)
{
	struct weir_limit limit = weir_limit_of(WEIR_SLIDING_COUNTER, UINT64_MAX, UINT64_MAX);
	char text[WEIR_LIMIT_TEXT_MAX];

	limit.segments = UINT64_MAX;
	limit.count_all = true;
	CHECK_EQ(weir_limit_print(&limit, text),
		 strlen("18446744073709551615/18446744073709551615ns sliding_counter count all "
			"segments 18446744073709551615"));
}

static void algorithms_have_names(void)
{
	CHECK_TEXT(weir_algorithm_name(WEIR_TOKEN_BUCKET), "token_bucket");
	CHECK_TEXT(weir_algorithm_name(WEIR_LEAKY_BUCKET), "leaky_bucket");
	CHECK_TEXT(weir_algorithm_name(WEIR_SLIDING_COUNTER), "sliding_counter");
}

TESTS(TEST(every_option_prints_once), TEST(periods_print_in_the_largest_unit_that_divides), TEST(the_longest_text_fits),
      TEST(algorithms_have_names))
