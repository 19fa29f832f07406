/* hooked_history.c: the sources of histories compiled again with hooks, as hooked_table.c does for slots. */
#include "hooked_accesses.h"

#include "store/table/arena.c"
#include "store/table/history.c"
#include "store/table/table_history.c"
