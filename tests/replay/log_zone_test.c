/* Local times of a zone, around changes in both directions, and the system's zones. Covers: src/os/zone.c */
#include "replay/log_zone.h"

#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "os/zone.h"

enum { HOUR = 3600 };

static void times_that_do_not_exist_or_exist_twice(void)
{
	/* Clocks go forward by an hour at 100000, and back at 200000. */
	static struct weir__log_zone zone;
	static const struct {
		int64_t local_s, least_s, at_s;
	} rows[] = {
		{ 0, 0, -HOUR },
		{ HOUR, 0, 0 },
		{ 100000 + HOUR - 1, 0, 99999 },
		{ 100000 + HOUR, 0, 100000 }, /* does not exist: the offset before applies */
		{ 100000 + 2 * HOUR - 1, 0, 100000 + HOUR - 1 },
		{ 100000 + 2 * HOUR, 0, 100000 },
		{ 200000 + HOUR - 1, 0, 200000 - HOUR - 1 },
		{ 200000 + HOUR, 0, 200000 - HOUR }, /* exists twice */
		{ 200000 + HOUR, 200000 - HOUR, 200000 - HOUR },
		{ 200000 + HOUR, 200000 - HOUR + 1, 200000 },
		{ 200000 + 2 * HOUR - 1, 0, 199999 },
		{ 200000 + 2 * HOUR - 1, 200000, 200000 + HOUR - 1 },
		{ 200000 + 2 * HOUR, 0, 200000 + HOUR },
		{ 200000 + 2 * HOUR, 900000, 200000 + HOUR },
	};

	weir__log_zone_add(&zone, 0, HOUR);
	weir__log_zone_add(&zone, 100000, 2 * HOUR);
	weir__log_zone_add(&zone, 200000, HOUR);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(weir__log_zone_instant(&zone, rows[i].local_s, rows[i].least_s), rows[i].at_s);
}

static void add(void *zone, int64_t from_s, int32_t offset_s)
{
	weir__log_zone_add(zone, from_s, offset_s);
}

/* The local time of an instant converts back to it, or to the other instant with the same local time. */
static void zones_of_the_system(void)
{
	static const char *const names[] = { "Europe/Berlin",
					     "America/New_York",
					     "Australia/Lord_Howe",
					     "Asia/Kathmandu",
					     "Africa/Casablanca",
					     "Pacific/Apia",
					     "UTC" };

	if (getenv("TZ"))
		CHECK_EQ(unsetenv("TZ"), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		static struct weir__log_zone zone;

		zone.n = 0;
		if (!weir__zone_offsets(names[i], add, &zone)) {
			printf("# %s: not on this system\n", names[i]);
			continue;
		}
		CHECK(getenv("TZ") == NULL);
		CHECK(zone.n < WEIR__LOG_ZONE_CHANGES_MAX);
		CHECK_EQ(setenv("TZ", names[i], 1), 0);
		tzset();
		for (int64_t at_s = 5 * 86400; at_s < INT64_C(9223372036) - 86400; at_s += 86400 * 3 + 1801) {
			const time_t at = (time_t)at_s;
			struct tm local;
			int64_t found_s;

			CHECK(localtime_r(&at, &local) != NULL);
			found_s = weir__log_zone_instant(&zone, at_s + local.tm_gmtoff, at_s);
			CHECK_EQ(found_s, at_s);
		}
		CHECK_EQ(unsetenv("TZ"), 0);
		tzset();
	}
}

static void what_is_no_zone_is_refused(void)
{
	static const char *const names[] = { "",    "Nowhere/City", "../../../etc/passwd", "/etc/localtime", "Europe",
					     "a b", "zone.tab" };
	static struct weir__log_zone zone;

	CHECK_EQ(setenv("TZ", "UTC", 1), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(!weir__zone_offsets(names[i], add, &zone));
	CHECK_TEXT(getenv("TZ"), "UTC");
	CHECK_EQ(zone.n, 0);
}

TESTS(TEST(times_that_do_not_exist_or_exist_twice), TEST(zones_of_the_system), TEST(what_is_no_zone_is_refused))
