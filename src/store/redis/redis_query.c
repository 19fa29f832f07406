/* redis_query.c: the query under way, and the messages of the subscription. */
#include "store/redis/redis_client_internal.h"

enum { ERROR_SIZE = 128 };

static bool is_of(const struct weir__redis_client *client, const struct weir__redis_link *link)
{
	return client->query != NULL && link == &client->links[WEIR__REDIS_QUERY_LINK];
}

static void finish(struct weir__redis_client *client, enum weir__redis_query_state state)
{
	client->query->state = state;
	client->query = NULL;
}

static void take(struct weir__redis_client *client, const struct weir__resp_token *tokens, uint32_t n)
{
	client->query->take(client->query, tokens, n);
	finish(client, WEIR__REDIS_QUERY_IS_ANSWERED);
}

void weir__redis_query_fail(struct weir__redis_client *client)
{
	if (client->query != NULL)
		finish(client, WEIR__REDIS_QUERY_HAS_FAILED);
}

bool weir__redis_query_is_done(const struct weir__redis_query *query)
{
	return query->state >= WEIR__REDIS_QUERY_IS_ANSWERED;
}

/* --- sending ----------------------------------------------------------------------------------------------------- */

/* Sends the query if it waits and the link is ready. */
static void depart(struct weir__redis_client *client)
{
	struct weir__redis_link *const link = &client->links[WEIR__REDIS_QUERY_LINK];
	struct weir__redis_query *const query = client->query;

	if (query == NULL || query->state != WEIR__REDIS_QUERY_WAITS || link->state != WEIR__REDIS_READY)
		return;
	query->state = WEIR__REDIS_QUERY_IS_SENT;
	query->was_sent = true;
	if (!weir__redis_link_say(link, WEIR__REDIS_QUERY, query->words, query->n, client->now)) {
		weir__redis_client_tell(client, &link->place, "the command is too long");
		query->was_sent = query->is_again;
		weir__redis_query_fail(client);
	}
}

void weir__redis_query_send(struct weir__redis_client *client, struct weir__redis_query *query, weir_ns now)
{
	client->now = now > client->now ? now : client->now;
	query->state = WEIR__REDIS_QUERY_WAITS;
	query->is_again = query->was_sent = false;
	client->query = query;
	depart(client);
}

void weir__redis_query_ready(struct weir__redis_client *client, struct weir__redis_link *link)
{
	if (link == &client->links[WEIR__REDIS_QUERY_LINK]) {
		depart(client);
	} else {
		link->failures = 0;
		client->has_news = true;
	}
}

/* --- replies ----------------------------------------------------------------------------------------------------- */

void weir__redis_query_answered(struct weir__redis_client *client, struct weir__redis_link *link,
				const struct weir__resp_token *tokens, uint32_t n)
{
	link->failures = 0;
	take(client, tokens, n);
}

void weir__redis_query_refused(struct weir__redis_client *client, const struct weir__redis_link *link,
			       enum weir__redis_command command, const struct weir__resp_token *tokens)
{
	char error[ERROR_SIZE];
	struct weir__resp_token shown = { .type = WEIR__RESP_ERROR, .span = 1, .text = { error, 0 } };

	if (!is_of(client, link) || tokens->type != WEIR__RESP_ERROR)
		return;
	shown.text.length = weir__redis_link_show_error(command, tokens->text, error, sizeof(error));
	take(client, &shown, 1);
}

void weir__redis_query_broken(struct weir__redis_client *client, const struct weir__redis_link *link)
{
	if (is_of(client, link) && client->query->state == WEIR__REDIS_QUERY_IS_SENT &&
	    link->reply.fault == WEIR__RESP_ERROR_REPLY_SIZE)
		finish(client, WEIR__REDIS_QUERY_IS_TOO_LARGE);
}

void weir__redis_query_dropped(struct weir__redis_client *client, const struct weir__redis_link *link)
{
	struct weir__redis_query *const query = client->query;

	if (!is_of(client, link) || query->state != WEIR__REDIS_QUERY_IS_SENT)
		return;
	if (query->is_again || query->is_once) {
		weir__redis_query_fail(client);
	} else {
		query->state = WEIR__REDIS_QUERY_WAITS;
		query->is_again = true;
	}
}

/* --- time -------------------------------------------------------------------------------------------------------- */

weir_ns weir__redis_query_next(const struct weir__redis_client *client)
{
	return client->query != NULL ? client->query->deadline : WEIR_NEVER;
}

/* The link is closed, so that a late reply is not taken for the reply to the next query. */
static void give_up(struct weir__redis_client *client)
{
	struct weir__redis_link *const link = &client->links[WEIR__REDIS_QUERY_LINK];
	bool was_sent;

	if (client->query == NULL)
		return;
	was_sent = client->query->state == WEIR__REDIS_QUERY_IS_SENT;
	weir__redis_query_fail(client);
	if (was_sent)
		weir__redis_connect_close(client, link, "did not reply in time", false);
	else
		weir__redis_client_tell(client, link->state != WEIR__REDIS_IDLE ? &link->place : NULL,
					"did not reply in time");
}

void weir__redis_query_tick(struct weir__redis_client *client)
{
	if (weir__redis_query_next(client) <= client->now)
		give_up(client);
}

void weir__redis_query_give_up(struct weir__redis_client *client, weir_ns now)
{
	client->now = now > client->now ? now : client->now;
	give_up(client);
}

void weir__redis_query_leave(struct weir__redis_client *client, weir_ns now)
{
	struct weir__redis_link *const link = &client->links[WEIR__REDIS_QUERY_LINK];

	client->now = now > client->now ? now : client->now;
	if (link->state == WEIR__REDIS_READY)
		weir__redis_connect_close(client, link, client->info.last_error, false);
}

/* --- the subscription -------------------------------------------------------------------------------------------- */

void weir__redis_query_subscribe(struct weir__redis_client *client, const char *channel, weir_ns now)
{
	struct weir__redis_link *const link = &client->links[WEIR__REDIS_SUBSCRIPTION_LINK];

	client->now = now > client->now ? now : client->now;
	link->channel = channel;
	weir__redis_connect_want(client, link, channel != NULL);
}

bool weir__redis_query_is_subscribed(const struct weir__redis_client *client)
{
	return client->links[WEIR__REDIS_SUBSCRIPTION_LINK].state == WEIR__REDIS_READY;
}

bool weir__redis_query_take_news(struct weir__redis_client *client)
{
	const bool had_news = client->has_news;

	client->has_news = false;
	return had_news;
}
