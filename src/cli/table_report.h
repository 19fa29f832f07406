/* table_report.h: what weir table prints, for people or as JSON. */
#ifndef WEIR_CLI_TABLE_REPORT_H
#define WEIR_CLI_TABLE_REPORT_H

#include "cli/json.h"
#include "os/memory.h"
#include "store/table/table.h"

/* A key under a limit, at one point in time. */
struct weir__key_report {
	const char *table, *limit, *text;
	const void *key;
	size_t key_length;
	struct weir_table_key known; /* includes the verdict of a peek with cost 1 */
	weir_ns now;
};

/* Prints everything about a table that was opened by this name. Returns false, and prints nothing, if memory for its
 * limits runs out. */
bool weir__table_report_info(struct weir_table *table, const char *name, const struct weir__memory_status *status,
			     bool is_json);

void weir__table_report_key(const struct weir__key_report *report, bool is_json);

/* Prints that the key was reset, and what it had used. */
void weir__table_report_forgotten(const struct weir__key_report *report, bool is_json);

/* A list of tables: call begin, then add for each table, then end. `problem` is NULL if the table can be used. */
struct weir__table_list {
	struct weir__json json;
	bool is_json;
	size_t rows;
};

void weir__table_list_begin(struct weir__table_list *list, bool is_json);
void weir__table_list_add(struct weir__table_list *list, const char *name, const struct weir__memory_status *status,
			  const char *problem);
void weir__table_list_end(struct weir__table_list *list);

#endif
