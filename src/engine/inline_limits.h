/* inline_limits.h: limits that come with requests, made once and kept as long as they are asked for. Of one thread. */
#ifndef WEIR_ENGINE_INLINE_LIMITS_H
#define WEIR_ENGINE_INLINE_LIMITS_H

#include "store/table/inline_limit.h"

enum { WEIR__INLINE_LIMITS_KEPT = 256, WEIR__LIMIT_WORDS = 96 };

/* Where keys of a kind of request live. */
enum weir__space {
	WEIR__SPACE_CELL,     /* CL.THROTTLE: one for all numbers, as with redis-cell */
	WEIR__SPACE_THROTTLE, /* THROTTLE, likewise */
	WEIR__SPACE_TEXT,     /* limits as text: one for each */
};

struct weir__inline_limits {
	struct weir_table *table;
	const struct weir_table_limit *counted_as;
	/* Whether the store can have a limit; NULL: it has all that the table can. */
	int (*check)(const struct weir_limit *limit, struct weir_message *ret_message);
	struct weir__kept_limit {
		enum weir__space space;
		bool is_used;
		struct weir_limit stated;
		struct weir_table_limit made;
	} kept[WEIR__INLINE_LIMITS_KEPT];
	/* The last one that was asked for, as it was written. */
	struct weir__limit_words {
		const struct weir_table_limit *limit; /* NULL: none is remembered */
		enum weir__space space;
		size_t n;
		uint64_t lengths;
		char bytes[WEIR__LIMIT_WORDS];
	} last;
};

/* Most requests name the same limit as the one before: it is remembered by the bytes that name it, so that these need not be
 * read again. `lengths` tells where words begin and end within them. NULL: it was another one. */
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

/* `counted_as` is a limit of the table that counts the decisions of all of them. */
void weir__inline_limits_init(struct weir__inline_limits *limits, struct weir_table *table,
			      const struct weir_table_limit *counted_as);

/* The limit, kept or made. It is good until `will_drop` says so: before another one takes its place, whoever still uses it
 * must be done with it. */
int weir__inline_limits_find(struct weir__inline_limits *limits, enum weir__space space,
			     const struct weir_limit *stated, const struct weir_table_limit **ret_limit,
			     struct weir_message *ret_message);

/* Makes one in memory of the caller, for whoever uses it longer than that. */
int weir__inline_limits_make(const struct weir__inline_limits *limits, enum weir__space space,
			     const struct weir_limit *stated, struct weir_table_limit *made,
			     struct weir_message *ret_message);

/* What tells keys of a space that all its limits share (not that of texts) from others. */
struct weir__hash_secret weir__inline_limits_secret(const struct weir_table *table, enum weir__space space);

bool weir__inline_limits_is_same(const struct weir_limit *a, const struct weir_limit *b);

/* Whether to find it will end another one. */
bool weir__inline_limits_will_drop(const struct weir__inline_limits *limits, enum weir__space space,
				   const struct weir_limit *stated);

#endif
