/* serve_report.h: what weir serve prints once it serves: where, and what to try. */
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

/* On standard output: as people read it, or as lines of JSON if those of the log are. */
void weir__serve_report(const struct weir__serve_started *told);

#endif
