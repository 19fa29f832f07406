/* accept_balancer_test.c: connections distributed among workers. Sockets are plain numbers here. */
#include "server/accept_balancer.h"

#include "check.h"

static struct weir__loop loops[3];

static struct weir__accepted of(int socket)
{
	return (struct weir__accepted){ socket, WEIR__SERVICE_RESP, NULL, false };
}

static struct weir__accept_balancer *balancer_of(uint32_t n)
{
	struct weir__accept_balancer *const balancer = weir__accept_balancer_new(n);

	for (uint32_t i = 0; i < n; i++) {
		CHECK(weir__loop_init(&loops[i]) == 0);
		weir__accept_balancer_open(balancer, i, &loops[i]);
	}
	return balancer;
}

static void end(struct weir__accept_balancer *balancer, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		weir__loop_close(&loops[i]);
	weir__accept_balancer_free(balancer);
}

static uint32_t taken(struct weir__accept_balancer *balancer, uint32_t me)
{
	struct weir__accepted accepted[WEIR__ACCEPT_BALANCER_SOCKETS];

	return weir__accept_balancer_take(balancer, me, accepted);
}

static void all_get_as_many(void)
{
	struct weir__accept_balancer *const balancer = balancer_of(3);
	uint32_t own = 0;

	for (int i = 0; i < 30; i++)
		own += !weir__accept_balancer_hand(balancer, 1, of(100 + i));
	CHECK_EQ(own, 10);
	CHECK_EQ(weir__accept_balancer_connections(balancer), 30);
	CHECK_EQ(taken(balancer, 0), 10);
	CHECK_EQ(taken(balancer, 1), 0);
	CHECK_EQ(taken(balancer, 2), 10);
	CHECK_EQ(taken(balancer, 2), 0);
	end(balancer, 3);
}

static void who_is_handed_something_is_woken(void)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	struct weir__accept_balancer *const balancer = balancer_of(2);
	struct weir__accepted accepted[WEIR__ACCEPT_BALANCER_SOCKETS];

	CHECK(!weir__accept_balancer_hand(balancer, 0, of(7)));
	CHECK(weir__accept_balancer_hand(balancer, 0, of(8)));
	CHECK_EQ(weir__loop_wait(&loops[1], -1, events), 0);
	CHECK(loops[1].was_woken);
	CHECK_EQ(weir__accept_balancer_take(balancer, 1, accepted), 1);
	CHECK_EQ(accepted[0].socket, 8);
	CHECK(accepted[0].service == WEIR__SERVICE_RESP);
	end(balancer, 2);
}

static void who_loses_some_gets_the_next(void)
{
	struct weir__accept_balancer *const balancer = balancer_of(2);

	for (int i = 0; i < 8; i++)
		(void)weir__accept_balancer_hand(balancer, 0, of(i));
	CHECK_EQ(taken(balancer, 1), 4);
	weir__accept_balancer_leave(balancer, 1);
	weir__accept_balancer_leave(balancer, 1);
	for (int i = 0; i < 2; i++)
		CHECK(weir__accept_balancer_hand(balancer, 0, of(i)));
	CHECK(!weir__accept_balancer_hand(balancer, 0, of(9)));
	end(balancer, 2);
}

static void a_shut_or_crowded_door_is_passed_by(void)
{
	struct weir__accept_balancer *const balancer = balancer_of(2);
	uint32_t own = 0;

	weir__accept_balancer_shut(balancer, 1);
	for (int i = 0; i < 5; i++)
		own += !weir__accept_balancer_hand(balancer, 0, of(i));
	CHECK_EQ(own, 5);
	weir__accept_balancer_open(balancer, 1, &loops[1]);
	for (int i = 0; i < 200; i++)
		own += !weir__accept_balancer_hand(balancer, 0, of(i));
	CHECK_EQ(taken(balancer, 1), WEIR__ACCEPT_BALANCER_SOCKETS);
	CHECK_EQ(own, 205 - WEIR__ACCEPT_BALANCER_SOCKETS);
	end(balancer, 2);
}

TESTS(TEST(all_get_as_many), TEST(who_is_handed_something_is_woken), TEST(who_loses_some_gets_the_next),
      TEST(a_shut_or_crowded_door_is_passed_by))
