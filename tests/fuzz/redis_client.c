/* redis_client.c: a Redis client whose servers send anything at any time and whose connections come and go. Every job
 * completes once, within its budget, with a plausible verdict. The same holds for every query.
 *
 * The first byte of an input selects the start: bit 0 sentinels, bit 1 a link that is ready, bit 2 a client for
 * queries. Each further byte is a step: the low 3 bits say what happens, bit 3 to which link, the others how much. */
#include "require.h"
#include "store/redis/redis_query.h"

enum { JOBS_MAX = 64, CLAIMS = 3, LINKS = 2, INPUT_MAX = 1 << 12 };

#define MS UINT64_C(1000000)

struct job {
	struct weir__redis_job job; /* first, so that a pointer to it can be cast */
	struct weir_verdict verdicts[CLAIMS];
	weir_ns asked_at;
	bool is_done;
};

/* Replaces the real script, which has 46 KB and would be copied for each handshake. */
const struct weir__redis_script weir__redis_script = { "return 1", 8, "0123456789012345678901234567890123456789" };

static struct weir__redis_url urls[2];
static struct weir__redis_plan plan;
static struct weir__redis_claim claims[CLAIMS];
static struct weir__redis_request requests[CLAIMS];

static struct weir__redis_client *client;
static struct job jobs[JOBS_MAX];
static size_t n_jobs;
static bool is_for_queries;
static struct weir__redis_query query;
static bool has_query, is_taken;
static weir_ns now;
static bool is_over;

static void prepare(void)
{
	static const char *const texts[2] = { "redis://ann:secret@h/2?pool=1", "redis+sentinel://a,b/main?pool=1" };
	static const char limit_text[] = "10/s burst 5";
	static const char keys[CLAIMS][2] = { "a", "b", "c" };
	struct weir_limit limit;
	struct weir_plan compiled;

	if (claims[0].plan != NULL)
		return;
	require(weir_limit_parse(limit_text, strlen(limit_text), &limit, NULL) == WEIR_OK &&
			weir_plan_compile(&limit, &compiled, NULL) == WEIR_OK &&
			weir__redis_plan_init(&plan, &compiled, NULL) == WEIR_OK,
		"a limit cannot be");
	for (size_t i = 0; i < 2; i++)
		require(weir__redis_url_read(texts[i], strlen(texts[i]), &urls[i], NULL) == WEIR_OK, "a URL cannot be");
	for (size_t i = 0; i < CLAIMS; i++)
		claims[i] = (struct weir__redis_claim){ .plan = &plan, .key = { keys[i], 1 }, .cost = i };
	requests[0] = (struct weir__redis_request){ WEIR__REDIS_TAKE, &claims[1], 1 };
	requests[1] = (struct weir__redis_request){ WEIR__REDIS_TAKE, claims, 2 };
	requests[2] = (struct weir__redis_request){ WEIR__REDIS_UP_TO, &claims[2], 1 };
}

static void on_done(struct weir__redis_job *done)
{
	struct job *const job = (struct job *)(void *)done;

	require(!job->is_done, "a job is done twice");
	job->is_done = true;
	require(is_over || now - job->asked_at <= done->budget, "a job is done after its budget");
	require(done->outcome <= WEIR__REDIS_JOB_UNANSWERED, "no such outcome");
	if (done->outcome == WEIR__REDIS_JOB_DECIDED)
		require(job->verdicts[0].limit == plan.plan.most && job->verdicts[0].remaining <= plan.plan.most,
			"a verdict that cannot be");
}

static void take_done(void)
{
	struct weir__redis_job *job;

	while ((job = weir__redis_client_done(client)) != NULL)
		job->done(job);
}

static void ask(size_t which)
{
	static const struct {
		size_t first, n;
	} shapes[] = { { 0, 1 }, { 1, 1 }, { 0, 2 }, { 2, 1 } };
	struct job *const job = &jobs[n_jobs];

	if (n_jobs == JOBS_MAX)
		return;
	n_jobs++;
	*job = (struct job){ .asked_at = now };
	job->job = (struct weir__redis_job){ .requests = &requests[shapes[which % 4].first],
					     .n = shapes[which % 4].n,
					     .budget = which & 4 ? 10 * MS : 1 * MS,
					     .verdicts = job->verdicts,
					     .done = on_done };
	weir__redis_client_ask(client, &job->job, now);
}

static void take(struct weir__redis_query *done, const struct weir__resp_token *tokens, uint32_t n)
{
	require(done == &query && has_query && !is_taken && !weir__redis_query_is_done(done), "a reply to no query");
	require(n > 0 && tokens[0].type != WEIR__RESP_PUSH, "no reply");
	is_taken = true;
}

static void check_query(void)
{
	if (!has_query)
		return;
	require(weir__redis_query_is_done(&query) || now < query.deadline, "a query is late");
	require(is_taken == (query.state == WEIR__REDIS_QUERY_IS_ANSWERED), "a query without the reply that it had");
	has_query = !weir__redis_query_is_done(&query);
}

static void ask_as_query(unsigned how_much)
{
	static const struct weir__resp_slice words[] = { { "GET", 3 }, { "a", 1 } };

	if (how_much % 4 < 2) {
		weir__redis_query_subscribe(client, how_much % 4 == 0 ? "a" : NULL, now);
	} else if (!has_query) {
		query = (struct weir__redis_query){
			.words = words, .n = 2, .deadline = now + (how_much & 4 ? 500 * MS : 1 * MS), .take = take
		};
		has_query = true;
		is_taken = false;
		weir__redis_query_send(client, &query, now);
	}
	(void)weir__redis_query_take_news(client);
}

/* Advances the clock by up to a second and runs what falls due. */
static void pass(unsigned how_much)
{
	static const weir_ns spans[] = { 0, MS / 10, MS, 9 * MS, 30 * MS, 120 * MS, 260 * MS, 1000 * MS };
	const weir_ns until = now + spans[how_much % 8];
	struct weir__redis_wish wish;
	weir_ns next;

	while ((next = weir__redis_client_next(client)) <= until) {
		now = next > now ? next : now;
		weir__redis_client_tick(client, now);
		take_done();
		check_query();
		require(weir__redis_client_next(client) > now, "time stands still");
	}
	now = until;
	while (weir__redis_client_wish(client, &wish))
		require(wish.link < LINKS, "no such link");
}

static void send_output(uint32_t link, unsigned how_much)
{
	const struct weir__resp_slice output = weir__redis_client_output(client, link);

	weir__redis_client_sent(client, link, how_much % 2 == 0 ? output.length : output.length / 2);
}

static void hear(uint32_t link, const void *bytes, size_t n)
{
	weir__redis_client_received(client, link, bytes, n, now);
}

/* Sends a valid reply of a Redis or a sentinel, which the fuzzer would hardly find byte by byte. */
static void hear_right(uint32_t link, unsigned which)
{
	static const char *const replies[] = {
		"%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n", "+OK\r\n",
		"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",    ":2\r\n",
		"*2\r\n$2\r\nr0\r\n$4\r\n7000\r\n",      "-NOSCRIPT No matching script.\r\n",
		"-ERR unknown command `HELLO`\r\n",      ""
	};
	char text[64];

	if (replies[which % 8][0] != '\0') {
		hear(link, replies[which % 8], strlen(replies[which % 8]));
		return;
	}
	(void)snprintf(text, sizeof(text), "$40\r\n%s\r\n", weir__redis_script.sha1);
	hear(link, text, strlen(text));
}

/* Sends a reply of the script with verdicts from the rest of the input. */
static size_t hear_verdicts(uint32_t link, unsigned claims_wanted, const uint8_t *rest, size_t size)
{
	static const char head[12] = { 1, 0, 0, 0, 0, 64, 66, 15 };
	const size_t n = (claims_wanted % 8 + 1) * 16 < size ? (claims_wanted % 8 + 1) * 16 : size;
	char text[256];
	size_t length = (size_t)snprintf(text, sizeof(text), "$%zu\r\n", sizeof(head) + n);

	memcpy(text + length, head, sizeof(head));
	memcpy(text + length + sizeof(head), rest, n);
	memcpy(text + length + sizeof(head) + n, "\r\n", 2);
	hear(link, text, length + sizeof(head) + n + 2);
	return n;
}

static size_t hear_any(uint32_t link, const uint8_t *rest, size_t size)
{
	const size_t n = size > 0 && rest[0] < size - 1 ? rest[0] : size - (size > 0);

	if (size > 1)
		hear(link, rest + 1, n);
	return n + (size > 0);
}

/* Runs one step. Returns how many bytes of the rest it used. */
static size_t step(uint8_t byte, const uint8_t *rest, size_t size)
{
	const uint32_t link = byte >> 3 & 1;
	const unsigned how_much = byte >> 4;

	switch (byte & 7) {
	case 0:
		return hear_any(link, rest, size);
	case 1:
		weir__redis_client_opened(client, link, now);
		return 0;
	case 2:
		weir__redis_client_lost(client, link, "lost", now);
		return 0;
	case 3:
		pass(how_much);
		return 0;
	case 4:
		if (is_for_queries)
			ask_as_query(how_much);
		else
			ask(how_much);
		return 0;
	case 5:
		hear_right(link, how_much);
		return 0;
	case 6:
		send_output(link, how_much);
		return 0;
	default:
		return hear_verdicts(link, how_much, rest, size);
	}
}

static void greet(bool has_sentinels)
{
	static const uint8_t plain[] = { 0x03, 0x01, 0x05, 0x15, 0x25, 0x75, 0x06, 0x35 };
	static const uint8_t sentinel[] = {
		0x03, 0x09, 0x0d, 0x1d, 0x03, 0x4d, 0x03, 0x01, 0x05, 0x25, 0x75, 0x06, 0x35
	};
	static const char subscribed[] = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
	struct weir__redis_client_info info;

	for (size_t i = 0; i < (has_sentinels ? sizeof(sentinel) : sizeof(plain)); i++) {
		if (has_sentinels && i == 3)
			hear(1, subscribed, sizeof(subscribed) - 1);
		else
			step(has_sentinels ? sentinel[i] : plain[i], NULL, 0);
	}
	weir__redis_client_info(client, &info);
	require(info.health == WEIR__REDIS_UP, "a right greeting, and not up");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir__redis_client_info info;

	prepare();
	if (size == 0 || size > INPUT_MAX)
		return 0;
	n_jobs = 0;
	is_over = false;
	now = 1000 * MS;
	is_for_queries = data[0] & 4;
	has_query = false;
	client = is_for_queries ? weir__redis_client_new_for_queries(&urls[0], 1 << 10, size, now) :
				  weir__redis_client_new(&urls[data[0] & 1], size, now);
	require(client != NULL, "no memory");
	if (data[0] & 2 && !is_for_queries)
		greet(data[0] & 1);
	for (size_t at = 1; at < size;) {
		const uint8_t byte = data[at++];

		at += step(byte, data + at, size - at);
		take_done();
		check_query();
	}
	weir__redis_client_info(client, &info);
	require(info.nodes >= 1 && info.links_ready <= 1U + is_for_queries, "what cannot be known");
	require(strstr(info.last_error, "secret") == NULL || memmem(data, size, "secret", 6) != NULL,
		"a password is told");
	is_over = true;
	weir__redis_client_free(client);
	for (size_t i = 0; i < n_jobs; i++)
		require(jobs[i].is_done, "a job is never done");
	return 0;
}
