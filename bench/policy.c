/* policy.c: measures how long it takes to find the limits of a request and to decide it. Prints one line of JSON.
 * bench/policy.py runs it.
 *
 *     policy decide OPTION...   weir_guard_check
 *     policy match OPTION...    weir_policy_match alone
 *     policy load OPTION...     weir_policy_read and weir_guard_new
 *     policy swap OPTION...     the longest decision of 2 threads while policies are replaced
 *
 *     --limits N    limits of the policy (1000)
 *     --met N       limits that apply to each request (1)
 *     --swaps N     for `swap`: number of replacements (100); 0: run for --seconds without any
 *     --seconds S, --count N, --threads N: see workers.h
 *
 * Requests are random ones of REQUESTS different requests, for any number of limits. They differ in address, path and
 * tenant, and each tenant has its own limits. All keys are in the table before the measurement. */
#include <weir/guard.h>

#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "keys.h"
#include "workers.h"

enum { REQUESTS = 100000, BATCH = 1000, ATTRIBUTES = 5, DECIDERS = 2, TEXT = 40, WATCHED = 16 };

struct subject {
	uint32_t limits, met, swaps;
	struct weir_table *table;
	struct weir_guard *guard;
	struct weir_policy *policy; /* for `match` */
	uint64_t states[WORKERS_MAX];
};

static uint32_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)((*state >> 32) * REQUESTS >> 32);
}

/* --- policies ------------------------------------------------------------------------------------------------------- */

/* Every tenth limit has a different rate in odd versions. */
static char *write_policy(uint32_t limits, uint32_t met, uint32_t version, size_t *ret_length)
{
	char *text;
	FILE *const file = open_memstream(&text, ret_length);

	if (file == NULL)
		err(1, "open_memstream");
	fprintf(file, "limits:\n");
	for (uint32_t i = 0; i < limits; i++)
		fprintf(file,
			"  - name: limit-%" PRIu32 "\n"
			"    key: [ip]\n"
			"    match: {tenant: tenant-%08" PRIu32 ", path: /v1/**}\n"
			"    limit: %d/s\n",
			i, i / met, i % 10 == 0 && version % 2 ? 900000 : 1000000);
	if (fclose(file) != 0)
		err(1, "no memory for a policy");
	return text;
}

static void complain(void *context, const char *line)
{
	(void)context;
	warnx("%s", line);
}

static struct weir_policy *read_policy(const char *text, size_t length)
{
	struct weir_policy *policy;

	if (weir_policy_read(text, length, NULL, complain, NULL, &policy) != WEIR_OK)
		exit(1);
	return policy;
}

static struct weir_policy *make_policy(const struct subject *subject, uint32_t version)
{
	size_t length;
	char *const text = write_policy(subject->limits, subject->met, version, &length);
	struct weir_policy *const policy = read_policy(text, length);

	free(text);
	return policy;
}

static struct weir_table *make_table(const struct subject *subject)
{
	const uint32_t room = subject->limits + subject->limits / 2 + 64; /* few collisions between limits */
	const struct weir_table_options options = {
		.size_bytes = weir_table_size((uint64_t)REQUESTS * subject->met, room), .limits_max = room
	};
	struct weir_table *table;
	struct weir_message why;

	if (weir_table_new(&options, &table, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	return table;
}

static struct weir_guard *make_guard(struct weir_table *table, struct weir_policy *policy)
{
	struct weir_guard *guard;
	struct weir_message why;

	if (weir_guard_new(table, policy, &guard, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	return guard;
}

/* --- requests ------------------------------------------------------------------------------------------------------- */

struct request {
	char ip[TEXT], path[TEXT], tenant[TEXT];
	struct weir_attribute attributes[ATTRIBUTES];
};

static struct weir_attribute attribute(const char *name, const char *value)
{
	return (struct weir_attribute){ name, strlen(name), value, strlen(value) };
}

static void begin_request(struct request *ret_request)
{
	strcpy(ret_request->ip, "100.100.100.100");
	strcpy(ret_request->path, "/v1/orders/00000000?page=2");
	strcpy(ret_request->tenant, "tenant-00000000");
	ret_request->attributes[0] = attribute("ip", ret_request->ip);
	ret_request->attributes[1] = attribute("method", "POST");
	ret_request->attributes[2] = attribute("host", "api.example.com");
	ret_request->attributes[3] = attribute("path", ret_request->path);
	ret_request->attributes[4] = attribute("tenant", ret_request->tenant);
}

/* A server decides a request that it has just read. So the request is written right before, which takes a few ns. */
static void write_request(const struct subject *subject, uint32_t number, struct request *request)
{
	const uint64_t digits = keys_digits(number), tenant = keys_digits(number % (subject->limits / subject->met));
	char word[sizeof(digits)];

	memcpy(word, &digits, sizeof(word));
	memcpy(request->path + strlen("/v1/orders/"), word, sizeof(word));
	memcpy(request->tenant + strlen("tenant-"), &tenant, sizeof(tenant));
	for (int i = 0; i < 4; i++)
		memcpy(request->ip + 4 * i + 1, word + 2 * i, 2);
}

static bool decide(const struct subject *subject, uint32_t number, struct request *request)
{
	struct weir_guard_answer answer;
	struct weir_message why;

	write_request(subject, number, request);
	if (weir_guard_check(subject->guard, request->attributes, ATTRIBUTES, 1, weir_table_now(subject->table),
			     &answer, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	if (answer.limits != subject->met)
		errx(1, "request %" PRIu32 " met %zu limits", number, answer.limits);
	return answer.verdict.allowed;
}

static void decide_all(const struct subject *subject)
{
	struct request request;

	begin_request(&request);
	for (uint32_t i = 0; i < REQUESTS; i++)
		(void)decide(subject, i, &request);
}

static uint64_t batch_decide(const void *subject_, size_t thread)
{
	struct subject *const subject = (struct subject *)subject_;
	uint64_t state = subject->states[thread], allowed = 0;
	struct request request;

	begin_request(&request);
	for (size_t i = 0; i < BATCH; i++)
		allowed += decide(subject, draw(&state), &request);
	subject->states[thread] = state;
	return allowed;
}

static uint64_t batch_match(const void *subject_, size_t thread)
{
	struct subject *const subject = (struct subject *)subject_;
	static __thread struct weir_policy_answer answer;
	uint64_t state = subject->states[thread], matched = 0;
	struct weir_message why;
	struct request request;

	begin_request(&request);
	for (size_t i = 0; i < BATCH; i++) {
		write_request(subject, draw(&state), &request);
		if (weir_policy_match(subject->policy, request.attributes, ATTRIBUTES, 1, &answer, &why) != WEIR_OK)
			errx(1, "%s", why.text);
		matched += answer.n == subject->met;
	}
	subject->states[thread] = state;
	return matched;
}

/* --- loading and swapping ------------------------------------------------------------------------------------------- */

static uint64_t now_ns(clockid_t id)
{
	struct timespec at;

	clock_gettime(id, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static void measure_load(struct subject *subject)
{
	size_t length;
	char *const text = write_policy(subject->limits, subject->met, 0, &length);
	struct weir_table *const table = make_table(subject);
	struct weir_policy *policy;
	struct weir_guard *guard;
	const uint64_t start = now_ns(CLOCK_MONOTONIC), cpu_start = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t cpu_read, cpu_bound, wall;

	policy = read_policy(text, length);
	cpu_read = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	guard = make_guard(table, policy);
	cpu_bound = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	wall = now_ns(CLOCK_MONOTONIC) - start;
	printf("{\"ns\": %" PRIu64 ", \"busy\": %.4f, \"read_ns\": %" PRIu64 ", \"bind_ns\": %" PRIu64
	       ", \"text_bytes\": %zu}\n",
	       wall, (double)(cpu_bound - cpu_start) / (double)wall, cpu_read - cpu_start, cpu_bound - cpu_read,
	       length);
	weir_guard_free(guard);
	weir_table_free(table);
	free(text);
}

struct decider {
	struct subject *subject;
	size_t thread;
	_Atomic bool *is_over;
	uint64_t decisions, set_aside, longest_ns;
} __attribute__((aligned(128)));

static long times_preempted(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage) != 0)
		err(1, "getrusage");
	return usage.ru_nivcsw;
}

/* Times decisions by the wall clock, in groups of WATCHED. Discards a group if the kernel preempted the thread
 * meanwhile, because that time is not the guard's. A thread that sleeps for a lock is not preempted, so its decision
 * counts. */
static void *decide_watched(void *decider_)
{
	struct decider *const decider = decider_;
	uint64_t state = 88172645463325252u + decider->thread;
	struct request request;

	begin_request(&request);
	while (!atomic_load(decider->is_over)) {
		const long before = times_preempted();
		uint64_t longest = 0, last = now_ns(CLOCK_MONOTONIC);

		for (int i = 0; i < WATCHED; i++) {
			uint64_t end;

			(void)decide(decider->subject, draw(&state), &request);
			end = now_ns(CLOCK_MONOTONIC);
			longest = end - last > longest ? end - last : longest;
			last = end;
		}
		decider->decisions += WATCHED;
		if (times_preempted() != before)
			decider->set_aside += WATCHED;
		else if (longest > decider->longest_ns)
			decider->longest_ns = longest;
	}
	return NULL;
}

/* All policies have been read before, so only the swap itself runs beside the decisions. */
static double swap_all(struct subject *subject, struct weir_policy **policies)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	struct weir_message why;
	double longest = 0;

	for (uint32_t i = 0; i < subject->swaps; i++) {
		const double start = work_seconds();
		double took;

		if (weir_guard_change(subject->guard, policies[i], weir_table_now(subject->table), &why) != WEIR_OK)
			errx(1, "%s", why.text);
		took = work_seconds() - start;
		longest = took > longest ? took : longest;
		(void)nanosleep(&pause, NULL);
	}
	return longest;
}

static void measure_swap(struct subject *subject, double seconds)
{
	struct weir_policy **const policies = calloc(subject->swaps + 1, sizeof(struct weir_policy *));
	struct decider deciders[DECIDERS] = { 0 };
	pthread_t threads[DECIDERS];
	uint64_t decisions = 0, set_aside = 0, longest = 0;
	_Atomic bool is_over = false;
	double start, swap_longest;

	if (policies == NULL)
		err(1, "no memory for policies");
	for (uint32_t i = 0; i < subject->swaps; i++)
		policies[i] = make_policy(subject, i + 1);
	decide_all(subject);
	for (size_t i = 0; i < DECIDERS; i++) {
		deciders[i] = (struct decider){ .subject = subject, .thread = i, .is_over = &is_over };
		if (pthread_create(&threads[i], NULL, decide_watched, &deciders[i]) != 0)
			errx(1, "no thread");
	}
	start = work_seconds();
	swap_longest = swap_all(subject, policies);
	while (subject->swaps == 0 && work_seconds() - start < seconds)
		(void)usleep(10000);
	atomic_store(&is_over, true);
	for (size_t i = 0; i < DECIDERS; i++) {
		(void)pthread_join(threads[i], NULL);
		decisions += deciders[i].decisions;
		set_aside += deciders[i].set_aside;
		longest = deciders[i].longest_ns > longest ? deciders[i].longest_ns : longest;
	}
	printf("{\"ns\": %" PRIu64 ", \"decisions\": %" PRIu64 ", \"set_aside\": %" PRIu64
	       ", \"swap_longest_us\": %.0f, \"seconds\": %.3f}\n",
	       longest, decisions, set_aside, 1e6 * swap_longest, work_seconds() - start);
	free(policies);
}

/* --- the command line ----------------------------------------------------------------------------------------------- */

static void measure_work(struct subject *subject, struct work *work, bool is_match)
{
	work->subject = subject;
	work->batch = is_match ? batch_match : batch_decide;
	if (!is_match)
		decide_all(subject);
	work_measure(work, "");
}

int main(int argc, char **argv)
{
	static struct subject subject = { .limits = 1000, .met = 1, .swaps = 100 };
	struct work work = { .each = BATCH, .is_allowed = true, .seconds = 1, .threads = 1 };
	const char *const what = argc > 1 ? argv[1] : "";

	for (int i = 2; i + 1 < argc; i += 2) {
		const uint32_t number = (uint32_t)strtoul(argv[i + 1], NULL, 10);

		if (strcmp(argv[i], "--limits") == 0)
			subject.limits = number;
		else if (strcmp(argv[i], "--met") == 0)
			subject.met = number;
		else if (strcmp(argv[i], "--swaps") == 0)
			subject.swaps = number;
		else if (!work_option(&work, argv[i], argv[i + 1]))
			errx(2, "unknown option: %s; see the head of bench/policy.c", argv[i]);
	}
	work_check(&work);
	if (subject.met < 1 || subject.limits < subject.met || subject.limits % subject.met != 0)
		errx(2, "--limits must be a multiple of --met");
	if (strcmp(what, "load") == 0) {
		measure_load(&subject);
		return 0;
	}
	for (size_t i = 0; i < WORKERS_MAX; i++)
		subject.states[i] = 88172645463325252u + i;
	subject.policy = make_policy(&subject, 0);
	if (strcmp(what, "match") == 0) {
		measure_work(&subject, &work, true);
		return 0;
	}
	subject.table = make_table(&subject);
	subject.guard = make_guard(subject.table, subject.policy);
	if (strcmp(what, "decide") == 0)
		measure_work(&subject, &work, false);
	else if (strcmp(what, "swap") == 0)
		measure_swap(&subject, work.seconds);
	else
		errx(2, "usage: policy decide|match|load|swap OPTION...");
	return 0;
}
