/* history.h: the events of a key, for limits whose state does not fit a slot of 16 bytes. Such limits are sliding logs
 * and sliding counters with sub-windows. An event of a sliding counter is a sub-window in which something was counted.
 *
 * An event is an instant and the running total of units up to and including it. The newest event is kept in the root,
 * and every decision takes effect by one compare-and-swap of it. Before a new event can become the newest, the previous
 * newest is copied to a cell. So all threads that write a cell write the same content, and no thread reads a cell
 * before it is written.
 *
 *     root     newest event | oldest event that may count | owner | shape | 4 references
 *     index    16 references, to leaves or other indexes
 *     leaf     8 cells, or 4 wide ones: a ring over all leaves, which are made as they are needed
 *
 * Cells belong to their root until it is given up. To give up or replace a root, a thread swaps its newest event for a
 * word that says so. A thread that was about to change the root then fails. Totals begin at a random number, so that no
 * two roots that ever used the same chunk look the same.
 *
 * Totals compensate for what a torn file has lost: units of an event that cannot be read count with the next event. The
 * reasons are in docs/internals/table.md. */
#ifndef WEIR_STORE_TABLE_HISTORY_H
#define WEIR_STORE_TABLE_HISTORY_H

#include "core/log.h"
#include "store/table/arena.h"

enum {
	WEIR__ROOT_REFS = 4,
	WEIR__POSITION_BITS = 20,
	WEIR__TOTAL_BITS = 48,
	WEIR__CELLS_MOST = 1 << WEIR__POSITION_BITS, /* in a ring: the most instants that a history can tell apart */
};

#define WEIR__TOTAL_MASK ((UINT64_C(1) << WEIR__TOTAL_BITS) - 1)

/* The most units of one history. */
#define WEIR__UNITS_MOST (UINT64_C(1) << (WEIR__TOTAL_BITS - 2))

struct weir__root {
	union weir__atomic16 newest; /* a point; or GONE, or the root that it has moved to, or how much was folded */
	union weir__atomic16 oldest; /* a point with the total before the event. It may lag behind, never lead */
	_Atomic uint64_t owner;      /* hash of the key */
	_Atomic uint64_t shape;
	_Atomic uint32_t refs[WEIR__ROOT_REFS];
};

_Static_assert(sizeof(struct weir__root) == WEIR__CHUNK_BYTES, "a root is a chunk");

/* How the cells of a root are laid out. */
struct weir__shape {
	uint32_t leaves;
	uint32_t depth;     /* indexes between the root and a leaf */
	uint32_t time_bits; /* of a cell; 0: wide cells */
};

/* An event and its position in the ring. */
struct weir__point {
	uint64_t at; /* in the units of the history, below 2^60 - 1 */
	uint64_t total;
	uint32_t position;
};

/* The history of one key as seen at one moment. */
struct weir__history {
	struct weir__arena *arena;
	struct weir__root *root;
	uint32_t number; /* of the root's chunk */
	struct weir_state newest_seen, oldest_seen;
	struct weir__point newest, oldest;
	struct weir__shape shape;
};

/* The bits for the time in a cell. 0: wide cells. */
uint32_t weir__history_time_bits(uint64_t duration, uint64_t units);

/* The shape for this many events over this duration, in which this many units are counted. */
struct weir__shape weir__history_shape(uint64_t events, uint64_t duration, uint64_t units);

/* The number of cells in the ring. */
static inline uint32_t weir__shape_cells(const struct weir__shape *shape)
{
	return shape->leaves * (shape->time_bits ? WEIR__CHUNK_WORDS : WEIR__CHUNK_PAIRS);
}

/* The leaf of a position. It shifts, since a division would take longer than the rest of an access to a cell. */
static inline uint32_t weir__shape_leaf(const struct weir__shape *shape, uint32_t position)
{
	return shape->time_bits ? position / WEIR__CHUNK_WORDS : position / WEIR__CHUNK_PAIRS;
}

/* The number of chunks for this many events, including the root and indexes. */
uint64_t weir__history_chunks(const struct weir__shape *shape, uint64_t events);

enum weir__history_found {
	WEIR__HISTORY_THERE,
	WEIR__HISTORY_MOVED, /* to *ret_moved_to */
	WEIR__HISTORY_FOLDED,
	WEIR__HISTORY_GONE, /* or it belongs to another key, or is damaged */
};

enum weir__history_found weir__history_look(struct weir__arena *arena, uint32_t number, uint64_t owner,
					    struct weir__history *ret_history, uint32_t *ret_moved_to);

/* The number of the chunk that is this leaf. If the leaf does not exist yet, a number that no chunk has. */
uint32_t weir__history_leaf(const struct weir__history *history, uint32_t leaf);

/* Prefetch what weir__history_look needs and, once that has arrived, what weir__history_push needs. */
void weir__history_fetch_root(const struct weir__arena *arena, uint32_t number);
void weir__history_fetch_leaves(const struct weir__arena *arena, uint32_t number);

/* Whether the newest event is still the one that was seen. All reads before the call happen before this check. */
bool weir__history_is_unchanged(const struct weir__history *history);

/* Reads the oldest event again, and after it the newest. Returns false if the history is gone or was moved. */
bool weir__history_look_again(struct weir__history *history);

/* The oldest event now, after all reads before the call. */
struct weir__point weir__history_oldest_now(const struct weir__history *history);

/* Reads the cell at a position before the newest. Returns false if nothing was written there, or if the cell is not of
 * this history. */
bool weir__history_read_at(const struct weir__history *history, uint32_t position, struct weir__point *ret_point);

/* Moves point to the event that follows it. Returns false if point is the newest. Skips positions that cannot be
 * read. */
bool weir__history_next(const struct weir__history *history, struct weir__point *point);

/* The first event that is kept, with the total up to and including it. */
struct weir__point weir__history_first(const struct weir__history *history);

/* Takes a chunk for a history. Returns 0 if the arena is full. */
typedef uint32_t weir__history_take(void *context);

enum weir__history_done {
	WEIR__HISTORY_DONE,
	WEIR__HISTORY_OUTRUN, /* the history has changed: begin again */
	WEIR__HISTORY_FULL,   /* no room for another event */
	WEIR__HISTORY_STALE,  /* the epoch check of the decision fails */
};

/* Sets the instant and total of the newest event. The total must not shrink: see file_newest. */
enum weir__history_done weir__history_merge(const struct weir__history *history, uint64_t at, uint64_t total);

/* Forgets the events before `to`, which do not count any more after a change of the history. `from` is the oldest event
 * that the change has left. If another thread has moved it meanwhile, this does nothing, and a later push forgets the
 * events. */
void weir__history_forget(const struct weir__history *history, const struct weir__point *from,
			  const struct weir__point *to);

/* Adds an event and forgets those before `oldest`. */
enum weir__history_done weir__history_push(const struct weir__history *history, uint64_t at, uint64_t total,
					   const struct weir__point *oldest, weir__history_take *take, void *context);

/* Makes a new root with these events, at least one. Their instants are stored minus base, and their totals start from
 * `before`. Returns 0 if the arena is full. */
uint32_t weir__history_new(struct weir__arena *arena, uint64_t owner, const struct weir__shape *shape,
			   const struct weir__event *events, uint64_t n, uint64_t before, uint64_t base,
			   weir__history_take *take, void *context);

/* Takes up to n chunks at once. Returns their number. */
typedef uint32_t weir__history_take_some(void *context, uint32_t *numbers, uint32_t n);

/* Units to leave out of a copy, counted from the total before its first event. */
struct weir__cut {
	uint64_t after; /* the units up to this total stay */
	uint64_t units; /* this many units after that are left out, and events that consist only of them */
	bool keeps_newest;
};

/* Makes a new root with the events from `first` on, without the units of the cut. The total of `first` is the total
 * before it. At least one event must be left. Returns 0 if the arena is full. */
uint32_t weir__history_copy(const struct weir__history *history, const struct weir__shape *shape,
			    const struct weir__point *first, const struct weir__cut *cut, weir__history_take_some *take,
			    void *context);

/* Makes the root `to` hold the history from now on. 0: the history is gone. Returns false if the history has
 * changed. */
bool weir__history_move(const struct weir__history *history, uint32_t to);

/* Ends the history of a key with this fingerprint, and leaves the number of its units in its root. The slot needs only
 * that number: see slot.h. Any thread that finds such a root must change the slot next. Returns false if the history is
 * gone or has moved. */
bool weir__history_fold(const struct weir__arena *arena, uint32_t number, uint32_t fingerprint, uint32_t *ret_units);

/* The units of a history, or somewhat more: see weir__history_fold. 0: it is gone. */
uint64_t weir__history_units(const struct weir__arena *arena, uint32_t number);

/* Whether a root was folded. */
bool weir__history_is_folded(const struct weir__arena *arena, uint32_t number, uint32_t fingerprint,
			     uint32_t *ret_units);

/* Whether the owner of the root may be the key of a slot with this fingerprint. */
bool weir__root_is_owned_by(const struct weir__root *root, uint32_t fingerprint);

/* Gives up the root that a slot referred to, if its owner has this fingerprint, and gives back all its chunks. */
void weir__history_give_up(struct weir__arena *arena, uint32_t number, uint32_t fingerprint);

/* Gives back the chunks of a root that has moved or was never published. */
void weir__history_discard(struct weir__arena *arena, uint32_t number);

/* Calls visit for every chunk of a root and of the root that it has moved to. */
void weir__history_visit(const struct weir__arena *arena, uint32_t number,
			 void (*visit)(void *context, uint32_t number), void *context);

#endif
