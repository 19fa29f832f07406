/* serve_report.h: what weir serve prints once it accepts connections: where it listens, and commands to try. */
#ifndef WEIR_CLI_SERVE_REPORT_H
#define WEIR_CLI_SERVE_REPORT_H

#include "server/server.h"

/* Prints to standard output, for people, or as lines of JSON if the log has that format. */
void weir__serve_report(const struct weir__server_started *started);

#endif
