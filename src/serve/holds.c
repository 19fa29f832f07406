/* holds.c: a table of ids by hash, and a heap of when they end.
 *
 * Locks: that of an id's shard first, then that of the heap. */
#include "serve/holds.h"

#include <stdlib.h>

#include "os/lock.h"
#include "os/memory.h"
#include "store/table.h"

enum { SHARDS = 64, ENDED_A_TURN = 2 };

static const weir_ns asking_ns = UINT64_C(15000000000); /* longer than any store may take */

struct hold {
	uint64_t hash;
	struct hold *next; /* of the same hash place; or another free one */
	uint32_t place;    /* in the heap */
	uint32_t id_length, key_length;
	bool is_settled;
	bool is_asked;           /* it is no hold yet: the store has not answered */
	bool is_in_doubt;        /* who asked the store to settle it never came back: it may have done so */
	uint64_t run;            /* who asks the store: for the hold, or to settle it; 0: nobody */
	weir_ns run_at, run_end; /* since when; then somebody else may */
	const struct weir_table_limit *named; /* as it was asked for: by name, or NULL: by text; */
	struct weir_limit asked;              /* and as it was then */
	uint64_t cost;
	weir_ns lasts, ends_at;
	weir_ns regained_at; /* the limit, as it was, owes nothing any more of what was owed when it was taken */
	struct weir_verdict verdict;
	struct weir__settlement settlement;
	char id[WEIR__HOLD_ID_MAX], key[WEIR__HOLD_KEY_MAX];
};

struct shard {
	_Alignas(64) struct weir__lock lock;
};

struct weir__holds {
	struct weir_table *table;
	struct weir__hash_secret secret;
	uint64_t places; /* a power of 2 of at least SHARDS, so that a place has one shard */
	struct hold **by_hash;
	struct shard shards[SHARDS];
	struct weir__lock lock; /* of what follows */
	uint32_t n, most;       /* in the heap; holds there are */
	uint32_t touched;       /* those from here on were never used */
	struct hold *holds, *free;
	struct hold **heap; /* the one that ends first comes first */
};

struct weir__holds *weir__holds_new(struct weir_table *table, uint32_t most)
{
	struct weir__holds *const holds = aligned_alloc(_Alignof(struct weir__holds), sizeof(*holds));

	if (holds == NULL)
		return NULL;
	memset(holds, 0, sizeof(*holds));
	holds->table = table;
	holds->most = most;
	holds->places = SHARDS;
	while (holds->places < most)
		holds->places *= 2;
	holds->by_hash = calloc(holds->places, sizeof(struct hold *));
	holds->heap = calloc(most, sizeof(struct hold *));
	holds->holds = calloc(most, sizeof(struct hold));
	if (holds->by_hash && holds->heap && holds->holds &&
	    weir__memory_random(&holds->secret, sizeof(holds->secret)) == 0)
		return holds;
	weir__holds_free(holds);
	return NULL;
}

void weir__holds_free(struct weir__holds *holds)
{
	if (holds == NULL)
		return;
	free(holds->by_hash);
	free(holds->heap);
	free(holds->holds);
	free(holds);
}

uint32_t weir__holds_n(struct weir__holds *holds)
{
	uint32_t n;

	weir__lock_acquire(&holds->lock);
	n = holds->n;
	weir__lock_release(&holds->lock);
	return n;
}

/* --- which ends first: under the lock of the heap --------------------------------------------------------------- */

static void put(struct weir__holds *holds, uint32_t place, struct hold *hold)
{
	holds->heap[place] = hold;
	hold->place = place;
}

static void rise(struct weir__holds *holds, struct hold *hold)
{
	uint32_t place = hold->place;

	for (; place > 0 && holds->heap[(place - 1) / 2]->ends_at > hold->ends_at; place = (place - 1) / 2)
		put(holds, place, holds->heap[(place - 1) / 2]);
	put(holds, place, hold);
}

static void sink(struct weir__holds *holds, struct hold *hold)
{
	uint32_t place = hold->place;

	for (;;) {
		uint32_t child = 2 * place + 1;

		if (child + 1 < holds->n && holds->heap[child + 1]->ends_at < holds->heap[child]->ends_at)
			child++;
		if (child >= holds->n || holds->heap[child]->ends_at >= hold->ends_at)
			break;
		put(holds, place, holds->heap[child]);
		place = child;
	}
	put(holds, place, hold);
}

static void pull(struct weir__holds *holds, const struct hold *hold)
{
	const uint32_t place = hold->place;
	struct hold *const moved = holds->heap[--holds->n];

	if (moved == hold)
		return;
	put(holds, place, moved);
	rise(holds, moved);
	sink(holds, moved);
}

static struct hold *get_free(struct weir__holds *holds)
{
	struct hold *hold;

	weir__lock_acquire(&holds->lock);
	hold = holds->free;
	if (hold)
		holds->free = hold->next;
	else if (holds->touched < holds->most)
		hold = &holds->holds[holds->touched++];
	weir__lock_release(&holds->lock);
	return hold;
}

static void put_free(struct weir__holds *holds, struct hold *hold)
{
	weir__lock_acquire(&holds->lock);
	hold->next = holds->free;
	holds->free = hold;
	weir__lock_release(&holds->lock);
}

/* --- ids: under the lock of a shard ----------------------------------------------------------------------------- */

static struct weir__lock *lock_of(struct weir__holds *holds, uint64_t hash)
{
	return &holds->shards[hash % SHARDS].lock;
}

static struct hold **place_of(struct weir__holds *holds, uint64_t hash)
{
	return &holds->by_hash[hash & (holds->places - 1)];
}

static void remember(struct weir__holds *holds, struct hold *hold)
{
	struct hold **const place = place_of(holds, hold->hash);

	hold->next = *place;
	*place = hold;
	weir__lock_acquire(&holds->lock);
	put(holds, holds->n++, hold);
	rise(holds, hold);
	weir__lock_release(&holds->lock);
}

static void forget(struct weir__holds *holds, struct hold *hold)
{
	struct hold **place = place_of(holds, hold->hash);

	while (*place != hold)
		place = &(*place)->next;
	*place = hold->next;
	weir__lock_acquire(&holds->lock);
	pull(holds, hold);
	hold->next = holds->free;
	holds->free = hold;
	weir__lock_release(&holds->lock);
}

/* One whose time is over is none. */
static struct hold *find(struct weir__holds *holds, uint64_t hash, const void *id, size_t id_length, weir_ns now)
{
	struct hold *hold = *place_of(holds, hash);

	while (hold && (hold->hash != hash || hold->id_length != id_length || memcmp(hold->id, id, id_length) != 0))
		hold = hold->next;
	if (hold && hold->ends_at <= now) {
		forget(holds, hold);
		hold = NULL;
	}
	return hold;
}

/* Whose shard to lock is only known from the heap, whose lock comes later: so what was seen is looked for again. */
static bool end_one(struct weir__holds *holds, weir_ns now)
{
	uint64_t hash = 0;
	struct hold *hold;
	bool is_over;

	weir__lock_acquire(&holds->lock);
	is_over = holds->n > 0 && holds->heap[0]->ends_at <= now;
	if (is_over)
		hash = holds->heap[0]->hash;
	weir__lock_release(&holds->lock);
	if (!is_over)
		return false;
	weir__lock_acquire(lock_of(holds, hash));
	hold = *place_of(holds, hash);
	while (hold && (hold->hash != hash || hold->ends_at > now))
		hold = hold->next;
	if (hold)
		forget(holds, hold);
	weir__lock_release(lock_of(holds, hash));
	return true;
}

/* --- taking ----------------------------------------------------------------------------------------------------- */

static bool is_same(const struct hold *hold, const struct weir__hold_request *request)
{
	return hold->key_length == request->key_length && memcmp(hold->key, request->key, hold->key_length) == 0 &&
	       hold->cost == request->cost && hold->lasts == request->lasts && hold->named == request->named &&
	       (hold->named != NULL || weir__limits_is_same(&hold->asked, request->asked));
}

static void fill(struct hold *hold, uint64_t hash, const struct weir__hold_request *request, weir_ns now,
		 const struct weir_verdict *verdict)
{
	hold->hash = hash;
	hold->id_length = (uint32_t)request->id_length;
	hold->key_length = (uint32_t)request->key_length;
	hold->is_settled = hold->is_asked = hold->is_in_doubt = false;
	hold->run = 0;
	hold->named = request->named;
	hold->asked = request->named ? weir_table_limit_limit(request->named) : *request->asked;
	hold->cost = request->cost;
	hold->lasts = request->lasts;
	hold->ends_at = weir__add_saturating(now, request->lasts);
	hold->regained_at = weir__add_saturating(now, verdict->reset_after);
	hold->verdict = *verdict;
	memcpy(hold->id, request->id, request->id_length);
	memcpy(hold->key, request->key, request->key_length);
}

/* False: it is not known yet. */
static bool ask(const struct weir__holds *holds, const struct weir__hold_asker *asker,
		enum weir__seam_operation operation, const struct weir_claim *claim, weir_ns now,
		struct weir_verdict *ret_verdict)
{
	struct weir_table *const table = holds->table;

	if (asker)
		return weir__seam_ask(asker->seam, operation, claim, 1, ret_verdict);
	*ret_verdict = (operation == WEIR__SEAM_TAKE   ? weir_table_take :
			operation == WEIR__SEAM_UPTO   ? weir_table_upto :
			operation == WEIR__SEAM_REFUND ? weir_table_refund :
							 weir_table_peek)(table, claim->limit, claim->key,
									  claim->key_length, now, claim->cost);
	return true;
}

static enum weir__hold_result take(struct weir__holds *holds, uint64_t hash, const struct weir_claim *claim,
				   const struct weir__hold_asker *asker, const struct weir__hold_request *request,
				   weir_ns now, struct weir_verdict *ret_verdict)
{
	struct hold *const hold = get_free(holds);
	bool is_known;

	if (hold == NULL)
		return WEIR__HOLD_FULL;
	is_known = ask(holds, asker, WEIR__SEAM_TAKE, claim, now, ret_verdict);
	if (!ret_verdict->allowed) {
		put_free(holds, hold);
		return WEIR__HOLD_ANSWERED;
	}
	fill(hold, hash, request, now, ret_verdict);
	if (!is_known) {
		hold->is_asked = true;
		hold->run = asker->run;
		hold->ends_at = weir__add_saturating(now, asking_ns);
	}
	remember(holds, hold);
	return WEIR__HOLD_ANSWERED;
}

/* Becomes a hold, or none, if it is known by now. */
static void take_asked(struct weir__holds *holds, struct hold *hold, const struct weir_claim *claim,
		       const struct weir__hold_asker *asker, const struct weir__hold_request *request, weir_ns now,
		       struct weir_verdict *ret_verdict)
{
	if (!ask(holds, asker, WEIR__SEAM_TAKE, claim, now, ret_verdict))
		return;
	if (!ret_verdict->allowed) {
		forget(holds, hold);
		return;
	}
	weir__lock_acquire(&holds->lock);
	fill(hold, hold->hash, request, now, ret_verdict);
	rise(holds, hold);
	sink(holds, hold);
	weir__lock_release(&holds->lock);
}

enum weir__hold_result weir__holds_take(struct weir__holds *holds, struct weir__limits *limits,
					const struct weir__hold_asker *asker, const struct weir__hold_request *request,
					weir_ns now, struct weir_verdict *ret_verdict, struct weir_message *ret_message)
{
	const uint64_t hash = weir__hash(&holds->secret, request->id, request->id_length);
	struct weir_claim claim = { request->named, request->key, request->key_length, request->cost };
	enum weir__hold_result result = WEIR__HOLD_ANSWERED;
	struct hold *known;

	if (claim.limit == NULL &&
	    weir__limits_find(limits, WEIR__SPACE_TEXT, request->asked, &claim.limit, ret_message) != WEIR_OK)
		return WEIR__HOLD_REFUSED;
	for (int i = 0; i < ENDED_A_TURN && end_one(holds, now); i++)
		;
	weir__lock_acquire(lock_of(holds, hash));
	known = find(holds, hash, request->id, request->id_length, now);
	if (known == NULL) {
		result = take(holds, hash, &claim, asker, request, now, ret_verdict);
	} else if (known->is_asked && asker && known->run == asker->run) {
		take_asked(holds, known, &claim, asker, request, now, ret_verdict);
	} else if (known->is_asked) {
		result = WEIR__HOLD_BUSY;
	} else if (is_same(known, request)) {
		*ret_verdict = known->verdict;
		result = WEIR__HOLD_REPEATED;
	} else {
		result = WEIR__HOLD_OTHER;
	}
	weir__lock_release(lock_of(holds, hash));
	return result;
}

/* --- settling --------------------------------------------------------------------------------------------------- */

/* How much of what was owed once it was taken has not come back by itself; what was held comes back last. More must not be
 * given back: what the limit has regained since may be taken already. A fixed window regains all at once. */
static uint64_t still_owed(const struct hold *hold, weir_ns now)
{
	const struct weir_limit *const limit = &hold->asked;
	const uint64_t owed = hold->verdict.limit - hold->verdict.remaining;
	const weir_ns left = hold->regained_at - now;
	weir__u128 periods, periods_left;

	if (limit->algorithm != WEIR_TOKEN_BUCKET && limit->algorithm != WEIR_LEAKY_BUCKET)
		return UINT64_MAX;
	if (!limit->refill_interval)
		return weir__saturate(weir__mul_div_up(left, limit->count, limit->period));
	periods = weir__div_up(owed, limit->count);
	periods_left = weir__div_up(left, limit->period);
	if (periods <= periods_left)
		return owed;
	return owed - weir__min(owed, weir__saturate((periods - periods_left) * limit->count));
}

/* Whether what was held can be told from what others were charged in the same window. A store cannot tell. */
static bool is_told_apart(const struct weir__hold_asker *asker, const struct hold *hold)
{
	return asker == NULL &&
	       (hold->asked.algorithm == WEIR_SLIDING_LOG || hold->asked.algorithm == WEIR_SLIDING_COUNTER);
}

/* False: it is not known yet. */
static bool give_back(const struct weir__holds *holds, const struct weir__hold_asker *asker, const struct hold *hold,
		      struct weir_claim *claim, uint64_t n, weir_ns now, struct weir__settlement *settlement)
{
	if (is_told_apart(asker, hold)) {
		settlement->refunded = weir__table_refund_of(holds->table, claim->limit, claim->key, claim->key_length,
							     hold->ends_at - hold->lasts, n);
		return ask(holds, asker, WEIR__SEAM_PEEK, claim, now, &settlement->verdict);
	}
	claim->cost = settlement->refunded = weir__min(n, still_owed(hold, now));
	return ask(holds, asker, WEIR__SEAM_REFUND, claim, now, &settlement->verdict);
}

/* False: it is not known yet. */
static bool settle(const struct weir__holds *holds, const struct weir__hold_asker *asker, const struct hold *hold,
		   const struct weir_table_limit *limit, uint64_t actual, weir_ns now,
		   struct weir__settlement *ret_settlement)
{
	struct weir__settlement settlement = { .held = hold->cost, .actual = actual };
	struct weir_claim claim = { limit, hold->key, hold->key_length, 0 };
	bool is_known;

	if (actual > hold->cost) {
		claim.cost = actual - hold->cost;
		is_known = ask(holds, asker, WEIR__SEAM_UPTO, &claim, now, &settlement.verdict);
		settlement.charged = settlement.verdict.granted;
		settlement.beyond = claim.cost - settlement.charged;
	} else if (actual < hold->cost && now < hold->regained_at && !hold->is_in_doubt) {
		is_known = give_back(holds, asker, hold, &claim, hold->cost - actual, now, &settlement);
	} else {
		is_known = ask(holds, asker, WEIR__SEAM_PEEK, &claim, now, &settlement.verdict);
	}
	*ret_settlement = settlement;
	return is_known;
}

/* Whether nobody else is about to settle it. What is asked is as of when that began. */
static bool may_settle(struct hold *hold, const struct weir__hold_asker *asker, weir_ns *now)
{
	if (asker == NULL)
		return true;
	if (hold->run != asker->run) {
		if (hold->run != 0 && *now < hold->run_end)
			return false;
		hold->is_in_doubt |= hold->run != 0;
		hold->run = asker->run;
		hold->run_at = *now;
		hold->run_end = weir__add_saturating(*now, asking_ns);
	}
	*now = hold->run_at;
	return true;
}

static enum weir__hold_result settle_found(struct weir__holds *holds, struct weir__limits *limits,
					   const struct weir__hold_asker *asker, struct hold *hold, uint64_t actual,
					   weir_ns now, struct weir_message *ret_message)
{
	const struct weir_table_limit *limit = hold->named;

	if (hold->is_settled)
		return hold->settlement.actual == actual ? WEIR__HOLD_ANSWERED : WEIR__HOLD_OTHER;
	if (limit == NULL && weir__limits_find(limits, WEIR__SPACE_TEXT, &hold->asked, &limit, ret_message) != WEIR_OK)
		return WEIR__HOLD_REFUSED;
	if (!may_settle(hold, asker, &now))
		return WEIR__HOLD_BUSY;
	hold->is_settled = settle(holds, asker, hold, limit, actual, now, &hold->settlement);
	return WEIR__HOLD_ANSWERED;
}

enum weir__hold_result weir__holds_settle(struct weir__holds *holds, struct weir__limits *limits,
					  const struct weir__hold_asker *asker, const void *id, size_t id_length,
					  uint64_t actual, weir_ns now, struct weir__settlement *ret_settlement,
					  struct weir_message *ret_message)
{
	const uint64_t hash = weir__hash(&holds->secret, id, id_length);
	enum weir__hold_result result = WEIR__HOLD_UNKNOWN;
	struct hold *hold;

	weir__lock_acquire(lock_of(holds, hash));
	hold = find(holds, hash, id, id_length, now);
	if (hold && !hold->is_asked)
		result = settle_found(holds, limits, asker, hold, actual, now, ret_message);
	if (result == WEIR__HOLD_ANSWERED)
		*ret_settlement = hold->settlement;
	weir__lock_release(lock_of(holds, hash));
	return result;
}
