/* entries_test.c: overrides from a file with millions of entries. Each is found in a few probes, however many there
 * are. The test counts probes in the hash table, so it needs no clock.
 *
 *     entries_test [ENTRIES] */
#include <stdlib.h>
#include <unistd.h>

#include "policies.h"
#include "policy/policy.h"
#include "test_folder.h"

enum { FEW = 1000, NAME = 32 };

static uint64_t entries = 100000;
static char folder[TEST_FOLDER_SIZE];

static const char *const plans[] = { "100/s", "200/s burst 300", "50/s leaky queue 10", "" };
static const char *const names[] = { "a|=100/s", "a|=200/s burst 300", "a|=50/s leaky queue 10" };

static FILE *create(const char *name)
{
	char path[TEST_FOLDER_SIZE + 16];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (file == NULL) {
		perror(path);
		exit(1);
	}
	return file;
}

static void name_customer(char name[NAME], uint64_t number)
{
	(void)snprintf(name, NAME, "customer-%" PRIu64, number);
}

/* Every fourth one is off. */
static struct weir_policy *load(uint64_t n)
{
	struct weir_policy *policy = NULL;
	char path[TEST_FOLDER_SIZE + 16], name[NAME];
	FILE *file = create("customers.csv");

	fputs("api_key,limit,mode\n", file);
	for (uint64_t i = 0; i < n; i++) {
		name_customer(name, i);
		fprintf(file, "%s,%s,%s\n", name, plans[i % 4], i % 4 == 3 ? "off" : "");
	}
	CHECK(fclose(file) == 0);
	file = create("p.yaml");
	fputs("limits:\n  - {name: a, key: api_key, limit: 1/s, overrides_from: customers.csv}\n", file);
	CHECK(fclose(file) == 0);
	(void)snprintf(path, sizeof(path), "%s/p.yaml", folder);
	reported[0] = '\0';
	CHECK(weir_policy_load(path, report_into, NULL, &policy) == WEIR_OK);
	CHECK_TEXT(reported, "");
	return policy;
}

/* The name of the plan that applies to a customer, or "off". */
static const char *plan_of(const struct weir_policy *policy, uint64_t number)
{
	static struct weir_policy_answer answer;
	struct weir_message why;
	char name[NAME];
	struct weir_attribute key;

	name_customer(name, number);
	key = (struct weir_attribute){ "api_key", 7, name, strlen(name) };
	if (weir_policy_match(policy, &key, 1, 1, &answer, &why) != WEIR_OK)
		return why.text[0] ? "an error" : "";
	return answer.n == 0 ? "off" : weir_policy_plan_of(policy, answer.claims[0].plan)->name;
}

static void all_are_found(void)
{
	struct weir_policy *const policy = load(entries);
	uint64_t wrong = 0;

	if (policy == NULL)
		return;
	CHECK_EQ(weir_policy_plans(policy), 4);
	CHECK_EQ(policy->limits[0].entries.n, entries);
	for (uint64_t i = 0; i < entries; i++)
		wrong += strcmp(plan_of(policy, i), i % 4 == 3 ? "off" : names[i % 4]) != 0;
	for (uint64_t i = entries; i < 2 * entries; i++)
		wrong += strcmp(plan_of(policy, i), "a") != 0;
	CHECK_EQ(wrong, 0);
	weir_policy_free(policy);
}

/* Probes: the averages, in hundredths, to find an entry and to miss one; and the maximum. */
struct looks {
	uint64_t there, absent, most;
};

static struct looks count_looks(const struct weir__entries *in)
{
	struct looks looks = { 0, 0, 0 };
	uint64_t run = 0; /* length of the run of used places that starts here */

	for (uint64_t i = 0; i < in->size; i++) {
		const struct weir__entry *const entry = &in->of[i];

		if (entry->key.at) {
			const uint64_t home = weir__policy_hash(1, entry->key.at, entry->key.n) & (in->size - 1);
			const uint64_t needed = ((i - home) & (in->size - 1)) + 1;

			looks.there += needed;
			looks.most = needed > looks.most ? needed : looks.most;
		}
	}
	for (uint64_t i = 2 * in->size; i-- > 0;) { /* twice, because runs wrap around */
		run = in->of[i & (in->size - 1)].key.at ? run + 1 : 0;
		looks.absent += i < in->size ? run + 1 : 0;
	}
	looks.there = looks.there * 100 / in->n;
	looks.absent = looks.absent * 100 / in->size;
	return looks;
}

/* A table that is at most half full needs 1.5 probes on average for a hit and 2.5 for a miss, at any size. */
static void few_looks_of_any_size(void)
{
	const uint64_t sizes[] = { FEW, entries };

	for (int i = 0; i < 2; i++) {
		struct weir_policy *const policy = load(sizes[i]);
		struct looks looks;

		if (policy == NULL)
			return;
		looks = count_looks(&policy->limits[0].entries);
		CHECK(looks.there >= 100 && looks.there <= 165);
		CHECK(looks.absent >= 100 && looks.absent <= 275);
		CHECK(looks.most <= 256);
		weir_policy_free(policy);
	}
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = { TEST(all_are_found), TEST(few_looks_of_any_size) };
	char path[TEST_FOLDER_SIZE + 16];
	int result;

	if (argc > 1)
		entries = strtoull(argv[1], NULL, 10);
	test_folder_new(folder, "entries");
	result = check_run(tests, sizeof(tests) / sizeof(tests[0]));
	(void)snprintf(path, sizeof(path), "%s/customers.csv", folder);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/p.yaml", folder);
	(void)unlink(path);
	(void)rmdir(folder);
	return result;
}
