/* waiting.c: a heap of due times, and a queue per key. */
#include "engine/waiting.h"

#include <stdlib.h>

#include "observe/limit_stats.h"
#include "observe/tracer.h"
#include "store/table/table_wait.h"

enum { LINES = 1024 };

/* Timers fire late. A wait that is late by at most this (ns) is charged at the instant when it was due. Otherwise the
 * lateness of each wait would add to the next, and the rate would not be reached. */
static const weir_ns late_max = 1000000000;

static const weir_ns look_again_after = 1000000000;

struct weir__waiter {
	void *owner;
	uint64_t hash, cost; /* the key's hash under its limit; identifies the queue */
	weir_ns deadline;
	weir_ns due;    /* when to look at it next */
	uint32_t place; /* index in the heap */
	bool is_first;  /* of its queue: tries the table when due; others time out when due */
	bool departs;   /* has a departure time, and is in no queue */
	struct weir__departure departure;
	struct weir__waiter *behind, *ahead;  /* in the queue */
	struct weir__waiter *last;            /* of the first: the end of the queue */
	struct weir__waiter *next_line;       /* of the first: the next queue in the same bucket */
	const struct weir_table_limit *limit; /* a limit of the table, or &made */
	struct weir_table_limit made;
	/* Context for the trace span and the rejection log, if either is on. */
	struct weir__trace_context trace_context;
};

struct weir__waiting {
	struct weir_table *table;
	struct weir__limit_stats *stats; /* NULL: no statistics */
	uint32_t n, most;
	bool is_ended;
	struct weir__waiter *lines[LINES];
	struct weir__waiter *heap[]; /* the earliest `due` first */
};

struct weir__waiting *weir__waiting_new(struct weir_table *table, uint32_t most)
{
	struct weir__waiting *const waiting = calloc(1, sizeof(*waiting) + most * sizeof(waiting->heap[0]));

	if (waiting == NULL)
		return NULL;
	waiting->table = table;
	waiting->most = most;
	return waiting;
}

void weir__waiting_show(struct weir__waiting *waiting, struct weir__limit_stats *stats)
{
	waiting->stats = stats;
}

void weir__waiting_free(struct weir__waiting *waiting)
{
	free(waiting);
}

void weir__waiting_end(struct weir__waiting *waiting)
{
	waiting->is_ended = true;
}

uint32_t weir__waiting_n(const struct weir__waiting *waiting)
{
	return waiting->n;
}

weir_ns weir__waiting_next(const struct weir__waiting *waiting)
{
	return waiting->n > 0 ? waiting->heap[0]->due : WEIR_NEVER;
}

/* --- the heap --------------------------------------------------------------------------------------------------- */

static void put(struct weir__waiting *waiting, uint32_t place, struct weir__waiter *waiter)
{
	waiting->heap[place] = waiter;
	waiter->place = place;
}

/* Moves a waiter whose `due` has changed to its position. */
static void sift(struct weir__waiting *waiting, struct weir__waiter *waiter)
{
	uint32_t place = waiter->place;

	while (place > 0 && waiting->heap[(place - 1) / 2]->due > waiter->due) {
		put(waiting, place, waiting->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * place + 1;

		if (child + 1 < waiting->n && waiting->heap[child + 1]->due < waiting->heap[child]->due)
			child++;
		if (child >= waiting->n || waiting->heap[child]->due >= waiter->due)
			break;
		put(waiting, place, waiting->heap[child]);
		place = child;
	}
	put(waiting, place, waiter);
}

static void set_due(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns due)
{
	waiter->due = due;
	sift(waiting, waiter);
}

static void push(struct weir__waiting *waiting, struct weir__waiter *waiter)
{
	put(waiting, waiting->n++, waiter);
	sift(waiting, waiter);
}

static void pull(struct weir__waiting *waiting, struct weir__waiter *waiter)
{
	struct weir__waiter *const moved = waiting->heap[--waiting->n];

	if (moved == waiter)
		return;
	put(waiting, waiter->place, moved);
	sift(waiting, moved);
}

/* --- queues ----------------------------------------------------------------------------------------------------- */

/* Where the first waiter of the key's queue is, or would be. */
static struct weir__waiter **line_of(struct weir__waiting *waiting, uint64_t hash)
{
	struct weir__waiter **line = &waiting->lines[hash % LINES];

	while (*line && (*line)->hash != hash)
		line = &(*line)->next_line;
	return line;
}

static void join(struct weir__waiting *waiting, struct weir__waiter *waiter)
{
	struct weir__waiter **const line = line_of(waiting, waiter->hash), *const first = *line;

	waiter->is_first = first == NULL;
	if (first == NULL) {
		waiter->last = waiter;
		*line = waiter;
		return;
	}
	waiter->ahead = first->last;
	first->last->behind = waiter;
	first->last = waiter;
}

/* The next waiter tries at once, because it may need less. */
static void leave(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now)
{
	struct weir__waiter **const line = line_of(waiting, waiter->hash), *const next = waiter->behind;

	if (!waiter->is_first) {
		waiter->ahead->behind = next;
		if (next)
			next->ahead = waiter->ahead;
		else if (*line)
			(*line)->last = waiter->ahead;
		return;
	}
	if (next == NULL) {
		*line = waiter->next_line;
		return;
	}
	next->is_first = true;
	next->ahead = NULL;
	next->last = waiter->last;
	next->next_line = waiter->next_line;
	*line = next;
	set_due(waiting, next, now);
}

/* --- trying ----------------------------------------------------------------------------------------------------- */

static bool shapes(const struct weir_table_limit *limit)
{
	return limit->first.plan.flags & WEIR_PLAN_SHAPE;
}

static struct weir_verdict step(struct weir__waiting *waiting, const struct weir__waiter *waiter, weir__step *how,
				weir_ns now, uint64_t cost)
{
	return weir__table_step(waiting->table, waiter->limit, waiter->hash, how,
				weir__table_clamp(waiting->table, now), cost, NULL);
}

/* The verdict for a waiter that may go now. */
static struct weir_verdict going(struct weir__waiting *waiting, const struct weir__waiter *waiter, weir_ns now)
{
	struct weir_verdict verdict = step(waiting, waiter, weir_step_peek, now, 0);

	verdict.granted = waiter->cost;
	verdict.delay = 0;
	return verdict;
}

/* The verdict for a waiter that may not. A shaping bucket would have allowed it later, so its delay becomes
 * retry_after. */
static struct weir_verdict denied(struct weir__waiting *waiting, const struct weir__waiter *waiter, weir_ns now)
{
	struct weir_verdict verdict = step(waiting, waiter, weir_step_peek, now, waiter->cost);

	if (verdict.allowed)
		verdict.retry_after = verdict.delay;
	verdict.allowed = false;
	verdict.granted = 0;
	verdict.delay = 0;
	return verdict;
}

static weir_ns time_left(const struct weir__waiter *waiter, weir_ns now)
{
	return waiter->deadline > now ? waiter->deadline - now : 0;
}

/* With count_all a denied take counts too. So a retry peeks first. */
static struct weir_verdict ask(struct weir__waiting *waiting, const struct weir__waiter *waiter, weir_ns now,
			       bool is_again)
{
	struct weir_verdict verdict;

	if (is_again) {
		verdict = step(waiting, waiter, weir_step_peek, now, waiter->cost);
		if (!verdict.allowed)
			return verdict;
	}
	return step(waiting, waiter, weir_step_take, now, waiter->cost);
}

static bool is_hopeless(const struct weir__waiter *waiter, const struct weir_verdict *verdict, weir_ns now)
{
	return verdict->never || verdict->retry_after > time_left(waiter, now);
}

/* When a denied waiter tries again. A named limit may change in the meantime without notice, so it is checked at least
 * every look_again_after. */
static weir_ns next_look(const struct weir__waiter *waiter, weir_ns now, const struct weir_verdict *verdict)
{
	const bool may_change = waiter->limit != &waiter->made;

	return weir__add_saturating(now, may_change ? weir__min(verdict->retry_after, look_again_after) :
						      verdict->retry_after);
}

static struct weir__trace_context *trace_context_of(const struct weir__waiting *waiting)
{
	return waiting->stats ? weir__tracer_context(waiting->stats->tracer) : NULL;
}

/* Saves the context of the request until the wait is over. */
static void keep_trace_context(const struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now)
{
	const struct weir__trace_context *const trace_context = trace_context_of(waiting);

	if (trace_context == NULL)
		return;
	waiter->trace_context = *trace_context;
	waiter->trace_context.since = now;
	waiter->trace_context.has_hash = true;
	waiter->trace_context.hash = waiter->hash;
}

/* Reports the outcome. The key itself is not kept, only its hash. */
static void show(struct weir__waiting *waiting, const struct weir__waiter *waiter, const struct weir_verdict *verdict,
		 weir_ns now)
{
	const struct weir_claim claim = { .limit = waiter->limit, .cost = waiter->cost };
	struct weir__trace_context *const trace_context = trace_context_of(waiting);
	struct weir__trace_context before;

	if (trace_context) {
		before = *trace_context;
		*trace_context = waiter->trace_context;
	}
	weir__limit_stats_each(waiting->stats, &claim, verdict, 1, now);
	if (trace_context)
		*trace_context = before;
}

/* Joins the queue of the key, unless the waiter may go now or could not go in time. A waiter behind others does not
 * take, it only peeks. Returns true if it waits. */
static bool begin_in_line(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now,
			  struct weir_verdict *ret_verdict)
{
	const bool has_others = waiter->cost > 0 && *line_of(waiting, waiter->hash) != NULL;
	const struct weir_verdict verdict = has_others ? step(waiting, waiter, weir_step_peek, now, waiter->cost) :
							 ask(waiting, waiter, now, false);
	const bool goes = verdict.allowed && !has_others;

	if (!goes && !is_hopeless(waiter, &verdict, now) && !waiting->is_ended && waiter->deadline > now) {
		join(waiting, waiter);
		waiter->due = has_others ? waiter->deadline : next_look(waiter, now, &verdict);
		return true;
	}
	*ret_verdict = goes ? verdict : denied(waiting, waiter, now);
	weir__table_count(waiting->table, waiter->limit, goes);
	return false;
}

static bool begin_departure(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now,
			    struct weir_verdict *ret_verdict)
{
	*ret_verdict = weir__table_depart(waiting->table, waiter->limit, waiter->hash, now, waiter->cost,
					  waiting->is_ended ? 0 : time_left(waiter, now), &waiter->departure);
	if (!ret_verdict->allowed) {
		*ret_verdict = denied(waiting, waiter, now);
		return false;
	}
	waiter->departs = true;
	waiter->due = waiter->departure.reservation.act_at;
	return ret_verdict->delay > 0;
}

enum weir__wait_result weir__waiting_begin(struct weir__waiting *waiting, const struct weir__wait_request *request,
					   weir_ns now, struct weir_verdict *ret_verdict,
					   struct weir__waiter **ret_waiter, struct weir_message *ret_message)
{
	struct weir__waiter *const waiter = waiting->n < waiting->most ? calloc(1, sizeof(*waiter)) : NULL;

	if (waiter == NULL)
		return WEIR__WAIT_FULL;
	waiter->limit = request->named ? request->named : &waiter->made;
	if (request->named == NULL && weir__inline_limits_make(request->limits, WEIR__SPACE_TEXT, request->stated,
							       &waiter->made, ret_message) != WEIR_OK) {
		free(waiter);
		return WEIR__WAIT_REFUSED;
	}
	waiter->owner = request->owner;
	waiter->hash = weir__hash(&waiter->limit->secret, request->key, request->key_length);
	waiter->cost = request->cost;
	waiter->deadline = weir__add_saturating(now, request->patience);
	keep_trace_context(waiting, waiter, now);
	if (!(shapes(waiter->limit) ? begin_departure : begin_in_line)(waiting, waiter, now, ret_verdict)) {
		show(waiting, waiter, ret_verdict, now);
		free(waiter);
		return WEIR__WAIT_OVER;
	}
	push(waiting, waiter);
	*ret_waiter = waiter;
	return WEIR__WAIT_BEGUN;
}

void weir__waiting_set_owner(struct weir__waiter *waiter, void *owner)
{
	waiter->owner = owner;
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

static void end(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now, bool is_counted,
		const struct weir_verdict *verdict)
{
	show(waiting, waiter, verdict, now);
	pull(waiting, waiter);
	if (!waiter->departs)
		leave(waiting, waiter, now);
	if (is_counted)
		weir__table_count(waiting->table, waiter->limit, verdict->allowed);
	free(waiter);
}

/* Looks at a waiter that is due. Returns true if its wait is over. */
static bool look(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now,
		 struct weir_verdict *ret_verdict)
{
	const weir_ns was_due = now - waiter->due > late_max ? now - late_max : waiter->due;
	struct weir_verdict verdict;

	if (waiter->departs) { /* the table counted it when it took */
		*ret_verdict = going(waiting, waiter, now);
		end(waiting, waiter, now, false, ret_verdict);
		return true;
	}
	if (!waiter->is_first) {
		*ret_verdict = denied(waiting, waiter, now);
		end(waiting, waiter, now, true, ret_verdict);
		return true;
	}
	verdict = ask(waiting, waiter, was_due, true);
	if (!verdict.allowed && !is_hopeless(waiter, &verdict, was_due)) {
		set_due(waiting, waiter, next_look(waiter, was_due, &verdict));
		return false;
	}
	*ret_verdict = verdict;
	end(waiting, waiter, was_due, true, ret_verdict);
	return true;
}

void *weir__waiting_over(struct weir__waiting *waiting, weir_ns now, struct weir_verdict *ret_verdict)
{
	while (waiting->n > 0 && waiting->heap[0]->due <= now) {
		void *const owner = waiting->heap[0]->owner;

		if (look(waiting, waiting->heap[0], now, ret_verdict))
			return owner;
	}
	return NULL;
}

struct weir_verdict weir__waiting_give_up(struct weir__waiting *waiting, struct weir__waiter *waiter, weir_ns now)
{
	struct weir_verdict verdict;

	if (waiter->departs)
		weir__table_depart_not(waiting->table, waiter->limit, waiter->hash, now, &waiter->departure);
	verdict = denied(waiting, waiter, now);
	end(waiting, waiter, now, !waiter->departs, &verdict);
	return verdict;
}
