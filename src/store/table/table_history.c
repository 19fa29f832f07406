/* table_history.c: decisions of limits whose keys have a history in the arena.
 *
 * The slot of such a key refers to the root of its history. It changes only when the root is replaced, or when its
 * full_at would be too early. full_at is moved before the charge that makes it necessary, and for logs by an eighth
 * more than needed.
 *
 * A decision looks at the history, searches it (history_step.h) and adds one event, or units to the newest one. Refunds
 * and undone charges copy the history without these units. A rare case (a clock that was set back, a ring that a raised
 * limit has made too small) unpacks the history into a state of core, takes core's step and makes a new history from
 * the result. Most requests for logs are decided with even less: see decide_log. */
#include <stdlib.h>
#include <string.h>

#include "core/segments.h"
#include "core/uninitialized.h"
#include "os/pause.h"
#include "store/table/history_step.h"
#include "store/table/table.h"

enum {
	FOLLOWS_MOST = 100,   /* this many moves in a row mean that the memory is damaged */
	TRIES_MOST = 1 << 16, /* so does losing this many races in a row */
	READS_MOST = 64,      /* after this many lost races a reader takes all units as of the newest event */
	STEPS_MOST = 3,       /* events to walk before a search is worth it */
	LATER_NS = 1 << 20,
	SCRATCH = 4096,
	COUNTER_WINDOWS = 2,
};

/* The retry_after of a request that is denied because it cannot be recorded. */
static const weir_ns no_room_retry = 1000000000;

/* One decision in progress. */
struct work {
	struct weir__key key; /* with its limit as of the last lookup */
	const struct weir__epoch_check *epoch_check;
	const struct weir__charge *undone; /* the charge to undo; NULL if a step is taken */
	weir_ns now;
	struct weir__place place;
	struct weir__history history;
	bool has_history;
	struct weir_state counter; /* without a history: the state of a plain counter, not converted yet */
	/* the events as they were; totals start from 0 */
	struct weir__event *before;
	uint64_t n_before;
	/* the state that core works on, and its memory */
	void *state;
	struct weir_plan plan;
	void *heap;
	union {
		uint64_t align;
		unsigned char bytes[SCRATCH];
	} scratch;
};

/* Does not initialise the scratch memory. */
static void begin(struct work *work, const struct weir__epoch_check *epoch_check, struct weir_table *table,
		  const struct weir_table_limit *limit, uint64_t hash, weir_ns now)
{
	work->epoch_check = epoch_check;
	work->undone = NULL;
	work->key.table = table;
	work->key.limit = limit;
	work->key.hash = hash;
	work->now = now;
	work->place.slot = NULL;
	work->heap = NULL;
}

static bool is_log(const struct weir_plan *plan)
{
	return plan->kind == WEIR_KIND_LOG;
}

/* Events store their instants minus this. */
static uint64_t base_of(const struct weir__slot_format *format)
{
	return is_log(&format->plan) ? format->epoch : format->epoch / format->plan.period;
}

/* How long an event counts, in the unit of its instant. */
static uint64_t duration_of(const struct weir_plan *plan)
{
	return is_log(plan) ? plan->period : plan->room + 1;
}

/* When a key with this newest event is full again, in ns since the epoch. */
static uint64_t full_at(const struct weir__slot_format *format, uint64_t newest)
{
	const struct weir_plan *const plan = &format->plan;

	if (is_log(plan))
		return newest + plan->period;
	return (newest + base_of(format) + duration_of(plan)) * plan->period - format->epoch;
}

/* The most units that count at once. */
static uint64_t units_most(const struct weir_plan *plan)
{
	return !is_log(plan) && plan->flags & WEIR_PLAN_COUNT_ALL ? WEIR__UNITS_MOST : plan->most;
}

struct weir__shape weir__table_shape(const struct weir_plan *plan)
{
	return weir__history_shape(is_log(plan) ? plan->most : plan->room + 2, duration_of(plan), units_most(plan));
}

static uint32_t take_chunk(void *context)
{
	const struct work *const work = context;

	return weir__table_take_chunk(work->key.table, work->now, work->place.slot);
}

static uint32_t take_chunks(void *context, uint32_t *numbers, uint32_t n)
{
	const struct work *const work = context;

	return weir__table_take_chunks(work->key.table, work->now, work->place.slot, numbers, n);
}

/* Makes a slot that refers to a root. Its full_at is a little later than needed, by a different amount each time. So a
 * slot that refers to the same root again has different bits. */
static struct weir_state slot_of(uint32_t fingerprint, uint32_t root, uint32_t level, uint64_t full_at)
{
	return weir__slot_make_root(fingerprint, root, level, full_at + 1 + weir__thread_nonce() % LATER_NS);
}

/* Makes the slot refer to the root that the history has moved to. The thread whose swap succeeds gives back the old
 * root. */
static void follow_move(struct weir_table *table, const struct weir__place *place, uint32_t moved_to)
{
	const struct weir_state next = slot_of(weir__slot_fingerprint(place->seen), moved_to,
					       weir__slot_level(place->seen), weir__slot_full_at(place->seen));

	if (weir__atomic16_swap(place->slot, place->seen, next))
		weir__history_discard(&table->region.arena, weir__slot_root(place->seen));
}

/* Whether the slot refers to the history that was looked at, whatever its full_at and level are by now. If it does not,
 * the root was given up. Another thread may be about to use it again for this key, and what is charged there before
 * would be lost. */
static inline __attribute__((always_inline)) bool is_still_there(struct work *work)
{
	const struct weir_state now = weir__atomic16_load(work->place.slot);

	if (!work->has_history || weir__slot_tag(now) != WEIR__SLOT_ARENA ||
	    weir__slot_fingerprint(now) != weir__slot_fingerprint(work->place.seen) ||
	    weir__slot_root(now) != weir__slot_root(work->place.seen))
		return false;
	work->place.seen = now;
	return true;
}

/* Finds the key and its history, if it has one. What a slot with this fingerprint refers to may be gone, or may not be
 * a history at all. The key then counts as one without a history, and the reference will be replaced. */
static void find(struct work *work)
{
	for (int follows = 0;; follows++) {
		uint32_t moved_to = 0;
		enum weir__history_found found = WEIR__HISTORY_GONE;

		weir__key_init(&work->key, work->key.table, work->key.limit, work->key.hash);
		weir__table_find(&work->key, &work->place, &work->counter);
		if (work->place.slot && weir__slot_tag(work->place.seen) == WEIR__SLOT_ARENA) {
			weir__table_fetch_history(work->key.table, &work->place);
			found = weir__history_look(&work->key.table->region.arena, weir__slot_root(work->place.seen),
						   work->key.hash, &work->history, &moved_to);
		}
		work->has_history = found == WEIR__HISTORY_THERE;
		if (work->place.slot == NULL || follows > FOLLOWS_MOST || is_still_there(work))
			return;
		if (!weir__slot_equal(weir__atomic16_load(work->place.slot), work->place.seen))
			continue; /* the history was given up and the slot changed meanwhile */
		if (found == WEIR__HISTORY_GONE)
			return;
		if (found == WEIR__HISTORY_FOLDED)
			weir__table_fold(work->key.table, &work->place);
		else
			follow_move(work->key.table, &work->place, moved_to);
	}
}

static void *scratch(struct work *work, size_t size)
{
	if (size <= sizeof(work->scratch.bytes))
		return work->scratch.bytes;
	free(work->heap);
	work->heap = malloc(size);
	return work->heap;
}

/* Whether the key's state is still in its slot, because it was not charged since the limit began to use histories. */
static bool has_counter(const struct work *work)
{
	return !work->has_history && work->place.slot && weir__slot_tag(work->place.seen) != WEIR__SLOT_ARENA &&
	       work->counter.lo != 0;
}

static bool is_folded(const struct work *work)
{
	return !work->has_history && work->place.slot && weir__slot_is_folded(work->place.seen);
}

/* The most events that the history can have. */
static uint64_t events_at_most(const struct work *work)
{
	const uint32_t cells = weir__shape_cells(&work->history.shape);

	return (work->history.newest.position + cells - work->history.oldest.position) % cells + 1;
}

/* The two windows of a plain counter, as events. */
static void read_counter(struct work *work)
{
	const uint64_t previous = work->counter.lo >> 32, current = work->counter.lo & UINT32_MAX;
	uint64_t n = 0;

	if (previous > 0)
		work->before[n++] = (struct weir__event){ work->counter.hi - 1, previous };
	if (current > 0)
		work->before[n++] = (struct weir__event){ work->counter.hi, previous + current };
	work->n_before = n;
}

/* The units of a folded key, as one event. The slot's full_at is up to an eighth of a period late, and so is the
 * event. */
static struct weir__event folded_event(const struct work *work)
{
	const struct weir__slot_format *const format = &work->key.view.format;
	const struct weir_plan *const plan = &format->plan;
	const weir_ns full = weir__slot_full_at(work->place.seen) + format->epoch;
	const uint64_t then = is_log(plan) ? full : full / plan->period, lasts = duration_of(plan);

	return (struct weir__event){ then > lasts ? then - lasts : 0,
				     weir__slot_folded_units(work->place.seen, plan->most) };
}

static void read_folded(struct work *work)
{
	work->before[0] = folded_event(work);
	work->n_before = work->before[0].total > 0;
}

/* Reads the events that count at the instant of the newest one, in order. */
static void read_events(struct work *work)
{
	const struct weir__history *const history = &work->history;
	const uint64_t duration = duration_of(&work->key.view.format.plan), base = base_of(&work->key.view.format);
	uint64_t n = 0, before = history->oldest.total;
	struct weir__point point;

	work->n_before = 0;
	if (has_counter(work))
		read_counter(work);
	else if (is_folded(work))
		read_folded(work);
	if (!work->has_history)
		return;
	point = weir__history_first(history);
	do {
		if (history->newest.at - point.at >= duration)
			before = point.total;
		else
			work->before[n++] = (struct weir__event){ point.at + base,
								  (point.total - before) & WEIR__TOTAL_MASK };
	} while (weir__history_next(history, &point));
	work->n_before = n;
}

static uint64_t units_of(const struct weir__event *events, uint64_t i, uint64_t before)
{
	return events[i].total - (i ? events[i - 1].total : before);
}

static void unpack_segments(struct work *work)
{
	struct weir__segments *const segments = work->state;

	for (uint64_t i = 0; i < work->n_before; i++) {
		segments->newest = work->before[i].at;
		segments->counts[work->before[i].at % (work->plan.room + 1)] = units_of(work->before, i, 0);
	}
}

/* Unpacks the events twice: as they were, and as the state that core will change. Returns false if memory runs out. */
static bool unpack(struct work *work)
{
	const uint64_t most = work->has_history ? events_at_most(work) : COUNTER_WINDOWS;
	const size_t before_size = (size_t)(most + 1) * sizeof(struct weir__event);
	size_t state_size;
	unsigned char *memory;

	work->plan = work->key.view.format.plan;
	if (is_log(&work->plan))
		work->plan.room = most + 2; /* one for a new clock, one for the request */
	state_size = weir_plan_state_size(&work->plan);
	memory = scratch(work, before_size + state_size);
	if (memory == NULL)
		return false;
	work->before = (struct weir__event *)(void *)memory;
	work->state = memory + before_size;
	read_events(work);
	memset(work->state, 0, is_log(&work->plan) ? sizeof(struct weir__log) : state_size);
	if (is_log(&work->plan)) {
		((struct weir__log *)work->state)->entries = work->n_before;
		memcpy(((struct weir__log *)work->state)->events, work->before,
		       work->n_before * sizeof(struct weir__event));
	} else {
		unpack_segments(work);
	}
	return true;
}

/* Lists the sub-windows in which something was counted, and the newest, as events. Returns their number. */
static uint64_t list_segments(const struct work *work, struct weir__event *events)
{
	const struct weir__segments *const segments = work->state;
	const uint64_t room = work->plan.room;
	uint64_t n = 0, total = 0;

	for (uint64_t ago = weir__min(room, segments->newest) + 1; ago-- > 0;) {
		const uint64_t number = segments->newest - ago;
		const uint64_t units = weir__min(segments->counts[number % (room + 1)], WEIR__UNITS_MOST);

		total += units;
		if (units > 0 || (ago == 0 && n > 0))
			events[n++] = (struct weir__event){ number, total };
	}
	return n;
}

/* The state after core's step, as events. */
struct outcome {
	const struct weir__event *events;
	uint64_t n;
	uint64_t gone; /* the total before them */
	struct weir__event *heap;
};

/* Returns false if memory is short. */
static bool list_outcome(const struct work *work, struct outcome *ret_outcome)
{
	struct weir__log *const log = work->state;

	*ret_outcome = (struct outcome){ .n = 0 };
	if (!is_log(&work->plan)) {
		ret_outcome->heap = malloc((size_t)(work->plan.room + 2) * sizeof(struct weir__event));
		ret_outcome->events = ret_outcome->heap;
		ret_outcome->n = ret_outcome->heap ? list_segments(work, ret_outcome->heap) : 0;
		return ret_outcome->heap != NULL;
	}
	ret_outcome->n = log->entries;
	ret_outcome->gone = log->gone;
	if (log->first + log->entries > work->plan.room) { /* wraps; not expected, as one place is to spare */
		ret_outcome->heap = calloc((size_t)ret_outcome->n, sizeof(struct weir__event));
		if (ret_outcome->heap == NULL)
			return false;
		for (uint64_t i = 0; i < ret_outcome->n; i++)
			ret_outcome->heap[i] = log->events[(log->first + i) % work->plan.room];
		ret_outcome->events = ret_outcome->heap;
	} else {
		ret_outcome->events = log->events + log->first;
	}
	return true;
}

static bool is_as_it_was(const struct work *work, const struct outcome *outcome)
{
	if (outcome->n != work->n_before)
		return false;
	for (uint64_t i = 0; i < outcome->n; i++)
		if (outcome->events[i].at != work->before[i].at ||
		    units_of(outcome->events, i, outcome->gone) != units_of(work->before, i, 0))
			return false;
	return true;
}

/* Makes the slot's full_at late enough for a newest event at `newest`, and its level high enough for the used units.
 * Returns false if the slot has changed. */
static bool extend(struct work *work, uint64_t newest, uint64_t used)
{
	const struct weir_plan *const plan = &work->key.view.format.plan;
	const uint64_t until = full_at(&work->key.view.format, newest), slack = (until - newest) / 8;
	const struct weir_state seen = work->place.seen;
	const uint32_t level = weir__slot_level_of(used, plan->most);
	struct weir_state next;

	if (WEIR__LIKELY(weir__slot_full_at(seen) >= until)) {
		if (WEIR__LIKELY(weir__slot_level(seen) >= level))
			return true;
		next = weir__slot_make_root(weir__slot_fingerprint(seen), weir__slot_root(seen), level,
					    weir__slot_full_at(seen));
	} else {
		next = weir__slot_make_root(weir__slot_fingerprint(seen), weir__slot_root(seen), level,
					    until + (is_log(plan) ? slack : 0));
	}
	if (!weir__atomic16_swap(work->place.slot, work->place.seen, next))
		return false;
	work->place.seen = next;
	return true;
}

static uint64_t outcome_units(const struct outcome *outcome)
{
	return outcome->events[outcome->n - 1].total - outcome->gone;
}

/* For a full arena: keeps the key's usage in its slot, or gives it a slot. */
static enum weir__history_done put_folded(struct work *work, uint64_t newest, uint64_t used)
{
	const struct weir_state content = weir__slot_make_folded(
		work->key.fingerprint, used, weir__slot_level_of(used, work->key.view.format.plan.most),
		full_at(&work->key.view.format, newest));

	if (!weir__table_put(&work->key, &work->place, content, work->now))
		return WEIR__HISTORY_OUTRUN;
	WEIR__COUNT(&work->key.table->region, folded, 1);
	return WEIR__HISTORY_DONE;
}

/* Makes the slot refer to a new root, which replaces the key's history or is its first. */
static enum weir__history_done publish(struct work *work, uint32_t number, uint64_t newest, uint64_t used)
{
	const uint32_t level = weir__slot_level_of(used, work->key.view.format.plan.most);
	const struct weir_state content = slot_of(work->key.fingerprint, number, level,
						  full_at(&work->key.view.format, newest));

	if (work->has_history && number == work->history.number) /* given up meanwhile, or the memory is damaged */
		(void)weir__atomic16_swap(work->place.slot, work->place.seen, (struct weir_state){ 0, 0 });
	if (work->has_history) {
		if (extend(work, newest, used) && weir__history_move(&work->history, number)) {
			follow_move(work->key.table, &work->place, number);
			return WEIR__HISTORY_DONE;
		}
	} else if (weir__table_put(&work->key, &work->place, content, work->now)) {
		return WEIR__HISTORY_DONE;
	}
	weir__history_discard(&work->key.table->region.arena, number);
	return WEIR__HISTORY_OUTRUN;
}

/* Makes a new history of these events. */
static enum weir__history_done replace(struct work *work, const struct outcome *outcome)
{
	const uint64_t n = outcome->n, used = outcome_units(outcome);
	const struct weir__shape shape = weir__table_shape(&work->key.view.format.plan);
	const uint64_t base = base_of(&work->key.view.format), newest = outcome->events[n - 1].at - base;
	const uint32_t number = n < weir__shape_cells(&shape) ?
					weir__history_new(&work->key.table->region.arena, work->key.hash, &shape,
							  outcome->events, n, outcome->gone, base, take_chunk, work) :
					0;

	if (number == 0)
		return work->has_history ? WEIR__HISTORY_FULL : put_folded(work, newest, used);
	return publish(work, number, newest, used);
}

/* Removes a key that has used nothing any more. The slot's full_at may have changed by now, but a slot must not keep
 * referring to this root. Otherwise the chunk could become a root of this key again, and be found before it is
 * published. */
static enum weir__history_done forget(struct work *work)
{
	const uint32_t number = work->history.number;
	struct weir_state seen;

	if (!weir__history_move(&work->history, 0))
		return WEIR__HISTORY_OUTRUN;
	do
		seen = weir__atomic16_load(work->place.slot);
	while (weir__slot_tag(seen) == WEIR__SLOT_ARENA && weir__slot_root(seen) == number &&
	       !weir__atomic16_swap(work->place.slot, seen, (struct weir_state){ 0, 0 }));
	weir__history_discard(&work->key.table->region.arena, number);
	return WEIR__HISTORY_DONE;
}

/* The same for a key that is still in a slot. */
static enum weir__history_done free_slot(struct work *work)
{
	return weir__atomic16_swap(work->place.slot, work->place.seen, (struct weir_state){ 0, 0 }) ?
		       WEIR__HISTORY_DONE :
		       WEIR__HISTORY_OUTRUN;
}

/* The history has no room for another event. The units count with the newest event, whose instant becomes later. This
 * allows nothing extra. */
static enum weir__history_done squeeze(struct work *work, const struct outcome *outcome)
{
	const uint64_t n = outcome->n, units = units_of(outcome->events, n - 1, outcome->gone);
	const uint64_t at = outcome->events[n - 1].at - base_of(&work->key.view.format);

	if (!extend(work, at, outcome_units(outcome)))
		return WEIR__HISTORY_OUTRUN;
	return weir__history_merge(&work->history, at, work->history.newest.total + units);
}

/* Whether the limit was raised so much that the history's cells are too small for what it may now count. */
static bool is_too_narrow(const struct work *work)
{
	const struct weir_plan *const plan = &work->key.view.format.plan;

	return work->has_history && work->history.shape.time_bits != 0 &&
	       weir__history_time_bits(duration_of(plan), units_most(plan)) == 0;
}

static enum weir__history_done make_so(struct work *work, const struct outcome *outcome, uint64_t *ret_event_at)
{
	const uint64_t n = outcome->n, n_before = work->n_before;
	enum weir__history_done done;

	*ret_event_at = n ? outcome->events[n - 1].at : 0;
	if (is_as_it_was(work, outcome)) {
		if (has_counter(work)) /* a peek carries it over, too: see weir__table_step_while */
			return replace(work, outcome) == WEIR__HISTORY_OUTRUN ? WEIR__HISTORY_OUTRUN :
										WEIR__HISTORY_DONE;
		return !work->has_history || weir__history_is_unchanged(&work->history) ? WEIR__HISTORY_DONE :
											  WEIR__HISTORY_OUTRUN;
	}
	if (n == 0)
		return work->has_history ? forget(work) : free_slot(work);
	done = replace(work, outcome);
	/* the request has added an event */
	if (done == WEIR__HISTORY_FULL && n_before > 0 && outcome->events[n - 1].at > work->before[n_before - 1].at)
		return squeeze(work, outcome);
	return done;
}

/* Whether the caller must start again. */
static bool is_outrun(enum weir__history_done done, uint32_t *tries)
{
	if (done != WEIR__HISTORY_OUTRUN || ++*tries > TRIES_MOST)
		return false;
	weir__back_off();
	return true;
}

static struct weir_verdict no_room(const struct weir_plan *plan)
{
	return (struct weir_verdict){ .limit = plan->most, .retry_after = no_room_retry };
}

/* Takes a step. If it is NULL, undoes up to `cost` units of a charge. FULL: the request is denied and nothing was
 * changed. */
static enum weir__history_done take_step(struct work *work, weir__step *step, uint64_t cost,
					 struct weir_verdict *ret_verdict, uint64_t *ret_event_at)
{
	struct outcome outcome;
	enum weir__history_done done;

	find(work);
	if (!weir__epoch_check_holds(work->epoch_check))
		return WEIR__HISTORY_STALE;
	if (!unpack(work))
		return WEIR__HISTORY_FULL;
	*ret_verdict = step ? step(&work->plan, work->state, work->now, cost) :
			      weir__step_undo(&work->plan, work->state, work->now, work->undone, cost);
	if (!list_outcome(work, &outcome))
		return WEIR__HISTORY_FULL;
	if (step ? weir__step_forgives(step) : ret_verdict->granted > 0)
		atomic_fetch_add(weir__table_forgiven(work->key.table, work->key.fingerprint), 1);
	done = make_so(work, &outcome, ret_event_at);
	free(outcome.heap);
	return done;
}

/* Makes the events of the key searchable. Returns false if the history has changed. */
static bool open_events(struct work *work, bool is_careful, struct weir__events *ret_events)
{
	const struct weir__event event = is_folded(work) ? folded_event(work) : (struct weir__event){ 0, 0 };

	if (work->has_history)
		return weir__events_init(ret_events, &work->history, base_of(&work->key.view.format), is_careful);
	*ret_events = (struct weir__events){ .few = { event }, .n = event.total > 0 };
	if (ret_events->n > 0)
		ret_events->newest = event;
	return true;
}

/* The event that was found as a point, with the total before it. If no event was found, the next event to come. */
static struct weir__point point_of(const struct work *work, const struct weir__events *events,
				   const struct weir__found *found, uint64_t at)
{
	const struct weir__history *const history = &work->history;
	const uint32_t next = history->newest.position + 1;

	if (found->i < events->n)
		return weir__events_point(events, found);
	return (struct weir__point){ at, (history->oldest.total + found->before) & WEIR__TOTAL_MASK,
				     next == weir__shape_cells(&history->shape) ? 0 : next };
}

/* Adds units to the newest event of the history, or another event. A log that counts more than its limit forgets the
 * excess afterwards: until then it counts too much, never too little. */
static enum weir__history_done add_to_history(struct work *work, const struct weir__events *events,
					      const struct weir__addition *addition)
{
	const struct weir__history *const history = &work->history;
	const uint64_t at = addition->at - events->base, total = history->newest.total + addition->units;
	const struct weir__point live = point_of(work, events, &addition->live, at);
	const bool is_merged = at == history->newest.at;
	struct weir__point kept = point_of(work, events, &addition->kept, at);
	enum weir__history_done done;

	if (!extend(work, at, addition->used))
		return WEIR__HISTORY_OUTRUN;
	if (is_merged)
		done = weir__history_merge(history, at, total);
	else
		done = weir__history_push(history, at, total, &live, take_chunk, work);
	if (done == WEIR__HISTORY_DONE && addition->kept.before != addition->live.before) {
		if (is_merged && addition->kept.i == events->n)
			kept.position = history->newest.position;
		weir__history_forget(history, is_merged ? &history->oldest : &live, &kept);
	}
	return done;
}

/* The same for a key without a history. It gets one. */
static enum weir__history_done add_to_few(struct work *work, const struct weir__events *events,
					  const struct weir__addition *addition)
{
	struct weir__event after[WEIR__EVENTS_FEW + 1];
	struct outcome outcome = { .events = after, .gone = addition->kept.before };

	for (uint64_t i = addition->kept.i; i < events->n; i++)
		after[outcome.n++] = events->few[i];
	if (outcome.n == 0 || after[outcome.n - 1].at != addition->at)
		outcome.n++;
	after[outcome.n - 1] = (struct weir__event){ addition->at, events->newest.total + addition->units };
	return replace(work, &outcome);
}

static enum weir__history_operation operation_of(weir__step *step)
{
	if (step == weir_step_peek)
		return WEIR__HISTORY_PEEK;
	return step == weir_step_upto ? WEIR__HISTORY_UPTO : WEIR__HISTORY_TAKE;
}

/* Whether everything that was read existed at one moment. */
static bool is_valid(struct work *work, const struct weir__events *events)
{
	return (!events->is_careful || is_still_there(work)) && weir__events_hold(events);
}

/* Finds the key, and its events. FULL: core has to take the step, with a copy of them. */
static enum weir__history_done search(struct work *work, uint32_t tries, struct weir__events *ret_events)
{
	find(work);
	if (!weir__epoch_check_holds(work->epoch_check))
		return WEIR__HISTORY_STALE;
	if (has_counter(work))
		return WEIR__HISTORY_FULL;
	if (!open_events(work, tries > 0, ret_events))
		return WEIR__HISTORY_OUTRUN;
	return weir__history_step_is_new_clock(&work->key.view.format.plan, ret_events, work->now) ?
		       WEIR__HISTORY_FULL :
		       WEIR__HISTORY_DONE;
}

/* Takes a step by searches. FULL: core has to take it. */
static enum weir__history_done step_in_place(struct work *work, weir__step *step, uint64_t cost, uint32_t tries,
					     struct weir_verdict *ret_verdict, uint64_t *ret_event_at)
{
	const struct weir_plan *const plan = &work->key.view.format.plan;
	const enum weir__history_operation operation = operation_of(step);
	struct weir__addition addition;
	struct weir__events events;
	const enum weir__history_done opened = search(work, tries, &events);

	if (opened != WEIR__HISTORY_DONE)
		return opened;
	*ret_verdict = weir__history_step(plan, &events, operation, work->now, cost, &addition);
	*ret_event_at = addition.units ? addition.at : events.newest.at;
	if (addition.units == 0 && !is_valid(work, &events)) {
		if (tries < READS_MOST)
			return WEIR__HISTORY_OUTRUN;
		events = (struct weir__events){ .few = { events.newest }, .n = 1, .newest = events.newest };
		*ret_verdict = weir__history_step(plan, &events, operation, work->now, cost, &addition);
		return addition.units == 0 ? WEIR__HISTORY_DONE : WEIR__HISTORY_OUTRUN;
	}
	if (addition.units == 0)
		return WEIR__HISTORY_DONE;
	if (events.is_lost)
		return WEIR__HISTORY_OUTRUN;
	if (!work->has_history)
		return add_to_few(work, &events, &addition);
	return is_too_narrow(work) ? WEIR__HISTORY_FULL : add_to_history(work, &events, &addition);
}

/* The shape of a copy of the history: what the limit needs now, unless more events are kept. */
static struct weir__shape shape_of_copy(const struct work *work, uint64_t n)
{
	const struct weir__shape shape = weir__table_shape(&work->key.view.format.plan);

	return n < weir__shape_cells(&shape) || is_too_narrow(work) ? shape : work->history.shape;
}

/* Takes units out of the key's events, and fills in the verdict for what is left. FULL: the arena has no room for a
 * copy. */
static enum weir__history_done remove_units(struct work *work, struct weir__events *events,
					    const struct weir__removal *removal, struct weir_verdict *verdict)
{
	const struct weir_plan *const plan = &work->key.view.format.plan;
	const uint64_t left = events->newest.total - removal->first.before - removal->units;
	const struct weir__cut cut = { removal->after - removal->first.before, removal->units, !is_log(plan) };
	struct weir__events after = { .n = 0 };
	struct weir__history copied;
	struct weir__shape shape;
	struct weir__point first;
	uint32_t number, ignored;

	if (left == 0) {
		weir__history_step_level(plan, &after, work->now, verdict);
		return work->has_history ? forget(work) : free_slot(work);
	}
	if (!work->has_history) {
		const struct outcome outcome = { .events = after.few, .n = 1 };

		after = (struct weir__events){ .few = { { events->newest.at, left } }, .n = 1 };
		after.newest = after.few[0];
		weir__history_step_level(plan, &after, work->now, verdict);
		return replace(work, &outcome);
	}
	shape = shape_of_copy(work, events->n - removal->first.i);
	first = weir__events_point(events, &removal->first);
	number = weir__history_copy(&work->history, &shape, &first, &cut, take_chunks, work);
	if (number == 0)
		return weir__history_is_unchanged(&work->history) ? WEIR__HISTORY_FULL : WEIR__HISTORY_OUTRUN;
	if (weir__history_look(work->history.arena, number, work->key.hash, &copied, &ignored) != WEIR__HISTORY_THERE ||
	    !weir__events_init(&after, &copied, events->base, false)) {
		weir__history_discard(work->history.arena, number);
		return WEIR__HISTORY_OUTRUN;
	}
	weir__history_step_level(plan, &after, work->now, verdict);
	return publish(work, number, copied.newest.at, left);
}

/* Takes units out of the event in which they were counted, if it has that many. */
static enum weir__history_done take_out(struct work *work, uint64_t event_at, uint64_t units, uint64_t forgiven)
{
	struct weir__removal removal;
	struct weir_verdict ignored;
	struct weir__events events;

	find(work);
	/* If another thread forgives something after this load, the swap below fails. */
	if (atomic_load(weir__table_forgiven(work->key.table, work->key.fingerprint)) != forgiven || !work->has_history)
		return WEIR__HISTORY_DONE;
	if (!open_events(work, false, &events))
		return WEIR__HISTORY_OUTRUN;
	removal = weir__history_step_take_out(&work->key.view.format.plan, &events, event_at, units);
	if (events.is_lost)
		return WEIR__HISTORY_OUTRUN;
	if (removal.units == 0)
		return weir__events_hold(&events) ? WEIR__HISTORY_DONE : WEIR__HISTORY_OUTRUN;
	return remove_units(work, &events, &removal, &ignored);
}

/* Refunds n units or, if there is a charge to undo, gives back up to n units of it. FULL: core has to take the step. */
static enum weir__history_done give_back(struct work *work, uint64_t n, uint32_t tries,
					 struct weir_verdict *ret_verdict, uint64_t *ret_event_at)
{
	const struct weir_plan *const plan = &work->key.view.format.plan;
	struct weir__removal removal;
	struct weir__events events;
	const enum weir__history_done opened = search(work, tries, &events);
	bool forgets;

	if (opened != WEIR__HISTORY_DONE)
		return opened;
	removal = work->undone ? weir__history_step_undo(plan, &events, work->now, work->undone, n) :
				 weir__history_step_refund(plan, &events, work->now, n);
	if (events.is_lost)
		return WEIR__HISTORY_OUTRUN;
	*ret_verdict = (struct weir_verdict){ .allowed = true, .limit = plan->most };
	if (work->undone)
		ret_verdict->granted = removal.units;
	if (work->undone == NULL || removal.units > 0)
		atomic_fetch_add(weir__table_forgiven(work->key.table, work->key.fingerprint), 1);
	*ret_event_at = events.newest.at;
	/* A refund, even of 0 units, makes a log forget expired events, in case the clock is set back later. */
	forgets = work->undone == NULL && is_log(plan) && removal.first.before > 0;
	if (removal.units > 0 || forgets)
		return remove_units(work, &events, &removal, ret_verdict);
	weir__history_step_level(plan, &events, work->now, ret_verdict);
	return is_valid(work, &events) ? WEIR__HISTORY_DONE : WEIR__HISTORY_OUTRUN;
}

void weir__table_take_back_event(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				 weir_ns now, uint64_t event_at, uint64_t units, uint64_t forgiven)
{
	uint32_t tries = 0;
	struct work work WEIR__UNINITIALIZED;

	begin(&work, NULL, table, limit, hash, now);
	while (is_outrun(take_out(&work, event_at, units, forgiven), &tries))
		;
}

/* Searches for the first event of a log that counts at `when`. Out of line, because a walk of few steps mostly finds
 * it. */
static __attribute__((noinline)) struct weir__point search_live(struct work *work, weir_ns period, uint64_t when)
{
	struct weir__events events;
	struct weir__found found;

	(void)weir__events_init(&events, &work->history, 0, false); /* if it fails, the history has changed */
	found = weir__events_find(&events, WEIR__EVENTS_BY_INSTANT, when >= period ? when - period + 1 : 0);
	return point_of(work, &events, &found, when);
}

/* The first event of a log that counts at `when`, with the total before it. If none counts, the next event to come. */
static struct weir__point first_live(struct work *work, weir_ns period, uint64_t when)
{
	const struct weir__history *const history = &work->history;
	struct weir__point live = history->oldest, point;
	int steps = 0;

	if (when - live.at < period || live.at > when)
		return live;
	for (point = weir__history_first(history); when - point.at >= period;) {
		live.total = point.total;
		if (++steps > STEPS_MOST)
			return search_live(work, period, when);
		if (!weir__history_next(history, &point)) {
			const uint32_t next = point.position + 1;

			live.at = when;
			live.position = next == weir__shape_cells(&history->shape) ? 0 : next;
			return live;
		}
		live.at = point.at;
		live.position = point.position;
	}
	return live;
}

/* When the oldest `units` units, from the event `live` on, will have expired. */
static uint64_t left_at(struct work *work, const struct weir__point *live, uint64_t units, weir_ns period)
{
	const struct weir__history *const history = &work->history;
	struct weir__events events;

	(void)weir__events_init(&events, &work->history, 0, false); /* if it fails, the history has changed */
	return weir__events_find(&events, WEIR__EVENTS_BY_TOTAL,
				 ((live->total - history->oldest.total) & WEIR__TOTAL_MASK) + units)
		       .event.at +
	       period;
}

/* Fills in the verdict on a log after the decision. */
static void explain_log(struct work *work, const struct weir__point *live, uint64_t used, uint64_t newest,
			uint64_t cost, bool allowed, struct weir_verdict *verdict)
{
	const struct weir_plan *const plan = &work->key.view.format.plan;
	const uint64_t now = work->now - work->key.view.format.epoch;

	*verdict = (struct weir_verdict){ .allowed = allowed, .limit = plan->most, .granted = allowed ? cost : 0 };
	verdict->remaining = plan->most - weir__min(plan->most, used);
	verdict->reset_after = used == 0 ? 0 : newest + plan->period - now;
	if (allowed)
		return;
	verdict->never = cost > plan->most;
	verdict->retry_after = verdict->never ? WEIR_NEVER :
						left_at(work, live, used - (plan->most - cost), plan->period) - now;
}

/* Records which leaves the next decision for the key will need, after an event was added. */
static void hint_at_leaves(const struct work *work, const struct weir__point *oldest)
{
	_Atomic uint64_t *const hint = weir__table_leaf_hint(work->key.table, work->place.slot);
	const uint32_t next = work->history.newest.position + 1;

	if (hint)
		weir__leaf_hint_set(hint, &work->history, next == weir__shape_cells(&work->history.shape) ? 0 : next,
				    oldest->position);
}

/* Decides for a log that has a history, without unpacking it into core's state. WHOLE: take the long path. */
static enum weir__log_answer decide_log(struct work *work, uint64_t cost, struct weir_verdict *ret_verdict)
{
	const struct weir_plan *const plan = &work->key.view.format.plan;
	const struct weir__history *const history = &work->history;
	const uint64_t now = work->now - work->key.view.format.epoch, newest = history->newest.at;
	const uint64_t when = now > newest ? now : newest;
	enum weir__history_done done;
	struct weir__point live;
	uint64_t used, total;

	if (when - now > WEIR__STEP_BACK_MAX || is_too_narrow(work))
		return WEIR__LOG_UNDECIDED;
	live = first_live(work, plan->period, when);
	used = (history->newest.total - live.total) & WEIR__TOTAL_MASK;
	if (used > plan->most || cost > plan->most - used) {
		if (ret_verdict)
			explain_log(work, &live, used, newest, cost, false, ret_verdict);
		return weir__history_is_unchanged(history) ? WEIR__LOG_DENIED : WEIR__LOG_UNDECIDED;
	}
	if (!extend(work, when, used + cost))
		return WEIR__LOG_UNDECIDED;
	total = history->newest.total + cost;
	done = newest == when ? weir__history_merge(history, when, total) :
				weir__history_push(history, when, total, &live, take_chunk, work);
	if (done != WEIR__HISTORY_DONE)
		return WEIR__LOG_UNDECIDED;
	hint_at_leaves(work, &live);
	if (ret_verdict)
		explain_log(work, &live, used + cost, when, cost, true, ret_verdict);
	return WEIR__LOG_ALLOWED;
}

/* Logs with count all take the long path. */
static bool has_short_way(const struct weir_plan *plan, uint64_t cost)
{
	return is_log(plan) && !(plan->flags & WEIR_PLAN_COUNT_ALL) && cost > 0;
}

static enum weir__log_answer decide_short(struct work *work, uint64_t cost, struct weir_verdict *ret_verdict)
{
	find(work);
	if (!work->has_history || !weir__epoch_check_holds(work->epoch_check))
		return WEIR__LOG_UNDECIDED;
	return decide_log(work, cost, ret_verdict);
}

/* Takes a step, or undoes up to `cost` units of a charge. */
static enum weir__history_done take_any_step(struct work *work, weir__step *step, uint64_t cost,
					     struct weir_verdict *ret_verdict, uint64_t *ret_event_at)
{
	enum weir__history_done done;
	uint32_t tries = 0;

	do
		done = step && !weir__step_forgives(step) ?
			       step_in_place(work, step, cost, tries, ret_verdict, ret_event_at) :
			       give_back(work, cost, tries, ret_verdict, ret_event_at);
	while (is_outrun(done, &tries));
	if (done != WEIR__HISTORY_FULL)
		return done;
	do
		done = take_step(work, step, cost, ret_verdict, ret_event_at);
	while (is_outrun(done, &tries));
	return done;
}

bool weir__table_step_history(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			      const struct weir_table_limit *limit, uint64_t hash, weir__step *step, weir_ns now,
			      uint64_t cost, struct weir_verdict *ret_verdict, struct weir__change *ret_change)
{
	enum weir__history_done done = WEIR__HISTORY_DONE;
	uint64_t event_at = 0;
	struct work work WEIR__UNINITIALIZED;

	begin(&work, epoch_check, table, limit, hash, now);
	if (step == weir_step_take && has_short_way(&limit->first.plan, cost) &&
	    decide_short(&work, cost, ret_verdict) != WEIR__LOG_UNDECIDED) {
		const weir_ns newest = work.history.newest.at + limit->first.epoch;

		event_at = now > newest ? now : newest;
	} else {
		done = take_any_step(&work, step, cost, ret_verdict, &event_at);
		if (done != WEIR__HISTORY_DONE)
			*ret_verdict = no_room(&work.key.view.format.plan);
	}
	free(work.heap);
	if (ret_change)
		*ret_change = (struct weir__change){ .number = work.key.view.number,
						     .slot = ret_verdict->allowed && cost > 0 ? work.place.slot : NULL,
						     .format = work.key.view.format,
						     .event_at = event_at };
	return done != WEIR__HISTORY_STALE;
}

struct weir_verdict weir__table_undo_history(struct weir_table *table, const struct weir_table_limit *limit,
					     uint64_t hash, weir_ns now, const struct weir__charge *charge, uint64_t n)
{
	struct weir_verdict verdict;
	uint64_t ignored;
	struct work work WEIR__UNINITIALIZED;

	begin(&work, NULL, table, limit, hash, now);
	work.undone = charge;
	if (take_any_step(&work, NULL, n, &verdict, &ignored) != WEIR__HISTORY_DONE)
		verdict = no_room(&work.key.view.format.plan);
	free(work.heap);
	return verdict;
}

enum weir__log_answer weir__table_allow_log(struct weir_table *table, const struct weir_table_limit *limit,
					    uint64_t hash, weir_ns now, uint64_t cost)
{
	struct work work WEIR__UNINITIALIZED;

	if (!has_short_way(&limit->first.plan, cost))
		return WEIR__LOG_UNDECIDED;
	__builtin_prefetch(weir__table_leaf_hint(table, weir__table_home(table, hash)));
	begin(&work, NULL, table, limit, hash, now);
	return decide_short(&work, cost, NULL);
}
