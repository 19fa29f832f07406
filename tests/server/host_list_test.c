/* host_list_test.c: which values of Host a server accepts. */
#include "server/host_list.h"

#include "check.h"

static struct weir__host_list list_of(const char *const *names, size_t n)
{
	struct weir__host_list list = { .n = 0 };

	for (size_t i = 0; i < n; i++)
		CHECK(weir__host_list_add(&list, names[i], strlen(names[i])));
	return list;
}

static void expect(const struct weir__host_list *list, const char *host, bool is_allowed)
{
	if (weir__host_list_allows(list, host, strlen(host)) != is_allowed)
		check_fail(__FILE__, __LINE__, host);
}

static const char *const always[] = { "127.0.0.1",          "127.0.0.1:8080", "10.1.2.3:80",  "[::1]",     "[::1]:8080",
				      "[fe80::1%25eth0]:1", "localhost",      "LocalHost:99", "localhost." };
static const char *const not_public[] = { "weir",
					  "weir:8080",
					  "web-1_a:80",
					  "a.localhost:8080",
					  "printer.local",
					  "host.docker.internal:8080",
					  "weir.prod.svc",
					  "weir.prod.svc.cluster.local.:80",
					  "" };
static const char *const public[] = { "evil.example",         "evil.example:8080",  "127.0.0.1.evil.example",
				      "1.2.3.4x.com",         "localhost.evil.com", "evil.com.",
				      "a.svc.evil.com",       "xlocal.host",        "127.0.0.1:80:evil.a",
				      "weir.example.com:8080" };

static void without_a_list_private_names_are_allowed(void)
{
	const struct weir__host_list list = { .n = 0 };

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		expect(&list, always[i], true);
	for (size_t i = 0; i < sizeof(not_public) / sizeof(not_public[0]); i++)
		expect(&list, not_public[i], true);
	for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
		expect(&list, public[i], false);
}

static void a_list_allows_what_it_names(void)
{
	static const char *const names[] = { "Weir.Example.com", "*.limits.example" };
	const struct weir__host_list list = list_of(names, 2);

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		expect(&list, always[i], true);
	expect(&list, "weir.example.com", true);
	expect(&list, "WEIR.example.COM.:443", true);
	expect(&list, "a.limits.example:80", true);
	expect(&list, "a.b.limits.example", true);
	expect(&list, "limits.example", false);
	expect(&list, "alimits.example", false);
	expect(&list, "x.weir.example.com", false);
	expect(&list, "weir", false);
	expect(&list, "weir.prod.svc", false);
}

static void a_star_allows_all(void)
{
	static const char *const star[] = { "*" };
	const struct weir__host_list list = list_of(star, 1);

	for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
		expect(&list, public[i], true);
}

static void what_is_not_a_name(void)
{
	static const char *const texts[] = {
		"", "*.", "**", "*a", "a:80", "a b", "http://a", "a/", "a,b", "[::1]", "a."
	};
	struct weir__host_list list = { .n = 0 };
	char name[WEIR__HOST_NAME_MAX + 2];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (weir__host_list_add(&list, texts[i], strlen(texts[i])))
			check_fail(__FILE__, __LINE__, texts[i]);
	memset(name, 'a', sizeof(name));
	CHECK(!weir__host_list_add(&list, name, WEIR__HOST_NAME_MAX + 1));
	CHECK_EQ(list.n, 0);
	for (size_t i = 0; i < WEIR__HOSTS_MAX; i++)
		CHECK(weir__host_list_add(&list, name, WEIR__HOST_NAME_MAX));
	CHECK(!weir__host_list_add(&list, "a", 1));
}

static void origins(void)
{
	static const struct {
		const char *host, *origin;
		bool is_same;
	} rows[] = {
		{ "localhost:8080", "http://localhost:8080", true },
		{ "LOCALHOST:8080", "http://localhost:8080", true },
		{ "weir.example.com", "https://weir.example.com", true },
		{ "weir.example.com:443", "https://weir.example.com", true },
		{ "weir", "http://weir:80", true },
		{ "[::1]:8080", "http://[::1]:8080", true },
		{ "localhost:8080", "http://localhost:3000", false },
		{ "localhost:8080", "http://localhost", false },
		{ "weir:80", "https://weir", false },
		{ "weir", "https://weir:80", false },
		{ "localhost:8080", "http://localhost:8080.evil.com", false },
		{ "localhost:8080", "null", false },
		{ "localhost:8080", "", false },
		{ "", "http://", false },
		{ "localhost:8080", "file://localhost:8080", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (weir__host_is_of_origin(rows[i].host, strlen(rows[i].host), rows[i].origin,
					    strlen(rows[i].origin)) != rows[i].is_same)
			check_fail(__FILE__, __LINE__, rows[i].origin);
}

TESTS(TEST(without_a_list_private_names_are_allowed), TEST(a_list_allows_what_it_names), TEST(a_star_allows_all),
      TEST(what_is_not_a_name), TEST(origins))
