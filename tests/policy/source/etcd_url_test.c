/* etcd_url_test.c: URLs of etcd, and messages for invalid ones. */
#include "policy/source/etcd_url.h"

#include "check.h"

#define USE "missing key; put it after the host, as in etcd://127.0.0.1:2379/weir/policy"
#define HOST "expected a host: a name or an address, an IPv6 address in brackets"
#define PORT "expected a port after the host, such as :2379, or nothing"
#define USER "expected user:password before @"

/* Valid URLs, parsed, as "tls|user|password|places|key|ca|cert|key|verify". */
static const struct {
	const char *url, *means;
} rights[] = {
	{ "etcd://h/k", "-|||h:2379|k||||full" },
	{ "etcd://127.0.0.1:2379/weir/policy", "-|||127.0.0.1:2379|weir/policy||||full" },
	{ "etcd://h//weir/policy", "-|||h:2379|/weir/policy||||full" },
	{ "etcd://h/%2fa%20b%3F", "-|||h:2379|/a b?||||full" },
	{ "etcd://[::1]:65535/k", "-|||[::1]:65535|k||||full" },
	{ "etcd://[2001:db8::7]/k", "-|||[2001:db8::7]:2379|k||||full" },
	{ "etcd://a,b:1,[::1]/k", "-|||a:2379 b:1 [::1]:2379|k||||full" },
	{ "etcd://u:p@h/k", "-|u|p|h:2379|k||||full" },
	{ "etcd://u%40x:p%3A%2f@h/k@", "-|u@x|p:/|h:2379|k@||||full" },
	{ "etcds://h/k", "tls|||h:2379|k||||full" },
	{ "etcds://h/k?ca=/a%26b", "tls|||h:2379|k|/a&b|||full" },
	{ "etcds://h/k?ca=a&cert=b&key=c&verify=none", "tls|||h:2379|k|a|b|c|none" },
	{ "etcds://h/k?verify=full", "tls|||h:2379|k||||full" },
	{ "etcd://h/k?", "-|||h:2379|k||||full" },
};

static const struct {
	const char *url, *why;
} wrongs[] = {
	{ "http://h/k", "at 0: wrong scheme; use etcd:// or etcds://" },
	{ "etcd://", "at 7: " USE },
	{ "etcd://h", "at 8: " USE },
	{ "etcd://h/", "at 8: " USE },
	{ "etcd://h/?ca=a", "at 8: " USE },
	{ "etcd://h?ca=a", "at 13: " USE },
	{ "etcd:///k", "at 7: " HOST },
	{ "etcd://a b/k", "at 8: " PORT },
	{ "etcd://a,/k", "at 9: " HOST },
	{ "etcd://[::1/k", "at 7: " HOST },
	{ "etcd://[]/k", "at 7: " HOST },
	{ "etcd://::1/k", "at 7: " HOST },
	{ "etcd://h:/k", "at 8: " PORT },
	{ "etcd://h:0/k", "at 8: " PORT },
	{ "etcd://h:65536/k", "at 8: " PORT },
	{ "etcd://h:1x/k", "at 8: " PORT },
	{ "etcd://a,b,c,d,e,f,g,h,i/k", "at 23: too many hosts; use at most 8" },
	{ "etcd://u@h/k", "at 7: " USER },
	{ "etcd://:p@h/k", "at 7: " USER },
	{ "etcd://u:@h/k", "at 7: " USER },
	{ "etcd://h/a%2", "at 10: % must be followed by two hexadecimal digits; write % itself as %25" },
	{ "etcd://h/a%zz", "at 10: % must be followed by two hexadecimal digits; write % itself as %25" },
	{ "etcd://h/a%00", "at 10: it contains a NUL byte" },
	{ "etcd://h/k?ca=a", "at 11: options need TLS; use etcds://" },
	{ "etcds://h/k?ca", "at 12: expected an option as name=value, such as ca=FILE" },
	{ "etcds://h/k?ca=", "at 12: expected an option as name=value, such as ca=FILE" },
	{ "etcds://h/k?ca=a&so=b", "at 17: unknown option; use ca, cert, key or verify" },
	{ "etcds://h/k?verify=no", "at 19: invalid verify; use none or full" },
	{ "etcds://h/k?cert=a", "at 18: a client certificate needs both cert=FILE and key=FILE" },
	{ "etcds://h/k?key=a", "at 17: a client certificate needs both cert=FILE and key=FILE" },
};

static const char *meaning_of(const char *text)
{
	static char means[8192];
	struct weir__etcd_url url;
	struct weir_message why;
	char places[2048] = "";

	if (weir__etcd_url_read(text, &url, &why) != WEIR_OK)
		return strcpy(means, why.text);
	for (uint32_t i = 0; i < url.n_places; i++)
		(void)sprintf(places + strlen(places), "%s%s", i ? " " : "", url.places[i]);
	(void)snprintf(means, sizeof(means), "%s|%s|%s|%s|%s|%s|%s|%s|%s", url.is_tls ? "tls" : "-", url.user,
		       url.password, places, url.key, url.ca, url.certificate, url.private_key,
		       url.verifies ? "full" : "none");
	return means;
}

static void right_ones(void)
{
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		CHECK_TEXT(meaning_of(rights[i].url), rights[i].means);
}

static void wrong_ones(void)
{
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		CHECK(weir__etcd_url_read(wrongs[i].url, &(struct weir__etcd_url){ .n_places = 0 }, NULL) ==
		      WEIR_ERR_SYNTAX);
		CHECK_TEXT(meaning_of(wrongs[i].url), wrongs[i].why);
	}
}

static void long_ones(void)
{
	char text[2 * WEIR__ETCD_WORD_SIZE] = "etcd://h/";
	const size_t begin = strlen(text);

	memset(text + begin, 'k', WEIR__ETCD_WORD_SIZE);
	CHECK_TEXT(meaning_of(text), "at 520: it is too long");
	text[begin + WEIR__ETCD_WORD_SIZE - 1] = '\0';
	CHECK(strncmp(meaning_of(text), "-|||h:2379|kkk", 14) == 0);
	memset(text + 7, 'h', 300);
	strcpy(text + 307, "/k");
	CHECK_TEXT(meaning_of(text), "at 7: " HOST);
}

TESTS(TEST(right_ones), TEST(wrong_ones), TEST(long_ones))
