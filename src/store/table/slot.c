/* slot.c: packs every kind of state into a slot, and rejects the limits whose states do not fit. */
#include "store/table/slot.h"

#include <weir/table.h>

#include "core/segments.h"
#include "core/text.h"

_Static_assert(WEIR_TABLE_DURATION_MAX + 2 * WEIR__STEP_BACK_MAX <= UINT64_C(1) << 59,
	       "the usage at the last instant, by a clock that went back, must fit the slot");

static const uint32_t count_mask = (UINT32_C(1) << WEIR__SLOT_LEVEL_SHIFT) - 1;
static const uint32_t window_mask = (UINT32_C(1) << WEIR__SLOT_WINDOW_BITS) - 1;

_Static_assert(WEIR_TABLE_COUNT_MAX == (UINT32_C(1) << WEIR__SLOT_LEVEL_SHIFT) - 1, "see table.h");
_Static_assert(WEIR_TABLE_SLIDING_MAX == (UINT32_C(1) << WEIR__SLOT_WINDOW_BITS) - 1, "see table.h");
_Static_assert(WEIR_TABLE_WINDOW_MAX == (UINT64_C(1) << (WEIR__SLOT_LEVEL_SHIFT + WEIR__SLOT_WIDE_BITS)) - 1,
	       "see table.h");
_Static_assert(WEIR__SLOT_WIDE_NS >> WEIR__SLOT_WIDE_BITS > 0, "the lower bits are less than a millisecond");

/* On a hash collision the slot may belong to a key of another limit and hold any value. So at most one burst counts as
 * missing. */
static struct weir_state unpack_interval(const struct weir_plan *plan, uint32_t counted, weir_ns full_at)
{
	const uint64_t missing = weir__min(counted, plan->most);
	const weir__u128 duration = weir__mul((uint64_t)weir__div_up(missing, plan->count), plan->period);

	return (struct weir_state){ .lo = duration < full_at ? full_at - (weir_ns)duration : 0, .hi = missing };
}

static struct weir_state unpack_counter(const struct weir_plan *plan, uint32_t counted, weir_ns forgotten_at)
{
	const uint32_t previous = counted >> WEIR__SLOT_WINDOW_BITS, current = counted & window_mask;
	const uint64_t number = forgotten_at / plan->period, ahead = current ? 2 : 1;

	return (struct weir_state){ .lo = weir__counter_pack(previous, current),
				    .hi = number > ahead ? number - ahead : 0 };
}

static struct weir_state unpack_window(const struct weir__slot_format *format, struct weir_state slot)
{
	const weir_ns end = weir__slot_resets_at(format, slot);
	const uint64_t own = weir__slot_own(slot) & count_mask, spare = weir__slot_full_at(slot) + format->epoch - end;

	return (struct weir_state){
		.lo = end > format->plan.period ? end - format->plan.period : 0,
		.hi = format->is_wide ? own << WEIR__SLOT_WIDE_BITS | spare : own | spare << WEIR__SLOT_LEVEL_SHIFT,
	};
}

struct weir_state weir__slot_unpack(const struct weir__slot_format *format, struct weir_state slot)
{
	const weir_ns full_at = weir__slot_full_at(slot) + format->epoch;
	const uint32_t counted = weir__slot_own(slot) & count_mask;

	if (weir__slot_fingerprint(slot) == 0)
		return (struct weir_state){ 0, 0 };
	switch (format->plan.kind) {
	case WEIR_KIND_BUCKET:
		return weir__slot_unpack_bucket(format, slot);
	case WEIR_KIND_INTERVAL:
		return unpack_interval(&format->plan, counted, full_at);
	case WEIR_KIND_COUNTER:
		return unpack_counter(&format->plan, counted, full_at);
	default:
		return unpack_window(format, slot);
	}
}

/* The own bits of a counted kind: the count and the level for `used` units. */
static uint64_t with_level(const struct weir__slot_format *format, uint64_t counted, uint64_t used)
{
	const uint64_t level = used >= format->plan.most ?
				       WEIR__SLOT_LEVEL_MOST :
				       weir__min((used * format->levels) >> 60, WEIR__SLOT_LEVEL_MOST - 1);

	return counted | level << WEIR__SLOT_LEVEL_SHIFT;
}

/* If nanoseconds of the end are used, it is rounded up. It is a whole millisecond, unless another store's clock made
 * it. With count all, counting stops at the most that fits. */
static weir_ns pack_window(const struct weir__slot_format *format, const struct weir_state *state, uint64_t *ret_own)
{
	const weir_ns end = state->lo + format->plan.period;
	const uint64_t counted = weir__min(state->hi, format->is_by_ms ? WEIR_TABLE_WINDOW_MAX : WEIR_TABLE_COUNT_MAX);
	uint64_t own = counted, spare = 0;

	if (format->is_wide) {
		own = counted >> WEIR__SLOT_WIDE_BITS;
		spare = counted & ((UINT64_C(1) << WEIR__SLOT_WIDE_BITS) - 1);
	} else if (format->is_by_ms) {
		own = counted & count_mask;
		spare = counted >> WEIR__SLOT_LEVEL_SHIFT;
	}
	*ret_own = with_level(format, own, counted);
	if (!weir__slot_uses_end(format, (uint32_t)*ret_own))
		return end;
	return (weir_ns)weir__div_up(end, WEIR__SLOT_WIDE_NS) * WEIR__SLOT_WIDE_NS + spare;
}

/* Returns the state's full_at in Unix time, and its own bits in *ret_own. */
static weir_ns pack_state(const struct weir__slot_format *format, const struct weir_state *state, uint64_t *ret_own)
{
	const struct weir_plan *const plan = &format->plan;
	uint64_t previous, current;
	weir_ns full_at;

	switch (plan->kind) {
	case WEIR_KIND_BUCKET:
		full_at = (weir_ns)weir__div_up(weir__state_wide(state), plan->count);
		*ret_own = (uint64_t)(weir__mul(full_at, plan->count) - weir__state_wide(state));
		return full_at;
	case WEIR_KIND_INTERVAL:
		*ret_own = with_level(format, state->hi, state->hi);
		return state->lo + (uint64_t)weir__div_up(state->hi, plan->count) * plan->period;
	case WEIR_KIND_COUNTER:
		previous = state->lo >> 32;
		current = state->lo & UINT32_MAX;
		*ret_own = with_level(format, previous << WEIR__SLOT_WINDOW_BITS | current, previous + current);
		return (state->hi + (current ? 2 : 1)) * plan->period;
	default:
		return pack_window(format, state, ret_own);
	}
}

static bool uses_nothing(const struct weir_plan *plan, const struct weir_state *state)
{
	if (plan->kind == WEIR_KIND_BUCKET)
		return state->lo == 0 && state->hi == 0;
	return (plan->kind == WEIR_KIND_COUNTER ? state->lo : state->hi) == 0;
}

static bool fits(const struct weir__slot_format *format, uint64_t own, weir_ns full_at)
{
	return own <= UINT32_MAX && (full_at - format->epoch) >> 60 == 0;
}

bool weir__slot_can_pack(const struct weir__slot_format *format, const struct weir_state *state)
{
	weir_ns full_at;
	uint64_t own;

	if (uses_nothing(&format->plan, state))
		return true;
	full_at = pack_state(format, state, &own);
	return full_at <= format->epoch || fits(format, own, full_at);
}

struct weir_state weir__slot_pack(const struct weir__slot_format *format, uint32_t fingerprint,
				  const struct weir_state *state)
{
	weir_ns full_at;
	uint64_t own;

	if (uses_nothing(&format->plan, state))
		return (struct weir_state){ 0, 0 };
	full_at = pack_state(format, state, &own);
	if (full_at <= format->epoch)
		return (struct weir_state){ 0, 0 };
	WEIR__HOLDS(fits(format, own, full_at));
	return weir__slot_make(fingerprint, (uint32_t)own, full_at - format->epoch, format->tag);
}

static int refuse(struct weir_message *ret_message, const char *what, uint64_t most)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, "in a table ");
	weir__text_add(&why, what);
	weir__text_add(&why, " is at most ");
	weir__text_add_number(&why, most);
	return WEIR_ERR_MAXIMUM;
}

static int refuse_window(struct weir_message *ret_message)
{
	return refuse(
		ret_message,
		"the count of a fixed_window with align first, or with a period that is not in whole milliseconds,",
		WEIR_TABLE_COUNT_MAX);
}

static int refuse_duration(struct weir_message *ret_message, weir_ns most)
{
	const weir_ns day = UINT64_C(86400000000000);
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, "in a table a used-up key must be full again after at most ");
	weir__text_add_number(&why, most);
	weir__text_add(&why, " ns: ");
	weir__text_add_number(&why, most / day);
	weir__text_add(&why, " whole days");
	return WEIR_ERR_MAXIMUM;
}

static int refuse_without_arena(struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(
		&why,
		"a sliding_log, or a sliding_counter with segments, count all or a count above 16383, needs the table's arena, and this table has none: set arena_bytes");
	return WEIR_ERR_NO_ARENA;
}

static weir__u128 longest(const struct weir_plan *plan)
{
	switch (plan->kind) {
	case WEIR_KIND_BUCKET:
		return weir__div_up(weir__mul(plan->most, plan->period), plan->count);
	case WEIR_KIND_INTERVAL:
		return weir__mul((uint64_t)weir__div_up(plan->most, plan->count), plan->period);
	case WEIR_KIND_COUNTER:
		return weir__mul(2, plan->period);
	case WEIR_KIND_SEGMENTS:
		return weir__mul(plan->room + 1, plan->period);
	default:
		return plan->period;
	}
}

/* Whether all windows end on a whole millisecond. */
static bool is_by_ms(const struct weir_plan *plan)
{
	return !(plan->flags & WEIR_PLAN_FIRST) && plan->period % WEIR__SLOT_WIDE_NS == 0;
}

/* 7/8 of the maximum, since table_history.c may set a slot's full_at later by an eighth of the duration. */
int weir__slot_format_init_histories(struct weir__slot_format *format, const struct weir_plan *plan, weir_ns epoch,
				     struct weir_message *ret_message)
{
	const weir_ns duration_max = WEIR_TABLE_DURATION_MAX / 8 * 7;

	if (plan->most > WEIR_TABLE_ARENA_MAX)
		return refuse(ret_message, "a count", WEIR_TABLE_ARENA_MAX);
	*format = (struct weir__slot_format){ .plan = *plan, .epoch = epoch, .tag = WEIR__SLOT_ARENA };
	if (plan->kind == WEIR_KIND_COUNTER)
		weir__segments_widen(&format->plan);
	if (format->plan.kind == WEIR_KIND_SEGMENTS && format->plan.room > WEIR_TABLE_SEGMENTS_MAX)
		return refuse(ret_message, "the number of segments", WEIR_TABLE_SEGMENTS_MAX);
	if (longest(&format->plan) > duration_max)
		return refuse_duration(ret_message, duration_max);
	return WEIR_OK;
}

weir_ns weir__slot_longest(const struct weir_plan *plan)
{
	return weir__saturate(longest(plan));
}

int weir__slot_format_init(struct weir__slot_format *format, const struct weir_plan *plan, weir_ns epoch,
			   bool has_arena, struct weir_message *ret_message)
{
	const bool is_bucket = plan->kind == WEIR_KIND_BUCKET;

	if (plan->kind >= WEIR_KIND_SEGMENTS ||
	    (plan->kind == WEIR_KIND_COUNTER && plan->most > WEIR_TABLE_SLIDING_MAX))
		return has_arena ? weir__slot_format_init_histories(format, plan, epoch, ret_message) :
				   refuse_without_arena(ret_message);
	if (is_bucket && plan->count > WEIR_TABLE_RATE_MAX)
		return refuse(ret_message, "the count of a rate in lowest terms", WEIR_TABLE_RATE_MAX);
	if (plan->kind == WEIR_KIND_INTERVAL && plan->most > WEIR_TABLE_COUNT_MAX)
		return refuse(ret_message, "a burst with refill interval", WEIR_TABLE_COUNT_MAX);
	if (plan->kind == WEIR_KIND_WINDOW && plan->most > WEIR_TABLE_WINDOW_MAX)
		return refuse(ret_message, "a count", WEIR_TABLE_WINDOW_MAX);
	if (plan->kind == WEIR_KIND_WINDOW && plan->most > WEIR_TABLE_COUNT_MAX && !is_by_ms(plan))
		return refuse_window(ret_message);
	if (longest(plan) > WEIR_TABLE_DURATION_MAX)
		return refuse_duration(ret_message, WEIR_TABLE_DURATION_MAX);
	*format = (struct weir__slot_format){ .plan = *plan, .epoch = epoch };
	if (is_bucket) {
		format->unit_ns = (uint64_t)weir__div_up(plan->period, plan->count);
		format->unit_rest = (uint64_t)(weir__mul(format->unit_ns, plan->count) - plan->period);
	} else {
		format->tag = WEIR__SLOT_COUNTED;
		format->levels = ((uint64_t)WEIR__SLOT_LEVEL_MOST << 60) / plan->most;
		format->is_by_ms = plan->kind == WEIR_KIND_WINDOW && is_by_ms(plan);
		format->is_wide = format->is_by_ms && plan->most > WEIR_TABLE_COUNT_MAX;
	}
	return WEIR_OK;
}
