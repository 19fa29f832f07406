/* listeners_test.c: listening sockets distributed among workers, and taken over. Sockets are plain numbers here, except
 * those that are opened. */
#include "server/listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "test_folder.h"

static struct weir__listeners listeners, inherited;
static struct weir__listener worker_listeners[WEIR__LISTEN_ADDRESSES_MAX * WEIR__WORKERS_MAX];

/* What the name "here" resolves to, ending in NULL; all other names are addresses. Replaces the system's resolver, so
 * that the test does not depend on its names. */
static const char *const *here;

static struct addrinfo *one_address(const char *text, const char *port, struct addrinfo *next)
{
	struct {
		struct addrinfo info;
		struct sockaddr_in6 address;
	} *const one = calloc(1, sizeof(*one));
	struct sockaddr_in *const v4 = (struct sockaddr_in *)(void *)&one->address;
	const bool is_v6 = inet_pton(AF_INET6, text, &one->address.sin6_addr) == 1;

	CHECK(is_v6 || inet_pton(AF_INET, text, &v4->sin_addr) == 1);
	one->address.sin6_family = is_v6 ? AF_INET6 : AF_INET;
	one->address.sin6_port = htons((uint16_t)strtoul(port, NULL, 10));
	one->info = (struct addrinfo){ .ai_family = one->address.sin6_family,
				       .ai_addr = (struct sockaddr *)(void *)&one->address,
				       .ai_addrlen = is_v6 ? sizeof(one->address) : sizeof(*v4),
				       .ai_next = next };
	return &one->info;
}

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
	size_t n = 0;

	(void)hints;
	*ret = NULL;
	if (strcmp(host, "here") != 0) {
		*ret = one_address(host, port, NULL);
		return 0;
	}
	while (here && here[n])
		n++;
	for (; n > 0; n--)
		*ret = one_address(here[n - 1], port, *ret);
	return *ret ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *all)
{
	while (all) {
		struct addrinfo *const next = all->ai_next;

		free(all);
		all = next;
	}
}

static void sites_of(uint32_t sockets)
{
	listeners = (struct weir__listeners){ .n = 1 };
	listeners.at[0] = (struct weir__listen_address){ .service = WEIR__SERVICE_HTTP, .n = sockets };
	for (uint32_t i = 0; i < sockets; i++)
		listeners.at[0].sockets[i] = (int)i;
}

/* With any number of both, every socket has a worker and every worker a socket. */
static void all_sockets_are_listened_at(void)
{
	for (uint32_t sockets = 1; sockets <= 20; sockets++)
		for (uint32_t workers = 1; workers <= 20; workers++) {
			uint32_t heard[20] = { 0 };

			sites_of(sockets);
			for (uint32_t worker = 0; worker < workers; worker++) {
				const size_t n = weir__listeners_of_worker(&listeners, worker, workers,
									   worker_listeners);

				CHECK(n > 0 && n == weir__listeners_of_worker(&listeners, worker, workers, NULL));
				for (size_t i = 0; i < n; i++)
					heard[worker_listeners[i].socket]++;
			}
			for (uint32_t i = 0; i < sockets; i++)
				CHECK(heard[i] > 0 && (heard[i] == 1 || sockets < workers));
		}
}

static void inherit(size_t i, enum weir__service service, const char *asked, const char *name, uint32_t n)
{
	inherited.at[i] = (struct weir__listen_address){ .service = service, .n = n };
	for (uint32_t j = 0; j < n; j++)
		inherited.at[i].sockets[j] = (int)(1000 * (i + 1) + j);
	memcpy(inherited.at[i].setting, asked, strlen(asked) + 1);
	memcpy(inherited.at[i].name, name, strlen(name) + 1);
	inherited.n = i + 1;
}

/* Two listeners with port 0 are distinct, and each protocol has its own. */
static void words_tell_which_is_which(void)
{
	listeners = (struct weir__listeners){ .n = 0 };
	inherit(0, WEIR__SERVICE_RESP, "127.0.0.1:0", "127.0.0.1:1001", 2);
	inherit(1, WEIR__SERVICE_HTTP, "127.0.0.1:0", "127.0.0.1:1002", 3);
	inherit(2, WEIR__SERVICE_RESP, "127.0.0.1:0", "127.0.0.1:1003", 2);
	inherit(3, WEIR__SERVICE_RESP, "./socket", "./socket", 1);
	inherit(4, WEIR__SERVICE_RESP, "./gone", "./gone", 1);
	CHECK(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_RESP, "./socket", 2) == 0);
	CHECK(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_RESP, "127.0.0.1:0", 2) == 0);
	CHECK(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_RESP, "127.0.0.1:0", 1) == 0);
	CHECK(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_HTTP, "127.0.0.1:0", 2) == 0);
	CHECK_EQ(listeners.n, 4);
	CHECK_EQ(listeners.at[0].sockets[0], 4000);
	CHECK_TEXT(listeners.at[1].name, "127.0.0.1:1001");
	CHECK_TEXT(listeners.at[2].name, "127.0.0.1:1003");
	CHECK_EQ(listeners.at[2].n, 2);
	CHECK_EQ(listeners.at[3].sockets[2], 2002);
	CHECK_EQ(listeners.at[3].n, 3);
	CHECK_EQ(inherited.at[4].n, 1); /* unused */
}

static void more_workers_get_sockets_at_the_same_port(void)
{
	listeners = inherited = (struct weir__listeners){ .n = 0 };
	CHECK(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_RESP, "127.0.0.1:0", 1) == 0);
	inherited = listeners;
	listeners.n = 0;
	CHECK(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_RESP, "127.0.0.1:0", 3) == 0);
	CHECK_EQ(listeners.at[0].n, 3);
	CHECK_EQ(listeners.at[0].sockets[0], inherited.at[0].sockets[0]);
	CHECK_TEXT(listeners.at[0].name, inherited.at[0].name);
	CHECK_EQ(inherited.at[0].n, 0);
	weir__listeners_close(&listeners);
	CHECK_EQ(listeners.at[0].n, 0);
}

static int open_here(uint32_t workers)
{
	listeners = (struct weir__listeners){ .n = 0 };
	return weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_RESP, "here:0", workers);
}

static bool is_at(size_t i, const char *host)
{
	const char *const name = listeners.at[i].name, *const colon = strrchr(name, ':');

	return i < listeners.n && (size_t)(colon - name) == strlen(host) && strncmp(name, host, strlen(host)) == 0;
}

static void a_name_is_all_its_addresses(void)
{
	inherited = (struct weir__listeners){ .n = 0 };
	here = (const char *const[]){ "127.0.0.1", "127.0.0.2", "127.0.0.1", NULL };
	CHECK_EQ(open_here(2), 0);
	CHECK_EQ(listeners.n, 2);
	CHECK(is_at(0, "127.0.0.1") && is_at(1, "127.0.0.2"));
	CHECK_TEXT(strrchr(listeners.at[0].name, ':'), strrchr(listeners.at[1].name, ':'));
	CHECK(strcmp(strrchr(listeners.at[0].name, ':'), ":0") != 0);
	CHECK(listeners.at[0].n == 2 && listeners.at[1].n == 2);
	CHECK(weir__net_is_local("here:0"));
	weir__listeners_close(&listeners);
	here = (const char *const[]){ "127.0.0.1", "192.0.2.1", NULL };
	CHECK(!weir__net_is_local("here:0"));
	here = (const char *const[]){ "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5",
				      "127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9", NULL };
	CHECK_EQ(open_here(1), E2BIG);
	here = NULL;
	CHECK_EQ(open_here(1), EINVAL);
	CHECK_EQ(listeners.n, 0);
}

/* Like an IPv6 address on a machine without IPv6: 192.0.2.1 is not local. */
static void an_address_that_is_not_there_is_left_out(void)
{
	inherited = (struct weir__listeners){ .n = 0 };
	here = (const char *const[]){ "192.0.2.1", "127.0.0.1", NULL };
	CHECK_EQ(open_here(1), 0);
	CHECK(listeners.n == 1 && is_at(0, "127.0.0.1"));
	weir__listeners_close(&listeners);
	here = (const char *const[]){ "192.0.2.1", NULL };
	CHECK_EQ(open_here(1), EADDRNOTAVAIL);
	CHECK_EQ(listeners.n, 0);
}

/* Each address takes over its own sockets, in any order of the list, and also without one. */
static void addresses_are_taken_over(void)
{
	static const char *const later[][4] = { { "127.0.0.2", "127.0.0.1" }, { "127.0.0.3", "127.0.0.2" }, { NULL } };

	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		struct weir__listeners before;

		inherited = (struct weir__listeners){ .n = 0 };
		here = (const char *const[]){ "127.0.0.1", "127.0.0.2", NULL };
		CHECK_EQ(open_here(1), 0);
		before = inherited = listeners;
		here = later[i];
		CHECK_EQ(open_here(2), 0);
		CHECK_EQ(listeners.n, 2);
		for (size_t j = 0; j < listeners.n; j++) {
			const size_t same = is_at(j, "127.0.0.2");

			CHECK_EQ(listeners.at[j].n, 2);
			CHECK_TEXT(strrchr(listeners.at[j].name, ':'), strrchr(before.at[0].name, ':'));
			if (is_at(j, "127.0.0.3"))
				continue;
			CHECK_TEXT(listeners.at[j].name, before.at[same].name);
			CHECK_EQ(listeners.at[j].sockets[0], before.at[same].sockets[0]);
			CHECK_EQ(inherited.at[same].n, 0);
		}
		CHECK_EQ(inherited.at[0].n, i == 1); /* the name does not resolve to it any more */
		weir__listeners_close(&inherited);
		weir__listeners_close(&listeners);
	}
}

static unsigned mode_of(const char *path)
{
	struct stat status;

	CHECK(stat(path, &status) == 0);
	return (unsigned)status.st_mode & 07777;
}

/* Also for a socket that was taken over from a server with other settings. */
static void paths_have_the_mode(void)
{
	char folder[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 16];

	test_folder_new(folder, "listeners");
	(void)snprintf(path, sizeof(path), "%s/socket", folder);
	listeners = (struct weir__listeners){ .mode = 0640 };
	inherited = (struct weir__listeners){ .n = 0 };
	CHECK_EQ(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_HTTP, path, 2), 0);
	CHECK_EQ(mode_of(path), 0640);
	inherited = listeners;
	listeners = (struct weir__listeners){ .mode = 0606 };
	CHECK_EQ(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_HTTP, path, 2), 0);
	CHECK(listeners.at[0].is_inherited);
	CHECK_EQ(mode_of(path), 0606);
	inherited = listeners;
	listeners = (struct weir__listeners){ .mode = 0 };
	CHECK_EQ(weir__listeners_open(&listeners, &inherited, WEIR__SERVICE_HTTP, path, 2), 0);
	CHECK_EQ(mode_of(path), 0606);
	weir__listeners_close(&listeners);
	CHECK(rmdir(folder) == 0);
}

TESTS(TEST(paths_have_the_mode), TEST(all_sockets_are_listened_at), TEST(words_tell_which_is_which),
      TEST(more_workers_get_sockets_at_the_same_port), TEST(a_name_is_all_its_addresses),
      TEST(an_address_that_is_not_there_is_left_out), TEST(addresses_are_taken_over))
