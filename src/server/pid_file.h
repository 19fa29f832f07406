/* pid_file.h: a file with the id of the process to which signals are sent. */
#ifndef WEIR_SERVER_PID_FILE_H
#define WEIR_SERVER_PID_FILE_H

#include <stdbool.h>

#include "server/settings.h"

/* Writes the id of this process over the old one, if the settings name a file. Returns false if that failed, after
 * reporting it. */
bool weir__pid_file_begin(struct weir__settings *settings);

/* Removes the file if it still has the id of this process: after an upgrade it has the id of the next server. */
void weir__pid_file_end(const struct weir__settings *settings);

#endif
