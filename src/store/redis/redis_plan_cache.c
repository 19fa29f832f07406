/* redis_plan_cache.c: plans of the table's limits in an array by index, plans of inline limits in a hash table with one
 * entry per place. */
#include "store/redis/redis_plan_cache.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEPT = 256, ANEW_LENGTH = 17, US = 1000 };

static const weir_ns tell_ns = 100000000; /* interval between clock updates: each takes the lock */

void weir__redis_shared_plan_drop(struct weir__redis_shared_plan *plan)
{
	if (plan && atomic_fetch_sub(&plan->users, 1) == 1)
		free(plan);
}

static struct weir__redis_shared_plan *use(struct weir__redis_shared_plan *plan)
{
	if (plan)
		atomic_fetch_add(&plan->users, 1);
	return plan;
}

int weir__redis_check_limit(const struct weir_limit *limit, struct weir_message *ret_message)
{
	struct weir__redis_plan redis;
	struct weir_plan plan;
	const int error = weir_plan_compile(limit, &plan, ret_message);

	return error == WEIR_OK ? weir__redis_plan_init(&redis, &plan, ret_message) : error;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

/* An inline limit has no name. */
static bool is_inline(const struct weir_table_limit *limit)
{
	return limit->name[0] == '\0';
}

/* The name of the plan. If the keys of a limit had to start over, its name has a ~ and a hash in front
 * (guard/bound_policy.c). Nodes that were started later do not have this prefix, so it is cut off. In Redis a key of a
 * different kind is reset anyway. A name that may have been truncated is left as it is. */
const char *weir__redis_limit_name(const struct weir_table_limit *limit)
{
	const char *const name = limit->name;
	size_t hex = 1;

	while (hex < ANEW_LENGTH && isxdigit((unsigned char)name[hex]))
		hex++;
	return name[0] == '~' && hex == ANEW_LENGTH && strlen(name) < WEIR_TABLE_NAME_MAX ? name + ANEW_LENGTH : name;
}

/* A colon ends the name in Redis, so a colon within the name is percent-encoded. */
static void write_name(struct weir__redis_shared_plan *plan, const char *name)
{
	size_t length = 0;

	for (; *name; name++)
		length += (size_t)snprintf(plan->name + length, sizeof(plan->name) - length,
					   *name == ':' || *name == '%' ? "%%%02X" : "%c", (unsigned char)*name);
	plan->name_length = length;
}

/* --- shared by all workers --------------------------------------------------------------------------------------- */

struct weir__redis_plan_cache {
	pthread_mutex_t lock;
	struct weir_table *table;
	weir_ns made_at;         /* on the table's clock: limits without a time are as old as this process */
	_Atomic weir_ns told_at; /* on the table's clock; 0: never */
	weir_ns told;            /* Redis's clock at told_at */
	uint32_t n;
	struct page {
		uint64_t number; /* version of the limit */
		weir_ns set_at;  /* on the table's clock */
		struct weir__redis_shared_plan *plan;
	} pages[];
};

struct weir__redis_plan_cache *weir__redis_plan_cache_new(struct weir_table *table)
{
	const uint32_t n = table->region.limits_max;
	struct weir__redis_plan_cache *const cache = calloc(1, sizeof(*cache) + n * sizeof(cache->pages[0]));

	if (cache == NULL)
		return NULL;
	cache->table = table;
	cache->made_at = weir_table_now(table);
	cache->n = n;
	(void)pthread_mutex_init(&cache->lock, NULL);
	return cache;
}

void weir__redis_plan_cache_free(struct weir__redis_plan_cache *cache)
{
	if (cache == NULL)
		return;
	for (uint32_t i = 0; i < cache->n; i++)
		weir__redis_shared_plan_drop(cache->pages[i].plan);
	(void)pthread_mutex_destroy(&cache->lock);
	free(cache);
}

void weir__redis_plan_cache_set_clock(struct weir__redis_plan_cache *cache, weir_ns redis_now)
{
	const weir_ns now = weir_table_now(cache->table);
	const weir_ns before = atomic_load(&cache->told_at);

	if (before != 0 && now < before + tell_ns)
		return;
	(void)pthread_mutex_lock(&cache->lock);
	cache->told = redis_now;
	atomic_store(&cache->told_at, now);
	(void)pthread_mutex_unlock(&cache->lock);
}

/* Converts a time of the table's clock to Redis's clock, which must be known. */
static weir_ns on_redis(const struct weir__redis_plan_cache *cache, weir_ns at)
{
	const weir_ns told_at = atomic_load(&cache->told_at);

	if (at >= told_at)
		return cache->told + (at - told_at);
	return cache->told > told_at - at ? cache->told - (told_at - at) : 0;
}

/* A plan without an instant has its age instead: the clock of Redis was not known. */
static bool has_age(const struct weir__redis_shared_plan *plan)
{
	return plan->redis.set_at == 0;
}

/* Sets when the plan was set. It is later than the plan before it, even if the clock went back. */
static void date(const struct weir__redis_plan_cache *cache, struct weir__redis_plan *plan, weir_ns set_at,
		 const struct weir__redis_shared_plan *before)
{
	const weir_ns now = weir_table_now(cache->table), earliest = (before ? before->redis.set_at : 0) + US;
	weir_ns at;

	if (atomic_load(&cache->told_at) == 0) {
		weir__redis_plan_set_age(plan, now > set_at ? now - set_at : 0);
		return;
	}
	at = on_redis(cache, set_at);
	weir__redis_plan_set_at(plan, at > earliest ? at : earliest);
}

/* Makes the plan of a limit's current version. */
static struct weir__redis_shared_plan *make(const struct weir__redis_plan_cache *cache,
					    const struct weir_table_limit *limit, weir_ns set_at,
					    const struct weir__redis_shared_plan *before)
{
	const struct weir_limit stated = weir_table_limit_limit(limit);
	struct weir__redis_shared_plan *const plan = calloc(1, sizeof(*plan));
	struct weir_plan compiled;

	if (plan == NULL)
		return NULL;
	if (weir_plan_compile(&stated, &compiled, NULL) != WEIR_OK ||
	    weir__redis_plan_init(&plan->redis, &compiled, NULL) != WEIR_OK) {
		free(plan);
		return NULL;
	}
	atomic_init(&plan->users, 1);
	write_name(plan, weir__redis_limit_name(limit));
	date(cache, &plan->redis, set_at, before);
	return plan;
}

static weir_ns later(weir_ns a, weir_ns b)
{
	return a > b ? a : b;
}

/* When the limit was set to its current version: when it changed, when it was put into force, or when this process
 * started, whichever was last. */
static weir_ns set_at_of(const struct weir__redis_plan_cache *cache, const struct weir_table_limit *limit,
			 weir_ns since)
{
	struct weir__plans_limit last;
	uint64_t number;

	if (!weir__plans_read_last(&cache->table->region, limit->entry, &number, &last))
		last.changed_at = 0;
	return later(later(last.changed_at, since), cache->made_at);
}

/* Returns the newest plan, with a reference added. */
static struct weir__redis_shared_plan *get(struct weir__redis_plan_cache *cache, const struct weir_table_limit *limit,
					   uint64_t number, weir_ns since)
{
	struct page *const page = &cache->pages[limit->index];
	struct weir__redis_shared_plan *plan;
	weir_ns set_at;

	(void)pthread_mutex_lock(&cache->lock);
	set_at = later(set_at_of(cache, limit, since), page->set_at);
	if (page->plan == NULL || page->number != number || page->set_at != set_at || has_age(page->plan)) {
		plan = make(cache, limit, set_at, page->plan);
		weir__redis_shared_plan_drop(page->plan);
		*page = (struct page){ number, set_at, plan };
	}
	plan = use(page->plan);
	(void)pthread_mutex_unlock(&cache->lock);
	return plan;
}

/* --- of one worker ----------------------------------------------------------------------------------------------- */

struct weir__redis_plan_lookup {
	struct weir__redis_plan_cache *cache;
	struct weir__hash_secret cell; /* secret of CL.THROTTLE */
	struct weir__redis_plan_source source;
	uint64_t changes; /* of the source, when the plans were last all dropped */
	bool has_ages;
	struct kept {
		struct weir__hash_secret secret;
		struct weir_plan plan;
		struct weir__redis_shared_plan *shared; /* NULL: free */
	} kept[KEPT];
	struct of_table {
		uint64_t number;
		struct weir__redis_shared_plan *plan;
	} of_table[];
};

struct weir__redis_plan_lookup *weir__redis_plan_lookup_new(struct weir__redis_plan_cache *cache,
							    struct weir__hash_secret throttle_secret,
							    const struct weir__redis_plan_source *source)
{
	struct weir__redis_plan_lookup *const lookup = calloc(1,
							      sizeof(*lookup) + cache->n * sizeof(lookup->of_table[0]));

	if (lookup == NULL)
		return NULL;
	lookup->cache = cache;
	lookup->cell = throttle_secret;
	lookup->source = *source;
	return lookup;
}

void weir__redis_plan_lookup_free(struct weir__redis_plan_lookup *lookup)
{
	if (lookup == NULL)
		return;
	for (size_t i = 0; i < KEPT; i++)
		weir__redis_shared_plan_drop(lookup->kept[i].shared);
	for (uint32_t i = 0; i < lookup->cache->n; i++)
		weir__redis_shared_plan_drop(lookup->of_table[i].plan);
	free(lookup);
}

static bool is_same_secret(const struct weir__hash_secret *a, const struct weir__hash_secret *b)
{
	return a->k0 == b->k0 && a->k1 == b->k1;
}

static bool is_same_plan(const struct weir_plan *a, const struct weir_plan *b)
{
	return a->kind == b->kind && a->flags == b->flags && a->count == b->count && a->period == b->period &&
	       a->most == b->most && a->room == b->room;
}

/* The ~ keeps these names apart: names in a policy never begin with it. */
static void name_inline(const struct weir__redis_plan_lookup *lookup, const struct weir_table_limit *limit,
			char *ret_name, size_t size)
{
	char text[WEIR_LIMIT_TEXT_MAX];

	(void)weir_limit_print(&limit->added, text);
	if (limit->plan.flags & WEIR_PLAN_RESERVED)
		(void)snprintf(ret_name, size, "%s",
			       is_same_secret(&limit->secret, &lookup->cell) ? "~cell" : "~throttle");
	else
		(void)snprintf(ret_name, size, "~text %s", text);
}

static struct weir__redis_shared_plan *make_inline(const struct weir__redis_plan_lookup *lookup,
						   const struct weir_table_limit *limit)
{
	struct weir__redis_shared_plan *const plan = calloc(1, sizeof(*plan));
	char name[WEIR_LIMIT_TEXT_MAX + 16];

	if (plan == NULL)
		return NULL;
	if (weir__redis_plan_init(&plan->redis, &limit->plan, NULL) != WEIR_OK) {
		free(plan);
		return NULL;
	}
	atomic_init(&plan->users, 1);
	name_inline(lookup, limit, name, sizeof(name));
	write_name(plan, name);
	return plan;
}

static struct weir__redis_shared_plan *find_inline(struct weir__redis_plan_lookup *lookup,
						   const struct weir_table_limit *limit)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	const uint64_t hash = ((limit->secret.k0 ^ limit->plan.period) * factor ^ limit->plan.most) * factor;
	struct kept *const kept = &lookup->kept[(hash >> 32) % KEPT];

	if (kept->shared && is_same_secret(&kept->secret, &limit->secret) && is_same_plan(&kept->plan, &limit->plan))
		return kept->shared;
	weir__redis_shared_plan_drop(kept->shared);
	kept->shared = make_inline(lookup, limit);
	kept->secret = limit->secret;
	kept->plan = limit->plan;
	return kept->shared;
}

void weir__redis_plan_lookup_begin(struct weir__redis_plan_lookup *lookup)
{
	const struct weir__redis_plan_source *const source = &lookup->source;
	const uint64_t changes = source->changes(source->context);
	const bool is_changed = changes != lookup->changes;

	if (!is_changed && !lookup->has_ages)
		return;
	lookup->changes = changes;
	lookup->has_ages = false;
	for (uint32_t i = 0; i < lookup->cache->n; i++) {
		struct of_table *const known = &lookup->of_table[i];

		if (known->plan && (is_changed || has_age(known->plan))) {
			weir__redis_shared_plan_drop(known->plan);
			known->plan = NULL;
		}
	}
}

struct weir__redis_shared_plan *weir__redis_plan_lookup_find(struct weir__redis_plan_lookup *lookup,
							     const struct weir_table_limit *limit)
{
	struct of_table *known;
	uint64_t number;

	if (is_inline(limit))
		return find_inline(lookup, limit);
	known = &lookup->of_table[limit->index];
	number = weir__plans_number(limit->entry);
	if (known->plan == NULL || known->number != number) {
		const struct weir__redis_plan_source *const source = &lookup->source;

		weir__redis_shared_plan_drop(known->plan);
		known->plan = get(lookup->cache, limit, number, source->since(source->context, limit));
		known->number = number;
		lookup->has_ages |= known->plan && has_age(known->plan);
	}
	return known->plan;
}
