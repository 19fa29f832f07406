/* crew.c: a door for each worker. */
#include "serve/crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct door {
	_Alignas(64) _Atomic uint32_t connections; /* that the worker has, with those at its door */
	pthread_mutex_t lock;
	struct weir__loop *loop; /* NULL: it is shut */
	struct weir__arrival arrivals[WEIR__DOOR_SOCKETS];
	uint32_t n;
};

struct weir__crew {
	uint32_t n;
	struct door doors[];
};

struct weir__crew *weir__crew_new(uint32_t workers)
{
	const size_t size = sizeof(struct weir__crew) + workers * sizeof(struct door);
	struct weir__crew *const crew = aligned_alloc(_Alignof(struct weir__crew), size);

	if (crew == NULL)
		return NULL;
	crew->n = workers;
	for (uint32_t i = 0; i < workers; i++) {
		struct door *const door = &crew->doors[i];

		atomic_init(&door->connections, 0);
		(void)pthread_mutex_init(&door->lock, NULL);
		door->loop = NULL;
		door->n = 0;
	}
	return crew;
}

void weir__crew_free(struct weir__crew *crew)
{
	if (crew == NULL)
		return;
	for (uint32_t i = 0; i < crew->n; i++)
		(void)pthread_mutex_destroy(&crew->doors[i].lock);
	free(crew);
}

uint32_t weir__crew_connections(struct weir__crew *crew)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < crew->n; i++)
		n += atomic_load(&crew->doors[i].connections);
	return n;
}

void weir__crew_wake(struct weir__crew *crew)
{
	for (uint32_t i = 0; i < crew->n; i++) {
		struct door *const door = &crew->doors[i];

		(void)pthread_mutex_lock(&door->lock);
		if (door->loop)
			weir__loop_wake(door->loop);
		(void)pthread_mutex_unlock(&door->lock);
	}
}

void weir__crew_open(struct weir__crew *crew, uint32_t me, struct weir__loop *loop)
{
	(void)pthread_mutex_lock(&crew->doors[me].lock);
	crew->doors[me].loop = loop;
	(void)pthread_mutex_unlock(&crew->doors[me].lock);
}

void weir__crew_shut(struct weir__crew *crew, uint32_t me)
{
	weir__crew_open(crew, me, NULL);
}

static bool put_at(struct door *door, struct weir__arrival arrival)
{
	bool is_there;

	(void)pthread_mutex_lock(&door->lock);
	is_there = door->loop && door->n < WEIR__DOOR_SOCKETS;
	if (is_there) {
		door->arrivals[door->n++] = arrival;
		weir__loop_wake(door->loop);
	}
	(void)pthread_mutex_unlock(&door->lock);
	return is_there;
}

bool weir__crew_hand(struct weir__crew *crew, uint32_t me, struct weir__arrival arrival)
{
	uint32_t least = atomic_load(&crew->doors[me].connections), who = me;

	for (uint32_t i = 0; i < crew->n; i++) {
		const uint32_t has = atomic_load(&crew->doors[i].connections);

		if (has < least) {
			least = has;
			who = i;
		}
	}
	atomic_fetch_add(&crew->doors[who].connections, 1); /* before it can be closed */
	if (who == me || put_at(&crew->doors[who], arrival))
		return who != me;
	atomic_fetch_sub(&crew->doors[who].connections, 1);
	atomic_fetch_add(&crew->doors[me].connections, 1);
	return false;
}

uint32_t weir__crew_take(struct weir__crew *crew, uint32_t me, struct weir__arrival ret_arrivals[WEIR__DOOR_SOCKETS])
{
	struct door *const door = &crew->doors[me];
	uint32_t n;

	(void)pthread_mutex_lock(&door->lock);
	n = door->n;
	for (uint32_t i = 0; i < n; i++)
		ret_arrivals[i] = door->arrivals[i];
	door->n = 0;
	(void)pthread_mutex_unlock(&door->lock);
	return n;
}

uint32_t weir__crew_workers(const struct weir__crew *crew)
{
	return crew->n;
}

static bool is_open(struct door *door)
{
	bool is;

	(void)pthread_mutex_lock(&door->lock);
	is = door->loop && door->n < WEIR__DOOR_SOCKETS;
	(void)pthread_mutex_unlock(&door->lock);
	return is;
}

bool weir__crew_has_room(struct weir__crew *crew, uint32_t me, uint32_t most)
{
	for (uint32_t i = 0; i < crew->n; i++)
		if (i != me && atomic_load(&crew->doors[i].connections) < most && is_open(&crew->doors[i]))
			return true;
	return false;
}

void weir__crew_leave(struct weir__crew *crew, uint32_t me)
{
	atomic_fetch_sub(&crew->doors[me].connections, 1);
}
