/* entries.h: overrides by value, as many as there are customers: found by one look into a table. */
#ifndef WEIR_POLICY_ENTRIES_H
#define WEIR_POLICY_ENTRIES_H

#include "policy/diagnostics.h"
#include "policy/pool.h"
#include "policy/values.h"

enum { WEIR__ENTRY_COLUMNS_MAX = 4, WEIR__ENTRY_KEY_MAX = 1024 };

struct weir__entry {
	uint32_t hash; /* upper bits of it */
	uint32_t what; /* the caller's */
	struct weir__slice key;
};

struct weir__entries {
	unsigned columns[WEIR__ENTRY_COLUMNS_MAX]; /* attributes */
	bool is_address[WEIR__ENTRY_COLUMNS_MAX];  /* of type address: compared by its bytes, whatever the spelling */
	unsigned n_columns;                        /* 0: there are none */
	struct weir__entry *of;                    /* a power of two; key.at NULL: free */
	uint64_t size, n;
};

/* Makes room for n. False: no memory. */
bool weir__entries_init(struct weir__entries *entries, struct weir__pool *pool, uint64_t n);

/* The entry with these values, in the order of the columns, as they are normalised, of addresses the bytes; added if it is
 * not there, which *ret_is_new tells. NULL: no memory, or the values are too long together. */
struct weir__entry *weir__entries_add(struct weir__entries *entries, struct weir__pool *pool,
				      const struct weir__slice *values, bool *ret_is_new);

/* NULL: there is none for what the request has. */
const struct weir__entry *weir__entries_find(const struct weir__entries *entries, const struct weir__values *values);

#endif
