/* inline_limits.c: a hash table with one entry per place. A new limit evicts the limit in its place. */
#include "engine/inline_limits.h"

#include <stdio.h>

bool weir__inline_limits_is_same(const struct weir_limit *a, const struct weir_limit *b)
{
	return a->algorithm == b->algorithm && a->count == b->count && a->period == b->period && a->burst == b->burst &&
	       a->segments == b->segments && a->refill_interval == b->refill_interval && a->shape == b->shape &&
	       a->align_first == b->align_first && a->count_all == b->count_all;
}

static size_t place_of(enum weir__space space, const struct weir_limit *stated)
{
	uint64_t bits = stated->count * UINT64_C(0x9e3779b97f4a7c15);

	bits = (bits ^ stated->period) * UINT64_C(0x9e3779b97f4a7c15);
	bits = (bits ^ stated->burst ^ (uint64_t)stated->algorithm << 60 ^ (uint64_t)space << 56) *
	       UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(bits >> 56) % WEIR__INLINE_LIMITS_KEPT;
}

void weir__inline_limits_init(struct weir__inline_limits *limits, struct weir_table *table,
			      const struct weir_table_limit *counted_as)
{
	limits->table = table;
	limits->counted_as = counted_as;
	limits->check = NULL;
	for (size_t i = 0; i < WEIR__INLINE_LIMITS_KEPT; i++)
		limits->kept[i].is_used = false;
	limits->last = (struct weir__limit_words){ .limit = NULL };
}

void weir__inline_limits_remember(struct weir__inline_limits *limits, enum weir__space space, const char *bytes,
				  size_t n, uint64_t lengths, const struct weir_table_limit *limit)
{
	if (n > WEIR__LIMIT_WORDS)
		return;
	limits->last.limit = limit;
	limits->last.space = space;
	limits->last.n = n;
	limits->last.lengths = lengths;
	memcpy(limits->last.bytes, bytes, n);
}

bool weir__inline_limits_will_drop(const struct weir__inline_limits *limits, enum weir__space space,
				   const struct weir_limit *stated)
{
	const struct weir__kept_limit *const kept = &limits->kept[place_of(space, stated)];

	return kept->is_used && (kept->space != space || !weir__inline_limits_is_same(&kept->stated, stated));
}

const struct weir_table_limit *weir__inline_limits_evicted(const struct weir__inline_limits *limits,
							   enum weir__space space, const struct weir_limit *stated)
{
	return weir__inline_limits_will_drop(limits, space, stated) ? &limits->kept[place_of(space, stated)].made :
								      NULL;
}

/* The leading NUL distinguishes these from names of limits, which never begin with one. */
static const char *const spaces[] = { [WEIR__SPACE_CELL] = "\0cell", [WEIR__SPACE_THROTTLE] = "\0throttle" };

struct weir__hash_secret weir__inline_limits_secret(const struct weir_table *table, enum weir__space space)
{
	return weir__limit_secret(&table->region.secret, spaces[space], 1 + strlen(spaces[space] + 1));
}

int weir__inline_limits_make(const struct weir__inline_limits *limits, enum weir__space space,
			     const struct weir_limit *stated, struct weir_table_limit *made,
			     struct weir_message *ret_message)
{
	char text[WEIR_LIMIT_TEXT_MAX + 1] = "";
	const char *name = text;
	int error;

	if (space == WEIR__SPACE_TEXT)
		(void)weir_limit_print(stated, text + 1);
	else
		name = spaces[space];
	if (limits->check) {
		error = limits->check(stated, ret_message);
		if (error != WEIR_OK)
			return error;
	}
	error = weir__inline_limit_init(made, limits->table, name, 1 + strlen(name + 1), stated, limits->counted_as,
					ret_message);
	if (error == WEIR_OK && space != WEIR__SPACE_TEXT)
		weir__inline_limit_share(made);
	return error;
}

int weir__inline_limits_find(struct weir__inline_limits *limits, enum weir__space space,
			     const struct weir_limit *stated, const struct weir_table_limit **ret_limit,
			     struct weir_message *ret_message)
{
	struct weir__kept_limit *const kept = &limits->kept[place_of(space, stated)];
	int error;

	if (kept->is_used && kept->space == space && weir__inline_limits_is_same(&kept->stated, stated)) {
		*ret_limit = &kept->made;
		return WEIR_OK;
	}
	kept->is_used = false;
	limits->last.limit = NULL; /* it may point to the evicted entry */
	error = weir__inline_limits_make(limits, space, stated, &kept->made, ret_message);
	if (error != WEIR_OK)
		return error;
	kept->space = space;
	kept->stated = *stated;
	kept->is_used = true;
	*ret_limit = &kept->made;
	return WEIR_OK;
}
