/* accept_balancer.h: connections dealt out among workers, so that all have about as many.
 *
 * The kernel deals those of a port out by chance, and those of a path to whoever is awake, which is most often the same
 * worker. So whoever accepts one hands it to the worker that has fewest, through its door: a short list under a lock. */
#ifndef WEIR_SERVER_ACCEPT_BALANCER_H
#define WEIR_SERVER_ACCEPT_BALANCER_H

#include <stdbool.h>
#include <stdint.h>

#include "os/loop.h"
#include "server/worker.h"

enum { WEIR__ACCEPT_BALANCER_SOCKETS = 64 };

struct weir__accept_balancer;

/* A connection that was accepted. */
struct weir__accepted {
	int socket;
	enum weir__protocol protocol;
};

/* NULL: no memory. */
struct weir__accept_balancer *weir__accept_balancer_new(uint32_t workers);

/* When all workers have ended. */
void weir__accept_balancer_free(struct weir__accept_balancer *balancer);

/* That all workers have, with those at their doors. */
uint32_t weir__accept_balancer_connections(struct weir__accept_balancer *balancer);

/* Wakes the loops of all. */
void weir__accept_balancer_wake(struct weir__accept_balancer *balancer);

/* From now on the worker takes what is handed to it; the loop is woken when that is something. */
void weir__accept_balancer_open(struct weir__accept_balancer *balancer, uint32_t me, struct weir__loop *loop);

/* Nothing is handed to it any more; what was, is to be taken. */
void weir__accept_balancer_shut(struct weir__accept_balancer *balancer, uint32_t me);

/* Of a connection that was accepted: true if another worker gets it, else it is the worker's own. It is counted as that of
 * whoever gets it. */
bool weir__accept_balancer_hand(struct weir__accept_balancer *balancer, uint32_t me, struct weir__accepted accepted);

/* Takes what was handed; returns how many. */
uint32_t weir__accept_balancer_take(struct weir__accept_balancer *balancer, uint32_t me,
				    struct weir__accepted ret_arrivals[WEIR__ACCEPT_BALANCER_SOCKETS]);

/* How many workers there are. */
uint32_t weir__accept_balancer_workers(const struct weir__accept_balancer *balancer);

/* Whether another worker than this one can be handed one more, of so many at most. */
bool weir__accept_balancer_has_room(struct weir__accept_balancer *balancer, uint32_t me, uint32_t most);

/* The worker has closed one. */
void weir__accept_balancer_leave(struct weir__accept_balancer *balancer, uint32_t me);

#endif
