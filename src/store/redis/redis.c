/* redis.c: the public blocking API: each call waits for its reply. */
#include <weir/redis.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/argument.h"
#include "core/text.h"
#include "core/uninitialized.h"
#include "core/wide.h"
#include "os/lock.h"
#include "os/monotonic.h"
#include "store/redis/redis_thread.h"
#include "store/table/decision.h"

_Static_assert(WEIR_REDIS_CLAIMS_MAX == (int)WEIR__REDIS_CLAIMS_MAX, "a decision is one request");
_Static_assert(WEIR_REDIS_BATCH_MAX <= (int)WEIR__REDIS_CALL_PLANS_MAX, "each may have another limit");

struct weir_redis_limit {
	struct weir_redis_limit *next;
	struct weir_redis *redis;
	struct weir__redis_plan plan; /* guarded by redis->lock: it may change */
	weir_ns added_at;             /* on this machine's clock */
	size_t name_length;
	char name[];
};

struct weir_redis {
	struct weir__redis_url url;
	struct weir__redis_thread *store;
	struct weir__lock lock; /* protects the fields below */
	struct weir_redis_limit *limits;
	weir_ns decided_at, answered_at; /* Redis's clock, and this machine's at that time; 0: unknown */
};

static int refuse(struct weir_message *ret_message, int error, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return error;
}

int weir_redis_new(const char *url, struct weir_redis **ret_redis, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(url, ret_message);
	WEIR__NOT_NULL(ret_redis, ret_message);

	struct weir_redis *const redis = calloc(1, sizeof(*redis));
	int error;

	if (redis == NULL)
		return refuse(ret_message, WEIR_ERR_SYSTEM, "no memory for connections to Redis");
	error = weir__redis_url_read(url, strlen(url), &redis->url, ret_message);
	if (error == WEIR_OK)
		error = weir__redis_thread_new(&redis->url, WEIR__REDIS_BACKLOG_LEAST, NULL, NULL, &redis->store,
					       ret_message);
	if (error != WEIR_OK)
		free(redis);
	else
		*ret_redis = redis;
	return error;
}

void weir_redis_free(struct weir_redis *redis)
{
	if (redis == NULL)
		return;
	weir__redis_thread_free(redis->store);
	while (redis->limits) {
		struct weir_redis_limit *const limit = redis->limits;

		redis->limits = limit->next;
		free(limit);
	}
	free(redis);
}

int weir_redis_wait(struct weir_redis *redis, weir_ns at_most, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(redis, ret_message);

	struct weir__redis_thread_info info;

	if (weir__redis_thread_wait(redis->store, at_most))
		return WEIR_OK;
	weir__redis_thread_info(redis->store, &info);
	return refuse(ret_message, WEIR_ERR_UNREACHABLE,
		      *info.client.last_error ? info.client.last_error : "Redis has not replied yet");
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

static int check_name(const char *name, struct weir_message *ret_message)
{
	const char *const colon = strchr(name, ':');
	struct weir__text why;

	if (colon == NULL)
		return weir__argument_name(name, WEIR_REDIS_NAME_MAX, ret_message);
	why = weir__text_of_message(ret_message, (size_t)(colon - name));
	weir__text_add(&why, "a limit named ");
	weir__text_add_quoted(&why, name, strlen(name));
	weir__text_add(&why, ": in Redis a name must not contain a colon");
	return WEIR_ERR_LIMIT;
}

static int make_plan(const struct weir_limit *limit, struct weir__redis_plan *ret_plan,
		     struct weir_message *ret_message)
{
	struct weir_plan plan;
	const int error = weir_plan_compile(limit, &plan, ret_message);

	return error == WEIR_OK ? weir__redis_plan_init(ret_plan, &plan, ret_message) : error;
}

static bool is_same_plan(const struct weir__redis_plan *a, const struct weir__redis_plan *b)
{
	return memcmp(&a->plan, &b->plan, sizeof(a->plan)) == 0;
}

/* Sets when the limit was added, on Redis's clock, which is known. Call it with the lock. */
static void date_plan(struct weir_redis_limit *limit)
{
	const struct weir_redis *const redis = limit->redis;
	const weir_ns ago = redis->answered_at > limit->added_at ? redis->answered_at - limit->added_at : 0;
	const weir_ns ahead = limit->added_at > redis->answered_at ? limit->added_at - redis->answered_at : 0;

	weir__redis_plan_set_at(&limit->plan, redis->decided_at > ago ? redis->decided_at - ago + ahead : 0);
}

static int add_limit(struct weir_redis *redis, const char *name, const struct weir__redis_plan *plan,
		     struct weir_redis_limit **ret_limit, struct weir_message *ret_message)
{
	const size_t length = strlen(name);
	struct weir_redis_limit *limit = redis->limits;

	while (limit && strcmp(limit->name, name) != 0)
		limit = limit->next;
	if (limit == NULL) {
		limit = malloc(sizeof(*limit) + length + 1);
		if (limit == NULL)
			return refuse(ret_message, WEIR_ERR_SYSTEM, "no memory for a limit");
		limit->redis = redis;
		limit->plan = *plan;
		limit->added_at = weir__monotonic_ns();
		limit->name_length = length;
		memcpy(limit->name, name, length + 1);
		limit->next = redis->limits;
		redis->limits = limit;
		if (redis->answered_at != 0)
			date_plan(limit);
	} else if (!is_same_plan(&limit->plan, plan)) {
		return refuse(ret_message, WEIR_ERR_CHANGE,
			      "a limit of this name exists: use weir_redis_change_limit to change it");
	}
	*ret_limit = limit;
	return WEIR_OK;
}

int weir_redis_add_limit(struct weir_redis *redis, const char *name, const struct weir_limit *limit,
			 const struct weir_redis_limit **ret_limit, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(redis, ret_message);
	WEIR__NOT_NULL(name, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	struct weir_redis_limit *added = NULL;
	struct weir__redis_plan plan;
	int error = check_name(name, ret_message);

	if (error == WEIR_OK)
		error = make_plan(limit, &plan, ret_message);
	if (error != WEIR_OK)
		return error;
	weir__lock_acquire(&redis->lock);
	error = add_limit(redis, name, &plan, &added, ret_message);
	weir__lock_release(&redis->lock);
	if (error == WEIR_OK)
		*ret_limit = added;
	return error;
}

int weir_redis_add_limit_text(struct weir_redis *redis, const char *name, const char *text,
			      const struct weir_redis_limit **ret_limit, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(redis, ret_message);
	WEIR__NOT_NULL(name, ret_message);
	WEIR__NOT_NULL(text, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	struct weir_limit limit;
	const int error = weir_limit_parse(text, strlen(text), &limit, ret_message);

	return error == WEIR_OK ? weir_redis_add_limit(redis, name, &limit, ret_limit, ret_message) : error;
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

/* Copies of plans, since a limit may change while a call is under way. Each limit is copied once, because a key must
 * have one plan in a request. */
struct plans {
	size_t n;
	const struct weir_redis_limit *limits[WEIR_REDIS_BATCH_MAX];
	struct weir__redis_plan plans[WEIR_REDIS_BATCH_MAX];
};

/* Until Redis's clock is known, the plan has its age. Call it with the lock. */
static struct weir__redis_plan dated_plan(const struct weir_redis_limit *limit)
{
	struct weir__redis_plan plan = limit->plan;

	if (plan.set_at == 0)
		weir__redis_plan_set_age(&plan, weir__monotonic_ns() - limit->added_at);
	return plan;
}

static const struct weir__redis_plan *copy_of(struct plans *plans, const struct weir_redis_limit *limit)
{
	size_t i = 0;

	while (i < plans->n && plans->limits[i] != limit)
		i++;
	if (i == plans->n) {
		plans->limits[i] = limit;
		plans->plans[i] = dated_plan(limit);
		plans->n++;
	}
	return &plans->plans[i];
}

static void write_claims(struct weir_redis *redis, const struct weir_redis_claim *claims, size_t n, struct plans *plans,
			 struct weir__redis_claim *ret_claims)
{
	plans->n = 0;
	weir__lock_acquire(&redis->lock);
	for (size_t i = 0; i < n; i++) {
		const struct weir_redis_limit *const limit = claims[i].limit;

		ret_claims[i] = (struct weir__redis_claim){ .plan = copy_of(plans, limit),
							    .name = { limit->name, limit->name_length },
							    .key = { claims[i].key, claims[i].key_length },
							    .cost = claims[i].cost };
	}
	weir__lock_release(&redis->lock);
}

/* The first reply dates the limits that were added before it. */
static void note_time(struct weir_redis *redis, weir_ns decided_at)
{
	const weir_ns now = weir__monotonic_ns();
	bool is_first;

	weir__lock_acquire(&redis->lock);
	is_first = redis->answered_at == 0;
	redis->decided_at = decided_at;
	redis->answered_at = now;
	for (struct weir_redis_limit *limit = redis->limits; limit && is_first; limit = limit->next)
		date_plan(limit);
	weir__lock_release(&redis->lock);
}

static int ask(struct weir_redis *redis, const struct weir__redis_request *requests, size_t n,
	       struct weir_verdict *verdicts)
{
	struct weir__redis_job job = {
		.requests = requests, .n = n, .budget = redis->url.budget, .verdicts = verdicts
	};

	weir__redis_thread_ask_and_wait(redis->store, &job);
	if (job.outcome == WEIR__REDIS_JOB_UNREACHED)
		return WEIR_ERR_UNREACHABLE;
	if (job.outcome == WEIR__REDIS_JOB_UNANSWERED)
		return WEIR_ERR_UNANSWERED;
	note_time(redis, job.decided_at);
	return WEIR_OK;
}

static int ask_one(struct weir_redis *redis, enum weir__redis_operation operation, const struct weir_redis_limit *limit,
		   const void *key, size_t key_length, uint64_t cost, struct weir_verdict *ret_verdict)
{
	struct weir__redis_plan plan;
	const struct weir__redis_claim claim = {
		.plan = &plan, .name = { limit->name, limit->name_length }, .key = { key, key_length }, .cost = cost
	};
	const struct weir__redis_request request = { operation, &claim, 1 };
	struct weir_verdict verdict;
	int error;

	weir__lock_acquire(&redis->lock);
	plan = dated_plan(limit);
	weir__lock_release(&redis->lock);
	error = ask(redis, &request, 1, &verdict);
	if (error == WEIR_OK)
		*ret_verdict = verdict;
	return error;
}

int weir_redis_take(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key, size_t key_length,
		    uint64_t cost, struct weir_verdict *ret_verdict)
{
	return ask_one(redis, WEIR__REDIS_TAKE, limit, key, key_length, cost, ret_verdict);
}

int weir_redis_upto(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key, size_t key_length,
		    uint64_t cost, struct weir_verdict *ret_verdict)
{
	return ask_one(redis, WEIR__REDIS_UP_TO, limit, key, key_length, cost, ret_verdict);
}

int weir_redis_peek(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key, size_t key_length,
		    uint64_t cost, struct weir_verdict *ret_verdict)
{
	return ask_one(redis, WEIR__REDIS_PEEK, limit, key, key_length, cost, ret_verdict);
}

int weir_redis_refund(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
		      size_t key_length, uint64_t n, struct weir_verdict *ret_verdict)
{
	return ask_one(redis, WEIR__REDIS_REFUND, limit, key, key_length, n, ret_verdict);
}

int weir_redis_reset(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key, size_t key_length,
		     bool *ret_was_stored)
{
	struct weir_verdict verdict;
	const int error = ask_one(redis, WEIR__REDIS_RESET, limit, key, key_length, 0, &verdict);

	if (error == WEIR_OK && ret_was_stored)
		*ret_was_stored = verdict.allowed;
	return error;
}

int weir_redis_decide(struct weir_redis *redis, const struct weir_redis_claim *claims, size_t n,
		      struct weir_verdict *verdicts, struct weir_decision *ret_decision)
{
	struct weir__redis_claim written[WEIR_REDIS_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct weir_verdict found[WEIR_REDIS_CLAIMS_MAX] WEIR__UNINITIALIZED;
	const struct weir__redis_request request = { WEIR__REDIS_TAKE, written, n };
	struct plans plans WEIR__UNINITIALIZED;
	int error;

	if (n < 1 || n > WEIR_REDIS_CLAIMS_MAX)
		return WEIR_ERR_LIMIT;
	write_claims(redis, claims, n, &plans, written);
	error = ask(redis, &request, 1, found);
	if (error != WEIR_OK)
		return error;
	*ret_decision = weir__decision_of(found, n);
	if (verdicts)
		memcpy(verdicts, found, n * sizeof(found[0]));
	return WEIR_OK;
}

int weir_redis_take_batch(struct weir_redis *redis, const struct weir_redis_claim *claims, size_t n,
			  struct weir_verdict *ret_verdicts)
{
	struct weir__redis_claim written[WEIR_REDIS_BATCH_MAX] WEIR__UNINITIALIZED;
	struct weir__redis_request requests[WEIR_REDIS_BATCH_MAX] WEIR__UNINITIALIZED;
	struct weir_verdict found[WEIR_REDIS_BATCH_MAX] WEIR__UNINITIALIZED;
	struct plans plans WEIR__UNINITIALIZED;
	int error;

	if (n < 1 || n > WEIR_REDIS_BATCH_MAX)
		return WEIR_ERR_LIMIT;
	write_claims(redis, claims, n, &plans, written);
	for (size_t i = 0; i < n; i++)
		requests[i] = (struct weir__redis_request){ WEIR__REDIS_TAKE, &written[i], 1 };
	error = ask(redis, requests, n, found);
	if (error == WEIR_OK)
		memcpy(ret_verdicts, found, n * sizeof(found[0]));
	return error;
}

/* --- changes ----------------------------------------------------------------------------------------------------- */

/* Gets Redis's time with a peek if no earlier reply contained it. A peek at the empty key costs nothing. */
static int know_time(struct weir_redis *redis, const struct weir_redis_limit *limit)
{
	struct weir_verdict ignored;
	bool is_known;

	weir__lock_acquire(&redis->lock);
	is_known = redis->answered_at != 0;
	weir__lock_release(&redis->lock);
	return is_known ? WEIR_OK : weir_redis_peek(redis, limit, "", 0, 0, &ignored);
}

int weir_redis_change_limit(struct weir_redis *redis, const struct weir_redis_limit *limit, const struct weir_limit *to,
			    struct weir_message *ret_message)
{
	WEIR__NOT_NULL(redis, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(to, ret_message);

	struct weir_redis_limit *const changed = (struct weir_redis_limit *)(uintptr_t)limit;
	struct weir_plan plan;
	int error = weir_plan_compile(to, &plan, ret_message);

	if (error != WEIR_OK)
		return error;
	error = know_time(redis, limit);
	if (error != WEIR_OK)
		return refuse(ret_message, error, "Redis did not report its time, which a change needs");
	weir__lock_acquire(&redis->lock);
	error = weir__redis_plan_change(&changed->plan, &plan,
					redis->decided_at + (weir__monotonic_ns() - redis->answered_at), ret_message);
	weir__lock_release(&redis->lock);
	return error;
}

void weir_redis_status(struct weir_redis *redis, struct weir_redis_status *ret_status)
{
	struct weir__redis_thread_info info;

	weir__redis_thread_info(redis->store, &info);
	*ret_status = (struct weir_redis_status){ .is_up = info.client.health == WEIR__REDIS_UP &&
							   info.client.links_ready > 0,
						  .connections = info.client.links_ready,
						  .decided = info.client.decided,
						  .unreachable = info.client.unreached,
						  .unanswered = info.client.unanswered,
						  .calls = info.client.calls,
						  .failovers = info.client.failovers };
	memcpy(ret_status->last_error, info.client.last_error, sizeof(info.client.last_error));
}
