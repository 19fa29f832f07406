/* guard_submit.c: policy checks for event loops. A check is on the heap from the start, with its claims and keys. */
#include <stdlib.h>

#include "core/argument.h"
#include "core/text.h"
#include "guard/guard_check.h"
#include "guard/guard_internal.h"

struct submitted_check {
	struct weir__submission submission; /* must be first, so that the two convert by a cast */
	bool is_begun, is_over;
	weir_guard_done *done;
	void *context;
	struct weir__guard_check check;
	struct weir_verdict verdicts[WEIR_POLICY_CLAIMS_MAX];
	struct weir_claim claims[]; /* then the keys */
};

static int refuse(struct weir_message *ret_message, int error, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return error;
}

/* Returns false if the store has failed. */
static bool take_result(struct submitted_check *submitted)
{
	struct weir__submission *const submission = &submitted->submission;
	const int error = weir__store_result(weir__submitter_store(submission->submitter), &submission->request);
	const bool is_shadowing = weir__guard_check_is_shadowing(&submitted->check);

	if (error == WEIR_OK && !is_shadowing)
		weir__guard_note_fallback(&submitted->check.answer, &submission->request);
	if (error == WEIR_OK)
		return true;
	weir__guard_check_abandon(&submitted->check);
	submission->error = is_shadowing ? WEIR_OK : error;
	return false;
}

/* The check has left the epoch, so no other policy can make it start over. */
static bool advance(struct weir__submission *submission)
{
	struct submitted_check *const submitted = (struct submitted_check *)(void *)submission;
	int error;

	if (submitted->is_over || (submitted->is_begun && !take_result(submitted)))
		return true;
	submitted->is_begun = true;
	while (weir__guard_check_next(&submitted->check, NULL, submitted->claims, submitted->verdicts,
				      &submission->request, &error, NULL)) {
		submission->request.hashes = NULL;
		submission->request.epoch_check = NULL;
		if (!weir__submission_submit(submission))
			return false;
		if (!take_result(submitted))
			return true;
	}
	return true;
}

static void finish(struct weir__submission *submission)
{
	struct submitted_check *const submitted = (struct submitted_check *)(void *)submission;

	submitted->done(submitted->context, submission->error,
			submission->error == WEIR_OK ? &submitted->check.answer : NULL);
	free(submitted);
}

static struct submitted_check *new_submitted(const struct weir_claim *claims, size_t n, weir_guard_done *done,
					     void *context)
{
	struct submitted_check *submitted;
	size_t keys_bytes = 0;

	for (size_t i = 0; i < n; i++)
		keys_bytes += claims[i].key_length;
	submitted = malloc(sizeof(*submitted) + n * sizeof(*claims) + keys_bytes);
	if (submitted == NULL)
		return NULL;
	submitted->submission = (struct weir__submission){ .advance = advance, .finish = finish };
	submitted->is_begun = submitted->is_over = false;
	submitted->done = done;
	submitted->context = context;
	(void)weir__claims_copy(submitted->claims, claims, n, (char *)&submitted->claims[n]);
	return submitted;
}

/* Decides at once. Only the completion comes later. */
static int submit_to_table(struct weir_guard *guard, struct weir_submitter *submitter,
			   const struct weir_attribute *attributes, size_t n, uint64_t cost, weir_guard_done *done,
			   void *context, struct weir_message *ret_message)
{
	struct submitted_check *const submitted = new_submitted(NULL, 0, done, context);
	int error;

	if (submitted == NULL)
		return refuse(ret_message, WEIR_ERR_SYSTEM, "no memory for a request");
	submitted->is_over = true;
	error = weir_guard_check(guard, attributes, n, cost, weir__store_now(weir__submitter_store(submitter)),
				 &submitted->check.answer, ret_message);
	if (error == WEIR_OK)
		weir__submitter_run(submitter, &submitted->submission);
	else
		free(submitted);
	return error;
}

static int submit_to_store(struct weir_guard *guard, struct weir_submitter *submitter,
			   const struct weir_attribute *attributes, size_t n, uint64_t cost, weir_guard_done *done,
			   void *context, struct weir_message *ret_message)
{
	struct weir_claim claims[WEIR_POLICY_CLAIMS_MAX];
	struct submitted_check *submitted;
	struct weir__guard_match match;
	struct weir__guard_check check;
	const int error = weir__guard_check_begin(&check, guard, &match, attributes, n, cost, NULL, claims,
						  ret_message);

	if (error != WEIR_OK)
		return error;
	submitted = new_submitted(claims, check.n, done, context);
	if (submitted == NULL) {
		weir__guard_check_abandon(&check);
		return refuse(ret_message, WEIR_ERR_SYSTEM, "no memory for a request");
	}
	weir__guard_check_hold(&check);
	weir__guard_check_kept(&check);
	check.answer.fallback_nodes = 0;
	check.answer.is_closed = false;
	submitted->check = check;
	weir__submitter_run(submitter, &submitted->submission);
	return WEIR_OK;
}

int weir_guard_submit(struct weir_guard *guard, struct weir_submitter *submitter,
		      const struct weir_attribute *attributes, size_t n, uint64_t cost, weir_guard_done *done,
		      void *context, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(guard, ret_message);
	WEIR__NOT_NULL(submitter, ret_message);
	WEIR__NOT_NULL(done, ret_message);
	if (n > 0)
		WEIR__NOT_NULL(attributes, ret_message);

	const struct weir_store *const store = weir__submitter_store(submitter);
	const int error = weir__submitter_accepts(submitter);

	if (error != WEIR_OK)
		return refuse(ret_message, error, weir_strerror(error));
	if (guard->store ? guard->store != store : store->kind || store->table != guard->table)
		return refuse(ret_message, WEIR_ERR_LIMIT,
			      "the submitter belongs to another store: create it from the guard's store");
	return (guard->store ? submit_to_store : submit_to_table)(guard, submitter, attributes, n, cost, done, context,
								  ret_message);
}
