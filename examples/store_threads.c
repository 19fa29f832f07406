/* store_threads.c: a policy in front of Redis, from the threads of a program. Any number of such programs can share
 * the limits. If Redis fails, each program decides by its share.
 *
 *     store_threads URL POLICY */
#include <pthread.h>
#include <stdio.h>

#include <weir/guard.h>

enum { THREADS = 4, REQUESTS = 50 };

struct worker {
	pthread_t thread;
	struct weir_guard *guard;
	int allowed, denied, failed;
};

static void print_fault(void *context, const char *line)
{
	(void)context;
	fprintf(stderr, "%s\n", line);
}

/* Each call blocks until Redis has decided. Calls of several threads are sent together. */
static void *serve(void *worker_)
{
	static const struct weir_attribute request[] = { { "ip", 2, "192.0.2.7", 9 }, { "path", 4, "/", 1 } };
	struct worker *const worker = worker_;

	for (int i = 0; i < REQUESTS; i++) {
		struct weir_guard_answer answer;

		if (weir_guard_check(worker->guard, request, 2, 1, weir_clock_now(), &answer, NULL) != WEIR_OK)
			worker->failed++;
		else if (answer.verdict.allowed)
			worker->allowed++;
		else
			worker->denied++;
	}
	return NULL;
}

static int run(struct weir_guard *guard)
{
	struct worker workers[THREADS];
	int allowed = 0, denied = 0, failed = 0;

	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .guard = guard };
		if (pthread_create(&workers[i].thread, NULL, serve, &workers[i]) != 0)
			return 1;
	}
	for (int i = 0; i < THREADS; i++) {
		(void)pthread_join(workers[i].thread, NULL);
		allowed += workers[i].allowed;
		denied += workers[i].denied;
		failed += workers[i].failed;
	}
	printf("%d requests of one client: %d allowed, %d denied, %d failed\n", THREADS * REQUESTS, allowed, denied,
	       failed);
	return allowed + denied != THREADS * REQUESTS;
}

int main(int argc, char **argv)
{
	const struct weir_store_options options = { .on_failure = WEIR_STORE_FAILURE_SHARE };
	const weir_ns patience = 5000000000;
	struct weir_policy *policy;
	struct weir_store *store;
	struct weir_guard *guard;
	struct weir_message why;
	int result;

	if (argc != 3 || weir_policy_load(argv[2], print_fault, NULL, &policy) != WEIR_OK)
		return 2;
	if (weir_store_redis(argv[1], &options, &store, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		weir_policy_free(policy);
		return 1;
	}
	if (weir_store_wait(store, patience, &why) != WEIR_OK) /* not fatal: the program also works without Redis */
		fprintf(stderr, "%s\n", why.text);
	if (weir_guard_new_on(store, policy, &guard, &why) != WEIR_OK) { /* it owns the policy, also on failure */
		fprintf(stderr, "%s\n", why.text);
		weir_store_free(store);
		return 1;
	}
	result = run(guard);
	weir_guard_free(guard);
	weir_store_free(store);
	return result;
}
