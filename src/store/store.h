/* store.h: one interface to the place where limits keep their state: a table, Redis, or a store in front of another.
 *
 * A request completes now or later, and its caller need not know which. A store that completes it now fills the request
 * in place, and submit returns true. A store that completes it later first calls `keep`, which moves the request to
 * memory that stays valid, and submit returns false. It then calls `complete` exactly once, on the thread that
 * submitted the request, even if it fails.
 *
 * A store handle belongs to one thread, the submitter. Requests of one submitter take effect in the order in which they
 * were submitted. Only their completions may come in a different order. A store may gather submitted requests until
 * `flush`. The reasons are in docs/internals/road.md. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "store/table/table.h"

enum weir__store_operation {
	WEIR__STORE_TAKE,
	WEIR__STORE_UPTO,
	WEIR__STORE_PEEK,
	WEIR__STORE_REFUND,
	WEIR__STORE_UNDO,    /* gives back up to the claim's cost of one charge; verdict.granted: units given back */
	WEIR__STORE_DEPART,  /* a take of a caller that waits: denied if it would be delayed by more than max_delay;
			      * retry_after is then that delay. Statistics of limits do not count it: its caller does */
	WEIR__STORE_CANCEL,  /* gives back a departure, minus what later ones were built upon. Same as UNDO for a limit
			      * that does not shape */
	WEIR__STORE_RESET,   /* verdict.allowed: the key had a state to forget */
	WEIR__STORE_INSPECT, /* verdict of a peek at cost 0; sets is_stored and full_at */

	/* Only in Redis, always is_each, and never decided by a fallback. docs/internals/redis.md has the reasons. */
	WEIR__STORE_GRANT, /* lends up to the claim's cost of units. verdict.granted: units lent; allowed: at least one;
			     * never: this limit is not leased. Sets lease_ends */
	WEIR__STORE_RETURN, /* gives back up to the claim's cost of the units lent until lease_ends; verdict.granted:
			     * units given back; 0 once the lease has ended */
	WEIR__STORE_PUSH, /* charges the claim's cost as of charged_at, even if less is left; then as a peek at cost 0.
			     * verdict.granted: units charged; 0 if the window they belong to is over. `pushes` may say
			     * when each was allowed, and what else counts as used in the same call */
};

enum weir__store_outcome {
	WEIR__STORE_DECIDED,
	WEIR__STORE_STALE,      /* the epoch check failed: nothing was decided. Only from stores that complete now */
	WEIR__STORE_UNREACHED,  /* the store could not be called: certainly nothing was charged */
	WEIR__STORE_UNANSWERED, /* the store was called and did not reply in time: it may have charged */
};

/* A value of fallback_nodes: a table decided, because it keeps the state of this limit (routed_store.h). */
#define WEIR__STORE_IN_TABLE UINT32_MAX

/* A value of fallback_nodes: the charge was spent from units that the store had lent to this server. */
#define WEIR__STORE_IN_LEASE (UINT32_MAX - 1)

/* A value of fallback_nodes: this server's mirror of the key decided, and the charge is pushed to the store later. */
#define WEIR__STORE_IN_MIRROR (UINT32_MAX - 2)

/* The longest duration of a lease. */
#define WEIR__STORE_LEASE_MAX (UINT64_C(10) * 1000 * 1000 * 1000)

struct weir__store;
struct weir__store_caller;

/* A charge that is pushed to the store. */
struct weir__store_push {
	weir_ns at; /* when the last of its units was allowed, by the store's clock */
	/* Units that count as used when the same call decides later requests for the key: this server may have allowed
	 * them, and the store may not have charged them. They are not charged. */
	uint64_t reserved;
};

/* Claims to decide, and the result. The caller owns the arrays. */
struct weir__store_request {
	enum weir__store_operation operation;
	bool is_each; /* each claim is decided on its own. False: all or nothing, only for TAKE and DEPART */
	uint32_t n;   /* claims: 1 to WEIR_TABLE_CLAIMS_MAX if decided together, any number if is_each */
	const struct weir_claim *claims;
	struct weir_verdict *verdicts; /* room for n */
	weir_ns now;                   /* for a store without a clock of its own */
	weir_ns max_delay;             /* for DEPART: the longest delay that the caller accepts */
	/* For UNDO and CANCEL: the charge. charged_at and charged_nodes are decided_at and fallback_nodes of its TAKE.
	 * For CANCEL, charged_full_at is decided_at + reset_after of its verdict. */
	weir_ns charged_at;
	uint64_t charged_cost;
	uint32_t charged_nodes;
	weir_ns charged_full_at;

	/* For GRANT: how long the units are lent, at most WEIR__STORE_LEASE_MAX, and how many units of a key may be lent
	 * to all servers together. */
	weir_ns lease_duration;
	uint64_t lease_most;
	/* For GRANT and RETURN, room for n, the caller's until the request is complete: the instants at which the leases
	 * end, by the store's clock, in microseconds, on the grid of weir__store_lease_grid_us. GRANT sets them: at least
	 * 1.001 * lease_duration after decided_at, or earlier at the end of a fixed window. 0: nothing was lent. */
	uint64_t *lease_ends;
	const struct weir__store_push
		*pushes; /* for PUSH, one for each claim. NULL: charged_at, and nothing reserved */

	/* A PUSH that the store makes in the same call, before it decides this request. It completes before this request, by
	 * its own caller, and moves with this one. NULL: none. */
	struct weir__store_request *before;

	/* Only stores that complete now use these. */
	const uint64_t *hashes;                      /* of the keys; NULL: unknown */
	const struct weir__epoch_check *epoch_check; /* NULL: decide in any case */

	/* The result. */
	enum weir__store_outcome outcome;
	weir_ns decided_at;            /* by the clock of the store that decided */
	uint32_t fallback_nodes;       /* 0: the store decided; n: its fallback did, as one of n servers; or IN_TABLE */
	bool is_uncertain;             /* the fallback decided, and the store may have done the same */
	bool is_behind;                /* the store decided before all charges deferred to it were made */
	bool is_whole;                 /* the verdicts have all that this server knows of: see fallback_store.c */
	bool is_closed;                /* denied because the limit's fallback is `closed` and the store failed */
	bool is_stored;                /* INSPECT: the store has a state for the key */
	weir_ns full_at;               /* INSPECT: when the key is full again; 0: no state */
	uint32_t n_current;            /* is_each with an epoch check: leading claims decided while it held */
	struct weir_decision decision; /* of claims decided together */

	const struct weir__store_caller *caller;

	/* Used by stores. */
	struct weir__store_request *next;
	weir_ns budget; /* how long to wait for a reply; set by the store in front (fallback_store.c) */
};

/* Callbacks for a store that completes a request later. */
struct weir__store_caller {
	/* Returns the same request in memory that stays valid until it is complete. The store goes on with the returned
	 * request. NULL: no memory. */
	struct weir__store_request *(*keep)(struct weir__store_request *request);
	void (*complete)(struct weir__store_request *request);
};

/* Health and counters, for status pages and metrics. A field that a kind of store lacks is 0. */
enum weir__store_health { WEIR__STORE_UP, WEIR__STORE_DOWN, WEIR__STORE_PROBING };

enum { WEIR__STORE_LATENCIES = 16, WEIR__STORE_LATENCY_FIRST_US = 64, WEIR__STORE_ERROR_SIZE = 256 };

/* What servers with leases count. Units, unless it says otherwise. */
enum weir__lease_count {
	WEIR__LEASE_ALLOWED,  /* requests that held units covered */
	WEIR__LEASE_DENIED,   /* requests denied here, because the store has just denied such a request */
	WEIR__LEASE_DRAWS,    /* draws for a key; not units */
	WEIR__LEASE_GRANTED,  /* lent by the store */
	WEIR__LEASE_SPENT,    /* spent here */
	WEIR__LEASE_GIVEN,    /* no longer held: a return to the store is queued */
	WEIR__LEASE_RETURNED, /* taken back by the store */
	WEIR__LEASE_EXPIRED,  /* held until the lease ended */
	WEIR__LEASE_DROPPED,  /* draws, returns and pushes not made, for want of room or memory; not units */

	/* The same for eventual limits. */
	WEIR__AHEAD_ALLOWED,   /* requests that mirrors allowed */
	WEIR__AHEAD_DENIED,    /* requests that mirrors denied */
	WEIR__AHEAD_COUNTED,   /* units that wait for a push */
	WEIR__AHEAD_CONFIRMED, /* of these, units that wait no longer */
	WEIR__AHEAD_PUSHES,    /* pushes of a key, also of 0 units; not units */
	WEIR__LEASE_COUNTS,
};

struct weir__store_status {
	enum weir__store_health health;
	bool was_up;                             /* it has been up at least once */
	uint32_t nodes;                          /* servers that share the state, including this one */
	bool is_joining;                         /* the other servers may not count this one yet */
	uint64_t calls, requests;                /* sent; a call carries several requests */
	uint64_t decided, unreached, unanswered; /* requests; a retry is not counted again */
	/* The unreached and unanswered requests by reason: no reply within the budget while connected, not connected,
	 * or an error as the reply. */
	uint64_t slow, gone, refused;
	uint64_t script_loads, failovers, damaged;    /* damaged: keys reset because their value was unreadable */
	uint64_t deferred_keys;                       /* keys with deferred charges still to be made */
	uint64_t charged, excess, uncertain, dropped; /* units of deferred charges: see redis_backlog.h */
	/* Decided requests by duration: up to 2^i * 64 us; the last one also counts longer ones. */
	uint64_t latency_counts[WEIR__STORE_LATENCIES];
	uint64_t latency_sum_us;
	uint64_t lease[WEIR__LEASE_COUNTS];
	char last_error[WEIR__STORE_ERROR_SIZE]; /* empty: no error yet */
};

/* What the fallback did without the store, to be repeated there as soon as the store is reachable. */
enum weir__store_deferred {
	WEIR__STORE_DEFER_CHARGE, /* units were allowed */
	WEIR__STORE_DEFER_REFUND, /* units were given back: taken from the deferred charges, or refunded in the store */
	WEIR__STORE_DEFER_UNDO,   /* a deferred charge was taken back: ignored if it was made meanwhile */
	WEIR__STORE_DEFER_RESET,  /* the key was reset: its deferred charges and refunds are dropped */
};

struct weir__store {
	/* The table that keeps the state; it completes at once and can be read directly. NULL: the state is
	 * elsewhere. */
	struct weir_table *table;

	bool converts_on_look; /* a peek with a plan other than the key's own converts the key */
	/* The store in front of this one, which gets finished requests first. NULL: none. */
	struct weir__store *front;

	/* Returns true if the request is complete, false if it completes later. */
	bool (*submit)(struct weir__store *store, struct weir__store_request *request);

	/* flush sends gathered requests. collect completes requests that got a reply since. NULL: the store completes
	 * at once. */
	void (*flush)(struct weir__store *store);
	void (*collect)(struct weir__store *store);

	/* Does what is due by now. Returns when to call it again, by the same clock, or WEIR_NEVER. NULL: nothing is ever
	 * due. */
	weir_ns (*due)(struct weir__store *store, weir_ns now);

	/* Begins to push waiting charges and to return held units. goes_on: another process takes over the table, and
	 * keeps the held units. Returns true when this is done. Otherwise call it again after collect. No requests may
	 * follow. NULL: there is nothing to do. */
	bool (*leave)(struct weir__store *store, bool goes_on);

	/* Called by the store behind this one with a finished request. Completes the request. */
	void (*completed)(struct weir__store *store, struct weir__store_request *request);

	/* NULL: not supported. */
	void (*defer)(struct weir__store *store, const struct weir_claim *claim, enum weir__store_deferred what,
		      uint64_t units);

	/* NULL: no status. */
	void (*status)(struct weir__store *store, struct weir__store_status *ret_status);

	/* No request may be under way. */
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

static inline weir_ns weir__store_due(struct weir__store *store, weir_ns now)
{
	return store->due ? store->due(store, now) : WEIR_NEVER;
}

/* Units that are lent to this process and unspent. The counts of workers are added one after another, so the sum may be
 * off for a moment. */
static inline uint64_t weir__store_held(const struct weir__store_status *status)
{
	const uint64_t lent = status->lease[WEIR__LEASE_GRANTED];
	const uint64_t gone = status->lease[WEIR__LEASE_SPENT] + status->lease[WEIR__LEASE_GIVEN] +
			      status->lease[WEIR__LEASE_EXPIRED];

	return lent > gone ? lent - gone : 0;
}

/* Units that wait until the store has confirmed them. As above, the sum may be off for a moment. */
static inline uint64_t weir__store_waiting(const struct weir__store_status *status)
{
	const uint64_t counted = status->lease[WEIR__AHEAD_COUNTED];

	return counted - weir__min(counted, status->lease[WEIR__AHEAD_CONFIRMED]);
}

/* How many calls the store got for 1,000 decisions of this process, rounded up. */
static inline uint64_t weir__store_calls_per_1000(const struct weir__store_status *status)
{
	const uint64_t decisions = status->decided + status->lease[WEIR__LEASE_ALLOWED] +
				   status->lease[WEIR__LEASE_DENIED] + status->lease[WEIR__AHEAD_ALLOWED] +
				   status->lease[WEIR__AHEAD_DENIED];

	return decisions == 0 ? 0 : weir__saturate(weir__div_up(weir__mul(status->calls, 1000), decisions));
}

static inline bool weir__store_leave(struct weir__store *store, bool goes_on)
{
	return store->leave == NULL || store->leave(store, goes_on);
}

/* Called by the store that decided the request, or failed to: passes it to the store in front, or to its caller. */
static inline void weir__store_complete(const struct weir__store *store, struct weir__store_request *request)
{
	if (store->front)
		store->front->completed(store->front, request);
	else
		request->caller->complete(request);
}

static inline bool weir__store_charges(enum weir__store_operation operation)
{
	return operation == WEIR__STORE_TAKE || operation == WEIR__STORE_UPTO || operation == WEIR__STORE_DEPART;
}

/* Whether the operation gives back a charge, which must happen where the charge was made. */
static inline bool weir__store_gives_back(enum weir__store_operation operation)
{
	return operation == WEIR__STORE_UNDO || operation == WEIR__STORE_CANCEL;
}

/* Whether the operation lends units or takes them back, or pushes charges: only the store itself can do that. */
static inline bool weir__store_is_lease(enum weir__store_operation operation)
{
	return operation >= WEIR__STORE_GRANT;
}

/* Leases of a duration end at multiples of this, so that a key has few different ends. */
static inline uint64_t weir__store_lease_grid_us(weir_ns duration)
{
	const uint64_t us = duration / 1000 + (duration % 1000 != 0);

	return us / 4 + (us % 4 != 0);
}

/* The number of servers, if the fallback decided. 0: the store did, or a table that keeps the state of the limit. */
static inline uint32_t weir__store_fallback_nodes(const struct weir__store_request *request)
{
	return request->fallback_nodes >= WEIR__STORE_IN_MIRROR ? 0 : request->fallback_nodes;
}

/* --- a table as a store: table_store.c --------------------------------------------------------------------------- */

/* Decides at once. */
WEIR__BETWEEN_LIBRARIES void weir__table_store_decide(struct weir_table *table, struct weir__store_request *request);

/* Adds the decisions of another store to the counters of a table's limits. Claims that were decided together all count
 * as allowed if all are allowed. Otherwise only claims that denied count, as denied. */
WEIR__BETWEEN_LIBRARIES void weir__table_store_count(const struct weir_table *table,
						     const struct weir__store_request *request);

struct weir__table_store {
	struct weir__store store; /* first member: the two convert by a cast */
};

void weir__table_store_init(struct weir__table_store *store, struct weir_table *table);

#endif
