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
 * Keys. A key is any bytes, and is not kept. The same bytes under two limits are two keys. A key takes memory, a slot
 * of 16 bytes, only while part of its limit is in use. No sweep is needed.
 *
 * Threads. Any thread of any attached process may call any function here, except weir_table_free while the table is in
 * use. Only weir_table_wait blocks until a request may go. Decisions do not allocate or take a lock. A decision is one
 * 16-byte compare-and-swap, two for a new key, and none if it is denied.
 *
 * Ownership. weir_table_new makes a table, and weir_table_free frees this process's part of it. Limits belong to the
 * table.
 *
 * When full. A key can be in any of 16 slots. If keys in use have taken all of them, one of those keys is evicted.
 * Among buckets it is the one that will be full soonest, among windows the one that has used least. The evicted key
 * starts over as a new key, and weir_table_stats.evicted counts it. New keys under the same limit therefore cannot
 * evict a key that is being throttled, and every allowed request is recorded. If the arena is full, a key is folded:
 * its slot keeps how much it has used, and treats all of that as used at its newest event. A folded key may be denied
 * too often, for at most one period. weir_table_stats.folded counts it.
 *
 * Hashing. The table does not store keys, only 31 bits of a hash that is keyed with a secret of the table. A lookup
 * meets the slot of another key with a probability of at most 16 / 2^31 = 7.5e-9. Every 7 changes of the limit add the
 * same probability again, as long as keys from before those changes may have used something. The two keys then share
 * the slot. If they belong to two limits, each reads the usage of the other by its own rate, as one burst or window at
 * most.
 *
 * Time. Times are valid from 9 years before the table was made until 9 years after. Outside that range, time stands
 * still.
 *
 * All threads that share a table must use one clock, weir_table_now(). It is the same for all processes of a shared
 * table (in one time namespace). A bucket that has been full, or a window that has been over, for less than 100 ms
 * still counts as in use, so that small differences between clocks allow nothing extra. */
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

/* A limit that was added to a table. The table owns it. It is valid until the table is freed, and only in this
 * process. */
struct weir_table_limit;

/* Maxima of limits in a table; weir_table_add_limit rejects a limit beyond them.
 * - Smooth buckets: the count of the rate in lowest terms is at most WEIR_TABLE_RATE_MAX, and an empty bucket is full
 *   after at most WEIR_TABLE_DURATION_MAX.
 * - Refill interval: the burst is at most WEIR_TABLE_COUNT_MAX, and the bucket is full after at most
 *   WEIR_TABLE_DURATION_MAX.
 * - Fixed windows: the count is at most WEIR_TABLE_WINDOW_MAX if the period is in whole milliseconds. With align first,
 *   or another period, it is at most WEIR_TABLE_COUNT_MAX. The window is over after at most WEIR_TABLE_DURATION_MAX.
 *   With count all, a window stops counting at that maximum.
 * - Sliding counters: count is at most WEIR_TABLE_SLIDING_MAX, and twice the period at most WEIR_TABLE_DURATION_MAX.
 * - Sliding logs, and sliding counters with segments, count all or a higher count, are kept in the arena (see
 *   arena_bytes): count is at most WEIR_TABLE_ARENA_MAX, segments at most WEIR_TABLE_SEGMENTS_MAX, and the duration at
 *   most seven eighths of WEIR_TABLE_DURATION_MAX. */
#define WEIR_TABLE_RATE_MAX UINT64_C(0xffffffff)
#define WEIR_TABLE_COUNT_MAX UINT64_C(0xfffffff)
#define WEIR_TABLE_WINDOW_MAX ((UINT64_C(1) << 46) - 1)
#define WEIR_TABLE_SLIDING_MAX UINT64_C(0x3fff)
#define WEIR_TABLE_ARENA_MAX (UINT64_C(1) << 46)
#define WEIR_TABLE_SEGMENTS_MAX UINT64_C(0xfffff)
#define WEIR_TABLE_DURATION_MAX UINT64_C(576460632303423488) /* 18 years and 97 days, in ns */

/* The most limits that are decided together. */
#define WEIR_TABLE_CLAIMS_MAX 16

/* The longest name of a limit, and of shared memory, in bytes. The name of a limit is text in UTF-8, or any other
 * bytes, without control characters. */
#define WEIR_TABLE_NAME_MAX 63

struct weir_table_options {
	size_t size_bytes;  /* all the memory of the table, rounded down to pages; see weir_table_size */
	const char *shared; /* NULL: private memory. Else the name of shared memory, without a slash */
	const char *file;   /* NULL: use `shared`. Else the path of a file, which survives a reboot */
	/* Permission bits of the shared memory or the file. 0 means 0600. A table that another user made is rejected
	 * unless these bits allow for it: see weir_table_new. */
	uint32_t mode;
	uint32_t limits_max; /* the most limits, 1672 bytes each; 0 means 64 */
	/* Part of size_bytes for sliding logs and segments; see weir_table_arena_size. 0: none. Each process that uses
	 * the table needs up to an eighth as much memory besides. */
	size_t arena_bytes;
	weir_ns made_at; /* the time around which times are valid; 0 means now. For replays and tests */
	bool overcommit; /* make the table even if it does not fit into the available memory: see weir_table_new */
};

/* Returns the size_bytes for this many keys in use at once, and this many limits (0: 64). A key takes 23.5 bytes. While
 * no more than this many keys are in use, fewer than 100 in a million are evicted. */
WEIR_API size_t weir_table_size(uint64_t keys, uint32_t limits_max);

/* Returns the arena_bytes for this many keys under this limit, if each key remembers this many events. If events is 0,
 * that is as many as the limit allows: a key reaches that number if it is never idle for a period. Returns 0 if the
 * limit needs no arena, and SIZE_MAX if the limit is invalid.
 *
 * Sliding logs take 65 bytes per key, 65 per 8 events, and 65 per 16 such groups if there are more than 4. If the
 * period in ns and the count together do not fit 56 bits, a group has 4 events instead of 8. Events of the same instant
 * are one event. The events of a sliding counter are the sub-windows in which something was counted. */
WEIR_API size_t weir_table_arena_size(const struct weir_limit *limit, uint64_t keys, uint64_t events);

/* Makes a table, or attaches to one in shared memory or a file. A table that exists under that name must have the same
 * version, size_bytes, limits_max and arena_bytes (an option of 0 accepts any). The process that makes the table sets
 * its mode, secret and clock. Free the result by weir_table_free.
 *
 * Shared memory stays when all processes have left or died, until weir_table_unlink or a reboot. A process killed at
 * any instruction leaves nothing locked and at most its own operation half done: of several limits decided together,
 * some may stay charged.
 *
 * A file stays after a reboot as well. A process that opens it while no other process has it open checks all of it.
 * Damaged parts, from a power cut or otherwise, start over empty. weir_table_stats counts them, and they are not an
 * error. The file gets its name only when it is complete. Remove it like any file. Symbolic links are not followed. A
 * process that opens the file while another checks it waits a few seconds at most, then fails with WEIR_ERR_SYSTEM,
 * EAGAIN. The last process to free the table writes it to the disk.
 *
 * After fork, a private table becomes two tables. Parent and child may both use a shared table, or one in a file.
 *
 * A new table of 1 MiB or more must fit into the memory that is available now: MemAvailable of /proc/meminfo, and what
 * the memory limits of this process's cgroups leave. Shared memory and files must also fit into their file system. With
 * `overcommit`, only the file system is checked. If memory runs out later, the kernel may kill this or another process.
 *
 * WEIR_ERR_NO_TABLE: size_bytes is 0, and no table of this name exists. WEIR_ERR_ROOM: size_bytes is too small.
 * WEIR_ERR_TOO_LARGE: size_bytes, arena_bytes or limits_max is beyond its maximum, or the table does not fit the memory
 * that is available. WEIR_ERR_FILE_TYPE: the name belongs to a symbolic link, a directory, a FIFO, a socket or a
 * device. WEIR_ERR_REGION: the memory or file is not a table, has another version, size_bytes, limits_max or
 * arena_bytes, or belongs to another user. You can attach to a table of another user (other than root) only if you pass
 * a mode with bits for others, or with bits for the group if the table has a group of this process and is not writable
 * by others. WEIR_ERR_LIMIT: an invalid name or number. WEIR_ERR_SYSTEM: see errno. */
WEIR_API int weir_table_new(const struct weir_table_options *options, struct weir_table **ret_table,
			    struct weir_message *ret_message);

/* Writes the table to the disk, and blocks until all earlier decisions are there. Only a table in a file needs this,
 * and only against a power cut: a killed process loses no charges. Without this call the kernel writes pages when it
 * likes, by default within half a minute, and a power cut loses later charges. WEIR_ERR_SYSTEM: see errno. */
WEIR_API int weir_table_sync(struct weir_table *table);

/* Frees this process's part of the table, and its limits. No other thread may use the table any more. NULL is
 * allowed. */
WEIR_API void weir_table_free(struct weir_table *table);

/* Removes the name of shared memory. Attached processes keep the memory until they free the table. WEIR_ERR_LIMIT: an
 * invalid name. WEIR_ERR_SYSTEM: see errno; ENOENT means that the name does not exist. */
WEIR_API int weir_table_unlink(const char *shared, struct weir_message *ret_message);

/* Returns the time of the table's clock. That is weir_clock_now() for a private table; all processes of a shared table
 * read the same clock. */
WEIR_API weir_ns weir_table_now(struct weir_table *table);

/* Checks whether a table with an arena can have this limit, for programs that read limits before they make a table.
 * WEIR_ERR_LIMIT: an invalid limit. WEIR_ERR_MAXIMUM: beyond the maxima of a table; the message names the maximum. */
WEIR_API int weir_table_check_limit(const struct weir_limit *limit, struct weir_message *ret_message);

/* Adds a limit, or finds it. Every process adds the limits that it uses, by the same names. Safe from any thread.
 * WEIR_ERR_CHANGE: the name belongs to a different limit, or the limit has been changed to a different one.
 * WEIR_ERR_FULL: the table already has limits_max limits. WEIR_ERR_LIMIT: an invalid limit or name. WEIR_ERR_MAXIMUM:
 * beyond the maxima of a table. WEIR_ERR_NO_ARENA: the limit needs an arena, and this table has none.
 * WEIR_ERR_SYSTEM: no memory. */
WEIR_API int weir_table_add_limit(struct weir_table *table, const char *name, const struct weir_limit *limit,
				  const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* The same from a limit in the notation of limit.h, ended by a NUL. Also returns WEIR_ERR_SYNTAX. */
WEIR_API int weir_table_add_limit_text(struct weir_table *table, const char *name, const char *text,
				       const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* Adds a limit, or finds the limit of this name, even if it has been changed, as long as it can be changed to `limit`.
 * A program that reads its limits from a file can use this to find them again, and to change those that differ.
 * WEIR_ERR_CHANGE: the limit of this name cannot be changed to `limit`. Other errors as weir_table_add_limit. */
WEIR_API int weir_table_find_limit(struct weir_table *table, const char *name, const struct weir_limit *limit,
				   const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

/* Changes a limit at `now`, while keys are in use: the rate and burst of a bucket, or the count of a window. All
 * threads and processes decide by the new limit from their next decision on. Handles and the name stay valid. No thread
 * waits: each key is carried over when it is next touched, as weir_step_convert does at `now`. A bucket keeps what was
 * used, cut to the new burst, so a full bucket stays full, and a new key has the whole new burst. A window keeps what
 * it has counted.
 *
 * A key that is not touched is carried over through any number of changes, as long as the table remembers the earlier
 * forms of the limit. It remembers 12 times limits_max of them, and at least 256, for all limits together, and forgets
 * the oldest first. It remembers only forms under which a key may still have used something. When a form is forgotten,
 * its keys start over as new keys, and weir_table_stats.plans_lost counts the form. (Sliding logs and segments need
 * none of this.) A thread that already waits, and a decision in progress, may go by the old limit. If such a decision
 * covers several limits, what it has charged stays charged. The same holds for what a cancelled wait has taken ahead.
 *
 * Safe from any thread and process; of several changes at once the last one stays. A change to the same limit does
 * nothing. WEIR_ERR_CHANGE: the algorithm, an option or the period of a window would change. WEIR_ERR_LIMIT and
 * WEIR_ERR_MAXIMUM as weir_table_add_limit. WEIR_ERR_NO_ARENA: a sliding counter would need an arena, which the table
 * does not have. WEIR_ERR_REGION: the shared memory is damaged. */
WEIR_API int weir_table_change_limit(struct weir_table *table, const struct weir_table_limit *limit,
				     const struct weir_limit *to, weir_ns now, struct weir_message *ret_message);

/* The same from a limit in the notation of limit.h, ended by a NUL. Also returns WEIR_ERR_SYNTAX. */
WEIR_API int weir_table_change_limit_text(struct weir_table *table, const struct weir_table_limit *limit,
					  const char *text, weir_ns now, struct weir_message *ret_message);

/* Decides whether a request of this cost may go now, and charges the key if so. This is the fastest call: it returns
 * only true or false. */
WEIR_API bool weir_table_allow(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			       size_t key_length, weir_ns now, uint64_t cost);

/* The same with the full verdict. step.h describes each operation. */
WEIR_API struct weir_verdict weir_table_take(struct weir_table *table, const struct weir_table_limit *limit,
					     const void *key, size_t key_length, weir_ns now, uint64_t cost);

/* Charges as many units as are left, at most cost. Their number is verdict.granted. */
WEIR_API struct weir_verdict weir_table_upto(struct weir_table *table, const struct weir_table_limit *limit,
					     const void *key, size_t key_length, weir_ns now, uint64_t cost);

/* Returns the verdict that weir_table_take would give, and charges nothing. */
WEIR_API struct weir_verdict weir_table_peek(struct weir_table *table, const struct weir_table_limit *limit,
					     const void *key, size_t key_length, weir_ns now, uint64_t cost);

/* Gives back n units, at most what is used. The verdict is always allowed. */
WEIR_API struct weir_verdict weir_table_refund(struct weir_table *table, const struct weir_table_limit *limit,
					       const void *key, size_t key_length, weir_ns now, uint64_t n);

/* Clears what the key has used, so that it is like a new key. Returns false if nothing was stored. */
WEIR_API bool weir_table_reset(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			       size_t key_length);

/* What the table knows about a key. */
struct weir_table_key {
	bool is_stored;              /* false: never charged, full or reset again and removed, or evicted */
	weir_ns full_at;             /* the bucket is full, or the window over, by this instant; 0 if not stored */
	struct weir_verdict verdict; /* as peek with a cost of 0 */
	struct weir_tokens tokens;   /* what is left, as an exact number */
};

/* Looks at a key without changing what any key has used. */
WEIR_API struct weir_table_key weir_table_inspect(struct weir_table *table, const struct weir_table_limit *limit,
						  const void *key, size_t key_length, weir_ns now);

/* Blocks until a request of this cost may go, and charges it. It works like weir_limiter_wait, with the same errors,
 * but `deadline` is a time of weir_table_now. Waits for one key are served in the order of arrival only for buckets
 * without refill interval, and only while the wait is shorter than half a minute. */
WEIR_API int weir_table_wait(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
			     size_t key_length, uint64_t cost, weir_ns deadline, struct weir_canceller *canceller);

/* Takes cost now, even if the tokens have yet to flow in, as weir_limiter_reserve does. Use it in programs that wait
 * without a thread, such as event loops: wait for verdict.delay yourself, or give the cost back by weir_table_cancel.
 * Never blocks.
 *
 * A table reserves at most half a minute ahead, even if max_wait is longer, except for leaky buckets that shape. A
 * reservation that is further ahead is denied, and retry_after is how much longer it would have to wait: try again
 * then. WEIR_ERR_UNSUPPORTED: the limit is a window, a log or a bucket with refill interval. */
WEIR_API int weir_table_reserve(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				size_t key_length, weir_ns now, uint64_t cost, weir_ns max_wait,
				struct weir_reservation *ret_reservation, struct weir_verdict *ret_verdict);

/* Gives back what a reservation of this key took, minus the part that later reservations were built upon. Gives back
 * nothing once its time has passed, if it was cancelled before, or if the limit has changed or the key was reset since.
 * Returns the units given back, rounded down. */
WEIR_API uint64_t weir_table_cancel(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				    size_t key_length, weir_ns now, struct weir_reservation *reservation);

/* One limit that a request must pass. */
struct weir_claim {
	const struct weir_table_limit *limit;
	const void *key;
	size_t key_length;
	uint64_t cost;
};

struct weir_decision {
	/* The verdict of the claim that decided. If the request is allowed, its delay is the longest of all claims.
	 * weir_verdict_join joins the verdicts of all claims instead. */
	struct weir_verdict verdict;
	/* Index of the claim that decided. If the request is denied, that is a claim with `never`, else the denying
	 * claim with the longest retry_after. If the request is allowed, it is the claim with the least remaining. The
	 * first of equals wins. */
	size_t decided_by;
};

/* Decides n claims together, 1 to WEIR_TABLE_CLAIMS_MAX. The request is allowed only if all limits allow it. If one
 * denies it, nothing is charged (but limits with count all count the attempt). The same key of the same limit twice is
 * one claim with the costs added, and both get the same verdict. verdicts has room for n, or is NULL. It gets one
 * verdict per claim, whose `allowed` is the decision of that limit alone. If a limit with count all has counted a
 * denied attempt, its remaining, retry_after and reset_after are those after counting, even if it would have allowed
 * the request.
 *
 * The table checks all claims, then charges them all, and undoes its charges if another thread took from one of them in
 * between. Under contention, a request may therefore be denied that would have been allowed a moment later. The table
 * never allows more than the limits. WEIR_ERR_LIMIT: n is not in the range 1 to WEIR_TABLE_CLAIMS_MAX. */
WEIR_API int weir_table_decide(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
			       struct weir_verdict *verdicts, struct weir_decision *ret_decision);

/* Decides n independent requests in order, like n calls of weir_table_allow, but faster: it fetches the memory for many
 * requests at a time. ret_allowed has room for n. */
WEIR_API void weir_table_allow_batch(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
				     bool *ret_allowed);

/* The same with full verdicts, like n calls of weir_table_take. ret_verdicts has room for n. */
WEIR_API void weir_table_take_batch(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
				    struct weir_verdict *ret_verdicts);

struct weir_table_stats {
	uint64_t capacity; /* slots */
	uint64_t live;     /* slots of keys in use now */
	size_t size_bytes;
	uint32_t limits, limits_max;
	uint64_t inserted; /* keys that got a slot */
	uint64_t evicted;  /* keys that lost their slot to another key while part of their limit was in use */
	/* Keys found in the first, second, third and fourth cache line of the lookup. The first number is not counted
	 * but derived: decisions minus the other three and minus absent. */
	uint64_t probes[4];
	uint64_t absent;                /* keys that were not found */
	size_t arena_bytes, arena_used; /* the arena, and how much of it the histories of keys use */
	uint64_t regained;              /* chunks of 64 bytes reclaimed from killed processes */
	/* How often a key was folded because the arena was full: its slot kept what it had used, without its
	 * history. */
	uint64_t folded;
	uint64_t lost_races; /* decisions on several limits that were undone because another thread was faster */
	/* For a file: damaged parts that were found on opening and started over, since the file was made. A page has
	 * 255 slots. A damaged limit is gone until it is added again. Fields are counters, words of the header, and
	 * earlier forms of changed limits. */
	uint64_t damaged_pages, damaged_slots, damaged_limits, damaged_fields;
	weir_ns damaged_at; /* when damage was last found; 0: never */
	/* Earlier forms of changed limits that were forgotten although keys may have been in use under them. */
	uint64_t plans_lost;
};

/* Fills in the statistics. Slow, because counting live keys reads the whole table (about 0.1 s per GiB). The other
 * numbers are sums of per-thread counters. */
WEIR_API void weir_table_stats(struct weir_table *table, weir_ns now, struct weir_table_stats *ret_stats);

struct weir_table_limit_stats {
	/* Decisions by all processes. A denied decision on several limits counts as denied for those limits that denied
	 * it. */
	uint64_t allowed, denied;
};

/* Fills in the decisions on this limit since the table was made. */
WEIR_API void weir_table_limit_stats(struct weir_table *table, const struct weir_table_limit *limit,
				     struct weir_table_limit_stats *ret_stats);

/* Returns the limit as it is now. */
WEIR_API struct weir_limit weir_table_limit_limit(const struct weir_table_limit *limit);

/* Returns the name of the limit, which is valid until the table is freed. */
WEIR_API const char *weir_table_limit_name(const struct weir_table_limit *limit);

#ifdef __cplusplus
}
#endif
#endif
