/* Listening sockets dealt out among workers, and taken over. Sockets are numbers here, but for those that are opened. */
#include "serve/sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static struct weir__sites sites, inherited;
static struct weir__listener listeners[WEIR__SITES_MAX * WEIR__WORKERS_MAX];

static void sites_of(uint32_t sockets)
{
	sites = (struct weir__sites){ .n = 1 };
	sites.at[0] = (struct weir__site){ .wire = WEIR__WIRE_HTTP, .n = sockets };
	for (uint32_t i = 0; i < sockets; i++)
		sites.at[0].sockets[i] = (int)i;
}

/* However many there are of both: no socket is left alone, and no worker has nothing to do. */
static void all_sockets_are_listened_at(void)
{
	for (uint32_t sockets = 1; sockets <= 20; sockets++)
		for (uint32_t workers = 1; workers <= 20; workers++) {
			uint32_t heard[20] = { 0 };

			sites_of(sockets);
			for (uint32_t worker = 0; worker < workers; worker++) {
				const size_t n = weir__sites_of_worker(&sites, worker, workers, listeners);

				CHECK(n > 0 && n == weir__sites_of_worker(&sites, worker, workers, NULL));
				for (size_t i = 0; i < n; i++)
					heard[listeners[i].socket]++;
			}
			for (uint32_t i = 0; i < sockets; i++)
				CHECK(heard[i] > 0 && (heard[i] == 1 || sockets < workers));
		}
}

static void inherit(size_t i, enum weir__wire_number wire, const char *asked, const char *name, uint32_t n)
{
	inherited.at[i] = (struct weir__site){ .wire = wire, .n = n };
	for (uint32_t j = 0; j < n; j++)
		inherited.at[i].sockets[j] = (int)(1000 * (i + 1) + j);
	memcpy(inherited.at[i].asked, asked, strlen(asked) + 1);
	memcpy(inherited.at[i].name, name, strlen(name) + 1);
	inherited.n = i + 1;
}

/* Two ports that were any are two, and each wire has its own. */
static void words_tell_which_is_which(void)
{
	sites = (struct weir__sites){ .n = 0 };
	inherit(0, WEIR__WIRE_RESP, "127.0.0.1:0", "127.0.0.1:1001", 2);
	inherit(1, WEIR__WIRE_HTTP, "127.0.0.1:0", "127.0.0.1:1002", 3);
	inherit(2, WEIR__WIRE_RESP, "127.0.0.1:0", "127.0.0.1:1003", 2);
	inherit(3, WEIR__WIRE_RESP, "./socket", "./socket", 1);
	inherit(4, WEIR__WIRE_RESP, "./gone", "./gone", 1);
	CHECK(weir__sites_open(&sites, &inherited, WEIR__WIRE_RESP, "./socket", 2) == 0);
	CHECK(weir__sites_open(&sites, &inherited, WEIR__WIRE_RESP, "127.0.0.1:0", 2) == 0);
	CHECK(weir__sites_open(&sites, &inherited, WEIR__WIRE_RESP, "127.0.0.1:0", 1) == 0);
	CHECK(weir__sites_open(&sites, &inherited, WEIR__WIRE_HTTP, "127.0.0.1:0", 2) == 0);
	CHECK_EQ(sites.n, 4);
	CHECK_EQ(sites.at[0].sockets[0], 4000);
	CHECK_TEXT(sites.at[1].name, "127.0.0.1:1001");
	CHECK_TEXT(sites.at[2].name, "127.0.0.1:1003");
	CHECK_EQ(sites.at[2].n, 2);
	CHECK_EQ(sites.at[3].sockets[2], 2002);
	CHECK_EQ(sites.at[3].n, 3);
	CHECK_EQ(inherited.at[4].n, 1); /* nobody wants it */
}

static void more_workers_get_sockets_at_the_same_port(void)
{
	sites = inherited = (struct weir__sites){ .n = 0 };
	CHECK(weir__sites_open(&sites, &inherited, WEIR__WIRE_RESP, "127.0.0.1:0", 1) == 0);
	inherited = sites;
	sites.n = 0;
	CHECK(weir__sites_open(&sites, &inherited, WEIR__WIRE_RESP, "127.0.0.1:0", 3) == 0);
	CHECK_EQ(sites.at[0].n, 3);
	CHECK_EQ(sites.at[0].sockets[0], inherited.at[0].sockets[0]);
	CHECK_TEXT(sites.at[0].name, inherited.at[0].name);
	CHECK_EQ(inherited.at[0].n, 0);
	weir__sites_close(&sites);
	CHECK_EQ(sites.at[0].n, 0);
}

static unsigned mode_of(const char *path)
{
	struct stat status;

	CHECK(stat(path, &status) == 0);
	return (unsigned)status.st_mode & 07777;
}

/* Also of one that was taken over from a server with other settings. */
static void paths_have_the_mode(void)
{
	char folder[] = "/tmp/weir-sites-XXXXXX", path[64];

	CHECK(mkdtemp(folder) != NULL);
	(void)snprintf(path, sizeof(path), "%s/socket", folder);
	sites = (struct weir__sites){ .mode = 0640 };
	inherited = (struct weir__sites){ .n = 0 };
	CHECK_EQ(weir__sites_open(&sites, &inherited, WEIR__WIRE_HTTP, path, 2), 0);
	CHECK_EQ(mode_of(path), 0640);
	inherited = sites;
	sites = (struct weir__sites){ .mode = 0606 };
	CHECK_EQ(weir__sites_open(&sites, &inherited, WEIR__WIRE_HTTP, path, 2), 0);
	CHECK(sites.at[0].is_inherited);
	CHECK_EQ(mode_of(path), 0606);
	inherited = sites;
	sites = (struct weir__sites){ .mode = 0 };
	CHECK_EQ(weir__sites_open(&sites, &inherited, WEIR__WIRE_HTTP, path, 2), 0);
	CHECK_EQ(mode_of(path), 0606);
	weir__sites_close(&sites);
	CHECK(rmdir(folder) == 0);
}

TESTS(TEST(paths_have_the_mode), TEST(all_sockets_are_listened_at), TEST(words_tell_which_is_which),
      TEST(more_workers_get_sockets_at_the_same_port))
