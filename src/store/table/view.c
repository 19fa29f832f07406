/* view.c: makes views of the plans that a table keeps, and converts states from one plan to the next. */
#include "store/table/view.h"

#include "core/bucket.h"
#include "core/segments.h"
#include "core/text.h"
#include "os/thread.h"
#include "store/table/table.h"

static const uint64_t being_written = UINT64_C(1) << 63;

/* Gives each era different fingerprints. Era 0 leaves them as they are. */
static uint32_t mark_of_era(uint64_t era)
{
	return (uint32_t)era * 0x9e3779b1u;
}

/* The shared memory may be corrupt. So time_of clamps times to those that slots can hold, and absent_of clamps usage to
 * the most that a key can have. */
static weir_ns time_of(const struct weir_table_limit *limit, const struct weir__plans_limit *of)
{
	const weir_ns epoch = limit->first.epoch;

	return of->changed_at < epoch ? epoch : weir__min(of->changed_at, epoch + WEIR__SLOT_TIME_MAX);
}

static struct weir_state absent_of(const struct weir_plan *plan, const struct weir_state *absent, weir_ns changed_at)
{
	const weir_ns latest = weir__add_saturating(changed_at, WEIR__STEP_BACK_MAX);
	const weir__u128 full_at = weir__mul(latest, plan->count) + weir__bucket_duration(plan);
	struct weir_state state = *absent;

	if (plan->kind == WEIR_KIND_BUCKET && weir__state_wide(&state) > full_at)
		weir__state_set_wide(&state, full_at);
	else if (plan->kind == WEIR_KIND_INTERVAL)
		state = (struct weir_state){ weir__min(state.lo, latest), weir__min(state.hi, plan->most) };
	else if (plan->kind != WEIR_KIND_BUCKET)
		state = (struct weir_state){ 0, 0 };
	return state;
}

static int refuse_history(struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why,
		       "a sliding_counter that was added with at most 16383 keeps to that; more needs another name");
	return WEIR_ERR_MAXIMUM;
}

int weir__view_format(const struct weir_table_limit *limit, const struct weir_limit *to,
		      struct weir__slot_format *ret_format, struct weir_message *ret_message)
{
	struct weir_plan from = limit->plan, plan;
	int error = weir_plan_compile(to, &plan, ret_message);

	if (from.kind == WEIR_KIND_LOG) /* in a table a log grows as needed */
		from.room = UINT64_MAX;
	if (error == WEIR_OK && from.kind == WEIR_KIND_SEGMENTS && plan.kind == WEIR_KIND_COUNTER)
		weir__segments_widen(&plan);
	if (error == WEIR_OK)
		error = weir_step_convertible(&from, &plan, ret_message);
	if (error != WEIR_OK)
		return error;
	if (weir__format_has_histories(&limit->first))
		return weir__slot_format_init_histories(ret_format, &plan, limit->first.epoch, ret_message);
	error = weir__slot_format_init(ret_format, &plan, limit->first.epoch, true, ret_message);
	return error == WEIR_OK && weir__format_has_histories(ret_format) ? refuse_history(ret_message) : error;
}

static void set_generation(struct weir__slot_format *format, uint64_t number)
{
	if (!weir__format_has_histories(format))
		format->tag |= (uint32_t)(number % WEIR__SLOT_GENERATIONS);
}

/* Unpacks a slot that the plan `number` packed, and converts it to the plan `last`. Returns false if a plan is
 * missing. */
static bool carry_over(const struct weir_table_limit *limit, struct weir_state slot, uint64_t number, uint64_t last,
		       struct weir_state *ret_state)
{
	struct weir__slot_format format, next;
	struct weir__plans_limit of;

	if (!weir__plans_read(&limit->table->region, limit->entry, number, &of) ||
	    weir__view_format(limit, &of.limit, &format, NULL) != WEIR_OK)
		return false;
	*ret_state = weir__slot_unpack(&format, slot);
	while (number < last) {
		if (!weir__plans_read(&limit->table->region, limit->entry, ++number, &of) ||
		    weir__view_format(limit, &of.limit, &next, NULL) != WEIR_OK)
			return false;
		weir_step_convert(&format.plan, &next.plan, ret_state, time_of(limit, &of));
		format = next;
	}
	return true;
}

/* Keeps the view for the process, unless the kept view is as new or another thread is writing it. If the writer was a
 * thread of the process that this one was forked from, it does not exist here, and its claim is taken over. */
static void keep_view(struct weir_table_limit *limit, const struct weir__view *view)
{
	const uint64_t claim = being_written | weir__thread_process();
	const weir__view_word *const from = (const weir__view_word *)view;
	weir__view_word *const to = (weir__view_word *)&limit->view;
	uint64_t seen = __atomic_load_n(&limit->view.number, __ATOMIC_ACQUIRE);

	if (seen & being_written ? seen == claim : seen >= view->number)
		return;
	if (!__atomic_compare_exchange_n(&limit->view.number, &seen, claim, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return;
	for (int i = 1; i < WEIR__VIEW_WORDS; i++)
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE); /* release: not visible before the claim */
	__atomic_store_n(&limit->view.number, view->number, __ATOMIC_RELEASE);
}

/* If the plan in the table's memory is corrupt, the limit is taken as it was added. */
static void make_view(const struct weir_table_limit *limit, struct weir__view *view)
{
	struct weir__plans_limit of;
	uint64_t era;

	if (!weir__plans_read_last(&limit->table->region, limit->entry, &view->number, &of) ||
	    weir__view_format(limit, &of.limit, &view->format, NULL) != WEIR_OK) {
		view->number = weir__plans_number(limit->entry);
		view->format = limit->first;
		of = (struct weir__plans_limit){ .changed_at = 0 };
	}
	view->absent = absent_of(&view->format.plan, &of.absent, time_of(limit, &of));
	set_generation(&view->format, view->number);
	era = weir__format_has_histories(&view->format) ? 0 : view->number / WEIR__SLOT_GENERATIONS;
	view->era_mark = mark_of_era(era);
	view->previous_mark = mark_of_era(era > 0 ? era - 1 : 0);
}

void weir__view_make(const struct weir_table_limit *limit, struct weir__view *ret_view)
{
	make_view(limit, ret_view);
	keep_view((struct weir_table_limit *)limit, ret_view); /* callers have const handles */
}

void weir__view_init(struct weir_table_limit *limit)
{
	make_view(limit, &limit->view);
}

bool weir__view_unpack(const struct weir_table_limit *limit, const struct weir__view *view, struct weir_state slot,
		       bool is_of_this_era, struct weir_state *ret_state, bool *ret_is_old)
{
	const uint32_t now = view->format.tag & WEIR__SLOT_GENERATION_MASK, then = weir__slot_generation(slot);
	const uint32_t age = is_of_this_era ? now - then : now + WEIR__SLOT_GENERATIONS - then;

	*ret_is_old = age != 0;
	if (WEIR__LIKELY(age == 0)) {
		*ret_state = weir__slot_unpack(&view->format, slot);
		return true;
	}
	/* An impossible age means that a newer plan packed the slot (its age wraps), or that the slot is another
	 * limit's. */
	if (then < WEIR__SLOT_GENERATIONS && age < 2 * WEIR__SLOT_GENERATIONS &&
	    carry_over(limit, slot, view->number - age, view->number, ret_state))
		return true;
	*ret_state = weir__slot_unpack(&view->format, slot);
	*ret_is_old = false;
	return weir__plans_number(limit->entry) == view->number;
}

struct weir_state weir__view_pack(const struct weir__view *view, uint32_t fingerprint, const struct weir_state *state)
{
	const struct weir_state slot = weir__slot_pack(&view->format, fingerprint, state);
	struct weir_state absent;

	if (WEIR__LIKELY(weir__slot_fingerprint(slot) != 0))
		return slot;
	absent = weir__slot_pack(&view->format, fingerprint, &view->absent);
	if (weir__slot_fingerprint(absent) == 0)
		return slot;
	return weir__slot_make(fingerprint, 0, weir__slot_full_at(absent), view->format.tag | WEIR__SLOT_COUNTED);
}
