/* slot.h: the state of one key in 16 bytes.
 *
 *     lo   bits  0..31   fingerprint of the key; 0: nobody's
 *          bits 32..63   the algorithm's own
 *     hi   bits  0..3    tag: generation of the limit, 0 to 6, and whether own is COUNTED; or ARENA or CLAIMED
 *          bits  4..63   fresh_at: from then on the key owes nothing, in ns since the table's epoch
 *
 * fresh_at means the same for every algorithm, so whether a slot is free, and which is closest to it, is known without
 * any plan; and `hi` of two slots compares as their fresh_at does. All zero is a free slot.
 *
 *     bucket     whole again at fresh_at - own/count ns: own counts down from the whole nanosecond, in 1/count ns
 *     interval   whole again at fresh_at; own tokens are missing
 *     window     over at fresh_at; own is counted
 *     counter    own is what the previous (upper 14 bits) and the current window counted; the end of the window
 *                after the current one is fresh_at, or of the current one if only the previous counted
 *
 * The last three are COUNTED. What is COUNTED and has 0 of its own owes nothing, also a bucket, however late fresh_at is:
 * so keys are written where those without a slot do owe something, see view.h. However little of a window is used, it is over at the same time; so the upper 4 of their
 * own bits tell how much: when slots are short, a key that has used little gives way before one that has used all.
 *
 * Pure. Packing what core says and unpacking it again gives the same state. */
#ifndef WEIR_STORE_TABLE_SLOT_H
#define WEIR_STORE_TABLE_SLOT_H

#include "core/counter.h"
#include "core/wide.h"

enum {
	WEIR__SLOT_TAG_BITS = 4,
	WEIR__SLOT_TAG_MASK = (1 << WEIR__SLOT_TAG_BITS) - 1,
	WEIR__SLOT_CLAIMED = WEIR__SLOT_TAG_MASK,
	WEIR__SLOT_COUNTED = 8,
	WEIR__SLOT_GENERATIONS = 7,
	WEIR__SLOT_GENERATION_MASK = 7,
	WEIR__SLOT_ARENA = 7, /* own is the number of a root: see history.h */
	WEIR__SLOT_LEVEL_SHIFT = 28,
	WEIR__SLOT_LEVEL_MOST = 15,
	WEIR__SLOT_WINDOW_BITS = 14, /* of a counter's two windows, each */
};

/* Times are from epoch to epoch + TIME_MAX; what is owed then fits behind it: see WEIR_TABLE_DURATION_MAX. */
#define WEIR__SLOT_TIME_MAX (UINT64_C(1) << 59)

/* How the states of one limit are packed. */
struct weir__slot_format {
	struct weir_plan plan;
	weir_ns epoch;
	uint64_t levels;    /* counted kinds: levels a unit, times 2^32 */
	uint64_t unit_ns;   /* buckets: what one unit takes, rounded up */
	uint64_t unit_rest; /* buckets: by so many 1/count ns it was rounded up */
	uint32_t tag;
};

static inline uint32_t weir__slot_fingerprint(struct weir_state slot)
{
	return (uint32_t)slot.lo;
}

static inline uint32_t weir__slot_own(struct weir_state slot)
{
	return (uint32_t)(slot.lo >> 32);
}

static inline uint32_t weir__slot_tag(struct weir_state slot)
{
	return (uint32_t)slot.hi & WEIR__SLOT_TAG_MASK;
}

static inline bool weir__slot_is_counted(struct weir_state slot)
{
	return slot.hi & WEIR__SLOT_COUNTED && weir__slot_tag(slot) != WEIR__SLOT_CLAIMED;
}

/* How much of a counted slot is used: 0 to LEVEL_MOST, which is all. */
static inline uint32_t weir__slot_level(struct weir_state slot)
{
	return weir__slot_own(slot) >> WEIR__SLOT_LEVEL_SHIFT;
}

/* By how many changes of its era the limit was the one that it was packed by; what is nobody's is no generation. */
static inline uint32_t weir__slot_generation(struct weir_state slot)
{
	return (uint32_t)slot.hi & WEIR__SLOT_GENERATION_MASK;
}

/* Since the epoch. */
static inline uint64_t weir__slot_full_at(struct weir_state slot)
{
	return slot.hi >> WEIR__SLOT_TAG_BITS;
}

static inline struct weir_state weir__slot_make(uint32_t fingerprint, uint32_t own, uint64_t full_at, uint32_t tag)
{
	return (struct weir_state){ .lo = fingerprint | (uint64_t)own << 32,
				    .hi = full_at << WEIR__SLOT_TAG_BITS | tag };
}

/* What a page of slots in a file begins with: nobody's, and fresh later than anything. No key's fingerprint is 0, so it is
 * found by none; it is not free; and all others give way before it. */
static inline struct weir_state weir__slot_mark(uint32_t own, uint32_t sum)
{
	return (struct weir_state){ .lo = (uint64_t)own << 32,
				    .hi = UINT64_C(0xffffffff) << 32 | (uint64_t)sum << WEIR__SLOT_TAG_BITS |
					  WEIR__SLOT_CLAIMED };
}

static inline bool weir__slot_is_mark(struct weir_state slot)
{
	return weir__slot_fingerprint(slot) == 0 && slot.hi >> 32 == UINT32_MAX;
}

static inline bool weir__slot_equal(struct weir_state a, struct weir_state b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

static inline struct weir_state weir__slot_unpack_bucket(const struct weir__slot_format *format, struct weir_state slot)
{
	const weir_ns full_ns = weir__slot_full_at(slot) + format->epoch;
	struct weir_state state;

	weir__state_set_wide(&state, weir__mul(full_ns, format->plan.count) - weir__slot_own(slot));
	return state;
}

/* The slot of a bucket that was at `slot` and has just been charged at now: it was whole, or it was not. The division
 * is that of the cost; one unit needs none. */
static inline struct weir_state weir__slot_charge_bucket(const struct weir__slot_format *format, struct weir_state slot,
							 bool was_full, weir_ns now, uint64_t cost)
{
	const uint64_t count = format->plan.count;
	uint64_t full_at = was_full ? now - format->epoch : weir__slot_full_at(slot);
	uint64_t own = was_full ? 0 : weir__slot_own(slot);

	if (WEIR__LIKELY(cost == 1)) {
		full_at += format->unit_ns;
		own += format->unit_rest;
	} else {
		const weir__u128 price = weir__mul(cost, format->plan.period);
		const uint64_t price_ns = (uint64_t)weir__div_up(price, count);

		full_at += price_ns;
		own += (uint64_t)(weir__mul(price_ns, count) - price);
	}
	if (own >= count) {
		own -= count;
		full_at--;
	}
	return weir__slot_make(weir__slot_fingerprint(slot), (uint32_t)own, full_at, format->tag);
}

/* What core goes on from; a free slot is fresh. */
struct weir_state weir__slot_unpack(const struct weir__slot_format *format, struct weir_state slot);

/* All zero if the state owes nothing. */
struct weir_state weir__slot_pack(const struct weir__slot_format *format, uint32_t fingerprint,
				  const struct weir_state *state);

/* The keys of this limit have a history each. */
static inline bool weir__format_has_histories(const struct weir__slot_format *format)
{
	return format->tag == WEIR__SLOT_ARENA;
}

/* How long a key can owe something at most. */
weir_ns weir__slot_longest(const struct weir_plan *plan);

/* Checks that the states of a plan can be packed, and how: into the slot, or into a history in the arena. WEIR_ERR_MAXIMUM,
 * or WEIR_ERR_UNSUPPORTED if there is no arena. */
int weir__slot_format_init(struct weir__slot_format *format, const struct weir_plan *plan, weir_ns epoch,
			   bool has_arena, struct weir_message *ret_message);

/* Into a history, also what would fit the slot. */
int weir__slot_format_init_histories(struct weir__slot_format *format, const struct weir_plan *plan, weir_ns epoch,
				     struct weir_message *ret_message);

#endif
