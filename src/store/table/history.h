/* history.h: what happened to a key, one event after the other, where a slot of 16 bytes does not hold it: sliding logs, and
 * sliding counters with sub-windows, whose events are the sub-windows in which something was counted.
 *
 * An event is an instant and the running total of units up to and with it. The newest one is kept in the root, and all
 * that is decided becomes so by one compare-and-swap of it. Before another one can become the newest, the one that was
 * is copied to a cell. So what is to be written into a cell is known to all who would write it, and it is not looked at
 * before it is there.
 *
 *     root     newest event | oldest event that may count | owner | shape | 4 references
 *     index    16 references, to leaves or other indexes
 *     leaf     8 cells, or 4 wide ones: a ring over all leaves, which are made as they are needed
 *
 * Cells belong to their root until it is given up. A root is given up, or replaced by another one, by a swap of its
 * newest event for a word that says so: whoever was about to change it then fails. Totals begin anywhere, so that no two
 * roots that a chunk was ever used for look the same.
 *
 * Totals make good for what a torn file has lost: units of an event that cannot be read count with the next. */
#ifndef WEIR_STORE_TABLE_HISTORY_H
#define WEIR_STORE_TABLE_HISTORY_H

#include "core/log.h"
#include "store/table/arena.h"

enum {
	WEIR__ROOT_REFS = 4,
	WEIR__POSITION_BITS = 20,
	WEIR__TOTAL_BITS = 48,
	WEIR__CELLS_MOST = 1 << WEIR__POSITION_BITS, /* in a ring: so many instants are told apart */
};

#define WEIR__TOTAL_MASK ((UINT64_C(1) << WEIR__TOTAL_BITS) - 1)

/* Units of one history at most. */
#define WEIR__UNITS_MOST (UINT64_C(1) << (WEIR__TOTAL_BITS - 2))

struct weir__root {
	union weir__atomic16 newest; /* a point; or GONE, or where it has moved to */
	union weir__atomic16 oldest; /* a point, whose total is that before the event. It may lag behind, not ahead */
	_Atomic uint64_t owner;      /* hash of the key */
	_Atomic uint64_t shape;
	_Atomic uint32_t refs[WEIR__ROOT_REFS];
};

_Static_assert(sizeof(struct weir__root) == WEIR__CHUNK_BYTES, "a root is a chunk");

/* How the cells of a root are kept. */
struct weir__shape {
	uint32_t leaves;
	uint32_t depth;     /* indexes between the root and a leaf */
	uint32_t time_bits; /* of a cell; 0: it is wide */
};

/* An event in its place. */
struct weir__point {
	uint64_t at; /* in the units of the history, below 2^60 - 1 */
	uint64_t total;
	uint32_t position;
};

/* The history of one key as it is seen at one moment. */
struct weir__history {
	struct weir__arena *arena;
	struct weir__root *root;
	uint32_t number; /* of the root's chunk */
	struct weir_state newest_seen, oldest_seen;
	struct weir__point newest, oldest;
	struct weir__shape shape;
};

/* The shape for so many events over such a span in which so many units are counted. */
struct weir__shape weir__history_shape(uint64_t events, uint64_t duration, uint64_t units);

/* Cells in the ring. */
static inline uint32_t weir__shape_cells(const struct weir__shape *shape)
{
	return shape->leaves * (shape->time_bits ? WEIR__CHUNK_WORDS : WEIR__CHUNK_PAIRS);
}

/* Chunks that so many events take, the root and indexes included. */
uint64_t weir__history_chunks(const struct weir__shape *shape, uint64_t events);

enum weir__history_found {
	WEIR__HISTORY_THERE,
	WEIR__HISTORY_MOVED, /* to *ret_moved_to */
	WEIR__HISTORY_GONE,  /* or it is another key's, or damaged */
};

enum weir__history_found weir__history_look(struct weir__arena *arena, uint32_t number, uint64_t owner,
					    struct weir__history *ret_history, uint32_t *ret_moved_to);

/* Fetch what a look, and, when that has come, what a push will need, into the cache. */
void weir__history_fetch_root(const struct weir__arena *arena, uint32_t number);
void weir__history_fetch_cells(const struct weir__history *history);

/* Still as it was seen. */
bool weir__history_is_unchanged(const struct weir__history *history);

/* The event that follows this one; false if this one is the newest. Positions that cannot be read are passed over. */
bool weir__history_next(const struct weir__history *history, struct weir__point *point);

/* The event at this position, whose total was that before it. */
void weir__history_read(const struct weir__history *history, const struct weir__point *start,
			struct weir__point *ret_point);

/* The first event that is kept, with the total up to and with it. */
struct weir__point weir__history_first(const struct weir__history *history);

/* Takes a chunk for a history; 0 if there is none to be had. */
typedef uint32_t weir__history_take(void *context);

enum weir__history_done {
	WEIR__HISTORY_DONE,
	WEIR__HISTORY_OUTRUN, /* it has changed: begin again */
	WEIR__HISTORY_FULL,   /* no room for another event */
	WEIR__HISTORY_STALE,  /* what the decision rests on is no longer so */
};

/* Adds units to the newest event, or takes some out of it. */
enum weir__history_done weir__history_merge(const struct weir__history *history, uint64_t at, uint64_t total);

/* Adds an event; those before `oldest` are forgotten. */
enum weir__history_done weir__history_push(const struct weir__history *history, uint64_t at, uint64_t total,
					   const struct weir__point *oldest, weir__history_take *take, void *context);

/* A new root with these events, their instants less base, their totals from `before` on; at least one. 0: there is no room. */
uint32_t weir__history_new(struct weir__arena *arena, uint64_t owner, const struct weir__shape *shape,
			   const struct weir__event *events, uint64_t n, uint64_t before, uint64_t base,
			   weir__history_take *take, void *context);

/* From now on the root of `to` holds the history; 0: nothing does. */
bool weir__history_move(const struct weir__history *history, uint32_t to);

/* Whether the key of a slot with this fingerprint may be the owner. */
bool weir__root_is_owned_by(const struct weir__root *root, uint32_t fingerprint);

/* Gives up the root that a slot referred to, if its owner has this fingerprint, and gives back all its chunks. */
void weir__history_give_up(struct weir__arena *arena, uint32_t number, uint32_t fingerprint);

/* Gives back the chunks of a root that has moved, or was never told of. */
void weir__history_discard(struct weir__arena *arena, uint32_t number);

/* Calls visit for every chunk of a root and of those it has moved to. */
void weir__history_visit(const struct weir__arena *arena, uint32_t number,
			 void (*visit)(void *context, uint32_t number), void *context);

#endif
