/* queue.h: a FIFO queue that leaks: it holds a caller's items and hands them out in order, one at a time, at a constant
 * rate, however they came in. In memory that you provide, for any number of producers and consumers.
 *
 *     struct weir_queue *queue;                                    memory of weir_queue_size bytes
 *     void *order;
 *     weir_queue_init_text(memory, size, "500/s leaky queue 1000", NULL, &queue, &why);
 *
 *     weir_queue_push(queue, order, deadline, NULL, NULL);         any thread
 *     while (weir_queue_pop(queue, &order, WEIR_NEVER, NULL) == WEIR_OK)
 *             write_to_database(order);                            500 a second at the most
 *
 * Departures are due exactly one period/count after another, for ever: n of them take n times that, and consumers that
 * come a little late each time do not slow it down. Nothing is saved up: after a pause, or when consumers are late by
 * more than one departure, the next is due one period/count after the last that took place, so nothing leaves in a
 * burst. The limit of a queue cannot be changed. */
#ifndef WEIR_QUEUE_H
#define WEIR_QUEUE_H

#include <weir/canceller.h>
#include <weir/limit.h>
#include <weir/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_queue;

#define WEIR_QUEUE_ALIGN 64

/* Where a queue's time comes from. NULL in init: weir_clock_now. With a clock of your own, blocking calls sleep until
 * weir_queue_tick says that it has moved. Deadlines are times of this clock. */
struct weir_queue_clock {
	weir_ns (*now)(void *context);
	void *context;
};

/* Bytes that a queue of this limit needs: fewer than 200 plus 8 for each place. The limit is a leaky bucket with a
 * queue, as `500/s leaky queue 1000`: 500 a second, 1000 places. 0 if it is none. */
WEIR_API size_t weir_queue_size(const struct weir_limit *limit);

/* Makes an empty queue in memory[0..size), aligned to WEIR_QUEUE_ALIGN. WEIR_ERR_UNSUPPORTED: the limit is not a leaky
 * bucket with a queue. WEIR_ERR_ROOM, and as weir_plan_compile. The clock is copied. */
WEIR_API int weir_queue_init(void *memory, size_t size, const struct weir_limit *limit,
			     const struct weir_queue_clock *clock, struct weir_queue **ret_queue,
			     struct weir_message *ret_message);
WEIR_API int weir_queue_init_text(void *memory, size_t size, const char *text, const struct weir_queue_clock *clock,
				  struct weir_queue **ret_queue, struct weir_message *ret_message);

/* Gives the descriptor back, if there was one. Nobody may be in a call. Items are yours: drain before. */
WEIR_API void weir_queue_fini(struct weir_queue *queue);

/* Adds an item at the end. WEIR_OK, WEIR_ERR_CLOSED, or WEIR_ERR_FULL, also if others wait to push. Full or not, the
 * verdict (may be NULL) says: delay: until the item departs, or would have, if it is taken out as soon as it may;
 * retry_after: full, until a place is free at the earliest; limit and remaining: places, and free ones. Closed, it is
 * not written. */
WEIR_API int weir_queue_try_push(struct weir_queue *queue, void *item, struct weir_verdict *ret_verdict);

/* Waits for a place, in the order of arrival, until the deadline at the latest (WEIR_NEVER: there is none):
 * WEIR_ERR_DEADLINE, at once if no place comes in time, WEIR_ERR_CANCELLED, WEIR_ERR_CLOSED. canceller may be NULL. */
WEIR_API int weir_queue_push(struct weir_queue *queue, void *item, weir_ns deadline, struct weir_canceller *canceller,
			     struct weir_verdict *ret_verdict);

/* Takes the first item out if it may depart. WEIR_ERR_DEADLINE: not yet; *ret_wait (may be NULL) is how long,
 * WEIR_NEVER if the queue is empty. WEIR_ERR_CLOSED: closed and empty. */
WEIR_API int weir_queue_try_pop(struct weir_queue *queue, void **ret_item, weir_ns *ret_wait);

/* Waits for the next departure, consumers in the order of arrival, until the deadline at the latest: WEIR_OK,
 * WEIR_ERR_DEADLINE, WEIR_ERR_CANCELLED, or WEIR_ERR_CLOSED, closed and empty. canceller may be NULL. */
WEIR_API int weir_queue_pop(struct weir_queue *queue, void **ret_item, weir_ns deadline,
			    struct weir_canceller *canceller);

/* No more pushes; who waits to push gets WEIR_ERR_CLOSED. What is in the queue still leaves at its rate, then pops get
 * WEIR_ERR_CLOSED, too. */
WEIR_API void weir_queue_close(struct weir_queue *queue);

/* Takes up to n items out at once, whatever the rate, first ones first; returns how many. */
WEIR_API size_t weir_queue_drain(struct weir_queue *queue, void **ret_items, size_t n);

/* Items inside. */
WEIR_API size_t weir_queue_length(struct weir_queue *queue);

/* A descriptor for event loops, the same at each call: readable when an item may depart, or the queue is closed and
 * empty. Whenever it is, call weir_queue_try_pop until it says no; each item taken arms it anew. It is the queue's: do
 * not read or close it. It is a timerfd: an eventfd would need a thread to write to it in time. It follows the system's
 * clock, not a clock of your own. WEIR_ERR_SYSTEM: there is none to be had. */
WEIR_API int weir_queue_fd(struct weir_queue *queue, int *ret_fd);

/* The queue's own clock has moved: everybody looks again. */
WEIR_API void weir_queue_tick(struct weir_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
