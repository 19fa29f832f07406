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
 *             serve_or_not();      Redis did not answer: what that means is yours to say
 *     else if (verdict.allowed)
 *             serve();
 *
 * A decision is made by a script inside Redis, on Redis's clock, with the answers of a table (table.h): all algorithms,
 * several limits together, all or nothing. Whoever has the same prefix, limit name and key shares what they count.
 * Decisions of many threads travel together. Each waits at most the timeout of the URL, 10 ms by default.
 *
 * Redis is a network away, so each function here can fail, and what failed is one of two:
 *   WEIR_ERR_UNREACHABLE  it was not asked: certainly nothing is charged
 *   WEIR_ERR_UNANSWERED   it was asked, and its answer did not come in time: perhaps it is charged
 * A Redis that does not answer is not asked by each caller in vain: then all are told UNREACHABLE at once, until one of the
 * probes that go on meanwhile comes back.
 *
 * A library of its own, libweir-redis, since it needs OpenSSL; its functions may be called from any thread. */
#ifndef WEIR_REDIS_H
#define WEIR_REDIS_H

#include <weir/limit.h>
#include <weir/table.h>
#include <weir/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_REDIS_CLAIMS_MAX 16 /* of one decision */
#define WEIR_REDIS_BATCH_MAX 64  /* decisions at once */
#define WEIR_REDIS_NAME_MAX 127  /* bytes of a limit's name */

struct weir_redis;
struct weir_redis_limit;

/* Starts a thread that connects, and does not wait for it. The URL, ended by a NUL, is one of
 *
 *     redis://[user:password@]host[:port][/database][?option=value&...]
 *     rediss://...                             the same with TLS
 *     redis+sentinel://host[:port][,host[:port]...]/primary-name[/database], rediss+sentinel://...
 *     redis+unix:///path/to/socket
 *
 * with the options prefix, timeout, connect_timeout, pool, database, ca, cert, key, tls_name, verify, sentinel_user and
 * sentinel_password; docs/redis.md explains each. WEIR_ERR_SYNTAX, WEIR_ERR_LIMIT: the URL, or a file that it names, cannot
 * be used; the message tells. WEIR_ERR_SYSTEM: no memory, no thread. */
WEIR_API int weir_redis_new(const char *url, struct weir_redis **ret_redis, struct weir_message *ret_message);

/* Frees all, limits included. Nobody uses it any more. NULL is allowed. */
WEIR_API void weir_redis_free(struct weir_redis *redis);

/* Waits until Redis can be asked, at most so long. WEIR_ERR_UNREACHABLE: it cannot yet, and the message says why. Nobody
 * has to wait: it is for programs that do not want to start without. */
WEIR_API int weir_redis_wait(struct weir_redis *redis, weir_ns at_most, struct weir_message *ret_message);

/* Adds a limit, or finds it. A name has 1 to WEIR_REDIS_NAME_MAX bytes, none of them a colon: its keys in Redis are called
 * PREFIX NAME:KEY. Redis is not asked. WEIR_ERR_CHANGE: there is another limit of this name here. WEIR_ERR_LIMIT: it, or
 * the name, cannot be. WEIR_ERR_MAXIMUM: it cannot be in Redis, whose numbers are whole up to 2^53 only; the message says
 * what would be right. WEIR_ERR_SYSTEM: no memory. */
WEIR_API int weir_redis_add_limit(struct weir_redis *redis, const char *name, const struct weir_limit *limit,
				  const struct weir_redis_limit **ret_limit, struct weir_message *ret_message);

/* The same from the notation of limit.h, ended by a NUL. WEIR_ERR_SYNTAX, too. */
WEIR_API int weir_redis_add_limit_text(struct weir_redis *redis, const char *name, const char *text,
				       const struct weir_redis_limit **ret_limit, struct weir_message *ret_message);

/* Changes a limit for this process, as of now on Redis's clock: keys are carried over as weir_table_change_limit says. Other
 * processes change theirs as well, each when it likes. WEIR_ERR_CHANGE: the algorithm, an option or the period of a window
 * would change. WEIR_ERR_LIMIT and WEIR_ERR_MAXIMUM as above; and the errors of Redis, which may have to be asked for its
 * time. */
WEIR_API int weir_redis_change_limit(struct weir_redis *redis, const struct weir_redis_limit *limit,
				     const struct weir_limit *to, struct weir_message *ret_message);

/* May a request of this cost go now? See step.h for what each operation answers. */
WEIR_API int weir_redis_take(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_verdict *ret_verdict);

/* As many as there are, at most cost: verdict.granted. */
WEIR_API int weir_redis_upto(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_verdict *ret_verdict);

/* What take would answer; charges nothing. */
WEIR_API int weir_redis_peek(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, struct weir_verdict *ret_verdict);

/* Gives n back, never above full. */
WEIR_API int weir_redis_refund(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			       size_t key_length, uint64_t n, struct weir_verdict *ret_verdict);

/* Forgets what the key owes: it is as new. ret_was_stored, unless NULL, says whether there was something. */
WEIR_API int weir_redis_reset(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			      size_t key_length, bool *ret_was_stored);

/* One limit that a request must pass. */
struct weir_redis_claim {
	const struct weir_redis_limit *limit;
	const void *key;
	size_t key_length;
	uint64_t cost;
};

/* Decides n claims together, 1 to WEIR_REDIS_CLAIMS_MAX, as weir_table_decide: allowed only if all admit, and charged nowhere
 * if one denies. Here nobody comes in between. verdicts, unless NULL, gets one for each claim. WEIR_ERR_LIMIT: n cannot
 * be. */
WEIR_API int weir_redis_decide(struct weir_redis *redis, const struct weir_redis_claim *claims, size_t n,
			       struct weir_verdict *verdicts, struct weir_decision *ret_decision);

/* n independent takes, 1 to WEIR_REDIS_BATCH_MAX, in order and in one call. Either all of them were asked, or none. */
WEIR_API int weir_redis_take_batch(struct weir_redis *redis, const struct weir_redis_claim *claims, size_t n,
				   struct weir_verdict *ret_verdicts);

struct weir_redis_status {
	bool is_up;                                /* it can be asked, as far as is known */
	uint32_t connections;                      /* that are ready */
	uint64_t decided, unreachable, unanswered; /* questions */
	uint64_t calls;                            /* that took: those of many threads travel together */
	uint64_t failovers;                        /* the primary became another one */
	char last_error[256];                      /* what was last wrong, for people; empty: nothing yet */
};

WEIR_API void weir_redis_status(struct weir_redis *redis, struct weir_redis_status *ret_status);

#ifdef __cplusplus
}
#endif
#endif
