/* holds.h: costs that were taken as an estimate, to be settled later. Of all threads.
 *
 * A hold has an id, which its client chooses: to ask again with the same one is answered the same, and charged once. It is
 * remembered, whether settled or not, until its time is over; from then on its id is unknown, and what was taken stays
 * taken. Nobody needs to come back for it: whoever adds a hold first ends two that are over, and if there is room for no
 * other one, none is over.
 *
 * Memory for all is set aside when the registry is made. Ids are found by a keyed hash, under one of many locks; which hold
 * ends first, and which places are free, is under another one. A lock is held while the table is asked, so that of two with
 * the same id one sees what the other has done. Where another store decides, and its answer comes later, the id is taken
 * meanwhile: of two who ask for it the second is told that the first is not done. Should the first never come back, since its
 * connection was lost, that is over after some seconds; what it may have given back is not given back again. */
#ifndef WEIR_SERVE_HOLDS_H
#define WEIR_SERVE_HOLDS_H

#include "guard/seam.h"
#include "serve/limits.h"

enum { WEIR__HOLD_ID_MAX = 64, WEIR__HOLD_KEY_MAX = 256, WEIR__HOLDS_DEFAULT = 65536 };

struct weir__holds;

struct weir__hold_request {
	const void *id, *key;
	size_t id_length, key_length;         /* up to the maxima above */
	const struct weir_table_limit *named; /* of the table; NULL: what follows */
	const struct weir_limit *asked;       /* as text */
	uint64_t cost;
	weir_ns lasts;
};

/* Who asks another store than the table; to be told from others who do. */
struct weir__hold_asker {
	struct weir__seam *seam;
	uint64_t run; /* the same in all runs of a request, and only there */
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
	WEIR__HOLD_ANSWERED, /* the verdict tells; or the settlement, of now or before */
	WEIR__HOLD_REPEATED, /* the same was asked for before: the verdict tells what was answered then */
	WEIR__HOLD_OTHER,    /* the id is that of another hold; or the hold was settled with another cost */
	WEIR__HOLD_FULL,
	WEIR__HOLD_BUSY,    /* another one has asked for it, and does not know yet */
	WEIR__HOLD_UNKNOWN, /* no such id */
	WEIR__HOLD_REFUSED, /* the limit: the message tells why */
};

/* NULL: no memory, or no random bytes. */
struct weir__holds *weir__holds_new(struct weir_table *table, uint32_t most);
void weir__holds_free(struct weir__holds *holds); /* NULL is allowed */

/* How many are remembered. */
uint32_t weir__holds_n(struct weir__holds *holds);

/* Takes the cost; what is denied is not remembered. `limits` are those of the thread. Without an asker, NULL, the table
 * decides; with one, what is not known yet is answered, and means nothing. */
enum weir__hold_result weir__holds_take(struct weir__holds *holds, struct weir__limits *limits,
					const struct weir__hold_asker *asker, const struct weir__hold_request *request,
					weir_ns now, struct weir_verdict *ret_verdict,
					struct weir_message *ret_message);

/* Charges what the actual cost is above the estimate, as far as the limit has it, or gives back what it is below, as far
 * as the limit has not regained that by itself. */
enum weir__hold_result weir__holds_settle(struct weir__holds *holds, struct weir__limits *limits,
					  const struct weir__hold_asker *asker, const void *id, size_t id_length,
					  uint64_t actual, weir_ns now, struct weir__settlement *ret_settlement,
					  struct weir_message *ret_message);

#endif
