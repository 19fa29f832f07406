/* hooked_table.c: the files of the table compiled once more, each access to a slot, to `forgiven` and to the list
 * of limits with a call before it. What counts for statistics alone has none. */
#include "hooked_table.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "os/atomic16.h"
#include "os/canceller.h"
#include "os/clock.h"
#include "os/memory.h"

void (*table_hook)(const void *at);

static inline void call_hook(const void *at)
{
	if (table_hook)
		table_hook(at);
}

/* So a line is read as under the thread sanitizer, slot by slot, and not by instructions that have no name to hook. */
#undef __SANITIZE_THREAD__
#define __SANITIZE_THREAD__ 1

/* A macro that names itself is not expanded again: that is the function. */
#define weir__atomic16_load(slot) (call_hook(slot), weir__atomic16_load(slot))
#define weir__atomic16_swap(slot, ...) (call_hook(slot), weir__atomic16_swap(slot, __VA_ARGS__))
#define __atomic_load_n(word, order) (call_hook(word), __atomic_load_n(word, order))
#undef atomic_load
#define atomic_load(word) (call_hook(word), atomic_load_explicit(word, memory_order_seq_cst))
#undef atomic_fetch_add
#define atomic_fetch_add(word, n) (call_hook(word), atomic_fetch_add_explicit(word, n, memory_order_seq_cst))

#include "store/plans.c"
#include "store/region.c"
#include "store/table.c"
#include "store/table_change.c"
#include "store/table_decide.c"
#include "store/table_find.c"
#include "store/view.c"
