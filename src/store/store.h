/* store.h: where the state of limits is kept, behind one interface: a table, Redis, or a store with others behind it.
 *
 * A request completes now or later, and its caller need not know which. A store that completes it now fills it in where it
 * lies, and submit returns true. A store that completes it later first calls `keep`, so that the request moves to memory that
 * stays, and submit returns false; then it calls `complete` once, whatever happens, by the thread that submitted it.
 *
 * A store handle belongs to one thread, the submitter. Requests of one submitter take effect in the order in which they were
 * submitted; only their completions may come in another order. What is submitted may be gathered until `flush`. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "store/table/table.h"

enum weir__store_operation {
	WEIR__STORE_TAKE,
	WEIR__STORE_UPTO,
	WEIR__STORE_PEEK,
	WEIR__STORE_REFUND,
	WEIR__STORE_UNDO,    /* refunds what was charged at `charged_at`: verdict.granted is how much that was */
	WEIR__STORE_RESET,   /* allowed: there was something to forget */
	WEIR__STORE_INSPECT, /* the verdict of a peek at no cost, is_stored and full_at */
};

enum weir__store_outcome {
	WEIR__STORE_DECIDED,
	WEIR__STORE_STALE,      /* the premise did not hold: nothing was decided. Only by a store that completes now */
	WEIR__STORE_UNREACHED,  /* the store could not be called: certainly nothing was charged */
	WEIR__STORE_UNANSWERED, /* it was called, and did not reply in time: it may have charged */
};

struct weir__store;
struct weir__store_caller;

/* Claims to decide, and what comes of them. Arrays are the caller's. */
struct weir__store_request {
	enum weir__store_operation operation;
	bool is_each; /* each claim is a request of its own; else all are decided together, which only a take may be */
	uint32_t n;   /* claims: 1 to WEIR_TABLE_CLAIMS_MAX together, any number of each */
	const struct weir_claim *claims;
	struct weir_verdict *verdicts; /* room for n */
	weir_ns now;                   /* for a store without a clock of its own */
	weir_ns charged_at;            /* of UNDO */

	/* What a store that completes now may use, and others ignore. */
	const uint64_t *hashes;                      /* of the keys; NULL: not known */
	const struct weir__epoch_check *epoch_check; /* NULL: it rests on nothing */

	/* What came of it. */
	enum weir__store_outcome outcome;
	bool is_closed;                /* denied because a limit is closed while its store fails */
	bool is_stored;                /* of INSPECT: the store has a state for the key, */
	weir_ns full_at;               /* that is full again at this instant; 0: it has none */
	uint32_t n_current;            /* of each with a premise: those before it were decided while the premise held */
	struct weir_decision decision; /* of several together */

	const struct weir__store_caller *caller;

	/* Of stores. */
	struct weir__store_request *next;
	weir_ns budget; /* how long to wait for a reply; 0: as long as the store likes */
};

/* What a store that completes later calls. */
struct weir__store_caller {
	/* The same request in memory that stays until it is complete: the store goes on with that one. NULL: no memory. */
	struct weir__store_request *(*keep)(struct weir__store_request *request);
	void (*complete)(struct weir__store_request *request);
};

/* How a store does, for people. What a kind of store does not have is 0. */
enum weir__store_health { WEIR__STORE_UP, WEIR__STORE_DOWN, WEIR__STORE_PROBING };

enum { WEIR__STORE_LATENCIES = 16, WEIR__STORE_LATENCY_FIRST_US = 64, WEIR__STORE_ERROR_SIZE = 256 };

struct weir__store_status {
	enum weir__store_health health;
	uint32_t nodes;                               /* servers that share the state, this one among them */
	uint64_t calls, requests;                     /* sent; a call has several requests */
	uint64_t decided, unreached, unanswered;      /* requests; a retry is not counted again */
	uint64_t script_loads, failovers, damaged;    /* damaged: keys that began anew */
	uint64_t deferred_keys;                       /* with charges that are still to be made */
	uint64_t charged, excess, uncertain, dropped; /* units of deferred charges: see redis_backlog.h */
	uint64_t latency_counts
		[WEIR__STORE_LATENCIES]; /* by duration: up to 2^i * 64 us; the last also what took longer */
	uint64_t latency_sum_us;
	char last_error[WEIR__STORE_ERROR_SIZE]; /* empty: none yet */
};

struct weir__store {
	/* The table that keeps the state, which completes at once and can be looked at; NULL: it is kept elsewhere. */
	struct weir_table *table;

	bool converts_on_look; /* to look at a key by another plan than its own changes the key */
	struct weir__store
		*front; /* the store in front of this one, which sees first what came of a request; NULL: none */

	/* True: it is complete. False: it completes later. */
	bool (*submit)(struct weir__store *store, struct weir__store_request *request);

	/* Sends what was gathered; and completes what was replied since. NULL: the store completes at once. */
	void (*flush)(struct weir__store *store);
	void (*collect)(struct weir__store *store);

	/* Sees what came of a request of the store behind this one, and then completes it. */
	void (*completed)(struct weir__store *store, struct weir__store_request *request);

	/* Charges units that were allowed without the store, when it can. NULL: it cannot. */
	void (*defer)(struct weir__store *store, const struct weir_claim *claim, uint64_t units);

	/* NULL: the store has nothing to say. */
	void (*status)(struct weir__store *store, struct weir__store_status *ret_status);

	/* Nothing is under way any more. */
	void (*free)(struct weir__store *store);
};

static inline bool weir__store_submit(struct weir__store *store, struct weir__store_request *request)
{
	return store->submit(store, request);
}

static inline void weir__store_flush(struct weir__store *store)
{
	if (store->flush)
		store->flush(store);
}

static inline void weir__store_collect(struct weir__store *store)
{
	if (store->collect)
		store->collect(store);
}

/* By the store that has decided, or has failed to: the request goes back to its caller. */
static inline void weir__store_complete(const struct weir__store *store, struct weir__store_request *request)
{
	if (store->front)
		store->front->completed(store->front, request);
	else
		request->caller->complete(request);
}

static inline bool weir__store_charges(enum weir__store_operation operation)
{
	return operation == WEIR__STORE_TAKE || operation == WEIR__STORE_UPTO;
}

/* One decision of verdicts that came one by one, as a table joins them. */
WEIR__BETWEEN_LIBRARIES struct weir_decision weir__store_join(const struct weir_verdict *verdicts, size_t n);

/* --- a table as a store: table_store.c ----------------------------------------------------------------------------- */

/* Decides at once. */
WEIR__BETWEEN_LIBRARIES void weir__table_store_decide(struct weir_table *table, struct weir__store_request *request);

/* Counts, with the limits of a table, what another store has decided: of claims that were decided together all if they are
 * allowed, else those that denied. */
WEIR__BETWEEN_LIBRARIES void weir__table_store_count(const struct weir_table *table,
						     const struct weir__store_request *request);

struct weir__table_store {
	struct weir__store store; /* the first: so it leads here */
};

void weir__table_store_init(struct weir__table_store *store, struct weir_table *table);

#endif
