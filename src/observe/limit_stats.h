/* limit_stats.h: what workers see of decisions and answers, for whoever looks at the server: by limit and second, as histograms,
 * and by key (top_keys.h).
 *
 * Each worker writes its own, by plain loads and stores, and whoever asks sums up those of all: a decision waits for
 * nobody. All of it is bounded: so many limits are seen at a time, and one that nobody has asked for long gives way to
 * another. What is counted for ever, as allowed and denied of each limit, is the table's (weir_table_limit_stats). */
#ifndef WEIR_OBSERVE_LIMIT_STATS_H
#define WEIR_OBSERVE_LIMIT_STATS_H

#include <weir/table.h>

#include <stdatomic.h>

#include "observe/top_keys.h"

enum {
	WEIR__LIMIT_STATS_SECONDS = 128,     /* that are remembered of a limit; a power of two */
	WEIR__LIMIT_STATS_FILL_SECONDS = 10, /* over which a fill ratio is the mean */
	WEIR__LIMIT_STATS_LIMITS_MAX = 1024, /* that are seen at a time */
	WEIR__LIMIT_STATS_PLACES = 27,       /* places of a histogram: the last is for all that took longer */
	WEIR__LIMIT_STATS_LEAST_NS = 256,    /* bound of the first; each has twice that of the one before */
	WEIR__LIMIT_STATS_TIMED = 16,        /* of so many calls that decide, one is timed */
	WEIR__LIMIT_STATS_EXACT =
		20000, /* decisions of a worker in a second whose keys are all looked at; of more, about so many
					* keys are, each of which counts for those between them */
	WEIR__LIMIT_STATS_WEIGHT_MOST = 4096,       /* for how many it may count */
	WEIR__LIMIT_STATS_TOP_KEYS_MOST = 64 << 20, /* bytes of keys of a worker: limits beyond that have no talkers */
};

/* How often something took how long. */
struct weir__limit_stats_histogram {
	_Atomic uint64_t counts[WEIR__LIMIT_STATS_PLACES];
	_Atomic uint64_t sum_ns;
};

enum weir__limit_stats_duration {
	WEIR__DURATION_DECISION, /* of the table; what was decided by one call is one */
	WEIR__DURATION_REQUEST, /* from when the server was told of a request until it wrote the answer: not throttled, */
	WEIR__DURATION_THROTTLED, /* and denied, delayed or held back */
	WEIR__DURATION_WAIT,      /* how long a take that waits at the server was held back */
	WEIR__LIMIT_STATS_DURATIONS,
};

struct weir__limit_stats_set;
struct weir__tracer;

/* A limit in a second, or requests as wholes. */
struct weir__limit_stats_second {
	_Atomic uint32_t at; /* Unix time; another one: nothing was seen in it */
	_Atomic uint32_t decided, rejected, delayed;
	_Atomic uint64_t fill; /* sum of remaining/limit, in units of 1/WEIR__FILL_ONE */
	_Atomic uint64_t delay_ns;
};

#define WEIR__FILL_ONE (UINT64_C(1) << 20)

/* A limit, as a worker sees it. */
struct weir__limit_stats_limit {
	_Atomic uint32_t limit;             /* its number in the table, and 1; 0: of none */
	uint32_t newest;                    /* second; of the worker alone, as are */
	uint64_t whole;                     /* the last verdict's limit, and */
	double share;                       /* what one unit is of it, of WEIR__FILL_ONE */
	_Atomic uint64_t delayed, delay_ns; /* since it is seen */
	struct weir__top_keys *top_keys;    /* of this limit; NULL: keys are not looked at */
	struct weir__limit_stats_second seconds[WEIR__LIMIT_STATS_SECONDS];
};

/* Of one worker. */
struct weir__limit_stats {
	_Alignas(64) struct weir__limit_stats_histogram spans[WEIR__LIMIT_STATS_DURATIONS];
	struct weir__limit_stats_set *stats_set;
	struct weir__tracer *tracer; /* who hears of each decision, too; NULL: nobody */
	uint32_t until_timed, until_talker;
	uint32_t second, decided, looked; /* in it: claims, and keys since the weight is this one */
	uint32_t weight;                  /* for how many the next key counts that is looked at */
	uint64_t random;
	uint64_t answered, throttled;                 /* since the last answers were sent */
	_Atomic uint64_t requests, rejected, delayed; /* as wholes, since it began; and by second: */
	struct weir__limit_stats_second seconds[WEIR__LIMIT_STATS_SECONDS];
	_Atomic uint32_t n_limits;
	size_t of_talkers;        /* bytes that these take */
	uint32_t looked_for_room; /* second in which a limit to give way was last looked for */
	_Atomic uint16_t *places; /* of each limit of the table: which of these, and 1; 0: none */
	struct weir__limit_stats_limit *_Atomic limits[WEIR__LIMIT_STATS_LIMITS_MAX];
};

/* For so many workers and this table; with as many keys as `talkers` for each limit, most of what was asked and most of what
 * was denied; 0: keys are not looked at. NULL: no memory. */
struct weir__limit_stats_set *weir__limit_stats_set_new(const struct weir_table *table, uint32_t workers,
							uint32_t top_keys);
void weir__limit_stats_set_free(struct weir__limit_stats_set *stats_set); /* NULL is allowed */

/* That of a worker; NULL if there are none. */
struct weir__limit_stats *weir__limit_stats_set_of(struct weir__limit_stats_set *stats_set, uint32_t worker);
uint32_t weir__limit_stats_set_workers(const struct weir__limit_stats_set *stats_set);

/* --- what is seen: by the worker itself; a sight that is NULL sees nothing --------------------------------------- */

/* Decisions that have nothing to do with each other. */
void weir__limit_stats_each(struct weir__limit_stats *stats, const struct weir_claim *claims,
			    const struct weir_verdict *verdicts, size_t n, weir_ns now);

/* A request that met several limits, all or nothing; or one in shadow, of which its caller is not told. */
void weir__limit_stats_together(struct weir__limit_stats *stats, const struct weir_claim *claims,
				const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now);

void weir__limit_stats_histogram_add(struct weir__limit_stats_histogram *spans, uint64_t ns, uint64_t times);

/* Whether the call that decides next is to be timed, by weir__limit_stats_histogram_add. */
static inline bool weir__limit_stats_is_timed(struct weir__limit_stats *stats)
{
	if (stats == NULL || --stats->until_timed > 0)
		return false;
	stats->until_timed = WEIR__LIMIT_STATS_TIMED;
	return true;
}

/* So many requests have been answered: when the answers were sent, by weir__limit_stats_sent. */
static inline void weir__limit_stats_answered(struct weir__limit_stats *stats, uint64_t n)
{
	if (stats)
		stats->answered += n;
}

/* Answers were sent to requests that the server was told of then. */
void weir__limit_stats_sent(struct weir__limit_stats *stats, weir_ns since, weir_ns now);

/* --- what was seen: by anybody ------------------------------------------------------------------------------------ */

struct weir__limit_stats_histogram_sum {
	uint64_t counts[WEIR__LIMIT_STATS_PLACES]; /* each of its place alone */
	uint64_t sum_ns, n;
};

void weir__limit_stats_set_durations(struct weir__limit_stats_set *stats_set, enum weir__limit_stats_duration which,
				     struct weir__limit_stats_histogram_sum *ret_sum);

/* The bound of a place, in ns; UINT64_MAX: the last has none. */
uint64_t weir__limit_stats_histogram_bound(unsigned place);

/* So many of a limit, or of requests, in a second or several. */
struct weir__limit_stats_sum {
	uint64_t decided, rejected, delayed, delay_ns;
	uint64_t fill; /* as in struct weir__limit_stats_second: the mean is fill / decided */
};

/* Of what was decided, what was not rejected. What is counted meanwhile may have one of the two numbers alone. */
static inline uint64_t weir__limit_stats_allowed(const struct weir__limit_stats_sum *seen)
{
	return seen->decided > seen->rejected ? seen->decided - seen->rejected : 0;
}

/* The sum of `seconds` up to second `last`, which is among them. False: nothing was seen. */
bool weir__limit_stats_set_limit(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				 uint32_t last, uint32_t seconds, struct weir__limit_stats_sum *ret_seen);

/* The same, each second by itself: the one of second `last` is the last of them; up to WEIR__LIMIT_STATS_SECONDS. */
void weir__limit_stats_set_series(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				  uint32_t last, uint32_t seconds, struct weir__limit_stats_sum *ret_seen);

/* Requests as wholes, since the workers began and second by second: one that met several limits is one, and rejected if one of
 * these denied it. What limits in shadow say changes nothing. */
void weir__limit_stats_set_requests(struct weir__limit_stats_set *stats_set, struct weir__limit_stats_sum *ret_seen);
void weir__limit_stats_set_requests_series(struct weir__limit_stats_set *stats_set, uint32_t last, uint32_t seconds,
					   struct weir__limit_stats_sum *ret_seen);

/* Whether a worker sees the limit: it was asked lately, or there was no need for its place since. */
bool weir__limit_stats_set_has(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit);

/* Delays that were given since the limit is seen. */
void weir__limit_stats_set_delays(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				  uint64_t *ret_delayed, uint64_t *ret_delay_ns);

/* The keys of a limit that ask most, or are denied most, as all workers see them: weir__top_keys_read. */
size_t weir__limit_stats_set_top_keys(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				      enum weir__top_keys_kind kind, weir_ns now, struct weir__top_key *ret_talkers,
				      size_t most, weir_ns *ret_since);

#endif
