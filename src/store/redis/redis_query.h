/* redis_query.h: single commands and one subscription, by a client that decides nothing
 * (weir__redis_client_new_for_queries).
 *
 * Pure, as the client is; what it says of its driver holds here, too. One query is under way at a time, on a connection of
 * its own. If that is lost the query is sent once more on the next one: so it must be one that changes nothing. */
#ifndef WEIR_STORE_REDIS_REDIS_QUERY_H
#define WEIR_STORE_REDIS_REDIS_QUERY_H

#include "store/redis/redis_client.h"

enum weir__redis_query_state {
	WEIR__REDIS_QUERY_WAITS, /* for a connection */
	WEIR__REDIS_QUERY_IS_SENT,
	/* It is done: */
	WEIR__REDIS_QUERY_IS_ANSWERED,
	WEIR__REDIS_QUERY_IS_TOO_LARGE, /* the reply is */
	WEIR__REDIS_QUERY_HAS_FAILED,   /* without a reply; last_error of weir__redis_client_info says why */
};

/* Memory is the caller's, and stays as it is until the query is done. */
struct weir__redis_query {
	const struct weir__resp_slice *words; /* the command and its arguments */
	size_t n;
	weir_ns deadline; /* then it has failed */
	/* Called with the reply, which is gone when this returns. An error that ends the greeting, such as that of a wrong
	 * password, is a reply, too. Must not call the client. */
	void (*take)(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n);
	void *context; /* the caller's */

	/* Of the client: */
	enum weir__redis_query_state state;
	bool is_again; /* it was sent before */
};

/* The query before must be done. */
void weir__redis_query_send(struct weir__redis_client *client, struct weir__redis_query *query, weir_ns now);

bool weir__redis_query_is_done(const struct weir__redis_query *query);

/* Keeps a connection on which a channel is subscribed to; NULL ends that. The text is the caller's, and stays until then. */
void weir__redis_query_subscribe(struct weir__redis_client *client, const char *channel, weir_ns now);

bool weir__redis_query_is_subscribed(const struct weir__redis_client *client);

/* Whether, since the last call, a message came or a subscription began: nobody tells what was published before that. */
bool weir__redis_query_take_news(struct weir__redis_client *client);

#endif
