/* redis_client.c: jobs, replies and the breaker of a client. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wide.h"
#include "store/redis/redis_client_internal.h"
#include "store/redis/redis_sentinel.h"

/* A link without a reply is closed after this many budgets, but not before 250 ms: a Redis that forks may pause that
 * long. */
enum { PATIENCE_BUDGETS = 2 };
#define PATIENCE_LEAST (250 * WEIR__REDIS_MS)

/* Each node sends a heartbeat about once a second (redis_connect.c), so the others have counted a new node after
 * COUNTED_AFTER. They forget a node after a minute. A node that was silent for half of that time joins them again. */
#define COUNTED_AFTER (2000 * WEIR__REDIS_MS)
#define FORGOTTEN_AFTER (30000 * WEIR__REDIS_MS)

static void advance(struct weir__redis_client *client, weir_ns now)
{
	client->now = now > client->now ? now : client->now;
}

/* --- new and free ------------------------------------------------------------------------------------------------ */

static struct weir__redis_client *make(const struct weir__redis_url *url, uint32_t n_data, uint64_t seed, weir_ns now)
{
	struct weir__redis_client *const client = calloc(1, sizeof(*client));
	const weir_ns patience = PATIENCE_BUDGETS * url->budget;

	if (client == NULL)
		return NULL;
	client->n_data = n_data;
	client->n_links = n_data + url->is_sentinel;
	client->links = calloc(client->n_links, sizeof(*client->links));
	if (client->links == NULL) {
		free(client);
		return NULL;
	}
	client->url = url;
	client->seed = seed;
	client->now = client->ask_at = client->beat_at = now;
	client->patience = patience < PATIENCE_LEAST ? PATIENCE_LEAST : patience;
	client->probed = WEIR__REDIS_NO_LINK;
	client->joins_until = WEIR_NEVER;
	client->info.nodes = 1;
	(void)snprintf(client->id, sizeof(client->id), "%016llx",
		       (unsigned long long)weir__redis_random(&client->seed));
	for (uint32_t i = 0; i < client->n_links; i++) {
		client->links[i].at = now;
		client->links[i].bulk_max = WEIR__REDIS_BULK_MAX;
	}
	if (url->is_sentinel) {
		client->links[n_data].is_sentinel = true;
		client->links[n_data].channel = "+switch-master";
	}
	weir__redis_jobs_init(&client->jobs);
	weir__redis_breaker_init(&client->breaker, now);
	return client;
}

struct weir__redis_client *weir__redis_client_new(const struct weir__redis_url *url, uint64_t seed, weir_ns now)
{
	struct weir__redis_client *const client = make(url, url->pool, seed, now);

	if (client != NULL)
		weir__redis_connect_settle(client);
	return client;
}

struct weir__redis_client *weir__redis_client_new_for_queries(const struct weir__redis_url *url, size_t bulk_max,
							      uint64_t seed, weir_ns now)
{
	struct weir__redis_client *const client = make(url, WEIR__REDIS_LINKS_FOR_QUERIES, seed, now);

	if (client == NULL)
		return NULL;
	for (uint32_t i = 0; i < client->n_links; i++)
		client->links[i].is_for_queries = true;
	client->links[WEIR__REDIS_QUERY_LINK].bulk_max = bulk_max;
	client->links[WEIR__REDIS_SUBSCRIPTION_LINK].is_off = true;
	client->beat_at = WEIR_NEVER;
	weir__redis_breaker_close(&client->breaker, now); /* stays closed: only jobs and heartbeats open it */
	weir__redis_connect_settle(client);
	return client;
}

void weir__redis_client_free(struct weir__redis_client *client)
{
	struct weir__redis_job *job;

	if (client == NULL)
		return;
	while (client->jobs.n_heap > 0) {
		const int32_t entry = client->jobs.heap[0];

		weir__redis_jobs_finish(&client->jobs, entry,
					client->jobs.entries[entry].is_waiting ? WEIR__REDIS_JOB_UNREACHED :
										 WEIR__REDIS_JOB_UNANSWERED);
	}
	while ((job = weir__redis_jobs_done(&client->jobs)) != NULL)
		job->done(job);
	weir__redis_jobs_fini(&client->jobs);
	for (uint32_t i = 0; i < client->n_links; i++)
		weir__redis_link_fini(&client->links[i]);
	free(client->links);
	free(client);
}

/* --- jobs -------------------------------------------------------------------------------------------------------- */

void weir__redis_client_ask(struct weir__redis_client *client, struct weir__redis_job *job, weir_ns now)
{
	advance(client, now);
	if (!weir__redis_breaker_admits(&client->breaker)) {
		weir__redis_jobs_refuse(&client->jobs, job);
	} else if (!weir__redis_jobs_add(&client->jobs, job, weir__add_saturating(client->now, job->budget))) {
		weir__redis_client_tell(client, NULL, "too many requests are waiting, or one is too large");
		client->jobs.failure = WEIR__REDIS_SLOW;
		weir__redis_jobs_refuse(&client->jobs, job);
	}
}

struct weir__redis_job *weir__redis_client_done(struct weir__redis_client *client)
{
	return weir__redis_jobs_done(&client->jobs);
}

void weir__redis_client_fail(struct weir__redis_client *client, int32_t entry, enum weir__redis_outcome outcome)
{
	weir__redis_jobs_finish(&client->jobs, entry, outcome);
	if (weir__redis_breaker_failed(&client->breaker, client->url->budget, client->now)) {
		weir__redis_client_tell(client, NULL, "too many decisions in a row had no reply in time");
		weir__redis_client_open_breaker(client);
	}
}

void weir__redis_client_open_breaker(struct weir__redis_client *client)
{
	if (client->links[0].is_for_queries) {
		weir__redis_query_fail(client);
		return;
	}
	weir__redis_breaker_open(&client->breaker, &client->seed, client->now);
	client->probed = WEIR__REDIS_NO_LINK;
	while (client->jobs.first != WEIR__REDIS_NO_JOB)
		weir__redis_jobs_finish(&client->jobs, client->jobs.first, WEIR__REDIS_JOB_UNREACHED);
}

void weir__redis_client_tell(struct weir__redis_client *client, const struct weir__redis_place *place, const char *why)
{
	char text[sizeof(client->info.last_error)], where[WEIR__REDIS_HOST_SIZE + 10] = "Redis";

	if (why == client->info.last_error)
		return;
	if (place != NULL)
		weir__redis_place_show(place, where, sizeof(where));
	(void)snprintf(text, sizeof(text), "%.100s: %.150s", where, why);
	memcpy(client->info.last_error, text, sizeof(text));
}

void weir__redis_client_refused(struct weir__redis_client *client, struct weir__redis_link *link,
				const struct weir__redis_refusal *refusal)
{
	weir__redis_client_tell(client, &link->place, refusal->words);
	client->jobs.failure = WEIR__REDIS_REFUSES;
	if (refusal->leaves)
		for (uint32_t i = 0; i < client->n_data; i++)
			client->links[i].is_leaving = true;
	if (refusal->is_down && client->breaker.health != WEIR__REDIS_DOWN)
		weir__redis_client_open_breaker(client);
}

/* --- replies ----------------------------------------------------------------------------------------------------- */

/* A node that the others have forgotten, or never seen, joins them. */
static void count_nodes(struct weir__redis_client *client, int64_t nodes)
{
	const bool joins = client->counted_at == 0 || client->now - client->counted_at >= FORGOTTEN_AFTER;

	client->info.nodes = nodes < UINT32_MAX ? (uint32_t)nodes : UINT32_MAX;
	client->counted_at = client->now;
	if (joins)
		client->joins_until = nodes > 1 ? client->now + COUNTED_AFTER : WEIR_NEVER;
}

/* If this heartbeat was the probe, closes the breaker, even on an error reply that does not mean Redis is down. */
static void beat_answered(struct weir__redis_client *client, struct weir__redis_link *link,
			  const struct weir__resp_token *tokens)
{
	const struct weir__redis_refusal *refusal;

	if (tokens->type == WEIR__RESP_INTEGER && tokens->number >= 1) {
		count_nodes(client, tokens->number);
		link->failures = 0;
	} else if (tokens->type == WEIR__RESP_ERROR) {
		refusal = weir__redis_refusal_of(tokens->text);
		weir__redis_client_refused(client, link, refusal);
		if (refusal->is_down)
			return;
	} else {
		weir__redis_connect_close(client, link, "unexpected reply to a heartbeat", false);
		return;
	}
	if (client->probed == (uint32_t)(link - client->links)) {
		client->probed = WEIR__REDIS_NO_LINK;
		weir__redis_breaker_close(&client->breaker, client->now);
	}
}

/* If the script could not be loaded, the calls after it get their own errors. */
static void load_answered(struct weir__redis_client *client, struct weir__redis_link *link,
			  const struct weir__resp_token *tokens, uint32_t n)
{
	char why[128];

	if (tokens->type == WEIR__RESP_ERROR)
		weir__redis_client_refused(client, link, weir__redis_refusal_of(tokens->text));
	else if (!weir__redis_link_greeted(link, WEIR__REDIS_LOAD, tokens, n, why, sizeof(why)))
		weir__redis_connect_close(client, link, why, false);
}

static void place_answered(struct weir__redis_client *client, struct weir__redis_link *link,
			   const struct weir__resp_token *tokens, uint32_t n)
{
	struct weir__redis_place place;

	if (weir__redis_sentinel_told(tokens, n, link->place.is_tls, &place)) {
		link->failures = 0;
		weir__redis_connect_move(client, &place);
	} else {
		weir__redis_connect_close(client, link, "the sentinel does not know a primary of this name", false);
	}
}

static void pushed(struct weir__redis_client *client, struct weir__redis_link *link,
		   const struct weir__resp_token *tokens, uint32_t n)
{
	struct weir__redis_flight flight;
	struct weir__redis_place place;

	if (link->channel == NULL)
		return;
	if (link->is_sentinel &&
	    weir__redis_sentinel_switched(tokens, n, client->url->primary, link->place.is_tls, &place)) {
		weir__redis_connect_move(client, &place);
	} else if (link->state == WEIR__REDIS_HANDSHAKE && weir__redis_link_has(link, WEIR__REDIS_SUBSCRIBE) &&
		   weir__redis_link_answered(link, client->now, &flight)) {
		/* The reply to SUBSCRIBE comes out of band, unlike all others. Nothing else comes out of band before
		 * it. */
		weir__redis_connect_greeted(client, link, flight.command, tokens, n);
	} else if (!link->is_sentinel && link->state == WEIR__REDIS_READY) {
		client->has_news = true;
	}
}

/* RESP2 has no type for out-of-band messages. A subscribed link receives nothing else. */
static bool is_pushed(const struct weir__redis_link *link, const struct weir__resp_token *tokens)
{
	return tokens->type == WEIR__RESP_PUSH ||
	       (link->channel != NULL && !link->is_sentinel && link->state == WEIR__REDIS_READY);
}

static void answered(struct weir__redis_client *client, struct weir__redis_link *link,
		     const struct weir__resp_token *tokens, uint32_t n)
{
	struct weir__redis_flight flight;

	if (is_pushed(link, tokens)) {
		pushed(client, link, tokens, n);
		return;
	}
	if (!weir__redis_link_answered(link, client->now, &flight)) {
		weir__redis_connect_close(client, link, "sent a reply without a request", false);
		return;
	}
	switch (flight.command) {
	case WEIR__REDIS_CALL:
		weir__redis_batch_answered(client, link, flight.batch, tokens, n);
		break;
	case WEIR__REDIS_BEAT:
		beat_answered(client, link, tokens);
		break;
	case WEIR__REDIS_ASK:
		place_answered(client, link, tokens, n);
		break;
	case WEIR__REDIS_QUERY:
		weir__redis_query_answered(client, link, tokens, n);
		break;
	default:
		if (link->state == WEIR__REDIS_HANDSHAKE)
			weir__redis_connect_greeted(client, link, flight.command, tokens, n);
		else
			load_answered(client, link, tokens, n);
	}
}

static bool is_open(const struct weir__redis_client *client, uint32_t link)
{
	return link < client->n_links && client->links[link].state >= WEIR__REDIS_HANDSHAKE &&
	       !client->links[link].wants_close;
}

/* Handles all complete replies. Returns false if the link was closed. */
static bool read_replies(struct weir__redis_client *client, uint32_t number, struct weir__resp_slice *bytes)
{
	struct weir__redis_link *const link = &client->links[number];
	enum weir__resp_status status;
	size_t used;

	while (bytes->length > 0) {
		status = weir__resp_reply_read(&link->reply, bytes->bytes, bytes->length, &used);
		if (status == WEIR__RESP_MORE)
			return true;
		if (status == WEIR__RESP_BAD) {
			weir__redis_query_broken(client, link);
			weir__redis_connect_close(client, link, weir__resp_error_words(link->reply.fault), false);
			return false;
		}
		bytes->bytes += used;
		bytes->length -= used;
		answered(client, link, link->tokens, link->reply.n);
		if (!is_open(client, number))
			return false;
	}
	return true;
}

void weir__redis_client_received(struct weir__redis_client *client, uint32_t link, const char *bytes, size_t n,
				 weir_ns now)
{
	struct weir__resp_slice unread = { bytes, n };

	advance(client, now);
	if (!is_open(client, link) || n == 0)
		return;
	if (!weir__redis_link_gather(&client->links[link], unread, &unread) ||
	    (read_replies(client, link, &unread) && !weir__redis_link_keep(&client->links[link], unread)))
		weir__redis_connect_close(client, &client->links[link], "sent a reply that is too large", false);
	weir__redis_connect_settle(client);
}

/* --- output ------------------------------------------------------------------------------------------------------ */

struct weir__resp_slice weir__redis_client_output(struct weir__redis_client *client, uint32_t link)
{
	struct weir__redis_link *from;

	if (!is_open(client, link))
		return (struct weir__resp_slice){ NULL, 0 };
	from = &client->links[link];
	/* Bytes that were written cannot be taken back, so jobs wait until the previous output is sent. */
	if (from->state == WEIR__REDIS_READY && !from->is_sentinel && !from->is_leaving &&
	    client->breaker.health == WEIR__REDIS_UP && from->output_at == from->output_length)
		while (weir__redis_batch_depart(client, from))
			;
	if (from->output_at == from->output_length)
		return (struct weir__resp_slice){ NULL, 0 };
	return (struct weir__resp_slice){ from->output + from->output_at, from->output_length - from->output_at };
}

void weir__redis_client_sent(struct weir__redis_client *client, uint32_t link, size_t n)
{
	if (is_open(client, link) && n <= client->links[link].output_length - client->links[link].output_at)
		client->links[link].output_at += n;
}

/* --- time -------------------------------------------------------------------------------------------------------- */

static void expire(struct weir__redis_client *client)
{
	int32_t entry;

	while ((entry = weir__redis_jobs_due(&client->jobs, client->now)) != WEIR__REDIS_NO_JOB) {
		const bool is_waiting = client->jobs.entries[entry].is_waiting;

		client->jobs.failure = weir__redis_connect_ready(client) > 0 ? WEIR__REDIS_SLOW : WEIR__REDIS_GONE;
		if (!is_waiting)
			weir__redis_batch_forget(client, entry);
		weir__redis_client_fail(client, entry,
					is_waiting ? WEIR__REDIS_JOB_UNREACHED : WEIR__REDIS_JOB_UNANSWERED);
	}
}

weir_ns weir__redis_client_next(const struct weir__redis_client *client)
{
	const weir_ns jobs = weir__redis_jobs_next(&client->jobs), links = weir__redis_connect_next(client);

	return weir__min(weir__min(jobs, links), weir__min(weir__redis_query_next(client), client->joins_until));
}

void weir__redis_client_tick(struct weir__redis_client *client, weir_ns now)
{
	advance(client, now);
	expire(client);
	if (client->joins_until <= client->now)
		client->joins_until = WEIR_NEVER;
	weir__redis_query_tick(client);
	weir__redis_connect_tick(client);
}

void weir__redis_client_info(const struct weir__redis_client *client, struct weir__redis_client_info *ret_info)
{
	*ret_info = client->info;
	ret_info->health = client->breaker.health;
	ret_info->changed_at = client->breaker.changed_at;
	ret_info->links_ready = weir__redis_connect_ready(client);
	ret_info->is_joining = client->joins_until != WEIR_NEVER;
	ret_info->failure = client->jobs.failure;
	memcpy(ret_info->failures, client->jobs.failures, sizeof(ret_info->failures));
	ret_info->decided = client->jobs.outcomes[WEIR__REDIS_JOB_DECIDED];
	ret_info->unreached = client->jobs.outcomes[WEIR__REDIS_JOB_UNREACHED];
	ret_info->unanswered = client->jobs.outcomes[WEIR__REDIS_JOB_UNANSWERED];
}
