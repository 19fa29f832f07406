/* redis_jobs.c: a queue of waiting jobs, and a heap of deadlines. */
#include "store/redis/redis_jobs.h"

#include <stdlib.h>

enum { SIZE_FIRST = 16, NONE = WEIR__REDIS_NO_JOB };

void weir__redis_jobs_init(struct weir__redis_jobs *jobs)
{
	*jobs = (struct weir__redis_jobs){ .free = NONE, .first = NONE, .last = NONE };
}

void weir__redis_jobs_fini(struct weir__redis_jobs *jobs)
{
	free(jobs->entries);
	free(jobs->heap);
}

/* --- the heap of deadlines --------------------------------------------------------------------------------------- */

static bool is_before(const struct weir__redis_jobs *jobs, int32_t a, int32_t b)
{
	return jobs->entries[a].deadline < jobs->entries[b].deadline;
}

static void heap_set(struct weir__redis_jobs *jobs, uint32_t at, int32_t entry)
{
	jobs->heap[at] = entry;
	jobs->entries[entry].heap_at = at;
}

/* Places an entry in the heap at the free place `at`, or above or below it as the order requires. */
static void heap_settle(struct weir__redis_jobs *jobs, uint32_t at, int32_t entry)
{
	while (at > 0 && is_before(jobs, entry, jobs->heap[(at - 1) / 2])) {
		heap_set(jobs, at, jobs->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < jobs->n_heap && is_before(jobs, jobs->heap[child + 1], jobs->heap[child]))
			child++;
		if (child >= jobs->n_heap || !is_before(jobs, jobs->heap[child], entry))
			break;
		heap_set(jobs, at, jobs->heap[child]);
		at = child;
	}
	heap_set(jobs, at, entry);
}

static void heap_remove(struct weir__redis_jobs *jobs, uint32_t at)
{
	const int32_t last = jobs->heap[--jobs->n_heap];

	if (at < jobs->n_heap)
		heap_settle(jobs, at, last);
}

/* --- the queue of waiting jobs ----------------------------------------------------------------------------------- */

/* Links an entry between two waiting ones. WEIR__REDIS_NO_JOB: it becomes the first or the last. */
static void wait_between(struct weir__redis_jobs *jobs, int32_t previous, int32_t entry, int32_t next)
{
	jobs->entries[entry].previous = previous;
	jobs->entries[entry].next = next;
	jobs->entries[entry].is_waiting = true;
	*(previous == NONE ? &jobs->first : &jobs->entries[previous].next) = entry;
	*(next == NONE ? &jobs->last : &jobs->entries[next].previous) = entry;
}

static void wait_no_longer(struct weir__redis_jobs *jobs, int32_t entry)
{
	const int32_t previous = jobs->entries[entry].previous, next = jobs->entries[entry].next;

	jobs->entries[entry].is_waiting = false;
	*(previous == NONE ? &jobs->first : &jobs->entries[previous].next) = next;
	*(next == NONE ? &jobs->last : &jobs->entries[next].previous) = previous;
}

/* --- entries ----------------------------------------------------------------------------------------------------- */

static bool grow(struct weir__redis_jobs *jobs)
{
	const uint32_t size = jobs->size == 0 ? SIZE_FIRST : 2 * jobs->size;
	struct weir__redis_entry *entries;
	int32_t *heap;

	if (size > WEIR__REDIS_JOBS_MAX)
		return false;
	entries = realloc(jobs->entries, size * sizeof(*entries));
	if (entries == NULL)
		return false;
	jobs->entries = entries;
	heap = realloc(jobs->heap, size * sizeof(*heap));
	if (heap == NULL)
		return false;
	jobs->heap = heap;
	while (jobs->size < size) {
		entries[jobs->size].next = jobs->free;
		jobs->free = (int32_t)jobs->size++;
	}
	return true;
}

/* Returns the number of claims of a job; 0: the job is invalid. */
static uint32_t claims_of(const struct weir__redis_job *job)
{
	size_t claims = 0;

	for (size_t i = 0; i < job->n; i++) {
		if (weir__redis_call_answers(&job->requests[i]) == 0)
			return 0;
		claims += job->requests[i].n;
		if (claims > WEIR__REDIS_CALL_CLAIMS_MAX)
			return 0;
	}
	return (uint32_t)claims;
}

bool weir__redis_jobs_add(struct weir__redis_jobs *jobs, struct weir__redis_job *job, weir_ns deadline)
{
	const uint32_t claims = claims_of(job);
	int32_t entry;

	if (claims == 0 || (jobs->free == NONE && !grow(jobs)))
		return false;
	entry = jobs->free;
	jobs->free = jobs->entries[entry].next;
	jobs->entries[entry] = (struct weir__redis_entry){
		.job = job, .deadline = deadline, .sequence = jobs->sequence++, .claims = claims
	};
	wait_between(jobs, jobs->last, entry, NONE);
	heap_settle(jobs, jobs->n_heap++, entry);
	return true;
}

void weir__redis_jobs_take(struct weir__redis_jobs *jobs, int32_t entry)
{
	wait_no_longer(jobs, entry);
}

void weir__redis_jobs_put_back(struct weir__redis_jobs *jobs, int32_t entry)
{
	int32_t previous = NONE, next = jobs->first;

	while (next != NONE && jobs->entries[next].sequence < jobs->entries[entry].sequence) {
		previous = next;
		next = jobs->entries[next].next;
	}
	wait_between(jobs, previous, entry, next);
}

static void add_done(struct weir__redis_jobs *jobs, struct weir__redis_job *job, enum weir__redis_outcome outcome)
{
	job->outcome = outcome;
	job->next = NULL;
	*(jobs->done == NULL ? &jobs->done : &jobs->last_done->next) = job;
	jobs->last_done = job;
	if (job->is_deferred_charge)
		return;
	jobs->outcomes[outcome] += job->n;
	if (outcome != WEIR__REDIS_JOB_DECIDED)
		jobs->failures[jobs->failure] += job->n;
}

void weir__redis_jobs_refuse(struct weir__redis_jobs *jobs, struct weir__redis_job *job)
{
	add_done(jobs, job, WEIR__REDIS_JOB_UNREACHED);
}

void weir__redis_jobs_release(struct weir__redis_jobs *jobs, int32_t entry)
{
	jobs->entries[entry].next = jobs->free;
	jobs->free = entry;
}

void weir__redis_jobs_finish(struct weir__redis_jobs *jobs, int32_t entry, enum weir__redis_outcome outcome)
{
	struct weir__redis_entry *const finished = &jobs->entries[entry];

	heap_remove(jobs, finished->heap_at);
	add_done(jobs, finished->job, outcome);
	finished->job = NULL;
	if (finished->is_waiting) {
		wait_no_longer(jobs, entry);
		weir__redis_jobs_release(jobs, entry);
	}
}

int32_t weir__redis_jobs_due(const struct weir__redis_jobs *jobs, weir_ns now)
{
	return weir__redis_jobs_next(jobs) <= now && jobs->n_heap > 0 ? jobs->heap[0] : NONE;
}

weir_ns weir__redis_jobs_next(const struct weir__redis_jobs *jobs)
{
	return jobs->n_heap > 0 ? jobs->entries[jobs->heap[0]].deadline : WEIR_NEVER;
}

struct weir__redis_job *weir__redis_jobs_done(struct weir__redis_jobs *jobs)
{
	struct weir__redis_job *const job = jobs->done;

	if (job != NULL)
		jobs->done = job->next;
	return job;
}
