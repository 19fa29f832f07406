/* duration_test.c: what is read as a duration, and the longest one. */
#include "core/duration.h"

#include "check.h"

static const struct {
	const char *text;
	weir_ns most;
	bool is_duration;
	weir_ns duration;
} rows[] = {
	{ "500ms", UINT64_MAX, true, 500000000 },
	{ "5s", UINT64_MAX, true, 5000000000 },
	{ "1min", UINT64_MAX, true, 60000000000 },
	{ "0s", 0, true, 0 },
	{ "007ns", 7, true, 7 },
	{ "1us", 999, false, 0 },
	{ "1us", 1000, true, 1000 },
	{ "18446744073709551615ns", UINT64_MAX, true, UINT64_MAX },
	{ "18446744073709551616ns", UINT64_MAX, false, 0 },
	{ "20000000000000000000ns", UINT64_MAX, false, 0 },
	{ "213503day", UINT64_MAX, true, UINT64_C(213503) * 86400 * 1000000000 },
	{ "213504day", UINT64_MAX, false, 0 },
	{ "", UINT64_MAX, false, 0 },
	{ "5", UINT64_MAX, false, 0 },
	{ "s", UINT64_MAX, false, 0 },
	{ "5 s", UINT64_MAX, false, 0 },
	{ "5sec", UINT64_MAX, true, 5000000000 },
	{ "1h", UINT64_MAX, true, UINT64_C(3600000000000) },
	{ "2weeks", UINT64_MAX, true, UINT64_C(1209600000000000) },
	{ "5m", UINT64_MAX, false, 0 },
	{ "1month", UINT64_MAX, false, 0 },
	{ "5x", UINT64_MAX, false, 0 },
	{ "-5s", UINT64_MAX, false, 0 },
	{ "0.5s", UINT64_MAX, false, 0 },
	{ ":s", UINT64_MAX, false, 0 },
};

static void durations_are_a_number_and_a_unit(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		weir_ns duration = 1;

		CHECK_EQ(weir__duration_read(rows[i].text, strlen(rows[i].text), rows[i].most, &duration),
			 rows[i].is_duration);
		CHECK_EQ(duration, rows[i].is_duration ? rows[i].duration : 1);
	}
}

TESTS(TEST(durations_are_a_number_and_a_unit))
