/* worker.h: a thread that serves its connections: it reads, decides and replies. Workers share the table, and what the
 * options below mark as "of all workers".
 * The reasons are in docs/internals/server.md. */
#ifndef WEIR_SERVER_WORKER_H
#define WEIR_SERVER_WORKER_H

#include <weir/table.h>

#include <pthread.h>
#include <stdatomic.h>

#include "observe/protocol.h"
#include "os/loop.h"

enum { WEIR__LISTENERS_MAX = 16 /* of each service */ };

/* The service at an address. */
enum weir__service {
	WEIR__SERVICE_RESP,
	WEIR__SERVICE_HTTP,
	WEIR__SERVICE_METRICS, /* HTTP, but only metrics and health, without a token */
	WEIR__SERVICE_GRPC,
	WEIR__SERVICES,
};

static inline enum weir__protocol weir__service_protocol(enum weir__service service)
{
	return service == WEIR__SERVICE_RESP ? WEIR__PROTOCOL_RESP :
	       service == WEIR__SERVICE_GRPC ? WEIR__PROTOCOL_HTTP2 :
					       WEIR__PROTOCOL_HTTP;
}

/* Its name in log lines. */
static inline const char *weir__service_word(enum weir__service service)
{
	return service == WEIR__SERVICE_METRICS ? "metrics" :
	       service == WEIR__SERVICE_GRPC    ? "grpc" :
						  weir__protocol_word(weir__service_protocol(service));
}

struct weir__listener {
	int socket;
	enum weir__service service;
	bool is_lent; /* another program owns the socket and keeps listening: do not shut it down */
	bool is_tls;
};

struct weir__accept_balancer;
struct weir__address_counts;
struct weir__auth_limit;
struct weir__holds;
struct weir__denial_body;
struct weir__policy_loader;
struct weir__user_reload;
struct weir__stores;
struct weir__settings;
struct weir__shared_changes;
struct weir__limit_stats_set;
struct weir__counters_set;
struct weir__certificates;
struct weir__log;
struct weir__tracer_set;

struct weir__worker_options {
	struct weir_table *table;
	const struct weir_table_limit *counted_as; /* counts the decisions on inline limits */
	struct weir__listener *listeners;          /* owned by the caller */
	size_t n_listeners;
	uint32_t connections_max;
	struct weir__accept_balancer *balancer;      /* of all workers: spreads connections over them */
	struct weir__address_counts *address_counts; /* of all workers; NULL: an address may have any number */
	uint32_t number;                             /* of this worker, from 0 */
	uint64_t spin_ns; /* polls this long for requests before it sleeps, while that pays; 0: never */
	uint64_t idle_ns[WEIR__PROTOCOLS]; /* closes a connection that is silent this long; 0: never */
	size_t output_max;                 /* bytes of buffered replies at which a connection gets no more; 0: 16 MiB */
	size_t client_memory;              /* bytes of all buffers of its connections together; 0: 64 MiB */
	uint64_t stall_ns;         /* closes a client that reads buffered replies too slowly for this long; 0: 30 s */
	uint64_t late_ns;          /* deadline of a request from its first byte, or of a new connection; 0: 10 s */
	struct weir__holds *holds; /* of all workers; NULL: no room for holds */
	struct weir__auth_limit *auth_limit;
	struct weir__certificates *certificates; /* of all workers; NULL: no listener has TLS */
	struct weir__denial_body *denial_body;   /* of all workers; NULL: none */
	struct weir__policy_loader *loader;      /* of all workers; NULL: no policy */
	struct weir__counters_set *counters_set; /* of all workers; NULL: nothing is counted */
	struct weir__limit_stats_set *stats_set; /* of all workers; NULL: nothing is observed */
	struct weir__tracer_set *tracers;        /* of all workers; they get decisions only with stats_set */
	struct weir__log *log;                   /* of all workers; NULL: no log */
	struct weir__recorder *recorder;         /* of all workers; NULL: decisions are not recorded */
	const struct weir__settings *settings;   /* for CONFIG GET; NULL: nothing to show */
	struct weir__user_reload *user_reload;   /* who may connect; NULL: everyone */
	struct weir__stores *stores;             /* of all workers; NULL: the table decides */
	struct weir__shared_changes *changes;    /* of all workers; NULL: limits change on this server only */
};

struct weir__worker;

/* Starts a thread. Returns 0 or an errno. */
int weir__worker_start(const struct weir__worker_options *options, struct weir__worker **ret_worker);

/* The worker continues to serve, but /readyz reports that it is about to end. */
void weir__worker_retire(struct weir__worker *worker);

/* Begins to end the worker. It accepts the connections that have arrived, but no more. It denies requests that wait for
 * a limit, replies to requests that were sent, for some seconds at most, and closes its connections. */
void weir__worker_end(struct weir__worker *worker);

/* Stops listening, since another server listens at the same sockets: the sockets and their backlogs are left as they
 * are. It continues to serve existing connections. HTTP responses tell clients to close them. */
void weir__worker_leave(struct weir__worker *worker);

/* Whether it has stopped listening. */
bool weir__worker_has_left(const struct weir__worker *worker);

/* Ends the worker and waits for its thread. Call weir__worker_end for all workers first: they then end at the same
 * time. */
void weir__worker_stop(struct weir__worker *worker);

#endif
