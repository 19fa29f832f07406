/* fallback_store.c: decides with a table what the store behind did not decide. */
#include "store/fallback_store.h"

#include <stdlib.h>

#include "core/notation.h"
#include "core/uninitialized.h"
#include "store/table/decision.h"
#include "store/table/inline_limit.h"

static const weir_ns closed_ns = 1000000000;     /* retry_after and reset_after of a closed limit */
static const weir_ns count_nodes_ns = 100000000; /* how often to read the number of servers from the store */

/* A cached rule of a limit of the table. */
struct known {
	uint64_t version; /* version of the rules when this was read, plus 1; 0: not read yet */
	struct weir__fallback_rule rule;
};

struct fallback {
	struct weir__store store; /* first member: the two convert by a cast */
	struct weir__fallback_options options;
	uint32_t nodes; /* servers that share a limit, as the store last reported; at least 1 */
	weir_ns counted_at;
	struct known known[];
};

/* --- rules ------------------------------------------------------------------------------------------------------- */

static const struct weir__fallback_rule *rule_of(struct fallback *fallback, const struct weir_table_limit *limit)
{
	const struct weir__fallback_options *const options = &fallback->options;
	struct known *known;
	uint64_t version;

	if (options->context == NULL || limit->name[0] == '\0') /* an inline limit has no name */
		return &options->otherwise;
	known = &fallback->known[limit->index];
	version = options->version(options->context) + 1;
	if (known->version != version) {
		known->rule = options->otherwise;
		options->find_rule(options->context, limit, &known->rule);
		known->version = version;
	}
	return &known->rule;
}

/* --- without the store ------------------------------------------------------------------------------------------- */

/* The share of a limit for one of `nodes` servers. The key space contains the limit and the number of servers, so
 * that different shares have different keys. */
static bool make_share(const struct fallback *fallback, const struct weir_table_limit *of, uint32_t nodes,
		       struct weir_table_limit *ret_limit)
{
	struct {
		char word[8];
		struct weir__hash_secret secret;
		struct weir_limit limit;
		uint64_t nodes;
	} space;
	struct weir_limit limit = weir_table_limit_limit(of);

	memset(&space, 0, sizeof(space));
	memcpy(space.word, "\0share", 7);
	space.secret = of->secret;
	space.limit.algorithm = limit.algorithm;
	space.limit.count = limit.count;
	space.limit.period = limit.period;
	space.limit.burst = limit.burst;
	space.limit.segments = limit.segments;
	space.limit.refill_interval = limit.refill_interval;
	space.limit.shape = limit.shape;
	space.limit.align_first = limit.align_first;
	space.limit.count_all = limit.count_all;
	space.nodes = nodes;
	limit.count = limit.count / nodes + (limit.count % nodes != 0);
	limit.burst = limit.burst / nodes + (limit.burst % nodes != 0);
	return weir__inline_limit_init(ret_limit, fallback->options.table, &space, sizeof(space), &limit, of, NULL) ==
	       WEIR_OK;
}

/* Claims to decide here, each by its rule. The table decides its claims together. */
struct here {
	enum weir__fallback_mode modes[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX]; /* .limit NULL: the mode alone decides */
	struct weir_table_limit made[WEIR_TABLE_CLAIMS_MAX];
};

/* A limit that comes twice gets one object, so that the table recognizes a key that comes twice. */
static const struct weir_table_limit *share_of(const struct fallback *fallback, struct here *here,
					       const struct weir_claim *claims, size_t i, uint32_t nodes)
{
	for (size_t j = 0; j < i; j++)
		if (claims[j].limit == claims[i].limit)
			return here->claims[j].limit;
	return make_share(fallback, claims[i].limit, nodes, &here->made[i]) ? &here->made[i] : NULL;
}

/* A share that the table cannot represent counts as closed. */
static void find_limits(struct fallback *fallback, const struct weir_claim *claims, size_t n, uint32_t nodes,
			struct here *here)
{
	for (size_t i = 0; i < n; i++) {
		const struct weir__fallback_rule *const rule = rule_of(fallback, claims[i].limit);
		const struct weir_table_limit *limit = NULL;

		if (rule->mode == WEIR__FALLBACK_LOCAL && rule->local)
			limit = rule->local;
		else if (rule->mode == WEIR__FALLBACK_SHARE || rule->mode == WEIR__FALLBACK_LOCAL)
			limit = share_of(fallback, here, claims, i, nodes);
		here->claims[i] = claims[i];
		here->claims[i].limit = limit;
		here->modes[i] = limit == NULL && rule->mode != WEIR__FALLBACK_OPEN ? WEIR__FALLBACK_CLOSED :
										      rule->mode;
	}
}

/* The verdict for a claim that the table does not decide. */
static struct weir_verdict by_mode(enum weir__fallback_mode mode, const struct weir_claim *claim)
{
	const struct weir_limit limit = weir_table_limit_limit(claim->limit);
	const bool is_bucket = weir__limit_is_bucket(&limit);
	const uint64_t most = is_bucket ? limit.burst : limit.count;

	if (mode == WEIR__FALLBACK_OPEN)
		return (struct weir_verdict){
			.allowed = true, .limit = most, .remaining = most, .granted = claim->cost
		};
	return (struct weir_verdict){ .limit = most, .retry_after = closed_ns, .reset_after = closed_ns };
}

/* All or nothing: if one claim is closed, nothing is charged. */
static void take(const struct fallback *fallback, const struct here *here, const struct weir_claim *claims,
		 size_t n_claims, weir_ns now, struct weir_verdict *ret_verdicts, bool *ret_is_closed)
{
	struct weir_table *const table = fallback->options.table;
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim of_table[WEIR_TABLE_CLAIMS_MAX];
	size_t of[WEIR_TABLE_CLAIMS_MAX], n = 0;
	struct weir_decision decision;

	for (size_t i = 0; i < n_claims; i++) {
		if (here->claims[i].limit) {
			of[n] = i;
			of_table[n++] = here->claims[i];
			continue;
		}
		ret_verdicts[i] = by_mode(here->modes[i], &claims[i]);
		*ret_is_closed |= !ret_verdicts[i].allowed;
		weir__table_count(table, claims[i].limit, ret_verdicts[i].allowed);
	}
	if (n > 0 && !*ret_is_closed)
		(void)weir_table_decide(table, of_table, n, now, verdicts, &decision);
	for (size_t i = 0; i < n; i++)
		ret_verdicts[of[i]] = *ret_is_closed ? weir_table_peek(table, of_table[i].limit, of_table[i].key,
								       of_table[i].key_length, now, of_table[i].cost) :
						       verdicts[i];
}

/* A charge is undone where it was made. A charge of the store is not in the table, so nothing is given back here. */
static void undo(const struct fallback *fallback, const struct here *here, const struct weir__store_request *request,
		 struct weir_verdict *ret_verdict)
{
	struct weir_claim claim = here->claims[0];
	struct weir__store_request asked = { .operation = WEIR__STORE_UNDO,
					     .is_each = true,
					     .n = 1,
					     .claims = &claim,
					     .verdicts = ret_verdict,
					     .now = request->decided_at,
					     .charged_at = request->charged_at,
					     .charged_cost = request->charged_cost };

	if (request->charged_nodes == 0)
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

	find_limits(fallback, claims, n, request->fallback_nodes, &here);
	if (request->operation == WEIR__STORE_TAKE) {
		take(fallback, &here, claims, n, asked.now, ret_verdicts, ret_is_closed);
	} else if (here.claims[0].limit && request->operation == WEIR__STORE_UNDO) {
		undo(fallback, &here, request, ret_verdicts);
	} else if (here.claims[0].limit) {
		asked.claims = here.claims;
		weir__table_store_decide(table, &asked);
	} else {
		ret_verdicts[0] = by_mode(here.modes[0], &claims[0]);
		if (request->operation == WEIR__STORE_UNDO)
			ret_verdicts[0].granted = 0;
		*ret_is_closed |= !ret_verdicts[0].allowed;
	}
}

/* --- the store --------------------------------------------------------------------------------------------------- */

/* Units that were allowed here while the store was certainly not called are charged to the store later. */
static void defer(const struct fallback *fallback, const struct weir_claim *claims, const struct weir_verdict *verdicts,
		  uint32_t n)
{
	struct weir__store *const store = fallback->options.store;

	for (uint32_t i = 0; i < n; i++)
		if (!verdicts[i].allowed)
			return;
	for (uint32_t i = 0; i < n; i++)
		if (verdicts[i].granted > 0)
			store->defer(store, &claims[i], verdicts[i].granted);
}

static void count_nodes(struct fallback *fallback)
{
	struct weir__store *const store = fallback->options.store;
	const weir_ns now = weir_table_now(fallback->options.table);
	struct weir__store_status status;

	if (store->status == NULL || now - fallback->counted_at < count_nodes_ns)
		return;
	store->status(store, &status);
	fallback->nodes = status.nodes > 0 ? status.nodes : 1;
	fallback->counted_at = now;
}

static bool is_undo_here(const struct weir__store_request *request)
{
	return request->operation == WEIR__STORE_UNDO && request->charged_nodes > 0;
}

static void decide_without(struct fallback *fallback, struct weir__store_request *request)
{
	const bool is_deferred = request->outcome == WEIR__STORE_UNREACHED && fallback->options.store->defer &&
				 weir__store_charges(request->operation);
	const uint32_t n = request->is_each ? 1 : request->n;

	count_nodes(fallback);
	request->decided_at = weir_table_now(fallback->options.table);
	request->fallback_nodes = is_undo_here(request) ? request->charged_nodes : fallback->nodes;
	for (uint32_t i = 0; i < request->n; i += n) {
		bool is_closed = false; /* per group: a closed claim does not affect the other requests */

		decide_here(fallback, request, &request->claims[i], n, &request->verdicts[i], &is_closed);
		request->is_closed |= is_closed;
		if (is_deferred)
			defer(fallback, &request->claims[i], &request->verdicts[i], n);
	}
	if (!request->is_each && request->n > 1)
		request->decision = weir__decision_of(request->verdicts, request->n);
	request->is_stored = request->n == 1 && request->verdicts[0].reset_after > 0;
	request->full_at = request->is_stored ? request->decided_at + request->verdicts[0].reset_after : 0;
	request->outcome = WEIR__STORE_DECIDED;
}

static bool is_decided(const struct weir__store_request *request)
{
	return request->outcome != WEIR__STORE_UNREACHED && request->outcome != WEIR__STORE_UNANSWERED;
}

static bool submit(struct weir__store *store, struct weir__store_request *request)
{
	struct fallback *const fallback = (struct fallback *)(void *)store;
	const struct weir_table_limit *limit = NULL;

	request->fallback_nodes = 0;
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
	if (!is_decided(request))
		decide_without(fallback, request);
	return true;
}

static void completed(struct weir__store *store, struct weir__store_request *request)
{
	if (!is_decided(request))
		decide_without((struct fallback *)(void *)store, request);
	weir__store_complete(store, request);
}

static void flush(struct weir__store *store)
{
	weir__store_flush(((struct fallback *)(void *)store)->options.store);
}

static void collect(struct weir__store *store)
{
	weir__store_collect(((struct fallback *)(void *)store)->options.store);
}

static void status(struct weir__store *store_, struct weir__store_status *ret_status)
{
	struct weir__store *const store = ((struct fallback *)(void *)store_)->options.store;

	if (store->status)
		store->status(store, ret_status);
	else
		*ret_status = (struct weir__store_status){ .nodes = 1 };
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
	fallback->store = (struct weir__store){ .converts_on_look = options->store->converts_on_look,
						.submit = submit,
						.flush = flush,
						.collect = collect,
						.completed = completed,
						.status = status,
						.free = free_store };
	return &fallback->store;
}
