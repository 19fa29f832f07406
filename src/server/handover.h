/* handover.h: a server starts the next one, and hands its listening sockets over.
 *
 * They are inherited, and named in one variable of the environment, with where they listen. The next server says through a
 * pipe that it serves; if it ends before, or says nothing for a minute, this one goes on as if nothing had been. */
#ifndef WEIR_SERVER_HANDOVER_H
#define WEIR_SERVER_HANDOVER_H

#include <weir/types.h>

#include <sys/types.h>

#include "server/listeners.h"

/* --- of the next server ----------------------------------------------------------------------------------------- */

/* The sockets that were handed over, or lent by systemd, if any, and what is told through: -1 if nobody waits for it. The variable is removed.
 * False: it is wrong, and that was told. */
bool weir__handover_receive(struct weir__listeners *ret_sites, int *ret_pipe, FILE *errors);

/* Says that it serves. */
void weir__handover_tell(int pipe);

/* --- of the server that is there ---------------------------------------------------------------------------------- */

struct weir__handover {
	pid_t next; /* 0: none was started */
	int pipe;
	weir_ns until;
};

/* Starts argv[0] with these sockets. False: it cannot be, and that was told. */
bool weir__handover_begin(struct weir__handover *handover, char *const argv[], const struct weir__listeners *listeners,
			  FILE *errors);

enum weir__handover_state {
	WEIR__HANDOVER_WAITS,
	WEIR__HANDOVER_DONE,   /* the next one serves */
	WEIR__HANDOVER_FAILED, /* and there is none any more: that was told */
};

/* How it stands; does not wait. */
enum weir__handover_state weir__handover_look(struct weir__handover *handover, FILE *errors);

/* Kills a server that does not serve yet. */
void weir__handover_cancel(struct weir__handover *handover);

#endif
