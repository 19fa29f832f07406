/* loop_test.c: a loop reports the same events whether it spins or sleeps. */
#include "os/loop.h"

#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

enum { MANY = 100 };

struct pair {
	struct weir__loop loop;
	int here, there;
};

static void begin(struct pair *pair, uint64_t spin_ns)
{
	int ends[2] = { -1, -1 };

	CHECK_EQ(weir__loop_init(&pair->loop), 0);
	weir__loop_spin(&pair->loop, spin_ns);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	pair->here = ends[0];
	pair->there = ends[1];
	CHECK_EQ(weir__loop_add(&pair->loop, pair->here, &pair->here), 0);
}

static void end(struct pair *pair)
{
	close(pair->here);
	close(pair->there);
	weir__loop_close(&pair->loop);
}

static int wait_once(struct pair *pair, struct weir__loop_event events[WEIR__LOOP_EVENTS])
{
	return weir__loop_wait(&pair->loop, -1, events);
}

/* A byte is sent before each wait, so all waits are short: the loop starts to spin and continues. */
static void it_wakes_up_and_tells_the_same(void)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	struct pair pair;
	char byte;

	begin(&pair, UINT64_C(10000000000)); /* so long that every wait counts as short, even on a slow machine */
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(weir__spin_is_on(&pair.loop.spin), i >= WEIR__SPIN_STREAK);
		CHECK_EQ(write(pair.there, "x", 1), 1);
		CHECK_EQ(wait_once(&pair, events), 1);
		CHECK(events[0].what == &pair.here && events[0].can_read && !events[0].can_write &&
		      !events[0].has_left);
		CHECK_EQ(read(pair.here, &byte, 1), 1);
	}
	close(pair.there);
	CHECK_EQ(wait_once(&pair, events), 1);
	CHECK(events[0].has_left);
	pair.there = -1;
	end(&pair);
}

static void an_alarm_and_a_wake_end_a_wait_that_is_awake(void)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	struct pair pair;

	begin(&pair, UINT64_C(10000000000));
	pair.loop.spin.trust = WEIR__SPIN_TRUST_MAX;
	weir__loop_set_alarm(&pair.loop, 1000000);
	CHECK_EQ(wait_once(&pair, events), 0);
	CHECK(pair.loop.has_rung && !pair.loop.was_woken);
	weir__loop_wake(&pair.loop);
	CHECK_EQ(wait_once(&pair, events), 0);
	CHECK(pair.loop.was_woken);
	end(&pair);
}

/* An event that comes after the spin is not lost, and the spin was in vain. */
static void it_falls_asleep(void)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	struct pair pair;

	begin(&pair, 1);
	pair.loop.spin.trust = WEIR__SPIN_TRUST;
	weir__loop_set_alarm(&pair.loop, 1000000);
	CHECK_EQ(wait_once(&pair, events), 0);
	CHECK(pair.loop.has_rung);
	CHECK(!weir__spin_is_on(&pair.loop.spin));
	end(&pair);
}

TESTS(TEST(it_wakes_up_and_tells_the_same), TEST(an_alarm_and_a_wake_end_a_wait_that_is_awake), TEST(it_falls_asleep))
