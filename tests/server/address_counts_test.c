/* address_counts_test.c: connections counted by address. */
#include "server/address_counts.h"

#include "check.h"
#include "server/forwarded.h"

static struct weir__proxies proxies;

static struct weir__address address_of(const char *text)
{
	struct weir__address address;

	CHECK(weir__address_read((struct weir__slice){ text, strlen(text) }, &address));
	return address;
}

static bool join(struct weir__address_counts *counts, const char *text, struct weir__address_count **ret_count)
{
	const struct weir__address address = address_of(text);

	return weir__address_counts_join(counts, &address, ret_count);
}

static void an_address_has_so_many(void)
{
	struct weir__address_counts *const counts = weir__address_counts_new(2, 10, &proxies);
	struct weir__address_count *a, *b, *other, *none;

	CHECK(join(counts, "192.0.2.1", &a) && a);
	CHECK(join(counts, "::ffff:192.0.2.1", &b) && b == a); /* the same address, as an IPv6 listener sees it */
	CHECK(!join(counts, "192.0.2.1", &none) && none == NULL);
	CHECK(join(counts, "192.0.2.2", &other) && other != a);
	weir__address_counts_leave(counts, b);
	CHECK(join(counts, "192.0.2.1", &b));
	weir__address_counts_leave(counts, a);
	weir__address_counts_leave(counts, b);
	weir__address_counts_leave(counts, other);
	CHECK(join(counts, "192.0.2.1", &a) && join(counts, "192.0.2.1", &b) && !join(counts, "192.0.2.1", &none));
	weir__address_counts_free(counts);
}

static void ipv6_counts_by_network(void)
{
	struct weir__address_counts *const counts = weir__address_counts_new(2, 10, &proxies);
	struct weir__address_count *a, *none;

	CHECK(join(counts, "2001:db8:0:1::1", &a) && join(counts, "2001:db8:0:1:ffff::2", &a));
	CHECK(!join(counts, "2001:db8:0:1:2::3", &none));
	CHECK(join(counts, "2001:db8:0:2::1", &a));
	weir__address_counts_free(counts);
}

static void some_are_exempt(void)
{
	static const char *const texts[] = { "127.0.0.1",        "127.200.0.1", "::1",
					     "::ffff:127.0.0.1", "10.1.2.3",    "fd00::7" };
	struct weir__address_counts *counts;
	struct weir__address_count *count;

	CHECK(weir__proxies_add(&proxies, "10.0.0.0/8", 10) && weir__proxies_add(&proxies, "fd00::/8", 8));
	counts = weir__address_counts_new(1, 10, &proxies);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (int n = 0; n < 3; n++)
			CHECK(join(counts, texts[i], &count) && count == NULL);
	CHECK(join(counts, "11.0.0.1", &count) && count && !join(counts, "11.0.0.1", &count));
	weir__address_counts_free(counts);
	proxies.n = 0;
	CHECK(join(NULL, "192.0.2.1", &count) && count == NULL);
}

/* With more addresses than initial places, all are found, and none is left after they leave. */
static void many_addresses(void)
{
	enum { N = 1000 };
	struct weir__address_counts *const counts = weir__address_counts_new(1, 1, &proxies);
	struct weir__address_count *joined[N], *none;
	char text[32];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < N; i++) {
			(void)snprintf(text, sizeof(text), "198.51.%d.%d", i / 250, i % 250);
			CHECK(join(counts, text, &joined[i]) && joined[i]);
			CHECK(!join(counts, text, &none));
		}
		for (int i = 0; i < N; i++)
			weir__address_counts_leave(counts, joined[(i * 7) % N]);
	}
	weir__address_counts_free(counts);
}

TESTS(TEST(an_address_has_so_many), TEST(ipv6_counts_by_network), TEST(some_are_exempt), TEST(many_addresses))
