/* store_engine.c: plays the vectors on the public store, with a table and with a real Redis. Both use the vectors'
 * times: the table by the store's clock, Redis by a time in each call. A subject is a limit and one key. */
#include <weir/store.h>

#include "redis/redis_server.h"
#include "store/redis/redis_call.h"
#include "store/redis/store_redis.h"
#include "vector_engine.h"

static const weir_ns patience = 60000000000;
static const char key[] = "key";

enum { ARENA_BYTES = 2 << 20, KEYS = 1000, NAME_SIZE = 16, GRAIN_NS = 1000 };

static struct redis_server server;
static struct weir_store *on_table, *on_redis;
static weir_ns now_at;
static unsigned subjects;

struct subject {
	struct weir_store *store;
	const struct weir_table_limit *limit;
};

static void __attribute__((destructor)) stop_server(void)
{
	if (server.pid > 0)
		redis_server_stop(&server);
}

static weir_ns read_now(void *context)
{
	(void)context;
	return now_at;
}

/* The table's times reach from 9 years before to 9 years after. */
static void begin_table(weir_ns earliest, weir_ns latest)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(KEYS, 0) + ARENA_BYTES,
						    .arena_bytes = ARENA_BYTES,
						    .made_at = earliest + (UINT64_C(1) << 58) };
	struct weir_table *table;

	(void)latest;
	if (weir_table_new(&options, &table, NULL) != WEIR_OK || weir_store_table(table, &on_table, NULL) != WEIR_OK ||
	    weir_store_set_clock(on_table, read_now, NULL) != WEIR_OK)
		errx(1, "no store on a table");
}

static void end_table(void)
{
	struct weir_table *const table = weir_store_get_table(on_table);

	weir_store_free(on_table);
	weir_table_free(table);
}

static void begin_redis(weir_ns earliest, weir_ns latest)
{
	struct weir_message why = { 0, "" };
	struct weir__redis_url url;
	char text[256];

	(void)earliest;
	(void)latest;
	if (server.pid == 0)
		redis_server_start(&server);
	(void)snprintf(text, sizeof(text), "redis+unix://%s?timeout=10s&pool=1", server.path);
	if (weir__redis_url_read(text, strlen(text), &url, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	url.test_now = &now_at;
	if (weir__store_redis_new(&url, NULL, &on_redis, &why) != WEIR_OK ||
	    weir_store_wait(on_redis, patience, &why) != WEIR_OK)
		errx(1, "no store on Redis: %s", why.text);
}

static void end_redis(void)
{
	weir_store_free(on_redis);
	REDIS_COMMAND(&server, "FLUSHALL");
}

static void *make_in(struct weir_store *store, const struct weir_limit *limit)
{
	struct subject *const subject = malloc(sizeof(*subject));
	char name[NAME_SIZE];

	if (subject == NULL)
		abort();
	(void)snprintf(name, sizeof(name), "%u", subjects++);
	subject->store = store;
	if (weir_store_add_limit(store, name, limit, &subject->limit, NULL) == WEIR_OK)
		return subject;
	free(subject);
	return NULL;
}

static void *make_on_table(const struct weir_limit *limit, uint64_t log_room)
{
	(void)log_room;
	return make_in(on_table, limit);
}

static void *make_on_redis(const struct weir_limit *limit, uint64_t log_room)
{
	(void)log_room;
	return make_in(on_redis, limit);
}

static const char *skips_limit_on_table(const struct weir_limit *limit, uint64_t costs)
{
	return table_engine.skips_limit(limit, costs);
}

static const char *skips_times_on_table(weir_ns earliest, weir_ns latest)
{
	return table_engine.skips_times(earliest, latest);
}

/* The Redis store also has a table, which must accept the limit. */
static const char *skips_limit_on_redis(const struct weir_limit *limit, uint64_t costs)
{
	const char *const why = table_engine.skips_limit(limit, costs);
	struct weir__redis_plan redis_plan;
	struct weir_plan plan;

	if (why || weir_plan_compile(limit, &plan, NULL) != WEIR_OK)
		return why;
	if (limit->count_all && limit->algorithm == WEIR_SLIDING_COUNTER &&
	    costs > WEIR__REDIS_COUNTS_MAX / (limit->segments + 1))
		return "counts beyond the maxima";
	return weir__redis_plan_init(&redis_plan, &plan, NULL) == WEIR_OK ? NULL : "limits beyond the maxima";
}

static const char *skips_times_on_redis(weir_ns earliest, weir_ns latest)
{
	(void)earliest;
	return latest / GRAIN_NS > WEIR__REDIS_TIME_MAX_US ? "times beyond the maxima" : NULL;
}

typedef int operation(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
		      size_t key_length, uint64_t cost, struct weir_store_answer *ret_answer);

static struct weir_verdict run(operation *call, const void *subject_, weir_ns now, uint64_t cost)
{
	const struct subject *const subject = subject_;
	struct weir_store_answer answer;
	int error;

	now_at = now;
	error = call(subject->store, subject->limit, key, sizeof(key), cost, &answer);
	if (error != WEIR_OK || answer.decided_at != now || answer.fallback_nodes != 0)
		errx(1, "a call failed: %s", weir_strerror(error));
	return answer.verdict;
}

static struct weir_verdict take(void *subject, weir_ns now, uint64_t cost)
{
	return run(weir_store_take, subject, now, cost);
}

static struct weir_verdict upto(void *subject, weir_ns now, uint64_t cost)
{
	return run(weir_store_upto, subject, now, cost);
}

static struct weir_verdict peek(void *subject, weir_ns now, uint64_t cost)
{
	return run(weir_store_peek, subject, now, cost);
}

static struct weir_verdict refund(void *subject, weir_ns now, uint64_t n)
{
	return run(weir_store_refund, subject, now, n);
}

static struct weir_decision all(void *const *subjects_, const uint64_t *costs, size_t n, weir_ns now,
				struct weir_verdict *verdicts)
{
	struct weir_store *const store = ((const struct subject *)subjects_[0])->store;
	struct weir_claim claims[VECTOR_CLAIMS_MAX];
	struct weir_store_answer answer;

	for (size_t i = 0; i < n; i++)
		claims[i] = (struct weir_claim){ ((const struct subject *)subjects_[i])->limit, key, sizeof(key),
						 costs[i] };
	now_at = now;
	if (weir_store_decide(store, claims, n, verdicts, &answer) != WEIR_OK || answer.decided_at != now)
		errx(1, "a decision failed");
	return (struct weir_decision){ answer.verdict, answer.decided_by };
}

/* Without `change`: to the vectors a change to the same limit is a change, and Redis dates changes by the machine's
 * clock. */
static const struct vector_engine table_store_engine = {
	.name = "store on table",
	.begin = begin_table,
	.end = end_table,
	.skips_limit = skips_limit_on_table,
	.skips_times = skips_times_on_table,
	.make = make_on_table,
	.drop = free,
	.take = take,
	.upto = upto,
	.peek = peek,
	.refund = refund,
	.all = all,
};

static const struct vector_engine redis_store_engine = {
	.name = "store on Redis",
	.grain = GRAIN_NS,
	.begin = begin_redis,
	.end = end_redis,
	.skips_limit = skips_limit_on_redis,
	.skips_times = skips_times_on_redis,
	.make = make_on_redis,
	.drop = free,
	.take = take,
	.upto = upto,
	.peek = peek,
	.refund = refund,
	.all = all,
};

const struct vector_engine *const vector_engines[] = { &table_store_engine, &redis_store_engine };
const size_t vector_engines_n = sizeof(vector_engines) / sizeof(vector_engines[0]);
