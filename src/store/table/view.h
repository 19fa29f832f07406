/* view.h: a limit of a table as of one of its changes.
 *
 * A limit that was changed n times has plan n (plans.h). A slot says by which plan it was packed, in two parts: its tag
 * has n % 7, the generation, and its fingerprint is mixed with n / 7, the era. So whoever looks for a key of this era, and
 * of the one before, knows the plan of what is found, carries its state over from change to change, and writes it back in
 * place, as of the newest plan: a key is converted when it is next touched, by the swap that charges it. A key that was
 * not touched from one era to the next but one is no longer found: it starts anew.
 *
 * A key without a slot owes what one that was never used would: nothing, unless the burst has grown, which gives nobody
 * tokens at once. That is the same for all of them, `absent`; whoever changes the limit carries it over.
 *
 * The keys of sliding logs and segments have histories, which mean the same under any count: their slots have no generation
 * and no era.
 *
 * Each process keeps the newest view it has met in the limit's handle. It is read and written word by word, valid if its
 * number is the same before and after: no lock, nothing to free. Who finds it stale or half written makes a view of its
 * own. */
#ifndef WEIR_STORE_TABLE_VIEW_H
#define WEIR_STORE_TABLE_VIEW_H

#include <stddef.h>

#include "store/table/plans.h"
#include "store/table/slot.h"

struct weir__view {
	uint64_t number; /* of changes; while it is written, the process that does so, with the highest bit set */
	struct weir__slot_format format;
	struct weir_state absent;
	uint32_t era_mark, previous_mark; /* in fingerprints; the same if there is no era before */
};

/* A limit in this process. The view is touched by the functions here alone. What decisions look at comes first, in
 * LIMIT_HOT_BYTES: where there are very many limits, each line of it is a miss. */
struct weir_table_limit {
	const struct weir_table *table;
	struct weir__region_limit *entry;
	struct weir__hash_secret secret; /* of this limit: so a key has another hash under each */
	uint32_t index;
	struct weir__view view;
	char name[WEIR_TABLE_NAME_MAX + 1];
	struct weir__slot_format first; /* as it was when it was added here: of the plan, */
	struct weir_plan plan;          /* the plan as it was compiled, */
	struct weir_limit added;        /* and the limit */
};

enum { WEIR__LIMIT_HOT_BYTES = 256 };
_Static_assert(offsetof(struct weir_table_limit, first) + offsetof(struct weir__slot_format, epoch) <=
		       WEIR__LIMIT_HOT_BYTES,
	       "the plan's kind is among them");

/* A word of the view. Acquire, so that its number, read later, is newer. */
#define WEIR__VIEW_WORD(limit, member) __atomic_load_n(&(limit)->view.member, __ATOMIC_ACQUIRE)

/* Whether what was read since the view had this number is a whole, and the limit still as it says. */
static inline bool weir__view_is_current(const struct weir_table_limit *limit, uint64_t number)
{
	return __atomic_load_n(&limit->view.number, __ATOMIC_RELAXED) == number &&
	       weir__plans_number(limit->entry) == number;
}

/* Makes the newest view, and keeps it for the process. */
void weir__view_make(const struct weir_table_limit *limit, struct weir__view *ret_view);

enum { WEIR__VIEW_WORDS = sizeof(struct weir__view) / sizeof(uint64_t) };
_Static_assert(sizeof(struct weir__view) % sizeof(uint64_t) == 0, "copied word by word");

typedef uint64_t __attribute__((may_alias)) weir__view_word;

/* The newest view: that of the process, or one that is made now. */
static inline void weir__view_load(const struct weir_table_limit *limit, struct weir__view *ret_view)
{
	const weir__view_word *const from = (const weir__view_word *)&limit->view;
	weir__view_word *const to = (weir__view_word *)ret_view;

#pragma GCC unroll 16
	for (int i = 0; i < WEIR__VIEW_WORDS; i++) /* the number is the first */
		to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
	if (WEIR__UNLIKELY(!weir__view_is_current(limit, ret_view->number)))
		weir__view_make(limit, ret_view);
}

/* How the states of a limit that this one has become, or is to become, are packed. WEIR_ERR_CHANGE and others: it cannot. */
int weir__view_format(const struct weir_table_limit *limit, const struct weir_limit *to,
		      struct weir__slot_format *ret_format, struct weir_message *ret_message);

/* The first view of a limit that nobody else knows yet. */
void weir__view_init(struct weir_table_limit *limit);

/* What a key owes by the content of its slot, which has the mark of this era, or else of the one before. *ret_is_old: by an
 * older plan. False: the view is no longer current. */
bool weir__view_unpack(const struct weir_table_limit *limit, const struct weir__view *view, struct weir_state slot,
		       bool is_of_this_era, struct weir_state *ret_state, bool *ret_is_old);

/* The content of the slot of a key that owes this. If that is nothing, it needs one only where it would owe something
 * without. */
struct weir_state weir__view_pack(const struct weir__view *view, uint32_t fingerprint, const struct weir_state *state);

#endif
