/* policy_remote_test.c: which URLs name a policy, messages for invalid ones, and that none shows a password. */
#include "policy/source/policy_remote.h"

#include "check.h"

static void urls_and_paths(void)
{
	CHECK(weir__policy_remote_is("etcd://h/k"));
	CHECK(weir__policy_remote_is("redis+unix:///s"));
	CHECK(weir__policy_remote_is("what://ever"));
	CHECK(!weir__policy_remote_is("limits.yaml"));
	CHECK(!weir__policy_remote_is("a:/b"));
	CHECK(!weir__policy_remote_is("://h"));
	CHECK(!weir__policy_remote_is("/etc/weir://x"));
	CHECK(!weir__policy_remote_is(""));
}

static const struct {
	const char *url, *shown;
} shown[] = {
	{ "etcd://h:1/k", "etcd://h:1/k" },
	{ "etcd://u:p@h:1/k", "etcd://u:***@h:1/k" },
	{ "etcds://u:p@h/k?ca=a&verify=none", "etcds://u:***@h/k" },
	{ "redis://:p@h/0?policy_key=k", "redis://:***@h/0?policy_key=k" },
	{ "redis://u:p@h/0?prefix=a&policy_key=k&pool=2", "redis://u:***@h/0?policy_key=k" },
	{ "redis+sentinel://a,b/n?sentinel_password=p&policy_key=k", "redis+sentinel://a,b/n?policy_key=k" },
	{ "redis://u:a:b@c/d@h/0", "redis://u:***@h/0" }, /* @ and / should have been %XX */
	{ "redis://u@h", "redis://u@h" },
	{ "plain", "plain" },
};

static void nothing_shows_a_password(void)
{
	char text[256];

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		weir__policy_remote_show(shown[i].url, text, sizeof(text));
		CHECK_TEXT(text, shown[i].shown);
	}
	weir__policy_remote_show("etcd://somewhere/k", text, 8);
	CHECK_TEXT(text, "etcd://");
}

static const struct {
	const char *url, *why; /* beginning of the message; NULL: valid */
} urls[] = {
	{ "etcd://h/k", NULL },
	{ "redis://h?policy_key=k", NULL },
	{ "redis://h/3?policy_key=a%3Ab&connect_timeout=1s", NULL },
	{ "redis://h/3?connect_timeout=1s&policy_key=k", NULL },
	{ "redis+unix:///s?policy_key=k&database=3", NULL },
	{ "unix:///s?database=3&policy_key=k&pool=2", NULL },
	{ "redis+sentinel://a:1,b:2/shop/3?policy_key=k", NULL },
	{ "rediss://h?policy_key=k&ca=a&cert=b&key=c", NULL },
	{ "etcd://h", "at 8: missing key; put it after the host" },
	{ "redis://h", "missing policy_key; add the key of the policy, ?policy_key=NAME" },
	{ "redis://h?xpolicy_key=k", "missing policy_key; add the key of the policy, ?policy_key=NAME" },
	{ "redis://h?policy_key=", "invalid policy_key; use the name of a key, 1 to 511 bytes" },
	{ "redis://h?policy_key=%4", "% must be followed by two hexadecimal digits; write % itself as %25" },
	{ "redis://h?policy_key=k&so=what", "unknown option; use prefix" },
	{ "redis://h:99999?policy_key=k", "invalid port; use a number" },
	{ "consul://h/k", "unknown source; use a path, etcd://HOST:PORT/KEY or redis://" },
};

static void wrong_ones_are_told(void)
{
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		struct weir_message why = { .text = "" };
		const int error = weir__policy_remote_check(urls[i].url, &why);

		if ((error == WEIR_OK) != (urls[i].why == NULL) ||
		    (urls[i].why && strncmp(why.text, urls[i].why, strlen(urls[i].why)) != 0)) {
			printf("# %s\n", urls[i].url);
			CHECK_TEXT(why.text, urls[i].why ? urls[i].why : "");
		}
	}
}

TESTS(TEST(urls_and_paths), TEST(nothing_shows_a_password), TEST(wrong_ones_are_told))
