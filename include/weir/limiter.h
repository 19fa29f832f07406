/* limiter.h: one limit with one state, in memory that you provide, for any number of threads.
 *
 *     static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE];
 *     struct weir_limiter *mail;
 *     struct weir_message why;
 *
 *     if (weir_limiter_init_text(memory, sizeof(memory), "10/s burst 20", &mail, &why) != WEIR_OK)
 *             errx(1, "%s", why.text);
 *     if (weir_limiter_allow(mail, weir_clock_now(), 1))
 *             send_mail();
 *
 * Memory. No function allocates. There is nothing to free: once no thread uses a limiter, you can reuse its memory. A
 * limiter belongs to one process: do not place it in memory shared between processes (table.h is for that).
 *
 * Threads. Any thread may call any function here, except weir_limiter_init for memory that is in use. Only
 * weir_limiter_wait blocks. Buckets, fixed windows and plain sliding counters are decided by one 16-byte
 * compare-and-swap, and denials do not write. Sliding logs, sliding counters with segments, count all or counts above
 * 2^32-1, and limits near 2^64 take a short lock.
 *
 * Time. `now` is weir_clock_now(), or any clock that all threads of a limiter share. */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include <weir/canceller.h>
#include <weir/clock.h>
#include <weir/limit.h>
#include <weir/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_limiter;

/* Enough for any limit except sliding logs and sliding counters with segments. For those call weir_limiter_size. */
#define WEIR_LIMITER_SIZE 256
#define WEIR_LIMITER_ALIGN 64

/* Returns the bytes that a limiter of this limit needs, or 0 if the limit is invalid (weir_limiter_init says why). That
 * is at most WEIR_LIMITER_SIZE, plus 16 bytes per unit of count for a sliding log, plus 8 bytes per segment for
 * segments. It is not a multiple of WEIR_LIMITER_ALIGN: round it up to place several limiters side by side. */
WEIR_API size_t weir_limiter_size(const struct weir_limit *limit);

/* Makes a limiter, with a full bucket or nothing counted, in memory[0..size), aligned to WEIR_LIMITER_ALIGN. The limit
 * is copied. Give a sliding log more memory than it needs if its count may be raised later. To start with fewer tokens
 * than the burst, take the rest right after this call. Fails as weir_plan_compile does. WEIR_ERR_ROOM: the memory is
 * too small; the message says how much it needs. WEIR_ERR_ALIGNMENT: it is not aligned. */
WEIR_API int weir_limiter_init(void *memory, size_t size, const struct weir_limit *limit,
			       struct weir_limiter **ret_limiter, struct weir_message *ret_message);

/* The same from a limit in the notation of limit.h, ended by a NUL. Also returns WEIR_ERR_SYNTAX. */
WEIR_API int weir_limiter_init_text(void *memory, size_t size, const char *text, struct weir_limiter **ret_limiter,
				    struct weir_message *ret_message);

/* Decides whether a request of this cost may go now, and charges it if so. This is the fastest call: it returns only
 * true or false. */
WEIR_API bool weir_limiter_allow(struct weir_limiter *limiter, weir_ns now, uint64_t cost);

/* The same with the full verdict. step.h describes this and the next operations in detail. */
WEIR_API struct weir_verdict weir_limiter_take(struct weir_limiter *limiter, weir_ns now, uint64_t cost);

/* Charges as many units as are left, at most cost. Their number is verdict.granted. */
WEIR_API struct weir_verdict weir_limiter_upto(struct weir_limiter *limiter, weir_ns now, uint64_t cost);

/* Returns the verdict that weir_limiter_take would give, and charges nothing. */
WEIR_API struct weir_verdict weir_limiter_peek(struct weir_limiter *limiter, weir_ns now, uint64_t cost);

/* Gives back n units, at most what is used. The verdict is always allowed. */
WEIR_API struct weir_verdict weir_limiter_refund(struct weir_limiter *limiter, weir_ns now, uint64_t n);

/* Returns the whole units left now. */
WEIR_API uint64_t weir_limiter_tokens(struct weir_limiter *limiter, weir_ns now);

/* Returns what is left now as an exact number, with the part of a unit that has refilled. */
WEIR_API struct weir_tokens weir_limiter_tokens_exact(struct weir_limiter *limiter, weir_ns now);

/* Changes the limit while other threads use it. No thread waits, and each decides entirely by the old limit or entirely
 * by the new one. The rate and burst of a bucket and the count of a window may change. A bucket keeps what was used,
 * cut to the new burst. A window keeps what it has counted. (A token bucket and a leaky bucket that polices decide
 * alike, so one may become the other.)
 *
 * On failure nothing changes. Fails as weir_plan_compile does, with WEIR_ERR_CHANGE if anything else would change, or
 * with WEIR_ERR_ROOM if a log's new count needs more memory than it was given. */
WEIR_API int weir_limiter_change(struct weir_limiter *limiter, weir_ns now, const struct weir_limit *limit,
				 struct weir_message *ret_message);

/* Returns the limit as it is now. */
WEIR_API struct weir_limit weir_limiter_limit(struct weir_limiter *limiter);

/* Takes cost now, even if the tokens have yet to flow in. Any cost up to the burst is allowed, and verdict.delay is the
 * time until the reservation may act. If that is longer than max_wait, the reservation is denied, nothing changes, and
 * retry_after is how much longer it is. While reserved tokens have yet to flow in, takes are denied.
 *
 * Works for token buckets, smooth or with refill interval, and for leaky buckets. A leaky bucket that shapes reserves a
 * departure. If it is full, the reservation is denied with a delay of 0, and retry_after is the time until a place is
 * free. WEIR_ERR_UNSUPPORTED: the limit is a window or a log. */
WEIR_API int weir_limiter_reserve(struct weir_limiter *limiter, weir_ns now, uint64_t cost, weir_ns max_wait,
				  struct weir_reservation *ret_reservation, struct weir_verdict *ret_verdict);

/* Gives back what a reservation took, minus the part that later reservations were built upon. Gives back nothing once
 * its time has passed, or if it was cancelled before. If the rate has changed since, that part is measured at the new
 * rate. Only one thread at a time may cancel the same reservation. Returns the units given back, rounded down. */
WEIR_API uint64_t weir_limiter_cancel(struct weir_limiter *limiter, weir_ns now, struct weir_reservation *reservation);

/* Blocks until a request of this cost may go, and charges it. `deadline` is a time of weir_clock_now (WEIR_NEVER: no
 * deadline). canceller may be NULL. A request that need not wait goes, even if the deadline has passed. WEIR_OK: go.
 * All other results charge nothing. WEIR_ERR_DEADLINE: returned at once if the request could not go by the deadline.
 * WEIR_ERR_NEVER: returned at once if no wait will help. WEIR_ERR_CANCELLED: the canceller was cancelled during or
 * before the wait.
 *
 * Token buckets, and leaky buckets that police, serve waits in the order in which they began, each at its own instant.
 * A wait is a reservation, and no thread is woken for another. When a wait is cancelled, the waits after it keep their
 * instants. The capacity that this leaves unused comes back when those are cancelled, too, or when the limit changes.
 * Leaky buckets that shape return at the departure. With a window, a wait sleeps for its exact retry_after and tries
 * again, so of several waits for the same instant any may be first.
 *
 * A change of the limit applies to waits at once. A raised limit wakes the waits that may go earlier. A lowered limit
 * makes them wait longer, or ends them if they can no longer make the deadline or can never go. Departures that were
 * already assigned stay. Signals do not end a wait. Waits measure elapsed time: setting the wall clock forward ends
 * none early. */
WEIR_API int weir_limiter_wait(struct weir_limiter *limiter, uint64_t cost, weir_ns deadline,
			       struct weir_canceller *canceller);

#ifdef __cplusplus
}
#endif
#endif
