/* key_count.c: a look at a part of the table, and at more of it. */
#include "observe/key_count.h"

enum {
	SLOTS = 1 << 16,      /* that are looked at each time: 16 times that in a turn of a connection is 1 ms */
	MORE_SLOTS = 1 << 21, /* all, if there is room for up to 1.4 million keys */
	FEW = 64,             /* so many are 12 % off by chance, as the root of them */
};

static const weir_ns pause_ns = 100000000; /* from one look at more to the next */

void weir__key_count(struct weir_table *table, struct weir__key_count_cache *before, weir_ns now,
		     struct weir__table_key_count *ret_glance)
{
	uint64_t live;

	weir__table_look(table, now, SLOTS, ret_glance);
	if (ret_glance->is_exact || ret_glance->seen >= FEW || ret_glance->inserted == 0 || before == NULL)
		return;
	if (now - before->at >= pause_ns) { /* also if the clock was set back */
		weir__table_look(table, now, MORE_SLOTS, ret_glance);
		*before = (struct weir__key_count_cache){ now, ret_glance->live, ret_glance->inserted };
	}
	live = before->live + (ret_glance->inserted - before->inserted);
	ret_glance->live = live < ret_glance->inserted ? live : ret_glance->inserted;
}
