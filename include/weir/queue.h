/* queue.h: a FIFO queue that hands out your items in order, one at a time, at a constant rate.
 *
 *     struct weir_queue *queue;                                    memory of weir_queue_size bytes
 *     void *order;
 *     weir_queue_init_text(memory, size, "500/s leaky queue 1000", NULL, &queue, &why);
 *
 *     weir_queue_push(queue, order, deadline, NULL, NULL);         any thread
 *     while (weir_queue_pop(queue, &order, WEIR_NEVER, NULL) == WEIR_OK)
 *             write_to_database(order);                            500 a second at the most
 *
 * Departures are due exactly one period/count apart, so n of them take n times that. A consumer that is a little late
 * each time does not slow the queue down. The queue saves nothing up: after a pause, or when consumers are late by more
 * than one departure, the next departure is due one period/count after the last one took place. Items therefore never
 * leave in a burst. The limit of a queue cannot be changed.
 *
 * Memory. A queue lives in memory that you provide, and no function allocates. It holds pointers to your items and
 * never follows them. A queue belongs to one process and does not survive it. To keep items over a restart, drain them
 * at the end, store them yourself, and push them again in that order. The first one then leaves at once.
 *
 * Threads. Any thread may call any function here, except weir_queue_init and weir_queue_fini while the queue is in use.
 * weir_queue_push and weir_queue_pop block. All others take a short lock. */
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

/* Your own clock for a queue, for example in tests. Deadlines are then times of this clock, and blocking calls sleep
 * until weir_queue_tick tells them that it has moved. */
struct weir_queue_clock {
	weir_ns (*now)(void *context);
	void *context;
};

/* Returns the bytes that a queue of this limit needs: fewer than 200, plus 8 per place. The limit is a leaky bucket
 * with a queue, as in `500/s leaky queue 1000`: 500 a second, 1000 places. Returns 0 for any other limit. */
WEIR_API size_t weir_queue_size(const struct weir_limit *limit);

/* Makes an empty queue in memory[0..size), aligned to WEIR_QUEUE_ALIGN. `clock` is copied, and may be NULL:
 * weir_clock_now. WEIR_ERR_UNSUPPORTED: the limit is not a leaky bucket with a queue. WEIR_ERR_MAXIMUM: more places
 * than an address space has. WEIR_ERR_ROOM: the memory is too small. WEIR_ERR_ALIGNMENT: it is not aligned. Other
 * errors as weir_plan_compile. */
WEIR_API int weir_queue_init(void *memory, size_t size, const struct weir_limit *limit,
			     const struct weir_queue_clock *clock, struct weir_queue **ret_queue,
			     struct weir_message *ret_message);

/* The same from a limit in the notation of limit.h, ended by a NUL. Also returns WEIR_ERR_SYNTAX. */
WEIR_API int weir_queue_init_text(void *memory, size_t size, const char *text, const struct weir_queue_clock *clock,
				  struct weir_queue **ret_queue, struct weir_message *ret_message);

/* Closes the descriptor of weir_queue_fd, if there is one. Afterwards you can reuse the memory. No other thread may use
 * the queue any more. The items are yours: drain the queue first. */
WEIR_API void weir_queue_fini(struct weir_queue *queue);

/* Adds an item at the end. Never blocks. WEIR_ERR_FULL: the queue is full, or other threads wait to push.
 * WEIR_ERR_CLOSED: the queue is closed.
 *
 * ret_verdict may be NULL. It is written for WEIR_ERR_FULL as well. delay is the time until the item departs, or would
 * have departed, if consumers take items as soon as they may. retry_after is 0, or for a full queue the earliest time
 * until a place is free. limit is the number of places, and remaining is the number of free places. */
WEIR_API int weir_queue_try_push(struct weir_queue *queue, void *item, struct weir_verdict *ret_verdict);

/* Adds an item at the end. Blocks while the queue is full, until the deadline (WEIR_NEVER: no deadline). Producers get
 * places in the order of arrival. canceller and ret_verdict may be NULL. WEIR_ERR_DEADLINE: no place became free in
 * time; returned at once if none can. WEIR_ERR_CANCELLED: the canceller was cancelled. WEIR_ERR_CLOSED: the queue is or
 * was closed. */
WEIR_API int weir_queue_push(struct weir_queue *queue, void *item, weir_ns deadline, struct weir_canceller *canceller,
			     struct weir_verdict *ret_verdict);

/* Takes out the first item if it may depart. Never blocks. WEIR_ERR_DEADLINE: no item may depart yet. *ret_wait
 * (ret_wait may be NULL) is then the time until one may, or WEIR_NEVER if the queue is empty. WEIR_ERR_CLOSED: the
 * queue is closed and empty. */
WEIR_API int weir_queue_try_pop(struct weir_queue *queue, void **ret_item, weir_ns *ret_wait);

/* Takes out the first item. Blocks until it may depart, or until the deadline (WEIR_NEVER: no deadline). Consumers are
 * served in the order of arrival. canceller may be NULL. WEIR_ERR_DEADLINE: no item departed in time.
 * WEIR_ERR_CANCELLED: the canceller was cancelled. WEIR_ERR_CLOSED: the queue is closed and empty. */
WEIR_API int weir_queue_pop(struct weir_queue *queue, void **ret_item, weir_ns deadline,
			    struct weir_canceller *canceller);

/* Ends pushing: threads that wait to push get WEIR_ERR_CLOSED, as do later pushes. Items in the queue still leave at
 * its rate. After the last one, pops get WEIR_ERR_CLOSED, too. */
WEIR_API void weir_queue_close(struct weir_queue *queue);

/* Takes out up to n items at once, oldest first, without regard to the rate. Returns their number. */
WEIR_API size_t weir_queue_drain(struct weir_queue *queue, void **ret_items, size_t n);

/* Returns the number of items in the queue. */
WEIR_API size_t weir_queue_length(struct weir_queue *queue);

/* Returns a descriptor for event loops, the same at each call. It is readable when an item may depart, or when the
 * queue is closed and empty. Whenever it is readable, call weir_queue_try_pop until it returns no item. Each item taken
 * arms the descriptor again. The queue owns it: do not read or close it. It is a timerfd and follows the system's
 * clock, not your own clock. WEIR_ERR_SYSTEM: the descriptor could not be made. */
WEIR_API int weir_queue_fd(struct weir_queue *queue, int *ret_fd);

/* Call this when your own clock has moved: all waiting threads look at it again. */
WEIR_API void weir_queue_tick(struct weir_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
