/* top_keys.h: the keys of a limit with the most decisions, and the keys with the most denials, in a fixed amount of
 * memory.
 *
 * Space-saving (Metwally, Agrawal, El Abbadi): a key without a counter takes over the smallest of the `most` counters
 * and inherits its count as the error. So no key with more than 1/most of the total count is missing. A count is too
 * high by its error at most, and never too low. Counts cover the current period and the previous one, so that old
 * traffic does not hide new traffic.
 *
 * Each worker has its own summary, and a reader adds them up. A key that is missing in a full summary may have been
 * counted there up to the smallest count. The reader adds that to its count and error, so that both guarantees hold for
 * the sum.
 *
 * One thread adds and others read. Each takes a lock, to add one key or to copy all. */
#ifndef WEIR_OBSERVE_TOP_KEYS_H
#define WEIR_OBSERVE_TOP_KEYS_H

#include <weir/types.h>

#include <stdbool.h>
#include <stddef.h>

enum {
	WEIR__TOP_KEY_KEY_SIZE = 64, /* bytes of a key that are kept; longer ones are distinguished by hash */
	WEIR__TOP_KEYS_PERIOD_S = 30,
	WEIR__TOP_KEYS_JOINED_MAX = 256, /* read together: one for each worker */
};

struct weir__top_keys;

struct weir__top_key {
	uint64_t hash; /* of the full key, with its limit's secret; the same as in logs and spans */
	uint64_t count, error;
	uint32_t key_length; /* of the full key */
	char key[WEIR__TOP_KEY_KEY_SIZE];
};

enum weir__top_keys_kind { WEIR__TOP_KEYS_BUSY, WEIR__TOP_KEYS_DENIED, WEIR__TOP_KEYS_KINDS };

/* Bytes that weir__top_keys_new(most) allocates. */
size_t weir__top_keys_size(uint32_t most);

/* Room for `most` keys of each kind. NULL: no memory. */
struct weir__top_keys *weir__top_keys_new(uint32_t most);
void weir__top_keys_free(struct weir__top_keys *top_keys); /* NULL is allowed */

/* Forgets all keys, for reuse by another limit. */
void weir__top_keys_clear(struct weir__top_keys *top_keys);

/* Adds `weight` to the count of the key with this hash. */
void weir__top_keys_add(struct weir__top_keys *top_keys, uint64_t hash, const void *key, size_t length, uint64_t weight,
			bool is_denied, weir_ns now);

/* Reads up to `most` keys of the current and the previous period, over all n summaries. They are sorted by count minus
 * error, the part that is certain, highest first. *ret_since is when the previous period began. If memory runs out, it
 * is 0 and there are no keys. Each summary is locked while it is copied. Returns the number of keys. */
size_t weir__top_keys_read(struct weir__top_keys *const *top_keys, size_t n, enum weir__top_keys_kind kind, weir_ns now,
			   struct weir__top_key *ret_top_keys, size_t most, weir_ns *ret_since);

#endif
