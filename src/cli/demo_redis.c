/* demo_redis.c: starts a private Redis and two servers in a temporary directory, sends requests to the servers in turn,
 * and always kills all three processes by their ids at the end. */
#include "cli/demo_redis.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/link.h"
#include "os/process.h"

enum { SERVERS = 2, REQUESTS = 14, LIMIT = 10, PATIENCE_MS = 30000, PAUSE_MS = 20, PATH_SIZE = 128, PROCESSES = 3 };

#define LIMIT_TEXT "10/day"

static const char usage[] = "usage: weir demo redis\n"
			    "\n"
			    "Starts a private redis-server and two Weir servers that keep their limits in it, sends\n"
			    "requests of one client to both in turn, and stops all three. Needs redis-server.\n"
			    "\n"
			    "  --help  show this\n";

struct demo {
	char folder[32], redis[PATH_SIZE], url[PATH_SIZE + 16], servers[SERVERS][PATH_SIZE];
	char self[PATH_MAX];
	pid_t processes[PROCESSES];
	size_t n;
	struct weir__link links[SERVERS];
	size_t n_links;
};

/* Set by SIGINT and SIGTERM. */
static volatile sig_atomic_t is_ended;

static void note_signal(int signal)
{
	(void)signal;
	is_ended = 1;
}

static bool fail(const char *what, const char *why)
{
	fprintf(stderr, "weir demo redis: %s: %s\n", what, why);
	return false;
}

static void pause_ms(long ms)
{
	const struct timespec moment = { .tv_nsec = ms * 1000000 };

	(void)nanosleep(&moment, NULL);
}

/* --- processes --------------------------------------------------------------------------------------------------- */

/* The output of the processes goes to a log file in the temporary directory, so that only the demo prints. */
static bool start(struct demo *demo, char *const argv[])
{
	char command[PATH_SIZE];
	char *shell[16] = { "/bin/sh", "-c", command, argv[0] };
	size_t n = 4;
	int error;

	(void)snprintf(command, sizeof(command), "exec \"$0\" \"$@\" >>%s/log 2>&1", demo->folder);
	for (size_t i = 1; argv[i] && n + 1 < sizeof(shell) / sizeof(shell[0]); i++)
		shell[n++] = argv[i];
	shell[n] = NULL;
	error = weir__process_start(shell, environ, NULL, 0, &demo->processes[demo->n]);
	if (error != 0)
		return fail(argv[0], strerror(error));
	demo->n++;
	return true;
}

/* Waits until is_there. Returns false if the process started last ends first, after PATIENCE_MS, or on a signal. */
static bool wait_for(struct demo *demo, bool (*is_there)(struct demo *demo), const char *what)
{
	char how[64];

	for (int waited_ms = 0; waited_ms < PATIENCE_MS && !is_ended; waited_ms += PAUSE_MS) {
		if (is_there(demo))
			return true;
		if (weir__process_has_ended(demo->processes[demo->n - 1], how, sizeof(how))) {
			demo->n--;
			return fail(what, how);
		}
		pause_ms(PAUSE_MS);
	}
	return fail(what, is_ended ? "interrupted" : "it did not start within 30 s");
}

/* Searches PATH, as a shell does. */
static bool find_program(const char *name, char ret_path[PATH_MAX])
{
	const char *folder = getenv("PATH");

	while (folder && *folder) {
		const size_t length = strcspn(folder, ":");

		if (snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)length, folder, name) < PATH_MAX &&
		    access(ret_path, X_OK) == 0)
			return true;
		folder += length + (folder[length] == ':');
	}
	return false;
}

/* Debian's redis-tools package has the server's executable under the name redis-check-rdb. The executable acts by the
 * name that it is started under, so a symlink named redis-server makes it a server. */
static bool find_redis(struct demo *demo, char ret_path[PATH_MAX])
{
	char tool[PATH_MAX];

	if (find_program("redis-server", ret_path))
		return true;
	(void)snprintf(ret_path, PATH_MAX, "%s/redis-server", demo->folder);
	return (find_program("redis-check-rdb", tool) && symlink(tool, ret_path) == 0) ||
	       fail("redis-server", "not found; install it, for example with apt install redis-server");
}

static bool is_redis_there(struct demo *demo)
{
	return access(demo->redis, F_OK) == 0;
}

static bool start_redis(struct demo *demo)
{
	char path[PATH_MAX];
	char *const argv[] = { path, "--port",       "0",  "--unixsocket", demo->redis,  "--save",
			       "",   "--appendonly", "no", "--dir",        demo->folder, NULL };

	return find_redis(demo, path) && start(demo, argv) && wait_for(demo, is_redis_there, "redis-server");
}

static bool is_server_there(struct demo *demo)
{
	return weir__link_open(&demo->links[demo->n_links], demo->servers[demo->n_links], NULL, NULL, NULL,
			       PATIENCE_MS) == WEIR__LINK_OK;
}

static bool start_server(struct demo *demo, size_t number)
{
	char *const argv[] = { demo->self, "serve",   "--listen", demo->servers[number], "--http", "none", "--workers",
			       "1",        "--store", demo->url,  "--store_budget",      "10s",    NULL };

	if (!start(demo, argv) || !wait_for(demo, is_server_there, "weir serve"))
		return false;
	demo->n_links++;
	return true;
}

static void stop(struct demo *demo)
{
	char path[PATH_SIZE + 16];

	for (size_t i = 0; i < demo->n_links; i++)
		weir__link_close(&demo->links[i]);
	while (demo->n > 0)
		weir__process_kill(demo->processes[--demo->n]);
	for (size_t i = 0; i < SERVERS; i++)
		(void)unlink(demo->servers[i]);
	(void)unlink(demo->redis);
	(void)snprintf(path, sizeof(path), "%s/log", demo->folder);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/redis-server", demo->folder);
	(void)unlink(path);
	(void)rmdir(demo->folder);
}

/* --- the client -------------------------------------------------------------------------------------------------- */

/* The reply is a map whose first value says whether the request is allowed. */
static bool ask(struct weir__link *link, bool *ret_allowed)
{
	static const struct weir__resp_slice words[] = { { "WEIR.TAKE", 9 },
							 { "ada", 3 },
							 { LIMIT_TEXT, sizeof(LIMIT_TEXT) - 1 } };

	if (weir__link_ask(link, words, sizeof(words) / sizeof(words[0])) != WEIR__LINK_OK)
		return fail("weir serve", link->why);
	if (link->tokens[0].type != WEIR__RESP_MAP || link->tokens[2].type != WEIR__RESP_BOOLEAN)
		return fail("weir serve", "unexpected reply");
	*ret_allowed = link->tokens[2].number != 0;
	return true;
}

static bool ask_both(struct demo *demo)
{
	unsigned admitted[SERVERS] = { 0, 0 };

	printf("two servers, limits in one Redis; a client with " LIMIT_TEXT " sends requests to both in turn\n\n");
	for (size_t i = 0; i < REQUESTS && !is_ended; i++) {
		const size_t server = i % SERVERS;
		bool is_allowed = false;

		if (!ask(&demo->links[server], &is_allowed))
			return false;
		admitted[server] += is_allowed;
		printf("request %2zu  server %c  %s\n", i + 1, server == 0 ? 'A' : 'B',
		       is_allowed ? "allowed" : "denied");
	}
	printf("\nserver A allowed %u, server B %u:\n", admitted[0], admitted[1]);
	printf("together %u of %d allowed, by either server\n", admitted[0] + admitted[1], LIMIT);
	return !is_ended && admitted[0] + admitted[1] == LIMIT;
}

static bool name_paths(struct demo *demo)
{
	const ssize_t n = readlink("/proc/self/exe", demo->self, sizeof(demo->self) - 1);

	if (n < 0)
		return fail("/proc/self/exe", strerror(errno));
	demo->self[n] = '\0';
	(void)snprintf(demo->folder, sizeof(demo->folder), "/tmp/weir-demo-XXXXXX");
	if (mkdtemp(demo->folder) == NULL)
		return fail(demo->folder, strerror(errno));
	(void)snprintf(demo->redis, sizeof(demo->redis), "%s/redis", demo->folder);
	(void)snprintf(demo->url, sizeof(demo->url), "redis+unix://%s", demo->redis);
	for (size_t i = 0; i < SERVERS; i++)
		(void)snprintf(demo->servers[i], sizeof(demo->servers[i]), "%s/server-%c", demo->folder,
			       (char)('a' + i));
	return true;
}

int weir__demo_redis(int argc, char **argv)
{
	static struct demo demo;
	struct sigaction action = { .sa_handler = note_signal };
	bool is_good;

	if (argc > 1 && weir__command_is_help(argv[1])) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc > 1) {
		fprintf(stderr, "weir demo redis: unknown argument \"%s\"; use --help\n", argv[1]);
		return 2;
	}
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	if (!name_paths(&demo))
		return 1;
	is_good = start_redis(&demo) && start_server(&demo, 0) && start_server(&demo, 1) && ask_both(&demo);
	stop(&demo);
	return is_good ? 0 : 1;
}
