/* key_state.h: the state of one key of a table as plain data, which another table can continue from.
 *
 * A recording has the state of each key before its decisions. Reading changes nothing. The state is exact if no other
 * thread decides for the same key meanwhile. Writing is for a table that one thread uses. */
#ifndef WEIR_STORE_TABLE_KEY_STATE_H
#define WEIR_STORE_TABLE_KEY_STATE_H

#include "core/log.h"
#include "store/table/table.h"

/* The most events of a state. A key with more is UNKNOWN. */
enum { WEIR__KEY_EVENTS_MOST = 4096 };

enum weir__key_state_kind {
	WEIR__KEY_ABSENT,  /* the table has no state for the key: never charged, full and removed, or evicted */
	WEIR__KEY_SLOT,    /* `slot` is the state of core, under the newest plan of the limit */
	WEIR__KEY_EVENTS,  /* a history: `events` */
	WEIR__KEY_FOLDED,  /* `units` and `full_at` are left of a history */
	WEIR__KEY_UNKNOWN, /* too many events, or the history was being moved */
	WEIR__KEY_STATE_KINDS,
};

struct weir__key_state {
	enum weir__key_state_kind kind;
	struct weir_state slot;
	uint64_t units;
	weir_ns full_at;
	/* Instants, or numbers of sub-windows, with running totals that start from 0. Oldest first. */
	uint32_t n;
	struct weir__event events[WEIR__KEY_EVENTS_MOST];
};

/* Reads the state of the key with this hash. `events` is set only for EVENTS, and the members that the kind names. */
void weir__key_state_read(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
			  struct weir__key_state *ret_state);

/* Makes this the state of the key. Returns false if the table has no room for it, if the state cannot be one of this
 * limit, or if it is UNKNOWN. The key is then absent. */
bool weir__key_state_write(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			   size_t key_length, weir_ns now, const struct weir__key_state *state);

/* Whether the two are the same state. */
bool weir__key_state_is_same(const struct weir__key_state *a, const struct weir__key_state *b);

#endif
