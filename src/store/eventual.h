/* eventual.h: the arithmetic of eventual limits: how many units a server may allow before the store has confirmed them,
 * and what a slot of the table records of a key. Pure.
 *
 * A mirror is this server's copy of a key's state in the store. It is the key's own slot in the table. A second slot,
 * see table/held.h, records when the store last replied, and how many units wait to be confirmed. */
#ifndef WEIR_STORE_EVENTUAL_H
#define WEIR_STORE_EVENTUAL_H

#include "core/wide.h"
#include "store/table/plans.h"

enum {
	WEIR__WAITING_MOST = (1 << 16) - 1, /* units */
	WEIR__ASKS_MOST = (1 << 5) - 1,
	WEIR__TURNS = 1 << 3,
	WEIR__OWNERS = (1 << 4) - 1, /* numbers of processes; 0 means none */
	WEIR__HEARD_BITS = 20,
	WEIR__HEARD_MASK = (1 << WEIR__HEARD_BITS) - 1,
};

/* Why a limit is exact although its policy says eventual. */
enum weir__eventual_obstacle {
	WEIR__EVENTUAL_POSSIBLE,
	WEIR__EVENTUAL_UNSET,     /* the policy does not say eventual */
	WEIR__EVENTUAL_QUEUE,     /* the limit delays, so the order of requests matters */
	WEIR__EVENTUAL_LOG,       /* each event has its own instant, which the store's reply does not have */
	WEIR__EVENTUAL_COUNT_ALL, /* denied requests count, and only the store can count them */
	WEIR__EVENTUAL_LARGE,     /* the state does not fit a slot, so one compare-and-swap cannot write a mirror */
	WEIR__EVENTUAL_FEW,       /* less than one unit may be ahead */
};

/* What the policy says. */
struct weir__eventual {
	uint32_t ahead; /* in percent of what the limit allows at once; 0: the limit is not eventual */
	weir_ns sync;   /* how often charges are pushed */
	weir_ns budget; /* how long a push may take */
};

/* How many units a server may allow before the store has confirmed them. Sets 0 if the limit cannot be eventual. */
WEIR__BETWEEN_LIBRARIES enum weir__eventual_obstacle weir__eventual_ahead_of(const struct weir_plan *plan,
									     uint32_t ahead, uint64_t *ret_units);

/* The reason in words, to follow "NAME stays exact: ". Empty: the limit is eventual, or the policy does not say so. */
WEIR__BETWEEN_LIBRARIES const char *weir__eventual_obstacle_text(enum weir__eventual_obstacle obstacle);

/* --- what a slot records of a key ----------------------------------------------------------------------------------- */

struct weir__waiting {
	uint32_t units;  /* allowed and not confirmed */
	uint32_t asks;   /* exact requests under way; while there are any, the mirror must not allow */
	bool is_unsure;  /* a push had no reply: the store may have charged its units, or may still do so */
	bool is_pushing; /* a push is under way, of some of the units */
	bool is_queued;  /* a push is being gathered */
	bool is_used;    /* the key was used since the last push */
	uint32_t turn;   /* number of the latest push; only its reply confirms units */
	uint32_t owner;  /* the process that looks at the key every sync; 0: none */
};

enum { WEIR__IS_UNSURE = 1 << 21, WEIR__IS_PUSHING = 1 << 22, WEIR__IS_QUEUED = 1 << 23, WEIR__IS_USED = 1 << 24 };

static inline uint32_t weir__waiting_pack(const struct weir__waiting *waiting)
{
	return waiting->units | waiting->asks << 16 | (waiting->is_unsure ? WEIR__IS_UNSURE : 0) |
	       (waiting->is_pushing ? WEIR__IS_PUSHING : 0) | (waiting->is_queued ? WEIR__IS_QUEUED : 0) |
	       (waiting->is_used ? WEIR__IS_USED : 0) | waiting->turn << 25 | waiting->owner << 28;
}

static inline struct weir__waiting weir__waiting_unpack(uint32_t own)
{
	return (struct weir__waiting){ .units = own & WEIR__WAITING_MOST,
				       .asks = own >> 16 & WEIR__ASKS_MOST,
				       .is_unsure = own & WEIR__IS_UNSURE,
				       .is_pushing = own & WEIR__IS_PUSHING,
				       .is_queued = own & WEIR__IS_QUEUED,
				       .is_used = own & WEIR__IS_USED,
				       .turn = own >> 25 & (WEIR__TURNS - 1),
				       .owner = own >> 28 };
}

/* The end of the slot has two times, in units of about a millisecond. Its higher bits are when the last unit was
 * allowed, plus a constant. Its lowest bits are when the store last replied by the plan with this number; 0: never, or too
 * long ago. Read by another plan, they are a time that is far away. */
static inline uint32_t weir__heard_unit(weir_ns at, uint64_t number)
{
	enum { APART = 648055 }; /* the golden section, so that any two of many numbers are far apart */

	return (uint32_t)(((at >> WEIR__HEARD_BITS) + number % WEIR__HEARD_MASK * APART) % WEIR__HEARD_MASK);
}

static inline uint32_t weir__heard_code(weir_ns at, uint64_t number)
{
	return weir__heard_unit(at, number) + 1;
}

/* Whether the store replied at most `within` before now. */
static inline bool weir__heard_within(uint32_t code, weir_ns now, uint64_t number, weir_ns within)
{
	const uint64_t unit = weir__heard_unit(now, number);

	return code != 0 && (unit + WEIR__HEARD_MASK - (code - 1)) % WEIR__HEARD_MASK <= within >> WEIR__HEARD_BITS;
}

#endif
