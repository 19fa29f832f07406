/* redis_client.h: a Redis client as a state machine, without sockets, clock, threads or randomness of its own.
 *
 * A driver opens and closes connections on request, carries bytes and reports the time. Jobs go in and come out. So the
 * same client runs on sockets and in a simulation of nodes, losses and crashes. All times are from one monotonic clock.
 *
 * One round of a driver: report what happened (opened, lost, received) and hand in all jobs; tick; then for each link
 * fulfil the wishes and send the output; then take the jobs that are done. Waiting jobs are put into calls when output
 * is requested, so jobs handed in during one round share one call. A job is over its budget only when a tick says so: a
 * reply reported before that tick still counts.
 * The reasons are in docs/internals/redis.md. */
#ifndef WEIR_STORE_REDIS_REDIS_CLIENT_H
#define WEIR_STORE_REDIS_REDIS_CLIENT_H

#include "store/redis/redis_job.h"
#include "store/redis/redis_url.h"

enum { WEIR__REDIS_LINKS_MAX = WEIR__REDIS_POOL_MAX + 1 }; /* the last link is to a sentinel */

struct weir__redis_client;

/* The URL must outlive the client. NULL: no memory. */
struct weir__redis_client *weir__redis_client_new(const struct weir__redis_url *url, uint64_t seed, weir_ns now);

/* A client that runs queries (redis_query.h) instead of jobs. It sends Redis neither a script nor heartbeats. A reply
 * of more than bulk_max bytes is an error. */
struct weir__redis_client *weir__redis_client_new_for_queries(const struct weir__redis_url *url, size_t bulk_max,
							      uint64_t seed, weir_ns now);

/* Finishes all jobs and calls `done` for each, including those that were done but not taken. Waiting jobs end as
 * UNREACHED, sent ones as UNANSWERED. NULL is allowed. */
void weir__redis_client_free(struct weir__redis_client *client);

/* Hands in a job. weir__redis_client_done returns it later. */
void weir__redis_client_ask(struct weir__redis_client *client, struct weir__redis_job *job, weir_ns now);

/* Returns a finished job, or NULL. The driver calls its `done`. */
struct weir__redis_job *weir__redis_client_done(struct weir__redis_client *client);

enum weir__redis_wish_kind { WEIR__REDIS_OPEN, WEIR__REDIS_CLOSE };

/* Links are numbered from 0. After an OPEN wish the driver reports the link as opened or lost. A link with a CLOSE wish
 * is already closed for the client: until the wish is taken, it ignores what the driver reports about that link. */
struct weir__redis_wish {
	enum weir__redis_wish_kind kind;
	uint32_t link;
	struct weir__redis_place place; /* for OPEN: where to connect */
};

bool weir__redis_client_wish(struct weir__redis_client *client, struct weir__redis_wish *ret_wish);
void weir__redis_client_opened(struct weir__redis_client *client, uint32_t link, weir_ns now);
void weir__redis_client_lost(struct weir__redis_client *client, uint32_t link, const char *why, weir_ns now);

/* Returns the bytes to send next on a link, valid until the next call on this client. Jobs whose bytes were returned
 * once count as sent, even without weir__redis_client_sent: TLS may already have sent a part of them. */
struct weir__resp_slice weir__redis_client_output(struct weir__redis_client *client, uint32_t link);
void weir__redis_client_sent(struct weir__redis_client *client, uint32_t link, size_t n);

/* Takes received bytes. What a link buffers of an incomplete reply is bounded. */
void weir__redis_client_received(struct weir__redis_client *client, uint32_t link, const char *bytes, size_t n,
				 weir_ns now);

/* When to tick next. WEIR_NEVER: not before something else happens. */
weir_ns weir__redis_client_next(const struct weir__redis_client *client);
void weir__redis_client_tick(struct weir__redis_client *client, weir_ns now);

/* --- status ------------------------------------------------------------------------------------------------------ */

enum weir__redis_health {
	WEIR__REDIS_UP,
	WEIR__REDIS_DOWN, /* the breaker is open: jobs are done at once as UNREACHED */
	/* A probe, a harmless command, is under way. Jobs wait for the very first probe. During later ones they are
	 * done at once as UNREACHED. */
	WEIR__REDIS_PROBING,
};

struct weir__redis_client_info {
	enum weir__redis_health health;
	weir_ns changed_at; /* when `health` last changed */
	uint32_t links_ready;
	uint32_t nodes;  /* nodes with this prefix seen within the last minute, including this one; at least 1 */
	bool is_joining; /* the other nodes may not have counted this one yet */
	uint64_t calls, requests, claims;        /* sent; a call carries several requests */
	uint64_t decided, unreached, unanswered; /* requests */
	uint64_t failures[WEIR__REDIS_FAILURES]; /* requests that Redis did not decide, by reason */
	enum weir__redis_failure failure;        /* the latest reason */
	uint64_t reloads;                        /* of the script, because Redis no longer had it */
	uint64_t failovers;                      /* changes of the primary */
	uint64_t anew;                           /* keys reset because their values were damaged or not Weir's */
	char last_error[256];                    /* the latest error, as a sentence; empty: none yet */
};

void weir__redis_client_info(const struct weir__redis_client *client, struct weir__redis_client_info *ret_info);

#endif
