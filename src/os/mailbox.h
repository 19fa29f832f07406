/* mailbox.h: how one thread gives work to another and gets it back.
 *
 * A task leaves from a mailbox and returns to it, from any thread; the loop of its owner is woken then. A mailbox that is
 * closed takes nothing back: a task that returns later is freed, so the owner may end while tasks are under way. */
#ifndef WEIR_OS_MAILBOX_H
#define WEIR_OS_MAILBOX_H

#include <stdbool.h>

#include "os/loop.h"

struct weir__mailbox;

struct weir__task {
	struct weir__task *next;
	struct weir__mailbox *mailbox;
	void (*free)(struct weir__task *task);
};

/* NULL: no memory. */
struct weir__mailbox *weir__mailbox_new(struct weir__loop *loop);

/* By the owner, once. NULL is allowed. */
void weir__mailbox_close(struct weir__mailbox *mailbox);

/* A task leaves from here. */
void weir__mailbox_send(struct weir__mailbox *mailbox, struct weir__task *task);

/* It did not leave after all: it is freed. */
void weir__mailbox_cancel(struct weir__task *task);

/* It is done; from any thread. The loop is woken, unless something waits in the mailbox already. */
void weir__mailbox_return(struct weir__task *task);

/* All that returned, the first one first, linked by next; NULL: nothing did. They are the owner's again. */
struct weir__task *weir__mailbox_take(struct weir__mailbox *mailbox);

#endif
