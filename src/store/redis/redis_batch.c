/* redis_batch.c: jobs that are sent together, in one call of the script. */
#include <string.h>

#include "store/redis/redis_client_internal.h"

/* --- sending ----------------------------------------------------------------------------------------------------- */

static struct weir__redis_lane *lane_of(struct weir__redis_client *client, uint32_t lane)
{
	return &client->lanes[lane % WEIR__REDIS_LANES];
}

/* Whether jobs of the lane are under way on a different link: then its other jobs must follow on that link. */
static bool is_elsewhere(struct weir__redis_client *client, const struct weir__redis_link *link, uint32_t lane)
{
	return lane != 0 && lane_of(client, lane)->under_way > 0 && lane_of(client, lane)->link != link;
}

static void leave_lane(struct weir__redis_client *client, struct weir__redis_entry *entry)
{
	if (entry->lane != 0)
		lane_of(client, entry->lane)->under_way--;
	entry->lane = 0;
}

static void board(struct weir__redis_client *client, const struct weir__redis_link *link,
		  struct weir__redis_batch *batch, int32_t number)
{
	struct weir__redis_entry *const entry = &client->jobs.entries[number];

	weir__redis_jobs_take(&client->jobs, number);
	entry->lane = entry->job->lane;
	if (entry->lane != 0) {
		lane_of(client, entry->lane)->under_way++;
		lane_of(client, entry->lane)->link = link;
	}
	entry->batch = batch;
	entry->first_request = batch->n_requests;
	memcpy(&batch->requests[batch->n_requests], entry->job->requests, entry->job->n * sizeof(batch->requests[0]));
	batch->n_requests += (uint32_t)entry->job->n;
	batch->entries[batch->n_entries++] = number;
}

/* Moves waiting jobs into a batch: at most `most` jobs, and no more claims than fit one call. Jobs whose lane is on a
 * different link do not hold up others. Returns the number of claims. */
static uint32_t board_all(struct weir__redis_client *client, const struct weir__redis_link *link,
			  struct weir__redis_batch *batch, uint32_t most)
{
	const struct weir__redis_jobs *const jobs = &client->jobs;
	uint32_t claims = 0;
	int32_t next;

	batch->n_entries = batch->n_requests = 0;
	for (int32_t number = jobs->first; number != WEIR__REDIS_NO_JOB && batch->n_entries < most; number = next) {
		const struct weir__redis_entry *const entry = &jobs->entries[number];

		next = entry->next;
		if (is_elsewhere(client, link, entry->job->lane))
			continue;
		if (entry->claims > WEIR__REDIS_CALL_CLAIMS_MAX - claims)
			break;
		claims += entry->claims;
		board(client, link, batch, number);
	}
	return claims;
}

static bool write_call(struct weir__redis_client *client, struct weir__redis_link *link,
		       struct weir__redis_batch *batch)
{
	const struct weir__redis_call call = { .sha1 = weir__redis_script.sha1,
					       .prefix = { client->url->prefix, strlen(client->url->prefix) },
					       .requests = batch->requests,
					       .n = batch->n_requests,
					       .test_now = client->url->test_now };
	struct weir__resp_writer writer;
	int error;

	if (!weir__redis_link_begin(link, 0, &writer))
		return false;
	error = weir__redis_call_write(&call, &writer);
	if (error == WEIR_ERR_ROOM) {
		if (!weir__redis_link_begin(link, writer.length, &writer))
			return false;
		error = weir__redis_call_write(&call, &writer);
	}
	if (error != WEIR_OK)
		return false;
	weir__redis_link_end(link, &writer, WEIR__REDIS_CALL, batch, client->now);
	return true;
}

static struct weir__redis_batch *unused_batch(struct weir__redis_link *link)
{
	for (size_t i = 0; i < WEIR__REDIS_DEPTH; i++)
		if (!link->batches[i].is_used)
			return &link->batches[i];
	return NULL;
}

static void put_all_back(struct weir__redis_client *client, const struct weir__redis_batch *batch)
{
	for (uint32_t i = batch->n_entries; i > 0; i--) {
		leave_lane(client, &client->jobs.entries[batch->entries[i - 1]]);
		weir__redis_jobs_put_back(&client->jobs, batch->entries[i - 1]);
	}
}

static bool load_script(struct weir__redis_client *client, struct weir__redis_link *link)
{
	const struct weir__resp_slice words[] = { { "SCRIPT", 6 },
						  { "LOAD", 4 },
						  { weir__redis_script.text, weir__redis_script.length } };

	if (!weir__redis_link_say(link, WEIR__REDIS_LOAD, words, 3, client->now))
		return false;
	link->wants_script = false;
	client->info.reloads++;
	return true;
}

bool weir__redis_batch_depart(struct weir__redis_client *client, struct weir__redis_link *link)
{
	struct weir__redis_batch *const batch = unused_batch(link);
	uint32_t claims, most = WEIR__REDIS_CALL_CLAIMS_MAX;

	if (batch == NULL || client->jobs.first == WEIR__REDIS_NO_JOB ||
	    link->n_flights + 2 > WEIR__REDIS_FLIGHTS_MAX || (link->wants_script && !load_script(client, link)))
		return false;
	for (;;) {
		claims = board_all(client, link, batch, most);
		if (batch->n_entries == 0)
			return false; /* all waiting jobs belong to lanes of other links */
		if (write_call(client, link, batch))
			break;
		put_all_back(client, batch);
		if (batch->n_entries == 1 && link->output_length > 0)
			return false; /* there will be more room when the output is sent */
		if (batch->n_entries == 1) {
			weir__redis_client_tell(client, &link->place, "a single job exceeds the size of a call");
			weir__redis_client_fail(client, batch->entries[0], WEIR__REDIS_JOB_UNREACHED);
			return true;
		}
		most = batch->n_entries / 2; /* together they are too long, or one of them is invalid */
	}
	batch->is_used = true;
	client->info.calls++;
	client->info.requests += batch->n_requests;
	client->info.claims += claims;
	return true;
}

/* --- replies ----------------------------------------------------------------------------------------------------- */

void weir__redis_batch_forget(struct weir__redis_client *client, int32_t entry)
{
	struct weir__redis_entry *const dropped = &client->jobs.entries[entry];

	leave_lane(client, dropped); /* its order no longer matters */

	for (size_t i = 0; i < dropped->job->n; i++) {
		struct weir__redis_request *const request = &dropped->batch->requests[dropped->first_request + i];

		*request = (struct weir__redis_request){ WEIR__REDIS_FORGOTTEN, NULL,
							 weir__redis_call_answers(request) };
	}
}

void weir__redis_batch_fail(struct weir__redis_client *client, struct weir__redis_batch *batch,
			    enum weir__redis_outcome outcome)
{
	for (uint32_t i = 0; i < batch->n_entries; i++) {
		leave_lane(client, &client->jobs.entries[batch->entries[i]]);
		if (client->jobs.entries[batch->entries[i]].job != NULL)
			weir__redis_client_fail(client, batch->entries[i], outcome);
		weir__redis_jobs_release(&client->jobs, batch->entries[i]);
	}
	batch->is_used = false;
}

static void deliver(struct weir__redis_client *client, struct weir__redis_batch *batch, weir_ns decided_at)
{
	const struct weir_verdict *verdicts = client->verdicts;

	for (uint32_t i = 0; i < batch->n_entries; i++) {
		struct weir__redis_entry *const entry = &client->jobs.entries[batch->entries[i]];

		leave_lane(client, entry);
		if (entry->job != NULL) {
			memcpy(entry->job->verdicts, verdicts, entry->claims * sizeof(*verdicts));
			verdicts += entry->claims;
			entry->job->decided_at = decided_at;
			weir__redis_jobs_finish(&client->jobs, batch->entries[i], WEIR__REDIS_JOB_DECIDED);
			weir__redis_breaker_decided(&client->breaker);
		}
		weir__redis_jobs_release(&client->jobs, batch->entries[i]);
	}
	batch->is_used = false;
}

/* Redis did nothing, because it lacks the script. Jobs that still wait are sent once more, after the script. */
static void ask_again(struct weir__redis_client *client, struct weir__redis_batch *batch)
{
	for (uint32_t i = 0; i < client->n_data; i++)
		client->links[i].wants_script = true;
	for (uint32_t i = batch->n_entries; i > 0; i--) {
		const int32_t number = batch->entries[i - 1];
		struct weir__redis_entry *const entry = &client->jobs.entries[number];

		leave_lane(client, entry);
		if (entry->job != NULL && !entry->is_again && weir__redis_breaker_admits(&client->breaker)) {
			entry->is_again = true;
			weir__redis_jobs_put_back(&client->jobs, number);
			continue;
		}
		client->jobs.failure = WEIR__REDIS_REFUSES;
		if (entry->job != NULL)
			weir__redis_client_fail(client, number, WEIR__REDIS_JOB_UNREACHED);
		weir__redis_jobs_release(&client->jobs, number);
	}
	batch->is_used = false;
}

void weir__redis_batch_answered(struct weir__redis_client *client, struct weir__redis_link *link,
				struct weir__redis_batch *batch, const struct weir__resp_token *tokens, uint32_t n)
{
	const struct weir__redis_call call = { .requests = batch->requests, .n = batch->n_requests };
	const struct weir__redis_reply reply = weir__redis_call_read(&call, tokens, n, client->verdicts);
	const struct weir__redis_refusal *refusal;

	switch (reply.answer) {
	case WEIR__REDIS_DECIDED:
		link->failures = 0;
		client->info.anew += reply.anew;
		deliver(client, batch, reply.now);
		break;
	case WEIR__REDIS_NOSCRIPT:
		ask_again(client, batch);
		break;
	case WEIR__REDIS_ERROR:
		refusal = weir__redis_refusal_of(reply.error);
		client->jobs.failure = WEIR__REDIS_REFUSES;
		weir__redis_batch_fail(client, batch,
				       refusal->is_certain ? WEIR__REDIS_JOB_UNREACHED : WEIR__REDIS_JOB_UNANSWERED);
		weir__redis_client_refused(client, link, refusal);
		break;
	case WEIR__REDIS_STRANGE:
		client->jobs.failure = WEIR__REDIS_REFUSES;
		weir__redis_batch_fail(client, batch, WEIR__REDIS_JOB_UNANSWERED);
		weir__redis_connect_close(client, link, "unexpected reply from the script", false);
		break;
	}
}
