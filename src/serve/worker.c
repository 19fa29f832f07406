/* worker.c: connections of one thread.
 *
 * What is read goes through one buffer of the worker, and so does what is written: a connection that is idle has none. Only
 * what is left of a request that is not whole, or of answers that the client does not take, is kept with it, up to a
 * bound; beyond that the connection is cut off, alone. While answers wait, no more requests are read. */
#include "serve/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/net.h"
#include "serve/commands.h"

enum {
	IN_SIZE = 256 * 1024,
	OUT_SIZE = 256 * 1024,
	ARGUMENTS_MAX = 64,
	BULK_MAX = 64 * 1024,
	WAITING_MAX = 4 * 1024 * 1024, /* bytes of answers that a client does not take */
	READS_A_TURN = 4,
	PAUSE_MS = 100, /* when there are no descriptors left, before others are accepted */
};

struct bytes {
	char *at;
	size_t n;
};

struct connection {
	struct connection *next, **link; /* among those of the worker */
	int socket;
	struct weir__client client;
	struct bytes unread; /* the beginning of a request */
	struct bytes unsent; /* answers, from `sent` on */
	size_t sent;
};

struct weir__worker {
	pthread_t thread;
	struct weir__loop loop;
	struct weir__worker_options options;
	struct weir__commands commands;
	struct connection *connections;
	uint32_t n_connections;
	uint64_t accepted;
	_Atomic bool is_stopping;
	bool is_full; /* listeners are not asked until a connection is closed */
	struct weir__resp_slice arguments[ARGUMENTS_MAX];
	char in[IN_SIZE];
	char out[OUT_SIZE];
};

static void drop(struct bytes *bytes)
{
	free(bytes->at);
	*bytes = (struct bytes){ NULL, 0 };
}

/* --- connections ------------------------------------------------------------------------------------------------ */

static void hear_listeners(struct weir__worker *worker, bool hear)
{
	for (size_t i = 0; i < worker->options.n_listeners; i++)
		(void)weir__loop_change(&worker->loop, worker->options.listeners[i], &worker->options.listeners[i],
					hear, false);
	worker->is_full = !hear;
}

static void close_connection(struct weir__worker *worker, struct connection *connection)
{
	weir__loop_remove(&worker->loop, connection->socket);
	weir__net_close(connection->socket);
	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
	drop(&connection->unread);
	drop(&connection->unsent);
	free(connection);
	worker->n_connections--;
	if (worker->is_full && !atomic_load(&worker->is_stopping))
		hear_listeners(worker, true);
}

static void open_connection(struct weir__worker *worker, int socket)
{
	struct connection *const connection = calloc(1, sizeof(*connection));

	if (connection == NULL) {
		weir__net_close(socket);
		return;
	}
	connection->socket = socket;
	connection->client = (struct weir__client){ .protocol = 2, .number = ++worker->accepted };
	connection->next = worker->connections;
	connection->link = &worker->connections;
	if (connection->next)
		connection->next->link = &connection->next;
	worker->connections = connection;
	worker->n_connections++;
	if (weir__loop_add(&worker->loop, socket, connection) != 0)
		close_connection(worker, connection);
}

static void accept_some(struct weir__worker *worker, int listener)
{
	int socket, error;

	while (worker->n_connections < worker->options.connections_max) {
		error = weir__net_accept(listener, &socket);
		if (error == EAGAIN)
			return;
		if (error != 0)
			break; /* out of descriptors or memory: when one is closed, there is room again */
		open_connection(worker, socket);
	}
	if (worker->n_connections > 0)
		hear_listeners(worker, false);
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

static bool keep_unsent(struct connection *connection, const char *bytes, size_t n)
{
	const size_t before = connection->unsent.n - connection->sent;
	char *all;

	if (before + n > WAITING_MAX)
		return false;
	all = malloc(before + n);
	if (all == NULL)
		return false;
	if (before > 0)
		memcpy(all, connection->unsent.at + connection->sent, before);
	memcpy(all + before, bytes, n);
	drop(&connection->unsent);
	connection->unsent = (struct bytes){ all, before + n };
	connection->sent = 0;
	return true;
}

/* Writes what it can and keeps the rest. False: the connection is lost, or cut off. */
static bool flush(struct connection *connection, struct weir__resp_writer *writer)
{
	size_t done = 0;

	while (connection->unsent.n == 0 && done < writer->length) {
		const ssize_t n = weir__net_write(connection->socket, writer->bytes + done, writer->length - done);

		if (n == -EAGAIN)
			break;
		if (n < 0 && n != -EINTR)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	if (done < writer->length && !keep_unsent(connection, writer->bytes + done, writer->length - done))
		return false;
	writer->length = 0;
	return true;
}

static bool send_unsent(struct connection *connection)
{
	while (connection->sent < connection->unsent.n) {
		const ssize_t n = weir__net_write(connection->socket, connection->unsent.at + connection->sent,
						  connection->unsent.n - connection->sent);

		if (n == -EAGAIN)
			return true;
		if (n < 0 && n != -EINTR)
			return false;
		connection->sent += n > 0 ? (size_t)n : 0;
	}
	drop(&connection->unsent);
	connection->sent = 0;
	return true;
}

/* --- requests --------------------------------------------------------------------------------------------------- */

/* Answers the requests in the first n bytes of `in`; *ret_used are done with. False: the connection is to be closed. */
static bool answer_all(struct weir__worker *worker, struct connection *connection, size_t n, size_t *ret_used)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.protocol };
	struct weir__client *const client = &connection->client;
	enum weir__resp_status status = WEIR__RESP_WHOLE;
	bool is_alive = true;
	size_t at = 0;

	while (is_alive && !client->is_leaving && at < n) {
		struct weir__resp_request request;
		size_t used;

		weir__resp_request_init(&request);
		request.arguments = worker->arguments;
		request.arguments_max = ARGUMENTS_MAX;
		request.line_max = WEIR__RESP_LINE_MAX;
		request.bulk_max = BULK_MAX;
		request.is_stranger = false;
		status = weir__resp_request_read(&request, worker->in + at, n - at, &used);
		if (status == WEIR__RESP_MORE)
			break;
		if (status == WEIR__RESP_BAD) {
			weir__commands_end_group(&worker->commands, client, &writer);
			weir__resp_write_fault(&writer, &request);
			client->is_leaving = true;
			break;
		}
		if (!weir__commands_do(&worker->commands, client, request.arguments, request.n, &writer)) {
			weir__commands_end_group(&worker->commands, client, &writer);
			is_alive = flush(connection, &writer);
			continue; /* with the same request */
		}
		at += used;
	}
	weir__commands_end_group(&worker->commands, client, &writer);
	*ret_used = at;
	return is_alive && flush(connection, &writer) && !(client->is_leaving && connection->unsent.n == 0);
}

static bool keep_unread(struct connection *connection, const char *bytes, size_t n)
{
	drop(&connection->unread);
	if (n == 0)
		return true;
	connection->unread.at = malloc(n);
	if (connection->unread.at == NULL)
		return false;
	memcpy(connection->unread.at, bytes, n);
	connection->unread.n = n;
	return true;
}

/* Each argument may be as long as it is, but not all of them together. To tell is all that can be done. */
static void refuse_size(struct connection *connection)
{
	static const char text[] = "-ERR Protocol error: too big request, 262144 bytes are the most\r\n";

	_Static_assert(IN_SIZE == 262144, "the text says how much");
	(void)weir__net_write(connection->socket, text, sizeof(text) - 1);
}

/* False: the connection is to be closed. */
static bool read_some(struct weir__worker *worker, struct connection *connection)
{
	for (int turn = 0; turn < READS_A_TURN && connection->unsent.n == 0; turn++) {
		const size_t before = connection->unread.n;
		size_t used, room = IN_SIZE - before;
		ssize_t n;

		if (before > 0)
			memcpy(worker->in, connection->unread.at, before);
		if (room == 0) {
			refuse_size(connection);
			return false;
		}
		n = weir__net_read(connection->socket, worker->in + before, room);
		if (n == -EAGAIN || n == -EINTR)
			return true;
		if (n <= 0)
			return false;
		if (!answer_all(worker, connection, before + (size_t)n, &used) ||
		    !keep_unread(connection, worker->in + used, before + (size_t)n - used))
			return false;
		if ((size_t)n < room)
			return true;
	}
	return true;
}

static void serve(struct weir__worker *worker, struct connection *connection, const struct weir__loop_event *event)
{
	const bool was_waiting = connection->unsent.n > 0;
	bool is_alive = true;

	if (was_waiting && (event->can_write || event->is_over))
		is_alive = !event->is_over && send_unsent(connection) &&
			   !(connection->client.is_leaving && connection->unsent.n == 0);
	if (is_alive && connection->unsent.n == 0 && event->can_read)
		is_alive = read_some(worker, connection);
	if (!is_alive) {
		close_connection(worker, connection);
		return;
	}
	if (was_waiting != (connection->unsent.n > 0))
		(void)weir__loop_change(&worker->loop, connection->socket, connection, connection->unsent.n == 0,
					connection->unsent.n > 0);
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

static bool is_listener(const struct weir__worker *worker, const void *what)
{
	const int *const listeners = worker->options.listeners;

	return (const int *)what >= listeners && (const int *)what < listeners + worker->options.n_listeners;
}

/* What clients have sent before is answered; who has more to say will find the door closed. */
static void drain(struct weir__worker *worker)
{
	for (struct connection *connection = worker->connections, *next; connection; connection = next) {
		next = connection->next;
		if (connection->unsent.n == 0)
			(void)read_some(worker, connection);
		close_connection(worker, connection);
	}
}

static void *work(void *worker_)
{
	struct weir__worker *const worker = worker_;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	while (!atomic_load(&worker->is_stopping)) {
		const int n = weir__loop_wait(&worker->loop, -1, events);

		for (int i = 0; i < n; i++)
			if (is_listener(worker, events[i].what))
				accept_some(worker, *(const int *)events[i].what);
			else
				serve(worker, events[i].what, &events[i]);
	}
	drain(worker);
	return NULL;
}

int weir__worker_start(const struct weir__worker_options *options, struct weir__worker **ret_worker)
{
	struct weir__worker *const worker = calloc(1, sizeof(*worker));
	int error;

	if (worker == NULL)
		return ENOMEM;
	worker->options = *options;
	weir__commands_init(&worker->commands, options->table, options->counted_as);
	error = weir__loop_init(&worker->loop);
	if (error != 0) {
		free(worker);
		return error;
	}
	for (size_t i = 0; error == 0 && i < worker->options.n_listeners; i++)
		error = weir__loop_add(&worker->loop, worker->options.listeners[i], &worker->options.listeners[i]);
	if (error == 0)
		error = pthread_create(&worker->thread, NULL, work, worker);
	if (error != 0) {
		weir__loop_close(&worker->loop);
		free(worker);
		return error;
	}
	*ret_worker = worker;
	return 0;
}

void weir__worker_stop(struct weir__worker *worker)
{
	atomic_store(&worker->is_stopping, true);
	weir__loop_wake(&worker->loop);
	(void)pthread_join(worker->thread, NULL);
	weir__loop_close(&worker->loop);
	free(worker);
}
