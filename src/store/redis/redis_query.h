/* redis_query.h: single commands and one subscription, by a client that decides nothing
 * (weir__redis_client_new_for_queries).
 *
 * Pure, like the client. The driver has the same duties as in redis_client.h. One query is under way at a time, on its
 * own connection. If that connection is lost, the query is sent once more on the next one, unless is_once is set. */
#ifndef WEIR_STORE_REDIS_REDIS_QUERY_H
#define WEIR_STORE_REDIS_REDIS_QUERY_H

#include "store/redis/redis_client.h"

enum weir__redis_query_state {
	WEIR__REDIS_QUERY_WAITS, /* for a connection */
	WEIR__REDIS_QUERY_IS_SENT,
	/* The query is done: */
	WEIR__REDIS_QUERY_IS_ANSWERED,
	WEIR__REDIS_QUERY_IS_TOO_LARGE, /* the reply is larger than bulk_max */
	WEIR__REDIS_QUERY_HAS_FAILED,   /* no reply; last_error of weir__redis_client_info says why */
};

/* The caller owns the memory, which stays unchanged until the query is done. */
struct weir__redis_query {
	const struct weir__resp_slice *words; /* the command and its arguments */
	size_t n;
	weir_ns deadline; /* the query fails at this time */
	bool is_once;     /* it may not be repeated: once sent, it fails with its connection */
	/* Called with the reply, which is valid only during this call. An error that ends the handshake, such as a
	 * wrong password, is also a reply. Must not call the client. */
	void (*take)(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n);
	void *context; /* the caller's */

	/* Set by the client: */
	enum weir__redis_query_state state;
	bool is_again; /* it was sent before */
	bool was_sent; /* Redis may have run it, even if it failed */
};

/* Sends a query. The previous query must be done. */
void weir__redis_query_send(struct weir__redis_client *client, struct weir__redis_query *query, weir_ns now);

bool weir__redis_query_is_done(const struct weir__redis_query *query);

/* Ends the query under way, if there is one: it fails, and its memory is the caller's again. The connection closes, so
 * that a late reply is not taken for the next one. */
void weir__redis_query_give_up(struct weir__redis_client *client, weir_ns now);

/* Closes the connection for queries, because another server may be at this address now. No query may be under way. The
 * next one opens a connection. */
void weir__redis_query_leave(struct weir__redis_client *client, weir_ns now);

/* Keeps a connection that subscribes to a channel. NULL ends the subscription. The caller owns the text, which must
 * stay valid until then. */
void weir__redis_query_subscribe(struct weir__redis_client *client, const char *channel, weir_ns now);

bool weir__redis_query_is_subscribed(const struct weir__redis_client *client);

/* Whether a message came or a subscription began since the last call. A new subscription counts because Redis does not
 * deliver what was published before it. */
bool weir__redis_query_take_news(struct weir__redis_client *client);

#endif
