/* remote.c: memos: what was asked in a run, and what is known of it by the next. */
#include "serve/remote.h"

#include <stdlib.h>

#include "redis/redis_store.h"
#include "serve/remote_failure.h"
#include "serve/sight.h"

enum {
	SPARE_MOST = 64,         /* memos that are kept for the next */
	KEYS_MOST = 1024 * 1024, /* bytes of keys that go out together, unless it is one that is longer */
	SPARE_KEYS = 16 * 1024,  /* that are kept with a memo */
	SPARE_VERDICTS = 1024,   /* likewise */
	NUMBER_BITS = 48,        /* of the number of a request; above these is the worker */
	FIRST_ROOM = 16,         /* of lists */
};

static const uint32_t none = UINT32_MAX;

enum state {
	OUT,          /* noted, or on its way */
	DECIDED,      /* by Redis; not yet counted here */
	NOT_ASKED,    /* not by Redis, which has charged nothing */
	NOT_ANSWERED, /* nor this, but perhaps it has */
	KNOWN,        /* for good */
};

/* A question. */
struct entry {
	uint64_t identity; /* a hash of what was asked */
	uint32_t next;     /* of the same request, or none */
	uint32_t verdicts; /* where they begin */
	uint8_t n, operation, state;
	bool is_closed;
};

/* A list that grows. */
struct list {
	void *at;
	uint32_t n, size;
};

/* What a request asked: its first and last question, or none; and its number, if somebody wanted to know, or 0. */
struct asked {
	uint32_t first, last;
	uint64_t number;
};

struct weir__memo {
	struct weir__errand errand; /* the first: so it leads here */
	struct weir__redis_job job;
	struct weir__memo *next_spare;
	bool is_out;
	struct list requests; /* struct asked, the oldest that may be run again first */
	struct list entries, verdicts;
	/* Of the job. */
	uint32_t first_entry;
	struct list questions, claims, keys; /* of requests and claims as Redis takes them; bytes */
	struct list plans;                   /* struct weir__remote_plan *, each counted once */
	weir_ns budget;
	/* The policy. */
	const struct weir__bound *pinned;
	struct weir_guard *guard;
	uint32_t phase;
};

struct weir__remote {
	struct weir__seam seam; /* the first: so it leads here */
	struct weir__remote_options options;
	struct weir__remote_plans *plans;
	struct weir__memo *spare;
	uint32_t n_spare;
	uint64_t numbers; /* that requests were given */
	uint32_t nodes;   /* as far as is known */
	/* Of the run. */
	struct weir__memo **place;
	uint32_t request;  /* its number in the memo, and 1; 0: none has begun */
	uint32_t answered; /* requests */
	uint32_t room;     /* for requests */
	uint32_t entry;    /* that is asked next in the request, or none */
	bool waits, is_full, is_closed;
};

/* --- lists ------------------------------------------------------------------------------------------------------- */

/* Room for n more. False: no memory. */
static bool make_room(struct list *list, size_t n, size_t each)
{
	size_t size = list->size ? list->size : FIRST_ROOM;
	void *at;

	if (n <= list->size - list->n)
		return true;
	while (size < list->n + n)
		size *= 2;
	at = realloc(list->at, size * each);
	if (at == NULL)
		return false;
	list->at = at;
	list->size = (uint32_t)size;
	return true;
}

static struct entry *entry_of(const struct weir__memo *memo, uint32_t i)
{
	return (struct entry *)memo->entries.at + i;
}

static struct asked *asked_of(const struct weir__memo *memo, uint32_t i)
{
	return (struct asked *)memo->requests.at + i;
}

static struct weir_verdict *verdicts_of(const struct weir__memo *memo, const struct entry *entry)
{
	return (struct weir_verdict *)memo->verdicts.at + entry->verdicts;
}

/* --- memos ------------------------------------------------------------------------------------------------------- */

static void drop_plans(struct weir__memo *memo)
{
	for (uint32_t i = 0; i < memo->plans.n; i++)
		weir__remote_plan_drop(((struct weir__remote_plan **)memo->plans.at)[i]);
	memo->plans.n = 0;
}

/* From any thread. */
static void free_memo(struct weir__memo *memo)
{
	struct list *const lists[] = { &memo->requests, &memo->entries, &memo->verdicts, &memo->questions,
				       &memo->claims,   &memo->keys,    &memo->plans };

	drop_plans(memo);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		free(lists[i]->at);
	free(memo);
}

static void free_errand(struct weir__errand *errand)
{
	free_memo((struct weir__memo *)errand);
}

static void empty_job(struct weir__memo *memo)
{
	drop_plans(memo);
	memo->questions.n = memo->claims.n = memo->keys.n = 0;
	memo->budget = WEIR_NEVER;
}

static void empty(struct weir__memo *memo)
{
	empty_job(memo);
	memo->requests.n = memo->entries.n = memo->verdicts.n = memo->first_entry = 0;
	memo->is_out = false;
	memo->pinned = NULL;
}

static struct weir__memo *new_memo(struct weir__remote *remote)
{
	struct weir__memo *memo = remote->spare;

	if (memo) {
		remote->spare = memo->next_spare;
		remote->n_spare--;
	} else {
		memo = calloc(1, sizeof(*memo));
		if (memo == NULL)
			return NULL;
		memo->errand.free = free_errand;
	}
	empty(memo);
	return memo;
}

static void give_up(struct weir__remote *remote, struct weir__memo *memo)
{
	if (remote->n_spare == SPARE_MOST || memo->keys.size > SPARE_KEYS || memo->verdicts.size > SPARE_VERDICTS) {
		free_memo(memo);
		return;
	}
	empty(memo);
	memo->next_spare = remote->spare;
	remote->spare = memo;
	remote->n_spare++;
}

bool weir__remote_is_memo(const struct weir__errand *errand)
{
	return errand->free == free_errand;
}

static void pin(struct weir__remote *remote, const struct weir__memo *memo)
{
	remote->seam.pinned = memo ? memo->pinned : NULL;
	remote->seam.guard = memo ? memo->guard : NULL;
	remote->seam.phase = memo ? memo->phase : 0;
}

/* What a memo has pinned is let go of. */
static void unpin(struct weir__remote *remote, struct weir__memo *memo)
{
	pin(remote, memo);
	weir__seam_unpin(&remote->seam);
	memo->pinned = NULL;
}

/* --- questions --------------------------------------------------------------------------------------------------- */

static uint64_t identity_of(enum weir__seam_operation operation, const struct weir_claim *claims, size_t n)
{
	uint64_t identity = operation;

	for (size_t i = 0; i < n; i++)
		identity = (identity ^ claims[i].cost ^
			    weir__hash(&claims[i].limit->secret, claims[i].key, claims[i].key_length)) *
				   UINT64_C(0x9e3779b97f4a7c15) +
			   1;
	return identity;
}

/* The plan is used by the job. False: no memory, or too many. */
static bool use_plan(struct weir__memo *memo, struct weir__remote_plan *plan)
{
	struct weir__remote_plan **const known = memo->plans.at;

	for (uint32_t i = 0; i < memo->plans.n; i++)
		if (known[i] == plan)
			return true;
	if (memo->plans.n == WEIR__REDIS_CALL_PLANS_MAX || !make_room(&memo->plans, 1, sizeof(plan)))
		return false;
	atomic_fetch_add(&plan->users, 1);
	((struct weir__remote_plan **)memo->plans.at)[memo->plans.n++] = plan;
	return true;
}

/* A claim as Redis takes it. The key is an offset until all keys are there. */
static bool add_claim(struct weir__remote *remote, struct weir__memo *memo, const struct weir_claim *claim)
{
	struct weir__remote_plan *const plan = weir__remote_plans_find(remote->plans, claim->limit);
	const struct weir__remote_rule rule = weir__remote_plans_rule(remote->plans, claim->limit);

	if (plan == NULL || !use_plan(memo, plan) || !make_room(&memo->claims, 1, sizeof(struct weir__redis_claim)) ||
	    !make_room(&memo->keys, claim->key_length, 1))
		return false;
	((struct weir__redis_claim *)memo->claims.at)[memo->claims.n++] =
		(struct weir__redis_claim){ .plan = &plan->redis,
					    .name = { plan->name, plan->name_length },
					    .key = { NULL, claim->key_length },
					    .cost = claim->cost };
	if (claim->key_length > 0)
		memcpy((char *)memo->keys.at + memo->keys.n, claim->key, claim->key_length);
	memo->keys.n += (uint32_t)claim->key_length;
	memo->budget = weir__min(memo->budget, rule.budget);
	return true;
}

/* Behind the last question of the request. */
static void link_entry(const struct weir__remote *remote, struct weir__memo *memo, uint32_t entry)
{
	struct asked *const asked = asked_of(memo, remote->request - 1);

	if (asked->first == none)
		asked->first = entry;
	else
		entry_of(memo, asked->last)->next = entry;
	asked->last = entry;
}

/* False: no memory, or a limit that cannot be in Redis: then the job is as it was. */
static bool add_question(struct weir__remote *remote, struct weir__memo *memo, enum weir__seam_operation operation,
			 const struct weir_claim *claims, size_t n, uint64_t identity)
{
	static const enum weir__redis_operation operations[] = {
		[WEIR__SEAM_TAKE] = WEIR__REDIS_TAKE,   [WEIR__SEAM_UPTO] = WEIR__REDIS_UP_TO,
		[WEIR__SEAM_PEEK] = WEIR__REDIS_PEEK,   [WEIR__SEAM_REFUND] = WEIR__REDIS_REFUND,
		[WEIR__SEAM_RESET] = WEIR__REDIS_RESET,
	};
	const uint32_t n_claims = memo->claims.n, n_keys = memo->keys.n;
	bool is_whole = make_room(&memo->questions, 1, sizeof(struct weir__redis_request)) &&
			make_room(&memo->entries, 1, sizeof(struct entry)) &&
			make_room(&memo->verdicts, n, sizeof(struct weir_verdict));

	for (size_t i = 0; is_whole && i < n; i++)
		is_whole = add_claim(remote, memo, &claims[i]);
	if (!is_whole) {
		memo->claims.n = n_claims;
		memo->keys.n = n_keys;
		return false;
	}
	((struct weir__redis_request *)memo->questions.at)[memo->questions.n++] =
		(struct weir__redis_request){ .operation = operations[operation], .n = n };
	*entry_of(memo, memo->entries.n) = (struct entry){ .identity = identity,
							   .next = none,
							   .verdicts = memo->verdicts.n,
							   .n = (uint8_t)n,
							   .operation = (uint8_t)operation,
							   .state = OUT };
	memo->verdicts.n += (uint32_t)n;
	link_entry(remote, memo, memo->entries.n++);
	return true;
}

static bool fits(const struct weir__memo *memo, const struct weir_claim *claims, size_t n)
{
	size_t bytes = memo->keys.n;

	for (size_t i = 0; i < n; i++)
		bytes += claims[i].key_length;
	return memo->claims.n + n <= WEIR__REDIS_CALL_CLAIMS_MAX && memo->plans.n + n <= WEIR__REDIS_CALL_PLANS_MAX &&
	       (bytes <= KEYS_MOST || memo->questions.n == 0);
}

static void decide_without(struct weir__remote *remote, enum weir__seam_operation operation,
			   const struct weir_claim *claims, size_t n, struct weir_verdict *ret_verdicts,
			   bool *ret_is_closed)
{
	const struct weir__remote_failure failure = { remote->options.table, remote->plans, remote->nodes };

	weir__remote_decide_without(&failure, operation, claims, n, ret_verdicts, ret_is_closed);
}

/* What is admitted here, and is certainly not charged there, is owed. */
static void owe(struct weir__remote *remote, enum weir__seam_operation operation, const struct weir_claim *claims,
		size_t n, const struct weir_verdict *verdicts)
{
	for (size_t i = 0; i < n; i++)
		if (!verdicts[i].allowed)
			return;
	for (size_t i = 0; i < n && (operation == WEIR__SEAM_TAKE || operation == WEIR__SEAM_UPTO); i++) {
		const struct weir__remote_plan *const plan = weir__remote_plans_find(remote->plans, claims[i].limit);

		if (plan && verdicts[i].granted > 0)
			weir__redis_store_owe(remote->options.store, &plan->redis,
					      (struct weir__resp_slice){ plan->name, plan->name_length },
					      (struct weir__resp_slice){ claims[i].key, claims[i].key_length },
					      verdicts[i].granted);
	}
}

/* As the table counts: all if it is allowed, else those that denied. */
static void count(const struct weir__remote *remote, const struct weir_claim *claims, size_t n,
		  const struct weir_verdict *verdicts)
{
	bool is_allowed = true;

	for (size_t i = 0; i < n; i++)
		is_allowed = is_allowed && verdicts[i].allowed;
	for (size_t i = 0; i < n; i++)
		if (is_allowed || !verdicts[i].allowed)
			weir__table_count(remote->options.table, claims[i].limit, is_allowed);
}

/* The entry's answer is what it is from here on. */
static void settle(struct weir__remote *remote, struct weir__memo *memo, struct entry *entry,
		   const struct weir_claim *claims)
{
	struct weir_verdict *const verdicts = verdicts_of(memo, entry);

	if (entry->state == DECIDED) {
		if (entry->operation == WEIR__SEAM_TAKE || entry->operation == WEIR__SEAM_UPTO)
			count(remote, claims, entry->n, verdicts);
	} else {
		decide_without(remote, entry->operation, claims, entry->n, verdicts, &entry->is_closed);
		if (entry->state == NOT_ASKED)
			owe(remote, entry->operation, claims, entry->n, verdicts);
	}
	entry->state = KNOWN;
	if (entry->operation == WEIR__SEAM_TAKE || entry->operation == WEIR__SEAM_UPTO)
		weir__sight_together(remote->options.sight, claims, verdicts, entry->n, remote->seam.is_shadow,
				     weir_table_now(remote->options.table));
}

/* The memo of the run, with room for its request. NULL: no memory. */
static struct weir__memo *memo_for_request(struct weir__remote *remote)
{
	struct weir__memo *memo = *remote->place;

	if (memo == NULL) {
		memo = new_memo(remote);
		if (memo == NULL)
			return NULL;
		*remote->place = memo;
		remote->request =
			1; /* those before it have been answered, and asked nothing that is still to be known */
		remote->answered = 0;
	}
	if (remote->request > memo->requests.n) {
		const uint32_t missing = remote->request - memo->requests.n;

		if (!make_room(&memo->requests, missing, sizeof(struct asked)))
			return NULL;
		for (uint32_t i = 0; i < missing; i++)
			*asked_of(memo, memo->requests.n++) = (struct asked){ none, none, 0 };
	}
	return memo;
}

/* Without memory it is as if Redis were not there. */
static bool note(struct weir__remote *remote, enum weir__seam_operation operation, const struct weir_claim *claims,
		 size_t n, uint64_t identity, struct weir_verdict *ret_verdicts)
{
	struct weir__memo *const memo = remote->is_full ? NULL : memo_for_request(remote);
	bool is_closed = false;

	if (memo && !fits(memo, claims, n))
		remote->is_full = true;
	if (remote->is_full)
		return false;
	if (memo && add_question(remote, memo, operation, claims, n, identity))
		return false;
	decide_without(remote, operation, claims, n, ret_verdicts, &is_closed);
	remote->is_closed |= is_closed;
	return true;
}

/* The question at this place of the request. If it is another one than the last time, as when a name has come to mean
 * another limit, what was asked then stays as it was decided, and this one is new. */
static struct entry *take_entry(struct weir__remote *remote, uint64_t identity)
{
	struct weir__memo *const memo = *remote->place;
	struct entry *const entry = remote->entry == none ? NULL : entry_of(memo, remote->entry);
	struct asked *asked;

	if (entry && entry->identity != identity) {
		asked = asked_of(memo, remote->request - 1);
		asked->first = asked->last = none;
		remote->entry = none;
		return NULL;
	}
	if (entry)
		remote->entry = entry->next;
	return entry;
}

static bool ask(struct weir__seam *seam, enum weir__seam_operation operation, const struct weir_claim *claims, size_t n,
		struct weir_verdict *ret_verdicts)
{
	struct weir__remote *const remote = (struct weir__remote *)seam;
	const uint64_t identity = identity_of(operation, claims, n);
	struct entry *const entry = take_entry(remote, identity);

	if (entry == NULL)
		return note(remote, operation, claims, n, identity, ret_verdicts);
	if (entry->state != KNOWN)
		settle(remote, *remote->place, entry, claims);
	memcpy(ret_verdicts, verdicts_of(*remote->place, entry), n * sizeof(*ret_verdicts));
	remote->is_closed |= entry->is_closed;
	return true;
}

/* --- runs -------------------------------------------------------------------------------------------------------- */

struct weir__remote *weir__remote_new(const struct weir__remote_options *options)
{
	struct weir__remote *const remote = calloc(1, sizeof(*remote));

	if (remote == NULL)
		return NULL;
	remote->seam.ask = ask;
	remote->options = *options;
	remote->nodes = 1;
	remote->plans = weir__remote_plans_new(options->book, options->guard, &options->otherwise);
	if (remote->plans)
		return remote;
	free(remote);
	return NULL;
}

void weir__remote_free(struct weir__remote *remote)
{
	if (remote == NULL)
		return;
	while (remote->spare) {
		struct weir__memo *const memo = remote->spare;

		remote->spare = memo->next_spare;
		free_memo(memo);
	}
	weir__remote_plans_free(remote->plans);
	free(remote);
}

struct weir__seam *weir__remote_seam(struct weir__remote *remote)
{
	return &remote->seam;
}

struct weir__redis_store *weir__remote_store(const struct weir__remote *remote)
{
	return remote->options.store;
}

void weir__remote_begin(struct weir__remote *remote, struct weir__memo **memo)
{
	remote->place = memo;
	remote->request = remote->answered = 0;
	remote->entry = none;
	remote->room = *memo ? (*memo)->requests.n : WEIR__REMOTE_REQUESTS;
	remote->waits = remote->is_full = remote->is_closed = false;
	remote->seam.is_not_yet = false;
	pin(remote, *memo);
}

/* All requests that the memo knows are answered: those to come begin anew, by the policy as it is now. */
static void end_memo(struct weir__remote *remote)
{
	struct weir__memo *const memo = *remote->place;

	if (memo) {
		memo->pinned = remote->seam.pinned;
		memo->guard = remote->seam.guard;
		memo->phase = remote->seam.phase;
		unpin(remote, memo);
		give_up(remote, memo);
		*remote->place = NULL;
	}
	remote->request = remote->answered = 0;
	remote->room = WEIR__REMOTE_REQUESTS;
}

void weir__remote_next(struct weir__remote *remote)
{
	const struct weir__memo *memo = *remote->place;

	remote->waits |= remote->seam.is_not_yet;
	remote->seam.is_not_yet = remote->is_closed = false;
	if (!remote->waits && memo && remote->answered >= memo->requests.n) {
		end_memo(remote);
		memo = NULL;
	}
	remote->request++;
	remote->entry = memo && remote->request <= memo->requests.n ? asked_of(memo, remote->request - 1)->first : none;
}

void weir__remote_again(struct weir__remote *remote)
{
	remote->request--;
}

bool weir__remote_has_room(const struct weir__remote *remote)
{
	return !remote->is_full && remote->request < remote->room;
}

bool weir__remote_is_not_yet(const struct weir__remote *remote)
{
	return remote->seam.is_not_yet;
}

bool weir__remote_waits(const struct weir__remote *remote)
{
	return remote->waits || remote->seam.is_not_yet;
}

void weir__remote_answered(struct weir__remote *remote)
{
	remote->answered = remote->request;
}

bool weir__remote_is_closed(const struct weir__remote *remote)
{
	return remote->is_closed;
}

uint64_t weir__remote_request(struct weir__remote *remote)
{
	const uint64_t next = ((uint64_t)remote->options.worker << NUMBER_BITS) + remote->numbers + 1;
	struct weir__memo *const memo = memo_for_request(remote);
	struct asked *const asked = memo ? asked_of(memo, remote->request - 1) : NULL;

	if (asked && asked->number != 0)
		return asked->number;
	remote->numbers++;
	if (asked)
		asked->number = next;
	return next;
}

/* Those that were answered are run no more. */
static void forget_answered(struct weir__memo *memo, uint32_t answered)
{
	memo->requests.n -= answered;
	memmove(memo->requests.at, asked_of(memo, answered), memo->requests.n * sizeof(struct asked));
}

static void job_done(struct weir__redis_job *job)
{
	struct weir__memo *const memo = (void *)((char *)job - offsetof(struct weir__memo, job));

	weir__errand_return(&memo->errand);
}

/* Nothing moves any more: offsets become addresses. */
static void make_job(struct weir__memo *memo)
{
	struct weir__redis_request *const questions = memo->questions.at;
	struct weir__redis_claim *const claims = memo->claims.at;
	const char *key = memo->keys.at;
	size_t claim = 0;

	for (uint32_t i = 0; i < memo->claims.n; i++) {
		claims[i].key.bytes = key;
		key += claims[i].key.length;
	}
	for (uint32_t i = 0; i < memo->questions.n; i++) {
		questions[i].claims = &claims[claim];
		claim += questions[i].n;
	}
	memo->job = (struct weir__redis_job){ .requests = questions,
					      .n = memo->questions.n,
					      .budget = memo->budget,
					      .verdicts = verdicts_of(memo, entry_of(memo, memo->first_entry)),
					      .done = job_done };
}

struct weir__errand *weir__remote_end(struct weir__remote *remote, struct weir__errand_door *door)
{
	struct weir__memo *const memo = *remote->place;

	if (!weir__remote_waits(remote)) {
		if (memo && remote->answered >= memo->requests.n)
			end_memo(remote);
		else if (memo)
			forget_answered(memo, remote->answered);
		remote->seam.pinned = NULL;
		return NULL;
	}
	forget_answered(memo, remote->answered);
	memo->pinned = remote->seam.pinned;
	memo->guard = remote->seam.guard;
	memo->phase = remote->seam.phase;
	remote->seam.pinned = NULL;
	memo->is_out = true;
	make_job(memo);
	weir__errand_send(door, &memo->errand);
	weir__redis_store_ask(remote->options.store, &memo->job);
	return &memo->errand;
}

void weir__remote_take_back(struct weir__remote *remote, struct weir__errand *errand)
{
	static const uint8_t states[] = { [WEIR__REDIS_IS_DECIDED] = DECIDED,
					  [WEIR__REDIS_NOT_ASKED] = NOT_ASKED,
					  [WEIR__REDIS_NOT_ANSWERED] = NOT_ANSWERED };
	struct weir__memo *const memo = (struct weir__memo *)errand;
	const enum weir__redis_outcome outcome = memo->job.outcome;
	struct weir__redis_store_info info;

	memo->is_out = false;
	for (uint32_t i = memo->first_entry; i < memo->entries.n; i++)
		entry_of(memo, i)->state = states[outcome];
	memo->first_entry = memo->entries.n;
	empty_job(memo);
	if (outcome == WEIR__REDIS_IS_DECIDED) {
		weir__remote_book_tell(remote->options.book, memo->job.decided_at);
	} else {
		weir__redis_store_info(remote->options.store, &info);
		remote->nodes = info.client.nodes > 0 ? info.client.nodes : 1;
	}
	if (errand->owner == NULL)
		give_up(remote, memo);
}

void weir__remote_forget(struct weir__remote *remote, struct weir__memo **memo_)
{
	struct weir__memo *const memo = *memo_;

	if (memo == NULL)
		return;
	*memo_ = NULL;
	unpin(remote, memo);
	memo->errand.owner = NULL;
	if (!memo->is_out)
		give_up(remote, memo);
}
