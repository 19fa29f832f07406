/* table.h: limits for millions of keys, in memory of a fixed size, for any number of threads and processes.
 *
 *     struct weir_table_options options = { .size_bytes = weir_table_size(1000000, 0) };
 *     const struct weir_table_limit *per_user;
 *     struct weir_table *table;
 *     struct weir_message why;
 *
 *     if (weir_table_new(&options, &table, &why) != WEIR_OK ||
 *         weir_table_add_limit_text(table, "per-user", "100/min burst 20", &per_user, &why) != WEIR_OK)
 *             errx(1, "%s", why.text);
 *     if (weir_table_allow(table, per_user, user, strlen(user), weir_table_now(table), 1))
 *             serve();
 *
 * A key is any bytes; under two limits it is two keys. It needs no memory until it is charged, takes 16 bytes while it
 * owes something, and none once it is whole again: nobody sweeps. Nothing on the path allocates or takes a lock; a
 * decision is one 16-byte compare-and-swap, two for a new key, and none if it is denied.
 *
 * When full. A key has its place in one of 16 slots. If all of them belong to keys that owe something, one gives way: of
 * buckets the one that is whole soonest, of windows the one that has used least. It starts anew, which is counted
 * (weir_table_stats.gave_way). So strangers under the same limit cannot wash out a key that is being throttled, and no
 * request that was admitted goes unrecorded.
 *
 * Names of keys are not stored, only 32 bits of a hash keyed with a secret of the table's own. A key that is looked up
 * meets another's slot with a probability of at most 16 / 2^32 = 3.7e-9, twice that under a limit that has been changed 7
 * times or more; then the two share it. Keys of two limits that do so read what the other owes by their own rate, and
 * owe one burst or window at most.
 *
 * Maxima, beyond which weir_table_add_limit refuses a limit: WEIR_TABLE_... below. Times are good from 9 years before a
 * table was made until 9 years after; outside of that, time stands still.
 *
 * Threads that share a table use one clock, weir_table_now(): it is the same for all processes of a shared table (of one
 * time namespace). A
 * key that is whole by less than 100 ms is still taken for one that owes, so that small differences between clocks
 * admit nothing extra. */
#ifndef WEIR_TABLE_H
#define WEIR_TABLE_H

#include <weir/canceller.h>
#include <weir/clock.h>
#include <weir/limit.h>
#include <weir/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_table;

/* A limit that was added to a table. It belongs to the table, and lives until that is freed. */
struct weir_table_limit;

/* What limits in a table may be; weir_table_add_limit refuses more. Smooth buckets: the rate in lowest terms has a count
 * of at most WEIR_TABLE_RATE_MAX, and an empty bucket is whole after WEIR_TABLE_DURATION_MAX at the latest. Refill interval
 * and fixed windows: burst and count up to WEIR_TABLE_COUNT_MAX, whole, or over, after as long. Sliding counters: count
 * up to WEIR_TABLE_SLIDING_MAX, twice the period up to WEIR_TABLE_DURATION_MAX. With count all, a window stops counting at
 * WEIR_TABLE_COUNT_MAX. Sliding logs, and sliding counters with segments, count all or
 * more, are kept in the arena: counts up to WEIR_TABLE_ARENA_MAX, segments up to WEIR_TABLE_SEGMENTS_MAX, seven eighths of
 * that span; see arena_bytes. */
#define WEIR_TABLE_RATE_MAX UINT64_C(0xffffffff)
#define WEIR_TABLE_COUNT_MAX UINT64_C(0xfffffff)
#define WEIR_TABLE_SLIDING_MAX UINT64_C(0x3fff)
#define WEIR_TABLE_ARENA_MAX (UINT64_C(1) << 46)
#define WEIR_TABLE_SEGMENTS_MAX UINT64_C(0xfffff)
#define WEIR_TABLE_DURATION_MAX UINT64_C(576460632303423488) /* 18 years and 97 days, in ns */

/* Limits that are decided together at most. */
#define WEIR_TABLE_CLAIMS_MAX 16

/* The longest name of a limit, and of shared memory. */
#define WEIR_TABLE_NAME_MAX 63

struct weir_table_options {
	size_t size_bytes;  /* all memory there will ever be, cut to whole pages; see weir_table_size */
	const char *shared; /* NULL: memory of this process. Else the name of shared memory, without a slash */
	const char *file;   /* NULL: as shared says. Else the path of a file that stays when the machine is off */
	uint32_t mode; /* of shared memory or the file: permission bits; 0 is 0600, and another user's is refused */
	uint32_t limits_max; /* how many limits there may be, 1664 bytes each; 0 is 64 */
	size_t arena_bytes;  /* of size_bytes, for sliding logs and segments; see weir_table_arena_size. 0 is none */
	weir_ns made_at;     /* the time around which times are good; 0 is now. For replays and tests */
};

/* Bytes for so many keys that owe something at once, and so many limits (0: 64): 23.5 a key. At that fill fewer
 * than 100 in a million give way. */
WEIR_API size_t weir_table_size(uint64_t keys, uint32_t limits_max);

/* Bytes of arena for so many keys under this limit that remember so many events each before they owe nothing again (0: as
 * many as the limit lets them, which is what keys come to that are never idle for a period); 0 if the limit needs none,
 * SIZE_MAX if it cannot be. Sliding logs: 65 bytes a key, 65 for every 8 events, and 65 for every 16 of those if there are
 * more than 4; for every 4 events where the period in ns and the count do not fit 56 bits together. Events of one instant
 * are one; those of sliding counters are the sub-windows in which something was counted. */
WEIR_API size_t weir_table_arena_size(const struct weir_limit *limit, uint64_t keys, uint64_t events);

/* Makes a table, or attaches to one in shared memory or a file: if there is one of that name it must be of the same size,
 * limits_max (unless these are 0) and version, else it is made. Whoever makes it sets its mode, secret and clock.
 *
 * Shared memory stays when all processes have left or died, until weir_table_unlink or a reboot. A process killed at any
 * instruction leaves nothing locked and at most its own operation half done: of several limits decided together, some
 * may stay charged.
 *
 * A file stays after a reboot as well. Who opens it and is alone checks all of it: what was damaged, by a power cut or
 * otherwise, starts anew and is counted in weir_table_stats; that is no error. It is made whole and removed as any file;
 * links are not followed. Who opens it while another one checks it waits some seconds at most: WEIR_ERR_SYSTEM, EAGAIN.
 * The last to free it writes it to the disk.
 *
 * A private table after fork is two tables. A shared one, and one in a file, may be used by parent and child.
 *
 * WEIR_ERR_ROOM: size_bytes is too small. WEIR_ERR_REGION: the memory or file is no table, another one, or one of
 * another user, which only those may attach to who ask for a mode with bits for others.
 * WEIR_ERR_LIMIT: a name or a number that cannot be. WEIR_ERR_SYSTEM. */
WEIR_API int weir_table_new(const struct weir_table_options *options, struct weir_table **ret_table,
			    struct weir_message *ret_message);

/* Returns when all that was decided before is on the disk. Only a file has to be, and only for a power cut: what a process
 * has charged is there when it is killed. Without this the kernel writes pages when it likes, by default within half a
 * minute, and what was charged since then is owed no more after a power cut. WEIR_ERR_SYSTEM. */
WEIR_API int weir_table_sync(struct weir_table *table);

/* Frees what this process has of it. No other thread uses the table any more. NULL is allowed. */
WEIR_API void weir_table_free(struct weir_table *table);

/* Removes the name. Those who are attached keep the memory until they free the table. WEIR_ERR_LIMIT: no name can be
 * so. WEIR_ERR_SYSTEM: errno is ENOENT if there is none. */
WEIR_API int weir_table_unlink(const char *shared, struct weir_message *ret_message);

/* The clock of this table: weir_clock_now() of a private one; all processes of a shared one have the same. */
WEIR_API weir_ns weir_table_now(struct weir_table *table);

/* Whether a table with an arena can have this limit: for who reads limits before there is a table. WEIR_ERR_LIMIT: it cannot
 * be. WEIR_ERR_MAXIMUM: not in a table, and the message tells the most. */
WEIR_API int weir_table_check_limit(const struct weir_limit *limit, struct weir_message *ret_message);

/* Adds a limit, or finds it: all processes add the limits that they use, by the same names. Safe from any thread.
 * WEIR_ERR_CHANGE: there is another limit of this name, or it has been changed to another. WEIR_ERR_FULL: limits_max are there. WEIR_ERR_LIMIT: it cannot
 * be. WEIR_ERR_MAXIMUM, WEIR_ERR_UNSUPPORTED: not in a table. WEIR_ERR_SYSTEM: no memory. */
WEIR_API int weir_table_add_limit(struct weir_table *table, const char *name, const struct weir_limit *limit,
				  const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* The same from the notation of limit.h, ended by a NUL. WEIR_ERR_SYNTAX, too. */
WEIR_API int weir_table_add_limit_text(struct weir_table *table, const char *name, const char *text,
				       const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* Adds a limit, or finds that of this name, whatever it has been changed to, if it can be changed to this one: so a
 * program that reads its limits from a file finds them again, and changes those that differ. WEIR_ERR_CHANGE: it cannot;
 * others as above. */
WEIR_API int weir_table_find_limit(struct weir_table *table, const char *name, const struct weir_limit *limit,
				   const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* Changes a limit while keys live, at now: the rate and burst of a bucket, or the count of a window. From their next
 * decision on, all threads and processes decide by the new one; handles stay as they are, and so does the name. Nobody
 * waits: each key is carried over when it is next touched, as weir_step_convert does at `now`. A bucket keeps its tokens,
 * cut to the new burst; a larger burst gives nobody tokens at once, nor keys that are new. A window keeps what it counted.
 *
 * A key that nobody touches, not even looks at, through 7 changes of its limit is still carried over; through 14 it starts
 * anew, and it may from the 8th on. (Sliding logs and segments are carried over through any number.) Who waits already, and a decision that is just being made, may go by the limit as it
 * was; what such a decision on several limits has charged, and what a cancelled wait has taken ahead, stays charged.
 *
 * Safe from any thread and process; of several at once the last one stays. To the limit as it is, nothing changes.
 * WEIR_ERR_CHANGE: the algorithm, an option or the period of a window would change. WEIR_ERR_LIMIT and WEIR_ERR_MAXIMUM as
 * above; a sliding counter that was added with at most WEIR_TABLE_SLIDING_MAX keeps to that. WEIR_ERR_REGION: somebody scribbled over the shared memory. */
WEIR_API int weir_table_change_limit(struct weir_table *table, const struct weir_table_limit *limit,
				     const struct weir_limit *to, weir_ns now, struct weir_message *ret_message);

/* The same from the notation of limit.h, ended by a NUL. WEIR_ERR_SYNTAX, too. */
WEIR_API int weir_table_change_limit_text(struct weir_table *table, const struct weir_table_limit *limit,
					  const char *text, weir_ns now, struct weir_message *ret_message);

/* May a request of this cost go now? Charges the key if so. The fastest question: a yes or a no. */
WEIR_API bool weir_table_allow(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			       size_t key_length, weir_ns now, uint64_t cost);

/* The same with the whole verdict; see step.h for what each operation answers. */
WEIR_API struct weir_verdict weir_table_take(struct weir_table *table, const struct weir_table_limit *limit,
					     const void *key, size_t key_length, weir_ns now, uint64_t cost);

/* As many as there are, at most cost: verdict.granted. */
WEIR_API struct weir_verdict weir_table_upto(struct weir_table *table, const struct weir_table_limit *limit,
					     const void *key, size_t key_length, weir_ns now, uint64_t cost);

/* What take would answer; charges nothing. */
WEIR_API struct weir_verdict weir_table_peek(struct weir_table *table, const struct weir_table_limit *limit,
					     const void *key, size_t key_length, weir_ns now, uint64_t cost);

/* Gives n back, never above full. */
WEIR_API struct weir_verdict weir_table_refund(struct weir_table *table, const struct weir_table_limit *limit,
					       const void *key, size_t key_length, weir_ns now, uint64_t n);

/* Forgets what the key owes: it is as new. False if nothing was stored. */
WEIR_API bool weir_table_reset(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			       size_t key_length);

/* What the table knows of a key. */
struct weir_table_key {
	bool is_stored;              /* false: never charged, whole again and forgotten, or gave way */
	weir_ns full_at;             /* it owes nothing from this instant on at the latest; 0 if it is not stored */
	struct weir_verdict verdict; /* that of peek with a cost of 0 */
};

/* Looks without changing what any key owes. */
WEIR_API struct weir_table_key weir_table_inspect(struct weir_table *table, const struct weir_table_limit *limit,
						  const void *key, size_t key_length, weir_ns now);

/* Waits until a request of this cost may go, and charges it: as weir_limiter_wait, but on the table's clock, and with
 * one difference: only buckets that do not refill at intervals serve those who wait for one key in the order in which
 * they came, and only while the wait is shorter than half a minute. */
WEIR_API int weir_table_wait(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, weir_ns deadline, struct weir_canceller *canceller);

/* One limit that a request must pass. */
struct weir_claim {
	const struct weir_table_limit *limit;
	const void *key;
	size_t key_length;
	uint64_t cost;
};

struct weir_decision {
	struct weir_verdict verdict; /* joined: see weir_verdict_join */
	size_t decided_by; /* of the claims: denied, the one that does so longest; allowed, the one with least left */
};

/* Decides n claims together, 1 to WEIR_TABLE_CLAIMS_MAX: allowed only if all admit, and charged nowhere if one denies
 * (limits with count all count the attempt). The same key of the same limit twice is one claim with the costs added;
 * both are answered alike. verdicts, unless NULL, gets one for each claim.
 *
 * Looks at all, then charges all, and takes back what it charged if somebody else was faster at one of them. So, under
 * contention, a request may be denied that would have been admitted a moment later; more than the limits is never
 * admitted. WEIR_ERR_LIMIT: n is none of 1 to WEIR_TABLE_CLAIMS_MAX. */
WEIR_API int weir_table_decide(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
			       struct weir_verdict *verdicts, struct weir_decision *ret_decision);

/* n independent requests, decided in order as weir_table_allow and weir_table_take would one after another, but faster:
 * what they need of memory is fetched for many at a time. */
WEIR_API void weir_table_allow_batch(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
				     bool *ret_allowed);

WEIR_API void weir_table_take_batch(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
				    struct weir_verdict *ret_verdicts);

struct weir_table_stats {
	uint64_t capacity; /* slots */
	uint64_t live;     /* slots of keys that owe something now */
	size_t size_bytes;
	uint32_t limits, limits_max;
	uint64_t inserted; /* keys that were given a slot */
	uint64_t evicted;  /* keys that still owed something and lost theirs to another */
	uint64_t
		probes[4]; /* keys found in the first, second, third and fourth cache line that was looked at. The first
				is not counted but reckoned: decisions, less the others and those below */
	uint64_t absent;   /* keys found nowhere */
	size_t arena_bytes, arena_used; /* for histories of keys, and what of it they have */
	uint64_t regained;              /* chunks of 64 bytes that killed processes had left unused */
	uint64_t lost_races; /* decisions on several limits that were taken back because another was faster */
	uint64_t damaged_pages, damaged_slots; /* of a file, ever since it was made: what was found damaged when it was
						  opened, and started anew. A page has 255 slots */
	weir_ns damaged_at;                    /* when that was found last; 0: never */
};

/* Counts live keys, which reads the whole table (about 0.1 s a GiB); the other numbers are sums of counters, of which
 * each thread has a set. */
WEIR_API void weir_table_stats(struct weir_table *table, weir_ns now, struct weir_table_stats *ret_stats);

struct weir_table_limit_stats {
	uint64_t allowed,
		denied; /* decisions, by all processes; several together count as denied by those that denied */
};

WEIR_API void weir_table_limit_stats(struct weir_table *table, const struct weir_table_limit *limit,
				     struct weir_table_limit_stats *ret_stats);

/* The limit as it is now, and its name, which lives as long as the table. */
WEIR_API struct weir_limit weir_table_limit_limit(const struct weir_table_limit *limit);
WEIR_API const char *weir_table_limit_name(const struct weir_table_limit *limit);

#ifdef __cplusplus
}
#endif
#endif
