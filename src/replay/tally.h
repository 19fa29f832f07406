/* tally.h: two exact counts for each of many keys, by the 64-bit hash of the key. And a list of the keys with the
 * highest counts, with their texts.
 *
 * Memory: 16 bytes for each place, of which at most three quarters are in use. WEIR__TALLY_MAX keys are counted. For
 * further keys, `uncounted` is the number of their events. */
#ifndef WEIR_REPLAY_TALLY_H
#define WEIR_REPLAY_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/slice.h"

enum { WEIR__TALLY_MAX = 48 << 20 };

struct weir__tally_entry {
	uint64_t hash;
	uint32_t all, denied; /* they saturate */
};

struct weir__tally {
	struct weir__tally_entry *places;
	uint64_t spread; /* odd and random: hashes of a hostile log are not beside each other */
	uint64_t mask, n;
	uint64_t with_denied; /* keys whose `denied` is not 0 */
	uint64_t uncounted;
};

/* Returns false if memory runs out. */
bool weir__tally_init(struct weir__tally *tally);
void weir__tally_fini(struct weir__tally *tally);

/* A hash for keys of tallies; it differs for each `kind`. */
uint64_t weir__tally_hash(uint64_t kind, const void *key, size_t n);

/* The first place of a hash. */
static inline uint64_t weir__tally_place(uint64_t spread, uint64_t mask, uint64_t hash)
{
	return (hash * spread) >> 32 & mask;
}

static inline void weir__tally_fetch(const struct weir__tally *tally, uint64_t hash)
{
	__builtin_prefetch(&tally->places[weir__tally_place(tally->spread, tally->mask, hash)], 1);
}

/* Counts an event of a key. Returns its entry, valid until the next call, or NULL: it is not counted. */
const struct weir__tally_entry *weir__tally_add(struct weir__tally *tally, uint64_t hash, bool is_denied);

/* How many events a key has, and how many of them were denied. */
uint32_t weir__tally_all(const struct weir__tally *tally, uint64_t hash);
uint32_t weir__tally_denied(const struct weir__tally *tally, uint64_t hash);

size_t weir__tally_bytes(const struct weir__tally *tally);

/* The keys with the highest numbers. The number of a key only grows. */
enum { WEIR__TOP_MAX = 100, WEIR__TOP_TEXT = 120 };

struct weir__top {
	size_t most, n; /* at most WEIR__TOP_MAX */
	struct weir__top_row {
		uint64_t hash;
		uint64_t number, all; /* by `number`; `all` is a second number of the key */
		uint64_t last;        /* when its last event was */
		uint32_t plan;
		uint32_t length; /* of the text; only the first WEIR__TOP_TEXT bytes are kept */
		char text[WEIR__TOP_TEXT];
	} rows[WEIR__TOP_MAX];
};

/* Call it when the number of a key has grown. If it is one of the highest, returns its row; is_new: set its text. */
struct weir__top_row *weir__top_offer(struct weir__top *top, uint64_t hash, uint64_t number, bool *ret_is_new);

void weir__top_set_text(struct weir__top_row *row, struct weir__slice text);

/* Sorts the rows, highest number first. Of equal numbers, the older last event first. */
void weir__top_sort(struct weir__top *top);

#endif
