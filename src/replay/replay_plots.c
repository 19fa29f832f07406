/* replay_plots.c: counts by hour, and an open hash table of clients with the second that they are in. */
#include "replay/replay_plots.h"

#include <stdlib.h>

#include "replay/replay_stats.h"

enum { PLACES_LEAST = 4096, MONDAY_OF_1970 = 3 /* 1 January 1970 was a Thursday */ };

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)
#define HOUR (3600 * SECOND)

struct weir__plots_client {
	uint64_t hash; /* 0: free */
	uint32_t second, count, peak;
	bool is_denied;
};

struct weir__replay_plots *weir__replay_plots_new(size_t client)
{
	struct weir__replay_plots *const plots = calloc(1, sizeof(*plots));

	if (plots == NULL)
		return NULL;
	plots->client = client;
	plots->mask = PLACES_LEAST - 1;
	plots->clients = calloc(PLACES_LEAST, sizeof(*plots->clients));
	if (plots->clients)
		return plots;
	free(plots);
	return NULL;
}

void weir__replay_plots_free(struct weir__replay_plots *plots)
{
	if (plots)
		free(plots->clients);
	free(plots);
}

/* The entry of the hash, or the free place for it. */
static struct weir__plots_client *place_of(struct weir__plots_client *clients, uint64_t mask, uint64_t hash)
{
	uint64_t i = (hash ^ hash >> 32) & mask;

	while (clients[i].hash != 0 && clients[i].hash != hash)
		i = (i + 1) & mask;
	return &clients[i];
}

/* Without memory for a larger table, no further clients are counted. */
static bool has_room(struct weir__replay_plots *plots)
{
	const uint64_t mask = 2 * plots->mask + 1;
	struct weir__plots_client *larger;

	if (plots->n_clients < (plots->mask + 1) / 2)
		return true;
	if (plots->n_clients >= WEIR__PLOTS_CLIENTS_MAX)
		return false;
	larger = calloc(mask + 1, sizeof(*larger));
	if (larger == NULL)
		return false;
	for (uint64_t i = 0; i <= plots->mask; i++)
		if (plots->clients[i].hash != 0)
			*place_of(larger, mask, plots->clients[i].hash) = plots->clients[i];
	free(plots->clients);
	plots->clients = larger;
	plots->mask = mask;
	return true;
}

static void add_client(struct weir__replay_plots *plots, uint64_t hash, weir_ns arrival, bool is_denied)
{
	const uint32_t second = (uint32_t)(arrival / SECOND);
	struct weir__plots_client *client = place_of(plots->clients, plots->mask, hash);

	if (client->hash == 0) {
		if (!has_room(plots)) {
			plots->uncounted++;
			return;
		}
		client = place_of(plots->clients, plots->mask, hash);
		client->hash = hash;
		plots->n_clients++;
	}
	client->count = client->second == second ? client->count + 1 : 1;
	client->second = second;
	client->is_denied = client->is_denied || is_denied;
	if (client->count > client->peak)
		client->peak = client->count;
}

static void add_cell(struct weir__plots_cell *cell, bool is_denied)
{
	cell->all++;
	cell->denied += is_denied;
}

static void add_request(struct weir__replay_plots *plots, weir_ns arrival, bool is_denied)
{
	const uint64_t day = arrival / DAY, hour = arrival % DAY / HOUR;

	if (plots->last == 0)
		plots->first_day = day * DAY;
	plots->last = arrival;
	add_cell(&plots->weekdays[(day + MONDAY_OF_1970) % WEIR__PLOTS_WEEKDAYS][hour], is_denied);
	if (day - plots->first_day / DAY < WEIR__PLOTS_DAYS)
		add_cell(&plots->days[day - plots->first_day / DAY][hour], is_denied);
}

void weir__replay_plots_add(struct weir__replay_plots *plots, const struct weir__log_record *const *records,
			    const struct weir__replay_answer *answers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const bool is_denied = answers[i].is_decided && !answers[i].verdict.allowed;
		uint64_t hash = 0;

		add_request(plots, records[i]->arrival, is_denied);
		if (plots->client != WEIR__REPLAY_NO_NAME)
			hash = weir__replay_client_hash(records[i]->values[plots->client]);
		if (hash != 0)
			add_client(plots, hash, records[i]->arrival, is_denied);
	}
}

bool weir__replay_plots_has_days(const struct weir__replay_plots *plots, uint32_t *ret_days)
{
	const uint64_t days = plots->last < plots->first_day ? 1 : (plots->last - plots->first_day) / DAY + 1;

	*ret_days = days < WEIR__PLOTS_DAYS ? (uint32_t)days : WEIR__PLOTS_DAYS;
	return days <= WEIR__PLOTS_DAYS;
}

static unsigned bucket_of(uint32_t peak)
{
	unsigned bucket = 0;

	while (bucket + 1 < WEIR__PLOTS_PEAKS && peak > UINT32_C(1) << bucket)
		bucket++;
	return bucket;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

	return (first > second) - (first < second);
}

/* The exact percentiles. Without memory for a sorted list they stay 0. */
static void find_percentiles(const struct weir__replay_plots *plots, struct weir__plots_peaks *peaks)
{
	uint32_t *const sorted = malloc((plots->n_clients + 1) * sizeof(*sorted));
	uint64_t n = 0;

	if (sorted == NULL)
		return;
	for (uint64_t i = 0; i <= plots->mask; i++)
		if (plots->clients[i].hash != 0)
			sorted[n++] = plots->clients[i].peak;
	qsort(sorted, n, sizeof(*sorted), by_number);
	if (n > 0) {
		peaks->median = sorted[(n - 1) / 2];
		peaks->p99 = sorted[(n - 1) * 99 / 100];
	}
	free(sorted);
}

void weir__replay_plots_peaks(const struct weir__replay_plots *plots, struct weir__plots_peaks *ret_peaks)
{
	*ret_peaks = (struct weir__plots_peaks){ .highest = 0 };
	for (uint64_t i = 0; i <= plots->mask; i++) {
		const struct weir__plots_client *const client = &plots->clients[i];
		unsigned bucket;

		if (client->hash == 0)
			continue;
		bucket = bucket_of(client->peak);
		ret_peaks->clients[bucket]++;
		ret_peaks->denied[bucket] += client->is_denied;
		if (client->peak > ret_peaks->highest)
			ret_peaks->highest = client->peak;
	}
	find_percentiles(plots, ret_peaks);
}
