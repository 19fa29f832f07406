/* toy_store.c: requests in three lists: gathered until the store is flushed, sent, and due. A thread of the store wakes
 * the worker when the next one is due. */
#include "toy_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	DELAY_MOST_NS = 2000000,
	ONE_AT_ONCE = 8, /* one in this many requests completes in submit */
	UNDECIDED = 0xa5 /* fills verdicts until the request completes, to expose early reads */
};

/* A request that completes later. Its result is kept here until then. */
struct later {
	struct weir__store_request *request;
	uint64_t due_ns, sum;
	struct weir__store_request decided;
	struct weir_verdict verdicts[];
};

struct list {
	struct later **at;
	size_t n, room;
};

struct toy_store {
	struct weir__store store; /* first, so that a pointer to it can be cast */
	struct weir_table *table;
	struct weir__loop *loop;
	uint64_t random;
	struct list gathered, sent, due;

	pthread_t thread;
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t changed;
	uint64_t wake_at_ns; /* UINT64_MAX: never */
	bool is_ending;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* splitmix64 */
static uint64_t random_below(struct toy_store *toy, uint64_t n)
{
	uint64_t mixed = toy->random += UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (mixed ^ (mixed >> 31)) % n;
}

/* Aborts without memory. */
static void *must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

static void add(struct list *list, struct later *later)
{
	if (list->n == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		list->at = must(realloc((void *)list->at, list->room * sizeof(struct later *)));
	}
	list->at[list->n++] = later;
}

/* --- submitting -------------------------------------------------------------------------------------------------- */

/* A checksum of the claims, which must not change until the request completes. */
static uint64_t sum_claims(const struct weir__store_request *request)
{
	uint64_t sum = request->n;

	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];

		sum = sum * 31 + weir__hash(&claim->limit->secret, claim->key, claim->key_length) + claim->cost;
	}
	return sum;
}

/* Decides with the caller's data, as a table does, and completes with the kept copy. A premise can only be checked now:
 * if it does not hold, the request completes now. */
static bool submit(struct weir__store *store, struct weir__store_request *request)
{
	struct toy_store *const toy = (struct toy_store *)(void *)store;
	const bool is_late = random_below(toy, ONE_AT_ONCE) > 0;
	struct weir__store_request *kept = NULL;
	struct later *later;

	weir__table_store_decide(toy->table, request);
	if (is_late && request->outcome == WEIR__STORE_DECIDED)
		kept = request->caller->keep(request);
	if (kept == NULL)
		return true;
	later = must(malloc(sizeof(*later) + request->n * sizeof(later->verdicts[0])));
	later->request = kept;
	later->sum = sum_claims(request);
	later->decided = *request;
	memcpy(later->verdicts, request->verdicts, request->n * sizeof(later->verdicts[0]));
	memset(kept->verdicts, UNDECIDED, kept->n * sizeof(kept->verdicts[0]));
	add(&toy->gathered, later);
	return false;
}

/* --- completing -------------------------------------------------------------------------------------------------- */

static void set_alarm(struct toy_store *toy)
{
	uint64_t first_ns = UINT64_MAX;

	for (size_t i = 0; i < toy->sent.n; i++)
		if (toy->sent.at[i]->due_ns < first_ns)
			first_ns = toy->sent.at[i]->due_ns;
	(void)pthread_mutex_lock(&toy->lock);
	if (toy->wake_at_ns != first_ns) {
		toy->wake_at_ns = first_ns;
		(void)pthread_cond_signal(&toy->changed);
	}
	(void)pthread_mutex_unlock(&toy->lock);
}

static void flush(struct weir__store *store)
{
	struct toy_store *const toy = (struct toy_store *)(void *)store;

	for (size_t i = 0; i < toy->gathered.n; i++) {
		toy->gathered.at[i]->due_ns = now_ns() + random_below(toy, DELAY_MOST_NS);
		add(&toy->sent, toy->gathered.at[i]);
	}
	if (toy->gathered.n > 0)
		set_alarm(toy);
	toy->gathered.n = 0;
}

/* Moves the due requests to their own list, shuffled. */
static void find_due(struct toy_store *toy)
{
	const uint64_t now = now_ns();
	size_t n_left = 0;

	for (size_t i = 0; i < toy->sent.n; i++)
		if (toy->sent.at[i]->due_ns <= now)
			add(&toy->due, toy->sent.at[i]);
		else
			toy->sent.at[n_left++] = toy->sent.at[i];
	toy->sent.n = n_left;
	for (size_t i = toy->due.n; i > 1; i--) {
		const size_t other = random_below(toy, i);
		struct later *const moved = toy->due.at[other];

		toy->due.at[other] = toy->due.at[i - 1];
		toy->due.at[i - 1] = moved;
	}
}

static void complete(const struct weir__store *store, struct later *later)
{
	struct weir__store_request *const request = later->request;
	const struct weir__store_request *const decided = &later->decided;

	if (sum_claims(request) != later->sum)
		abort();
	memcpy(request->verdicts, later->verdicts, request->n * sizeof(request->verdicts[0]));
	request->outcome = decided->outcome;
	request->is_closed = decided->is_closed;
	request->n_current = decided->n_current;
	if (request->operation == WEIR__STORE_INSPECT) { /* not set otherwise, nor is the decision of one claim */
		request->is_stored = decided->is_stored;
		request->full_at = decided->full_at;
	}
	if (!request->is_each && request->n > 1)
		request->decision = decided->decision;
	free(later);
	weir__store_complete(store, request);
}

static void collect(struct weir__store *store)
{
	struct toy_store *const toy = (struct toy_store *)(void *)store;

	find_due(toy);
	set_alarm(toy);
	for (size_t i = 0; i < toy->due.n; i++)
		complete(store, toy->due.at[i]); /* may submit more */
	toy->due.n = 0;
}

/* Wakes the worker under the lock, because the loop may be closed once the store is idle. */
static void *wake_worker(void *toy_)
{
	struct toy_store *const toy = toy_;

	(void)pthread_mutex_lock(&toy->lock);
	while (!toy->is_ending) {
		const uint64_t at_ns = toy->wake_at_ns;
		const struct timespec at = { .tv_sec = (time_t)(at_ns / 1000000000),
					     .tv_nsec = (long)(at_ns % 1000000000) };

		if (at_ns == UINT64_MAX) {
			(void)pthread_cond_wait(&toy->changed, &toy->lock);
		} else if (at_ns > now_ns()) {
			(void)pthread_cond_timedwait(&toy->changed, &toy->lock, &at);
		} else {
			toy->wake_at_ns = UINT64_MAX;
			weir__loop_wake(toy->loop);
		}
	}
	(void)pthread_mutex_unlock(&toy->lock);
	return NULL;
}

/* --- the store --------------------------------------------------------------------------------------------------- */

static void free_store(struct weir__store *store)
{
	struct toy_store *const toy = (struct toy_store *)(void *)store;

	if (toy->gathered.n > 0 || toy->sent.n > 0) /* its worker has ended without them */
		abort();
	(void)pthread_mutex_lock(&toy->lock);
	toy->is_ending = true;
	(void)pthread_cond_signal(&toy->changed);
	(void)pthread_mutex_unlock(&toy->lock);
	(void)pthread_join(toy->thread, NULL);
	(void)pthread_cond_destroy(&toy->changed);
	(void)pthread_mutex_destroy(&toy->lock);
	free((void *)toy->gathered.at);
	free((void *)toy->sent.at);
	free((void *)toy->due.at);
	free(toy);
}

struct weir__store *toy_store_new(struct weir_table *table, struct weir__loop *loop, uint64_t seed)
{
	struct toy_store *const toy = calloc(1, sizeof(*toy));
	pthread_condattr_t attributes;

	if (toy == NULL)
		return NULL;
	toy->store = (struct weir__store){ .submit = submit, .flush = flush, .collect = collect, .free = free_store };
	toy->table = table;
	toy->loop = loop;
	toy->random = seed;
	toy->wake_at_ns = UINT64_MAX;
	(void)pthread_mutex_init(&toy->lock, NULL);
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&toy->changed, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	if (pthread_create(&toy->thread, NULL, wake_worker, toy) == 0)
		return &toy->store;
	free(toy);
	return NULL;
}
