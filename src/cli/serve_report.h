/* serve_report.h: what weir serve prints when it has started: its addresses, and commands to try. */
#ifndef WEIR_CLI_SERVE_REPORT_H
#define WEIR_CLI_SERVE_REPORT_H

#include "server/listeners.h"
#include "server/settings.h"

struct weir__serve_started {
	const struct weir__settings *settings;
	const struct weir__listeners *listeners;
	const struct weir__log *log;
	bool has_policy, has_store;
};

/* Prints to standard output, as text, or as lines of JSON if the log is JSON. */
void weir__serve_report(const struct weir__serve_started *told);

#endif
