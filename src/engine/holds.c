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
	uint64_t owner;          /* see owner_of */
	struct weir__hold *next; /* in the same hash chain, or in the free list */
	uint32_t place;          /* index in the heap */
	uint32_t id_length, key_length;
	bool is_settled;
	bool is_pending; /* the store is deciding the take or the settlement: do not forget the hold */
	bool is_taken;   /* false: reserved, the store has not decided the take yet */
	const struct weir_table_limit *named; /* the limit named in the request; NULL: an inline limit */
	struct weir_limit stated;             /* the inline limit, or the named limit as it was */
	uint64_t changes;                     /* of the named limit, when it was held */
	uint64_t cost;
	/* ends_at is WEIR_NEVER while the store decides the take, and if the hold expires while it is being settled. */
	weir_ns taken_at, lasts, ends_at;
	weir_ns charged_at;     /* by the clock of the store */
	uint32_t charged_nodes; /* see struct weir__store_request */
	struct weir_verdict verdict;
	struct weir__settlement settlement;
	char id[WEIR__HOLD_ID_ROOM], key[WEIR__HOLD_KEY_MAX];
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

/* Finds a hold. If it has expired, forgets it and returns NULL. */
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

static void set_end(struct weir__holds *holds, struct weir__hold *hold, weir_ns ends_at)
{
	weir__lock_acquire(&holds->lock);
	hold->ends_at = ends_at;
	rise(holds, hold);
	sink(holds, hold);
	weir__lock_release(&holds->lock);
}

static bool first_expired(struct weir__holds *holds, weir_ns now, uint64_t *ret_hash)
{
	bool is_expired;

	weir__lock_acquire(&holds->lock);
	is_expired = holds->n > 0 && holds->heap[0]->ends_at <= now;
	if (is_expired)
		*ret_hash = holds->heap[0]->hash;
	weir__lock_release(&holds->lock);
	return is_expired;
}

/* Forgets an expired hold. A hold that is being settled is moved to the end of the heap instead, so that it does not
 * delay the holds behind it. That happens once per settlement. The heap says which shard to lock, but the shard's lock
 * comes before the heap's. So the hold is looked up again under the shard's lock. */
static bool end_one(struct weir__holds *holds, weir_ns now)
{
	bool is_forgotten = false;
	struct weir__hold *hold;
	uint64_t hash;

	while (!is_forgotten && first_expired(holds, now, &hash)) {
		weir__lock_acquire(lock_of(holds, hash));
		hold = *place_of(holds, hash);
		while (hold && (hold->hash != hash || hold->ends_at > now))
			hold = hold->next;
		is_forgotten = hold && !hold->is_pending;
		if (is_forgotten)
			forget(holds, hold);
		else if (hold)
			set_end(holds, hold, WEIR_NEVER);
		weir__lock_release(lock_of(holds, hash));
	}
	return is_forgotten;
}

/* --- taking ----------------------------------------------------------------------------------------------------- */

/* A keyed hash of the user's name, so that an attacker cannot find names with equal hashes. 0: the server has no
 * users. */
static uint64_t owner_of(const struct weir__holds *holds, const char *owner)
{
	return owner ? weir__hash(&holds->secret, owner, strlen(owner)) | 1 : 0;
}

static bool is_same(const struct weir__holds *holds, const struct weir__hold *hold,
		    const struct weir__hold_request *request)
{
	return hold->owner == owner_of(holds, request->owner) && hold->key_length == request->key_length &&
	       memcmp(hold->key, request->key, hold->key_length) == 0 && hold->cost == request->cost &&
	       hold->lasts == request->lasts && hold->named == request->named &&
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
	hold->changes = request->named ? weir__plans_number(request->named->entry) : 0;
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
	hold->owner = owner_of(holds, request->owner);
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
	} else if (is_same(holds, known, request)) {
		*ret_verdict = known->verdict;
		result = WEIR__HOLD_REPEATED;
	} else {
		result = WEIR__HOLD_OTHER;
	}
	weir__lock_release(lock_of(holds, hash));
	return result;
}

static void begin_time(struct weir__holds *holds, struct weir__hold *hold, const struct weir__store_request *take)
{
	hold->is_pending = false;
	hold->is_taken = true;
	hold->charged_at = take->decided_at;
	hold->charged_nodes = take->fallback_nodes;
	hold->verdict = take->verdicts[0];
	hold->taken_at = take->now;
	set_end(holds, hold, weir__add_saturating(hold->taken_at, hold->lasts));
}

void weir__holds_took(struct weir__holds *holds, struct weir__hold *hold, const struct weir__store_request *take)
{
	const uint64_t hash = hold->hash;

	weir__lock_acquire(lock_of(holds, hash));
	if (take->verdicts[0].allowed)
		begin_time(holds, hold, take);
	else
		forget(holds, hold);
	weir__lock_release(lock_of(holds, hash));
}

/* --- settling --------------------------------------------------------------------------------------------------- */

/* Whether it is unknown how much of the charge has refilled, or was cut, because the limit was changed since. At a
 * faster rate the store would assume that too much has refilled. */
static bool is_changed_too_much(const struct weir__hold *hold)
{
	const struct weir_limit *const was = &hold->stated;
	uint64_t changes;
	struct weir_limit is;

	if (hold->named == NULL || !weir__limit_is_bucket(was))
		return false;
	is = weir_table_limit_limit(hold->named);
	changes = weir__plans_number(hold->named->entry) - hold->changes;
	return changes > 1 ||
	       (changes == 1 && (is.burst < was->burst || (was->refill_interval && is.period != was->period) ||
				 weir__mul(is.count, was->period) < weir__mul(was->count, is.period)));
}

static void make_question(const struct weir__hold *hold, uint64_t actual, struct weir__hold_store_call *question)
{
	*question = (struct weir__hold_store_call){ .operation = WEIR__STORE_PEEK,
						    .named = hold->named,
						    .key = hold->key,
						    .key_length = hold->key_length,
						    .charged_at = hold->charged_at,
						    .charged_cost = hold->cost,
						    .charged_nodes = hold->charged_nodes };
	if (hold->named == NULL)
		question->stated = hold->stated;
	if (actual > hold->cost) {
		question->operation = WEIR__STORE_UPTO;
		question->cost = actual - hold->cost;
	} else if (actual < hold->cost && !is_changed_too_much(hold)) {
		question->operation = WEIR__STORE_UNDO;
		question->cost = hold->cost - actual;
	}
}

/* Call it when the store has settled the hold, or was not called. */
static void end_pending(struct weir__holds *holds, struct weir__hold *hold)
{
	hold->is_pending = false;
	if (hold->ends_at == WEIR_NEVER) /* end_one has set it so */
		set_end(holds, hold, weir__add_saturating(hold->taken_at, hold->lasts));
}

enum weir__hold_result weir__holds_settle(struct weir__holds *holds, const char *owner, const void *id,
					  size_t id_length, uint64_t actual, weir_ns now, struct weir__hold **ret_hold,
					  struct weir__hold_store_call *ret_question,
					  struct weir__settlement *ret_settlement)
{
	const uint64_t hash = weir__hash(&holds->secret, id, id_length);
	enum weir__hold_result result = WEIR__HOLD_UNKNOWN;
	struct weir__hold *hold;

	weir__lock_acquire(lock_of(holds, hash));
	hold = find(holds, hash, id, id_length, now);
	if (hold && owner && hold->owner != owner_of(holds, owner))
		hold = NULL;
	if (hold && hold->is_settled) {
		*ret_settlement = hold->settlement;
		result = hold->settlement.actual == actual ? WEIR__HOLD_ANSWERED : WEIR__HOLD_OTHER;
	} else if (hold && hold->is_pending) {
		result = hold->is_taken ? WEIR__HOLD_BUSY : WEIR__HOLD_UNKNOWN;
	} else if (hold) {
		hold->is_pending = true;
		make_question(hold, actual, ret_question);
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
	end_pending(holds, hold);
	hold->is_settled = true;
	hold->settlement = settlement;
	weir__lock_release(lock_of(holds, hash));
	*ret_settlement = settlement;
}

void weir__holds_settle_not(struct weir__holds *holds, struct weir__hold *hold)
{
	const uint64_t hash = hold->hash;

	weir__lock_acquire(lock_of(holds, hash));
	end_pending(holds, hold);
	weir__lock_release(lock_of(holds, hash));
}
