/* entries.h: overrides by value, for example one for each customer. A hash table finds an entry in one lookup, however
 * many there are. */
#ifndef WEIR_POLICY_ENTRIES_H
#define WEIR_POLICY_ENTRIES_H

#include "policy/diagnostics.h"
#include "policy/pool.h"
#include "policy/values.h"

enum { WEIR__ENTRY_COLUMNS_MAX = 4, WEIR__ENTRY_KEY_MAX = 1024 };

struct weir__entry {
	uint32_t hash; /* upper 32 bits */
	uint32_t what; /* for the caller's use */
	struct weir__slice key;
};

struct weir__entries {
	unsigned columns[WEIR__ENTRY_COLUMNS_MAX]; /* numbers of the attributes that are compared */
	bool is_address[WEIR__ENTRY_COLUMNS_MAX];  /* of type address: compared by its bytes, whatever the spelling */
	unsigned n_columns;                        /* 0: the limit has no entries */
	struct weir__entry *of;                    /* a power of two of slots; key.at NULL: free */
	uint64_t size, n;
};

/* Makes room for n entries. Returns false if memory runs out. */
bool weir__entries_init(struct weir__entries *entries, struct weir__pool *pool, uint64_t n);

/* Finds or adds the entry with these values, one for each column in order. Values are normalised, and addresses are
 * bytes. *ret_is_new says whether the entry was added. NULL: no memory, no free slot, or the values are too long
 * together. */
struct weir__entry *weir__entries_add(struct weir__entries *entries, struct weir__pool *pool,
				      const struct weir__slice *values, bool *ret_is_new);

/* Returns the entry with the key of another entry, whose columns must be the same, or NULL. */
const struct weir__entry *weir__entries_find_key(const struct weir__entries *entries, struct weir__slice key);

/* Returns the entry for the request's values, or NULL. */
const struct weir__entry *weir__entries_find(const struct weir__entries *entries, const struct weir__values *values);

#endif
