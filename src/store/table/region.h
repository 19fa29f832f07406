/* region.h: the memory of a table, private, shared or a file's: what lies where, made once, checked by all who attach.
 *
 *     header | limits: one entry each | their later plans | stripes: counters of threads | slots, 4 a cache line, 8 a pair of lines |
 *     arena
 *
 * It holds no pointers and no locks, so a process may map it anywhere and may die at any time. In a file the slots begin
 * with a page, and the first of every page is a mark: see region_file.h. */
#ifndef WEIR_STORE_TABLE_REGION_H
#define WEIR_STORE_TABLE_REGION_H

#include <weir/table.h>

#include <stdatomic.h>

#include "os/atomic16.h"
#include "os/clock.h"
#include "store/table/arena.h"
#include "store/table/hash.h"

enum {
	WEIR__LINE_SLOTS = 4,
	WEIR__LINE_BYTES = 64,
	WEIR__LINES = 4,          /* that a key may be in: two pairs */
	WEIR__LINES_LEAST = 4,    /* two pairs; the number of lines is a multiple of this */
	WEIR__STRIPES = 16,       /* of one thread each */
	WEIR__STRIPES_COMMON = 4, /* of all that have none */
	WEIR__FORGIVEN = 1024,
	WEIR__PLANS = 16, /* of a limit: those of slots that are still known, see view.h, and the one being written */
	WEIR__PLAN_WORDS = 4,
};

/* What a table was made for: constant. */
enum {
	WEIR__REGION_IN_FILE = 1,
	WEIR__REGION_REPLAYS = 2, /* made_at was given, so its times have nothing to do with what time it is */
};

struct weir__region_header {
	char magic[8];
	uint32_t byte_order, version;
	uint64_t size_bytes, lines;
	uint32_t limits_max, stripes;
	struct weir__hash_secret secret;
	uint64_t arena_bytes;
	uint64_t made_for;

	/* Both at once, by who is alone: see region_recover.c. */
	weir_ns epoch __attribute__((aligned(16)));
	uint64_t check; /* a hash of all before it */

	/* Of a file: what to know before it is used again, and what was found damaged ever since it was made. */
	union weir__atomic16 next_epoch; /* lo: the epoch that slots are being moved to, hi: a hash of it; 0: none is */
	_Atomic uint64_t is_closed;      /* cleanly: the marks hold checksums of their pages */
	_Atomic uint64_t damaged_pages, damaged_slots;
	_Atomic weir_ns damaged_at; /* found last; 0: never */

	/* Since a limit changed, slots may say that their keys are whole, by the limit as it was, which are not. Until hi,
	 * those that say so of an instant after lo, which is 0 now, are not free: see table_find.c. Both in ns since the
	 * epoch. */
	union weir__atomic16 hold;

	struct weir__clock_anchor clock __attribute__((aligned(WEIR__LINE_BYTES)));

	/* Counts what is taken from slots without having leaked, before it is: resets, refunds, keys that give way. One
	 * for all keys with the same lowest bits of the fingerprint: see table_decide.c. */
	_Atomic uint64_t forgiven[WEIR__FORGIVEN] __attribute__((aligned(WEIR__LINE_BYTES)));
} __attribute__((aligned(256)));

/* A limit as it was from one change to the next; see plans.h. */
struct weir__region_plan {
	union weir__atomic16 words[WEIR__PLAN_WORDS]; /* lo: a word; hi: a mark, the same in all */
};

/* A limit that was added. The identity is taken at once; the words that follow are for people, and whoever adds the
 * same limit writes the same ones. */
struct weir__region_limit {
	union weir__atomic16 identity; /* keyed hashes, lo of the name, hi of the text; 0: free */
	union weir__atomic16 change;   /* lo: how often it was changed; hi: who is about to, or 0 */
	uint64_t name[(WEIR_TABLE_NAME_MAX + 1) / sizeof(uint64_t)];
	uint64_t text[WEIR_LIMIT_TEXT_MAX / sizeof(uint64_t)]; /* as it was added */
	union weir__atomic16 absent[2]
				   [2]; /* the two words of a state, with marks; of plans with even and odd numbers */
	struct weir__region_plan first; /* of the ring of plans: see plans.h */
} __attribute__((aligned(WEIR__LINE_BYTES)));

/* The others of the ring. They are elsewhere, since most limits never change: then no memory is behind them. */
struct weir__region_plans {
	struct weir__region_plan later[WEIR__PLANS - 1];
};

/* Decisions, by answer: denied and allowed. */
struct weir__limit_counters {
	_Atomic uint64_t of[2];
};

/* What a thread has counted, or several. */
struct weir__stripe {
	_Atomic uint64_t owner; /* see stripe.h; 0: nobody */
	_Atomic uint64_t inserted, evicted, lost_races, regained;
	_Atomic uint64_t probes[4]; /* beyond the home line: in the other three, and nowhere */
	struct weir__limit_counters limits[] __attribute__((aligned(WEIR__LINE_BYTES)));
};

/* What a process knows of it. Copied from the header when that was checked, so that whoever scribbles over shared memory
 * later leads nobody out of it. */
struct weir__region {
	struct weir__region_header *header;
	uint64_t serial; /* another one for each in this process; never 0 */
	size_t size_bytes;
	int file;       /* -1: none */
	uint32_t forks; /* when the file was opened: see region_file.c */
	uint32_t limits_max;
	weir_ns epoch;
	struct weir__hash_secret secret;
	struct weir__region_limit *limits;
	struct weir__region_plans *plans; /* of each */
	unsigned char *stripes;
	size_t stripe_bytes;
	union weir__atomic16 *slots;
	uint64_t lines;
	size_t arena_bytes;
	struct weir__arena arena;
};

/* As the functions of table.h. */
size_t weir__region_size(uint64_t keys, uint32_t limits_max);
int weir__region_unlink(const char *shared, struct weir_message *ret_message);

/* Private memory, or that of the name or file: made, or attached to if it is there. */
int weir__region_open(struct weir__region *region, const struct weir_table_options *asked,
		      struct weir_message *ret_message);

void weir__region_close(struct weir__region *region);

/* The number of the limit's entry, new or found. */
int weir__region_add_limit(struct weir__region *region, const char *name, const struct weir_limit *limit,
			   uint32_t *ret_index, struct weir_message *ret_message);

/* Where the limit of this name has its entry. Adds nothing. */
bool weir__region_find_limit(const struct weir__region *region, const char *name, uint32_t *ret_index);

struct weir__region_words {
	char name[WEIR_TABLE_NAME_MAX + 1], text[WEIR_LIMIT_TEXT_MAX];
};

/* The limit as it was when it was first added, whatever it has been changed to. False: it cannot be read. */
bool weir__region_first_limit(const struct weir__region *region, uint32_t index, struct weir_limit *ret_limit);

/* What an entry says for people, the limit as it is now; false if it is free. Both are empty if they are not those of
 * its identity: whoever took it has not written them yet or was killed before, or somebody scribbled over them. */
bool weir__region_read_limit(const struct weir__region *region, uint32_t index, struct weir__region_words *ret_words);

/* When it was made, or what made_at said; 0 if the epoch does not tell. */
weir_ns weir__region_made_at(const struct weir__region *region);

/* What region_file.c needs of region.c. Whether a table can have such a size; zeroed memory made a table; whether memory
 * is one, and the one that is asked for; and where all lies in it. */
int weir__region_check_size(const struct weir_table_options *options, struct weir_message *ret_message);
int weir__region_fill_in(struct weir__region *region, void *memory, const struct weir_table_options *options,
			 struct weir_message *ret_message);
int weir__region_check_header(const struct weir__region_header *header, size_t mapped,
			      const struct weir_table_options *options, struct weir_message *ret_message);
void weir__region_lay_out(struct weir__region *region, void *memory, const struct weir__region_header *checked);

/* What `check` of this header must be. */
uint64_t weir__region_check_of(const struct weir__region_header *header);

/* Of the first STRIPES each belongs to a thread; the others are common. */
static inline struct weir__stripe *weir__region_stripe(const struct weir__region *region, uint32_t number)
{
	return (struct weir__stripe *)(void *)(region->stripes + number * region->stripe_bytes);
}

#endif
