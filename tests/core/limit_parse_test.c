/* limit_parse_test.c: limits parsed from text, and the messages for invalid ones. */
#include "rows.h"

static void shortest_texts_print_back_to_themselves(void)
{
	static const char *const texts[] = {
		"100/min burst 20",
		"7/min",
		"5/s leaky queue 50",
		"5/s leaky burst 50",
		"5/s leaky",
		"10/s burst 30 refill interval",
		"1000/hour sliding_log",
		"1000/hour sliding_log count all",
		"100/min sliding_counter",
		"100/min sliding_counter segments 6",
		"100/min sliding_counter count all segments 6",
		"10/s fixed_window",
		"10/s fixed_window align first",
		"10/s fixed_window align first count all",
		"10/30s",
		"1/250ms",
		"500/2day",
		"1/3us",
		"18446744073709551615/18446744073709551615ns burst 18446744073709551614",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct weir_message why = { 0, "" };
		struct weir_limit limit;
		char text[WEIR_LIMIT_TEXT_MAX];

		CHECK_EQ(weir_limit_parse(texts[i], strlen(texts[i]), &limit, &why), WEIR_OK);
		CHECK_TEXT(why.text, "");
		weir_limit_print(&limit, text);
		CHECK_TEXT(text, texts[i]);
	}
}

static void other_texts_print_in_their_shortest_form(void)
{
	static const char *const pairs[][2] = {
		{ "60/60s token_bucket", "60/min" },
		{ "5/s leaky_bucket queue 5", "5/s leaky queue 5" },
		{ "  10/1000ms   burst  10  refill smooth ", "10/s" },
		{ "10/s fixed_window count admitted align clock", "10/s fixed_window" },
		{ "10/s refill interval burst 30", "10/s burst 30 refill interval" },
		{ "10/s sliding_counter segments 1", "10/s sliding_counter" },
		{ "10/0s", "10/0day" }, /* the plan rejects it */
		{ "10/sec", "10/s" },
		{ "10/second", "10/s" },
		{ "10/seconds", "10/s" },
		{ "10/30secs", "10/30s" },
		{ "100/minute", "100/min" },
		{ "100/5minutes", "100/5min" },
		{ "100/5mins", "100/5min" },
		{ "5/h", "5/hour" },
		{ "5/hr", "5/hour" },
		{ "5/2hrs", "5/2hour" },
		{ "5/2hours", "5/2hour" },
		{ "1000/d", "1000/day" },
		{ "1000/3days", "1000/3day" },
		{ "1000/w", "1000/7day" },
		{ "1000/week", "1000/7day" },
		{ "1000/2weeks", "1000/14day" },
		{ "0.5/s", "1/2s" },
		{ "2.5/s", "5/2s" },
		{ "0.1/min", "1/10min" },
		{ "0.25/2h", "1/8hour" },
		{ "1.0/s", "1/s" },
		{ "010.50/s burst 7", "21/2s burst 7" },
		{ "3.14159/s fixed_window", "314159/100000s fixed_window" },
		{ "0.000000001/s", "1/1000000000s" },
		{ "0.0/s", "0/s" }, /* the plan rejects it */
		{ "1844674407370955161.5/s", "3689348814741910323/2s" },
		{ "10/s\n", "10/s" },
		{ "10/s burst 3\r\n\n", "10/s burst 3" },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct weir_limit limit;
		char text[WEIR_LIMIT_TEXT_MAX];

		CHECK_EQ(weir_limit_parse(pairs[i][0], strlen(pairs[i][0]), &limit, NULL), WEIR_OK);
		weir_limit_print(&limit, text);
		CHECK_TEXT(text, pairs[i][1]);
	}
}

static void refusals_name_the_place_and_what_was_expected(void)
{
	static const struct {
		const char *text;
		size_t at;
		const char *message;
	} rows[] = {
		{ "", 0,
		  "at 0: the text ends here: expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in "
		  "100/min" },
		{ "ten/s", 0,
		  "at 0: \"ten/s\": expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in 100/min" },
		{ "10", 0,
		  "at 0: \"10\": expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in 100/min" },
		{ "10s", 0,
		  "at 0: \"10s\": expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in 100/min" },
		{ "18446744073709551616/s", 0,
		  "at 0: \"18446744073709551616/s\": expected a rate, COUNT/PERIOD with a count up to "
		  "18446744073709551615, as in 100/min" },
		{ "99999999999999999999/s", 0,
		  "at 0: \"99999999999999999999/s\": expected a rate, COUNT/PERIOD with a count up to "
		  "18446744073709551615, as in 100/min" },
		{ "10/fortnight", 3,
		  "at 3: \"fortnight\": unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s" },
		{ "10/", 3,
		  "at 3: the text ends here: unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s" },
		{ "10/min\t", 3,
		  "at 3: \"min?\": unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s" },
		{ "100/m", 4, "at 4: \"m\": min or month? Use min, or 30day for a month" },
		{ "100/month", 4, "at 4: \"month\": months differ in length; use days, as in 1000/30day" },
		{ "100/2months", 4, "at 4: \"2months\": months differ in length; use days, as in 1000/30day" },
		{ "100/mo", 4, "at 4: \"mo\": months differ in length; use days, as in 1000/30day" },
		{ "100/y", 4, "at 4: \"y\": years differ in length; use days, as in 1000/365day" },
		{ "100/year", 4, "at 4: \"year\": years differ in length; use days, as in 1000/365day" },
		{ "100/5years", 4, "at 4: \"5years\": years differ in length; use days, as in 1000/365day" },
		{ "0./s", 0,
		  "at 0: \"0./s\": expected a count of at most 19 digits, or whole numbers, as in 1/2s for 0.5/s" },
		{ "0.x/s", 0,
		  "at 0: \"0.x/s\": expected a count of at most 19 digits, or whole numbers, as in 1/2s for 0.5/s" },
		{ "0.00000000000000000001/s", 0,
		  "at 0: \"0.00000000000000000001/s\": expected a count of at most 19 digits, or whole numbers, as in 1/2s "
		  "for 0.5/s" },
		{ "1844674407370955161.6/s", 0,
		  "at 0: \"1844674407370955161.6/s\": expected a count of at most 19 digits, or whole numbers, as in 1/2s "
		  "for 0.5/s" },
		{ "1844674407370955162.0/s", 0,
		  "at 0: \"1844674407370955162.0/s\": expected a count of at most 19 digits, or whole numbers, as in 1/2s "
		  "for 0.5/s" },
		{ ".5/s", 0,
		  "at 0: \".5/s\": expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in 100/min" },
		{ "0.5", 0,
		  "at 0: \"0.5\": expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in 100/min" },
		{ "0.5.5/s", 0,
		  "at 0: \"0.5.5/s\": expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in "
		  "100/min" },
		{ "10/1.5s", 3,
		  "at 3: \"1.5s\": unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s" },
		{ "10/s\nburst 3", 3,
		  "at 3: \"s?burst\": unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s" },
		{ "\n", 0,
		  "at 0: the text ends here: expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in "
		  "100/min" },
		{ "0.0000001/1000000day", 10,
		  "at 10: \"1000000day\": the period exceeds 18446744073709551615 ns; use a shorter one" },
		{ "0.0000001/100000day", 10,
		  "at 10: \"100000day\": the period exceeds 18446744073709551615 ns; use a shorter one" },
		{ "10/1000000day", 3,
		  "at 3: \"1000000day\": the period exceeds 18446744073709551615 ns; use a shorter one" },
		{ "10/s bursts 3", 5,
		  "at 5: \"bursts\": expected token_bucket, leaky, fixed_window, sliding_log, sliding_counter, or an "
		  "option of token_bucket: burst, refill" },
		{ "10/s leaky leaky", 11, "at 11: \"leaky\": expected an option of leaky: burst, queue" },
		{ "10/s fixed_window burst 3", 18,
		  "at 18: \"burst\": expected an option of fixed_window: align, count" },
		{ "10/s burst", 10, "at 10: the text ends here: expected a number up to 18446744073709551615" },
		{ "10/s burst 3x", 11, "at 11: \"3x\": expected a number up to 18446744073709551615" },
		{ "10/s refill often", 12, "at 12: \"often\": expected smooth or interval" },
		{ "10/s burst 3 burst 3", 13, "at 13: \"burst\": given twice; use each option at most once" },
		{ "10/s leaky burst 3 queue 3", 19,
		  "at 19: \"queue\": burst and queue exclude each other: burst polices, queue shapes" },
		{ "10/s oh_what_a_very_long_word_indeed_it_never_seems_to_end", 5,
		  "at 5: \"oh_what_a_very_long_word_indeed_it_never...\": expected token_bucket, leaky, fixed_window, "
		  "sliding_log, sliding_counter, or an option of token_bucket: burst, refill" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_limit limit = weir_limit_of(WEIR_SLIDING_LOG, 42, 42), untouched = limit;
		struct weir_message why = { 99, "" };

		CHECK_EQ(weir_limit_parse(rows[i].text, strlen(rows[i].text), &limit, &why), WEIR_ERR_SYNTAX);
		CHECK_TEXT(why.text, rows[i].message);
		CHECK_EQ(why.at, rows[i].at);
		CHECK_EQ(limit.algorithm, untouched.algorithm);
		CHECK_EQ(limit.count, untouched.count);
		CHECK_EQ(weir_limit_parse(rows[i].text, strlen(rows[i].text), &limit, NULL), WEIR_ERR_SYNTAX);
	}
}

/* A NUL does not end a word: the text is text[0..length). */
static void a_nul_is_a_byte_like_others(void)
{
	static const struct {
		const char *text;
		size_t length;
	} rows[] = { { "3/hour\0", 7 }, { "3/s\0\0\0\0\0\0\0\0", 11 }, { "3/s leaky\0min", 13 }, { "3\0/s", 4 } };
	struct weir_limit limit;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(weir_limit_parse(rows[i].text, rows[i].length, &limit, NULL), WEIR_ERR_SYNTAX);
}

/* Parsing ends on any input, and an accepted limit prints to a text that parses to the same limit. */
static void any_bytes_are_refused_or_round_trip(void)
{
	static const char *const parts[] = { "10/s",
					     " ",
					     "burst",
					     "7",
					     "/",
					     "queue",
					     "leaky",
					     "segments",
					     "fixed_window",
					     "align",
					     "first",
					     "\xff",
					     "99999999999999999999999",
					     "count",
					     "all",
					     "sliding_counter" };
	static const char *const rates[] = { "10/s ", "0.5/h ", "12.50/week ", "1/m ", "3." };
	uint64_t random = 88172645463325252;
	unsigned accepted = 0;

	for (int i = 0; i < 200000; i++) {
		char text[256], again[WEIR_LIMIT_TEXT_MAX];
		struct weir_limit limit, second;
		size_t length;

		strcpy(text, rates[random % (sizeof(rates) / sizeof(rates[0]))]);
		for (int words = (int)(random >> 40) % 8; words > 0; words--) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			strcat(text, parts[random % (sizeof(parts) / sizeof(parts[0]))]);
			strcat(text, random >> 60 ? " " : "");
		}
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		if (weir_limit_parse(text, strlen(text), &limit, NULL) != WEIR_OK)
			continue;
		accepted++;
		length = weir_limit_print(&limit, again);
		CHECK_EQ(weir_limit_parse(again, length, &second, NULL), WEIR_OK);
		CHECK(limit.algorithm == second.algorithm && limit.count == second.count &&
		      limit.period == second.period && limit.burst == second.burst && limit.shape == second.shape &&
		      limit.segments == second.segments && limit.align_first == second.align_first &&
		      limit.count_all == second.count_all);
	}
	CHECK(accepted > 1000);
}

TESTS(TEST(shortest_texts_print_back_to_themselves), TEST(other_texts_print_in_their_shortest_form),
      TEST(refusals_name_the_place_and_what_was_expected), TEST(a_nul_is_a_byte_like_others),
      TEST(any_bytes_are_refused_or_round_trip))
