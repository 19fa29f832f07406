/* replay_plots_test.c: hours and highest rates, compared with counts of each client by brute force. */
#include "replay/replay_plots.h"

#include <stdlib.h>

#include "check.h"

enum { REQUESTS = 20000, CLIENTS = 37, LONGEST = 300 };

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)
#define MONDAY (UINT64_C(1772409600) * SECOND) /* 2026-03-02 */

static uint64_t any(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void add(struct weir__replay_plots *plots, weir_ns arrival, const char *client, bool is_allowed)
{
	static _Alignas(16) unsigned char room[sizeof(struct weir__log_record) + sizeof(struct weir__slice)];
	struct weir__log_record *const record = (struct weir__log_record *)(void *)room;
	const struct weir__log_record *const records[] = { record };
	const struct weir__replay_answer answer = { .is_decided = true, .verdict = { .allowed = is_allowed } };

	record->arrival = arrival;
	record->values[0] = (struct weir__slice){ client, client ? strlen(client) : 0 };
	weir__replay_plots_add(plots, records, &answer, 1);
}

static void peaks_are_those_of_brute_force(void)
{
	static uint32_t counts[CLIENTS][LONGEST];
	struct weir__replay_plots *const plots = weir__replay_plots_new(0);
	struct weir__plots_peaks peaks;
	uint64_t expected[WEIR__PLOTS_PEAKS] = { 0 }, denied[WEIR__PLOTS_PEAKS] = { 0 };
	bool is_denied[CLIENTS] = { false };
	uint32_t highest = 0;
	weir_ns now = MONDAY;

	for (int i = 0; i < REQUESTS; i++) {
		const unsigned which = (unsigned)(any() % CLIENTS * (any() % CLIENTS) / CLIENTS);
		const bool is_allowed = which % 5 != 0 || any() % 9 != 0;
		char name[24];

		now += any() % (2 * LONGEST * SECOND / REQUESTS);
		if ((now - MONDAY) / SECOND >= LONGEST)
			break;
		(void)snprintf(name, sizeof(name), "10.0.0.%u", which);
		add(plots, now, name, is_allowed);
		counts[which][(now - MONDAY) / SECOND]++;
		is_denied[which] = is_denied[which] || !is_allowed;
	}
	for (unsigned which = 0; which < CLIENTS; which++) {
		uint32_t peak = 0;
		unsigned bucket = 0;

		for (unsigned second = 0; second < LONGEST; second++)
			peak = counts[which][second] > peak ? counts[which][second] : peak;
		while (UINT32_C(1) << bucket < peak)
			bucket++;
		expected[bucket] += peak > 0;
		denied[bucket] += is_denied[which];
		highest = peak > highest ? peak : highest;
	}
	weir__replay_plots_peaks(plots, &peaks);
	for (unsigned i = 0; i < WEIR__PLOTS_PEAKS; i++) {
		CHECK_EQ(peaks.clients[i], expected[i]);
		CHECK_EQ(peaks.denied[i], denied[i]);
	}
	CHECK(highest > 4);
	CHECK_EQ(peaks.highest, highest);
	CHECK(peaks.median > 0 && peaks.median <= peaks.p99 && peaks.p99 <= highest);
	weir__replay_plots_free(plots);
}

static void hours_are_of_days_and_weekdays(void)
{
	struct weir__replay_plots *const plots = weir__replay_plots_new(SIZE_MAX);
	uint32_t days;

	add(plots, MONDAY + 23 * 3600 * SECOND, NULL, true);
	add(plots, MONDAY + DAY - 1, NULL, false);
	add(plots, MONDAY + DAY, NULL, true);
	CHECK(weir__replay_plots_has_days(plots, &days));
	CHECK_EQ(days, 2);
	CHECK_EQ(plots->days[0][23].all, 2);
	CHECK_EQ(plots->days[0][23].denied, 1);
	CHECK_EQ(plots->days[1][0].all, 1);
	CHECK_EQ(plots->weekdays[0][23].all, 2);
	CHECK_EQ(plots->weekdays[1][0].all, 1);
	add(plots, MONDAY + WEIR__PLOTS_DAYS * DAY - 1, NULL, true);
	CHECK(weir__replay_plots_has_days(plots, &days));
	CHECK_EQ(days, WEIR__PLOTS_DAYS);
	add(plots, MONDAY + WEIR__PLOTS_DAYS * DAY, NULL, true);
	CHECK(!weir__replay_plots_has_days(plots, &days));
	CHECK_EQ(plots->weekdays[6][23].all, 1);
	CHECK_EQ(plots->weekdays[0][0].all, 1);
	CHECK_EQ(plots->n_clients, 0);
	weir__replay_plots_free(plots);
}

/* Far more clients than the first table has places. */
static void the_table_grows(void)
{
	struct weir__replay_plots *const plots = weir__replay_plots_new(0);
	struct weir__plots_peaks peaks;

	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 20000; i++) {
			char name[24];

			(void)snprintf(name, sizeof(name), "client-%u", i);
			add(plots, MONDAY + round * SECOND, name, true);
		}
	weir__replay_plots_peaks(plots, &peaks);
	CHECK_EQ(plots->n_clients, 20000);
	CHECK_EQ(plots->uncounted, 0);
	CHECK_EQ(peaks.clients[0], 20000);
	CHECK_EQ(peaks.highest, 1);
	weir__replay_plots_free(plots);
}

TESTS(TEST(peaks_are_those_of_brute_force), TEST(hours_are_of_days_and_weekdays), TEST(the_table_grows))
