/* log_order.c: buckets of seconds. */
#include "replay/log_order.h"

#include <stdlib.h>

enum {
	CHUNK_BYTES = 256 * 1024,
	MOVES = 8, /* of each entry, on average */
};

/* Memory for records. It is aligned to CHUNK_BYTES and all its records begin within these, so that the address of a
 * record gives its chunk. A longer record has a chunk of its own: several attributes may have the value of one long
 * field. */
struct chunk {
	size_t size;
	uint32_t live; /* records in it that are still needed, and 1 while it is being filled */
	uint32_t used;
	struct chunk *next; /* in the list of free chunks */
};

enum { CHUNK_HEAD = (sizeof(struct chunk) + 15) / 16 * 16 };

/* A record that waits. */
struct entry {
	weir_ns at; /* its stamp, then its arrival */
	uint64_t sequence;
	struct weir__log_record *record;
};

struct entries {
	struct entry *of;
	size_t n, room;
	bool is_unsorted;
};

/* Buckets for the seconds base..base + mask. */
struct seconds {
	uint64_t base, newest;
	uint64_t mask;
	bool has_begun;
	struct entries *ring;
};

struct weir__log_order {
	size_t n_values;
	uint64_t reorder_s;
	size_t held_max, held;
	uint64_t sequence;
	struct chunk *filling, *free;
	struct seconds stamps, arrivals;
	bool has_durations; /* a line had one: records wait by arrival, too */
	bool is_ending;
	struct {
		const struct weir__log_record **of;
		size_t at, n, room;
		size_t taken; /* the last call returned of[at - taken..at) */
	} ready;
	weir_ns last; /* the arrival of the last record that became ready */
	struct weir__log_order_counts counts;
};

/* --- memory ------------------------------------------------------------------------------------------------------ */

static struct chunk *chunk_of(const struct weir__log_record *record)
{
	return (struct chunk *)((uintptr_t)record & ~(uintptr_t)(CHUNK_BYTES - 1));
}

static void drop(struct weir__log_order *order, struct chunk *chunk)
{
	if (--chunk->live > 0)
		return;
	order->held -= chunk->size;
	if (chunk->size > CHUNK_BYTES) {
		free(chunk);
		return;
	}
	chunk->next = order->free;
	order->free = chunk;
}

static struct chunk *make_chunk(struct weir__log_order *order, size_t least)
{
	const size_t size = (least + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
	struct chunk *chunk = size == CHUNK_BYTES ? order->free : NULL;

	if (chunk)
		order->free = chunk->next;
	else
		chunk = aligned_alloc(CHUNK_BYTES, size);
	if (chunk == NULL)
		return NULL;
	*chunk = (struct chunk){ .size = size, .live = 1, .used = CHUNK_HEAD };
	order->held += size;
	return chunk;
}

static struct weir__log_record *make_record(struct weir__log_order *order, size_t bytes)
{
	struct chunk *chunk = order->filling;
	struct weir__log_record *record;

	bytes = (bytes + 15) / 16 * 16;
	if (chunk == NULL || chunk->size - chunk->used < bytes) {
		if (chunk)
			drop(order, chunk);
		chunk = order->filling = make_chunk(order, CHUNK_HEAD + bytes);
		if (chunk == NULL)
			return NULL;
	}
	record = (struct weir__log_record *)((char *)chunk + chunk->used);
	chunk->used += (uint32_t)bytes;
	chunk->live++;
	if (chunk->size > CHUNK_BYTES) { /* the next record would begin too far from its start */
		drop(order, chunk);
		order->filling = NULL;
	}
	return record;
}

static bool append(struct entries *entries, struct entry entry)
{
	if (entries->n == entries->room) {
		const size_t room = entries->room ? 2 * entries->room : 64;
		struct entry *const of = realloc(entries->of, room * sizeof(entry));

		if (of == NULL)
			return false;
		entries->of = of;
		entries->room = room;
	}
	entries->is_unsorted |= entries->n > 0 && entries->of[entries->n - 1].at > entry.at;
	entries->of[entries->n++] = entry;
	return true;
}

/* --- becoming ready ---------------------------------------------------------------------------------------------- */

static int compare(const void *a_, const void *b_)
{
	const struct entry *const a = a_, *const b = b_;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Requests arrive in nearly the order of their completion, so few moves sort them. If they need more, qsort does it. */
static void sort(struct entry *of, size_t n)
{
	size_t moves = MOVES * n;

	for (size_t i = 1; i < n; i++) {
		const struct entry entry = of[i];
		size_t at = i;

		for (; at > 0 && compare(&of[at - 1], &entry) > 0; at--)
			of[at] = of[at - 1];
		of[at] = entry;
		if (i - at > moves) {
			qsort(of, n, sizeof(*of), compare);
			return;
		}
		moves -= i - at;
	}
}

/* The records of a second, in the order of their arrival. */
static bool make_ready(struct weir__log_order *order, struct entries *entries)
{
	if (order->ready.at == order->ready.n && order->ready.taken == 0)
		order->ready.at = order->ready.n = 0;
	if (order->ready.room - order->ready.n < entries->n) {
		const size_t room = order->ready.n + entries->n + order->ready.room;
		const struct weir__log_record **const of = realloc(order->ready.of, room * sizeof(*of));

		if (of == NULL)
			return false;
		order->ready.of = of;
		order->ready.room = room;
	}
	if (entries->is_unsorted)
		sort(entries->of, entries->n);
	for (size_t i = 0; i < entries->n; i++) {
		struct weir__log_record *const record = entries->of[i].record;

		record->arrival = entries->of[i].at;
		if (record->arrival < order->last) {
			if (order->last - record->arrival > order->counts.latest_late)
				order->counts.latest_late = order->last - record->arrival;
			record->arrival = order->last;
			record->is_late = true;
			order->counts.late++;
		}
		order->last = record->arrival;
		order->ready.of[order->ready.n++] = record;
	}
	order->counts.records += entries->n;
	entries->n = 0;
	entries->is_unsorted = false;
	return true;
}

static bool release_stamps(struct weir__log_order *order);
static bool release_arrivals(struct weir__log_order *order);

/* Puts an entry into the bucket of a second. An entry older than all buckets goes into the first. If the second is
 * beyond the last bucket, `release` empties the first buckets. */
static bool put(struct weir__log_order *order, struct seconds *seconds, bool (*release)(struct weir__log_order *),
		uint64_t second, struct entry entry)
{
	if (!seconds->has_begun) {
		seconds->base = second > order->reorder_s ? second - order->reorder_s : 0;
		seconds->newest = second;
		seconds->has_begun = true;
	}
	if (second > seconds->newest)
		seconds->newest = second;
	while (second > seconds->base + seconds->mask)
		if (!release(order))
			return false;
	if (second < seconds->base)
		second = seconds->base;
	return append(&seconds->ring[second & seconds->mask], entry);
}

/* The next base: the following second, or a later one if the buckets up to it are empty. The newest second stays, since
 * more lines of it may follow. */
static void move_on(struct seconds *seconds)
{
	if (seconds->base == seconds->newest)
		return;
	seconds->base++;
	if (seconds->newest <= seconds->base + seconds->mask)
		return;
	for (uint64_t i = 0; i <= seconds->mask; i++)
		if (seconds->ring[i].n > 0)
			return;
	seconds->base = seconds->newest - seconds->mask;
}

static bool release_arrivals(struct weir__log_order *order)
{
	struct seconds *const arrivals = &order->arrivals;

	if (!make_ready(order, &arrivals->ring[arrivals->base & arrivals->mask]))
		return false;
	move_on(arrivals);
	return true;
}

/* Spreads the lines without a fraction evenly over the second. Lines of an earlier second are late, and keep their
 * times. */
static void spread(struct weir__log_order *order, struct entries *entries, uint64_t second)
{
	const weir_ns start = second * WEIR__LOG_SECOND;
	uint64_t n = 0, i = 0;

	for (size_t j = 0; j < entries->n; j++)
		n += entries->of[j].record->is_spread && entries->of[j].at == start;
	if (n == 0)
		return;
	for (size_t j = 0; j < entries->n; j++)
		if (entries->of[j].record->is_spread && entries->of[j].at == start)
			entries->of[j].at += i++ * WEIR__LOG_SECOND / n;
	order->counts.spread += n;
	entries->is_unsorted |= n < entries->n;
}

static bool release_stamps(struct weir__log_order *order)
{
	struct seconds *const stamps = &order->stamps;
	struct entries *const entries = &stamps->ring[stamps->base & stamps->mask];
	const uint64_t second = stamps->base;

	spread(order, entries, second);
	if (!order->has_durations) {
		if (!make_ready(order, entries))
			return false;
	} else {
		for (size_t i = 0; i < entries->n; i++) {
			struct entry entry = entries->of[i];
			const weir_ns duration = entry.record->arrival; /* kept there until the arrival is known */

			entry.at -= duration < entry.at ? duration : entry.at;
			if (!put(order, &order->arrivals, release_arrivals, entry.at / WEIR__LOG_SECOND, entry))
				return false;
		}
		entries->n = 0;
		entries->is_unsorted = false;
	}
	move_on(stamps);
	while (order->arrivals.has_begun && order->arrivals.base + order->reorder_s < stamps->base) {
		const bool is_newest = order->arrivals.base == order->arrivals.newest;

		if (!release_arrivals(order))
			return false;
		if (is_newest) /* the base stays there: the log has a gap */
			break;
	}
	return true;
}

/* --- in and out -------------------------------------------------------------------------------------------------- */

static bool make_seconds(struct seconds *seconds, uint64_t reorder_s)
{
	uint64_t n = 1;

	while (n < reorder_s + 2)
		n *= 2;
	seconds->mask = n - 1;
	seconds->ring = calloc(n, sizeof(seconds->ring[0]));
	return seconds->ring != NULL;
}

struct weir__log_order *weir__log_order_new(size_t n_values, weir_ns reorder, size_t held_max)
{
	struct weir__log_order *const order = calloc(1, sizeof(*order));

	if (order == NULL)
		return NULL;
	order->n_values = n_values;
	order->reorder_s = (reorder + WEIR__LOG_SECOND - 1) / WEIR__LOG_SECOND;
	order->held_max = held_max;
	if (!make_seconds(&order->stamps, order->reorder_s) || !make_seconds(&order->arrivals, order->reorder_s)) {
		weir__log_order_free(order);
		return NULL;
	}
	return order;
}

static struct weir__log_record *copy(struct weir__log_order *order, const struct weir__log_line *line)
{
	size_t bytes = sizeof(struct weir__log_record) + order->n_values * sizeof(struct weir__slice);
	struct weir__log_record *record;
	char *to;

	for (size_t i = 0; i < order->n_values; i++)
		bytes += line->values[i].at ? line->values[i].n : 0;
	record = make_record(order, bytes);
	if (record == NULL)
		return NULL;
	to = (char *)&record->values[order->n_values];
	for (size_t i = 0; i < order->n_values; i++) {
		const struct weir__slice value = line->values[i];

		record->values[i] = (struct weir__slice){ value.at ? to : NULL, value.n };
		if (value.at) {
			memcpy(to, value.at, value.n);
			to += value.n;
		}
	}
	return record;
}

/* Releases seconds, the newest last. If `is_enough`, only until records are ready. */
static bool release_all(struct weir__log_order *order, struct seconds *seconds,
			bool (*release)(struct weir__log_order *), bool is_enough)
{
	bool is_last = !seconds->has_begun;

	while (!is_last && !(is_enough && order->ready.at < order->ready.n)) {
		is_last = seconds->base == seconds->newest;
		if (!release(order))
			return false;
	}
	return true;
}

/* Makes the oldest records ready although older ones may follow, because too much memory is held. */
static bool release_early(struct weir__log_order *order)
{
	order->counts.released_early++;
	return release_all(order, &order->stamps, release_stamps, true) &&
	       release_all(order, &order->arrivals, release_arrivals, true);
}

bool weir__log_order_add(struct weir__log_order *order, const struct weir__log_line *line, uint32_t input,
			 uint64_t number)
{
	struct seconds *const stamps = &order->stamps;
	const uint64_t second = line->stamp.at / WEIR__LOG_SECOND;
	struct weir__log_record *const record = copy(order, line);

	if (record == NULL)
		return false;
	record->arrival = line->has_duration && !line->is_start ? line->duration : 0;
	record->cost = line->cost;
	record->bytes = line->bytes;
	record->line = number;
	record->input = input;
	record->status = line->status;
	record->is_spread = line->stamp.is_whole_second;
	record->is_late = false;
	record->recorded = NULL;
	order->has_durations |= record->arrival > 0;
	if (!put(order, stamps, release_stamps, second, (struct entry){ line->stamp.at, order->sequence++, record }))
		return false;
	while (stamps->base + order->reorder_s < stamps->newest)
		if (!release_stamps(order))
			return false;
	return order->held <= order->held_max || order->ready.at < order->ready.n || release_early(order);
}

bool weir__log_order_end(struct weir__log_order *order)
{
	return release_all(order, &order->stamps, release_stamps, false) &&
	       release_all(order, &order->arrivals, release_arrivals, false);
}

size_t weir__log_order_take(struct weir__log_order *order, size_t most,
			    const struct weir__log_record *const **ret_records)
{
	size_t n = order->ready.n - order->ready.at;

	for (size_t i = order->ready.at - order->ready.taken; i < order->ready.at; i++)
		drop(order, chunk_of(order->ready.of[i]));
	if (n > most)
		n = most;
	*ret_records = order->ready.of + order->ready.at;
	order->ready.at += n;
	order->ready.taken = n;
	return n;
}

const struct weir__log_order_counts *weir__log_order_counts(const struct weir__log_order *order)
{
	return &order->counts;
}

static void free_chunks(struct weir__log_order *order)
{
	struct chunk *chunk;

	while ((chunk = order->free) != NULL) {
		order->free = chunk->next;
		free(chunk);
	}
}

static void free_seconds(struct weir__log_order *order, struct seconds *seconds)
{
	for (uint64_t i = 0; seconds->ring && i <= seconds->mask; i++) {
		for (size_t j = 0; j < seconds->ring[i].n; j++)
			drop(order, chunk_of(seconds->ring[i].of[j].record));
		free(seconds->ring[i].of);
	}
	free(seconds->ring);
}

void weir__log_order_free(struct weir__log_order *order)
{
	if (order == NULL)
		return;
	for (size_t i = order->ready.at - order->ready.taken; i < order->ready.n; i++)
		drop(order, chunk_of(order->ready.of[i]));
	free(order->ready.of);
	free_seconds(order, &order->stamps);
	free_seconds(order, &order->arrivals);
	if (order->filling)
		drop(order, order->filling);
	free_chunks(order);
	free(order);
}
