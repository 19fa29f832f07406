/* mailbox.c: a list under a lock. The mailbox lives as long as a task may return to it. */
#include "os/mailbox.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct weir__mailbox {
	pthread_mutex_t lock;
	struct weir__loop *loop; /* NULL: closed */
	struct weir__task *first, *last;
	uint32_t under_way; /* tasks that have not returned */
};

struct weir__mailbox *weir__mailbox_new(struct weir__loop *loop)
{
	struct weir__mailbox *const mailbox = calloc(1, sizeof(*mailbox));

	if (mailbox == NULL)
		return NULL;
	(void)pthread_mutex_init(&mailbox->lock, NULL);
	mailbox->loop = loop;
	return mailbox;
}

static void free_mailbox(struct weir__mailbox *mailbox)
{
	(void)pthread_mutex_destroy(&mailbox->lock);
	free(mailbox);
}

void weir__mailbox_close(struct weir__mailbox *mailbox)
{
	struct weir__task *first;
	bool is_last;

	if (mailbox == NULL)
		return;
	(void)pthread_mutex_lock(&mailbox->lock);
	first = mailbox->first;
	mailbox->first = mailbox->last = NULL;
	mailbox->loop = NULL;
	is_last = mailbox->under_way == 0;
	(void)pthread_mutex_unlock(&mailbox->lock);
	while (first) {
		struct weir__task *const task = first;

		first = task->next;
		task->free(task);
	}
	if (is_last)
		free_mailbox(mailbox);
}

void weir__mailbox_send(struct weir__mailbox *mailbox, struct weir__task *task)
{
	task->mailbox = mailbox;
	task->next = NULL;
	(void)pthread_mutex_lock(&mailbox->lock);
	mailbox->under_way++;
	(void)pthread_mutex_unlock(&mailbox->lock);
}

void weir__mailbox_cancel(struct weir__task *task)
{
	(void)pthread_mutex_lock(&task->mailbox->lock);
	task->mailbox->under_way--;
	(void)pthread_mutex_unlock(&task->mailbox->lock);
	task->free(task);
}

void weir__mailbox_return(struct weir__task *task)
{
	struct weir__mailbox *const mailbox = task->mailbox;
	bool is_closed, is_last;

	task->next = NULL;
	(void)pthread_mutex_lock(&mailbox->lock);
	is_last = --mailbox->under_way == 0;
	is_closed = mailbox->loop == NULL;
	if (!is_closed) {
		if (mailbox->last)
			mailbox->last->next = task;
		else
			mailbox->first = task;
		if (mailbox->first == task)
			weir__loop_wake(mailbox->loop);
		mailbox->last = task;
	}
	(void)pthread_mutex_unlock(&mailbox->lock);
	if (!is_closed)
		return;
	task->free(task);
	if (is_last)
		free_mailbox(mailbox);
}

struct weir__task *weir__mailbox_take(struct weir__mailbox *mailbox)
{
	struct weir__task *first;

	(void)pthread_mutex_lock(&mailbox->lock);
	first = mailbox->first;
	mailbox->first = mailbox->last = NULL;
	(void)pthread_mutex_unlock(&mailbox->lock);
	return first;
}
