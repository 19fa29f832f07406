/* policy.c: policies without a server. `weir check-config` lists all errors of a policy, `weir explain` shows which
 * limits apply to a request. */
#include <weir/policy.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "policy/compare.h"
#include "server/policy_loader.h"

enum { DONE = 0, FAILED = 1, CALLED_WRONGLY = 2, ATTRIBUTES_MAX = 64 };

static const char check_help[] =
	"usage: weir check-config [--against OLD] FILE|DIRECTORY...\n"
	"\n"
	"Lists all errors in files for weir serve (settings, limits or both), as FILE:LINE:COLUMN, with\n"
	"what was found and what would be right. All *.yaml files of a directory are one policy; files\n"
	"with `domain` at the top level are a configuration of Envoy's ratelimit.\n"
	"\n"
	"--against OLD also says of each limit what becomes of its keys if the policy replaces OLD, a file or\n"
	"a directory: they are kept, converted, or start anew, and why.\n"
	"\n"
	"Exit status: 0 no errors; 1 errors; 2 wrong usage.\n";

static const char explain_help[] =
	"usage: weir explain FILE|DIRECTORY ATTRIBUTE=VALUE...\n"
	"\n"
	"Says for each limit of a policy whether it applies to a request with these attributes, with which\n"
	"key and by which limit or override, or why it does not. For a configuration of Envoy's ratelimit,\n"
	"domain=NAME is the domain, and the other attributes are one descriptor: it says what each of them\n"
	"matches.\n";

static void print_line(void *context, const char *line)
{
	(void)context;
	puts(line);
}

static void print_difference(void *fates, const struct weir__policy_difference *difference)
{
	char line[WEIR__POLICY_DIFFERENCE_SIZE];

	weir__policy_difference_write(difference, line);
	printf("  %s\n", line);
	((uint32_t *)fates)[weir__policy_difference_is_anew(difference) ? WEIR__FATE_ANEW : difference->fate]++;
}

/* What becomes of keys if the policy replaces the old one. */
static int compare_with(const struct weir_policy *old, const char *old_path, const struct weir_policy *policy)
{
	uint32_t fates[WEIR__FATES] = { 0 };

	printf("if it replaces %s:\n", old_path);
	if (!weir__policy_compare(old, policy, print_difference, fates)) {
		fputs("weir check-config: no memory to compare policies\n", stderr);
		return FAILED;
	}
	if (weir__policy_denies_unmatched(old) != weir__policy_denies_unmatched(policy))
		puts(weir__policy_denies_unmatched(policy) ?
			     "  requests that no limit applies to: denied, before allowed" :
			     "  requests that no limit applies to: allowed, before denied");
	printf("  kept: %u, converted: %u, anew: %u, new: %u, removed: %u\n", fates[WEIR__FATE_KEPT],
	       fates[WEIR__FATE_CONVERTED], fates[WEIR__FATE_ANEW], fates[WEIR__FATE_ADDED], fates[WEIR__FATE_REMOVED]);
	return DONE;
}

/* `old` NULL: there is nothing to compare with. */
static int check_file(const char *path, const struct weir_policy *old, const char *old_path)
{
	struct weir_policy *const policy = weir__policy_loader_check(path, stderr);
	uint32_t local = 0;
	int result = DONE;

	if (policy == NULL)
		return FAILED;
	for (uint32_t i = 0; i < weir_policy_plans(policy); i++)
		local += weir_policy_plan_of(policy, i)->is_local;
	printf("%s: good: limits: %u, with overrides: %u", path, weir_policy_limits(policy),
	       weir_policy_plans(policy) - local);
	if (local > 0)
		printf(", if a store fails: %u", local);
	if (weir__policy_denies_unmatched(policy))
		fputs(", unmatched: deny", stdout);
	putchar('\n');
	if (old)
		result = compare_with(old, old_path, policy);
	weir_policy_free(policy);
	return result;
}

/* Reports errors of OLD, which are not those of a file that is checked. */
static struct weir_policy *read_old(const char *path)
{
	struct weir_policy *const old = weir__policy_loader_check(path, stderr);

	if (old == NULL)
		fprintf(stderr, "weir check-config: --against %s: it has errors, so nothing is compared with it\n",
			path);
	return old;
}

static int check_files(char *const *paths, int n, const char *old_path)
{
	struct weir_policy *const old = old_path ? read_old(old_path) : NULL;
	int result = old_path && old == NULL ? FAILED : DONE;

	for (int i = 0; i < n; i++)
		if (check_file(paths[i], old, old_path) != DONE)
			result = FAILED;
	weir_policy_free(old);
	return result;
}

int weir__check_config(int argc, char **argv)
{
	const char *old_path = NULL;
	bool is_wrong = false;
	int n = 0;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(check_help, stdout);
		return DONE;
	}
	for (int i = 1; i < argc; i++) { /* moves the paths of files to the front */
		if (strcmp(argv[i], "--against") != 0) {
			argv[n++] = argv[i];
		} else if (old_path || i + 1 == argc) {
			is_wrong = true;
		} else {
			old_path = argv[++i];
		}
	}
	if (n == 0 || is_wrong) {
		fputs(check_help, stderr);
		return CALLED_WRONGLY;
	}
	return check_files(argv, n, old_path);
}

static bool read_attribute(const char *word, struct weir_attribute *ret_attribute)
{
	const char *const equal = strchr(word, '=');

	if (equal == NULL || equal == word) {
		fprintf(stderr, "weir explain: '%s': an attribute is written NAME=VALUE\n", word);
		return false;
	}
	*ret_attribute = (struct weir_attribute){ word, (size_t)(equal - word), equal + 1, strlen(equal + 1) };
	return true;
}

int weir__explain(int argc, char **argv)
{
	struct weir_attribute attributes[ATTRIBUTES_MAX];
	struct weir_policy *policy;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
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
	policy = weir__policy_loader_check(argv[1], stderr);
	if (policy == NULL)
		return FAILED;
	weir_policy_explain(policy, attributes, (size_t)(argc - 2), print_line, NULL);
	weir_policy_free(policy);
	return DONE;
}
