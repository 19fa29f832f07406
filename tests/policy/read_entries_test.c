/* read_entries_test.c: overrides from a CSV file. */
#include <stdlib.h>
#include <unistd.h>

#include "policies.h"
#include "test_folder.h"

static void entries_of_a_file(void)
{
	char folder[TEST_FOLDER_SIZE], path[256], command[300];
	struct weir_policy *policy = NULL;
	FILE *file;

	test_folder_new(folder, "entries");
	(void)sprintf(path, "%s/customers.csv", folder);
	file = fopen(path, "w");
	fputs("api_key,limit,mode\r\nann,1000/s burst 2000,\r\n\"b,\"\"b\",,off\ncarl,5/s,shadow\n\ndora,1000/s burst 2000,\n",
	      file);
	fclose(file);
	(void)sprintf(path, "%s/p.yaml", folder);
	file = fopen(path, "w");
	fputs("limits:\n  - {name: a, key: api_key, limit: 1/s, on_store_failure: {local: 9/s}, overrides_from: customers.csv}\n",
	      file);
	fclose(file);
	reported[0] = '\0';
	CHECK(weir_policy_load(path, report_into, NULL, &policy) == WEIR_OK);
	CHECK_TEXT(reported, "");
	if (policy) {
		CHECK_EQ(weir_policy_plans(policy), 4);
		CHECK_TEXT(failure_of(policy, WORDS("api_key=ann")), "local a~local: 9/s 0ms");
		CHECK_TEXT(applies(policy, WORDS("api_key=ann")), "a|=1000/s burst 2000:enforce:ann:1");
		CHECK_TEXT(applies(policy, WORDS("api_key=dora")), "a|=1000/s burst 2000:enforce:dora:1");
		CHECK_TEXT(applies(policy, WORDS("api_key=b,\"b")), "");
		CHECK_TEXT(applies(policy, WORDS("api_key=carl")), "a|=5/s:shadow:carl:1");
		CHECK_TEXT(applies(policy, WORDS("api_key=emma")), "a:enforce:emma:1");
		weir_policy_free(policy);
	}
	(void)sprintf(path, "%s/customers.csv", folder);
	file = fopen(path, "w");
	fputs("api_key,limit\nann,1/s\nann,2/s\nbob,2/fortnight\ncarl\n", file);
	fclose(file);
	(void)sprintf(path, "%s/p.yaml", folder);
	reported[0] = '\0';
	CHECK(weir_policy_load(path, report_into, NULL, &policy) == WEIR_ERR_SYNTAX);
	CHECK(strstr(reported, "customers.csv:3:1: 'ann': duplicate row\n"));
	CHECK(strstr(reported, "customers.csv:4:7: limit '2/fortnight': "));
	CHECK(strstr(reported,
		     "customers.csv:5:1: 'carl': wrong number of values; use one for each column of the first line\n"));
	(void)sprintf(command, "rm -r %s", folder);
	CHECK(system(command) == 0);
}

/* Overrides in the policy come before the file, whose lines may end in LF or CRLF. */
static void entries_and_overrides(void)
{
	char folder_of_one[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 16];
	struct weir_policy *policy = NULL;

	test_folder_new(folder_of_one, "entries");
	write_file(folder_of_one, "e.csv", "\r\n\r\nuser,limit\r\n\r\n\nann,2/s\r\n\r\nbob,3/s");
	write_file(
		folder_of_one, "p.yaml",
		"limits:\n  - {name: a, limit: 1/s, overrides: [{when: {user: ann}, limit: 9/s}], overrides_from: e.csv}\n");
	(void)sprintf(path, "%s/p.yaml", folder_of_one);
	reported[0] = '\0';
	CHECK_EQ(weir_policy_load(path, report_into, NULL, &policy), WEIR_OK);
	CHECK_TEXT(reported, "");
	if (policy) {
		CHECK_TEXT(applies(policy, WORDS("user=ann")), "a|user=ann:enforce::1");
		CHECK_TEXT(applies(policy, WORDS("user=bob")), "a|=3/s:enforce::1");
		CHECK_TEXT(applies(policy, WORDS("user=carl")), "a:enforce::1");
	}
	weir_policy_free(policy);
	CHECK_EQ(unlink(path), 0);
	(void)sprintf(path, "%s/e.csv", folder_of_one);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(rmdir(folder_of_one), 0);
}

/* A policy of one limit with these entries. */
static struct weir_policy *policy_with(const char *entries)
{
	char place[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 16];
	struct weir_policy *policy = NULL;

	test_folder_new(place, "entries");
	write_file(place, "e.csv", entries);
	write_file(place, "p.yaml",
		   "attributes: {from: {type: ip}}\nlimits:\n  - {name: a, limit: 1/s, overrides_from: e.csv}\n");
	(void)sprintf(path, "%s/p.yaml", place);
	reported[0] = '\0';
	(void)weir_policy_load(path, report_into, NULL, &policy);
	CHECK_EQ(unlink(path), 0);
	(void)sprintf(path, "%s/e.csv", place);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(rmdir(place), 0);
	return policy;
}

/* The name of the plan that applies, or "off". */
static const char *plan_for(const struct weir_policy *policy, const char *const *words)
{
	static struct weir_policy_answer answer;
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	struct weir_message why;

	CHECK(weir_policy_match(policy, attributes, n, 1, &answer, &why) == WEIR_OK);
	return answer.n == 0 ? "off" : weir_policy_plan_of(policy, answer.claims[0].plan)->name;
}

static void addresses_in_any_spelling(void)
{
	static const struct {
		const char *word, *plan;
	} rows[] = {
		{ "ip=1.2.3.4", "a|=7/s" },
		{ "ip=::ffff:1.2.3.4", "a|=7/s" },
		{ "ip=::FFFF:102:304", "a|=7/s" },
		{ "ip=1.2.3.5", "a" },
		{ "ip=\1\2\3\4", "a" },
		{ "ip=2001:db8::1", "a|=8/s" },
		{ "ip=2001:DB8:0::1", "a|=8/s" },
		{ "ip=[2001:db8::1]", "a|=8/s" },
		{ "ip=2001:db8::1%eth0", "a|=8/s" },
		{ "ip=2001:db8::2", "a" },
		{ "ip=192.0.2.9", "off" },
		{ "ip=nothing", "a" },
		{ "ip=", "a" },
	};
	struct weir_policy *const policy = policy_with(
		"ip,limit,mode\n1.2.3.4,7/s,\n[2001:0DB8::0:1],8/s,\n::ffff:192.0.2.9,,off\n");

	CHECK_TEXT(reported, "");
	for (size_t i = 0; policy && i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_TEXT(plan_for(policy, WORDS(rows[i].word)), rows[i].plan);
	weir_policy_free(policy);
}

/* Each column has the type of its attribute. */
static void addresses_beside_other_values(void)
{
	struct weir_policy *const policy = policy_with("host,from,limit\nShop.example,::ffff:192.0.2.1,5/s\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(plan_for(policy, WORDS("host=SHOP.example", "from=192.0.2.1")), "a|=5/s");
	CHECK_TEXT(plan_for(policy, WORDS("host=shop.example", "from=192.0.2.2")), "a");
	CHECK_TEXT(plan_for(policy, WORDS("host=shop.example")), "a");
	weir_policy_free(policy);
}

/* --- mistakes --------------------------------------------------------------------------------------------------- */

static char folder[TEST_FOLDER_SIZE];

/* The errors for these entries in a policy with this beginning, without the folder. */
static const char *told_of(const char *begin, const char *entries)
{
	struct weir_policy *policy = NULL;
	char path[TEST_FOLDER_SIZE + 16], text[2048];

	test_folder_new(folder, "entries");
	write_file(folder, "e.csv", entries);
	(void)sprintf(text, "%slimits: [{name: a, limit: 1/s, overrides_from: e.csv}]\n", begin);
	write_file(folder, "p.yaml", text);
	(void)sprintf(path, "%s/p.yaml", folder);
	reported[0] = '\0';
	(void)weir_policy_load(path, report_into, NULL, &policy);
	weir_policy_free(policy);
	CHECK_EQ(unlink(path), 0);
	(void)sprintf(path, "%s/e.csv", folder);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(rmdir(folder), 0);
	return reported[0] == '/' ? reported + strlen(folder) + 1 : reported;
}

/* Removes the folder from every line. */
static const char *without_folder(const char *told)
{
	static char text[sizeof(reported)];
	const size_t length = strlen(folder) + 1; /* with the slash after it */
	char *to = text;

	for (const char *at = told; *at; at++) {
		*to++ = *at;
		if (*at == '\n' && at[1] == '/')
			at += length;
	}
	*to = '\0';
	return text;
}

static void mistakes_in_a_file(void)
{
	static const struct mistake rows[] = {
		{ "", "e.csv:1:1: wrong first line; name 1 to 4 attributes, and limit, mode or both\n" },
		{ "user\n", "e.csv:1:1: wrong first line; name 1 to 4 attributes, and limit, mode or both\n" },
		{ "a,b,c,d,e,limit,mode\n",
		  "e.csv:1:1: wrong first line; name 1 to 4 attributes, and limit, mode or both\n" },
		{ "a,b,c,d,e,limit\n",
		  "e.csv:1:9: 'e': wrong first line; name 1 to 4 attributes, and limit, mode or both\n" },
		{ "limit,mode\n",
		  "e.csv:1:1: 'limit': wrong first line; name 1 to 4 attributes, and limit, mode or both\n" },
		{ "user,team\n",
		  "e.csv:1:1: 'user': wrong first line; name 1 to 4 attributes, and limit, mode or both\n" },
		{ "us\ter,limit\n",
		  "e.csv:1:1: 'us?er': invalid attribute name; use 1 to 63 bytes without control characters\n" },
		{ "user,mode\nann,on\n", "e.csv:2:5: 'on': unknown mode; use enforce, shadow or off\n" },
		{ "user,limit\nann,0/s\n", "e.csv:2:5: limit '0/s': a count of 0: a rate needs 1 or more\n" },
		{ "user,limit\n\nann,1/s,off\n",
		  "e.csv:3:1: 'ann': wrong number of values; use one for each column of the first line\n" },
		{ "user,team,mode\nann,x,off\nann,x,shadow\n", "e.csv:3:1: 'ann': duplicate row\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_TEXT(told_of("", rows[i].text), rows[i].told);
}

static void mistakes_have_places(void)
{
	static const struct mistake rows[] = {
		{ "ip,limit\n1.2.3.4,1/s\n::ffff:1.2.3.4,2/s\n", "e.csv:3:1: '::ffff:1.2.3.4': duplicate row\n" },
		{ "limit,ip\n1/s,10.0.0.0/8\n2/s,not-an-ip\n3/s,\n",
		  "e.csv:2:5: '10.0.0.0/8': found a network, and a row is for one address; use overrides: [{when: {ip: 10.0.0.0/8}, limit: 5/s}] in the policy\n"
		  "e.csv:3:5: 'not-an-ip': not an address; use one such as 192.0.2.1 or 2001:db8::1\n"
		  "e.csv:4:5: '': not an address; use one such as 192.0.2.1 or 2001:db8::1\n" },
		{ "user,limit,mode\nann,5/s,shadow\nbob,5/s,on\n",
		  "e.csv:3:9: 'on': unknown mode; use enforce, shadow or off\n" },
		{ "user,limit\n\"a\"\"n\nn\",5/s\nb\xc3\xb6"
		  "b,\"0/s\"\n",
		  "e.csv:4:6: limit '0/s': a count of 0: a rate needs 1 or more\n" },
		{ "user,limit\n\"a\nb\",0/s\n", "e.csv:3:4: limit '0/s': a count of 0: a rate needs 1 or more\n" },
		{ "user,limit\n\nann,5/fortnight\n",
		  "e.csv:3:7: limit '5/fortnight': at 2: \"fortnight\": unknown period; use ns, us, ms, s, min, hour, "
		  "day or week, as in 10/30s\n" },
		{ "user,\"\tb\",limit\n",
		  "e.csv:1:7: '?b': invalid attribute name; use 1 to 63 bytes without control characters\n" },
		{ "b,c,d,e,f,limit\n",
		  "e.csv:1:9: 'f': wrong first line; name 1 to 4 attributes, and limit, mode or both\n" },
		{ "user\n", "e.csv:1:1: wrong first line; name 1 to 4 attributes, and limit, mode or both\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_TEXT(without_folder(told_of("", rows[i].text)), rows[i].told);
}

static void entries_that_are_too_long(void)
{
	char text[4096], value[1100], expected[256];

	memset(value, 'x', sizeof(value));
	(void)sprintf(text, "user,mode\n%.1024s,off\n", value);
	(void)sprintf(expected, "e.csv:2:1: '%.80s': value too long; use at most 1000 bytes\n", value);
	CHECK_TEXT(told_of("", text), expected);
	(void)sprintf(text, "user,team,mode\n%.600s,%.600s,off\n", value, value);
	(void)sprintf(expected, "e.csv:2:1: '%.80s': no memory for this row, or its values are too long\n", value);
	CHECK_TEXT(told_of("", text), expected);
}

static void so_many_attributes(void)
{
	char attributes[1024] = "attributes: {";

	for (int i = 0; i < 28; i++) /* ip, path and host are predefined, so one more fits */
		(void)sprintf(attributes + strlen(attributes), "a%d: {}, ", i);
	strcat(attributes, "}\n");
	CHECK_TEXT(told_of(attributes, "user,limit\nann,1/s\n"), "");
	CHECK_TEXT(told_of(attributes, "user,team,limit\n"),
		   "e.csv:1:6: 'team': too many attributes; a policy has at most 32\n");
}

/* Entries with the same limit share a plan, so there are few plans. */
static void so_many_limits(void)
{
	static char text[1 << 17];
	char *at = stpcpy(text, "user,limit\n");

	for (int i = 1; i <= 4096; i++)
		at += sprintf(at, "u%d,%d/s\n", i, i);
	CHECK_TEXT(told_of("", text), "");
	strcpy(at, "v,4096/s\nw,4097/s\n");
	CHECK_TEXT(told_of("", text),
		   "e.csv:4099:3: '4097/s': too many limits; a file has at most 4096 different ones\n");
}

static void files_that_are_none(void)
{
	static const char unnamed[] = "limits: [{name: a, limit: 1/s, overrides_from: e.csv}]";
	static const struct mistake rows[] = {
		{ "limits: [{name: a, limit: 1/s, overrides_from: [e.csv]}]",
		  "p.yaml:1:48: found a list; overrides_from, the path of a file, must be a string\n" },
		{ "limits: [{name: a, limit: 1/s, overrides_from: /nowhere/at/all.csv}]",
		  "p.yaml:1:48: /nowhere/at/all.csv: No such file or directory\n" },
	};
	char text[4300] = "limits: [{name: a, limit: 1/s, overrides_from: ";
	struct weir_policy *policy = NULL;

	CHECK_MISTAKES(rows);
	memset(text + strlen(text), 'x', 4096);
	CHECK(policy_of(strcat(text, "}]")) == NULL);
	CHECK_TEXT(reported, "p.yaml:1:48: path too long\n");
	reported[0] = '\0';
	CHECK_EQ(weir_policy_read(unnamed, strlen(unnamed), NULL, report_into, NULL, &policy), WEIR_ERR_SYNTAX);
	CHECK_TEXT(reported, "policy:1:48: overrides_from works only in a policy that is a file\n");
}

TESTS(TEST(entries_of_a_file), TEST(entries_and_overrides), TEST(addresses_in_any_spelling),
      TEST(addresses_beside_other_values), TEST(mistakes_in_a_file), TEST(mistakes_have_places),
      TEST(entries_that_are_too_long), TEST(so_many_attributes), TEST(so_many_limits), TEST(files_that_are_none))
