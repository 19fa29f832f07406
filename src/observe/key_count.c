/* key_count.c: estimates from a small and a large scan of the table. */
#include "observe/key_count.h"

enum {
	/* Scanned by each call. A connection may make 16 calls in one turn, which take 1 ms. */
	SLOTS = 1 << 16,
	MORE_SLOTS = 1 << 21, /* the entire table, if it has room for up to 1.4 million keys */
	FEW = 64,             /* the error of n sampled keys is their square root: 12 % for 64 */
};

static const weir_ns pause_ns = 100000000; /* between two large scans */

const char *const weir__damage_words[WEIR__DAMAGES] = { [WEIR__DAMAGED_PAGES] = "pages",
							[WEIR__DAMAGED_SLOTS] = "slots",
							[WEIR__DAMAGED_LIMITS] = "limits",
							[WEIR__DAMAGED_FIELDS] = "fields" };

void weir__key_count(struct weir_table *table, struct weir__key_count_cache *before, weir_ns now,
		     struct weir__table_key_count *ret_count)
{
	uint64_t live;

	weir__table_look(table, now, SLOTS, ret_count);
	if (ret_count->is_exact || ret_count->seen >= FEW || ret_count->inserted == 0 || before == NULL)
		return;
	if (now - before->at >= pause_ns) { /* also true if the clock was set back */
		weir__table_look(table, now, MORE_SLOTS, ret_count);
		*before = (struct weir__key_count_cache){ now, ret_count->live, ret_count->inserted };
	}
	live = before->live + (ret_count->inserted - before->inserted);
	ret_count->live = live < ret_count->inserted ? live : ret_count->inserted;
}
