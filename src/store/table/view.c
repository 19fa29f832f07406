/* view.c: makes views of the plans that a table keeps, and converts states from one plan to the next. */
#include "store/table/view.h"

#include "core/segments.h"
#include "core/text.h"
#include "os/thread.h"
#include "store/table/table.h"

static const uint64_t being_written = UINT64_C(1) << 63;

/* A slot may be written by a clock that is behind, and a wait takes tokens ahead. Each adds at most a minute. */
static const weir_ns late_ns = 2 * WEIR__STEP_BACK_MAX;

/* The shared memory may be corrupt, so this clamps times to those that slots can hold. */
static weir_ns time_of(const struct weir_table_limit *limit, const struct weir__plans_limit *of)
{
	const weir_ns epoch = limit->first.epoch;

	return of->changed_at < epoch ? epoch : weir__min(of->changed_at, epoch + WEIR__SLOT_TIME_MAX);
}

int weir__view_format(const struct weir_table_limit *limit, const struct weir_limit *to, bool in_arena,
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
	if (in_arena || weir__format_has_histories(&limit->first))
		return weir__slot_format_init_histories(ret_format, &plan, limit->first.epoch, ret_message);
	return weir__slot_format_init(ret_format, &plan, limit->first.epoch, limit->table->region.arena.n > 0,
				      ret_message);
}

static void set_generation(struct weir__slot_format *format, uint64_t number)
{
	if (!weir__format_has_histories(format))
		format->tag |= (uint32_t)(number % WEIR__SLOT_GENERATIONS);
}

static bool read_plan(const struct weir_table_limit *limit, uint64_t number, struct weir__plans_limit *ret_limit,
		      struct weir__slot_format *ret_format)
{
	return weir__plans_read(&limit->table->region, limit->entry, number, ret_limit) &&
	       weir__view_format(limit, &ret_limit->limit, ret_limit->in_arena, ret_format, NULL) == WEIR_OK;
}

/* Unpacks a slot that the plan `number` packed, and converts it to the plan `last`, or to the last plan whose keys are
 * in slots. Returns false if a plan is missing. */
static bool carry_over(const struct weir_table_limit *limit, struct weir_state slot, uint64_t number, uint64_t last,
		       struct weir_state *ret_state)
{
	struct weir__slot_format format, next;
	struct weir__plans_limit of;

	if (!read_plan(limit, number, &of, &format) || weir__format_has_histories(&format))
		return false;
	*ret_state = weir__slot_unpack(&format, slot);
	while (number < last) {
		if (!read_plan(limit, ++number, &of, &next))
			return false;
		if (weir__format_has_histories(&next))
			return true; /* the counts stay as they are */
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

/* The first plan whose keys may have used something when the limit was last changed. If a plan was in force for as long
 * as a key takes to become full, keys of earlier plans have used nothing. */
static uint64_t first_in_use(const struct weir_table_limit *limit, uint64_t number, weir_ns changed_at,
			     bool *ret_in_arena)
{
	struct weir__slot_format format;
	struct weir__plans_limit of;

	*ret_in_arena = false;
	for (uint32_t i = 0; i < limit->table->region.n_old_plans && number > 0; i++) {
		weir_ns began_at;

		if (!read_plan(limit, number - 1, &of, &format))
			break;
		number--;
		began_at = time_of(limit, &of);
		*ret_in_arena = weir__format_has_histories(&format);
		if (changed_at > began_at &&
		    changed_at - began_at >= weir__add_saturating(weir__slot_longest(&format.plan), late_ns))
			break;
		changed_at = began_at;
	}
	return number;
}

/* Finds the eras before this one in which slots may be in use. */
static void find_eras(const struct weir_table_limit *limit, weir_ns changed_at, struct weir__view *view)
{
	const uint64_t era = view->number / WEIR__SLOT_GENERATIONS;
	const bool has_histories = weir__format_has_histories(&view->format);
	bool in_arena;

	view->mark = limit->group_mark | (has_histories ? 0 : weir__era_mark(era));
	view->n_eras = 0;
	view->first_era = era;
	view->eras_until = weir__add_saturating(changed_at,
						weir__add_saturating(weir__slot_longest(&view->format.plan), late_ns));
	if (weir__format_has_histories(&limit->first) || view->number == 0)
		return;
	view->first_era = first_in_use(limit, view->number, changed_at, &in_arena) / WEIR__SLOT_GENERATIONS;
	if (!has_histories)
		view->n_eras = (uint32_t)(era - view->first_era);
	else if (!in_arena)
		view->n_eras = (uint32_t)(era - view->first_era + 1);
}

/* If the plan in the table's memory is corrupt, the limit is taken as it was added. */
static void make_view(const struct weir_table_limit *limit, struct weir__view *view)
{
	struct weir__plans_limit of;

	if (!weir__plans_read_last(&limit->table->region, limit->entry, &view->number, &of) ||
	    weir__view_format(limit, &of.limit, of.in_arena, &view->format, NULL) != WEIR_OK) {
		view->number = weir__plans_number(limit->entry);
		view->format = limit->first;
		of = (struct weir__plans_limit){ .changed_at = 0 };
	}
	set_generation(&view->format, view->number);
	find_eras(limit, time_of(limit, &of), view);
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

bool weir__view_sees(const struct weir__view *view, uint64_t number)
{
	const uint64_t era = number / WEIR__SLOT_GENERATIONS;
	const bool has_histories = weir__format_has_histories(&view->format);

	return era - view->first_era < view->n_eras ||
	       era == (has_histories ? 0 : view->number / WEIR__SLOT_GENERATIONS);
}

/* The two words of four bytes are one to readers, see weir__view_load. If another thread stores a newer view meanwhile,
 * either its mark differs and the swap fails, or it has the same era and need not search earlier eras either. */
void weir__view_forget_eras(const struct weir_table_limit *limit, const struct weir__view *view)
{
	struct weir_table_limit *const handle = (struct weir_table_limit *)limit; /* callers have const handles */
	weir__view_word *const word = (weir__view_word *)(void *)&handle->view.mark;
	weir__view_word before, after;
	struct weir__view next = *view;

	_Static_assert(offsetof(struct weir__view, n_eras) == offsetof(struct weir__view, mark) + 4 &&
			       offsetof(struct weir__view, mark) % sizeof(*word) == 0,
		       "one word");
	before = *(const weir__view_word *)(const void *)&next.mark;
	next.n_eras = 0;
	after = *(const weir__view_word *)(const void *)&next.mark;
	(void)__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

bool weir__view_unpack(const struct weir_table_limit *limit, const struct weir__view *view, struct weir_state slot,
		       uint64_t era, struct weir_state *ret_state, bool *ret_is_old)
{
	const bool has_histories = weir__format_has_histories(&view->format);
	const uint32_t generation = weir__slot_generation(slot);
	const bool has_generation = generation < WEIR__SLOT_GENERATIONS;
	const uint64_t number = era * WEIR__SLOT_GENERATIONS + generation;

	*ret_is_old = true;
	if (WEIR__LIKELY(has_generation && number == view->number && !has_histories)) {
		*ret_is_old = false;
		*ret_state = weir__slot_unpack(&view->format, slot);
		return true;
	}
	/* A later number means that a newer plan packed the slot, or that the slot is another limit's. */
	if (has_generation && number < view->number && carry_over(limit, slot, number, view->number, ret_state))
		return true;
	*ret_is_old = false;
	*ret_state = has_histories ? (struct weir_state){ 0, 0 } : weir__slot_unpack(&view->format, slot);
	return weir__plans_number(limit->entry) == view->number;
}
