/* Times and durations of logs: each form, the days that exist, and the ends of the range. */
#include "replay/log_time.h"

#include "check.h"

#define S UINT64_C(1000000000)

static const struct {
	const char *text;
	weir_ns at;
	bool is_whole_second;
} times[] = {
	{ "18/Nov/2026:19:50:33 +0000", UINT64_C(1795031433) * S, true },
	{ "[18/Nov/2026:19:50:33 +0100]", UINT64_C(1795027833) * S, true },
	{ "18/Nov/2026:19:50:33.25 -0530", UINT64_C(1795051233) * S + S / 4, false },
	{ "01/Jan/1970:00:00:00 +0000", 0, true },
	{ "01/Jan/1970:01:00:00 +0100", 0, true },
	{ "29/Feb/2024:12:00:00 +0000", UINT64_C(1709208000) * S, true },
	{ "31/Dec/2016:23:59:60 +0000", UINT64_C(1483228799) * S, true }, /* a leap second */
	{ "2026-11-18T19:50:33Z", UINT64_C(1795031433) * S, true },
	{ "2026-11-18T19:50:33.123456789Z", UINT64_C(1795031433) * S + 123456789, false },
	{ "2026-11-18T19:50:33.1234567899Z", UINT64_C(1795031433) * S + 123456789, false },
	{ "2026-11-18 19:50:33,5", UINT64_C(1795031433) * S + S / 2, false },
	{ "2026/11/18 19:50:33", UINT64_C(1795031433) * S, true },
	{ "2026-11-18T19:50:33+01", UINT64_C(1795027833) * S, true },
	{ "2026-11-18T19:50:33 +01:00", UINT64_C(1795027833) * S, true },
	{ "2000-02-29T00:00:00Z", UINT64_C(951782400) * S, true },
	{ "2262-04-11T23:47:15Z", UINT64_C(9223372035) * S, true },
	{ "1795031433", UINT64_C(1795031433) * S, true },
	{ "1795031433.5", UINT64_C(1795031433) * S + S / 2, false },
	{ "1795031433.0", UINT64_C(1795031433) * S, false },
	{ "1795031433250", UINT64_C(1795031433) * S + S / 4, false },
	{ "1795031433250000", UINT64_C(1795031433) * S + S / 4, false },
	{ "1795031433250000001", UINT64_C(1795031433) * S + S / 4 + 1, false },
	{ "1.795031433e9", UINT64_C(1795031433) * S, false },
	{ "0", 0, true },
};

static void every_form_is_read(void)
{
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct weir__log_time time = { 0 };

		if (!weir__log_time_read(times[i].text, strlen(times[i].text), 0, &time) || time.at != times[i].at ||
		    time.is_whole_second != times[i].is_whole_second) {
			printf("# %s: found %" PRIu64 "\n", times[i].text, time.at);
			CHECK(false);
		}
	}
}

static void what_is_no_time_is_refused(void)
{
	static const char *const wrong[] = {
		"",
		"-",
		"x",
		"[]",
		"18/Nov/2026",
		"18/Nov/2026:19:50",
		"31/Apr/2026:00:00:00 +0000",
		"29/Feb/2025:00:00:00 +0000",
		"29/Feb/2100:00:00:00 +0000",
		"00/Jan/2026:00:00:00 +0000",
		"18/Nvo/2026:19:50:33 +0000",
		"18/Nov/2026:24:00:00 +0000",
		"18/Nov/2026:19:60:33 +0000",
		"18/Nov/2026:19:50:61 +0000",
		"18/Nov/2026:19:50:33 +1",
		"18/Nov/2026:19:50:33 +9900",
		"18/Nov/2026:19:50:33 +0000x",
		"31/Dec/1969:23:59:59 +0000",
		"01/Jan/1970:00:00:00 +0100",
		"2262-04-11T23:47:16Z",
		"9999-01-01T00:00:00Z",
		"2026-13-01T00:00:00Z",
		"2026-11-18T19:50:33.Z",
		"2026-11-18",
		"-1",
		"1e400",
		"99999999999999999999999999",
		"1795031433x",
		"18/",
	};
	struct weir__log_time time;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (weir__log_time_read(wrong[i], strlen(wrong[i]), 0, &time)) {
			printf("# %s: found %" PRIu64 "\n", wrong[i], time.at);
			CHECK(false);
		}
}

static void a_time_without_offset_has_the_one_given(void)
{
	struct weir__log_time time = { 0 };

	CHECK(weir__log_time_read("2026-11-18T19:50:33", 19, 3600, &time));
	CHECK_EQ(time.at, UINT64_C(1795027833) * S);
	CHECK(weir__log_time_read("2026-11-18T19:50:33Z", 20, 3600, &time));
	CHECK_EQ(time.at, UINT64_C(1795031433) * S);
}

/* A day is one after the other, from 1970 to 2261. */
static void days_follow_each_other(void)
{
	static const char *const names[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	uint64_t expected = 0;

	for (int year = 1970; year < 2262; year++)
		for (int month = 0; month < 12; month++) {
			const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

			for (int day = 1; day <= lengths[month] + (month == 1 && is_leap);
			     day++, expected += 86400 * S) {
				struct weir__log_time time = { 0 };
				char text[64];
				const int n = snprintf(text, sizeof(text), "%02d/%s/%d:00:00:00 +0000", day,
						       names[month], year);

				CHECK(weir__log_time_read(text, (size_t)n, 0, &time));
				if (time.at != expected) {
					CHECK_TEXT(text, "the following day");
					return;
				}
			}
		}
}

static void decimals_are_exact(void)
{
	static const struct {
		const char *text;
		uint64_t unit, value;
	} rows[] = {
		{ "0", S, 0 },
		{ "0.250", S, S / 4 },
		{ "12", 1000, 12000 },
		{ "9.29675e-05", S, 92967 },
		{ "1e3", 1, 1000 },
		{ ".5", S, S / 2 },
		{ "5.", S, 5 * S },
		{ "0.0000000019", S, 1 },
		{ "18446744073709551615", 1, UINT64_MAX },
		{ "1E+2", 1, 100 },
	};
	static const char *const wrong[] = { "",     ".",  "-1", "1x", "e5", "1e", "0x10", "18446744073709551616",
					     "1e30", "nan" };
	uint64_t value;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK(weir__log_decimal_read(rows[i].text, strlen(rows[i].text), rows[i].unit, &value));
		CHECK_EQ(value, rows[i].value);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (weir__log_decimal_read(wrong[i], strlen(wrong[i]), 1, &value))
			CHECK_TEXT(wrong[i], "refused");
}

static void offsets_are_read(void)
{
	int32_t zone;

	CHECK(weir__log_zone_read("UTC", 3, &zone) && zone == 0);
	CHECK(weir__log_zone_read("+02:00", 6, &zone) && zone == 7200);
	CHECK(weir__log_zone_read("-0530", 5, &zone) && zone == -19800);
	CHECK(!weir__log_zone_read("CET", 3, &zone));
	CHECK(!weir__log_zone_read("", 0, &zone));
	CHECK(!weir__log_zone_read("+02:00x", 7, &zone));
}

TESTS(TEST(every_form_is_read), TEST(what_is_no_time_is_refused), TEST(a_time_without_offset_has_the_one_given),
      TEST(days_follow_each_other), TEST(decimals_are_exact), TEST(offsets_are_read))
