/* worker.c: connections of one thread.
 *
 * What is read goes through one buffer of the worker, and so does what is written: a connection that is idle has none. Only
 * what is left of a request that is not whole, or of answers that the client does not take, is kept with it. Clients that
 * send a long pipeline before they read anything are answered all the same, up to a bound; from there on no more is read
 * from them until they take some, and who takes nothing for long is cut off, alone. Nor is anything read while a request
 * waits, since answers have the order of requests. */
#include "serve/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/net.h"
#include "serve/command.h"
#include "serve/crew.h"
#include "serve/output.h"

enum {
	IN_SIZE = 256 * 1024,
	OUT_SIZE = 256 * 1024,
	ARGUMENTS_MAX = 64,
	BULK_MAX = 64 * 1024,
	OUTPUT_MAX = 16 * 1024 * 1024, /* unless the options say otherwise */
	WAITERS_MAX = 4096,
	READS_A_TURN = 4,
	ACCEPTS_A_TURN = 1, /* of those who come together others get some, too: a socket with a path is all workers' */
};

static const weir_ns pause_ns = 100000000;    /* when there are no descriptors left, before others are accepted */
static const weir_ns stall_ns = 30000000000;  /* unless the options say otherwise */
static const weir_ns drain_ns = 5000000000;   /* for clients to take their last answers */
static const weir_ns drain_look_ns = 1000000; /* how often is looked whether they have arrived */

struct bytes {
	char *at;
	size_t n;
};

/* What the loop is to tell of a connection. */
enum interest { REQUESTS, REQUESTS_AND_ROOM, ROOM, END, END_AND_ROOM };

struct connection {
	struct weir__client client;         /* the first: so it leads here */
	struct connection *next, *previous; /* among those of the worker; who has been silent for longest comes first */
	weir_ns active_at;
	int socket;
	enum interest interest;
	struct bytes unread;        /* the beginning of a request; whatever is behind one that waits */
	bool has_requests;          /* there are whole ones in it, which were not answered since too much waits */
	struct weir__output output; /* answers that wait */
	weir_ns taken_at;           /* when the client last took some of them, or they began to wait */
	bool is_finished;           /* all is answered: nothing will be written any more */
};

struct weir__worker {
	pthread_t thread;
	struct weir__loop loop;
	struct weir__worker_options options;
	struct weir__commands commands;
	struct connection connections;    /* a ring, this one is none */
	uint32_t n_connections, n_behind; /* of those, who have answers waiting */
	weir_ns look_at;                  /* whether they take them */
	uint64_t accepted;
	_Atomic bool is_stopping;
	bool is_full;      /* listeners are not asked until a connection is closed, */
	weir_ns accept_at; /* or this instant has come */
	weir_ns now;       /* when the loop last told something */
	weir_ns alarm_at;
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
	worker->accept_at = WEIR_NEVER;
}

static void unlink_connection(struct connection *connection)
{
	connection->next->previous = connection->previous;
	connection->previous->next = connection->next;
}

static void link_last(struct weir__worker *worker, struct connection *connection)
{
	connection->active_at = worker->now;
	connection->next = &worker->connections;
	connection->previous = worker->connections.previous;
	connection->next->previous = connection;
	connection->previous->next = connection;
}

static void touch(struct weir__worker *worker, struct connection *connection)
{
	if (worker->options.idle_ns == 0)
		return;
	unlink_connection(connection);
	link_last(worker, connection);
}

static void close_connection(struct weir__worker *worker, struct connection *connection)
{
	if (connection->client.waiter)
		(void)weir__waiting_give_up(worker->commands.waiting, connection->client.waiter,
					    weir_table_now(worker->options.table));
	weir__loop_remove(&worker->loop, connection->socket);
	weir__net_close(connection->socket);
	unlink_connection(connection);
	drop(&connection->unread);
	worker->n_behind -= weir__output_waiting(&connection->output) > 0;
	weir__output_drop(&connection->output);
	free(connection);
	worker->n_connections--;
	weir__crew_leave(worker->options.crew, worker->options.number);
	if (worker->is_full && !atomic_load(&worker->is_stopping))
		hear_listeners(worker, true);
}

static void open_connection(struct weir__worker *worker, int socket)
{
	struct connection *const connection = calloc(1, sizeof(*connection));

	if (connection == NULL) {
		weir__net_close(socket);
		weir__crew_leave(worker->options.crew, worker->options.number);
		return;
	}
	connection->socket = socket;
	connection->client = (struct weir__client){ .protocol = 2, .number = ++worker->accepted };
	link_last(worker, connection);
	worker->n_connections++;
	if (weir__loop_add(&worker->loop, socket, connection) != 0)
		close_connection(worker, connection);
}

/* Out of descriptors or memory, those who are connected are served on; there may be room again when one of them leaves, or
 * after a pause, since others of the machine use them up, too. */
static void accept_some(struct weir__worker *worker, int listener, uint32_t most)
{
	int socket, error;

	for (uint32_t n = 0; worker->n_connections < worker->options.connections_max; n++) {
		if (n == most)
			return;
		error = weir__net_accept(listener, &socket);
		if (error == EAGAIN || error == EINVAL) /* EINVAL: it was stopped */
			return;
		if (error == ECONNABORTED || error == EINTR)
			continue;
		if (error != 0) {
			hear_listeners(worker, false);
			worker->accept_at = worker->now + pause_ns;
			return;
		}
		if (!weir__crew_hand(worker->options.crew, worker->options.number, socket))
			open_connection(worker, socket);
	}
	hear_listeners(worker, false);
}

/* Those that other workers have accepted. */
static void take_handed(struct weir__worker *worker)
{
	int sockets[WEIR__DOOR_SOCKETS];
	const uint32_t n = weir__crew_take(worker->options.crew, worker->options.number, sockets);

	for (uint32_t i = 0; i < n; i++)
		open_connection(worker, sockets[i]);
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

/* Keeps count of who has answers waiting, after some were written or taken. */
static void note_output(struct weir__worker *worker, struct connection *connection, bool was_behind, bool has_moved)
{
	const bool is_behind = weir__output_waiting(&connection->output) > 0;

	worker->n_behind += is_behind;
	worker->n_behind -= was_behind;
	if (has_moved || !was_behind)
		connection->taken_at = worker->now;
}

/* False: the connection is lost. */
static bool flush(struct weir__worker *worker, struct connection *connection, struct weir__resp_writer *writer)
{
	const bool was_behind = weir__output_waiting(&connection->output) > 0;
	const bool is_alive = weir__output_write(&connection->output, connection->socket, writer->bytes,
						 writer->length);

	note_output(worker, connection, was_behind, false);
	writer->length = 0;
	return is_alive;
}

static bool send_waiting(struct weir__worker *worker, struct connection *connection)
{
	const size_t before = weir__output_waiting(&connection->output);
	const bool is_alive = weir__output_send(&connection->output, connection->socket);

	note_output(worker, connection, before > 0, weir__output_waiting(&connection->output) < before);
	return is_alive;
}

/* So much waits for it that it gets no more answers until it takes some. */
static bool is_held_back(const struct weir__worker *worker, const struct connection *connection)
{
	return weir__output_waiting(&connection->output) >= worker->options.output_max;
}

/* --- requests --------------------------------------------------------------------------------------------------- */

/* Answers the requests in the first n bytes of `in`, up to one that waits, or as many as may; *ret_used are done with.
 * False: the connection is to be closed. */
static bool answer_all(struct weir__worker *worker, struct connection *connection, size_t n, size_t *ret_used)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.protocol };
	struct weir__client *const client = &connection->client;
	enum weir__resp_status status = WEIR__RESP_WHOLE;
	bool is_alive = true, is_held = is_held_back(worker, connection);
	size_t at = 0;

	while (is_alive && !is_held && !client->is_leaving && client->waiter == NULL && at < n) {
		struct weir__resp_request request;
		size_t used;

		weir__resp_request_init(&request);
		request.arguments = worker->arguments;
		request.arguments_max = ARGUMENTS_MAX;
		request.line_max = WEIR__RESP_LINE_MAX;
		request.bulk_max = BULK_MAX;
		request.is_stranger = weir__commands_is_stranger(&worker->commands, client);
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
			is_alive = flush(worker, connection, &writer);
			is_held = is_held_back(worker, connection);
			continue; /* with the same request */
		}
		at += used;
		/* Told what was answered, and not read any further. */
		if (request.is_stranger && writer.length > WEIR__STRANGER_OUTPUT &&
		    weir__commands_is_stranger(&worker->commands, client))
			client->is_leaving = true;
	}
	weir__commands_end_group(&worker->commands, client, &writer);
	connection->has_requests = is_held;
	*ret_used = at;
	return is_alive && flush(worker, connection, &writer) &&
	       !(client->is_leaving && weir__output_waiting(&connection->output) == 0);
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

enum reading { READ_SOME, READ_ALL, READ_END /* the connection is to be closed */ };

static enum reading read_once(struct weir__worker *worker, struct connection *connection, bool *ret_is_short)
{
	const size_t before = connection->unread.n, room = IN_SIZE - before;
	size_t used;
	ssize_t n;

	if (before > 0)
		memcpy(worker->in, connection->unread.at, before);
	if (room == 0) {
		refuse_size(connection);
		return READ_END;
	}
	n = weir__net_read(connection->socket, worker->in + before, room);
	if (n == -EAGAIN)
		return READ_ALL;
	if (n == -EINTR)
		return READ_SOME;
	if (n == 0 && weir__output_waiting(&connection->output) > 0) { /* it has said all, but not heard all */
		connection->client.is_leaving = true;
		return READ_ALL;
	}
	if (n <= 0)
		return READ_END;
	*ret_is_short = (size_t)n < room;
	if (!answer_all(worker, connection, before + (size_t)n, &used) ||
	    !keep_unread(connection, worker->in + used, before + (size_t)n - used))
		return READ_END;
	return READ_SOME;
}

static enum reading read_some(struct weir__worker *worker, struct connection *connection)
{
	enum reading reading = READ_SOME;
	bool is_short = false;

	for (int turn = 0; turn < READS_A_TURN && reading == READ_SOME && !is_short; turn++) {
		if (is_held_back(worker, connection) || connection->has_requests || connection->client.waiter ||
		    connection->client.is_leaving)
			break;
		reading = read_once(worker, connection, &is_short);
	}
	return reading;
}

/* What was read and not answered comes next. */
static bool answer_unread(struct weir__worker *worker, struct connection *connection)
{
	const size_t n = connection->unread.n;
	size_t used;

	if (n == 0)
		return true;
	memcpy(worker->in, connection->unread.at, n);
	return answer_all(worker, connection, n, &used) && keep_unread(connection, worker->in + used, n - used);
}

/* Tells the loop what is waited for, if that is another thing than before. */
static void hear(struct weir__worker *worker, struct connection *connection)
{
	const bool is_behind = weir__output_waiting(&connection->output) > 0;
	const bool reads = !connection->has_requests && !connection->client.is_leaving &&
			   !is_held_back(worker, connection);
	const enum interest interest = connection->client.waiter ? (is_behind ? END_AND_ROOM : END) :
				       !reads                    ? ROOM :
				       is_behind                 ? REQUESTS_AND_ROOM :
								   REQUESTS;

	if (interest == connection->interest)
		return;
	connection->interest = interest;
	if (connection->client.waiter)
		(void)weir__loop_change_to_end(&worker->loop, connection->socket, connection, is_behind);
	else
		(void)weir__loop_change(&worker->loop, connection->socket, connection, reads, is_behind);
}

/* False: the connection is to be closed. */
static bool send_and_go_on(struct weir__worker *worker, struct connection *connection)
{
	if (!send_waiting(worker, connection))
		return false;
	if (connection->has_requests && weir__output_waiting(&connection->output) == 0)
		return answer_unread(worker, connection);
	return !(connection->client.is_leaving && weir__output_waiting(&connection->output) == 0);
}

static void serve(struct weir__worker *worker, struct connection *connection, const struct weir__loop_event *event)
{
	bool is_alive = !(connection->client.waiter && event->has_left);

	if (is_alive && weir__output_waiting(&connection->output) > 0 && (event->can_write || event->is_over))
		is_alive = !event->is_over && send_and_go_on(worker, connection);
	if (is_alive && event->can_read)
		is_alive = read_some(worker, connection) != READ_END;
	if (!is_alive) {
		close_connection(worker, connection);
		return;
	}
	hear(worker, connection);
	touch(worker, connection);
}

/* --- requests that waited --------------------------------------------------------------------------------------- */

/* False: the connection is to be closed. */
static bool answer_waiter(struct weir__worker *worker, struct connection *connection,
			  const struct weir_verdict *verdict)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.protocol };

	connection->client.waiter = NULL;
	weir__answer_verdict(verdict, &writer);
	return flush(worker, connection, &writer) && answer_unread(worker, connection);
}

static void end_waits(struct weir__worker *worker)
{
	struct weir_verdict verdict;
	struct connection *connection;

	while (weir__waiting_n(worker->commands.waiting) > 0 &&
	       (connection = weir__waiting_over(worker->commands.waiting, weir_table_now(worker->options.table),
						&verdict)) != NULL) {
		touch(worker, connection);
		if (answer_waiter(worker, connection, &verdict))
			hear(worker, connection);
		else
			close_connection(worker, connection);
	}
}

/* --- instants --------------------------------------------------------------------------------------------------- */

static weir_ns idle_at(const struct weir__worker *worker)
{
	if (worker->options.idle_ns == 0 || worker->n_connections == 0)
		return WEIR_NEVER;
	return weir__add_saturating(worker->connections.next->active_at, worker->options.idle_ns);
}

/* Who waits is not idle: it is the server that takes its time. */
static void end_idle(struct weir__worker *worker)
{
	while (idle_at(worker) <= worker->now) {
		struct connection *const silent = worker->connections.next;

		if (silent->client.waiter)
			touch(worker, silent);
		else
			close_connection(worker, silent);
	}
}

/* Who takes nothing of what waits for it is not there any more, or stuck. */
static void end_stalled(struct weir__worker *worker)
{
	const weir_ns patience = worker->options.stall_ns;

	if (worker->look_at > worker->now)
		return;
	for (struct connection *connection = worker->connections.next, *next; connection != &worker->connections;
	     connection = next) {
		next = connection->next;
		if (weir__output_waiting(&connection->output) > 0 && worker->now - connection->taken_at >= patience)
			close_connection(worker, connection);
	}
	worker->look_at = WEIR_NEVER;
}

/* An alarm that is too early does no harm: it is left as it is. */
static void set_alarm(struct weir__worker *worker, weir_ns at)
{
	const weir_ns now = weir_table_now(worker->options.table);

	if (worker->loop.has_rung) {
		worker->loop.has_rung = false;
		worker->alarm_at = WEIR_NEVER;
	}
	if (at >= worker->alarm_at)
		return;
	worker->alarm_at = at;
	weir__loop_set_alarm(&worker->loop, at > now ? at - now : 0);
}

static void do_what_is_due(struct weir__worker *worker)
{
	weir_ns next;

	end_waits(worker);
	end_idle(worker);
	end_stalled(worker);
	if (worker->n_behind > 0 && worker->look_at == WEIR_NEVER)
		worker->look_at = worker->now + worker->options.stall_ns / 4;
	if (worker->accept_at <= worker->now)
		hear_listeners(worker, true);
	next = weir__min(weir__min(weir__waiting_next(worker->commands.waiting), idle_at(worker)),
			 weir__min(worker->accept_at, worker->look_at));
	if (next != WEIR_NEVER)
		set_alarm(worker, next);
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

static bool is_listener(const struct weir__worker *worker, const void *what)
{
	const int *const listeners = worker->options.listeners;

	return (const int *)what >= listeners && (const int *)what < listeners + worker->options.n_listeners;
}

static void stop_listening(struct weir__worker *worker)
{
	for (size_t i = 0; i < worker->options.n_listeners; i++) {
		const int listener = worker->options.listeners[i];

		accept_some(worker, listener, UINT32_MAX);
		weir__loop_remove(&worker->loop, listener);
		weir__net_stop_listening(listener);
	}
}

static void deny_waiters(struct weir__worker *worker)
{
	weir__waiting_end(worker->commands.waiting);
	for (struct connection *connection = worker->connections.next, *next; connection != &worker->connections;
	     connection = next) {
		struct weir__waiter *const waiter = connection->client.waiter;
		struct weir_verdict verdict;

		next = connection->next;
		if (waiter == NULL)
			continue;
		verdict = weir__waiting_give_up(worker->commands.waiting, waiter, worker->now);
		if (!answer_waiter(worker, connection, &verdict))
			close_connection(worker, connection);
	}
}

/* Answers what a client has sent until there is nothing more. True: the connection can be closed. */
static bool finish(struct weir__worker *worker, struct connection *connection, weir_ns deadline)
{
	enum reading reading = READ_SOME;

	if (!connection->is_finished) {
		if (weir__output_waiting(&connection->output) > 0 && !send_and_go_on(worker, connection))
			return true;
		while (weir__output_waiting(&connection->output) == 0 && reading == READ_SOME &&
		       !connection->client.is_leaving && weir_table_now(worker->options.table) < deadline)
			reading = read_some(worker, connection);
		if (reading == READ_END)
			return true;
		if (weir__output_waiting(&connection->output) > 0) {
			hear(worker, connection);
			return false;
		}
		weir__net_end_writing(connection->socket);
		connection->is_finished = true;
	}
	while (weir__net_read(connection->socket, worker->in, IN_SIZE) > 0) /* too late for an answer */
		;
	return weir__net_has_arrived(connection->socket);
}

/* What clients have sent before is answered; who has more to say will find the door closed. */
static void drain(struct weir__worker *worker)
{
	const weir_ns deadline = weir_table_now(worker->options.table) + drain_ns;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	worker->now = weir_table_now(worker->options.table);
	weir__crew_shut(worker->options.crew, worker->options.number);
	take_handed(worker);
	stop_listening(worker);
	deny_waiters(worker);
	while (worker->n_connections > 0) {
		const bool is_late = weir_table_now(worker->options.table) >= deadline;

		for (struct connection *connection = worker->connections.next, *next;
		     connection != &worker->connections; connection = next) {
			next = connection->next;
			if (is_late || finish(worker, connection, deadline))
				close_connection(worker, connection);
		}
		if (worker->n_connections > 0) {
			weir__loop_set_alarm(&worker->loop, drain_look_ns);
			(void)weir__loop_wait(&worker->loop, -1, events);
		}
	}
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

static void *work(void *worker_)
{
	struct weir__worker *const worker = worker_;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	while (!atomic_load(&worker->is_stopping)) {
		const int n = weir__loop_wait(&worker->loop, -1, events);

		worker->now = weir_table_now(worker->options.table);
		for (int i = 0; i < n; i++)
			if (is_listener(worker, events[i].what))
				accept_some(worker, *(const int *)events[i].what, ACCEPTS_A_TURN);
			else
				serve(worker, events[i].what, &events[i]);
		if (worker->loop.was_woken) {
			worker->loop.was_woken = false;
			take_handed(worker);
		}
		do_what_is_due(worker);
	}
	drain(worker);
	return NULL;
}

static int start(struct weir__worker *worker)
{
	int error = weir__loop_init(&worker->loop);

	if (error != 0)
		return error;
	for (size_t i = 0; error == 0 && i < worker->options.n_listeners; i++)
		error = weir__loop_add(&worker->loop, worker->options.listeners[i], &worker->options.listeners[i]);
	if (error == 0) {
		weir__crew_open(worker->options.crew, worker->options.number, &worker->loop);
		error = pthread_create(&worker->thread, NULL, work, worker);
	}
	if (error != 0) {
		weir__crew_shut(worker->options.crew, worker->options.number);
		weir__loop_close(&worker->loop);
	}
	return error;
}

static void free_worker(struct weir__worker *worker)
{
	weir__waiting_free(worker->commands.waiting);
	free(worker);
}

int weir__worker_start(const struct weir__worker_options *options, struct weir__worker **ret_worker)
{
	struct weir__worker *const worker = calloc(1, sizeof(*worker));
	int error;

	if (worker == NULL)
		return ENOMEM;
	worker->options = *options;
	if (worker->options.output_max == 0)
		worker->options.output_max = OUTPUT_MAX;
	if (worker->options.stall_ns == 0)
		worker->options.stall_ns = stall_ns;
	worker->connections.next = worker->connections.previous = &worker->connections;
	worker->accept_at = worker->alarm_at = worker->look_at = WEIR_NEVER;
	weir__commands_init(&worker->commands, options->table, options->counted_as);
	worker->commands.settings = options->settings;
	worker->commands.holds = options->holds;
	worker->commands.policies = options->policies;
	worker->commands.waiting = weir__waiting_new(options->table, WAITERS_MAX);
	error = worker->commands.waiting ? start(worker) : ENOMEM;
	if (error != 0) {
		free_worker(worker);
		return error;
	}
	*ret_worker = worker;
	return 0;
}

void weir__worker_end(struct weir__worker *worker)
{
	atomic_store(&worker->is_stopping, true);
	weir__loop_wake(&worker->loop);
}

void weir__worker_stop(struct weir__worker *worker)
{
	weir__worker_end(worker);
	(void)pthread_join(worker->thread, NULL);
	weir__loop_close(&worker->loop);
	free_worker(worker);
}
