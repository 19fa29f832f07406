/* redis_url_test.c: valid and invalid URLs of Redis. */
#include "store/redis/redis_url.h"

#include <stdlib.h>

#include "check.h"

#define SECRET "hunter2"

static int read_url(const char *text, struct weir__redis_url *ret_url, struct weir_message *ret_message)
{
	return weir__redis_url_read(text, strlen(text), ret_url, ret_message);
}

/* clang-format off */
static const struct {
	const char *text, *shown;
} good[] = {
	{ "redis://localhost",                                "redis://localhost:6379" },
	{ "redis://localhost/",                               "redis://localhost:6379" },
	{ "redis://127.0.0.1:7000/3",                         "redis://127.0.0.1:7000/3" },
	{ "redis://h?database=4",                             "redis://h:6379/4" },
	{ "redis://h/?database=4",                            "redis://h:6379/4" },
	{ "rediss://redis.example.com",                       "rediss://redis.example.com:6379" },
	{ "redis://[::1]",                                    "redis://[::1]:6379" },
	{ "redis://[fe80::1%eth0]:6380",                      "redis://[fe80::1%eth0]:6380" },
	{ "redis://:" SECRET "@h",                            "redis://:***@h:6379" },
	{ "redis://ann:" SECRET "@h:1/2",                     "redis://ann:***@h:1/2" },
	{ "redis://a%3Ab:%40%2F%3F%25" SECRET "@h",           "redis://a:b:***@h:6379" },
	{ "redis+sentinel://a/main",                          "redis+sentinel://a:26379/main" },
	{ "redis+sentinel://u:" SECRET "@a:1,[::2]:3,c/main/5", "redis+sentinel://u:***@a:1,[::2]:3,c:26379/main/5" },
	{ "redis+sentinel://a/main?sentinel_user=s&sentinel_password=" SECRET, "redis+sentinel://a:26379/main" },
	{ "rediss+sentinel://a/my%20main",                    "rediss+sentinel://a:26379/my main" },
	{ "redis+unix:///run/redis.sock",                     "redis+unix:///run/redis.sock" },
	{ "unix:///run/re%20dis.sock?database=1",             "redis+unix:///run/re dis.sock?database=1" },
	{ "redis+unix://u:" SECRET "@/r",                     "redis+unix://u:***@/r" },
	{ "redis://h?",                                       "redis://h:6379" },
};

static const struct {
	const char *text;
	size_t at;
	const char *message;
} bad[] = {
	{ "",                             0,  "unknown scheme; use redis://, rediss://, redis+sentinel://, "
	                                      "rediss+sentinel://, redis+unix:// or unix://" },
	{ "http://" SECRET,               0,  "unknown scheme; use redis://, rediss://, redis+sentinel://, "
	                                      "rediss+sentinel://, redis+unix:// or unix://" },
	{ "redis://",                     8,  "missing host, such as localhost:6379" },
	{ "redis://:6379",                8,  "missing host, such as localhost:6379" },
	{ "redis://[]",                   8,  "missing host, such as localhost:6379" },
	{ "redis://[::1",                 8,  "missing ] of an IPv6 address" },
	{ "redis://[::1]6379",            14, "invalid port; use a number from 1 to 65535" },
	{ "redis://h:",                   10, "invalid port; use a number from 1 to 65535" },
	{ "redis://h:0",                  10, "invalid port; use a number from 1 to 65535" },
	{ "redis://h:65536",              10, "invalid port; use a number from 1 to 65535" },
	{ "redis://h:+1",                 10, "invalid port; use a number from 1 to 65535" },
	{ "redis://u:" SECRET,            10, "invalid port; use a number from 1 to 65535" },
	{ "redis://a b",                  9,  "invalid host; use letters, digits, '.', '-' and '_', or an IPv6 address in []" },
	{ "redis://a,b",                  9,  "invalid host; use letters, digits, '.', '-' and '_', or an IPv6 address in []" },
	{ "redis://::1",                  8,  "missing host, such as localhost:6379" },
	{ "redis://" SECRET "@h",         8,  "expected user:password or :password before the @" },
	{ "redis://ann:@h",               8,  "expected user:password or :password before the @" },
	{ "redis://ann:" SECRET "/x@h",   8,  "in users, passwords and options write / as %2F, ? as %3F, # as %23, & as %26 and @ as %40" },
	{ "redis://ann:" SECRET "?x@h",   8,  "in users, passwords and options write / as %2F, ? as %3F, # as %23, & as %26 and @ as %40" },
	{ "redis://ann:" SECRET "#x@h",   8,  "in users, passwords and options write / as %2F, ? as %3F, # as %23, & as %26 and @ as %40" },
	{ "redis://ann:" SECRET "@x@h",   8,  "in users, passwords and options write / as %2F, ? as %3F, # as %23, & as %26 and @ as %40" },
	{ "redis://ann:" SECRET "%4@h",   19, "% must be followed by two hexadecimal digits; write % itself as %25" },
	{ "redis://ann:%zz@h",            12, "% must be followed by two hexadecimal digits; write % itself as %25" },
	{ "redis://ann:a%00@h",           13, "it contains a NUL byte" },
	{ "redis://h/x",                  10, "invalid database; use a number, such as 0" },
	{ "redis://h/1/2",                10, "invalid database; use a number, such as 0" },
	{ "redis://h/-1",                 10, "invalid database; use a number, such as 0" },
	{ "redis://h/2147483648",         10, "invalid database; use a number, such as 0" },
	{ "redis://h/1?database=1",       21, "database given twice; use it once" },
	{ "redis://h#x",                  9,  "unexpected #; write it as %23" },
	{ "redis://h?pool",               10, "expected an option as name=value, such as pool=4" },
	{ "redis://h?pool=0",             15, "invalid pool \"0\": use 1 to 16 connections" },
	{ "redis://h?pool=17",            15, "invalid pool \"17\": use 1 to 16 connections" },
	{ "redis://h?pool=",              15, "invalid pool \"\": use 1 to 16 connections" },
	{ "redis://h?pool=1&pool=1",      17, "option \"pool\": given twice; use it once" },
	{ "redis://h?timeout=10",         18, "invalid duration \"10\": use 100us to 10s, such as 100ms" },
	{ "redis://h?timeout=99us",       18, "invalid duration \"99us\": use 100us to 10s, such as 100ms" },
	{ "redis://h?timeout=11s",        18, "invalid duration \"11s\": use 100us to 10s, such as 100ms" },
	{ "redis://h?timeout=ms",         18, "invalid duration \"ms\": use 100us to 10s, such as 100ms" },
	{ "redis://h?connect_timeout=2min", 26, "invalid duration \"2min\": use 1ms to 60s, such as 500ms" },
	{ "redis://h?&pool=1",            10, "expected an option as name=value, such as pool=4" },
	{ "redis://h?pol=1",              10, "unknown option; use prefix, pool, timeout, connect_timeout, "
	                                      "database, sentinel_user, sentinel_password, ca, cert, key, tls_name or verify" },
	{ "redis://h?ca=x",               10, "option \"ca\": needs TLS; use rediss:// or rediss+sentinel://" },
	{ "rediss://h?cert=x",            17, "a client certificate needs both cert=FILE and key=FILE" },
	{ "rediss://h?verify=no",         18, "invalid verify \"no\": use none or full" },
	{ "redis://h?sentinel_user=x",    10, "option \"sentinel_user\": only for redis+sentinel:// and rediss+sentinel://" },
	{ "redis+sentinel://a/m?sentinel_user=x", 36, "sentinel_user needs sentinel_password" },
	{ "redis+sentinel://a",           18, "missing name of the primary; use redis+sentinel://host:26379/NAME" },
	{ "redis+sentinel://a/",          19, "missing name of the primary; use redis+sentinel://host:26379/NAME" },
	{ "redis+sentinel://a,/m",        19, "missing host, such as localhost:6379" },
	{ "redis+sentinel://a,b,c,d,e,f,g,h,i/m", 33, "too many sentinels; use at most 8, each of them knows the others" },
	{ "redis+unix://host/x",          13, "a socket has no host; use three slashes, as in redis+unix:///run/redis.sock" },
	{ "redis+unix:///",               13, "invalid path; use 2 to 107 bytes, as in redis+unix:///run/redis.sock" },
	{ "unix://",                      7,  "invalid path; use 2 to 107 bytes, as in redis+unix:///run/redis.sock" },
};
/* clang-format on */

static void good_ones_are_read_and_shown(void)
{
	char shown[WEIR__REDIS_SHOWN_SIZE];
	struct weir_message message;
	struct weir__redis_url url;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		message.text[0] = '\0';
		CHECK_EQ(read_url(good[i].text, &url, &message), WEIR_OK);
		CHECK_TEXT(message.text, "");
		weir__redis_url_show(&url, shown, sizeof(shown));
		CHECK_TEXT(shown, good[i].shown);
		CHECK(strstr(shown, SECRET) == NULL);
	}
}

static void bad_ones_are_explained(void)
{
	struct weir_message message;
	struct weir__redis_url url;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		message = (struct weir_message){ 0 };
		CHECK_EQ(read_url(bad[i].text, &url, &message), WEIR_ERR_SYNTAX);
		CHECK_TEXT(message.text, bad[i].message);
		if (!CHECK_EQ(message.at, bad[i].at))
			printf("# of %s\n", bad[i].text);
		CHECK(strstr(message.text, SECRET) == NULL);
		CHECK_EQ(read_url(bad[i].text, &url, NULL), WEIR_ERR_SYNTAX);
	}
}

static void what_is_not_said_has_a_value(void)
{
	struct weir__redis_url url;

	CHECK_EQ(read_url("redis://h", &url, NULL), WEIR_OK);
	CHECK(!url.is_sentinel && url.verifies);
	CHECK_EQ(url.n_places, 1);
	CHECK(!url.places[0].is_path && !url.places[0].is_tls);
	CHECK_TEXT(url.prefix, "weir:");
	CHECK_TEXT(url.user, "");
	CHECK_EQ(url.pool, 2);
	CHECK_EQ(url.budget, 100000000);
	CHECK_EQ(url.connect_timeout, 500000000);
	CHECK_EQ(url.database, 0);
}

static void every_option_arrives(void)
{
	struct weir__redis_url url;

	CHECK_EQ(
		read_url(
			"rediss+sentinel://us%65r:p%3Aw@a:1,b/main/7?prefix=%3Aw%3A&pool=16&timeout=250us"
			"&connect_timeout=2s&sentinel_user=su&sentinel_password=s%26p&ca=/c.pem&cert=d&key=e&tls_name=n"
			"&verify=none",
			&url, NULL),
		WEIR_OK);
	CHECK(url.is_sentinel && !url.verifies);
	CHECK_EQ(url.n_places, 2);
	CHECK(url.places[0].is_tls && url.places[1].is_tls);
	CHECK_EQ(url.places[1].port, 26379);
	CHECK_TEXT(url.primary, "main");
	CHECK_EQ(url.database, 7);
	CHECK_TEXT(url.user, "user");
	CHECK_TEXT(url.password, "p:w");
	CHECK_TEXT(url.prefix, ":w:");
	CHECK_EQ(url.pool, 16);
	CHECK_EQ(url.budget, 250000);
	CHECK_EQ(url.connect_timeout, 2000000000);
	CHECK_TEXT(url.sentinel_user, "su");
	CHECK_TEXT(url.sentinel_password, "s&p");
	CHECK_TEXT(url.ca, "/c.pem");
	CHECK_TEXT(url.certificate, "d");
	CHECK_TEXT(url.key, "e");
	CHECK_TEXT(url.tls_name, "n");
}

static void words_have_a_longest(void)
{
	char text[600] = "redis://h?prefix=";
	const size_t begin = strlen(text);
	struct weir__redis_url url;

	memset(text + begin, 'p', WEIR__REDIS_WORD_SIZE);
	CHECK_EQ(weir__redis_url_read(text, begin + WEIR__REDIS_WORD_SIZE - 1, &url, NULL), WEIR_OK);
	CHECK_EQ(strlen(url.prefix), WEIR__REDIS_WORD_SIZE - 1);
	CHECK_EQ(weir__redis_url_read(text, begin + WEIR__REDIS_WORD_SIZE, &url, NULL), WEIR_ERR_SYNTAX);
	memset(text, 'h', sizeof(text));
	memcpy(text, "redis://", 8);
	CHECK_EQ(weir__redis_url_read(text, 8 + WEIR__REDIS_HOST_SIZE - 1, &url, NULL), WEIR_OK);
	CHECK_EQ(weir__redis_url_read(text, 8 + WEIR__REDIS_HOST_SIZE, &url, NULL), WEIR_ERR_SYNTAX);
	memcpy(text, "unix:///", 8);
	CHECK_EQ(weir__redis_url_read(text, 7 + 107, &url, NULL), WEIR_OK);
	CHECK_EQ(weir__redis_url_read(text, 7 + 108, &url, NULL), WEIR_ERR_SYNTAX);
}

/* Any prefix of a URL is parsed without a read beyond it, which a sanitizer checks. */
static void a_text_may_end_anywhere(void)
{
	struct weir__redis_url url;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		for (size_t length = 1; length < strlen(good[i].text); length++) {
			char *const bytes = malloc(length);

			if (bytes == NULL)
				abort();
			memcpy(bytes, good[i].text, length);
			(void)weir__redis_url_read(bytes, length, &url, NULL);
			free(bytes);
		}
	CHECK_EQ(weir__redis_url_read("redis://h:12", 11, &url, NULL), WEIR_OK);
	CHECK_EQ(url.places[0].port, 1);
}

TESTS(TEST(good_ones_are_read_and_shown), TEST(bad_ones_are_explained), TEST(what_is_not_said_has_a_value),
      TEST(every_option_arrives), TEST(words_have_a_longest), TEST(a_text_may_end_anywhere))
