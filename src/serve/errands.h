/* errands.h: what a worker must not wait for is done by another thread, and comes back to the worker when it is done.
 *
 * A worker has a door. An errand goes out from it and comes back to it, and the worker's loop is woken then. A door that is
 * shut takes nothing back: what comes later is freed, so a worker may end while errands are out. */
#ifndef WEIR_SERVE_ERRANDS_H
#define WEIR_SERVE_ERRANDS_H

#include <stdbool.h>

#include "os/loop.h"

struct weir__errand_door;
struct weir__http_reply;

struct weir__errand {
	struct weir__errand *next;
	struct weir__errand_door *door;
	void *owner;          /* of the worker alone, who sets it to NULL if nobody waits any more */
	bool says_keep_alive; /* as the answer is to be begun */
	void (*answer)(const struct weir__errand *errand, struct weir__http_reply *reply);
	void (*free)(struct weir__errand *errand);
};

/* NULL: no memory. */
struct weir__errand_door *weir__errand_door_new(struct weir__loop *loop);

/* By the worker, once: nothing is given back any more. NULL is allowed. */
void weir__errand_door_shut(struct weir__errand_door *door);

/* An errand goes out from here. */
void weir__errand_send(struct weir__errand_door *door, struct weir__errand *errand);

/* It did not go out after all: it is freed. */
void weir__errand_cancel(struct weir__errand *errand);

/* It is done; from any thread. */
void weir__errand_return(struct weir__errand *errand);

/* One that came back, for the worker to free, or NULL. */
struct weir__errand *weir__errand_take(struct weir__errand_door *door);

#endif
