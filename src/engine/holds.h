/* holds.h: costs that were taken as an estimate, to be settled later. Of all threads.
 *
 * A hold has an id, which its client chooses: to ask again with the same one is answered the same, and charged once. It is
 * remembered, whether settled or not, until its time is over; from then on its id is unknown, and what was taken stays
 * taken. Nobody needs to come back for it: whoever adds a hold first ends two that are over, and if there is room for no
 * other one, none is over.
 *
 * Memory for all is set aside when the registry is made. Ids are found by a keyed hash, under one of many locks; which hold
 * ends first, and which places are free, has a lock of its own. No lock is held while a store decides: the id is reserved
 * meanwhile, and another request for it is told that it is busy. */
#ifndef WEIR_ENGINE_HOLDS_H
#define WEIR_ENGINE_HOLDS_H

#include "engine/inline_limits.h"
#include "store/store.h"

enum { WEIR__HOLD_ID_MAX = 64, WEIR__HOLD_KEY_MAX = 256, WEIR__HOLDS_DEFAULT = 65536 };

struct weir__holds;

struct weir__hold_request {
	const void *id, *key;
	size_t id_length, key_length;         /* up to the maxima above */
	const struct weir_table_limit *named; /* of the table; NULL: what follows */
	const struct weir_limit *stated;      /* as text */
	uint64_t cost;
	weir_ns lasts;
};

/* What became of a hold. */
struct weir__settlement {
	uint64_t held, actual;
	uint64_t charged;  /* beyond what was held */
	uint64_t refunded; /* without what the limit has regained of it by itself */
	uint64_t beyond;   /* what the limit had no more of: neither charged nor owed */
	struct weir_verdict verdict;
};

enum weir__hold_result {
	WEIR__HOLD_BEGUN,    /* ask the store, and tell what it said */
	WEIR__HOLD_ANSWERED, /* it was settled so before: the settlement tells */
	WEIR__HOLD_REPEATED, /* the same was asked for before: the verdict tells what was answered then */
	WEIR__HOLD_OTHER,    /* the id is that of another hold; or the hold was settled with another cost */
	WEIR__HOLD_FULL,
	WEIR__HOLD_BUSY,    /* another request for it is under way */
	WEIR__HOLD_UNKNOWN, /* no such id */
};

struct weir__hold;

/* NULL: no memory, or no random bytes. */
struct weir__holds *weir__holds_new(uint32_t most);
void weir__holds_free(struct weir__holds *holds); /* NULL is allowed */

/* How many are remembered. */
uint32_t weir__holds_n(struct weir__holds *holds);

/* Reserves the id. BEGUN: take the cost, then weir__holds_took with the hold. */
enum weir__hold_result weir__holds_take(struct weir__holds *holds, const struct weir__hold_request *request,
					weir_ns now, struct weir__hold **ret_hold, struct weir_verdict *ret_verdict);

/* What came of it: what is denied is not remembered. */
void weir__holds_took(struct weir__holds *holds, struct weir__hold *hold, const struct weir_verdict *verdict,
		      weir_ns now);

/* What to ask the store to settle a hold: to charge what the actual cost is above the estimate, as far as the limit has it; or to
 * give back what it is below, as far as the limit has not regained that by itself. */
struct weir__hold_store_call {
	enum weir__store_operation operation;
	const struct weir_table_limit *named; /* NULL: what follows */
	struct weir_limit stated;
	const void *key; /* good until it is settled */
	size_t key_length;
	uint64_t cost;
	weir_ns charged_at;
};

/* BEGUN: ask, then weir__holds_settled with the hold. */
enum weir__hold_result weir__holds_settle(struct weir__holds *holds, const void *id, size_t id_length, uint64_t actual,
					  weir_ns now, struct weir__hold **ret_hold,
					  struct weir__hold_store_call *ret_question,
					  struct weir__settlement *ret_settlement);

void weir__holds_settled(struct weir__holds *holds, struct weir__hold *hold,
			 const struct weir__hold_store_call *question, uint64_t actual,
			 const struct weir_verdict *verdict, struct weir__settlement *ret_settlement);

/* The store could not be asked after all, as its limit is refused: the hold is as it was. */
void weir__holds_settle_not(struct weir__holds *holds, struct weir__hold *hold);

#endif
