/* address_test.c: IP addresses and networks in their usual notations. */
#include "policy/address.h"

#include "check.h"

static bool read_as(const char *text, const char *same_as)
{
	struct weir__address a, b;

	return weir__address_read(weir__slice_of(text), &a) && weir__address_read(weir__slice_of(same_as), &b) &&
	       a.is_v6 == b.is_v6 && memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

static void spellings_of_one_address(void)
{
	CHECK(read_as("::ffff:192.0.2.1", "192.0.2.1"));
	CHECK(read_as("::FFFF:c000:0201", "192.0.2.1"));
	CHECK(read_as("[2001:db8::1]", "2001:DB8:0:0::1"));
	CHECK(read_as("fe80::1%eth0", "fe80::1"));
	CHECK(!read_as("192.0.2.1", "::192.0.2.1"));
}

static void what_is_no_address(void)
{
	static const char *const texts[] = { "",           "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4",
					     "1.2.3.4:80", "::g",   "[::1",      "unknown",   "1.2.3.4 " };
	struct weir__address address;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (weir__address_read(weir__slice_of(texts[i]), &address))
			check_fail(__FILE__, __LINE__, texts[i]);
	CHECK(!weir__address_read((struct weir__slice){ "1.2.3.4\0", 8 }, &address));
}

static bool has(const char *network_, const char *address_)
{
	struct weir__network network;
	struct weir__address address;
	bool has_host_bits;

	CHECK(weir__network_read(weir__slice_of(network_), &network, &has_host_bits));
	CHECK(weir__address_read(weir__slice_of(address_), &address));
	return weir__network_has(&network, &address);
}

static void networks_have_addresses(void)
{
	CHECK(has("10.0.0.0/8", "10.255.255.255"));
	CHECK(!has("10.0.0.0/8", "11.0.0.0"));
	CHECK(has("0.0.0.0/0", "255.1.2.3"));
	CHECK(!has("0.0.0.0/0", "::1"));
	CHECK(has("10.0.0.0/8", "::ffff:10.1.2.3"));
	CHECK(has("192.0.2.128/25", "192.0.2.129"));
	CHECK(!has("192.0.2.128/25", "192.0.2.127"));
	CHECK(has("2001:db8::/33", "2001:db8:7fff::1"));
	CHECK(!has("2001:db8::/33", "2001:db8:8000::1"));
	CHECK(has("::ffff:10.0.0.0/104", "10.1.2.3"));
	CHECK(!has("::ffff:10.0.0.0/104", "11.1.2.3"));
	CHECK(has("[::ffff:0:0]/96", "255.1.2.3"));
	CHECK(has("::ffff:10.0.0.1", "10.0.0.1"));
	CHECK(has("192.0.2.1", "192.0.2.1"));
	CHECK(!has("192.0.2.1", "192.0.2.0"));
}

static void what_is_no_network(void)
{
	static const char *const texts[] = {
		"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8", "::/129", "10/8"
	};
	struct weir__network network;
	bool has_host_bits;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CHECK(!weir__network_read(weir__slice_of(texts[i]), &network, &has_host_bits));
		CHECK(!has_host_bits);
	}
	CHECK(!weir__network_read(weir__slice_of("10.0.0.1/8"), &network, &has_host_bits));
	CHECK(has_host_bits);
	CHECK(!weir__network_read(weir__slice_of("::ffff:10.0.0.1/104"), &network, &has_host_bits));
	CHECK(has_host_bits);
	CHECK(!weir__network_read(weir__slice_of("::ffff:10.0.0.0/95"), &network, &has_host_bits));
	CHECK(has_host_bits);
}

TESTS(TEST(spellings_of_one_address), TEST(what_is_no_address), TEST(networks_have_addresses), TEST(what_is_no_network))
