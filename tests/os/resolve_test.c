/* resolve_test.c: addresses are resolved at once, names by a thread, and results may be abandoned. Connections do not
 * block. */
/* Covers: src/os/net.c, src/os/thread_start.c */
#include "os/resolve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "test_folder.h"

static struct weir__net_address addresses[WEIR__RESOLVE_ADDRESSES];
static unsigned n;
static const char *why;

/* Waits until the loop is woken. A wake-up that never comes ends in the test's timeout. */
static void wait_for(struct weir__loop *loop, struct weir__resolve *resolve)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	while (!weir__resolve_is_over(resolve, addresses, &n, &why))
		weir__loop_wait(loop, -1, events);
}

static void addresses_are_known_at_once(void)
{
	static const char *const hosts[] = { "127.0.0.1", "::1" };
	struct weir__resolve *resolve;
	struct weir__loop loop;

	weir__loop_init(&loop);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		CHECK_EQ(weir__resolve_new(hosts[i], 6379, &loop, &resolve), 0);
		CHECK(weir__resolve_is_over(resolve, addresses, &n, &why));
		CHECK_EQ(n, 1);
		weir__resolve_free(resolve);
	}
	CHECK(!loop.was_woken);
	weir__loop_close(&loop);
}

static void names_are_looked_up(void)
{
	struct weir__resolve *resolve;
	struct weir__loop loop;
	char long_name[300];

	weir__loop_init(&loop);
	CHECK_EQ(weir__resolve_new("localhost", 6379, &loop, &resolve), 0);
	wait_for(&loop, resolve);
	CHECK(n >= 1 && why == NULL);
	weir__resolve_free(resolve);
	CHECK_EQ(weir__resolve_new("no such name", 6379, &loop, &resolve), 0);
	wait_for(&loop, resolve);
	CHECK(n == 0 && why != NULL);
	weir__resolve_free(resolve);
	memset(long_name, 'a', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	CHECK_EQ(weir__resolve_new(long_name, 6379, &loop, &resolve), 0);
	CHECK(weir__resolve_is_over(resolve, addresses, &n, &why));
	CHECK(n == 0 && why != NULL);
	weir__resolve_free(resolve);
	weir__loop_close(&loop);
}

/* The thread frees an abandoned result and does not wake a loop that was closed. Too many lookups at once return
 * EAGAIN, until some end. */
static void nobody_has_to_wait(void)
{
	struct weir__resolve *resolve;
	struct weir__loop loop;
	int refused = 0;

	for (int i = 0; i < 4 * WEIR__RESOLVE_THREADS; i++) {
		int error;

		weir__loop_init(&loop);
		error = weir__resolve_new("localhost", 6379, &loop, &resolve);
		CHECK(error == 0 || error == EAGAIN);
		refused += error != 0;
		if (error == 0)
			weir__resolve_free(resolve);
		weir__loop_close(&loop);
	}
	printf("# %d of %d were refused\n", refused, 4 * WEIR__RESOLVE_THREADS);
	weir__loop_init(&loop);
	while (weir__resolve_new("localhost", 6379, &loop, &resolve) == EAGAIN)
		usleep(1000);
	wait_for(&loop, resolve);
	CHECK(n >= 1);
	weir__resolve_free(resolve);
	weir__resolve_free(NULL);
	weir__loop_close(&loop);
}

/* The result of a connection attempt, once it is known. */
static int outcome(int socket)
{
	struct pollfd one = { .fd = socket, .events = POLLOUT };

	CHECK_EQ(poll(&one, 1, -1), 1);
	return weir__net_connected(socket);
}

static void connections_do_not_wait(void)
{
	struct weir__resolve *resolve;
	char name[WEIR__NET_NAME_SIZE];
	struct weir__loop loop;
	int listener, connected, error;

	weir__loop_init(&loop);
	CHECK_EQ(weir__net_listen("127.0.0.1:0", WEIR__LISTEN_ALONE, &listener, name), 0);
	CHECK_EQ(weir__resolve_new("127.0.0.1", (uint16_t)atoi(strchr(name, ':') + 1), &loop, &resolve), 0);
	CHECK(weir__resolve_is_over(resolve, addresses, &n, &why));
	CHECK_EQ(weir__net_begin_to_connect(&addresses[0], &connected), 0);
	CHECK_EQ(outcome(connected), 0);
	CHECK_EQ(weir__net_write(connected, "a", 1), 1);
	weir__net_close(connected);
	weir__net_close(listener);
	error = weir__net_begin_to_connect(&addresses[0], &connected);
	if (error == 0) {
		error = outcome(connected);
		weir__net_close(connected);
	}
	CHECK_EQ(error, ECONNREFUSED);
	weir__resolve_free(resolve);
	weir__loop_close(&loop);
}

static void paths_are_addresses(void)
{
	char folder[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 16], name[WEIR__NET_NAME_SIZE], long_path[300];
	int listener, connected;

	test_folder_new(folder, "resolve");
	(void)snprintf(path, sizeof(path), "%s/socket", folder);
	CHECK_EQ(weir__net_address_of_path(path, &addresses[0]), 0);
	CHECK_EQ(weir__net_begin_to_connect(&addresses[0], &connected), ENOENT);
	CHECK_EQ(weir__net_listen(path, WEIR__LISTEN_ALONE, &listener, name), 0);
	CHECK_EQ(weir__net_begin_to_connect(&addresses[0], &connected), 0);
	CHECK_EQ(outcome(connected), 0);
	weir__net_close(connected);
	weir__net_close(listener);
	unlink(path);
	rmdir(folder);
	memset(long_path, '/', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = '\0';
	CHECK_EQ(weir__net_address_of_path(long_path, &addresses[0]), ENAMETOOLONG);
}

TESTS(TEST(addresses_are_known_at_once), TEST(names_are_looked_up), TEST(nobody_has_to_wait),
      TEST(connections_do_not_wait), TEST(paths_are_addresses))
