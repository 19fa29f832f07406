/* lease_test.c: which limits are leased, how much is drawn, and what a slot records of a lot. */
#include "store/lease.h"

#include "check.h"
#include "core/rows.h"

static void terms_follow_the_limit(void)
{
	static const struct {
		const char *limit;
		uint32_t stranded;
		enum weir__lease_obstacle obstacle;
		uint64_t most;
		weir_ns duration;
	} rows[] = {
		{ "100/s burst 1000", 5, WEIR__LEASE_POSSIBLE, 50, MS(500) },
		{ "100/s burst 1000", 50, WEIR__LEASE_POSSIBLE, 500, S(5) },
		{ "100/s burst 1000", 0, WEIR__LEASE_UNSET, 0, 0 },
		{ "1000/s burst 1000", 1, WEIR__LEASE_POSSIBLE, 10, MS(20) }, /* 10 ms, and at least 20 */
		{ "10/day burst 100", 5, WEIR__LEASE_POSSIBLE, 5, S(10) },    /* half a day, and at most 10 s */
		{ "3/s burst 40", 5, WEIR__LEASE_POSSIBLE, 2, MS(666) },      /* whole milliseconds */
		{ "10/s refill interval burst 100", 5, WEIR__LEASE_POSSIBLE, 5, MS(500) },
		{ "100/min fixed_window", 5, WEIR__LEASE_POSSIBLE, 5, S(3) },
		{ "100/min sliding_counter", 5, WEIR__LEASE_POSSIBLE, 5, S(3) },
		{ "100/min sliding_counter segments 6", 5, WEIR__LEASE_POSSIBLE, 5, S(3) },
		{ "100/s burst 39", 5, WEIR__LEASE_FEW, 0, 0 },
		{ "100/s burst 40", 5, WEIR__LEASE_POSSIBLE, 2, MS(20) },
		{ "2000/s burst 40", 5, WEIR__LEASE_FAST, 0, 0 },
		{ "1000/s burst 40", 5, WEIR__LEASE_POSSIBLE, 2, MS(20) },
		{ "100/min sliding_log", 5, WEIR__LEASE_LOG, 0, 0 },
		{ "100/s leaky queue 100", 5, WEIR__LEASE_QUEUE, 0, 0 },
		{ "100/s leaky burst 100", 5, WEIR__LEASE_POSSIBLE, 5, MS(50) },
		{ "100/min fixed_window count all", 5, WEIR__LEASE_COUNT_ALL, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir_plan plan = plan_of(rows[i].limit);
		struct weir__lease_terms terms;

		CHECK_EQ(weir__lease_terms_of(&plan, rows[i].stranded, &terms), rows[i].obstacle);
		CHECK_EQ(terms.most, rows[i].most);
		CHECK_EQ(terms.duration, rows[i].duration);
		CHECK((*weir__lease_obstacle_text(rows[i].obstacle) == '\0') ==
		      (rows[i].obstacle <= WEIR__LEASE_UNSET));
	}
}

static void a_server_draws_what_it_spends_in_a_duration(void)
{
	const struct weir__lease_terms terms = { .most = 60, .duration = S(1) };
	static const struct {
		uint64_t spent;
		weir_ns elapsed;
		uint32_t nodes;
		uint64_t want;
	} rows[] = {
		{ 10, S(1), 1, 10 },    { 10, MS(500), 1, 20 }, { 10, MS(300), 1, 34 }, { 10, MS(100), 1, 60 },
		{ 10, MS(500), 3, 20 }, { 10, MS(300), 3, 20 }, /* a third of what all may hold */
		{ 2, 1, 1, 32 },        { 1, S(1), 1, 0 },      { 0, S(1), 1, 0 },      { 2, S(1), 1, 2 },
		{ 100, MS(1), 31, 0 },  { 100, MS(1), 30, 2 },  { 5, S(1), 0, 5 },      { UINT64_MAX, 1, 1, 60 },
	};
	const struct weir__lease_terms large = { .most = 1000, .duration = S(1) };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(weir__lease_want(&terms, rows[i].spent, rows[i].elapsed, rows[i].nodes), rows[i].want);
	CHECK_EQ(weir__lease_want(&large, 301, S(1), 1), 300); /* a size that a slot can record */
}

static void lots_are_packed_into_32_bits(void)
{
	for (uint32_t units = 0; units <= WEIR__LOT_UNITS_MOST; units = units * 3 + 1)
		for (int flags = 0; flags < 4; flags++) {
			const struct weir__lot lot = { units, weir__lot_size_code(units), flags & 1, flags & 2 };
			const struct weir__lot read = weir__lot_unpack(weir__lot_pack(&lot));

			CHECK(read.units == units && read.size == lot.size && read.is_renewing == lot.is_renewing &&
			      read.is_denied == lot.is_denied);
		}
}

/* Nothing is refunded into a lot beyond its size, so sizes are never rounded up. */
static void sizes_are_rounded_down_by_a_64th_at_most(void)
{
	static const struct {
		uint64_t units, size;
	} rows[] = {
		{ 0, 0 },     { 1, 1 },     { 63, 63 },   { 64, 64 },   { 127, 127 },         { 128, 128 },
		{ 129, 128 }, { 130, 130 }, { 255, 254 }, { 259, 256 }, { 1048575, 1040384 }, { 1040383, 1032192 }
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(weir__lot_size(weir__lot_size_code(rows[i].units)), rows[i].size);
	for (uint64_t units = 1; units <= WEIR__LOT_UNITS_MOST; units += 1 + units / 700) {
		const uint32_t code = weir__lot_size_code(units);
		const uint64_t size = weir__lot_size(code);

		CHECK(code > 0 && code < 1024 && size <= units && 64 * (units - size) < units);
		CHECK_EQ(weir__lot_size_code(size), code);
	}
}

/* The end of a lot is known from four bits, as long as the clock is known to within a duration. */
static void ends_are_known_from_their_index(void)
{
	static const weir_ns durations[] = { MS(20), MS(21), MS(666), S(10) };

	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
		const struct weir__lease_terms terms = { .most = 5, .duration = durations[i] };
		const uint64_t grid_us = durations[i] / 4000, made_us = UINT64_C(1790000000000000);

		for (uint64_t at_us = made_us; at_us < made_us + 20 * grid_us; at_us += grid_us / 3 + 1) {
			const uint64_t end_us = (at_us + durations[i] / 1000 + durations[i] / 1000000 + grid_us - 1) /
						grid_us * grid_us;
			const uint32_t index = weir__lot_index(&terms, end_us);

			CHECK_EQ(weir__lot_end_near(&terms, index, at_us), end_us);
			CHECK_EQ(weir__lot_end_near(&terms, index, end_us - 1), end_us);
			CHECK_EQ(weir__lot_end_near(&terms, index, at_us - 4 * grid_us), end_us);
			CHECK_EQ(weir__lot_end_near(&terms, index, end_us + 3 * grid_us), end_us);
		}
	}
}

TESTS(TEST(terms_follow_the_limit), TEST(a_server_draws_what_it_spends_in_a_duration),
      TEST(lots_are_packed_into_32_bits), TEST(sizes_are_rounded_down_by_a_64th_at_most),
      TEST(ends_are_known_from_their_index))
