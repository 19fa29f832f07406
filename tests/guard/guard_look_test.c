/* guard_look_test.c: keys as text, and what limits would say without being asked. */
#include "guard/guard.h"

#include <stdlib.h>

#include "../policy/policies.h"

static const weir_ns start = UINT64_C(1700000000000000000);

static const char own[] = "attributes:\n"
			  "  ip: {type: ip}\n"
			  "  path: {type: path}\n"
			  "limits:\n"
			  "  - {name: all, limit: 100/s}\n"
			  "  - {name: address, key: [ip], limit: 3/hour}\n"
			  "  - {name: net, key: [{attribute: ip, ipv4: 24, ipv6: 48}], limit: 10/s}\n"
			  "  - {name: one, key: [user], limit: 10/s}\n"
			  "  - {name: three, key: [user, ip, path], limit: 2/hour, mode: shadow}\n";
static const char envoys[] = "domain: shop\n"
			     "descriptors:\n"
			     "  - {key: free, rate_limit: {unlimited: true}}\n"
			     "  - key: user\n"
			     "    rate_limit: {unit: hour, requests_per_unit: 2}\n"
			     "    descriptors:\n"
			     "      - {key: path, rate_limit: {unit: hour, requests_per_unit: 1}}\n";

static struct weir_table *table;

static struct weir_guard *guard_of(const char *text)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(10000, 64) + (1 << 20),
						    .arena_bytes = 1 << 20,
						    .made_at = start };
	struct weir_policy *const policy = policy_of(text);
	struct weir_guard *guard = NULL;
	struct weir_message why = { 0 };

	CHECK_TEXT(reported, "");
	CHECK(weir_table_new(&options, &table, &why) == WEIR_OK);
	if (policy == NULL || weir_guard_new(table, policy, &guard, &why) != WEIR_OK) {
		check_fail(__FILE__, __LINE__, why.text);
		exit(1);
	}
	return guard;
}

static void end(struct weir_guard *guard)
{
	weir_guard_free(guard);
	weir_table_free(table);
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

struct row {
	const char *plan, *key;
	size_t length;
	const char *text;
};

#define KEY(literal) literal, sizeof(literal) - 1

static void check_rows(struct weir_guard *guard, const struct row *rows, size_t n)
{
	char text[WEIR__KEY_TEXT_SIZE];

	for (size_t i = 0; i < n; i++) {
		const size_t length = weir__guard_key_text(guard, rows[i].plan, rows[i].key, rows[i].length,
							   rows[i].length, text, sizeof(text));

		CHECK_EQ(length, strlen(text));
		CHECK_TEXT(text, rows[i].text);
	}
}

/* clang-format off */
static const struct row own_rows[] = {
	{ "all", KEY(""), "" },
	{ "address", KEY("\004\012\0\0\001"), "ip=10.0.0.1" },
	{ "address", KEY("\020\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"), "ip=2001:db8::/64" },
	{ "address", KEY("\0localhost"), "ip=localhost" },
	{ "address", KEY("\0"), "ip=" },
	{ "net", KEY("\004\012\0\0\0"), "ip=10.0.0.0/24" },
	{ "net", KEY("\020\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"), "ip=2001:db8::/48" },
	{ "one", KEY("ann"), "user=ann" },
	{ "one", KEY(""), "user=" },
	{ "one", KEY("ann b=c"), "user=ann b=c" },
	{ "one", KEY("J\xc3\xbcrgen \xe2\x82\xac \xf0\x9f\x98\x80"), "user=J\xc3\xbcrgen \xe2\x82\xac \xf0\x9f\x98\x80" },
	{ "one", KEY("a\x1b[31m\r\n\x7f\\"), "user=a\\x1b[31m\\x0d\\x0a\\x7f\\x5c" },
	{ "one", KEY("\xc3"), "user=\\xc3" },                               /* the beginning of a character */
	{ "one", KEY("\xc0\xaf\xed\xa0\x80"), "user=\\xc0\\xaf\\xed\\xa0\\x80" },     /* overlong, and half of a pair */
	{ "one", KEY("\xc2\x9b" "31m"), "user=\\xc2\\x9b31m" },              /* a terminal may obey it as ESC [ */
	{ "one", KEY("\xe2\x80\xae" "abc"), "user=\\xe2\\x80\\xae" "abc" },  /* from right to left */
	{ "three", KEY("\003\0ann\005\0\004\012\0\0\001\002\0/x"), "user=ann ip=10.0.0.1 path=/x" },
	{ "three", KEY("\0\0\002\0\0x\0\0"), "user= ip=x path=" },
	/* Not such as the policy makes. */
	{ "all", KEY("x"), "x" },
	{ "address", KEY("abc"), "abc" },
	{ "address", KEY(""), "" },
	{ "address", KEY("\004\012\0\0"), "\\x04\\x0a\\x00\\x00" },
	{ "address", KEY("\020\012\0\0\001"), "\\x10\\x0a\\x00\\x00\\x01" },
	{ "three", KEY("\003\0ann"), "\\x03\\x00ann" },
	{ "three", KEY("\003\0ann\005\0\004\012\0\0\001\002\0/xy"), "\\x03\\x00ann\\x05\\x00\\x04\\x0a\\x00\\x00\\x01\\x02\\x00/xy" },
	{ "three", KEY("\377\377x"), "\\xff\\xffx" },
	{ "three", KEY("\003"), "\\x03" },
	{ "gone", KEY("\003\0ann"), "\\x03\\x00ann" },
	/* As a limit is named whose keys began anew. */
	{ "~0123456789abcdefone", KEY("ann"), "user=ann" },
	{ "~", KEY("ann"), "ann" },
};
static const struct row envoy_rows[] = {
	{ "shop|user", KEY("\004\0shop\004\0user\003\0ann"), "domain=shop user=ann" },
	{ "shop|user", KEY("\004\0shop\004\0user\003\0ann\004\0path\001\0/"), "domain=shop user=ann path=/" },
	{ "shop|user", KEY("\004\0shop\002\0\n=\0\0"), "domain=shop \\x0a==" },
	{ "shop|user", KEY("\004\0shop\004\0user"), "\\x04\\x00shop\\x04\\x00user" },
	{ "shop|user", KEY("\004\0shop\004\0user\003\0ann\001"), "\\x04\\x00shop\\x04\\x00user\\x03\\x00ann\\x01" },
	{ "shop|user", KEY(""), "" },
};
/* clang-format on */

static void keys_of_a_policy(void)
{
	struct weir_guard *const guard = guard_of(own);

	check_rows(guard, own_rows, sizeof(own_rows) / sizeof(own_rows[0]));
	end(guard);
}

static void keys_of_envoys_form(void)
{
	struct weir_guard *const guard = guard_of(envoys);

	check_rows(guard, envoy_rows, sizeof(envoy_rows) / sizeof(envoy_rows[0]));
	end(guard);
}

/* Of each whole key its beginning: what is known is told, and that it is not all. */
static void keys_that_are_cut(void)
{
	static const char whole[] = "\003\0ann\005\0\004\012\0\0\001\002\0/x";
	static const struct {
		size_t length;
		const char *text;
	} rows[] = { { 16, "user=ann ip=10.0.0.1 path=/x" },
		     { 15, "user=ann ip=10.0.0.1 path=/..." },
		     { 14, "user=ann ip=10.0.0.1 path=..." },
		     { 13, "user=ann ip=10.0.0.1..." },
		     { 12, "user=ann ip=10.0.0.1..." },
		     { 10, "user=ann ip=..." },
		     { 5, "user=ann..." },
		     { 4, "user=an..." },
		     { 1, "..." },
		     { 0, "..." } };
	struct weir_guard *const guard = guard_of(own);
	char text[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)weir__guard_key_text(guard, "three", whole, rows[i].length, sizeof(whole) - 1, text,
					   sizeof(text));
		CHECK_TEXT(text, rows[i].text);
	}
	(void)weir__guard_key_text(guard, "one", "ann", 3, 100, text, sizeof(text));
	CHECK_TEXT(text, "user=ann...");
	(void)weir__key_text("a\n", 2, 3, text, sizeof(text));
	CHECK_TEXT(text, "a\\x0a...");
	end(guard);
}

/* No character is cut in two, and nothing is written beyond the end. */
static void text_is_cut_to_what_fits(void)
{
	struct weir_guard *const guard = guard_of(own);
	char text[32];

	for (size_t size = 1; size <= sizeof(text); size++) {
		static const char *const begins[] = {
			"user=\xe2\x82\xac\\x01z", "user=\xe2\x82\xac\\x01", "user=\xe2\x82\xac", "user=", "user", ""
		};
		size_t length, i = 0;

		memset(text, '#', sizeof(text));
		length = weir__guard_key_text(guard, "one", "\xe2\x82\xac\001z", 5, 5, text, size);
		CHECK(length < size && text[length] == '\0' && (size == sizeof(text) || text[size] == '#'));
		while (i < 5 && strlen(begins[i]) >= size)
			i++;
		CHECK_TEXT(text, begins[i]);
	}
	end(guard);
}

/* What a policy makes of attributes is read back, also when it is any bytes. */
static void random_keys_are_never_beyond_the_text(void)
{
	struct weir_guard *const guard = guard_of(own);
	static const char *const plans[] = { "all", "address", "net", "one", "three" };
	uint64_t random = 1;
	char key[64], text[WEIR__KEY_TEXT_SIZE];

	for (uint32_t i = 0; i < 50000; i++) {
		size_t length;

		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		length = random >> 58;
		for (size_t j = 0; j < length; j++) {
			random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			key[j] = (char)(random >> 60 > 8 ? random >> 40 : random >> 61);
		}
		length = weir__guard_key_text(guard, plans[i % 5], key, length, length + (i % 3 == 0) * (random >> 60),
					      text, sizeof(text));
		CHECK(length == strlen(text));
		for (size_t j = 0; j < length; j++)
			CHECK((unsigned char)text[j] >= ' ' && text[j] != 0x7f);
	}
	end(guard);
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

static void note_plan(void *names_, uint32_t plan, const struct weir_table_limit *limit)
{
	char *const names = names_;

	(void)sprintf(names + strlen(names), "%u:%s ", plan, weir_table_limit_name(limit));
}

static void limits_are_walked(void)
{
	struct weir_guard *const guard = guard_of(own);
	char names[128] = "";

	weir__guard_walk(guard, 100, note_plan, names);
	CHECK_TEXT(names, "0:all 1:address 2:net 3:one 4:three ");
	names[0] = '\0';
	weir__guard_walk(guard, 2, note_plan, names);
	CHECK_TEXT(names, "0:all 1:address ");
	end(guard);
}

static void note_view(void *text_, const struct weir__guard_view *view)
{
	char *const text = text_;

	(void)sprintf(text + strlen(text), "%s(%s) %s%s %" PRIu64 "\n", view->name, view->key,
		      view->limit ? view->verdict.allowed ? "yes" : "no" : "free",
		      view->mode == WEIR_MODE_SHADOW ? " shadow" : "", view->verdict.remaining);
}

static void view(struct weir_guard *guard, const char *const *words, uint64_t cost, const char *expected)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	struct weir_message why;
	char text[1024] = "";

	CHECK_EQ(weir__guard_view(guard, NULL, attributes, n, cost, start, note_view, text, &why), WEIR_OK);
	CHECK_TEXT(text, expected);
}

static void views_charge_nothing(void)
{
	struct weir_guard *const guard = guard_of(own);
	struct weir_guard_answer answer;
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("ip=10.0.0.1", "user=ann", "path=/x"), attributes);

	for (int i = 0; i < 4; i++)
		CHECK(weir_guard_check(guard, attributes, n, 1, start, &answer, NULL) == WEIR_OK);
	for (int i = 0; i < 2; i++)
		view(guard, WORDS("ip=10.0.0.1", "user=ann", "path=/x"), 1,
		     "all() yes 97\naddress(ip=10.0.0.1) no 0\nnet(ip=10.0.0.0/24) yes 7\none(user=ann) yes 7\n"
		     "three(user=ann ip=10.0.0.1 path=/x) no shadow 0\n");
	view(guard, WORDS("ip=10.0.0.1"), 0, "all() yes 97\naddress(ip=10.0.0.1) yes 0\nnet(ip=10.0.0.0/24) yes 7\n");
	end(guard);
}

static void views_of_envoys_form(void)
{
	struct weir_guard *const guard = guard_of(envoys);

	view(guard, WORDS("domain=shop", "user=ann"), 3, "shop|user(domain=shop user=ann) no 2\n");
	view(guard, WORDS("domain=shop", "free=x"), 3, "shop|free(domain=shop free=x) free 0\n");
	view(guard, WORDS("domain=other", "user=ann"), 1, "");
	end(guard);
}

TESTS(TEST(keys_of_a_policy), TEST(keys_of_envoys_form), TEST(keys_that_are_cut), TEST(text_is_cut_to_what_fits),
      TEST(random_keys_are_never_beyond_the_text), TEST(limits_are_walked), TEST(views_charge_nothing),
      TEST(views_of_envoys_form))
