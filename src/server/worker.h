/* worker.h: one thread that serves its connections: reads, decides, answers. Workers share the table
 * and the holds, and nothing else. */
#ifndef WEIR_SERVER_WORKER_H
#define WEIR_SERVER_WORKER_H

#include <weir/table.h>

#include <pthread.h>
#include <stdatomic.h>

#include "observe/protocol.h"
#include "os/loop.h"

enum { WEIR__LISTENERS_MAX = 16 /* of each wire */ };

struct weir__listener {
	int socket;
	enum weir__protocol protocol;
	bool is_lent; /* another program listens again when this one does not: the socket is left as it is */
};

struct weir__accept_balancer;
struct weir__holds;
struct weir__policy_loader;
struct weir__user_reload;
struct weir__stores;
struct weir__settings;
struct weir__limit_stats_set;
struct weir__counters_set;
struct weir__log;
struct weir__tracer_set;

struct weir__worker_options {
	struct weir_table *table;
	const struct weir_table_limit *counted_as; /* decisions on limits that come with requests */
	struct weir__listener *listeners;          /* where the worker listens; they stay the caller's */
	size_t n_listeners;
	uint32_t connections_max;
	struct weir__accept_balancer *balancer; /* of all workers, among whom connections are dealt out, */
	uint32_t number;                        /* and which one of them this is, from 0 */
	uint64_t spin_ns; /* looks for requests for so long before it sleeps, while that pays; 0 is never */
	uint64_t idle_ns[WEIR__PROTOCOLS]; /* a connection that asks nothing for so long is closed; 0 is never */
	size_t output_max; /* bytes of answers that wait for a client, beyond which it gets no more; 0 is 16 MiB */
	uint64_t stall_ns; /* a client that takes nothing of what waits for so long is cut off; 0 is 30 s */
	uint64_t
		late_ns; /* a request that is not whole so long after its first byte, or its connection, is refused; 0 is 10 s */
	struct weir__holds *holds;               /* of all workers; NULL: there is room for none */
	struct weir__policy_loader *loader;      /* likewise; NULL: there is none */
	struct weir__counters_set *counters_set; /* of all workers; NULL: nothing is counted */
	struct weir__limit_stats_set *stats_set; /* likewise; NULL: nothing is looked at */
	struct weir__tracer_set *tracers;        /* likewise; they hear if something is looked at */
	struct weir__log *log;                   /* of all; NULL: there is none */
	const struct weir__settings *settings;   /* for CONFIG GET; NULL: none to show */
	struct weir__user_reload *user_reload;   /* who may ask; NULL: everybody */
	struct weir__stores *stores;             /* of all workers; NULL: the table decides */
};

struct weir__worker;

/* Starts a thread. 0 or an errno. */
int weir__worker_start(const struct weir__worker_options *options, struct weir__worker **ret_worker);

/* It goes on, and says to who asks whether it is ready that it is about to end. */
void weir__worker_retire(struct weir__worker *worker);

/* Lets it end: takes the connections that have come, and no more; denies those who wait; answers what was sent, for some
 * seconds at most; closes. */
void weir__worker_end(struct weir__worker *worker);

/* Lets it listen no more, since another server does, by the same sockets: they and who waits there are left as they are. The
 * connections that it has are served on; in answers of HTTP clients are told to close them. */
void weir__worker_leave(struct weir__worker *worker);

/* Whether it listens no more. */
bool weir__worker_has_left(const struct weir__worker *worker);

/* Lets it end, and waits for the thread. Of several, let all end first: then they need no longer than one. */
void weir__worker_stop(struct weir__worker *worker);

#endif
