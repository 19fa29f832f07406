/* worker_waits.c: connections whose last request is answered later: by an instant, or when it was done elsewhere. */
#include "serve/connection.h"
#include "serve/errands.h"
#include "serve/sight.h"

static void answer_waiter(struct weir__worker *worker, struct weir__connection *connection,
			  const struct weir_verdict *verdict)
{
	struct weir__sight *const sight = worker->commands.sight;
	const weir_ns now = weir_table_now(worker->options.table);

	connection->client.waiter = NULL;
	if (sight) {
		weir__spans_add(&sight->spans[WEIR__SPAN_WAIT],
				now > connection->asked_at ? now - connection->asked_at : 0, 1);
		sight->answered++;
		sight->throttled++;
	}
	weir__worker_go_on(worker, connection, connection->wire->answer_waiter(worker, connection, verdict));
}

void weir__worker_end_waits(struct weir__worker *worker)
{
	struct weir_verdict verdict;
	struct weir__connection *connection;

	while (weir__waiting_n(worker->commands.waiting) > 0 &&
	       (connection = weir__waiting_over(worker->commands.waiting, weir_table_now(worker->options.table),
						&verdict)) != NULL)
		answer_waiter(worker, connection, &verdict);
}

void weir__worker_deny_waiters(struct weir__worker *worker)
{
	weir__waiting_end(worker->commands.waiting);
	for (struct weir__connection *connection = weir__worker_next(worker, NULL), *next; connection;
	     connection = next) {
		struct weir__waiter *const waiter = connection->client.waiter;
		struct weir_verdict verdict;

		next = weir__worker_next(worker, connection);
		if (waiter == NULL)
			continue;
		verdict = weir__waiting_give_up(worker->commands.waiting, waiter, worker->now);
		answer_waiter(worker, connection, &verdict);
	}
}

/* Requests that another store has decided, or did not, are run again. */
static void rerun(struct weir__worker *worker, struct weir__errand *memo)
{
	struct weir__connection *const connection = memo->owner;

	weir__remote_take_back(worker->commands.remote, memo);
	if (connection == NULL)
		return;
	connection->client.errand = NULL;
	weir__worker_go_on(worker, connection, connection->to_rerun ? connection->wire->rerun(worker, connection) : 0);
}

void weir__worker_take_errands(struct weir__worker *worker)
{
	struct weir__errand *errand;

	while ((errand = weir__errand_take(worker->commands.door)) != NULL) {
		struct weir__connection *const connection = errand->owner;

		if (weir__remote_is_memo(errand)) {
			rerun(worker, errand);
			continue;
		}
		if (connection) {
			connection->client.errand = NULL;
			weir__sight_answered(worker->commands.sight, 1);
			weir__worker_go_on(worker, connection,
					   connection->wire->answer_errand(worker, connection, errand));
		}
		errand->free(errand);
	}
}
