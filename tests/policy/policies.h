/* policies.h: makes policies from text and requests from words, and collects the reported errors. */
#ifndef WEIR_TESTS_POLICIES_H
#define WEIR_TESTS_POLICIES_H

#include <weir/policy.h>

#include "check.h"

static char reported[65536];

static inline void report_into(void *context, const char *line)
{
	(void)context;
	if (strlen(reported) + strlen(line) + 2 < sizeof(reported)) {
		strcat(reported, line);
		strcat(reported, "\n");
	}
}

/* Returns NULL for an invalid policy; `reported` then has the errors. */
static inline struct weir_policy *policy_of(const char *text)
{
	struct weir_policy *policy = NULL;

	reported[0] = '\0';
	return weir_policy_read(text, strlen(text), "p.yaml", report_into, NULL, &policy) == WEIR_OK ? policy : NULL;
}

/* An invalid policy, and what is reported. */
struct mistake {
	const char *text, *told;
};

#define CHECK_MISTAKES(rows)                                                                                           \
	for (size_t i_ = 0; i_ < sizeof(rows) / sizeof((rows)[0]); i_++) {                                             \
		CHECK(policy_of((rows)[i_].text) == NULL);                                                             \
		CHECK_TEXT(reported, (rows)[i_].told);                                                                 \
	}

enum { WORDS_MAX = 16 };

/* Each word is name=value; NULL ends the list. */
static inline size_t attributes_of(const char *const *words, struct weir_attribute attributes[WORDS_MAX])
{
	size_t n = 0;

	for (; words[n] && n < WORDS_MAX; n++) {
		const char *const equal = strchr(words[n], '=');

		attributes[n] = (struct weir_attribute){ words[n], (size_t)(equal - words[n]), equal + 1,
							 strlen(equal + 1) };
	}
	return n;
}

#define WORDS(...)                                                                                                     \
	(const char *const[])                                                                                          \
	{                                                                                                              \
		__VA_ARGS__, NULL                                                                                      \
	}

/* The first policy in the documentation. */
static const char example_policy[] = "limits:\n"
				     "  - name: everyone\n"
				     "    limit: 50000/s\n"
				     "  - name: per-client\n"
				     "    key: [ip]\n"
				     "    limit: 100/s burst 200\n"
				     "    overrides:\n"
				     "      - when: {plan: gold}\n"
				     "        limit: 1000/s burst 2000\n"
				     "      - when: {ip: 10.0.0.0/8}\n"
				     "        mode: off\n"
				     "  - name: orders-writes\n"
				     "    key: [api_key]\n"
				     "    match: {method: [POST, PUT], path: /v1/orders/**}\n"
				     "    limit: 20/s leaky queue 100\n"
				     "    cost: {attribute: items}\n"
				     "  - name: signup-canary\n"
				     "    key: [ip]\n"
				     "    match: {path: /signup}\n"
				     "    limit: 5/hour sliding_log\n"
				     "    mode: shadow\n";

/* The limits that apply, as "plan:mode:key:cost ..."; keys of addresses in hex. */
static inline const char *applies(const struct weir_policy *policy, const char *const *words)
{
	static struct weir_policy_answer answer;
	static char text[4096];
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	struct weir_message why;

	text[0] = '\0';
	if (weir_policy_match(policy, attributes, n, 1, &answer, &why) != WEIR_OK)
		return strcpy(text, why.text);
	for (size_t i = 0; i < answer.n; i++) {
		const struct weir_policy_claim *const claim = &answer.claims[i];
		static const char *const modes[] = { "enforce", "shadow", "off" };
		char *at = text + strlen(text);

		at += sprintf(at, "%s%s:%s:", i ? " " : "", weir_policy_plan_of(policy, claim->plan)->name,
			      modes[claim->mode]);
		for (size_t k = 0; k < claim->key_length; k++) {
			const unsigned char c = (unsigned char)claim->key[k];

			at += c > ' ' && c < 0x7f ? sprintf(at, "%c", c) : sprintf(at, "\\%02x", c);
		}
		(void)sprintf(at, ":%" PRIu64, claim->cost);
	}
	return text;
}

/* What the plan that applies does when its store fails, as "share 5ms" or "local 9/s 0ms". */
static inline const char *failure_of(const struct weir_policy *policy, const char *const *words)
{
	static const char *const failures[] = { "unset", "share", "open", "closed", "local" };
	static struct weir_policy_answer answer;
	static char text[256];
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	const struct weir_policy_plan *plan, *local;
	char limit[WEIR_LIMIT_TEXT_MAX] = "";
	struct weir_message why;

	if (weir_policy_match(policy, attributes, n, 1, &answer, &why) != WEIR_OK || answer.n != 1)
		return "not one claim";
	plan = weir_policy_plan_of(policy, answer.claims[0].plan);
	local = weir_policy_plan_of(policy, plan->local);
	CHECK((plan->on_store_failure == WEIR_STORE_FAILURE_LOCAL) == (local != NULL));
	CHECK(!plan->is_local && (local == NULL || local->is_local));
	if (local)
		(void)weir_limit_print(&local->limit, limit);
	(void)sprintf(text, "%s%s%s%s%s %dms", failures[plan->on_store_failure], local ? " " : "",
		      local ? local->name : "", local ? ": " : "", limit, (int)(plan->store_budget / 1000000));
	return text;
}

/* The explanation of each limit, a line each. */
static inline const char *explained(const struct weir_policy *policy, const char *const *words)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);

	reported[0] = '\0';
	weir_policy_explain(policy, attributes, n, report_into, NULL);
	return reported;
}

/* The explanation of the limit that applies. */
static inline const char *explanation_of(const struct weir_policy *policy, const char *const *words)
{
	char *at;

	(void)explained(policy, words);
	at = strstr(reported, ": applies");
	if (at == NULL)
		return "nothing applies";
	at[strcspn(at, "\n") + 1] = '\0';
	while (at > reported && at[-1] != '\n')
		at--;
	return at;
}

static inline void write_file(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	(void)sprintf(path, "%s/%s", folder, name);
	file = fopen(path, "w");
	CHECK(file != NULL);
	if (file) {
		fputs(text, file);
		fclose(file);
	}
}

#endif
