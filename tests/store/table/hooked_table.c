/* hooked_table.c: the sources of the table compiled again, with a call before each access to a slot, to `forgiven` and
 * to the list of limits. Accesses for statistics have none. */
#include "hooked_accesses.h"

void (*table_hook)(const void *at);

#include "store/table/plans.c"
#include "store/table/region.c"
#include "store/table/table.c"
#include "store/table/table_change.c"
#include "store/table/table_decide.c"
#include "store/table/table_find.c"
#include "store/table/view.c"
