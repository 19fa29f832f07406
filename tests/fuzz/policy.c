/* policy.c: any bytes as a policy, in Weir's format or Envoy's. Errors are reported as lines. A valid policy matches
 * any request.
 *
 * An input is the file up to its first NUL, then the attributes of a request, separated by NULs. */
#include "policy/policy.h"
#include "policies.h"

/* The rule cache, which large policies have, changes no result. */
static void check_cards(struct weir_policy *policy, const struct weir_attribute *words, size_t n)
{
	static struct weir_policy_answer before, after;
	struct weir_message why;
	const int error = weir_policy_match(policy, words, n, 1, &before, &why);

	if (policy->envoy)
		return;
	weir__rules_make_cache(&policy->rules, &policy->pool);
	require(weir_policy_match(policy, words, n, 1, &after, &why) == error, "cards make another error");
	require(error != WEIR_OK || before.n == after.n, "cards make other claims");
	for (size_t i = 0; error == WEIR_OK && i < before.n; i++) {
		const struct weir_policy_claim *const a = &before.claims[i], *const b = &after.claims[i];

		require(a->limit == b->limit && a->plan == b->plan && a->mode == b->mode && a->cost == b->cost,
			"cards make another claim");
		require(a->key_length == b->key_length && memcmp(a->key, b->key, a->key_length) == 0,
			"cards make another key");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *const end = size ? memchr(data, '\0', size) : NULL;
	const size_t length = end ? (size_t)(end - data) : size;
	struct weir_attribute words[WORDS_MAX];
	struct weir_policy *policy = NULL;
	size_t n_words;
	unsigned lines = 0;
	char *text;
	int error;

	text = malloc(length + 1); /* exactly as long, so that a sanitizer sees a read beyond it */
	if (text == NULL)
		abort();
	if (length > 0)
		memcpy(text, data, length);
	error = weir_policy_read(text, length, NULL, check_fault, &lines,
				 &policy); /* without a name no file is opened */
	free(text);
	check_read(error, lines, policy);
	if (policy) {
		check_plans(policy);
		n_words = end ? read_words(end + 1, size - length - 1, words) : read_words(data, size, words);
		check_attributes(policy, words, n_words);
		check_cards(policy, words, n_words);
	}
	weir_policy_free(policy);
	return 0;
}
