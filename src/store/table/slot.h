/* slot.h: the state of one key in 16 bytes.
 *
 *     lo   bits  0..31   fingerprint of the key; 0: no key. Bit 0 is the group: see weir__fingerprint_in
 *          bits 32..63   own: meaning depends on the algorithm
 *     hi   bits  0..3    tag: generation of the limit, 0 to 6, and whether own is COUNTED; or ARENA or CLAIMED
 *          bits  4..63   full_at: from then on the key has used nothing, in ns since the table's epoch
 *
 * full_at means the same for every algorithm. So no plan is needed to tell whether a slot is free and which slot is
 * free next, and `hi` of two slots compares as their full_at does. A free slot is all zero.
 *
 *     bucket     full at full_at - own/count ns: own counts back from the rounded-up nanosecond, in 1/count ns
 *     interval   full at full_at; own tokens are missing
 *     window     ends at full_at; own is the count. A count that does not fit: see WEIR__SLOT_WIDE_BITS
 *     counter    own is the count of the previous window (upper 14 bits) and of the current one; full_at is the end of
 *                the window after the current one, or of the current one if only the previous window has a count
 *
 * The last three are COUNTED. The slot of a key that has a history is tagged ARENA, and own is the number of its root.
 * If the arena is full, the key is FOLDED: own is how many units it has used, all of them counted at the latest instant
 * that full_at allows. It errs towards denying, for at most a period.
 *
 * A window ends at the same time however little of it is used. So the upper 4 own bits of the COUNTED and ARENA kinds
 * hold the level, how much is used. When slots or the arena are short, a key that has used little is evicted or folded
 * before a key that has used all.
 *
 * Pure. Packing a state of core and unpacking it again gives the same state. The reasons are in
 * docs/internals/table.md. */
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
	WEIR__SLOT_ARENA = 7, /* own is the number of a root, see history.h, or FOLDED and units */
	WEIR__SLOT_LEVEL_SHIFT = 28,
	WEIR__SLOT_LEVEL_MOST = 15,
	WEIR__SLOT_WINDOW_BITS = 14, /* for each of a counter's two windows */
};

/* Windows by the clock, of whole milliseconds, end on a whole millisecond. So a count that does not fit own has
 * WIDE_BITS of its bits in nanoseconds that are added to full_at, less than a millisecond, and the slot is free that
 * much later. If the limit is WIDE, above COUNT_MAX, these are the lower bits, and the upper ones are in own. If it is
 * not, the count can have been made by a higher limit before a change. Then all is used, and the level says so: these
 * are the upper bits, and the lower ones are in own. */
#define WEIR__SLOT_WIDE_BITS 18
#define WEIR__SLOT_WIDE_NS UINT64_C(1000000)

#define WEIR__SLOT_FOLDED (UINT32_C(1) << 27)
#define WEIR__SLOT_ROOT_MASK (WEIR__SLOT_FOLDED - 1) /* for the number of a root, or for folded units */

/* Times are from epoch to epoch + TIME_MAX. The full_at of a key that is charged at the last instant still fits the
 * slot, see WEIR_TABLE_DURATION_MAX. */
#define WEIR__SLOT_TIME_MAX (UINT64_C(1) << 59)

/* How the states of one limit are packed. */
struct weir__slot_format {
	struct weir_plan plan;
	weir_ns epoch;
	uint64_t levels;    /* counted kinds: levels per unit, times 2^60 */
	uint64_t unit_ns;   /* buckets: ns per unit, rounded up */
	uint64_t unit_rest; /* buckets: what rounding up has added, in 1/count ns */
	uint32_t tag;
	bool is_by_ms, is_wide; /* windows: see WEIR__SLOT_WIDE_BITS */
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

static inline bool weir__slot_has_level(struct weir_state slot)
{
	const uint32_t tag = weir__slot_tag(slot);

	return tag >= WEIR__SLOT_ARENA && tag != WEIR__SLOT_CLAIMED;
}

/* How much is used of a slot that has a level, from 0 to LEVEL_MOST. LEVEL_MOST: all of it. */
static inline uint32_t weir__slot_level(struct weir_state slot)
{
	return weir__slot_own(slot) >> WEIR__SLOT_LEVEL_SHIFT;
}

/* The number of the plan that packed the slot, modulo GENERATIONS. 7 (an ARENA or CLAIMED slot) is not a generation. */
static inline uint32_t weir__slot_generation(struct weir_state slot)
{
	return (uint32_t)slot.hi & WEIR__SLOT_GENERATION_MASK;
}

/* In ns since the epoch. */
static inline uint64_t weir__slot_full_at(struct weir_state slot)
{
	return slot.hi >> WEIR__SLOT_TAG_BITS;
}

static inline struct weir_state weir__slot_make(uint32_t fingerprint, uint32_t own, uint64_t full_at, uint32_t tag)
{
	return (struct weir_state){ .lo = fingerprint | (uint64_t)own << 32,
				    .hi = full_at << WEIR__SLOT_TAG_BITS | tag };
}

static inline bool weir__slot_is_folded(struct weir_state slot)
{
	return weir__slot_tag(slot) == WEIR__SLOT_ARENA && weir__slot_own(slot) & WEIR__SLOT_FOLDED;
}

/* The number of the root that an ARENA slot refers to. 0: it is folded. */
static inline uint32_t weir__slot_root(struct weir_state slot)
{
	return weir__slot_is_folded(slot) ? 0 : weir__slot_own(slot) & WEIR__SLOT_ROOT_MASK;
}

/* A slot of a key whose history is in the arena. */
static inline struct weir_state weir__slot_make_root(uint32_t fingerprint, uint32_t root, uint32_t level,
						     uint64_t full_at)
{
	return weir__slot_make(fingerprint, root | level << WEIR__SLOT_LEVEL_SHIFT, full_at, WEIR__SLOT_ARENA);
}

/* The slot of a key that has used this many units, without its history. More than fit are told by the level alone. */
static inline struct weir_state weir__slot_make_folded(uint32_t fingerprint, uint64_t units, uint32_t level,
						       uint64_t full_at)
{
	return weir__slot_make_root(fingerprint, (uint32_t)weir__min(units, WEIR__SLOT_ROOT_MASK) | WEIR__SLOT_FOLDED,
				    level, full_at);
}

/* The level for this many used units of a limit of `most`. */
static inline uint32_t weir__slot_level_of(uint64_t used, uint64_t most)
{
	return used >= most ? WEIR__SLOT_LEVEL_MOST : (uint32_t)(weir__mul(used, WEIR__SLOT_LEVEL_MOST) / most);
}

/* The units of a folded slot, of a limit of `most`. If they did not fit, the most that its level allows. */
static inline uint64_t weir__slot_folded_units(struct weir_state slot, uint64_t most)
{
	const uint64_t units = weir__slot_own(slot) & WEIR__SLOT_ROOT_MASK;
	const uint64_t by_level = weir__saturate(
		weir__div_up(weir__mul(most, weir__slot_level(slot) + 1), WEIR__SLOT_LEVEL_MOST));

	return units < WEIR__SLOT_ROOT_MASK ? units : by_level > units ? by_level : units;
}

/* The first slot of every page of slots in a file. Its fingerprint is 0, which no key has, so no lookup finds it. Its
 * full_at is later than any key's, so it is not free and every other slot is evicted before it. */
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

/* If another limit of the same space packed the slot (inline_limit.h), own may be in other units, and is less than a
 * nanosecond all the same. */
static inline struct weir_state weir__slot_unpack_bucket(const struct weir__slot_format *format, struct weir_state slot)
{
	const weir_ns full_ns = weir__slot_full_at(slot) + format->epoch;
	const uint64_t rest = weir__min(weir__slot_own(slot), format->plan.count - 1);
	struct weir_state state;

	weir__state_set_wide(&state, weir__mul(full_ns, format->plan.count) - rest);
	return state;
}

/* Returns the slot of a bucket that was at `slot` and is charged at now. was_full: the bucket was full at now. A cost
 * of 1 needs no division. */
static inline struct weir_state weir__slot_charge_bucket(const struct weir__slot_format *format, struct weir_state slot,
							 bool was_full, weir_ns now, uint64_t cost)
{
	const uint64_t count = format->plan.count;
	uint64_t full_at = was_full ? now - format->epoch : weir__slot_full_at(slot);
	uint64_t own = was_full ? 0 : weir__min(weir__slot_own(slot), count - 1); /* as in unpack_bucket */

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

/* Whether the nanoseconds of the end of a slot with these own bits have bits of a window's count. */
static inline bool weir__slot_uses_end(const struct weir__slot_format *format, uint32_t own)
{
	return format->is_wide || (format->is_by_ms && own >> WEIR__SLOT_LEVEL_SHIFT == WEIR__SLOT_LEVEL_MOST);
}

/* The instant from which on the key has used nothing, without a window's bits. An earlier version wrote ends of
 * other clocks as they were. Most of those have nanoseconds that are too many for such bits. */
static inline weir_ns weir__slot_resets_at(const struct weir__slot_format *format, struct weir_state slot)
{
	const weir_ns full_at = weir__slot_full_at(slot) + format->epoch;
	weir_ns spare;

	if (WEIR__LIKELY(!weir__slot_uses_end(format, weir__slot_own(slot))))
		return full_at;
	spare = full_at % WEIR__SLOT_WIDE_NS;
	return format->is_wide || spare >> WEIR__SLOT_WIDE_BITS == 0 ? full_at - spare : full_at;
}

/* Returns the state that core continues from. A free slot unpacks to a full bucket or a reset window. */
struct weir_state weir__slot_unpack(const struct weir__slot_format *format, struct weir_state slot);

/* Whether a state that comes from elsewhere has only what a slot has room for. */
bool weir__slot_can_pack(const struct weir__slot_format *format, const struct weir_state *state);

/* Returns all zero if the state has used nothing. */
struct weir_state weir__slot_pack(const struct weir__slot_format *format, uint32_t fingerprint,
				  const struct weir_state *state);

/* Whether each key of this limit has a history in the arena. */
static inline bool weir__format_has_histories(const struct weir__slot_format *format)
{
	return format->tag == WEIR__SLOT_ARENA;
}

/* The longest time that a key takes from all used to nothing used. */
weir_ns weir__slot_longest(const struct weir_plan *plan);

/* Checks that the states of a plan can be packed, and chooses where: into the slot, or into a history in the arena.
 * Returns WEIR_ERR_MAXIMUM if the plan is too large, WEIR_ERR_NO_ARENA if it needs an arena and there is none. */
int weir__slot_format_init(struct weir__slot_format *format, const struct weir_plan *plan, weir_ns epoch,
			   bool has_arena, struct weir_message *ret_message);

/* The same, but always into a history, even if the state would fit the slot. */
int weir__slot_format_init_histories(struct weir__slot_format *format, const struct weir_plan *plan, weir_ns epoch,
				     struct weir_message *ret_message);

#endif
