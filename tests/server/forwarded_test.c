/* forwarded_test.c: which address in a chain of proxies is the client's. */
#include "server/forwarded.h"

#include "check.h"

enum { LINES = 3 };

static struct weir__address address_of(const char *text)
{
	struct weir__address address;

	CHECK(weir__address_read(weir__slice_of(text), &address));
	return address;
}

/* Trusted proxies are 10.0.0.0/8, ::1 and unix. A caller of NULL connects by a Unix socket; a client of NULL is
 * unknown. */
static const struct {
	const char *what, *caller, *lines[LINES], *client;
} rows[] = {
	{ "no header: who is connected", "10.0.0.1", { NULL }, "10.0.0.1" },
	{ "a header from an address that is not a proxy is ignored", "192.0.2.9", { "203.0.113.7" }, "192.0.2.9" },
	{ "a proxy is", "10.0.0.1", { "203.0.113.7" }, "203.0.113.7" },
	{ "the right-most address that is not a proxy",
	  "10.0.0.1",
	  { "198.51.100.1, 203.0.113.7, 10.2.2.2" },
	  "203.0.113.7" },
	{ "what clients invent is left of them", "10.0.0.1", { "10.9.9.9, 203.0.113.7" }, "203.0.113.7" },
	{ "all are proxies: the first", "10.0.0.1", { "10.3.3.3, 10.2.2.2" }, "10.3.3.3" },
	{ "lines are one list", "10.0.0.1", { "198.51.100.1", "203.0.113.7", "10.2.2.2" }, "203.0.113.7" },
	{ "a line that is empty", "10.0.0.1", { "203.0.113.7", "", " , " }, "203.0.113.7" },
	{ "spaces and tabs", "10.0.0.1", { " \t203.0.113.7\t ,\t10.2.2.2 ," }, "203.0.113.7" },
	{ "a path is a proxy", NULL, { "203.0.113.7" }, "203.0.113.7" },
	{ "a Unix socket without the header has no address", NULL, { NULL }, NULL },
	{ "an invalid header has no address", NULL, { "garbage" }, NULL },
	{ "garbage: who sent it", "10.0.0.1", { "garbage" }, "10.0.0.1" },
	{ "garbage: what is right of it", "10.0.0.1", { "203.0.113.7, garbage, 10.2.2.2" }, "10.2.2.2" },
	{ "garbage left of the client", "10.0.0.1", { "garbage, 203.0.113.7" }, "203.0.113.7" },
	{ "garbage in a line", "10.0.0.1", { "203.0.113.7", "unknown", "10.2.2.2" }, "10.2.2.2" },
	{ "ports", "10.0.0.1", { "203.0.113.7:4711, 10.2.2.2:80" }, "203.0.113.7" },
	{ "IPv6", "::1", { "2001:db8::7" }, "2001:db8::7" },
	{ "IPv6 in brackets", "::1", { "[2001:DB8:0::7], ::1" }, "2001:db8::7" },
	{ "IPv6 with a port", "::1", { "[2001:db8::7]:4711, [::1]:80" }, "2001:db8::7" },
	{ "IPv6 with a zone", "::1", { "fe80::7%eth0" }, "fe80::7" },
	{ "IPv4 written as IPv6", "::ffff:10.0.0.1", { "::ffff:203.0.113.7, ::ffff:10.2.2.2" }, "203.0.113.7" },
	{ "a port that is none", "10.0.0.1", { "203.0.113.7:x" }, "10.0.0.1" },
	{ "a port that is none, IPv6", "10.0.0.1", { "[2001:db8::7]x80" }, "10.0.0.1" },
	{ "a port beyond all", "10.0.0.1", { "203.0.113.7:65536" }, "10.0.0.1" },
	{ "no port behind the colon", "10.0.0.1", { "203.0.113.7:" }, "10.0.0.1" },
	{ "a bracket that does not end", "10.0.0.1", { "[2001:db8::7" }, "10.0.0.1" },
	{ "brackets of nothing", "10.0.0.1", { "[]" }, "10.0.0.1" },
	{ "a colon alone", "10.0.0.1", { ":" }, "10.0.0.1" },
	{ "quotes are not taken off", "10.0.0.1", { "\"203.0.113.7\"" }, "10.0.0.1" },
	{ "two addresses without a comma", "10.0.0.1", { "203.0.113.7 203.0.113.8" }, "10.0.0.1" },
};

static void the_client_of_each_chain(void)
{
	struct weir__proxies proxies = { .n = 0 };

	CHECK(weir__proxies_add(&proxies, "10.0.0.0/8", 10) && weir__proxies_add(&proxies, "::1", 3) &&
	      weir__proxies_add(&proxies, "unix", 4));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__caller caller = { .is_unix = rows[i].caller == NULL,
					       .has_address = rows[i].caller != NULL };
		struct weir__slice lines[LINES];
		struct weir__address client;
		char text[WEIR__ADDRESS_TEXT] = "nobody";
		size_t n = 0;

		if (rows[i].caller)
			caller.address = address_of(rows[i].caller);
		for (; n < LINES && rows[i].lines[n]; n++)
			lines[n] = weir__slice_of(rows[i].lines[n]);
		if (weir__forwarded_client(&proxies, &caller, lines, n, &client))
			weir__address_write(&client, text);
		if (strcmp(text, rows[i].client ? rows[i].client : "nobody") != 0)
			printf("# %s\n", rows[i].what);
		CHECK_TEXT(text, rows[i].client ? rows[i].client : "nobody");
	}
}

static void nobody_is_believed_by_default(void)
{
	const struct weir__proxies none = { .n = 0 };
	const struct weir__slice line = weir__slice_of("203.0.113.7");
	const struct weir__caller by_path = { .is_unix = true };
	const struct weir__caller here = { .has_address = true, .address = address_of("127.0.0.1") };
	struct weir__address client;

	CHECK(!weir__forwarded_client(&none, &by_path, &line, 1, &client));
	CHECK(weir__forwarded_client(&none, &here, &line, 1, &client) && client.bytes[0] == 127);
}

/* Parses every part of a line, with random bytes in the middle. Sanitizers find a read beyond it. */
static void any_bytes_are_a_chain(void)
{
	static const char whole[] = "[2001:db8::7]:4711, 203.0.113.7:80,, ::ffff:10.1.1.1 ,10.2.2.2";
	struct weir__proxies proxies = { .n = 0 };
	const struct weir__caller caller = { .has_address = true, .address = address_of("10.0.0.1") };

	CHECK(weir__proxies_add(&proxies, "10.0.0.0/8", 10));
	for (size_t from = 0; from < sizeof(whole); from++)
		for (size_t to = from; to < sizeof(whole); to++)
			for (int byte = 0; byte < 256; byte += 3) {
				char copy[sizeof(whole)];
				struct weir__slice line = { copy, to - from };
				struct weir__address client;

				memcpy(copy, whole + from, to - from);
				if (to > from)
					copy[(to - from) / 2] = (char)byte;
				CHECK(weir__forwarded_client(&proxies, &caller, &line, 1, &client));
			}
}

static void there_is_room_for_so_many(void)
{
	struct weir__proxies proxies = { .n = 0 };
	char text[WEIR__PROXIES_MAX * WEIR__PROXY_SHOWN];

	for (int i = 0; i < WEIR__PROXIES_MAX; i++)
		CHECK(weir__proxies_add(&proxies, "2001:db8:1111:2222:3333:4444:5555:6666", 38));
	CHECK(!weir__proxies_add(&proxies, "10.0.0.1", 8));
	CHECK(weir__proxies_add(&proxies, "unix", 4));
	CHECK(weir__proxies_show(&proxies, text, sizeof(text)) < sizeof(text));
}

TESTS(TEST(the_client_of_each_chain), TEST(nobody_is_believed_by_default), TEST(any_bytes_are_a_chain),
      TEST(there_is_room_for_so_many))
