/* http_in_process.c: an HTTP service with the policy and the table in its own memory. A decision is a function call.
 * http_asking.c is the same with a server, which several processes can share.
 *
 *     http_in_process POLICY PORT */
#include <stdio.h>
#include <string.h>

#include <weir/guard.h>

#include "http_service.h"

struct limiter {
	struct weir_table *table;
	struct weir_guard *guard;
};

/* Whole seconds, rounded up. */
static unsigned long long seconds_up(weir_ns span)
{
	return span / 1000000000 + (span % 1000000000 != 0);
}

static void deny(const struct weir_guard_answer *answer, struct service_answer *ret_answer)
{
	const size_t n = strlen(ret_answer->headers);

	ret_answer->status = 429;
	if (!answer->verdict.never)
		(void)snprintf(ret_answer->headers + n, sizeof(ret_answer->headers) - n, "Retry-After: %llu\r\n",
			       seconds_up(answer->verdict.retry_after));
	/* The name needs no escapes: a policy allows only letters, digits and -_./: */
	(void)snprintf(ret_answer->body, sizeof(ret_answer->body),
		       "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"status\":429,"
		       "\"title\":\"Too Many Requests\",\"violated-policies\":[\"%s\"]}\n",
		       answer->decided_by);
}

static void limit(void *context, const struct service_request *request, struct service_answer *ret_answer)
{
	const struct limiter *const limiter = context;
	const struct weir_attribute attributes[] = {
		{ "ip", 2, request->ip, strlen(request->ip) },
		{ "method", 6, request->method, strlen(request->method) },
		{ "path", 4, request->path, strlen(request->path) },
		{ "api_key", 7, request->api_key, request->api_key ? strlen(request->api_key) : 0 },
	};
	const struct weir_verdict *verdict;
	struct weir_guard_answer answer;
	struct weir_message why;

	if (weir_guard_check(limiter->guard, attributes, request->api_key ? 4 : 3, 1, weir_table_now(limiter->table),
			     &answer, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		ret_answer->status = 400;
		return;
	}
	verdict = &answer.verdict;
	if (answer.is_limited)
		(void)snprintf(ret_answer->headers, sizeof(ret_answer->headers), "RateLimit: \"%s\";r=%llu;t=%llu\r\n",
			       answer.decided_by, (unsigned long long)verdict->remaining,
			       seconds_up(verdict->allowed ? verdict->reset_after : verdict->retry_after));
	if (!verdict->allowed)
		deny(&answer, ret_answer);
}

static void print_fault(void *context, const char *line)
{
	(void)context;
	fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(100000, 0) };
	struct limiter limiter;
	struct weir_policy *policy;
	struct weir_message why;
	int result;

	if (argc != 3) {
		fprintf(stderr, "usage: http_in_process POLICY PORT\n");
		return 2;
	}
	if (weir_policy_load(argv[1], print_fault, NULL, &policy) != WEIR_OK)
		return 2;
	if (weir_table_new(&options, &limiter.table, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		weir_policy_free(policy);
		return 1;
	}
	if (weir_guard_new(limiter.table, policy, &limiter.guard, &why) != WEIR_OK) { /* the guard owns the policy */
		fprintf(stderr, "%s\n", why.text);
		weir_table_free(limiter.table);
		return 1;
	}
	result = service_run(argv[2], limit, &limiter);
	weir_guard_free(limiter.guard);
	weir_table_free(limiter.table);
	return result;
}
