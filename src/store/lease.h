/* lease.h: the arithmetic of leases: how many units of a limit a server may draw in advance, for how long, and the 32
 * bits that a slot of the table has for a lot.
 *
 * A lot is the unspent units of one draw of a server, for one key. The lease of all its units ends at one instant,
 * which the store has put on a grid of a quarter of the duration. So four bits identify the instant, for a server that
 * knows the store's clock roughly. Pure. */
#ifndef WEIR_STORE_LEASE_H
#define WEIR_STORE_LEASE_H

#include "core/wide.h"
#include "store/table/plans.h"

enum {
	WEIR__LOT_UNITS_BITS = 20,
	WEIR__LOT_UNITS_MOST = (1 << WEIR__LOT_UNITS_BITS) - 1,
	WEIR__LOT_INDEXES = 16,
	WEIR__LEASE_LEAST_MOST = 2, /* units; fewer do not save a call */
};

/* Why a limit is exact although its policy leases it. */
enum weir__lease_obstacle {
	WEIR__LEASE_POSSIBLE,
	WEIR__LEASE_UNSET,     /* the policy does not lease the limit */
	WEIR__LEASE_QUEUE,     /* the limit delays, so the order of requests matters */
	WEIR__LEASE_LOG,       /* the store keeps each event */
	WEIR__LEASE_COUNT_ALL, /* denied requests count, and only the store can count them */
	WEIR__LEASE_FEW,       /* servers may hold fewer than two units */
	WEIR__LEASE_FAST,      /* these units would be spent in less than two round trips */
};

/* How a limit is leased. */
struct weir__lease_terms {
	uint64_t most;    /* units of a key that all servers together may hold */
	weir_ns duration; /* how long a lot is valid; a multiple of 1 ms. 0: the limit is exact */
};

/* `stranded` is in percent of what the limit allows at once; 0: the policy does not lease. */
WEIR__BETWEEN_LIBRARIES enum weir__lease_obstacle weir__lease_terms_of(const struct weir_plan *plan, uint32_t stranded,
								       struct weir__lease_terms *ret_terms);

/* The reason in words, to follow "NAME stays exact: ". Empty: the limit is leased, or the policy does not lease it. */
WEIR__BETWEEN_LIBRARIES const char *weir__lease_obstacle_text(enum weir__lease_obstacle obstacle);

/* How many units to draw for a key that spent this many within `elapsed`: as many as it spends within the duration, at
 * most this server's part. 0: the key spends so few that the store should decide it. */
uint64_t weir__lease_want(const struct weir__lease_terms *terms, uint64_t spent, weir_ns elapsed, uint32_t nodes);

/* --- lots ---------------------------------------------------------------------------------------------------------- */

struct weir__lot {
	uint32_t units; /* unspent. Without a lot: units that were used since the key was first seen. If is_denied: the
			 * lowest cost that the store denied */
	uint32_t size;  /* a code of how many units were drawn: see weir__lot_size. 0: no lot */
	bool is_renewing; /* more units were drawn, or are not needed */
	bool is_denied;   /* the store denied; this server denies requests of this cost until the slot ends */
};

static inline uint32_t weir__lot_pack(const struct weir__lot *lot)
{
	return lot->units | lot->size << 20 | (lot->is_renewing ? UINT32_C(1) << 30 : 0) |
	       (lot->is_denied ? UINT32_C(1) << 31 : 0);
}

static inline struct weir__lot weir__lot_unpack(uint32_t own)
{
	return (struct weir__lot){ .units = own & WEIR__LOT_UNITS_MOST,
				   .size = own >> 20 & 1023,
				   .is_renewing = own >> 30 & 1,
				   .is_denied = own >> 31 };
}

/* Sizes up to 127 have a code, and beyond that those with 7 significant bits. Returns the code of the largest size with
 * at most this many units. */
uint32_t weir__lot_size_code(uint64_t units);

static inline uint64_t weir__lot_size(uint32_t code)
{
	return code < 64 ? code : (uint64_t)(64 + code % 64) << (code / 64 - 1);
}

/* The index of an end, in us by the store's clock. */
static inline uint32_t weir__lot_index(const struct weir__lease_terms *terms, uint64_t end_us)
{
	return (uint32_t)(end_us / (terms->duration / 4000) % WEIR__LOT_INDEXES);
}

/* The end with this index that is nearest to now, of those that a lot may have: from one duration ago to three ahead.
 * Both in us by the store's clock. */
uint64_t weir__lot_end_near(const struct weir__lease_terms *terms, uint32_t index, uint64_t now_us);

#endif
