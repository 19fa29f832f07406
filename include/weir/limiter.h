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
 * No function allocates. Buckets, fixed windows and plain sliding counters are decided by one 16-byte compare-and-swap
 * and denials do not write; sliding logs, sliding counters with segments, count all or counts above 2^32-1, and limits
 * near 2^64 take a short lock. There is nothing to free: when no thread uses a limiter any more, its memory is yours
 * again. A limiter belongs to one process: do not place it in memory shared between processes. */
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

/* Enough for any limit but sliding logs and sliding counters with segments: ask weir_limiter_size for those. */
#define WEIR_LIMITER_SIZE 256
#define WEIR_LIMITER_ALIGN 64

/* Bytes that a limiter of this limit needs, 0 if the limit is refused (init says why).
 * WEIR_LIMITER_SIZE or less; for a sliding log that plus 16 bytes for each of count; for segments that plus 8 each.
 * Not a multiple of WEIR_LIMITER_ALIGN: round it up where several lie side by side. */
WEIR_API size_t weir_limiter_size(const struct weir_limit *limit);

/* Makes a limiter, full of tokens and with nothing counted, in memory[0..size), aligned to WEIR_LIMITER_ALIGN. The
 * limit is copied. More memory than needed lets a sliding log's count be raised later. To start with fewer tokens than
 * the burst, take the others away at once. Fails as weir_plan_compile does, or with WEIR_ERR_ROOM. */
WEIR_API int weir_limiter_init(void *memory, size_t size, const struct weir_limit *limit,
			       struct weir_limiter **ret_limiter, struct weir_message *ret_message);

/* The same from the notation of limit.h, ended by a NUL. */
WEIR_API int weir_limiter_init_text(void *memory, size_t size, const char *text, struct weir_limiter **ret_limiter,
				    struct weir_message *ret_message);

/* May a request of this cost go now? Charges it if so. The fastest question: a yes or a no. */
WEIR_API bool weir_limiter_allow(struct weir_limiter *limiter, weir_ns now, uint64_t cost);

/* The same with the whole verdict. */
WEIR_API struct weir_verdict weir_limiter_take(struct weir_limiter *limiter, weir_ns now, uint64_t cost);

/* As many as there are, at most cost: verdict.granted. */
WEIR_API struct weir_verdict weir_limiter_upto(struct weir_limiter *limiter, weir_ns now, uint64_t cost);

/* What take would answer; charges nothing. */
WEIR_API struct weir_verdict weir_limiter_peek(struct weir_limiter *limiter, weir_ns now, uint64_t cost);

/* Gives n back, never above full. */
WEIR_API struct weir_verdict weir_limiter_refund(struct weir_limiter *limiter, weir_ns now, uint64_t n);

/* Whole units left now. */
WEIR_API uint64_t weir_limiter_tokens(struct weir_limiter *limiter, weir_ns now);

/* Changes the limit while other threads use it: none waits, each decides wholly by the old or wholly by the new one.
 * Rate and burst of buckets and the count of windows may change: a bucket keeps its tokens, cut to the new burst; a
 * window keeps what it has counted. On failure nothing changes: as compile, or WEIR_ERR_CHANGE if something else would
 * change, or WEIR_ERR_ROOM if a log's new count needs more memory than it was given. (A token bucket and a leaky bucket
 * that polices decide alike, so one may become the other.) */
WEIR_API int weir_limiter_change(struct weir_limiter *limiter, weir_ns now, const struct weir_limit *limit,
				 struct weir_message *ret_message);

/* The limit as it is now. */
WEIR_API struct weir_limit weir_limiter_limit(struct weir_limiter *limiter);

/* Takes cost now even if the tokens are yet to come: any cost up to the burst is admitted, verdict.delay is until it
 * may act. Denied, with nothing changed, if that would be longer than max_wait: retry_after is then how much longer.
 * While tokens are owed, takes are denied.
 * Token buckets, smooth or with refill interval, and leaky buckets that police: WEIR_ERR_UNSUPPORTED for all others,
 * and nothing is written. */
WEIR_API int weir_limiter_reserve(struct weir_limiter *limiter, weir_ns now, uint64_t cost, weir_ns max_wait,
				  struct weir_reservation *ret_reservation, struct weir_verdict *ret_verdict);

/* Gives back what a reservation took, less what later ones were built upon; nothing once its time has passed, and
 * nothing the second time. After the rate has changed, what was built upon it is measured at the new rate. One
 * reservation is cancelled by one thread at a time. Returns the units given back,
 * rounded down. */
WEIR_API uint64_t weir_limiter_cancel(struct weir_limiter *limiter, weir_ns now, struct weir_reservation *reservation);

/* Waits until a request of this cost may go, and charges it. WEIR_OK: go. Otherwise nothing is charged:
 * WEIR_ERR_DEADLINE, at once, if it could not go by `deadline` (WEIR_NEVER: there is none); WEIR_ERR_NEVER, at once, if
 * no wait will help; WEIR_ERR_CANCELLED, also if that was so before. canceller may be NULL. Time is weir_clock_now. A
 * request that need not wait goes, even if the deadline has passed.
 *
 * Token buckets, and leaky ones that do not shape, serve in the order in which the waits began, each at its own instant:
 * a wait is a reservation, and nobody is woken for another. When a wait is cancelled, those after it keep their
 * instants; what that leaves unused comes back when they are cancelled, too, or the limit is changed. Leaky buckets that
 * shape return at the departure. Windows wait for their exact retry_after and ask again, so that of several who wait for
 * the same instant any may be first.
 * A limit that is changed meanwhile counts at once: raised, it wakes those who may go earlier; lowered, it lets them
 * wait longer, or ends their waits if that is past the deadline or no use. Departures that were given stay. Signals do
 * not end a wait. Waits are of elapsed time: a wall clock that is set forward ends none early. */
WEIR_API int weir_limiter_wait(struct weir_limiter *limiter, uint64_t cost, weir_ns deadline,
			       struct weir_canceller *canceller);

#ifdef __cplusplus
}
#endif
#endif
