/* worker_timers.c: what a worker does when its alarm rings: ends waits, and closes idle, late and stalled
 * connections. */
#include "engine/operations.h"
#include "server/connection.h"

static weir_ns idle_at(const struct weir__worker *worker, size_t protocol)
{
	const struct weir__connection *const ring = &worker->connections[protocol];
	const uint64_t idle_ns = worker->options.idle_ns[protocol];

	if (idle_ns == 0 || ring->next == ring)
		return WEIR_NEVER;
	return weir__add_saturating(ring->next->active_at, idle_ns + idle_ns / WEIR__IDLE_PARTS);
}

/* A client that waits for the server is not idle. Neither is one that does not read its replies: stall_ns is for that.
 * Returns when to look next. */
static weir_ns end_idle(struct weir__worker *worker, size_t protocol)
{
	weir_ns at;

	while ((at = idle_at(worker, protocol)) <= worker->now) {
		struct weir__connection *const silent = worker->connections[protocol].next;

		if (weir__worker_is_waiting(silent) || weir__output_waiting(&silent->output) > 0)
			weir__worker_touch(worker, silent);
		else
			weir__worker_close(worker, silent);
	}
	return at;
}

static weir_ns late_at(const struct weir__worker *worker)
{
	if (worker->begun.later == &worker->begun)
		return WEIR_NEVER;
	return weir__add_saturating(worker->begun.later->begun_at, worker->options.late_ns);
}

/* A client that sends a request slowly would hold its memory forever. One that sends none would hold a connection. */
static void end_late(struct weir__worker *worker)
{
	while (late_at(worker) <= worker->now) {
		struct weir__connection *const late = worker->begun.later;

		if (!late->is_finished) {
			weir__worker_count_closed(worker, WEIR__CLOSED_LATE);
			late->protocol->refuse_late(worker, late);
		}
		weir__worker_close(worker, late);
	}
}

/* A client that takes none of its buffered replies is gone or stuck. */
static void end_stalled(struct weir__worker *worker)
{
	const weir_ns patience = worker->options.stall_ns;

	if (worker->look_at > worker->now)
		return;
	for (struct weir__connection *connection = weir__worker_next(worker, NULL), *next; connection;
	     connection = next) {
		next = weir__worker_next(worker, connection);
		if (connection->is_behind && worker->now - connection->taken_at >= patience) {
			weir__worker_count_closed(worker, WEIR__CLOSED_SLOW_READER);
			weir__worker_close(worker, connection);
		}
	}
	worker->look_at = WEIR_NEVER;
}

/* An alarm that is set too early is left as it is: it does no harm. */
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

void weir__worker_do_what_is_due(struct weir__worker *worker)
{
	weir_ns next = WEIR_NEVER;

	if (worker->context.n_in_flight > 0 || worker->first_ready) {
		weir__waits_end(&worker->context);
		weir__worker_answer_ready(worker); /* before the alarm is set: it may begin other waits */
	}
	for (size_t protocol = 0; protocol < WEIR__PROTOCOLS; protocol++)
		next = weir__min(next, end_idle(worker, protocol));
	end_late(worker);
	end_stalled(worker);
	weir__worker_close_evicted(worker);
	if (worker->n_behind > 0 && worker->look_at == WEIR_NEVER)
		worker->look_at = worker->now + worker->options.stall_ns / 4;
	if (worker->accept_at <= worker->now)
		weir__worker_hear_listeners(worker, true);
	next = weir__min(weir__min(weir__waiting_next(worker->context.waiting), next),
			 weir__min(weir__min(worker->accept_at, worker->look_at), late_at(worker)));
	if (next != WEIR_NEVER)
		set_alarm(worker, next);
}
