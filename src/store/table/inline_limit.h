/* inline_limit.h: inline limits, which a request states and which have no name in the table.
 *
 * The same statement makes the same limit again, in this process and in others. The table stores only the slots of its
 * keys. An inline limit never changes. */
#ifndef WEIR_STORE_TABLE_INLINE_LIMIT_H
#define WEIR_STORE_TABLE_INLINE_LIMIT_H

#include "store/table/table.h"

/* Makes a limit for the keys of this space. The space is any bytes, and the same key in another space is a different
 * key. Decisions are counted with those of the limit `counted_as`. The limit can be used like any limit of the table
 * and need not be freed. Returns the errors of weir_table_add_limit. */
int weir__inline_limit_init(struct weir_table_limit *inline_limit, struct weir_table *table, const void *space,
			    size_t space_length, const struct weir_limit *limit,
			    const struct weir_table_limit *counted_as, struct weir_message *ret_message);

/* Declares that other limits charge the keys of this limit's space, too. Call it before the limit is used. A bucket
 * that has used more than its own burst is then taken as charged by one of those limits, not as a clock that went
 * back. */
void weir__inline_limit_share(struct weir_table_limit *inline_limit);

/* Writes the name of any limit. An inline limit, which is one that is counted as `counted_as`, gets its text
 * instead. */
void weir__inline_limit_write_name(const struct weir_table_limit *counted_as, const struct weir_table_limit *limit,
				   char *ret_name, size_t size);

#endif
