/* server.c: opens a table and sockets, starts workers, and waits for a signal to end or to hand over to the next
 * server. */
#include "server/server.h"

#include <weir/clock.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/wide.h"
#include "engine/auth_limit.h"
#include "engine/holds.h"
#include "observe/audit.h"
#include "observe/counters.h"
#include "observe/limit_stats.h"
#include "observe/recorder.h"
#include "observe/tracer.h"
#include "os/memory_room.h"
#include "os/monotonic.h"
#include "os/net.h"
#include "os/notify.h"
#include "os/process.h"
#include "server/accept_balancer.h"
#include "server/address_counts.h"
#include "server/arena_plan.h"
#include "server/certificates.h"
#include "server/denial_body.h"
#include "server/handover.h"
#include "server/listeners.h"
#include "server/parent.h"
#include "server/pid_file.h"
#include "server/policy_loader.h"
#include "server/recorder_policy.h"
#include "server/settings.h"
#include "server/shared_changes.h"
#include "server/shutdown.h"
#include "server/stores.h"
#include "server/user_reload.h"
#include "server/worker.h"
#include "store/lease_store.h"
#include "store/table/table.h"

enum { DONE = 0, FAILED = 1, CALLED_WRONGLY = 2 };

enum {
	REPLIES_LEAST_MS = 10000, /* workers give their clients 5 s to read the last replies */
	THREADS_LEAST_MS = 3000,  /* the last spans may take 2 s */
	/* systemd and terminals send a signal to all processes of a service. If the server has a parent, which forwards
	 * it, the server gets the signal twice. */
	TWICE_MS = 3000,
};

static const weir_ns second_ns = 1000000000;

struct server {
	struct weir__settings *settings;
	const struct weir__server_options *options;
	struct weir_table *table;
	const struct weir_table_limit *counted_as;
	struct weir__auth_limit *auth_limit;
	struct weir__holds *holds;
	struct weir__recorder *recorder;
	struct weir__accept_balancer *balancer;
	struct weir__address_counts *address_counts; /* NULL: an address may have any number of connections */
	struct weir__user_reload *user_reload;
	struct weir__denial_body *denial_body;   /* NULL: none */
	struct weir__ticket_keys *tickets;       /* from the previous server, until `certificates` has them */
	struct weir__certificates *certificates; /* NULL: no listener has TLS */
	struct weir__counters_set *counters_set;
	struct weir__limit_stats_set *stats_set; /* NULL: no statistics */
	struct weir__tracer_set *tracers;        /* NULL: no tracing, no denial log */
	struct weir__log *log;
	struct weir__policy_loader *loader;   /* NULL: no policy */
	struct weir__stores *stores;          /* NULL: the table decides */
	struct weir__shared_changes *changes; /* NULL: no policy, or no store */
	struct weir__worker *workers[WEIR__WORKERS_MAX];
	uint32_t n_workers;
	struct weir__listeners listeners;
	struct weir__listener *worker_listeners[WEIR__WORKERS_MAX];

	struct weir__listeners inherited;
	int pipe;   /* to the previous server; -1: none, or it knows that this one serves */
	int parent; /* to the parent of all servers; -1: none */
	struct weir__handover handover;
	bool is_handing, is_handed, is_retiring;
	bool is_unreported;                 /* the previous server continues, since reporting to it failed */
	struct weir__mapping_state mapping; /* of the table, as it was last logged */
	weir_ns table_seen_at;
	weir_ns drain_until, retired_at, retire_until;
	struct weir__shutdown_guard guard; /* while the main thread does not wait for signals */
};

/* The settings with the listen addresses. */
static const char *const setting_names[WEIR__SERVICES] = { [WEIR__SERVICE_RESP] = "listen",
							   [WEIR__SERVICE_HTTP] = "http",
							   [WEIR__SERVICE_METRICS] = "metrics_listen",
							   [WEIR__SERVICE_GRPC] = "grpc" };

static const struct weir__setting_list *list_of(const struct weir__settings *settings, enum weir__service service)
{
	if (service == WEIR__SERVICE_GRPC)
		return &settings->grpc;
	if (service == WEIR__SERVICE_METRICS)
		return &settings->metrics_listen;
	return service == WEIR__SERVICE_RESP ? &settings->listen : &settings->http;
}

/* Whether the service needs users if other machines can connect. Metrics do not: every client that reaches their
 * address may read them. */
static bool needs_users(enum weir__service service)
{
	return service != WEIR__SERVICE_METRICS;
}

/* The setting that an error about the table should name. */
static const char *table_setting(const struct weir__settings *settings)
{
	if (settings->file[0] != '\0')
		return "file";
	return settings->shared[0] != '\0' ? "shared" : "keys";
}

/* How many limits the table has room for; 0: the default of tables. */
static uint32_t limits_for(const struct server *server)
{
	const uint64_t limits_max = server->settings->limits_max;

	if (server->loader)
		return weir__policy_loader_limits(server->loader);
	return limits_max > 0 ? (uint32_t)limits_max + 1 :
				0; /* + 1: the server's own limit, which counts inline limits */
}

/* The setting `keys` that makes a table of this size. Several values do, because a table has whole pages. This returns
 * the one that ends in the most zeros, as people write them. */
static uint64_t keys_of(const struct weir__region *region)
{
	const size_t size_bytes = region->size_bytes - region->arena_bytes;
	uint64_t least = 1, above = size_bytes, round = 1;

	while (least < above) {
		const uint64_t middle = least + (above - least) / 2;

		if (weir_table_size(middle, region->limits_max) < size_bytes)
			least = middle + 1;
		else
			above = middle;
	}
	while (weir_table_size((least + 10 * round - 1) / (10 * round) * (10 * round), region->limits_max) ==
	       size_bytes)
		round *= 10;
	return (least + round - 1) / round * round;
}

enum { MADE_SIZE = 192 };

/* Attaches a table that was made for another number of limits, by an earlier policy. Returns false if it differs in
 * something else. `made` then has the options it was made with, or is empty. */
static bool attach_as_it_is(struct server *server, const struct weir_table_options *asked, char made[MADE_SIZE])
{
	const struct weir__settings *const settings = server->settings;
	const struct weir_table_options options = { .shared = asked->shared, .file = asked->file };
	const struct weir__region *region;

	if ((asked->shared == NULL && asked->file == NULL) || weir_table_new(&options, &server->table, NULL) != WEIR_OK)
		return false;
	region = &server->table->region;
	if (settings->limits_max == 0 && region->arena_bytes == settings->arena &&
	    region->size_bytes == weir_table_size(settings->keys, region->limits_max) + settings->arena)
		return true;
	(void)snprintf(made, MADE_SIZE,
		       "; it was made with keys %llu, arena %llu and limits_max %u: use these values, or %s",
		       (unsigned long long)keys_of(region), (unsigned long long)region->arena_bytes,
		       (unsigned)region->limits_max - 1,
		       asked->file ? "remove the file, which resets all keys" : "another name");
	weir_table_free(server->table);
	server->table = NULL;
	return false;
}

/* Logs the damage that was found when the table was opened, now or earlier. */
static void log_damage(const struct server *server)
{
	const struct weir__region *const region = &server->table->region;
	uint64_t now = 0, ever = 0, counts[WEIR__DAMAGES];

	for (int i = 0; i < WEIR__DAMAGES; i++) {
		counts[i] = weir__region_count(region, (enum weir__region_count)i);
		now += region->damaged[i];
		ever += counts[i];
	}
	if (now > 0)
		memcpy(counts, region->damaged, sizeof(counts));
	if (ever > 0)
		weir__log_say(
			server->log, now > 0 ? WEIR__LOG_WARNING : WEIR__LOG_INFO,
			"file: %llu pages, %llu slots, %llu limits and %llu fields of the table %s: their keys started over",
			(unsigned long long)counts[WEIR__DAMAGED_PAGES],
			(unsigned long long)counts[WEIR__DAMAGED_SLOTS],
			(unsigned long long)counts[WEIR__DAMAGED_LIMITS],
			(unsigned long long)counts[WEIR__DAMAGED_FIELDS],
			now > 0 ? "were damaged" : "have been damaged since it was made");
}

static bool is_private(const struct weir__settings *settings)
{
	return settings->shared[0] == '\0' && settings->file[0] == '\0';
}

/* Guards the table's memory against truncation, and logs damage, or that the table was removed. */
static void watch_table(struct server *server, const struct weir_table_options *options)
{
	struct weir__region *const region = &server->table->region;
	const int error = weir__region_guard(region, options);

	if (error != 0)
		weir__log_say(server->log, WEIR__LOG_WARNING, "%s: %s: if the file is truncated, the server crashes",
			      table_setting(server->settings), strerror(error));
	server->mapping = weir__region_look(region);
	log_damage(server);
	if (server->pipe >= 0 && region->is_new && !is_private(server->settings))
		weir__log_say(
			server->log, WEIR__LOG_WARNING,
			"%s: the table of the previous server was removed: this server uses a new table, and all keys are full",
			table_setting(server->settings));
}

/* Unless its size is set, the arena of a private table is made to fit the policy. Its memory is taken only when events
 * are stored. A table that outlives the server has a fixed size, since later policies attach to it. */
static int size_arena(struct server *server)
{
	struct weir__settings *const settings = server->settings;
	const size_t keys_bytes = weir_table_size(settings->keys, limits_for(server));
	struct weir__memory_room room;

	if (server->loader == NULL || !is_private(settings) ||
	    weir__settings_place(settings, "arena").from != WEIR__FROM_DEFAULT)
		return DONE;
	weir__memory_room("", NULL, &room);
	settings->arena = weir__arena_plan_choose(
		weir__policy_loader_arena(server->loader), settings->arena,
		room.bytes > keys_bytes && room.bytes < UINT64_MAX ? room.bytes - keys_bytes : 0);
	return DONE;
}

static int open_table(struct server *server)
{
	struct weir__settings *const settings = server->settings;
	const char *const name = table_setting(settings);
	const uint32_t limits = limits_for(server);
	const size_t keys_bytes = weir_table_size(settings->keys, limits);
	const struct weir_table_options options = {
		.size_bytes = keys_bytes + settings->arena,
		.arena_bytes = settings->arena,
		.limits_max = limits,
		.shared = settings->shared[0] != '\0' ? settings->shared : NULL,
		.file = settings->file[0] != '\0' ? settings->file : NULL,
		.overcommit = settings->overcommit == WEIR__OVERCOMMIT_TRUE,
	};
	/* This limit decides nothing. It counts inline limits, and its duration makes the recovery of a file keep keys
	 * of inline limits for as long as a table allows. */
	static const char longest[] = "1/576460632303423488ns";
	struct weir_message why;
	const int error = weir_table_new(&options, &server->table, &why);
	char made[MADE_SIZE] = "";
	const bool is_open = error == WEIR_OK || (error == WEIR_ERR_REGION && attach_as_it_is(server, &options, made));

	if (is_open)
		weir__table_set_inline_share(server->table, (uint32_t)settings->inline_share);
	if (is_open &&
	    weir_table_add_limit_text(server->table, "inline limits", longest, &server->counted_as, &why) == WEIR_OK) {
		watch_table(server, &options);
		return DONE;
	}
	weir__settings_error(settings, weir__settings_place(settings, name), name, "%s%s", why.text, made);
	return FAILED;
}

static const char *why_not(int error, const char *where)
{
	struct stat status;

	if (error == EINVAL)
		return "unknown host";
	if (error == E2BIG)
		return "the name has too many addresses; list some of them instead";
	if (error == EADDRINUSE && strchr(where, '/') && lstat(where, &status) == 0 && !S_ISSOCK(status.st_mode))
		return "it exists and is not a socket; use another path, or remove it";
	return strerror(error);
}

/* Without users, every client may do everything. So the server then listens on local addresses only. */
static int refuse_reach(struct weir__settings *settings, enum weir__service service, size_t i)
{
	static const char *const ports[WEIR__SERVICES] = {
		[WEIR__SERVICE_RESP] = "6380", [WEIR__SERVICE_HTTP] = "8080", [WEIR__SERVICE_GRPC] = "8081"
	};
	const struct weir__setting_list *const list = list_of(settings, service);

	weir__settings_error(settings, list->places[i], setting_names[service],
			     "%s: other machines can reach this address, and the server has no users; add users "
			     "to the configuration file (weir serve --config FILE), or use 127.0.0.1:%s, [::1]:%s or "
			     "./socket",
			     list->at[i], ports[service], ports[service]);
	return CALLED_WRONGLY;
}

/* Whether all listen addresses from `first` on are local. */
static bool are_local(const struct weir__listeners *listeners, size_t first)
{
	bool all = true;

	for (size_t i = first; i < listeners->n; i++)
		all &= weir__net_is_local(listeners->at[i].name);
	return all;
}

/* Without the default address of these, the server serves the others. */
static bool may_be_off(enum weir__service service)
{
	return service == WEIR__SERVICE_HTTP || service == WEIR__SERVICE_GRPC;
}

static int listen_for(struct server *server, enum weir__service service)
{
	const struct weir__setting_list *const list = list_of(server->settings, service);

	for (size_t i = 0; i < list->n; i++) {
		const size_t first = server->listeners.n;
		const int error = weir__listeners_open(&server->listeners, &server->inherited, service, list->at[i],
						       (uint32_t)server->settings->workers);

		/* The host name may resolve to other addresses than when it was checked. */
		if (error == 0 && needs_users(service) && server->settings->users.n == 0 &&
		    !are_local(&server->listeners, first))
			return refuse_reach(server->settings, service, i);
		if (error == 0)
			continue;
		if (error == EADDRINUSE && may_be_off(service) && list->places[i].from == WEIR__FROM_DEFAULT) {
			weir__log_say(server->log, WEIR__LOG_WARNING,
				      "%s: %s is in use, so %s is off; use --%s WHERE or --%s none",
				      setting_names[service], list->at[i],
				      service == WEIR__SERVICE_HTTP ? "HTTP" : "gRPC", setting_names[service],
				      setting_names[service]);
			if (service == WEIR__SERVICE_HTTP) /* the default is one address */
				server->settings->http.n = 0;
			else
				server->settings->grpc.n = 0;
			return DONE;
		}
		weir__settings_error(server->settings, list->places[i], setting_names[service], "%s: %s%s", list->at[i],
				     why_not(error, list->at[i]),
				     error == EADDRINUSE && may_be_off(service) ? "; use another address, or none" :
										  "");
		return FAILED;
	}
	return DONE;
}

static int check_reach(struct weir__settings *settings)
{
	int result = DONE;

	for (enum weir__service service = 0; service < WEIR__SERVICES && settings->users.n == 0; service++) {
		const struct weir__setting_list *const list = list_of(settings, service);

		for (size_t i = 0; i < list->n && needs_users(service); i++) {
			bool is_tls;

			if (!weir__net_is_local(weir__listeners_where(list->at[i], &is_tls)))
				result = refuse_reach(settings, service, i);
		}
	}
	return result;
}

static int read_policy(struct server *server)
{
	if (!weir__policy_loader_is_set(server->settings))
		return DONE;
	server->loader = weir__policy_loader_new(server->settings);
	return server->loader ? DONE : CALLED_WRONGLY;
}

static int start_policy(struct server *server)
{
	return server->loader == NULL || weir__policy_loader_start(server->loader, server->table) ? DONE : FAILED;
}

static int start_store(struct server *server)
{
	struct weir__settings *const settings = server->settings;
	struct weir_message why;

	if (settings->store[0] == '\0')
		return DONE;
	weir__lease_begin(server->table, server->pipe >= 0, weir__boot_ns());
	if (weir__stores_new(settings, server->table, server->log, &server->stores, &why) == WEIR_OK)
		return DONE;
	weir__settings_error(settings, weir__settings_place(settings, "store"), "store", "%s", why.text);
	return FAILED;
}

static int start_changes(struct server *server)
{
	const struct weir__redis_url *const url = server->stores && server->loader ?
							  weir__stores_redis(server->stores) :
							  NULL;
	struct weir_message why;

	if (url == NULL)
		return DONE;
	server->changes = weir__shared_changes_new(url, weir__policy_loader_guard(server->loader), server->table,
						   server->log, &why);
	if (server->changes)
		return DONE;
	weir__settings_error(server->settings, weir__settings_place(server->settings, "store"), "store", "%s",
			     why.text);
	return FAILED;
}

static int make_auth_limit(struct server *server)
{
	struct weir_message why;

	server->auth_limit = weir__auth_limit_new(server->settings->auth_limit, &why);
	if (server->auth_limit)
		return DONE;
	weir__settings_error(server->settings, weir__settings_place(server->settings, "auth_limit"), "auth_limit", "%s",
			     why.text);
	return FAILED;
}

static int make_holds(struct server *server)
{
	server->holds = weir__holds_new((uint32_t)server->settings->holds);
	if (server->holds)
		return DONE;
	weir__settings_error(server->settings, weir__settings_place(server->settings, "holds"), "holds",
			     "not enough memory; use a lower number");
	return FAILED;
}

static int make_recorder(struct server *server)
{
	const struct weir__recorder_options options = { .table = server->table,
							.guard = server->loader ?
									 weir__policy_loader_guard(server->loader) :
									 NULL,
							.policy = weir__recorder_policy,
							.source = server->loader };

	server->recorder = weir__recorder_new(&options);
	if (server->recorder)
		return DONE;
	fputs("weir serve: no memory for the recorder\n", stderr);
	return FAILED;
}

/* A connection needs a descriptor, and the usual soft limit of 1024 is low. If it cannot be raised, further clients
 * wait until others have gone. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int start_worker(struct server *server, uint32_t number)
{
	const struct weir__settings *const settings = server->settings;
	const uint32_t workers = (uint32_t)settings->workers;
	struct weir__worker_options options = { .table = server->table,
						.counted_as = server->counted_as,
						.connections_max = (uint32_t)settings->connections,
						.balancer = server->balancer,
						.address_counts = server->address_counts,
						.counters_set = server->counters_set,
						.stats_set = server->stats_set,
						.tracers = server->tracers,
						.log = server->log,
						.recorder = server->recorder,
						.number = number,
						.spin_ns = settings->spin_ns,
						.idle_ns = { [WEIR__PROTOCOL_RESP] = settings->idle_ns,
							     [WEIR__PROTOCOL_HTTP] = settings->http_idle_ns,
							     [WEIR__PROTOCOL_HTTP2] = settings->http2_idle_ns },
						.output_max = settings->output,
						.client_memory = settings->client_memory,
						.stall_ns = settings->stall_ns,
						.late_ns = settings->header_time_ns,
						.auth_limit = server->auth_limit,
						.certificates = server->certificates,
						.holds = server->holds,
						.loader = server->loader,
						.denial_body = server->denial_body,
						.settings = settings,
						.stores = server->stores,
						.changes = server->changes,
						.user_reload = server->user_reload };
	int error = ENOMEM;

	options.n_listeners = weir__listeners_of_worker(&server->listeners, number, workers, NULL);
	options.listeners = server->worker_listeners[number] = calloc(options.n_listeners, sizeof(*options.listeners));
	if (options.listeners) {
		(void)weir__listeners_of_worker(&server->listeners, number, workers, options.listeners);
		error = weir__worker_start(&options, &server->workers[number]);
	}
	if (error == 0)
		return DONE;
	fprintf(stderr, "weir serve: a worker: %s\n", strerror(error));
	return FAILED;
}

static int make_denial_body(struct server *server)
{
	struct weir__settings *const settings = server->settings;
	struct weir_message why;

	if (settings->denial_body[0] == '\0')
		return DONE;
	server->denial_body = weir__denial_body_new(settings->denial_body, settings->denial_type, &why);
	if (server->denial_body)
		return DONE;
	weir__settings_error(settings, weir__settings_place(settings, "denial_body"), "denial_body", "%s", why.text);
	return CALLED_WRONGLY;
}

static int make_certificates(struct server *server)
{
	struct weir__ticket_keys *const tickets = server->tickets;

	server->tickets = NULL;
	if (server->settings->tls_cert[0] == '\0') {
		weir__ticket_keys_free(tickets);
		return DONE;
	}
	server->certificates = weir__certificates_new(server->settings, tickets);
	return server->certificates ? DONE : CALLED_WRONGLY;
}

static int start_certificates(struct server *server)
{
	const int error = server->certificates ? weir__certificates_start(server->certificates) : 0;

	if (error == 0)
		return DONE;
	fprintf(stderr, "weir serve: no thread to watch certificates: %s\n", strerror(error));
	return FAILED;
}

static int make_user_reload(struct server *server)
{
	server->user_reload = weir__user_reload_new(server->settings, server->denial_body);
	if (server->user_reload)
		return DONE;
	fputs("weir serve: no memory for users\n", stderr);
	return FAILED;
}

static int start_user_reload(struct server *server)
{
	if (weir__user_reload_start(server->user_reload, server->balancer))
		return DONE;
	fputs("weir serve: no thread or file descriptor to watch users\n", stderr);
	return FAILED;
}

static bool make_tracers(struct server *server)
{
	const struct weir__settings *const settings = server->settings;
	const struct weir__tracer_set_options options = {
		.table = server->table,
		.counted_as = server->counted_as,
		.log = server->log,
		.workers = (uint32_t)settings->workers,
		.trace_to = settings->trace_to,
		.service = settings->service,
		.trace_one_in = settings->trace_one_in,
		.denials = (enum weir__log_denials)settings->log_denials,
		.denials_limit = settings->log_denials_limit,
	};

	return weir__tracer_set_new(&options, &server->tracers);
}

static int start(struct server *server)
{
	const struct weir__settings *const settings = server->settings;
	int error = DONE;

	weir__shutdown_guard_stop(&server->guard); /* from here on there are sockets and paths to remove at the end */
	server->balancer = weir__accept_balancer_new((uint32_t)settings->workers);
	server->counters_set = weir__counters_set_new((uint32_t)settings->workers);
	if (settings->observe == WEIR__OBSERVE_ON)
		server->stats_set = weir__limit_stats_set_new(server->table, (uint32_t)settings->workers,
							      (uint32_t)settings->top_keys);
	if (settings->connections_per_address > 0)
		server->address_counts = weir__address_counts_new((uint32_t)settings->connections_per_address,
								  settings->connections * settings->workers,
								  &settings->trusted_proxies);
	if (server->balancer == NULL || server->counters_set == NULL ||
	    (server->address_counts == NULL && settings->connections_per_address > 0) ||
	    (server->stats_set == NULL && settings->observe == WEIR__OBSERVE_ON)) {
		fprintf(stderr, "weir serve: no memory for %llu workers\n", (unsigned long long)settings->workers);
		return FAILED;
	}
	if (server->stats_set && !make_tracers(server)) {
		fputs("weir serve: no memory or thread for traces and the log of denials\n", stderr);
		return FAILED;
	}
	server->listeners.mode = (mode_t)settings->socket_mode;
	for (enum weir__service service = 0; service < WEIR__SERVICES && error == DONE; service++)
		error = listen_for(server, service);
	while (error == DONE && server->n_workers < settings->workers) {
		error = start_worker(server, server->n_workers);
		server->n_workers += error == DONE;
	}
	if (error == DONE)
		error = start_user_reload(server);
	if (error == DONE)
		error = start_certificates(server);
	if (error == DONE && server->parent < 0 && !weir__pid_file_begin(server->settings))
		error = FAILED;
	return error;
}

/* --- the next server -------------------------------------------------------------------------------------------- */

static void tell_before(struct server *server)
{
	weir__listeners_close(&server->inherited);
	weir__parent_report(server->parent); /* first: then the previous server may end */
	if (server->parent < 0 && server->pipe < 0)
		(void)weir__notify("READY=1\n");
	if (!weir__handover_tell(server->pipe)) { /* otherwise both would serve until the previous one loses patience */
		weir__log_say(server->log, WEIR__LOG_WARNING, "cannot notify the previous server: %s; shutting down",
			      strerror(errno));
		server->is_unreported = true;
		(void)kill(getpid(), SIGTERM);
	}
	server->pipe = -1;
}

static void begin_handover(struct server *server)
{
	if (server->is_handing || server->is_handed)
		weir__log_say(server->log, WEIR__LOG_WARNING, "SIGUSR2: an upgrade is already in progress");
	else
		server->is_handing = server->options->argv &&
				     weir__handover_begin(&server->handover, server->options->argv, &server->listeners,
							  server->parent,
							  server->certificates ?
								  weir__certificates_tickets(server->certificates) :
								  NULL,
							  weir__log_stream(server->log, WEIR__LOG_ERROR));
}

/* --- the table --------------------------------------------------------------------------------------------------- */

/* Each second: whether the table's file or shared memory was truncated or removed. */
static void look_at_table(struct server *server)
{
	const struct weir__mapping_state before = server->mapping;
	const char *const name = table_setting(server->settings);

	if (is_private(server->settings) || weir_clock_now() - server->table_seen_at < second_ns)
		return;
	server->table_seen_at = weir_clock_now();
	server->mapping = weir__region_look(&server->table->region);
	if (server->mapping.is_detached && !before.is_detached)
		weir__log_say(
			server->log, WEIR__LOG_ERROR,
			"%s: the table was truncated, and the file system has no room to extend it: serving from memory, which is lost at exit; free space and restart the server",
			name);
	else if (server->mapping.truncations > before.truncations)
		weir__log_say(
			server->log, WEIR__LOG_ERROR,
			"%s: the table was truncated while in use: it was extended again, and keys in the lost part start over",
			name);
	if (!server->mapping.is_named && before.is_named && !server->is_handed)
		weir__log_say(
			server->log, WEIR__LOG_ERROR,
			"%s: the table was removed while in use: its counts are lost at exit; restart the server to make a new table",
			name);
}

/* Writes the audit line of a change that a signal caused. */
static void audit(const struct server *server, const char *what, uint64_t process)
{
	const struct weir__audit_who by_itself = weir__audit_system("signal");
	struct weir__log_line line;

	weir__audit_begin(&line, server->log, &by_itself, what);
	if (process > 0)
		weir__log_number(&line, "to_process", process);
	weir__audit_end(&line, server->log, NULL);
}

/* Tells systemd the new main process. Otherwise it takes the exit of the old one for the end of the service. It accepts
 * this message only from the process that it knows. */
static void tell_main_process(pid_t process)
{
	char line[32];

	(void)snprintf(line, sizeof(line), "MAINPID=%d\n", (int)process);
	(void)weir__notify(line);
}

/* Logs this only when the other server serves, so that a reader of the log can rely on it. */
static void leave(struct server *server)
{
	const struct weir__settings *const settings = server->settings;
	const char *next_table = "the next server uses the same table; it does not know the holds of this server";
	char drain[32];

	if (server->stores)
		next_table = "the next server uses the same store; it does not know the holds of this server";
	else if (is_private(settings))
		next_table =
			"the next server has a new table, because shared and file are not set: all keys are full, and holds are lost";
	else if (!weir__region_look(&server->table->region).is_named)
		next_table =
			"the next server has a new table, because the table of this server was removed: all keys are full, and holds are lost";
	server->is_handed = true;
	if (server->parent < 0)
		tell_main_process(server->handover.next);
	server->drain_until = weir__add_saturating(weir_clock_now(), settings->drain_ns);
	for (uint32_t i = 0; i < server->n_workers; i++)
		weir__worker_leave(server->workers[i]);
	weir__settings_write_number(WEIR__SETTING_DURATION, settings->drain_ns, drain, sizeof(drain));
	weir__log_say(server->log, WEIR__LOG_INFO,
		      "process %d serves now; this server drains its connections for at most %s and exits",
		      (int)server->handover.next, drain);
	weir__log_say(server->log, WEIR__LOG_INFO, "%s", next_table);
	audit(server, "handed_over", (uint64_t)server->handover.next);
}

static void look_at_handover(struct server *server)
{
	const enum weir__handover_state state = weir__handover_look(&server->handover,
								    weir__log_stream(server->log, WEIR__LOG_ERROR));

	server->is_handing = state == WEIR__HANDOVER_WAITS;
	if (state == WEIR__HANDOVER_DONE)
		leave(server);
}

static bool is_drained(const struct server *server)
{
	bool have_left = true;

	for (uint32_t i = 0; i < server->n_workers; i++)
		have_left = have_left && weir__worker_has_left(server->workers[i]);
	return (have_left && weir__accept_balancer_connections(server->balancer) == 0) ||
	       weir_clock_now() >= server->drain_until;
}

/* --- until the end ---------------------------------------------------------------------------------------------- */

/* Returns the next signal, or 0 after 20 ms if a hand-over or a delayed end has to be checked meanwhile, or after a
 * second to look at the table. */
static int next_signal(const struct server *server, const sigset_t *signals)
{
	const struct timespec moment = { .tv_nsec = 20000000 }, second = { .tv_sec = 1 };
	int signal = 0;

	if (server->is_handing || server->is_handed || server->is_retiring)
		signal = sigtimedwait(signals, NULL, &moment);
	else if (!is_private(server->settings))
		signal = sigtimedwait(signals, NULL, &second);
	else
		(void)sigwait(signals, &signal);
	return signal < 0 ? 0 : signal;
}

static void reload(struct server *server)
{
	audit(server, "reload_asked", 0);
	weir__user_reload_reload(server->user_reload);
	weir__certificates_reload(server->certificates);
	if (server->loader)
		(void)weir__policy_loader_reload(server->loader);
}

static void retire(struct server *server)
{
	char delay[32];

	server->is_retiring = true;
	server->retired_at = weir_clock_now();
	server->retire_until = weir__add_saturating(server->retired_at, server->settings->end_delay_ns);
	for (uint32_t i = 0; i < server->n_workers; i++)
		weir__worker_retire(server->workers[i]);
	weir__settings_write_number(WEIR__SETTING_DURATION, server->settings->end_delay_ns, delay, sizeof(delay));
	weir__log_say(server->log, WEIR__LOG_INFO, "shutting down in %s; still serving, not ready", delay);
}

/* Returns when the server must end. */
static void wait_for_signals(struct server *server, const sigset_t *signals)
{
	for (;;) {
		const int signal = next_signal(server, signals);
		const bool is_again = server->parent >= 0 && server->is_retiring &&
				      weir_clock_now() - server->retired_at < TWICE_MS * (second_ns / 1000);
		const bool is_told_to_end = (signal == SIGTERM || signal == SIGINT) && !is_again;

		look_at_table(server);
		if (signal == SIGHUP)
			reload(server);
		if (signal == SIGUSR2)
			begin_handover(server);
		if (server->is_handing)
			look_at_handover(server);
		if (is_told_to_end && server->settings->end_delay_ns > 0 && !server->is_retiring && !server->is_handed)
			retire(server);
		else if (is_told_to_end || (server->is_handed && is_drained(server)) ||
			 (server->is_retiring && weir_clock_now() >= server->retire_until))
			return;
	}
}

/* From now on shutting down may take the time of the setting `drain`, but at least `least_ms`. */
static void limit_end(struct server *server, uint64_t least_ms)
{
	const uint64_t drain_ms = server->settings->drain_ns / 1000000;

	weir__shutdown_guard_limit(&server->guard, drain_ms > least_ms ? drain_ms : least_ms);
}

/* Does not touch paths and sockets that another server uses. */
static void end(struct server *server)
{
	const bool is_others = server->is_handed || server->is_unreported || server->pipe >= 0;

	weir__shutdown_guard_stop(&server->guard); /* it still runs if the start failed */
	weir__shutdown_guard_start(&server->guard, server->log, server->parent >= 0 ? TWICE_MS : 0,
				   "second signal: exiting now");
	limit_end(server, REPLIES_LEAST_MS);
	if (server->is_handing) /* or the next server would serve on closed sockets */
		weir__handover_cancel(&server->handover);
	if (server->parent < 0 && !is_others)
		(void)weir__notify("STOPPING=1\n");
	if (server->parent < 0)
		weir__pid_file_end(server->settings);
	/* Paths are removed before the workers stop listening. Later a new server may already have put its own socket
	 * there. */
	if (!server->is_handed)
		weir__listeners_unlink(&server->listeners, !is_others);
	for (uint32_t i = 0; i < server->n_workers && is_others; i++)
		weir__worker_leave(server->workers[i]);
	for (uint32_t i = 0; i < server->n_workers; i++)
		weir__worker_end(server->workers[i]);
	for (uint32_t i = 0; i < server->n_workers; i++)
		weir__worker_stop(server->workers[i]);
	for (uint32_t i = 0; i < WEIR__WORKERS_MAX; i++)
		free(server->worker_listeners[i]);
	limit_end(server, THREADS_LEAST_MS);
	weir__user_reload_free(server->user_reload);
	weir__denial_body_free(server->denial_body);
	weir__certificates_free(server->certificates);
	weir__ticket_keys_free(server->tickets);
	weir__accept_balancer_free(server->balancer);
	weir__address_counts_free(server->address_counts);
	weir__counters_set_free(server->counters_set);
	weir__limit_stats_set_free(server->stats_set);
	weir__tracer_set_free(server->tracers);
	weir__shared_changes_free(server->changes);
	weir__stores_free(server->stores);
	weir__policy_loader_free(server->loader);
	weir__holds_free(server->holds);
	weir__recorder_free(server->recorder);
	weir__auth_limit_free(server->auth_limit);
	limit_end(server, REPLIES_LEAST_MS); /* a file is written to the disk */
	weir_table_free(server->table);
	weir__shutdown_guard_stop(&server->guard); /* it uses the log */
	weir__log_free(server->log);               /* last, because the others log their end */
}

static int start_log(struct server *server)
{
	struct weir__settings *const settings = server->settings;

	server->log = settings->log = weir__log_new(STDERR_FILENO, settings->log_format == WEIR__LOG_FORMAT_JSON);
	if (server->log) {
		server->options->warn(server->settings, weir__log_stream(server->log, WEIR__LOG_WARNING));
		weir__shutdown_guard_start(&server->guard, server->log, 0, "stopped by a signal before it served");
		return DONE;
	}
	fputs("weir serve: no memory or thread for the log\n", stderr);
	return FAILED;
}

static int run(struct server *server)
{
	static int (*const steps[])(
		struct server *) = { start_log,        read_policy,       size_arena,       open_table, start_policy,
				     start_store,      start_changes,     make_auth_limit,  make_holds, make_recorder,
				     make_denial_body, make_certificates, make_user_reload, start };
	sigset_t signals;
	int error;

	weir__shutdown_block_signals();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGUSR2);
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* workers inherit the mask */
	(void)signal(SIGPIPE, SIG_IGN);                   /* the reader of standard output may be gone */
	(void)signal(SIGUSR1, SIG_IGN);                   /* means nothing here, and other servers reopen logs on it */
	(void)signal(SIGXFSZ, SIG_IGN);                   /* a file that may not grow is an error, not the end */
	raise_descriptors();
	error = check_reach(server->settings);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && error == DONE; i++)
		error = steps[i](server);
	if (error == DONE) {
		server->options->started(&(struct weir__server_started){
			server->settings, &server->listeners, server->log,
			server->loader ? weir__policy_loader_guard(server->loader) : NULL, server->stores != NULL });
		tell_before(server);
		wait_for_signals(server, &signals);
	}
	end(server);
	return error;
}

int weir__server_run(struct weir__settings *settings, const struct weir__server_options *options)
{
	static struct server server;
	int status;

	server.settings = settings;
	server.options = options;
	if (settings->core_dumps == WEIR__CORE_DUMPS_FALSE)
		weir__process_forbid_dumps();
	weir__process_forbid_privileges();
	if (!weir__handover_receive(&server.inherited, &server.pipe, &server.parent, stderr))
		return CALLED_WRONGLY;
	if (server.pipe < 0 && weir__parent_is_wanted(settings) && weir__parent_run(settings, &server.parent, &status))
		return status;
	server.tickets = weir__handover_take_tickets(); /* also unsets a variable that is not a setting */
	return run(&server);
}
