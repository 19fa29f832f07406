/* accept_balancer.c: an inbox for each worker. */
#include "server/accept_balancer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct inbox {
	_Alignas(64) _Atomic uint32_t connections; /* of the worker, including those in its inbox */
	pthread_mutex_t lock;
	struct weir__loop *loop; /* NULL: the inbox is shut */
	struct weir__accepted accepted[WEIR__ACCEPT_BALANCER_SOCKETS];
	uint32_t n;
};

struct weir__accept_balancer {
	uint32_t n;
	struct inbox inboxes[];
};

struct weir__accept_balancer *weir__accept_balancer_new(uint32_t workers)
{
	const size_t size = sizeof(struct weir__accept_balancer) + workers * sizeof(struct inbox);
	struct weir__accept_balancer *const balancer = aligned_alloc(_Alignof(struct weir__accept_balancer), size);

	if (balancer == NULL)
		return NULL;
	balancer->n = workers;
	for (uint32_t i = 0; i < workers; i++) {
		struct inbox *const inbox = &balancer->inboxes[i];

		atomic_init(&inbox->connections, 0);
		(void)pthread_mutex_init(&inbox->lock, NULL);
		inbox->loop = NULL;
		inbox->n = 0;
	}
	return balancer;
}

void weir__accept_balancer_free(struct weir__accept_balancer *balancer)
{
	if (balancer == NULL)
		return;
	for (uint32_t i = 0; i < balancer->n; i++)
		(void)pthread_mutex_destroy(&balancer->inboxes[i].lock);
	free(balancer);
}

uint32_t weir__accept_balancer_connections(struct weir__accept_balancer *balancer)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < balancer->n; i++)
		n += atomic_load(&balancer->inboxes[i].connections);
	return n;
}

void weir__accept_balancer_wake(struct weir__accept_balancer *balancer)
{
	for (uint32_t i = 0; i < balancer->n; i++) {
		struct inbox *const inbox = &balancer->inboxes[i];

		(void)pthread_mutex_lock(&inbox->lock);
		if (inbox->loop)
			weir__loop_wake(inbox->loop);
		(void)pthread_mutex_unlock(&inbox->lock);
	}
}

void weir__accept_balancer_open(struct weir__accept_balancer *balancer, uint32_t me, struct weir__loop *loop)
{
	(void)pthread_mutex_lock(&balancer->inboxes[me].lock);
	balancer->inboxes[me].loop = loop;
	(void)pthread_mutex_unlock(&balancer->inboxes[me].lock);
}

void weir__accept_balancer_shut(struct weir__accept_balancer *balancer, uint32_t me)
{
	weir__accept_balancer_open(balancer, me, NULL);
}

static bool put_at(struct inbox *inbox, struct weir__accepted accepted)
{
	bool is_there;

	(void)pthread_mutex_lock(&inbox->lock);
	is_there = inbox->loop && inbox->n < WEIR__ACCEPT_BALANCER_SOCKETS;
	if (is_there) {
		inbox->accepted[inbox->n++] = accepted;
		weir__loop_wake(inbox->loop);
	}
	(void)pthread_mutex_unlock(&inbox->lock);
	return is_there;
}

bool weir__accept_balancer_hand(struct weir__accept_balancer *balancer, uint32_t me, struct weir__accepted accepted)
{
	uint32_t least = atomic_load(&balancer->inboxes[me].connections), who = me;

	for (uint32_t i = 0; i < balancer->n; i++) {
		const uint32_t has = atomic_load(&balancer->inboxes[i].connections);

		if (has < least) {
			least = has;
			who = i;
		}
	}
	atomic_fetch_add(&balancer->inboxes[who].connections, 1); /* count it before the other worker can close it */
	if (who == me || put_at(&balancer->inboxes[who], accepted))
		return who != me;
	atomic_fetch_sub(&balancer->inboxes[who].connections, 1);
	atomic_fetch_add(&balancer->inboxes[me].connections, 1);
	return false;
}

uint32_t weir__accept_balancer_take(struct weir__accept_balancer *balancer, uint32_t me,
				    struct weir__accepted ret_arrivals[WEIR__ACCEPT_BALANCER_SOCKETS])
{
	struct inbox *const inbox = &balancer->inboxes[me];
	uint32_t n;

	(void)pthread_mutex_lock(&inbox->lock);
	n = inbox->n;
	for (uint32_t i = 0; i < n; i++)
		ret_arrivals[i] = inbox->accepted[i];
	inbox->n = 0;
	(void)pthread_mutex_unlock(&inbox->lock);
	return n;
}

uint32_t weir__accept_balancer_workers(const struct weir__accept_balancer *balancer)
{
	return balancer->n;
}

static bool is_open(struct inbox *inbox)
{
	bool is;

	(void)pthread_mutex_lock(&inbox->lock);
	is = inbox->loop && inbox->n < WEIR__ACCEPT_BALANCER_SOCKETS;
	(void)pthread_mutex_unlock(&inbox->lock);
	return is;
}

bool weir__accept_balancer_has_room(struct weir__accept_balancer *balancer, uint32_t me, uint32_t most)
{
	for (uint32_t i = 0; i < balancer->n; i++)
		if (i != me && atomic_load(&balancer->inboxes[i].connections) < most && is_open(&balancer->inboxes[i]))
			return true;
	return false;
}

void weir__accept_balancer_leave(struct weir__accept_balancer *balancer, uint32_t me)
{
	atomic_fetch_sub(&balancer->inboxes[me].connections, 1);
}
