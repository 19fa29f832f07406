/* history.c: events in a ring of cells. */
#include "store/table/history.h"

#include "core/wide.h"
#include "os/thread.h"

enum {
	POSITION_LOW_BITS = 16,
	REF_BITS = 4,
	CELL_BITS = 61, /* for the time and the total of a one-word cell */
	TIME_BITS_LEAST = 40,
	WIDE_TIME_BITS = 60,
	DEPTH_MOST = 4,
};

/* Stored instead of a root's newest event: the root is gone, has moved, or is folded. */
static const uint64_t gone = UINT64_MAX;

/* Stored instead of the root that it has moved to. The upper half of the word is the number of units. */
static const uint32_t folded = UINT32_MAX;

/* Bits 0 and 62 are set in every cell. Bit 63 is set as long as nothing was written to it. */
static const uint64_t cell_bits = UINT64_C(1) << 62 | 1;
static const uint64_t cell_is_empty = UINT64_C(1) << 63;

static const uint32_t ref_is_empty = UINT32_C(1) << 31;

static uint32_t bits_of(uint64_t n)
{
	return n == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(n);
}

/* Fewer than 64 bits. */
static uint64_t mask_of(uint32_t bits)
{
	return (UINT64_C(1) << bits) - 1;
}

static uint32_t cells_a_leaf(const struct weir__shape *shape)
{
	return shape->time_bits ? WEIR__CHUNK_WORDS : WEIR__CHUNK_PAIRS;
}

/* Expired events may stay for up to one more duration, with their units. The spare bits are for those. */
uint32_t weir__history_time_bits(uint64_t duration, uint64_t units)
{
	const uint32_t bits = bits_of(duration) + 2;
	const uint32_t time_bits = bits < TIME_BITS_LEAST ? TIME_BITS_LEAST : bits;

	return time_bits + bits_of(units) + 3 > CELL_BITS ? 0 : time_bits;
}

struct weir__shape weir__history_shape(uint64_t events, uint64_t duration, uint64_t units)
{
	struct weir__shape shape = { .time_bits = weir__history_time_bits(duration, units) };
	uint64_t leaves;

	leaves = events / cells_a_leaf(&shape) + 1; /* one more event, which is added before the oldest is forgotten */
	shape.leaves = (uint32_t)weir__min(leaves, WEIR__CELLS_MOST / cells_a_leaf(&shape));
	while (shape.depth < DEPTH_MOST && shape.leaves > (uint32_t)WEIR__ROOT_REFS << REF_BITS * shape.depth)
		shape.depth++;
	return shape;
}

uint64_t weir__history_chunks(const struct weir__shape *shape, uint64_t events)
{
	uint64_t at_level = weir__min(events / cells_a_leaf(shape) + 1, shape->leaves), chunks = 1 + at_level;

	for (uint32_t level = 0; level < shape->depth; level++) {
		at_level = (at_level + WEIR__CHUNK_REFS - 1) / WEIR__CHUNK_REFS;
		chunks += at_level;
	}
	return chunks;
}

/* Neither half is ever 0. */
static uint64_t pack_shape(const struct weir__shape *shape)
{
	return (uint64_t)shape->leaves << 32 | UINT32_C(1) << 31 | shape->depth << 8 | shape->time_bits;
}

static bool unpack_shape(uint64_t packed, struct weir__shape *shape)
{
	*shape = (struct weir__shape){ .leaves = (uint32_t)(packed >> 32),
				       .depth = (uint32_t)packed >> 8 & UINT8_MAX,
				       .time_bits = packed & UINT8_MAX };
	return shape->time_bits < CELL_BITS && shape->depth <= DEPTH_MOST && shape->leaves >= 1 &&
	       shape->leaves <= WEIR__CELLS_MOST / cells_a_leaf(shape) &&
	       shape->leaves <= (uint32_t)WEIR__ROOT_REFS << REF_BITS * shape->depth;
}

static struct weir_state pack_point(const struct weir__point *point)
{
	return (struct weir_state){
		.lo = (point->total & WEIR__TOTAL_MASK) | (uint64_t)point->position << WEIR__TOTAL_BITS,
		.hi = point->at << (WEIR__POSITION_BITS - POSITION_LOW_BITS) | point->position >> POSITION_LOW_BITS
	};
}

static struct weir__point unpack_point(struct weir_state packed)
{
	const uint32_t high_bits = WEIR__POSITION_BITS - POSITION_LOW_BITS;

	return (struct weir__point){ .at = packed.hi >> high_bits,
				     .total = packed.lo & WEIR__TOTAL_MASK,
				     .position = (uint32_t)(packed.lo >> WEIR__TOTAL_BITS) |
						 (uint32_t)(packed.hi & mask_of(high_bits)) << POSITION_LOW_BITS };
}

/* Packs a cell. A one-word cell uses only lo. */
static struct weir_state pack_cell(const struct weir__shape *shape, const struct weir__point *point)
{
	const uint32_t total_bits = CELL_BITS - shape->time_bits;

	if (shape->time_bits == 0)
		return (struct weir_state){ point->total << 1 | cell_bits, point->at << 1 | cell_bits };
	return (struct weir_state){ (point->at & mask_of(shape->time_bits)) << (total_bits + 1) |
					    (point->total & mask_of(total_bits)) << 1 | cell_bits,
				    0 };
}

/* Returns false if nothing was written to the cell. A one-word cell holds the low bits of the time and the total. They
 * are extended to the nearest values not after the newest event. */
static bool unpack_cell(const struct weir__history *history, struct weir_state cell, struct weir__point *point)
{
	const uint32_t time_bits = history->shape.time_bits, total_bits = CELL_BITS - time_bits;
	const struct weir__point *const newest = &history->newest;

	if (cell.lo & cell_is_empty || !(cell.lo & 1))
		return false;
	if (time_bits == 0) {
		point->at = cell.hi >> 1 & mask_of(WIDE_TIME_BITS);
		point->total = cell.lo >> 1 & WEIR__TOTAL_MASK;
		return true;
	}
	point->at = newest->at - ((newest->at - (cell.lo >> (total_bits + 1))) & mask_of(time_bits));
	point->total = (newest->total - ((newest->total - (cell.lo >> 1)) & mask_of(total_bits))) & WEIR__TOTAL_MASK;
	return true;
}

static struct weir__root *root_of(const struct weir__arena *arena, uint32_t number)
{
	return (struct weir__root *)(void *)weir__arena_chunk(arena, number);
}

enum weir__history_found weir__history_look(struct weir__arena *arena, uint32_t number, uint64_t owner,
					    struct weir__history *ret_history, uint32_t *ret_moved_to)
{
	struct weir__root *const root = root_of(arena, number);
	struct weir__history *const history = ret_history;
	uint32_t cells;

	if (root == NULL)
		return WEIR__HISTORY_GONE;
	history->arena = arena;
	history->root = root;
	history->number = number;
	history->newest_seen = weir__atomic16_load(&root->newest);
	if (atomic_load(&root->owner) != owner)
		return WEIR__HISTORY_GONE;
	if (history->newest_seen.hi == gone) {
		if ((uint32_t)history->newest_seen.lo == folded)
			return WEIR__HISTORY_FOLDED;
		*ret_moved_to = (uint32_t)history->newest_seen.lo;
		return *ret_moved_to ? WEIR__HISTORY_MOVED : WEIR__HISTORY_GONE;
	}
	history->oldest_seen = weir__atomic16_load(&root->oldest);
	history->newest = unpack_point(history->newest_seen);
	history->oldest = unpack_point(history->oldest_seen);
	if (!unpack_shape(atomic_load(&root->shape), &history->shape))
		return WEIR__HISTORY_GONE;
	cells = weir__shape_cells(&history->shape);
	return history->newest.position < cells && history->oldest.position < cells ? WEIR__HISTORY_THERE :
										      WEIR__HISTORY_GONE;
}

bool weir__history_is_unchanged(const struct weir__history *history)
{
	struct weir_state seen;

	weir__read_barrier(); /* orders all reads before it before this load */
	seen = weir__atomic16_load(&history->root->newest);
	return seen.lo == history->newest_seen.lo && seen.hi == history->newest_seen.hi;
}

bool weir__history_look_again(struct weir__history *history)
{
	const uint32_t cells = weir__shape_cells(&history->shape);

	history->oldest_seen = weir__atomic16_load(&history->root->oldest);
	weir__read_barrier();
	history->newest_seen = weir__atomic16_load(&history->root->newest);
	history->oldest = unpack_point(history->oldest_seen);
	history->newest = unpack_point(history->newest_seen);
	return history->newest_seen.hi != gone && history->newest.position < cells && history->oldest.position < cells;
}

struct weir__point weir__history_oldest_now(const struct weir__history *history)
{
	weir__read_barrier();
	return unpack_point(weir__atomic16_load(&history->root->oldest));
}

/* Finds the reference to a leaf. NULL: an index on the path is missing. */
static _Atomic uint32_t *find_ref(const struct weir__history *history, uint32_t leaf)
{
	_Atomic uint32_t *refs = history->root->refs;

	for (uint32_t level = history->shape.depth;; level--) {
		_Atomic uint32_t *const ref = &refs[leaf >> REF_BITS * level];
		union weir__chunk *index;

		leaf &= (uint32_t)mask_of(REF_BITS * level);
		if (level == 0)
			return ref;
		index = weir__arena_chunk(history->arena, atomic_load(ref));
		if (index == NULL)
			return NULL;
		refs = index->refs;
	}
}

uint32_t weir__history_leaf(const struct weir__history *history, uint32_t leaf)
{
	_Atomic uint32_t *const ref = find_ref(history, leaf);

	return ref ? atomic_load(ref) : 0;
}

static union weir__chunk *find_leaf(const struct weir__history *history, uint32_t position)
{
	_Atomic uint32_t *const ref = find_ref(history, weir__shape_leaf(&history->shape, position));

	return ref ? weir__arena_chunk(history->arena, atomic_load(ref)) : NULL;
}

/* The first index of a root is usually the chunk after it. */
void weir__history_fetch_root(const struct weir__arena *arena, uint32_t number)
{
	const union weir__chunk *const chunk = weir__arena_chunk(arena, number);

	if (chunk == NULL)
		return;
	__builtin_prefetch(chunk, 1);
	__builtin_prefetch(chunk + 1);
}

static void fetch_leaf(const struct weir__history *history, uint32_t position)
{
	const union weir__chunk *const leaf = find_leaf(history, position);

	if (leaf)
		__builtin_prefetch(leaf, 1);
}

/* The chunk may not be a root any more. That does no harm, since the result is only prefetched. */
void weir__history_fetch_leaves(const struct weir__arena *arena, uint32_t number)
{
	struct weir__history history = { .root = root_of(arena, number) };
	uint32_t newest, oldest;

	if (history.root == NULL || !unpack_shape(atomic_load(&history.root->shape), &history.shape))
		return;
	history.arena = (struct weir__arena *)arena;
	newest = unpack_point(weir__atomic16_load(&history.root->newest)).position;
	oldest = unpack_point(weir__atomic16_load(&history.root->oldest)).position;
	if (newest < weir__shape_cells(&history.shape))
		fetch_leaf(&history, newest);
	if (oldest < weir__shape_cells(&history.shape))
		fetch_leaf(&history, oldest);
}

static struct weir_state read_cell(const struct weir__shape *shape, union weir__chunk *leaf, uint32_t position)
{
	if (shape->time_bits == 0)
		return weir__atomic16_load(&leaf->pairs[position % WEIR__CHUNK_PAIRS]);
	return (struct weir_state){ atomic_load(&leaf->words[position % WEIR__CHUNK_WORDS]), 0 };
}

static bool swap_cell(const struct weir__shape *shape, union weir__chunk *leaf, uint32_t position,
		      struct weir_state seen, struct weir_state next)
{
	if (shape->time_bits == 0)
		return weir__atomic16_swap(&leaf->pairs[position % WEIR__CHUNK_PAIRS], seen, next);
	return atomic_compare_exchange_strong(&leaf->words[position % WEIR__CHUNK_WORDS], &seen.lo, next.lo);
}

static bool is_before(uint64_t total, uint64_t other)
{
	return ((other - total) & WEIR__TOTAL_MASK) < UINT64_C(1) << (WEIR__TOTAL_BITS - 1);
}

/* The time and total of an event lie between those of the events around it, unless they are damaged. */
static bool is_between(const struct weir__history *history, const struct weir__point *previous,
		       const struct weir__point *point)
{
	return point->at >= previous->at && point->at <= history->newest.at &&
	       is_before(previous->total, point->total) && is_before(point->total, history->newest.total);
}

/* Returns false if the event is damaged or nothing was written. */
static bool read_event(const struct weir__history *history, uint32_t position, const struct weir__point *previous,
		       struct weir__point *ret_point)
{
	union weir__chunk *const leaf = find_leaf(history, position);
	struct weir__point point = { .position = position };

	if (leaf == NULL || !unpack_cell(history, read_cell(&history->shape, leaf, position), &point) ||
	    !is_between(history, previous, &point))
		return false;
	*ret_point = point;
	return true;
}

bool weir__history_read_at(const struct weir__history *history, uint32_t position, struct weir__point *ret_point)
{
	return read_event(history, position, &(struct weir__point){ .total = history->oldest.total }, ret_point);
}

bool weir__history_next(const struct weir__history *history, struct weir__point *point)
{
	const uint32_t cells = weir__shape_cells(&history->shape);

	for (uint32_t position = point->position; position != history->newest.position;) {
		position = position + 1 == cells ? 0 : position + 1;
		if (position == history->newest.position) {
			*point = history->newest;
			return true;
		}
		if (read_event(history, position, point, point))
			return true;
	}
	return false;
}

struct weir__point weir__history_first(const struct weir__history *history)
{
	struct weir__point point = history->oldest;

	if (point.position == history->newest.position || point.total == history->newest.total)
		return history->newest;
	if (!read_event(history, point.position, &history->oldest, &point))
		point.position = history->oldest.position;
	return point;
}

enum weir__history_done weir__history_merge(const struct weir__history *history, uint64_t at, uint64_t total)
{
	const struct weir__point next = { at, total, history->newest.position };
	const struct weir__point oldest = { at, history->oldest.total, history->oldest.position };

	/* The newest event is also the oldest, and moves to a later instant. */
	if (history->oldest.position == history->newest.position && history->oldest.at != at &&
	    !weir__atomic16_swap(&history->root->oldest, history->oldest_seen, pack_point(&oldest)))
		return WEIR__HISTORY_OUTRUN;
	return weir__atomic16_swap(&history->root->newest, history->newest_seen, pack_point(&next)) ?
		       WEIR__HISTORY_DONE :
		       WEIR__HISTORY_OUTRUN;
}

void weir__history_forget(const struct weir__history *history, const struct weir__point *from,
			  const struct weir__point *to)
{
	(void)weir__atomic16_swap(&history->root->oldest, pack_point(from), pack_point(to));
}

static void empty_leaf(union weir__chunk *leaf)
{
	const uint64_t nonce = (uint64_t)weir__thread_nonce() << 32 | weir__thread_nonce();

	for (uint32_t i = 0; i < WEIR__CHUNK_WORDS; i++)
		atomic_store_explicit(&leaf->words[i], nonce | cell_is_empty | cell_bits, memory_order_relaxed);
}

/* An empty reference has a different nonce each time, so that the swap of a late thread fails. No chunk has such a
 * number. */
static void empty_refs(_Atomic uint32_t *refs, uint32_t n)
{
	const uint32_t nothing = weir__thread_nonce() | ref_is_empty;

	for (uint32_t i = 0; i < n; i++)
		atomic_store_explicit(&refs[i], nothing, memory_order_relaxed);
}

/* Returns the chunk that a reference refers to, and makes it if it does not exist. Returns 0 if the arena is full or
 * the history has changed. */
static uint32_t make_ref(const struct weir__history *history, _Atomic uint32_t *ref, bool is_leaf,
			 weir__history_take *take, void *context)
{
	uint32_t seen = atomic_load(ref), number;
	union weir__chunk *chunk;

	if (!(seen & ref_is_empty))
		return seen;
	if (!weir__history_is_unchanged(history)) /* then the chunk may hold other data here, not a reference */
		return 0;
	number = take(context);
	chunk = weir__arena_chunk(history->arena, number);
	if (chunk == NULL)
		return 0;
	if (is_leaf)
		empty_leaf(chunk);
	else
		empty_refs(chunk->refs, WEIR__CHUNK_REFS);
	if (atomic_compare_exchange_strong(ref, &seen, number))
		return number;
	weir__arena_give(history->arena, number);
	return seen;
}

static union weir__chunk *make_leaf(const struct weir__history *history, uint32_t position, weir__history_take *take,
				    void *context)
{
	uint32_t leaf = weir__shape_leaf(&history->shape, position);
	_Atomic uint32_t *refs = history->root->refs;

	for (uint32_t level = history->shape.depth;; level--) {
		_Atomic uint32_t *const ref = &refs[leaf >> REF_BITS * level];
		union weir__chunk *const chunk = weir__arena_chunk(history->arena,
								   make_ref(history, ref, level == 0, take, context));

		leaf &= (uint32_t)mask_of(REF_BITS * level);
		if (chunk == NULL || level == 0)
			return chunk;
		refs = chunk->refs;
	}
}

/* Writes the newest event to its cell while it is still the newest. */
static enum weir__history_done file_newest(const struct weir__history *history, weir__history_take *take, void *context)
{
	const struct weir_state filed = pack_cell(&history->shape, &history->newest);
	const uint32_t position = history->newest.position;
	union weir__chunk *const leaf = make_leaf(history, position, take, context);
	struct weir_state seen;

	if (leaf == NULL)
		return weir__history_is_unchanged(history) ? WEIR__HISTORY_FULL : WEIR__HISTORY_OUTRUN;
	seen = read_cell(&history->shape, leaf, position);
	if (!weir__history_is_unchanged(history)) /* then the cell may be of a later round of the ring */
		return WEIR__HISTORY_OUTRUN;
	if (seen.lo == filed.lo && seen.hi == filed.hi)
		return WEIR__HISTORY_DONE;
	if (swap_cell(&history->shape, leaf, position, seen, filed))
		return WEIR__HISTORY_DONE;
	seen = read_cell(&history->shape, leaf, position);
	return seen.lo == filed.lo && seen.hi == filed.hi ? WEIR__HISTORY_DONE : WEIR__HISTORY_OUTRUN;
}

enum weir__history_done weir__history_push(const struct weir__history *history, uint64_t at, uint64_t total,
					   const struct weir__point *oldest, weir__history_take *take, void *context)
{
	const uint32_t cells = weir__shape_cells(&history->shape);
	const uint32_t position = history->newest.position + 1 == cells ? 0 : history->newest.position + 1;
	const struct weir__point next = { at, total, position };
	const bool moves = oldest->position != history->oldest.position || oldest->at != history->oldest.at ||
			   oldest->total != history->oldest.total;
	/* Whether the oldest event is moved before the new one is added: if its position is needed, or if its time
	 * could be mistaken for a later one. Otherwise it is moved afterwards. Then a clock that was ahead does not
	 * make the history forget anything if the new event is never added. */
	const bool is_first = position == history->oldest.position ||
			      (history->shape.time_bits &&
			       (at - history->oldest.at) >> (history->shape.time_bits - 1) != 0);
	enum weir__history_done done;

	/* The ring is full, unless no event is kept: then the event that is pushed becomes the oldest. */
	if (position == oldest->position && oldest->total != history->newest.total)
		return WEIR__HISTORY_FULL;
	done = file_newest(history, take, context);
	if (done != WEIR__HISTORY_DONE)
		return done;
	if (moves && is_first && !weir__atomic16_swap(&history->root->oldest, history->oldest_seen, pack_point(oldest)))
		return WEIR__HISTORY_OUTRUN;
	if (!weir__atomic16_swap(&history->root->newest, history->newest_seen, pack_point(&next)))
		return WEIR__HISTORY_OUTRUN;
	if (moves && !is_first) /* if this fails, a later push moves it */
		(void)weir__atomic16_swap(&history->root->oldest, history->oldest_seen, pack_point(oldest));
	return WEIR__HISTORY_DONE;
}

/* For a root that is not published yet. Only threads that knew the chunk in its previous use may still read it. */
static void set_pair(union weir__atomic16 *pair, struct weir_state state)
{
	__atomic_store_n(&pair->state.lo, state.lo, __ATOMIC_SEQ_CST);
	__atomic_store_n(&pair->state.hi, state.hi, __ATOMIC_SEQ_CST);
}

static void begin_root(struct weir__root *root, uint64_t owner, const struct weir__shape *shape)
{
	set_pair(&root->newest, (struct weir_state){ 0, gone });
	empty_refs(root->refs, WEIR__ROOT_REFS);
	atomic_store(&root->owner, owner);
	atomic_store(&root->shape, pack_shape(shape));
}

uint32_t weir__history_new(struct weir__arena *arena, uint64_t owner, const struct weir__shape *shape,
			   const struct weir__event *events, uint64_t n, uint64_t before, uint64_t base,
			   weir__history_take *take, void *context)
{
	const uint64_t start = (uint64_t)weir__thread_nonce() << 32 | weir__thread_nonce();
	const uint32_t number = take(context);
	struct weir__history history = {
		.arena = arena,
		.root = root_of(arena, number),
		.number = number,
		.newest_seen = { 0, gone },
		.shape = *shape,
	};
	struct weir__point point = { .at = events[0].at - base, .total = (start + before) & WEIR__TOTAL_MASK };

	if (history.root == NULL)
		return 0;
	begin_root(history.root, owner, shape);
	set_pair(&history.root->oldest, pack_point(&point));
	if (shape->depth > 0) /* made now so that it is usually the chunk next to the root */
		(void)make_ref(&history, &history.root->refs[0], false, take, context);
	for (uint64_t i = 0; i < n; i++) {
		point.at = events[i].at - base;
		point.total = (start + events[i].total) & WEIR__TOTAL_MASK;
		point.position = (uint32_t)i;
		if (i + 1 < n) {
			union weir__chunk *const leaf = make_leaf(&history, point.position, take, context);

			if (leaf == NULL) {
				weir__history_discard(arena, number);
				return 0;
			}
			(void)swap_cell(shape, leaf, point.position, read_cell(shape, leaf, point.position),
					pack_cell(shape, &point));
		}
	}
	(void)weir__atomic16_swap(&history.root->newest, (struct weir_state){ 0, gone }, pack_point(&point));
	return number;
}

enum { RUN_MOST = 64 };

/* A copy in progress: its events are added one after the other, and written leaf by leaf. The copy is not published, so
 * plain stores are enough. Threads that knew the chunks in their previous use may try to swap, and fail. */
struct copy {
	struct weir__arena *arena;
	struct weir__root *root;
	struct weir__shape shape;
	_Atomic uint32_t *refs; /* to leaves: of the root, or of the index for `leaf` */
	uint32_t leaf;
	uint32_t n_words;
	uint64_t words[WEIR__CHUNK_WORDS];
	weir__history_take_some *take;
	void *context;
	uint32_t run[RUN_MOST], n_run; /* chunks that were taken together and not used yet */
	uint64_t needed;               /* chunks still to be taken, at most */
};

static uint32_t take_from_run(struct copy *copy)
{
	if (copy->n_run == 0 && copy->needed > 0) {
		copy->n_run = copy->take(copy->context, copy->run, (uint32_t)weir__min(copy->needed, RUN_MOST));
		copy->needed -= copy->n_run;
	}
	return copy->n_run ? copy->run[--copy->n_run] : 0;
}

/* Makes the indexes above a leaf, as far as they are missing. Returns false if the arena is full. */
static bool make_indexes(struct copy *copy)
{
	uint32_t leaf = copy->leaf;

	copy->refs = copy->root->refs;
	for (uint32_t level = copy->shape.depth; level > 0; level--) {
		_Atomic uint32_t *const ref = &copy->refs[leaf >> REF_BITS * level];
		uint32_t number = atomic_load_explicit(ref, memory_order_relaxed);
		union weir__chunk *index;

		leaf &= (uint32_t)mask_of(REF_BITS * level);
		if (number & ref_is_empty) {
			number = take_from_run(copy);
			index = weir__arena_chunk(copy->arena, number);
			if (index == NULL)
				return false;
			empty_refs(index->refs, WEIR__CHUNK_REFS);
			atomic_store_explicit(ref, number, memory_order_release);
		}
		index = weir__arena_chunk(copy->arena, number);
		if (index == NULL)
			return false;
		copy->refs = index->refs;
	}
	return true;
}

static bool write_leaf(struct copy *copy)
{
	const bool is_first = copy->shape.depth > 0 && copy->leaf % WEIR__CHUNK_REFS == 0;
	const uint32_t place = copy->shape.depth > 0 ? copy->leaf % WEIR__CHUNK_REFS : copy->leaf;
	union weir__chunk *leaf;
	uint32_t number;

	if ((is_first || copy->leaf == 0) && !make_indexes(copy))
		return false;
	number = take_from_run(copy);
	leaf = weir__arena_chunk(copy->arena, number);
	if (leaf == NULL)
		return false;
	if (copy->n_words < WEIR__CHUNK_WORDS)
		empty_leaf(leaf);
	for (uint32_t i = 0; i < copy->n_words; i++)
		atomic_store_explicit(&leaf->words[i], copy->words[i], memory_order_relaxed);
	atomic_store_explicit(&copy->refs[place], number, memory_order_release);
	copy->leaf++;
	copy->n_words = 0;
	return true;
}

static bool add_to_copy(struct copy *copy, const struct weir__point *point)
{
	const struct weir_state cell = pack_cell(&copy->shape, point);

	copy->words[copy->n_words++] = cell.lo;
	if (copy->shape.time_bits == 0)
		copy->words[copy->n_words++] = cell.hi;
	return copy->n_words < WEIR__CHUNK_WORDS || write_leaf(copy);
}

static uint64_t total_without(const struct weir__cut *cut, uint64_t total)
{
	if (total <= cut->after)
		return total;
	return total - cut->after <= cut->units ? cut->after : total - cut->units;
}

/* Leaves in the order of their positions. References to 16 of them lie side by side. */
struct leaf_walk {
	const struct weir__history *history;
	_Atomic uint32_t *ref; /* NULL: an index is missing */
};

static union weir__chunk *next_leaf(struct leaf_walk *walk, uint32_t leaf, bool is_first)
{
	const struct weir__history *const history = walk->history;
	const uint32_t ahead = 4;

	if (is_first || leaf % WEIR__CHUNK_REFS == 0)
		walk->ref = find_ref(history, leaf);
	else if (walk->ref)
		walk->ref++;
	if (walk->ref == NULL)
		return NULL;
	if (history->shape.depth > 0 && leaf % WEIR__CHUNK_REFS + ahead < WEIR__CHUNK_REFS) {
		const uint32_t number = atomic_load_explicit(walk->ref + ahead, memory_order_relaxed);

		__builtin_prefetch(weir__arena_chunk(history->arena, number));
	}
	return weir__arena_chunk(history->arena, atomic_load(walk->ref));
}

/* Adds all events that are left but the newest, which is *ret_newest. It is inlined twice, specialised, since a refund
 * spends most of its time here. */
static inline __attribute__((always_inline)) bool copy_cells(const struct weir__history *history, bool is_wide,
							     const struct weir__point *first,
							     const struct weir__cut *cut, uint64_t start,
							     struct copy *copy, struct weir__point *ret_oldest,
							     struct weir__point *ret_newest)
{
	const struct weir__shape shape = { .leaves = history->shape.leaves,
					   .depth = history->shape.depth,
					   .time_bits = is_wide ? 0 : history->shape.time_bits };
	const struct weir__history of = { .newest = history->newest, .shape = shape };
	const uint32_t cells = weir__shape_cells(&shape), each = cells_a_leaf(&shape);
	struct leaf_walk walk = { .history = history };
	struct weir__point previous = *first, next = { 0 };
	uint64_t kept = 0;
	bool has_next = false;
	union weir__chunk *leaf = next_leaf(&walk, weir__shape_leaf(&shape, first->position), true);

	for (uint32_t position = first->position;;) {
		const bool is_newest = position == of.newest.position;
		struct weir__point point = of.newest;

		if (is_newest || (leaf && unpack_cell(&of, read_cell(&shape, leaf, position), &point) &&
				  is_between(&of, &previous, &point))) {
			const uint64_t total = total_without(cut, (point.total - first->total) & WEIR__TOTAL_MASK);

			previous = point;
			if (total != kept || (is_newest && cut->keeps_newest)) {
				if (has_next && !add_to_copy(copy, &next))
					return false;
				next = (struct weir__point){ point.at, (start + total) & WEIR__TOTAL_MASK,
							     next.position + has_next };
				if (!has_next)
					*ret_oldest = (struct weir__point){ point.at, start, 0 };
				has_next = true;
				kept = total;
			}
		}
		if (is_newest)
			break;
		position = position + 1 == cells ? 0 : position + 1;
		if ((position & (each - 1)) == 0)
			leaf = next_leaf(&walk, weir__shape_leaf(&shape, position), false);
	}
	*ret_newest = next;
	return has_next && next.position < weir__shape_cells(&copy->shape) && (copy->n_words == 0 || write_leaf(copy));
}

static bool copy_events(const struct weir__history *history, const struct weir__point *first,
			const struct weir__cut *cut, uint64_t start, struct copy *copy, struct weir__point *ret_oldest,
			struct weir__point *ret_newest)
{
	if (history->shape.time_bits == 0)
		return copy_cells(history, true, first, cut, start, copy, ret_oldest, ret_newest);
	return copy_cells(history, false, first, cut, start, copy, ret_oldest, ret_newest);
}

uint32_t weir__history_copy(const struct weir__history *history, const struct weir__shape *shape,
			    const struct weir__point *first, const struct weir__cut *cut, weir__history_take_some *take,
			    void *context)
{
	const uint64_t start = ((uint64_t)weir__thread_nonce() << 32 | weir__thread_nonce()) & WEIR__TOTAL_MASK;
	const uint32_t cells = weir__shape_cells(&history->shape);
	const uint32_t n = (history->newest.position + cells - first->position) %
			   cells; /* and the newest, in the root */
	struct copy copy = { .arena = history->arena, .shape = *shape, .take = take, .context = context, .needed = 1 };
	struct weir__point oldest, newest;
	uint32_t number;

	if (n > 0)
		copy.needed = weir__history_chunks(shape, n - 1);
	number = take_from_run(&copy);
	copy.root = root_of(history->arena, number);
	if (copy.root == NULL)
		return 0;
	begin_root(copy.root, atomic_load(&history->root->owner), shape);
	if (copy_events(history, first, cut, start, &copy, &oldest, &newest)) {
		set_pair(&copy.root->oldest, pack_point(&oldest));
		(void)weir__atomic16_swap(&copy.root->newest, (struct weir_state){ 0, gone }, pack_point(&newest));
	} else {
		weir__history_discard(history->arena, number);
		number = 0;
	}
	while (copy.n_run > 0)
		weir__arena_give(history->arena, copy.run[--copy.n_run]);
	return number;
}

bool weir__history_move(const struct weir__history *history, uint32_t to)
{
	return weir__atomic16_swap(&history->root->newest, history->newest_seen, (struct weir_state){ to, gone });
}

static void visit_refs(const struct weir__arena *arena, _Atomic uint32_t *refs, uint32_t n, uint32_t level,
		       void (*visit)(void *context, uint32_t number), void *context)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t number = atomic_load(&refs[i]);
		union weir__chunk *const chunk = weir__arena_chunk(arena, number);

		if (chunk == NULL)
			continue;
		if (level > 0)
			visit_refs(arena, chunk->refs, WEIR__CHUNK_REFS, level - 1, visit, context);
		visit(context, number);
	}
}

/* Visits the chunks below a root, then the root itself. */
static void visit_root(const struct weir__arena *arena, uint32_t number, void (*visit)(void *context, uint32_t number),
		       void *context)
{
	struct weir__root *const root = root_of(arena, number);
	struct weir__shape shape;

	if (unpack_shape(atomic_load(&root->shape), &shape))
		visit_refs(arena, root->refs, WEIR__ROOT_REFS, shape.depth, visit, context);
	visit(context, number);
}

void weir__history_visit(const struct weir__arena *arena, uint32_t number,
			 void (*visit)(void *context, uint32_t number), void *context)
{
	struct weir__root *root;

	for (int moves = 0; moves < 2 && (root = root_of(arena, number)) != NULL; moves++) {
		const struct weir_state newest = weir__atomic16_load(&root->newest);

		visit_root(arena, number, visit, context);
		if (newest.hi != gone)
			return;
		number = (uint32_t)newest.lo;
	}
}

/* Each reference becomes a different empty one. A late thread that adds another chunk then fails and gives it back
 * itself. */
static void give_refs(struct weir__arena *arena, _Atomic uint32_t *refs, uint32_t n, uint32_t level)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t number = atomic_exchange(&refs[i], ref_is_empty);
		union weir__chunk *const chunk = weir__arena_chunk(arena, number);

		if (chunk == NULL)
			continue;
		if (level > 0)
			give_refs(arena, chunk->refs, WEIR__CHUNK_REFS, level - 1);
		weir__arena_give(arena, number);
	}
}

void weir__history_discard(struct weir__arena *arena, uint32_t number)
{
	struct weir__root *const root = root_of(arena, number);
	struct weir__shape shape;

	if (root == NULL)
		return;
	if (unpack_shape(atomic_load(&root->shape), &shape))
		give_refs(arena, root->refs, WEIR__ROOT_REFS, shape.depth);
	weir__arena_give(arena, number);
}

bool weir__history_is_folded(const struct weir__arena *arena, uint32_t number, uint32_t fingerprint,
			     uint32_t *ret_units)
{
	struct weir__root *const root = root_of(arena, number);
	struct weir_state newest;

	if (root == NULL)
		return false;
	newest = weir__atomic16_load(&root->newest);
	*ret_units = (uint32_t)(newest.lo >> 32);
	return newest.hi == gone && (uint32_t)newest.lo == folded && weir__root_is_owned_by(root, fingerprint);
}

/* The oldest event may lag behind, so the result may include units that did not count any more at the newest event. */
static uint64_t units_since_oldest(struct weir__root *root, struct weir_state newest)
{
	return (unpack_point(newest).total - unpack_point(weir__atomic16_load(&root->oldest)).total) & WEIR__TOTAL_MASK;
}

uint64_t weir__history_units(const struct weir__arena *arena, uint32_t number)
{
	struct weir__root *const root = root_of(arena, number);
	struct weir_state newest;

	if (root == NULL)
		return 0;
	newest = weir__atomic16_load(&root->newest);
	if (newest.hi != gone)
		return units_since_oldest(root, newest);
	return (uint32_t)newest.lo == folded ? newest.lo >> 32 : 0;
}

bool weir__history_fold(const struct weir__arena *arena, uint32_t number, uint32_t fingerprint, uint32_t *ret_units)
{
	struct weir__root *const root = root_of(arena, number);

	for (;;) {
		struct weir_state newest;

		if (root == NULL || weir__history_is_folded(arena, number, fingerprint, ret_units))
			return root != NULL;
		newest = weir__atomic16_load(&root->newest);
		if (newest.hi == gone || !weir__root_is_owned_by(root, fingerprint))
			return false;
		*ret_units = (uint32_t)weir__min(units_since_oldest(root, newest), UINT32_MAX);
		if (weir__atomic16_swap(&root->newest, newest,
					(struct weir_state){ (uint64_t)*ret_units << 32 | folded, gone }))
			return true;
	}
}

bool weir__root_is_owned_by(const struct weir__root *root, uint32_t fingerprint)
{
	const uint32_t bits = (uint32_t)atomic_load(&root->owner);

	return (bits | 1) == (fingerprint | 1); /* the lowest bit is the group's: see weir__fingerprint_in */
}

void weir__history_give_up(struct weir__arena *arena, uint32_t number, uint32_t fingerprint)
{
	struct weir__root *root;

	while ((root = root_of(arena, number)) != NULL) {
		const struct weir_state newest = weir__atomic16_load(&root->newest);

		if (!weir__root_is_owned_by(root, fingerprint) || (newest.hi == gone && newest.lo == 0))
			return; /* another thread has given it up, or the chunk has another owner */
		if (!weir__atomic16_swap(&root->newest, newest, (struct weir_state){ 0, gone }))
			continue;
		weir__history_discard(arena, number);
		if (newest.hi != gone)
			return;
		number = (uint32_t)newest.lo;
	}
}
