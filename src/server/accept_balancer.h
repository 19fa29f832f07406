/* accept_balancer.h: spreads connections over the workers, so that each has about the same number.
 *
 * The kernel distributes the connections of a port at random. Connections of a Unix socket go to a worker that is
 * awake, most often the same one. So the worker that accepts a connection hands it to the worker with the fewest
 * connections, through that worker's inbox: a short list under a lock. */
#ifndef WEIR_SERVER_ACCEPT_BALANCER_H
#define WEIR_SERVER_ACCEPT_BALANCER_H

#include <stdbool.h>
#include <stdint.h>

#include "os/loop.h"
#include "server/worker.h"

enum { WEIR__ACCEPT_BALANCER_SOCKETS = 64 };

struct weir__accept_balancer;
struct weir__address_count;

/* A connection that was accepted. */
struct weir__accepted {
	int socket;
	enum weir__service service;          /* of the address where it was accepted */
	struct weir__address_count *address; /* of its peer; NULL: not counted */
	bool is_tls;
};

/* NULL: no memory. */
struct weir__accept_balancer *weir__accept_balancer_new(uint32_t workers);

/* Call it when all workers have ended. */
void weir__accept_balancer_free(struct weir__accept_balancer *balancer);

/* The connections of all workers, including those that wait in inboxes. */
uint32_t weir__accept_balancer_connections(struct weir__accept_balancer *balancer);

/* Wakes the loops of all workers. */
void weir__accept_balancer_wake(struct weir__accept_balancer *balancer);

/* From now on worker `me` takes connections that are handed to it. Its loop is woken when its inbox gets a
 * connection. */
void weir__accept_balancer_open(struct weir__accept_balancer *balancer, uint32_t me, struct weir__loop *loop);

/* No more connections are handed to worker `me`. It still has to empty its inbox. */
void weir__accept_balancer_shut(struct weir__accept_balancer *balancer, uint32_t me);

/* Assigns an accepted connection to the worker with the fewest, and counts it there. Returns true if another worker
 * gets it. Returns false if it stays with worker `me`, which includes that the other inbox is full or shut. */
bool weir__accept_balancer_hand(struct weir__accept_balancer *balancer, uint32_t me, struct weir__accepted accepted);

/* Empties the inbox of worker `me`. Returns the number of connections that were in it. */
uint32_t weir__accept_balancer_take(struct weir__accept_balancer *balancer, uint32_t me,
				    struct weir__accepted ret_arrivals[WEIR__ACCEPT_BALANCER_SOCKETS]);

uint32_t weir__accept_balancer_workers(const struct weir__accept_balancer *balancer);

/* Whether a worker other than `me` has fewer than `most` connections and room in its inbox. */
bool weir__accept_balancer_has_room(struct weir__accept_balancer *balancer, uint32_t me, uint32_t most);

/* Call it when worker `me` has closed a connection. */
void weir__accept_balancer_leave(struct weir__accept_balancer *balancer, uint32_t me);

#endif
