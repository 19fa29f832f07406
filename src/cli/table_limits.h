/* table_limits.h: the limits that other processes have added to a table. */
#ifndef WEIR_CLI_TABLE_LIMITS_H
#define WEIR_CLI_TABLE_LIMITS_H

#include "store/table/table.h"

struct weir__limit_row {
	struct weir__region_words words; /* empty if the limit cannot be read */
	struct weir_table_limit_stats counted;
};

/* Sorted by name. */
struct weir__limit_rows {
	struct weir__limit_row *rows;
	size_t n;
};

/* Returns false if memory runs out. Limits that are added meanwhile may be missing. */
bool weir__limit_rows_init(struct weir__limit_rows *limits, const struct weir_table *table);

void weir__limit_rows_fini(struct weir__limit_rows *limits);

#endif
