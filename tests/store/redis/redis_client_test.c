/* redis_client_test.c: the client with a scripted Redis, without sockets or a clock: each row of a conversation is what
 * the client sent and the reply. */
/* Covers: src/store/redis/redis_batch.c, src/store/redis/redis_breaker.c, src/store/redis/redis_connect.c,
 * src/store/redis/redis_handshake.c, src/store/redis/redis_jobs.c, src/store/redis/redis_link.c,
 * src/store/redis/redis_refusal.c, src/store/redis/redis_sentinel.c */
#include "store/redis/redis_client.h"

#include <stdlib.h>

#include "check.h"
#include "plans.h"

#define MS(n) ((weir_ns)(n)*1000000)
#define HELLO_ANSWER "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n"
#define PRIMARY_ANSWER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define REPLICA_ANSWER "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"

enum { JOBS = 40, CLAIMS = 3 };

static struct weir__redis_url url;
static struct weir__redis_client *client;
static weir_ns now;
static struct weir__redis_plan plan;
static uint32_t lane; /* lane of the jobs */

/* A job of some claims, each a separate request. */
static struct job {
	struct weir__redis_job job;
	struct weir__redis_claim claims[CLAIMS];
	struct weir__redis_request requests[CLAIMS];
	struct weir_verdict verdicts[CLAIMS];
	int done;
} jobs[JOBS];

static void note_done(struct weir__redis_job *job)
{
	((struct job *)(void *)job)->done++;
}

/* --- the driver -------------------------------------------------------------------------------------------------- */

static void begin(const char *text)
{
	plan = plan_of("10/s burst 10");
	memset(jobs, 0, sizeof(jobs));
	lane = 0;
	now = MS(1000);
	CHECK_EQ(weir__redis_url_read(text, strlen(text), &url, NULL), WEIR_OK);
	client = weir__redis_client_new(&url, 7, now);
	if (client == NULL)
		abort();
}

static void end(void)
{
	weir__redis_client_free(client);
	client = NULL;
}

static void take_done(void)
{
	struct weir__redis_job *job;

	while ((job = weir__redis_client_done(client)) != NULL)
		job->done(job);
}

static void ask(size_t i, size_t claims, weir_ns budget)
{
	static char keys[JOBS][8];
	struct job *const job = &jobs[i];

	(void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
	memset(job, 0, sizeof(*job));
	for (size_t claim = 0; claim < claims; claim++) {
		job->claims[claim] = (struct weir__redis_claim){
			.plan = &plan, .name = { "l", 1 }, .key = { keys[i], strlen(keys[i]) }, .cost = 1
		};
		job->requests[claim] = (struct weir__redis_request){ WEIR__REDIS_TAKE, &job->claims[claim], 1 };
	}
	job->job = (struct weir__redis_job){ .requests = job->requests,
					     .n = claims,
					     .budget = budget,
					     .lane = lane,
					     .verdicts = job->verdicts,
					     .done = note_done };
	weir__redis_client_ask(client, &job->job, now);
	take_done();
}

/* Advances the clock; 0 runs the same instant again. */
static void pass(weir_ns duration)
{
	const weir_ns until = now + duration;
	weir_ns next;

	while ((next = weir__redis_client_next(client)) <= until) {
		now = next > now ? next : now;
		weir__redis_client_tick(client, now);
		take_done();
		CHECK(weir__redis_client_next(client) > now); /* otherwise time would stand still */
		if (weir__redis_client_next(client) <= now)
			return;
	}
	now = until;
}

/* What the client wants, as text: "+0 h:6379" to open, "-0" to close. */
static const char *wishes(void)
{
	static char text[1024];
	struct weir__redis_wish wish;
	size_t length = 0;
	char place[300];

	text[0] = '\0';
	while (weir__redis_client_wish(client, &wish)) {
		weir__redis_place_show(&wish.place, place, sizeof(place));
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%c%u%s%s", length > 0 ? " " : "",
					   wish.kind == WEIR__REDIS_OPEN ? '+' : '-', wish.link,
					   wish.kind == WEIR__REDIS_OPEN ? " " : "",
					   wish.kind == WEIR__REDIS_OPEN ? place : "");
	}
	return text;
}

static void add_word(char *text, size_t size, struct weir__resp_slice word)
{
	size_t length = strlen(text);

	if (word.length > 24)
		word = (struct weir__resp_slice){ "...", 3 };
	for (size_t i = 0; i < word.length && length + 1 < size; i++)
		text[length++] = (char)(word.bytes[i] < ' ' ? '.' : word.bytes[i]);
	text[length] = '\0';
}

/* What a link sends, as text: words separated by spaces, commands by bars; for calls only the number of keys. */
static const char *said(uint32_t link)
{
	static char text[2048], bytes[1 << 17];
	static struct weir__resp_slice words[600];
	struct weir__resp_request request = {
		.arguments = words, .arguments_max = 600, .line_max = 100, .bulk_max = 1 << 17
	};
	const struct weir__resp_slice output = weir__redis_client_output(client, link);
	size_t at = 0, used;

	text[0] = '\0';
	if (output.length == 0 || output.length > sizeof(bytes))
		return text;
	memcpy(bytes, output.bytes, output.length);
	weir__redis_client_sent(client, link, output.length);
	for (; at < output.length; at += used) {
		weir__resp_request_init(&request);
		if (weir__resp_request_read(&request, bytes + at, output.length - at, &used) != WEIR__RESP_COMPLETE)
			return "no command";
		if (text[0] != '\0')
			add_word(text, sizeof(text), (struct weir__resp_slice){ " | ", 3 });
		for (uint32_t i = 0; i < request.n; i++) {
			if (i == 1 && words[0].length == 7 && memcmp(words[0].bytes, "EVALSHA", 7) == 0) {
				add_word(text, sizeof(text), (struct weir__resp_slice){ " ", 1 });
				add_word(text, sizeof(text), words[2]);
				break;
			}
			if (i > 0)
				add_word(text, sizeof(text), (struct weir__resp_slice){ " ", 1 });
			add_word(text, sizeof(text), words[i]);
		}
	}
	return text;
}

static void hear_bytes(uint32_t link, const char *bytes, size_t n)
{
	weir__redis_client_received(client, link, bytes, n, now);
	take_done();
}

static void hear(uint32_t link, const char *text)
{
	hear_bytes(link, text, strlen(text));
}

/* The script allows all claims, with `remaining` left. */
static size_t write_verdicts(char *bytes, size_t size, size_t claims, char remaining)
{
	static const char head[12] = { 1, 0, 0, 0, 0, 64, 66, 15 };
	size_t length = (size_t)snprintf(bytes, size, "$%zu\r\n", sizeof(head) + 16 * claims);

	memcpy(bytes + length, head, sizeof(head));
	length += sizeof(head);
	for (size_t i = 0; i < claims; i++) {
		memset(bytes + length, 0, 16);
		bytes[length] = 1;
		bytes[length + 1] = remaining--;
		length += 16;
	}
	memcpy(bytes + length, "\r\n", 2);
	return length + 2;
}

static void admit(uint32_t link, size_t claims, char remaining)
{
	char bytes[1024];

	hear_bytes(link, bytes, write_verdicts(bytes, sizeof(bytes), claims, remaining));
}

static void hear_script_loaded(uint32_t link)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "$40\r\n%s\r\n", weir__redis_script.sha1);
	hear(link, text);
}

/* From open to ready, without a probe. */
static void greet(uint32_t link)
{
	weir__redis_client_opened(client, link, now);
	CHECK_TEXT(said(link), "HELLO 3 SETNAME weir");
	hear(link, HELLO_ANSWER);
	CHECK_TEXT(said(link), "ROLE");
	hear(link, PRIMARY_ANSWER);
	CHECK_TEXT(said(link), "SCRIPT LOAD ...");
	hear_script_loaded(link);
}

static struct weir__redis_client_info info(void)
{
	struct weir__redis_client_info known;

	weir__redis_client_info(client, &known);
	return known;
}

/* From open to ready, with a probe for the breaker. */
static void greet_and_probe(uint32_t link)
{
	greet(link);
	CHECK_EQ(info().health, WEIR__REDIS_PROBING);
	CHECK(strncmp(said(link), "EVAL ... 1 weir:~nodes ", 23) == 0);
	hear(link, ":3\r\n");
	CHECK_EQ(info().health, WEIR__REDIS_UP);
}

/* Two links, both ready, and Redis is up. */
static void come_up(void)
{
	begin("redis://h?timeout=10ms");
	CHECK_TEXT(wishes(), "+0 h:6379 +1 h:6379");
	greet_and_probe(0);
	greet(1);
	CHECK_TEXT(said(1), "");
	CHECK_EQ(info().links_ready, 2);
	CHECK_EQ(info().nodes, 3);
}

static void check_done(size_t i, enum weir__redis_outcome outcome)
{
	CHECK_EQ(jobs[i].done, 1);
	CHECK_EQ(jobs[i].job.outcome, outcome);
}

/* --- greetings --------------------------------------------------------------------------------------------------- */

static void who_one_is_and_which_database(void)
{
	begin("redis://ann:secret@h/3?pool=1");
	CHECK_TEXT(wishes(), "+0 h:6379");
	CHECK_TEXT(said(0), "");
	weir__redis_client_opened(client, 0, now);
	CHECK_TEXT(said(0), "HELLO 3 AUTH ann secret SETNAME weir");
	hear(0, HELLO_ANSWER);
	CHECK_TEXT(said(0), "SELECT 3");
	hear(0, "+OK\r\n");
	CHECK_TEXT(said(0), "ROLE");
	hear(0, "-NOPERM this user has no permissions to run the 'role' command\r\n");
	CHECK_TEXT(said(0), "SCRIPT LOAD ...");
	end();
}

static void before_redis_6_there_is_no_hello(void)
{
	begin("redis://:secret@h?pool=1");
	CHECK_TEXT(wishes(), "+0 h:6379");
	weir__redis_client_opened(client, 0, now);
	CHECK_TEXT(said(0), "HELLO 3 AUTH default secret SETNAME weir");
	hear(0, "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `secret`\r\n");
	CHECK_TEXT(said(0), "AUTH secret");
	hear(0, "+OK\r\n");
	CHECK_TEXT(said(0), "CLIENT SETNAME weir");
	hear(0, "-ERR whatever\r\n");
	CHECK_TEXT(said(0), "ROLE");
	hear(0, PRIMARY_ANSWER);
	CHECK_TEXT(said(0), "SCRIPT LOAD ...");
	hear_script_loaded(0);
	CHECK_EQ(info().links_ready, 1);
	CHECK_TEXT(info().last_error, "");
	end();
}

/* clang-format off */
static const struct {
	const char *answers[4]; /* the last of them is wrong */
	const char *error;
} wrong_greetings[] = {
	{ { "-WRONGPASS invalid username-password pair secret\r\n" }, "h:6379: HELLO failed with the error WRONGPASS" },
	{ { "-ERR max number of clients reached\r\n" }, "h:6379: it has reached maxclients" },
	{ { "-NOAUTH HELLO must be called\r\n" },                     "h:6379: HELLO failed with the error NOAUTH" },
	{ { "-NOPERM no\r\n", "+OK\r\n", "-ERR whatever\r\n" },        "h:6379: SELECT failed with the error ERR whatever" },
	{ { "+OK\r\n" },                                              "h:6379: unexpected reply to HELLO" },
	{ { HELLO_ANSWER, "-ERR DB index is out of range\r\n" },      "h:6379: SELECT failed with the error ERR DB index is out of range" },
	{ { HELLO_ANSWER, "+OK\r\n", REPLICA_ANSWER },                "h:6379: this is a replica; the primary is needed" },
	{ { HELLO_ANSWER, "+OK\r\n", "*2\r\n$8\r\nsentinel\r\n*0\r\n" },
	  "h:6379: this is a sentinel; use redis+sentinel:// to find the primary" },
	{ { HELLO_ANSWER, "+OK\r\n", "*0\r\n" },                      "h:6379: unexpected reply to ROLE" },
	{ { HELLO_ANSWER, "+OK\r\n", PRIMARY_ANSWER, "-LOADING Redis is loading\r\n" },
	  "h:6379: SCRIPT LOAD failed with the error LOADING Redis is loading" },
	{ { HELLO_ANSWER, "+OK\r\n", PRIMARY_ANSWER, "$2\r\nab\r\n" }, "h:6379: unexpected reply to SCRIPT LOAD" },
	{ { "HTTP/1.1 400 Bad Request\r\n\r\n" },                     "h:6379: unknown type of reply" },
};
/* clang-format on */

static void a_greeting_that_goes_wrong_is_told(void)
{
	for (size_t i = 0; i < sizeof(wrong_greetings) / sizeof(wrong_greetings[0]); i++) {
		begin("redis://h/1?pool=1");
		CHECK_TEXT(wishes(), "+0 h:6379");
		weir__redis_client_opened(client, 0, now);
		ask(0, 1, MS(10));
		for (size_t answer = 0; answer < 4 && wrong_greetings[i].answers[answer] != NULL; answer++) {
			(void)said(0);
			CHECK_EQ(jobs[0].done, 0);
			hear(0, wrong_greetings[i].answers[answer]);
		}
		CHECK_TEXT(info().last_error, wrong_greetings[i].error);
		check_done(0, WEIR__REDIS_JOB_UNREACHED);
		CHECK_EQ(info().health, WEIR__REDIS_DOWN);
		CHECK_TEXT(wishes(), "-0 +0 h:6379");
		end();
	}
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

static void jobs_of_a_round_travel_together(void)
{
	come_up();
	ask(0, 1, MS(10));
	ask(1, 2, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 3");
	CHECK_TEXT(said(1), "");
	admit(0, 3, 9);
	check_done(0, WEIR__REDIS_JOB_DECIDED);
	check_done(1, WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(jobs[0].job.decided_at, MS(1000));
	CHECK_EQ(jobs[0].verdicts[0].remaining, 9);
	CHECK_EQ(jobs[1].verdicts[0].remaining, 8);
	CHECK_EQ(jobs[1].verdicts[1].remaining, 7);
	CHECK(jobs[1].verdicts[1].allowed);
	CHECK_EQ(info().calls, 1);
	CHECK_EQ(info().requests, 3);
	CHECK_EQ(info().claims, 3);
	CHECK_EQ(info().decided, 3);
	end();
}

/* Two calls are in flight on each of two links; later jobs are gathered. */
static void more_gather_while_calls_are_in_flight(void)
{
	come_up();
	for (size_t i = 0; i < 4; i++) {
		ask(i, 1, MS(10));
		CHECK_TEXT(said((uint32_t)i / 2), "EVALSHA 1");
	}
	for (size_t i = 4; i < 9; i++) {
		ask(i, 1, MS(10));
		CHECK_TEXT(said(0), "");
		CHECK_TEXT(said(1), "");
	}
	admit(1, 1, 5);
	check_done(2, WEIR__REDIS_JOB_DECIDED);
	CHECK_TEXT(said(1), "EVALSHA 5");
	admit(0, 1, 4);
	check_done(0, WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(jobs[1].done, 0);
	admit(0, 1, 3);
	check_done(1, WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(jobs[1].verdicts[0].remaining, 3);
	admit(1, 1, 2);
	check_done(3, WEIR__REDIS_JOB_DECIDED);
	admit(1, 5, 9);
	check_done(8, WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(jobs[8].verdicts[0].remaining, 5);
	end();
}

/* While one of them is in flight, jobs of a lane use its link, even if another link is free. */
static void jobs_of_a_lane_keep_their_order(void)
{
	come_up();
	lane = 3;
	for (size_t i = 0; i < 3; i++)
		ask(i, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 3");
	ask(3, 1, MS(10));
	CHECK_TEXT(said(1), "");
	CHECK_TEXT(said(0), "EVALSHA 1");
	ask(4, 1, MS(10));
	CHECK_TEXT(said(1), "");
	CHECK_TEXT(said(0), ""); /* it has two calls in flight */
	admit(0, 3, 9);
	CHECK_TEXT(said(1), "");
	CHECK_TEXT(said(0), "EVALSHA 1");
	admit(0, 1, 6);
	admit(0, 1, 5);
	for (size_t i = 0; i < 5; i++)
		check_done(i, WEIR__REDIS_JOB_DECIDED);
	ask(5, 1, MS(10)); /* nothing is in flight: any link will do */
	CHECK_TEXT(said(1), "EVALSHA 1");
	lane = 4;
	ask(6, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	end();
}

/* The job that is too long fails, not one before it that waits for its lane's link. */
static void a_job_that_is_too_long_fails_alone(void)
{
	static char long_key[1 << 20];

	memset(long_key, 'k', sizeof(long_key));
	come_up();
	lane = 3;
	for (size_t i = 0; i < 3; i++) {
		ask(i, 1, MS(10));
		CHECK_TEXT(said(0), i < 2 ? "EVALSHA 1" : ""); /* a link has two calls in flight */
	}
	lane = 4;
	ask(3, 1, MS(10));
	jobs[3].claims[0].key = (struct weir__resp_slice){ long_key, sizeof(long_key) };
	CHECK_TEXT(said(1), "");
	take_done();
	check_done(3, WEIR__REDIS_JOB_UNREACHED);
	CHECK_EQ(jobs[2].done, 0);
	admit(0, 1, 9);
	CHECK_TEXT(said(0), "EVALSHA 1");
	admit(0, 1, 8);
	admit(0, 1, 7);
	for (size_t i = 0; i < 3; i++)
		check_done(i, WEIR__REDIS_JOB_DECIDED);
	end();
}

/* A call that is over budget does not hold up others. */
static void a_lane_does_not_wait_for_what_is_over_budget(void)
{
	come_up();
	lane = 3;
	ask(0, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	pass(MS(10));
	check_done(0, WEIR__REDIS_JOB_UNANSWERED);
	ask(1, 1, MS(10));
	CHECK_TEXT(said(1), "EVALSHA 1");
	admit(1, 1, 5);
	check_done(1, WEIR__REDIS_JOB_DECIDED);
	end();
}

/* Both calls find that Redis has lost the script: they are sent again in their original order. */
static void jobs_that_are_sent_again_keep_their_order(void)
{
	come_up();
	lane = 3;
	ask(0, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	ask(1, 2, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 2");
	hear(0, "-NOSCRIPT No matching script.\r\n-NOSCRIPT No matching script.\r\n");
	CHECK_TEXT(said(0), "SCRIPT LOAD ... | EVALSHA 3");
	hear_script_loaded(0);
	admit(0, 3, 9);
	CHECK_EQ(jobs[0].verdicts[0].remaining, 9);
	CHECK_EQ(jobs[1].verdicts[0].remaining, 8);
	end();
}

static void what_is_not_sent_yet_has_nothing_behind_it(void)
{
	struct weir__resp_slice output;

	come_up();
	ask(0, 1, MS(10));
	output = weir__redis_client_output(client, 0);
	CHECK(output.length > 10);
	weir__redis_client_sent(client, 0, 10);
	ask(1, 1, MS(10));
	CHECK_EQ(weir__redis_client_output(client, 0).length, output.length - 10);
	weir__redis_client_sent(client, 0, output.length - 10);
	CHECK_TEXT(said(0), "EVALSHA 1");
	end();
}

static void an_answer_may_come_in_any_pieces(void)
{
	char bytes[256];
	size_t n;

	come_up();
	for (size_t i = 0; i < 2; i++) {
		ask(i, 2, MS(10));
		CHECK_TEXT(said(0), "EVALSHA 2");
	}
	n = write_verdicts(bytes, sizeof(bytes), 2, 9);
	n += write_verdicts(bytes + n, sizeof(bytes) - n, 2, 7);
	for (size_t i = 0; i < n; i++)
		hear_bytes(0, bytes + i, 1);
	check_done(0, WEIR__REDIS_JOB_DECIDED);
	check_done(1, WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(jobs[1].verdicts[1].remaining, 6);
	end();
}

static void over_budget_before_it_was_asked(void)
{
	begin("redis://h?pool=1");
	CHECK_TEXT(wishes(), "+0 h:6379");
	ask(0, 1, MS(10));
	ask(1, 1, MS(5));
	pass(MS(5));
	check_done(1, WEIR__REDIS_JOB_UNREACHED);
	CHECK_EQ(jobs[0].done, 0);
	pass(MS(4));
	CHECK_EQ(jobs[0].done, 0);
	pass(MS(1));
	check_done(0, WEIR__REDIS_JOB_UNREACHED);
	end();
}

/* The other jobs of its call are decided, and the reply for this one is dropped. */
static void over_budget_when_it_was_asked(void)
{
	come_up();
	ask(0, 2, MS(5));
	ask(1, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 3");
	pass(MS(5));
	check_done(0, WEIR__REDIS_JOB_UNANSWERED);
	memset(jobs[0].claims, 0xff, sizeof(jobs[0].claims)); /* the memory is the caller's again */
	memset(jobs[0].requests, 0xff, sizeof(jobs[0].requests));
	CHECK_EQ(jobs[1].done, 0);
	admit(0, 3, 9);
	check_done(0, WEIR__REDIS_JOB_UNANSWERED);
	check_done(1, WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(jobs[1].verdicts[0].remaining, 7);
	ask(2, 1, MS(5));
	CHECK_TEXT(said(0), "EVALSHA 1");
	pass(MS(6));
	check_done(2, WEIR__REDIS_JOB_UNANSWERED);
	admit(0, 1, 6);
	CHECK_EQ(info().links_ready, 2);
	CHECK_EQ(info().unanswered, 3);
	end();
}

static void no_script_is_loaded_and_asked_again(void)
{
	come_up();
	ask(0, 1, MS(5));
	ask(1, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 2");
	pass(MS(5));
	hear(0, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
	check_done(0, WEIR__REDIS_JOB_UNANSWERED);
	CHECK_EQ(jobs[1].done, 0);
	CHECK_TEXT(said(1), "SCRIPT LOAD ... | EVALSHA 1"); /* on any link, since it goes before on each */
	hear_script_loaded(1);
	admit(1, 1, 9);
	check_done(1, WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(info().reloads, 1);
	end();
}

static void no_script_twice_is_not_asked(void)
{
	come_up();
	ask(0, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	hear(0, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
	CHECK_TEXT(said(0), "SCRIPT LOAD ... | EVALSHA 1");
	hear_script_loaded(0);
	hear(0, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
	check_done(0, WEIR__REDIS_JOB_UNREACHED);
	end();
}

/* clang-format off */
static const struct {
	const char *answer;
	enum weir__redis_outcome outcome;
	enum weir__redis_health health;
	const char *wishes;
} refusals[] = {
	{ "-READONLY You can't write against a read only replica.\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN,
	  "-0 +0 h:6379 -1 +1 h:6379" },
	{ "-LOADING Redis is loading the dataset in memory\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "" },
	{ "-MASTERDOWN Link with MASTER is down\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "-0 +0 h:6379 -1 +1 h:6379" },
	{ "-OOM command not allowed when used memory > 'maxmemory'.\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "" },
	{ "-MISCONF Redis is configured to save\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "" },
	{ "-NOREPLICAS Not enough good replicas to write.\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "" },
	{ "-BUSY Redis is busy running a script.\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "" },
	{ "-NOAUTH Authentication required.\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "-0 +0 h:6379 -1 +1 h:6379" },
	{ "-WRONGPASS invalid\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "-0 +0 h:6379 -1 +1 h:6379" },
	{ "-NOPERM no permissions\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "-0 +0 h:6379 -1 +1 h:6379" },
	{ "-CLUSTERDOWN Hash slot not served\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "" },
	{ "-MOVED 3999 127.0.0.1:6381\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "" },
	{ "-ERR whatever this is\r\n", WEIR__REDIS_JOB_UNANSWERED, WEIR__REDIS_UP, "" },
	{ "-READONLYISH is another word\r\n", WEIR__REDIS_JOB_UNANSWERED, WEIR__REDIS_UP, "" },
	{ "+OK\r\n", WEIR__REDIS_JOB_UNANSWERED, WEIR__REDIS_UP, "-0 +0 h:6379" },
	{ "$3\r\nabc\r\n", WEIR__REDIS_JOB_UNANSWERED, WEIR__REDIS_UP, "-0 +0 h:6379" },
	{ "?\r\n", WEIR__REDIS_JOB_UNANSWERED, WEIR__REDIS_UP, "-0 +0 h:6379" },
	{ "$99999999\r\n", WEIR__REDIS_JOB_UNANSWERED, WEIR__REDIS_UP, "-0 +0 h:6379" },
	{ ">1\r\n+x\r\n-BUSY as before\r\n", WEIR__REDIS_JOB_UNREACHED, WEIR__REDIS_DOWN, "" },
};
/* clang-format on */

static void refusals_have_their_meaning(void)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		come_up();
		ask(0, 1, MS(10));
		CHECK_TEXT(said(0), "EVALSHA 1");
		hear(0, refusals[i].answer);
		check_done(0, refusals[i].outcome);
		CHECK_EQ(info().health, refusals[i].health);
		CHECK(info().last_error[0] != '\0');
		CHECK_TEXT(wishes(), refusals[i].wishes);
		end();
	}
}

/* A link that is closing gets no new calls, but its pending replies are read. */
static void a_link_that_leaves_waits_for_its_answers(void)
{
	come_up();
	ask(0, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	ask(1, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	hear(0, "-READONLY no\r\n");
	CHECK_TEXT(wishes(), "-1 +1 h:6379");
	CHECK_EQ(jobs[1].done, 0);
	hear(0, "-READONLY no\r\n");
	check_done(1, WEIR__REDIS_JOB_UNREACHED);
	CHECK_TEXT(wishes(), "-0 +0 h:6379");
	end();
}

static void a_lost_link_has_not_answered(void)
{
	come_up();
	ask(0, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	ask(1, 1, MS(10));
	weir__redis_client_lost(client, 0, "reset by peer", now);
	take_done();
	check_done(0, WEIR__REDIS_JOB_UNANSWERED);
	CHECK_EQ(jobs[1].done, 0);
	CHECK_TEXT(said(1), "EVALSHA 1");
	CHECK_TEXT(wishes(), "+0 h:6379"); /* at once: it may just have been closed for being idle */
	CHECK_TEXT(info().last_error, "h:6379: reset by peer");
	CHECK_EQ(info().health, WEIR__REDIS_UP);
	end();
}

static void what_was_not_asked_for_closes(void)
{
	come_up();
	hear(1, "+OK\r\n");
	CHECK_TEXT(wishes(), "-1 +1 h:6379");
	CHECK_TEXT(info().last_error, "h:6379: sent a reply without a request");
	end();
}

/* Events of a link that is to be closed, or not yet opened, are ignored. */
static void links_that_are_gone_are_not_listened_to(void)
{
	come_up();
	hear(1, "+OK\r\n");
	weir__redis_client_lost(client, 1, "late", now);
	weir__redis_client_opened(client, 1, now);
	hear(1, "?");
	CHECK_TEXT(said(1), "");
	CHECK_TEXT(info().last_error, "h:6379: sent a reply without a request");
	weir__redis_client_lost(client, 99, "no such link", now);
	weir__redis_client_opened(client, 99, now);
	hear(99, "+OK\r\n");
	weir__redis_client_sent(client, 99, 1);
	CHECK_TEXT(said(99), "");
	CHECK_TEXT(wishes(), "-1 +1 h:6379");
	greet(1);
	CHECK_EQ(info().links_ready, 2);
	end();
}

static void more_jobs_than_can_wait(void)
{
	enum { MOST = 16384 };
	struct job *const many = calloc(MOST + 1, sizeof(*many));
	size_t done = 0;

	if (many == NULL)
		abort();
	begin("redis://h?pool=1");
	ask(0, 1, MS(10));
	for (size_t i = 0; i <= MOST; i++) {
		many[i].job = jobs[0].job;
		weir__redis_client_ask(client, &many[i].job, now);
	}
	take_done();
	for (size_t i = 0; i <= MOST; i++)
		done += (size_t)many[i].done;
	CHECK_EQ(done, 2);
	CHECK_EQ(many[MOST].job.outcome, WEIR__REDIS_JOB_UNREACHED);
	CHECK_EQ(many[MOST].done, 1);
	end();
	for (size_t i = 0; i <= MOST; i++)
		CHECK_EQ(many[i].done, 1);
	CHECK_EQ(jobs[0].done, 1);
	free(many);
}

/* Together they are too long for one call, so they are split. A job that is too long by itself is not sent. */
static void a_call_has_a_longest(void)
{
	static char long_key[1 << 20];
	char bytes[1024];

	memset(long_key, 'k', sizeof(long_key));
	come_up();
	for (size_t i = 0; i < 3; i++) {
		ask(i, 1, MS(10));
		jobs[i].claims[0].key = (struct weir__resp_slice){ long_key, 400000 };
	}
	CHECK(weir__redis_client_output(client, 0).length > 400000);
	CHECK_EQ(info().claims, 2); /* one, and as there was room, one more */
	CHECK(weir__redis_client_output(client, 1).length > 400000);
	CHECK_EQ(info().claims, 3);
	weir__redis_client_sent(client, 0, weir__redis_client_output(client, 0).length);
	for (size_t i = 0; i < info().calls - 1; i++)
		hear_bytes(0, bytes, write_verdicts(bytes, sizeof(bytes), 2 / (info().calls - 1), 9));
	check_done(0, WEIR__REDIS_JOB_DECIDED);
	check_done(1, WEIR__REDIS_JOB_DECIDED);
	ask(3, 1, MS(10));
	ask(4, 1, MS(10));
	jobs[3].claims[0].key = (struct weir__resp_slice){ long_key, sizeof(long_key) };
	CHECK_TEXT(said(0), "EVALSHA 1");
	take_done();
	check_done(3, WEIR__REDIS_JOB_UNREACHED);
	CHECK_TEXT(info().last_error, "h:6379: a single job exceeds the size of a call");
	admit(0, 1, 9);
	check_done(4, WEIR__REDIS_JOB_DECIDED);
	end();
}

static void jobs_that_cannot_be(void)
{
	come_up();
	ask(0, 0, MS(10));
	check_done(0, WEIR__REDIS_JOB_UNREACHED);
	ask(1, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	end();
	check_done(1, WEIR__REDIS_JOB_UNANSWERED);
}

/* --- the breaker ------------------------------------------------------------------------------------------------- */

/* Connections stay open without replies, as when Redis is stopped. */
static void silence_opens_the_breaker(void)
{
	size_t asked = 0;

	come_up();
	while (info().health == WEIR__REDIS_UP && asked < JOBS) {
		ask(asked++, 1, MS(10));
		(void)said(0);
		pass(MS(10));
		CHECK_EQ(jobs[asked - 1].done, 1);
	}
	CHECK_EQ(asked, 5);
	CHECK_EQ(info().unanswered, 2); /* in flight; the link has no more at a time */
	ask(asked, 1, MS(10));
	check_done(asked, WEIR__REDIS_JOB_UNREACHED);
	pass(MS(74)); /* three quarters of 100 ms, and a little before */
	CHECK_TEXT(said(0), "");
	CHECK_TEXT(said(1), "");
	pass(MS(52));
	CHECK_EQ(info().health, WEIR__REDIS_DOWN); /* by now the probe has failed, too */
	CHECK_TEXT(info().last_error, "h:6379: replied too late");
	CHECK(strncmp(said(1), "EVAL ", 5) == 0);
	pass(MS(100));
	CHECK_TEXT(wishes(), "-0 +0 h:6379"); /* 250 ms without an answer */
	CHECK_TEXT(info().last_error, "h:6379: did not reply for 250 ms");
	greet(0);
	CHECK_EQ(info().health, WEIR__REDIS_PROBING);
	ask(0, 1, MS(10));
	check_done(0, WEIR__REDIS_JOB_UNREACHED);
	CHECK(strncmp(said(0), "EVAL ", 5) == 0);
	hear(0, ":1\r\n");
	CHECK_EQ(info().health, WEIR__REDIS_UP);
	CHECK_EQ(info().changed_at, now);
	ask(1, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	end();
}

/* A longer budget for decisions is a longer timeout for links. */
static void patience_grows_with_the_budget(void)
{
	begin("redis://h?pool=1&timeout=3s");
	CHECK_TEXT(wishes(), "+0 h:6379");
	greet_and_probe(0);
	ask(0, 1, MS(8000));
	CHECK_TEXT(said(0), "EVALSHA 1");
	pass(MS(5999));
	CHECK_TEXT(wishes(), "");
	CHECK_EQ(jobs[0].done, 0);
	pass(MS(1));
	CHECK_TEXT(wishes(), "-0 +0 h:6379");
	check_done(0, WEIR__REDIS_JOB_UNANSWERED);
	end();
}

static void one_hiccup_does_not_open_it(void)
{
	come_up();
	for (size_t i = 0; i < 20; i++)
		ask(i, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 20");
	pass(MS(11));
	check_done(19, WEIR__REDIS_JOB_UNANSWERED);
	CHECK_EQ(info().health, WEIR__REDIS_UP);
	admit(0, 20, 100);
	ask(20, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	end();
}

/* Each refused attempt delays the next one, but a return is noticed within a second. */
static void connections_that_are_refused(void)
{
	weir_ns begun, waited = 0, longest = 0;

	begin("redis://h?pool=1");
	CHECK_TEXT(wishes(), "+0 h:6379");
	ask(0, 1, MS(10));
	weir__redis_client_lost(client, 0, "connection refused", now);
	take_done();
	check_done(0, WEIR__REDIS_JOB_UNREACHED);
	CHECK_EQ(info().health, WEIR__REDIS_DOWN);
	CHECK_TEXT(info().last_error, "h:6379: connection refused");
	CHECK_TEXT(wishes(), "+0 h:6379");
	for (size_t i = 0; i < 20; i++) {
		begun = now;
		weir__redis_client_lost(client, 0, "connection refused", now);
		while (strcmp(wishes(), "+0 h:6379") != 0 && now < begun + MS(2000))
			pass(MS(1));
		waited = now - begun;
		CHECK(i > 0 || (waited >= MS(37) && waited <= MS(64)));
		longest = waited > longest ? waited : longest;
	}
	CHECK(longest >= MS(250) && longest <= MS(401));
	end();
}

static void connections_that_do_not_come_about(void)
{
	begin("redis://h?pool=1&connect_timeout=300ms");
	CHECK_TEXT(wishes(), "+0 h:6379");
	pass(MS(299));
	CHECK_TEXT(wishes(), "");
	pass(MS(1));
	CHECK_TEXT(wishes(), "-0 +0 h:6379");
	CHECK_TEXT(info().last_error, "h:6379: could not be reached within 300 ms");
	CHECK_EQ(info().health, WEIR__REDIS_DOWN);
	weir__redis_client_opened(client, 0, now);
	CHECK_TEXT(said(0), "HELLO 3 SETNAME weir");
	pass(MS(250));
	CHECK_TEXT(wishes(), "-0 +0 h:6379"); /* it was open, and not answered; that was a pause already */
	end();
}

/* A Redis without memory replies to everything except writes, so the probe writes. */
static void a_refused_probe_keeps_it_open(void)
{
	come_up();
	ask(0, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	hear(0, "-OOM command not allowed\r\n");
	CHECK_EQ(info().health, WEIR__REDIS_DOWN);
	while (info().health == WEIR__REDIS_DOWN)
		pass(MS(1));
	CHECK(strncmp(said(1), "EVAL ", 5) == 0);
	hear(1, "-OOM command not allowed\r\n");
	CHECK_EQ(info().health, WEIR__REDIS_DOWN);
	CHECK_TEXT(info().last_error, "h:6379: it is out of memory (maxmemory)");
	while (info().health == WEIR__REDIS_DOWN)
		pass(MS(1));
	CHECK(strncmp(said(0), "EVAL ", 5) == 0);
	hear(0, "-WRONGTYPE somebody has used our key\r\n"); /* a reply nevertheless */
	CHECK_EQ(info().health, WEIR__REDIS_UP);
	end();
}

static void nodes_are_counted_every_second(void)
{
	weir_ns last;

	come_up();
	last = now;
	for (uint32_t i = 0; i < 10; i++) {
		const uint32_t link = (i + 1) % 2;

		while (weir__redis_client_output(client, link).length == 0 && now - last < MS(1300))
			pass(MS(10));
		CHECK(now - last >= MS(750) && now - last <= MS(1260));
		CHECK(strncmp(said(link), "EVAL ... 1 weir:~nodes ", 23) == 0);
		hear(link, ":7\r\n");
		CHECK_EQ(info().nodes, 7);
		last = now;
	}
	end();
}

/* Time passes. Each heartbeat gets this reply, the number of nodes. */
static void beat_for(weir_ns duration, const char *nodes)
{
	const weir_ns until = now + duration;

	while (now < until) {
		pass(MS(10));
		for (uint32_t link = 0; link < 2; link++)
			if (weir__redis_client_output(client, link).length > 0) {
				(void)said(link);
				hear(link, nodes);
			}
	}
}

/* The others count about once a second. A server that is alone does not wait. */
static void a_node_joins_until_the_others_must_know(void)
{
	come_up();
	CHECK(info().is_joining);
	beat_for(MS(1900), ":3\r\n");
	CHECK(info().is_joining);
	beat_for(MS(200), ":3\r\n");
	CHECK(!info().is_joining);
	beat_for(MS(3000), ":4\r\n"); /* another server has joined */
	CHECK(!info().is_joining && info().nodes == 4);
	for (uint32_t link = 0; link < 2; link++) /* cut off long enough that the others may have forgotten it */
		weir__redis_client_lost(client, link, "it is cut off", now);
	(void)wishes();
	for (int i = 0; i < 35; i++) {
		pass(MS(1000));
		(void)wishes();
	}
	CHECK(!info().is_joining);
	end();
	begin("redis://h?pool=1");
	CHECK_TEXT(wishes(), "+0 h:6379");
	greet(0);
	(void)said(0);
	hear(0, ":1\r\n");
	CHECK(info().health == WEIR__REDIS_UP && !info().is_joining);
	end();
}

static void check_failures(uint64_t slow, uint64_t gone, uint64_t refused)
{
	CHECK_EQ(info().failures[WEIR__REDIS_SLOW], slow);
	CHECK_EQ(info().failures[WEIR__REDIS_GONE], gone);
	CHECK_EQ(info().failures[WEIR__REDIS_REFUSES], refused);
}

static void failures_have_reasons(void)
{
	come_up();
	ask(0, 1, MS(10)); /* no reply in time, while it is connected */
	(void)said(0);
	pass(MS(10));
	check_done(0, WEIR__REDIS_JOB_UNANSWERED);
	check_failures(1, 0, 0);
	ask(1, 1, MS(10));
	(void)said(1);
	weir__redis_client_lost(client, 1, "the connection is lost", now);
	take_done();
	check_done(1, WEIR__REDIS_JOB_UNANSWERED);
	check_failures(1, 1, 0);
	end();
	come_up();
	ask(0, 1, MS(10));
	(void)said(0);
	hear(0, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
	check_done(0, WEIR__REDIS_JOB_UNREACHED);
	check_failures(0, 0, 1);
	ask(1, 1, MS(10)); /* the breaker is open, for the same reason */
	check_done(1, WEIR__REDIS_JOB_UNREACHED);
	check_failures(0, 0, 2);
	end();
}

/* --- sentinels --------------------------------------------------------------------------------------------------- */

#define PLACE_ANSWER(host, port) "*2\r\n$2\r\n" host "\r\n$4\r\n" port "\r\n"
#define SUBSCRIBED ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"

static void meet_sentinel(uint32_t link)
{
	weir__redis_client_opened(client, link, now);
	CHECK_TEXT(said(link), "HELLO 3 SETNAME weir");
	hear(link, HELLO_ANSWER);
	CHECK_TEXT(said(link), "SUBSCRIBE +switch-master");
	hear(link, SUBSCRIBED);
	pass(0);
	CHECK_TEXT(said(link), "SENTINEL GET-MASTER-ADDR-BY-NAME main");
}

static void meet_sentinel_of_h1(uint32_t link)
{
	meet_sentinel(link);
	hear(link, PLACE_ANSWER("h1", "7001"));
	CHECK_TEXT(wishes(), "+0 h1:7001");
}

static void a_sentinel_tells_the_primary(void)
{
	begin("redis+sentinel://a,b/main?pool=1");
	CHECK_TEXT(wishes(), "+1 a:26379");
	weir__redis_client_lost(client, 1, "connection refused", now);
	CHECK_TEXT(wishes(), "+1 b:26379");
	CHECK_EQ(info().health, WEIR__REDIS_PROBING); /* one is left to ask */
	ask(0, 1, MS(10));
	meet_sentinel_of_h1(1);
	greet_and_probe(0);
	CHECK_TEXT(said(0), "EVALSHA 1");
	pass(MS(5));
	hear(1, ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$29\r\nothers h1 7001 127.0.0.1 7002\r\n");
	CHECK_TEXT(wishes(), "");
	hear(1, ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$26\r\nmain h1 7001 127.0.0.1 7002\r\n");
	CHECK_TEXT(wishes(), "-1 +1 a:26379"); /* it cannot count */
	end();
}

static void a_switch_moves_at_once(void)
{
	begin("redis+sentinel://a,b/main?pool=1");
	CHECK_TEXT(wishes(), "+1 a:26379");
	meet_sentinel_of_h1(1);
	greet_and_probe(0);
	ask(0, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	hear(1, ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$27\r\nmain h1 7001 127.0.0.1 7002\r\n");
	take_done();
	check_done(0, WEIR__REDIS_JOB_UNANSWERED);
	CHECK_TEXT(wishes(), "-0 +0 127.0.0.1:7002");
	CHECK_EQ(info().failovers, 1);
	greet(0);
	ask(1, 1, MS(10));
	CHECK_TEXT(said(0), "EVALSHA 1");
	end();
}

static void what_is_no_primary_makes_ask_again(void)
{
	begin("redis+sentinel://a/main?pool=1");
	CHECK_TEXT(wishes(), "+1 a:26379");
	meet_sentinel_of_h1(1);
	weir__redis_client_opened(client, 0, now);
	(void)said(0);
	hear(0, HELLO_ANSWER);
	(void)said(0);
	hear(0, REPLICA_ANSWER);
	pass(0);
	CHECK_TEXT(said(1), "SENTINEL GET-MASTER-ADDR-BY-NAME main");
	hear(1, PLACE_ANSWER("h2", "7002"));
	CHECK_TEXT(wishes(), "-0 +0 h2:7002");
	end();
}

static void sentinels_that_are_of_no_use(void)
{
	static const char *const answers[] = { "*-1\r\n",
					       "_\r\n",
					       "-IDONTKNOW no\r\n",
					       "*2\r\n$0\r\n\r\n$4\r\n7001\r\n",
					       "*2\r\n$2\r\na b\r\n$4\r\n7001\r\n",
					       "*2\r\n$2\r\nh1\r\n$5\r\n65536\r\n",
					       "*2\r\n$2\r\nh1\r\n$1\r\n0\r\n",
					       "*1\r\n$2\r\nh1\r\n" };

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		begin("redis+sentinel://a,b/main?pool=1");
		CHECK_TEXT(wishes(), "+1 a:26379");
		meet_sentinel(1);
		hear(1, answers[i]);
		CHECK_TEXT(wishes(), "-1 +1 b:26379");
		meet_sentinel(1);
		hear(1, answers[i]);
		CHECK_EQ(info().health, WEIR__REDIS_DOWN);
		CHECK_TEXT(wishes(), "-1");
		pass(MS(64));
		CHECK_TEXT(wishes(), "+1 a:26379");
		end();
	}
}

/* In RESP2 a connection cannot send commands after SUBSCRIBE, so the client polls every second instead. */
static void an_old_sentinel_is_asked_again_and_again(void)
{
	begin("redis+sentinel://a/main?pool=1&sentinel_password=s");
	CHECK_TEXT(wishes(), "+1 a:26379");
	weir__redis_client_opened(client, 1, now);
	CHECK_TEXT(said(1), "HELLO 3 AUTH default s SETNAME weir");
	hear(1, "-ERR unknown command `HELLO`\r\n");
	CHECK_TEXT(said(1), "AUTH s");
	hear(1, "+OK\r\n");
	CHECK_TEXT(said(1), "CLIENT SETNAME weir");
	hear(1, "-ERR unknown command\r\n");
	pass(0);
	CHECK_TEXT(said(1), "SENTINEL GET-MASTER-ADDR-BY-NAME main");
	hear(1, PLACE_ANSWER("h1", "7001"));
	CHECK_TEXT(wishes(), "+0 h1:7001");
	greet_and_probe(0);
	for (size_t i = 0; i < 3; i++) {
		const weir_ns begun = now;

		while (weir__redis_client_output(client, 1).length == 0 && now < begun + MS(2000)) {
			pass(MS(1));
			if (weir__redis_client_output(client, 0).length > 0) { /* a heartbeat */
				(void)said(0);
				hear(0, ":3\r\n");
			}
		}
		CHECK(now - begun <= MS(1251));
		CHECK_TEXT(said(1), "SENTINEL GET-MASTER-ADDR-BY-NAME main");
		hear(1, i < 2 ? PLACE_ANSWER("h1", "7001") : PLACE_ANSWER("h2", "7001"));
		CHECK_TEXT(wishes(), i < 2 ? "" : "-0 +0 h2:7001");
	}
	CHECK_EQ(info().failovers, 1);
	end();
}

TESTS(TEST(who_one_is_and_which_database), TEST(before_redis_6_there_is_no_hello),
      TEST(a_greeting_that_goes_wrong_is_told), TEST(jobs_of_a_round_travel_together),
      TEST(more_gather_while_calls_are_in_flight), TEST(jobs_of_a_lane_keep_their_order),
      TEST(a_job_that_is_too_long_fails_alone), TEST(a_lane_does_not_wait_for_what_is_over_budget),
      TEST(jobs_that_are_sent_again_keep_their_order), TEST(what_is_not_sent_yet_has_nothing_behind_it),
      TEST(an_answer_may_come_in_any_pieces), TEST(over_budget_before_it_was_asked),
      TEST(over_budget_when_it_was_asked), TEST(no_script_is_loaded_and_asked_again),
      TEST(no_script_twice_is_not_asked), TEST(refusals_have_their_meaning),
      TEST(a_link_that_leaves_waits_for_its_answers), TEST(a_lost_link_has_not_answered),
      TEST(what_was_not_asked_for_closes), TEST(links_that_are_gone_are_not_listened_to), TEST(more_jobs_than_can_wait),
      TEST(a_call_has_a_longest), TEST(jobs_that_cannot_be), TEST(silence_opens_the_breaker),
      TEST(patience_grows_with_the_budget), TEST(one_hiccup_does_not_open_it), TEST(connections_that_are_refused),
      TEST(connections_that_do_not_come_about), TEST(a_refused_probe_keeps_it_open),
      TEST(nodes_are_counted_every_second), TEST(a_node_joins_until_the_others_must_know), TEST(failures_have_reasons),
      TEST(a_sentinel_tells_the_primary), TEST(a_switch_moves_at_once), TEST(what_is_no_primary_makes_ask_again),
      TEST(sentinels_that_are_of_no_use), TEST(an_old_sentinel_is_asked_again_and_again))
