/* redis_client_internal.h: what a client is made of, for its own files: redis_client.c (the machine as a whole),
 * redis_connect.c (links that come and go), redis_batch.c (jobs that travel in calls), redis_query.c (single
 * commands). */
#ifndef WEIR_STORE_REDIS_REDIS_CLIENT_INTERNAL_H
#define WEIR_STORE_REDIS_REDIS_CLIENT_INTERNAL_H

#include "store/redis/redis_breaker.h"
#include "store/redis/redis_jobs.h"
#include "store/redis/redis_link.h"
#include "store/redis/redis_query.h"
#include "store/redis/redis_random.h"
#include "store/redis/redis_refusal.h"

enum { WEIR__REDIS_NO_LINK = WEIR__REDIS_LINKS_MAX, WEIR__REDIS_ID_LENGTH = 16 };

/* Jobs of one submitter take effect in order: as long as some are under way, others go by the same link. Two submitters may
 * share a lane. */
enum { WEIR__REDIS_LANES = 64 };

struct weir__redis_lane {
	uint32_t under_way; /* jobs */
	const struct weir__redis_link *link;
};

/* The links of a client for queries, before the one to a sentinel. */
enum { WEIR__REDIS_QUERY_LINK, WEIR__REDIS_SUBSCRIPTION_LINK, WEIR__REDIS_LINKS_FOR_QUERIES };

struct weir__redis_client {
	const struct weir__redis_url *url;
	uint64_t seed;
	weir_ns now;      /* the latest that was told */
	weir_ns patience; /* a link that answers nothing for so long is given up */
	struct weir__redis_jobs jobs;
	struct weir__redis_lane lanes[WEIR__REDIS_LANES];
	struct weir__redis_breaker breaker;
	uint32_t probed; /* the link on which a probe is under way, or WEIR__REDIS_NO_LINK */

	uint32_t n_data, n_links; /* the last one is to a sentinel, if there are any */
	struct weir__redis_link *links;
	bool has_primary;
	struct weir__redis_place primary;
	uint32_t sentinel; /* the one to speak to: its place in the URL */
	weir_ns ask_at;

	char id[WEIR__REDIS_ID_LENGTH + 1]; /* of this node */
	weir_ns beat_at;
	uint32_t beaten; /* the link that had the last heartbeat */

	struct weir__redis_query *query; /* that is not done; NULL: none */
	bool has_news;

	struct weir__redis_client_info info;
	struct weir_verdict verdicts[WEIR__REDIS_CALL_CLAIMS_MAX];
};

/* --- redis_client.c ---------------------------------------------------------------------------------------------- */

/* The job of an entry is done, and that is a failure: too many of them open the breaker. */
void weir__redis_client_fail(struct weir__redis_client *client, int32_t entry, enum weir__redis_outcome outcome);

/* Nobody waits any more. Without decisions there is no breaker: then a query that waits fails. */
void weir__redis_client_open_breaker(struct weir__redis_client *client);

/* What was last wrong, and where. */
void weir__redis_client_tell(struct weir__redis_client *client, const struct weir__redis_place *place, const char *why);

/* Redis has refused. */
void weir__redis_client_refused(struct weir__redis_client *client, struct weir__redis_link *link,
				const struct weir__redis_refusal *refusal);

/* --- redis_connect.c --------------------------------------------------------------------------------------------- */

/* Gives a link up; is_told: the driver knows. Calls in flight are not answered. */
void weir__redis_connect_close(struct weir__redis_client *client, struct weir__redis_link *link, const char *why,
			       bool is_told);

/* The answer to a command of the greeting. */
void weir__redis_connect_greeted(struct weir__redis_client *client, struct weir__redis_link *link,
				 enum weir__redis_command command, const struct weir__resp_token *tokens, uint32_t n);

/* A link that is not wanted is closed, and stays so. */
void weir__redis_connect_want(struct weir__redis_client *client, struct weir__redis_link *link, bool is_wanted);

/* The primary is here; all links go there. */
void weir__redis_connect_move(struct weir__redis_client *client, const struct weir__redis_place *place);

/* A heartbeat, on which the breaker closes. */
void weir__redis_connect_probe(struct weir__redis_client *client, struct weir__redis_link *link);
bool weir__redis_connect_beat(struct weir__redis_client *client, struct weir__redis_link *link);

/* Links that are to be closed or opened by now. */
void weir__redis_connect_settle(struct weir__redis_client *client);
void weir__redis_connect_tick(struct weir__redis_client *client);
weir_ns weir__redis_connect_next(const struct weir__redis_client *client);

uint32_t weir__redis_connect_ready(const struct weir__redis_client *client);

/* --- redis_batch.c --------------------------------------------------------------------------------------------- */

/* Sends as many of the jobs that wait as one call can have. False: there is nothing to send, or no room. */
bool weir__redis_batch_depart(struct weir__redis_client *client, struct weir__redis_link *link);

/* The answer to a call. */
void weir__redis_batch_answered(struct weir__redis_client *client, struct weir__redis_link *link,
				struct weir__redis_batch *batch, const struct weir__resp_token *tokens, uint32_t n);

/* None of its jobs will be answered any more. */
void weir__redis_batch_fail(struct weir__redis_client *client, struct weir__redis_batch *batch,
			    enum weir__redis_outcome outcome);

/* One of its jobs is over its budget: its answer will be thrown away. */
void weir__redis_batch_forget(struct weir__redis_client *client, int32_t entry);

/* --- redis_query.c ----------------------------------------------------------------------------------------------- */

/* A link of a client for queries has been greeted. */
void weir__redis_query_ready(struct weir__redis_client *client, struct weir__redis_link *link);

/* The reply to a query. */
void weir__redis_query_answered(struct weir__redis_client *client, struct weir__redis_link *link,
				const struct weir__resp_token *tokens, uint32_t n);

/* A link could not be greeted: an error is the reply to the query that waits for it. */
void weir__redis_query_refused(struct weir__redis_client *client, const struct weir__redis_link *link,
			       enum weir__redis_command command, const struct weir__resp_token *tokens);

/* What came on a link is no reply that it can have. */
void weir__redis_query_broken(struct weir__redis_client *client, const struct weir__redis_link *link);

/* A link is closed. */
void weir__redis_query_dropped(struct weir__redis_client *client, const struct weir__redis_link *link);

/* No reply will come. */
void weir__redis_query_fail(struct weir__redis_client *client);

weir_ns weir__redis_query_next(const struct weir__redis_client *client);
void weir__redis_query_tick(struct weir__redis_client *client);

#endif
