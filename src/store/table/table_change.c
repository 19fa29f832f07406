/* table_change.c: changes a limit while its keys are in use. view.h says what becomes of them. */
#include "core/argument.h"
#include "core/text.h"
#include "os/file.h"
#include "store/table/table.h"

enum { FIND_TRIES = 16 };

static int refuse_region(struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, "the table's limit is damaged");
	return WEIR_ERR_REGION;
}

/* Whether every key is full under the new plan no later than it would have been under the old one. What was used is
 * kept at most, so only the rate matters. */
static bool is_full_as_soon(const struct weir_plan *from, const struct weir_plan *to)
{
	switch (from->kind) {
	case WEIR_KIND_BUCKET:
		return weir__mul(to->count, from->period) >= weir__mul(from->count, to->period);
	case WEIR_KIND_INTERVAL:
		return to->count >= from->count && to->period == from->period;
	default:
		return true; /* windows end when they would have ended anyway */
	}
}

/* From this change on, slots whose full_at has passed are held, whichever plan packed them. This includes slots that
 * were full before the change, since a clock that has gone back behind the change may write them later. Call it before
 * the plan is counted, so that these slots are never free in between. */
static void hold_slots(struct weir_table *table, const struct weir__slot_format *to, weir_ns changed_at)
{
	union weir__atomic16 *const hold = &table->region.header->hold;
	const uint64_t until = changed_at - table->epoch + weir__slot_longest(&to->plan) + WEIR__STEP_BACK_MAX;
	struct weir_state seen, next;

	do {
		seen = weir__atomic16_load(hold);
		next = (struct weir_state){ 0, seen.hi > until ? seen.hi : until };
	} while (!weir__slot_equal(seen, next) && !weir__atomic16_swap(hold, seen, next));
}

static bool is_same_limit(const struct weir_limit *a, const struct weir_limit *b)
{
	char text[2][WEIR_LIMIT_TEXT_MAX];

	(void)weir_limit_print(a, text[0]);
	(void)weir_limit_print(b, text[1]);
	return strcmp(text[0], text[1]) == 0;
}

int weir__table_stage_limit(struct weir_table *table, const struct weir_table_limit *limit, const struct weir_limit *to,
			    weir_ns now, bool also_same, struct weir__plans_staged *ret_staged,
			    struct weir_message *ret_message)
{
	struct weir__plans_limit next = { *to, weir__table_clamp(table, now), false }, last;
	struct weir__slot_format from, format;
	uint64_t number;
	int error;

	do {
		error = weir__view_format(limit, to, next.in_arena, &format, ret_message);
		if (error != WEIR_OK)
			return error;
		if (!weir__plans_read_last(&table->region, limit->entry, &number, &last) ||
		    weir__view_format(limit, &last.limit, last.in_arena, &from, NULL) != WEIR_OK)
			return refuse_region(ret_message);
		if (!also_same && is_same_limit(&last.limit, to)) {
			*ret_staged = (struct weir__plans_staged){ number, 0 };
			return WEIR_OK;
		}
		if (!is_full_as_soon(&from.plan, &format.plan))
			hold_slots(table, &format, next.changed_at);
		next.in_arena = weir__format_has_histories(&from) || weir__format_has_histories(&format);
	} while (!weir__plans_stage(&table->region, limit->entry, number, &next, ret_staged));
	if (table->region.file >= 0) /* before the plan is counted: a limit that counts a missing plan is unreadable */
		(void)weir__file_sync_memory(limit->entry, sizeof(*limit->entry));
	return WEIR_OK;
}

bool weir__table_settle_limit(struct weir_table *table, const struct weir_table_limit *limit,
			      const struct weir__plans_staged *staged)
{
	const bool is_settled = weir__plans_settle(limit->entry, staged);

	if (table->region.file >= 0) /* before any slot that this plan packs: see region_recover.c */
		(void)weir__file_sync_memory(limit->entry, sizeof(*limit->entry));
	return is_settled;
}

int weir__table_change_limit(struct weir_table *table, const struct weir_table_limit *limit,
			     const struct weir_limit *to, weir_ns now, bool also_same, struct weir_message *ret_message)
{
	struct weir__plans_staged staged;
	int error;

	do
		error = weir__table_stage_limit(table, limit, to, now, also_same, &staged, ret_message);
	while (error == WEIR_OK && staged.claim != 0 && !weir__table_settle_limit(table, limit, &staged));
	return error;
}

int weir_table_change_limit(struct weir_table *table, const struct weir_table_limit *limit, const struct weir_limit *to,
			    weir_ns now, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(table, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(to, ret_message);
	return weir__table_change_limit(table, limit, to, now, false, ret_message);
}

int weir_table_change_limit_text(struct weir_table *table, const struct weir_table_limit *limit, const char *text,
				 weir_ns now, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(table, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(text, ret_message);

	struct weir_limit to;
	const int error = weir_limit_parse(text, strlen(text), &to, ret_message);

	return error == WEIR_OK ? weir_table_change_limit(table, limit, &to, now, ret_message) : error;
}

int weir_table_find_limit(struct weir_table *table, const char *name, const struct weir_limit *limit,
			  const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(table, ret_message);
	WEIR__NOT_NULL(name, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	struct weir__slot_format format;
	struct weir__region_words words;
	struct weir_limit now;
	uint32_t index;
	int error = weir_table_add_limit(table, name, limit, ret_limit, ret_message);

	for (int tries = 0; error == WEIR_ERR_CHANGE && tries < FIND_TRIES; tries++) { /* others may change it, too */
		if (!weir__region_find_limit(&table->region, name, &index) ||
		    !weir__region_read_limit(&table->region, index, &words) ||
		    weir_limit_parse(words.text, strlen(words.text), &now, NULL) != WEIR_OK)
			return refuse_region(ret_message);
		error = weir_table_add_limit(table, name, &now, ret_limit, ret_message);
		if (error == WEIR_OK)
			return weir__view_format(*ret_limit, limit, false, &format, ret_message);
	}
	return error;
}

struct weir_limit weir_table_limit_limit(const struct weir_table_limit *limit)
{
	struct weir__plans_limit last;
	uint64_t number;

	if (limit->name[0] == '\0') /* an inline limit, which never changes */
		return limit->added;
	return weir__plans_read_last(&limit->table->region, limit->entry, &number, &last) ? last.limit : limit->added;
}
