/* serve.c: the daemon: reads its settings, opens a table and sockets, starts workers, and waits to be told to end. */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/words.h"
#include "os/net.h"
#include "serve/crew.h"
#include "serve/holds.h"
#include "serve/policies.h"
#include "serve/settings.h"
#include "serve/tally.h"
#include "serve/worker.h"
#include "store/table.h"

enum { DONE = 0, FAILED = 1, CALLED_WRONGLY = 2 };

struct server {
	struct weir__settings settings;
	struct weir_table *table;
	const struct weir_table_limit *counted_as;
	struct weir__holds *holds;
	struct weir__crew *crew;
	struct weir__tallies *tallies;
	struct weir__policies *policies; /* NULL: there is none */
	struct weir__worker *workers[WEIR__WORKERS_MAX];
	uint32_t n_workers;
	int sockets[WEIR__WIRES][WEIR__LISTENERS_MAX]; /* with a path: of all workers */
	char names[WEIR__WIRES][WEIR__LISTENERS_MAX][WEIR__NET_NAME_SIZE];
};

/* The settings that say where to listen, by wire. */
static const char *const setting_names[WEIR__WIRES] = { [WEIR__WIRE_RESP] = "listen", [WEIR__WIRE_HTTP] = "http" };

static const struct weir__setting_list *list_of(const struct weir__settings *settings, enum weir__wire_number wire)
{
	return wire == WEIR__WIRE_RESP ? &settings->listen : &settings->http;
}

/* What makes the table what it is: who is told that there can be none looks for this. */
static const char *table_setting(const struct weir__settings *settings)
{
	if (settings->file[0] != '\0')
		return "file";
	return settings->shared[0] != '\0' ? "shared" : "keys";
}

static int open_table(struct server *server)
{
	struct weir__settings *const settings = &server->settings;
	const char *const name = table_setting(settings);
	const uint32_t limits = server->policies ? weir__policies_plans(server->policies) : 0;
	const size_t keys_bytes = weir_table_size(settings->keys, limits);
	const struct weir_table_options options = {
		.size_bytes = keys_bytes + settings->arena,
		.arena_bytes = settings->arena,
		.limits_max = limits,
		.shared = settings->shared[0] != '\0' ? settings->shared : NULL,
		.file = settings->file[0] != '\0' ? settings->file : NULL,
	};
	/* Nobody is decided by this: it counts, and tells who recovers a file that keys may owe for as long as can be. */
	static const char longest[] = "1/576460632303423488ns";
	struct weir_message why;

	if (weir_table_new(&options, &server->table, &why) == WEIR_OK &&
	    weir_table_add_limit_text(server->table, "limits that come with requests", longest, &server->counted_as,
				      &why) == WEIR_OK)
		return DONE;
	weir__settings_fault(settings, weir__settings_place(settings, name), name, "%s", why.text);
	return FAILED;
}

/* Each worker has a socket of its own at the same port; they share one with a path, of which there can only be one. */
static int listen_for(struct server *server, uint32_t worker, enum weir__wire_number wire,
		      struct weir__worker_options *options)
{
	const struct weir__setting_list *const list = list_of(&server->settings, wire);

	for (size_t i = 0; i < list->n; i++) {
		char *const name = server->names[wire][i];
		const char *const where = worker == 0 ? list->at[i] : name;
		int *const socket = &server->sockets[wire][i];
		int error = 0;

		if (worker == 0 || strchr(where, '/') == NULL)
			error = weir__net_listen(where, true, socket, name);
		if (error != 0) {
			weir__settings_fault(
				&server->settings, list->places[i], setting_names[wire], "%s: %s%s", where,
				error == EINVAL ? "there is no such host" : strerror(error),
				error == EADDRINUSE && wire == WEIR__WIRE_HTTP ? "; use another one, or none" : "");
			return FAILED;
		}
		options->listeners[options->n_listeners++] = (struct weir__listener){ *socket, wire };
	}
	return DONE;
}

/* Whoever can connect may do everything as long as there are no users. */
static int check_reach(struct weir__settings *settings)
{
	static const char *const ports[WEIR__WIRES] = { [WEIR__WIRE_RESP] = "6380", [WEIR__WIRE_HTTP] = "8080" };
	int result = DONE;

	for (enum weir__wire_number wire = 0; wire < WEIR__WIRES && settings->users.n == 0; wire++) {
		const struct weir__setting_list *const list = list_of(settings, wire);

		for (size_t i = 0; i < list->n; i++)
			if (!weir__net_is_local(list->at[i])) {
				weir__settings_fault(
					settings, list->places[i], setting_names[wire],
					"%s: not an address of this machine alone, and there are no users; name some "
					"in a file (weir serve --config FILE), or use 127.0.0.1:%s, [::1]:%s or "
					"./socket",
					list->at[i], ports[wire], ports[wire]);
				result = CALLED_WRONGLY;
			}
	}
	return result;
}

static int read_policy(struct server *server)
{
	if (!weir__policies_is_set(&server->settings))
		return DONE;
	server->policies = weir__policies_new(&server->settings);
	return server->policies ? DONE : CALLED_WRONGLY;
}

static int start_policy(struct server *server)
{
	return server->policies == NULL || weir__policies_start(server->policies, server->table) ? DONE : FAILED;
}

static int make_holds(struct server *server)
{
	server->holds = weir__holds_new(server->table, (uint32_t)server->settings.holds);
	if (server->holds)
		return DONE;
	weir__settings_fault(&server->settings, weir__settings_place(&server->settings, "holds"), "holds",
			     "there is no memory for so many; use fewer");
	return FAILED;
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
	const struct weir__settings *const settings = &server->settings;

	server->crew = weir__crew_new((uint32_t)settings->workers);
	server->tallies = weir__tallies_new((uint32_t)settings->workers);
	if (server->crew == NULL || server->tallies == NULL) {
		fprintf(stderr, "weir serve: no memory for %llu workers\n", (unsigned long long)settings->workers);
		return FAILED;
	}
	for (uint32_t i = 0; i < settings->workers; i++) {
		struct weir__worker_options options = { .table = server->table,
							.counted_as = server->counted_as,
							.connections_max = (uint32_t)settings->connections,
							.crew = server->crew,
							.tallies = server->tallies,
							.number = i,
							.idle_ns = settings->idle_ns,
							.output_max = settings->output,
							.stall_ns = settings->stall_ns,
							.late_ns = settings->header_time_ns,
							.holds = server->holds,
							.policies = server->policies,
							.settings = settings };
		int error = DONE;

		for (enum weir__wire_number wire = 0; wire < WEIR__WIRES && error == DONE; wire++)
			error = listen_for(server, i, wire, &options);
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

static void tell_http(const struct server *server)
{
	const char *const first = server->names[WEIR__WIRE_HTTP][0];
	const char *const what = server->policies ? "v1/check?ip=203.0.113.7" : "readyz";

	if (strchr(first, '/'))
		printf("     curl --unix-socket %s 'http://localhost/%s'\n", first, what);
	else
		printf("     curl 'http://%s/%s'\n", first, what);
}

static void tell(const struct server *server)
{
	const struct weir__settings *const settings = &server->settings;
	const char *const first = server->names[WEIR__WIRE_RESP][0], *const colon = strrchr(first, ':');
	char how[WEIR__NET_NAME_SIZE + WEIR__USER_NAME_MAX + 64];
	int length;

	for (size_t i = 0; i < settings->listen.n; i++)
		printf("weir serve: RESP at %s\n", server->names[WEIR__WIRE_RESP][i]);
	for (size_t i = 0; i < settings->http.n; i++)
		printf("weir serve: HTTP at %s\n", server->names[WEIR__WIRE_HTTP][i]);
	if (strchr(first, '/'))
		length = snprintf(how, sizeof(how), "-s %s", first);
	else
		length = snprintf(how, sizeof(how), "-p %s", colon ? colon + 1 : "6380");
	if (settings->users.n > 0)
		(void)snprintf(how + length, sizeof(how) - (size_t)length, " --user %s --askpass",
			       settings->users.at[0].name);
	printf("try: redis-cli %s CL.THROTTLE user:42 15 30 60\n", how);
	printf("     redis-cli %s WEIR.TAKE user:42 '100/min burst 20'\n", how);
	printf("     redis-cli %s WEIR.INSPECT user:42 '100/min burst 20'\n", how);
	if (settings->http.n > 0)
		tell_http(server);
	fflush(stdout);
}

/* Until it is to end. */
static void wait_for_signals(const struct server *server, const sigset_t *signals)
{
	int signal;

	while (sigwait(signals, &signal) != 0 || signal == SIGHUP)
		if (server->policies)
			(void)weir__policies_reload(server->policies);
}

static void unlink_paths(const struct server *server)
{
	for (enum weir__wire_number wire = 0; wire < WEIR__WIRES; wire++)
		for (size_t i = 0; i < list_of(&server->settings, wire)->n; i++)
			if (strchr(server->names[wire][i], '/'))
				(void)unlink(server->names[wire][i]);
}

static int run(struct server *server)
{
	sigset_t signals;
	int error;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* workers inherit that */
	raise_descriptors();
	error = check_reach(&server->settings);
	if (error == DONE)
		error = read_policy(server);
	if (error == DONE)
		error = open_table(server);
	if (error == DONE)
		error = start_policy(server);
	if (error == DONE)
		error = make_holds(server);
	if (error == DONE)
		error = start(server);
	if (error == DONE) {
		tell(server);
		wait_for_signals(server, &signals);
	}
	/* First: when workers have stopped listening, the next server may have put its own socket there. */
	unlink_paths(server);
	for (uint32_t i = 0; i < server->n_workers; i++)
		weir__worker_end(server->workers[i]);
	for (uint32_t i = 0; i < server->n_workers; i++)
		weir__worker_stop(server->workers[i]);
	weir__crew_free(server->crew);
	weir__tallies_free(server->tallies);
	weir__policies_free(server->policies);
	weir__holds_free(server->holds);
	weir_table_free(server->table);
	return error;
}

/* A page that was asked for, whatever else was said. */
static bool print_page(int argc, char **argv)
{
	static const struct {
		const char *flag;
		void (*print)(FILE *out);
	} pages[] = { { "--help", weir__settings_help },
		      { "--help-man", weir__settings_man },
		      { "--help-markdown", weir__settings_markdown } };

	for (int i = 1; i < argc; i++)
		for (size_t j = 0; j < sizeof(pages) / sizeof(pages[0]); j++)
			if (strcmp(argv[i], pages[j].flag) == 0) {
				pages[j].print(stdout);
				return true;
			}
	return false;
}

/* The setting that a variable of the environment is meant to be, in small letters. */
static bool is_known(const char *name, size_t length)
{
	static const char *const others[] = { "config", "password" }; /* which file; of who asks */
	char small[64];

	if (length >= sizeof(small))
		return false;
	for (size_t i = 0; i < length; i++)
		small[i] = (char)tolower((unsigned char)name[i]);
	small[length] = '\0';
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(small, others[i]) == 0)
			return true;
	return weir__settings_find(small, length) != NULL;
}

/* Somebody has misspelt a setting, or the variable is another program's: so it is told, and the server starts. */
static void warn_of_variables(void)
{
	for (char **one = environ; *one; one++) {
		const size_t length = strcspn(*one, "=");

		if (strncmp(*one, "WEIR_", 5) != 0 || is_known(*one + 5, length - 5))
			continue;
		fputs("weir serve: warning: ", stderr);
		weir__words_quoted(stderr, *one, length);
		fputs(" of the environment is no setting; weir serve --help lists them\n", stderr);
	}
}

int weir__serve(int argc, char **argv)
{
	static struct server server;

	if (print_page(argc, argv))
		return DONE;
	weir__settings_init(&server.settings, stderr);
	if (!weir__settings_read(&server.settings, argc, argv))
		return CALLED_WRONGLY;
	warn_of_variables();
	return run(&server);
}
