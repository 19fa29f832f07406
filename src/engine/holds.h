/* holds.h: costs that were taken as an estimate and are settled later, like a card authorisation. Shared by all
 * threads.
 *
 * The client chooses the id of a hold. A repeated request with the same id gets the same reply and is charged once. A
 * hold is remembered, settled or not, until it expires. After that its id is unknown, and the cost stays charged. No
 * thread cleans up: each new hold first forgets up to two expired ones. WEIR__HOLD_FULL therefore means that no
 * remembered hold has expired, except holds that are being settled.
 *
 * A hold remembers a keyed hash of the name of the user who made it. A request for an id by another user is not a
 * repetition, and only its owner may settle it, unless the caller says that anyone may.
 *
 * All memory is allocated when the registry is made. Ids are found by a keyed hash, under one of many shard locks. The
 * heap of expiry times and the free list have a separate lock. No lock is held while a store decides: the id is
 * reserved in the meantime, and other requests for it get WEIR__HOLD_BUSY. */
#ifndef WEIR_ENGINE_HOLDS_H
#define WEIR_ENGINE_HOLDS_H

#include "engine/inline_limits.h"
#include "store/store.h"

enum {
	WEIR__HOLD_ID_MAX = 64,
	WEIR__HOLD_ID_ROOM = WEIR__HOLD_ID_MAX + 32, /* with the prefix of a tenant */
	WEIR__HOLD_KEY_MAX = 256,
	WEIR__HOLDS_DEFAULT = 65536,
};

struct weir__holds;

struct weir__hold_request {
	const char *owner; /* the name of the user; NULL: the server has no users */
	const void *id, *key;
	size_t id_length, key_length;         /* up to WEIR__HOLD_ID_ROOM and WEIR__HOLD_KEY_MAX */
	const struct weir_table_limit *named; /* a limit of the table; NULL: use `stated` */
	const struct weir_limit *stated;      /* the inline limit */
	uint64_t cost;
	weir_ns lasts;
};

/* The outcome of settling a hold. */
struct weir__settlement {
	uint64_t held, actual;
	uint64_t charged;  /* in addition to what was held */
	uint64_t refunded; /* as far as the charge still counted */
	uint64_t beyond;   /* more than the limit had: not charged, and not carried over */
	struct weir_verdict verdict;
};

enum weir__hold_result {
	WEIR__HOLD_BEGUN,    /* call the store, then report its verdict */
	WEIR__HOLD_ANSWERED, /* already settled with this cost: the settlement is set */
	WEIR__HOLD_REPEATED, /* the same take was made before: the verdict is the first take's */
	WEIR__HOLD_OTHER,    /* the id has other arguments or another owner, or was settled with another cost */
	WEIR__HOLD_FULL,
	WEIR__HOLD_BUSY,    /* another request for this id is in progress */
	WEIR__HOLD_UNKNOWN, /* unknown id */
};

struct weir__hold;

/* NULL: no memory, or no random bytes. */
struct weir__holds *weir__holds_new(uint32_t most);
void weir__holds_free(struct weir__holds *holds); /* NULL is allowed */

/* Returns the number of remembered holds. */
uint32_t weir__holds_n(struct weir__holds *holds);

/* Reserves the id. On BEGUN, take the cost from the store, then call weir__holds_took. */
enum weir__hold_result weir__holds_take(struct weir__holds *holds, const struct weir__hold_request *request,
					weir_ns now, struct weir__hold **ret_hold, struct weir_verdict *ret_verdict);

/* Reports the completed take. If it was denied, the hold is forgotten. Otherwise its duration begins at take->now. */
void weir__holds_took(struct weir__holds *holds, struct weir__hold *hold, const struct weir__store_request *take);

/* The store request that settles a hold. If the actual cost is above the estimate, it charges the difference, as far as
 * the limit has it. If it is below, it undoes the difference, as far as the charge still counts (core/step.h). */
struct weir__hold_store_call {
	enum weir__store_operation operation;
	const struct weir_table_limit *named; /* a limit of the table; NULL: use `stated` */
	struct weir_limit stated;
	const void *key; /* valid until the hold is settled */
	size_t key_length;
	uint64_t cost;
	weir_ns charged_at; /* these three are for UNDO: see store.h */
	uint64_t charged_cost;
	uint32_t charged_nodes;
};

/* On BEGUN, call the store with *ret_question, then call weir__holds_settled. If `owner` is not NULL, holds of other
 * users are unknown. */
enum weir__hold_result weir__holds_settle(struct weir__holds *holds, const char *owner, const void *id,
					  size_t id_length, uint64_t actual, weir_ns now, struct weir__hold **ret_hold,
					  struct weir__hold_store_call *ret_question,
					  struct weir__settlement *ret_settlement);

void weir__holds_settled(struct weir__holds *holds, struct weir__hold *hold,
			 const struct weir__hold_store_call *question, uint64_t actual,
			 const struct weir_verdict *verdict, struct weir__settlement *ret_settlement);

/* Cancels a settlement that was begun, because its limit is invalid and the store was not called. The hold stays as it
 * was. */
void weir__holds_settle_not(struct weir__holds *holds, struct weir__hold *hold);

#endif
