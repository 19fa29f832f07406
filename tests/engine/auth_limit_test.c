/* auth_limit_test.c: which failed logins count, and for which address. */
#include "engine/auth_limit.h"

#include "check.h"

#define S UINT64_C(1000000000)
static const weir_ns start = UINT64_C(1800000000) * S;

static struct weir__address address(const char *text)
{
	struct weir__address found;

	CHECK(weir__address_read(weir__slice_of(text), &found));
	return found;
}

static bool guess_by(struct weir__auth_limit *limit, const struct weir__address *from, const struct weir__address *peer,
		     weir_ns now)
{
	const struct weir__auth_source source = { from, peer };
	weir_ns retry_after;

	if (!weir__auth_limit_may_try(limit, source, now, &retry_after))
		return false;
	weir__auth_limit_failed(limit, source, now);
	return true;
}

static bool guess(struct weir__auth_limit *limit, const struct weir__address *from, weir_ns now)
{
	return guess_by(limit, from, from, now);
}

/* A client that claims another address with each attempt. */
static uint32_t invented(struct weir__auth_limit *limit, const char *network, const char *peer, uint32_t n)
{
	const struct weir__address by = address(peer ? peer : "::");
	uint32_t may = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct weir__address from = address(network);

		from.bytes[2] = (unsigned char)(i >> 8);
		from.bytes[3] = (unsigned char)i;
		may += guess_by(limit, &from, strcmp(network, "127.0.0.0") == 0 ? &from : peer ? &by : NULL, start);
	}
	return may;
}

static void peers_count_too(void)
{
	static const struct {
		const char *says, *network, *peer;
		uint32_t may;
	} rows[] = {
		{ "a local client with invented addresses", "10.0.0.0", "127.0.0.1", 200 },
		{ "the same, from another loopback address", "10.1.0.0", "127.9.9.9", 0 },
		{ "the same, by a Unix socket", "10.1.0.0", NULL, 0 },
		{ "a local client with many addresses", "127.0.0.0", NULL, 0 },
		{ "behind another proxy", "10.2.0.0", "192.0.2.9", 200 },
		{ "behind one more", "10.3.0.0", "2001:db8::9", 200 },
	};
	struct weir_message why;
	struct weir__auth_limit *limit = weir__auth_limit_new("1/hour burst 2", &why);
	const struct weir__address visitor = address("10.0.0.1"), other = address("10.9.9.9"), proxy = address("::1");

	for (size_t i = 0; limit && i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!CHECK_EQ(invented(limit, rows[i].network, rows[i].peer, 1000), rows[i].may))
			printf("# %s\n", rows[i].says);
	weir__auth_limit_free(limit);

	/* One client behind a proxy does not lock out the others. */
	limit = weir__auth_limit_new("1/hour burst 2", &why);
	for (int i = 0; limit && i < 1000; i++)
		CHECK_EQ(guess_by(limit, &visitor, &proxy, start), i < 2);
	CHECK(limit && guess_by(limit, &other, &proxy, start));
	weir__auth_limit_free(limit);

	/* A hundred times this limit is more than a table can hold. */
	limit = weir__auth_limit_new("1/6000day burst 1", &why);
	CHECK(limit && invented(limit, "10.0.0.0", "127.0.0.1", 1000) >= 1);
	weir__auth_limit_free(limit);
}

static void wrong_attempts_count_by_address(void)
{
	static const struct {
		const char *from;
		weir_ns at;
		bool may;
	} rows[] = {
		{ "192.0.2.1", 0, true },
		{ "192.0.2.1", 0, true },
		{ "192.0.2.1", 0, false },
		{ "192.0.2.2", 0, true },
		{ "::ffff:192.0.2.2", 0, true },
		{ "192.0.2.2", 0, false },
		{ "192.0.2.1", 10 * S - 1, false },
		{ "192.0.2.1", 10 * S, true },
		{ "192.0.2.1", 10 * S, false },
		{ "2001:db8::1", 0, true },
		{ "2001:db8::2", 0, true },
		{ "2001:db8::ffff:0:3", 0, false },
		{ "2001:db8:0:1::1", 0, true },
		{ NULL, 0, true },
		{ NULL, 0, true },
		{ NULL, 0, false },
	};
	struct weir_message why;
	struct weir__auth_limit *const limit = weir__auth_limit_new("1/10s burst 2", &why);

	CHECK(limit != NULL);
	if (limit == NULL)
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir__address from = rows[i].from ? address(rows[i].from) : address("::");

		if (!CHECK_EQ(guess(limit, rows[i].from ? &from : NULL, start + rows[i].at), rows[i].may))
			printf("# row %zu\n", i);
	}
	weir__auth_limit_free(limit);
}

static void successes_count_nothing(void)
{
	struct weir_message why;
	struct weir__auth_limit *const limit = weir__auth_limit_new("1/10s burst 2", &why);
	const struct weir__address from = address("192.0.2.1");
	const struct weir__auth_source source = { &from, &from };
	weir_ns retry_after;

	CHECK(limit != NULL);
	if (limit == NULL)
		return;
	for (int i = 0; i < 100; i++)
		CHECK(weir__auth_limit_may_try(limit, source, start, &retry_after));
	CHECK(guess(limit, &from, start) && guess(limit, &from, start) && !guess(limit, &from, start));
	CHECK(!weir__auth_limit_may_try(limit, source, start, &retry_after));
	CHECK_EQ(retry_after, 10 * S);
	weir__auth_limit_free(limit);
}

/* Other addresses cannot evict an address that has used up its attempts. */
static void others_do_not_wash_an_address_out(void)
{
	struct weir_message why;
	struct weir__auth_limit *const limit = weir__auth_limit_new("1/hour burst 10", &why);
	const struct weir__address from = address("192.0.2.1");

	CHECK(limit != NULL);
	if (limit == NULL)
		return;
	while (guess(limit, &from, start))
		;
	for (uint32_t i = 0; i < 4 * WEIR__AUTH_LIMIT_ADDRESSES; i++) {
		const unsigned char bytes[4] = { 10, (unsigned char)(i >> 16), (unsigned char)(i >> 8),
						 (unsigned char)i };
		const struct weir__address other = weir__address_of(bytes, false);

		(void)guess(limit, &other, start);
	}
	CHECK(!guess(limit, &from, start));
	weir__auth_limit_free(limit);
}

static void invalid_limits_are_errors(void)
{
	struct weir_message why;

	CHECK(weir__auth_limit_new("many", &why) == NULL);
	CHECK(why.text[0] != '\0');
	weir__auth_limit_free(NULL);
}

TESTS(TEST(wrong_attempts_count_by_address), TEST(peers_count_too), TEST(successes_count_nothing),
      TEST(others_do_not_wash_an_address_out), TEST(invalid_limits_are_errors))
