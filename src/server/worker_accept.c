/* worker_accept.c: accepts connections, hands them to the worker with the fewest, and opens them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/log.h"
#include "os/net.h"
#include "policy/address.h"
#include "server/accept_balancer.h"
#include "server/address_counts.h"
#include "server/connection.h"

static const weir_ns pause_ns = 100000000; /* how long accepting pauses when the server is full */

void weir__worker_hear_listeners(struct weir__worker *worker, bool hear)
{
	for (size_t i = 0; i < worker->options.n_listeners; i++)
		(void)weir__loop_change(&worker->loop, worker->options.listeners[i].socket,
					&worker->options.listeners[i], hear, false);
	worker->is_full = !hear;
	worker->accept_at = WEIR_NEVER;
}

static void write_peer(const struct weir__client *client, char ret_peer[WEIR__AUDIT_PEER])
{
	_Static_assert((int)WEIR__ADDRESS_TEXT <= (int)WEIR__AUDIT_PEER, "an address fits");
	const struct weir__connection *const connection =
		(const struct weir__connection *)(const void *)(client->of ? client->of : client);
	struct weir__address address;
	struct weir__net_peer peer;

	(void)snprintf(ret_peer, WEIR__AUDIT_PEER, "-");
	if (weir__net_peer(connection->socket, &peer) != 0)
		return;
	if (peer.is_path) {
		(void)snprintf(ret_peer, WEIR__AUDIT_PEER, "unix");
		return;
	}
	address = weir__address_of(peer.address, peer.is_v6);
	weir__address_write(&address, ret_peer);
}

static void open_connection(struct weir__worker *worker, struct weir__accepted accepted)
{
	struct weir__connection *const connection = calloc(1, sizeof(*connection));

	if (connection == NULL) {
		weir__net_close(accepted.socket);
		weir__address_counts_leave(worker->options.address_counts, accepted.address);
		weir__accept_balancer_leave(worker->options.balancer, worker->options.number);
		return;
	}
	connection->socket = accepted.socket;
	connection->address = accepted.address;
	connection->interest = WEIR__HEAR_REQUESTS; /* as weir__loop_add sets it */
	connection->service = accepted.service;
	connection->is_shaking = accepted.is_tls;
	connection->protocol = weir__protocol_handlers[weir__service_protocol(accepted.service)];
	connection->client = (struct weir__client){ .resp_version = 2, .write_peer = write_peer };
	connection->client.number = /* unique among all workers */
		worker->accepted++ * weir__accept_balancer_workers(worker->options.balancer) + worker->options.number +
		1;
	weir__worker_join(worker, connection);
	if (connection->protocol->asks_at_once || connection->is_shaking ||
	    weir__client_is_unauthenticated(&worker->context, &connection->client))
		weir__worker_request_begun(worker, connection);
	if (weir__loop_add(&worker->loop, accepted.socket, connection) != 0)
		weir__worker_close(worker, connection);
}

static bool is_full(const struct weir__worker *worker)
{
	return worker->n_connections >= worker->options.connections_max;
}

static void pause_accepting(struct weir__worker *worker)
{
	weir__worker_hear_listeners(worker, false);
	worker->accept_at = worker->now + pause_ns;
}

/* Logs that accepting pauses, although connections may wait. `error` is the errno of accept, or 0: all workers are
 * full. */
static void tell_of_pause(struct weir__worker *worker, int error)
{
	const struct weir__worker_options *const options = &worker->options;
	char before[64] = "";
	uint64_t left_out;

	if (worker->context.counters == NULL || atomic_load(&worker->is_stopping))
		return;
	weir__counters_add(&worker->context.counters->pauses[error == 0 ? WEIR__PAUSE_FULL : WEIR__PAUSE_KERNEL], 1);
	if (!weir__counters_set_may_log(options->counters_set, WEIR__COUNTERS_LINE_PAUSE, &left_out))
		return;
	if (left_out > 0)
		(void)snprintf(before, sizeof(before), "; %" PRIu64 " pauses since the last line like this", left_out);
	if (error == 0)
		weir__log_say(options->log, WEIR__LOG_WARNING,
			      "connections: each of %" PRIu32 " workers has %" PRIu32
			      " connections, the maximum; new connections wait until one is closed%s",
			      weir__accept_balancer_workers(options->balancer), options->connections_max, before);
	else
		weir__log_say(options->log, WEIR__LOG_WARNING,
			      "connections: %s; new connections wait until the system has room%s", strerror(error),
			      before);
}

static void tell_of_address(struct weir__worker *worker, const struct weir__address *address)
{
	const struct weir__worker_options *const options = &worker->options;
	char text[WEIR__ADDRESS_TEXT], before[64] = "";
	uint64_t left_out;

	weir__worker_count_closed(worker, WEIR__CLOSED_ADDRESS);
	if (worker->context.counters == NULL ||
	    !weir__counters_set_may_log(options->counters_set, WEIR__COUNTERS_LINE_ADDRESS, &left_out))
		return;
	if (left_out > 0)
		(void)snprintf(before, sizeof(before), "; %" PRIu64 " more since the last line like this", left_out);
	weir__address_write(address, text);
	weir__log_say(options->log, WEIR__LOG_WARNING,
		      "connections_per_address: refused a connection from %s, which has reached the maximum%s", text,
		      before);
}

/* Counts the connection for its address. Returns false if that has too many. */
static bool count_address(struct weir__worker *worker, struct weir__accepted *accepted)
{
	struct weir__address address;
	struct weir__net_peer peer;

	if (worker->options.address_counts == NULL || weir__net_peer(accepted->socket, &peer) != 0 || peer.is_path)
		return true;
	address = weir__address_of(peer.address, peer.is_v6);
	if (weir__address_counts_join(worker->options.address_counts, &address, &accepted->address))
		return true;
	tell_of_address(worker, &address);
	return false;
}

/* A full worker accepts for the others, since the kernel does not know which of them has room. When all are full, or
 * descriptors or memory run out, accepting pauses, and open connections are still served. It resumes when a connection
 * of this worker closes. It also resumes after pause_ns, since another worker or process may have made room by then. */
void weir__worker_accept(struct weir__worker *worker, const struct weir__listener *listener, uint32_t most)
{
	struct weir__accepted accepted;
	int socket, error;
	uint32_t n = 0;

	for (; !is_full(worker) || weir__accept_balancer_has_room(worker->options.balancer, worker->options.number,
								  worker->options.connections_max);
	     n++) {
		if (n == most)
			return;
		error = weir__net_accept(listener->socket, &socket);
		if (error == EAGAIN || error == EINVAL) /* EINVAL: it was shut down */
			return;
		if (error == ECONNABORTED || error == EINTR)
			continue;
		if (error != 0) {
			tell_of_pause(worker, error);
			pause_accepting(worker);
			return;
		}
		accepted = (struct weir__accepted){ socket, listener->service, NULL, listener->is_tls };
		if (!count_address(worker, &accepted))
			weir__net_close(socket);
		else if (!weir__accept_balancer_hand(worker->options.balancer, worker->options.number, accepted))
			open_connection(worker, accepted);
	}
	if (n == 0) /* else it has just become full, and perhaps no connection waits */
		tell_of_pause(worker, 0);
	pause_accepting(worker);
}

void weir__worker_take_handed(struct weir__worker *worker)
{
	struct weir__accepted accepted[WEIR__ACCEPT_BALANCER_SOCKETS];
	const uint32_t n = weir__accept_balancer_take(worker->options.balancer, worker->options.number, accepted);

	for (uint32_t i = 0; i < n; i++)
		open_connection(worker, accepted[i]);
}
