/* store.h: one API for limits, wherever their state is kept: in this process, in shared memory, in a file, or in Redis.
 *
 *     const struct weir_table_limit *per_user;
 *     struct weir_store_answer answer;
 *     struct weir_store *store;
 *     struct weir_message why;
 *
 *     if (weir_store_redis("redis://127.0.0.1:6379", NULL, &store, &why) != WEIR_OK ||
 *         weir_store_add_limit_text(store, "per-user", "100/min burst 20", &per_user, &why) != WEIR_OK)
 *             errx(1, "%s", why.text);
 *     if (weir_store_take(store, per_user, user, strlen(user), 1, &answer) != WEIR_OK)
 *             serve_or_not();      Redis did not reply, and the store has no fallback
 *     else if (answer.verdict.allowed)
 *             serve();
 *
 * With weir_store_table(table, &store, &why) in place of weir_store_redis, the same program keeps its state in a table:
 * private, shared memory or a file, as the table was made. weir_guard_new_on (guard.h) puts a policy in front of a
 * store.
 *
 * Every store has a table. It names the limits and counts their decisions. If Redis keeps the state, the table also
 * decides while Redis fails, as far as the store has a fallback. Limits are the table's: weir_table_limit_name and
 * weir_table_limit_limit work on them.
 *
 * Threads. Everything that takes a struct weir_store may be called from any thread. These calls block until the store
 * has decided: on a table they never wait, on Redis at most the timeout of the URL. A program with an event loop uses a
 * struct weir_submitter instead, one per loop: see below. After fork, a child may use a store on a shared table, but not
 * one on Redis, whose thread stays in the parent.
 *
 * Time. A table decides on its own clock, weir_table_now. Redis decides on Redis's clock.
 *
 * Errors are ints, denials are verdicts. Redis is across a network, so a call can fail in two ways, unless the fallback
 * decides instead:
 *     WEIR_ERR_UNREACHABLE  the request was not sent: certainly nothing is charged
 *     WEIR_ERR_UNANSWERED   the request was sent, and no reply came in time: it may be charged
 * Outputs named ret_ are written only on success. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include <weir/table.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_store;

/* How to decide when the store that keeps the state of a limit does not reply in time. A table cannot fail, so there
 * this has no effect. */
enum weir_store_failure {
	WEIR_STORE_FAILURE_UNSET,  /* not said: the default of the store applies, and without one the call fails */
	WEIR_STORE_FAILURE_SHARE,  /* this node decides, by its share of the limit */
	WEIR_STORE_FAILURE_OPEN,   /* fail open: requests are allowed */
	WEIR_STORE_FAILURE_CLOSED, /* fail closed: requests are denied */
	WEIR_STORE_FAILURE_LOCAL,  /* this node decides, by a separate local limit */
};

/* --- making a store ---------------------------------------------------------------------------------------------- */

/* Makes a store that keeps its state in the table, which must outlive it. WEIR_ERR_SYSTEM: no memory. */
WEIR_API int weir_store_table(struct weir_table *table, struct weir_store **ret_store,
			      struct weir_message *ret_message);

/* All zero is the default, and so is NULL. */
struct weir_store_options {
	/* For limits without a rule of their own: see weir_store_set_failure. UNSET: no fallback, and calls fail.
	 * LOCAL is not possible here, because a local limit belongs to one limit. */
	enum weir_store_failure on_failure;
	/* The table for limits, counters and the fallback. It must outlive the store. Several processes of a machine
	 * that pass the same shared table share their fallback. NULL: the store makes a private table by the three
	 * numbers below, and frees it. */
	struct weir_table *table;
	uint64_t keys; /* keys that are in use at once while Redis fails; 0 means 100000, which is 2.3 MB */
	/* The most limits; 0 means 64. Each takes 1672 bytes in the table, and 48 bytes in each submitter and for each
	 * thread that has called at the same time as others. */
	uint32_t limits_max;
	size_t arena_bytes; /* for sliding logs and segments; 0 means 1 MiB */
	/* Memory for charges and refunds that are deferred while Redis is away; 0 means 64 MiB. What does not fit is
	 * counted as dropped: see struct weir_store_stats. */
	size_t deferred_bytes;
};

/* Makes a store that keeps its state in Redis. Starts a thread that connects, and does not wait for the connection: see
 * weir_store_wait. redis.h describes the URL, which is copied. This function is in libweir-redis. WEIR_ERR_SYNTAX,
 * WEIR_ERR_LIMIT: the URL, a file that it names, or an option cannot be used. WEIR_ERR_SYSTEM: no memory, or no thread.
 * Other errors as weir_table_new. */
WEIR_API int weir_store_redis(const char *url, const struct weir_store_options *options, struct weir_store **ret_store,
			      struct weir_message *ret_message);

/* Frees the store. No other thread may use it any more, and its guards must have been freed. Submitters that were not
 * freed are freed first, as weir_submitter_free does. For at most 2 s, sends charges that were deferred while Redis was
 * away. NULL is allowed. */
WEIR_API void weir_store_free(struct weir_store *store);

/* Waits until the store can be called, for at most this duration; a table always can. WEIR_ERR_UNREACHABLE: not yet,
 * and the message says why. This call is optional, for programs that do not want to start without Redis. */
WEIR_API int weir_store_wait(struct weir_store *store, weir_ns at_most, struct weir_message *ret_message);

/* The table of the store, which owns it if it made it. For weir_table_stats and the like: what you decide on it
 * directly is decided without Redis. */
WEIR_API struct weir_table *weir_store_get_table(struct weir_store *store);

/* For tests and replays: a store on a table reads this clock instead of weir_table_now. Call it before the store is
 * used. WEIR_ERR_UNSUPPORTED: Redis has a clock of its own. */
WEIR_API int weir_store_set_clock(struct weir_store *store, weir_ns (*now)(void *context), void *context);

/* --- limits ------------------------------------------------------------------------------------------------------ */

/* Adds a limit to the store's table, or finds it. The store's table owns the limit, which needs no freeing. Programs
 * that use the same Redis, prefix, name and key share one state. Errors as weir_table_add_limit, and WEIR_ERR_MAXIMUM
 * if the limit does not fit Redis, whose numbers are exact only up to 2^53. */
WEIR_API int weir_store_add_limit(struct weir_store *store, const char *name, const struct weir_limit *limit,
				  const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* The same from a limit in the notation of limit.h, ended by a NUL. WEIR_ERR_SYNTAX, too. */
WEIR_API int weir_store_add_limit_text(struct weir_store *store, const char *name, const char *text,
				       const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* Changes a limit as of now, as weir_table_change_limit does. In Redis, keys are carried over when they are next used,
 * and of several programs with different limits of one name the latest change decides. Errors as
 * weir_table_change_limit, and WEIR_ERR_MAXIMUM as above. */
WEIR_API int weir_store_change_limit(struct weir_store *store, const struct weir_table_limit *limit,
				     const struct weir_limit *to, struct weir_message *ret_message);

WEIR_API int weir_store_change_limit_text(struct weir_store *store, const struct weir_table_limit *limit,
					  const char *text, struct weir_message *ret_message);

/* Sets what happens to one limit when the store fails. `local` is for LOCAL, else NULL: a limit of the same table, which
 * decides in its place; add it by weir_store_add_limit. timeout is how long a decision on this limit waits for Redis; 0:
 * the timeout of the URL. Requests of several limits wait for the shortest. If one of them has no rule, and the store no
 * default, the request fails. Limits of a policy are set by their policy. WEIR_ERR_LIMIT: LOCAL without a local limit,
 * or a local limit without LOCAL. */
WEIR_API int weir_store_set_failure(struct weir_store *store, const struct weir_table_limit *limit,
				    enum weir_store_failure mode, const struct weir_table_limit *local, weir_ns timeout,
				    struct weir_message *ret_message);

/* --- blocking calls ---------------------------------------------------------------------------------------------- */

struct weir_store_answer {
	struct weir_verdict verdict; /* of several claims: see struct weir_decision */
	size_t decided_by;           /* index of the claim that decided; 0 if there is one claim */
	weir_ns decided_at;          /* on the clock of the table or Redis that decided */
	uint32_t fallback_nodes;     /* 0: the store decided. n: its fallback did, as one of n nodes that share Redis */
	bool is_closed;              /* denied because the store failed and the limit's rule is CLOSED */
};

/* Decides whether a request of this cost may go now, and charges the key if so. A key is any bytes, and is not kept.
 * step.h describes each operation. */
WEIR_API int weir_store_take(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_store_answer *ret_answer);

/* Charges as many units as are left, at most cost: verdict.granted. */
WEIR_API int weir_store_upto(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_store_answer *ret_answer);

/* Returns the verdict that take would give; charges nothing. */
WEIR_API int weir_store_peek(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_store_answer *ret_answer);

/* Gives back n units, at most what is used. */
WEIR_API int weir_store_refund(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			       size_t key_length, uint64_t n, struct weir_store_answer *ret_answer);

/* Clears what the key has used: it is like a new key. verdict.allowed says whether anything was stored. */
WEIR_API int weir_store_reset(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			      size_t key_length, struct weir_store_answer *ret_answer);

/* Decides n claims together, 1 to WEIR_TABLE_CLAIMS_MAX, as weir_table_decide does: allowed only if all limits allow,
 * and charged nowhere if one denies. verdicts, unless NULL, gets one verdict per claim. WEIR_ERR_LIMIT: n is out of
 * range. */
WEIR_API int weir_store_decide(struct weir_store *store, const struct weir_claim *claims, size_t n,
			       struct weir_verdict *verdicts, struct weir_store_answer *ret_answer);

#define WEIR_STORE_BATCH_MAX 64 /* claims in one batch */

/* Takes n independent claims, 1 to WEIR_STORE_BATCH_MAX, in order and in one call. Either all of them were sent, or
 * none. verdicts gets one verdict per claim. In ret_answer, unless NULL, only decided_at and fallback_nodes have a
 * meaning. WEIR_ERR_LIMIT: n is out of range. */
WEIR_API int weir_store_take_batch(struct weir_store *store, const struct weir_claim *claims, size_t n,
				   struct weir_verdict *verdicts, struct weir_store_answer *ret_answer);

/* --- event loops ------------------------------------------------------------------------------------------------- */

/* Submits requests without waiting, for a program with an event loop:
 *
 *     weir_submitter_new(store, &submitter, &why);
 *     add weir_submitter_descriptor(submitter) to your epoll, poll or libuv: wait until it is readable
 *     weir_submitter_submit(submitter, WEIR_STORE_TAKE, &claim, 1, done, request);   any number of times
 *     when the descriptor is readable: weir_submitter_dispatch(submitter), which calls done(request, ...)
 *
 * Threads. A submitter belongs to one event loop: its functions may not be called by two threads at once. Make one per
 * thread; all of them share the store. Requests of one submitter take effect in the order in which they were submitted.
 * Their completions may come in a different order.
 *
 * A completion is called exactly once for each request that was accepted, by weir_submitter_dispatch or
 * weir_submitter_free, never by weir_submitter_submit. It may submit again. This holds for a table as well, where each
 * request is decided within submit: with a table alone, the blocking calls are faster, and never block. */
struct weir_submitter;

enum weir_store_operation {
	WEIR_STORE_TAKE, /* 1 to WEIR_TABLE_CLAIMS_MAX claims together; all others take one claim */
	WEIR_STORE_UPTO,
	WEIR_STORE_PEEK,
	WEIR_STORE_REFUND, /* claim.cost: units to give back */
	WEIR_STORE_RESET,
};

/* error is WEIR_OK, WEIR_ERR_UNREACHABLE or WEIR_ERR_UNANSWERED. Without an error, `answer` has the result, and
 * `verdicts` one verdict per claim; both are valid during the call. With an error both are NULL. */
typedef void weir_store_done(void *context, int error, const struct weir_store_answer *answer,
			     const struct weir_verdict *verdicts);

#define WEIR_SUBMITTER_MAX 65536 /* requests of one submitter that are not complete */

/* The store must outlive the submitter. WEIR_ERR_SYSTEM: no memory, or no descriptor. */
WEIR_API int weir_submitter_new(struct weir_store *store, struct weir_submitter **ret_submitter,
				struct weir_message *ret_message);

/* Waits for requests that are under way, which takes at most their timeouts, and calls all completions. A completion
 * that submits gets WEIR_ERR_CLOSED. Do not call it from a completion. NULL is allowed. */
WEIR_API void weir_submitter_free(struct weir_submitter *submitter);

/* A descriptor that is readable when weir_submitter_dispatch has something to do. Only poll it: do not read or close
 * it. */
WEIR_API int weir_submitter_descriptor(const struct weir_submitter *submitter);

/* Submits a request. Claims and keys are copied. WEIR_ERR_LIMIT: n is not valid for the operation. WEIR_ERR_FULL:
 * WEIR_SUBMITTER_MAX requests are not complete. WEIR_ERR_CLOSED: the submitter is being freed. WEIR_ERR_SYSTEM: no
 * memory. After an error `done` is not called. */
WEIR_API int weir_submitter_submit(struct weir_submitter *submitter, enum weir_store_operation operation,
				   const struct weir_claim *claims, size_t n, weir_store_done *done, void *context);

/* Sends what was submitted. Optional: weir_submitter_dispatch does so too, and the descriptor is readable until then.
 * Calling it before your loop sleeps saves that turn. */
WEIR_API void weir_submitter_flush(struct weir_submitter *submitter);

/* Calls the completions of requests that are complete, and returns how many. Requests that complete meanwhile are left
 * for the next call. */
WEIR_API size_t weir_submitter_dispatch(struct weir_submitter *submitter);

/* The number of requests whose completion was not called yet. */
WEIR_API size_t weir_submitter_in_flight(const struct weir_submitter *submitter);

/* --- statistics -------------------------------------------------------------------------------------------------- */

enum weir_store_health {
	WEIR_STORE_UP,
	WEIR_STORE_DOWN,    /* calls fail at once, or the fallback decides at once */
	WEIR_STORE_PROBING, /* a probe was sent, to find out whether it is back */
};

#define WEIR_STORE_LATENCIES 16        /* buckets of the latency histogram */
#define WEIR_STORE_LATENCY_FIRST_US 64 /* bucket i counts up to 2^i times as much; the last one also counts the rest */

/* Counters grow from the start of the store, except where it says otherwise. Set size_bytes to sizeof(struct
 * weir_store_stats): later versions add fields at the end, and write only those that your size includes. */
struct weir_store_stats {
	size_t size_bytes;
	enum weir_store_health health;           /* a table is always up */
	uint32_t nodes;                          /* programs and servers that share Redis now; 1 for a table */
	uint64_t calls, requests;                /* sent to Redis; a call carries several requests */
	uint64_t decided, unreached, unanswered; /* requests to Redis, by outcome; 0 for a table */
	uint64_t by_fallback;                    /* requests that the fallback decided */
	uint64_t script_loads, failovers;
	uint64_t damaged;                           /* keys in Redis that were reset because they were unreadable */
	uint64_t deferred_keys;                     /* now: keys with charges still to be made in Redis */
	uint64_t deferred_charged, deferred_excess; /* units charged later; units for which no room was left */
	uint64_t deferred_uncertain,
		deferred_dropped; /* units sent without a reply; units that did not fit the memory */
	uint64_t latency_counts[WEIR_STORE_LATENCIES]; /* requests that Redis decided, by duration */
	uint64_t latency_sum_us;
	uint64_t keys_capacity, keys_live; /* of the table, now; live keys are estimated from a part of a large table */
	uint64_t keys_inserted, keys_evicted; /* of the table, since it was made, by all its processes */
	char last_error[256];                 /* of Redis, for people; empty: none yet */
};

/* May be called at any time, as often as you like. WEIR_ERR_LIMIT: size_bytes is not set. */
WEIR_API int weir_store_stats(struct weir_store *store, struct weir_store_stats *stats);

struct weir_store_limit_stats {
	/* The name by which the limit was added. If a policy changed a limit so that its keys had to start over, the new
	 * one has the name of its plan with ~ and 16 digits in front, and both are listed. */
	const char *name;
	struct weir_limit limit; /* as it is now */
	/* Decisions, by all processes that share the table, made by the table, Redis or the fallback. A denied decision
	 * on several limits counts as denied for those limits that denied it. */
	uint64_t allowed, denied;
};

/* The stats are valid during the call. */
typedef void weir_store_limit_report(void *context, const struct weir_store_limit_stats *stats);

/* Reports each limit of the store's table. The struct may get more fields at its end. Takes no lock, and `report` may call
 * the store. */
WEIR_API void weir_store_each_limit(struct weir_store *store, weir_store_limit_report *report, void *context);

#ifdef __cplusplus
}
#endif
#endif
