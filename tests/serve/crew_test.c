/* Connections dealt out among workers. Sockets are numbers here. */
#include "serve/crew.h"

#include "check.h"

static struct weir__loop loops[3];

static struct weir__arrival of(int socket)
{
	return (struct weir__arrival){ socket, WEIR__WIRE_RESP };
}

static struct weir__crew *crew_of(uint32_t n)
{
	struct weir__crew *const crew = weir__crew_new(n);

	for (uint32_t i = 0; i < n; i++) {
		CHECK(weir__loop_init(&loops[i]) == 0);
		weir__crew_open(crew, i, &loops[i]);
	}
	return crew;
}

static void end(struct weir__crew *crew, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		weir__loop_close(&loops[i]);
	weir__crew_free(crew);
}

static uint32_t taken(struct weir__crew *crew, uint32_t me)
{
	struct weir__arrival arrivals[WEIR__DOOR_SOCKETS];

	return weir__crew_take(crew, me, arrivals);
}

static void all_get_as_many(void)
{
	struct weir__crew *const crew = crew_of(3);
	uint32_t own = 0;

	for (int i = 0; i < 30; i++)
		own += !weir__crew_hand(crew, 1, of(100 + i));
	CHECK_EQ(own, 10);
	CHECK_EQ(weir__crew_connections(crew), 30);
	CHECK_EQ(taken(crew, 0), 10);
	CHECK_EQ(taken(crew, 1), 0);
	CHECK_EQ(taken(crew, 2), 10);
	CHECK_EQ(taken(crew, 2), 0);
	end(crew, 3);
}

static void who_is_handed_something_is_woken(void)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	struct weir__crew *const crew = crew_of(2);
	struct weir__arrival arrivals[WEIR__DOOR_SOCKETS];

	CHECK(!weir__crew_hand(crew, 0, of(7)));
	CHECK(weir__crew_hand(crew, 0, of(8)));
	CHECK_EQ(weir__loop_wait(&loops[1], -1, events), 0);
	CHECK(loops[1].was_woken);
	CHECK_EQ(weir__crew_take(crew, 1, arrivals), 1);
	CHECK_EQ(arrivals[0].socket, 8);
	CHECK(arrivals[0].wire == WEIR__WIRE_RESP);
	end(crew, 2);
}

static void who_loses_some_gets_the_next(void)
{
	struct weir__crew *const crew = crew_of(2);

	for (int i = 0; i < 8; i++)
		(void)weir__crew_hand(crew, 0, of(i));
	CHECK_EQ(taken(crew, 1), 4);
	weir__crew_leave(crew, 1);
	weir__crew_leave(crew, 1);
	for (int i = 0; i < 2; i++)
		CHECK(weir__crew_hand(crew, 0, of(i)));
	CHECK(!weir__crew_hand(crew, 0, of(9)));
	end(crew, 2);
}

static void a_shut_or_crowded_door_is_passed_by(void)
{
	struct weir__crew *const crew = crew_of(2);
	uint32_t own = 0;

	weir__crew_shut(crew, 1);
	for (int i = 0; i < 5; i++)
		own += !weir__crew_hand(crew, 0, of(i));
	CHECK_EQ(own, 5);
	weir__crew_open(crew, 1, &loops[1]);
	for (int i = 0; i < 200; i++)
		own += !weir__crew_hand(crew, 0, of(i));
	CHECK_EQ(taken(crew, 1), WEIR__DOOR_SOCKETS);
	CHECK_EQ(own, 205 - WEIR__DOOR_SOCKETS);
	end(crew, 2);
}

TESTS(TEST(all_get_as_many), TEST(who_is_handed_something_is_woken), TEST(who_loses_some_gets_the_next),
      TEST(a_shut_or_crowded_door_is_passed_by))
