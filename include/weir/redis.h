/* redis.h: limits whose state is in Redis, so that any number of machines share them.
 *
 *     const struct weir_redis_limit *per_user;
 *     struct weir_redis *redis;
 *     struct weir_verdict verdict;
 *     struct weir_message why;
 *
 *     if (weir_redis_new("redis://127.0.0.1:6379", &redis, &why) != WEIR_OK ||
 *         weir_redis_add_limit_text(redis, "per-user", "100/min burst 20", &per_user, &why) != WEIR_OK)
 *             errx(1, "%s", why.text);
 *     if (weir_redis_take(redis, per_user, user, strlen(user), 1, &verdict) != WEIR_OK)
 *             serve_or_not();      Redis did not reply: fail open or fail closed, as you choose
 *     else if (verdict.allowed)
 *             serve();
 *
 * A script inside Redis makes each decision, on Redis's clock, with the same results as a table (table.h): all
 * algorithms, and several limits together, all or nothing. Processes that use the same prefix, limit name and key share
 * one state. Decisions of many threads are sent together.
 *
 * Redis is across a network, so each call that decides can fail in one of two ways:
 *     WEIR_ERR_UNREACHABLE  the request was not sent: certainly nothing is charged
 *     WEIR_ERR_UNANSWERED   the request was sent, and no reply came in time: it may be charged
 * After repeated failures, or as soon as Redis rejects a call or cannot be reached, a circuit breaker opens: all calls
 * fail at once with UNREACHABLE until a probe succeeds.
 *
 * weir_store_redis (store.h) makes a larger handle: the same calls as for a table, a fallback for when Redis fails,
 * event loops, and a policy in front (guard.h).
 *
 * Threads. Any thread may call any function here, except weir_redis_free. Calls that decide block for at most the
 * timeout of the URL, 100 ms by default. After fork, a child must not use the handle: its thread stays in the parent.
 *
 * Ownership. The handle owns its limits. Free it by weir_redis_free. Functions copy URLs, names and limits, and do not
 * keep keys.
 *
 * This is a separate library, libweir-redis, because it needs OpenSSL. */
#ifndef WEIR_REDIS_H
#define WEIR_REDIS_H

#include <weir/limit.h>
#include <weir/table.h>
#include <weir/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_REDIS_CLAIMS_MAX 16 /* claims in one decision */
#define WEIR_REDIS_BATCH_MAX 64  /* decisions in one batch */
#define WEIR_REDIS_NAME_MAX 127  /* bytes in a limit's name */

struct weir_redis;
struct weir_redis_limit;

/* Makes a handle and starts a thread that connects. It does not wait for the connection: see weir_redis_wait. The URL,
 * ended by a NUL, is one of
 *
 *     redis://[user:password@]host[:port][/database][?option=value&...]
 *     rediss://...                             the same with TLS
 *     redis+sentinel://host[:port][,host[:port]...]/primary-name[/database], rediss+sentinel://...
 *     redis+unix:///path/to/socket
 *
 * with the options prefix, timeout, connect_timeout, pool, database, ca, cert, key, tls_name, verify, sentinel_user and
 * sentinel_password; docs/guides/many-servers.md explains each. WEIR_ERR_SYNTAX, WEIR_ERR_LIMIT: the URL, or a file that it names,
 * cannot be used; the message says why. WEIR_ERR_SYSTEM: no memory, or no thread. */
WEIR_API int weir_redis_new(const char *url, struct weir_redis **ret_redis, struct weir_message *ret_message);

/* Frees the handle and its limits. No other thread may use them any more. NULL is allowed. */
WEIR_API void weir_redis_free(struct weir_redis *redis);

/* Blocks until Redis is reachable, for at most this duration. This call is optional, for programs that do not want to
 * start without Redis. WEIR_ERR_UNREACHABLE: not yet, and the message says why. */
WEIR_API int weir_redis_wait(struct weir_redis *redis, weir_ns at_most, struct weir_message *ret_message);

/* Adds a limit, or finds it. A name has 1 to WEIR_REDIS_NAME_MAX bytes, without a colon or control characters. Keys in
 * Redis are named PREFIX, NAME, a colon and KEY. Sends nothing to Redis. The handle owns the limit. WEIR_ERR_CHANGE:
 * this process already has a different limit of this name. WEIR_ERR_LIMIT: an invalid limit or name. WEIR_ERR_MAXIMUM:
 * the limit does not fit Redis, whose numbers are exact only up to 2^53; the message says what would be right.
 * WEIR_ERR_SYSTEM: no memory. */
WEIR_API int weir_redis_add_limit(struct weir_redis *redis, const char *name, const struct weir_limit *limit,
				  const struct weir_redis_limit **ret_limit, struct weir_message *ret_message);

/* The same from a limit in the notation of limit.h, ended by a NUL. Also returns WEIR_ERR_SYNTAX. */
WEIR_API int weir_redis_add_limit_text(struct weir_redis *redis, const char *name, const char *text,
				       const struct weir_redis_limit **ret_limit, struct weir_message *ret_message);

/* Changes a limit from now on, by Redis's clock. Keys are carried over as weir_table_change_limit describes, when they
 * are next used. If several processes have different limits of one name, the limit that was added or changed last
 * decides, for all stored keys. verdict.limit shows which limit decided. WEIR_ERR_CHANGE: the algorithm, an option or
 * the period of a window would change. WEIR_ERR_LIMIT and WEIR_ERR_MAXIMUM as weir_redis_add_limit.
 * WEIR_ERR_UNREACHABLE, WEIR_ERR_UNANSWERED: Redis did not return its time. */
WEIR_API int weir_redis_change_limit(struct weir_redis *redis, const struct weir_redis_limit *limit,
				     const struct weir_limit *to, struct weir_message *ret_message);

/* Decides whether a request of this cost may go now, and charges the key if so. Blocks, as do all calls below that
 * decide. step.h describes each operation. WEIR_ERR_UNREACHABLE, WEIR_ERR_UNANSWERED: see above. */
WEIR_API int weir_redis_take(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_verdict *ret_verdict);

/* Charges as many units as are left, at most cost. Their number is verdict.granted. */
WEIR_API int weir_redis_upto(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_verdict *ret_verdict);

/* Returns the verdict that weir_redis_take would give, and charges nothing. */
WEIR_API int weir_redis_peek(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_verdict *ret_verdict);

/* Gives back n units, at most what is used. The verdict is always allowed. */
WEIR_API int weir_redis_refund(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			       size_t key_length, uint64_t n, struct weir_verdict *ret_verdict);

/* Clears what the key has used, so that it is like a new key. ret_was_stored may be NULL. It says whether anything was
 * stored. */
WEIR_API int weir_redis_reset(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			      size_t key_length, bool *ret_was_stored);

/* One limit that a request must pass. */
struct weir_redis_claim {
	const struct weir_redis_limit *limit;
	const void *key;
	size_t key_length;
	uint64_t cost;
};

/* Decides n claims together, 1 to WEIR_REDIS_CLAIMS_MAX, as weir_table_decide does. The request is allowed only if all
 * limits allow it. If one denies it, nothing is charged (but limits with count all count the attempt). In Redis no
 * other decision can come in between. verdicts has room for n, or is NULL. WEIR_ERR_LIMIT: n is out of range. */
WEIR_API int weir_redis_decide(struct weir_redis *redis, const struct weir_redis_claim *claims, size_t n,
			       struct weir_verdict *verdicts, struct weir_decision *ret_decision);

/* Takes n independent claims, 1 to WEIR_REDIS_BATCH_MAX, in order and in one call. Either all of them are sent, or
 * none. ret_verdicts has room for n. WEIR_ERR_LIMIT: n is out of range. */
WEIR_API int weir_redis_take_batch(struct weir_redis *redis, const struct weir_redis_claim *claims, size_t n,
				   struct weir_verdict *ret_verdicts);

struct weir_redis_status {
	bool is_up;                                /* Redis is reachable, as far as is known */
	uint32_t connections;                      /* connections that are ready */
	uint64_t decided, unreachable, unanswered; /* decisions, by outcome */
	uint64_t calls;       /* calls to Redis for them; one call carries decisions of many threads */
	uint64_t failovers;   /* how often another server became the primary */
	char last_error[256]; /* the last error, for people; empty: none yet */
};

/* Fills in the status. Does not send anything to Redis. */
WEIR_API void weir_redis_status(struct weir_redis *redis, struct weir_redis_status *ret_status);

#ifdef __cplusplus
}
#endif
#endif
