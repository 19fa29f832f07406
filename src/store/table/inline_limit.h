/* inline_limit.h: limits without a name in the table: whoever asks says which. A process that is asked the same again makes
 * the same of it, and so do others; nothing of it is in the table but the slots of its keys. It never changes. */
#ifndef WEIR_STORE_TABLE_INLINE_LIMIT_H
#define WEIR_STORE_TABLE_INLINE_LIMIT_H

#include "store/table/table.h"

/* A limit for keys of this space, any bytes: the same key in another space is another one. Decisions are counted with
 * those of the limit `counted_as`. It may be used as any limit of the table, and needs no end. WEIR_ERR_...: as
 * weir_table_add_limit. */
int weir__inline_limit_init(struct weir_table_limit *inline_limit, struct weir_table *table, const void *space,
			    size_t space_length, const struct weir_limit *limit,
			    const struct weir_table_limit *counted_as, struct weir_message *ret_message);

/* Says, before it is used, that other limits charge the keys of its space, too: a bucket that owes more than its own burst
 * has been charged by one of those, and its clock did not go back. */
void weir__inline_limit_share(struct weir_table_limit *inline_limit);

/* The name of any limit: what an inline one, which is counted as `counted_as`, says. */
void weir__inline_limit_write_name(const struct weir_table_limit *counted_as, const struct weir_table_limit *limit,
				   char *ret_name, size_t size);

#endif
