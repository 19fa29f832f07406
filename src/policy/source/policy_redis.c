/* policy_redis.c: a policy in a string key of Redis, read by a separate client (src/store/redis).
 *
 * Redis reports changes only if notify-keyspace-events is set accordingly. That setting is read with each value. If it
 * is off, or this user may not read it, the value is read each second. */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <time.h>

#include "core/percent.h"
#include "core/text.h"
#include "core/wide.h"
#include "os/memory.h"
#include "os/monotonic.h"
#include "policy/source/policy_remote.h"
#include "store/redis/redis_driver.h"
#include "store/redis/redis_query.h"

enum {
	KEY_SIZE = 512, /* with the NUL */
	CHANNEL_SIZE = KEY_SIZE + 64,
	WORDS_MAX = 3,
	ERROR_SHOWN = 300, /* bytes of Redis' error message that are shown */
};

static const weir_ns ms = 1000000;

struct redis {
	struct weir__policy_remote remote; /* first, so that a pointer to it is one to the struct */
	struct weir__redis_url url;
	char key[KEY_SIZE];
	char channel[CHANNEL_SIZE]; /* the channel on which Redis reports changes of the key */
	struct weir__redis_client *client;
	struct weir__redis_driver *driver;
	bool is_settled; /* the driver has nothing to do until an event */
	struct weir__redis_query query;
};

/* --- URLs ------------------------------------------------------------------------------------------------------- */

static int refuse(struct weir_message *ret_message, const char *words)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, words);
	return WEIR_ERR_SYNTAX;
}

/* Removes the option policy_key, which redis_url.h does not know, from the URL. */
static int take_key(const char *url, char ret_rest[WEIR__POLICY_REMOTE_NAME], char ret_key[KEY_SIZE],
		    struct weir_message *ret_message)
{
	static const char option[] = "policy_key=";
	const char *at = strchr(url, '?'), *value, *end, *why;
	size_t where;

	while (at && strncmp(at + 1, option, strlen(option)) != 0)
		at = strchr(at + 1, '&');
	if (at == NULL || strlen(url) >= WEIR__POLICY_REMOTE_NAME)
		return refuse(ret_message, "missing policy_key; add the key of the policy, ?policy_key=NAME");
	value = at + 1 + strlen(option);
	end = value + strcspn(value, "&");
	why = weir__percent_undo(value, (size_t)(end - value), ret_key, KEY_SIZE, &where);
	if (why || ret_key[0] == '\0')
		return refuse(ret_message, why ? why : "invalid policy_key; use the name of a key, 1 to 511 bytes");
	if (*at == '?' && *end == '&') /* the next option becomes the first */
		(void)snprintf(ret_rest, WEIR__POLICY_REMOTE_NAME, "%.*s%s", (int)(at + 1 - url), url, end + 1);
	else
		(void)snprintf(ret_rest, WEIR__POLICY_REMOTE_NAME, "%.*s%s", (int)(at - url), url, end);
	return WEIR_OK;
}

static int read_url(const char *url, struct weir__redis_url *ret_url, char ret_key[KEY_SIZE],
		    struct weir_message *ret_message)
{
	char rest[WEIR__POLICY_REMOTE_NAME];
	int error = take_key(url, rest, ret_key, ret_message);

	if (error == WEIR_OK)
		error = weir__redis_url_read(rest, strlen(rest), ret_url, ret_message);
	OPENSSL_cleanse(rest, sizeof(rest));
	return error;
}

int weir__policy_redis_check(const char *url, struct weir_message *ret_message)
{
	struct weir__redis_url read;
	char key[KEY_SIZE];
	const int error = read_url(url, &read, key, ret_message);

	OPENSSL_cleanse(&read, sizeof(read));
	return error;
}

/* --- the client ------------------------------------------------------------------------------------------------- */

/* Makes the client when it is first needed, since the loop exists only then. If that fails, the next request tries
 * again: a certificate file may exist by then. */
static bool make_client(struct redis *redis, struct weir__policy_remote_answer *answer)
{
	struct weir_message why = { .text = "no memory for connections" };
	uint64_t seed;

	if (redis->client != NULL)
		return true;
	if (weir__memory_random(&seed, sizeof(seed)) == 0)
		redis->client = weir__redis_client_new_for_queries(&redis->url, WEIR__POLICY_REMOTE_MOST, seed,
								   weir__monotonic_ns());
	if (redis->client != NULL &&
	    weir__redis_driver_new(&redis->url, redis->client, redis->remote.loop, &redis->driver, &why) == WEIR_OK)
		return true;
	weir__redis_client_free(redis->client);
	redis->client = NULL;
	(void)snprintf(answer->why, sizeof(answer->why), "%s", why.text);
	return false;
}

/* Waits for sockets, or until the loop is woken, but not beyond `until`, then handles events and timers. */
static void turn(struct redis *redis, weir_ns until)
{
	const weir_ns most = WEIR__POLICY_REMOTE_CHECK_MS;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	weir_ns now = weir__monotonic_ns(), wait_ms = 0;
	int n;

	until = weir__min(until, weir__redis_client_next(redis->client));
	if (redis->is_settled && until > now)
		wait_ms = weir__min((until - now - 1) / ms + 1, most);
	n = weir__loop_wait(redis->remote.loop, (int)wait_ms, events);
	now = weir__monotonic_ns();
	for (int i = 0; i < n; i++)
		weir__redis_driver_event(redis->driver, &events[i], now);
	weir__redis_client_tick(redis->client, now);
	redis->is_settled = weir__redis_driver_settle(redis->driver, now);
}

typedef void take_reply(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n);

/* Sends a command and waits for its result. */
static enum weir__redis_query_state run_query(struct redis *redis, weir_ns deadline, const char *const words[WORDS_MAX],
					      take_reply *take, void *context)
{
	struct weir__resp_slice slices[WORDS_MAX];
	size_t n = 0;

	for (; n < WORDS_MAX && words[n] != NULL; n++)
		slices[n] = (struct weir__resp_slice){ words[n], strlen(words[n]) };
	redis->query = (struct weir__redis_query){
		.words = slices, .n = n, .deadline = deadline, .take = take, .context = context
	};
	weir__redis_query_send(redis->client, &redis->query, weir__monotonic_ns());
	redis->is_settled = false;
	while (!weir__redis_query_is_done(&redis->query)) {
		if (atomic_load(&redis->remote.is_stopping))
			return WEIR__REDIS_QUERY_HAS_FAILED; /* it is the last query: the client is freed next */
		turn(redis, WEIR_NEVER);
	}
	return redis->query.state;
}

/* --- the value -------------------------------------------------------------------------------------------------- */

static void say(struct weir__policy_remote_answer *answer, enum weir__policy_remote_found found, const char *why)
{
	answer->found = found;
	(void)snprintf(answer->why, sizeof(answer->why), "%s", why);
}

/* Errors that are temporary, or that another server does not have. */
static bool is_passing(struct weir__resp_slice error)
{
	static const char *const codes[] = { "LOADING", "MASTERDOWN", "BUSY", "CLUSTERDOWN", "TRYAGAIN" };

	const char *const space = memchr(error.bytes, ' ', error.length);
	const size_t length = space ? (size_t)(space - error.bytes) : error.length;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (length == strlen(codes[i]) && memcmp(error.bytes, codes[i], length) == 0)
			return true;
	return false;
}

static void take_value(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n)
{
	struct weir__policy_remote_answer *const answer = query->context;
	const struct weir__resp_slice text = tokens[0].text;

	(void)n;
	if (tokens[0].type == WEIR__RESP_ERROR) {
		answer->found = is_passing(text) ? WEIR__POLICY_REMOTE_LOST : WEIR__POLICY_REMOTE_INVALID;
		(void)snprintf(answer->why, sizeof(answer->why), "it replied: %.*s",
			       (int)weir__min(text.length, ERROR_SHOWN), text.bytes);
		return;
	}
	if (tokens[0].type != WEIR__RESP_BULK) {
		say(answer, WEIR__POLICY_REMOTE_INVALID, "key not found");
		return;
	}
	answer->text = malloc(text.length + 1);
	if (answer->text == NULL) {
		say(answer, WEIR__POLICY_REMOTE_INVALID, "no memory for it");
		return;
	}
	memcpy(answer->text, text.bytes, text.length);
	answer->length = text.length;
	answer->text[answer->length] = '\0';
	answer->found = WEIR__POLICY_REMOTE_FOUND;
}

/* The setting contains the letter K for keyspace channels, and $ for strings or A for all types. */
static void take_setting(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n)
{
	const struct weir__resp_slice letters = n == 3 ? tokens[2].text : (struct weir__resp_slice){ "", 0 };
	bool *const notifies = query->context;

	*notifies = memchr(letters.bytes, 'K', letters.length) != NULL &&
		    (memchr(letters.bytes, 'A', letters.length) != NULL ||
		     memchr(letters.bytes, '$', letters.length) != NULL);
}

static void ask(struct weir__policy_remote *remote, struct weir__policy_remote_answer *ret_answer)
{
	struct redis *const redis = (void *)remote;
	const weir_ns deadline = weir__monotonic_ns() + WEIR__POLICY_REMOTE_ANSWER_MS * ms;
	const char *const get[WORDS_MAX] = { "GET", redis->key };
	const char *const get_setting[WORDS_MAX] = { "CONFIG", "GET", "notify-keyspace-events" };
	struct weir__redis_client_info info;
	enum weir__redis_query_state state;
	bool notifies = false;

	*ret_answer = (struct weir__policy_remote_answer){ .found = WEIR__POLICY_REMOTE_LOST };
	if (!make_client(redis, ret_answer))
		return;
	(void)weir__redis_query_take_news(redis->client); /* the value read next includes all earlier changes */
	state = run_query(redis, deadline, get, take_value, ret_answer);
	weir__redis_client_info(redis->client, &info);
	if (state == WEIR__REDIS_QUERY_IS_TOO_LARGE)
		say(ret_answer, WEIR__POLICY_REMOTE_INVALID,
		    "the policy is too long; a policy in Redis has at most 16 MiB");
	if (state == WEIR__REDIS_QUERY_HAS_FAILED)
		say(ret_answer, WEIR__POLICY_REMOTE_LOST, info.last_error);
	if (ret_answer->found != WEIR__POLICY_REMOTE_LOST && info.links_ready > 0)
		(void)run_query(redis, deadline, get_setting, take_setting, &notifies);
	weir__redis_query_subscribe(redis->client, notifies ? redis->channel : NULL, weir__monotonic_ns());
}

/* --- changes ---------------------------------------------------------------------------------------------------- */

/* Serves the connections while it waits. The start of a subscription counts as a change. Without a subscription it
 * returns after one second, so that the value is polled. */
static bool wait_for_change(struct weir__policy_remote *remote)
{
	struct redis *const redis = (void *)remote;
	const weir_ns begun = weir__monotonic_ns();

	remote->loop->was_woken = redis->is_settled = false;
	while (!weir__redis_query_take_news(redis->client) && !remote->loop->was_woken &&
	       !atomic_load(&remote->is_stopping)) {
		const bool is_told = weir__redis_query_is_subscribed(redis->client);
		const weir_ns until = begun +
				      (is_told ? WEIR__POLICY_REMOTE_CHECK_MS : WEIR__POLICY_REMOTE_POLL_MS) * ms;

		if (weir__monotonic_ns() >= until)
			break;
		turn(redis, until);
	}
	return true;
}

/* --- new and free ----------------------------------------------------------------------------------------------- */

static void free_redis(struct weir__policy_remote *remote)
{
	struct redis *const redis = (void *)remote;

	weir__redis_driver_free(redis->driver);
	weir__redis_client_free(redis->client);
	OPENSSL_cleanse(&redis->url, sizeof(redis->url));
	free(redis);
}

struct weir__policy_remote *weir__policy_redis_new(const char *url)
{
	struct redis *const redis = calloc(1, sizeof(*redis));

	if (redis == NULL)
		return NULL;
	redis->remote.ask = ask;
	redis->remote.wait = wait_for_change;
	redis->remote.free = free_redis;
	if (read_url(url, &redis->url, redis->key, NULL) != WEIR_OK) {
		free_redis(&redis->remote);
		return NULL;
	}
	redis->url.connect_timeout = WEIR__POLICY_REMOTE_CONNECT_MS * ms;
	redis->url.budget = WEIR__POLICY_REMOTE_ANSWER_MS * ms / 2; /* a connection is closed after two budgets */
	(void)snprintf(redis->channel, sizeof(redis->channel), "__keyspace@%u__:%s", redis->url.database, redis->key);
	return &redis->remote;
}
