/* submitter.c: requests of an event loop, which complete later, in weir_submitter_dispatch. Blocking calls borrow
 * submitters, too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/argument.h"
#include "core/text.h"
#include "os/wakeup.h"
#include "store/store_internal.h"

struct weir_submitter {
	struct weir_store *store;
	struct weir__store *handle;
	struct weir__table_store of_table; /* the handle of a table */
	struct weir__loop loop;            /* only its `wake` is used, a descriptor of wakeup.h */
	bool is_rung;                      /* the descriptor was set by this thread, and not cleared since */
	bool is_closing;
	size_t in_flight;                      /* submissions that were not finished */
	struct weir__submission *first, *last; /* those that are complete, oldest first */
	struct weir_submitter *next;           /* in the store */
	struct weir_submitter *next_idle;      /* of those that no blocking call uses */
};

static int refuse(struct weir_message *ret_message, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return WEIR_ERR_SYSTEM;
}

/* --- making ------------------------------------------------------------------------------------------------------ */

static void free_submitter(struct weir_submitter *submitter)
{
	if (submitter->handle && submitter->handle->free)
		submitter->handle->free(submitter->handle);
	weir__wakeup_free(submitter->loop.wake);
	free(submitter);
}

int weir_submitter_new(struct weir_store *store, struct weir_submitter **ret_submitter,
		       struct weir_message *ret_message)
{
	WEIR__NOT_NULL(store, ret_message);
	WEIR__NOT_NULL(ret_submitter, ret_message);

	struct weir_submitter *const submitter = calloc(1, sizeof(*submitter));
	uint32_t number;

	if (submitter == NULL)
		return refuse(ret_message, "no memory for a submitter");
	submitter->store = store;
	submitter->loop = (struct weir__loop){ .epoll = -1, .wake = weir__wakeup_new(), .alarm = -1 };
	if (submitter->loop.wake < 0) {
		free(submitter);
		return refuse(ret_message,
			      "no file descriptor for a submitter: raise the limit of open files (ulimit -n)");
	}
	weir__lock_acquire(&store->lock);
	number = store->n_submitters++;
	weir__lock_release(&store->lock);
	if (store->kind) {
		submitter->handle = store->kind->open(store, number, &submitter->loop);
	} else {
		weir__table_store_init(&submitter->of_table, store->table);
		submitter->handle = &submitter->of_table.store;
	}
	if (submitter->handle == NULL) {
		free_submitter(submitter);
		errno = ENOMEM;
		return refuse(ret_message, "no memory for a submitter");
	}
	weir__lock_acquire(&store->lock);
	submitter->next = store->submitters;
	store->submitters = submitter;
	weir__lock_release(&store->lock);
	*ret_submitter = submitter;
	return WEIR_OK;
}

static void leave_store(struct weir_submitter *submitter)
{
	struct weir_store *const store = submitter->store;
	struct weir_submitter **at = &store->submitters;

	weir__lock_acquire(&store->lock);
	while (*at != submitter)
		at = &(*at)->next;
	*at = submitter->next;
	weir__lock_release(&store->lock);
}

/* Frees a submitter that is not in the store's list any more. */
static void end(struct weir_submitter *submitter)
{
	submitter->is_closing = true;
	while (submitter->in_flight > 0)
		if (weir_submitter_dispatch(submitter) == 0 && submitter->in_flight > 0)
			weir__wakeup_wait(submitter->loop.wake);
	free_submitter(submitter);
}

void weir_submitter_free(struct weir_submitter *submitter)
{
	if (submitter == NULL)
		return;
	leave_store(submitter);
	end(submitter);
}

void weir__submitters_free(struct weir_store *store)
{
	struct weir_submitter *submitter;

	while ((submitter = store->submitters) != NULL) {
		store->submitters = submitter->next;
		end(submitter);
	}
}

int weir_submitter_descriptor(const struct weir_submitter *submitter)
{
	return submitter->loop.wake;
}

size_t weir_submitter_in_flight(const struct weir_submitter *submitter)
{
	return submitter->in_flight;
}

struct weir_store *weir__submitter_store(const struct weir_submitter *submitter)
{
	return submitter->store;
}

/* --- blocking calls ---------------------------------------------------------------------------------------------- */

struct weir_submitter *weir__submitter_borrow(struct weir_store *store)
{
	struct weir_submitter *submitter;

	weir__lock_acquire(&store->lock);
	submitter = store->idle;
	if (submitter)
		store->idle = submitter->next_idle;
	weir__lock_release(&store->lock);
	if (submitter == NULL && weir_submitter_new(store, &submitter, NULL) != WEIR_OK)
		return NULL;
	return submitter;
}

void weir__submitter_give_back(struct weir_submitter *submitter)
{
	struct weir_store *const store = submitter->store;

	weir__lock_acquire(&store->lock);
	submitter->next_idle = store->idle;
	store->idle = submitter;
	weir__lock_release(&store->lock);
}

struct weir__store *weir__submitter_handle(const struct weir_submitter *submitter)
{
	return submitter->handle;
}

void weir__submitter_wait(const struct weir_submitter *submitter)
{
	weir__wakeup_wait(submitter->loop.wake);
	weir__wakeup_clear(submitter->loop.wake);
}

/* --- submissions ------------------------------------------------------------------------------------------------- */

static void ring(struct weir_submitter *submitter)
{
	if (submitter->is_rung)
		return;
	submitter->is_rung = true;
	weir__wakeup_set(submitter->loop.wake);
}

static void add_complete(struct weir__submission *submission)
{
	struct weir_submitter *const submitter = submission->submitter;

	submission->next = NULL;
	if (submitter->last)
		submitter->last->next = submission;
	else
		submitter->first = submission;
	submitter->last = submission;
}

/* A submission is on the heap from the start. */
static struct weir__store_request *keep(struct weir__store_request *request)
{
	return request;
}

static void complete(struct weir__store_request *request)
{
	struct weir__submission *const submission = (struct weir__submission *)(void *)request;

	if (submission->advance(submission))
		add_complete(submission);
}

static const struct weir__store_caller submission_caller = { keep, complete };

bool weir__submission_submit(struct weir__submission *submission)
{
	const struct weir_submitter *const submitter = submission->submitter;

	submission->request.caller = &submission_caller;
	submission->request.now = weir__store_now(submitter->store);
	return weir__store_submit(submitter->handle, &submission->request);
}

int weir__submitter_accepts(const struct weir_submitter *submitter)
{
	if (submitter->is_closing)
		return WEIR_ERR_CLOSED;
	return submitter->in_flight < WEIR_SUBMITTER_MAX ? WEIR_OK : WEIR_ERR_FULL;
}

void weir__submitter_run(struct weir_submitter *submitter, struct weir__submission *submission)
{
	submission->submitter = submitter;
	submitter->in_flight++;
	if (submission->advance(submission))
		add_complete(submission);
	ring(submitter);
}

/* Clears the wakeup before it collects the replies, so that a later reply sets it again. */
static void collect(struct weir_submitter *submitter)
{
	submitter->is_rung = false;
	weir__wakeup_clear(submitter->loop.wake);
	weir__store_collect(submitter->handle);
	weir__store_flush(submitter->handle); /* collecting may have submitted the next step of a request */
}

void weir_submitter_flush(struct weir_submitter *submitter)
{
	weir__store_flush(submitter->handle);
	if (submitter->first || !submitter->is_rung)
		return;
	collect(submitter);
	if (submitter->first)
		ring(submitter);
}

size_t weir_submitter_dispatch(struct weir_submitter *submitter)
{
	struct weir__submission *next;
	size_t n = 0;

	collect(submitter);
	next = submitter->first;
	submitter->first = submitter->last = NULL;
	while (next) {
		struct weir__submission *const submission = next;

		next = submission->next;
		submitter->in_flight--;
		submission->finish(submission);
		n++;
	}
	return n;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

struct request {
	struct weir__submission submission; /* must be first, so that the two convert by a cast */
	bool is_submitted;
	weir_store_done *done;
	void *context;
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim claims[]; /* then the keys */
};

static bool advance(struct weir__submission *submission)
{
	struct request *const request = (struct request *)(void *)submission;

	if (!request->is_submitted) {
		request->is_submitted = true;
		if (!weir__submission_submit(submission))
			return false;
	}
	submission->error = weir__store_result(weir__submitter_store(submission->submitter), &submission->request);
	return true;
}

static void finish(struct weir__submission *submission)
{
	struct request *const request = (struct request *)(void *)submission;
	struct weir_store_answer answer;

	if (submission->error == WEIR_OK) {
		weir__store_set_answer(&submission->request, &answer);
		request->done(request->context, WEIR_OK, &answer, request->verdicts);
	} else {
		request->done(request->context, submission->error, NULL, NULL);
	}
	free(request);
}

char *weir__claims_copy(struct weir_claim *to, const struct weir_claim *claims, size_t n, char *keys)
{
	for (size_t i = 0; i < n; i++) {
		to[i] = claims[i];
		to[i].key = keys;
		if (claims[i].key_length > 0)
			memcpy(keys, claims[i].key, claims[i].key_length);
		keys += claims[i].key_length;
	}
	return keys;
}

int weir_submitter_submit(struct weir_submitter *submitter, enum weir_store_operation operation,
			  const struct weir_claim *claims, size_t n, weir_store_done *done, void *context)
{
	static const enum weir__store_operation operations[] = {
		[WEIR_STORE_TAKE] = WEIR__STORE_TAKE,   [WEIR_STORE_UPTO] = WEIR__STORE_UPTO,
		[WEIR_STORE_PEEK] = WEIR__STORE_PEEK,   [WEIR_STORE_REFUND] = WEIR__STORE_REFUND,
		[WEIR_STORE_RESET] = WEIR__STORE_RESET,
	};
	const int error = weir__submitter_accepts(submitter);
	struct request *request;
	size_t keys_bytes = 0;

	if (error != WEIR_OK)
		return error;
	if (n < 1 || n > (operation == WEIR_STORE_TAKE ? WEIR_TABLE_CLAIMS_MAX : 1))
		return WEIR_ERR_LIMIT;
	for (size_t i = 0; i < n; i++)
		keys_bytes += claims[i].key_length;
	request = malloc(sizeof(*request) + n * sizeof(*claims) + keys_bytes);
	if (request == NULL)
		return WEIR_ERR_SYSTEM;
	(void)weir__claims_copy(request->claims, claims, n, (char *)&request->claims[n]);
	request->submission = (struct weir__submission){ .request = { .operation = operations[operation],
								      .n = (uint32_t)n,
								      .claims = request->claims,
								      .verdicts = request->verdicts },
							 .advance = advance,
							 .finish = finish };
	request->is_submitted = false;
	request->done = done;
	request->context = context;
	weir__submitter_run(submitter, &request->submission);
	return WEIR_OK;
}
