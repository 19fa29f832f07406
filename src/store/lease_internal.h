/* lease_internal.h: shared by the files of the lease store. */
#ifndef WEIR_STORE_LEASE_INTERNAL_H
#define WEIR_STORE_LEASE_INTERNAL_H

#include <stdatomic.h>

#include "store/eventual.h"
#include "store/lease_store.h"
#include "store/table/held.h"

struct background;
struct split;
struct watch_chunk;

/* How one limit of the table is leased. */
struct rule {
	uint64_t version;               /* of the rules when this was read, plus 1; 0: not read yet */
	bool is_wanted;                 /* by the policy; whether it is possible depends on the plan */
	uint64_t number;                /* of the limit's plan */
	uint64_t salt;                  /* of the slots of its keys */
	struct weir__lease_terms terms; /* duration 0: the limit is exact */
	bool is_window;
	uint64_t ahead; /* units of a key that this server may allow by its mirror; 0: the limit is not eventual */
	struct weir__eventual eventual;
	weir_ns valid;              /* how long a mirror is valid after a reply of the store */
	struct background *open[3]; /* draws, returns and pushes that are being gathered; NULL: none */
};

enum { WATCH_CLASSES = 10, SYNC_CLASSES = 6 };

/* Keys to look at again. All wait equally long, so the first is always due first. */
struct watch {
	struct watch_chunk *first, *last;
	size_t n;
	weir_ns wait;
};

struct lease {
	struct weir__store store; /* first member: the two convert by a cast */
	struct weir__lease_options options;
	uint64_t version; /* of the rules, plus 1; 0: not read yet */
	bool has_any, has_sent, is_leaving;
	bool is_left;          /* another process takes over the table */
	weir_ns at;            /* CLOCK_BOOTTIME plus the anchor, after the current requests had arrived */
	uint64_t anchor;       /* for which the rules were read */
	uint64_t heard_offset; /* the store's clock minus `at`, by its latest reply; 0: no reply yet */
	uint32_t nodes;
	weir_ns counted_at;
	struct split *spare;
	uint32_t n_spare;
	struct background *backgrounds, *spare_backgrounds; /* open and under way; for reuse */
	uint32_t n_backgrounds, n_spare_backgrounds;
	weir_ns gather_until; /* when gathered requests are sent; 0: there are none */
	uint64_t sent_offset; /* as heard_offset, but from when the request was submitted */
	weir_ns heard_at;     /* when the latest reply came */
	weir_ns order;  /* of the latest reply, as in weir__lease_shared.latest; 0: another worker has a later one */
	uint32_t owner; /* number of this process, in keys that it looks at every sync */
	struct watch
		watches[WATCH_CLASSES + SYNC_CLASSES]; /* of lots; of mirrors, by how often they are synchronised */
	size_t watch_bytes;
	uint64_t counts[WEIR__LEASE_COUNTS]; /* since they were last added to those of all workers */
	struct rule rules[];                 /* by index of the limit */
};

/* Units that were taken out of a lot for a request that the store behind has not decided. */
struct taken {
	uint32_t units;
	weir_ns end;      /* identifies the lot */
	uint64_t salt;    /* of the rule then */
	uint64_t refunds; /* into any lot, that were done before */
};

/* A key with a mirror that the store behind decides on. */
struct asked_key {
	uint64_t hash;   /* of the key under its limit */
	uint64_t number; /* of the limit's plan */
	uint32_t of;     /* claim of the part */
	uint32_t pushed; /* units, if is_pushing */
	uint32_t reserved;
	uint32_t turn;
	bool is_pushing, is_frozen;
};

/* A request, part of which the store behind decides. */
struct split {
	struct weir__store_request part; /* first member: the two convert by a cast */
	struct lease *lease;
	struct weir__store_request *whole;
	struct split *next_spare;
	weir_ns sent_at;
	uint32_t room; /* claims */
	struct weir_verdict *verdicts;
	/* Twice the room: when the whole request moves, its keys move, and the part gets claims with the new
	 * addresses. */
	struct weir_claim *claims;
	struct taken *taken; /* for each claim of the whole */
	/* Keys with mirrors, and the units that are pushed for them before the store behind decides. */
	struct weir__store_request before;
	uint32_t n_asked;
	struct asked_key *asked;
	struct weir_claim *pushed;
	struct weir_verdict *pushed_verdicts;
	struct weir__store_push *pushes;
	uint32_t of[]; /* for each claim of the part: its index in the whole */
};

static inline uint64_t weir__lease_hash_of(const struct weir_claim *claim)
{
	return weir__hash(&claim->limit->secret, claim->key, claim->key_length);
}

static inline void weir__lease_count(struct lease *lease, enum weir__lease_count what, uint64_t n)
{
	lease->counts[what] += n;
}

/* The end of a lot has three other facts in its lowest bits, which are 8 microseconds: how much of the duration was
 * left when the lot arrived, in 256ths; whether the end is not on the store's grid, so that the lot cannot be given
 * back; and the index of the end (weir__lot_index). */
enum { WEIR__LOT_LEFT_MASK = 0xff, WEIR__LOT_OFF_GRID = 0x100, WEIR__LOT_INDEX_SHIFT = 9, WEIR__LOT_END_BITS = 0x1fff };

/* The latest instant at which the lot can have arrived. */
static inline weir_ns weir__lot_arrived(const struct weir__lease_terms *terms, weir_ns end)
{
	return end - terms->duration / 256 * (end & WEIR__LOT_LEFT_MASK);
}

/* --- lease_rules.c ------------------------------------------------------------------------------------------------ */

void weir__lease_read_rule(struct lease *lease, const struct weir_table_limit *limit, struct rule *rule);
void weir__lease_read_clock(struct lease *lease);

static inline bool weir__lease_is_exact(const struct rule *rule)
{
	return rule->terms.duration == 0 && rule->ahead == 0;
}

/* NULL: the limit is exact. */
static inline struct rule *weir__lease_rule(struct lease *lease, const struct weir_table_limit *limit)
{
	struct rule *rule;

	if (limit->name[0] == '\0') /* an inline limit has no name */
		return NULL;
	rule = &lease->rules[limit->index];
	if (WEIR__UNLIKELY(rule->version != lease->version ||
			   (rule->is_wanted && rule->number != weir__plans_number(limit->entry))))
		weir__lease_read_rule(lease, limit, rule);
	return weir__lease_is_exact(rule) ? NULL : rule;
}

/* lease_split.c. Its part has no claims yet, and nothing was taken. NULL: no memory. */
struct split *weir__lease_split_new(struct lease *lease, uint32_t n);
void weir__lease_split_recycle(struct split *split);
void weir__lease_split_free(struct split *split);

/* --- lease_eventual.c --------------------------------------------------------------------------------------------- */

enum found { HERE, DENIED_HERE, BEHIND };

/* Decides a claim by the mirror of its key. BEHIND: the store has to decide. */
enum found weir__eventual_take(struct lease *lease, const struct weir__store_request *request, uint32_t i,
			       struct rule *rule, struct weir_verdict *ret_verdict);

/* The same for claims that are decided together. Fills in the verdicts of the part. BEHIND: also if some claims have no
 * mirrors. */
enum found weir__eventual_take_together(struct split *split);

/* Looks without a charge. Returns false if this server has no valid mirror of the key. */
bool weir__eventual_peek(struct lease *lease, const struct weir__store_request *request, uint32_t i, struct rule *rule,
			 struct weir_verdict *ret_verdict);

/* Undoes a charge that a mirror allowed, if it was not pushed yet. Returns false if the store has to undo it. */
bool weir__eventual_undo(struct lease *lease, const struct weir__store_request *request, struct rule *rule);

/* The key is about to be reset: drops the units that wait. */
void weir__eventual_forget(struct lease *lease, const struct weir_claim *claim);

/* The part is about to be submitted: for keys with mirrors, pushes what waits in the same call. */
void weir__eventual_ask(struct split *split);

/* The part was kept (struct weir__store_caller): its keys have moved. */
void weir__eventual_moved(struct split *split);

/* The part is complete: writes what the store said into the mirrors. */
void weir__eventual_heard(struct split *split);

/* Of lease_background.c: a push is about to be sent. Returns false if there is nothing to push. */
bool weir__eventual_begin_push(struct lease *lease, const struct weir_claim *claim, const struct rule *rule,
			       uint32_t *ret_units, uint32_t *ret_turn, struct weir__store_push *ret_push);

/* The claim's push is complete, which was sent when the limit's plan had this number. The verdict is valid if the store has
 * decided. */
void weir__eventual_end_push(struct lease *lease, const struct weir_claim *claim, const struct rule *rule,
			     uint32_t units, uint32_t turn, weir_ns sent_at, uint64_t number,
			     const struct weir__store_request *push, const struct weir_verdict *verdict);

/* Looks at a key that is due. Returns false if it leaves the list. */
bool weir__eventual_look(struct lease *lease, const struct weir_claim *claim, struct rule *rule, bool all);

/* This process ends, and another takes over the table: that one becomes the owner when it uses the key. */
void weir__eventual_let_go(struct lease *lease, const struct weir_claim *claim, const struct rule *rule);

/* --- lease_background.c ------------------------------------------------------------------------------------------- */

void weir__lease_init_watches(struct lease *lease);

/* Draws units for a key, or returns units of a lot to the store. Both are gathered, and sent a little later. */
void weir__lease_draw(struct lease *lease, const struct weir_claim *claim, struct rule *rule, uint64_t units);
void weir__lease_give_back(struct lease *lease, const struct weir_claim *claim, struct rule *rule, uint64_t units,
			   weir_ns end);

/* Queues a push of what waits for a key. Returns false if too much is under way. */
bool weir__lease_push(struct lease *lease, const struct weir_claim *claim, struct rule *rule);

/* Puts a key with a mirror on the list of keys to look at every sync. Returns false if memory runs out. */
bool weir__lease_watch_mirror(struct lease *lease, const struct weir_claim *claim, const struct rule *rule);

/* Notes the store's clock, from a reply to a request that was submitted at sent_at. */
void weir__lease_heard(struct lease *lease, weir_ns decided_at, weir_ns sent_at);

/* Whether that reply is still the latest that any worker has handled. */
bool weir__lease_is_latest(const struct lease *lease);

/* Submits what was gathered. The caller flushes. */
void weir__lease_send(struct lease *lease);

/* See struct weir__store. */
weir_ns weir__lease_due(struct lease *lease, weir_ns now);
bool weir__lease_leave(struct lease *lease, bool goes_on);

/* The store behind is freed. */
void weir__lease_fini(struct lease *lease);

#endif
