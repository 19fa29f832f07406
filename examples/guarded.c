/* guarded.c: decides requests by a policy. Each request has attributes, and the policy says which limits apply.
 *
 *     guarded POLICY */
#include <stdio.h>
#include <string.h>

#include <weir/guard.h>

enum { ATTRIBUTES_MAX = 8 };

static void print_fault(void *context, const char *line)
{
	(void)context;
	fprintf(stderr, "%s\n", line);
}

/* Each word is NAME=VALUE. A NULL ends the list. */
static int ask(struct weir_guard *guard, weir_ns now, const char *const *words, struct weir_guard_answer *ret_answer)
{
	struct weir_attribute attributes[ATTRIBUTES_MAX];
	struct weir_message why;
	size_t n = 0;
	int error;

	for (; words[n] && n < ATTRIBUTES_MAX; n++) {
		const char *const equal = strchr(words[n], '=');

		attributes[n] = (struct weir_attribute){ words[n], (size_t)(equal - words[n]), equal + 1,
							 strlen(equal + 1) };
	}
	error = weir_guard_check(guard, attributes, n, 1, now, ret_answer, &why);
	if (error != WEIR_OK)
		fprintf(stderr, "%s\n", why.text);
	return error;
}

static int serve(struct weir_guard *guard, weir_ns now)
{
	static const char *const visit[] = { "ip=192.0.2.7", "path=/", NULL };
	static const char *const signup[] = { "ip=192.0.2.8", "path=/%73ignup/", NULL };
	struct weir_guard_answer answer;
	int served = 0, would_deny = 0;

	for (int i = 0; i < 300; i++) {
		if (ask(guard, now, visit, &answer) != WEIR_OK)
			return 1;
		served += answer.verdict.allowed;
	}
	printf("300 visits at once: %d allowed, then denied by %s, retry after %d ms\n", served, answer.decided_by,
	       (int)(answer.verdict.retry_after / 1000000));
	for (int i = 0; i < 8; i++) {
		if (ask(guard, now, signup, &answer) != WEIR_OK || !answer.verdict.allowed)
			return 1;
		would_deny += answer.shadow_denied > 0;
	}
	printf("8 signups: all allowed; %d would be denied if the canary were enforced\n", would_deny);
	return served != 200 || would_deny != 3;
}

int main(int argc, char **argv)
{
	const weir_ns now = 1790000000000000000; /* weir_table_now(table) in your program */
	const struct weir_table_options options = { .size_bytes = weir_table_size(100000, 0) + (1 << 20),
						    .arena_bytes = 1 << 20, /* for sliding logs */
						    .made_at = now };
	struct weir_policy *policy;
	struct weir_table *table;
	struct weir_guard *guard;
	struct weir_message why;
	int result;

	if (argc != 2 || weir_policy_load(argv[1], print_fault, NULL, &policy) != WEIR_OK)
		return 2;
	if (weir_table_new(&options, &table, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		weir_policy_free(policy);
		return 1;
	}
	if (weir_guard_new(table, policy, &guard, &why) != WEIR_OK) { /* the guard owns the policy, also on failure */
		fprintf(stderr, "%s\n", why.text);
		weir_table_free(table);
		return 1;
	}
	result = serve(guard, now);
	weir_guard_free(guard);
	weir_table_free(table);
	return result;
}
