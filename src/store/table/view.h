/* view.h: a limit of a table as of one of its changes.
 *
 * A limit that was changed n times has plan n (plans.h). A slot records the plan that packed it in two parts. Its tag
 * holds the generation, n % 7, and its fingerprint is mixed with the era, n / 7. A lookup searches for the fingerprints
 * of this era and of the earlier ones in which a key may still have used something, so it knows the plan of the slot
 * that it finds. It converts the state from change to change and writes it back in place, packed by the newest plan. So
 * a key is converted when it is next touched, by the swap that charges it. Only a key whose plan was overwritten
 * (plans.h) is not found any more and starts over. A key without a slot has used nothing, whatever the limit was
 * changed to.
 *
 * The keys of sliding logs and segments have histories, which mean the same under any count. Their slots have no
 * generation and no era. The keys of a sliding counter are in slots until its count first exceeds what fits there. From
 * then on they have histories: a key that is found in a slot gets one when it is next charged.
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
	uint64_t first_era; /* the first of the earlier eras that are searched, */
	weir_ns eras_until; /* which need not be searched any more from then on */
	uint32_t mark;      /* mixed into fingerprints: the era's, and the group's lowest bit */
	uint32_t n_eras;    /* how many earlier eras are searched. May become 0 while the view is in use */
};

/* Gives each era different fingerprints. Era 0 leaves them as they are. No era changes the lowest bit. */
static inline uint32_t weir__era_mark(uint64_t era)
{
	return (uint32_t)era * 0x9e3779b1u << 1;
}

/* The handle of a limit in this process. Only the functions here touch the view. The members that decisions read come
 * first, within LIMIT_HOT_BYTES: with very many limits, each of these cache lines is a miss. */
struct weir_table_limit {
	const struct weir_table *table;
	struct weir__region_limit *entry;
	struct weir__hash_secret secret; /* of this limit, so a key has a different hash under each limit */
	uint32_t index;
	uint32_t group_mark; /* 1 for an inline limit, else 0 */
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

/* Finds how states are packed under `to`, a limit that this one has been or will be changed to. in_arena: its keys have
 * histories since an earlier change. Returns WEIR_ERR_CHANGE or another error if this limit cannot become `to`. */
int weir__view_format(const struct weir_table_limit *limit, const struct weir_limit *to, bool in_arena,
		      struct weir__slot_format *ret_format, struct weir_message *ret_message);

/* Makes the first view of a limit that no other thread knows yet. */
void weir__view_init(struct weir_table_limit *limit);

/* Whether a lookup under this view finds the slots that this plan packed. */
bool weir__view_sees(const struct weir__view *view, uint64_t number);

/* Stops searching earlier eras, from eras_until on. */
void weir__view_forget_eras(const struct weir_table_limit *limit, const struct weir__view *view);

/* Unpacks the state of a key from its slot, whose fingerprint is of this era. Sets *ret_is_old if an older plan packed
 * the slot. For a view with histories, the slot does not refer to a history, and the state is a plain counter's.
 * Returns false if the view is out of date. */
bool weir__view_unpack(const struct weir_table_limit *limit, const struct weir__view *view, struct weir_state slot,
		       uint64_t era, struct weir_state *ret_state, bool *ret_is_old);

#endif
