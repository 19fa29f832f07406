/* top_keys.h: the keys of a limit that ask most, and those that are denied most, in memory of a fixed size.
 *
 * Space-saving (Metwally, Agrawal, El Abbadi): of `most` counters the smallest is given to a key that has none, which
 * inherits its count as the error. So no key that was counted more than 1/most of all is missing, and a count is too high
 * by its error at most, never too low. Counts are of the span that runs and of the one before it: what was long ago does
 * not hide what is now.
 *
 * Each worker has its own, and who reads adds them up. A key that a full summary does not have may have been counted there as
 * often as its smallest count says: that is added to count and error, so that both rules hold of the sum, too.
 *
 * One thread adds and others read: each takes a lock, for as long as it takes to add one, or to copy all. */
#ifndef WEIR_OBSERVE_TOP_KEYS_H
#define WEIR_OBSERVE_TOP_KEYS_H

#include <weir/types.h>

#include <stdbool.h>
#include <stddef.h>

enum {
	WEIR__TOP_KEY_KEY_SIZE = 64, /* bytes of a key that are kept: longer ones are told apart by their hash */
	WEIR__TOP_KEYS_PERIOD_S = 30,
	WEIR__TOP_KEYS_JOINED_MAX = 256, /* that are read together: one for each worker */
};

struct weir__top_keys;

struct weir__top_key {
	uint64_t hash; /* of the whole key, by the secret of its limit: the one of logs and spans */
	uint64_t count, error;
	uint32_t key_length; /* of the whole key */
	char key[WEIR__TOP_KEY_KEY_SIZE];
};

enum weir__top_keys_kind { WEIR__TOP_KEYS_BUSY, WEIR__TOP_KEYS_DENIED, WEIR__TOP_KEYS_KINDS };

/* Bytes that those with room for so many keys take. */
size_t weir__top_keys_size(uint32_t most);

/* Room for so many keys of each kind. NULL: no memory. */
struct weir__top_keys *weir__top_keys_new(uint32_t most);
void weir__top_keys_free(struct weir__top_keys *top_keys); /* NULL is allowed */

/* Forgets all: from now on it is another limit's. */
void weir__top_keys_clear(struct weir__top_keys *top_keys);

/* A key of this hash has asked, which counts so often. */
void weir__top_keys_add(struct weir__top_keys *top_keys, uint64_t hash, const void *key, size_t length, uint64_t weight,
			bool is_denied, weir_ns now);

/* Up to `most` keys of the running span and the one before, of all of these together: what was counted for certain, count less
 * error, is most of the first. `since` is when that began; 0 and no keys if there is no memory. Each is locked for as long
 * as it takes to copy it. Returns how many. */
size_t weir__top_keys_read(struct weir__top_keys *const *top_keys, size_t n, enum weir__top_keys_kind kind, weir_ns now,
			   struct weir__top_key *ret_talkers, size_t most, weir_ns *ret_since);

#endif
