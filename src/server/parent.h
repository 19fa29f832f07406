/* parent.h: a small process in front of the server, whose id stays the same over upgrades.
 *
 * A supervisor that knows one process takes its exit for the end of the service. In a container, all other processes
 * are killed when process 1 ends. So a parent stays. It forwards signals to the server, reaps processes, and exits as
 * the last server does. Each server that begins to serve reports its id to the parent through a pipe. */
#ifndef WEIR_SERVER_PARENT_H
#define WEIR_SERVER_PARENT_H

#include <stdbool.h>

#include "server/settings.h"

/* Whether the settings want a parent for this process. */
bool weir__parent_is_wanted(const struct weir__settings *settings);

/* Forks. Returns true in the parent, after the last server has ended, with the exit status of the process in
 * *ret_status. Returns false in the child with the pipe to report through in *ret_pipe; -1: no parent, because fork
 * failed, and that was reported. Call it while the process has one thread. */
bool weir__parent_run(struct weir__settings *settings, int *ret_pipe, int *ret_status);

/* Reports that this process serves. */
void weir__parent_report(int pipe);

#endif
