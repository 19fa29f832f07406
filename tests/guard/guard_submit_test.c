/* guard_submit_test.c: a policy with a table and with a real Redis, with blocking calls and in event loops.
 *
 * Covers: src/guard/guard_submit.c, src/guard/guard_check.c, src/guard/guard.c */
#include <weir/guard.h>

#include <poll.h>
#include <pthread.h>

#include "../policy/policies.h"
#include "../store/redis/redis_server.h"

#define PATIENCE_NS UINT64_C(60000000000)

enum { IN_FLIGHT = 1000 };

static struct redis_server server;

/* 20 an hour for each ip, 40 with plan gold; 50 for all; 5 an hour in shadow. */
static const char shop[] = "limits:\n"
			   "  - name: all\n"
			   "    limit: 50/hour\n"
			   "  - name: each\n"
			   "    key: [ip]\n"
			   "    limit: 20/hour\n"
			   "    overrides:\n"
			   "      - when: {plan: gold}\n"
			   "        limit: 40/hour\n"
			   "  - name: canary\n"
			   "    key: [ip]\n"
			   "    limit: 5/hour\n"
			   "    mode: shadow\n";

static const char smaller[] = "limits:\n"
			      "  - name: each\n"
			      "    key: [ip]\n"
			      "    limit: 10/hour\n";

static struct weir_store *store_on(const char *timeout, enum weir_store_failure on_failure)
{
	const struct weir_store_options options = { .on_failure = on_failure };
	struct weir_message why = { 0, "" };
	struct weir_store *store;
	char url[256];

	(void)snprintf(url, sizeof(url), "redis+unix://%s?timeout=%s", server.path, timeout);
	if (weir_store_redis(url, &options, &store, &why) != WEIR_OK ||
	    weir_store_wait(store, PATIENCE_NS, &why) != WEIR_OK)
		errx(1, "no store: %s", why.text);
	return store;
}

static struct weir_guard *guard_on(struct weir_store *store, const char *text)
{
	struct weir_message why = { 0, "" };
	struct weir_policy *const policy = policy_of(text);
	struct weir_guard *guard;

	CHECK_TEXT(reported, "");
	if (policy == NULL || weir_guard_new_on(store, policy, &guard, &why) != WEIR_OK)
		errx(1, "no guard: %s %s", reported, why.text);
	return guard;
}

static int check(struct weir_guard *guard, const char *const *words, struct weir_guard_answer *ret_answer)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);

	return weir_guard_check(guard, attributes, n, 1, weir_clock_now(), ret_answer, NULL);
}

static uint32_t allowed_of(struct weir_guard *guard, const char *const *words, int n)
{
	struct weir_guard_answer answer;
	uint32_t allowed = 0;

	for (int i = 0; i < n; i++) {
		CHECK_EQ(check(guard, words, &answer), WEIR_OK);
		allowed += answer.verdict.allowed;
	}
	return allowed;
}

/* --- blocking ---------------------------------------------------------------------------------------------------- */

static void decides_on_redis_as_on_a_table(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0) };
	struct weir_guard_answer of_redis, of_table;
	struct weir_store *store, *table_store;
	struct weir_guard *guards[2];
	struct weir_table *table;

	redis_server_start(&server);
	store = store_on("10s", WEIR_STORE_FAILURE_UNSET);
	if (weir_table_new(&options, &table, NULL) != WEIR_OK || weir_store_table(table, &table_store, NULL) != WEIR_OK)
		errx(1, "no table");
	guards[0] = guard_on(store, shop);
	guards[1] = guard_on(table_store, shop);
	for (int i = 0; i < 60; i++) {
		const char *const *const words = i % 3 == 0 ? WORDS("ip=192.0.2.1", "plan=gold") :
							      WORDS("ip=192.0.2.2");

		CHECK_EQ(check(guards[0], words, &of_redis), WEIR_OK);
		CHECK_EQ(check(guards[1], words, &of_table), WEIR_OK);
		CHECK_EQ(of_redis.verdict.allowed, of_table.verdict.allowed);
		CHECK_EQ(of_redis.verdict.remaining, of_table.verdict.remaining);
		CHECK_EQ(of_redis.limits, of_table.limits);
		CHECK_EQ(of_redis.shadow_denied, of_table.shadow_denied);
		CHECK_TEXT(of_redis.decided_by, of_table.decided_by);
		CHECK_EQ(of_redis.fallback_nodes, 0);
	}
	CHECK(!of_redis.verdict.allowed);
	for (int i = 0; i < 2; i++)
		weir_guard_free(guards[i]);
	weir_store_free(store);
	weir_store_free(table_store);
	weir_table_free(table);
	redis_server_stop(&server);
}

/* Each process creates its store after the fork. */
static void two_processes_share_a_limit(void)
{
	uint32_t allowed = 0;
	pid_t children[2];

	redis_server_start(&server);
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			struct weir_store *const store = store_on("10s", WEIR_STORE_FAILURE_UNSET);
			struct weir_guard *const guard = guard_on(store, shop);
			const uint32_t n = allowed_of(guard, WORDS("ip=192.0.2.1"), 15);

			weir_guard_free(guard);
			weir_store_free(store);
			_exit(check_failed ? 99 : (int)n);
		}
	}
	for (int i = 0; i < 2; i++) {
		int status;

		CHECK(waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status));
		allowed += (uint32_t)WEXITSTATUS(status);
	}
	CHECK_EQ(allowed, 20);
	redis_server_stop(&server);
}

static void policies_and_limits_change(void)
{
	struct weir_limit to = weir_limit_of(WEIR_TOKEN_BUCKET, 30, UINT64_C(3600000000000));
	struct weir_policy *large;
	struct weir_message why;
	struct weir_store *store;
	struct weir_guard *guard;

	redis_server_start(&server);
	store = store_on("10s", WEIR_STORE_FAILURE_UNSET);
	guard = guard_on(store, shop);
	CHECK_EQ(allowed_of(guard, WORDS("ip=192.0.2.1"), 25), 20);
	CHECK_EQ(weir_guard_change_limit(guard, "each", &to, weir_clock_now(), NULL), WEIR_OK);
	CHECK_EQ(allowed_of(guard, WORDS("ip=192.0.2.1"), 15), 10);
	/* The usage is cut to the new burst. */
	CHECK_EQ(weir_guard_change(guard, policy_of(smaller), weir_clock_now(), NULL), WEIR_OK);
	CHECK_EQ(allowed_of(guard, WORDS("ip=192.0.2.1"), 5), 0);
	CHECK_EQ(allowed_of(guard, WORDS("ip=192.0.2.2"), 15), 10);
	/* Redis rejects some limits that a table accepts. */
	large = policy_of("limits:\n  - name: large\n    limit: 2000000/s sliding_log\n");
	CHECK_EQ(weir_guard_change(guard, large, weir_clock_now(), &why), WEIR_ERR_MAXIMUM);
	CHECK(strstr(why.text, "\"large\"") != NULL);
	CHECK_EQ(allowed_of(guard, WORDS("ip=192.0.2.3"), 15), 10);
	weir_guard_free(guard);
	weir_store_free(store);
	redis_server_stop(&server);
}

static void a_policy_says_what_happens_without_redis(void)
{
	static const char text[] = "limits:\n"
				   "  - name: open\n"
				   "    match: {path: /open}\n"
				   "    limit: 5/hour\n"
				   "    on_store_failure: open\n"
				   "  - name: closed\n"
				   "    match: {path: /closed}\n"
				   "    limit: 5/hour\n"
				   "    on_store_failure: closed\n"
				   "  - name: local\n"
				   "    match: {path: /local}\n"
				   "    limit: 5/hour\n"
				   "    on_store_failure: {local: 2/hour}\n"
				   "  - name: unset\n"
				   "    match: {path: /unset}\n"
				   "    limit: 5/hour\n"
				   "  - name: shadow\n"
				   "    match: {path: /shadow}\n"
				   "    limit: 5/hour\n"
				   "    mode: shadow\n";
	const struct weir_attribute unset = { "path", 4, "/unset", 6 };
	struct weir_message why = { 0, "" };
	struct weir_guard_answer answer;
	struct weir_store *store;
	struct weir_guard *guard;
	int error;

	redis_server_start(&server);
	store = store_on("50ms", WEIR_STORE_FAILURE_UNSET);
	guard = guard_on(store, text);
	redis_server_stop(&server);
	do {
		error = weir_guard_check(guard, &unset, 1, 1, 0, &answer, &why);
	} while (error == WEIR_ERR_UNANSWERED);
	CHECK_EQ(error, WEIR_ERR_UNREACHABLE);
	CHECK_TEXT(why.text, weir_strerror(WEIR_ERR_UNREACHABLE));
	CHECK_EQ(allowed_of(guard, WORDS("path=/open"), 9), 9);
	CHECK_EQ(allowed_of(guard, WORDS("path=/closed"), 9), 0);
	CHECK_EQ(allowed_of(guard, WORDS("path=/local"), 9), 2);
	CHECK_EQ(check(guard, WORDS("path=/closed"), &answer), WEIR_OK);
	CHECK(answer.is_closed && answer.fallback_nodes == 1);
	CHECK_TEXT(answer.decided_by, "closed");
	/* A limit in shadow never changes the result, not even by an error. */
	CHECK_EQ(check(guard, WORDS("path=/shadow"), &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	weir_guard_free(guard);
	weir_store_free(store);
}

static void descriptors_are_decided_on_redis(void)
{
	static const char text[] = "domain: shop\n"
				   "descriptors:\n"
				   "  - key: ip\n"
				   "    rate_limit: {unit: year, requests_per_unit: 3}\n";
	const struct weir_attribute entry = { "ip", 2, "192.0.2.1", 9 };
	const struct weir_descriptor descriptors[] = {
		{ .entries = &entry, .n = 1 },
		{ .entries = &entry, .n = 1, .unit = WEIR_UNIT_YEAR, .requests_per_unit = 5 }
	};
	struct weir_guard_status statuses[2];
	struct weir_guard_answer answer;
	struct weir_policy *policy;
	struct weir_store *store;
	struct weir_guard *guard;
	int error;

	redis_server_start(&server);
	store = store_on("1s", WEIR_STORE_FAILURE_UNSET);
	if (weir_policy_read_envoy(text, strlen(text), "shop.yaml", 0, report_into, NULL, &policy) != WEIR_OK ||
	    weir_guard_new_on(store, policy, &guard, NULL) != WEIR_OK)
		errx(1, "no guard: %s", reported);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(weir_guard_check_descriptors(guard, "shop", 4, descriptors, 2, 1, 0, &answer, statuses, NULL),
			 WEIR_OK);
		CHECK_EQ(answer.verdict.allowed, i < 3);
		CHECK_EQ(answer.fallback_nodes, 0);
	}
	CHECK(!statuses[0].verdict.allowed && statuses[1].verdict.allowed);
	redis_server_stop(&server);
	error = weir_guard_check_descriptors(guard, "shop", 4, descriptors, 2, 1, 0, &answer, statuses, NULL);
	CHECK(error == WEIR_ERR_UNREACHABLE || error == WEIR_ERR_UNANSWERED);
	weir_guard_free(guard);
	weir_store_free(store);
}

/* --- event loops ------------------------------------------------------------------------------------------------- */

struct seen {
	uint32_t n, allowed, shadow_denied, failed;
	char decided_by[64];
};

static void done(void *seen_, int error, const struct weir_guard_answer *answer)
{
	struct seen *const seen = seen_;

	seen->n++;
	seen->failed += error != WEIR_OK;
	CHECK_EQ(error == WEIR_OK, answer != NULL);
	if (answer == NULL)
		return;
	seen->allowed += answer->verdict.allowed;
	seen->shadow_denied += answer->shadow_denied > 0;
	memcpy(seen->decided_by, answer->decided_by, sizeof(seen->decided_by));
}

static int submit(struct weir_guard *guard, struct weir_submitter *submitter, const char *const *words,
		  struct seen *seen, struct weir_message *ret_message)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);

	return weir_guard_submit(guard, submitter, attributes, n, 1, done, seen, ret_message);
}

static void run_loop(struct weir_submitter *submitter)
{
	struct pollfd wait = { .fd = weir_submitter_descriptor(submitter), .events = POLLIN };

	while (weir_submitter_in_flight(submitter) > 0 && poll(&wait, 1, 60000) == 1)
		(void)weir_submitter_dispatch(submitter);
	CHECK_EQ(weir_submitter_in_flight(submitter), 0);
}

static void submits_to(struct weir_store *store)
{
	struct weir_submitter *submitter;
	struct weir_guard *guard;
	struct seen seen = { .n = 0 };
	char ip[] = "ip=192.0.2.1";

	guard = guard_on(store, shop);
	CHECK_EQ(weir_submitter_new(store, &submitter, NULL), WEIR_OK);
	for (int i = 0; i < IN_FLIGHT; i++) {
		ip[11] = i % 2 ? '1' : '2'; /* attributes are copied */
		CHECK_EQ(submit(guard, submitter, WORDS(ip), &seen, NULL), WEIR_OK);
	}
	CHECK_EQ(seen.n, 0);
	run_loop(submitter);
	CHECK_EQ(seen.n, IN_FLIGHT);
	CHECK_EQ(seen.allowed, 40);
	CHECK_EQ(seen.shadow_denied, IN_FLIGHT - 10);
	CHECK_EQ(seen.failed, 0);
	CHECK_TEXT(seen.decided_by, "each");
	weir_submitter_free(submitter);
	weir_guard_free(guard);
}

static void submits_to_redis_and_to_a_table(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0) };
	struct weir_store *store, *table_store;
	struct weir_submitter *submitter;
	struct weir_guard *guard;
	struct weir_message why;
	struct weir_table *table;
	struct seen seen;

	redis_server_start(&server);
	store = store_on("10s", WEIR_STORE_FAILURE_UNSET);
	if (weir_table_new(&options, &table, NULL) != WEIR_OK || weir_store_table(table, &table_store, NULL) != WEIR_OK)
		errx(1, "no table");
	submits_to(store);
	submits_to(table_store);
	/* A submitter of another store. */
	guard = guard_on(store, shop);
	CHECK_EQ(weir_submitter_new(table_store, &submitter, NULL), WEIR_OK);
	CHECK_EQ(submit(guard, submitter, WORDS("ip=192.0.2.1"), &seen, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "the submitter belongs to another store: create it from the guard's store");
	weir_guard_free(guard);
	weir_store_free(store);
	weir_store_free(table_store);
	weir_table_free(table);
	redis_server_stop(&server);
}

/* On the event loop's own thread: a change must not wait for requests that only this thread can complete. */
static void changes_do_not_wait_for_submitted_requests(void)
{
	struct seen before = { .n = 0 }, after = { .n = 0 }, last = { .n = 0 };
	struct weir_submitter *submitter;
	struct weir_store *store;
	struct weir_guard *guard;

	redis_server_start(&server);
	store = store_on("10s", WEIR_STORE_FAILURE_UNSET);
	guard = guard_on(store, shop);
	CHECK_EQ(weir_submitter_new(store, &submitter, NULL), WEIR_OK);
	for (int i = 0; i < 30; i++)
		CHECK_EQ(submit(guard, submitter, WORDS("ip=192.0.2.1"), &before, NULL), WEIR_OK);
	CHECK_EQ(weir_guard_change(guard, policy_of(smaller), weir_clock_now(), NULL), WEIR_OK);
	for (int i = 0; i < 30; i++)
		CHECK_EQ(submit(guard, submitter, WORDS("ip=192.0.2.2"), &after, NULL), WEIR_OK);
	run_loop(submitter);
	CHECK_EQ(before.n, 30);
	CHECK_EQ(after.n, 30);
	CHECK_EQ(after.allowed, 10);
	/* A guard may be freed while its requests are in flight. */
	for (int i = 0; i < 30; i++)
		CHECK_EQ(submit(guard, submitter, WORDS("ip=192.0.2.3"), &last, NULL), WEIR_OK);
	weir_guard_free(guard);
	weir_submitter_free(submitter);
	CHECK_EQ(last.n, 30);
	CHECK_EQ(last.allowed, 10);
	weir_store_free(store);
	redis_server_stop(&server);
}

static void submitted_without_redis(void)
{
	struct weir_submitter *submitter;
	struct seen seen = { .n = 0 };
	struct weir_store *store;
	struct weir_guard *guard;

	redis_server_start(&server);
	store = store_on("100ms", WEIR_STORE_FAILURE_UNSET);
	guard = guard_on(store, shop);
	CHECK_EQ(weir_submitter_new(store, &submitter, NULL), WEIR_OK);
	kill(server.pid, SIGSTOP);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(submit(guard, submitter, WORDS("ip=192.0.2.1"), &seen, NULL), WEIR_OK);
	run_loop(submitter);
	CHECK_EQ(seen.n, 20);
	CHECK_EQ(seen.failed, 20);
	weir_guard_free(guard);
	weir_store_free(store);
	redis_server_stop(&server);
}

/* --- threads ----------------------------------------------------------------------------------------------------- */

static struct weir_guard *of_threads;

static void *check_many(void *allowed)
{
	*(uint32_t *)allowed = allowed_of(of_threads, WORDS("ip=192.0.2.1"), 50);
	return NULL;
}

static void threads_share_a_guard(void)
{
	struct weir_store *store;
	uint32_t allowed[4], total = 0;
	pthread_t threads[4];

	redis_server_start(&server);
	store = store_on("10s", WEIR_STORE_FAILURE_UNSET);
	of_threads = guard_on(store, smaller);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, check_many, &allowed[i]);
	for (int i = 0; i < 20; i++) /* the same policy again */
		CHECK_EQ(weir_guard_change(of_threads, policy_of(smaller), weir_clock_now(), NULL), WEIR_OK);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		total += allowed[i];
	}
	CHECK_EQ(total, 10);
	weir_guard_free(of_threads);
	weir_store_free(store);
	redis_server_stop(&server);
}

TESTS(TEST(decides_on_redis_as_on_a_table), TEST(two_processes_share_a_limit), TEST(policies_and_limits_change),
      TEST(a_policy_says_what_happens_without_redis), TEST(descriptors_are_decided_on_redis),
      TEST(submits_to_redis_and_to_a_table), TEST(changes_do_not_wait_for_submitted_requests),
      TEST(submitted_without_redis), TEST(threads_share_a_guard))
