/* redis_thread.c: the thread that runs the Redis client. */
#include "store/redis/redis_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/text.h"
#include "core/uninitialized.h"
#include "core/wide.h"
#include "os/futex.h"
#include "os/lock.h"
#include "os/loop.h"
#include "os/memory.h"
#include "os/monotonic.h"
#include "os/thread_start.h"
#include "store/redis/redis_driver.h"
#include "store/redis/redis_log.h"

enum { LATENCY_FIRST_US = 64, US = 1000 };

/* Deferred charges get a long budget, because no request waits for them. After a failed one there is a pause. At
 * shutdown, charges are started for at most last_charges. */
static const weir_ns charge_budget = 1000000000, charge_pause = 100000000, last_charges = 1000000000;

struct weir__redis_thread {
	struct weir__redis_url url;
	struct weir__loop loop;
	struct weir__redis_client *client;
	struct weir__redis_driver *driver;
	struct weir__redis_backlog *backlog;
	struct weir__redis_log log;
	pthread_t thread;
	_Atomic(struct weir__redis_job *) given; /* a stack, the latest job first */
	_Atomic bool is_ending;

	/* Used by the thread only: */
	uint64_t asked; /* jobs under way */
	weir_ns alarm_at;
	weir_ns charges_from, charges_until;
	bool is_charging;
	struct weir__redis_backlog_charge charge;
	struct weir__redis_thread_info info;

	struct weir__lock lock; /* protects `published` */
	struct weir__redis_thread_info published;
	uint32_t changes; /* futex word; incremented when Redis becomes reachable or unreachable */
};

/* --- from any thread --------------------------------------------------------------------------------------------- */

/* The job that finds the stack empty wakes the thread, which then takes all jobs. The release pairs with the acquire in
 * take_jobs. */
void weir__redis_thread_ask(struct weir__redis_thread *store, struct weir__redis_job *job)
{
	struct weir__redis_job *last = atomic_load_explicit(&store->given, memory_order_relaxed);

	job->given_at = weir__monotonic_ns();
	do {
		job->next = last;
	} while (!atomic_compare_exchange_weak_explicit(&store->given, &last, job, memory_order_release,
							memory_order_relaxed));
	if (last == NULL)
		weir__loop_wake(&store->loop);
}

struct waiting {
	struct weir__redis_job job;
	uint32_t is_done;
};

static void end_waiting(struct weir__redis_job *job)
{
	struct waiting *const waiting = (struct waiting *)(void *)job;

	__atomic_store_n(&waiting->is_done, 1, __ATOMIC_RELEASE);
	weir__futex_wake_all(&waiting->is_done); /* `waiting` may be gone by now: then no thread sleeps on it */
}

void weir__redis_thread_ask_and_wait(struct weir__redis_thread *store, struct weir__redis_job *job)
{
	struct waiting waiting = { .job = *job };

	waiting.job.done = end_waiting;
	weir__redis_thread_ask(store, &waiting.job);
	while (__atomic_load_n(&waiting.is_done, __ATOMIC_ACQUIRE) == 0)
		weir__futex_wait(&waiting.is_done, 0, WEIR_NEVER);
	job->outcome = waiting.job.outcome;
	job->decided_at = waiting.job.decided_at;
}

void weir__redis_thread_info(struct weir__redis_thread *store, struct weir__redis_thread_info *ret_info)
{
	weir__lock_acquire(&store->lock);
	*ret_info = store->published;
	weir__lock_release(&store->lock);
}

static bool can_be_called(const struct weir__redis_thread_info *info)
{
	return info->client.health == WEIR__REDIS_UP && info->client.links_ready > 0;
}

static bool is_up(struct weir__redis_thread *store)
{
	bool is;

	weir__lock_acquire(&store->lock);
	is = can_be_called(&store->published);
	weir__lock_release(&store->lock);
	return is;
}

bool weir__redis_thread_wait(struct weir__redis_thread *store, weir_ns at_most)
{
	const weir_ns end = weir__add_saturating(weir__monotonic_ns(), at_most);

	for (;;) {
		const uint32_t seen = __atomic_load_n(&store->changes, __ATOMIC_ACQUIRE);
		const weir_ns now = weir__monotonic_ns();

		if (is_up(store))
			return true;
		if (now >= end)
			return false;
		weir__futex_wait(&store->changes, seen, end - now);
	}
}

void weir__redis_thread_defer(struct weir__redis_thread *store, const struct weir__redis_plan *plan,
			      struct weir__resp_slice name, struct weir__resp_slice key, enum weir__redis_deferred what,
			      uint64_t units)
{
	if (weir__redis_backlog_add(store->backlog, plan, name, key, what, units))
		weir__loop_wake(&store->loop);
}

bool weir__redis_thread_is_behind(const struct weir__redis_thread *store, weir_ns decided_at)
{
	return weir__redis_backlog_is_behind(store->backlog, decided_at);
}

/* --- the thread -------------------------------------------------------------------------------------------------- */

/* Hands the jobs to the client in the order in which they came. The time that a job waited here counts against its
 * budget. */
static void take_jobs(struct weir__redis_thread *store, weir_ns now)
{
	struct weir__redis_job *last = atomic_exchange_explicit(&store->given, NULL, memory_order_acquire);
	struct weir__redis_job *first = NULL;

	while (last) {
		struct weir__redis_job *const before = last->next;

		last->next = first;
		first = last;
		last = before;
	}
	while (first) {
		struct weir__redis_job *const job = first;
		const weir_ns waited = now > job->given_at ? now - job->given_at : 0;

		first = job->next;
		job->next = NULL;
		job->budget -= weir__min(job->budget, waited);
		store->asked++;
		weir__redis_client_ask(store->client, job, now);
	}
}

/* When the next charge may begin. WEIR_NEVER: not in the current state. */
static weir_ns next_charge(const struct weir__redis_thread *store)
{
	const bool may = !store->is_charging && weir__redis_backlog_has_keys(store->backlog) &&
			 can_be_called(&store->info) && store->charges_from < store->charges_until;

	return may ? store->charges_from : WEIR_NEVER;
}

static void begin_charge(struct weir__redis_thread *store, weir_ns now)
{
	struct weir__redis_backlog_charge *const charge = &store->charge;

	if (next_charge(store) > now || !weir__redis_backlog_begin(store->backlog, charge))
		return;
	store->is_charging = true;
	charge->job.budget = charge_budget;
	charge->job.given_at = now;
	charge->job.is_deferred_charge = true;
	charge->job.done = NULL; /* done_jobs recognizes it by its address */
	store->asked++;
	weir__redis_client_ask(store->client, &charge->job, now);
}

static void end_charge(struct weir__redis_thread *store, weir_ns now)
{
	store->is_charging = false;
	store->charges_from = store->charge.job.outcome == WEIR__REDIS_JOB_DECIDED ? now : now + charge_pause;
	weir__redis_backlog_end(store->backlog, &store->charge);
}

static void count_latency(struct weir__redis_thread *store, const struct weir__redis_job *job, weir_ns now)
{
	const uint64_t took_us = (now > job->given_at ? now - job->given_at : 0) / US;
	unsigned i = 0;

	if (job->outcome != WEIR__REDIS_JOB_DECIDED)
		return;
	while (i < WEIR__REDIS_LATENCIES - 1 && took_us > (uint64_t)LATENCY_FIRST_US << i)
		i++;
	store->info.latency_counts[i] += job->n;
	store->info.latency_sum_us += took_us * job->n;
}

/* Returns the finished jobs in order. A job belongs to its owner again once `done` is called. */
static struct weir__redis_job *done_jobs(struct weir__redis_thread *store, weir_ns now)
{
	struct weir__redis_job *first = NULL, **end = &first, *job;

	while ((job = weir__redis_client_done(store->client)) != NULL) {
		store->asked--;
		if (job == &store->charge.job) {
			end_charge(store, now);
			continue;
		}
		count_latency(store, job, now);
		*end = job;
		end = &job->next;
	}
	*end = NULL;
	return first;
}

static void publish(struct weir__redis_thread *store, weir_ns now)
{
	struct weir__redis_thread_info *const info = &store->info;
	struct weir__redis_backlog_info backlog;
	bool was_up;

	weir__redis_client_info(store->client, &info->client);
	weir__redis_backlog_info(store->backlog, &backlog);
	info->was_up |= can_be_called(info);
	info->deferred_keys = backlog.keys;
	info->charged = backlog.charged;
	info->excess = backlog.excess;
	info->uncertain = backlog.uncertain;
	info->dropped = backlog.dropped;
	weir__lock_acquire(&store->lock);
	was_up = can_be_called(&store->published);
	store->published = *info;
	weir__lock_release(&store->lock);
	if (can_be_called(info) != was_up) {
		__atomic_add_fetch(&store->changes, 1, __ATOMIC_RELEASE);
		weir__futex_wake_all(&store->changes);
	}
	weir__redis_log_look(&store->log, info, now);
}

static void set_alarm(struct weir__redis_thread *store, weir_ns now)
{
	const weir_ns next = weir__min(weir__redis_client_next(store->client), next_charge(store));

	/* An alarm that rings too early does no harm, and setting it costs a system call. */
	if (store->loop.has_rung || next < store->alarm_at) {
		store->loop.has_rung = false;
		store->alarm_at = next;
		weir__loop_set_alarm(&store->loop, next == WEIR_NEVER ? UINT64_MAX : next > now ? next - now : 0);
	}
}

static bool turn(struct weir__redis_thread *store, bool waits)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS] WEIR__UNINITIALIZED;
	const int n = weir__loop_wait(&store->loop, waits ? -1 : 0, events);
	const weir_ns now = weir__monotonic_ns();
	struct weir__redis_job *done;
	bool is_settled;

	for (int i = 0; i < n; i++)
		weir__redis_driver_event(store->driver, &events[i], now);
	weir__redis_client_info(store->client, &store->info.client);
	begin_charge(store, now); /* before jobs: when Redis is back, what was allowed meanwhile is charged first */
	take_jobs(store, now);
	weir__redis_client_tick(store->client, now);
	is_settled = weir__redis_driver_settle(store->driver, now);
	done = done_jobs(store, now);
	publish(store, now);
	while (done) {
		struct weir__redis_job *const job = done;

		done = job->next;
		job->done(job);
	}
	set_alarm(store, now);
	return is_settled;
}

static void *run(void *context)
{
	struct weir__redis_thread *const store = context;
	bool is_settled = false;

	while (!atomic_load(&store->is_ending))
		is_settled = turn(store, is_settled);
	store->charges_until = weir__monotonic_ns() + last_charges;
	is_settled = turn(store, false);
	while (store->asked > 0 || next_charge(store) != WEIR_NEVER)
		is_settled = turn(store, is_settled);
	weir__redis_log_end(&store->log, &store->info, weir__monotonic_ns());
	return NULL;
}

/* --- start and end ----------------------------------------------------------------------------------------------- */

static int refuse(struct weir_message *ret_message, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return WEIR_ERR_SYSTEM;
}

/* Frees everything that was created, and the store. */
static void fini(struct weir__redis_thread *store)
{
	weir__redis_driver_free(store->driver);
	if (store->client)
		weir__redis_client_free(store->client);
	weir__redis_backlog_free(store->backlog);
	weir__loop_close(&store->loop);
	free(store);
}

static int init(struct weir__redis_thread *store, size_t deferred_bytes, struct weir_message *ret_message)
{
	uint64_t seeds[2];

	if (weir__memory_random(seeds, sizeof(seeds)) != 0)
		return refuse(ret_message, "no random numbers for connections to Redis");
	store->client = weir__redis_client_new(&store->url, seeds[0], weir__monotonic_ns());
	store->backlog = weir__redis_backlog_new(seeds[1], deferred_bytes);
	if (store->client == NULL || store->backlog == NULL)
		return refuse(ret_message, "no memory for connections to Redis");
	return weir__redis_driver_new(&store->url, store->client, &store->loop, &store->driver, ret_message);
}

int weir__redis_thread_new(const struct weir__redis_url *url, size_t deferred_bytes,
			   void (*log)(void *context, const char *line), void *context,
			   struct weir__redis_thread **ret_store, struct weir_message *ret_message)
{
	struct weir__redis_thread *const store = calloc(1, sizeof(*store));
	int error;

	if (store == NULL)
		return refuse(ret_message, "no memory for connections to Redis");
	store->url = *url;
	store->alarm_at = store->charges_until = WEIR_NEVER;
	store->info.client.health = store->published.client.health = WEIR__REDIS_DOWN;
	weir__redis_log_init(&store->log, &store->url, log, context);
	if (weir__loop_init(&store->loop) != 0) {
		free(store);
		return refuse(ret_message, "no descriptors for connections to Redis");
	}
	error = init(store, deferred_bytes, ret_message);
	if (error == WEIR_OK && weir__thread_start(&store->thread, run, store) != 0)
		error = refuse(ret_message, "no thread for connections to Redis");
	if (error != WEIR_OK)
		fini(store);
	else
		*ret_store = store;
	return error;
}

void weir__redis_thread_free(struct weir__redis_thread *store)
{
	if (store == NULL)
		return;
	atomic_store(&store->is_ending, true);
	weir__loop_wake(&store->loop);
	(void)pthread_join(store->thread, NULL);
	fini(store);
}
