/* envoys.h: makes policies in Envoy's format from text, and requests from words. */
#ifndef WEIR_TESTS_ENVOYS_H
#define WEIR_TESTS_ENVOYS_H

#include <stdio.h>

#include "policies.h"

/* Returns NULL for an invalid policy; `reported` then has the errors. */
static inline struct weir_policy *envoy_of(const char *text, uint32_t options)
{
	struct weir_policy *policy = NULL;

	reported[0] = '\0';
	return weir_policy_read_envoy(text, strlen(text), "e.yaml", options, report_into, NULL, &policy) == WEIR_OK ?
		       policy :
		       NULL;
}

enum { ENTRIES_MAX = 4 };

struct request {
	struct weir_descriptor descriptors[WORDS_MAX];
	struct weir_attribute entries[WORDS_MAX][ENTRIES_MAX];
	size_t n;
};

/* Makes a descriptor of each word: "key=value key=value". */
static inline void request_of(const char *const *words, struct request *ret_request)
{
	memset(ret_request, 0, sizeof(*ret_request));
	for (; words[ret_request->n]; ret_request->n++) {
		struct weir_descriptor *const descriptor = &ret_request->descriptors[ret_request->n];
		struct weir_attribute *const entries = ret_request->entries[ret_request->n];

		descriptor->entries = entries;
		for (const char *at = words[ret_request->n]; *at;) {
			const size_t key = strcspn(at, "="), value = strcspn(at + key + 1, " ");

			entries[descriptor->n++] = (struct weir_attribute){ at, key, at + key + 1, value };
			at += key + 1 + value;
			at += *at == ' ';
		}
	}
}

static inline const struct weir_descriptor_claim *match(const struct weir_policy *policy, const char *domain,
							const struct request *request)
{
	static struct weir_descriptors_answer answer;
	struct weir_message why;

	if (weir_policy_match_descriptors(policy, domain, strlen(domain), request->descriptors, request->n, 1, &answer,
					  &why) != WEIR_OK)
		check_fail(__FILE__, __LINE__, why.text);
	return answer.claims;
}

/* The limits that apply to each descriptor, as text. */
static inline const char *claims_of(const struct weir_policy *policy, const char *domain, const char *const *words)
{
	static char text[4096];
	const struct weir_descriptor_claim *claims;
	struct request request;

	text[0] = '\0';
	request_of(words, &request);
	claims = match(policy, domain, &request);
	for (size_t i = 0; i < request.n; i++) {
		char *const end = text + strlen(text);
		char limit[WEIR_LIMIT_TEXT_MAX];

		strcat(text, i ? "; " : "");
		if (!claims[i].applies) {
			strcat(text, "none");
			continue;
		}
		(void)weir_limit_print(&claims[i].limit, limit);
		(void)sprintf(end + (i ? 2 : 0), "%s: %s%s", weir_policy_plan_of(policy, claims[i].plan)->name,
			      claims[i].is_unlimited ? "unlimited" :
			      claims[i].is_closed    ? "closed" :
						       limit,
			      claims[i].mode == WEIR_MODE_SHADOW ? " shadow" : "");
	}
	return text;
}

static const char nested[] = "domain: shop\n"
			     "descriptors:\n"
			     "  - key: user\n"
			     "    rate_limit: {unit: minute, requests_per_unit: 10}\n"
			     "  - key: user\n"
			     "    value: bot\n"
			     "    rate_limit: {unit: HOUR, requests_per_unit: 1}\n"
			     "    shadow_mode: true\n"
			     "  - key: plan\n"
			     "    value: gold\n"
			     "    descriptors:\n"
			     "      - key: path\n"
			     "        rate_limit: {unit: day, requests_per_unit: 1_000}\n"
			     "      - key: path\n"
			     "        value: /admin\n"
			     "        rate_limit: {requests_per_unit: 0, unit: second}\n"
			     "      - key: path\n"
			     "        value: /health\n"
			     "        rate_limit: {unlimited: true}\n"
			     "  - key: code\n"
			     "    value: 404\n"
			     "    rate_limit: {unit: week, requests_per_unit: 7}\n";

#endif
