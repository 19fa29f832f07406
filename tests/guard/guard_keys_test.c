/* guard_keys_test.c: keys printed as text and parsed back. */
/* Covers: src/guard/guard_keys_read.c, src/policy/key_text.c */
#include "guard/guard.h"

#include "keyed_policies.h"

/* --- printed ------------------------------------------------------------------------------------------------------ */

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
	{ "one", KEY("\xc3"), "user=\\xc3" },                               /* an incomplete character */
	{ "one", KEY("\xc0\xaf\xed\xa0\x80"), "user=\\xc0\\xaf\\xed\\xa0\\x80" },     /* overlong, and a surrogate */
	{ "one", KEY("\xc2\x9b" "31m"), "user=\\xc2\\x9b31m" },              /* some terminals treat it as ESC [ */
	{ "one", KEY("\xe2\x80\xae" "abc"), "user=\\xe2\\x80\\xae" "abc" },  /* right-to-left override */
	{ "three", KEY("\003\0ann\005\0\004\012\0\0\001\002\0/x"), "user=ann ip=10.0.0.1 path=/x" },
	{ "three", KEY("\0\0\002\0\0x\0\0"), "user= ip=x path=" },
	/* Bytes that would parse differently are escaped. */
	{ "one", KEY("user=ann"), "user=user=ann" },
	{ "address", KEY("\00010.0.0.1"), "ip=\\x310.0.0.1" },
	{ "net", KEY("\00010.0.0.0/24"), "ip=\\x310.0.0.0/24" },
	{ "three", KEY("\007\0a ip=::\005\0\004\012\0\0\001\002\0/x"), "user=a\\x20ip=:: ip=10.0.0.1 path=/x" },
	{ "three", KEY("\003\0a i\005\0\004\012\0\0\001\004\0/ ip"), "user=a\\x20i ip=10.0.0.1 path=/ ip" },
	{ "three", KEY("\005\0a b=c\005\0\004\012\0\0\001\005\0/%41?"), "user=a b=c ip=10.0.0.1 path=\\x2f%41?" },
	/* With a tenant's prefix. For a text key the prefix may be part of the value, and parses to the same key. */
	{ "all", KEY("acme/"), "acme/" },
	{ "address", KEY("acme/\004\012\0\0\001"), "acme/ip=10.0.0.1" },
	{ "address", KEY("A.b@c-_9/\0localhost"), "A.b@c-_9/ip=localhost" },
	{ "net", KEY("acme/\020\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"), "acme/ip=2001:db8::/48" },
	{ "one", KEY("acme/ann"), "user=acme/ann" },
	{ "three", KEY("acme/\003\0ann\005\0\004\012\0\0\001\002\0/x"), "acme/user=ann ip=10.0.0.1 path=/x" },
	{ "where", KEY("acme//a/b"), "acme/path=/a/b" },
	{ "where", KEY("acme/b"), "path=\\x61cme/b" }, /* no request has this key, with or without a prefix */
	{ "address", KEY("ac:me/\004\012\0\0\001"), "ac:me/\\x04\\x0a\\x00\\x00\\x01" },
	{ "address", KEY("/\004\012\0\0\001"), "/\\x04\\x0a\\x00\\x00\\x01" },
	{ "address", KEY("a123456789b123456789c123456789d1/\004\012\0\0\001"), "a123456789b123456789c123456789d1/\\x04\\x0a\\x00\\x00\\x01" },
	/* Keys that the policy cannot have made. */
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
	/* A limit's name after its keys started over. */
	{ "~0123456789abcdefone", KEY("ann"), "user=ann" },
	{ "~", KEY("ann"), "ann" },
};
static const struct row envoy_rows[] = {
	{ "shop|user", KEY("\004\0shop\004\0user\003\0ann"), "domain=shop user=ann" },
	{ "shop|user", KEY("\004\0shop\004\0user\003\0ann\004\0path\001\0/"), "domain=shop user=ann path=/" },
	{ "shop|user", KEY("\004\0shop\002\0\n=\0\0"), "domain=shop \\x0a\\x3d=" },
	{ "shop|user", KEY("\004\0shop\004\0user\004\0a b="), "domain=shop user=a\\x20b=" },
	{ "shop|user", KEY("\004\0shop\004\0user\005\0a b  "), "domain=shop user=a b  " },
	{ "shop|user", KEY("\004\0shop\004\0user\007\0a b c=d"), "domain=shop user=a\\x20b\\x20c=d" },
	{ "shop|user", KEY("acme/\004\0shop\004\0user\003\0ann"), "acme/domain=shop user=ann" },
	{ "shop|user", KEY("\004\0shop\004\0user"), "\\x04\\x00shop\\x04\\x00user" },
	{ "shop|user", KEY("\004\0shop\004\0user\003\0ann\001"), "\\x04\\x00shop\\x04\\x00user\\x03\\x00ann\\x01" },
	{ "shop|user", KEY(""), "" },
};
/* clang-format on */

static void keys_of_a_policy(void)
{
	struct weir_guard *const guard = guard_over(policy_of(own), start, &table);

	check_rows(guard, own_rows, sizeof(own_rows) / sizeof(own_rows[0]));
	end_guard(guard, table);
}

static void keys_of_envoys_form(void)
{
	struct weir_guard *const guard = guard_over(policy_of(envoys), start, &table);

	check_rows(guard, envoy_rows, sizeof(envoy_rows) / sizeof(envoy_rows[0]));
	end_guard(guard, table);
}

/* Prefixes of a key: the text shows what is known and marks that it is cut. */
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
	struct weir_guard *const guard = guard_over(policy_of(own), start, &table);
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
	end_guard(guard, table);
}

/* The text is not cut within a character, and nothing is written beyond its end. */
static void text_is_cut_to_what_fits(void)
{
	struct weir_guard *const guard = guard_over(policy_of(own), start, &table);
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
	end_guard(guard, table);
}

/* Includes keys that the policy cannot have made. */
static void random_keys_are_never_beyond_the_text(void)
{
	struct weir_guard *const guard = guard_over(policy_of(own), start, &table);
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
	end_guard(guard, table);
}

/* --- parsed ------------------------------------------------------------------------------------------------------- */

/* In the order of the file. Keys of `lowered` are in lower case and have a default for a missing attribute. */
static const char spellings[] =
	"attributes:\n"
	"  ip: {type: ip}\n"
	"  path: {type: path}\n"
	"  host: {lower: true}\n"
	"limits:\n"
	"  - {name: all, limit: 100/s}\n"
	"  - {name: address, key: [ip], limit: 3/hour, overrides: [{when: {plan: gold}, limit: 9/s}]}\n"
	"  - {name: net, key: [{attribute: ip, ipv4: 24, ipv6: 48}], limit: 10/s}\n"
	"  - {name: one, key: [user], limit: 10/s}\n"
	"  - {name: route, key: [path], limit: 10/s}\n"
	"  - {name: lowered, key: [{attribute: host, default: None}], limit: 10/s}\n"
	"  - {name: three, key: [user, ip, path], limit: 2/hour}\n";

/* clang-format off */
static const struct row read_rows[] = {
	{ "all", KEY(""), "" },
	{ "address", KEY("\004\012\0\0\001"), "ip=10.0.0.1" },
	{ "address", KEY("\004\012\0\0\001"), "10.0.0.1" },
	{ "address", KEY("\004\012\0\0\001"), "10.0.0.1/32" },
	{ "address", KEY("\004\012\0\0\001"), "ip=10.0.0.1/32" },
	{ "address", KEY("\004\012\0\0\001"), "::ffff:10.0.0.1" },
	{ "address", KEY("\004\012\0\0\001"), "::FFFF:a00:1" },
	{ "address", KEY("\020\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"), "ip=2001:db8::/64" },
	{ "address", KEY("\020\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"), "2001:db8::/64" },
	{ "address", KEY("\020\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"), "2001:DB8:0::7:8" },
	{ "address", KEY("\020\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"), "2001:db8::7:8/64" }, /* as explained */
	{ "address", KEY("\020\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"), "[2001:db8::1]" },
	{ "address", KEY("\0localhost"), "ip=localhost" },
	{ "address", KEY("\0"), "ip=" },
	{ "address", KEY("\00010.0.0.1"), "ip=\\x310.0.0.1" },
	{ "address|plan=gold", KEY("\004\012\0\0\001"), "10.0.0.1" },
	{ "net", KEY("\004\012\0\0\0"), "ip=10.0.0.0/24" },
	{ "net", KEY("\004\012\0\0\0"), "10.0.0.77" },
	{ "net", KEY("\004\012\0\0\0"), "10.0.0.77/24" },
	{ "one", KEY("ann"), "ann" },
	{ "one", KEY("ann"), "user=ann" },
	{ "one", KEY("user=ann"), "user=user=ann" },
	{ "one", KEY(""), "" },
	{ "one", KEY(""), "user=" },
	{ "one", KEY("user"), "user" },
	{ "one", KEY("a\\x41"), "a\\x41" }, /* a value alone is taken as it is, */
	{ "one", KEY("aA"), "user=a\\x41" }, /* after its name, escapes are decoded */
	{ "one", KEY("a\\b\\x4"), "user=a\\b\\x4" },
	{ "one", KEY("Ann \xff\n"), "Ann \xff\n" },
	{ "route", KEY("/a/b"), "/a//./b/?q" },
	{ "route", KEY("/a/b"), "path=/a/%62" },
	{ "route", KEY("/a/%62"), "path=\\x2fa/%62" },
	{ "route", KEY("/"), "" },
	{ "route", KEY(""), "path=" },
	{ "lowered", KEY("shop.example"), "Shop.Example" },
	{ "lowered", KEY("shop.example"), "host=SHOP.example" },
	{ "all", KEY("acme/"), "acme/" }, /* with a tenant's prefix */
	{ "address", KEY("acme/\004\012\0\0\001"), "acme/ip=10.0.0.1" },
	{ "address", KEY("acme/\004\012\0\0\001"), "acme/10.0.0.1" },
	{ "net", KEY("acme/\004\012\0\0\0"), "acme/10.0.0.77/24" },
	{ "one", KEY("acme/ann"), "acme/ann" },
	{ "one", KEY("acme/ann"), "acme/user=ann" },
	{ "one", KEY("acme/aA"), "acme/user=a\\x41" },
	{ "one", KEY("acme/user=ann"), "user=acme/user=ann" },
	{ "route", KEY("Acme//a/b"), "Acme/path=/a//b" },
	{ "lowered", KEY("Acme/shop.example"), "Acme/host=Shop.Example" },
	{ "three", KEY("acme/\003\0ann\005\0\004\012\0\0\001\002\0/x"), "acme/user=ann ip=10.0.0.1 path=/x" },
	{ "lowered", KEY("None"), "host=\\x4eone" }, /* differs from the default of requests without a host */
	{ "three", KEY("\003\0ann\005\0\004\012\0\0\001\002\0/x"), "user=ann ip=10.0.0.1 path=/x" },
	{ "three", KEY("\003\0ann\005\0\004\012\0\0\001\002\0/x"), "user=ann ip=::ffff:10.0.0.1/32 path=//x/" },
	{ "three", KEY("\005\0a b=c\003\0\0- \0\0"), "user=a b=c ip=-\\x20 path=" },
	{ "three", KEY("\003\0 ip\001\0\0\012\0/ path=/ i"), "user= ip ip= path=/ path=/ i" },
};
static const struct row read_envoy_rows[] = {
	{ "shop|user", KEY("\004\0shop\004\0user\003\0ann"), "domain=shop user=ann" },
	{ "shop|user", KEY("\004\0shop\004\0user\004\0a b="), "domain=shop user=a\\x20b=" },
	{ "shop|user", KEY("\004\0shop\004\0user\006\0a b  c"), "domain=shop user=a b  c" },
	{ "shop|user", KEY("\004\0shop\004\0user\0\0"), "domain=shop user=" },
	{ "shop|user|path", KEY("\004\0shop\004\0user\003\0ann\004\0path\001\0/"), "domain=shop user=ann path=/" },
};

/* Texts that are not keys, and the errors. */
static const struct { const char *plan, *text, *why; } refused[] = {
	{ "all", "-", "\"-\" is not a key of @all, where all requests share the empty key" },
	{ "address", "ann", "\"ann\" is not a key of @address, whose keys are made of ip, as in ip=192.0.2.1 or 192.0.2.1" },
	{ "address", "", "\"\" is not a key of @address, whose keys are made of ip, as in ip=192.0.2.1 or 192.0.2.1" },
	{ "address", "10.0.0.0/24", "\"10.0.0.0/24\" is not a key of @address, whose keys are made of ip, as in ip=192.0.2.1 or 192.0.2.1" },
	{ "address", "ip=2001:db8::/48", "\"ip=2001:db8::/48\" is not a key of @address, whose keys are made of ip, as in ip=192.0.2.1 or 192.0.2.1" },
	{ "address", "\004\012\001\001\001", "\"\\x04\\x0a\\x01\\x01\\x01\" is not a key of @address, whose keys are made of ip, as in ip=192.0.2.1 or 192.0.2.1" },
	{ "net", "10.0.0.0/32", "\"10.0.0.0/32\" is not a key of @net, whose keys are made of ip, as in ip=192.0.2.0/24 or 192.0.2.0/24" },
	{ "three", "ann", "\"ann\" is not a key of @three, whose keys are made of user, ip and path, as in user=abc ip=192.0.2.1 path=/abc" },
	{ "three", "user=ann ip=10.0.0.1", "\"user=ann ip=10.0.0.1\" is not a key of @three, whose keys are made of user, ip and path, as in user=abc ip=192.0.2.1 path=/abc" },
	{ "three", "user=a ip=10.0.0.0/8 path=/", "\"user=a ip=10.0.0.0/8 path=/\" is not a key of @three, whose keys are made of user, ip and path, as in user=abc ip=192.0.2.1 path=/abc" },
	{ "three", "ip=10.0.0.1 user=ann path=/", "\"ip=10.0.0.1 user=ann path=/\" is not a key of @three, whose keys are made of user, ip and path, as in user=abc ip=192.0.2.1 path=/abc" },
};
static const char *const refused_of_envoys[] = { "", "ann", "user=ann", "domain=shop", "domain=other user=ann", "domain=shop user=ann path=/",
						 "domain=shop free=x", "domain=shop  user=ann",
						 "domain =shop user=ann" };
/* clang-format on */

static void check_read(struct weir_guard *guard, const struct row *rows, size_t n)
{
	char room[WEIR__GUARD_KEY_ROOM];
	struct weir__guard_key key;
	struct weir_message why;

	for (size_t i = 0; i < n; i++) {
		const int error = weir__guard_read_key(guard, rows[i].plan, strlen(rows[i].plan), rows[i].text,
						       strlen(rows[i].text), room, sizeof(room), &key, &why);

		if (error != WEIR_OK || key.length != rows[i].length ||
		    memcmp(key.bytes, rows[i].key, rows[i].length) != 0)
			check_fail(__FILE__, __LINE__, rows[i].text);
		if (error == WEIR_OK)
			CHECK(key.limit == weir__guard_limit(guard, rows[i].plan, strlen(rows[i].plan)) &&
			      key.written == (key.bytes == room ? key.length : 0));
	}
}

static void keys_are_read(void)
{
	struct weir_guard *const guard = guard_over(policy_of(spellings), start, &table);

	check_read(guard, read_rows, sizeof(read_rows) / sizeof(read_rows[0]));
	end_guard(guard, table);
}

static int read_text(struct weir_guard *guard, const char *plan, const char *text, size_t room_bytes,
		     struct weir_message *ret_why)
{
	char *const room = malloc(room_bytes + 1); /* so that sanitizers see a write beyond it */
	struct weir__guard_key key;
	const int error = weir__guard_read_key(guard, plan, strlen(plan), text, strlen(text), room, room_bytes, &key,
					       ret_why);

	free(room);
	return error;
}

static void what_is_no_key_is_refused(void)
{
	struct weir_guard *const guard = guard_over(policy_of(spellings), start, &table);
	struct weir_message why;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		CHECK_EQ(read_text(guard, refused[i].plan, refused[i].text, WEIR__GUARD_KEY_ROOM, &why),
			 WEIR_ERR_SYNTAX);
		CHECK_TEXT(why.text, refused[i].why);
	}
	CHECK_EQ(read_text(guard, "other", "ann", WEIR__GUARD_KEY_ROOM, &why), WEIR_ERR_LIMIT);
	end_guard(guard, table);
}

static void envoys_keys_are_read(void)
{
	struct weir_guard *const guard = guard_over(policy_of(envoys), start, &table);
	struct weir_message why;

	check_read(guard, read_envoy_rows, sizeof(read_envoy_rows) / sizeof(read_envoy_rows[0]));
	for (size_t i = 0; i < sizeof(refused_of_envoys) / sizeof(refused_of_envoys[0]); i++)
		CHECK_EQ(read_text(guard, "shop|user", refused_of_envoys[i], WEIR__GUARD_KEY_ROOM, &why),
			 WEIR_ERR_SYNTAX);
	CHECK_EQ(read_text(guard, "shop|free", "domain=shop free=x", WEIR__GUARD_KEY_ROOM, NULL), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text,
		   "\"domain =shop user=ann\" is not a key of @shop|user, whose keys are made of the domain and the "
		   "entries of a descriptor, as in domain=shop user=abc");
	end_guard(guard, table);
}

/* Parsing fails unless the buffer has the room of the key, plus a little for intermediate results. */
static void keys_that_do_not_fit(void)
{
	struct weir_guard *const guard = guard_over(policy_of(spellings), start, &table);
	struct weir_message why;

	for (size_t size = 0; size < 80; size++) {
		static const char three[] = "user=ann ip=10.0.0.1 path=/x";
		const int expected = size < 16 ? WEIR_ERR_FULL : WEIR_OK;
		const int error = read_text(guard, "three", three, size, &why);

		CHECK(error == expected || (size < 20 && error == WEIR_ERR_FULL));
		CHECK_EQ(read_text(guard, "address", "::1", size, &why), size < 17 ? WEIR_ERR_FULL : WEIR_OK);
		CHECK_EQ(read_text(guard, "one", "ann", size, &why), WEIR_OK); /* not copied */
	}
	CHECK_EQ(read_text(guard, "route", "/abc", 4, &why), WEIR_ERR_FULL);
	CHECK_TEXT(why.text, "\"/abc\" is too long: all keys of a request have at most 16384 bytes");
	end_guard(guard, table);
}

/* --- random keys -------------------------------------------------------------------------------------------------- */

static uint64_t seed = 7;

static uint32_t below(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % n;
}

/* Names that look like values, and names that are prefixes of others. */
static const char *const names[] = { "a", "ab", "a=", "a b", " ", "\\\\x61", "b", "x20", "ip", "domain" };
static const char *const pieces[] = { " ",
				      "=",
				      "\\",
				      "\\x41",
				      "%41",
				      "/",
				      "/..",
				      "//",
				      "?",
				      "#",
				      "A",
				      "a",
				      "ab",
				      "b",
				      "x20",
				      "10.0.0.1",
				      "10.0.0.0/24",
				      "2001:db8::1",
				      "/64",
				      "::",
				      "::ffff:1.2.3.4",
				      "%eth0",
				      "[::1]",
				      "\xc3\xbc",
				      "\xc3",
				      "\xff",
				      "\n",
				      "\xe2\x80\xae",
				      "None",
				      "*",
				      "" };
enum { NAMES = sizeof(names) / sizeof(names[0]), PIECES = sizeof(pieces) / sizeof(pieces[0]) };

/* Has a NUL now and then, and often the bytes that separate entries. */
static size_t random_value(char *value)
{
	size_t length = 0;

	for (uint32_t n = below(8); n > 0; n--) {
		const char *const piece = pieces[below(below(2) ? PIECES : 2)];

		memcpy(value + length, piece, strlen(piece));
		length += strlen(piece);
		if (below(20) == 0)
			value[length++] = '\0';
	}
	return length;
}

/* The backslash is written twice in the YAML, but occurs once in the name. */
static size_t length_of_name(const char *name)
{
	return strlen(name) - (name[0] == '\\');
}

static const char *random_policy(void)
{
	static const char *const types[] = { "text", "ip", "path" };
	static char text[4096];
	size_t length = (size_t)sprintf(text, "attributes:\n");

	for (int i = 0; i < NAMES; i++)
		length += (size_t)sprintf(text + length, "  \"%s\": {type: %s, lower: %s}\n", names[i], types[below(3)],
					  below(3) ? "false" : "true");
	length += (size_t)sprintf(text + length, "limits:\n");
	for (int i = 0; i < 6; i++) {
		const uint32_t first = below(NAMES), step = 1 + 2 * below(2);

		length += (size_t)sprintf(text + length, "  - {name: l%d, limit: 5/s, key: [", i);
		for (uint32_t part = 0, n = (uint32_t)i % 4; part < n; part++)
			length += (size_t)sprintf(text + length,
						  "%s{attribute: \"%s\", ipv4: %u, ipv6: %u, default: \"%s\"}",
						  part ? ", " : "", names[(first + step * part) % NAMES], below(33),
						  below(129), below(2) ? "None" : "10.0.0.1");
		length += (size_t)sprintf(text + length, "]}\n");
	}
	return text;
}

static size_t random_attributes(struct weir_attribute *attributes, char values[NAMES][128])
{
	size_t n = 0;

	for (uint32_t i = 0; i < NAMES; i++)
		if (below(8) > 0) {
			const size_t skipped = names[i][0] == '\\';

			attributes[n++] = (struct weir_attribute){ names[i] + skipped, length_of_name(names[i]),
								   values[i], random_value(values[i]) };
		}
	return n;
}

static void check_back(struct weir_guard *guard, const char *plan, const struct weir_policy_claim *claim)
{
	static char text[65536], room[WEIR__GUARD_KEY_ROOM];
	struct weir__guard_key key = { .length = 0 };
	struct weir_message why;
	const size_t length = weir__guard_key_text(guard, plan, claim->key, claim->key_length, claim->key_length, text,
						   sizeof(text));

	if (weir__guard_read_key(guard, plan, strlen(plan), text, length, room, sizeof(room), &key, &why) != WEIR_OK)
		check_fail(__FILE__, __LINE__, why.text);
	else if (key.length != claim->key_length || memcmp(key.bytes, claim->key, key.length) != 0)
		check_fail(__FILE__, __LINE__, text);
}

static void text_and_back_gives_the_same_bytes(void)
{
	struct weir_attribute attributes[NAMES];
	static char values[NAMES][128];
	struct weir_policy_answer matched;
	struct weir_message why;

	for (int round = 0; round < 100; round++) {
		struct weir_policy *const policy = policy_of(random_policy());
		struct weir_guard *const guard = guard_over(policy, start, &table);

		for (int request = 0; request < 200; request++) {
			const size_t n = random_attributes(attributes, values);

			CHECK_EQ(weir_policy_match(policy, attributes, n, 1, &matched, &why), WEIR_OK);
			CHECK_EQ(matched.n, 6);
			for (size_t i = 0; i < matched.n; i++)
				check_back(guard, weir_policy_plan_of(policy, matched.claims[i].plan)->name,
					   &matched.claims[i]);
		}
		end_guard(guard, table);
	}
}

static void envoys_text_and_back_gives_the_same_bytes(void)
{
	static const char text[] =
		"domain: \"a b=\"\n"
		"descriptors:\n"
		"  - {key: \"a \", value: \"x*\", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
		"  - key: \"a \"\n"
		"    rate_limit: {unit: hour, requests_per_unit: 2}\n"
		"    descriptors:\n"
		"      - {key: \"domain\", rate_limit: {unit: hour, requests_per_unit: 1}}\n";
	struct weir_policy *const policy = policy_of(text);
	struct weir_guard *const guard = guard_over(policy, start, &table);
	struct weir_attribute attributes[3] = { { "domain", 6, "a b=", 4 },
						{ "a ", 2, NULL, 0 },
						{ "domain", 6, NULL, 0 } };
	struct weir_policy_answer matched;
	static char values[2][128];
	struct weir_message why;

	for (size_t request = 0; request < 5000; request++) {
		for (size_t i = 0; i < 2; i++) {
			attributes[i + 1].value = values[i];
			attributes[i + 1].value_length = random_value(values[i]);
		}
		CHECK_EQ(weir_policy_match(policy, attributes, 2 + request % 2, 1, &matched, &why), WEIR_OK);
		for (size_t i = 0; i < matched.n; i++)
			check_back(guard, weir_policy_plan_of(policy, matched.claims[i].plan)->name,
				   &matched.claims[i]);
	}
	end_guard(guard, table);
}

TESTS(TEST(keys_of_a_policy), TEST(keys_of_envoys_form), TEST(keys_that_are_cut), TEST(text_is_cut_to_what_fits),
      TEST(random_keys_are_never_beyond_the_text), TEST(keys_are_read), TEST(what_is_no_key_is_refused),
      TEST(envoys_keys_are_read), TEST(keys_that_do_not_fit), TEST(text_and_back_gives_the_same_bytes),
      TEST(envoys_text_and_back_gives_the_same_bytes))
