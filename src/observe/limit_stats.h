/* limit_stats.h: statistics of decisions and replies by limit and second, as histograms, and by key (top_keys.h).
 *
 * Each worker writes its own statistics with plain loads and stores, and a reader adds up the statistics of all
 * workers. So a decision never waits. Memory is bounded: a worker tracks at most WEIR__LIMIT_STATS_LIMITS_MAX limits at
 * a time, and evicts one without recent decisions for a new one. The table has the permanent counters, such as allowed
 * and denied per limit (weir_table_limit_stats). The reasons are in docs/internals/observing.md. */
#ifndef WEIR_OBSERVE_LIMIT_STATS_H
#define WEIR_OBSERVE_LIMIT_STATS_H

#include <weir/table.h>

#include <stdatomic.h>

#include "observe/top_keys.h"

enum {
	WEIR__LIMIT_STATS_SECONDS = 128,     /* kept per limit; a power of two */
	WEIR__LIMIT_STATS_FILL_SECONDS = 10, /* over which the fill ratio is averaged */
	WEIR__LIMIT_STATS_LIMITS_MAX = 1024, /* tracked at a time */
	WEIR__LIMIT_STATS_BUCKETS = 27,      /* buckets of a histogram; the last has no bound */
	WEIR__LIMIT_STATS_LEAST_NS = 256,    /* bound of the first bucket; each next bound is twice the last */
	WEIR__LIMIT_STATS_TIMED = 16,        /* one in this many store calls is timed */
	/* Up to this many decisions a second, a worker counts the key of each decision. Above, it samples about this
	 * many keys, and each sampled key counts for the decisions since the last sample. */
	WEIR__LIMIT_STATS_EXACT = 20000,
	WEIR__LIMIT_STATS_WEIGHT_MOST = 4096, /* the highest weight of a sampled key */
	/* Bytes for the top keys of a worker. Limits beyond that have no top keys. */
	WEIR__LIMIT_STATS_TOP_KEYS_MOST = 64 << 20,
};

/* Durations by bucket. */
struct weir__limit_stats_histogram {
	_Atomic uint64_t counts[WEIR__LIMIT_STATS_BUCKETS];
	_Atomic uint64_t sum_ns;
};

enum weir__limit_stats_duration {
	WEIR__DURATION_DECISION, /* in a store that completes at once; one call counts once, with all its claims */
	/* From when the kernel reported a request until the server wrote the reply. Not throttled. */
	WEIR__DURATION_REQUEST,
	WEIR__DURATION_THROTTLED, /* the same, but denied, delayed or made to wait */
	WEIR__DURATION_WAIT,      /* how long a take waited at the server */
	WEIR__LIMIT_STATS_DURATIONS,
};

struct weir__limit_stats_set;
struct weir__tracer;

/* Counts of a limit, or of requests, in one second. */
struct weir__limit_stats_second {
	_Atomic uint32_t at; /* Unix time; the numbers are of this second only; 0: unused */
	_Atomic uint32_t decided, rejected, delayed;
	_Atomic uint64_t fill; /* sum of remaining/limit, in units of 1/WEIR__FILL_ONE */
	_Atomic uint64_t delay_ns;
};

#define WEIR__FILL_ONE (UINT64_C(1) << 20)

/* A limit's statistics in one worker. */
struct weir__limit_stats_limit {
	_Atomic uint32_t limit;             /* its index in the table plus 1; 0: unused */
	uint32_t newest;                    /* the last second with decisions; worker only */
	uint64_t whole;                     /* the limit in the last verdict; worker only */
	double share;                       /* WEIR__FILL_ONE / whole; worker only */
	_Atomic uint64_t delayed, delay_ns; /* since it is tracked */
	struct weir__top_keys *top_keys;    /* of this limit; NULL: keys are not counted */
	struct weir__limit_stats_second seconds[WEIR__LIMIT_STATS_SECONDS];
};

/* The statistics of one worker. */
struct weir__limit_stats {
	_Alignas(64) struct weir__limit_stats_histogram histograms[WEIR__LIMIT_STATS_DURATIONS];
	struct weir__limit_stats_set *stats_set;
	struct weir__tracer *tracer; /* also gets each decision; NULL: no tracing */
	uint32_t until_timed, until_top_key;
	uint32_t second, decided, looked; /* the current second; in it: claims decided, keys sampled at this weight */
	uint32_t weight;                  /* how many decisions the next sampled key counts for */
	uint64_t random;
	uint64_t answered, throttled;                 /* since replies were last sent */
	_Atomic uint64_t requests, rejected, delayed; /* requests, not claims, since the start; by second below */
	struct weir__limit_stats_second seconds[WEIR__LIMIT_STATS_SECONDS];
	_Atomic uint32_t n_limits;
	size_t of_top_keys;       /* bytes used by top keys */
	uint32_t looked_for_room; /* the second of the last search for a limit to evict */
	_Atomic uint16_t *places; /* for each limit of the table: index in `limits` plus 1; 0: not tracked */
	struct weir__limit_stats_limit *_Atomic limits[WEIR__LIMIT_STATS_LIMITS_MAX];
};

/* `top_keys` is the number of keys to track for each limit, by decisions and by denials; 0: keys are not counted. NULL:
 * no memory. */
struct weir__limit_stats_set *weir__limit_stats_set_new(const struct weir_table *table, uint32_t workers,
							uint32_t top_keys);
void weir__limit_stats_set_free(struct weir__limit_stats_set *stats_set); /* NULL is allowed */

/* Returns the statistics of a worker; NULL if stats_set is NULL. */
struct weir__limit_stats *weir__limit_stats_set_of(struct weir__limit_stats_set *stats_set, uint32_t worker);
uint32_t weir__limit_stats_set_workers(const struct weir__limit_stats_set *stats_set);

/* --- counting: by the worker itself; with NULL for `stats`, nothing is counted ----------------------------------- */

/* Counts decisions that are independent of each other. */
void weir__limit_stats_each(struct weir__limit_stats *stats, const struct weir_claim *claims,
			    const struct weir_verdict *verdicts, size_t n, weir_ns now);

/* Counts a request that several limits decided, all or nothing, or a limit in shadow, which the client does not see. */
void weir__limit_stats_together(struct weir__limit_stats *stats, const struct weir_claim *claims,
				const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now);

/* Counts a request that no enforced limit decided. */
void weir__limit_stats_without_limit(struct weir__limit_stats *stats, bool is_allowed, weir_ns now);

void weir__limit_stats_histogram_add(struct weir__limit_stats_histogram *histogram, uint64_t ns, uint64_t times);

/* Whether to time the next store call, with weir__limit_stats_histogram_add. */
static inline bool weir__limit_stats_is_timed(struct weir__limit_stats *stats)
{
	if (stats == NULL || --stats->until_timed > 0)
		return false;
	stats->until_timed = WEIR__LIMIT_STATS_TIMED;
	return true;
}

/* Counts n requests whose replies are written. Their duration is added by weir__limit_stats_sent. */
static inline void weir__limit_stats_answered(struct weir__limit_stats *stats, uint64_t n)
{
	if (stats)
		stats->answered += n;
}

/* Adds the duration of the requests counted since the last call. They arrived at `since`. */
void weir__limit_stats_sent(struct weir__limit_stats *stats, weir_ns since, weir_ns now);

/* --- reading: from any thread ------------------------------------------------------------------------------------- */

struct weir__limit_stats_histogram_sum {
	uint64_t counts[WEIR__LIMIT_STATS_BUCKETS]; /* by bucket, not cumulative */
	uint64_t sum_ns, n;
};

void weir__limit_stats_set_durations(struct weir__limit_stats_set *stats_set, enum weir__limit_stats_duration which,
				     struct weir__limit_stats_histogram_sum *ret_sum);

/* The upper bound of a bucket, in ns; UINT64_MAX: the last, which has no bound. */
uint64_t weir__limit_stats_histogram_bound(unsigned place);

/* Counts of a limit, or of requests, in one second or several. */
struct weir__limit_stats_sum {
	uint64_t decided, rejected, delayed, delay_ns;
	uint64_t fill; /* as in struct weir__limit_stats_second; the mean is fill / decided */
};

/* Decisions that were not rejected. A decision that is being counted at the moment may be in only one of the two
 * numbers. */
static inline uint64_t weir__limit_stats_allowed(const struct weir__limit_stats_sum *seen)
{
	return seen->decided > seen->rejected ? seen->decided - seen->rejected : 0;
}

/* Adds up the last `seconds` seconds, up to and including `last`. Returns false if there were no decisions. */
bool weir__limit_stats_set_limit(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				 uint32_t last, uint32_t seconds, struct weir__limit_stats_sum *ret_seen);

/* The same, second by second: the last element is second `last`. At most WEIR__LIMIT_STATS_SECONDS have data. */
void weir__limit_stats_set_series(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				  uint32_t last, uint32_t seconds, struct weir__limit_stats_sum *ret_seen);

/* Requests, since the workers started and second by second. A request that several limits decided counts once, and is
 * rejected if one of them denied it. A request to which no limit applies, or only limits in shadow, is allowed, unless
 * the policy denies unmatched requests. */
void weir__limit_stats_set_requests(struct weir__limit_stats_set *stats_set, struct weir__limit_stats_sum *ret_seen);
void weir__limit_stats_set_requests_series(struct weir__limit_stats_set *stats_set, uint32_t last, uint32_t seconds,
					   struct weir__limit_stats_sum *ret_seen);

/* Whether any worker tracks the limit: it had decisions lately, or was not evicted since. */
bool weir__limit_stats_set_has(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit);

/* Delays since the limit is tracked. */
void weir__limit_stats_set_delays(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				  uint64_t *ret_delayed, uint64_t *ret_delay_ns);

/* The top keys of a limit over all workers, by decisions or by denials: see weir__top_keys_read. */
size_t weir__limit_stats_set_top_keys(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				      enum weir__top_keys_kind kind, weir_ns now, struct weir__top_key *ret_top_keys,
				      size_t most, weir_ns *ret_since);

#endif
