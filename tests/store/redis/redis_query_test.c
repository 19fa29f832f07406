/* redis_query_test.c: a client for queries with a scripted Redis, without sockets or a clock. */
#include "store/redis/redis_query.h"

#include <stdlib.h>

#include "check.h"

#define MS(n) ((weir_ns)(n)*1000000)
#define HELLO_REPLY "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n"
#define OLD_REPLY "-ERR unknown command `HELLO`\r\n"
#define PRIMARY_REPLY "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define SUBSCRIBED ">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
#define MESSAGE ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nset\r\n"

enum { BULK_MAX = 1 << 20 };

static struct weir__redis_url url;
static struct weir__redis_client *client;
static weir_ns now;
static struct weir__redis_query query;
static char taken[256]; /* what the query's reply was: its tokens, as far as they are texts, with a space behind each */
static size_t taken_bytes;

/* --- the driver -------------------------------------------------------------------------------------------------- */

static void begin(const char *text)
{
	now = MS(1000);
	CHECK_EQ(weir__redis_url_read(text, strlen(text), &url, NULL), WEIR_OK);
	client = weir__redis_client_new_for_queries(&url, BULK_MAX, 7, now);
	if (client == NULL)
		abort();
}

static void end(void)
{
	weir__redis_client_free(client);
	client = NULL;
}

static void take(struct weir__redis_query *done, const struct weir__resp_token *tokens, uint32_t n)
{
	size_t length = 0;

	CHECK(done == &query && done->context == &taken);
	taken_bytes = 0;
	taken[0] = '\0';
	for (uint32_t i = 0; i < n; i++) {
		taken_bytes += tokens[i].text.length;
		if (tokens[i].text.length < sizeof(taken) - length)
			length += (size_t)snprintf(taken + length, sizeof(taken) - length, "%.*s ",
						   (int)tokens[i].text.length, tokens[i].text.bytes);
	}
}

static void send_get(weir_ns duration)
{
	static const struct weir__resp_slice words[] = { { "GET", 3 }, { "key", 3 } };

	query = (struct weir__redis_query){
		.words = words, .n = 2, .deadline = now + duration, .take = take, .context = &taken
	};
	taken[0] = '\0';
	weir__redis_query_send(client, &query, now);
}

static void pass(weir_ns duration)
{
	const weir_ns until = now + duration;
	weir_ns next;

	while ((next = weir__redis_client_next(client)) <= until) {
		now = next > now ? next : now;
		weir__redis_client_tick(client, now);
		CHECK(weir__redis_client_next(client) > now); /* otherwise time would stand still */
		if (weir__redis_client_next(client) <= now)
			return;
	}
	now = until;
}

/* What the client wants, as text: "+0 h:6379" to open, "-0" to close. */
static const char *wishes(void)
{
	static char text[256];
	struct weir__redis_wish wish;
	size_t length = 0;
	char place[300];

	text[0] = '\0';
	while (weir__redis_client_wish(client, &wish)) {
		const bool opens = wish.kind == WEIR__REDIS_OPEN;

		weir__redis_place_show(&wish.place, place, sizeof(place));
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%c%u%s%s", length > 0 ? " " : "",
					   opens ? '+' : '-', wish.link, opens ? " " : "", opens ? place : "");
	}
	return text;
}

/* The command that a link sends, as words separated by spaces. */
static const char *said(uint32_t link)
{
	static char text[256], bytes[1024];
	struct weir__resp_slice words[8];
	struct weir__resp_request request = {
		.arguments = words, .arguments_max = 8, .line_max = 100, .bulk_max = sizeof(bytes)
	};
	const struct weir__resp_slice output = weir__redis_client_output(client, link);
	size_t length = 0, used;

	text[0] = '\0';
	if (output.length == 0 || output.length > sizeof(bytes))
		return text;
	memcpy(bytes, output.bytes, output.length);
	weir__redis_client_sent(client, link, output.length);
	weir__resp_request_init(&request);
	if (weir__resp_request_read(&request, bytes, output.length, &used) != WEIR__RESP_COMPLETE ||
	    used != output.length)
		return "not one command";
	for (uint32_t i = 0; i < request.n; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%.*s", i > 0 ? " " : "",
					   (int)words[i].length, words[i].bytes);
	return text;
}

static void hear(uint32_t link, const char *text)
{
	weir__redis_client_received(client, link, text, strlen(text), now);
}

static const char *last_error(void)
{
	static struct weir__redis_client_info info;

	weir__redis_client_info(client, &info);
	return info.last_error;
}

/* A query connection that is ready. */
static void come_up(void)
{
	begin("redis://h");
	CHECK_TEXT(wishes(), "+0 h:6379");
	weir__redis_client_opened(client, 0, now);
	CHECK_TEXT(said(0), "HELLO 3 SETNAME weir");
	hear(0, HELLO_REPLY);
	CHECK_TEXT(said(0), "");
}

static void greet_again(uint32_t link)
{
	weir__redis_client_opened(client, link, now);
	CHECK_TEXT(said(link), "HELLO 3 SETNAME weir");
	hear(link, HELLO_REPLY);
}

/* --- queries ----------------------------------------------------------------------------------------------------- */

/* Whatever the pool of the URL: one link for queries, and one for the subscription. */
static void greeted_without_script_and_role(void)
{
	begin("redis://ann:secret@h/3?pool=4");
	CHECK_TEXT(wishes(), "+0 h:6379");
	send_get(MS(1000));
	weir__redis_client_opened(client, 0, now);
	CHECK_TEXT(said(0), "HELLO 3 AUTH ann secret SETNAME weir");
	hear(0, HELLO_REPLY);
	CHECK_TEXT(said(0), "SELECT 3");
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_WAITS);
	hear(0, "+OK\r\n");
	CHECK_TEXT(said(0), "GET key");
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_IS_SENT);
	hear(0, "$5\r\nvalue\r\n");
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_IS_ANSWERED);
	CHECK_TEXT(taken, "value ");
	end();
}

static void nothing_is_sent_unasked(void)
{
	come_up();
	pass(MS(60000));
	CHECK_TEXT(said(0), "");
	CHECK_TEXT(wishes(), "");
	CHECK_EQ(weir__redis_client_next(client), WEIR_NEVER);
	end();
}

static void replies_of_all_kinds(void)
{
	static const struct {
		const char *reply, *taken;
	} rows[] = {
		{ "$0\r\n\r\n", " " },
		{ "_\r\n", " " },
		{ "-NOPERM no\r\n", "NOPERM no " },
		{ "-READONLY no\r\n", "READONLY no " },
		{ "*2\r\n$1\r\na\r\n$1\r\nb\r\n", " a b " },
		{ "%1\r\n$1\r\na\r\n$1\r\nb\r\n", " a b " },
		{ ">1\r\n+x\r\n+OK\r\n", "OK " },
	};

	come_up();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		send_get(MS(1000));
		CHECK_TEXT(said(0), "GET key");
		hear(0, rows[i].reply);
		CHECK(weir__redis_query_is_done(&query));
		CHECK_EQ(query.state, WEIR__REDIS_QUERY_IS_ANSWERED);
		CHECK_TEXT(taken, rows[i].taken);
		CHECK_TEXT(wishes(), "");
	}
	end();
}

/* In pieces, and up to the bound. */
static void a_long_reply(void)
{
	enum { PIECE = 60000 };
	static char value[BULK_MAX + 2];
	char head[32];

	memset(value, 'v', BULK_MAX);
	memcpy(value + BULK_MAX, "\r\n", 2);
	come_up();
	send_get(MS(1000));
	CHECK_TEXT(said(0), "GET key");
	(void)snprintf(head, sizeof(head), "$%d\r\n", BULK_MAX);
	hear(0, head);
	for (size_t at = 0, n; at < sizeof(value); at += n) {
		CHECK_EQ(query.state, WEIR__REDIS_QUERY_IS_SENT);
		n = sizeof(value) - at < PIECE ? sizeof(value) - at : PIECE;
		weir__redis_client_received(client, 0, value + at, n, now);
	}
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_IS_ANSWERED);
	CHECK_EQ(taken_bytes, BULK_MAX);
	send_get(MS(1000));
	CHECK_TEXT(said(0), "GET key");
	(void)snprintf(head, sizeof(head), "$%d\r\n", BULK_MAX + 1);
	hear(0, head);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_IS_TOO_LARGE);
	CHECK_TEXT(wishes(), "-0 +0 h:6379");
	greet_again(0);
	send_get(MS(1000));
	CHECK_TEXT(said(0), "GET key");
	end();
}

static void a_lost_connection_is_made_up_for_once(void)
{
	come_up();
	send_get(MS(1000));
	CHECK_TEXT(said(0), "GET key");
	weir__redis_client_lost(client, 0, "reset", now);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_WAITS);
	CHECK_TEXT(wishes(), "+0 h:6379");
	greet_again(0);
	CHECK_TEXT(said(0), "GET key");
	weir__redis_client_lost(client, 0, "reset again", now);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_HAS_FAILED);
	CHECK_TEXT(last_error(), "h:6379: reset again");
	CHECK_TEXT(taken, "");
	end();
}

/* A script that writes must not run twice. */
static void what_may_not_be_repeated_fails_with_its_connection(void)
{
	come_up();
	send_get(MS(1000));
	query.is_once = true;
	CHECK(query.was_sent);
	CHECK_TEXT(said(0), "GET key");
	weir__redis_client_lost(client, 0, "reset", now);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_HAS_FAILED);
	CHECK(query.was_sent);
	send_get(MS(1000));
	CHECK(!query.was_sent); /* there is no connection yet */
	CHECK_TEXT(wishes(), "+0 h:6379");
	greet_again(0);
	CHECK_TEXT(said(0), "GET key");
	end();
}

static void what_is_given_up_leaves_no_reply_behind(void)
{
	come_up();
	weir__redis_query_give_up(client, now); /* there is nothing to give up */
	CHECK_TEXT(wishes(), "");
	send_get(MS(1000));
	CHECK_TEXT(said(0), "GET key");
	weir__redis_query_give_up(client, now);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_HAS_FAILED);
	weir__redis_client_tick(client, now);
	CHECK_TEXT(wishes(), "-0 +0 h:6379");
	send_get(MS(1000));
	greet_again(0);
	CHECK_TEXT(said(0), "GET key");
	hear(0, "$1\r\nx\r\n");
	CHECK_TEXT(taken, "x ");
	end();
}

static void a_server_is_left(void)
{
	come_up();
	send_get(MS(1000));
	CHECK_TEXT(said(0), "GET key");
	hear(0, "-READONLY it is a replica\r\n");
	CHECK_TEXT(wishes(), "");
	weir__redis_query_leave(client, now);
	weir__redis_client_tick(client, now);
	CHECK_TEXT(wishes(), "-0 +0 h:6379");
	weir__redis_query_leave(client, now); /* there is nothing to leave */
	CHECK_TEXT(wishes(), "");
	send_get(MS(1000));
	greet_again(0);
	CHECK_TEXT(said(0), "GET key");
	end();
}

static void what_cannot_be_reached_fails_at_once(void)
{
	begin("redis://h");
	CHECK_TEXT(wishes(), "+0 h:6379");
	send_get(MS(1000));
	weir__redis_client_lost(client, 0, "connection refused", now);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_HAS_FAILED);
	CHECK_TEXT(last_error(), "h:6379: connection refused");
	send_get(MS(1000)); /* waits for the next attempt, which may be better */
	CHECK_TEXT(wishes(), "+0 h:6379");
	greet_again(0);
	CHECK_TEXT(said(0), "GET key");
	end();
}

/* clang-format off */
static const struct {
	const char *url, *replies[2], *taken, *error; /* taken: empty if the query has failed */
} refused[] = {
	{ "redis://ann:secret@h", { "-WRONGPASS invalid pair ann secret\r\n" },   "WRONGPASS ",
	  "h:6379: HELLO failed with the error WRONGPASS" },
	{ "redis://h/9",          { HELLO_REPLY, "-ERR index out of range\r\n" }, "ERR index out of range ",
	  "h:6379: SELECT failed with the error ERR index out of range" },
	{ "redis://h",            { "+OK\r\n" },                                  "",
	  "h:6379: unexpected reply to HELLO" },
	{ "redis://h",            { "HTTP/1.1 400 Bad Request\r\n" },             "",
	  "h:6379: unknown type of reply" },
};
/* clang-format on */

static void an_error_of_the_greeting_is_the_reply(void)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		begin(refused[i].url);
		CHECK_TEXT(wishes(), "+0 h:6379");
		send_get(MS(1000));
		weir__redis_client_opened(client, 0, now);
		for (size_t reply = 0; reply < 2 && refused[i].replies[reply] != NULL; reply++) {
			(void)said(0);
			hear(0, refused[i].replies[reply]);
		}
		CHECK_EQ(query.state,
			 refused[i].taken[0] ? WEIR__REDIS_QUERY_IS_ANSWERED : WEIR__REDIS_QUERY_HAS_FAILED);
		CHECK_TEXT(taken, refused[i].taken);
		CHECK_TEXT(last_error(), refused[i].error);
		CHECK_TEXT(wishes(), "-0 +0 h:6379");
		end();
	}
}

static void a_deadline_while_it_waits(void)
{
	begin("redis://h?connect_timeout=5s");
	CHECK_TEXT(wishes(), "+0 h:6379");
	send_get(MS(100));
	pass(MS(99));
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_WAITS);
	pass(MS(1));
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_HAS_FAILED);
	CHECK_TEXT(last_error(), "h:6379: did not reply in time");
	CHECK_TEXT(wishes(), ""); /* the connection may still come about */
	end();
}

/* Otherwise the reply would be taken for the reply to the next query. */
static void a_deadline_when_it_is_sent(void)
{
	come_up();
	send_get(MS(100));
	CHECK_TEXT(said(0), "GET key");
	pass(MS(100));
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_HAS_FAILED);
	CHECK_TEXT(last_error(), "h:6379: did not reply in time");
	CHECK_TEXT(wishes(), "-0 +0 h:6379");
	end();
}

static void a_command_that_has_no_room(void)
{
	static char long_word[1 << 20];
	const struct weir__resp_slice word = { long_word, sizeof(long_word) };

	come_up();
	query = (struct weir__redis_query){ .words = &word, .n = 1, .deadline = WEIR_NEVER, .take = take };
	weir__redis_query_send(client, &query, now);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_HAS_FAILED);
	CHECK_TEXT(last_error(), "h:6379: the command is too long");
	send_get(MS(100));
	CHECK_TEXT(said(0), "GET key");
	end();
}

/* --- the subscription -------------------------------------------------------------------------------------------- */

static void messages_are_news(void)
{
	come_up();
	CHECK(!weir__redis_query_take_news(client));
	weir__redis_query_subscribe(client, "news", now);
	CHECK_TEXT(wishes(), "+1 h:6379");
	greet_again(1);
	CHECK_TEXT(said(1), "SUBSCRIBE news");
	CHECK(!weir__redis_query_is_subscribed(client));
	hear(1, SUBSCRIBED);
	CHECK(weir__redis_query_is_subscribed(client));
	CHECK(weir__redis_query_take_news(client)); /* what came before is not told */
	CHECK(!weir__redis_query_take_news(client));
	hear(1, MESSAGE MESSAGE);
	CHECK(weir__redis_query_take_news(client));
	CHECK(!weir__redis_query_take_news(client));
	weir__redis_query_subscribe(client, "news", now);
	CHECK_TEXT(wishes(), "");
	pass(MS(60000));
	CHECK_TEXT(wishes(), "");
	weir__redis_query_subscribe(client, NULL, now);
	CHECK(!weir__redis_query_is_subscribed(client));
	CHECK_TEXT(wishes(), "-1");
	pass(MS(60000));
	CHECK_TEXT(wishes(), "");
	end();
}

static void messages_of_an_old_redis(void)
{
	come_up();
	weir__redis_query_subscribe(client, "news", now);
	CHECK_TEXT(wishes(), "+1 h:6379");
	weir__redis_client_opened(client, 1, now);
	CHECK_TEXT(said(1), "HELLO 3 SETNAME weir");
	hear(1, OLD_REPLY);
	CHECK_TEXT(said(1), "CLIENT SETNAME weir");
	hear(1, "+OK\r\n");
	CHECK_TEXT(said(1), "SUBSCRIBE news");
	hear(1, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
	CHECK(weir__redis_query_take_news(client));
	hear(1, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nset\r\n");
	CHECK(weir__redis_query_is_subscribed(client));
	CHECK(weir__redis_query_take_news(client));
	end();
}

static void a_subscription_that_is_denied(void)
{
	come_up();
	weir__redis_query_subscribe(client, "news", now);
	CHECK_TEXT(wishes(), "+1 h:6379");
	greet_again(1);
	CHECK_TEXT(said(1), "SUBSCRIBE news");
	send_get(MS(1000));
	hear(1, "-NOPERM no permissions to access a channel\r\n");
	CHECK(!weir__redis_query_is_subscribed(client));
	CHECK(!weir__redis_query_take_news(client));
	CHECK_TEXT(said(0), "GET key"); /* queries do not mind */
	hear(0, "+OK\r\n");
	CHECK_TEXT(taken, "OK ");
	CHECK_TEXT(wishes(), "-1 +1 h:6379");
	greet_again(1);
	CHECK_TEXT(said(1), "SUBSCRIBE news");
	hear(1, "-NOPERM no permissions to access a channel\r\n");
	CHECK_TEXT(wishes(), "-1");
	pass(MS(999));
	CHECK_TEXT(wishes(), "");
	pass(MS(1));
	CHECK_TEXT(wishes(), "+1 h:6379");
	end();
}

static void a_subscription_that_is_lost_begins_again(void)
{
	come_up();
	weir__redis_query_subscribe(client, "news", now);
	CHECK_TEXT(wishes(), "+1 h:6379");
	greet_again(1);
	CHECK_TEXT(said(1), "SUBSCRIBE news");
	hear(1, SUBSCRIBED);
	CHECK(weir__redis_query_take_news(client));
	weir__redis_client_lost(client, 1, "killed", now);
	CHECK(!weir__redis_query_is_subscribed(client));
	CHECK_TEXT(wishes(), "+1 h:6379");
	greet_again(1);
	CHECK_TEXT(said(1), "SUBSCRIBE news");
	hear(1, SUBSCRIBED);
	CHECK(weir__redis_query_take_news(client));
	end();
}

/* --- sentinels --------------------------------------------------------------------------------------------------- */

#define SWITCHED ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$27\r\nmain h1 7001 127.0.0.1 7002\r\n"

static void meet_sentinel(void)
{
	greet_again(2);
	CHECK_TEXT(said(2), "SUBSCRIBE +switch-master");
	hear(2, ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
	pass(0);
	CHECK_TEXT(said(2), "SENTINEL GET-MASTER-ADDR-BY-NAME main");
}

/* Both links move; the query is sent to the new primary. */
static void a_sentinel_tells_the_primary(void)
{
	begin("redis+sentinel://a,b/main");
	CHECK_TEXT(wishes(), "+2 a:26379");
	weir__redis_query_subscribe(client, "news", now);
	send_get(MS(1000));
	weir__redis_client_lost(client, 2, "connection refused", now);
	CHECK_TEXT(wishes(), "+2 b:26379");
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_WAITS); /* one sentinel is left */
	meet_sentinel();
	hear(2, "*2\r\n$2\r\nh1\r\n$4\r\n7001\r\n");
	CHECK_TEXT(wishes(), "+0 h1:7001 +1 h1:7001");
	greet_again(0);
	CHECK_TEXT(said(0), "ROLE"); /* sentinels may be behind */
	hear(0, PRIMARY_REPLY);
	CHECK_TEXT(said(0), "GET key");
	CHECK(!weir__redis_query_take_news(client));
	hear(2, SWITCHED);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_WAITS);
	CHECK_TEXT(wishes(), "-0 +0 127.0.0.1:7002 -1 +1 127.0.0.1:7002");
	weir__redis_query_subscribe(client, NULL, now);
	CHECK_TEXT(wishes(), "-1");
	end();
}

static void no_sentinel_knows_the_primary(void)
{
	begin("redis+sentinel://a,b/main");
	CHECK_TEXT(wishes(), "+2 a:26379");
	send_get(MS(1000));
	weir__redis_client_lost(client, 2, "connection refused", now);
	CHECK_TEXT(wishes(), "+2 b:26379");
	meet_sentinel();
	hear(2, "*-1\r\n");
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_HAS_FAILED);
	CHECK_TEXT(last_error(), "b:26379: the sentinel does not know a primary of this name");
	end();
}

/* The primary's last address is known: whether it replies there decides. */
static void sentinels_that_are_gone_do_not_matter(void)
{
	begin("redis+sentinel://a/main");
	CHECK_TEXT(wishes(), "+2 a:26379");
	meet_sentinel();
	hear(2, "*2\r\n$2\r\nh1\r\n$4\r\n7001\r\n");
	CHECK_TEXT(wishes(), "+0 h1:7001");
	send_get(MS(1000));
	weir__redis_client_lost(client, 2, "killed", now);
	CHECK_EQ(query.state, WEIR__REDIS_QUERY_WAITS);
	greet_again(0);
	CHECK_TEXT(said(0), "ROLE");
	hear(0, PRIMARY_REPLY);
	CHECK_TEXT(said(0), "GET key");
	end();
}

TESTS(TEST(greeted_without_script_and_role), TEST(nothing_is_sent_unasked), TEST(replies_of_all_kinds),
      TEST(a_long_reply), TEST(a_lost_connection_is_made_up_for_once),
      TEST(what_may_not_be_repeated_fails_with_its_connection), TEST(what_is_given_up_leaves_no_reply_behind),
      TEST(a_server_is_left), TEST(what_cannot_be_reached_fails_at_once), TEST(an_error_of_the_greeting_is_the_reply),
      TEST(a_deadline_while_it_waits), TEST(a_deadline_when_it_is_sent), TEST(a_command_that_has_no_room),
      TEST(messages_are_news), TEST(messages_of_an_old_redis), TEST(a_subscription_that_is_denied),
      TEST(a_subscription_that_is_lost_begins_again), TEST(a_sentinel_tells_the_primary),
      TEST(no_sentinel_knows_the_primary), TEST(sentinels_that_are_gone_do_not_matter))
