/* policy_random_test.c: random requests to random policies, compared with the simplest possible matcher: every limit,
 * every condition, one after the other.
 *
 *     policy_random_test [REQUESTS] */
#include "policies.h"

#include <stdlib.h>

#include "policy/policy.h"

enum { LIMITS_MAX = 60, CONDITIONS_MAX = 3, VALUES_MAX = 3, TEXT = 1 << 16, REQUESTS_A_POLICY = 100 };

static uint64_t state = 88172645463325252u;

static uint32_t any(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % below;
}

static const char *const names[] = { "plan", "ip", "path", "method", "tag" };
static const char *const of_plan[] = { "gold", "silver", "free", "go", "" };
static const char *const of_ip[] = { "10.0.0.1", "10.1.0.1", "192.0.2.1", "2001:db8::1", "2001:db8:1::1", "::1", "x" };
static const char *const of_path[] = { "/", "/a", "/a/b", "/a/b/c", "/b", "/b/a", "/a/c", "/ab" };
static const char *const of_method[] = { "GET", "POST", "PUT" };
static const char *const of_tag[] = { "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9" };
static const char *const *const values_of[] = { of_plan, of_ip, of_path, of_method, of_tag };
static const uint32_t n_values_of[] = { 5, 7, 8, 3, 10 };

static const char *const nets[] = { "10.0.0.0/8",    "10.0.0.0/16", "0.0.0.0/0",      "192.0.2.1",
				    "2001:db8::/32", "::/0",        "2001:db8:1::/48" };
static const char *const path_patterns[] = { "/a", "/a/*", "/a/**", "/**", "/*", "/a/**/c", "/**/a", "/a*", "/*/b" };
static const char *const texts[] = { "gold", "g*", "*", "*d", "free", "t1", "t*", "GET", "P*T", "t2" };

struct condition {
	uint32_t attribute, n;
	const char *values[VALUES_MAX];
	int how; /* 0 plain, 1 not, 2 present, 3 absent, 4 prefix */
};

struct limit {
	uint32_t n;
	struct condition conditions[CONDITIONS_MAX];
	int key; /* an attribute, or -1 */
};

static struct limit limits[LIMITS_MAX];
static uint32_t n_limits;

/* --- the simplest matcher ---------------------------------------------------------------------------------------- */

static bool glob(const char *pattern, const char *text)
{
	if (*pattern == '*')
		return glob(pattern + 1, text) || (*text && glob(pattern, text + 1));
	return *pattern == *text && (*text == '\0' || glob(pattern + 1, text + 1));
}

/* By definition: ** is any number of segments. */
static bool path_glob(const char *pattern, const char *path)
{
	char wanted[32], segment[32];
	const char *end;

	if (strncmp(pattern, "/**", 3) == 0 && (pattern[3] == '/' || pattern[3] == '\0')) {
		if (path_glob(pattern + 3, path))
			return true;
		if (*path == '\0')
			return false;
		end = strchr(path + 1, '/');
		return path_glob(pattern, end ? end : path + strlen(path));
	}
	if (*pattern == '\0' || *path == '\0')
		return *pattern == *path;
	end = strchr(pattern + 1, '/');
	end = end ? end : pattern + strlen(pattern);
	(void)snprintf(wanted, sizeof(wanted), "%.*s", (int)(end - pattern - 1), pattern + 1);
	pattern = end;
	end = strchr(path + 1, '/');
	end = end ? end : path + strlen(path);
	(void)snprintf(segment, sizeof(segment), "%.*s", (int)(end - path - 1), path + 1);
	return glob(wanted, segment) && path_glob(pattern, end);
}

/* Knows only the addresses above. */
static bool in_net(const char *net, const char *ip)
{
	const bool is_v6 = strchr(net, ':') != NULL;

	if (strcmp(ip, "x") == 0 || is_v6 != (strchr(ip, ':') != NULL))
		return false;
	if (strcmp(net, "0.0.0.0/0") == 0 || strcmp(net, "::/0") == 0)
		return true;
	if (strcmp(net, "10.0.0.0/8") == 0)
		return strncmp(ip, "10.", 3) == 0;
	if (strcmp(net, "10.0.0.0/16") == 0)
		return strncmp(ip, "10.0.", 5) == 0;
	if (strcmp(net, "2001:db8::/32") == 0)
		return strncmp(ip, "2001:db8:", 9) == 0;
	if (strcmp(net, "2001:db8:1::/48") == 0)
		return strncmp(ip, "2001:db8:1:", 11) == 0;
	return strcmp(net, ip) == 0;
}

static bool fits(const struct condition *condition, const char *pattern, const char *value)
{
	if (condition->how == 4)
		return strncmp(value, pattern, strlen(pattern)) == 0;
	switch (condition->attribute) {
	case 1:
		return in_net(pattern, value);
	case 2:
		/* "/" alone has no segments */
		return path_glob(strcmp(pattern, "/") == 0 ? "" : pattern, strcmp(value, "/") == 0 ? "" : value);
	default:
		return glob(pattern, value);
	}
}

static bool holds(const struct condition *condition, const char *const request[])
{
	const char *const value = request[condition->attribute];
	bool one = false;

	if (condition->how >= 2 && condition->how <= 3)
		return (value != NULL) == (condition->how == 2);
	if (value == NULL)
		return false;
	for (uint32_t i = 0; i < condition->n; i++)
		one = one || fits(condition, condition->values[i], value);
	return one != (condition->how == 1);
}

static bool does_apply(const struct limit *limit, const char *const request[])
{
	for (uint32_t i = 0; i < limit->n; i++)
		if (!holds(&limit->conditions[i], request))
			return false;
	return limit->key < 0 || request[limit->key];
}

/* --- random policies -------------------------------------------------------------------------------------------- */

static struct condition any_condition(uint32_t attribute)
{
	struct condition condition = { .attribute = attribute, .how = (int)any(8) };

	if (condition.how > 4 || (condition.how == 4 && attribute == 1))
		condition.how = 0;
	condition.n = 1 + any(VALUES_MAX);
	for (uint32_t i = 0; i < condition.n; i++)
		if (attribute == 1)
			condition.values[i] = nets[any(7)];
		else if (condition.how == 4) /* a prefix has no stars */
			condition.values[i] = attribute == 2 ? of_path[any(8)] :
					      attribute == 4 ? "t" :
							       of_method[any(3)];
		else if (attribute == 2)
			condition.values[i] = any(2) ? path_patterns[any(9)] : of_path[any(8)];
		else
			condition.values[i] = any(2) ? texts[any(10)] :
						       values_of[attribute][any(n_values_of[attribute])];
	return condition;
}

static void write_condition(const struct condition *condition, char *text)
{
	char list[256] = "[";

	for (uint32_t i = 0; i < condition->n; i++)
		(void)sprintf(list + strlen(list), "%s'%s'", i ? ", " : "", condition->values[i]);
	strcat(list, "]");
	text += strlen(text);
	if (condition->how >= 2 && condition->how <= 3)
		(void)sprintf(text, "%s: {present: %s}", names[condition->attribute],
			      condition->how == 2 ? "true" : "false");
	else if (condition->how == 1 || condition->how == 4)
		(void)sprintf(text, "%s: {%s: %s}", names[condition->attribute], condition->how == 1 ? "not" : "prefix",
			      list);
	else
		(void)sprintf(text, "%s: %s", names[condition->attribute], list);
}

/* At most 16 limits, so that no more can apply. A tenth of the policies has many more, with tags, and a request has one
 * tag. */
static struct weir_policy *any_policy(void)
{
	static char text[TEXT];
	const bool is_large = any(10) == 0;

	n_limits = is_large ? LIMITS_MAX : 1 + any(16);
	strcpy(text, "limits:\n");
	for (uint32_t i = 0; i < n_limits; i++) {
		struct limit *const limit = &limits[i];
		const uint32_t first = any(5);

		limit->n = any(CONDITIONS_MAX + 1);
		limit->key = (int)any(6) - 1;
		(void)sprintf(text + strlen(text), "  - {name: l%u, limit: 1/s, match: {", i);
		for (uint32_t k = 0; k < limit->n; k++) {
			limit->conditions[k] = any_condition((first + k) % 5);
			strcat(text, k ? ", " : "");
			write_condition(&limit->conditions[k], text);
		}
		if (is_large) { /* six with each tag */
			bool has_tag = false;

			for (uint32_t k = 0; k < limit->n; k++)
				has_tag = has_tag || limit->conditions[k].attribute == 4;
			if (has_tag || limit->n == CONDITIONS_MAX) {
				limit->n = 0;
				*strrchr(text, '{') = '\0';
				while (text[strlen(text) - 1] != ' ' ||
				       strncmp(text + strlen(text) - 7, "match: ", 7) != 0)
					*strrchr(text, '{') = '\0';
				strcat(text, "{");
			}
			limit->conditions[limit->n] = (struct condition){ 4, 1, { of_tag[i % 10] }, 0 };
			strcat(text, limit->n ? ", " : "");
			write_condition(&limit->conditions[limit->n++], text);
		}
		strcat(text, "}");
		if (limit->key >= 0)
			(void)sprintf(text + strlen(text), ", key: [%s]", names[limit->key]);
		strcat(text, "}\n");
	}
	return policy_of(text);
}

static bool agrees(const struct weir_policy *policy)
{
	static struct weir_policy_answer answer;
	struct weir_attribute attributes[5];
	const char *request[5];
	struct weir_message why;
	size_t n = 0, found = 0;

	for (uint32_t i = 0; i < 5; i++) {
		request[i] = any(4) ? values_of[i][any(n_values_of[i])] : NULL;
		if (request[i])
			attributes[n++] = (struct weir_attribute){ names[i], strlen(names[i]), request[i],
								   strlen(request[i]) };
	}
	if (weir_policy_match(policy, attributes, n, 1, &answer, &why) != WEIR_OK)
		return false;
	for (uint32_t i = 0; i < n_limits; i++) {
		const bool is_found = found < answer.n && answer.claims[found].limit == i;

		if (is_found != does_apply(&limits[i], request))
			return false;
		found += is_found;
	}
	return found == answer.n;
}

static uint64_t requests = 10000;

static void all_agree(void)
{
	uint64_t wrong = 0;

	for (uint64_t done = 0; done < requests; done += REQUESTS_A_POLICY) {
		struct weir_policy *const policy = any_policy();

		if (policy == NULL) {
			check_fail(__FILE__, __LINE__, reported);
			return;
		}
		if (any(2)) /* as in a very large policy */
			weir__rules_make_cache(&policy->rules, &policy->pool);
		for (int i = 0; i < REQUESTS_A_POLICY; i++)
			wrong += !agrees(policy);
		weir_policy_free(policy);
	}
	CHECK_EQ(wrong, 0);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = { TEST(all_agree) };

	if (argc > 1)
		requests = strtoull(argv[1], NULL, 10);
	return check_run(tests, 1);
}
