/* view.h: a limit of a table as of one of its changes.
 *
 * A limit that was changed n times has plan n (plans.h). A slot records the plan that packed it in two parts. Its tag
 * holds the generation, n % 7, and its fingerprint is mixed with the era, n / 7. A lookup searches for the fingerprints
 * of this era and of the one before, so it knows the plan of the slot that it finds. It converts the state from change
 * to change and writes it back in place, packed by the newest plan. A key is thus converted when it is next touched, by
 * the swap that charges it. A key that is not touched from one era to the next but one is no longer found and starts
 * anew, like a key without a slot.
 *
 * A key without a slot has used as much as a key that was never charged. That is nothing, unless the burst has grown,
 * since a larger burst gives no key extra tokens at once. This state, `absent`, is the same for all keys without a
 * slot. The thread that changes the limit converts it.
 *
 * The keys of sliding logs and segments have histories, which mean the same under any count. Their slots have no
 * generation and no era.
 *
 * Each process keeps the newest view it has seen in the limit's handle. The view is read and written word by word, and
 * is valid if its number is the same before and after. This needs no lock and frees nothing. A thread that finds the
 * view stale or half written makes its own. */
#ifndef WEIR_STORE_TABLE_VIEW_H
#define WEIR_STORE_TABLE_VIEW_H

#include <stddef.h>

#include "store/table/plans.h"
#include "store/table/slot.h"

struct weir__view {
	uint64_t number; /* of changes; while being written: the writing process, with the highest bit set */
	struct weir__slot_format format;
	struct weir_state absent;
	uint32_t era_mark, previous_mark; /* mixed into fingerprints; equal if there is no previous era */
};

/* The handle of a limit in this process. Only the functions here touch the view. The members that decisions read come
 * first, within LIMIT_HOT_BYTES: with very many limits, each of these cache lines is a miss. */
struct weir_table_limit {
	const struct weir_table *table;
	struct weir__region_limit *entry;
	struct weir__hash_secret secret; /* of this limit, so a key has a different hash under each limit */
	uint32_t index;
	struct weir__view view;
	char name[WEIR_TABLE_NAME_MAX + 1];
	struct weir__slot_format first; /* as the limit was first added to the table: the format, */
	struct weir_plan plan;          /* the compiled plan, */
	struct weir_limit added;        /* and the limit */
};

enum { WEIR__LIMIT_HOT_BYTES = 256 };
_Static_assert(offsetof(struct weir_table_limit, first) + offsetof(struct weir__slot_format, epoch) <=
		       WEIR__LIMIT_HOT_BYTES,
	       "the plan's kind is among them");

/* Loads a word of the view. Acquire, so that the number, which is read afterwards, is at least as new as this word. */
#define WEIR__VIEW_WORD(limit, member) __atomic_load_n(&(limit)->view.member, __ATOMIC_ACQUIRE)

/* Whether all words read since the view had this number belong to one view, and the limit has not changed since. */
static inline bool weir__view_is_current(const struct weir_table_limit *limit, uint64_t number)
{
	return __atomic_load_n(&limit->view.number, __ATOMIC_RELAXED) == number &&
	       weir__plans_number(limit->entry) == number;
}

/* Makes the newest view and keeps it for the process. */
void weir__view_make(const struct weir_table_limit *limit, struct weir__view *ret_view);

enum { WEIR__VIEW_WORDS = sizeof(struct weir__view) / sizeof(uint64_t) };
_Static_assert(sizeof(struct weir__view) % sizeof(uint64_t) == 0, "copied word by word");

typedef uint64_t __attribute__((may_alias)) weir__view_word;

/* Loads the newest view: the one that the process keeps, or a new one if that is stale or half written. */
static inline void weir__view_load(const struct weir_table_limit *limit, struct weir__view *ret_view)
{
	const weir__view_word *const from = (const weir__view_word *)&limit->view;
	weir__view_word *const to = (weir__view_word *)ret_view;

#pragma GCC unroll 16
	for (int i = 0; i < WEIR__VIEW_WORDS; i++) /* word 0, the number, is read first */
		to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
	if (WEIR__UNLIKELY(!weir__view_is_current(limit, ret_view->number)))
		weir__view_make(limit, ret_view);
}

/* Finds how states are packed under `to`, a limit that this one has been or is to be changed to. Returns
 * WEIR_ERR_CHANGE or another error if this limit cannot become `to`. */
int weir__view_format(const struct weir_table_limit *limit, const struct weir_limit *to,
		      struct weir__slot_format *ret_format, struct weir_message *ret_message);

/* Makes the first view of a limit that no other thread knows yet. */
void weir__view_init(struct weir_table_limit *limit);

/* Unpacks the state of a key from its slot, whose fingerprint is of this era or else of the one before. Sets
 * *ret_is_old if an older plan packed the slot. Returns false if the view is no longer current. */
bool weir__view_unpack(const struct weir_table_limit *limit, const struct weir__view *view, struct weir_state slot,
		       bool is_of_this_era, struct weir_state *ret_state, bool *ret_is_old);

/* Packs the state of a key into a slot. A state with nothing used gives all zero, unless a key without a slot counts as
 * having used something: then the key needs a slot that says otherwise. */
struct weir_state weir__view_pack(const struct weir__view *view, uint32_t fingerprint, const struct weir_state *state);

#endif
