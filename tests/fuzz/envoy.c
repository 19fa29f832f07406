/* envoy.c: any bytes as a configuration of Envoy's ratelimit service. Errors are reported as lines. A valid
 * configuration matches any request, and gives each descriptor the same limit as if it were sent alone, except for
 * `replaces`.
 *
 * The first byte of an input has the options. Then come the file up to a NUL, the domain up to a NUL, and the entries
 * of descriptors, separated by NULs. An entry without a name begins the next descriptor: the first byte of its value is
 * the unit of an inline limit, the second its number of requests, the third its hits. */
#include "policies.h"

enum { DESCRIPTORS_MAX = 8 };

struct request {
	struct weir_attribute domain, words[WORDS_MAX];
	struct weir_descriptor descriptors[DESCRIPTORS_MAX];
	size_t n;
};

static struct weir_descriptor begin(const struct weir_attribute *entries, const struct weir_attribute *head)
{
	struct weir_descriptor descriptor = { .entries = entries };

	if (head && head->value_length > 0)
		descriptor.unit = (enum weir_unit)((unsigned char)head->value[0] % 9);
	if (head && head->value_length > 1)
		descriptor.requests_per_unit = (unsigned char)head->value[1];
	descriptor.has_hits = head && head->value_length > 2;
	if (descriptor.has_hits)
		descriptor.hits = (unsigned char)head->value[2];
	return descriptor;
}

static void read_request(const uint8_t *data, size_t size, struct request *request)
{
	const size_t n = read_words(data, size, request->words);

	request->domain = n > 0 ? request->words[0] : (struct weir_attribute){ .name = "", .value = "" };
	request->n = 1;
	request->descriptors[0] = begin(request->words + 1, NULL);
	for (size_t i = 1; i < n; i++) {
		if (request->words[i].name_length > 0)
			request->descriptors[request->n - 1].n++;
		else if (request->n < DESCRIPTORS_MAX)
			request->descriptors[request->n++] = begin(request->words + i + 1, &request->words[i]);
		else
			break;
	}
}

static void check_claim(const struct weir_policy *policy, const struct weir_descriptors_answer *answer, size_t i)
{
	const struct weir_descriptor_claim *const claim = &answer->claims[i];

	if (!claim->applies)
		return;
	require(claim->plan == WEIR_POLICY_NO_PLAN || claim->plan < weir_policy_plans(policy),
		"a plan that is not there");
	require(claim->limit.count > 0 && claim->limit.period > 0, "a limit that cannot be");
	require(claim->key_length > 0 && claim->key >= answer->room &&
			claim->key + claim->key_length <= answer->room + sizeof(answer->room),
		"a key that is elsewhere");
}

static bool is_same(const struct weir_descriptor_claim *a, const struct weir_descriptor_claim *b)
{
	return a->plan == b->plan && a->limit.count == b->limit.count && a->limit.period == b->limit.period &&
	       a->is_unlimited == b->is_unlimited && a->is_closed == b->is_closed && a->mode == b->mode &&
	       a->is_quota == b->is_quota && a->cost == b->cost && a->key_length == b->key_length &&
	       memcmp(a->key, b->key, a->key_length) == 0;
}

static void check_descriptors(const struct weir_policy *policy, const struct request *request)
{
	static struct weir_descriptors_answer together, alone;
	struct weir_message why = { .text = "" };
	const struct weir_attribute *const domain = &request->domain;
	int error;

	error = weir_policy_match_descriptors(policy, domain->name, domain->name_length, request->descriptors,
					      request->n, 1, &together, &why);
	if (error != WEIR_OK) {
		require(error == WEIR_ERR_LIMIT && why.text[0] != '\0', "an error that says nothing");
		return;
	}
	require(together.n == request->n, "as many claims as descriptors");
	for (size_t i = 0; i < request->n; i++) {
		check_claim(policy, &together, i);
		error = weir_policy_match_descriptors(policy, domain->name, domain->name_length,
						      &request->descriptors[i], 1, 1, &alone, NULL);
		require(error == WEIR_OK && alone.n == 1, "alone it is refused");
		require(!together.claims[i].applies ||
				(alone.claims[0].applies && is_same(&together.claims[i], alone.claims)),
			"alone it is another");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end;
	struct weir_policy *policy = NULL;
	static struct request request;
	unsigned lines = 0;
	size_t length;
	char *text;
	int error;

	if (size == 0)
		return 0;
	end = memchr(data + 1, '\0', size - 1);
	length = end ? (size_t)(end - data) - 1 : size - 1;
	text = malloc(length + 1); /* exactly as long, so that a sanitizer sees a read beyond it */
	if (text == NULL)
		abort();
	memcpy(text, data + 1, length);
	error = weir_policy_read_envoy(text, length, NULL, data[0] & 3, check_fault, &lines, &policy);
	free(text);
	check_read(error, lines, policy);
	if (policy) {
		check_plans(policy);
		memset(&request, 0, sizeof(request));
		read_request(end ? end + 1 : data, end ? size - length - 2 : size, &request);
		check_descriptors(policy, &request);
		check_attributes(policy, request.words, WORDS_MAX / 2);
	}
	weir_policy_free(policy);
	return 0;
}
