/* hooked_history.c: the files of histories compiled once more, as hooked_table.c does with those of slots. */
#include "hooked_accesses.h"

#include "store/table/arena.c"
#include "store/table/history.c"
#include "store/table/table_history.c"
