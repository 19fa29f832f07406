/* redis_client_internal.h: the fields of a client, shared by its own files: redis_client.c (jobs, replies, breaker),
 * redis_connect.c (opening and closing links), redis_batch.c (jobs sent in calls), redis_query.c (single commands). */
#ifndef WEIR_STORE_REDIS_REDIS_CLIENT_INTERNAL_H
#define WEIR_STORE_REDIS_REDIS_CLIENT_INTERNAL_H

#include "store/redis/redis_breaker.h"
#include "store/redis/redis_jobs.h"
#include "store/redis/redis_link.h"
#include "store/redis/redis_query.h"
#include "store/redis/redis_random.h"
#include "store/redis/redis_refusal.h"

enum { WEIR__REDIS_NO_LINK = WEIR__REDIS_LINKS_MAX, WEIR__REDIS_ID_LENGTH = 16 };

/* Jobs of one submitter take effect in order: while some jobs of a lane are under way, its next jobs use the same link.
 * Two submitters may share a lane. */
enum { WEIR__REDIS_LANES = 64 };

struct weir__redis_lane {
	uint32_t under_way; /* number of jobs */
	const struct weir__redis_link *link;
};

/* The links of a client for queries. The link to a sentinel comes after them. */
enum { WEIR__REDIS_QUERY_LINK, WEIR__REDIS_SUBSCRIPTION_LINK, WEIR__REDIS_LINKS_FOR_QUERIES };

struct weir__redis_client {
	const struct weir__redis_url *url;
	uint64_t seed;
	weir_ns now;      /* the latest time reported */
	weir_ns patience; /* a link without a reply for this long is closed */
	struct weir__redis_jobs jobs;
	struct weir__redis_lane lanes[WEIR__REDIS_LANES];
	struct weir__redis_breaker breaker;
	uint32_t probed; /* link with a probe under way, or WEIR__REDIS_NO_LINK */

	uint32_t n_data, n_links; /* links to Redis; all links. With sentinels the last link is to one of them */
	struct weir__redis_link *links;
	bool has_primary;
	struct weir__redis_place primary;
	uint32_t sentinel; /* the sentinel to connect to: its index in url->places */
	weir_ns ask_at;

	char id[WEIR__REDIS_ID_LENGTH + 1]; /* of this node, random */
	weir_ns beat_at;
	weir_ns counted_at;  /* when Redis last replied to a heartbeat; 0: never */
	weir_ns joins_until; /* when the other nodes must have counted this one; WEIR_NEVER: they have */
	uint32_t beaten;     /* the link that sent the last heartbeat */

	struct weir__redis_query *query; /* the unfinished query; NULL: none */
	bool has_news;

	struct weir__redis_client_info info;
	struct weir_verdict verdicts[WEIR__REDIS_CALL_CLAIMS_MAX];
};

/* --- redis_client.c ---------------------------------------------------------------------------------------------- */

/* Finishes the job of an entry as failed. Too many failures in a row open the breaker. */
void weir__redis_client_fail(struct weir__redis_client *client, int32_t entry, enum weir__redis_outcome outcome);

/* Opens the breaker: all waiting jobs are done as UNREACHED. A client for queries has no breaker: its query fails
 * instead. */
void weir__redis_client_open_breaker(struct weir__redis_client *client);

/* Records the latest error and where it happened. place may be NULL. */
void weir__redis_client_tell(struct weir__redis_client *client, const struct weir__redis_place *place, const char *why);

/* Redis replied with an error: records it, and opens the breaker or leaves the server if the error says so. */
void weir__redis_client_refused(struct weir__redis_client *client, struct weir__redis_link *link,
				const struct weir__redis_refusal *refusal);

/* --- redis_connect.c --------------------------------------------------------------------------------------------- */

/* Closes a link and schedules the next attempt. is_told: the driver already knows. Jobs in flight on it are done as
 * UNANSWERED. */
void weir__redis_connect_close(struct weir__redis_client *client, struct weir__redis_link *link, const char *why,
			       bool is_told);

/* Handles the reply to a command of the handshake. */
void weir__redis_connect_greeted(struct weir__redis_client *client, struct weir__redis_link *link,
				 enum weir__redis_command command, const struct weir__resp_token *tokens, uint32_t n);

/* Turns a link on or off. A link that is off is closed and stays closed. */
void weir__redis_connect_want(struct weir__redis_client *client, struct weir__redis_link *link, bool is_wanted);

/* Sets the primary's address. If it changed, all links reconnect to it. */
void weir__redis_connect_move(struct weir__redis_client *client, const struct weir__redis_place *place);

/* weir__redis_connect_probe sends a heartbeat as a probe: its reply closes the breaker. weir__redis_connect_beat
 * returns false if the link cannot send a heartbeat now. */
void weir__redis_connect_probe(struct weir__redis_client *client, struct weir__redis_link *link);
bool weir__redis_connect_beat(struct weir__redis_client *client, struct weir__redis_link *link);

/* weir__redis_connect_settle closes and opens the links that are due. */
void weir__redis_connect_settle(struct weir__redis_client *client);
void weir__redis_connect_tick(struct weir__redis_client *client);
weir_ns weir__redis_connect_next(const struct weir__redis_client *client);

uint32_t weir__redis_connect_ready(const struct weir__redis_client *client);

/* --- redis_batch.c --------------------------------------------------------------------------------------------- */

/* Sends as many waiting jobs as fit one call. Returns false if nothing waits, or the output has no room. */
bool weir__redis_batch_depart(struct weir__redis_client *client, struct weir__redis_link *link);

/* Handles the reply to a call. */
void weir__redis_batch_answered(struct weir__redis_client *client, struct weir__redis_link *link,
				struct weir__redis_batch *batch, const struct weir__resp_token *tokens, uint32_t n);

/* No reply will come: finishes its jobs with this outcome. */
void weir__redis_batch_fail(struct weir__redis_client *client, struct weir__redis_batch *batch,
			    enum weir__redis_outcome outcome);

/* One of its jobs is over its budget: its verdicts will be discarded. */
void weir__redis_batch_forget(struct weir__redis_client *client, int32_t entry);

/* --- redis_query.c ----------------------------------------------------------------------------------------------- */

/* A link of a client for queries has finished its handshake. */
void weir__redis_query_ready(struct weir__redis_client *client, struct weir__redis_link *link);

/* Handles the reply to a query. */
void weir__redis_query_answered(struct weir__redis_client *client, struct weir__redis_link *link,
				const struct weir__resp_token *tokens, uint32_t n);

/* The handshake of a link failed. If Redis replied with an error, that error is the reply to the waiting query. */
void weir__redis_query_refused(struct weir__redis_client *client, const struct weir__redis_link *link,
			       enum weir__redis_command command, const struct weir__resp_token *tokens);

/* A link got a malformed or too large reply. If it is too large, the query is done as TOO_LARGE. */
void weir__redis_query_broken(struct weir__redis_client *client, const struct weir__redis_link *link);

/* A link was closed: a query that was sent on it waits for the next link, or fails if this was its second attempt. */
void weir__redis_query_dropped(struct weir__redis_client *client, const struct weir__redis_link *link);

/* No reply will come: the query fails. */
void weir__redis_query_fail(struct weir__redis_client *client);

weir_ns weir__redis_query_next(const struct weir__redis_client *client);
void weir__redis_query_tick(struct weir__redis_client *client);

#endif
