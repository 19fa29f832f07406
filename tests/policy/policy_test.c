/* policy_test.c: which limits of a policy apply to a request, and with which keys and costs. */
/* Covers: src/policy/rules.c, src/policy/values.c */
#include "policies.h"

static void the_example(void)
{
	struct weir_policy *const policy = policy_of(example_policy);

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_EQ(weir_policy_limits(policy), 4);
	CHECK_EQ(weir_policy_plans(policy), 5);
	CHECK_TEXT(applies(policy, WORDS("x=y")), "everyone:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("ip=33.33.33.33")), "everyone:enforce::1 per-client:enforce:\\04!!!!:1");
	CHECK_TEXT(applies(policy, WORDS("ip=33.33.33.33", "plan=gold")),
		   "everyone:enforce::1 per-client|plan=gold:enforce:\\04!!!!:1");
	CHECK_TEXT(applies(policy, WORDS("ip=10.1.1.1")), "everyone:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("ip=10.1.1.1", "plan=gold")),
		   "everyone:enforce::1 per-client|plan=gold:enforce:\\04\\0a\\01\\01\\01:1");
	CHECK_TEXT(applies(policy, WORDS("method=POST", "path=/v1//orders/7?x", "api_key=k", "items=12")),
		   "everyone:enforce::1 orders-writes:enforce:k:12");
	CHECK_TEXT(applies(policy, WORDS("method=POST", "path=/v1/orders", "api_key=k")),
		   "everyone:enforce::1 orders-writes:enforce:k:1");
	CHECK_TEXT(applies(policy, WORDS("method=GET", "path=/v1/orders", "api_key=k")), "everyone:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("method=PUT", "path=/v1/orders")), "everyone:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("path=/%73ignup/", "ip=33.33.33.33")),
		   "everyone:enforce::1 per-client:enforce:\\04!!!!:1 signup-canary:shadow:\\04!!!!:1");
	CHECK_TEXT(applies(policy, WORDS("method=PUT", "path=/v1/orders", "api_key=k", "items=many")),
		   "the attribute \"items\" is a cost: use a whole number, 0 or more");
	weir_policy_free(policy);
}

static void keys_are_in_one_form(void)
{
	struct weir_policy *const policy = policy_of("attributes:\n"
						     "  user: {lower: true, default: nobody}\n"
						     "  from: {type: ip}\n"
						     "limits:\n"
						     "  - {name: a, key: [user, host], limit: 1/s}\n"
						     "  - {name: b, key: ip, limit: 1/s}\n"
						     "  - name: c\n"
						     "    key: [{attribute: from, ipv4: 8, ipv6: 16, default: none}]\n"
						     "    limit: 1/s\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(applies(policy, WORDS("user=Ann", "host=WEIR.Example")),
		   "a:enforce:\\03\\00ann\\0c\\00weir.example:1 c:enforce:\\00none:1");
	CHECK_TEXT(applies(policy, WORDS("host=x")), "a:enforce:\\06\\00nobody\\01\\00x:1 c:enforce:\\00none:1");
	CHECK_TEXT(applies(policy, WORDS("ip=4142:4344:4546:4748:1:2:3:4", "from=65.66.67.68")),
		   "b:enforce:\\10ABCDEFGH\\00\\00\\00\\00\\00\\00\\00\\00:1 c:enforce:\\04A\\00\\00\\00:1");
	CHECK_TEXT(applies(policy, WORDS("ip=::ffff:65.66.67.68", "from=4142::1")),
		   "b:enforce:\\04ABCD:1 c:enforce:\\10AB\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00:1");
	CHECK_TEXT(applies(policy, WORDS("ip=ABCD")), "b:enforce:\\00ABCD:1 c:enforce:\\00none:1");
	weir_policy_free(policy);
}

/* Limits with the same key, one after the other, share its bytes. Each of them counts towards the 16384 bytes. */
static void limits_with_the_same_key_share_it(void)
{
	struct weir_policy *const policy = policy_of("limits:\n"
						     "  - {name: a, key: [user], limit: 1/s}\n"
						     "  - {name: b, key: [user], limit: 2/s}\n"
						     "  - {name: c, key: [host, user], limit: 1/s}\n"
						     "  - {name: d, limit: 1/s}\n"
						     "  - {name: e, limit: 2/s}\n"
						     "  - {name: f, key: [user], limit: 1/s}\n"
						     "  - name: g\n"
						     "    key: [{attribute: user, default: nobody}]\n"
						     "    limit: 1/s\n"
						     "  - {name: h, key: [{attribute: ip, ipv4: 24}], limit: 1/s}\n"
						     "  - {name: i, key: [ip], limit: 1/s}\n");
	static char value[6001];
	struct weir_attribute user = { "user", 4, value, 0 };
	struct weir_policy_answer answer;
	struct weir_message why;

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(applies(policy, WORDS("user=ann", "host=x", "ip=65.66.67.68")),
		   "a:enforce:ann:1 b:enforce:ann:1 c:enforce:\\01\\00x\\03\\00ann:1 d:enforce::1 e:enforce::1 "
		   "f:enforce:ann:1 g:enforce:ann:1 h:enforce:\\04ABC\\00:1 i:enforce:\\04ABCD:1");
	CHECK_TEXT(applies(policy, WORDS("host=x")), "d:enforce::1 e:enforce::1 g:enforce:nobody:1");
	memset(value, 'u', sizeof(value) - 1);
	user.value_length = 4096; /* the keys of a, b, f and g: 16384 bytes */
	CHECK_EQ(weir_policy_match(policy, &user, 1, 1, &answer, &why), WEIR_OK);
	CHECK_EQ(answer.n, 6);
	CHECK(answer.claims[0].key == answer.claims[1].key);
	user.value_length = 4097;
	CHECK_EQ(weir_policy_match(policy, &user, 1, 1, &answer, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "the key of \"g\" is too long: all keys of a request have at most 16384 bytes");
	user.value_length = 6000; /* f has the third of these keys */
	CHECK_EQ(weir_policy_match(policy, &user, 1, 1, &answer, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "the key of \"f\" is too long: all keys of a request have at most 16384 bytes");
	weir_policy_free(policy);
}

TESTS(TEST(the_example), TEST(keys_are_in_one_form), TEST(limits_with_the_same_key_share_it))
