/* policies.h: policies from text, requests from words, and what was reported. */
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

/* NULL: it is none; `reported` says why. */
static inline struct weir_policy *policy_of(const char *text)
{
	struct weir_policy *policy = NULL;

	reported[0] = '\0';
	return weir_policy_read(text, strlen(text), "p.yaml", report_into, NULL, &policy) == WEIR_OK ? policy : NULL;
}

enum { WORDS_MAX = 16 };

/* name=value, each a word; the last NULL. */
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

#endif
