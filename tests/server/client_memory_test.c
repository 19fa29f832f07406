/* client_memory_test.c: the memory of clients, and which client uses most. */
#include "server/client_memory.h"

#include "check.h"

enum { KIB = 1024 };

static void the_largest_is_found(void)
{
	struct weir__client_memory memory;
	struct weir__memory_use a = { .bytes = 0 }, b = a, c = a;

	weir__client_memory_init(&memory);
	CHECK(weir__client_memory_largest(&memory) == NULL);
	weir__client_memory_set(&memory, &a, 1);
	weir__client_memory_set(&memory, &b, 100 * KIB);
	weir__client_memory_set(&memory, &c, 3 * KIB);
	CHECK(memory.total == 1 + 103 * KIB);
	CHECK(weir__client_memory_largest(&memory) == &b);
	weir__client_memory_set(&memory, &b, 100);
	CHECK(memory.total == 101 + 3 * KIB);
	CHECK(weir__client_memory_largest(&memory) == &c);
	weir__client_memory_set(&memory, &c, 0);
	CHECK(weir__client_memory_largest(&memory) == &b);
	weir__client_memory_set(&memory, &a, SIZE_MAX / 2 + 1);
	CHECK(weir__client_memory_largest(&memory) == &a);
	weir__client_memory_set(&memory, &a, 0);
	weir__client_memory_set(&memory, &b, 0);
	CHECK(weir__client_memory_largest(&memory) == NULL);
	CHECK(memory.total == 0 && memory.rings_used == 0);
}

static void a_ring_is_a_power_of_two(void)
{
	struct weir__client_memory memory;
	struct weir__memory_use a = { .bytes = 0 }, b = a;

	weir__client_memory_init(&memory);
	weir__client_memory_set(&memory, &a, 1024);
	weir__client_memory_set(&memory, &b, 2047);
	CHECK(weir__client_memory_largest(&memory) == &a); /* same size class: the oldest */
	weir__client_memory_set(&memory, &b, 2048);
	CHECK(weir__client_memory_largest(&memory) == &b);
}

static void evicted_clients_wait_to_be_closed(void)
{
	struct weir__client_memory memory;
	struct weir__memory_use a = { .bytes = 0 }, b = a;

	weir__client_memory_init(&memory);
	weir__client_memory_set(&memory, &a, 5);
	weir__client_memory_set(&memory, &b, 6);
	CHECK(weir__client_memory_evicted(&memory) == NULL);
	weir__client_memory_evict(&memory, &b);
	weir__client_memory_evict(&memory, &a);
	CHECK(memory.total == 0 && a.is_evicted && b.is_evicted);
	CHECK(weir__client_memory_largest(&memory) == NULL);
	CHECK(weir__client_memory_evicted(&memory) == &b);
	weir__client_memory_leave(&memory, &b);
	CHECK(weir__client_memory_evicted(&memory) == &a);
	weir__client_memory_leave(&memory, &a);
	CHECK(weir__client_memory_evicted(&memory) == NULL);
}

TESTS(TEST(the_largest_is_found), TEST(a_ring_is_a_power_of_two), TEST(evicted_clients_wait_to_be_closed))
