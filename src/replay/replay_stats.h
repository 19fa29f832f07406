/* replay_stats.h: sums up the decisions of a replay: per limit, per key, per client and over time.
 *
 * Memory: 16 bytes for each place of two tables, which are at most three quarters full: one entry for each client, and
 * one for each key that a limit denied. Everything else has a fixed size. Counts of clients and keys are exact,
 * and so are the lists of those with the most denials. */
#ifndef WEIR_REPLAY_REPLAY_STATS_H
#define WEIR_REPLAY_REPLAY_STATS_H

#include "replay/replay.h"
#include "replay/tally.h"

enum {
	WEIR__REPLAY_TENTHS = 11, /* below 10 % used, ..., below 100 %, all of it */
	WEIR__REPLAY_TIMES = 128, /* steps of the course over time */
	WEIR__REPLAY_NO_NAME = SIZE_MAX,
};

/* A limit or override of the policy. */
struct weir__replay_limit {
	uint64_t requests;     /* requests to which it applied */
	uint64_t denied;       /* requests that it alone would have denied, enforced or in shadow */
	uint64_t decided;      /* denied requests that it decided */
	uint64_t units;        /* units that it allowed */
	uint64_t keys_denied;  /* different keys that it denied */
	uint64_t delayed;      /* allowed requests with a delay */
	weir_ns longest_wait;  /* until a denied request would have been allowed, unless that is never */
	weir_ns longest_delay; /* of an allowed request, if the limit shapes */
	weir_ns first, last;   /* arrivals of denied requests */
	uint64_t never;        /* denied requests that cost more than the limit's capacity */
	bool is_shadow;        /* it was in shadow for at least one request */
	/* How much of the limit was used after each decision, in tenths. */
	uint64_t used[WEIR__REPLAY_TENTHS];
};

/* The wait of a denied request, or the delay of an allowed one. */
struct weir__replay_wait {
	weir_ns wait, arrival;
	uint64_t line;
	uint32_t input, plan;
	bool is_delay; /* the request was allowed, and delayed */
	uint32_t length;
	char client[WEIR__TOP_TEXT];
};

enum { WEIR__REPLAY_WAITS = 10 };

/* Requests over time. The width of a step doubles whenever the time is longer than all steps. */
struct weir__replay_course {
	weir_ns begins, width;
	struct {
		uint64_t all, denied;
	} steps[WEIR__REPLAY_TIMES];
};

struct weir__replay_stats {
	const struct weir_policy *policy;
	struct weir_guard *guard; /* for the texts of keys */
	size_t client;            /* which value of a record is the client; NO_NAME: none is known */
	uint64_t requests, denied, undecided, unmatched, delayed;
	uint64_t without_client;
	uint64_t already_denied; /* requests to which the server of the log responded 429 */
	weir_ns first, last;     /* arrivals */
	char undecided_example[160];
	uint64_t undecided_line;
	uint32_t undecided_input;
	struct weir__tally clients, keys;
	struct weir__top top_clients, top_keys;
	struct weir__replay_wait waits[WEIR__REPLAY_WAITS]; /* the longest, one for each client and limit */
	size_t n_waits;
	struct weir__replay_course course;
	uint32_t n_limits; /* plans of the policy */
	struct weir__replay_limit limits[];
};

/* `client` is the index of the attribute that tells clients apart. `top` is how many clients and keys are listed. NULL:
 * no memory. */
struct weir__replay_stats *weir__replay_stats_new(struct weir__replay *replay, size_t client, size_t top);

/* Adds the decisions of a batch. */
void weir__replay_stats_add(struct weir__replay_stats *stats, const struct weir__log_record *const *records,
			    const struct weir__replay_answer *answers, size_t n);

/* Sorts the lists, after the last record. */
void weir__replay_stats_end(struct weir__replay_stats *stats);

/* The hash of the client of a record, which does not distinguish IPv6 addresses of the same /64. 0: the record has
 * none. */
uint64_t weir__replay_client_hash(struct weir__slice client);

/* The quantile per_mille / 1000 of how much of a limit was used after a decision, in tenths. */
unsigned weir__replay_used_at(const struct weir__replay_limit *limit, unsigned per_mille);

/* For a limit without a key: what it allowed, as a share of what it could have allowed from the first to the last
 * request (its capacity, plus its rate for that time). In hundredths of a percent. */
uint64_t weir__replay_share_of_capacity(const struct weir__replay_stats *stats, uint32_t plan);

/* Bytes of the tables of clients and keys. */
size_t weir__replay_stats_bytes(const struct weir__replay_stats *stats);

void weir__replay_stats_free(struct weir__replay_stats *stats); /* NULL is allowed */

#endif
