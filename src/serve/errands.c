/* errands.c: a door is a list under a lock, which lives as long as an errand may come back to it. */
#include "serve/errands.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct weir__errand_door {
	pthread_mutex_t lock;
	struct weir__loop *loop; /* NULL: it is shut */
	struct weir__errand *first, *last;
	uint32_t out; /* errands that have not come back */
};

struct weir__errand_door *weir__errand_door_new(struct weir__loop *loop)
{
	struct weir__errand_door *const door = calloc(1, sizeof(*door));

	if (door == NULL)
		return NULL;
	(void)pthread_mutex_init(&door->lock, NULL);
	door->loop = loop;
	return door;
}

static void free_door(struct weir__errand_door *door)
{
	(void)pthread_mutex_destroy(&door->lock);
	free(door);
}

void weir__errand_door_shut(struct weir__errand_door *door)
{
	struct weir__errand *errand;
	bool is_last;

	if (door == NULL)
		return;
	while ((errand = weir__errand_take(door)) != NULL)
		errand->free(errand);
	(void)pthread_mutex_lock(&door->lock);
	door->loop = NULL;
	is_last = door->out == 0;
	(void)pthread_mutex_unlock(&door->lock);
	if (is_last)
		free_door(door);
}

void weir__errand_send(struct weir__errand_door *door, struct weir__errand *errand)
{
	errand->door = door;
	errand->next = NULL;
	(void)pthread_mutex_lock(&door->lock);
	door->out++;
	(void)pthread_mutex_unlock(&door->lock);
}

void weir__errand_cancel(struct weir__errand *errand)
{
	(void)pthread_mutex_lock(&errand->door->lock);
	errand->door->out--;
	(void)pthread_mutex_unlock(&errand->door->lock);
	errand->free(errand);
}

void weir__errand_return(struct weir__errand *errand)
{
	struct weir__errand_door *const door = errand->door;
	bool is_shut, is_last;

	(void)pthread_mutex_lock(&door->lock);
	is_last = --door->out == 0;
	is_shut = door->loop == NULL;
	if (!is_shut) {
		if (door->last)
			door->last->next = errand;
		else
			door->first = errand;
		door->last = errand;
		weir__loop_wake(door->loop);
	}
	(void)pthread_mutex_unlock(&door->lock);
	if (!is_shut)
		return;
	errand->free(errand);
	if (is_last)
		free_door(door);
}

struct weir__errand *weir__errand_take(struct weir__errand_door *door)
{
	struct weir__errand *errand;

	(void)pthread_mutex_lock(&door->lock);
	errand = door->first;
	if (errand)
		door->first = errand->next;
	if (door->first == NULL)
		door->last = NULL;
	(void)pthread_mutex_unlock(&door->lock);
	return errand;
}
