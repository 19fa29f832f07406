/* Conditions: what is read, what is refused, and exact comparisons at the boundary. */
#include "replay/fail_if.h"

#include "check.h"

static const struct {
	const char *text;
	uint64_t value, whole;
	bool holds;
} rows[] = {
	{ "denied_clients > 0.1%", 1, 1000, false },
	{ "denied_clients > 0.1%", 1, 999, true },
	{ "denied_clients>=0.1%", 1, 1000, true },
	{ "denied_clients > 0.1 %", 1, 1000, false },
	{ "denied >= 100%", UINT64_MAX, UINT64_MAX, true },
	{ "denied > 99.999999%", UINT64_MAX, UINT64_MAX, true },
	{ "denied > 0", 0, 0, false },
	{ "denied > 0%", 0, 0, false },
	{ "denied = 5", 5, 9, true },
	{ "denied == 5", 6, 9, false },
	{ "denied != 5", 6, 9, true },
	{ "requests < 1000", 999, 0, true },
	{ "requests <= 1000", 1001, 0, false },
	{ "longest_wait > 10s", UINT64_C(10000000000), 0, false },
	{ "longest_wait > 10s", UINT64_C(10000000001), 0, true },
	{ "longest_wait > 1.5 ms", UINT64_C(1500001), 0, true },
	{ "longest_wait[a b] >= 1hour", UINT64_C(3600000000000), 0, true },
	{ "denied[x] > 2", 3, 0, true },
	{ "newly_denied > 0", 1, 2, true },
};

static void comparisons_are_exact(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__fail_if fail_if = { 0 };
		struct weir_message why;

		CHECK_EQ(weir__fail_if_add(&fail_if, rows[i].text, &why), WEIR_OK);
		CHECK_EQ(fail_if.n, 1);
		if (weir__fail_holds(&fail_if.of[0], rows[i].value, rows[i].whole) != rows[i].holds)
			CHECK_TEXT(rows[i].text, rows[i].holds ? "true" : "false");
	}
}

static void comparisons_are_joined(void)
{
	struct weir__fail_if fail_if = { 0 };
	struct weir_message why;

	CHECK_EQ(weir__fail_if_add(&fail_if, "denied > 1% or  longest_wait[per-ip] > 10s or evicted>0 ", &why),
		 WEIR_OK);
	CHECK_EQ(weir__fail_if_add(&fail_if, "newly_denied > 5", &why), WEIR_OK);
	CHECK_EQ(fail_if.n, 4);
	CHECK(weir__slice_is(fail_if.of[1].limit, "per-ip"));
	CHECK(weir__slice_is(fail_if.of[1].text, "longest_wait[per-ip] > 10s"));
	CHECK(weir__slice_is(fail_if.of[2].text, "evicted>0"));
	CHECK(weir__fail_needs_old(&fail_if.of[3]) && !weir__fail_needs_old(&fail_if.of[0]));
}

static void what_is_wrong_is_named(void)
{
	static const struct {
		const char *text, *why;
		size_t at;
	} wrong[] = {
		{ "", "expected a metric, as in denied_clients > 0.1%", 0 },
		{ "denied_cleints > 1", "unknown metric \"denied_cleints\"; did you mean denied_clients?", 0 },
		{ "denied", "expected one of > >= < <= == !=", 6 },
		{ "denied => 1", "expected one of > >= < <= == !=", 7 },
		{ "denied > ", "expected a number, as in denied_clients > 0.1%", 9 },
		{ "denied > -1", "expected a number, as in denied_clients > 0.1%", 9 },
		{ "denied > 1.", "expected digits behind the point", 11 },
		{ "denied > 1000000000000000", "a number has at most 12 digits, and 6 behind the point", 25 },
		{ "denied > 1s", "expected `or` and another comparison, or the end", 10 },
		{ "denied > 1 and evicted > 0", "expected `or` and another comparison, or the end", 11 },
		{ "denied > 1 or ", "expected a metric, as in denied_clients > 0.1%", 14 },
		{ "longest_wait > 10",
		  "\"longest_wait\" is a duration; use ns, us, ms, s, min, hour or day, as in 10s or 5min", 17 },
		{ "longest_wait > 900000000000day", "the duration is longer than 500 years", 27 },
		{ "requests > 5%", "percentages are not possible for \"requests\"; use a number", 12 },
		{ "denied[x > 5", "expected ] behind the name of the limit", 6 },
		{ "clients[x] > 5", "single limits do not have the metric \"clients\"; leave out the brackets", 7 },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct weir__fail_if fail_if = { 0 };
		struct weir_message why = { 0 };

		CHECK(weir__fail_if_add(&fail_if, wrong[i].text, &why) == WEIR_ERR_SYNTAX);
		CHECK_TEXT(why.text, wrong[i].why);
		CHECK_EQ(why.at, wrong[i].at);
	}
}

static void their_number_is_limited(void)
{
	struct weir__fail_if fail_if = { 0 };
	struct weir_message why;

	for (int i = 0; i < WEIR__FAIL_MAX; i++)
		CHECK_EQ(weir__fail_if_add(&fail_if, "denied > 1", &why), WEIR_OK);
	CHECK(weir__fail_if_add(&fail_if, "denied > 1", &why) == WEIR_ERR_FULL);
	CHECK_EQ(fail_if.n, WEIR__FAIL_MAX);
}

TESTS(TEST(comparisons_are_exact), TEST(comparisons_are_joined), TEST(what_is_wrong_is_named),
      TEST(their_number_is_limited))
