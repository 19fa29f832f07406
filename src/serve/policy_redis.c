/* policy_redis.c: a policy that Redis has under a key of strings.
 *
 * Redis tells of changes only if notify-keyspace-events says so. It is asked for that with each value: where it does not, or
 * this user may not know, the value is asked for each second. */
#include <weir/clock.h>

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>

#include "core/text.h"
#include "os/net.h"
#include "os/tls.h"
#include "redis/redis_url.h"
#include "serve/percent.h"
#include "serve/policy_far.h"
#include "wire/resp.h"

enum {
	TOKENS = 64,
	LINE_MOST = 4096,
	WORDS_MOST = 4,
	REQUEST_SIZE = 4 * WEIR__REDIS_WORD_SIZE + 256,
	IN_LEAST = 16384,
	IN_MOST = WEIR__POLICY_FAR_MOST + LINE_MOST,
	KEY_SIZE = 512, /* with the NUL */
	WHERE_SIZE = WEIR__REDIS_HOST_SIZE + 16,
};

/* A connection. */
struct line {
	int socket;            /* -1: there is none */
	struct weir__tls *tls; /* NULL: it has none */
	char *in;
	size_t size, filled, used; /* of `in`; `used` is what the last reply took */
	struct weir__resp_reply reply;
	struct weir__resp_token tokens[TOKENS]; /* of the last reply */
};

struct redis {
	struct weir__policy_far far; /* the first: so it leads here */
	struct weir__redis_url url;
	char key[KEY_SIZE];
	struct weir__tls_context *tls; /* of all connections; NULL: none has needed it yet */
	struct line asks, listens;
	bool notifies; /* as it said last */
	weir_ns until; /* for which an answer is waited */
};

/* --- URLs --------------------------------------------------------------------------------------------------------- */

static int refuse(struct weir_message *ret_message, const char *words)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, words);
	return WEIR_ERR_SYNTAX;
}

/* Takes the option policy_key out, which is ours, and leaves a URL as redis_url.h has it. */
static int take_key(const char *url, char ret_rest[WEIR__POLICY_FAR_NAME], char ret_key[KEY_SIZE],
		    struct weir_message *ret_message)
{
	static const char option[] = "policy_key=";
	const char *at = strchr(url, '?'), *value, *end, *why;
	size_t where;

	while (at && strncmp(at + 1, option, strlen(option)) != 0)
		at = strchr(at + 1, '&');
	if (at == NULL || strlen(url) >= WEIR__POLICY_FAR_NAME)
		return refuse(ret_message, "the URL says under which key the policy is: ?policy_key=NAME");
	value = at + 1 + strlen(option);
	end = value + strcspn(value, "&");
	why = weir__percent_undo(value, (size_t)(end - value), ret_key, KEY_SIZE, &where);
	if (why || ret_key[0] == '\0')
		return refuse(ret_message, why ? why : "policy_key is the name of a key, of 1 to 511 bytes");
	if (*at == '?' && *end == '&') /* the next option is the first */
		(void)snprintf(ret_rest, WEIR__POLICY_FAR_NAME, "%.*s%s", (int)(at + 1 - url), url, end + 1);
	else
		(void)snprintf(ret_rest, WEIR__POLICY_FAR_NAME, "%.*s%s", (int)(at - url), url, end);
	return WEIR_OK;
}

static int read_url(const char *url, struct weir__redis_url *ret_url, char ret_key[KEY_SIZE],
		    struct weir_message *ret_message)
{
	char rest[WEIR__POLICY_FAR_NAME];
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

	return read_url(url, &read, key, ret_message);
}

/* --- connections ------------------------------------------------------------------------------------------------------ */

static void close_line(struct line *line)
{
	weir__tls_free(line->tls);
	if (line->socket >= 0)
		weir__net_close(line->socket);
	if (line->in)
		OPENSSL_cleanse(line->in, line->size);
	free(line->in);
	*line = (struct line){ .socket = -1 };
}

static bool say(struct weir__policy_far_answer *answer, enum weir__policy_far_found found, const char *why)
{
	answer->found = found;
	(void)snprintf(answer->why, sizeof(answer->why), "%s", why);
	return false;
}

/* Until something can be read, or written, or it is too late. True: it can. */
static bool is_ready(struct redis *redis, const struct line *line, bool writes)
{
	struct weir__loop *const loop = redis->far.loop;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	bool is_ready = false;

	if (weir__loop_add(loop, line->socket, redis) != 0)
		return false;
	if (writes)
		(void)weir__loop_change(loop, line->socket, redis, false, true);
	while (!is_ready && !atomic_load(&redis->far.is_stopping)) {
		const weir_ns now = weir_clock_now() / 1000000;

		if (now >= redis->until)
			break;
		is_ready = weir__loop_wait(loop, (int)(redis->until - now), events) > 0;
	}
	weir__loop_remove(loop, line->socket);
	return is_ready;
}

/* What an attempt to read or write came to: nothing yet, or no more. */
static bool may_go_on(struct redis *redis, const struct line *line, ssize_t n, bool writes,
		      struct weir__policy_far_answer *answer)
{
	if (n == -EAGAIN)
		return is_ready(redis, line, line->tls ? weir__tls_wants_to_write(line->tls) : writes) ||
		       say(answer, WEIR__FAR_LOST, "it does not answer");
	if (n == 0)
		return say(answer, WEIR__FAR_LOST, "it has closed the connection");
	return say(answer, WEIR__FAR_LOST, line->tls ? weir__tls_why(line->tls) : strerror((int)-n));
}

/* The context is made when it is needed, and again if it could not be: files may come to be there. */
static bool make_tls(struct redis *redis, struct line *line, const struct weir__redis_place *place,
		     struct weir__policy_far_answer *answer)
{
	const struct weir__redis_url *const url = &redis->url;
	const struct weir__tls_files files = { url->ca, url->certificate, url->key };
	char why[WEIR__TLS_WHY_SIZE] = "there is no memory for TLS";

	if (redis->tls == NULL && weir__tls_context_new(&files, url->verifies, &redis->tls, why) != 0) {
		redis->tls = NULL;
		return say(answer, WEIR__FAR_LOST, why);
	}
	line->tls = weir__tls_new(redis->tls, line->socket, url->tls_name[0] ? url->tls_name : place->host);
	return line->tls || say(answer, WEIR__FAR_LOST, "there is no memory for TLS, or no such host can be");
}

static bool shake(struct redis *redis, struct line *line, struct weir__policy_far_answer *answer)
{
	int error;

	while ((error = weir__tls_shake(line->tls)) != 0)
		if (error != EAGAIN || !is_ready(redis, line, weir__tls_wants_to_write(line->tls)))
			return say(answer, WEIR__FAR_LOST,
				   error == EAGAIN ? "it does not answer" : weir__tls_why(line->tls));
	return true;
}

static bool open_line(struct redis *redis, struct line *line, const struct weir__redis_place *place,
		      struct weir__policy_far_answer *answer)
{
	char where[WHERE_SIZE];
	int error;

	close_line(line);
	weir__redis_place_show(place, where, sizeof(where));
	error = weir__net_connect(where, WEIR__POLICY_FAR_CONNECT_MS, &line->socket);
	if (error != 0) {
		line->socket = -1;
		answer->found = WEIR__FAR_LOST;
		(void)snprintf(answer->why, sizeof(answer->why), "%s: %s", where, strerror(error));
		return false;
	}
	line->in = malloc(IN_LEAST);
	line->size = line->in ? IN_LEAST : 0;
	if (line->in == NULL || weir__net_unblock(line->socket) != 0)
		return say(answer, WEIR__FAR_LOST, "there is no memory for a connection");
	line->reply = (struct weir__resp_reply){
		.tokens_max = TOKENS, .depth_max = 4, .line_max = LINE_MOST, .bulk_max = WEIR__POLICY_FAR_MOST
	};
	return !place->is_tls || (make_tls(redis, line, place, answer) && shake(redis, line, answer));
}

static ssize_t receive(const struct line *line, void *bytes, size_t size)
{
	return line->tls ? weir__tls_read(line->tls, bytes, size) : weir__net_read(line->socket, bytes, size);
}

static ssize_t transmit(const struct line *line, const void *bytes, size_t size)
{
	return line->tls ? weir__tls_write(line->tls, bytes, size) : weir__net_write(line->socket, bytes, size);
}

static bool send_request(struct redis *redis, const struct line *line, const char *bytes, size_t length,
			 struct weir__policy_far_answer *answer)
{
	for (size_t sent = 0; sent < length;) {
		const ssize_t n = transmit(line, bytes + sent, length - sent);

		if (n > 0)
			sent += (size_t)n;
		else if (!may_go_on(redis, line, n, true, answer))
			return false;
	}
	return true;
}

static bool make_room(struct line *line)
{
	const size_t size = 2 * line->size < IN_MOST ? 2 * line->size : IN_MOST;
	char *longer;

	if (line->filled < line->size)
		return true;
	longer = size > line->size ? realloc(line->in, size) : NULL;
	if (longer == NULL)
		return false;
	line->in = longer;
	line->size = size;
	return true;
}

static bool receive_reply(struct redis *redis, struct line *line, struct weir__policy_far_answer *answer)
{
	enum weir__resp_status status = WEIR__RESP_MORE;
	size_t used = 0;

	memmove(line->in, line->in + line->used, line->filled - line->used);
	line->filled -= line->used;
	line->used = 0;
	line->reply.tokens = line->tokens;
	weir__resp_reply_init(&line->reply);
	for (;;) {
		ssize_t n;

		if (line->filled > line->used)
			status = weir__resp_reply_read(&line->reply, line->in + line->used, line->filled - line->used,
						       &used);
		line->used += used;
		used = 0;
		if (status == WEIR__RESP_WHOLE)
			return true;
		if (status == WEIR__RESP_BAD && line->reply.fault != WEIR__RESP_FAULT_REPLY_SIZE)
			return say(answer, WEIR__FAR_WRONG, weir__resp_fault_words(line->reply.fault));
		if (status == WEIR__RESP_BAD || !make_room(line))
			return say(answer, WEIR__FAR_WRONG, "it is too long: a policy of Redis has at most 16 MiB");
		n = receive(line, line->in + line->filled, line->size - line->filled);
		if (n > 0)
			line->filled += (size_t)n;
		else if (!may_go_on(redis, line, n, false, answer))
			return false;
	}
}

/* Errors that pass by themselves, or elsewhere. */
static bool is_passing(const struct weir__resp_slice *error)
{
	static const char *const codes[] = { "LOADING ", "MASTERDOWN ", "BUSY ", "CLUSTERDOWN ", "TRYAGAIN " };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (error->length > strlen(codes[i]) && memcmp(error->bytes, codes[i], strlen(codes[i])) == 0)
			return true;
	return false;
}

/* Asks, and gets a reply that is no error: it is in line->tokens. */
static bool command(struct redis *redis, struct line *line, const char *const *words,
		    struct weir__policy_far_answer *answer)
{
	char request[REQUEST_SIZE];
	struct weir__resp_writer writer = { .bytes = request, .size = sizeof(request), .protocol = 2 };
	const struct weir__resp_slice *const text = &line->tokens[0].text;
	uint64_t n = 0;
	bool is_sent;

	while (words[n])
		n++;
	(void)weir__resp_write_array(&writer, n);
	for (uint64_t i = 0; i < n; i++)
		(void)weir__resp_write_bulk(&writer, words[i], strlen(words[i]));
	is_sent = writer.length <= sizeof(request) ? send_request(redis, line, request, writer.length, answer) :
						     say(answer, WEIR__FAR_WRONG, "what the URL names is too long");
	OPENSSL_cleanse(request, sizeof(request));
	if (!is_sent || !receive_reply(redis, line, answer)) {
		close_line(line);
		return false;
	}
	if (line->tokens[0].type != WEIR__RESP_ERROR)
		return true;
	answer->found = is_passing(text) ? WEIR__FAR_LOST : WEIR__FAR_WRONG;
	(void)snprintf(answer->why, sizeof(answer->why), "it answers: %.*s",
		       (int)(text->length < 300 ? text->length : 300), text->bytes);
	return false;
}

#define COMMAND(redis, line, answer, ...) command(redis, line, (const char *const[]){ __VA_ARGS__, NULL }, answer)

/* --- the server ------------------------------------------------------------------------------------------------------- */

static bool log_in(struct redis *redis, struct line *line, const char *user, const char *password,
		   struct weir__policy_far_answer *answer)
{
	if (password[0] == '\0')
		return true;
	return user[0] != '\0' ? COMMAND(redis, line, answer, "AUTH", user, password) :
				 COMMAND(redis, line, answer, "AUTH", password);
}

/* Where the primary is, by a sentinel who knows. */
static bool ask_sentinel(struct redis *redis, const struct weir__redis_place *sentinel,
			 struct weir__redis_place *ret_place, struct weir__policy_far_answer *answer)
{
	const struct weir__redis_url *const url = &redis->url;
	struct line line = { .socket = -1 };
	const struct weir__resp_token *const tokens = line.tokens;
	bool is_known = open_line(redis, &line, sentinel, answer) &&
			log_in(redis, &line, url->sentinel_user, url->sentinel_password, answer) &&
			COMMAND(redis, &line, answer, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", url->primary);

	if (is_known && (line.reply.n != 3 || tokens[1].type != WEIR__RESP_BULK || tokens[2].type != WEIR__RESP_BULK ||
			 tokens[1].text.length >= sizeof(ret_place->host) || tokens[2].text.length > 5))
		is_known = say(answer, WEIR__FAR_LOST, "the sentinel knows no primary of this name");
	if (is_known) {
		*ret_place = (struct weir__redis_place){ .is_tls = sentinel->is_tls };
		memcpy(ret_place->host, tokens[1].text.bytes, tokens[1].text.length);
		ret_place->port = (uint16_t)strtoul(tokens[2].text.bytes, NULL, 10); /* CR LF is behind it */
	}
	close_line(&line);
	if (answer->found == WEIR__FAR_WRONG)
		answer->found = WEIR__FAR_LOST; /* others may know better */
	return is_known;
}

static bool find_primary(struct redis *redis, struct weir__redis_place *ret_place,
			 struct weir__policy_far_answer *answer)
{
	if (!redis->url.is_sentinel) {
		*ret_place = redis->url.places[0];
		return true;
	}
	for (uint32_t i = 0; i < redis->url.n_places; i++)
		if (ask_sentinel(redis, &redis->url.places[i], ret_place, answer))
			return true;
	return false;
}

static bool connect_line(struct redis *redis, struct line *line, struct weir__policy_far_answer *answer)
{
	struct weir__redis_place place;
	char database[16];

	(void)snprintf(database, sizeof(database), "%u", redis->url.database);
	if (find_primary(redis, &place, answer) && open_line(redis, line, &place, answer) &&
	    log_in(redis, line, redis->url.user, redis->url.password, answer) &&
	    (redis->url.database == 0 || COMMAND(redis, line, answer, "SELECT", database)))
		return true;
	close_line(line);
	return false;
}

/* --- the value -------------------------------------------------------------------------------------------------------- */

static bool read_value(struct redis *redis, struct weir__policy_far_answer *answer)
{
	const struct weir__resp_token *const token = &redis->asks.tokens[0];

	if (!COMMAND(redis, &redis->asks, answer, "GET", redis->key))
		return false;
	if (token->type != WEIR__RESP_BULK)
		return say(answer, WEIR__FAR_WRONG, "there is no such key");
	answer->text = malloc(token->text.length + 1);
	if (answer->text == NULL)
		return say(answer, WEIR__FAR_WRONG, "there is no memory for it");
	memcpy(answer->text, token->text.bytes, token->text.length);
	answer->length = token->text.length;
	answer->text[answer->length] = '\0';
	answer->found = WEIR__FAR_FOUND;
	return true;
}

/* Whether changes of keys of strings are told to those who subscribe to a key. */
static void learn_whether_it_notifies(struct redis *redis)
{
	const struct weir__resp_token *const tokens = redis->asks.tokens;
	struct weir__policy_far_answer answer;

	redis->notifies = redis->asks.socket >= 0 &&
			  COMMAND(redis, &redis->asks, &answer, "CONFIG", "GET", "notify-keyspace-events") &&
			  redis->asks.reply.n == 3 && memchr(tokens[2].text.bytes, 'K', tokens[2].text.length) &&
			  (memchr(tokens[2].text.bytes, 'A', tokens[2].text.length) ||
			   memchr(tokens[2].text.bytes, '$', tokens[2].text.length));
	if (!redis->notifies)
		close_line(&redis->listens);
}

static void begin(struct redis *redis)
{
	redis->until = weir_clock_now() / 1000000 + WEIR__POLICY_FAR_ANSWER_MS;
}

/* A connection from before may be over without anybody having said so: then another one is tried. */
static void ask(struct weir__policy_far *far, struct weir__policy_far_answer *ret_answer)
{
	struct redis *const redis = (void *)far;

	for (bool is_old = redis->asks.socket >= 0;; is_old = false) {
		*ret_answer = (struct weir__policy_far_answer){ .found = WEIR__FAR_LOST };
		begin(redis);
		if ((is_old || connect_line(redis, &redis->asks, ret_answer)) && read_value(redis, ret_answer))
			break;
		if (ret_answer->found == WEIR__FAR_LOST)
			close_line(&redis->asks);
		if (!is_old || ret_answer->found != WEIR__FAR_LOST)
			break;
	}
	if (ret_answer->found == WEIR__FAR_LOST)
		close_line(&redis->listens);
	else
		learn_whether_it_notifies(redis);
}

/* --- changes ------------------------------------------------------------------------------------------------------------ */

static bool subscribe(struct redis *redis)
{
	char channel[KEY_SIZE + 64];
	struct weir__policy_far_answer answer;

	begin(redis);
	(void)snprintf(channel, sizeof(channel), "__keyspace@%u__:%s", redis->url.database, redis->key);
	if (connect_line(redis, &redis->listens, &answer) &&
	    COMMAND(redis, &redis->listens, &answer, "SUBSCRIBE", channel))
		return true;
	close_line(&redis->listens);
	return false;
}

/* Whatever is told, it is that something has happened to the key. */
static bool wait_for_change(struct weir__policy_far *far)
{
	struct redis *const redis = (void *)far;
	struct line *const line = &redis->listens;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	ssize_t n = -EAGAIN;

	if (!redis->notifies)
		return false;
	if (line->socket < 0)
		return subscribe(redis); /* what has happened before is not told: ask once more */
	if (line->filled > line->used ||
	    (line->tls && weir__tls_has_unread(line->tls))) { /* it was told with the reply */
		line->filled = line->used = 0;
		return !line->tls || receive(line, line->in, line->size) != 0;
	}
	if (weir__loop_add(far->loop, line->socket, redis) == 0) {
		if (weir__loop_wait(far->loop, WEIR__POLICY_FAR_CHECK_MS, events) > 0)
			n = receive(line, line->in, line->size);
		weir__loop_remove(far->loop, line->socket);
	}
	if (n > 0 || n == -EAGAIN)
		return true;
	close_line(line);
	return false;
}

static void free_redis(struct weir__policy_far *far)
{
	struct redis *const redis = (void *)far;

	close_line(&redis->asks);
	close_line(&redis->listens);
	weir__tls_context_free(redis->tls);
	OPENSSL_cleanse(&redis->url, sizeof(redis->url));
	free(redis);
}

struct weir__policy_far *weir__policy_redis_new(const char *url)
{
	struct redis *const redis = calloc(1, sizeof(*redis));

	if (redis == NULL)
		return NULL;
	redis->far.ask = ask;
	redis->far.wait = wait_for_change;
	redis->far.free = free_redis;
	redis->asks.socket = redis->listens.socket = -1;
	if (read_url(url, &redis->url, redis->key, NULL) == WEIR_OK)
		return &redis->far;
	free_redis(&redis->far);
	return NULL;
}
