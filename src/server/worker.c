/* worker.c: the connections of one thread.
 *
 * All reads go through one buffer of the worker, and so do all writes: an idle connection has no buffer. A connection
 * keeps only the rest of an incomplete request and replies that the client does not take yet. If a client sends a long
 * pipeline before it reads, its replies are buffered up to a bound. Beyond that nothing is read from it until it reads
 * some replies. A client that reads nothing for long is closed, and other clients are not affected. While a request
 * waits, nothing is read either, since replies keep the order of requests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/operations.h"
#include "observe/limit_stats.h"
#include "observe/tracer.h"
#include "os/mailbox.h"
#include "os/net.h"
#include "os/tls.h"
#include "os/tls_buffers.h"
#include "server/accept_balancer.h"
#include "server/address_counts.h"
#include "server/connection.h"
#include "server/policy_loader.h"
#include "server/settings.h"
#include "server/stores.h"
#include "server/user_reload.h"

enum {
	OUTPUT_MAX = 16 * 1024 * 1024,    /* default of the option */
	CLIENT_MEMORY = 64 * 1024 * 1024, /* default of the option */
	WAITERS_MAX = 4096,
	READS_A_TURN = 4,
	DISCARDED_AT_ONCE = 16 * 1024, /* a client that is not served any more may send gigabytes */
	ACCEPTS_A_TURN = 1,            /* leave some of a burst to others: all workers share the socket of a path */
};

static const weir_ns stall_ns = 30000000000;  /* default of the option */
static const weir_ns late_ns = 10000000000;   /* default of the option */
static const weir_ns drain_ns = 5000000000;   /* for clients to take their last replies */
static const weir_ns drain_look_ns = 1000000; /* how often to check whether the replies have arrived */
static const weir_ns leave_ns = 1000000000;   /* for the store to take back what it lent */

const struct weir__protocol_handler *const weir__protocol_handlers[WEIR__PROTOCOLS] = {
	[WEIR__PROTOCOL_RESP] = &weir__protocol_resp,
	[WEIR__PROTOCOL_HTTP] = &weir__protocol_http,
	[WEIR__PROTOCOL_HTTP2] = &weir__protocol_http2
};

static void drop(struct weir__bytes *bytes)
{
	free(bytes->at);
	*bytes = (struct weir__bytes){ NULL, 0 };
}

/* --- connections ------------------------------------------------------------------------------------------------ */

static void unlink_connection(struct weir__connection *connection)
{
	connection->next->previous = connection->previous;
	connection->previous->next = connection->next;
}

static void link_last(struct weir__worker *worker, struct weir__connection *connection)
{
	const size_t protocol = connection->protocol->number;
	struct weir__connection *const ring = &worker->connections[protocol];

	connection->active_at = worker->now;
	worker->idle_at = weir__min(worker->idle_at, weir__worker_idle_at(worker, protocol, worker->now));
	connection->next = ring;
	connection->previous = ring->previous;
	connection->next->previous = connection;
	connection->previous->next = connection;
}

void weir__worker_touch(struct weir__worker *worker, struct weir__connection *connection)
{
	const uint64_t idle_ns = worker->options.idle_ns[connection->protocol->number];

	connection->heard_at = worker->now;
	if (idle_ns == 0 || worker->now - connection->active_at < idle_ns / WEIR__IDLE_PARTS)
		return;
	unlink_connection(connection);
	link_last(worker, connection);
}

void weir__worker_request_begun(struct weir__worker *worker, struct weir__connection *connection)
{
	if (connection->later)
		return;
	connection->begun_at = worker->now;
	connection->later = &worker->begun;
	connection->earlier = worker->begun.earlier;
	connection->later->earlier = connection;
	connection->earlier->later = connection;
}

void weir__worker_request_complete(struct weir__connection *connection)
{
	if (connection->later == NULL)
		return;
	connection->later->earlier = connection->earlier;
	connection->earlier->later = connection->later;
	connection->later = connection->earlier = NULL;
}

static void count_connection(struct weir__worker *worker, const struct weir__connection *connection, int64_t n)
{
	if (worker->context.counters)
		weir__counters_add(&worker->context.counters->connections[connection->protocol->number], n);
}

void weir__worker_join(struct weir__worker *worker, struct weir__connection *connection)
{
	connection->opened_at = connection->heard_at = worker->now;
	link_last(worker, connection);
	worker->n_connections++;
	count_connection(worker, connection, 1);
}

void weir__worker_change_protocol(struct weir__worker *worker, struct weir__connection *connection,
				  const struct weir__protocol_handler *protocol)
{
	count_connection(worker, connection, -1);
	unlink_connection(connection);
	connection->protocol = protocol;
	link_last(worker, connection);
	count_connection(worker, connection, 1);
}

/* Called when the first request of a client is done. */
static void note_ready(void *worker_, struct weir__client *client)
{
	struct weir__connection *const connection = (struct weir__connection *)(void *)(client->of ? client->of :
												     client);
	struct weir__worker *const worker = worker_;

	if (connection->is_ready)
		return;
	connection->is_ready = true;
	connection->next_ready = NULL;
	if (worker->last_ready)
		worker->last_ready->next_ready = connection;
	else
		worker->first_ready = connection;
	worker->last_ready = connection;
}

static void forget_ready(struct weir__worker *worker, const struct weir__connection *connection)
{
	struct weir__connection *before = NULL, *at = worker->first_ready;

	for (; at != connection; at = at->next_ready)
		before = at;
	if (before)
		before->next_ready = connection->next_ready;
	else
		worker->first_ready = connection->next_ready;
	if (worker->last_ready == connection)
		worker->last_ready = before;
}

void weir__worker_drop_buffers(struct weir__connection *connection)
{
	drop(&connection->unread);
	connection->protocol->forget(connection);
	connection->protocol_bytes = 0;
	weir__output_drop(&connection->output);
}

void weir__worker_close(struct weir__worker *worker, struct weir__connection *connection)
{
	weir__requests_abandon(&connection->client);
	if (connection->is_ready)
		forget_ready(worker, connection);
	weir__loop_remove(&worker->loop, connection->socket);
	weir__worker_drop_tls(connection);
	weir__net_close(connection->socket);
	unlink_connection(connection);
	weir__worker_request_complete(connection);
	weir__worker_drop_buffers(connection);
	weir__worker_forget_memory(worker, connection);
	worker->n_behind -= connection->is_behind;
	count_connection(worker, connection, -1);
	weir__address_counts_leave(worker->options.address_counts, connection->address);
	free(connection);
	worker->n_connections--;
	weir__accept_balancer_leave(worker->options.balancer, worker->options.number);
	if (worker->is_full && !atomic_load(&worker->is_stopping))
		weir__worker_hear_listeners(worker, true);
}

/* --- replies ---------------------------------------------------------------------------------------------------- */

static bool has_to_go_on(const struct weir__connection *connection)
{
	return weir__output_waiting(&connection->output) > 0 || connection->has_requests;
}

/* Keeps n_behind, the number of connections that are behind. */
static void note_behind(struct weir__worker *worker, struct weir__connection *connection)
{
	const bool is_behind = has_to_go_on(connection);

	if (WEIR__LIKELY(is_behind == connection->is_behind))
		return;
	if (is_behind)
		weir__worker_pace(worker, connection);
	worker->n_behind += is_behind;
	worker->n_behind -= connection->is_behind;
	connection->is_behind = is_behind;
}

/* Records the duration of requests: since asked_at if a request waited, else since the loop returned. A request that
 * waits from now on is measured from here. */
static void note_answers(struct weir__worker *worker, struct weir__connection *connection, size_t length)
{
	struct weir__limit_stats *const stats = worker->context.stats;

	if (stats == NULL)
		return;
	if (length > 0)
		weir__limit_stats_sent(stats, connection->asked_at ? connection->asked_at : worker->now,
				       weir_table_now(worker->options.table));
	if (!weir__worker_is_waiting(connection))
		connection->asked_at = 0;
	else if (connection->asked_at == 0)
		connection->asked_at = worker->now;
}

bool weir__worker_flush(struct weir__worker *worker, struct weir__connection *connection, size_t length)
{
	const bool is_alive = weir__output_write(&connection->output, connection->socket, connection->tls, worker->out,
						 length);

	note_behind(worker, connection);
	note_answers(worker, connection, length);
	return is_alive && (WEIR__LIKELY(connection->output.size == 0) || weir__worker_account(worker, connection));
}

static bool send_waiting(struct weir__worker *worker, struct weir__connection *connection)
{
	const size_t before = weir__output_waiting(&connection->output);
	const bool is_alive = weir__output_send(&connection->output, connection->socket, connection->tls);

	connection->handed += before - weir__output_waiting(&connection->output);
	note_behind(worker, connection);
	return is_alive;
}

/* --- requests --------------------------------------------------------------------------------------------------- */

static bool keep_unread(struct weir__connection *connection, const char *bytes, size_t n)
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

enum reading { READ_SOME, READ_ALL, READ_END /* close the connection */ };

static enum reading read_once(struct weir__worker *worker, struct weir__connection *connection, bool *ret_is_short)
{
	const size_t before = connection->unread.n, most = WEIR__IN_SIZE - before,
		     room = weir__min(most, connection->protocol->read_most);
	size_t used;
	ssize_t n;

	if (before > 0)
		memcpy(worker->in, connection->unread.at, before);
	if (room == 0) {
		drop(&connection->unread);
		return connection->protocol->refuse_size(worker, connection) &&
				       weir__output_waiting(&connection->output) > 0 ?
			       READ_ALL :
			       READ_END;
	}
	n = WEIR__LIKELY(connection->tls == NULL) ? weir__net_read(connection->socket, worker->in + before, room) :
						    weir__tls_read_all(connection->tls, worker->in + before, room);
	if (n == -EAGAIN)
		return READ_ALL;
	if (n == -EINTR)
		return READ_SOME;
	if (n == 0 && weir__output_waiting(&connection->output) > 0) { /* it has finished sending, but not reading */
		connection->client.is_leaving = true;
		return READ_ALL;
	}
	if (n <= 0)
		return READ_END;
	*ret_is_short = (size_t)n < most; /* HTTP has one read a turn */
	if (!connection->protocol->answer(worker, connection, before + (size_t)n, &used) ||
	    !keep_unread(connection, worker->in + used, before + (size_t)n - used))
		return READ_END;
	return READ_SOME;
}

static enum reading read_some(struct weir__worker *worker, struct weir__connection *connection)
{
	enum reading reading = READ_SOME;
	bool is_short = false;

	for (int turn = 0; turn < READS_A_TURN && reading == READ_SOME && !is_short; turn++) {
		if (weir__worker_holds_back(worker, connection) || connection->has_requests ||
		    weir__worker_is_waiting(connection) || connection->client.is_leaving)
			break;
		reading = read_once(worker, connection, &is_short);
	}
	return reading;
}

/* Runs what was read before and not run yet. */
static bool answer_unread(struct weir__worker *worker, struct weir__connection *connection)
{
	const size_t n = connection->unread.n;
	size_t used;

	if (n == 0 && !connection->protocol->answers_nothing)
		return true;
	if (n > 0)
		memcpy(worker->in, connection->unread.at, n);
	return connection->protocol->answer(worker, connection, n, &used) &&
	       keep_unread(connection, worker->in + used, n - used);
}

/* Whether the first request waits for a limit (WAIT), which may take long, so that the client may leave before. A
 * client that has finished sending still gets its reply while the store decides whether it must wait. A barrier is not
 * always the last request: a protocol error may follow it. */
static bool may_wait_long(const struct weir__connection *connection)
{
	const struct weir__request *const first = connection->client.first;

	return first && first->is_barrier && !weir__wait_is_under_way(first);
}

/* Tells the loop which events are needed, if that has changed. */
static void hear(struct weir__worker *worker, struct weir__connection *connection)
{
	const bool has_output = weir__output_waiting(&connection->output) > 0;
	const bool reads = connection->is_finished || connection->is_shaking ||
			   (!connection->has_requests && !connection->client.is_leaving &&
			    !weir__worker_is_waiting(connection) && !weir__worker_holds_back(worker, connection));
	const bool writes = has_output || connection->has_requests ||
			    (WEIR__UNLIKELY(connection->tls != NULL) && weir__worker_tls_writes(connection, reads));
	const bool hears_end = may_wait_long(connection);
	const unsigned interest = (hears_end ? WEIR__HEAR_END :
				   reads     ? WEIR__HEAR_REQUESTS :
					       0) |
				  (writes ? WEIR__HEAR_ROOM : 0);

	note_behind(worker, connection);
	if (interest == connection->interest)
		return;
	connection->interest = interest;
	if (hears_end)
		(void)weir__loop_change_to_end(&worker->loop, connection->socket, connection, has_output);
	else
		(void)weir__loop_change(&worker->loop, connection->socket, connection, reads, writes);
}

/* A connection with requests left has its next turn as soon as its output is empty, which may be at once. Returns false
 * if the connection must be closed. */
static bool send_and_go_on(struct weir__worker *worker, struct weir__connection *connection)
{
	if (!send_waiting(worker, connection))
		return false;
	if (connection->has_requests && weir__output_waiting(&connection->output) == 0) {
		const bool is_alive = answer_unread(worker, connection);

		weir__worker_pace(worker, connection); /* the output was empty: it is not stalled */
		return is_alive;
	}
	return !(connection->client.is_leaving && weir__output_waiting(&connection->output) == 0) ||
	       weir__worker_is_waiting(connection);
}

/* Discards what a client sends after its last reply. Returns false when the client has finished sending. */
static bool pass_over(struct weir__worker *worker, const struct weir__connection *connection)
{
	for (int turn = 0; turn < READS_A_TURN; turn++) {
		const ssize_t n = weir__net_read(connection->socket, worker->in, DISCARDED_AT_ONCE);

		if (n <= 0)
			return n == -EAGAIN || n == -EINTR;
	}
	return true;
}

/* Instead of closing, waits until the client has read the last reply and closes, or takes too long. Returns true if
 * so. */
static bool linger(struct weir__worker *worker, struct weir__connection *connection)
{
	if (!connection->lingers || connection->is_finished || weir__output_waiting(&connection->output) > 0)
		return false;
	weir__worker_end_writing(connection);
	connection->is_finished = true;
	drop(&connection->unread);
	weir__worker_request_begun(worker, connection);
	return true;
}

void weir__worker_close_slowly(struct weir__worker *worker, struct weir__connection *connection)
{
	connection->lingers = true;
	if (linger(worker, connection))
		hear(worker, connection);
	else
		weir__worker_close(worker, connection);
}

static void serve(struct weir__worker *worker, struct weir__connection *connection,
		  const struct weir__loop_event *event)
{
	const bool was_waiting = weir__worker_is_waiting(connection);
	bool can_read = event->can_read;
	bool is_alive = !(may_wait_long(connection) && event->has_left) &&
			!(was_waiting && event->is_over); /* has_left: it may still wait for a reply */

	if (WEIR__UNLIKELY(connection->memory.is_evicted))
		return;
	if (connection->is_finished) {
		if (event->is_over || (event->can_read && !pass_over(worker, connection)))
			weir__worker_close(worker, connection);
		return;
	}
	if (WEIR__UNLIKELY(connection->is_shaking)) {
		if (!weir__worker_shake(worker, connection)) {
			weir__worker_close(worker, connection);
			return;
		}
		if (connection->is_shaking) {
			hear(worker, connection);
			return;
		}
	}
	can_read = can_read || (connection->tls && event->can_write && weir__worker_tls_writes(connection, true));
	if (is_alive && has_to_go_on(connection) && (event->can_write || event->is_over))
		is_alive = !event->is_over && send_and_go_on(worker, connection);
	if (is_alive && can_read)
		is_alive = read_some(worker, connection) != READ_END;
	is_alive = is_alive && weir__worker_account(worker, connection);
	if (!is_alive && !linger(worker, connection)) {
		weir__worker_close(worker, connection);
		return;
	}
	/* Usually a store replies before the client sends more. So the loop's events are not changed for that wait: if
	 * the client does send first, the event that follows (was_waiting) changes them. */
	if (was_waiting || !weir__worker_is_waiting(connection) || may_wait_long(connection))
		hear(worker, connection);
	weir__worker_touch(worker, connection);
}

/* --- requests that waited ---------------------------------------------------------------------------------------- */

static void go_on(struct weir__worker *worker, struct weir__connection *connection)
{
	bool is_alive = true;
	size_t length;

	if (connection->memory.is_evicted)
		return;
	length = connection->protocol->answer_ready(worker, connection, &is_alive);
	weir__worker_touch(worker, connection);
	is_alive = is_alive && weir__worker_flush(worker, connection, length);
	if (is_alive && !weir__worker_is_waiting(connection))
		is_alive = answer_unread(worker, connection);
	is_alive = is_alive && weir__worker_account(worker, connection);
	is_alive = is_alive && (weir__worker_is_waiting(connection) ||
				!(connection->client.is_leaving && weir__output_waiting(&connection->output) == 0));
	if (is_alive || linger(worker, connection)) /* when it lingers, what it sends is read and discarded */
		hear(worker, connection);
	else
		weir__worker_close(worker, connection);
}

void weir__worker_answer_ready(struct weir__worker *worker)
{
	struct weir__connection *connection;

	while ((connection = worker->first_ready) != NULL) {
		worker->first_ready = connection->next_ready;
		if (worker->first_ready == NULL)
			worker->last_ready = NULL;
		connection->is_ready = false;
		go_on(worker, connection);
	}
	weir__store_flush(worker->context.store);
}

/* Collects what other threads have done for this worker. */
static void collect(struct weir__worker *worker)
{
	struct weir__task *next = weir__mailbox_take(worker->context.mailbox);

	while (next) {
		struct weir__task *const task = next;

		next = task->next;
		task->returned(task);
	}
	weir__store_collect(worker->context.store);
}

/* --- shutdown --------------------------------------------------------------------------------------------------- */

static bool is_listener(const struct weir__worker *worker, const void *what)
{
	const struct weir__listener *const listeners = worker->options.listeners, *const one = what;

	return one >= listeners && one < listeners + worker->options.n_listeners;
}

static void tell_to_leave(struct weir__worker *worker, bool is_last)
{
	for (struct weir__connection *connection = weir__worker_next(worker, NULL); connection;
	     connection = weir__worker_next(worker, connection))
		if (connection->protocol->leave && !connection->memory.is_evicted && !connection->is_finished)
			connection->protocol->leave(worker, connection, is_last);
}

/* Does not shut the sockets down: another server listens there, and their backlogs belong to it. */
static void leave_listeners(struct weir__worker *worker)
{
	for (size_t i = 0; i < worker->options.n_listeners; i++)
		weir__loop_remove(&worker->loop, worker->options.listeners[i].socket);
	tell_to_leave(worker, false);
	atomic_store(&worker->leaving, WEIR__HAS_LEFT);
}

static void stop_listening(struct weir__worker *worker)
{
	if (atomic_load(&worker->leaving) != WEIR__STAYS) {
		leave_listeners(worker);
		return;
	}
	for (size_t i = 0; i < worker->options.n_listeners; i++) {
		const struct weir__listener *const listener = &worker->options.listeners[i];

		weir__worker_accept(worker, listener, UINT32_MAX);
		weir__loop_remove(&worker->loop, listener->socket);
		if (!listener->is_lent)
			weir__net_stop_listening(listener->socket);
	}
}

/* Runs some of the requests that a client has sent. Returns true if none is left and all replies are sent, or if the
 * connection is lost. */
static bool answer_last(struct weir__worker *worker, struct weir__connection *connection, bool *ret_is_lost)
{
	enum reading reading = READ_ALL;

	*ret_is_lost = has_to_go_on(connection) && !send_and_go_on(worker, connection);
	if (*ret_is_lost)
		return true;
	if (!has_to_go_on(connection) && !connection->client.is_leaving && !weir__worker_is_waiting(connection))
		reading = read_some(worker, connection);
	*ret_is_lost = reading == READ_END;
	if (!*ret_is_lost &&
	    (reading == READ_SOME || has_to_go_on(connection) || weir__worker_is_waiting(connection))) {
		hear(worker, connection);
		return false;
	}
	return true;
}

/* Takes one step towards the end of a connection, so that all connections get their turns. Returns true if it can be
 * closed. */
static bool finish(struct weir__worker *worker, struct weir__connection *connection)
{
	bool is_lost;

	if (connection->is_shaking)
		return true;
	if (weir__worker_is_waiting(connection))
		return false;
	if (connection->n_streams > 0 && !connection->client.is_leaving) {
		(void)answer_last(worker, connection, &is_lost);
		return is_lost;
	}
	if (!connection->is_finished) {
		if (!answer_last(worker, connection, &is_lost))
			return false;
		if (is_lost)
			return !linger(worker, connection);
		weir__worker_end_writing(connection);
		connection->is_finished = true;
		weir__loop_remove(&worker->loop, connection->socket); /* from now on drain looks at it */
	}
	(void)pass_over(worker, connection); /* too late for a reply */
	return weir__net_has_arrived(connection->socket);
}

/* Replies to what clients have sent so far, then closes. */
static void drain(struct weir__worker *worker)
{
	const weir_ns deadline = weir_table_now(worker->options.table) + drain_ns;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	worker->now = weir_table_now(worker->options.table);
	weir__accept_balancer_shut(worker->options.balancer, worker->options.number);
	weir__worker_take_handed(worker);
	stop_listening(worker);
	weir__waiting_end(worker->context.waiting);
	for (struct weir__connection *connection = weir__worker_next(worker, NULL); connection;
	     connection = weir__worker_next(worker, connection))
		weir__waits_deny(&worker->context, &connection->client);
	tell_to_leave(worker, true);
	weir__worker_answer_ready(worker);
	while (worker->n_connections > 0) {
		const bool is_late = weir_table_now(worker->options.table) >= deadline;

		collect(worker);
		weir__worker_answer_ready(worker);
		for (struct weir__connection *connection = weir__worker_next(worker, NULL), *next; connection;
		     connection = next) {
			next = weir__worker_next(worker, connection);
			if (is_late || connection->memory.is_evicted || finish(worker, connection))
				weir__worker_close(worker, connection);
		}
		weir__store_flush(worker->context.store);
		if (worker->n_connections > 0) {
			weir__loop_set_alarm(&worker->loop, drain_look_ns);
			(void)weir__loop_wait(&worker->loop, -1, events);
		}
	}
	/* All clients are disconnected, but the store still completes their requests. */
	while (worker->context.n_in_flight > 0 || weir__waiting_n(worker->context.waiting) > 0) {
		weir__loop_set_alarm(&worker->loop, drain_look_ns);
		(void)weir__loop_wait(&worker->loop, -1, events);
		collect(worker);
		weir__store_flush(worker->context.store); /* a request may call the store more than once */
	}
}

/* Pushes what was allowed ahead of the store, and gives back what the store holds ahead, unless another process goes on
 * with the table. What a store that does not reply was lent ends by itself. */
static void leave_store(struct weir__worker *worker)
{
	const struct weir_table *const table = worker->options.table;
	const weir_ns deadline = weir_table_now(worker->options.table) + leave_ns;
	const bool goes_on = atomic_load(&worker->leaving) != WEIR__STAYS &&
			     (table->is_shared || table->region.file >= 0);
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	while (!weir__store_leave(worker->context.store, goes_on) && weir_table_now(worker->options.table) < deadline) {
		weir__loop_set_alarm(&worker->loop, drain_look_ns);
		(void)weir__loop_wait(&worker->loop, -1, events);
		collect(worker);
	}
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

static void *work(void *worker_)
{
	struct weir__worker *const worker = worker_;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	weir__tls_buffers_begin();
	while (!atomic_load(&worker->is_stopping)) {
		const int n = weir__loop_wait(&worker->loop, -1, events);

		worker->now = weir_table_now(worker->options.table);
		worker->shaken_ns = 0;
		for (int i = 0; i < n; i++)
			if (is_listener(worker, events[i].what))
				weir__worker_accept(worker, events[i].what, ACCEPTS_A_TURN);
			else
				serve(worker, events[i].what, &events[i]);
		if (worker->loop.was_woken) {
			worker->loop.was_woken = false;
			weir__worker_take_handed(worker);
			weir__worker_take_users(worker);
			collect(worker);
			if (atomic_load(&worker->leaving) == WEIR__IS_TO_LEAVE)
				leave_listeners(worker);
		}
		weir__worker_do_what_is_due(worker);
	}
	drain(worker);
	leave_store(worker);
	weir__mailbox_close(worker->context.mailbox); /* before the loop is closed: a task that returns would wake it */
	worker->context.mailbox = NULL;
	weir__tls_buffers_end();
	return NULL;
}

static int start(struct weir__worker *worker)
{
	int error = weir__loop_init(&worker->loop);

	if (error != 0)
		return error;
	weir__loop_spin(&worker->loop, worker->options.spin_ns);
	for (size_t i = 0; error == 0 && i < worker->options.n_listeners; i++)
		error = weir__loop_add(&worker->loop, worker->options.listeners[i].socket,
				       &worker->options.listeners[i]);
	if (error == 0) {
		weir__accept_balancer_open(worker->options.balancer, worker->options.number, &worker->loop);
		error = pthread_create(&worker->thread, NULL, work, worker);
	}
	if (error != 0) {
		weir__accept_balancer_shut(worker->options.balancer, worker->options.number);
		weir__loop_close(&worker->loop);
	}
	return error;
}

static bool start_protocols(struct weir__worker *worker)
{
	bool is_whole = true;

	for (size_t i = 0; i < WEIR__PROTOCOLS; i++)
		is_whole = is_whole &&
			   (weir__protocol_handlers[i]->start == NULL || weir__protocol_handlers[i]->start(worker));
	return is_whole;
}

/* False: no memory. */
static bool open_store(struct weir__worker *worker)
{
	const struct weir__worker_options *const options = &worker->options;

	if (options->stores == NULL)
		return true;
	worker->context.store = weir__stores_open(options->stores, options->number,
						  options->loader ? weir__policy_loader_guard(options->loader) : NULL,
						  &worker->loop);
	worker->context.limits.check = weir__stores_check_limit;
	return worker->context.store != NULL;
}

static bool make_waiting(struct weir__worker *worker)
{
	const struct weir__waiting_options options = { .store = worker->context.store,
						       .table = worker->options.table,
						       .recorder = worker->options.recorder,
						       .most = WAITERS_MAX,
						       .over = weir__wait_over,
						       .goes_on = weir__wait_goes_on };

	worker->context.waiting = weir__waiting_new(&options);
	return worker->context.waiting != NULL;
}

static void free_worker(struct weir__worker *worker)
{
	for (size_t i = 0; i < WEIR__PROTOCOLS; i++)
		if (weir__protocol_handlers[i]->stop)
			weir__protocol_handlers[i]->stop(worker);
	weir__waiting_free(worker->context.waiting);
	weir__mailbox_close(worker->context.mailbox);
	if (worker->context.store && worker->context.store->free)
		worker->context.store->free(worker->context.store);
	weir__context_fini(&worker->context);
	weir__user_reload_release(worker->users);
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
	if (worker->options.client_memory == 0)
		worker->options.client_memory = CLIENT_MEMORY;
	worker->output_mark = worker->options.output_max;
	weir__client_memory_init(&worker->memory);
	if (worker->options.stall_ns == 0)
		worker->options.stall_ns = stall_ns;
	if (worker->options.late_ns == 0)
		worker->options.late_ns = late_ns;
	for (size_t i = 0; i < WEIR__PROTOCOLS; i++)
		worker->connections[i].next = worker->connections[i].previous = &worker->connections[i];
	worker->begun.later = worker->begun.earlier = &worker->begun;
	worker->accept_at = worker->alarm_at = worker->look_at = worker->tick_at = worker->idle_at = WEIR_NEVER;
	weir__context_init(&worker->context, options->table, options->counted_as);
	worker->context.ready = note_ready;
	worker->context.worker = worker;
	worker->context.settings = options->settings;
	worker->context.hides_keys = options->settings && options->settings->log_denials == WEIR__DENIALS_HASH;
	worker->context.shows_values = options->settings && options->settings->log_denials == WEIR__DENIALS_KEY;
	worker->context.key_count_cache = &worker->key_count_cache;
	weir__worker_take_users(worker);
	worker->context.auth_limit = options->auth_limit;
	worker->context.certificates = options->certificates;
	worker->context.holds = options->holds;
	worker->context.loader = options->loader;
	worker->context.user_reload = options->user_reload;
	worker->context.denial_body = options->denial_body;
	worker->context.changes = options->changes;
	worker->context.guard = options->loader ? weir__policy_loader_guard(options->loader) : NULL;
	worker->context.counters_set = options->counters_set;
	worker->context.counters = weir__counters_set_of(options->counters_set, options->number);
	worker->context.stats_set = options->stats_set;
	worker->context.stats = weir__limit_stats_set_of(options->stats_set, options->number);
	worker->context.log = options->log;
	worker->context.recorder = options->recorder;
	worker->context.tracers = options->tracers;
	worker->context.tracer = weir__tracer_set_of(options->tracers, options->number);
	if (worker->context.stats)
		worker->context.stats->tracer = worker->context.tracer;
	if (options->loader)
		weir__tracer_know(worker->context.tracer, worker->context.guard);
	worker->context.mailbox = weir__mailbox_new(&worker->loop);
	error = worker->context.mailbox && open_store(worker) && make_waiting(worker) && start_protocols(worker) ?
			start(worker) :
			ENOMEM;
	if (error != 0) {
		free_worker(worker);
		return error;
	}
	*ret_worker = worker;
	return 0;
}

void weir__worker_retire(struct weir__worker *worker)
{
	atomic_store(&worker->is_retiring, true);
}

void weir__worker_end(struct weir__worker *worker)
{
	atomic_store(&worker->is_stopping, true);
	weir__loop_wake(&worker->loop);
}

void weir__worker_leave(struct weir__worker *worker)
{
	int stays = WEIR__STAYS;

	if (atomic_compare_exchange_strong(&worker->leaving, &stays, WEIR__IS_TO_LEAVE))
		weir__loop_wake(&worker->loop);
}

bool weir__worker_has_left(const struct weir__worker *worker)
{
	return atomic_load(&worker->leaving) == WEIR__HAS_LEFT;
}

void weir__worker_stop(struct weir__worker *worker)
{
	weir__worker_end(worker);
	(void)pthread_join(worker->thread, NULL);
	weir__loop_close(&worker->loop);
	free_worker(worker);
}
