/* null_pointers_test.c: every public function that takes a message or reads a policy returns WEIR_ERR_NULL for each
 * pointer that must not be NULL, and its message names the pointer. argument_test.c tests those of the core. */
#include <weir/guard.h>
#include <weir/limiter.h>
#include <weir/queue.h>
#include <weir/redis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static struct weir_message why;

/* The function's name begins the text of the call. */
static void check_null(const char *call, int error, const char *argument)
{
	char expected[120];

	(void)snprintf(expected, sizeof(expected), "%.*s: %s is NULL", (int)strcspn(call, "("), call, argument);
	CHECK_EQ(error, WEIR_ERR_NULL);
	CHECK_TEXT(why.text, expected);
	why.text[0] = '\0';
}

#define NULL_IS_REFUSED(argument, call) check_null(#call, call, argument)

static const struct weir_limit limit = { .count = 1, .period = 1, .burst = 1, .segments = 1 };
static const char policy_text[] = "limits:\n  - name: a\n    limit: 1/s\n";

static struct weir_table *new_table(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(100, 0) };
	struct weir_table *table = NULL;

	CHECK_EQ(weir_table_new(&options, &table, &why), WEIR_OK);
	return table;
}

static struct weir_policy *new_policy(void)
{
	struct weir_policy *policy = NULL;

	CHECK_EQ(weir_policy_read(policy_text, strlen(policy_text), NULL, NULL, NULL, &policy), WEIR_OK);
	return policy;
}

static void limiters_and_queues(void)
{
	static _Alignas(64) unsigned char memory[1024];
	struct weir_limiter *limiter;
	struct weir_queue *queue;

	NULL_IS_REFUSED("memory", weir_limiter_init(NULL, 1024, &limit, &limiter, &why));
	NULL_IS_REFUSED("limit", weir_limiter_init(memory, 1024, NULL, &limiter, &why));
	NULL_IS_REFUSED("ret_limiter", weir_limiter_init(memory, 1024, &limit, NULL, &why));
	NULL_IS_REFUSED("memory", weir_limiter_init_text(NULL, 1024, "1/s", &limiter, &why));
	NULL_IS_REFUSED("text", weir_limiter_init_text(memory, 1024, NULL, &limiter, &why));
	NULL_IS_REFUSED("ret_limiter", weir_limiter_init_text(memory, 1024, "1/s", NULL, &why));
	CHECK_EQ(weir_limiter_init(memory, 1024, &limit, &limiter, NULL), WEIR_OK);
	NULL_IS_REFUSED("limiter", weir_limiter_change(NULL, 0, &limit, &why));
	NULL_IS_REFUSED("limit", weir_limiter_change(limiter, 0, NULL, &why));
	NULL_IS_REFUSED("memory", weir_queue_init(NULL, 1024, &limit, NULL, &queue, &why));
	NULL_IS_REFUSED("limit", weir_queue_init(memory, 1024, NULL, NULL, &queue, &why));
	NULL_IS_REFUSED("ret_queue", weir_queue_init(memory, 1024, &limit, NULL, NULL, &why));
	NULL_IS_REFUSED("memory", weir_queue_init_text(NULL, 1024, "1/s", NULL, &queue, &why));
	NULL_IS_REFUSED("text", weir_queue_init_text(memory, 1024, NULL, NULL, &queue, &why));
	NULL_IS_REFUSED("ret_queue", weir_queue_init_text(memory, 1024, "1/s", NULL, NULL, &why));
	CHECK_EQ(weir_limiter_change(NULL, 0, NULL, NULL), WEIR_ERR_NULL);
}

static void tables(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(100, 0) };
	struct weir_table *const table = new_table();
	const struct weir_table_limit *added;
	struct weir_table *other;

	NULL_IS_REFUSED("options", weir_table_new(NULL, &other, &why));
	NULL_IS_REFUSED("ret_table", weir_table_new(&options, NULL, &why));
	NULL_IS_REFUSED("shared", weir_table_unlink(NULL, &why));
	NULL_IS_REFUSED("limit", weir_table_check_limit(NULL, &why));
	NULL_IS_REFUSED("table", weir_table_add_limit(NULL, "a", &limit, &added, &why));
	NULL_IS_REFUSED("name", weir_table_add_limit(table, NULL, &limit, &added, &why));
	NULL_IS_REFUSED("limit", weir_table_add_limit(table, "a", NULL, &added, &why));
	NULL_IS_REFUSED("ret_limit", weir_table_add_limit(table, "a", &limit, NULL, &why));
	NULL_IS_REFUSED("table", weir_table_add_limit_text(NULL, "a", "1/s", &added, &why));
	NULL_IS_REFUSED("name", weir_table_add_limit_text(table, NULL, "1/s", &added, &why));
	NULL_IS_REFUSED("text", weir_table_add_limit_text(table, "a", NULL, &added, &why));
	NULL_IS_REFUSED("ret_limit", weir_table_add_limit_text(table, "a", "1/s", NULL, &why));
	NULL_IS_REFUSED("table", weir_table_find_limit(NULL, "a", &limit, &added, &why));
	NULL_IS_REFUSED("name", weir_table_find_limit(table, NULL, &limit, &added, &why));
	NULL_IS_REFUSED("limit", weir_table_find_limit(table, "a", NULL, &added, &why));
	NULL_IS_REFUSED("ret_limit", weir_table_find_limit(table, "a", &limit, NULL, &why));
	CHECK_EQ(weir_table_add_limit(table, "a", &limit, &added, &why), WEIR_OK);
	NULL_IS_REFUSED("table", weir_table_change_limit(NULL, added, &limit, 1, &why));
	NULL_IS_REFUSED("limit", weir_table_change_limit(table, NULL, &limit, 1, &why));
	NULL_IS_REFUSED("to", weir_table_change_limit(table, added, NULL, 1, &why));
	NULL_IS_REFUSED("table", weir_table_change_limit_text(NULL, added, "1/s", 1, &why));
	NULL_IS_REFUSED("limit", weir_table_change_limit_text(table, NULL, "1/s", 1, &why));
	NULL_IS_REFUSED("text", weir_table_change_limit_text(table, added, NULL, 1, &why));
	weir_table_free(table);
}

static void stores(void)
{
	struct weir_table *const table = new_table();
	const struct weir_table_limit *added;
	struct weir_submitter *submitter;
	struct weir_store *store, *other;

	CHECK_EQ(weir_store_table(table, &store, &why), WEIR_OK);
	NULL_IS_REFUSED("table", weir_store_table(NULL, &other, &why));
	NULL_IS_REFUSED("ret_store", weir_store_table(table, NULL, &why));
	NULL_IS_REFUSED("url", weir_store_redis(NULL, NULL, &other, &why));
	NULL_IS_REFUSED("ret_store", weir_store_redis("redis://127.0.0.1:1", NULL, NULL, &why));
	NULL_IS_REFUSED("store", weir_store_wait(NULL, 0, &why));
	NULL_IS_REFUSED("store", weir_store_add_limit(NULL, "a", &limit, &added, &why));
	NULL_IS_REFUSED("name", weir_store_add_limit(store, NULL, &limit, &added, &why));
	NULL_IS_REFUSED("limit", weir_store_add_limit(store, "a", NULL, &added, &why));
	NULL_IS_REFUSED("ret_limit", weir_store_add_limit(store, "a", &limit, NULL, &why));
	NULL_IS_REFUSED("store", weir_store_add_limit_text(NULL, "a", "1/s", &added, &why));
	NULL_IS_REFUSED("name", weir_store_add_limit_text(store, NULL, "1/s", &added, &why));
	NULL_IS_REFUSED("text", weir_store_add_limit_text(store, "a", NULL, &added, &why));
	NULL_IS_REFUSED("ret_limit", weir_store_add_limit_text(store, "a", "1/s", NULL, &why));
	CHECK_EQ(weir_store_add_limit(store, "a", &limit, &added, &why), WEIR_OK);
	NULL_IS_REFUSED("store", weir_store_change_limit(NULL, added, &limit, &why));
	NULL_IS_REFUSED("limit", weir_store_change_limit(store, NULL, &limit, &why));
	NULL_IS_REFUSED("to", weir_store_change_limit(store, added, NULL, &why));
	NULL_IS_REFUSED("store", weir_store_change_limit_text(NULL, added, "1/s", &why));
	NULL_IS_REFUSED("limit", weir_store_change_limit_text(store, NULL, "1/s", &why));
	NULL_IS_REFUSED("text", weir_store_change_limit_text(store, added, NULL, &why));
	NULL_IS_REFUSED("store", weir_store_set_failure(NULL, added, WEIR_STORE_FAILURE_OPEN, NULL, 0, &why));
	NULL_IS_REFUSED("limit", weir_store_set_failure(store, NULL, WEIR_STORE_FAILURE_OPEN, NULL, 0, &why));
	NULL_IS_REFUSED("store", weir_submitter_new(NULL, &submitter, &why));
	NULL_IS_REFUSED("ret_submitter", weir_submitter_new(store, NULL, &why));
	weir_store_free(store);
	weir_table_free(table);
}

static void limits_in_redis(void)
{
	const struct weir_redis_limit *added;
	struct weir_redis *redis, *other;

	CHECK_EQ(weir_redis_new("redis+unix:///nobody/listens/here", &redis, &why), WEIR_OK);
	NULL_IS_REFUSED("url", weir_redis_new(NULL, &other, &why));
	NULL_IS_REFUSED("ret_redis", weir_redis_new("redis://127.0.0.1:1", NULL, &why));
	NULL_IS_REFUSED("redis", weir_redis_wait(NULL, 0, &why));
	NULL_IS_REFUSED("redis", weir_redis_add_limit(NULL, "a", &limit, &added, &why));
	NULL_IS_REFUSED("name", weir_redis_add_limit(redis, NULL, &limit, &added, &why));
	NULL_IS_REFUSED("limit", weir_redis_add_limit(redis, "a", NULL, &added, &why));
	NULL_IS_REFUSED("ret_limit", weir_redis_add_limit(redis, "a", &limit, NULL, &why));
	NULL_IS_REFUSED("redis", weir_redis_add_limit_text(NULL, "a", "1/s", &added, &why));
	NULL_IS_REFUSED("name", weir_redis_add_limit_text(redis, NULL, "1/s", &added, &why));
	NULL_IS_REFUSED("text", weir_redis_add_limit_text(redis, "a", NULL, &added, &why));
	NULL_IS_REFUSED("ret_limit", weir_redis_add_limit_text(redis, "a", "1/s", NULL, &why));
	CHECK_EQ(weir_redis_add_limit_text(redis, "a", "1/s", &added, &why), WEIR_OK);
	NULL_IS_REFUSED("redis", weir_redis_change_limit(NULL, added, &limit, &why));
	NULL_IS_REFUSED("limit", weir_redis_change_limit(redis, NULL, &limit, &why));
	NULL_IS_REFUSED("to", weir_redis_change_limit(redis, added, NULL, &why));
	/* Names have the rules of a table's, and no colon. */
	CHECK_EQ(weir_redis_add_limit_text(redis, "a\nb", "1/s", &added, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "a limit named \"a?b\": at 1: a name must not contain control characters");
	CHECK_EQ(weir_redis_add_limit_text(redis, "a:b", "1/s", &added, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "a limit named \"a:b\": in Redis a name must not contain a colon");
	CHECK_EQ(why.at, 1);
	weir_redis_free(redis);
}

static void ignore(void *context, int error, const struct weir_guard_answer *answer)
{
	(void)context;
	(void)error;
	(void)answer;
}

/* A guard frees its policy also on failure; the address sanitizer would report a leak. */
static void guards(void)
{
	static struct weir_guard_status status;
	const struct weir_descriptor descriptor = { 0 };
	struct weir_table *const table = new_table();
	struct weir_guard_answer answer;
	struct weir_submitter *submitter;
	struct weir_guard *guard, *other;
	struct weir_store *store;

	CHECK_EQ(weir_store_table(table, &store, &why), WEIR_OK);
	CHECK_EQ(weir_submitter_new(store, &submitter, &why), WEIR_OK);
	NULL_IS_REFUSED("table", weir_guard_new(NULL, new_policy(), &other, &why));
	NULL_IS_REFUSED("policy", weir_guard_new(table, NULL, &other, &why));
	NULL_IS_REFUSED("ret_guard", weir_guard_new(table, new_policy(), NULL, &why));
	NULL_IS_REFUSED("store", weir_guard_new_on(NULL, new_policy(), &other, &why));
	NULL_IS_REFUSED("policy", weir_guard_new_on(store, NULL, &other, &why));
	NULL_IS_REFUSED("ret_guard", weir_guard_new_on(store, new_policy(), NULL, &why));
	CHECK_EQ(weir_guard_new_on(store, new_policy(), &guard, &why), WEIR_OK);
	NULL_IS_REFUSED("guard", weir_guard_change(NULL, new_policy(), 1, &why));
	NULL_IS_REFUSED("policy", weir_guard_change(guard, NULL, 1, &why));
	NULL_IS_REFUSED("guard", weir_guard_change_limit(NULL, "a", &limit, 1, &why));
	NULL_IS_REFUSED("plan", weir_guard_change_limit(guard, NULL, &limit, 1, &why));
	NULL_IS_REFUSED("to", weir_guard_change_limit(guard, "a", NULL, 1, &why));
	NULL_IS_REFUSED("guard", weir_guard_check(NULL, NULL, 0, 1, 1, &answer, &why));
	NULL_IS_REFUSED("attributes", weir_guard_check(guard, NULL, 1, 1, 1, &answer, &why));
	NULL_IS_REFUSED("ret_answer", weir_guard_check(guard, NULL, 0, 1, 1, NULL, &why));
	CHECK_EQ(weir_guard_check(guard, NULL, 0, 1, weir_table_now(table), &answer, &why), WEIR_OK);
	NULL_IS_REFUSED("guard", weir_guard_submit(NULL, submitter, NULL, 0, 1, ignore, NULL, &why));
	NULL_IS_REFUSED("submitter", weir_guard_submit(guard, NULL, NULL, 0, 1, ignore, NULL, &why));
	NULL_IS_REFUSED("attributes", weir_guard_submit(guard, submitter, NULL, 1, 1, ignore, NULL, &why));
	NULL_IS_REFUSED("done", weir_guard_submit(guard, submitter, NULL, 0, 1, NULL, NULL, &why));
	NULL_IS_REFUSED("guard",
			weir_guard_check_descriptors(NULL, "d", 1, &descriptor, 1, 1, 1, &answer, &status, &why));
	NULL_IS_REFUSED("domain",
			weir_guard_check_descriptors(guard, NULL, 1, &descriptor, 1, 1, 1, &answer, &status, &why));
	NULL_IS_REFUSED("descriptors",
			weir_guard_check_descriptors(guard, "d", 1, NULL, 1, 1, 1, &answer, &status, &why));
	NULL_IS_REFUSED("ret_answer",
			weir_guard_check_descriptors(guard, "d", 1, &descriptor, 1, 1, 1, NULL, &status, &why));
	NULL_IS_REFUSED("ret_statuses",
			weir_guard_check_descriptors(guard, "d", 1, &descriptor, 1, 1, 1, &answer, NULL, &why));
	weir_submitter_free(submitter);
	weir_guard_free(guard);
	weir_store_free(store);
	weir_table_free(table);
}

static void policies(void)
{
	static struct weir_descriptors_answer descriptors;
	static struct weir_policy_answer answer;
	const struct weir_descriptor descriptor = { 0 };
	struct weir_policy *const policy = new_policy();
	struct weir_policy *other;

	NULL_IS_REFUSED("policy", weir_policy_match(NULL, NULL, 0, 1, &answer, &why));
	NULL_IS_REFUSED("attributes", weir_policy_match(policy, NULL, 1, 1, &answer, &why));
	NULL_IS_REFUSED("ret_answer", weir_policy_match(policy, NULL, 0, 1, NULL, &why));
	NULL_IS_REFUSED("policy", weir_policy_match_descriptors(NULL, "d", 1, &descriptor, 1, 1, &descriptors, &why));
	NULL_IS_REFUSED("domain",
			weir_policy_match_descriptors(policy, NULL, 1, &descriptor, 1, 1, &descriptors, &why));
	NULL_IS_REFUSED("descriptors", weir_policy_match_descriptors(policy, "d", 1, NULL, 1, 1, &descriptors, &why));
	NULL_IS_REFUSED("ret_answer", weir_policy_match_descriptors(policy, "d", 1, &descriptor, 1, 1, NULL, &why));
	CHECK_EQ(weir_policy_read(NULL, 1, NULL, NULL, NULL, &other), WEIR_ERR_NULL);
	CHECK_EQ(weir_policy_read(policy_text, 1, NULL, NULL, NULL, NULL), WEIR_ERR_NULL);
	CHECK_EQ(weir_policy_load(NULL, NULL, NULL, &other), WEIR_ERR_NULL);
	CHECK_EQ(weir_policy_load("no-such-file", NULL, NULL, NULL), WEIR_ERR_NULL);
	CHECK_EQ(weir_policy_read_envoy(NULL, 1, NULL, 0, NULL, NULL, &other), WEIR_ERR_NULL);
	CHECK_EQ(weir_policy_read_envoy(policy_text, 1, NULL, 0, NULL, NULL, NULL), WEIR_ERR_NULL);
	CHECK_EQ(weir_policy_load_envoy(NULL, 0, NULL, NULL, &other), WEIR_ERR_NULL);
	CHECK_EQ(weir_policy_load_envoy("no-such-file", 0, NULL, NULL, NULL), WEIR_ERR_NULL);
	weir_policy_free(policy);
	weir_policy_free(NULL);
}

TESTS(TEST(limiters_and_queues), TEST(tables), TEST(stores), TEST(limits_in_redis), TEST(guards), TEST(policies))
