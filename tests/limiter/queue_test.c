/* queue_test.c: a FIFO queue with a leak rate. The clock is the test's own, so no test sleeps for it. */
#include <weir/weir.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define MS(n) (UINT64_C(n) * 1000000)
#define START UINT64_C(1790000000000000000)

static _Atomic weir_ns time_now;
static _Atomic uint64_t readings; /* of the clock: a thread that waits is in line before it reads the clock */

static weir_ns injected_now(void *unused)
{
	(void)unused;
	atomic_fetch_add(&readings, 1);
	return atomic_load(&time_now);
}

static struct weir_queue *queue_of(const char *text, bool has_real_clock)
{
	const struct weir_queue_clock clock = { injected_now, NULL };
	struct weir_queue *queue;
	struct weir_message why;
	struct weir_limit limit;
	size_t size;
	void *memory;

	if (weir_limit_parse(text, strlen(text), &limit, NULL) != WEIR_OK)
		exit(1);
	size = (weir_queue_size(&limit) / WEIR_QUEUE_ALIGN + 1) * WEIR_QUEUE_ALIGN;
	memory = aligned_alloc(WEIR_QUEUE_ALIGN, size);
	if (memory == NULL ||
	    weir_queue_init_text(memory, size, text, has_real_clock ? NULL : &clock, &queue, &why) != WEIR_OK) {
		printf("Bail out! %s: %s\n", text, why.text);
		exit(1);
	}
	atomic_store(&time_now, START);
	return queue;
}

static void drop(struct weir_queue *queue)
{
	weir_queue_fini(queue);
	free(queue);
}

static char items[1000];

static void items_leave_in_order_at_the_rate(void)
{
	struct weir_queue *const queue = queue_of("7/s leaky queue 20", false);
	struct weir_verdict v;
	void *item;
	weir_ns wait;

	for (size_t i = 0; i < 15; i++) {
		CHECK_EQ(weir_queue_try_push(queue, &items[i], &v), WEIR_OK);
		CHECK(v.allowed && v.limit == 20 && v.remaining == 19 - i);
		CHECK_EQ(v.delay, (i * 1000000000 + 6) / 7);
	}
	CHECK_EQ(weir_queue_length(queue), 15);
	for (size_t i = 0; i < 15; i++) { /* the i-th exactly i sevenths of a second later */
		const weir_ns departs = START + (i * 1000000000 + 6) / 7;

		if (i > 0) {
			atomic_store(&time_now, departs - 1);
			CHECK_EQ(weir_queue_try_pop(queue, &item, &wait), WEIR_ERR_DEADLINE);
			CHECK_EQ(wait, 1);
		}
		atomic_store(&time_now, departs);
		CHECK_EQ(weir_queue_try_pop(queue, &item, &wait), WEIR_OK);
		CHECK(item == &items[i]);
	}
	CHECK_EQ(weir_queue_try_pop(queue, &item, &wait), WEIR_ERR_DEADLINE);
	CHECK_EQ(wait, WEIR_NEVER);
	drop(queue);
}

static void late_consumers_get_no_burst(void)
{
	struct weir_queue *const queue = queue_of("10/s leaky queue 5", false);
	void *item;
	weir_ns wait;

	for (size_t i = 0; i < 5; i++)
		CHECK_EQ(weir_queue_try_push(queue, &items[i], NULL), WEIR_OK);
	atomic_store(&time_now, START + MS(10000));
	CHECK_EQ(weir_queue_try_pop(queue, &item, NULL), WEIR_OK);
	CHECK_EQ(weir_queue_try_pop(queue, &item, &wait), WEIR_ERR_DEADLINE);
	CHECK_EQ(wait, MS(100));
	/* Late by less than one interval: the schedule stays. */
	atomic_store(&time_now, START + MS(10199));
	CHECK_EQ(weir_queue_try_pop(queue, &item, NULL), WEIR_OK);
	CHECK_EQ(weir_queue_try_pop(queue, &item, &wait), WEIR_ERR_DEADLINE);
	CHECK_EQ(wait, MS(1));
	/* A clock that is an hour back counts as a new clock. */
	atomic_store(&time_now, START - MS(3600000));
	CHECK_EQ(weir_queue_try_pop(queue, &item, &wait), WEIR_ERR_DEADLINE);
	CHECK_EQ(wait, MS(100));
	drop(queue);
}

static void a_full_queue_says_how_long(void)
{
	struct weir_queue *const queue = queue_of("10/s leaky queue 3", false);
	struct weir_verdict v;
	void *item;

	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(weir_queue_try_push(queue, &items[i], NULL), WEIR_OK);
	CHECK_EQ(weir_queue_try_pop(queue, &item, NULL), WEIR_OK);
	CHECK_EQ(weir_queue_try_push(queue, &items[3], NULL), WEIR_OK);
	atomic_store(&time_now, START + MS(30));
	CHECK_EQ(weir_queue_try_push(queue, &items[4], &v), WEIR_ERR_FULL);
	CHECK(!v.allowed && v.remaining == 0 && v.granted == 0);
	CHECK_EQ(v.retry_after, MS(70));
	CHECK_EQ(v.delay, MS(370));
	CHECK_EQ(weir_queue_push(queue, &items[4], START + MS(99), NULL, NULL), WEIR_ERR_DEADLINE); /* at once */
	drop(queue);
}

static void closing_and_draining(void)
{
	struct weir_queue *const queue = queue_of("10/s leaky queue 9", false);
	struct weir_verdict v;
	void *out[9];

	for (size_t i = 0; i < 5; i++)
		CHECK_EQ(weir_queue_try_push(queue, &items[i], NULL), WEIR_OK);
	weir_queue_close(queue);
	CHECK_EQ(weir_queue_try_push(queue, &items[5], &v), WEIR_ERR_CLOSED);
	CHECK_EQ(weir_queue_push(queue, &items[5], WEIR_NEVER, NULL, NULL), WEIR_ERR_CLOSED);
	CHECK_EQ(weir_queue_pop(queue, out, WEIR_NEVER, NULL), WEIR_OK); /* items inside still leave */
	CHECK_EQ(weir_queue_try_pop(queue, out, NULL), WEIR_ERR_DEADLINE);
	CHECK_EQ(weir_queue_drain(queue, out, 2), 2);
	CHECK(out[0] == &items[1] && out[1] == &items[2]);
	CHECK_EQ(weir_queue_drain(queue, out, 9), 2);
	CHECK_EQ(weir_queue_try_pop(queue, out, NULL), WEIR_ERR_CLOSED);
	CHECK_EQ(weir_queue_pop(queue, out, WEIR_NEVER, NULL), WEIR_ERR_CLOSED);
	drop(queue);
}

static void bad_beginnings_say_why(void)
{
	static _Alignas(WEIR_QUEUE_ALIGN) unsigned char memory[512];
	struct weir_limit bucket = weir_limit_of(WEIR_TOKEN_BUCKET, 1, 1);
	struct weir_queue *queue;
	struct weir_message why;

	CHECK_EQ(weir_queue_size(&bucket), 0);
	CHECK_EQ(weir_queue_init(memory, sizeof(memory), &bucket, NULL, &queue, &why), WEIR_ERR_UNSUPPORTED);
	CHECK_TEXT(why.text, "a queue needs `leaky queue N`, as in 500/s leaky queue 1000");
	CHECK_EQ(weir_queue_init_text(memory, sizeof(memory), "1/s leaky", NULL, &queue, NULL), WEIR_ERR_UNSUPPORTED);
	CHECK_EQ(weir_queue_init_text(memory, sizeof(memory), "1/s leaky queue 1000", NULL, &queue, &why),
		 WEIR_ERR_ROOM);
	CHECK_EQ(weir_queue_init_text(memory, sizeof(memory), "1/s leaky queue 0", NULL, &queue, NULL), WEIR_ERR_LIMIT);
	CHECK_EQ(weir_queue_init_text(memory, sizeof(memory), "1/s queue 3", NULL, &queue, NULL), WEIR_ERR_SYNTAX);
	CHECK_EQ(weir_queue_init_text(memory + 8, 400, "1/s leaky queue 3", NULL, &queue, &why), WEIR_ERR_ALIGNMENT);
	CHECK_TEXT(why.text, "the memory for a queue must be aligned to 64 bytes; this pointer is off by 8");
	CHECK_EQ(weir_queue_init_text(memory, sizeof(memory), "1/s leaky queue 3", NULL, &queue, NULL), WEIR_OK);
	CHECK_EQ(
		weir_queue_init_text(memory, sizeof(memory), "1/s leaky queue 9999999999999999999", NULL, &queue, &why),
		WEIR_ERR_MAXIMUM);
	CHECK_TEXT(why.text, "queue too long: use at most 1152921504606846975");
}

/* --- threads that wait --- */

struct call {
	struct weir_queue *queue;
	void *item;
	weir_ns deadline;
	struct weir_canceller canceller;
	bool pops;
	pthread_t thread;
	_Atomic bool is_done;
	int result;
};

static void *do_call(void *call_)
{
	struct call *call = call_;

	call->result = call->pops ? weir_queue_pop(call->queue, &call->item, call->deadline, &call->canceller) :
				    weir_queue_push(call->queue, call->item, call->deadline, &call->canceller, NULL);
	atomic_store(&call->is_done, true);
	return NULL;
}

static void start(struct call *call)
{
	pthread_create(&call->thread, NULL, do_call, call);
}

static int result_of(struct call *call)
{
	pthread_join(call->thread, NULL);
	return call->result;
}

static void consumers_wait_for_the_next_departure(void)
{
	struct weir_queue *const queue = queue_of("1/hour leaky queue 5", false);
	struct call pop = { .queue = queue, .deadline = WEIR_NEVER, .pops = true };

	start(&pop);
	CHECK_EQ(weir_queue_push(queue, &items[0], WEIR_NEVER, NULL, NULL), WEIR_OK); /* wakes it */
	CHECK_EQ(result_of(&pop), WEIR_OK);
	CHECK(pop.item == &items[0]);
	CHECK_EQ(weir_queue_try_push(queue, &items[1], NULL), WEIR_OK);
	atomic_store(&pop.is_done, false);
	start(&pop);
	while (!atomic_load(&pop.is_done)) { /* an hour passes */
		atomic_store(&time_now, START + MS(3600000));
		weir_queue_tick(queue);
		usleep(100);
	}
	CHECK_EQ(result_of(&pop), WEIR_OK);
	CHECK(pop.item == &items[1]);
	drop(queue);
}

static void waits_end_by_deadline_canceller_and_close(void)
{
	struct weir_queue *const queue = queue_of("1/hour leaky queue 1", false);
	struct call calls[4] = {
		{ .queue = queue, .deadline = START + MS(50), .pops = true },
		{ .queue = queue, .deadline = WEIR_NEVER, .pops = true },
		{ .queue = queue, .deadline = WEIR_NEVER, .pops = true },
		{ .queue = queue, .deadline = WEIR_NEVER, .pops = true },
	};
	void *item;

	for (size_t i = 0; i < 4; i++)
		start(&calls[i]);
	weir_canceller_cancel(&calls[2].canceller);
	CHECK_EQ(result_of(&calls[2]), WEIR_ERR_CANCELLED);
	while (!atomic_load(&calls[0].is_done)) {
		atomic_store(&time_now, START + MS(50));
		weir_queue_tick(queue);
		usleep(100);
	}
	CHECK_EQ(result_of(&calls[0]), WEIR_ERR_DEADLINE);
	weir_queue_close(queue);
	CHECK_EQ(result_of(&calls[1]), WEIR_ERR_CLOSED);
	CHECK_EQ(result_of(&calls[3]), WEIR_ERR_CLOSED);
	CHECK_EQ(weir_queue_pop(queue, &item, 0, NULL), WEIR_ERR_CLOSED);
	drop(queue);
}

static void producers_wait_for_a_place_in_order(void)
{
	struct weir_queue *const queue = queue_of("1/ms leaky queue 1", false);
	struct call pushes[3];
	void *item;

	CHECK_EQ(weir_queue_try_push(queue, &items[0], NULL), WEIR_OK);
	for (size_t i = 0; i < 3; i++) {
		const uint64_t before = atomic_load(&readings);

		pushes[i] = (struct call){ .queue = queue, .item = &items[i + 1], .deadline = WEIR_NEVER };
		start(&pushes[i]);
		while (atomic_load(&readings) == before)
			usleep(100);
	}
	for (size_t i = 0; i < 4; i++) {
		atomic_fetch_add(&time_now, MS(1));
		while (weir_queue_try_pop(queue, &item, NULL) != WEIR_OK) /* until the next producer has pushed */
			usleep(100);
		CHECK(item == &items[i]);
	}
	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(result_of(&pushes[i]), WEIR_OK);
	CHECK_EQ(weir_queue_length(queue), 0);
	drop(queue);
}

static void a_descriptor_for_event_loops(void)
{
	struct weir_queue *const queue = queue_of("1/ms leaky queue 5", true);
	int fd, again;
	struct pollfd poll_fd = { .events = POLLIN };
	void *item;

	CHECK_EQ(weir_queue_fd(queue, &fd), WEIR_OK);
	CHECK_EQ(weir_queue_fd(queue, &again), WEIR_OK);
	CHECK_EQ(fd, again);
	poll_fd.fd = fd;
	CHECK_EQ(poll(&poll_fd, 1, 0), 0);
	for (size_t i = 0; i < 5; i++)
		CHECK_EQ(weir_queue_try_push(queue, &items[i], NULL), WEIR_OK);
	for (size_t i = 0; i < 5; i++) {
		CHECK_EQ(poll(&poll_fd, 1, -1), 1);
		while (weir_queue_try_pop(queue, &item, NULL) != WEIR_OK)
			;
		CHECK(item == &items[i]);
	}
	CHECK_EQ(poll(&poll_fd, 1, 0), 0); /* empty: nothing to come */
	weir_queue_close(queue);
	CHECK_EQ(poll(&poll_fd, 1, -1), 1);
	drop(queue);
}

/* Several producers and consumers: every item comes out once, the items of one producer in order, and never faster than
 * the rate. */
enum { PRODUCERS = 4, CONSUMERS = 4, EACH = 3000 };

static _Atomic uint32_t seen[PRODUCERS][EACH];

struct stream {
	struct weir_queue *queue;
	size_t number;
	uint64_t taken;
};

static uintptr_t encode(size_t producer, size_t n)
{
	return producer * EACH + n + 1;
}

static void *produce(void *stream_)
{
	struct stream *stream = stream_;

	for (size_t i = 0; i < EACH; i++)
		while (weir_queue_push(stream->queue, (void *)encode(stream->number, i),
				       i % 3 ? WEIR_NEVER : weir_clock_now() + 50000, NULL, NULL) != WEIR_OK)
			;
	return NULL;
}

static void *consume(void *stream_)
{
	struct stream *stream = stream_;
	size_t last[PRODUCERS] = { 0 };
	void *item;
	int error;

	while ((error = weir_queue_pop(stream->queue, &item, weir_clock_now() + 100000, NULL)) != WEIR_ERR_CLOSED) {
		const size_t code = (size_t)(uintptr_t)item - 1;

		if (error != WEIR_OK)
			continue;
		atomic_fetch_add(&seen[code / EACH][code % EACH], 1);
		if (last[code / EACH] > code % EACH)
			atomic_fetch_add(&seen[0][0], 1000);
		last[code / EACH] = code % EACH;
		stream->taken++;
	}
	return NULL;
}

static void many_producers_and_consumers(void)
{
	struct weir_queue *const queue = queue_of("1/us leaky queue 64", true);
	struct stream producers[PRODUCERS], consumers[CONSUMERS];
	pthread_t threads[PRODUCERS + CONSUMERS];
	const weir_ns begin = weir_clock_now();
	uint64_t taken = 0;

	for (size_t i = 0; i < PRODUCERS; i++) {
		producers[i] = (struct stream){ queue, i, 0 };
		pthread_create(&threads[i], NULL, produce, &producers[i]);
	}
	for (size_t i = 0; i < CONSUMERS; i++) {
		consumers[i] = (struct stream){ queue, i, 0 };
		pthread_create(&threads[PRODUCERS + i], NULL, consume, &consumers[i]);
	}
	for (size_t i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	weir_queue_close(queue);
	for (size_t i = 0; i < CONSUMERS; i++) {
		pthread_join(threads[PRODUCERS + i], NULL);
		taken += consumers[i].taken;
	}
	CHECK_EQ(taken, PRODUCERS * EACH);
	CHECK(weir_clock_now() - begin >= (taken - 2) * 1000);
	for (size_t i = 0; i < PRODUCERS; i++)
		for (size_t k = 0; k < EACH; k++)
			if (atomic_load(&seen[i][k]) != 1)
				CHECK_EQ(atomic_load(&seen[i][k]), 1);
	drop(queue);
}

TESTS(TEST(items_leave_in_order_at_the_rate), TEST(late_consumers_get_no_burst), TEST(a_full_queue_says_how_long),
      TEST(closing_and_draining), TEST(bad_beginnings_say_why), TEST(consumers_wait_for_the_next_departure),
      TEST(waits_end_by_deadline_canceller_and_close), TEST(producers_wait_for_a_place_in_order),
      TEST(a_descriptor_for_event_loops), TEST(many_producers_and_consumers))
