/* hooked_table.h: tables that call a hook before each access to memory that threads and processes share. A test that
 * links hooked_table.c instead of the table's own files can interfere at any moment of an operation, or never return,
 * as if killed. */
#ifndef WEIR_TESTS_STORE_HOOKED_TABLE_H
#define WEIR_TESTS_STORE_HOOKED_TABLE_H

/* Called before the memory at `at` is read or written; may be NULL. */
extern void (*table_hook)(const void *at);

#endif
