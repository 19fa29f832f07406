/* fallback_store.c: decides with a table when the store behind has not decided. */
#include "store/fallback_store.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/bucket.h"
#include "core/notation.h"
#include "core/uninitialized.h"
#include "store/table/decision.h"

enum { TICK_NS = 1000 }; /* of the store's clock */

static const weir_ns closed_ns = 1000000000;       /* retry_after and reset_after of a closed limit */
static const weir_ns count_nodes_ns = 100000000;   /* how often to read the number of servers from the store */
static const weir_ns late_effect_ns = 1000000000;  /* longer than a connection may be silent, besides two budgets */
static const weir_ns other_clock_ns = 20000000000; /* longer than two budgets */

/* A cached rule of a limit of the table. */
struct known {
	uint64_t version; /* version of the rules when this was read, plus 1; 0: not read yet */
	uint64_t number;  /* of the limit's plan */
	struct weir__fallback_rule rule;
};

struct fallback {
	struct weir__store store; /* first member: the two convert by a cast */
	struct weir__fallback_options options;
	uint32_t nodes; /* servers that share a limit, as the store last reported; at least 1 */
	bool is_joining;
	weir_ns counted_at;
	weir_ns collected_at; /* the time of the replies that are being collected; 0: read the clock */
	struct weir__fallback_shared *shared, own;
	uint32_t worker; /* differs between the workers of a process, if they are fewer than TICK_NS */
	struct known known[];
};

/* --- rules ------------------------------------------------------------------------------------------------------- */

static const struct weir__fallback_rule *rule_of(struct fallback *fallback, const struct weir_table_limit *limit)
{
	const struct weir__fallback_options *const options = &fallback->options;
	struct known *known;
	uint64_t version, number;

	if (options->context == NULL || limit->name[0] == '\0') /* an inline limit has no name */
		return &options->otherwise;
	known = &fallback->known[limit->index];
	version = options->version(options->context) + 1;
	number = weir__plans_number(limit->entry);
	if (known->version != version || known->number != number) {
		known->rule = options->otherwise;
		options->find_rule(options->context, limit, &known->rule);
		known->version = version;
		known->number = number;
	}
	return &known->rule;
}

/* --- without the store ------------------------------------------------------------------------------------------- */

/* Claims to decide here, each by its rule. The table decides its claims together. */
struct here {
	enum weir__fallback_mode modes[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX]; /* .limit NULL: the mode alone decides */
	uint64_t scales[WEIR_TABLE_CLAIMS_MAX];          /* units of the table for a unit of the claim */
};

static uint64_t most_of(const struct weir_table_limit *of)
{
	const struct weir_limit limit = weir_table_limit_limit(of);

	return weir__limit_is_bucket(&limit) ? limit.burst : limit.count;
}

/* If a limit has fewer units than there are servers, each server still allows one unit. */
static uint64_t scale_of(const struct weir_table_limit *limit, uint32_t nodes)
{
	return weir__min(nodes, most_of(limit));
}

static bool has_mirror(const struct weir__fallback_rule *rule)
{
	return rule->mode == WEIR__FALLBACK_SHARE || (rule->mode == WEIR__FALLBACK_LOCAL && rule->local == NULL);
}

/* Whether replies of the store overwrite the mirror: the fallback needs it, or a store in front of this one does. */
static bool keeps_mirror(const struct weir__fallback_rule *rule)
{
	return (has_mirror(rule) || rule->has_mirror) && !rule->is_mirrored_in_front;
}

/* A server that the others do not count yet has no share to take from. */
static void find_limits(struct fallback *fallback, const struct weir__store_request *request,
			const struct weir_claim *claims, size_t n, struct here *here)
{
	const bool has_no_share = fallback->is_joining &&
				  (weir__store_charges(request->operation) || request->operation == WEIR__STORE_PEEK);

	for (size_t i = 0; i < n; i++) {
		const struct weir__fallback_rule *const rule = rule_of(fallback, claims[i].limit);

		here->claims[i] = claims[i];
		here->modes[i] = rule->mode;
		here->scales[i] = 1;
		if (has_mirror(rule) && has_no_share) {
			here->claims[i].limit = NULL;
			here->modes[i] = WEIR__FALLBACK_CLOSED;
		} else if (has_mirror(rule)) {
			here->scales[i] = scale_of(claims[i].limit, request->fallback_nodes);
			here->claims[i].cost = weir__saturate(weir__mul(claims[i].cost, here->scales[i]));
		} else {
			here->claims[i].limit = rule->mode == WEIR__FALLBACK_LOCAL ? rule->local : NULL;
		}
	}
}

/* A verdict of the mirror, in units of the claim. A cost above this server's share may be allowed by the store, which
 * may be back soon. */
static void unscale(struct weir_verdict *verdict, const struct weir_claim *claim, uint64_t scale)
{
	if (scale <= 1)
		return;
	verdict->remaining /= scale;
	verdict->granted /= scale;
	if (verdict->never && claim->cost <= verdict->limit) {
		verdict->never = false;
		verdict->retry_after = closed_ns;
	}
}

/* The verdict for a claim that the table does not decide. */
static struct weir_verdict by_mode(enum weir__fallback_mode mode, const struct weir_claim *claim)
{
	const uint64_t most = most_of(claim->limit);

	if (mode == WEIR__FALLBACK_OPEN)
		return (struct weir_verdict){
			.allowed = true, .limit = most, .remaining = most, .granted = claim->cost
		};
	return (struct weir_verdict){ .limit = most, .retry_after = closed_ns, .reset_after = closed_ns };
}

/* All or nothing: if one claim is closed, nothing is charged. */
static void take(const struct fallback *fallback, const struct here *here, const struct weir__store_request *request,
		 const struct weir_claim *claims, size_t n_claims, struct weir_verdict *ret_verdicts,
		 bool *ret_is_closed)
{
	const bool is_counted = request->operation == WEIR__STORE_TAKE;
	const weir_ns now = request->decided_at;
	struct weir_table *const table = fallback->options.table;
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim of_table[WEIR_TABLE_CLAIMS_MAX];
	size_t of[WEIR_TABLE_CLAIMS_MAX], n = 0;
	struct weir__store_request asked = { .operation = request->operation,
					     .claims = of_table,
					     .verdicts = verdicts,
					     .now = now,
					     .max_delay = request->max_delay };

	for (size_t i = 0; i < n_claims; i++) {
		if (here->claims[i].limit) {
			of[n] = i;
			of_table[n++] = here->claims[i];
			continue;
		}
		ret_verdicts[i] = by_mode(here->modes[i], &claims[i]);
		*ret_is_closed |= !ret_verdicts[i].allowed;
		if (is_counted)
			weir__table_count(table, claims[i].limit, ret_verdicts[i].allowed);
	}
	asked.n = (uint32_t)n;
	if (n > 0 && !*ret_is_closed)
		weir__table_store_decide(table, &asked);
	for (size_t i = 0; i < n; i++)
		ret_verdicts[of[i]] = *ret_is_closed ? weir_table_peek(table, of_table[i].limit, of_table[i].key,
								       of_table[i].key_length, now, of_table[i].cost) :
						       verdicts[i];
	for (size_t i = 0; i < n_claims; i++)
		unscale(&ret_verdicts[i], &claims[i], here->scales[i]);
}

/* Takes one unit of a smooth bucket whose burst is below the number of servers, `cost`. The bucket must be full. Its
 * usage then exceeds its burst, so that each server gets its part of the rate. Usage of more than 60 s beyond the burst
 * would be taken for a clock that went back. */
static struct weir_verdict take_beyond_burst(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	struct weir_verdict verdict = weir_step_take(plan, state, now, plan->most);

	if (verdict.allowed && plan->kind == WEIR_KIND_BUCKET && cost > plan->most) {
		const weir__u128 beyond = weir__mul(cost - plan->most, plan->period);
		const weir__u128 longest = weir__mul(WEIR__STEP_BACK_MAX, plan->count);

		weir__state_set_wide(state, weir__state_wide(state) + (beyond < longest ? beyond : longest));
		weir__bucket_level(plan, state, now, &verdict);
	}
	return verdict;
}

/* Whether the share of a single claim needs take_beyond_burst. */
static bool is_beyond_burst(const struct here *here, const struct weir_claim *claim, uint32_t nodes)
{
	return here->claims[0].limit == claim->limit && claim->cost == 1 && here->scales[0] < nodes &&
	       here->modes[0] != WEIR__FALLBACK_OPEN && claim->limit->first.plan.kind == WEIR_KIND_BUCKET &&
	       !(claim->limit->first.plan.flags & WEIR_PLAN_SHAPE);
}

static void take_one(const struct fallback *fallback, const struct weir_claim *claim, weir_ns now, uint32_t nodes,
		     struct weir_verdict *ret_verdict)
{
	struct weir_table *const table = fallback->options.table;

	*ret_verdict = weir__table_step(table, claim->limit,
					weir__hash(&claim->limit->secret, claim->key, claim->key_length),
					take_beyond_burst, weir__table_clamp(table, now), nodes, NULL);
	ret_verdict->granted = ret_verdict->allowed;
	ret_verdict->remaining = 0;
	weir__table_count(table, claim->limit, ret_verdict->allowed);
}

/* Takes as many units as the share has, a multiple of the scale. */
static struct weir_verdict take_up_to(struct weir_table *table, const struct weir_claim *claim, uint64_t scale,
				      weir_ns now)
{
	struct weir_verdict verdict;
	uint64_t units;

	do {
		units = weir_table_peek(table, claim->limit, claim->key, claim->key_length, now, 0).remaining / scale;
		units = weir__min(units, claim->cost / scale);
		verdict = weir_table_take(table, claim->limit, claim->key, claim->key_length, now,
					  units > 0 ? units * scale : scale);
	} while (units > 0 && !verdict.allowed); /* another thread was faster */
	return verdict;
}

/* A charge is undone where it was made. A charge in the store is not given back here. Neither is a deferred charge that
 * the store has received since: the mirror then holds the store's state, which counts the charge once. */
static void undo(const struct fallback *fallback, const struct here *here, const struct weir__store_request *request,
		 struct weir_verdict *ret_verdict)
{
	struct weir_claim claim = here->claims[0];
	struct weir__store_request asked = { .operation = request->operation,
					     .is_each = true,
					     .n = 1,
					     .claims = &claim,
					     .verdicts = ret_verdict,
					     .now = request->decided_at,
					     .charged_at = request->charged_at,
					     .charged_cost = weir__saturate(
						     weir__mul(request->charged_cost, here->scales[0])),
					     .charged_full_at = request->charged_full_at };

	if (request->charged_nodes == 0 ||
	    request->charged_at < atomic_load_explicit(&fallback->shared->mirrored_at, memory_order_relaxed))
		claim.cost = 0;
	weir__table_store_decide(fallback->options.table, &asked);
}

/* Decides claims together, or a single one. */
static void decide_here(struct fallback *fallback, const struct weir__store_request *request,
			const struct weir_claim *claims, uint32_t n, struct weir_verdict *ret_verdicts,
			bool *ret_is_closed)
{
	struct weir_table *const table = fallback->options.table;
	struct weir__store_request asked = { .operation = request->operation,
					     .is_each = true,
					     .n = 1,
					     .verdicts = ret_verdicts,
					     .now = request->decided_at };
	struct here here WEIR__UNINITIALIZED;

	find_limits(fallback, request, claims, n, &here);
	if (request->operation == WEIR__STORE_TAKE && n == 1 &&
	    is_beyond_burst(&here, &claims[0], request->fallback_nodes)) {
		take_one(fallback, &claims[0], asked.now, request->fallback_nodes, ret_verdicts);
	} else if (request->operation == WEIR__STORE_TAKE || request->operation == WEIR__STORE_DEPART) {
		take(fallback, &here, request, claims, n, ret_verdicts, ret_is_closed);
	} else if (here.claims[0].limit && weir__store_gives_back(request->operation)) {
		undo(fallback, &here, request, ret_verdicts);
		unscale(ret_verdicts, &claims[0], here.scales[0]);
	} else if (here.claims[0].limit && request->operation == WEIR__STORE_UPTO && here.scales[0] > 1 &&
		   claims[0].cost > 0) {
		ret_verdicts[0] = take_up_to(table, &here.claims[0], here.scales[0], asked.now);
		unscale(ret_verdicts, &claims[0], here.scales[0]);
	} else if (here.claims[0].limit) {
		asked.claims = here.claims;
		weir__table_store_decide(table, &asked);
		unscale(ret_verdicts, &claims[0], here.scales[0]);
	} else {
		ret_verdicts[0] = by_mode(here.modes[0], &claims[0]);
		if (weir__store_gives_back(request->operation))
			ret_verdicts[0].granted = 0;
		*ret_is_closed |= !ret_verdicts[0].allowed;
	}
}

/* --- the store --------------------------------------------------------------------------------------------------- */

static weir_ns now_of(const struct fallback *fallback)
{
	struct weir_table *const table = fallback->options.table;

	return fallback->options.now ? fallback->options.now(table) : weir_table_now(table);
}

/* Units that were allowed here while the store was certainly not called are charged to the store later. */
static void defer_charges(const struct fallback *fallback, const struct weir_claim *claims,
			  const struct weir_verdict *verdicts, uint32_t n)
{
	struct weir__store *const store = fallback->options.store;

	for (uint32_t i = 0; i < n; i++)
		if (!verdicts[i].allowed)
			return;
	for (uint32_t i = 0; i < n; i++)
		if (verdicts[i].granted > 0)
			store->defer(store, &claims[i], WEIR__STORE_DEFER_CHARGE, verdicts[i].granted);
}

static void defer(const struct fallback *fallback, const struct weir__store_request *request, uint32_t first,
		  uint32_t n)
{
	struct weir__store *const store = fallback->options.store;
	const struct weir_claim *const claim = &request->claims[first];
	const struct weir_verdict *const verdict = &request->verdicts[first];

	if (store->defer == NULL)
		return;
	if (request->operation == WEIR__STORE_RESET)
		store->defer(store, claim, WEIR__STORE_DEFER_RESET, 0);
	else if (request->operation == WEIR__STORE_UNDO && request->charged_nodes > 0)
		store->defer(store, claim, WEIR__STORE_DEFER_UNDO, verdict->granted);
	else if (request->is_uncertain)
		return;
	else if (request->operation == WEIR__STORE_REFUND)
		store->defer(store, claim, WEIR__STORE_DEFER_REFUND, claim->cost);
	else if (weir__store_charges(request->operation))
		defer_charges(fallback, claim, verdict, n);
}

static void count_nodes(struct fallback *fallback)
{
	struct weir__store *const store = fallback->options.store;
	const weir_ns now = now_of(fallback);
	struct weir__store_status status;

	if (store->status == NULL || (fallback->counted_at != 0 && now - fallback->counted_at < count_nodes_ns))
		return;
	store->status(store, &status);
	fallback->nodes = status.nodes > 0 ? status.nodes : 1;
	fallback->is_joining = status.is_joining;
	fallback->counted_at = now;
}

static bool is_undo_here(const struct weir__store_request *request)
{
	return weir__store_gives_back(request->operation) && request->charged_nodes > 0;
}

/* A request without a reply may take effect until its connection is closed. Until then, a reply to another request may
 * not contain it. */
static void expect_late_effect(const struct fallback *fallback, const struct weir__store_request *request)
{
	const weir_ns until = weir__add_saturating(request->decided_at,
						   weir__add_saturating(late_effect_ns, 2 * request->budget));
	weir_ns seen = atomic_load_explicit(&fallback->shared->settled_after, memory_order_relaxed);

	while (seen < until && !atomic_compare_exchange_weak(&fallback->shared->settled_after, &seen, until))
		;
}

static void decide_without(struct fallback *fallback, struct weir__store_request *request)
{
	const uint32_t n = request->is_each ? 1 : request->n;

	count_nodes(fallback);
	request->is_uncertain = request->outcome == WEIR__STORE_UNANSWERED;
	request->decided_at = now_of(fallback);
	request->fallback_nodes = is_undo_here(request) ? request->charged_nodes : fallback->nodes;
	for (uint32_t i = 0; i < request->n; i += n) {
		bool is_closed = false; /* per group: a closed claim does not affect the other requests */

		decide_here(fallback, request, &request->claims[i], n, &request->verdicts[i], &is_closed);
		request->is_closed |= is_closed;
		defer(fallback, request, i, n);
	}
	if (request->is_uncertain)
		expect_late_effect(fallback, request);
	if (!request->is_each && request->n > 1)
		request->decision = weir__decision_of(request->verdicts, request->n);
	request->is_stored = request->n == 1 && request->verdicts[0].reset_after > 0;
	request->full_at = request->is_stored ? request->decided_at + request->verdicts[0].reset_after : 0;
	request->outcome = WEIR__STORE_DECIDED;
}

/* --- with the store ---------------------------------------------------------------------------------------------- */

/* Whether no later reply has been seen. Workers may handle replies in a different order than the store decided them. A
 * difference that such a delay cannot explain means another clock, of a store that has moved. Requests of several workers
 * may be decided at the same instant, by one call. Only the worker that handles its part first has the latest then. The
 * store's clock has whole microseconds, so the rest of the time tells the worker. */
static bool is_latest(const struct fallback *fallback, weir_ns decided_at)
{
	weir_ns seen = atomic_load_explicit(&fallback->shared->decided_at, memory_order_relaxed);
	const weir_ns mine = decided_at - decided_at % TICK_NS + fallback->worker;

	while (seen - seen % TICK_NS < mine - fallback->worker || (seen > mine && seen - mine > other_clock_ns))
		if (atomic_compare_exchange_weak(&fallback->shared->decided_at, &seen, mine))
			return true;
	return seen == mine;
}

/* The clock is read once for all replies that are collected together. */
static weir_ns collected_at(struct fallback *fallback)
{
	if (fallback->collected_at == 0)
		fallback->collected_at = now_of(fallback);
	return fallback->collected_at;
}

/* Writes the store's state into the mirror of each claim. If that state may lack charges that this server knows of, it
 * is written only where it has more usage. */
static void mirror(struct fallback *fallback, struct weir__store_request *request)
{
	struct weir__store *const store = fallback->options.store;
	struct weir_table *const table = fallback->options.table;
	const weir_ns now = collected_at(fallback);
	const bool is_whole = is_latest(fallback, request->decided_at) && !request->is_behind &&
			      now >= atomic_load_explicit(&fallback->shared->settled_after, memory_order_relaxed);

	request->is_whole = is_whole;
	if (is_whole && atomic_load_explicit(&fallback->shared->mirrored_at, memory_order_relaxed) < now)
		atomic_store_explicit(&fallback->shared->mirrored_at, now, memory_order_relaxed);
	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];

		if (request->operation == WEIR__STORE_RESET && store->defer)
			store->defer(store, claim, WEIR__STORE_DEFER_RESET, 0);
		if (!keeps_mirror(rule_of(fallback, claim->limit)))
			continue;
		if (request->operation == WEIR__STORE_RESET)
			(void)weir_table_reset(table, claim->limit, claim->key, claim->key_length);
		else
			weir__table_overwrite(table, claim->limit, claim->key, claim->key_length, now,
					      &request->verdicts[i], !is_whole);
	}
}

static bool has_rules(struct fallback *fallback, const struct weir__store_request *request)
{
	for (uint32_t i = 0; i < request->n; i++)
		if (rule_of(fallback, request->claims[i].limit)->mode == WEIR__FALLBACK_NONE)
			return false;
	return true;
}

/* Finishes a request. The fallback decides it if the store has not, and every limit has a rule. */
static void finish(struct fallback *fallback, struct weir__store_request *request)
{
	if (request->outcome == WEIR__STORE_DECIDED)
		mirror(fallback, request);
	else if (request->outcome != WEIR__STORE_STALE && !weir__store_is_lease(request->operation) &&
		 has_rules(fallback, request))
		decide_without(fallback, request);
}

static bool submit(struct weir__store *store, struct weir__store_request *request)
{
	struct fallback *const fallback = (struct fallback *)(void *)store;
	const struct weir_table_limit *limit = NULL;

	request->fallback_nodes = 0;
	request->is_uncertain = request->is_behind = request->is_whole = false;
	if (is_undo_here(request)) {
		request->outcome = WEIR__STORE_UNREACHED;
		request->is_closed = false;
		decide_without(fallback, request);
		return true;
	}
	request->budget = WEIR_NEVER;
	for (uint32_t i = 0; i < request->n; i++)
		if (request->claims[i].limit != limit) {
			limit = request->claims[i].limit;
			request->budget = weir__min(request->budget, rule_of(fallback, limit)->budget);
		}
	if (!weir__store_submit(fallback->options.store, request))
		return false;
	fallback->collected_at = 0;
	finish(fallback, request);
	return true;
}

static void completed(struct weir__store *store, struct weir__store_request *request)
{
	finish((struct fallback *)(void *)store, request);
	weir__store_complete(store, request);
}

static void flush(struct weir__store *store)
{
	weir__store_flush(((struct fallback *)(void *)store)->options.store);
}

static void collect(struct weir__store *store)
{
	struct fallback *const fallback = (struct fallback *)(void *)store;

	fallback->collected_at = 0;
	weir__store_collect(fallback->options.store);
}

static void status(struct weir__store *store_, struct weir__store_status *ret_status)
{
	struct weir__store *const store = ((struct fallback *)(void *)store_)->options.store;

	if (store->status)
		store->status(store, ret_status);
	else
		*ret_status = (struct weir__store_status){ .was_up = true, .nodes = 1 };
}

static void free_store(struct weir__store *store)
{
	struct fallback *const fallback = (struct fallback *)(void *)store;

	fallback->options.store->free(fallback->options.store);
	free(fallback);
}

struct weir__store *weir__fallback_store_new(const struct weir__fallback_options *options)
{
	const size_t n = options->table->region.limits_max;
	struct fallback *const fallback = calloc(1, sizeof(*fallback) + n * sizeof(fallback->known[0]));

	if (fallback == NULL)
		return NULL;
	fallback->options = *options;
	fallback->options.store->front = &fallback->store;
	fallback->nodes = 1;
	fallback->shared = options->shared ? options->shared : &fallback->own;
	fallback->worker = atomic_fetch_add(&fallback->shared->workers, 1) % TICK_NS;
	fallback->store = (struct weir__store){ .converts_on_look = options->store->converts_on_look,
						.submit = submit,
						.flush = flush,
						.collect = collect,
						.completed = completed,
						.status = status,
						.free = free_store };
	return &fallback->store;
}
