/* holds.c: a hash table of ids, and a heap of expiry times.
 *
 * Lock order: the shard of an id first, then the heap. */
#include "engine/holds.h"

#include <stdlib.h>

#include "core/notation.h"
#include "os/lock.h"
#include "os/memory.h"

enum { SHARDS = 64, ENDED_A_TURN = 2 };

struct weir__hold {
	uint64_t hash;
	struct weir__hold *next; /* in the same hash chain, or in the free list */
	uint32_t place;          /* index in the heap */
	uint32_t id_length, key_length;
	bool is_settled;
	bool is_pending; /* the store is deciding the take or the settlement: do not forget the hold */
	bool is_taken;   /* false: reserved, the store has not decided the take yet */
	const struct weir_table_limit *named; /* the limit named in the request; NULL: an inline limit */
	struct weir_limit stated;             /* the inline limit, or the named limit at the time of the take */
	uint64_t cost;
	weir_ns lasts, ends_at;
	/* When all usage that the key had right after the take has refilled, by the limit of that time. */
	weir_ns regained_at;
	struct weir_verdict verdict;
	struct weir__settlement settlement;
	char id[WEIR__HOLD_ID_MAX], key[WEIR__HOLD_KEY_MAX];
};

struct shard {
	_Alignas(64) struct weir__lock lock;
};

struct weir__holds {
	struct weir__hash_secret secret;
	uint64_t places; /* a power of 2, at least SHARDS, so that a chain belongs to one shard */
	struct weir__hold **by_hash;
	struct shard shards[SHARDS];
	struct weir__lock lock; /* protects the fields below */
	uint32_t n, most;       /* holds in the heap; capacity */
	uint32_t touched;       /* holds[touched] and later were never used */
	struct weir__hold *holds, *free;
	struct weir__hold **heap; /* the earliest ends_at first */
};

struct weir__holds *weir__holds_new(uint32_t most)
{
	struct weir__holds *const holds = aligned_alloc(_Alignof(struct weir__holds), sizeof(*holds));

	if (holds == NULL)
		return NULL;
	memset(holds, 0, sizeof(*holds));
	holds->most = most;
	holds->places = SHARDS;
	while (holds->places < most)
		holds->places *= 2;
	holds->by_hash = calloc(holds->places, sizeof(struct weir__hold *));
	holds->heap = calloc(most, sizeof(struct weir__hold *));
	holds->holds = calloc(most, sizeof(struct weir__hold));
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

/* --- the heap of expiry times: callers hold the heap's lock ----------------------------------------------------- */

static void put(struct weir__holds *holds, uint32_t place, struct weir__hold *hold)
{
	holds->heap[place] = hold;
	hold->place = place;
}

static void rise(struct weir__holds *holds, struct weir__hold *hold)
{
	uint32_t place = hold->place;

	for (; place > 0 && holds->heap[(place - 1) / 2]->ends_at > hold->ends_at; place = (place - 1) / 2)
		put(holds, place, holds->heap[(place - 1) / 2]);
	put(holds, place, hold);
}

static void sink(struct weir__holds *holds, struct weir__hold *hold)
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

static void pull(struct weir__holds *holds, const struct weir__hold *hold)
{
	const uint32_t place = hold->place;
	struct weir__hold *const moved = holds->heap[--holds->n];

	if (moved == hold)
		return;
	put(holds, place, moved);
	rise(holds, moved);
	sink(holds, moved);
}

static struct weir__hold *get_free(struct weir__holds *holds)
{
	struct weir__hold *hold;

	weir__lock_acquire(&holds->lock);
	hold = holds->free;
	if (hold)
		holds->free = hold->next;
	else if (holds->touched < holds->most)
		hold = &holds->holds[holds->touched++];
	weir__lock_release(&holds->lock);
	return hold;
}

/* --- ids: callers hold the lock of the id's shard --------------------------------------------------------------- */

static struct weir__lock *lock_of(struct weir__holds *holds, uint64_t hash)
{
	return &holds->shards[hash % SHARDS].lock;
}

static struct weir__hold **place_of(struct weir__holds *holds, uint64_t hash)
{
	return &holds->by_hash[hash & (holds->places - 1)];
}

static void remember(struct weir__holds *holds, struct weir__hold *hold)
{
	struct weir__hold **const place = place_of(holds, hold->hash);

	hold->next = *place;
	*place = hold;
	weir__lock_acquire(&holds->lock);
	put(holds, holds->n++, hold);
	rise(holds, hold);
	weir__lock_release(&holds->lock);
}

static void forget(struct weir__holds *holds, struct weir__hold *hold)
{
	struct weir__hold **place = place_of(holds, hold->hash);

	while (*place != hold)
		place = &(*place)->next;
	*place = hold->next;
	weir__lock_acquire(&holds->lock);
	pull(holds, hold);
	hold->next = holds->free;
	holds->free = hold;
	weir__lock_release(&holds->lock);
}

/* Forgets a hold that has expired and returns NULL for it. */
static struct weir__hold *find(struct weir__holds *holds, uint64_t hash, const void *id, size_t id_length, weir_ns now)
{
	struct weir__hold *hold = *place_of(holds, hash);

	while (hold && (hold->hash != hash || hold->id_length != id_length || memcmp(hold->id, id, id_length) != 0))
		hold = hold->next;
	if (hold && hold->ends_at <= now && !hold->is_pending) {
		forget(holds, hold);
		hold = NULL;
	}
	return hold;
}

/* The heap says which shard to lock, but the shard's lock comes before the heap's. So the hold is looked up again under
 * the shard's lock. */
static bool end_one(struct weir__holds *holds, weir_ns now)
{
	uint64_t hash = 0;
	struct weir__hold *hold;
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
	while (hold && (hold->hash != hash || hold->ends_at > now || hold->is_pending))
		hold = hold->next;
	if (hold)
		forget(holds, hold);
	weir__lock_release(lock_of(holds, hash));
	return hold != NULL;
}

/* --- taking ----------------------------------------------------------------------------------------------------- */

static bool is_same(const struct weir__hold *hold, const struct weir__hold_request *request)
{
	return hold->key_length == request->key_length && memcmp(hold->key, request->key, hold->key_length) == 0 &&
	       hold->cost == request->cost && hold->lasts == request->lasts && hold->named == request->named &&
	       (hold->named != NULL || weir__inline_limits_is_same(&hold->stated, request->stated));
}

static void fill(struct weir__hold *hold, uint64_t hash, const struct weir__hold_request *request)
{
	hold->hash = hash;
	hold->id_length = (uint32_t)request->id_length;
	hold->key_length = (uint32_t)request->key_length;
	hold->is_settled = hold->is_taken = false;
	hold->is_pending = true;
	hold->named = request->named;
	hold->stated = request->named ? weir_table_limit_limit(request->named) : *request->stated;
	hold->cost = request->cost;
	hold->lasts = request->lasts;
	/* The hold's duration begins when the store has decided. Until then it sorts last. */
	hold->ends_at = WEIR_NEVER;
	memcpy(hold->id, request->id, request->id_length);
	memcpy(hold->key, request->key, request->key_length);
}

static enum weir__hold_result reserve(struct weir__holds *holds, uint64_t hash,
				      const struct weir__hold_request *request, struct weir__hold **ret_hold)
{
	struct weir__hold *const hold = get_free(holds);

	if (hold == NULL)
		return WEIR__HOLD_FULL;
	fill(hold, hash, request);
	remember(holds, hold);
	*ret_hold = hold;
	return WEIR__HOLD_BEGUN;
}

enum weir__hold_result weir__holds_take(struct weir__holds *holds, const struct weir__hold_request *request,
					weir_ns now, struct weir__hold **ret_hold, struct weir_verdict *ret_verdict)
{
	const uint64_t hash = weir__hash(&holds->secret, request->id, request->id_length);
	enum weir__hold_result result;
	struct weir__hold *known;

	for (int i = 0; i < ENDED_A_TURN && end_one(holds, now); i++)
		;
	weir__lock_acquire(lock_of(holds, hash));
	known = find(holds, hash, request->id, request->id_length, now);
	if (known == NULL) {
		result = reserve(holds, hash, request, ret_hold);
	} else if (!known->is_taken) {
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

static void begin_time(struct weir__holds *holds, struct weir__hold *hold, const struct weir_verdict *verdict,
		       weir_ns now)
{
	hold->is_pending = false;
	hold->is_taken = true;
	hold->regained_at = weir__add_saturating(now, verdict->reset_after);
	hold->verdict = *verdict;
	weir__lock_acquire(&holds->lock);
	hold->ends_at = weir__add_saturating(now, hold->lasts);
	rise(holds, hold);
	sink(holds, hold);
	weir__lock_release(&holds->lock);
}

void weir__holds_took(struct weir__holds *holds, struct weir__hold *hold, const struct weir_verdict *verdict,
		      weir_ns now)
{
	const uint64_t hash = hold->hash;

	weir__lock_acquire(lock_of(holds, hash));
	if (verdict->allowed)
		begin_time(holds, hold, verdict, now);
	else
		forget(holds, hold);
	weir__lock_release(lock_of(holds, hash));
}

/* --- settling --------------------------------------------------------------------------------------------------- */

/* How much of the usage right after the take has not refilled yet. The held units refill last. A refund must not exceed
 * this: units that have refilled since may have been taken by others. A window resets all at once, so windows have no
 * bound (UINT64_MAX). */
static uint64_t still_used(const struct weir__hold *hold, weir_ns now)
{
	const struct weir_limit *const limit = &hold->stated;
	const uint64_t owed = hold->verdict.limit - hold->verdict.remaining;
	const weir_ns left = hold->regained_at - now;
	weir__u128 periods, periods_left;

	if (!weir__limit_is_bucket(limit))
		return UINT64_MAX;
	if (!limit->refill_interval)
		return weir__saturate(weir__mul_div_up(left, limit->count, limit->period));
	periods = weir__div_up(owed, limit->count);
	periods_left = weir__div_up(left, limit->period);
	if (periods <= periods_left)
		return owed;
	return owed - weir__min(owed, weir__saturate((periods - periods_left) * limit->count));
}

/* Sliding windows need charged_at: they know which units were charged when. A store that does not know refunds the
 * newest units. */
static void make_question(const struct weir__hold *hold, uint64_t actual, weir_ns now,
			  struct weir__hold_store_call *question)
{
	*question = (struct weir__hold_store_call){ .operation = WEIR__STORE_PEEK,
						    .named = hold->named,
						    .stated = hold->stated,
						    .key = hold->key,
						    .key_length = hold->key_length,
						    .charged_at = hold->ends_at - hold->lasts };
	if (actual > hold->cost) {
		question->operation = WEIR__STORE_UPTO;
		question->cost = actual - hold->cost;
	} else if (actual < hold->cost && now < hold->regained_at) {
		question->operation = WEIR__STORE_UNDO;
		question->cost = weir__min(hold->cost - actual, still_used(hold, now));
	}
}

enum weir__hold_result weir__holds_settle(struct weir__holds *holds, const void *id, size_t id_length, uint64_t actual,
					  weir_ns now, struct weir__hold **ret_hold,
					  struct weir__hold_store_call *ret_question,
					  struct weir__settlement *ret_settlement)
{
	const uint64_t hash = weir__hash(&holds->secret, id, id_length);
	enum weir__hold_result result = WEIR__HOLD_UNKNOWN;
	struct weir__hold *hold;

	weir__lock_acquire(lock_of(holds, hash));
	hold = find(holds, hash, id, id_length, now);
	if (hold && hold->is_settled) {
		*ret_settlement = hold->settlement;
		result = hold->settlement.actual == actual ? WEIR__HOLD_ANSWERED : WEIR__HOLD_OTHER;
	} else if (hold && hold->is_pending) {
		result = hold->is_taken ? WEIR__HOLD_BUSY : WEIR__HOLD_UNKNOWN;
	} else if (hold) {
		hold->is_pending = true;
		make_question(hold, actual, now, ret_question);
		*ret_hold = hold;
		result = WEIR__HOLD_BEGUN;
	}
	weir__lock_release(lock_of(holds, hash));
	return result;
}

void weir__holds_settled(struct weir__holds *holds, struct weir__hold *hold,
			 const struct weir__hold_store_call *question, uint64_t actual,
			 const struct weir_verdict *verdict, struct weir__settlement *ret_settlement)
{
	const uint64_t hash = hold->hash;
	struct weir__settlement settlement = { .held = hold->cost, .actual = actual, .verdict = *verdict };

	if (question->operation == WEIR__STORE_UPTO) {
		settlement.charged = verdict->granted;
		settlement.beyond = question->cost - settlement.charged;
	} else if (question->operation == WEIR__STORE_UNDO) {
		settlement.refunded = verdict->granted;
	}
	weir__lock_acquire(lock_of(holds, hash));
	hold->is_pending = false;
	hold->is_settled = true;
	hold->settlement = settlement;
	weir__lock_release(lock_of(holds, hash));
	*ret_settlement = settlement;
}

void weir__holds_settle_not(struct weir__holds *holds, struct weir__hold *hold)
{
	const uint64_t hash = hold->hash;

	weir__lock_acquire(lock_of(holds, hash));
	hold->is_pending = false;
	weir__lock_release(lock_of(holds, hash));
}
