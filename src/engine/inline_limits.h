/* inline_limits.h: a cache of inline limits, so that a limit stated in many requests is compiled once. Used by one
 * thread. */
#ifndef WEIR_ENGINE_INLINE_LIMITS_H
#define WEIR_ENGINE_INLINE_LIMITS_H

#include "store/table/inline_limit.h"

enum { WEIR__INLINE_LIMITS_KEPT = 256, WEIR__LIMIT_WORDS = 96 };

/* The key space of a kind of request: which limits share the state of a key. */
enum weir__space {
	WEIR__SPACE_CELL,     /* CL.THROTTLE: all limits share one state per key, as in redis-cell */
	WEIR__SPACE_THROTTLE, /* THROTTLE: all limits share one state per key */
	WEIR__SPACE_TEXT,     /* limits as text: each limit has its own state per key */
};

struct weir__inline_limits {
	struct weir_table *table;
	const struct weir_table_limit *counted_as;
	/* Whether the store supports a limit. NULL: it supports all that the table does. */
	int (*check)(const struct weir_limit *limit, struct weir_message *ret_message);
	struct weir__kept_limit {
		enum weir__space space;
		bool is_used;
		struct weir_limit stated;
		struct weir_table_limit made;
	} kept[WEIR__INLINE_LIMITS_KEPT];
	/* The limit of the last request, by the bytes that stated it. */
	struct weir__limit_words {
		const struct weir_table_limit *limit; /* NULL: nothing is remembered */
		enum weir__space space;
		size_t n;
		uint64_t lengths;
		char bytes[WEIR__LIMIT_WORDS];
	} last;
};

/* Most requests state the same limit as the previous request. Comparing its bytes saves parsing them again. `lengths`
 * encodes where the words within the bytes begin and end. Returns NULL if the last limit was a different one. */
static inline const struct weir_table_limit *weir__inline_limits_recall(const struct weir__inline_limits *limits,
									enum weir__space space, const char *bytes,
									size_t n, uint64_t lengths)
{
	const struct weir__limit_words *const last = &limits->last;

	return last->n == n && last->lengths == lengths && last->space == space && memcmp(last->bytes, bytes, n) == 0 ?
		       last->limit :
		       NULL;
}

void weir__inline_limits_remember(struct weir__inline_limits *limits, enum weir__space space, const char *bytes,
				  size_t n, uint64_t lengths, const struct weir_table_limit *limit);

/* `counted_as` is a limit of the table that counts the decisions of all inline limits. */
void weir__inline_limits_init(struct weir__inline_limits *limits, struct weir_table *table,
			      const struct weir_table_limit *counted_as);

/* Finds the limit in the cache, or makes it. *ret_limit stays valid until a later find evicts it.
 * weir__inline_limits_will_drop predicts that. Before such a find, the caller must be done with the old limit. */
int weir__inline_limits_find(struct weir__inline_limits *limits, enum weir__space space,
			     const struct weir_limit *stated, const struct weir_table_limit **ret_limit,
			     struct weir_message *ret_message);

/* Makes the limit in the caller's memory, for a caller that needs it longer. */
int weir__inline_limits_make(const struct weir__inline_limits *limits, enum weir__space space,
			     const struct weir_limit *stated, struct weir_table_limit *made,
			     struct weir_message *ret_message);

/* The hash secret of a space that all its limits share; not for WEIR__SPACE_TEXT. */
struct weir__hash_secret weir__inline_limits_secret(const struct weir_table *table, enum weir__space space);

bool weir__inline_limits_is_same(const struct weir_limit *a, const struct weir_limit *b);

/* Whether weir__inline_limits_find would evict another limit. */
bool weir__inline_limits_will_drop(const struct weir__inline_limits *limits, enum weir__space space,
				   const struct weir_limit *stated);

/* The limit that weir__inline_limits_find would evict. NULL: none. */
const struct weir_table_limit *weir__inline_limits_evicted(const struct weir__inline_limits *limits,
							   enum weir__space space, const struct weir_limit *stated);

#endif
