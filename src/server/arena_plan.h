/* arena_plan.h: how much arena the limits of a policy need, and whether a table has that much. */
#ifndef WEIR_SERVER_ARENA_PLAN_H
#define WEIR_SERVER_ARENA_PLAN_H

#include <weir/policy.h>

/* Bytes of arena for this many keys in use, if all of them have used all of the limit that takes the most. A limit
 * without a key counts as one key. With a store, only limits that the policy keeps in the table need an arena. 0: no
 * limit needs an arena. SIZE_MAX: more than an arena can have. */
size_t weir__arena_plan_size(const struct weir_policy *policy, uint64_t keys, bool has_store);

/* The size for a policy that needs this much, if this much memory is left: at least `least`, at most an eighth of what
 * is left. */
size_t weir__arena_plan_choose(size_t needed, size_t least, uint64_t left_bytes);

enum { WEIR__ARENA_WARNING_SIZE = 512 };

/* Writes which limit does not fit an arena of this size, how many of its keys fit, and what to set. Returns false if
 * all limits fit. */
bool weir__arena_plan_warn(const struct weir_policy *policy, uint64_t keys, bool has_store, size_t arena_bytes,
			   char ret_text[WEIR__ARENA_WARNING_SIZE]);

#endif
