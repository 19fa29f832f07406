/* routed_store.c: splits requests between a table and the store behind. */
#include "store/routed_store.h"

#include <stdlib.h>

#include "core/notation.h"
#include "store/table/decision.h"

enum { SPARE_MOST = 16, ROOM_LEAST = WEIR_TABLE_CLAIMS_MAX };

static const weir_ns no_memory_ns = 1000000000; /* retry_after of a request that is denied because memory ran out */

enum stage {
	EACH,    /* each claim by itself */
	CHARGED, /* the table has allowed and is charged */
	DENIED,  /* the table has denied; limits with count all count the attempt */
};

/* A request for both: the part that the store behind decides. */
struct split {
	struct weir__store_request part; /* first member: the two convert by a cast */
	struct routed *routed;
	struct weir__store_request *whole;
	struct split *next_spare;
	enum stage stage;
	/* For claims decided together, a bit for each claim that was in the table when the request was submitted. The
	 * rules may change meanwhile. */
	uint32_t in_table;
	weir_ns charged_at; /* by the table's clock */
	uint32_t room;      /* claims */
	struct weir_verdict *verdicts;
	/* Twice the room: when the whole request moves, its keys move, and the part gets claims with the new addresses.
	 * A store that has begun to read the old ones sees that from the address of the claims. */
	struct weir_claim *claims;
	uint32_t of[]; /* for each claim of the part: its index in the whole */
};

struct routed {
	struct weir__store store; /* first member: the two convert by a cast */
	struct weir__routed_options options;
	uint64_t version; /* of the rules, plus 1; 0: not read yet */
	bool has_any;
	struct split *spare;
	uint32_t n_spare;
	uint64_t known[]; /* for each limit of the table: 2 * version + whether its state is in the table */
};

/* --- rules ------------------------------------------------------------------------------------------------------- */

static bool is_in_table(struct routed *routed, const struct weir_table_limit *limit)
{
	uint64_t *known;

	if (limit->name[0] == '\0') /* an inline limit has no name */
		return false;
	known = &routed->known[limit->index];
	if (*known / 2 != routed->version)
		*known = 2 * routed->version + routed->options.is_in_table(routed->options.context, limit);
	return *known % 2;
}

static uint32_t count_in_table(struct routed *routed, const struct weir__store_request *request)
{
	const struct weir_table_limit *limit = NULL;
	bool is_here = false;
	uint32_t n = 0;

	for (uint32_t i = 0; i < request->n; i++) {
		if (request->claims[i].limit != limit) {
			limit = request->claims[i].limit;
			is_here = is_in_table(routed, limit);
		}
		n += is_here;
	}
	return n;
}

/* --- splits ------------------------------------------------------------------------------------------------------ */

static struct split *new_split(struct routed *routed, uint32_t n)
{
	const uint32_t room = n > ROOM_LEAST ? n : ROOM_LEAST;
	struct split *split = routed->spare;

	if (split && n <= split->room) {
		routed->spare = split->next_spare;
		routed->n_spare--;
		return split;
	}
	split = malloc(sizeof(*split) + room * sizeof(split->of[0]));
	if (split == NULL)
		return NULL;
	split->routed = routed;
	split->room = room;
	split->claims = malloc(2 * (size_t)room * sizeof(*split->claims));
	split->verdicts = malloc(room * sizeof(*split->verdicts));
	if (split->claims && split->verdicts)
		return split;
	free(split->claims);
	free(split->verdicts);
	free(split);
	return NULL;
}

static void free_split(struct split *split)
{
	free(split->claims);
	free(split->verdicts);
	free(split);
}

static void recycle(struct split *split)
{
	struct routed *const routed = split->routed;

	if (routed->n_spare == SPARE_MOST || split->room > ROOM_LEAST) {
		free_split(split);
		return;
	}
	split->next_spare = routed->spare;
	routed->spare = split;
	routed->n_spare++;
}

/* The whole request moves, and its keys and inline limits with it. */
static struct weir__store_request *keep_part(struct weir__store_request *part)
{
	struct split *const split = (struct split *)(void *)part;
	struct weir__store_request *const kept = split->whole->caller->keep(split->whole);

	if (kept == NULL)
		return NULL;
	split->whole = kept;
	part->claims = split->claims + split->room;
	for (uint32_t i = 0; i < part->n; i++)
		split->claims[split->room + i] = kept->claims[split->of[i]];
	return part;
}

/* --- the table --------------------------------------------------------------------------------------------------- */

/* The index of the first claim of the request with the same limit and key. The table and Redis charge them as one. */
static uint32_t first_like(const struct weir__store_request *request, uint32_t i)
{
	const struct weir_claim *const claim = &request->claims[i];

	for (uint32_t j = 0; j < i; j++)
		if (request->claims[j].limit == claim->limit && request->claims[j].key_length == claim->key_length &&
		    (claim->key_length == 0 || memcmp(request->claims[j].key, claim->key, claim->key_length) == 0))
			return j;
	return i;
}

/* Counts as the table does for its own decisions: for all limits if the request is allowed, else for limits that
 * denied. The caller counts a departure. */
static void count(const struct split *split, bool is_allowed)
{
	const struct weir__store_request *const whole = split->whole;

	for (uint32_t i = 0; i < whole->n && whole->operation == WEIR__STORE_TAKE; i++)
		if (split->in_table >> i & 1 && first_like(whole, i) == i &&
		    (is_allowed || !whole->verdicts[i].allowed))
			weir__table_count(split->routed->options.table, whole->claims[i].limit, is_allowed);
}

/* Undoes the charge of a claim, and of those with the same key. Afterwards the verdict says that the limit allowed the
 * request and was not charged. */
static void undo(const struct split *split, uint32_t i)
{
	struct weir_table *const table = split->routed->options.table;
	struct weir__store_request *const whole = split->whole;
	struct weir_claim claim = whole->claims[i];
	struct weir__store_request asked = { .operation = WEIR__STORE_CANCEL,
					     .is_each = true,
					     .n = 1,
					     .claims = &claim,
					     .verdicts = &whole->verdicts[i],
					     .now = weir_table_now(table),
					     .charged_at = split->charged_at,
					     .charged_full_at = weir__add_saturating(split->charged_at,
										     whole->verdicts[i].reset_after) };

	for (uint32_t j = i + 1; j < whole->n; j++)
		if (first_like(whole, j) == i)
			claim.cost = weir__add_saturating(claim.cost, whole->claims[j].cost);
	asked.charged_cost = claim.cost;
	weir__table_store_decide(table, &asked);
	whole->verdicts[i].granted = 0;
}

static void undo_all(const struct split *split)
{
	const struct weir__store_request *const whole = split->whole;

	for (uint32_t i = 0; i < whole->n; i++) {
		const uint32_t first = first_like(whole, i);

		if (!(split->in_table >> i & 1))
			continue;
		if (first == i)
			undo(split, i);
		else
			whole->verdicts[i] = whole->verdicts[first];
	}
}

/* Charges the claims of the table together, or none of them. Returns false if the epoch check failed. */
static bool charge(struct split *split, struct weir__store_request *whole, bool *ret_is_allowed)
{
	struct routed *const routed = split->routed;
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX];
	uint64_t hashes[WEIR_TABLE_CLAIMS_MAX];
	uint32_t of[WEIR_TABLE_CLAIMS_MAX], n = 0;
	struct weir_decision decision;

	split->in_table = 0;
	for (uint32_t i = 0; i < whole->n; i++) {
		if (!is_in_table(routed, whole->claims[i].limit))
			continue;
		split->in_table |= UINT32_C(1) << i;
		claims[n] = whole->claims[i];
		hashes[n] = whole->hashes ? whole->hashes[i] : 0;
		of[n++] = i;
	}
	if (weir__table_charge_while(whole->epoch_check, routed->options.table, claims, whole->hashes ? hashes : NULL,
				     n, whole->now,
				     whole->operation == WEIR__STORE_DEPART ? whole->max_delay : WEIR_NEVER, verdicts,
				     &decision) != WEIR_OK)
		return false;
	for (uint32_t i = 0; i < n; i++)
		whole->verdicts[of[i]] = verdicts[i];
	*ret_is_allowed = decision.verdict.allowed;
	return true;
}

/* --- completing -------------------------------------------------------------------------------------------------- */

static uint64_t most_of(const struct weir_claim *claim)
{
	const struct weir_limit limit = weir_table_limit_limit(claim->limit);

	return weir__limit_is_bucket(&limit) ? limit.burst : limit.count;
}

/* The verdict of a limit that was not needed for the decision. */
static struct weir_verdict not_asked(const struct weir_claim *claim)
{
	const uint64_t most = most_of(claim);

	return (struct weir_verdict){ .allowed = true, .limit = most, .remaining = most };
}

/* Call it when the store behind has decided its part. */
static void finish(struct split *split)
{
	const struct weir__store_request *const part = &split->part;
	struct weir__store_request *const whole = split->whole;
	const bool is_decided = part->outcome == WEIR__STORE_DECIDED;
	bool is_allowed = is_decided;

	for (uint32_t i = 0; i < part->n && is_decided; i++) {
		whole->verdicts[split->of[i]] = part->verdicts[i];
		is_allowed = is_allowed && part->verdicts[i].allowed;
		if (split->stage == DENIED) /* the attempt counted, but nothing was granted */
			whole->verdicts[split->of[i]].granted = whole->verdicts[split->of[i]].delay = 0;
	}
	whole->outcome = part->outcome;
	whole->decided_at = part->decided_at;
	whole->fallback_nodes = part->fallback_nodes;
	whole->is_uncertain = part->is_uncertain;
	whole->is_closed = part->is_closed && split->stage != DENIED;
	if (split->stage == CHARGED && is_allowed)
		count(split, true);
	else if (split->stage == CHARGED)
		undo_all(split);
	if (split->stage != EACH)
		whole->decision = weir__decision_of(whole->verdicts, whole->n);
}

static void complete_part(struct weir__store_request *part)
{
	struct split *const split = (struct split *)(void *)part;
	struct weir__store_request *const whole = split->whole;
	const struct weir__store *const store = &split->routed->store;

	finish(split);
	recycle(split);
	weir__store_complete(store, whole);
}

static const struct weir__store_caller part_caller = { keep_part, complete_part };

/* --- submitting -------------------------------------------------------------------------------------------------- */

/* Returns true if the request is complete. */
static bool submit_part(struct split *split, bool is_each)
{
	struct weir__store_request *const part = &split->part, *const whole = split->whole;
	struct weir__store *const behind = split->routed->options.store;

	*part = (struct weir__store_request){ .operation = whole->operation,
					      .is_each = is_each,
					      .n = part->n,
					      .claims = split->claims,
					      .verdicts = split->verdicts,
					      .now = whole->now,
					      .max_delay = whole->max_delay,
					      .caller = &part_caller };
	if (!weir__store_submit(behind, part))
		return false;
	finish(split);
	recycle(split);
	return true;
}

/* Denies the claims of the store behind, and all claims if they are decided together. */
static bool deny_without_memory(struct routed *routed, struct weir__store_request *whole)
{
	for (uint32_t i = 0; i < whole->n; i++)
		if (!whole->is_each || !is_in_table(routed, whole->claims[i].limit))
			whole->verdicts[i] = (struct weir_verdict){ .limit = most_of(&whole->claims[i]),
								    .retry_after = no_memory_ns,
								    .reset_after = no_memory_ns };
	whole->outcome = WEIR__STORE_DECIDED;
	whole->decided_at = whole->now;
	whole->fallback_nodes = 0;
	whole->is_closed = true;
	if (!whole->is_each)
		whole->decision = weir__decision_of(whole->verdicts, whole->n);
	return true;
}

/* Fills in the claims that go to the store behind: all that are not in the table, or only those with count all. */
static void fill_part(struct split *split, struct weir__store_request *whole, bool is_count_all)
{
	split->whole = whole;
	split->part.n = 0;
	for (uint32_t i = 0; i < whole->n; i++) {
		const struct weir_table_limit *const limit = whole->claims[i].limit;

		if (is_in_table(split->routed, limit) ||
		    (is_count_all && !(limit->first.plan.flags & WEIR_PLAN_COUNT_ALL)))
			continue;
		split->of[split->part.n] = i;
		split->claims[split->part.n++] = whole->claims[i];
	}
}

static bool submit_together(struct routed *routed, struct weir__store_request *whole)
{
	struct split *const split = new_split(routed, whole->n);
	bool is_allowed;

	if (split == NULL)
		return deny_without_memory(routed, whole);
	if (!charge(split, whole, &is_allowed)) {
		whole->outcome = WEIR__STORE_STALE;
		recycle(split);
		return true;
	}
	split->charged_at = whole->now;
	split->stage = is_allowed ? CHARGED : DENIED;
	fill_part(split, whole, !is_allowed);
	if (is_allowed)
		return submit_part(split, false);
	for (uint32_t i = 0; i < whole->n; i++)
		if (!is_in_table(routed, whole->claims[i].limit))
			whole->verdicts[i] = not_asked(&whole->claims[i]);
	count(split, false);
	if (split->part.n > 0)
		return submit_part(split, true);
	split->part = (struct weir__store_request){ .outcome = WEIR__STORE_DECIDED,
						    .decided_at = whole->now,
						    .fallback_nodes = WEIR__STORE_IN_TABLE };
	finish(split);
	recycle(split);
	return true;
}

/* The table decides its claims now, in order. `verdicts` and `claims` have room for all. */
static bool decide_each(struct routed *routed, struct weir__store_request *whole, struct weir_claim *claims,
			struct weir_verdict *verdicts, uint32_t *of)
{
	struct weir__store_request here = { .operation = whole->operation,
					    .is_each = true,
					    .claims = claims,
					    .verdicts = verdicts,
					    .now = whole->now,
					    .epoch_check = whole->epoch_check };

	for (uint32_t i = 0; i < whole->n; i++)
		if (is_in_table(routed, whole->claims[i].limit)) {
			of[here.n] = i;
			claims[here.n++] = whole->claims[i];
		}
	weir__table_store_decide(routed->options.table, &here);
	if (here.outcome == WEIR__STORE_STALE)
		return false;
	for (uint32_t i = 0; i < here.n; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.ArraySubscript): set above, up to here.n */
		whole->verdicts[of[i]] = verdicts[i];
	whole->n_current = whole->epoch_check && here.n_current < here.n ? of[here.n_current] : whole->n;
	return true;
}

static bool submit_each(struct routed *routed, struct weir__store_request *whole)
{
	struct split *const split = new_split(routed, whole->n);

	if (split == NULL)
		return deny_without_memory(routed, whole);
	if (!decide_each(routed, whole, split->claims, split->verdicts, split->of)) {
		whole->outcome = WEIR__STORE_STALE;
		recycle(split);
		return true;
	}
	split->stage = EACH;
	fill_part(split, whole, false);
	return submit_part(split, true);
}

static bool submit_in_table(struct routed *routed, struct weir__store_request *request)
{
	weir__table_store_decide(routed->options.table, request);
	request->fallback_nodes = WEIR__STORE_IN_TABLE;
	return true;
}

static bool submit(struct weir__store *store, struct weir__store_request *request)
{
	struct routed *const routed = (struct routed *)(void *)store;
	const uint64_t version = routed->options.version(routed->options.context) + 1;
	uint32_t n;

	if (WEIR__UNLIKELY(version != routed->version)) {
		routed->has_any = routed->options.has_any(routed->options.context);
		routed->version = version;
	}
	if (WEIR__UNLIKELY(weir__store_gives_back(request->operation))) /* where the charge was made */
		n = request->charged_nodes == WEIR__STORE_IN_TABLE ? request->n : 0;
	else
		n = routed->has_any ? count_in_table(routed, request) : 0;
	if (n == 0)
		return weir__store_submit(routed->options.store, request);
	if (n == request->n)
		return submit_in_table(routed, request);
	return request->is_each ? submit_each(routed, request) : submit_together(routed, request);
}

/* --- the store --------------------------------------------------------------------------------------------------- */

static void flush(struct weir__store *store)
{
	weir__store_flush(((struct routed *)(void *)store)->options.store);
}

static void collect(struct weir__store *store)
{
	weir__store_collect(((struct routed *)(void *)store)->options.store);
}

static weir_ns due(struct weir__store *store, weir_ns now)
{
	return weir__store_due(((struct routed *)(void *)store)->options.store, now);
}

static bool leave(struct weir__store *store, bool goes_on)
{
	return weir__store_leave(((struct routed *)(void *)store)->options.store, goes_on);
}

static void status(struct weir__store *store_, struct weir__store_status *ret_status)
{
	struct weir__store *const store = ((struct routed *)(void *)store_)->options.store;

	store->status(store, ret_status);
}

static void free_store(struct weir__store *store)
{
	struct routed *const routed = (struct routed *)(void *)store;

	while (routed->spare) {
		struct split *const split = routed->spare;

		routed->spare = split->next_spare;
		free_split(split);
	}
	routed->options.store->free(routed->options.store);
	free(routed);
}

struct weir__store *weir__routed_store_new(const struct weir__routed_options *options)
{
	const size_t n = options->table->region.limits_max;
	struct routed *const routed = calloc(1, sizeof(*routed) + n * sizeof(routed->known[0]));

	if (routed == NULL)
		return NULL;
	routed->options = *options;
	routed->store = (struct weir__store){ .converts_on_look = options->store->converts_on_look,
					      .submit = submit,
					      .flush = flush,
					      .collect = collect,
					      .due = options->store->due ? due : NULL,
					      .leave = options->store->leave ? leave : NULL,
					      .status = options->store->status ? status : NULL,
					      .free = free_store };
	return &routed->store;
}
