/* table_store.c: a table as a store. It completes every request at once, in batches where possible. */
#include "store/store.h"

#include "store/table/table_wait.h"

static uint64_t hash_of(const struct weir__store_request *request, size_t i)
{
	const struct weir_claim *const claim = &request->claims[i];

	return request->hashes ? request->hashes[i] : weir__hash(&claim->limit->secret, claim->key, claim->key_length);
}

/* Several claims, all or nothing. */
static void take_together(struct weir_table *table, struct weir__store_request *request)
{
	const struct weir_claim *const claim = &request->claims[0];
	const bool is_decided = request->n == 1 ?
					weir__table_take_while(request->epoch_check, table, claim->limit,
							       hash_of(request, 0), request->now, claim->cost,
							       &request->verdicts[0]) :
					weir__table_decide_while(request->epoch_check, table, request->claims,
								 request->hashes, request->n, request->now,
								 request->verdicts, &request->decision) == WEIR_OK;

	request->outcome = is_decided ? WEIR__STORE_DECIDED : WEIR__STORE_STALE;
}

/* Only the first claim decides whether the epoch check holds. Once something is charged, the others are charged too. */
static void take_each(struct weir_table *table, struct weir__store_request *request)
{
	const struct weir__epoch_check *epoch_check = request->epoch_check;

	request->n_current = 0;
	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];
		const uint64_t hash = hash_of(request, i);

		if (weir__table_take_while(epoch_check, table, claim->limit, hash, request->now, claim->cost,
					   &request->verdicts[i])) {
			request->n_current += epoch_check != NULL;
			continue;
		}
		if (i == 0) {
			request->outcome = WEIR__STORE_STALE;
			return;
		}
		epoch_check = NULL;
		(void)weir__table_take_while(NULL, table, claim->limit, hash, request->now, claim->cost,
					     &request->verdicts[i]);
	}
}

static struct weir_verdict undo(struct weir_table *table, const struct weir_claim *claim,
				const struct weir__store_request *request)
{
	const struct weir__charge charge = { request->charged_at, request->charged_cost };

	return weir__table_undo(table, claim->limit, claim->key, claim->key_length, request->now, &charge, claim->cost);
}

static struct weir_verdict cancel(struct weir_table *table, const struct weir_claim *claim,
				  const struct weir__store_request *request)
{
	if (!(claim->limit->first.plan.flags & WEIR_PLAN_SHAPE))
		return undo(table, claim, request);
	return weir__table_cancel(table, claim->limit, weir__hash(&claim->limit->secret, claim->key, claim->key_length),
				  request->now, claim->cost, request->charged_full_at);
}

/* Several claims that may be delayed, all or nothing. */
static void depart_together(struct weir_table *table, struct weir__store_request *request)
{
	(void)weir__table_charge_while(NULL, table, request->claims, request->hashes, request->n, request->now,
				       request->max_delay, request->verdicts, &request->decision);
}

static struct weir_verdict inspect(struct weir_table *table, const struct weir_claim *claim,
				   struct weir__store_request *request)
{
	const struct weir_table_key key = weir_table_inspect(table, claim->limit, claim->key, claim->key_length,
							     request->now);

	request->is_stored = key.is_stored;
	request->full_at = key.full_at;
	return key.verdict;
}

static struct weir_verdict decide_one(struct weir_table *table, const struct weir_claim *claim,
				      struct weir__store_request *request)
{
	const struct weir_table_limit *const limit = claim->limit;
	const weir_ns now = request->now;

	switch (request->operation) {
	case WEIR__STORE_UPTO:
		return weir_table_upto(table, limit, claim->key, claim->key_length, now, claim->cost);
	case WEIR__STORE_REFUND:
		return weir_table_refund(table, limit, claim->key, claim->key_length, now, claim->cost);
	case WEIR__STORE_UNDO:
		return undo(table, claim, request);
	case WEIR__STORE_DEPART:
		return weir__table_depart(table, limit, weir__hash(&limit->secret, claim->key, claim->key_length), now,
					  claim->cost, request->max_delay);
	case WEIR__STORE_CANCEL:
		return cancel(table, claim, request);
	case WEIR__STORE_RESET:
		return (struct weir_verdict){ .allowed = weir_table_reset(table, limit, claim->key,
									  claim->key_length) };
	case WEIR__STORE_INSPECT:
		return inspect(table, claim, request);
	default:
		return weir_table_peek(table, limit, claim->key, claim->key_length, now, claim->cost);
	}
}

/* Decides operations that are not a take. */
static void decide_other(struct weir_table *table, struct weir__store_request *request)
{
	if (request->operation == WEIR__STORE_DEPART && !request->is_each && request->n > 1) {
		depart_together(table, request);
		return;
	}
	for (uint32_t i = 0; i < request->n; i++)
		request->verdicts[i] = decide_one(table, &request->claims[i], request);
}

static inline void decide(struct weir_table *table, struct weir__store_request *request)
{
	request->outcome = WEIR__STORE_DECIDED;
	request->decided_at = request->now;
	request->fallback_nodes = 0;
	request->is_closed = false;
	if (WEIR__UNLIKELY(request->operation != WEIR__STORE_TAKE)) {
		decide_other(table, request);
	} else if (!request->is_each) {
		take_together(table, request);
	} else if (WEIR__LIKELY(request->epoch_check == NULL)) {
		weir_table_take_batch(table, request->claims, request->n, request->now, request->verdicts);
	} else {
		take_each(table, request);
	}
}

void weir__table_store_decide(struct weir_table *table, struct weir__store_request *request)
{
	decide(table, request);
}

void weir__table_store_count(const struct weir_table *table, const struct weir__store_request *request)
{
	bool is_allowed = true;

	for (uint32_t i = 0; i < request->n && !request->is_each; i++)
		is_allowed = is_allowed && request->verdicts[i].allowed;
	for (uint32_t i = 0; i < request->n; i++)
		if (request->is_each)
			weir__table_count(table, request->claims[i].limit, request->verdicts[i].allowed);
		else if (is_allowed || !request->verdicts[i].allowed)
			weir__table_count(table, request->claims[i].limit, is_allowed);
}

static bool submit(struct weir__store *store, struct weir__store_request *request)
{
	decide(store->table, request);
	return true;
}

void weir__table_store_init(struct weir__table_store *store, struct weir_table *table)
{
	*store = (struct weir__table_store){ .store = { .table = table, .submit = submit } };
}
