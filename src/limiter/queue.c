/* queue.c: a FIFO queue that hands out items at a constant rate.
 *
 * Departures follow a timetable: each is due exactly one period/count after the one before, in units of 1/count ns. If
 * a consumer is late by less than that, the next departure stays where it was, so that wake-up delays do not add up. If
 * it is later, or an item enters an empty queue, a new timetable begins. Missed departures are not made up for.
 *
 * Threads that must wait stand in two lines, producers and consumers, each in order of arrival and each asleep on its
 * own word. Only the first of a line can proceed. A thread that changes something wakes just the first, and a thread
 * that leaves the front of a line wakes the next. The first consumer sleeps until the next departure, the others until
 * they are first. The reasons are in docs/internals/limiter.md. */
#include <weir/queue.h>

#include <errno.h>
#include <string.h>

#include <weir/clock.h>

#include "core/argument.h"
#include "core/text.h"
#include "core/wide.h"
#include "os/canceller.h"
#include "os/lock.h"
#include "os/timer.h"

/* A waiting thread, on its own stack. */
struct waiter {
	struct waiter *next;
	struct weir_canceller *canceller;
};

struct line {
	struct waiter *first, **end;
};

struct weir_queue {
	struct weir__lock lock; /* protects all fields below */
	bool is_closed;
	int fd;         /* -1: weir_queue_fd was not called yet */
	uint64_t count; /* count of the rate, in lowest terms */
	weir_ns period;
	weir__u128 due; /* the next departure, in units of 1/count ns */
	struct weir_queue_clock clock;
	struct line producers, consumers;
	size_t places, first, length;
	void *items[];
};

static weir_ns system_clock(void *unused)
{
	(void)unused;
	return weir_clock_now();
}

/* --- lines --- */

static void wake_first(struct line *line)
{
	if (line->first)
		weir__canceller_poke(line->first->canceller);
}

static void join(struct line *line, struct waiter *self)
{
	self->next = NULL;
	*line->end = self;
	line->end = &self->next;
}

/* Wakes the thread that is first now, because it may be able to proceed. */
static void leave(struct line *line, struct waiter *self)
{
	struct waiter **place = &line->first;

	while (*place != self)
		place = &(*place)->next;
	*place = self->next;
	if (line->end == &self->next)
		line->end = place;
	wake_first(line);
}

static void wake_all(struct line *line)
{
	for (struct waiter *waiter = line->first; waiter; waiter = waiter->next)
		weir__canceller_poke(waiter->canceller);
}

/* --- under the lock --- */

/* Returns the time until an item with `before` items ahead of it may depart. */
static weir_ns until_departure_after(const struct weir_queue *queue, weir_ns now, size_t before)
{
	const weir__u128 present = weir__mul(now, queue->count);
	const weir__u128 due = queue->due + weir__mul(before, queue->period);

	return due <= present ? 0 : weir__saturate(weir__div_up(due - present, queue->count));
}

/* Returns the time until the first item, if there is one, may depart. */
static weir_ns until_departure(const struct weir_queue *queue, weir_ns now)
{
	return until_departure_after(queue, now, 0);
}

/* A clock that went back by more than a minute is a new clock. The next departure is then one period/count away. */
static void notice_new_clock(struct weir_queue *queue, weir_ns now)
{
	const weir__u128 soonest = weir__mul(now, queue->count) + queue->period;

	if (queue->due > soonest && queue->due - soonest > weir__mul(WEIR__STEP_BACK_MAX, queue->count))
		queue->due = soonest;
}

/* If a departure has been due for `long_ago` (in units of 1/count ns) or more, a new timetable begins: missed
 * departures are not made up for. */
static void forget_if_due_for(struct weir_queue *queue, weir_ns now, weir_ns long_ago)
{
	const weir__u128 present = weir__mul(now, queue->count);

	if (present >= queue->due && present - queue->due >= long_ago)
		queue->due = present;
}

/* Sets the descriptor's timer. A time that has passed makes it readable at once. WEIR_NEVER disarms it. */
static void arm(struct weir_queue *queue, weir_ns now)
{
	weir_ns wait = WEIR_NEVER;

	if (queue->fd < 0)
		return;
	if (queue->length > 0)
		wait = until_departure(queue, now);
	else if (queue->is_closed)
		wait = 0;
	weir__timer_set(queue->fd, wait);
}

static void describe(const struct weir_queue *queue, weir_ns now, bool is_full, struct weir_verdict *ret_verdict)
{
	if (ret_verdict == NULL)
		return;
	*ret_verdict = (struct weir_verdict){
		.allowed = !is_full,
		.limit = queue->places,
		.remaining = queue->places - queue->length - !is_full,
		.granted = !is_full,
		.retry_after = is_full ? until_departure(queue, now) : 0,
		.reset_after = until_departure_after(queue, now, queue->length + !is_full),
		.delay = until_departure_after(queue, now, queue->length),
	};
}

/* `self` is the producer's place in line, NULL if it does not wait. A producer cannot push past waiting producers. */
static int push_held(struct weir_queue *queue, const struct waiter *self, weir_ns now, void *item,
		     struct weir_verdict *ret_verdict)
{
	const bool is_full = queue->length == queue->places || queue->producers.first != self;

	if (queue->is_closed)
		return WEIR_ERR_CLOSED;
	notice_new_clock(queue, now);
	if (queue->length == 0)
		forget_if_due_for(queue, now, 0);
	describe(queue, now, is_full, ret_verdict);
	if (is_full)
		return WEIR_ERR_FULL;
	queue->items[(queue->first + queue->length++) % queue->places] = item;
	if (queue->length == 1) {
		arm(queue, now);
		wake_first(&queue->consumers);
	}
	return WEIR_OK;
}

static void *take_first(struct weir_queue *queue)
{
	void *const item = queue->items[queue->first];

	queue->first = (queue->first + 1) % queue->places;
	queue->length--;
	return item;
}

static int pop_held(struct weir_queue *queue, weir_ns now, void **ret_item, weir_ns *ret_wait)
{
	if (queue->length == 0) {
		*ret_wait = WEIR_NEVER;
		return queue->is_closed ? WEIR_ERR_CLOSED : WEIR_ERR_DEADLINE;
	}
	notice_new_clock(queue, now);
	*ret_wait = until_departure(queue, now);
	if (*ret_wait > 0) {
		arm(queue, now); /* the timer may fire slightly before this clock gets there */
		return WEIR_ERR_DEADLINE;
	}
	forget_if_due_for(queue, now, queue->period);
	queue->due += queue->period;
	*ret_item = take_first(queue);
	arm(queue, now);
	wake_first(&queue->producers);
	return WEIR_OK;
}

/* --- waiting --- */

/* Sleeps, with the lock released, until the thread is woken or the time has come. Does not sleep if it is cancelled or
 * past the deadline. */
static int sleep_in_line(struct weir_queue *queue, struct waiter *self, weir_ns now, weir_ns wait, weir_ns deadline)
{
	const uint32_t word = weir__canceller_word(self->canceller);
	const weir_ns until = weir__add_saturating(now, wait);

	if (weir__canceller_says_cancelled(word))
		return WEIR_ERR_CANCELLED;
	if (now >= deadline)
		return WEIR_ERR_DEADLINE;
	weir__lock_release(&queue->lock);
	weir__canceller_sleep_until(self->canceller, word, now, until < deadline ? until : deadline);
	weir__lock_acquire(&queue->lock);
	return WEIR_OK;
}

int weir_queue_push(struct weir_queue *queue, void *item, weir_ns deadline, struct weir_canceller *canceller,
		    struct weir_verdict *ret_verdict)
{
	struct weir_canceller own = { 0 };
	struct waiter self = { .canceller = canceller ? canceller : &own };
	int error, waited = WEIR_OK;

	if (weir_canceller_is_cancelled(self.canceller))
		return WEIR_ERR_CANCELLED;
	weir__lock_acquire(&queue->lock);
	join(&queue->producers, &self);
	do {
		const weir_ns now = queue->clock.now(queue->clock.context);

		error = push_held(queue, &self, now, item, ret_verdict);
		/* Give up at once if even the earliest place comes after the deadline. */
		if (error == WEIR_ERR_FULL)
			waited = weir__add_saturating(now, until_departure(queue, now)) > deadline ?
					 WEIR_ERR_DEADLINE :
					 sleep_in_line(queue, &self, now, WEIR_NEVER, deadline);
	} while (error == WEIR_ERR_FULL && waited == WEIR_OK);
	leave(&queue->producers, &self);
	weir__lock_release(&queue->lock);
	return error == WEIR_ERR_FULL ? waited : error;
}

int weir_queue_pop(struct weir_queue *queue, void **ret_item, weir_ns deadline, struct weir_canceller *canceller)
{
	struct weir_canceller own = { 0 };
	struct waiter self = { .canceller = canceller ? canceller : &own };
	int error, waited = WEIR_OK;

	if (weir_canceller_is_cancelled(self.canceller))
		return WEIR_ERR_CANCELLED;
	weir__lock_acquire(&queue->lock);
	join(&queue->consumers, &self);
	do {
		const weir_ns now = queue->clock.now(queue->clock.context);
		weir_ns wait = WEIR_NEVER;

		error = WEIR_ERR_DEADLINE;
		if (queue->consumers.first == &self)
			error = pop_held(queue, now, ret_item, &wait);
		if (error == WEIR_ERR_DEADLINE) {
			/* Give up at once if the departure comes after the deadline. */
			if (wait != WEIR_NEVER && weir__add_saturating(now, wait) > deadline)
				break;
			waited = sleep_in_line(queue, &self, now, wait, deadline);
		}
	} while (error == WEIR_ERR_DEADLINE && waited == WEIR_OK);
	leave(&queue->consumers, &self);
	weir__lock_release(&queue->lock);
	return error == WEIR_ERR_DEADLINE && waited != WEIR_OK ? waited : error;
}

int weir_queue_try_push(struct weir_queue *queue, void *item, struct weir_verdict *ret_verdict)
{
	int error;

	weir__lock_acquire(&queue->lock);
	error = push_held(queue, NULL, queue->clock.now(queue->clock.context), item, ret_verdict);
	weir__lock_release(&queue->lock);
	return error;
}

int weir_queue_try_pop(struct weir_queue *queue, void **ret_item, weir_ns *ret_wait)
{
	weir_ns wait;
	int error;

	weir__lock_acquire(&queue->lock);
	error = pop_held(queue, queue->clock.now(queue->clock.context), ret_item, &wait);
	weir__lock_release(&queue->lock);
	if (ret_wait)
		*ret_wait = wait;
	return error;
}

void weir_queue_close(struct weir_queue *queue)
{
	weir__lock_acquire(&queue->lock);
	queue->is_closed = true;
	arm(queue, queue->clock.now(queue->clock.context));
	wake_all(&queue->producers);
	wake_all(&queue->consumers);
	weir__lock_release(&queue->lock);
}

size_t weir_queue_drain(struct weir_queue *queue, void **ret_items, size_t n)
{
	size_t taken = 0;

	weir__lock_acquire(&queue->lock);
	while (taken < n && queue->length > 0)
		ret_items[taken++] = take_first(queue);
	arm(queue, queue->clock.now(queue->clock.context));
	wake_first(&queue->producers);
	wake_all(&queue->consumers); /* a closed queue may be empty now */
	weir__lock_release(&queue->lock);
	return taken;
}

size_t weir_queue_length(struct weir_queue *queue)
{
	size_t length;

	weir__lock_acquire(&queue->lock);
	length = queue->length;
	weir__lock_release(&queue->lock);
	return length;
}

int weir_queue_fd(struct weir_queue *queue, int *ret_fd)
{
	int error = WEIR_OK;

	weir__lock_acquire(&queue->lock);
	if (queue->fd < 0)
		queue->fd = weir__timer_new();
	if (queue->fd >= 0)
		*ret_fd = queue->fd;
	else
		error = WEIR_ERR_SYSTEM;
	arm(queue, queue->clock.now(queue->clock.context));
	weir__lock_release(&queue->lock);
	return error;
}

void weir_queue_tick(struct weir_queue *queue)
{
	weir__lock_acquire(&queue->lock);
	wake_all(&queue->producers);
	wake_all(&queue->consumers);
	weir__lock_release(&queue->lock);
}

/* --- beginning and end --- */

static size_t needed_size(uint64_t places)
{
	return sizeof(struct weir_queue) + (size_t)places * sizeof(void *);
}

/* More do not fit an address space. */
static const uint64_t places_max = UINT64_MAX / 16;

static bool is_queue(const struct weir_limit *limit)
{
	return limit->algorithm == WEIR_LEAKY_BUCKET && limit->shape;
}

size_t weir_queue_size(const struct weir_limit *limit)
{
	struct weir_plan plan;

	return is_queue(limit) && limit->burst <= places_max && weir_plan_compile(limit, &plan, NULL) == WEIR_OK ?
		       needed_size(limit->burst) :
		       0;
}

static int refuse(struct weir_message *ret_message, int error, const char *why)
{
	struct weir__text text = weir__text_of_message(ret_message, 0);

	weir__text_add(&text, why);
	return error;
}

int weir_queue_init(void *memory, size_t size, const struct weir_limit *limit, const struct weir_queue_clock *clock,
		    struct weir_queue **ret_queue, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(memory, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(ret_queue, ret_message);

	struct weir_queue *queue = memory;
	struct weir_plan plan;
	int error = weir_plan_compile(limit, &plan, ret_message);

	if (error != WEIR_OK)
		return error;
	if (!is_queue(limit))
		return refuse(ret_message, WEIR_ERR_UNSUPPORTED,
			      "a queue needs `leaky queue N`, as in 500/s leaky queue 1000");
	if (limit->burst > places_max)
		return refuse(ret_message, WEIR_ERR_MAXIMUM, "queue too long: use at most 1152921504606846975");
	error = weir__argument_memory(memory, size, needed_size(limit->burst), WEIR_QUEUE_ALIGN, "queue", ret_message);
	if (error != WEIR_OK)
		return error;
	memset(queue, 0, sizeof(*queue));
	queue->fd = -1;
	queue->count = plan.count;
	queue->period = plan.period;
	queue->clock = clock ? *clock : (struct weir_queue_clock){ system_clock, NULL };
	queue->producers.end = &queue->producers.first;
	queue->consumers.end = &queue->consumers.first;
	queue->places = (size_t)limit->burst;
	*ret_queue = queue;
	return WEIR_OK;
}

int weir_queue_init_text(void *memory, size_t size, const char *text, const struct weir_queue_clock *clock,
			 struct weir_queue **ret_queue, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(memory, ret_message);
	WEIR__NOT_NULL(text, ret_message);
	WEIR__NOT_NULL(ret_queue, ret_message);

	struct weir_limit limit;
	const int error = weir_limit_parse(text, strlen(text), &limit, ret_message);

	return error != WEIR_OK ? error : weir_queue_init(memory, size, &limit, clock, ret_queue, ret_message);
}

void weir_queue_fini(struct weir_queue *queue)
{
	weir__timer_free(queue->fd);
	queue->fd = -1;
}
