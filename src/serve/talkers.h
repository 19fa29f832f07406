/* talkers.h: the keys of a limit that ask most, and those that are denied most, in memory of a fixed size.
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
#ifndef WEIR_SERVE_TALKERS_H
#define WEIR_SERVE_TALKERS_H

#include <weir/types.h>

#include <stdbool.h>
#include <stddef.h>

enum {
	WEIR__TALKER_KEY_SIZE = 64, /* bytes of a key that are kept: longer ones are told apart by their hash */
	WEIR__TALKERS_SPAN_S = 30,
	WEIR__TALKERS_JOINED_MAX = 256, /* that are read together: one for each worker */
};

struct weir__talkers;

struct weir__talker {
	uint64_t hash; /* of the whole key, by the secret of its limit: the one of logs and spans */
	uint64_t count, error;
	uint32_t key_length; /* of the whole key */
	char key[WEIR__TALKER_KEY_SIZE];
};

enum weir__talkers_kind { WEIR__TALKERS_BUSY, WEIR__TALKERS_DENIED, WEIR__TALKERS_KINDS };

/* Bytes that those with room for so many keys take. */
size_t weir__talkers_size(uint32_t most);

/* Room for so many keys of each kind. NULL: no memory. */
struct weir__talkers *weir__talkers_new(uint32_t most);
void weir__talkers_free(struct weir__talkers *talkers); /* NULL is allowed */

/* Forgets all: from now on it is another limit's. */
void weir__talkers_clear(struct weir__talkers *talkers);

/* A key of this hash has asked, which counts so often. */
void weir__talkers_add(struct weir__talkers *talkers, uint64_t hash, const void *key, size_t length, uint64_t weight,
		       bool is_denied, weir_ns now);

/* Up to `most` keys of the running span and the one before, of all of these together: what was counted for certain, count less
 * error, is most of the first. `since` is when that began; 0 and no keys if there is no memory. Each is locked for as long
 * as it takes to copy it. Returns how many. */
size_t weir__talkers_read(struct weir__talkers *const *talkers, size_t n, enum weir__talkers_kind kind, weir_ns now,
			  struct weir__talker *ret_talkers, size_t most, weir_ns *ret_since);

#endif
