/* explain.c: weir explain: which limits of a policy apply to a request, without a server. */
#include <weir/policy.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "guard/guard.h"
#include "policy/policy.h"
#include "server/policy_loader.h"

enum { DONE = 0, FAILED = 1, CALLED_WRONGLY = 2, ATTRIBUTES_MAX = 64 };

static const char explain_help[] =
	"usage: weir explain FILE|DIRECTORY ATTRIBUTE=VALUE...\n"
	"\n"
	"Shows for each limit of a policy whether it applies to a request with these attributes, with which\n"
	"key and by which limit or override, or why it does not. For a policy in the format of Envoy's ratelimit,\n"
	"domain=NAME is the domain, and the other attributes are one descriptor: it shows what each of them\n"
	"matches.\n";

static void print_line(void *context, const char *line)
{
	(void)context;
	puts(line);
}

static const char *why_exact(void *context, const struct weir_policy_plan *plan)
{
	(void)context;
	return weir__guard_why_exact(plan, &plan->limit);
}

static bool read_attribute(const char *word, struct weir_attribute *ret_attribute)
{
	const char *const equal = strchr(word, '=');

	if (equal == NULL || equal == word) {
		fprintf(stderr, "weir explain: '%s': use NAME=VALUE for an attribute\n", word);
		return false;
	}
	*ret_attribute = (struct weir_attribute){ word, (size_t)(equal - word), equal + 1, strlen(equal + 1) };
	return true;
}

int weir__explain(int argc, char **argv)
{
	struct weir_attribute attributes[ATTRIBUTES_MAX];
	char apart[WEIR__POLICY_PATH_SIZE];
	struct weir_policy *policy;

	if (argc == 2 && weir__command_is_help(argv[1])) {
		fputs(explain_help, stdout);
		return DONE;
	}
	if (argc < 2 || argc - 2 > ATTRIBUTES_MAX) {
		fputs(explain_help, stderr);
		return CALLED_WRONGLY;
	}
	for (int i = 2; i < argc; i++)
		if (!read_attribute(argv[i], &attributes[i - 2]))
			return CALLED_WRONGLY;
	policy = weir__policy_loader_check(argv[1], stderr, apart);
	if (policy == NULL)
		return FAILED;
	weir__policy_explain(policy, attributes, (size_t)(argc - 2), why_exact, print_line, NULL);
	weir_policy_free(policy);
	return DONE;
}
