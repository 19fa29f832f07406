/* redis_connect.c: opening, handshake and closing of links, heartbeats, and the address of the primary. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_client_internal.h"

/* The longest pause with its jitter, plus the default connect_timeout, is less than 1 s. */
#define PAUSE_FIRST (50 * WEIR__REDIS_MS)
#define PAUSE_MOST (320 * WEIR__REDIS_MS)

/* Pause before subscribing again, which an ACL may deny for good. No request waits for a subscription. */
#define SUBSCRIBE_EVERY (1000 * WEIR__REDIS_MS)

#define BEAT_EVERY (1000 * WEIR__REDIS_MS) /* see COUNTED_AFTER in redis_client.c */
#define ASK_EVERY (1000 * WEIR__REDIS_MS)
#define ASK_OFTEN (250 * WEIR__REDIS_MS) /* while Redis is down */

enum { WHY_SIZE = 128 };

/* A sorted set of the nodes by when they were last seen, on Redis's clock. The set expires after its last node. */
static const char beat_script[] = "local time = redis.call('TIME')\n"
				  "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
				  "redis.call('ZADD', KEYS[1], now, ARGV[1])\n"
				  "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 60000)\n"
				  "redis.call('PEXPIRE', KEYS[1], 120000)\n"
				  "return redis.call('ZCARD', KEYS[1])\n";

uint32_t weir__redis_connect_ready(const struct weir__redis_client *client)
{
	uint32_t ready = 0;

	for (uint32_t i = 0; i < client->n_data; i++)
		ready += client->links[i].state == WEIR__REDIS_READY;
	return ready;
}

/* --- heartbeats -------------------------------------------------------------------------------------------------- */

bool weir__redis_connect_beat(struct weir__redis_client *client, struct weir__redis_link *link)
{
	char key[WEIR__REDIS_WORD_SIZE + 8];
	const struct weir__resp_slice words[] = { { "EVAL", 4 },
						  { beat_script, sizeof(beat_script) - 1 },
						  { "1", 1 },
						  { key, strlen(client->url->prefix) + strlen("~nodes") },
						  { client->id, WEIR__REDIS_ID_LENGTH } };

	if (link->state != WEIR__REDIS_READY || link->is_leaving || weir__redis_link_has(link, WEIR__REDIS_BEAT))
		return false;
	(void)snprintf(key, sizeof(key), "%s~nodes", client->url->prefix);
	if (!weir__redis_link_say(link, WEIR__REDIS_BEAT, words, sizeof(words) / sizeof(words[0]), client->now))
		return false;
	client->beaten = (uint32_t)(link - client->links);
	client->beat_at = client->now + weir__redis_jittered(BEAT_EVERY, &client->seed);
	return true;
}

/* Sends a heartbeat on the next link that can send one. Taking turns also shows whether idle links are alive. Returns
 * the link, or NULL. */
static struct weir__redis_link *beat_next(struct weir__redis_client *client)
{
	for (uint32_t i = 1; i <= client->n_data; i++) {
		struct weir__redis_link *const link = &client->links[(client->beaten + i) % client->n_data];

		if (weir__redis_connect_beat(client, link))
			return link;
	}
	return NULL;
}

static void probe_by(struct weir__redis_client *client, const struct weir__redis_link *link)
{
	if (link == NULL) {
		weir__redis_client_open_breaker(client);
		return;
	}
	client->probed = (uint32_t)(link - client->links);
	weir__redis_breaker_probe(&client->breaker, client->url->budget, client->now);
}

void weir__redis_connect_probe(struct weir__redis_client *client, struct weir__redis_link *link)
{
	if (weir__redis_connect_beat(client, link))
		probe_by(client, link);
}

/* --- opened and closed ------------------------------------------------------------------------------------------- */

static weir_ns pause_after(struct weir__redis_client *client, const struct weir__redis_link *link, uint32_t failures)
{
	weir_ns pause = PAUSE_FIRST;

	if (failures <= 1)
		return 0;
	if (!link->is_sentinel && link->channel != NULL)
		return SUBSCRIBE_EVERY;
	for (uint32_t i = 2; i < failures && pause < PAUSE_MOST; i++)
		pause *= 2;
	return weir__redis_jittered(pause < PAUSE_MOST ? pause : PAUSE_MOST, &client->seed);
}

/* The pause counts from the start of the last attempt, since an attempt that took long was already a pause. */
static weir_ns retry_at(struct weir__redis_client *client, const struct weir__redis_link *link)
{
	const uint32_t all = client->url->n_places; /* sentinels; each is tried once before any is tried again */
	const uint32_t failures = !link->is_sentinel   ? link->failures :
				  link->failures < all ? 0 :
							 link->failures - all + 2;
	const weir_ns at = link->attempt_at + pause_after(client, link, failures);

	return at > client->now ? at : client->now;
}

static void fail_calls(struct weir__redis_client *client, struct weir__redis_link *link)
{
	for (size_t i = 0; i < WEIR__REDIS_DEPTH; i++)
		if (link->batches[i].is_used)
			weir__redis_batch_fail(client, &link->batches[i], WEIR__REDIS_JOB_UNANSWERED);
}

/* Closes a link without scheduling a pause. */
static void drop(struct weir__redis_client *client, struct weir__redis_link *link, bool is_told)
{
	link->state = WEIR__REDIS_IDLE;
	link->wants_close |= !is_told && !link->wants_open;
	link->wants_open = false;
	link->at = client->now;
	weir__redis_link_reset(link);
	client->jobs.failure = WEIR__REDIS_GONE;
	fail_calls(client, link);
	weir__redis_query_dropped(client, link);
}

/* Whether waiting is pointless: Redis cannot be reached, or no sentinel knows where it is. */
static bool is_in_vain(const struct weir__redis_client *client, const struct weir__redis_link *link, bool was_attempt)
{
	if (link->is_for_queries)
		return link->is_sentinel ? !client->has_primary && link->failures >= client->url->n_places :
					   link == &client->links[WEIR__REDIS_QUERY_LINK] && was_attempt;
	return weir__redis_breaker_admits(&client->breaker) && weir__redis_connect_ready(client) == 0 &&
	       (link->is_sentinel ? link->failures >= client->url->n_places : was_attempt);
}

void weir__redis_connect_close(struct weir__redis_client *client, struct weir__redis_link *link, const char *why,
			       bool is_told)
{
	const bool was_attempt = link->state != WEIR__REDIS_READY;
	const bool was_probed = client->probed == (uint32_t)(link - client->links);

	weir__redis_client_tell(client, &link->place, why);
	drop(client, link, is_told);
	link->failures += link->failures < UINT32_MAX;
	link->at = retry_at(client, link);
	if (link->is_sentinel)
		client->sentinel = (client->sentinel + 1) % client->url->n_places;
	else
		client->ask_at = client->now; /* the primary may have moved */
	if (was_probed || is_in_vain(client, link, was_attempt))
		weir__redis_client_open_breaker(client);
}

void weir__redis_connect_want(struct weir__redis_client *client, struct weir__redis_link *link, bool is_wanted)
{
	if (link->is_off == !is_wanted)
		return;
	link->is_off = !is_wanted;
	if (link->state != WEIR__REDIS_IDLE)
		drop(client, link, false);
	link->failures = 0;
	link->at = client->now;
	weir__redis_connect_settle(client);
}

static void open_link(struct weir__redis_client *client, struct weir__redis_link *link)
{
	link->place = link->is_sentinel        ? client->url->places[client->sentinel] :
		      client->url->is_sentinel ? client->primary :
						 client->url->places[0];
	weir__redis_link_reset(link);
	link->state = WEIR__REDIS_OPENING;
	link->wants_open = true;
	link->attempt_at = client->now;
	link->at = client->now + client->url->connect_timeout;
}

void weir__redis_connect_move(struct weir__redis_client *client, const struct weir__redis_place *place)
{
	if (client->has_primary && client->primary.port == place->port &&
	    strcmp(client->primary.host, place->host) == 0)
		return;
	client->info.failovers += client->has_primary;
	client->has_primary = true;
	client->primary = *place;
	for (uint32_t i = 0; i < client->n_data; i++) {
		struct weir__redis_link *const link = &client->links[i];

		if (link->state != WEIR__REDIS_IDLE)
			drop(client, link, false);
		link->failures = 0;
		link->at = client->now;
	}
	if (client->probed != WEIR__REDIS_NO_LINK)
		weir__redis_client_open_breaker(client); /* the probe went to the old primary */
}

/* --- handshake --------------------------------------------------------------------------------------------------- */

static void become_ready(struct weir__redis_client *client, struct weir__redis_link *link)
{
	link->state = WEIR__REDIS_READY;
	if (link->is_sentinel)
		client->ask_at = client->now;
	else if (link->is_for_queries)
		weir__redis_query_ready(client, link);
	else if (client->breaker.health != WEIR__REDIS_UP && client->probed == WEIR__REDIS_NO_LINK)
		weir__redis_connect_probe(client, link);
}

void weir__redis_connect_greeted(struct weir__redis_client *client, struct weir__redis_link *link,
				 enum weir__redis_command command, const struct weir__resp_token *tokens, uint32_t n)
{
	char why[WHY_SIZE];

	if (!weir__redis_link_greeted(link, command, tokens, n, why, sizeof(why))) {
		weir__redis_query_refused(client, link, command, tokens);
		weir__redis_connect_close(client, link, why, false);
	} else if (weir__redis_link_greet(link, client->url, (int)command, client->now) == WEIR__REDIS_GREETED) {
		become_ready(client, link);
	}
}

void weir__redis_client_opened(struct weir__redis_client *client, uint32_t link, weir_ns now)
{
	struct weir__redis_link *const opened = link < client->n_links ? &client->links[link] : NULL;

	client->now = now > client->now ? now : client->now;
	if (opened == NULL || opened->state != WEIR__REDIS_OPENING || opened->wants_open || opened->wants_close)
		return;
	opened->state = WEIR__REDIS_HANDSHAKE;
	opened->answered_at = client->now;
	(void)weir__redis_link_greet(opened, client->url, -1, client->now);
}

void weir__redis_client_lost(struct weir__redis_client *client, uint32_t link, const char *why, weir_ns now)
{
	struct weir__redis_link *const lost = link < client->n_links ? &client->links[link] : NULL;

	client->now = now > client->now ? now : client->now;
	if (lost == NULL || lost->state == WEIR__REDIS_IDLE || lost->wants_open || lost->wants_close)
		return;
	weir__redis_connect_close(client, lost, why, true);
	weir__redis_connect_settle(client);
}

bool weir__redis_client_wish(struct weir__redis_client *client, struct weir__redis_wish *ret_wish)
{
	for (uint32_t i = 0; i < client->n_links; i++) {
		struct weir__redis_link *const link = &client->links[i];

		if (link->wants_close || link->wants_open) {
			const bool closes = link->wants_close;

			*ret_wish = (struct weir__redis_wish){ closes ? WEIR__REDIS_CLOSE : WEIR__REDIS_OPEN, i,
							       link->place };
			*(closes ? &link->wants_close : &link->wants_open) = false;
			return true;
		}
	}
	return false;
}

/* --- time -------------------------------------------------------------------------------------------------------- */

/* When to open a link, or to give it up. */
static weir_ns link_next(const struct weir__redis_client *client, const struct weir__redis_link *link)
{
	switch (link->state) {
	case WEIR__REDIS_HANDSHAKE:
		return link->answered_at + client->patience;
	case WEIR__REDIS_READY:
		return weir__redis_link_stalls_at(link, client->patience);
	case WEIR__REDIS_IDLE:
		return link->is_off || (!link->is_sentinel && client->url->is_sentinel && !client->has_primary) ?
			       WEIR_NEVER :
			       link->at;
	default:
		return link->at;
	}
}

void weir__redis_connect_settle(struct weir__redis_client *client)
{
	for (uint32_t i = 0; i < client->n_links; i++) {
		struct weir__redis_link *const link = &client->links[i];

		if (link->state == WEIR__REDIS_READY && link->is_leaving && link->n_flights == 0)
			weir__redis_connect_close(client, link, client->info.last_error, false);
		if (link->state == WEIR__REDIS_IDLE && link_next(client, link) <= client->now)
			open_link(client, link);
	}
}

static void ask_sentinel(struct weir__redis_client *client, struct weir__redis_link *link)
{
	const struct weir__resp_slice words[] = { { "SENTINEL", 8 },
						  { "GET-MASTER-ADDR-BY-NAME", 23 },
						  { client->url->primary, strlen(client->url->primary) } };

	client->ask_at = client->now +
			 weir__redis_jittered(client->breaker.health == WEIR__REDIS_UP ? ASK_EVERY : ASK_OFTEN,
					      &client->seed);
	if (!weir__redis_link_has(link, WEIR__REDIS_ASK))
		(void)weir__redis_link_say(link, WEIR__REDIS_ASK, words, 3, client->now);
}

static void tick_links(struct weir__redis_client *client)
{
	char why[WHY_SIZE];

	for (uint32_t i = 0; i < client->n_links; i++) {
		struct weir__redis_link *const link = &client->links[i];

		if (link->state == WEIR__REDIS_IDLE || link_next(client, link) > client->now)
			continue;
		if (link->state == WEIR__REDIS_OPENING)
			(void)snprintf(why, sizeof(why), "could not be reached%s within %llu ms",
				       link->place.is_tls ? " with TLS" : "",
				       (unsigned long long)(client->url->connect_timeout / WEIR__REDIS_MS));
		else
			(void)snprintf(why, sizeof(why), "did not reply for %llu ms",
				       (unsigned long long)(client->patience / WEIR__REDIS_MS));
		weir__redis_connect_close(client, link, why, false);
	}
}

void weir__redis_connect_tick(struct weir__redis_client *client)
{
	struct weir__redis_breaker *const breaker = &client->breaker;

	tick_links(client);
	if (breaker->health == WEIR__REDIS_PROBING && breaker->at <= client->now) {
		weir__redis_client_tell(client, &client->links[client->probed].place, "replied too late");
		client->jobs.failure = WEIR__REDIS_SLOW;
		weir__redis_client_open_breaker(client);
	}
	if (breaker->health == WEIR__REDIS_DOWN && breaker->at <= client->now)
		probe_by(client, beat_next(client));
	if (breaker->health == WEIR__REDIS_UP && client->beat_at <= client->now && beat_next(client) == NULL)
		client->beat_at = client->now + ASK_EVERY;
	if (client->n_links > client->n_data && client->links[client->n_data].state == WEIR__REDIS_READY &&
	    client->ask_at <= client->now)
		ask_sentinel(client, &client->links[client->n_data]);
	weir__redis_connect_settle(client);
}

weir_ns weir__redis_connect_next(const struct weir__redis_client *client)
{
	weir_ns next = weir__redis_breaker_next(&client->breaker);

	if (client->breaker.health == WEIR__REDIS_UP && client->beat_at < next)
		next = client->beat_at;
	if (client->n_links > client->n_data && client->links[client->n_data].state == WEIR__REDIS_READY &&
	    client->ask_at < next)
		next = client->ask_at;
	for (uint32_t i = 0; i < client->n_links; i++) {
		const weir_ns at = link_next(client, &client->links[i]);

		next = at < next ? at : next;
	}
	return next;
}
