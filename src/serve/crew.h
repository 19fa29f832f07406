/* crew.h: connections dealt out among workers, so that all have about as many.
 *
 * The kernel deals those of a port out by chance, and those of a path to whoever is awake, which is most often the same
 * worker. So whoever accepts one hands it to the worker that has fewest, through its door: a short list under a lock. */
#ifndef WEIR_SERVE_CREW_H
#define WEIR_SERVE_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include "os/loop.h"
#include "serve/worker.h"

enum { WEIR__DOOR_SOCKETS = 64 };

struct weir__crew;

/* A connection that was accepted. */
struct weir__arrival {
	int socket;
	enum weir__wire_number wire;
};

/* NULL: no memory. */
struct weir__crew *weir__crew_new(uint32_t workers);

/* When all workers have ended. */
void weir__crew_free(struct weir__crew *crew);

/* That all workers have, with those at their doors. */
uint32_t weir__crew_connections(struct weir__crew *crew);

/* Wakes the loops of all. */
void weir__crew_wake(struct weir__crew *crew);

/* From now on the worker takes what is handed to it; the loop is woken when that is something. */
void weir__crew_open(struct weir__crew *crew, uint32_t me, struct weir__loop *loop);

/* Nothing is handed to it any more; what was, is to be taken. */
void weir__crew_shut(struct weir__crew *crew, uint32_t me);

/* Of a connection that was accepted: true if another worker gets it, else it is the worker's own. It is counted as that of
 * whoever gets it. */
bool weir__crew_hand(struct weir__crew *crew, uint32_t me, struct weir__arrival arrival);

/* Takes what was handed; returns how many. */
uint32_t weir__crew_take(struct weir__crew *crew, uint32_t me, struct weir__arrival ret_arrivals[WEIR__DOOR_SOCKETS]);

/* How many workers there are. */
uint32_t weir__crew_workers(const struct weir__crew *crew);

/* Whether another worker than this one can be handed one more, of so many at most. */
bool weir__crew_has_room(struct weir__crew *crew, uint32_t me, uint32_t most);

/* The worker has closed one. */
void weir__crew_leave(struct weir__crew *crew, uint32_t me);

#endif
