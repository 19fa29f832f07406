/* redis_thread_test.c: the client thread with a real Redis: jobs from many threads, deferred charges, shutdown with
 * jobs in flight, and log messages. */
/* Covers: src/store/redis/redis_driver.c, src/store/redis/redis_log.c */
#include "redis_server.h"

#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "plans.h"
#include "store/redis/redis_log.h"
#include "store/redis/redis_thread.h"

enum { THREADS = 4, JOBS = 300, MS = 1000000, WAIT_MS = 60000, LINES = 64 };

static const weir_ns second = 1000000000;
static struct redis_server server;

static void __attribute__((destructor)) stop_server(void)
{
	if (server.pid > 0)
		redis_server_stop(&server);
}

static void need_server(void)
{
	if (server.pid == 0)
		redis_server_start(&server);
	REDIS_COMMAND(&server, "FLUSHALL");
}

static void kill_server(void)
{
	close(server.connection);
	kill(server.pid, SIGKILL);
	waitpid(server.pid, NULL, 0);
}

static void pause_ms(long ms)
{
	const struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS };

	nanosleep(&pause, NULL);
}

static void start_server_again(void)
{
	const pid_t parent = getpid();

	server.used = server.filled = 0;
	server.pid = fork();
	if (server.pid < 0)
		err(1, "fork");
	if (server.pid == 0)
		redis_server_become(&server, parent);
	for (int waited_ms = 0; !redis_server_connect(&server); waited_ms += 5) {
		if (waited_ms > REDIS_START_MS)
			errx(1, "no Redis came up again");
		pause_ms(5);
	}
}

/* --- what people are told ----------------------------------------------------------------------------------------- */

static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[LINES][1300];
static unsigned n_lines;

static void keep_line(void *context, const char *line)
{
	(void)context;
	pthread_mutex_lock(&lines_lock);
	if (n_lines < LINES)
		(void)snprintf(lines[n_lines++], sizeof(lines[0]), "%s", line);
	pthread_mutex_unlock(&lines_lock);
}

static void forget_lines(void)
{
	pthread_mutex_lock(&lines_lock);
	n_lines = 0;
	pthread_mutex_unlock(&lines_lock);
}

static bool was_told(const char *part)
{
	bool found = false;

	pthread_mutex_lock(&lines_lock);
	for (unsigned i = 0; i < n_lines; i++)
		found |= strstr(lines[i], part) != NULL;
	pthread_mutex_unlock(&lines_lock);
	return found;
}

static void wait_to_be_told(const char *part)
{
	for (int waited_ms = 0; !was_told(part); waited_ms += 5) {
		if (waited_ms > WAIT_MS) {
			for (unsigned i = 0; i < n_lines; i++)
				printf("# told: %s\n", lines[i]);
			check_fail(__FILE__, __LINE__, "it was not told");
			printf("# not told: %s\n", part);
			return;
		}
		pause_ms(5);
	}
}

/* --- a store ----------------------------------------------------------------------------------------------------- */

static struct weir__redis_thread *store;

static void open_store(const char *options)
{
	struct weir__redis_url url;
	struct weir_message why;
	char text[128];

	(void)snprintf(text, sizeof(text), "redis+unix://%s?prefix=s:%s", server.path, options);
	if (weir__redis_url_read(text, strlen(text), &url, &why) != WEIR_OK ||
	    weir__redis_thread_new(&url, WEIR__REDIS_BACKLOG_BYTES, keep_line, NULL, &store, &why) != WEIR_OK)
		errx(1, "%s: %s", text, why.text);
}

static void open_ready_store(const char *options)
{
	open_store(options);
	CHECK(weir__redis_thread_wait(store, WAIT_MS * (weir_ns)MS));
}

static struct weir__redis_thread_info info(void)
{
	struct weir__redis_thread_info found;

	weir__redis_thread_info(store, &found);
	return found;
}

static struct weir__redis_plan plan;

static void use_plan(const char *text)
{
	plan = plan_of(text);
}

static const struct weir__resp_slice name = { "l", 1 };

static enum weir__redis_outcome ask(enum weir__redis_operation operation, const char *key, uint64_t cost,
				    struct weir_verdict *verdict)
{
	const struct weir__redis_claim claim = {
		.plan = &plan, .name = name, .key = { key, strlen(key) }, .cost = cost
	};
	const struct weir__redis_request request = { operation, &claim, 1 };
	struct weir__redis_job job = { .requests = &request, .n = 1, .budget = 10 * second, .verdicts = verdict };

	weir__redis_thread_ask_and_wait(store, &job);
	return job.outcome;
}

static void defer(const char *key, uint64_t cost)
{
	weir__redis_thread_defer(store, &plan, name, (struct weir__resp_slice){ key, strlen(key) },
				 WEIR__REDIS_DEFER_CHARGE, cost);
}

/* Waits until no charges are deferred, and this many units were charged, in excess or uncertain. */
static void wait_for_payment(uint64_t units)
{
	for (int waited_ms = 0; info().deferred_keys > 0 || info().charged + info().excess + info().uncertain < units;
	     waited_ms += 5) {
		if (waited_ms > WAIT_MS) {
			check_fail(__FILE__, __LINE__, "it was not paid");
			return;
		}
		pause_ms(5);
	}
}

/* --- tests ------------------------------------------------------------------------------------------------------- */

static _Atomic uint32_t dones, admitted;

struct one_job {
	struct weir__redis_job job; /* first: `done` gets it */
	struct weir__redis_claim claim;
	struct weir__redis_request request;
	struct weir_verdict verdict;
	_Atomic uint32_t dones;
};

static void count_done(struct weir__redis_job *job)
{
	struct one_job *const one = (struct one_job *)(void *)job;

	atomic_fetch_add(&admitted, job->outcome == WEIR__REDIS_JOB_DECIDED && one->verdict.allowed);
	atomic_fetch_add(&one->dones, 1);
	atomic_fetch_add(&dones, 1);
}

static void give(struct one_job *one, const char *key, weir_ns budget)
{
	one->claim = (struct weir__redis_claim){ .plan = &plan, .name = name, .key = { key, strlen(key) }, .cost = 1 };
	one->request = (struct weir__redis_request){ WEIR__REDIS_TAKE, &one->claim, 1 };
	one->job = (struct weir__redis_job){
		.requests = &one->request, .n = 1, .budget = budget, .verdicts = &one->verdict, .done = count_done
	};
	weir__redis_thread_ask(store, &one->job);
}

static struct one_job jobs[THREADS][JOBS];

static void *give_many(void *context)
{
	struct one_job *const mine = context;

	for (int i = 0; i < JOBS; i++)
		give(&mine[i], "k", 10 * second);
	return NULL;
}

static void jobs_of_many_threads_are_each_done_once(void)
{
	struct weir__redis_thread_info found;
	pthread_t threads[THREADS];
	uint64_t counted = 0;

	need_server();
	use_plan("500/5000day fixed_window");
	open_ready_store("");
	dones = admitted = 0;
	memset(jobs, 0, sizeof(jobs));
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, give_many, jobs[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int waited_ms = 0; atomic_load(&dones) < THREADS * JOBS && waited_ms < WAIT_MS; waited_ms++)
		pause_ms(1);
	CHECK_EQ(dones, THREADS * JOBS);
	CHECK_EQ(admitted, 500);
	for (int i = 0; i < THREADS * JOBS; i++)
		CHECK_EQ(jobs[i / JOBS][i % JOBS].dones, 1);
	found = info();
	CHECK_EQ(found.client.decided, THREADS * JOBS);
	CHECK_EQ(found.client.unreached + found.client.unanswered, 0);
	for (int i = 0; i < WEIR__REDIS_LATENCIES; i++)
		counted += found.latency_counts[i];
	CHECK_EQ(counted, THREADS * JOBS);
	printf("# %d jobs in %d calls\n", THREADS * JOBS, (int)found.client.calls);
	weir__redis_thread_free(store);
}

static void what_is_owed_is_paid_in(void)
{
	struct weir_verdict verdict;

	need_server();
	use_plan("10/5000day fixed_window");
	open_ready_store("");
	forget_lines();
	defer("a", 4);
	defer("a", 3);
	wait_for_payment(7);
	CHECK_EQ(ask(WEIR__REDIS_PEEK, "a", 1, &verdict), WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(verdict.remaining, 3);
	CHECK_EQ(info().charged, 7);
	CHECK_EQ(info().excess, 0);
	defer("a", 5);
	wait_for_payment(12);
	CHECK_EQ(info().charged, 10);
	CHECK_EQ(info().excess, 2);
	wait_to_be_told("units in Redis, 2 beyond what was left there");
	weir__redis_thread_free(store);
}

/* Redis is killed, charges are deferred meanwhile, and it returns. */
static void gone_and_back(void)
{
	struct weir_verdict verdict;

	need_server();
	use_plan("10/5000day fixed_window");
	forget_lines();
	open_ready_store("");
	wait_to_be_told("Redis is connected");
	CHECK_EQ(ask(WEIR__REDIS_TAKE, "a", 1, &verdict), WEIR__REDIS_JOB_DECIDED);
	kill_server();
	wait_to_be_told("Redis is unreachable: ");
	CHECK_EQ(ask(WEIR__REDIS_TAKE, "a", 1, &verdict), WEIR__REDIS_JOB_UNREACHED);
	CHECK(info().client.health != WEIR__REDIS_UP);
	defer("a", 1);
	defer("b", 11);
	CHECK_EQ(info().charged, 0);
	start_server_again();
	wait_to_be_told("Redis is back after ");
	wait_for_payment(12);
	wait_to_be_told(
		"deferred charges are done: 11 units in Redis, 1 beyond what was left there, 0 uncertain, 0 dropped");
	CHECK_EQ(ask(WEIR__REDIS_PEEK, "a", 1, &verdict), WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(verdict.remaining, 9); /* the new Redis has no data of the first take */
	CHECK_EQ(ask(WEIR__REDIS_PEEK, "b", 1, &verdict), WEIR__REDIS_JOB_DECIDED);
	CHECK_EQ(verdict.remaining, 0);
	weir__redis_thread_free(store);
}

/* Redis is stopped: jobs get no reply, and free waits for their budgets, not for Redis. */
static void an_end_with_jobs_under_way(void)
{
	static struct one_job under_way[50];
	uint32_t unanswered = 0, unreached = 0;

	need_server();
	use_plan("1000/5000day fixed_window");
	open_ready_store("&pool=1");
	kill(server.pid, SIGSTOP);
	dones = admitted = 0;
	memset(under_way, 0, sizeof(under_way));
	for (int i = 0; i < 50; i++)
		give(&under_way[i], "k", 500 * (weir_ns)MS);
	weir__redis_thread_free(store);
	CHECK_EQ(dones, 50);
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(under_way[i].dones, 1);
		unanswered += under_way[i].job.outcome == WEIR__REDIS_JOB_UNANSWERED;
		unreached += under_way[i].job.outcome == WEIR__REDIS_JOB_UNREACHED;
	}
	CHECK(unanswered > 0);
	CHECK_EQ(unanswered + unreached, 50);
	kill(server.pid, SIGCONT);
}

static void an_end_without_a_beginning(void)
{
	struct weir__redis_url url;
	struct weir_message why;
	char text[128];

	need_server();
	kill_server();
	use_plan("10/s");
	open_store("");
	defer("a", 1);
	forget_lines();
	weir__redis_thread_free(store);
	CHECK(was_told("deferred charges of 1 keys are lost"));
	start_server_again();
	weir__redis_thread_free(NULL);
	(void)snprintf(text, sizeof(text), "rediss://localhost?ca=%%2Fno%%2Fsuch%%2Ffile");
	CHECK_EQ(weir__redis_url_read(text, strlen(text), &url, &why), WEIR_OK);
	CHECK_EQ(weir__redis_thread_new(&url, WEIR__REDIS_BACKLOG_BYTES, NULL, NULL, &store, &why), WEIR_ERR_LIMIT);
	CHECK(strncmp(why.text, "the CA file /no/such/file: ", 27) == 0);
}

/* A Redis that comes and goes, with the test's own clock. */
static void lines_are_limited(void)
{
	struct weir__redis_thread_info is = { .client = { .health = WEIR__REDIS_UP, .links_ready = 1 } };
	struct weir__redis_log log;
	struct weir__redis_url url;
	weir_ns now = second;

	CHECK_EQ(weir__redis_url_read("redis://:secret@heron", 21, &url, NULL), WEIR_OK);
	forget_lines();
	weir__redis_log_init(&log, &url, keep_line, NULL);
	for (int i = 0; i < 100; i++) {
		is.client.health = i % 2 ? WEIR__REDIS_DOWN : WEIR__REDIS_UP;
		weir__redis_log_look(&log, &is, now += MS);
	}
	CHECK_EQ(n_lines, 20);
	CHECK(!was_told("secret"));
	CHECK(was_told("redis://"));
	is.client.health = WEIR__REDIS_UP;
	weir__redis_log_look(&log, &is, now += 60 * second);
	CHECK_EQ(n_lines, 21);
	CHECK(was_told("Redis is back after 60.000 s (80 lines before this one were dropped)"));
	is.client.failovers = 1;
	is.client.anew = 3;
	weir__redis_log_look(&log, &is, now);
	CHECK(was_told("a new primary"));
	CHECK(was_told("3 keys started over"));
}

TESTS(TEST(jobs_of_many_threads_are_each_done_once), TEST(what_is_owed_is_paid_in), TEST(gone_and_back),
      TEST(an_end_with_jobs_under_way), TEST(an_end_without_a_beginning), TEST(lines_are_limited))
