/* serve_tell.h: what weir serve prints once it serves: where, and what to try. */
#ifndef WEIR_CLI_SERVE_TELL_H
#define WEIR_CLI_SERVE_TELL_H

#include "serve/settings.h"
#include "serve/sites.h"

struct weir__serve_told {
	const struct weir__settings *settings;
	const struct weir__sites *sites;
	const struct weir__log *log;
	bool has_policy, has_store;
};

/* On standard output: as people read it, or as lines of JSON if those of the log are. */
void weir__serve_tell(const struct weir__serve_told *told);

#endif
