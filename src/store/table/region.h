/* region.h: the memory of a table, which is private, shared or a file. It defines the layout, which one process creates
 * and every process checks when it attaches.
 *
 *     header | limits: one entry each | checksums of the entries | old plans of all limits |
 *     stripes: counters of threads | slots, 4 per cache line, 8 per pair of lines | arena
 *
 * The region holds no pointers and no locks, so a process may map it anywhere and may die at any time. In a file the
 * slots begin on a page boundary, and the first slot of every page is a mark: see region_file.h. */
#ifndef WEIR_STORE_TABLE_REGION_H
#define WEIR_STORE_TABLE_REGION_H

#include <weir/table.h>

#include <stdatomic.h>

#include "os/atomic16.h"
#include "os/clock.h"
#include "os/mapping_guard.h"
#include "store/table/arena.h"
#include "store/table/hash.h"

enum {
	WEIR__LINE_SLOTS = 4,
	WEIR__LINE_BYTES = 64,
	WEIR__LINES = 4, /* lines that a key may be in: two pairs */
	WEIR__CANDIDATES = WEIR__LINES * WEIR__LINE_SLOTS,
	WEIR__LINES_LEAST = 4,    /* two pairs; the number of lines is a multiple of this */
	WEIR__STRIPES = 16,       /* owned by one thread each */
	WEIR__STRIPES_COMMON = 4, /* shared by the threads that own none */
	WEIR__FORGIVEN = 1024,
	WEIR__PLAN_WORDS = 4,
	WEIR__OLD_PLANS_SET = 16, /* places in which the same old plan may be: see plans.h */
	WEIR__OLD_PLANS_EACH = 12,
	WEIR__OLD_PLANS_LEAST = 256,
};

/* How a table was made. These flags never change. */
enum {
	WEIR__REGION_IN_FILE = 1,
	WEIR__REGION_REPLAYS = 2, /* made_at was given, so its times are unrelated to the time of day */
};

/* Counts that are written rarely. Each is stored with a hash, so that random bytes do not pass for a count. */
enum weir__region_count {
	/* What recovery found damaged, since the table was made. */
	WEIR__DAMAGED_PAGES,
	WEIR__DAMAGED_SLOTS,
	WEIR__DAMAGED_LIMITS,
	WEIR__DAMAGED_FIELDS, /* old plans, counters and words of the header */
	WEIR__DAMAGES,
	WEIR__DAMAGED_AT = WEIR__DAMAGES, /* when damage was last found; 0: never */
	WEIR__PLANS_LOST,                 /* old plans that were overwritten although keys packed by them were in use */
	WEIR__REGION_COUNTS,
};

struct weir__region_header {
	char magic[8];
	uint32_t byte_order, version;
	uint64_t size_bytes, lines;
	uint32_t limits_max, stripes;
	struct weir__hash_secret secret;
	uint64_t arena_bytes;
	uint64_t made_for;

	/* Swapped together, by a process that has the file to itself: see region_recover.c. */
	weir_ns epoch __attribute__((aligned(16)));
	uint64_t check; /* a hash of all members before it */

	/* For a file: what the next process to open it needs to know. In both words, hi is a keyed hash of lo. */
	union weir__atomic16 next_epoch; /* lo: the epoch that slots are being moved to; 0: no move */
	/* lo: the numbers of limits and of old plans, and that the file was closed cleanly, so that all checksums are
	 * valid. 0: the file is in use, or the last process was killed. */
	union weir__atomic16 closed;
	uint64_t words_sum; /* checksum of `hold` and `clock`, if the file was closed cleanly */

	union weir__atomic16 counts[WEIR__REGION_COUNTS]; /* lo: the count; hi: a keyed hash of it. All zero: 0 */

	/* After a change of a limit, the full_at of a slot may be too early, since it follows the limit as it was.
	 * Until hi, slots whose full_at has passed are not free if it is later than lo, which is always 0 at present:
	 * see table_find.c. Both are in ns since the epoch. */
	union weir__atomic16 hold;

	struct weir__clock_anchor clock __attribute__((aligned(WEIR__LINE_BYTES)));
	/* What leases add to CLOCK_BOOTTIME, see held.h. A process that starts sets it, unless it goes on for another. Slots
	 * of leases are found only under the anchor that they were made by. 0: no leases yet. */
	_Atomic uint64_t lease_anchor;
	/* How many refunds into lots have begun, and how many are done: see lease_store.c. A process that is killed in between
	 * leaves them different. */
	_Atomic uint64_t lease_refunds_begun, lease_refunds_done;
	_Atomic uint64_t lease_processes; /* that have begun leases of this table */

	/* Counts how often usage is forgiven, which means removed from slots before it has refilled: by resets, refunds
	 * and evictions. It is incremented before the removal. Keys with the same lowest bits of the fingerprint, not
	 * counting the group's bit, share a counter: see table_decide.c. */
	_Atomic uint64_t forgiven[WEIR__FORGIVEN] __attribute__((aligned(WEIR__LINE_BYTES)));
} __attribute__((aligned(256)));

/* A limit as it was between two changes; see plans.h. */
struct weir__region_plan {
	union weir__atomic16 words[WEIR__PLAN_WORDS]; /* lo: a word; hi: a mark, the same in all words */
};

/* A limit that was added. The identity is written in one swap. The words that follow are for people, and every thread
 * that adds the same limit writes the same words. */
struct weir__region_limit {
	union weir__atomic16 identity; /* keyed hashes: lo of the name, hi of the text. lo 0: free; lo EMPTIED: free */
	union weir__atomic16 change;   /* lo: how often it was changed; hi: the claim of its changer, or 0 */
	uint64_t name[(WEIR_TABLE_NAME_MAX + 1) / sizeof(uint64_t)];
	uint64_t text[WEIR_LIMIT_TEXT_MAX / sizeof(uint64_t)]; /* the limit as it was added */
	struct weir__region_plan plans[2];                     /* plan n is at n % 2: the newest, and one more */
} __attribute__((aligned(WEIR__LINE_BYTES)));

/* A plan that a limit had before. Old plans are kept apart because most limits never change, and then no memory backs
 * them. */
struct weir__region_old_plan {
	union weir__atomic16 owner; /* lo: the limit and the plan's number; hi: the claim of its writer. lo 0: free */
	struct weir__region_plan plan;
};

/* The identity of an entry that is free while others that come after it are in use. A search does not end here, see
 * weir__region_add_limit. The lo of a limit is odd. */
enum { WEIR__LIMIT_EMPTIED = 2 };

static inline bool weir__limit_is_used(uint64_t identity_lo)
{
	return identity_lo != 0 && identity_lo != WEIR__LIMIT_EMPTIED;
}

/* Decisions: denied and allowed. */
struct weir__limit_counters {
	_Atomic uint64_t of[2];
};

/* The counters of one thread, or of several. */
struct weir__stripe {
	_Atomic uint64_t owner; /* see stripe.h; 0: no owner */
	_Atomic uint64_t inserted, evicted, lost_races, regained, folded;
	_Atomic uint64_t probes[4]; /* decisions beyond the home line: in the other three lines, and without a slot */
	uint64_t sum;               /* checksum of all counters, if the file was closed cleanly */
	struct weir__limit_counters limits[] __attribute__((aligned(WEIR__LINE_BYTES)));
};

/* The region as a process sees it. The numbers are copied from the header after the check. So if shared memory is
 * corrupted later, no process reads or writes outside the region. */
struct weir__region {
	struct weir__region_header *header;
	uint64_t serial; /* unique in this process; never 0 */
	size_t size_bytes;
	int file;       /* -1: not in a file */
	uint32_t forks; /* number of forks when the file was opened: see region_file.c */
	uint32_t limits_max;
	weir_ns epoch;
	struct weir__hash_secret secret;
	struct weir__mapping_guard *guard; /* NULL: none, see weir__region_guard */
	uint64_t truncations_seen;
	bool is_new;                     /* this process made it */
	uint64_t damaged[WEIR__DAMAGES]; /* found when this process opened the file */
	struct weir__region_limit *limits;
	uint64_t *sums; /* checksums of the entries of limits, if the file was closed cleanly; 0: the entry is free */
	struct weir__region_old_plan *old_plans;
	uint32_t n_old_plans; /* a multiple of OLD_PLANS_SET */
	unsigned char *stripes;
	size_t stripe_bytes;
	union weir__atomic16 *slots;
	uint64_t lines;
	size_t arena_bytes;
	struct weir__arena arena;
};

/* See weir_table_size and weir_table_unlink. */
size_t weir__region_size(uint64_t keys, uint32_t limits_max);
int weir__region_unlink(const char *shared, struct weir_message *ret_message);

/* Opens private memory, or shared memory or a file by its name. Attaches if that exists and creates it otherwise. */
int weir__region_open(struct weir__region *region, const struct weir_table_options *asked,
		      struct weir_message *ret_message);

void weir__region_close(struct weir__region *region);

/* Adds a limit or finds it. *ret_index is the index of its entry. */
int weir__region_add_limit(struct weir__region *region, const char *name, const struct weir_limit *limit,
			   uint32_t *ret_index, struct weir_message *ret_message);

/* Reads a count. A damaged count is 0. */
uint64_t weir__region_count(const struct weir__region *region, enum weir__region_count which);

/* Whether the count is one that was written. */
bool weir__region_count_is_sound(const struct weir__region *region, enum weir__region_count which);

/* Adds to a count. Safe from any thread. A damaged count begins at 0. */
void weir__region_add_count(const struct weir__region *region, enum weir__region_count which, uint64_t n);

/* Finds the entry of the limit whose name has this keyed hash. */
bool weir__region_find_identity(const struct weir__region *region, uint64_t wanted, uint32_t *ret_index);

/* Finds the entry of the limit with this name. Adds nothing. Returns false if it is not found. */
bool weir__region_find_limit(const struct weir__region *region, const char *name, uint32_t *ret_index);

/* Protects the process from a truncation of the file or of the shared memory, see os/mapping_guard.h. Nothing to do for
 * private memory. Returns 0 or an errno. */
int weir__region_guard(struct weir__region *region, const struct weir_table_options *options);

/* Call it each second, from one thread. Looks for a truncation and completes the repair. Without a guard, the result
 * says that nothing happened. */
struct weir__mapping_state weir__region_look(struct weir__region *region);

struct weir__region_words {
	char name[WEIR_TABLE_NAME_MAX + 1], text[WEIR_LIMIT_TEXT_MAX];
};

/* Reads the limit as it was first added, whatever it has been changed to. Returns false if it cannot be read. */
bool weir__region_first_limit(const struct weir__region *region, uint32_t index, struct weir_limit *ret_limit);

/* Reads the name and the current limit of an entry. Returns false if the entry is free. Both are empty if they do not
 * match the entry's identity: the process that took the entry has not written them yet or was killed before, or they
 * are corrupt. */
bool weir__region_read_limit(const struct weir__region *region, uint32_t index, struct weir__region_words *ret_words);

/* When the table was made, or its made_at. 0: unknown. */
weir_ns weir__region_made_at(const struct weir__region *region);

/* Why a process cannot attach to a name or path. why is NULL if errno is the whole reason. */
struct weir__region_refusal {
	int error;
	const char *why;
};

struct weir__region_refusal weir__region_refusal(int system_error);

/* For region_file.c. check_size: whether a table can have this size. fill_in: makes zeroed memory a table.
 * check_header: whether memory is a table and matches the options. lay_out: sets where everything is. */
int weir__region_check_size(const struct weir_table_options *options, struct weir_message *ret_message);
int weir__region_fill_in(struct weir__region *region, void *memory, const struct weir_table_options *options,
			 struct weir_message *ret_message);
int weir__region_check_header(const struct weir__region_header *header, size_t mapped,
			      const struct weir_table_options *options, struct weir_message *ret_message);
void weir__region_lay_out(struct weir__region *region, void *memory, const struct weir__region_header *checked);

/* The value that `check` of this header must have. */
uint64_t weir__region_check_of(const struct weir__region_header *header);

/* Each of the first STRIPES belongs to one thread. The others are shared. */
static inline struct weir__stripe *weir__region_stripe(const struct weir__region *region, uint32_t number)
{
	return (struct weir__stripe *)(void *)(region->stripes + number * region->stripe_bytes);
}

#endif
