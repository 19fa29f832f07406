/* store.c: the public store: limits, their rules, blocking calls and statistics. */
#include <weir/store.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/argument.h"
#include "core/text.h"
#include "store/store_internal.h"

_Static_assert((int)WEIR_STORE_LATENCIES == (int)WEIR__STORE_LATENCIES, "one histogram");
_Static_assert((int)WEIR_STORE_LATENCY_FIRST_US == (int)WEIR__STORE_LATENCY_FIRST_US, "with the same bounds");
_Static_assert(sizeof(((struct weir_store_stats *)NULL)->last_error) == WEIR__STORE_ERROR_SIZE, "any error fits");

enum { SLOTS_READ = 65536 }; /* of the table, to estimate its live keys: about 65 us */

static int refuse(struct weir_message *ret_message, int error, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return error;
}

/* --- making a store ---------------------------------------------------------------------------------------------- */

int weir__store_init(struct weir_store *store, struct weir_table *table, const struct weir__store_kind *kind,
		     struct weir_message *ret_message)
{
	*store = (struct weir_store){ .table = table, .kind = kind };
	store->rules = calloc(table->region.limits_max, sizeof(store->rules[0]));
	if (store->rules)
		return WEIR_OK;
	errno = ENOMEM;
	return refuse(ret_message, WEIR_ERR_SYSTEM, "no memory for a store");
}

void weir__store_fini(struct weir_store *store)
{
	free(store->rules);
}

int weir_store_table(struct weir_table *table, struct weir_store **ret_store, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(table, ret_message);
	WEIR__NOT_NULL(ret_store, ret_message);

	struct weir_store *const store = malloc(sizeof(*store));
	int error;

	if (store == NULL)
		return refuse(ret_message, WEIR_ERR_SYSTEM, "no memory for a store");
	error = weir__store_init(store, table, NULL, ret_message);
	if (error == WEIR_OK)
		*ret_store = store;
	else
		free(store);
	return error;
}

void weir_store_free(struct weir_store *store)
{
	if (store == NULL)
		return;
	weir__submitters_free(store);
	if (store->kind) {
		store->kind->free(store);
	} else {
		weir__store_fini(store);
		free(store);
	}
}

int weir_store_wait(struct weir_store *store, weir_ns at_most, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(store, ret_message);
	return store->kind ? store->kind->wait(store, at_most, ret_message) : WEIR_OK;
}

struct weir_table *weir_store_get_table(struct weir_store *store)
{
	return store->table;
}

int weir_store_set_clock(struct weir_store *store, weir_ns (*now)(void *context), void *context)
{
	if (store->kind)
		return WEIR_ERR_UNSUPPORTED;
	store->now = now;
	store->now_context = context;
	return WEIR_OK;
}

weir_ns weir__store_now(const struct weir_store *store)
{
	return store->now ? store->now(store->now_context) : weir_table_now(store->table);
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

static int check_limit(const struct weir_store *store, const struct weir_limit *limit, struct weir_message *ret_message)
{
	return store->kind ? store->kind->check_limit(limit, WEIR_POLICY_STORE_UNSET, ret_message) : WEIR_OK;
}

/* A limit is in force since the store first knew it. */
static void note_added(struct weir_store *store, const struct weir_table_limit *limit)
{
	struct weir__store_rule *const rule = &store->rules[limit->index];

	weir__lock_acquire(&store->lock);
	if (rule->since == 0) {
		rule->since = weir_table_now(store->table);
		atomic_fetch_add(&store->version, 1);
	}
	weir__lock_release(&store->lock);
}

int weir_store_add_limit(struct weir_store *store, const char *name, const struct weir_limit *limit,
			 const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(store, ret_message);
	WEIR__NOT_NULL(name, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	int error = check_limit(store, limit, ret_message);

	if (error == WEIR_OK)
		error = weir_table_add_limit(store->table, name, limit, ret_limit, ret_message);
	if (error == WEIR_OK)
		note_added(store, *ret_limit);
	return error;
}

int weir_store_add_limit_text(struct weir_store *store, const char *name, const char *text,
			      const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(store, ret_message);
	WEIR__NOT_NULL(name, ret_message);
	WEIR__NOT_NULL(text, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	struct weir_limit limit;
	const int error = weir_limit_parse(text, strlen(text), &limit, ret_message);

	return error == WEIR_OK ? weir_store_add_limit(store, name, &limit, ret_limit, ret_message) : error;
}

int weir_store_change_limit(struct weir_store *store, const struct weir_table_limit *limit, const struct weir_limit *to,
			    struct weir_message *ret_message)
{
	WEIR__NOT_NULL(store, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(to, ret_message);

	const int error = check_limit(store, to, ret_message);

	return error == WEIR_OK ?
		       weir_table_change_limit(store->table, limit, to, weir__store_now(store), ret_message) :
		       error;
}

int weir_store_change_limit_text(struct weir_store *store, const struct weir_table_limit *limit, const char *text,
				 struct weir_message *ret_message)
{
	WEIR__NOT_NULL(store, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(text, ret_message);

	struct weir_limit to;
	const int error = weir_limit_parse(text, strlen(text), &to, ret_message);

	return error == WEIR_OK ? weir_store_change_limit(store, limit, &to, ret_message) : error;
}

/* --- rules ------------------------------------------------------------------------------------------------------- */

void weir__store_set_rules(struct weir_store *store, const struct weir_table_limit *const *limits,
			   const struct weir__store_rule *rules, size_t n)
{
	weir__lock_acquire(&store->lock);
	for (size_t i = 0; i < n; i++) {
		struct weir__store_rule *const rule = limits[i] ? &store->rules[limits[i]->index] : NULL;
		const weir_ns since = rule ? rule->since : 0;

		if (rule == NULL)
			continue;
		*rule = rules[i];
		if (rule->is_in_table)
			atomic_store(&store->has_any_in_table, true);
		if (rule->since < since)
			rule->since = since;
	}
	atomic_fetch_add(&store->version, 1);
	weir__lock_release(&store->lock);
}

int weir_store_set_failure(struct weir_store *store, const struct weir_table_limit *limit, enum weir_store_failure mode,
			   const struct weir_table_limit *local, weir_ns timeout, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(store, ret_message);
	WEIR__NOT_NULL(limit, ret_message);

	struct weir__store_rule rule;

	if ((mode == WEIR_STORE_FAILURE_LOCAL) != (local != NULL))
		return refuse(ret_message, WEIR_ERR_LIMIT,
			      "a local limit and WEIR_STORE_FAILURE_LOCAL go together: give both or neither");
	rule = (struct weir__store_rule){ .is_set = true, .fallback = { .local = local, .budget = timeout } };
	if (!weir__store_fallback_mode(mode, &rule.fallback.mode))
		rule.is_set = false;
	weir__store_set_rules(store, &limit, &rule, 1);
	return WEIR_OK;
}

bool weir__store_fallback_mode(enum weir_store_failure failure, enum weir__fallback_mode *ret_mode)
{
	static const enum weir__fallback_mode modes[] = { [WEIR_STORE_FAILURE_SHARE] = WEIR__FALLBACK_SHARE,
							  [WEIR_STORE_FAILURE_OPEN] = WEIR__FALLBACK_OPEN,
							  [WEIR_STORE_FAILURE_CLOSED] = WEIR__FALLBACK_CLOSED,
							  [WEIR_STORE_FAILURE_LOCAL] = WEIR__FALLBACK_LOCAL };

	if (failure == WEIR_STORE_FAILURE_UNSET)
		return false;
	*ret_mode = modes[failure];
	return true;
}

void weir__store_find_rule(void *store_, const struct weir_table_limit *limit, struct weir__fallback_rule *rule)
{
	struct weir_store *const store = store_;
	struct weir__store_rule found;

	weir__lock_acquire(&store->lock);
	found = store->rules[limit->index];
	weir__lock_release(&store->lock);
	if (found.is_set) {
		rule->mode = found.fallback.mode;
		rule->local = found.fallback.local;
	}
	if (found.fallback.budget != 0)
		rule->budget = found.fallback.budget;
}

weir_ns weir__store_since(void *store_, const struct weir_table_limit *limit)
{
	struct weir_store *const store = store_;
	weir_ns since;

	weir__lock_acquire(&store->lock);
	since = store->rules[limit->index].since;
	weir__lock_release(&store->lock);
	return since;
}

uint64_t weir__store_version(void *store)
{
	return atomic_load(&((struct weir_store *)store)->version);
}

bool weir__store_is_in_table(void *store_, const struct weir_table_limit *limit)
{
	struct weir_store *const store = store_;
	bool is_in_table;

	weir__lock_acquire(&store->lock);
	is_in_table = store->rules[limit->index].is_in_table;
	weir__lock_release(&store->lock);
	return is_in_table;
}

bool weir__store_has_any_in_table(void *store)
{
	return atomic_load(&((struct weir_store *)store)->has_any_in_table);
}

/* --- blocking calls ---------------------------------------------------------------------------------------------- */

/* A request of a thread that waits for it. */
struct waiting {
	struct weir__store_request request; /* must be first, so that it casts to the waiting request */
	bool is_done;
};

/* The caller's memory stays valid, since the caller waits. */
static struct weir__store_request *keep(struct weir__store_request *request)
{
	return request;
}

/* Called by collect, on the thread that waits. */
static void complete(struct weir__store_request *request)
{
	((struct waiting *)(void *)request)->is_done = true;
}

static const struct weir__store_caller waiting_caller = { keep, complete };

int weir__store_result(struct weir_store *store, const struct weir__store_request *request)
{
	if (request->outcome == WEIR__STORE_UNREACHED)
		return WEIR_ERR_UNREACHABLE;
	if (request->outcome == WEIR__STORE_UNANSWERED)
		return WEIR_ERR_UNANSWERED;
	if (weir__store_fallback_nodes(request) > 0)
		atomic_fetch_add_explicit(&store->by_fallback, request->is_each ? request->n : 1, memory_order_relaxed);
	return WEIR_OK;
}

int weir__store_call(struct weir_store *store, struct weir__store_request *request)
{
	struct waiting waiting = { .request = *request };
	struct weir_submitter *submitter;
	struct weir__store *handle;

	if (store->kind == NULL) {
		weir__table_store_decide(store->table, request);
		return WEIR_OK;
	}
	submitter = weir__submitter_borrow(store);
	if (submitter == NULL)
		return WEIR_ERR_SYSTEM;
	handle = weir__submitter_handle(submitter);
	waiting.request.caller = &waiting_caller;
	waiting.request.now = weir_table_now(store->table);
	waiting.request.hashes = NULL;
	waiting.request.epoch_check = NULL;
	if (!weir__store_submit(handle, &waiting.request)) {
		weir__store_flush(handle);
		while (!waiting.is_done) {
			weir__submitter_wait(submitter);
			weir__store_collect(handle);
		}
	}
	weir__submitter_give_back(submitter);
	*request = waiting.request;
	return weir__store_result(store, request);
}

void weir__store_set_answer(const struct weir__store_request *request, struct weir_store_answer *ret_answer)
{
	const bool is_joint = request->n > 1 && !request->is_each;

	*ret_answer = (struct weir_store_answer){ .verdict = is_joint ? request->decision.verdict :
									request->verdicts[0],
						  .decided_by = is_joint ? request->decision.decided_by : 0,
						  .decided_at = request->decided_at,
						  .fallback_nodes = weir__store_fallback_nodes(request),
						  .is_closed = request->is_closed };
}

static int call(struct weir_store *store, enum weir__store_operation operation, bool is_each,
		const struct weir_claim *claims, size_t n, struct weir_verdict *verdicts,
		struct weir_store_answer *ret_answer)
{
	struct weir__store_request request = {
		.operation = operation, .is_each = is_each, .n = (uint32_t)n, .claims = claims, .verdicts = verdicts
	};
	int error;

	if (store->kind == NULL)
		request.now = weir__store_now(store);
	error = weir__store_call(store, &request);
	if (error == WEIR_OK && ret_answer)
		weir__store_set_answer(&request, ret_answer);
	return error;
}

static int call_one(struct weir_store *store, enum weir__store_operation operation,
		    const struct weir_table_limit *limit, const void *key, size_t key_length, uint64_t cost,
		    struct weir_store_answer *ret_answer)
{
	const struct weir_claim claim = { limit, key, key_length, cost };
	struct weir_verdict verdict;

	return call(store, operation, false, &claim, 1, &verdict, ret_answer);
}

int weir_store_take(struct weir_store *store, const struct weir_table_limit *limit, const void *key, size_t key_length,
		    uint64_t cost, struct weir_store_answer *ret_answer)
{
	return call_one(store, WEIR__STORE_TAKE, limit, key, key_length, cost, ret_answer);
}

int weir_store_upto(struct weir_store *store, const struct weir_table_limit *limit, const void *key, size_t key_length,
		    uint64_t cost, struct weir_store_answer *ret_answer)
{
	return call_one(store, WEIR__STORE_UPTO, limit, key, key_length, cost, ret_answer);
}

int weir_store_peek(struct weir_store *store, const struct weir_table_limit *limit, const void *key, size_t key_length,
		    uint64_t cost, struct weir_store_answer *ret_answer)
{
	return call_one(store, WEIR__STORE_PEEK, limit, key, key_length, cost, ret_answer);
}

int weir_store_refund(struct weir_store *store, const struct weir_table_limit *limit, const void *key,
		      size_t key_length, uint64_t n, struct weir_store_answer *ret_answer)
{
	return call_one(store, WEIR__STORE_REFUND, limit, key, key_length, n, ret_answer);
}

int weir_store_reset(struct weir_store *store, const struct weir_table_limit *limit, const void *key, size_t key_length,
		     struct weir_store_answer *ret_answer)
{
	return call_one(store, WEIR__STORE_RESET, limit, key, key_length, 0, ret_answer);
}

/* Decides into a separate array, because outputs are written only on success. */
int weir_store_decide(struct weir_store *store, const struct weir_claim *claims, size_t n,
		      struct weir_verdict *verdicts, struct weir_store_answer *ret_answer)
{
	struct weir_verdict found[WEIR_TABLE_CLAIMS_MAX];
	int error;

	if (n < 1 || n > WEIR_TABLE_CLAIMS_MAX)
		return WEIR_ERR_LIMIT;
	error = call(store, WEIR__STORE_TAKE, false, claims, n, found, ret_answer);
	if (error == WEIR_OK && verdicts)
		memcpy(verdicts, found, n * sizeof(found[0]));
	return error;
}

int weir_store_take_batch(struct weir_store *store, const struct weir_claim *claims, size_t n,
			  struct weir_verdict *verdicts, struct weir_store_answer *ret_answer)
{
	struct weir_verdict found[WEIR_STORE_BATCH_MAX];
	int error;

	if (n < 1 || n > WEIR_STORE_BATCH_MAX)
		return WEIR_ERR_LIMIT;
	error = call(store, WEIR__STORE_TAKE, true, claims, n, found, ret_answer);
	if (error == WEIR_OK)
		memcpy(verdicts, found, n * sizeof(found[0]));
	return error;
}

/* --- statistics -------------------------------------------------------------------------------------------------- */

int weir_store_stats(struct weir_store *store, struct weir_store_stats *stats)
{
	static const enum weir_store_health healths[] = { [WEIR__STORE_UP] = WEIR_STORE_UP,
							  [WEIR__STORE_DOWN] = WEIR_STORE_DOWN,
							  [WEIR__STORE_PROBING] = WEIR_STORE_PROBING };
	struct weir__store_status status = { .health = WEIR__STORE_UP, .nodes = 1 };
	const size_t size_bytes = stats->size_bytes;
	struct weir__table_key_count keys;
	struct weir_store_stats found;

	if (size_bytes < sizeof(size_bytes))
		return WEIR_ERR_LIMIT;
	if (store->kind)
		store->kind->status(store, &status);
	weir__table_look(store->table, weir__store_now(store), SLOTS_READ, &keys);
	found = (struct weir_store_stats){ .health = healths[status.health],
					   .nodes = status.nodes > 0 ? status.nodes : 1,
					   .calls = status.calls,
					   .requests = status.requests,
					   .decided = status.decided,
					   .unreached = status.unreached,
					   .unanswered = status.unanswered,
					   .by_fallback = atomic_load(&store->by_fallback),
					   .script_loads = status.script_loads,
					   .failovers = status.failovers,
					   .damaged = status.damaged,
					   .deferred_keys = status.deferred_keys,
					   .deferred_charged = status.charged,
					   .deferred_excess = status.excess,
					   .deferred_uncertain = status.uncertain,
					   .deferred_dropped = status.dropped,
					   .latency_sum_us = status.latency_sum_us,
					   .keys_capacity = keys.capacity,
					   .keys_live = keys.live,
					   .keys_inserted = keys.inserted,
					   .keys_evicted = keys.evicted };
	memcpy(found.latency_counts, status.latency_counts, sizeof(found.latency_counts));
	memcpy(found.last_error, status.last_error, sizeof(found.last_error));
	found.size_bytes = size_bytes;
	memcpy(stats, &found, size_bytes < sizeof(found) ? size_bytes : sizeof(found));
	return WEIR_OK;
}

void weir_store_each_limit(struct weir_store *store, weir_store_limit_report *report, void *context)
{
	const struct weir__region *const region = &store->table->region;

	for (uint32_t i = 0; i < region->limits_max; i++) {
		struct weir_table_limit_stats counted;
		struct weir_store_limit_stats stats;
		struct weir__region_words words;

		if (!weir__region_read_limit(region, i, &words) ||
		    weir_limit_parse(words.text, strlen(words.text), &stats.limit, NULL) != WEIR_OK)
			continue;
		weir__table_limit_stats(store->table, i, &counted);
		stats.name = words.name;
		stats.allowed = counted.allowed;
		stats.denied = counted.denied;
		report(context, &stats);
	}
}
