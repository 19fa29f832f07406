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
 * Threads. Any thread may call any function that takes a struct weir_store, except weir_store_free. These calls block
 * until the store has decided: on a table they never wait, on Redis at most the timeout of the URL. A program with an
 * event loop uses a struct weir_submitter instead, one per loop. After fork, a child may use a store on a shared table.
 * It may not use a store on Redis, whose thread stays in the parent.
 *
 * Ownership. Free a store by weir_store_free, after its guards. Keys, claims, URLs and names are copied or not kept.
 *
 * Time. A table decides on its own clock, weir_table_now. Redis decides on Redis's clock. No call here takes `now`.
 *
 * Errors are ints, denials are verdicts. Redis is across a network, so every call that decides can fail in two ways,
 * unless the fallback decides instead:
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

/* How to decide when the store that keeps the state of a limit does not reply in time: fail open, fail closed, or
 * decide here. It has no effect for a table, which cannot fail. */
enum weir_store_failure {
	WEIR_STORE_FAILURE_UNSET,  /* the default of the store applies; without one the call fails */
	WEIR_STORE_FAILURE_SHARE,  /* this node decides, by its share of the limit */
	WEIR_STORE_FAILURE_OPEN,   /* fail open: requests are allowed */
	WEIR_STORE_FAILURE_CLOSED, /* fail closed: requests are denied */
	WEIR_STORE_FAILURE_LOCAL,  /* this node decides, by a separate local limit */
};

/* --- making a store ---------------------------------------------------------------------------------------------- */

/* Makes a store that keeps its state in the table. The table stays yours and must outlive the store. WEIR_ERR_SYSTEM:
 * no memory. */
WEIR_API int weir_store_table(struct weir_table *table, struct weir_store **ret_store,
			      struct weir_message *ret_message);

/* Options of weir_store_redis. All zero is the default, and so is NULL. */
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

/* Makes a store that keeps its state in Redis. It starts a thread that connects, and does not wait for the connection:
 * see weir_store_wait. redis.h describes the URL. This function is in libweir-redis. WEIR_ERR_SYNTAX, WEIR_ERR_LIMIT:
 * the URL, a file that it names, or an option cannot be used. WEIR_ERR_SYSTEM: no memory, or no thread. Other errors as
 * weir_table_new. */
WEIR_API int weir_store_redis(const char *url, const struct weir_store_options *options, struct weir_store **ret_store,
			      struct weir_message *ret_message);

/* Frees the store. No other thread may use it any more, and its guards must have been freed. Submitters that are left
 * are freed first, as by weir_submitter_free. Blocks for at most 2 s to send charges that were deferred while Redis was
 * away. NULL is allowed. */
WEIR_API void weir_store_free(struct weir_store *store);

/* Blocks until Redis is reachable, for at most this duration. Returns at once for a table. This call is optional, for
 * programs that do not want to start without Redis. WEIR_ERR_UNREACHABLE: not yet, and the message says why. */
WEIR_API int weir_store_wait(struct weir_store *store, weir_ns at_most, struct weir_message *ret_message);

/* Returns the table of the store, for weir_table_stats and similar functions. Do not free it, unless you made it.
 * Decisions that you make directly on this table do not reach Redis. */
WEIR_API struct weir_table *weir_store_get_table(struct weir_store *store);

/* Makes a store on a table read this clock instead of weir_table_now, for tests and replays. Call it before you use the
 * store. WEIR_ERR_UNSUPPORTED: the store is on Redis, which has its own clock. */
WEIR_API int weir_store_set_clock(struct weir_store *store, weir_ns (*now)(void *context), void *context);

/* --- limits ------------------------------------------------------------------------------------------------------ */

/* Adds a limit to the store's table, or finds it. The table owns the limit: free nothing. Programs that use the same
 * Redis, prefix, name and key share one state. Errors as weir_table_add_limit, and WEIR_ERR_MAXIMUM if the limit does
 * not fit Redis, whose numbers are exact only up to 2^53. */
WEIR_API int weir_store_add_limit(struct weir_store *store, const char *name, const struct weir_limit *limit,
				  const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* The same from a limit in the notation of limit.h, ended by a NUL. Also returns WEIR_ERR_SYNTAX. */
WEIR_API int weir_store_add_limit_text(struct weir_store *store, const char *name, const char *text,
				       const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* Changes a limit from now on, as weir_table_change_limit does. In Redis, keys are carried over when they are next
 * used. If several programs have different limits of one name, the latest change decides. Errors as
 * weir_table_change_limit, and WEIR_ERR_MAXIMUM as above. */
WEIR_API int weir_store_change_limit(struct weir_store *store, const struct weir_table_limit *limit,
				     const struct weir_limit *to, struct weir_message *ret_message);

/* The same from a limit in the notation of limit.h, ended by a NUL. Also returns WEIR_ERR_SYNTAX. */
WEIR_API int weir_store_change_limit_text(struct weir_store *store, const struct weir_table_limit *limit,
					  const char *text, struct weir_message *ret_message);

/* Sets how to decide on one limit when the store fails. For LOCAL, `local` is the limit that decides instead, added to
 * the same store by weir_store_add_limit. Otherwise it is NULL. timeout is how long a decision on this limit waits for
 * Redis (0: the timeout of the URL). A request with several limits waits for the shortest. If one of its limits has no
 * rule, and the store no default, the request fails. A policy sets this for its own limits (guard.h). WEIR_ERR_LIMIT:
 * LOCAL without a local limit, or a local limit without LOCAL. */
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
 * Blocks on Redis, as do all calls of this part. step.h describes each operation. WEIR_ERR_UNREACHABLE,
 * WEIR_ERR_UNANSWERED: see above. */
WEIR_API int weir_store_take(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_store_answer *ret_answer);

/* Charges as many units as are left, at most cost. Their number is verdict.granted. */
WEIR_API int weir_store_upto(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_store_answer *ret_answer);

/* Returns the verdict that weir_store_take would give, and charges nothing. */
WEIR_API int weir_store_peek(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_store_answer *ret_answer);

/* Gives back n units, at most what is used. The verdict is always allowed. */
WEIR_API int weir_store_refund(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			       size_t key_length, uint64_t n, struct weir_store_answer *ret_answer);

/* Clears what the key has used, so that it is like a new key. verdict.allowed says whether anything was stored. */
WEIR_API int weir_store_reset(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
			      size_t key_length, struct weir_store_answer *ret_answer);

/* Decides n claims together, 1 to WEIR_TABLE_CLAIMS_MAX, as weir_table_decide does. The request is allowed only if all
 * limits allow it, and charged nowhere if one denies it (but limits with count all count the attempt). verdicts has
 * room for n, or is NULL. WEIR_ERR_LIMIT: n is out of range. */
WEIR_API int weir_store_decide(struct weir_store *store, const struct weir_claim *claims, size_t n,
			       struct weir_verdict *verdicts, struct weir_store_answer *ret_answer);

#define WEIR_STORE_BATCH_MAX 64 /* claims in one batch */

/* Takes n independent claims, 1 to WEIR_STORE_BATCH_MAX, in order and in one call. Either all of them are sent, or
 * none. verdicts has room for n. ret_answer may be NULL. Only its decided_at and fallback_nodes have a meaning.
 * WEIR_ERR_LIMIT: n is out of range. */
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
 * Threads. A submitter belongs to one event loop: two threads must not call its functions at once. Make one submitter
 * per thread. All of them share the store. Requests of one submitter take effect in the order in which they were
 * submitted. Their completions may come in a different order.
 *
 * A completion is called exactly once for each request that was accepted, by weir_submitter_dispatch or
 * weir_submitter_free, never by weir_submitter_submit. It may submit again. The same holds for a table, although a
 * table decides within weir_submitter_submit. With a table alone, use the blocking calls: they are faster, and never
 * wait. */
struct weir_submitter;

enum weir_store_operation {
	WEIR_STORE_TAKE, /* 1 to WEIR_TABLE_CLAIMS_MAX claims together; all others take one claim */
	WEIR_STORE_UPTO,
	WEIR_STORE_PEEK,
	WEIR_STORE_REFUND, /* claim.cost: units to give back */
	WEIR_STORE_RESET,
};

/* A completion. error is WEIR_OK, WEIR_ERR_UNREACHABLE or WEIR_ERR_UNANSWERED. Without an error, `answer` has the
 * result, and `verdicts` one verdict per claim. Both are valid only during the call. With an error both are NULL. */
typedef void weir_store_done(void *context, int error, const struct weir_store_answer *answer,
			     const struct weir_verdict *verdicts);

#define WEIR_SUBMITTER_MAX 65536 /* requests of one submitter that are not complete */

/* Makes a submitter. The store must outlive it. WEIR_ERR_SYSTEM: no memory, or no descriptor. */
WEIR_API int weir_submitter_new(struct weir_store *store, struct weir_submitter **ret_submitter,
				struct weir_message *ret_message);

/* Frees the submitter. Blocks until its requests are complete, which takes at most their timeouts, and calls all
 * completions. A completion that submits gets WEIR_ERR_CLOSED. Do not call this from a completion. NULL is allowed. */
WEIR_API void weir_submitter_free(struct weir_submitter *submitter);

/* Returns a descriptor that is readable when weir_submitter_dispatch has something to do. Only poll it: do not read or
 * close it. */
WEIR_API int weir_submitter_descriptor(const struct weir_submitter *submitter);

/* Submits a request. Never blocks. Claims and keys are copied. WEIR_ERR_LIMIT: n is not valid for the operation.
 * WEIR_ERR_FULL: WEIR_SUBMITTER_MAX requests are under way. WEIR_ERR_CLOSED: the submitter is being freed.
 * WEIR_ERR_SYSTEM: no memory. After an error `done` is not called. */
WEIR_API int weir_submitter_submit(struct weir_submitter *submitter, enum weir_store_operation operation,
				   const struct weir_claim *claims, size_t n, weir_store_done *done, void *context);

/* Sends what was submitted. Optional: weir_submitter_dispatch does so too, and the descriptor is readable until then.
 * Calling it before your loop sleeps saves one turn of the loop. */
WEIR_API void weir_submitter_flush(struct weir_submitter *submitter);

/* Calls the completions of requests that are complete, and returns their number. Never blocks. Requests that complete
 * meanwhile are left for the next call. */
WEIR_API size_t weir_submitter_dispatch(struct weir_submitter *submitter);

/* Returns the number of requests whose completion was not called yet. */
WEIR_API size_t weir_submitter_in_flight(const struct weir_submitter *submitter);

/* --- statistics -------------------------------------------------------------------------------------------------- */

enum weir_store_health {
	WEIR_STORE_UP,
	WEIR_STORE_DOWN,    /* calls fail at once, or the fallback decides at once */
	WEIR_STORE_PROBING, /* a probe was sent, to find out whether it is back */
};

#define WEIR_STORE_LATENCIES 16        /* buckets of the latency histogram */
#define WEIR_STORE_LATENCY_FIRST_US 64 /* bucket i counts up to 2^i times as much; the last one also counts the rest */

/* Counters start at 0 when the store is made, except where a comment says otherwise. Set size_bytes to sizeof(struct
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
	uint64_t deferred_charged, deferred_excess; /* units charged later; units beyond what was left */
	uint64_t deferred_uncertain,
		deferred_dropped; /* units sent without a reply; units dropped because memory was full */
	uint64_t latency_counts[WEIR_STORE_LATENCIES]; /* requests that Redis decided, by duration */
	uint64_t latency_sum_us;
	uint64_t keys_capacity, keys_live; /* of the table, now; live keys are estimated from a part of a large table */
	uint64_t keys_inserted, keys_evicted; /* of the table, since it was made, by all its processes */
	char last_error[256];                 /* of Redis, for people; empty: none yet */
};

/* Fills in the statistics. Call it at any time, as often as you like. WEIR_ERR_LIMIT: size_bytes is not set. */
WEIR_API int weir_store_stats(struct weir_store *store, struct weir_store_stats *stats);

struct weir_store_limit_stats {
	/* The name by which the limit was added. If a policy changed a limit so that its keys had to start over, the
	 * new one has the name of its plan with ~ and 16 digits in front, and both are listed. */
	const char *name;
	struct weir_limit limit; /* as it is now */
	/* Decisions, by all processes that share the table, made by the table, Redis or the fallback. A denied decision
	 * on several limits counts as denied for those limits that denied it. */
	uint64_t allowed, denied;
};

/* Called once per limit. The stats are valid only during the call. Later versions may add fields at the end of the
 * struct. */
typedef void weir_store_limit_report(void *context, const struct weir_store_limit_stats *stats);

/* Reports each limit of the store's table. Takes no lock, so `report` may call the store. */
WEIR_API void weir_store_each_limit(struct weir_store *store, weir_store_limit_report *report, void *context);

#ifdef __cplusplus
}
#endif
#endif
