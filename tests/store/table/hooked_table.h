/* hooked_table.h: tables that call somebody before each access to what threads and processes share. A test that links
 * hooked_table.c in place of the table's own files can so do, at any moment of an operation, what others might; or
 * never return from there, as if killed. */
#ifndef WEIR_TESTS_STORE_HOOKED_TABLE_H
#define WEIR_TESTS_STORE_HOOKED_TABLE_H

/* Called before what lies there is read or written; NULL: nobody is. */
extern void (*table_hook)(const void *at);

#endif
