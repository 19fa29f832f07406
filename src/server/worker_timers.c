/* worker_timers.c: what a worker does when its alarm rings: ends waits, and closes idle, late and stalled
 * connections. */
#include "engine/operations.h"
#include "os/net.h"
#include "server/connection.h"

static const uint64_t second_ns = 1000000000;

static weir_ns idle_at(const struct weir__worker *worker, size_t protocol)
{
	const struct weir__connection *const ring = &worker->connections[protocol];

	return ring->next == ring ? WEIR_NEVER : weir__worker_idle_at(worker, protocol, ring->next->active_at);
}

/* Closes idle connections. A client that waits for the server is not idle, as long as it is there. A client that does
 * not read its replies is not idle either: stall_ns is for that. Returns when to look next. */
static weir_ns end_idle(struct weir__worker *worker, size_t protocol)
{
	weir_ns at;

	while ((at = idle_at(worker, protocol)) <= worker->now) {
		struct weir__connection *const silent = worker->connections[protocol].next;
		const bool waits = weir__worker_is_waiting(silent) || weir__output_waiting(&silent->output) > 0 ||
				   silent->n_streams > 0;

		if (silent->protocol->stays ? silent->protocol->stays(worker, silent, waits) : waits) {
			weir__worker_touch(worker, silent);
			continue;
		}
		if (!waits && silent->protocol->leave)
			silent->protocol->leave(worker, silent, true);
		weir__worker_close(worker, silent);
	}
	return at;
}

/* Only the one that is silent longest is looked at in each ring, and only when it may be time. */
static void end_all_idle(struct weir__worker *worker)
{
	weir_ns next = WEIR_NEVER;

	if (WEIR__LIKELY(worker->idle_at > worker->now))
		return;
	for (size_t protocol = 0; protocol < WEIR__PROTOCOLS; protocol++)
		next = weir__min(next, end_idle(worker, protocol));
	worker->idle_at = next;
}

static weir_ns late_at(const struct weir__worker *worker)
{
	if (worker->begun.later == &worker->begun)
		return WEIR_NEVER;
	return weir__add_saturating(worker->begun.later->begun_at, worker->options.late_ns);
}

/* Closes late connections. A client that sends a request slowly would hold its memory forever, and a client that sends
 * none would hold a connection. A request is not late while the server does not read it because the client does not
 * read its replies. */
static void end_late(struct weir__worker *worker)
{
	while (late_at(worker) <= worker->now) {
		struct weir__connection *const late = worker->begun.later;

		if (weir__worker_holds_back(worker, late) && !late->is_finished &&
		    !weir__client_is_unauthenticated(&worker->context, &late->client)) {
			weir__worker_request_complete(late);
			weir__worker_request_begun(worker, late);
			continue;
		}
		if (!late->is_finished) {
			weir__worker_count_closed(worker, WEIR__CLOSED_LATE);
			if (!late->is_shaking)
				late->protocol->refuse_late(worker, late);
		}
		weir__worker_close(worker, late);
	}
}

void weir__worker_pace(const struct weir__worker *worker, struct weir__connection *connection)
{
	connection->paced_at = worker->now;
	connection->handed = 0;
	connection->unsent = weir__net_unsent(connection->socket);
}

/* Whether the client has read too little since paced_at, of replies that are buffered or that the kernel has. Bytes
 * that the kernel takes do not show that: it takes nothing until a third of its buffer is free, which may be megabytes.
 * So this counts the bytes that the peer has acknowledged. */
static bool reads_too_slowly(const struct weir__worker *worker, const struct weir__connection *connection)
{
	const uint64_t elapsed_ns = worker->now - connection->paced_at;
	const uint64_t least = elapsed_ns / second_ns * WEIR__READ_RATE_LEAST +
			       elapsed_ns % second_ns * WEIR__READ_RATE_LEAST / second_ns;
	const size_t before = connection->unsent + connection->handed, now = weir__net_unsent(connection->socket);

	return now > 0 && (before < now || before - now < least);
}

/* Closes stalled connections. A client that reads its buffered replies slower than WEIR__READ_RATE_LEAST is gone,
 * stuck, or an attacker that holds memory. */
static void end_stalled(struct weir__worker *worker)
{
	const weir_ns patience = worker->options.stall_ns;

	if (worker->look_at > worker->now)
		return;
	for (struct weir__connection *connection = weir__worker_next(worker, NULL), *next; connection;
	     connection = next) {
		next = weir__worker_next(worker, connection);
		if (!connection->is_behind || worker->now - connection->paced_at < patience)
			continue;
		if (!reads_too_slowly(worker, connection)) {
			weir__worker_pace(worker, connection);
			continue;
		}
		weir__worker_count_closed(worker, WEIR__CLOSED_SLOW_READER);
		weir__net_discard_at_close(connection->socket);
		weir__worker_close(worker, connection);
	}
	worker->look_at = WEIR_NEVER;
}

void weir__worker_begin_ticks(struct weir__worker *worker)
{
	worker->tick_at = weir__min(worker->tick_at, weir__add_saturating(worker->now, second_ns));
}

/* Goes on while a protocol with a tick has connections. */
static void tick(struct weir__worker *worker)
{
	if (worker->tick_at > worker->now)
		return;
	worker->tick_at = WEIR_NEVER;
	for (size_t protocol = 0; protocol < WEIR__PROTOCOLS; protocol++) {
		struct weir__connection *const ring = &worker->connections[protocol];

		if (weir__protocol_handlers[protocol]->tick == NULL || ring->next == ring)
			continue;
		for (struct weir__connection *at = ring->next, *next; at != ring; at = next) {
			next = at->next;
			if (!weir__protocol_handlers[protocol]->tick(worker, at))
				weir__worker_close_slowly(worker, at);
		}
		weir__worker_begin_ticks(worker);
	}
}

/* An alarm that is set too early is left as it is: it does no harm. */
static void set_alarm(struct weir__worker *worker, weir_ns at)
{
	weir_ns now;

	if (worker->loop.has_rung) {
		worker->loop.has_rung = false;
		worker->alarm_at = WEIR_NEVER;
	}
	if (at >= worker->alarm_at)
		return;
	worker->alarm_at = at;
	now = weir_table_now(worker->options.table);
	weir__loop_set_alarm(&worker->loop, at > now ? at - now : 0);
}

void weir__worker_do_what_is_due(struct weir__worker *worker)
{
	weir_ns next;

	/* A wait that was given up may still call the store. */
	if (worker->context.n_in_flight > 0 || worker->first_ready || weir__waiting_n(worker->context.waiting) > 0) {
		weir__waits_end(&worker->context);
		weir__worker_answer_ready(worker); /* before the alarm is set: it may begin other waits */
	}
	end_all_idle(worker);
	end_late(worker);
	end_stalled(worker);
	tick(worker);
	if (WEIR__UNLIKELY(worker->memory.n_evicted > 0))
		weir__worker_close_evicted(worker);
	if (worker->n_behind > 0 && worker->look_at == WEIR_NEVER)
		worker->look_at = worker->now + worker->options.stall_ns / 4;
	if (worker->accept_at <= worker->now)
		weir__worker_hear_listeners(worker, true);
	next = weir__min(weir__min(weir__waiting_next(worker->context.waiting), worker->idle_at),
			 weir__min(weir__min(worker->accept_at, worker->look_at), late_at(worker)));
	next = weir__min(next, worker->tick_at);
	next = weir__min(next, weir__store_due(worker->context.store, worker->now));
	if (next != WEIR_NEVER)
		set_alarm(worker, next);
}
