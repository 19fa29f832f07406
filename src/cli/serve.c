/* serve.c: the daemon: reads its options, opens a table and sockets, starts workers, and waits to be told to end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/command.h"
#include "os/net.h"
#include "serve/worker.h"
#include "store/table.h"

enum { DONE = 0, FAILED = 1, CALLED_WRONGLY = 2, WORKERS_MAX = 256 };

static const char help[] = "usage: weir serve [OPTION...]\n"
			   "\n"
			   "Decides for whoever asks over RESP, the protocol of Redis: any Redis client will do.\n"
			   "\n"
			   "  --listen WHERE   HOST:PORT, or the path of a socket (with a slash); may be given more\n"
			   "                   than once. 127.0.0.1:6380 if it is not\n"
			   "  --keys N         how many keys owe something at the same time, at most: 24 bytes each;\n"
			   "                   1000000\n"
			   "  --shared NAME    the table is in shared memory of this name\n"
			   "  --file PATH      the table is in this file, and outlives the machine\n"
			   "  --workers N      threads; one for each processor\n"
			   "  --connections N  at most, for each worker; 10000\n"
			   "  --help           this\n"
			   "\n"
			   "SIGTERM and SIGINT end it when all that has come is answered.\n";

struct options {
	const char *listen[WEIR__LISTENERS_MAX];
	size_t n_listen;
	uint64_t keys;
	const char *shared, *file;
	uint32_t workers, connections;
};

static bool read_number(const char *text, uint64_t most, uint64_t *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && *text != '-' && *ret_number >= 1 && *ret_number <= most;
}

static int refuse(const char *option, const char *value, const char *right)
{
	fprintf(stderr, "weir serve: %s %s: %s\n", option, value, right);
	return CALLED_WRONGLY;
}

static int read_option(struct options *options, const char *option, const char *value)
{
	uint64_t number = 0;

	if (strcmp(option, "--listen") == 0) {
		if (options->n_listen == WEIR__LISTENERS_MAX)
			return refuse(option, value, "at most 16 can be listened to");
		options->listen[options->n_listen++] = value;
	} else if (strcmp(option, "--keys") == 0) {
		if (!read_number(value, UINT64_C(100000000000), &options->keys))
			return refuse(option, value, "a number of keys is 1 to 100000000000");
	} else if (strcmp(option, "--shared") == 0) {
		options->shared = value;
	} else if (strcmp(option, "--file") == 0) {
		options->file = value;
	} else if (strcmp(option, "--workers") == 0) {
		if (!read_number(value, WORKERS_MAX, &number))
			return refuse(option, value, "workers are 1 to 256");
		options->workers = (uint32_t)number;
	} else if (strcmp(option, "--connections") == 0) {
		if (!read_number(value, 1000000, &number))
			return refuse(option, value, "connections are 1 to 1000000");
		options->connections = (uint32_t)number;
	} else {
		fprintf(stderr, "weir serve: %s is no option; weir serve --help lists them\n", option);
		return CALLED_WRONGLY;
	}
	return DONE;
}

static int read_options(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i += 2) {
		int error;

		if (strcmp(argv[i], "--help") == 0) {
			fputs(help, stdout);
			exit(DONE);
		}
		if (i + 1 == argc) {
			fprintf(stderr, "weir serve: %s: what? weir serve --help tells\n", argv[i]);
			return CALLED_WRONGLY;
		}
		error = read_option(options, argv[i], argv[i + 1]);
		if (error != DONE)
			return error;
	}
	if (options->n_listen == 0)
		options->listen[options->n_listen++] = "127.0.0.1:6380";
	return DONE;
}

/* --- starting and ending ---------------------------------------------------------------------------------------- */

struct server {
	const struct options *options;
	struct weir_table *table;
	const struct weir_table_limit *counted_as;
	struct weir__worker *workers[WORKERS_MAX];
	uint32_t n_workers;
	int sockets[WEIR__LISTENERS_MAX]; /* with a path: of all workers */
	char names[WEIR__LISTENERS_MAX][WEIR__NET_NAME_SIZE];
};

static int open_table(struct server *server)
{
	const struct weir_table_options options = {
		.size_bytes = weir_table_size(server->options->keys, 0),
		.shared = server->options->shared,
		.file = server->options->file,
	};
	/* Nobody is decided by this: it counts, and tells who recovers a file that keys may owe for as long as can be. */
	static const char longest[] = "1/576460632303423488ns";
	struct weir_message why;

	if (weir_table_new(&options, &server->table, &why) == WEIR_OK &&
	    weir_table_add_limit_text(server->table, "limits that come with requests", longest, &server->counted_as,
				      &why) == WEIR_OK)
		return DONE;
	fprintf(stderr, "weir serve: %s\n", why.text);
	return FAILED;
}

/* Each worker has a socket of its own at the same port; they share one with a path, of which there can only be one. */
static int listen_for(struct server *server, uint32_t worker, struct weir__worker_options *options)
{
	for (size_t i = 0; i < server->options->n_listen; i++) {
		const char *const where = worker == 0 ? server->options->listen[i] : server->names[i];
		int error = 0;

		if (worker == 0 && !weir__net_is_local(where)) {
			fprintf(stderr,
				"weir serve: --listen %s: not an address of this machine alone (127.0.0.1:6380, [::1]:6380, ./socket), "
				"and there are no passwords yet\n",
				where);
			return CALLED_WRONGLY;
		}
		if (worker == 0 || strchr(where, '/') == NULL)
			error = weir__net_listen(where, true, &server->sockets[i], server->names[i]);
		if (error != 0) {
			fprintf(stderr, "weir serve: --listen %s: %s\n", where, strerror(error));
			return FAILED;
		}
		options->listeners[options->n_listeners++] = server->sockets[i];
	}
	return DONE;
}

/* A connection is a descriptor, and 1024, as systems begin with for select's sake, are few. What cannot be had is not had:
 * who connects then waits until others have gone. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int start(struct server *server)
{
	for (uint32_t i = 0; i < server->options->workers; i++) {
		struct weir__worker_options options = { .table = server->table,
							.counted_as = server->counted_as,
							.connections_max = server->options->connections };
		int error = listen_for(server, i, &options);

		if (error != DONE)
			return error;
		error = weir__worker_start(&options, &server->workers[i]);
		if (error != 0) {
			fprintf(stderr, "weir serve: a worker: %s\n", strerror(error));
			return FAILED;
		}
		server->n_workers++;
	}
	return DONE;
}

static void tell(const struct server *server)
{
	const char *const first = server->names[0], *const colon = strrchr(first, ':');
	char how[WEIR__NET_NAME_SIZE + 16];

	for (size_t i = 0; i < server->options->n_listen; i++)
		printf("weir serve: RESP at %s\n", server->names[i]);
	if (strchr(first, '/'))
		(void)snprintf(how, sizeof(how), "-s %s", first);
	else
		(void)snprintf(how, sizeof(how), "-p %s", colon ? colon + 1 : "6380");
	printf("try: redis-cli %s CL.THROTTLE user:42 15 30 60\n", how);
	printf("     redis-cli %s WEIR.TAKE user:42 '100/min burst 20'\n", how);
	printf("     redis-cli %s HELP\n", how);
	fflush(stdout);
}

int weir__serve(int argc, char **argv)
{
	struct options options = { .keys = 1000000, .connections = 10000 };
	static struct server server;
	sigset_t ends;
	int error, signal;

	options.workers = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	error = read_options(argc, argv, &options);
	if (error != DONE)
		return error;
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	(void)pthread_sigmask(SIG_BLOCK, &ends, NULL); /* workers inherit that */
	raise_descriptors();
	server.options = &options;
	error = open_table(&server);
	if (error == DONE)
		error = start(&server);
	if (error == DONE) {
		tell(&server);
		(void)sigwait(&ends, &signal);
	}
	for (uint32_t i = 0; i < server.n_workers; i++)
		weir__worker_stop(server.workers[i]);
	for (size_t i = 0; i < options.n_listen; i++)
		if (strchr(server.names[i], '/'))
			(void)unlink(server.names[i]);
	weir_table_free(server.table);
	return error;
}
