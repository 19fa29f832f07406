/* policies.h: what must hold for every policy that was read, and for the errors of one that was not. */
#ifndef WEIR_TESTS_FUZZ_POLICIES_H
#define WEIR_TESTS_FUZZ_POLICIES_H

#include <weir/policy.h>

#include "require.h"

enum { WORDS_MAX = 48, FAULTS_MOST = 100 };

static inline bool is_printable(const char *line)
{
	for (; *line; line++)
		if ((unsigned char)*line < ' ' || *line == 0x7f)
			return false;
	return true;
}

/* Checks that a line is policy:LINE:COLUMN: TEXT, and counts it in `lines`. */
static inline void check_fault(void *lines, const char *line)
{
	unsigned at, column;
	int begin = 0;

	require(sscanf(line, "policy:%u:%u: %n", &at, &column, &begin) == 2 && begin > 0,
		"a fault that says not where");
	require(line[begin] != '\0', "a fault that says nothing");
	require(is_printable(line), "a fault of more than one line");
	require(++*(unsigned *)lines <= FAULTS_MOST, "too many faults");
}

static inline void check_line(void *lines, const char *line)
{
	require(line[0] != '\0' && is_printable(line), "an explanation that is not one printable line");
	++*(unsigned *)lines;
}

static inline void check_read(int error, unsigned lines, const struct weir_policy *policy)
{
	require(error == WEIR_OK || error == WEIR_ERR_SYNTAX, "an error that cannot be");
	require((error == WEIR_OK) == (policy != NULL), "a policy and an error");
	require((error == WEIR_OK) == (lines == 0), "faults without an error, or an error without faults");
}

/* State is stored under the names of plans, so they must differ. */
static inline void check_plans(const struct weir_policy *policy)
{
	const uint32_t n = weir_policy_plans(policy);

	for (uint32_t i = 0; i < n; i++) {
		const struct weir_policy_plan *const plan = weir_policy_plan_of(policy, i);

		require(strlen(plan->name) >= 1 && strlen(plan->name) <= 63, "a name that is too long, or none");
		require(plan->limit.count > 0 && plan->limit.period > 0, "a limit that cannot be");
		if (plan->on_store_failure == WEIR_STORE_FAILURE_LOCAL)
			require(plan->local < n && weir_policy_plan_of(policy, plan->local)->is_local,
				"a limit for when a store fails that is none");
		else
			require(plan->local == WEIR_POLICY_NO_PLAN, "a limit that nothing decides by");
		for (uint32_t j = 0; j < i; j++)
			require(strcmp(plan->name, weir_policy_plan_of(policy, j)->name) != 0, "two plans of one name");
	}
	for (uint32_t i = 0; i < weir_policy_limits(policy); i++)
		require(weir_policy_limit_name(policy, i) != NULL, "a limit without a name");
}

/* Reads words that are separated by NULs: name=value, or a name alone. */
static inline size_t read_words(const uint8_t *data, size_t size, struct weir_attribute words[WORDS_MAX])
{
	size_t n = 0;

	while (size > 0 && n < WORDS_MAX) {
		const uint8_t *const end = memchr(data, '\0', size);
		const size_t length = end ? (size_t)(end - data) : size;
		const uint8_t *const equal = length ? memchr(data, '=', length) : NULL;
		const size_t name = equal ? (size_t)(equal - data) : length, used = length + (end != NULL);

		words[n++] = (struct weir_attribute){ (const char *)data, name,
						      equal ? (const char *)equal + 1 : (const char *)data + name,
						      equal ? length - name - 1 : 0 };
		data += used;
		size -= used;
	}
	return n;
}

static inline void check_attributes(const struct weir_policy *policy, const struct weir_attribute *words, size_t n)
{
	static struct weir_policy_answer answer;
	struct weir_message why = { .text = "" };
	const int error = weir_policy_match(policy, words, n, 1, &answer, &why);
	unsigned lines = 0;

	require(error == WEIR_OK || (error == WEIR_ERR_LIMIT && why.text[0] != '\0'), "an error that says nothing");
	for (size_t i = 0; error == WEIR_OK && i < answer.n; i++) {
		const struct weir_policy_claim *const claim = &answer.claims[i];

		require(claim->plan < weir_policy_plans(policy), "a plan that is not there");
		require(claim->limit < weir_policy_limits(policy), "a limit that is not there");
		require(i == 0 || claim->limit > answer.claims[i - 1].limit, "not in the order of the file");
		require(claim->mode != WEIR_MODE_OFF, "a claim that is off");
		require(claim->key >= answer.room &&
				claim->key + claim->key_length <= answer.room + sizeof(answer.room),
			"a key that is elsewhere");
	}
	weir_policy_explain(policy, words, n, check_line, &lines);
	require(lines >= weir_policy_limits(policy) || lines > 0, "limits that are not explained");
}

#endif
