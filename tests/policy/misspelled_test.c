/* misspelled_test.c: which attribute an unmatched request may have misspelled. */
#include "policies.h"

#include "policy/policy.h"

static const char text[] = "attributes: {api_key: {lower: true}}\n"
			   "limits:\n"
			   "  - {name: a, key: [user], limit: 1/s}\n"
			   "  - {name: b, key: [api_key], match: {method: POST}, limit: 1/s}\n"
			   "  - {name: c, key: [ip], limit: 1/s}\n";

static const struct {
	const char *const words[3];
	const char *expected; /* WHICH->MEANT */
} rows[] = {
	{ { "usr=ann" }, "usr->user" },
	{ { "User=ann" }, "User->user" },
	{ { "USER=ann" }, "USER->user" },
	{ { "uesr=ann" }, "uesr->user" },
	{ { "users=ann" }, "users->user" },
	{ { "api-key=1" }, "api-key->api_key" },
	{ { "apikey=1" }, "apikey->api_key" },
	{ { "api_kye=1" }, "api_kye->api_key" },
	{ { "other=1", "mehtod=GET" }, "mehtod->method" },
	{ { "useer=1", "usr=1" }, "useer->user" },
	{ { "metod=GET", "apiky=1" }, "metod->method" },
	/* the request has that attribute already */
	{ { "usr=ann", "user=ann" }, "" },
	/* too different, or too short to tell */
	{ { "account=ann" }, "" },
	{ { "u=ann" }, "" },
	{ { "i=1" }, "" },
	/* host and path are known, but no limit uses them */
	{ { "hosts=x", "pth=/" }, "" },
	{ { "" }, "" },
};

static void names_that_are_close(void)
{
	struct weir_policy *const policy = policy_of(text);
	char found[128];

	CHECK_TEXT(reported, "");
	for (size_t i = 0; policy && i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_attribute attributes[WORDS_MAX];
		const size_t n = rows[i].words[0][0] ? attributes_of(rows[i].words, attributes) : 0;
		struct weir__slice meant;
		const size_t which = weir__policy_find_misspelled(policy, attributes, n, &meant);

		found[0] = '\0';
		if (which < n)
			(void)sprintf(found, "%.*s->%.*s", (int)attributes[which].name_length, attributes[which].name,
				      (int)meant.n, meant.at);
		CHECK_TEXT(found, rows[i].expected);
	}
	weir_policy_free(policy);
}

/* A name in a request may be longer than any in a policy. */
static void a_long_name(void)
{
	struct weir_policy *const policy = policy_of(text);
	char name[1000];
	struct weir_attribute attribute = { name, sizeof(name), "x", 1 };
	struct weir__slice meant;

	memset(name, 'u', sizeof(name));
	for (attribute.name_length = 0; attribute.name_length < sizeof(name); attribute.name_length++)
		CHECK(weir__policy_find_misspelled(policy, &attribute, 1, &meant) == 1);
	weir_policy_free(policy);
}

TESTS(TEST(names_that_are_close), TEST(a_long_name))
