/* redis_store.c: gathers requests into batches, and completes them when a batch returns. */
#include "store/redis/redis_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/mailbox.h"
#include "store/table/decision.h"

enum {
	SPARE_MOST = 16,         /* batches kept for reuse */
	SPARE_CLAIMS = 512,      /* a larger batch is not kept for reuse */
	KEYS_MOST = 1024 * 1024, /* bytes of keys in a batch; a single longer request is a batch of its own */
	FIRST_ROOM = 32,         /* claims in a new batch */
};

/* Requests that go to Redis together. Claims and keys belong to the requests, which stay valid until they are
 * complete. */
struct batch {
	struct weir__task task; /* first member: the two convert by a cast */
	struct weir__redis_job job;
	struct batch *next_spare;
	struct weir__store_request *first, *last;
	uint32_t n_requests, n_claims, room, n_plans, plans_room;
	size_t keys_bytes;
	weir_ns budget;
	struct weir__redis_request *requests; /* room for one per claim */
	struct weir__redis_claim *claims;
	struct weir_verdict *verdicts;
	struct weir__redis_shared_plan **plans; /* one reference each */
};

struct redis_store {
	struct weir__store store; /* first member: the two convert by a cast */
	struct weir__redis_store_options options;
	struct weir__redis_plan_lookup *plans;
	struct weir__mailbox *mailbox;
	struct batch *open; /* the batch being gathered; NULL: none */
	struct batch *spare;
	uint32_t n_spare;
};

/* --- batches ----------------------------------------------------------------------------------------------------- */

static void drop_plans(struct batch *batch)
{
	for (uint32_t i = 0; i < batch->n_plans; i++)
		weir__redis_shared_plan_drop(batch->plans[i]);
	batch->n_plans = 0;
}

static void free_batch(struct batch *batch)
{
	drop_plans(batch);
	free(batch->requests);
	free(batch->claims);
	free(batch->verdicts);
	free((void *)batch->plans);
	free(batch);
}

/* The worker has ended, and all its requests with it. */
static void free_task(struct weir__task *task)
{
	free_batch((struct batch *)(void *)task);
}

static struct batch *new_batch(struct redis_store *store)
{
	struct batch *batch = store->spare;

	if (batch) {
		store->spare = batch->next_spare;
		store->n_spare--;
		return batch;
	}
	batch = calloc(1, sizeof(*batch));
	if (batch)
		batch->task.free = free_task;
	return batch;
}

static void recycle(struct redis_store *store, struct batch *batch)
{
	if (store->n_spare == SPARE_MOST || batch->room > SPARE_CLAIMS) {
		free_batch(batch);
		return;
	}
	drop_plans(batch);
	batch->n_requests = batch->n_claims = 0;
	batch->keys_bytes = 0;
	batch->first = batch->last = NULL;
	batch->next_spare = store->spare;
	store->spare = batch;
	store->n_spare++;
}

/* Makes room for n more claims, and as many requests. Returns false if memory runs out. */
static bool make_room(struct batch *batch, uint32_t n)
{
	uint32_t room = batch->room ? batch->room : FIRST_ROOM;
	void *requests, *claims, *verdicts;

	if (n <= batch->room - batch->n_claims)
		return true;
	while (room < batch->n_claims + n)
		room *= 2;
	requests = realloc(batch->requests, room * sizeof(*batch->requests));
	if (requests)
		batch->requests = requests;
	claims = realloc(batch->claims, room * sizeof(*batch->claims));
	if (claims)
		batch->claims = claims;
	verdicts = realloc(batch->verdicts, room * sizeof(*batch->verdicts));
	if (verdicts)
		batch->verdicts = verdicts;
	if (requests == NULL || claims == NULL || verdicts == NULL)
		return false;
	batch->room = room;
	return true;
}

/* Keeps the plan alive until the batch is done. Returns false if memory runs out. */
static bool use_plan(struct batch *batch, struct weir__redis_shared_plan *plan)
{
	for (uint32_t i = batch->n_plans; i > 0; i--) /* mostly the last one matches */
		if (batch->plans[i - 1] == plan)
			return true;
	if (batch->n_plans == batch->plans_room) {
		const uint32_t room = batch->plans_room ? 2 * batch->plans_room : 4;
		void *const plans = realloc((void *)batch->plans, room * sizeof(struct weir__redis_shared_plan *));

		if (plans == NULL)
			return false;
		batch->plans = plans;
		batch->plans_room = room;
	}
	atomic_fetch_add(&plan->users, 1);
	batch->plans[batch->n_plans++] = plan;
	return true;
}

/* --- submitting -------------------------------------------------------------------------------------------------- */

/* Both are of the request and of the one that is made before it, in the same call. */
static uint32_t claims_of(const struct weir__store_request *request)
{
	return request->n + (request->before ? request->before->n : 0);
}

static size_t bytes_of(const struct weir__store_request *request)
{
	size_t bytes = request->before ? bytes_of(request->before) : 0;

	for (uint32_t i = 0; i < request->n; i++)
		bytes += request->claims[i].key_length;
	return bytes;
}

static bool fits(const struct batch *batch, const struct weir__store_request *request, size_t keys_bytes)
{
	const uint32_t n = claims_of(request);

	return batch->n_claims + n <= WEIR__REDIS_CALL_CLAIMS_MAX && batch->n_plans + n <= WEIR__REDIS_CALL_PLANS_MAX &&
	       batch->budget == request->budget && batch->keys_bytes + keys_bytes <= KEYS_MOST;
}

/* Returns the batch for a request, after sending a full one. NULL: no memory. */
static struct batch *batch_for(struct redis_store *store, const struct weir__store_request *request, size_t keys_bytes)
{
	if (store->open && !fits(store->open, request, keys_bytes))
		store->store.flush(&store->store);
	if (store->open == NULL)
		store->open = new_batch(store);
	if (store->open && store->open->n_requests == 0) { /* new, or its first request was not kept */
		drop_plans(store->open);
		weir__redis_plan_lookup_begin(store->plans);
		store->open->budget = request->budget;
	}
	return store->open && make_room(store->open, claims_of(request)) ? store->open : NULL;
}

/* Writes claims in Redis's form, as those from number `at` on. Returns false if memory runs out, or a limit does not fit
 * Redis. */
static bool add_claims(struct redis_store *store, struct batch *batch, const struct weir__store_request *request,
		       uint32_t at)
{
	const struct weir__store_push *const pushes = request->operation == WEIR__STORE_PUSH ? request->pushes : NULL;
	const struct weir_table_limit *limit = NULL;
	const struct weir__redis_shared_plan *plan = NULL;

	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];

		if (plan == NULL || claim->limit != limit) {
			struct weir__redis_shared_plan *const found = weir__redis_plan_lookup_find(store->plans,
												   claim->limit);

			if (found == NULL || !use_plan(batch, found))
				return false;
			limit = claim->limit;
			plan = found;
		}
		batch->claims[at + i] = (struct weir__redis_claim){
			.plan = &plan->redis,
			.name = { plan->name, plan->name_length },
			.key = { claim->key, claim->key_length },
			.cost = claim->cost,
			.max_delay = request->max_delay,
			.charged_at = pushes ? pushes[i].at : request->charged_at,
			.charged_cost = request->charged_cost,
			.charged_full_at = request->charged_full_at,
			.lease_duration = request->lease_duration,
			.lease_most = request->lease_most,
			.lease_end_us = request->operation == WEIR__STORE_RETURN ? request->lease_ends[i] : 0,
			.reserved = pushes ? pushes[i].reserved : 0
		};
	}
	return true;
}

static void add_requests(struct batch *batch, const struct weir__store_request *request)
{
	static const enum weir__redis_operation operations[] = {
		[WEIR__STORE_TAKE] = WEIR__REDIS_TAKE,     [WEIR__STORE_UPTO] = WEIR__REDIS_UP_TO,
		[WEIR__STORE_PEEK] = WEIR__REDIS_PEEK,     [WEIR__STORE_REFUND] = WEIR__REDIS_REFUND,
		[WEIR__STORE_UNDO] = WEIR__REDIS_UNDO,     [WEIR__STORE_RESET] = WEIR__REDIS_RESET,
		[WEIR__STORE_INSPECT] = WEIR__REDIS_PEEK,  [WEIR__STORE_DEPART] = WEIR__REDIS_DEPART,
		[WEIR__STORE_CANCEL] = WEIR__REDIS_CANCEL, [WEIR__STORE_GRANT] = WEIR__REDIS_GRANT,
		[WEIR__STORE_RETURN] = WEIR__REDIS_RETURN, [WEIR__STORE_PUSH] = WEIR__REDIS_PUSH,
	};
	const uint32_t n = request->is_each ? request->n : 1;

	for (uint32_t i = 0; i < n; i++)
		batch->requests[batch->n_requests++] = (struct weir__redis_request){
			.operation = operations[request->operation], .n = request->is_each ? 1 : request->n
		};
	batch->n_claims += request->n;
}

/* Adds a request that was kept. Its keys may have moved, so its claims get their addresses. */
static void add_request(struct batch *batch, struct weir__store_request *kept)
{
	for (uint32_t i = 0; i < kept->n; i++)
		batch->claims[batch->n_claims + i].key.bytes = kept->claims[i].key;
	add_requests(batch, kept);
	kept->next = NULL;
	if (batch->last)
		batch->last->next = kept;
	else
		batch->first = kept;
	batch->last = kept;
}

static bool submit(struct weir__store *store_, struct weir__store_request *request)
{
	struct redis_store *const store = (struct redis_store *)(void *)store_;
	const size_t keys_bytes = bytes_of(request);
	const uint32_t n_before = request->before ? request->before->n : 0;
	struct batch *const batch = batch_for(store, request, keys_bytes);
	struct weir__store_request *kept = NULL;

	request->outcome = WEIR__STORE_UNREACHED;
	request->is_closed = false;
	if (request->before)
		request->before->outcome = WEIR__STORE_UNREACHED;
	if (batch == NULL || (n_before > 0 && !add_claims(store, batch, request->before, batch->n_claims)) ||
	    !add_claims(store, batch, request, batch->n_claims + n_before))
		return true;
	kept = request->caller->keep(request);
	if (kept == NULL)
		return true;
	if (n_before > 0)
		add_request(batch, kept->before);
	add_request(batch, kept);
	batch->keys_bytes += keys_bytes;
	return false;
}

static void batch_done(struct weir__redis_job *job)
{
	struct batch *const batch = (void *)((char *)job - offsetof(struct batch, job));

	weir__mailbox_return(&batch->task);
}

static void flush(struct weir__store *store_)
{
	struct redis_store *const store = (struct redis_store *)(void *)store_;
	struct batch *const batch = store->open;
	size_t claim = 0;

	if (batch == NULL || batch->n_requests == 0)
		return;
	store->open = NULL;
	for (uint32_t i = 0; i < batch->n_requests; i++) {
		batch->requests[i].claims = &batch->claims[claim];
		claim += batch->requests[i].n;
	}
	batch->job = (struct weir__redis_job){ .requests = batch->requests,
					       .n = batch->n_requests,
					       .budget = batch->budget,
					       .verdicts = batch->verdicts,
					       .lane = store->options.worker + 1,
					       .done = batch_done };
	weir__mailbox_send(store->mailbox, &batch->task);
	weir__redis_thread_ask(store->options.thread, &batch->job);
}

/* --- completing -------------------------------------------------------------------------------------------------- */

/* NOLINTNEXTLINE(misc-redundant-expression): equal, as it should be */
_Static_assert(WEIR__STORE_LEASE_MAX == WEIR__REDIS_LEASE_MAX, "the same maximum");

/* The `delay` of a grant is the time until the lease ends. Redis's clock has whole microseconds. */
static void take_lease_ends(struct weir__store_request *request)
{
	for (uint32_t i = 0; i < request->n; i++) {
		struct weir_verdict *const verdict = &request->verdicts[i];

		request->lease_ends[i] = verdict->granted > 0 ? (request->decided_at + verdict->delay) / 1000 : 0;
		verdict->delay = 0;
	}
}

static void take_verdicts(const struct redis_store *store, struct weir__store_request *request,
			  const struct weir_verdict *verdicts)
{
	memcpy(request->verdicts, verdicts, request->n * sizeof(*verdicts));
	if (request->operation == WEIR__STORE_GRANT)
		take_lease_ends(request);
	if (request->operation == WEIR__STORE_TAKE || request->operation == WEIR__STORE_UPTO)
		weir__table_store_count(store->options.table, request);
	if (!request->is_each && request->n > 1)
		request->decision = weir__decision_of(verdicts, request->n);
	if (request->operation == WEIR__STORE_INSPECT) {
		request->is_stored = verdicts[0].reset_after > 0;
		request->full_at = request->is_stored ? weir_table_now(store->options.table) + verdicts[0].reset_after :
							0;
	}
}

static void complete(struct redis_store *store, struct batch *batch)
{
	static const enum weir__store_outcome outcomes[] = { [WEIR__REDIS_JOB_DECIDED] = WEIR__STORE_DECIDED,
							     [WEIR__REDIS_JOB_UNREACHED] = WEIR__STORE_UNREACHED,
							     [WEIR__REDIS_JOB_UNANSWERED] = WEIR__STORE_UNANSWERED };
	const enum weir__store_outcome outcome = outcomes[batch->job.outcome];
	const struct weir_verdict *verdicts = batch->verdicts;
	struct weir__store_request *next = batch->first;

	bool is_behind = false;

	if (outcome == WEIR__STORE_DECIDED) {
		weir__redis_plan_cache_set_clock(store->options.plans, batch->job.decided_at);
		is_behind = weir__redis_thread_is_behind(store->options.thread, batch->job.decided_at);
	}
	while (next) {
		struct weir__store_request *const request = next;

		next = request->next;
		request->outcome = outcome;
		request->decided_at = batch->job.decided_at;
		request->is_behind = is_behind;
		if (outcome == WEIR__STORE_DECIDED)
			take_verdicts(store, request, verdicts);
		verdicts += request->n;
		weir__store_complete(&store->store, request);
	}
	recycle(store, batch);
}

static void collect(struct weir__store *store_)
{
	struct redis_store *const store = (struct redis_store *)(void *)store_;
	struct weir__task *next = weir__mailbox_take(store->mailbox);

	while (next) {
		struct batch *const batch = (struct batch *)(void *)next;

		next = next->next;
		complete(store, batch);
	}
}

static void defer(struct weir__store *store_, const struct weir_claim *claim, enum weir__store_deferred what,
		  uint64_t units)
{
	static const enum weir__redis_deferred deferred[] = { [WEIR__STORE_DEFER_CHARGE] = WEIR__REDIS_DEFER_CHARGE,
							      [WEIR__STORE_DEFER_REFUND] = WEIR__REDIS_DEFER_REFUND,
							      [WEIR__STORE_DEFER_UNDO] = WEIR__REDIS_DEFER_UNDO,
							      [WEIR__STORE_DEFER_RESET] = WEIR__REDIS_DEFER_RESET };
	struct redis_store *const store = (struct redis_store *)(void *)store_;
	const struct weir__redis_shared_plan *const plan = weir__redis_plan_lookup_find(store->plans, claim->limit);
	struct weir__redis_plan charged;

	if (plan == NULL)
		return;
	charged = plan->redis;
	if (charged.set_at == 0) /* an age would be wrong by how long the charge waits */
		weir__redis_plan_set_at(&charged, 0);
	weir__redis_thread_defer(store->options.thread, &charged,
				 (struct weir__resp_slice){ plan->name, plan->name_length },
				 (struct weir__resp_slice){ claim->key, claim->key_length }, deferred[what], units);
}

/* --- the store --------------------------------------------------------------------------------------------------- */

void weir__redis_store_status(struct weir__redis_thread *thread, struct weir__store_status *ret_status)
{
	static const enum weir__store_health healths[] = { [WEIR__REDIS_UP] = WEIR__STORE_UP,
							   [WEIR__REDIS_DOWN] = WEIR__STORE_DOWN,
							   [WEIR__REDIS_PROBING] = WEIR__STORE_PROBING };
	struct weir__redis_thread_info info;

	weir__redis_thread_info(thread, &info);
	*ret_status = (struct weir__store_status){ .health = healths[info.client.health],
						   .was_up = info.was_up,
						   .nodes = info.client.nodes,
						   .is_joining = info.client.is_joining,
						   .slow = info.client.failures[WEIR__REDIS_SLOW],
						   .gone = info.client.failures[WEIR__REDIS_GONE],
						   .refused = info.client.failures[WEIR__REDIS_REFUSES],
						   .calls = info.client.calls,
						   .requests = info.client.requests,
						   .decided = info.client.decided,
						   .unreached = info.client.unreached,
						   .unanswered = info.client.unanswered,
						   .script_loads = info.client.reloads,
						   .failovers = info.client.failovers,
						   .damaged = info.client.anew,
						   .deferred_keys = info.deferred_keys,
						   .charged = info.charged,
						   .excess = info.excess,
						   .uncertain = info.uncertain,
						   .dropped = info.dropped,
						   .latency_sum_us = info.latency_sum_us };
	_Static_assert((int)WEIR__REDIS_LATENCIES == (int)WEIR__STORE_LATENCIES, "as many");
	memcpy(ret_status->latency_counts, info.latency_counts, sizeof(info.latency_counts));
	(void)snprintf(ret_status->last_error, sizeof(ret_status->last_error), "%s", info.client.last_error);
}

static void status(struct weir__store *store, struct weir__store_status *ret_status)
{
	weir__redis_store_status(((struct redis_store *)(void *)store)->options.thread, ret_status);
}

static void free_store(struct weir__store *store_)
{
	struct redis_store *const store = (struct redis_store *)(void *)store_;

	weir__mailbox_close(store->mailbox);
	if (store->open)
		free_batch(store->open);
	while (store->spare) {
		struct batch *const batch = store->spare;

		store->spare = batch->next_spare;
		free_batch(batch);
	}
	weir__redis_plan_lookup_free(store->plans);
	free(store);
}

struct weir__store *weir__redis_store_new(const struct weir__redis_store_options *options)
{
	struct redis_store *const store = calloc(1, sizeof(*store));

	if (store == NULL)
		return NULL;
	store->options = *options;
	store->store = (struct weir__store){ .converts_on_look = true,
					     .submit = submit,
					     .flush = flush,
					     .collect = collect,
					     .defer = defer,
					     .status = status,
					     .free = free_store };
	store->plans = weir__redis_plan_lookup_new(options->plans, options->throttle_secret, &options->source);
	store->mailbox = weir__mailbox_new(options->loop);
	if (store->plans && store->mailbox)
		return &store->store;
	free_store(&store->store);
	return NULL;
}
