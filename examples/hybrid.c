/* hybrid.c: two limits in one decision. A token bucket for each client absorbs its bursts. A leaky queue for all clients
 * spaces the requests that reach the database. Time is simulated, so every run prints the same.
 *
 *     hybrid POLICY */
#include <stdio.h>
#include <string.h>

#include <weir/guard.h>

#define MS(n) ((weir_ns)(n)*1000000)

enum { EDGE, DATABASE, STAGES };

/* A number of requests of one client at one instant. */
struct burst {
	unsigned at_ms;
	const char *client;
	unsigned requests;
};

static const struct burst traffic[] = {
	{ 0, "ann", 9 }, { 50, "bob", 3 }, { 60, "carl", 4 }, { 500, "ann", 2 }, { 1000, "ann", 1 }, { 3000, "bob", 5 },
};

struct outcome {
	unsigned at_once, later, denied[STAGES];
	weir_ns longest;
};

static void print_fault(void *context, const char *line)
{
	(void)context;
	fprintf(stderr, "%s\n", line);
}

static int send_burst(struct weir_guard *guard, const struct burst *burst, weir_ns now, struct outcome *ret_outcome)
{
	const struct weir_attribute client = { "client", strlen("client"), burst->client, strlen(burst->client) };
	struct weir_guard_answer answer;
	struct weir_message why;

	*ret_outcome = (struct outcome){ 0 };
	for (unsigned i = 0; i < burst->requests; i++) {
		if (weir_guard_check(guard, &client, 1, 1, now, &answer, &why) != WEIR_OK) {
			fprintf(stderr, "%s\n", why.text);
			return 1;
		}
		if (!answer.verdict.allowed) /* denied at once, and charged nowhere */
			ret_outcome->denied[strcmp(answer.decided_by, "edge") == 0 ? EDGE : DATABASE]++;
		else if (answer.verdict.delay == 0)
			ret_outcome->at_once++;
		else
			ret_outcome->later++;
		if (answer.verdict.allowed && answer.verdict.delay > ret_outcome->longest)
			ret_outcome->longest = answer.verdict.delay;
	}
	return 0;
}

static int play(struct weir_guard *guard, weir_ns start)
{
	unsigned admitted = 0, denied[STAGES] = { 0 };

	printf("   time  client  sent   at once  delayed  longest  denied by edge  by database\n");
	for (size_t i = 0; i < sizeof(traffic) / sizeof(traffic[0]); i++) {
		const struct burst *const burst = &traffic[i];
		struct outcome outcome;

		if (send_burst(guard, burst, start + MS(burst->at_ms), &outcome) != 0)
			return 1;
		printf("%4u ms  %-6s  %5u  %7u  %7u  %4u ms  %14u  %11u\n", burst->at_ms, burst->client,
		       burst->requests, outcome.at_once, outcome.later, (unsigned)(outcome.longest / MS(1)),
		       outcome.denied[EDGE], outcome.denied[DATABASE]);
		admitted += outcome.at_once + outcome.later;
		denied[EDGE] += outcome.denied[EDGE];
		denied[DATABASE] += outcome.denied[DATABASE];
	}
	printf("%u allowed, %u denied at the edge, %u to protect the database\n", admitted, denied[EDGE],
	       denied[DATABASE]);
	return admitted == 0 || denied[EDGE] == 0 || denied[DATABASE] == 0;
}

int main(int argc, char **argv)
{
	const weir_ns start = 1790000000000000000;
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0), .made_at = start };
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
	if (weir_guard_new(table, policy, &guard, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		weir_table_free(table);
		return 1;
	}
	result = play(guard, start);
	weir_guard_free(guard);
	weir_table_free(table);
	return result;
}
