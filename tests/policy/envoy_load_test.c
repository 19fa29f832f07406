/* envoy_load_test.c: configurations of Envoy's ratelimit service, loaded from files. */
/* Covers: src/os/text_file.c */
#include <stdlib.h>
#include <unistd.h>

#include "envoys.h"
#include "test_folder.h"

static void a_directory_of_domains(void)
{
	char folder[TEST_FOLDER_SIZE], command[300], path[256], expected[1024];
	struct weir_policy *policy = NULL;

	test_folder_new(folder, "envoy");
	reported[0] = '\0';
	CHECK_EQ(weir_policy_load(folder, report_into, NULL, &policy), WEIR_ERR_SYNTAX);
	CHECK(strstr(reported, ":0:0: no .yaml or .yml file found; add one for each domain\n"));
	write_file(folder, "b.yaml",
		   "domain: b\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 2}}]\n");
	write_file(folder, "a.yml",
		   "domain: a\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 1}}]\n");
	write_file(folder, ".c.yaml", "nothing: of ours\n");
	write_file(folder, "notes.txt", "nothing: of ours\n");
	reported[0] = '\0';
	CHECK_EQ(weir_policy_load(folder, report_into, NULL, &policy), WEIR_OK);
	CHECK_TEXT(reported, "");
	if (policy) {
		CHECK_TEXT(claims_of(policy, "a", WORDS("k=1")), "a|k: 1/s fixed_window");
		CHECK_TEXT(claims_of(policy, "b", WORDS("k=1")), "b|k: 2/s fixed_window");
		CHECK_TEXT(weir_policy_plan_of(policy, 0)->name, "a|k");
	}
	weir_policy_free(policy);
	(void)sprintf(path, "%s/b.yaml", folder); /* a single file is recognised by its `domain` */
	CHECK_EQ(weir_policy_load(path, report_into, NULL, &policy), WEIR_OK);
	CHECK(policy && weir_policy_plans(policy) == 1);
	weir_policy_free(policy);

	write_file(folder, "c.yaml",
		   "domain: a\ndescriptors: [{key: m, value: '*', rate_limit: {unit: day, requests_per_unit: 3}}]\n");
	reported[0] = '\0';
	CHECK_EQ(weir_policy_load_envoy(folder, 0, report_into, NULL, &policy), WEIR_ERR_SYNTAX);
	(void)sprintf(expected, "%s/c.yaml:1:1: duplicate domain 'a'; it was first given in %s/a.yml:1\n", folder,
		      folder);
	CHECK_TEXT(reported, expected);
	reported[0] = '\0';
	CHECK_EQ(weir_policy_load_envoy(folder, WEIR_ENVOY_MERGE_DOMAINS, report_into, NULL, &policy), WEIR_OK);
	if (policy)
		CHECK_TEXT(claims_of(policy, "a", WORDS("k=1", "m=1")),
			   "a|k: 1/s fixed_window; a|m_*: 3/day fixed_window");
	weir_policy_free(policy);
	CHECK_EQ(weir_policy_load_envoy("/nowhere/at/all", 0, report_into, NULL, &policy), WEIR_ERR_SYSTEM);
	CHECK_TEXT(reported, "/nowhere/at/all:0:0: No such file or directory\n");
	(void)sprintf(command, "rm -r %s", folder);
	CHECK(system(command) == 0);
}

static void files_that_are_wrong(void)
{
	char folder[TEST_FOLDER_SIZE], command[300], path[256], expected[1024];
	struct weir_policy *policy = NULL;

	test_folder_new(folder, "envoy");
	write_file(folder, "a.yaml", "domain: a\ndescriptors: 5\n");
	write_file(folder, "b.yaml", "domain: [\n");
	write_file(folder, "c.yaml", "domain: c\n");
	reported[0] = '\0';
	CHECK_EQ(weir_policy_load_envoy(folder, 0, report_into, NULL, &policy), WEIR_ERR_SYNTAX);
	(void)sprintf(expected,
		      "%s/a.yaml:2:14: found a string; descriptors must be a list\n%s/b.yaml:2:1: not valid YAML: ",
		      folder, folder);
	CHECK(strncmp(reported, expected, strlen(expected)) == 0);
	CHECK(strstr(reported, "c.yaml") == NULL);
	/* a file that cannot be read */
	(void)sprintf(path, "%s/a.yaml", folder);
	CHECK(unlink(path) == 0 && symlink("nowhere", path) == 0);
	write_file(folder, "b.yaml", "domain: b\n");
	reported[0] = '\0';
	CHECK_EQ(weir_policy_load_envoy(folder, 0, report_into, NULL, &policy), WEIR_ERR_SYSTEM);
	(void)sprintf(expected, "%s/a.yaml:0:0: No such file or directory\n", folder);
	CHECK_TEXT(reported, expected);
	CHECK(policy == NULL);
	(void)sprintf(command, "rm -r %s", folder);
	CHECK(system(command) == 0);
}

TESTS(TEST(a_directory_of_domains), TEST(files_that_are_wrong))
