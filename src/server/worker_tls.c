/* worker_tls.c: TLS handshakes of a worker's connections.
 *
 * TLS begins with the first bytes of a client: a client that only connects takes no memory for it. A handshake takes as
 * much time as hundreds of requests, so a turn of the loop spends a bounded time on handshakes. The others are reported
 * again by the next turn, after requests of clients that are connected. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/users.h"
#include "observe/log.h"
#include "os/net.h"
#include "os/tls_server.h"
#include "server/certificates.h"
#include "server/connection.h"

/* What OpenSSL 3.0 takes of the heap for a connection, rounded up: during the handshake (43 KiB were measured), and later
 * without its buffers (14 KiB). */
enum { SHAKING_BYTES = 64 * 1024, OPEN_BYTES = 16 * 1024 };

static const weir_ns turn_ns = 1000000; /* for handshakes, of one turn of the loop */

/* The protocols of each service by ALPN, best first. */
static const char *const alpn[WEIR__SERVICES] = {
	[WEIR__SERVICE_RESP] = "redis",
	[WEIR__SERVICE_HTTP] = "h2 http/1.1 http/1.0",
	[WEIR__SERVICE_METRICS] = "h2 http/1.1 http/1.0",
	[WEIR__SERVICE_GRPC] = "h2",
};

static bool begin(struct weir__worker *worker, struct weir__connection *connection)
{
	struct weir__tls_server *const server = weir__certificates_share(worker->options.certificates);

	connection->tls = weir__tls_accept(server, connection->socket, alpn[connection->service]);
	weir__tls_server_release(server);
	if (connection->tls == NULL)
		return false;
	connection->tls_bytes = SHAKING_BYTES;
	return weir__worker_account(worker, connection);
}

/* A client that has sent nothing, as the probe of a load balancer, is not a failure. */
static void tell_failure(struct weir__worker *worker, const struct weir__connection *connection)
{
	const struct weir__worker_options *const options = &worker->options;
	const enum weir__tls_failure failure = weir__tls_failure(connection->tls);
	char peer[WEIR__AUDIT_PEER], before[64] = "";
	uint64_t left_out;

	if (worker->context.counters == NULL || (failure == WEIR__TLS_CLOSED && !weir__tls_has_heard(connection->tls)))
		return;
	weir__counters_add(&worker->context.counters->tls_failures[failure], 1);
	if (!weir__counters_set_may_log(options->counters_set, WEIR__COUNTERS_LINE_TLS, &left_out))
		return;
	if (left_out > 0)
		(void)snprintf(before, sizeof(before), "; %" PRIu64 " more since the last line like this", left_out);
	connection->client.write_peer(&connection->client, peer);
	weir__log_say(options->log, WEIR__LOG_WARNING, "tls: refused a connection from %s to %s (%s): %s%s", peer,
		      weir__service_word(connection->service), weir__tls_failure_words[failure],
		      weir__tls_why(connection->tls), before);
}

void weir__worker_find_certificate_user(struct weir__worker *worker, struct weir__connection *connection)
{
	const struct weir__users *const users = worker->users;
	char names[WEIR__TLS_NAMES_MAX][WEIR__TLS_NAME_SIZE];
	const struct weir__user *user = NULL;
	size_t n, which = 0;

	if (connection->tls == NULL || connection->is_shaking)
		return;
	n = weir__tls_peer_names(connection->tls, names);
	for (size_t i = 0; i < n && user == NULL && users; i++) {
		user = weir__users_by_certificate(users, names[i], strlen(names[i]));
		which = user ? i : 0;
	}
	connection->client.certificate_user = user;
	free(connection->client.peer);
	connection->client.peer = n > 0 ? strdup(names[which]) : NULL;
}

/* The handshake is complete. */
static bool open_tls(struct weir__worker *worker, struct weir__connection *connection)
{
	connection->is_shaking = false;
	connection->tls_bytes = OPEN_BYTES;
	if (worker->context.counters)
		weir__counters_add(&worker->context.counters->tls_handshakes, 1);
	weir__worker_find_certificate_user(worker, connection);
	connection->client.user = connection->client.certificate_user;
	if (connection->protocol == &weir__protocol_http && weir__tls_has_alpn(connection->tls, "h2"))
		weir__worker_change_protocol(worker, connection, &weir__protocol_http2);
	if (!connection->protocol->asks_at_once &&
	    !weir__client_is_unauthenticated(&worker->context, &connection->client))
		weir__worker_request_complete(connection);
	return weir__worker_account(worker, connection);
}

bool weir__worker_shake(struct weir__worker *worker, struct weir__connection *connection)
{
	const weir_ns since = weir_table_now(worker->options.table);
	int error;

	if (worker->shaken_ns > turn_ns)
		return true;
	if (connection->tls == NULL && !begin(worker, connection))
		return false;
	error = weir__tls_server_shake(connection->tls);
	worker->shaken_ns += weir_table_now(worker->options.table) - since;
	if (error == EAGAIN)
		return true;
	if (error == 0)
		return open_tls(worker, connection);
	tell_failure(worker, connection);
	return false;
}

bool weir__worker_tls_writes(const struct weir__connection *connection, bool reads)
{
	return connection->is_shaking ? weir__tls_wants_to_write(connection->tls) :
					reads && !connection->is_finished && !weir__tls_is_drained(connection->tls);
}

void weir__worker_end_writing(const struct weir__connection *connection)
{
	if (connection->tls)
		weir__tls_end_writing(connection->tls);
	weir__net_end_writing(connection->socket);
}

void weir__worker_drop_tls(struct weir__connection *connection)
{
	weir__tls_free(connection->tls);
	connection->tls = NULL;
	connection->tls_bytes = 0;
	free(connection->client.peer);
	connection->client.peer = NULL;
}
