/* handover.h: a server starts the next one and hands over its listening sockets.
 *
 * The next server inherits the sockets. One environment variable names them and where they listen. The next server
 * reports through a pipe that it serves. If it exits before that, or reports nothing for a minute, this server
 * continues as before. The reasons are in docs/internals/server.md. */
#ifndef WEIR_SERVER_HANDOVER_H
#define WEIR_SERVER_HANDOVER_H

#include <weir/types.h>

#include <sys/types.h>

#include "os/ticket_keys.h"
#include "server/listeners.h"

/* --- the next server -------------------------------------------------------------------------------------------- */

/* Reads the sockets that were handed over or passed by systemd, if any, the pipe to report through (-1: no server
 * waits), and the pipe to the parent of all servers (-1: no parent, see parent.h). Unsets the variable. Returns false
 * if the environment is wrong, after reporting that. */
bool weir__handover_receive(struct weir__listeners *ret_listeners, int *ret_pipe, int *ret_parent, FILE *errors);

/* Returns the keys of session tickets that were handed over. NULL: none. Unsets their variable. */
struct weir__ticket_keys *weir__handover_take_tickets(void);

/* Reports that this server serves. Returns false, with errno, if the report fails. */
bool weir__handover_tell(int pipe);

/* --- the running server ------------------------------------------------------------------------------------------- */

struct weir__handover {
	pid_t next; /* 0: not started */
	int pipe;
	weir_ns until;
};

/* Starts argv[0] with these sockets, the pipe to the parent (-1: none), and the keys of session tickets (NULL: none), so
 * that clients can resume their sessions. Returns false if that failed, after reporting it. */
bool weir__handover_begin(struct weir__handover *handover, char *const argv[], const struct weir__listeners *listeners,
			  int parent, struct weir__ticket_keys *tickets, FILE *errors);

enum weir__handover_state {
	WEIR__HANDOVER_WAITS,
	WEIR__HANDOVER_DONE,   /* the next server serves */
	WEIR__HANDOVER_FAILED, /* the next server has exited, and that was reported */
};

/* The current state. Does not wait. */
enum weir__handover_state weir__handover_look(struct weir__handover *handover, FILE *errors);

/* Kills the next server, which does not serve yet. */
void weir__handover_cancel(struct weir__handover *handover);

#endif
