/* store_redis_test.c: the public store with a real Redis: shared by programs, from threads and event loops, and by the
 * fallback without Redis. Timeouts are long where a reply is expected, because the machine may be busy. */
#include <weir/store.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "check.h"
#include "redis_server.h"

#define PATIENCE_NS UINT64_C(60000000000)

enum { THREADS = 6, TAKES = 100, IN_FLIGHT = 5000, ALLOWED = 300 };

static struct redis_server server;

static void url_of(char url[256], const char *timeout)
{
	(void)snprintf(url, 256, "redis+unix://%s?timeout=%s", server.path, timeout);
}

static struct weir_store *store_on(const char *timeout, const struct weir_store_options *options)
{
	struct weir_message why = { 0, "" };
	struct weir_store *store;
	char url[256];

	url_of(url, timeout);
	if (weir_store_redis(url, options, &store, &why) != WEIR_OK ||
	    weir_store_wait(store, PATIENCE_NS, &why) != WEIR_OK)
		errx(1, "no store: %s", why.text);
	return store;
}

static const struct weir_table_limit *add(struct weir_store *store, const char *name, const char *text)
{
	const struct weir_table_limit *limit;
	struct weir_message why;

	if (weir_store_add_limit_text(store, name, text, &limit, &why) != WEIR_OK)
		errx(1, "no limit: %s", why.text);
	return limit;
}

static void begin(void)
{
	redis_server_start(&server);
}

/* Also works if the server is stopped. */
static void end(void)
{
	redis_server_stop(&server);
}

static uint64_t allowed_of(struct weir_store *store, const struct weir_table_limit *limit, const char *key, size_t n)
{
	struct weir_store_answer answer;
	uint64_t allowed = 0;

	for (size_t i = 0; i < n; i++)
		if (CHECK_EQ(weir_store_take(store, limit, key, strlen(key), 1, &answer), WEIR_OK))
			allowed += answer.verdict.allowed;
	return allowed;
}

/* --- blocking calls ---------------------------------------------------------------------------------------------- */

static void each_operation(void)
{
	const struct weir_table_limit *ten, *five;
	struct weir_verdict verdicts[3];
	struct weir_store_answer answer;
	struct weir_claim claims[3];
	struct weir_store *store;

	begin();
	store = store_on("10s", NULL);
	ten = add(store, "ten", "10/hour");
	five = add(store, "five", "5/hour");
	CHECK_EQ(weir_store_set_clock(store, NULL, NULL), WEIR_ERR_UNSUPPORTED);
	CHECK_EQ(weir_store_take(store, ten, "a", 1, 4, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	CHECK_EQ(answer.verdict.remaining, 6);
	CHECK_EQ(answer.fallback_nodes, 0);
	CHECK_EQ(weir_store_upto(store, ten, "a", 1, 99, &answer), WEIR_OK);
	CHECK_EQ(answer.verdict.granted, 6);
	CHECK_EQ(weir_store_refund(store, ten, "a", 1, 3, &answer), WEIR_OK);
	CHECK_EQ(weir_store_peek(store, ten, "a", 1, 3, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	CHECK_EQ(answer.verdict.remaining, 3);
	claims[0] = (struct weir_claim){ ten, "a", 1, 3 };
	claims[1] = (struct weir_claim){ five, "a", 1, 6 };
	claims[2] = (struct weir_claim){ five, "b", 1, 1 };
	CHECK_EQ(weir_store_decide(store, claims, 3, verdicts, &answer), WEIR_OK);
	CHECK(!answer.verdict.allowed && answer.verdict.never && verdicts[0].allowed);
	CHECK_EQ(answer.decided_by, 1);
	claims[1].cost = 5;
	CHECK_EQ(weir_store_decide(store, claims, 3, verdicts, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	CHECK_EQ(answer.decided_by, 0);
	CHECK_EQ(weir_store_take_batch(store, claims, 3, verdicts, &answer), WEIR_OK);
	CHECK(!verdicts[0].allowed && !verdicts[1].allowed && verdicts[2].allowed);
	CHECK_EQ(weir_store_reset(store, ten, "a", 1, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	CHECK_EQ(weir_store_reset(store, ten, "a", 1, &answer), WEIR_OK);
	CHECK(!answer.verdict.allowed);
	weir_store_free(store);
	end();
}

static void two_stores_share_and_the_latest_change_decides(void)
{
	struct weir_store_stats stats = { .size_bytes = sizeof(stats) };
	const struct timespec pause = { .tv_nsec = 1000000 };
	const struct weir_table_limit *of[2];
	struct weir_store_answer answer;
	struct weir_store *stores[2];

	begin();
	for (int i = 0; i < 2; i++) {
		stores[i] = store_on("10s", NULL);
		of[i] = add(stores[i], "shared", "10/hour");
	}
	CHECK_EQ(allowed_of(stores[0], of[0], "k", 7), 7);
	CHECK_EQ(allowed_of(stores[1], of[1], "k", 7), 3);
	CHECK_EQ(weir_store_change_limit_text(stores[0], of[0], "15/hour", NULL), WEIR_OK);
	CHECK_EQ(weir_store_peek(stores[0], of[0], "k", 1, 1, &answer), WEIR_OK);
	CHECK_EQ(answer.verdict.limit, 15);
	CHECK_EQ(answer.verdict.remaining, 5);
	CHECK_EQ(weir_store_peek(stores[1], of[1], "k", 1, 1, &answer), WEIR_OK);
	CHECK_EQ(answer.verdict.limit, 15);
	/* The second learned of the first when it connected, or learns of it by its next heartbeat. */
	do {
		CHECK_EQ(weir_store_stats(stores[1], &stats), WEIR_OK);
	} while (stats.nodes < 2 && nanosleep(&pause, NULL) == 0);
	CHECK_EQ(stats.nodes, 2);
	for (int i = 0; i < 2; i++)
		weir_store_free(stores[i]);
	end();
}

static void what_cannot_be_made(void)
{
	const struct weir_store_options local = { .on_failure = WEIR_STORE_FAILURE_LOCAL };
	const struct weir_table_limit *limit;
	struct weir_message why = { 0, "" };
	struct weir_store *store = NULL;

	CHECK_EQ(weir_store_redis("http://localhost", NULL, &store, &why), WEIR_ERR_SYNTAX);
	CHECK(strstr(why.text, "redis://") != NULL);
	CHECK_EQ(weir_store_redis("redis://localhost", &local, &store, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "on_failure: a local limit is set for one limit: use weir_store_set_failure");
	CHECK_EQ(weir_store_redis("redis://localhost",
				  &(struct weir_store_options){ .limits_max = UINT32_MAX, .keys = 1 }, &store, &why),
		 WEIR_ERR_TOO_LARGE);
	CHECK(store == NULL);
	CHECK_EQ(weir_store_redis("redis+unix:///nobody/listens/here", NULL, &store, &why), WEIR_OK);
	CHECK_EQ(weir_store_add_limit_text(store, "large", "2000000/s sliding_log", &limit, &why), WEIR_ERR_MAXIMUM);
	CHECK_EQ(weir_store_wait(store, 1, &why), WEIR_ERR_UNREACHABLE);
	weir_store_free(store);
}

/* --- threads ----------------------------------------------------------------------------------------------------- */

struct shared {
	struct weir_store *store;
	const struct weir_table_limit *limit;
	_Atomic uint64_t allowed, completed;
};

static void *take_many(void *shared_)
{
	struct shared *const shared = shared_;

	atomic_fetch_add(&shared->allowed, allowed_of(shared->store, shared->limit, "k", TAKES));
	atomic_fetch_add(&shared->completed, TAKES);
	return NULL;
}

static void count(void *shared_, int error, const struct weir_store_answer *answer, const struct weir_verdict *verdicts)
{
	struct shared *const shared = shared_;

	CHECK_EQ(error, WEIR_OK);
	CHECK(verdicts != NULL);
	atomic_fetch_add(&shared->completed, 1);
	atomic_fetch_add(&shared->allowed, answer && answer->verdict.allowed);
}

static void *submit_many(void *shared_)
{
	struct shared *const shared = shared_;
	const struct weir_claim claim = { shared->limit, "k", 1, 1 };
	struct weir_submitter *submitter;

	CHECK_EQ(weir_submitter_new(shared->store, &submitter, NULL), WEIR_OK);
	for (int i = 0; i < TAKES; i++)
		CHECK_EQ(weir_submitter_submit(submitter, WEIR_STORE_TAKE, &claim, 1, count, shared), WEIR_OK);
	weir_submitter_free(submitter);
	return NULL;
}

/* Reads statistics and changes other limits in between. */
static void *watch(void *shared_)
{
	struct shared *const shared = shared_;
	const struct weir_table_limit *const other = add(shared->store, "other", "10/hour");

	while (atomic_load(&shared->completed) < (uint64_t)THREADS * TAKES) {
		struct weir_store_stats stats = { .size_bytes = sizeof(stats) };

		CHECK_EQ(weir_store_stats(shared->store, &stats), WEIR_OK);
		CHECK_EQ(weir_store_set_failure(shared->store, other, WEIR_STORE_FAILURE_OPEN, NULL, 0, NULL), WEIR_OK);
	}
	return NULL;
}

static void threads_share_a_store(void)
{
	struct shared shared = { .store = NULL };
	pthread_t threads[THREADS + 1];

	begin();
	shared.store = store_on("10s", NULL);
	shared.limit = add(shared.store, "shared", "300/hour");
	pthread_create(&threads[THREADS], NULL, watch, &shared);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, i % 3 == 0 ? submit_many : take_many, &shared);
	for (int i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&shared.completed), THREADS * TAKES);
	CHECK_EQ(atomic_load(&shared.allowed), ALLOWED);
	weir_store_free(shared.store);
	end();
}

/* --- event loops ------------------------------------------------------------------------------------------------- */

struct in_flight {
	struct weir_submitter *submitter;
	const struct weir_table_limit *limit;
	uint32_t submitted, completed, allowed, wrong;
	uint8_t seen[IN_FLIGHT];
};

struct one {
	struct in_flight *all;
	uint32_t number;
};

static void note(void *one_, int error, const struct weir_store_answer *answer, const struct weir_verdict *verdicts)
{
	const struct one *const one = one_;

	(void)verdicts;
	one->all->wrong += error != WEIR_OK || one->all->seen[one->number]++ != 0;
	one->all->completed++;
	one->all->allowed += answer && answer->verdict.allowed;
}

/* All are submitted before the loop runs for the first time, without a flush: the descriptor triggers the first
 * turn. */
static void thousands_in_flight_complete_exactly_once(void)
{
	static struct one ones[IN_FLIGHT];
	static struct in_flight all;
	struct epoll_event event = { .events = EPOLLIN };
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct weir_store_stats stats = { .size_bytes = sizeof(stats) };
	struct weir_store *store;
	char key[16];

	begin();
	store = store_on("10s", NULL);
	all = (struct in_flight){ .limit = add(store, "ten", "10/hour") };
	CHECK_EQ(weir_submitter_new(store, &all.submitter, NULL), WEIR_OK);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, weir_submitter_descriptor(all.submitter), &event) == 0);
	for (uint32_t i = 0; i < IN_FLIGHT; i++) {
		const struct weir_claim claim = { all.limit, key, (size_t)snprintf(key, sizeof(key), "%u", i % 100),
						  1 };

		ones[i] = (struct one){ &all, i };
		CHECK_EQ(weir_submitter_submit(all.submitter, WEIR_STORE_TAKE, &claim, 1, note, &ones[i]), WEIR_OK);
	}
	CHECK_EQ(weir_submitter_in_flight(all.submitter), IN_FLIGHT);
	while (all.completed < IN_FLIGHT && epoll_wait(epoll, &event, 1, 60000) == 1)
		(void)weir_submitter_dispatch(all.submitter);
	CHECK_EQ(all.completed, IN_FLIGHT);
	CHECK_EQ(all.wrong, 0);
	CHECK_EQ(all.allowed, 1000); /* 10 of each of 100 keys */
	CHECK_EQ(epoll_wait(epoll, &event, 1, 0), 0);
	CHECK_EQ(weir_store_stats(store, &stats), WEIR_OK);
	CHECK_EQ(stats.decided, IN_FLIGHT);
	CHECK(stats.calls > 0 && stats.calls < IN_FLIGHT / 4); /* many requests share a call */
	/* After a manual flush the descriptor is not readable until there is a reply. */
	CHECK_EQ(weir_submitter_submit(all.submitter, WEIR_STORE_PEEK, &(struct weir_claim){ all.limit, "x", 1, 1 }, 1,
				       note, &(struct one){ &all, 0 }),
		 WEIR_OK);
	all.seen[0] = 0;
	weir_submitter_flush(all.submitter);
	while (all.completed == IN_FLIGHT && epoll_wait(epoll, &event, 1, 60000) == 1)
		(void)weir_submitter_dispatch(all.submitter);
	CHECK_EQ(all.completed, IN_FLIGHT + 1);
	weir_submitter_free(all.submitter);
	close(epoll);
	weir_store_free(store);
	end();
}

static void note_failure(void *failed, int error, const struct weir_store_answer *answer,
			 const struct weir_verdict *verdicts)
{
	CHECK(answer == NULL && verdicts == NULL);
	CHECK(error == WEIR_ERR_UNANSWERED || error == WEIR_ERR_UNREACHABLE);
	++*(uint32_t *)failed;
}

/* Redis hangs. Freeing the store waits for the timeout, and calls each completion once. */
static void freed_with_requests_in_flight(void)
{
	struct weir_submitter *submitters[2];
	const struct weir_table_limit *limit;
	struct weir_store *store;
	uint32_t failed = 0;

	begin();
	store = store_on("300ms", NULL);
	limit = add(store, "ten", "10/hour");
	for (int i = 0; i < 2; i++)
		CHECK_EQ(weir_submitter_new(store, &submitters[i], NULL), WEIR_OK);
	kill(server.pid, SIGSTOP);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(weir_submitter_submit(submitters[i % 2], WEIR_STORE_TAKE,
					       &(struct weir_claim){ limit, "k", 1, 1 }, 1, note_failure, &failed),
			 WEIR_OK);
	weir_submitter_flush(submitters[0]); /* those of the other submitter are not even sent */
	weir_store_free(store);
	CHECK_EQ(failed, 100);
	end();
}

/* --- without Redis ----------------------------------------------------------------------------------------------- */

static void without_a_fallback_calls_fail(void)
{
	const struct weir_table_limit *limit, *open;
	struct weir_store_answer answer = { .decided_by = 99 };
	struct weir_verdict verdicts[2];
	struct weir_claim claims[2];
	struct weir_store *store;
	int error;

	begin();
	store = store_on("50ms", NULL);
	limit = add(store, "ten", "10/hour");
	open = add(store, "open", "10/hour");
	CHECK_EQ(weir_store_set_failure(store, open, WEIR_STORE_FAILURE_OPEN, NULL, 0, NULL), WEIR_OK);
	kill(server.pid, SIGSTOP);
	error = weir_store_take(store, limit, "k", 1, 1, &answer);
	CHECK(error == WEIR_ERR_UNANSWERED || error == WEIR_ERR_UNREACHABLE);
	CHECK_EQ(answer.decided_by, 99); /* not written */
	end();
	do {
		error = weir_store_take(store, limit, "k", 1, 1, &answer);
	} while (error == WEIR_ERR_UNANSWERED);
	CHECK_EQ(error, WEIR_ERR_UNREACHABLE);
	CHECK_EQ(weir_store_take(store, open, "k", 1, 1, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed && answer.fallback_nodes > 0);
	claims[0] = (struct weir_claim){ open, "k", 1, 1 };
	claims[1] = (struct weir_claim){ limit, "k", 1, 1 };
	CHECK_EQ(weir_store_decide(store, claims, 2, verdicts, &answer), WEIR_ERR_UNREACHABLE);
	CHECK_EQ(weir_store_take_batch(store, claims, 2, verdicts, &answer), WEIR_ERR_UNREACHABLE);
	weir_store_free(store);
}

/* By the store's default, and by the rule of each limit. */
static void the_fallback_decides(void)
{
	const struct weir_store_options options = { .on_failure = WEIR_STORE_FAILURE_SHARE };
	const struct weir_table_limit *shared, *open, *closed, *local, *two;
	struct weir_store_stats stats = { .size_bytes = sizeof(stats) };
	struct weir_store_answer answer;
	struct weir_verdict verdicts[2];
	struct weir_store *store;

	begin();
	store = store_on("1s", &options);
	shared = add(store, "shared", "10/hour");
	open = add(store, "open", "10/hour");
	closed = add(store, "closed", "10/hour");
	local = add(store, "local", "10/hour");
	two = add(store, "two", "2/hour");
	CHECK_EQ(weir_store_set_failure(store, open, WEIR_STORE_FAILURE_OPEN, NULL, 0, NULL), WEIR_OK);
	CHECK_EQ(weir_store_set_failure(store, closed, WEIR_STORE_FAILURE_CLOSED, NULL, 0, NULL), WEIR_OK);
	CHECK_EQ(weir_store_set_failure(store, local, WEIR_STORE_FAILURE_LOCAL, two, 0, NULL), WEIR_OK);
	end();
	CHECK_EQ(allowed_of(store, shared, "k", 12), 10); /* it is the only node */
	CHECK_EQ(allowed_of(store, open, "k", 12), 12);
	CHECK_EQ(allowed_of(store, closed, "k", 12), 0);
	CHECK_EQ(allowed_of(store, local, "k", 12), 2);
	CHECK_EQ(weir_store_take(store, closed, "k", 1, 1, &answer), WEIR_OK);
	CHECK(answer.is_closed);
	CHECK_EQ(answer.fallback_nodes, 1);
	CHECK_EQ(weir_store_take_batch(store, (struct weir_claim[]){ { open, "k", 1, 1 }, { closed, "k", 1, 1 } }, 2,
				       verdicts, NULL),
		 WEIR_OK);
	CHECK(verdicts[0].allowed && !verdicts[1].allowed);
	CHECK_EQ(weir_store_stats(store, &stats), WEIR_OK);
	CHECK_EQ(stats.by_fallback, 51); /* each of a batch */
	CHECK(stats.health != WEIR_STORE_UP);
	CHECK_EQ(stats.unreached + stats.unanswered, 51);
	CHECK(stats.deferred_keys > 0);
	CHECK(stats.last_error[0] != '\0');
	weir_store_free(store);
}

/* What the fallback allowed while Redis was certainly not called is charged when Redis is back. */
static void charges_are_deferred(void)
{
	const struct weir_store_options options = { .on_failure = WEIR_STORE_FAILURE_OPEN };
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct weir_store_stats stats = { .size_bytes = sizeof(stats) };
	struct weir_table_options of_table = { .size_bytes = weir_table_size(1000, 0) };
	struct weir_store_options with_table = options;
	const struct weir_table_limit *limit;
	struct weir_store_answer answer;
	struct weir_message why = { 0, "" };
	struct weir_store *store;
	char url[256];

	/* The store starts without Redis, with the program's own table. */
	begin();
	url_of(url, "10s");
	kill(server.pid, SIGKILL);
	CHECK_EQ(weir_table_new(&of_table, &with_table.table, &why), WEIR_OK);
	CHECK_EQ(weir_store_redis(url, &with_table, &store, &why), WEIR_OK);
	CHECK(weir_store_get_table(store) == with_table.table);
	limit = add(store, "ten", "10/hour");
	CHECK_EQ(allowed_of(store, limit, "k", 4), 4);
	/* Another Redis, on the same socket. */
	waitpid(server.pid, NULL, 0);
	close(server.connection);
	unlink(server.path);
	server.pid = fork();
	if (server.pid == 0)
		redis_server_become(&server, getppid());
	CHECK_EQ(weir_store_wait(store, PATIENCE_NS, &why), WEIR_OK);
	do {
		nanosleep(&pause, NULL);
		CHECK_EQ(weir_store_stats(store, &stats), WEIR_OK);
	} while (stats.deferred_keys > 0);
	CHECK_EQ(stats.deferred_charged, 4);
	CHECK_EQ(weir_store_peek(store, limit, "k", 1, 1, &answer), WEIR_OK);
	CHECK_EQ(answer.verdict.remaining, 6);
	CHECK_EQ(answer.fallback_nodes, 0);
	weir_store_free(store);
	weir_table_free(with_table.table);
	if (!redis_server_connect(&server))
		errx(1, "Redis is not there");
	end();
}

/* --- statistics -------------------------------------------------------------------------------------------------- */

static void count_limits(void *total, const struct weir_store_limit_stats *stats)
{
	CHECK_TEXT(stats->name, "ten");
	*(uint64_t *)total += stats->allowed + 1000 * stats->denied;
}

static void statistics(void)
{
	struct weir_store_stats stats = { .size_bytes = sizeof(stats) };
	uint64_t total = 0, latencies = 0;
	struct weir_store *store;

	begin();
	store = store_on("10s", NULL);
	CHECK_EQ(allowed_of(store, add(store, "ten", "10/hour"), "k", 12), 10);
	weir_store_each_limit(store, count_limits, &total);
	CHECK_EQ(total, 2010);
	CHECK_EQ(weir_store_stats(store, &stats), WEIR_OK);
	CHECK_EQ(stats.health, WEIR_STORE_UP);
	CHECK_EQ(stats.nodes, 1);
	CHECK_EQ(stats.decided, 12);
	CHECK_EQ(stats.by_fallback, 0);
	for (int i = 0; i < WEIR_STORE_LATENCIES; i++)
		latencies += stats.latency_counts[i];
	CHECK_EQ(latencies, 12);
	CHECK(stats.latency_sum_us > 0);
	weir_store_free(store);
	end();
}

TESTS(TEST(each_operation), TEST(two_stores_share_and_the_latest_change_decides), TEST(what_cannot_be_made),
      TEST(threads_share_a_store), TEST(thousands_in_flight_complete_exactly_once), TEST(freed_with_requests_in_flight),
      TEST(without_a_fallback_calls_fail), TEST(the_fallback_decides), TEST(charges_are_deferred), TEST(statistics))
