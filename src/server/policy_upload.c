/* policy_upload.c: reads an uploaded policy and, if requested, replaces the one in force. */
#include "server/policy_upload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/inline_limits.h"
#include "engine/request.h"
#include "guard/guard.h"
#include "policy/diagnostics.h"
#include "policy/policy.h"
#include "policy/source/policy_source.h"

struct weir__policy_upload_queue {
	pthread_mutex_t lock;
	struct weir__task *first;
	uint32_t n;
};

/* --- lines ------------------------------------------------------------------------------------------------------ */

static void add_line(struct weir__policy_lines *lines, const char *line, uint32_t most)
{
	const size_t size = strlen(line) + 1;

	if (lines->n < most && size > lines->size - lines->length) {
		const size_t wanted = 2 * (lines->size + size);
		char *const text = realloc(lines->text, wanted);

		if (text) {
			lines->text = text;
			lines->size = wanted;
		}
	}
	if (lines->n >= most || size > lines->size - lines->length) {
		lines->more++;
		return;
	}
	memcpy(lines->text + lines->length, line, size);
	lines->length += size;
	lines->n++;
}

static void add_name(struct weir__policy_lines *lines, const char *name)
{
	add_line(lines, name, WEIR__POLICY_NAMES_MAX);
}

/* Removes the file name: an upload has none. */
static void add_fault(void *outcome_, const char *line)
{
	struct weir__policy_outcome *const outcome = outcome_;
	static const char file[] = "policy:";
	const size_t length = sizeof(file) - 1;

	add_line(&outcome->diagnostics, strncmp(line, file, length) == 0 ? line + length : line,
		 WEIR__DIAGNOSTICS_MOST);
}

/* --- uploads ---------------------------------------------------------------------------------------------------- */

static void free_upload(struct weir__task *upload_)
{
	struct weir__policy_upload *const upload = (void *)upload_;

	free(upload->text);
	free(upload->outcome.diagnostics.text);
	free(upload->outcome.added.text);
	free(upload->outcome.removed.text);
	free(upload->outcome.changed.text);
	free(upload->outcome.anew.text);
	free(upload);
}

/* The upload is back in the mailbox of its worker: its request is done. */
static void returned(struct weir__task *task)
{
	struct weir__policy_upload *const upload = (void *)task;

	if (upload->request)
		weir__request_finish(upload->request);
	else
		task->free(task);
}

struct weir__policy_upload *weir__policy_upload_new(const char *text, size_t length, bool replaces)
{
	struct weir__policy_upload *const upload = calloc(1, sizeof(*upload));

	if (upload == NULL)
		return NULL;
	upload->task.free = free_upload;
	upload->task.returned = returned;
	upload->replaces = replaces;
	upload->length = length;
	upload->text = malloc(length + 1);
	if (upload->text == NULL) {
		free(upload);
		return NULL;
	}
	memcpy(upload->text, text, length);
	upload->text[length] = '\0';
	return upload;
}

struct weir__policy_upload_queue *weir__policy_upload_queue_new(void)
{
	struct weir__policy_upload_queue *const uploads = calloc(1, sizeof(*uploads));

	if (uploads)
		(void)pthread_mutex_init(&uploads->lock, NULL);
	return uploads;
}

bool weir__policy_upload_queue_add(struct weir__policy_upload_queue *uploads, struct weir__policy_upload *upload)
{
	struct weir__task **last = &uploads->first;
	bool has_room;

	(void)pthread_mutex_lock(&uploads->lock);
	has_room = uploads->n < WEIR__POLICY_UPLOADS_MAX;
	if (has_room) {
		while (*last)
			last = &(*last)->next;
		*last = &upload->task;
		uploads->n++;
	}
	(void)pthread_mutex_unlock(&uploads->lock);
	return has_room;
}

static struct weir__policy_upload *take_first(struct weir__policy_upload_queue *uploads)
{
	struct weir__task *upload;

	(void)pthread_mutex_lock(&uploads->lock);
	upload = uploads->first;
	if (upload) {
		uploads->first = upload->next;
		upload->next = NULL;
		uploads->n--;
	}
	(void)pthread_mutex_unlock(&uploads->lock);
	return (void *)upload;
}

void weir__policy_upload_queue_free(struct weir__policy_upload_queue *uploads)
{
	struct weir__policy_upload *upload;

	if (uploads == NULL)
		return;
	while ((upload = take_first(uploads)) != NULL)
		weir__mailbox_return(&upload->task);
	(void)pthread_mutex_destroy(&uploads->lock);
	free(uploads);
}

/* --- comparison of policies ------------------------------------------------------------------------------------- */

/* The plans of the new policy by name, and how the old policy differs in each. */
struct comparison {
	const struct weir_policy *policy;
	struct weir__policy_outcome *outcome;
	uint32_t n, at;
	struct side {
		uint32_t plan;
		bool is_old, differs;
		uint64_t rest; /* hash of the old plan's mode, key and store settings */
	} * sides;             /* sorted by name */
	uint32_t *places;      /* index in `sides`, by number of the plan */
};

static int compare_sides(const void *a, const void *b, void *policy)
{
	return strcmp(weir_policy_plan_of(policy, ((const struct side *)a)->plan)->name,
		      weir_policy_plan_of(policy, ((const struct side *)b)->plan)->name);
}

static bool comparison_init(struct comparison *comparison, const struct weir_policy *policy,
			    struct weir__policy_outcome *outcome)
{
	const uint32_t n = weir_policy_plans(policy);

	*comparison = (struct comparison){ .policy = policy, .outcome = outcome, .n = n };
	comparison->sides = calloc((size_t)n + 1, sizeof(*comparison->sides));
	comparison->places = calloc((size_t)n + 1, sizeof(*comparison->places));
	if (comparison->sides == NULL || comparison->places == NULL)
		return false;
	for (uint32_t i = 0; i < n; i++)
		comparison->sides[i].plan = i;
	qsort_r(comparison->sides, n, sizeof(*comparison->sides), compare_sides, (void *)(uintptr_t)policy);
	for (uint32_t i = 0; i < n; i++)
		comparison->places[comparison->sides[i].plan] = i;
	return true;
}

static void comparison_fini(struct comparison *comparison)
{
	free(comparison->sides);
	free(comparison->places);
}

static struct side *find_side(const struct comparison *comparison, const char *name)
{
	uint32_t low = 0, high = comparison->n;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		const int order = strcmp(weir_policy_plan_of(comparison->policy, comparison->sides[middle].plan)->name,
					 name);

		if (order == 0)
			return &comparison->sides[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static uint64_t rest_of(const struct weir__guard_row *row)
{
	const uint64_t what[] = { (uint64_t)row->mode,
				  (uint64_t)row->store,
				  (uint64_t)row->on_store_failure,
				  row->store_budget,
				  row->wait,
				  (uint64_t)row->consistency,
				  row->stranded,
				  row->ahead,
				  row->sync };

	return weir__policy_hash(weir__policy_hash(0, what, sizeof(what)), row->key, strlen(row->key));
}

static bool is_same_limit(const struct weir__guard_row *row, const struct weir_policy_plan *plan)
{
	if (row->limit == NULL || plan->is_unlimited)
		return row->limit == NULL && plan->is_unlimited;
	return weir__inline_limits_is_same(&row->now, &plan->limit);
}

static void begin_rows(void *comparison_, uint32_t n, uint32_t all)
{
	struct comparison *const comparison = comparison_;

	(void)n;
	(void)all;
	comparison->at = 0;
}

static void look_at_old(void *comparison_, const struct weir__guard_row *row)
{
	struct comparison *const comparison = comparison_;
	struct side *const side = find_side(comparison, row->name);

	if (side == NULL) {
		add_name(&comparison->outcome->removed, row->name);
		return;
	}
	side->is_old = true;
	side->differs = !is_same_limit(row, weir_policy_plan_of(comparison->policy, side->plan));
	side->rest = rest_of(row);
}

/* Rows come in the order of the plans. */
static void look_at_new(void *comparison_, const struct weir__guard_row *row)
{
	struct comparison *const comparison = comparison_;
	const struct side *const side = &comparison->sides[comparison->places[comparison->at++]];

	if (!side->is_old)
		add_name(&comparison->outcome->added, row->name);
	else if (side->differs || side->rest != rest_of(row))
		add_name(&comparison->outcome->changed, row->name);
}

/* --- running an upload ------------------------------------------------------------------------------------------ */

static void note_anew(void *outcome_, const struct weir__policy_difference *difference)
{
	struct weir__policy_outcome *const outcome = outcome_;
	char line[WEIR__POLICY_DIFFERENCE_SIZE];

	if (!weir__policy_difference_is_anew(difference))
		return;
	weir__policy_difference_write(difference, line);
	add_line(&outcome->anew, line, WEIR__BOUND_POLICY_ANEW);
}

/* Takes ownership of the policy. Only this thread changes the guard's policy, so the guard lists the old one before the
 * change and the new one after it. */
static bool replace(struct weir_guard *guard, struct weir_table *table, struct weir_policy *policy,
		    struct weir__policy_outcome *outcome)
{
	struct comparison comparison;
	struct weir_message why = { .text = "no memory" };
	const bool is_unmatched_changed = weir__policy_denies_unmatched(policy) != weir__guard_denies_unmatched(guard);
	bool is_good = comparison_init(&comparison, policy, outcome);

	if (is_good) {
		weir__guard_list(guard, 0, UINT32_MAX, begin_rows, look_at_old, &comparison);
		(void)weir__guard_compare(guard, policy, note_anew, outcome);
		is_good = weir_guard_change(guard, policy, weir_table_now(table), &why) == WEIR_OK;
	} else {
		weir_policy_free(policy);
	}
	if (is_good && is_unmatched_changed)
		add_name(&outcome->changed, "(unmatched)");
	if (is_good)
		weir__guard_list(guard, 0, UINT32_MAX, begin_rows, look_at_new, &comparison);
	else
		add_fault(outcome, why.text);
	comparison_fini(&comparison);
	return is_good;
}

static struct weir_policy *read_policy(struct weir__policy_upload *upload)
{
	struct weir__diagnostics diagnostics = { .file = "policy", .report = add_fault, .context = &upload->outcome };
	const struct weir__policy_part part = { .text = { upload->text, upload->length } };
	struct weir_policy *const policy = weir__policy_of_parts(&part, 1, &diagnostics, upload->envoy);

	if (policy && !weir__policy_has_limits(policy, &diagnostics)) {
		weir_policy_free(policy);
		return NULL;
	}
	return policy;
}

static void audit(const struct weir__policy_upload *upload)
{
	const struct weir__policy_outcome *const outcome = &upload->outcome;
	struct weir__log_line line;

	weir__audit_begin(&line, upload->log, &upload->who, "policy_put");
	if (outcome->is_good) {
		weir__log_number(&line, "limits", outcome->limits);
		weir__log_number(&line, "added", outcome->added.n + outcome->added.more);
		weir__log_number(&line, "removed", outcome->removed.n + outcome->removed.more);
		weir__log_number(&line, "changed", outcome->changed.n + outcome->changed.more);
		weir__log_number(&line, "anew", outcome->anew.n + outcome->anew.more);
	}
	weir__audit_end(&line, upload->log,
			outcome->is_good       ? NULL :
			outcome->diagnostics.n ? outcome->diagnostics.text :
						 "no memory");
}

bool weir__policy_upload_queue_do(struct weir__policy_upload_queue *uploads, struct weir_guard *guard,
				  struct weir_table *table,
				  void (*put)(void *context, const struct weir__policy_upload *upload), void *context)
{
	struct weir__policy_upload *const upload = take_first(uploads);
	struct weir__policy_outcome *outcome;
	struct weir_policy *policy;
	bool is_put = false;

	if (upload == NULL)
		return false;
	outcome = &upload->outcome;
	policy = read_policy(upload);
	outcome->is_good = policy != NULL;
	if (policy) {
		outcome->limits = weir_policy_limits(policy);
		if (upload->keys > 0)
			(void)weir__arena_plan_warn(policy, upload->keys, upload->has_store, table->region.arena_bytes,
						    outcome->warning);
		outcome->version = weir__policy_hash(5, upload->text, upload->length);
		if (upload->replaces)
			is_put = outcome->is_good = replace(guard, table, policy, outcome);
		else
			weir_policy_free(policy);
	}
	if (upload->replaces)
		audit(upload);
	if (is_put)
		put(context, upload);
	weir__mailbox_return(&upload->task);
	return true;
}
