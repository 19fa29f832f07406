/* key_index.h: gives each different key of a log a number, from 0. The index does not keep keys: two hashes, together
 * 128 bits, identify a key.
 *
 * The index may keep only one of 2^shift keys, selected by a hash that is the same in every run. So the same log gives
 * the same sample, and a key is in it with all its requests or not at all. */
#ifndef WEIR_REPLAY_KEY_INDEX_H
#define WEIR_REPLAY_KEY_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/table/hash.h"

enum { WEIR__KEY_INDEX_SHIFT_MAX = 32 };

#define WEIR__KEY_INDEX_NONE UINT32_MAX

struct weir__key_slot {
	uint64_t secret_hash, sample_hash;
	uint32_t number; /* NONE: the slot is free */
};

struct weir__key_index {
	struct weir__hash_secret secret; /* random, so that a hostile log cannot make lookups slow */
	struct weir__key_slot *slots;
	size_t n_slots; /* a power of 2, or 0 */
	uint32_t n;     /* keys */
	unsigned shift;
};

/* Returns the number of the key. NONE: it is not in the sample. Sets *ret_failed if there was no memory. */
uint32_t weir__key_index_number(struct weir__key_index *index, const void *key, size_t length, bool *ret_failed);

/* Halves the sample. The remaining keys get new numbers: ret_numbers, with room for index->n, maps old numbers to new
 * ones or to NONE. Returns false if there was no memory; then nothing has changed. */
bool weir__key_index_halve(struct weir__key_index *index, uint32_t *ret_numbers);

size_t weir__key_index_bytes(const struct weir__key_index *index);

void weir__key_index_fini(struct weir__key_index *index);

#endif
