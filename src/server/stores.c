/* stores.c: makes the store of a worker from four layers: routes for limits in the table, leases and mirrors, a
 * fallback, and Redis. */
#include "server/stores.h"

#include <stdlib.h>

#include "engine/inline_limits.h"
#include "guard/guard.h"
#include "observe/log.h"
#include "server/settings.h"
#include "store/lease_store.h"
#include "store/redis/redis_store.h"
#include "store/routed_store.h"
#include "store/store_internal.h"

struct weir__stores {
	struct weir_table *table;
	const struct weir__settings *settings;
	struct weir__redis_thread *thread;
	struct weir__redis_plan_cache *plans;
	struct weir__redis_url url;
	struct weir__fallback_shared fallback;
	struct weir__lease_shared leases;
};

int weir__stores_check_url(const char *url, size_t length, struct weir_message *ret_message)
{
	struct weir__redis_url read;

	return weir__redis_url_read(url, length, &read, ret_message);
}

void weir__stores_show_url(const char *url, char *ret_text, size_t size)
{
	struct weir__redis_url read;

	_Static_assert((int)WEIR__REDIS_SHOWN_SIZE <= (int)WEIR__SETTING_SHOWN, "any URL fits");
	ret_text[0] = '\0';
	if (*url != '\0' && weir__redis_url_read(url, strlen(url), &read, NULL) == WEIR_OK)
		weir__redis_url_show(&read, ret_text, size);
}

int weir__stores_check_limit(const struct weir_limit *limit, struct weir_message *ret_message)
{
	return weir__redis_check_limit(limit, ret_message);
}

static void log_line(void *log, const char *line)
{
	weir__log_say(log, WEIR__LOG_WARNING, "%s", line);
}

int weir__stores_new(struct weir__settings *settings, struct weir_table *table, struct weir__log *log,
		     struct weir__stores **ret_stores, struct weir_message *ret_message)
{
	struct weir__stores *const stores = calloc(1, sizeof(*stores));
	struct weir__redis_url url;
	int error = weir__redis_url_read(settings->store, strlen(settings->store), &url, ret_message);

	*ret_message = error == WEIR_OK ? (struct weir_message){ .text = "no memory" } : *ret_message;
	if (stores == NULL || error != WEIR_OK) {
		free(stores);
		return error == WEIR_OK ? WEIR_ERR_SYSTEM : error;
	}
	if (weir__settings_place(settings, "store_budget").from == WEIR__FROM_DEFAULT)
		settings->store_budget_ns = url.budget;
	url.budget = settings->store_budget_ns; /* it also bounds how long a connection may be silent */
	stores->table = table;
	stores->settings = settings;
	stores->url = url;
	stores->plans = weir__redis_plan_cache_new(table);
	error = stores->plans ? weir__redis_thread_new(&url, settings->deferred_memory, log_line, log, &stores->thread,
						       ret_message) :
				WEIR_ERR_SYSTEM;
	if (error == WEIR_OK)
		*ret_stores = stores;
	else
		weir__stores_free(stores);
	return error;
}

void weir__stores_free(struct weir__stores *stores)
{
	if (stores == NULL)
		return;
	weir__redis_thread_free(stores->thread);
	weir__lease_shared_fini(&stores->leases);
	weir__redis_plan_cache_free(stores->plans);
	free(stores);
}

const struct weir__redis_url *weir__stores_redis(const struct weir__stores *stores)
{
	return &stores->url;
}

/* --- the store of a worker ---------------------------------------------------------------------------------------- */

/* The lease store writes the mirror of such a limit. */
static bool is_eventual(void *guard, const struct weir_table_limit *limit)
{
	const char *const name = weir__redis_limit_name(limit);
	struct weir__view view;
	uint64_t units;

	weir__view_load(limit, &view);
	return !weir__format_has_histories(&view.format) &&
	       weir__eventual_ahead_of(&view.format.plan, weir__guard_eventual(guard, name, strlen(name)).ahead,
				       &units) == WEIR__EVENTUAL_POSSIBLE;
}

static void find_rule(void *guard, const struct weir_table_limit *limit, struct weir__fallback_rule *rule)
{
	const char *const name = weir__redis_limit_name(limit);
	struct weir__guard_failure failure;

	weir__guard_failure(guard, name, strlen(name), &failure);
	if (weir__store_fallback_mode(failure.mode, &rule->mode))
		rule->local = failure.local;
	if (failure.budget != 0)
		rule->budget = failure.budget;
	rule->has_mirror = weir__guard_stranded(guard, name, strlen(name)) > 0;
	rule->is_mirrored_in_front = is_eventual(guard, limit);
}

static uint32_t find_stranded(void *guard, const struct weir_table_limit *limit)
{
	const char *const name = weir__redis_limit_name(limit);

	return weir__guard_stranded(guard, name, strlen(name));
}

static void find_eventual(void *guard, const struct weir_table_limit *limit, struct weir__eventual *eventual)
{
	const char *const name = weir__redis_limit_name(limit);
	const struct weir__guard_eventual of = weir__guard_eventual(guard, name, strlen(name));

	*eventual = (struct weir__eventual){ of.ahead, of.sync, of.budget };
}

static bool has_any_lease(void *guard)
{
	return weir__guard_has_lease(guard);
}

static weir_ns find_since(void *guard, const struct weir_table_limit *limit)
{
	const char *const name = weir__redis_limit_name(limit);

	return weir__guard_limit_since(guard, name, strlen(name), limit);
}

/* A server without a policy has no guard. */
static uint64_t count_changes(void *guard)
{
	return guard ? weir_guard_changes(guard) : 0;
}

static bool is_in_table(void *guard, const struct weir_table_limit *limit)
{
	const char *const name = weir__redis_limit_name(limit);

	return weir__guard_store(guard, name, strlen(name)) == WEIR_POLICY_STORE_TABLE;
}

static bool has_any_in_table(void *guard)
{
	return weir__guard_has_table_store(guard);
}

/* Adds leases and mirrors, which only a policy has. NULL: no memory, and the store behind was freed. */
static struct weir__store *add_leases(struct weir__store *store, struct weir__stores *stores, struct weir_guard *guard)
{
	const struct weir__lease_options options = { .store = store,
						     .table = stores->table,
						     .stranded = find_stranded,
						     .eventual = find_eventual,
						     .budget = stores->settings->store_budget_ns,
						     .has_any = has_any_lease,
						     .version = count_changes,
						     .context = guard,
						     .shared = &stores->leases };
	struct weir__store *const leased = guard ? weir__lease_store_new(&options) : store;

	if (leased == NULL)
		store->free(store);
	return leased;
}

/* Adds routes for limits in the table, which only a policy names. NULL: no memory, and the store behind was freed. */
static struct weir__store *add_routes(struct weir__store *store, struct weir_table *table, struct weir_guard *guard)
{
	const struct weir__routed_options options = { .store = store,
						      .table = table,
						      .is_in_table = is_in_table,
						      .has_any = has_any_in_table,
						      .version = count_changes,
						      .context = guard };
	struct weir__store *const routed = guard ? weir__routed_store_new(&options) : store;

	if (routed == NULL)
		store->free(store);
	return routed;
}

struct weir__store *weir__stores_open(struct weir__stores *stores, uint32_t worker, struct weir_guard *guard,
				      struct weir__loop *loop)
{
	static const enum weir__fallback_mode modes[] = { [WEIR__ON_FAILURE_SHARE] = WEIR__FALLBACK_SHARE,
							  [WEIR__ON_FAILURE_OPEN] = WEIR__FALLBACK_OPEN,
							  [WEIR__ON_FAILURE_CLOSED] = WEIR__FALLBACK_CLOSED };
	const struct weir__settings *const settings = stores->settings;
	const struct weir__redis_store_options of_redis = { .table = stores->table,
							    .thread = stores->thread,
							    .plans = stores->plans,
							    .source = { count_changes, find_since, guard },
							    .throttle_secret = weir__inline_limits_secret(
								    stores->table, WEIR__SPACE_CELL),
							    .loop = loop,
							    .worker = worker };
	struct weir__store *const redis = weir__redis_store_new(&of_redis);
	const struct weir__fallback_options of_fallback = { .store = redis,
							    .table = stores->table,
							    .otherwise = { .mode = modes[settings->on_store_failure],
									   .budget = settings->store_budget_ns },
							    .find_rule = find_rule,
							    .version = count_changes,
							    .context = guard,
							    .shared = &stores->fallback };
	struct weir__store *store = redis ? weir__fallback_store_new(&of_fallback) : NULL;

	if (store == NULL && redis)
		redis->free(redis);
	store = store ? add_leases(store, stores, guard) : NULL;
	return store ? add_routes(store, stores->table, guard) : NULL;
}
