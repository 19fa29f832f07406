/* lease_internal.h: shared by the files of the lease store. */
#ifndef WEIR_STORE_LEASE_INTERNAL_H
#define WEIR_STORE_LEASE_INTERNAL_H

#include <stdatomic.h>

#include "store/lease_store.h"
#include "store/table/held.h"

struct background;
struct split;
struct watch_chunk;

/* How one limit of the table is leased. */
struct rule {
	uint64_t version;               /* of the rules when this was read, plus 1; 0: not read yet */
	uint64_t number;                /* of the limit's plan */
	uint64_t salt;                  /* of the slots of its keys */
	struct weir__lease_terms terms; /* duration 0: the limit is exact */
	bool is_window;
	struct background *open[2]; /* what is to be drawn and to be given back; NULL: nothing */
};

enum { WATCH_CLASSES = 10 };

/* Lots to look at, in the order in which they are due. */
struct watch {
	struct watch_chunk *first, *last;
};

struct lease {
	struct weir__store store; /* first member: the two convert by a cast */
	struct weir__lease_options options;
	uint64_t version; /* of the rules, plus 1; 0: not read yet */
	bool has_any, has_sent, is_leaving;
	weir_ns at;            /* CLOCK_BOOTTIME and the anchor, when the current requests had arrived */
	uint64_t anchor;       /* for which the rules were read */
	uint64_t heard_offset; /* from `at` to the store's clock, by its latest reply; 0: no reply yet */
	uint32_t nodes;
	weir_ns counted_at;
	struct split *spare;
	uint32_t n_spare;
	struct background *backgrounds, *spare_backgrounds; /* open and under way; for reuse */
	uint32_t n_backgrounds, n_spare_backgrounds;
	weir_ns gather_until; /* when what was gathered is sent; 0: nothing was */
	struct watch watches[WATCH_CLASSES];
	size_t watch_bytes;
	uint64_t counts[WEIR__LEASE_COUNTS]; /* since they were last added to those of all workers */
	struct rule rules[];                 /* by index of the limit */
};

static inline void weir__lease_count(struct lease *lease, enum weir__lease_count what, uint64_t n)
{
	lease->counts[what] += n;
}

/* The end of a lot has two other facts in its lowest bits, which are less than a microsecond: how much of the duration
 * was left when the lot arrived, in 256ths, and whether the end is not on the store's grid, so that the lot cannot be
 * given back. */
enum { WEIR__LOT_LEFT_MASK = 0xff, WEIR__LOT_OFF_GRID = 0x100, WEIR__LOT_END_BITS = 0x1ff };

/* The latest instant at which the lot can have arrived. */
static inline weir_ns weir__lot_arrived(const struct weir__lease_terms *terms, weir_ns end)
{
	return end - terms->duration / 256 * (end & WEIR__LOT_LEFT_MASK);
}

/* lease_store.c. NULL: the limit is exact. */
struct rule *weir__lease_rule(struct lease *lease, const struct weir_table_limit *limit);
void weir__lease_read_clock(struct lease *lease);

/* --- lease_background.c ------------------------------------------------------------------------------------------- */

/* Draws units for a key, or gives back units of a lot. Both are gathered, and sent a little later. */
void weir__lease_draw(struct lease *lease, const struct weir_claim *claim, struct rule *rule, uint64_t units);
void weir__lease_give_back(struct lease *lease, const struct weir_claim *claim, struct rule *rule, uint64_t units,
			   uint32_t index, weir_ns end);

/* Notes the store's clock, as of a reply. */
void weir__lease_heard(struct lease *lease, weir_ns decided_at);

/* Submits what was gathered. The caller flushes. */
void weir__lease_send(struct lease *lease);

/* See struct weir__store. */
weir_ns weir__lease_due(struct lease *lease, weir_ns now);
bool weir__lease_leave(struct lease *lease);

/* The store behind is freed. */
void weir__lease_fini(struct lease *lease);

#endif
