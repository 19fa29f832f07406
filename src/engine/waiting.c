/* waiting.c: a heap of due times, and a queue per key. */
#include "engine/waiting.h"

#include <stdlib.h>

#include "store/table/decision.h"

enum { LINES = 1024, ALIGNMENT = 16 };

/* Timers fire late. A wait that is late by at most this (ns) is charged at the instant when it was due, if the store
 * has no clock of its own. Otherwise the lateness of each wait would add to the next, and the rate would not be
 * reached. */
static const weir_ns late_max = 1000000000;

static const weir_ns look_again_after = 1000000000;

enum state {
	BEHIND,  /* others are ahead in the queue. When due, its time is over */
	SLEEPS,  /* denied. When due, calls the store again */
	LOOKS,   /* a peek is in the store */
	TRIES,   /* a take is in the store */
	DEPARTS, /* has taken. When due, it may go */
	CANCELS, /* given up: the store gives back what it took */
};

/* A waiter that waits for the store is never due. */
struct weir__waiter {
	struct weir__store_request call; /* first member: the two convert by a cast */
	struct weir__waiting *waiting;
	void *owner; /* NULL: given up */
	enum state state;
	bool is_under_way; /* the store has not completed the call */
	bool is_in_line;
	bool is_first; /* of its queue */
	bool is_again; /* has tried before */
	bool departs_only;
	struct weir__recorder_attributes attributes; /* of the first call, unless n is 0 */
	bool is_closed;                              /* what the store said last */
	uint64_t hash;                               /* of all keys under their limits; identifies the queue */
	weir_ns since, deadline, called_at;          /* when it began, ends, and last called the store */
	weir_ns due;                                 /* when to look at it next */
	uint32_t place;                              /* index in the heap */
	struct weir__waiter *behind, *ahead;         /* in the queue */
	struct weir__waiter *last;                   /* of the first: the end of the queue */
	struct weir__waiter *next_line;              /* of the first: the next queue in the same bucket */
	/* The store's last verdict, the claim that decided, and when, on the local clock. */
	struct weir_verdict verdict;
	uint32_t decider;
	weir_ns said_at;
	/* Where the store took and when, on its own clock, and which claim is cancelled next. */
	weir_ns charged_at;
	uint32_t charged_nodes, n_cancelled;
	struct weir_verdict cancelled;
	uint32_t n;
	struct weir_claim *claims;
	struct weir_verdict *verdicts;
	uint64_t *changes; /* of each limit, when the store took */
};

struct weir__waiting {
	struct weir__waiting_options options;
	uint32_t n;
	bool is_ended;
	struct weir__waiter *lines[LINES];
	struct weir__waiter *heap[]; /* the earliest `due` first */
};

struct weir__waiting *weir__waiting_new(const struct weir__waiting_options *options)
{
	struct weir__waiting *const waiting = calloc(1, sizeof(*waiting) + options->most * sizeof(waiting->heap[0]));

	if (waiting)
		waiting->options = *options;
	return waiting;
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

void weir__waiting_set_owner(struct weir__waiter *waiter, void *owner)
{
	waiter->owner = owner;
}

bool weir__waiting_is_under_way(const struct weir__waiter *waiter)
{
	return waiter->is_under_way;
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

static void set_due(struct weir__waiter *waiter, weir_ns due)
{
	waiter->due = due;
	sift(waiter->waiting, waiter);
}

static void push(struct weir__waiter *waiter)
{
	struct weir__waiting *const waiting = waiter->waiting;

	put(waiting, waiting->n++, waiter);
	sift(waiting, waiter);
}

static void pull(struct weir__waiter *waiter)
{
	struct weir__waiting *const waiting = waiter->waiting;
	struct weir__waiter *const moved = waiting->heap[--waiting->n];

	if (moved == waiter)
		return;
	put(waiting, waiter->place, moved);
	sift(waiting, moved);
}

/* --- queues ----------------------------------------------------------------------------------------------------- */

/* Where the first waiter of the queue is, or would be. */
static struct weir__waiter **line_of(struct weir__waiting *waiting, uint64_t hash)
{
	struct weir__waiter **line = &waiting->lines[hash % LINES];

	while (*line && (*line)->hash != hash)
		line = &(*line)->next_line;
	return line;
}

static void join(struct weir__waiter *waiter)
{
	struct weir__waiter **const line = line_of(waiter->waiting, waiter->hash), *const first = *line;

	waiter->is_in_line = true;
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
static void leave(struct weir__waiter *waiter, weir_ns now)
{
	struct weir__waiter **line, *const next = waiter->behind;

	if (!waiter->is_in_line)
		return;
	waiter->is_in_line = false;
	line = line_of(waiter->waiting, waiter->hash);
	if (!waiter->is_first) {
		waiter->ahead->behind = next;
		if (next)
			next->ahead = waiter->ahead;
		else
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a line has a first waiter */
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
	if (!next->is_under_way)
		set_due(next, now);
}

/* --- verdicts --------------------------------------------------------------------------------------------------- */

static bool shapes(const struct weir_claim *claim)
{
	return claim->limit->first.plan.flags & WEIR_PLAN_SHAPE;
}

static bool counts_all(const struct weir__waiter *waiter)
{
	bool counts = false;

	for (uint32_t i = 0; i < waiter->n; i++)
		counts = counts || waiter->claims[i].limit->first.plan.flags & WEIR_PLAN_COUNT_ALL;
	return counts;
}

/* A named limit may change without notice. */
static bool may_change(const struct weir__waiter *waiter)
{
	bool may = false;

	for (uint32_t i = 0; i < waiter->n; i++)
		may = may || waiter->claims[i].limit->name[0] != '\0';
	return may;
}

static weir_ns time_left(const struct weir__waiter *waiter, weir_ns now)
{
	return waiter->deadline > now ? waiter->deadline - now : 0;
}

static weir_ns less(weir_ns time, weir_ns by)
{
	return time > by ? time - by : 0;
}

/* The verdict of a wait that is denied, from the store's last verdict. */
static struct weir_verdict denied(const struct weir__waiter *waiter, weir_ns now)
{
	struct weir_verdict verdict = waiter->verdict;
	const weir_ns since = less(now, waiter->said_at);

	if (verdict.allowed)
		verdict.retry_after = verdict.delay;
	if (!verdict.never)
		verdict.retry_after = less(verdict.retry_after, since);
	verdict.reset_after = less(verdict.reset_after, since);
	verdict.allowed = false;
	verdict.granted = verdict.delay = 0;
	return verdict;
}

static bool is_hopeless(const struct weir__waiter *waiter, weir_ns now)
{
	return waiter->verdict.never || waiter->verdict.retry_after > time_left(waiter, now) ||
	       waiter->deadline <= now || waiter->waiting->is_ended;
}

/* Counts the outcome for the limits: for all if it is allowed, else only for limits that denied. */
static void count(const struct weir__waiter *waiter, const struct weir__wait_outcome *outcome)
{
	for (uint32_t i = 0; i < waiter->n; i++)
		if (outcome->verdict.allowed || !outcome->verdicts[i].allowed)
			weir__table_count(waiter->waiting->options.table, waiter->claims[i].limit,
					  outcome->verdict.allowed);
}

/* Makes the outcome of a wait that may go. */
static void allow(const struct weir__waiter *waiter, weir_ns now, struct weir__wait_outcome *ret_outcome)
{
	ret_outcome->verdict = waiter->verdict;
	ret_outcome->verdict.reset_after = less(waiter->verdict.reset_after, less(now, waiter->said_at));
	ret_outcome->verdict.delay = 0;
	ret_outcome->decided_by = waiter->decider;
	ret_outcome->is_closed = false;
	ret_outcome->waited = weir__add_saturating(less(waiter->called_at, waiter->since), waiter->verdict.delay);
	memcpy(ret_outcome->verdicts, waiter->verdicts, waiter->n * sizeof(waiter->verdicts[0]));
	count(waiter, ret_outcome);
}

/* Makes the outcome of a wait that may not go. The waiter's own verdicts belong to the store during a call. */
static void deny(const struct weir__waiter *waiter, weir_ns now, struct weir__wait_outcome *ret_outcome)
{
	ret_outcome->verdict = denied(waiter, now);
	ret_outcome->decided_by = waiter->decider;
	ret_outcome->is_closed = waiter->is_closed;
	ret_outcome->waited = less(waiter->called_at, waiter->since);
	for (uint32_t i = 0; i < waiter->n; i++)
		ret_outcome->verdicts[i] = i == waiter->decider || waiter->is_under_way ? ret_outcome->verdict :
											  waiter->verdicts[i];
	count(waiter, ret_outcome);
}

/* --- calling the store ------------------------------------------------------------------------------------------ */

static struct weir__store_request *keep(struct weir__store_request *call)
{
	return call; /* a waiter stays where it is */
}

static void complete(struct weir__store_request *call);

static const struct weir__store_caller caller = { keep, complete };

/* Returns true if the store has decided, false if it calls `complete` later. */
static bool call_store(struct weir__waiter *waiter, enum weir__store_operation operation,
		       const struct weir_claim *claims, struct weir_verdict *verdicts, uint32_t n, weir_ns now)
{
	const struct weir__recorder_attributes attributes = waiter->attributes;
	struct weir__store_request *const call = &waiter->call;

	waiter->attributes.n = 0;
	call->operation = operation;
	/* Only a take decides all claims together. For a peek, each claim on its own is enough. */
	call->is_each = operation != WEIR__STORE_DEPART;
	call->n = n;
	call->claims = claims;
	call->verdicts = verdicts;
	call->now = now;
	call->max_delay = waiter->waiting->is_ended ? 0 : time_left(waiter, now);
	call->fallback_nodes = 0;
	call->caller = &caller;
	waiter->called_at = now;
	waiter->is_under_way = true;
	set_due(waiter, WEIR_NEVER);
	if (WEIR__UNLIKELY(weir__recorder_is_on(waiter->waiting->options.recorder)) ?
		    !weir__recorder_submit(waiter->waiting->options.recorder, waiter->waiting->options.store, call,
					   attributes) :
		    !weir__store_submit(waiter->waiting->options.store, call))
		return false;
	waiter->is_under_way = false;
	return true;
}

static bool ask(struct weir__waiter *waiter, enum state state, weir_ns now)
{
	waiter->state = state;
	return call_store(waiter, state == TRIES ? WEIR__STORE_DEPART : WEIR__STORE_PEEK, waiter->claims,
			  waiter->verdicts, waiter->n, now);
}

static void free_waiter(struct weir__waiter *waiter)
{
	pull(waiter);
	free(waiter);
}

/* Gives back what the store took, claim by claim. If a limit was changed since, it is unknown what became of the
 * charge. */
static void cancel(struct weir__waiter *waiter, weir_ns now)
{
	struct weir__store_request *const call = &waiter->call;

	waiter->state = CANCELS;
	while (waiter->n_cancelled < waiter->n) {
		const uint32_t i = waiter->n_cancelled++;
		const struct weir_claim *const claim = &waiter->claims[i];

		if (claim->cost == 0 ||
		    (claim->limit->name[0] != '\0' && weir__plans_number(claim->limit->entry) != waiter->changes[i]))
			continue;
		call->charged_at = waiter->charged_at;
		call->charged_cost = claim->cost;
		call->charged_nodes = waiter->charged_nodes;
		call->charged_full_at = weir__add_saturating(waiter->charged_at, waiter->verdicts[i].reset_after);
		if (!call_store(waiter, WEIR__STORE_CANCEL, claim, &waiter->cancelled, 1, now))
			return;
	}
	free_waiter(waiter);
}

/* --- the state machine ------------------------------------------------------------------------------------------ */

/* Stores the store's verdict. */
static void hear(struct weir__waiter *waiter, weir_ns now)
{
	const struct weir__store_request *const call = &waiter->call;
	const struct weir_decision decision = weir__decision_of(waiter->verdicts, waiter->n);

	waiter->verdict = decision.verdict;
	waiter->decider = (uint32_t)decision.decided_by;
	waiter->said_at = now;
	waiter->is_closed = call->is_closed;
	if (waiter->state != TRIES)
		return;
	waiter->charged_at = call->decided_at;
	waiter->charged_nodes = call->fallback_nodes;
	for (uint32_t i = 0; i < waiter->n; i++)
		if (waiter->claims[i].limit->name[0] != '\0')
			waiter->changes[i] = weir__plans_number(waiter->claims[i].limit->entry);
}

/* A limit that counts denied requests counts a wait once, when it begins. So a retry looks first. */
static bool try_again(struct weir__waiter *waiter, weir_ns now)
{
	const bool looks = waiter->is_again && counts_all(waiter);

	waiter->is_again = true;
	return ask(waiter, looks ? LOOKS : TRIES, now);
}

/* Continues the wait after the store's decision, as of `now`. Returns true if the wait is over: then *ret_outcome is
 * set. */
static bool go_on(struct weir__waiter *waiter, weir_ns now, struct weir__wait_outcome *ret_outcome)
{
	for (;;) {
		const struct weir_verdict *const verdict = &waiter->verdict;

		hear(waiter, now);
		if (waiter->state == TRIES && verdict->allowed) {
			leave(waiter, now);
			if (verdict->delay == 0) {
				allow(waiter, now, ret_outcome);
				return true;
			}
			waiter->state = DEPARTS;
			set_due(waiter, weir__add_saturating(now, verdict->delay));
			return false;
		}
		if (waiter->state == LOOKS && waiter->is_first && verdict->allowed) {
			if (!ask(waiter, TRIES, now))
				return false;
			continue;
		}
		/* A wait does not wait for a leaky bucket that is full, or whose delay is too long. */
		if ((!verdict->allowed && (waiter->departs_only || shapes(&waiter->claims[waiter->decider]))) ||
		    is_hopeless(waiter, now)) {
			deny(waiter, now, ret_outcome);
			return true;
		}
		if (!waiter->is_first) {
			waiter->state = BEHIND;
			set_due(waiter, waiter->deadline);
			return false;
		}
		waiter->state = SLEEPS;
		set_due(waiter, weir__add_saturating(now, may_change(waiter) ?
								  weir__min(verdict->retry_after, look_again_after) :
								  verdict->retry_after));
		return false;
	}
}

static void end(struct weir__waiter *waiter, weir_ns now, const struct weir__wait_outcome *outcome)
{
	void (*const over)(void *owner, const struct weir__wait_outcome *outcome) = waiter->waiting->options.over;
	void *const owner = waiter->owner;

	leave(waiter, now);
	free_waiter(waiter);
	over(owner, outcome);
}

static void complete(struct weir__store_request *call)
{
	struct weir__waiter *const waiter = (struct weir__waiter *)(void *)call;
	const struct weir__waiting_options *const options = &waiter->waiting->options;
	const weir_ns now = weir_table_now(options->table);
	struct weir__wait_outcome outcome;

	if (WEIR__UNLIKELY(weir__recorder_is_on(options->recorder)))
		weir__recorder_completed(options->recorder, call);
	waiter->is_under_way = false;
	if (waiter->state == CANCELS) {
		cancel(waiter, now);
	} else if (waiter->owner == NULL) { /* given up meanwhile */
		hear(waiter, now);
		waiter->n_cancelled = waiter->state == TRIES && waiter->verdict.allowed ? 0 : waiter->n;
		cancel(waiter, now);
	} else if (go_on(waiter, now, &outcome)) {
		end(waiter, now, &outcome);
	} else if (waiter->state == DEPARTS && waiter->waiting->is_ended) {
		void *const owner = waiter->owner;

		weir__waiting_give_up(waiter, now, &outcome);
		options->over(owner, &outcome);
	} else if (!waiter->is_under_way && options->goes_on) {
		options->goes_on(waiter->owner);
	}
}

/* Looks at a waiter that is due. */
static void look(struct weir__waiter *waiter, weir_ns now)
{
	const weir_ns was_due = now - waiter->due > late_max ? now - late_max : waiter->due;
	struct weir__wait_outcome outcome;

	if (waiter->state == DEPARTS)
		allow(waiter, now, &outcome);
	else if (!waiter->is_first)
		deny(waiter, now, &outcome);
	else if (!try_again(waiter, was_due) || !go_on(waiter, was_due, &outcome))
		return;
	end(waiter, now, &outcome);
}

void weir__waiting_do_due(struct weir__waiting *waiting, weir_ns now)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): free_waiter takes the waiter off the heap */
	while (waiting->n > 0 && waiting->heap[0]->due <= now)
		look(waiting->heap[0], now);
}

/* --- beginning and giving up ------------------------------------------------------------------------------------ */

static size_t align(size_t n)
{
	return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Copies the claims with their keys. An inline limit has no name, and may be evicted from the cache where it is. */
static struct weir__waiter *new_waiter(const struct weir__wait_request *request)
{
	const size_t claims = align(request->n * sizeof(struct weir_claim));
	const size_t verdicts = align(request->n * sizeof(struct weir_verdict));
	const size_t changes = align(request->n * sizeof(uint64_t)), limit = align(sizeof(struct weir_table_limit));
	size_t total = align(sizeof(struct weir__waiter)) + claims + verdicts + changes;
	struct weir__waiter *waiter;
	char *to;

	for (uint32_t i = 0; i < request->n; i++)
		total += request->claims[i].key_length + (request->claims[i].limit->name[0] == '\0' ? limit : 0);
	waiter = calloc(1, total);
	if (waiter == NULL)
		return NULL;
	to = (char *)waiter + align(sizeof(*waiter));
	waiter->n = request->n;
	waiter->claims = (struct weir_claim *)(void *)to;
	waiter->verdicts = (struct weir_verdict *)(void *)(to + claims);
	waiter->changes = (uint64_t *)(void *)(to + claims + verdicts);
	to += claims + verdicts + changes;
	for (uint32_t i = 0; i < request->n; i++) {
		waiter->claims[i] = request->claims[i];
		if (request->claims[i].limit->name[0] != '\0')
			continue;
		waiter->claims[i].limit = memcpy(to, request->claims[i].limit, sizeof(struct weir_table_limit));
		to += limit;
	}
	for (uint32_t i = 0; i < request->n; i++) {
		if (request->claims[i].key_length > 0)
			memcpy(to, request->claims[i].key, request->claims[i].key_length);
		waiter->claims[i].key = to;
		to += request->claims[i].key_length;
	}
	return waiter;
}

/* Whether the wait may have to queue: it has a cost for a limit that does not shape. */
static bool queues(const struct weir__waiter *waiter)
{
	bool may = false;

	for (uint32_t i = 0; i < waiter->n && !waiter->departs_only; i++)
		may = may || (waiter->claims[i].cost > 0 && !shapes(&waiter->claims[i]));
	return may;
}

static uint64_t hash_of(const struct weir__waiter *waiter)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < waiter->n; i++)
		hash = hash * UINT64_C(0x9e3779b97f4a7c15) + weir__hash(&waiter->claims[i].limit->secret,
									waiter->claims[i].key,
									waiter->claims[i].key_length);
	return hash;
}

enum weir__wait_result weir__waiting_begin(struct weir__waiting *waiting, const struct weir__wait_request *request,
					   weir_ns now, struct weir__wait_outcome *ret_outcome,
					   struct weir__waiter **ret_waiter)
{
	struct weir__waiter *const waiter = waiting->n < waiting->options.most ? new_waiter(request) : NULL;

	if (waiter == NULL)
		return WEIR__WAIT_FULL;
	waiter->waiting = waiting;
	waiter->owner = request->owner;
	waiter->departs_only = request->departs_only;
	waiter->attributes = request->attributes;
	waiter->hash = hash_of(waiter);
	waiter->since = now;
	waiter->deadline = weir__add_saturating(now, request->patience);
	waiter->due = WEIR_NEVER;
	waiter->is_first = true;
	push(waiter);
	if (queues(waiter))
		join(waiter);
	waiter->is_again = !waiter->is_first; /* a wait behind others has not counted an attempt, and need not */
	if ((!waiter->is_first ? ask(waiter, LOOKS, now) : try_again(waiter, now)) && go_on(waiter, now, ret_outcome)) {
		leave(waiter, now);
		free_waiter(waiter);
		return WEIR__WAIT_OVER;
	}
	*ret_waiter = waiter;
	return WEIR__WAIT_BEGUN;
}

void weir__waiting_give_up(struct weir__waiter *waiter, weir_ns now, struct weir__wait_outcome *ret_outcome)
{
	deny(waiter, now, ret_outcome);
	leave(waiter, now);
	waiter->owner = NULL;
	if (waiter->is_under_way)
		return;
	if (waiter->state != DEPARTS)
		waiter->n_cancelled = waiter->n;
	cancel(waiter, now);
}
