/* fallback_store.h: a store that decides with a local table when the store behind it fails.
 *
 * Each limit has a rule for that case: `open` allows, `closed` denies, `share` decides with this server's share of the
 * limit, `local` decides with a different limit. Units that this server allows while the store was certainly not called
 * are charged to the store later.
 *
 * For `share`, the limit of the table is a mirror of the limit in the store. Each reply of the store overwrites the
 * key. Without the store, a unit costs this server as many units of the mirror as there are servers. So the share
 * starts from the last state that the store reported, and an outage does not reset it. The reasons are in
 * docs/internals/redis.md. */
#ifndef WEIR_STORE_FALLBACK_STORE_H
#define WEIR_STORE_FALLBACK_STORE_H

#include "store/store.h"

enum weir__fallback_mode {
	WEIR__FALLBACK_SHARE,
	WEIR__FALLBACK_OPEN,
	WEIR__FALLBACK_CLOSED,
	WEIR__FALLBACK_LOCAL,
	WEIR__FALLBACK_NONE, /* requests with such a limit stay undecided, with the store's error */
};

struct weir__fallback_rule {
	enum weir__fallback_mode mode;
	const struct weir_table_limit *local; /* for LOCAL; lives as long as the table */
	weir_ns budget;                       /* how long a decision waits for the store */
	bool has_mirror;                      /* the limit of the table mirrors the store, whatever the mode */
	bool is_mirrored_in_front;            /* the same, and the store in front of this one writes the mirror */
};

/* State that the fallbacks of all workers of a process share. Starts as all zero. */
struct weir__fallback_shared {
	_Atomic uint32_t workers;
	_Atomic weir_ns decided_at; /* of the latest reply, by the store's clock, plus the number of its worker */
	/* By the table's clock: */
	_Atomic weir_ns settled_after; /* until then, a request without a reply may take effect */
	_Atomic weir_ns mirrored_at;   /* the latest reply that has all charges of this process */
};

struct weir__fallback_options {
	struct weir__store *store; /* called first; freed with this store */
	struct weir_table *table;
	struct weir__fallback_rule otherwise; /* for limits without their own rule, and inline limits */
	/* Fills in the rule of a limit of the table. `rule` starts as a copy of `otherwise`. Called again when the
	 * version or the limit changes: whether the store in front can mirror a limit depends on its numbers. */
	void (*find_rule)(void *context, const struct weir_table_limit *limit, struct weir__fallback_rule *rule);
	uint64_t (*version)(void *context);
	void *context; /* NULL: limits have no rules of their own */
	struct weir__fallback_shared *shared;
	weir_ns (*now)(struct weir_table *table); /* NULL: weir_table_now */
};

/* NULL: no memory; the store behind it is then not freed. */
WEIR__BETWEEN_LIBRARIES struct weir__store *weir__fallback_store_new(const struct weir__fallback_options *options);

#endif
