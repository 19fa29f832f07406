/* waiting.h: takes that wait until they are allowed. Used by one thread, which never sleeps for one of them.
 *
 * No sockets and no clock here: the owner queries when the next wait is due and which waits are over. A wait means the
 * same as weir_table_wait, except for when it charges. A shaping bucket is charged at once, for the departure. Other
 * limits are charged only when the request may go, so that a wait that is given up leaves nothing behind. Waits for one
 * key form a queue, and only the first of them tries the table, so that no wait overtakes another. Takes that do not
 * wait bypass the queue. */
#ifndef WEIR_ENGINE_WAITING_H
#define WEIR_ENGINE_WAITING_H

#include "engine/inline_limits.h"

struct weir__waiting;
struct weir__waiter;

struct weir__wait_request {
	const struct weir_table_limit *named;     /* a limit of the table, as it is when tried; NULL: use `stated` */
	const struct weir__inline_limits *limits; /* makes the limit for the wait */
	const struct weir_limit *stated;          /* the inline limit */
	const void *key;
	size_t key_length;
	uint64_t cost;
	weir_ns patience; /* the longest wait */
	void *owner;      /* not NULL */
};

enum weir__wait_result {
	WEIR__WAIT_BEGUN,
	WEIR__WAIT_OVER,    /* allowed, or cannot be allowed in time: see the verdict */
	WEIR__WAIT_FULL,    /* too many waits, or no memory */
	WEIR__WAIT_REFUSED, /* invalid limit: see the message */
};

/* Room for `most` waits. NULL: no memory. */
struct weir__waiting *weir__waiting_new(struct weir_table *table, uint32_t most);
void weir__waiting_free(struct weir__waiting *waiting); /* no wait may be left; NULL is allowed */

/* Sets the statistics that count the waits. */
struct weir__limit_stats;
void weir__waiting_show(struct weir__waiting *waiting, struct weir__limit_stats *stats);

/* From now on, a take that would have to wait is denied. */
void weir__waiting_end(struct weir__waiting *waiting);

uint32_t weir__waiting_n(const struct weir__waiting *waiting);

/* A verdict that denies has the necessary wait as its retry_after. */
enum weir__wait_result weir__waiting_begin(struct weir__waiting *waiting, const struct weir__wait_request *request,
					   weir_ns now, struct weir_verdict *ret_verdict,
					   struct weir__waiter **ret_waiter, struct weir_message *ret_message);

void weir__waiting_set_owner(struct weir__waiter *waiter, void *owner);

/* When to call weir__waiting_over next; WEIR_NEVER: no waits. */
weir_ns weir__waiting_next(const struct weir__waiting *waiting);

/* Ends one wait that is over by now and returns its owner. Returns NULL if there are no more. */
void *weir__waiting_over(struct weir__waiting *waiting, weir_ns now, struct weir_verdict *ret_verdict);

/* Ends a wait early. Returns the verdict to reply with, if the client is still connected. */
struct weir_verdict weir__waiting_give_up(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now);

#endif
