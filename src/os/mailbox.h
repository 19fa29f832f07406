/* mailbox.h: how one thread gives work to another and gets it back.
 *
 * A task is sent from a mailbox and returns to it, from any thread. Its return wakes the loop of the owner. A closed
 * mailbox takes nothing back: a task that returns later is freed, so the owner may end while tasks are under way. */
#ifndef WEIR_OS_MAILBOX_H
#define WEIR_OS_MAILBOX_H

#include <stdbool.h>

#include "os/loop.h"

struct weir__mailbox;

struct weir__task {
	struct weir__task *next;
	struct weir__mailbox *mailbox;
	void (*free)(struct weir__task *task);
	/* For the owner to call when it has taken the task back. */
	void (*returned)(struct weir__task *task);
};

/* NULL: no memory. */
struct weir__mailbox *weir__mailbox_new(struct weir__loop *loop);

/* The owner calls this once. Tasks in the mailbox are freed. NULL is allowed. */
void weir__mailbox_close(struct weir__mailbox *mailbox);

/* Registers a task that is about to leave. */
void weir__mailbox_send(struct weir__mailbox *mailbox, struct weir__task *task);

/* Frees a task that was registered, but did not leave. */
void weir__mailbox_cancel(struct weir__task *task);

/* Returns a task that is done, from any thread. Wakes the loop, unless the mailbox already has an unread task. */
void weir__mailbox_return(struct weir__task *task);

/* Takes all tasks that returned, oldest first, linked by next; NULL if there are none. The owner owns them again. */
struct weir__task *weir__mailbox_take(struct weir__mailbox *mailbox);

#endif
