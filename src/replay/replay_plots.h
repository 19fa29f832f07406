/* replay_plots.h: numbers for the plots of a report, besides its statistics: requests by hour, and the highest rate of
 * each client.
 *
 * Memory: 24 bytes for each place of a table that is at most half full, with one entry for each client, up to
 * WEIR__PLOTS_CLIENTS_MAX. Requests of further clients are not in the distribution, and `uncounted` says how many. */
#ifndef WEIR_REPLAY_REPLAY_PLOTS_H
#define WEIR_REPLAY_REPLAY_PLOTS_H

#include "replay/replay.h"

enum {
	WEIR__PLOTS_CLIENTS_MAX = 1 << 20,
	WEIR__PLOTS_DAYS = 14,  /* shown one by one; a longer log is shown by days of the week */
	WEIR__PLOTS_PEAKS = 24, /* by powers of two: 1, 2, up to 4, up to 8, ... */
	WEIR__PLOTS_WEEKDAYS = 7,
	WEIR__PLOTS_HOURS = 24,
};

struct weir__plots_cell {
	uint64_t all, denied;
};

struct weir__plots_client;

struct weir__replay_plots {
	size_t client;     /* which value of a record is the client; SIZE_MAX: none is known */
	weir_ns first_day; /* midnight UTC before the first request */
	weir_ns last;
	struct weir__plots_cell days[WEIR__PLOTS_DAYS][WEIR__PLOTS_HOURS];
	struct weir__plots_cell weekdays[WEIR__PLOTS_WEEKDAYS][WEIR__PLOTS_HOURS]; /* from Monday on */
	uint64_t n_clients, uncounted;
	uint64_t mask; /* places of the table, minus 1 */
	struct weir__plots_client *clients;
};

/* The clients whose highest rate, in requests of one second, is above the last bucket's and at most 2^i. */
struct weir__plots_peaks {
	uint64_t clients[WEIR__PLOTS_PEAKS], denied[WEIR__PLOTS_PEAKS]; /* `denied` had a denied request */
	uint32_t highest;
	uint32_t median, p99; /* of the clients */
};

/* NULL: no memory. */
struct weir__replay_plots *weir__replay_plots_new(size_t client);

/* Adds the decisions of a batch. Arrivals only grow. */
void weir__replay_plots_add(struct weir__replay_plots *plots, const struct weir__log_record *const *records,
			    const struct weir__replay_answer *answers, size_t n);

void weir__replay_plots_peaks(const struct weir__replay_plots *plots, struct weir__plots_peaks *ret_peaks);

/* Whether all requests are within WEIR__PLOTS_DAYS of the first day. *ret_days says on how many of them. */
bool weir__replay_plots_has_days(const struct weir__replay_plots *plots, uint32_t *ret_days);

void weir__replay_plots_free(struct weir__replay_plots *plots); /* NULL is allowed */

#endif
