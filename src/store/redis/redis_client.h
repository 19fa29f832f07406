/* redis_client.h: a client of Redis as a machine of states: no sockets, no clock, no threads, no chance of its own.
 *
 * Whoever drives it opens and closes connections as it wishes, carries bytes, and tells the time; jobs go in and come out.
 * So the same machine runs on sockets and in a simulation of nodes, losses and crashes. Times are of one clock that never
 * steps back.
 *
 * A round of a driver: tell what has happened (opened, lost, received) and give all jobs there are; tick; then for each
 * link fulfil wishes and send its output; then take what is done. Jobs that wait travel together when output is asked
 * for, so those that are given in one round are one call. A job is over its budget when a tick says so: an answer that is
 * told before that still counts. */
#ifndef WEIR_STORE_REDIS_REDIS_CLIENT_H
#define WEIR_STORE_REDIS_REDIS_CLIENT_H

#include "store/redis/redis_job.h"
#include "store/redis/redis_url.h"

enum { WEIR__REDIS_LINKS_MAX = WEIR__REDIS_POOL_MAX + 1 }; /* the last one is to a sentinel */

struct weir__redis_client;

/* The URL must outlive the client. NULL: no memory. */
struct weir__redis_client *weir__redis_client_new(const struct weir__redis_url *url, uint64_t seed, weir_ns now);

/* A client that runs queries (redis_query.h) instead of jobs: Redis gets neither a script nor heartbeats from it. A reply
 * of more than bulk_max bytes is refused. */
struct weir__redis_client *weir__redis_client_new_for_queries(const struct weir__redis_url *url, size_t bulk_max,
							      uint64_t seed, weir_ns now);

/* Jobs that are not done are done now, as far as that is known, and those that were not taken out: their `done` is
 * called. NULL is allowed. */
void weir__redis_client_free(struct weir__redis_client *client);

/* Takes a job; it is done by and by. */
void weir__redis_client_ask(struct weir__redis_client *client, struct weir__redis_job *job, weir_ns now);

/* A job that is done, or NULL. The driver calls its `done`. */
struct weir__redis_job *weir__redis_client_done(struct weir__redis_client *client);

enum weir__redis_wish_kind { WEIR__REDIS_OPEN, WEIR__REDIS_CLOSE };

/* Connections are numbered, from 0. One that is to be opened is told to be open or lost; one that is to be closed is gone at
 * once: what is still told of it is ignored until the wish is taken. */
struct weir__redis_wish {
	enum weir__redis_wish_kind kind;
	uint32_t link;
	struct weir__redis_place place; /* where to, of WEIR__REDIS_OPEN: TCP or path, with TLS or without */
};

bool weir__redis_client_wish(struct weir__redis_client *client, struct weir__redis_wish *ret_wish);
void weir__redis_client_opened(struct weir__redis_client *client, uint32_t link, weir_ns now);
void weir__redis_client_lost(struct weir__redis_client *client, uint32_t link, const char *why, weir_ns now);

/* What is to be sent there next; it stays until something else is called for this client. What was given out once counts
 * as asked, whether it is told as sent or not: a part of it may be on its way inside TLS. */
struct weir__resp_slice weir__redis_client_output(struct weir__redis_client *client, uint32_t link);
void weir__redis_client_sent(struct weir__redis_client *client, uint32_t link, size_t n);

/* Bytes that came. What a link keeps of an answer that is not whole is bounded. */
void weir__redis_client_received(struct weir__redis_client *client, uint32_t link, const char *bytes, size_t n,
				 weir_ns now);

/* When to tell the time next, WEIR_NEVER: when something else happens. */
weir_ns weir__redis_client_next(const struct weir__redis_client *client);
void weir__redis_client_tick(struct weir__redis_client *client, weir_ns now);

/* --- what is known ----------------------------------------------------------------------------------------------- */

enum weir__redis_health {
	WEIR__REDIS_UP,
	WEIR__REDIS_DOWN, /* the breaker is open: jobs are done at once, as not asked */
	WEIR__REDIS_PROBING, /* it may close: a harmless command is under way. Jobs wait only if Redis was never known yet */
};

struct weir__redis_client_info {
	enum weir__redis_health health;
	weir_ns changed_at; /* when it became so */
	uint32_t links_ready;
	uint32_t nodes; /* of this prefix that were seen within the last minute, this one among them; 1 at least */
	uint64_t calls, requests, claims;        /* sent; a call has several requests */
	uint64_t decided, unreached, unanswered; /* requests */
	uint64_t reloads;                        /* of the script, since Redis did not have it any more */
	uint64_t failovers;                      /* the primary became another one */
	uint64_t anew;                           /* keys that began anew since their values were damaged or not ours */
	char last_error[256];                    /* what was last wrong, as a sentence for people; empty: nothing yet */
};

void weir__redis_client_info(const struct weir__redis_client *client, struct weir__redis_client_info *ret_info);

#endif
