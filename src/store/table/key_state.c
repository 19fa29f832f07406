/* key_state.c: reads a slot or a history without changing it, and makes the same one in another table. */
#include "store/table/key_state.h"

/* Follows at most this many moves of a history. */
enum { MOVES_MOST = 8 };

static bool is_log(const struct weir_plan *plan)
{
	return plan->kind == WEIR_KIND_LOG;
}

static uint64_t base_of(const struct weir__slot_format *format)
{
	return is_log(&format->plan) ? format->epoch : format->epoch / format->plan.period;
}

/* How long an event counts, in the unit of its instant. */
static uint64_t duration_of(const struct weir_plan *plan)
{
	return is_log(plan) ? plan->period : plan->room + 1;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

static void add_event(struct weir__key_state *state, uint64_t at, uint64_t total)
{
	if (state->n == WEIR__KEY_EVENTS_MOST) {
		state->kind = WEIR__KEY_UNKNOWN;
		return;
	}
	state->events[state->n++] = (struct weir__event){ at, total };
}

/* A plain counter whose limit uses histories since a change: its two windows, as events. */
static void read_counter(struct weir_state counter, struct weir__key_state *state)
{
	const uint64_t previous = counter.lo >> 32, current = counter.lo & UINT32_MAX;

	state->kind = previous + current > 0 ? WEIR__KEY_EVENTS : WEIR__KEY_ABSENT;
	if (previous > 0)
		add_event(state, counter.hi - 1, previous);
	if (current > 0)
		add_event(state, counter.hi, previous + current);
}

static void read_events(const struct weir__history *history, const struct weir__slot_format *format,
			struct weir__key_state *state)
{
	const uint64_t duration = duration_of(&format->plan), base = base_of(format);
	struct weir__point point = weir__history_first(history);
	uint64_t before = history->oldest.total;

	state->kind = WEIR__KEY_EVENTS;
	do {
		if (history->newest.at - point.at >= duration)
			before = point.total;
		else
			add_event(state, point.at + base, (point.total - before) & WEIR__TOTAL_MASK);
	} while (state->kind == WEIR__KEY_EVENTS && weir__history_next(history, &point));
}

static void read_history(const struct weir__key *key, struct weir_state slot, struct weir__key_state *state)
{
	const struct weir__slot_format *const format = &key->view.format;
	struct weir__arena *const arena = &key->table->region.arena;
	enum weir__history_found found = WEIR__HISTORY_MOVED;
	uint32_t number = weir__slot_root(slot), units;
	struct weir__history history;

	if (weir__slot_is_folded(slot)) {
		state->kind = WEIR__KEY_FOLDED;
		state->units = weir__slot_folded_units(slot, format->plan.most);
		state->full_at = weir__slot_full_at(slot) + format->epoch;
		return;
	}
	for (int moves = 0; found == WEIR__HISTORY_MOVED && moves < MOVES_MOST; moves++)
		found = weir__history_look(arena, number, key->hash, &history, &number);
	if (found == WEIR__HISTORY_THERE) {
		read_events(&history, format, state);
	} else if (found == WEIR__HISTORY_FOLDED &&
		   weir__history_is_folded(arena, number, weir__slot_fingerprint(slot), &units)) {
		state->kind = WEIR__KEY_FOLDED;
		state->units = units;
		state->full_at = weir__slot_full_at(slot) + format->epoch;
	} else {
		state->kind = found == WEIR__HISTORY_GONE ? WEIR__KEY_ABSENT : WEIR__KEY_UNKNOWN;
	}
}

void weir__key_state_read(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
			  struct weir__key_state *ret_state)
{
	struct weir_state state;
	struct weir__place place;
	struct weir__key key;

	ret_state->kind = WEIR__KEY_ABSENT;
	ret_state->n = 0;
	weir__key_init(&key, table, limit, hash);
	weir__table_find(&key, &place, &state);
	if (place.slot == NULL)
		return;
	if (weir__slot_tag(place.seen) == WEIR__SLOT_ARENA) {
		read_history(&key, place.seen, ret_state);
	} else if (weir__format_has_histories(&key.view.format)) {
		read_counter(state, ret_state);
	} else {
		ret_state->kind = WEIR__KEY_SLOT;
		ret_state->slot = state;
	}
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

struct taking {
	struct weir_table *table;
	weir_ns now;
};

static uint32_t take_chunk(void *taking_)
{
	const struct taking *const taking = taking_;

	return weir__table_take_chunk(taking->table, taking->now, NULL);
}

/* When a key with this newest event is full again, in ns since the epoch. */
static uint64_t full_at_of(const struct weir__slot_format *format, uint64_t newest)
{
	const struct weir_plan *const plan = &format->plan;

	return is_log(plan) ? newest - format->epoch + plan->period :
			      (newest + duration_of(plan)) * plan->period - format->epoch;
}

static bool is_in_order(const struct weir__key_state *state, uint64_t base)
{
	bool is = state->n > 0 && state->n <= WEIR__KEY_EVENTS_MOST && state->events[0].at >= base;

	for (uint32_t i = 1; is && i < state->n; i++)
		is = state->events[i].at > state->events[i - 1].at &&
		     state->events[i].total >= state->events[i - 1].total;
	return is && state->events[state->n - 1].total <= WEIR__UNITS_MOST;
}

/* A log keeps its events when its count becomes lower, so it may have more than the limit allows now. */
static struct weir__shape shape_for(const struct weir__slot_format *format, const struct weir__key_state *state)
{
	struct weir_plan plan = format->plan;

	if (state->n > plan.most)
		plan.most = state->n;
	return weir__table_shape(&plan);
}

/* Returns an empty slot if the events cannot be a history of this limit, or the arena is full. */
static struct weir_state make_history(const struct weir__key *key, const struct weir__key_state *state, weir_ns now)
{
	const struct weir__slot_format *const format = &key->view.format;
	const struct weir__shape shape = shape_for(format, state);
	const uint64_t base = base_of(format);
	struct taking taking = { key->table, now };
	const struct weir__event *newest;
	uint32_t number;

	if (!is_in_order(state, base) || state->n >= weir__shape_cells(&shape))
		return (struct weir_state){ 0, 0 };
	newest = &state->events[state->n - 1];
	number = weir__history_new(&key->table->region.arena, key->hash, &shape, state->events, state->n, 0, base,
				   take_chunk, &taking);
	if (number == 0)
		return (struct weir_state){ 0, 0 };
	return weir__slot_make_root(key->fingerprint, number, weir__slot_level_of(newest->total, format->plan.most),
				    full_at_of(format, newest->at));
}

static struct weir_state slot_of(const struct weir__key *key, const struct weir__key_state *state, weir_ns now)
{
	const struct weir__slot_format *const format = &key->view.format;
	const bool has_histories = weir__format_has_histories(format);

	switch (state->kind) {
	case WEIR__KEY_SLOT:
		return weir__key_pack(key, &state->slot);
	case WEIR__KEY_EVENTS:
		return has_histories ? make_history(key, state, now) : (struct weir_state){ 0, 0 };
	case WEIR__KEY_FOLDED:
		if (!has_histories || state->full_at < format->epoch)
			return (struct weir_state){ 0, 0 };
		return weir__slot_make_folded(key->fingerprint, state->units,
					      weir__slot_level_of(state->units, format->plan.most),
					      state->full_at - format->epoch);
	default:
		return (struct weir_state){ 0, 0 };
	}
}

bool weir__key_state_write(struct weir_table *table, const struct weir_table_limit *limit, const void *key_bytes,
			   size_t key_length, weir_ns now, const struct weir__key_state *state)
{
	struct weir_state found, next;
	struct weir__place place;
	struct weir__key key;

	(void)weir_table_reset(table, limit, key_bytes, key_length);
	if (state->kind == WEIR__KEY_ABSENT)
		return true;
	weir__key_init(&key, table, limit, weir__hash(&limit->secret, key_bytes, key_length));
	if (state->kind == WEIR__KEY_SLOT &&
	    (weir__format_has_histories(&key.view.format) || !weir__slot_can_pack(&key.view.format, &state->slot)))
		return false;
	weir__table_find(&key, &place, &found);
	next = slot_of(&key, state, weir__table_clamp(table, now));
	if (next.lo == 0 && next.hi == 0) /* a slot that has used nothing packs to zeros, too */
		return state->kind == WEIR__KEY_SLOT;
	return weir__table_put(&key, &place, next, weir__table_clamp(table, now));
}

bool weir__key_state_is_same(const struct weir__key_state *a, const struct weir__key_state *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case WEIR__KEY_SLOT:
		return weir__slot_equal(a->slot, b->slot);
	case WEIR__KEY_EVENTS:
		if (a->n != b->n)
			return false;
		for (uint32_t i = 0; i < a->n; i++)
			if (a->events[i].at != b->events[i].at || a->events[i].total != b->events[i].total)
				return false;
		return true;
	case WEIR__KEY_FOLDED:
		return a->units == b->units && a->full_at == b->full_at;
	default:
		return a->kind == WEIR__KEY_ABSENT;
	}
}
