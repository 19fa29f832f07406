/* inline_limit.c: makes handles like those of the table's own limits. Their entry is a static one that never
 * changes. */
#include "store/table/inline_limit.h"

#include <stdio.h>

static struct weir__region_limit unchanged;

int weir__inline_limit_init(struct weir_table_limit *inline_limit, struct weir_table *table, const void *space,
			    size_t space_length, const struct weir_limit *limit,
			    const struct weir_table_limit *counted_as, struct weir_message *ret_message)
{
	int error;

	memset(inline_limit, 0, sizeof(*inline_limit));
	inline_limit->table = table;
	inline_limit->added = *limit;
	error = weir_plan_compile(limit, &inline_limit->plan, ret_message);
	if (error == WEIR_OK)
		error = weir__slot_format_init(&inline_limit->first, &inline_limit->plan, table->epoch,
					       table->region.arena.n > 0, ret_message);
	if (error != WEIR_OK)
		return error;
	inline_limit->entry = &unchanged;
	inline_limit->index = counted_as->index;
	inline_limit->group_mark = 1;
	inline_limit->secret = weir__limit_secret(&table->region.secret, space, space_length);
	weir__view_init(inline_limit);
	return WEIR_OK;
}

void weir__inline_limit_share(struct weir_table_limit *inline_limit)
{
	inline_limit->plan.flags |= WEIR_PLAN_RESERVED;
	inline_limit->first.plan.flags |= WEIR_PLAN_RESERVED;
	weir__view_init(inline_limit);
}

void weir__inline_limit_write_name(const struct weir_table_limit *counted_as, const struct weir_table_limit *limit,
				   char *ret_name, size_t size)
{
	char text[WEIR_LIMIT_TEXT_MAX];
	struct weir_limit stated;

	if (limit->index != counted_as->index) {
		(void)snprintf(ret_name, size, "%s", weir_table_limit_name(limit));
		return;
	}
	stated = weir_table_limit_limit(limit);
	(void)weir_limit_print(&stated, text);
	(void)snprintf(ret_name, size, "%s", text);
}
