/* arrivals.h: the requests of a log to which one limit applies, in memory: when, which key, at which cost.
 *
 *     weir__arrivals_init -> { weir__arrivals_add } ... -> weir__arrivals_group -> weir__arrivals_of
 *
 * Memory is bounded: 32 bytes a request and 24 to 64 bytes a key, up to a budget. When that is reached, half of the keys
 * are dropped with all their requests, as often as necessary. So what remains is exact for the keys that it has. */
#ifndef WEIR_REPLAY_ARRIVALS_H
#define WEIR_REPLAY_ARRIVALS_H

#include <weir/types.h>

#include "replay/key_index.h"

struct weir__arrival {
	weir_ns at;
	uint32_t cost;
	uint32_t key; /* its number */
};

struct weir__arrivals {
	struct weir__key_index keys;
	struct weir__arrival *rows; /* in the order of arrival; once grouped, by key first */
	size_t n, size;
	size_t *starts; /* once grouped: keys.n + 1 indexes in rows */
	size_t bytes_most;
};

void weir__arrivals_init(struct weir__arrivals *arrivals, struct weir__hash_secret secret, size_t bytes_most);

/* Call it in the order of arrival. WEIR_ERR_SYSTEM: no memory. WEIR_ERR_FULL: the budget is reached, and there is only
 * one key. */
int weir__arrivals_add(struct weir__arrivals *arrivals, const void *key, size_t length, weir_ns at, uint32_t cost);

/* Sorts by key. Requests of a key stay in order. Returns false if there was no memory. */
bool weir__arrivals_group(struct weir__arrivals *arrivals);

/* The requests of a key, once grouped. */
static inline const struct weir__arrival *weir__arrivals_of(const struct weir__arrivals *arrivals, uint32_t key,
							    size_t *ret_n)
{
	*ret_n = arrivals->starts[key + 1] - arrivals->starts[key];
	return arrivals->rows + arrivals->starts[key];
}

void weir__arrivals_fini(struct weir__arrivals *arrivals);

#endif
