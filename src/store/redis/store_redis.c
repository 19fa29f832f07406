/* store_redis.c: the public store on Redis: a thread, a table, and a handle with a fallback for each submitter. */
#include "store/redis/store_redis.h"

#include <stdlib.h>
#include <string.h>

#include "core/argument.h"
#include "core/text.h"
#include "store/redis/redis_store.h"
#include "store/routed_store.h"
#include "store/store_internal.h"

enum { KEYS = 100000, ARENA_BYTES = 1 << 20 };

struct redis {
	struct weir_store store; /* must be first, so that the two convert by a cast */
	struct weir_table *made; /* the table, if the store made it; else NULL */
	struct weir__redis_url url;
	struct weir__redis_thread *thread;
	struct weir__redis_plan_cache *plans;
	enum weir__fallback_mode otherwise;
};

static int refuse(struct weir_message *ret_message, int error, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return error;
}

static struct weir__store *open_handle(struct weir_store *store, uint32_t submitter, struct weir__loop *loop)
{
	const struct redis *const redis = (struct redis *)(void *)store;
	const struct weir__redis_store_options of_redis = { .table = store->table,
							    .thread = redis->thread,
							    .plans = redis->plans,
							    .source = { weir__store_version, weir__store_since, store },
							    .loop = loop,
							    .worker = submitter };
	struct weir__store *const behind = weir__redis_store_new(&of_redis);
	const struct weir__fallback_options of_fallback = { .store = behind,
							    .table = store->table,
							    .otherwise = { .mode = redis->otherwise,
									   .budget = redis->url.budget },
							    .find_rule = weir__store_find_rule,
							    .version = weir__store_version,
							    .context = store };
	struct weir__store *const with_fallback = behind ? weir__fallback_store_new(&of_fallback) : NULL;
	const struct weir__routed_options of_routes = { .store = with_fallback,
							.table = store->table,
							.is_in_table = weir__store_is_in_table,
							.has_any = weir__store_has_any_in_table,
							.version = weir__store_version,
							.context = store };
	struct weir__store *const routed = with_fallback ? weir__routed_store_new(&of_routes) : NULL;

	if (routed == NULL && with_fallback)
		with_fallback->free(with_fallback);
	else if (routed == NULL && behind)
		behind->free(behind);
	return routed;
}

static int check_limit(const struct weir_limit *limit, enum weir_policy_store where, struct weir_message *ret_message)
{
	return where == WEIR_POLICY_STORE_TABLE ? WEIR_OK : weir__redis_check_limit(limit, ret_message);
}

static int wait_for_redis(struct weir_store *store, weir_ns at_most, struct weir_message *ret_message)
{
	const struct redis *const redis = (struct redis *)(void *)store;
	struct weir__redis_thread_info info;

	if (weir__redis_thread_wait(redis->thread, at_most))
		return WEIR_OK;
	weir__redis_thread_info(redis->thread, &info);
	return refuse(ret_message, WEIR_ERR_UNREACHABLE,
		      *info.client.last_error ? info.client.last_error : "Redis has not replied yet");
}

static void read_status(struct weir_store *store, struct weir__store_status *ret_status)
{
	weir__redis_store_status(((struct redis *)(void *)store)->thread, ret_status);
}

static void free_redis(struct weir_store *store)
{
	struct redis *const redis = (struct redis *)(void *)store;

	weir__redis_thread_free(redis->thread);
	weir__redis_plan_cache_free(redis->plans);
	weir__store_fini(&redis->store);
	weir_table_free(redis->made);
	free(redis);
}

static const struct weir__store_kind redis_kind = { .open = open_handle,
						    .check_limit = check_limit,
						    .wait = wait_for_redis,
						    .status = read_status,
						    .free = free_redis };

static int make_table(const struct weir_store_options *options, struct weir_table **ret_table,
		      struct weir_message *ret_message)
{
	const size_t arena_bytes = options->arena_bytes > 0 ? options->arena_bytes : ARENA_BYTES;
	const struct weir_table_options of_table = {
		.size_bytes = weir_table_size(options->keys > 0 ? options->keys : KEYS, options->limits_max) +
			      arena_bytes,
		.limits_max = options->limits_max,
		.arena_bytes = arena_bytes
	};

	return weir_table_new(&of_table, ret_table, ret_message);
}

static int init(struct redis *redis, const struct weir_store_options *options, struct weir_message *ret_message)
{
	struct weir_table *table = options->table;
	int error = WEIR_OK;

	if (table == NULL) {
		error = make_table(options, &redis->made, ret_message);
		table = redis->made;
	}
	if (error == WEIR_OK)
		error = weir__store_init(&redis->store, table, &redis_kind, ret_message);
	if (error != WEIR_OK)
		return error;
	redis->plans = weir__redis_plan_cache_new(table);
	if (redis->plans == NULL)
		return refuse(ret_message, WEIR_ERR_SYSTEM, "no memory for a store");
	return weir__redis_thread_new(&redis->url,
				      options->deferred_bytes ? options->deferred_bytes : WEIR__REDIS_BACKLOG_BYTES,
				      NULL, NULL, &redis->thread, ret_message);
}

int weir__store_redis_new(const struct weir__redis_url *url, const struct weir_store_options *options,
			  struct weir_store **ret_store, struct weir_message *ret_message)
{
	static const struct weir_store_options defaults;
	const struct weir_store_options *const given = options ? options : &defaults;
	struct redis *redis;
	int error;

	if (given->on_failure == WEIR_STORE_FAILURE_LOCAL)
		return refuse(ret_message, WEIR_ERR_LIMIT,
			      "on_failure: a local limit is set for one limit: use weir_store_set_failure");
	redis = calloc(1, sizeof(*redis));
	if (redis == NULL)
		return refuse(ret_message, WEIR_ERR_SYSTEM, "no memory for a store");
	redis->url = *url;
	if (!weir__store_fallback_mode(given->on_failure, &redis->otherwise))
		redis->otherwise = WEIR__FALLBACK_NONE;
	error = init(redis, given, ret_message);
	if (error == WEIR_OK)
		*ret_store = &redis->store;
	else
		free_redis(&redis->store);
	return error;
}

int weir_store_redis(const char *url, const struct weir_store_options *options, struct weir_store **ret_store,
		     struct weir_message *ret_message)
{
	WEIR__NOT_NULL(url, ret_message);
	WEIR__NOT_NULL(ret_store, ret_message);

	struct weir__redis_url read;
	const int error = weir__redis_url_read(url, strlen(url), &read, ret_message);

	return error == WEIR_OK ? weir__store_redis_new(&read, options, ret_store, ret_message) : error;
}
