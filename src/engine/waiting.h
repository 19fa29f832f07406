/* waiting.h: takes that wait until they may go, of one thread, which never sleeps for one of them.
 *
 * No sockets and no clock here: whoever owns the waits asks when the next one is due, and which are over by then. A wait
 * means what weir_table_wait does, but for what it takes: from a bucket that shapes its departure, at once; from others
 * nothing before it may go, so that who gives up leaves nothing behind. Waits for one key form a line, and only the first
 * asks the table: none overtakes another. Takes that do not wait are in no line. */
#ifndef WEIR_ENGINE_WAITING_H
#define WEIR_ENGINE_WAITING_H

#include "engine/inline_limits.h"

struct weir__waiting;
struct weir__waiter;

struct weir__wait_request {
	const struct weir_table_limit *named;     /* of the table, as it is by then; NULL: what follows */
	const struct weir__inline_limits *limits; /* which make the limit for the wait */
	const struct weir_limit *stated;          /* as text */
	const void *key;
	size_t key_length;
	uint64_t cost;
	weir_ns patience; /* the longest wait */
	void *owner;      /* not NULL */
};

enum weir__wait_result {
	WEIR__WAIT_BEGUN,
	WEIR__WAIT_OVER,    /* it went, or will not go in time: the verdict tells */
	WEIR__WAIT_FULL,    /* as many wait as may, or there is no memory */
	WEIR__WAIT_REFUSED, /* the limit: the message tells why */
};

/* Room for so many waits. NULL: no memory. */
struct weir__waiting *weir__waiting_new(struct weir_table *table, uint32_t most);
void weir__waiting_free(struct weir__waiting *waiting); /* nobody waits any more; NULL is allowed */

/* Who sees what becomes of waits. */
struct weir__limit_stats;
void weir__waiting_show(struct weir__waiting *waiting, struct weir__limit_stats *stats);

/* From now on, who would have to wait is denied. */
void weir__waiting_end(struct weir__waiting *waiting);

uint32_t weir__waiting_n(const struct weir__waiting *waiting);

/* A verdict that denies has the wait that would have been needed as its retry_after. */
enum weir__wait_result weir__waiting_begin(struct weir__waiting *waiting, const struct weir__wait_request *request,
					   weir_ns now, struct weir_verdict *ret_verdict,
					   struct weir__waiter **ret_waiter, struct weir_message *ret_message);

/* Somebody else owns it from now on. */
void weir__waiting_set_owner(struct weir__waiter *waiter, void *owner);

/* When to ask which waits are over: WEIR_NEVER if there are none. */
weir_ns weir__waiting_next(const struct weir__waiting *waiting);

/* The owner of a wait that is over, which is then no more, or NULL: no other is over by now. */
void *weir__waiting_over(struct weir__waiting *waiting, weir_ns now, struct weir_verdict *ret_verdict);

/* Ends a wait before it is over, and says what the answer is if there is still somebody to hear it. */
struct weir_verdict weir__waiting_give_up(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now);

#endif
