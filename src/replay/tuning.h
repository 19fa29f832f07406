/* tuning.h: finds the limit that keeps a wish, from the requests of a log. Pure arithmetic on arrivals in memory.
 *
 * Wishes of three kinds:
 *   denied   at most a share of the keys is ever denied, or a share of the requests, or both. For each rate on a
 *            ladder, demand.h gives the smallest burst that denies a key nothing. For a share of the keys, the burst of
 *            the limit is the quantile of these bursts. For a share of the requests it is found by halving. The best
 *            pair of rate and burst lets a key take least within `horizon`, or denies most of the bad requests.
 *   passed   at most this much passes in any period. The best limit denies fewest requests. Of buckets that deny
 *            equally few, the best is the one that would deny fewest if traffic doubled, and doubled again.
 *   wait     a share of the requests waits no longer than this in a queue. Alone: the lowest rate that achieves it,
 *            with a queue that denies none. With `passed`: the longest queue at that rate.
 *
 * The numbers in a tuning count the requests before `until`, and each limit alone. They are exact, but only a replay of
 * the whole policy shows what a server would do. */
#ifndef WEIR_REPLAY_TUNING_H
#define WEIR_REPLAY_TUNING_H

#include "replay/demand.h"

enum { WEIR__TUNING_POINTS_MAX = 128, WEIR__TUNING_PPM = 1000000 };

struct weir__tuning_wish {
	bool has_denied_keys, has_denied, has_wait;
	uint32_t denied_keys_ppm; /* the share of keys that may be denied, in millionths */
	uint32_t denied_ppm;      /* the same of requests */
	struct weir__rate passed; /* count 0: no such wish */
	uint32_t wait_ppm;        /* the share of requests that */
	weir_ns wait;             /* wait no longer than this */
	struct weir__interval bad;
	weir_ns until;   /* later requests are not used */
	weir_ns horizon; /* for comparing pairs of rate and burst */
};

struct weir__tuning_point {
	struct weir_limit limit;
	uint64_t most;        /* units that one key can take within the horizon */
	uint64_t keys_denied; /* at least once, outside of the bad interval */
	bool keeps;           /* it keeps the wish */
	struct weir__demand_tried tried;
};

struct weir__tuning {
	uint64_t requests, bad_requests; /* by which the limit was chosen */
	uint64_t keys;                   /* with a request outside of the bad interval */
	uint64_t keys_may, requests_may; /* how many keys and requests may be denied */
	struct weir__tuning_point points[WEIR__TUNING_POINTS_MAX];
	size_t n, n_curve; /* the first points are the trade-off curve, by rising rate */
	size_t best;
};

/* Whether the wish is for shares of what is denied. */
static inline bool weir__tuning_is_of_shares(const struct weir__tuning_wish *wish)
{
	return wish->has_denied_keys || wish->has_denied;
}

/* WEIR_ERR_LIMIT: no limit keeps the wish, or nothing is left to use; the message says which. WEIR_ERR_SYSTEM: no
 * memory. The arrivals must be grouped. */
int weir__tuning_run(const struct weir__arrivals *arrivals, const struct weir__tuning_wish *wish,
		     struct weir__tuning *ret_tuning, struct weir_message *ret_message);

/* Whether the wish for waits is kept if this many of the allowed requests are late. */
bool weir__tuning_waits_keep(const struct weir__tuning_wish *wish, uint64_t late, uint64_t allowed);

/* Moves the k-th smallest of n numbers, from 0, to its place, with smaller ones before it. Returns it. */
uint64_t weir__tuning_select(uint64_t *numbers, size_t n, size_t k);

#endif
