/* hooked_history.c: the files of histories compiled once more, as hooked_table.c does with those of slots. */
#include "hooked_accesses.h"

#include "store/arena.c"
#include "store/history.c"
#include "store/table_history.c"
