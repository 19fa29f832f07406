/* server.h: runs the complete server, from its settings until it ends. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include "server/listeners.h"
#include "server/settings.h"

struct weir_guard;

/* For the report at the start. */
struct weir__server_started {
	const struct weir__settings *settings;
	const struct weir__listeners *listeners;
	const struct weir__log *log;
	struct weir_guard *guard; /* NULL: no policy */
	bool has_store;
};

struct weir__server_options {
	char **argv; /* with which SIGUSR2 starts the next server; NULL: it cannot */

	/* Warns about settings and the environment, as soon as the log exists. */
	void (*warn)(const struct weir__settings *settings, FILE *out);
	/* Called when the server accepts connections. */
	void (*started)(const struct weir__server_started *started);
};

/* Serves until a signal ends it. Returns the exit status: 0, 1 if it could not start, or 2 if the settings are wrong.
 * The reason was reported. Call it once per process. */
int weir__server_run(struct weir__settings *settings, const struct weir__server_options *options);

#endif
