/* waiting.h: takes that wait until they are allowed. Used by one thread, which never sleeps for one of them.
 *
 * It has no sockets or timers: the owner calls weir__waiting_next to learn when the next wait is due. A wait is a small
 * state machine over the store (store/store.h), whether that completes now or later:
 *
 *     the store allows -> over, or departs after the delay -> over
 *              denies  -> over, if it could not be allowed in time; else sleeps until retry_after and tries again
 *
 * A limit that shapes is charged at once, for the departure. If the wait is given up, the departure is cancelled. Other
 * limits are charged only when the request may go. Waits for the same keys form a queue, and only the first of them
 * calls the store, so that no wait overtakes another, and waits that cannot go yet do not call the store. Takes that do
 * not wait, and waits in other workers and servers, bypass the queue. Departures are in the order in which workers and
 * servers called the store. */
#ifndef WEIR_ENGINE_WAITING_H
#define WEIR_ENGINE_WAITING_H

#include "observe/recorder.h"
#include "store/store.h"

struct weir__waiting;
struct weir__waiter;

/* All claims are decided together, all or nothing. The request departs after the longest delay. Keys and inline limits
 * are copied. */
struct weir__wait_request {
	const struct weir_claim *claims;
	uint32_t n;       /* 1 to WEIR_TABLE_CLAIMS_MAX */
	weir_ns patience; /* the longest wait */
	void *owner;      /* not NULL */
	/* Waits only for the delays of limits that shape. A denial ends the wait at once. */
	bool departs_only;
	struct weir__recorder_attributes attributes; /* for a recording; not kept */
};

/* How a wait ended. */
struct weir__wait_outcome {
	struct weir_verdict verdict; /* of all claims; its delay is 0: the request has waited */
	uint32_t decided_by;         /* index of the claim that decided */
	bool is_closed;              /* see struct weir__store_request */
	weir_ns waited; /* for the limits, without the time of the store's reply and the lateness of timers */
	/* Of each claim, for statistics. Verdicts that allow have the delays that the store returned. */
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
};

enum weir__wait_result {
	WEIR__WAIT_BEGUN,
	WEIR__WAIT_OVER, /* allowed, or cannot be allowed in time: see the outcome */
	WEIR__WAIT_FULL, /* too many waits, or no memory */
};

struct weir__waiting_options {
	struct weir__store *store;
	struct weir_table *table;        /* its clock times the waits */
	struct weir__recorder *recorder; /* NULL: decisions are not recorded */
	uint32_t most;                   /* the most waits at once */
	/* Called when a wait that has begun is over. It may begin other waits. */
	void (*over)(void *owner, const struct weir__wait_outcome *outcome);
	/* Called when the store has completed a call and the wait goes on. May be NULL. */
	void (*goes_on)(void *owner);
};

/* NULL: no memory. */
struct weir__waiting *weir__waiting_new(const struct weir__waiting_options *options);
void weir__waiting_free(struct weir__waiting *waiting); /* no wait may be left; NULL is allowed */

/* From now on, a take that would have to wait is denied. */
void weir__waiting_end(struct weir__waiting *waiting);

/* The number of waits, including waits that were given up while the store had not replied. */
uint32_t weir__waiting_n(const struct weir__waiting *waiting);

/* A verdict that denies has the necessary wait as its retry_after. */
enum weir__wait_result weir__waiting_begin(struct weir__waiting *waiting, const struct weir__wait_request *request,
					   weir_ns now, struct weir__wait_outcome *ret_outcome,
					   struct weir__waiter **ret_waiter);

void weir__waiting_set_owner(struct weir__waiter *waiter, void *owner);

/* When to call weir__waiting_do_due next; WEIR_NEVER: nothing is due before the store replies. */
weir_ns weir__waiting_next(const struct weir__waiting *waiting);

/* Continues all waits that are due by now. */
void weir__waiting_do_due(struct weir__waiting *waiting, weir_ns now);

/* Whether the store is being called for this wait. It ends soon, and then `over` is called. */
bool weir__waiting_is_under_way(const struct weir__waiter *waiter);

/* Ends a wait early, without a call of `over`. Gives back what it was charged, even if the store has yet to reply. The
 * outcome is a denial, to reply with if the client is still connected. */
void weir__waiting_give_up(struct weir__waiter *waiter, weir_ns now, struct weir__wait_outcome *ret_outcome);

#endif
