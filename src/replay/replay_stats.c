/* replay_stats.c: sums up decisions. */
#include "replay/replay_stats.h"

#include <stdlib.h>

#include "guard/guard.h"
#include "policy/address.h"
#include "policy/policy.h"

enum { CLIENTS, KEYS, TOO_MANY_REQUESTS = 429 };

struct weir__replay_stats *weir__replay_stats_new(struct weir__replay *replay, size_t client, size_t top)
{
	const struct weir_policy *const policy = weir__replay_policy(replay);
	struct weir__replay_stats *const stats = calloc(1, sizeof(*stats) + policy->n_plans * sizeof(stats->limits[0]));

	if (stats == NULL)
		return NULL;
	stats->policy = policy;
	stats->guard = weir__replay_guard(replay);
	stats->client = client;
	stats->n_limits = policy->n_plans;
	stats->top_clients.most = stats->top_keys.most = top < WEIR__TOP_MAX ? top : WEIR__TOP_MAX;
	if (!weir__tally_init(&stats->clients) || !weir__tally_init(&stats->keys)) {
		weir__replay_stats_free(stats);
		return NULL;
	}
	return stats;
}

uint64_t weir__replay_client_hash(struct weir__slice client)
{
	struct weir__address address;

	if (client.at == NULL)
		return 0;
	if (memchr(client.at, ':', client.n) && weir__address_read(client, &address) && address.is_v6) {
		address = weir__address_mask(&address, WEIR__BITS_V6);
		return weir__tally_hash(CLIENTS, address.bytes, WEIR__BITS_V6 / 8);
	}
	return weir__tally_hash(CLIENTS, client.at, client.n);
}

/* --- over time --------------------------------------------------------------------------------------------------- */

static void widen(struct weir__replay_course *course)
{
	for (size_t i = 0; i < WEIR__REPLAY_TIMES; i++) {
		const size_t from = 2 * i;

		course->steps[i].all = from < WEIR__REPLAY_TIMES ?
					       course->steps[from].all + course->steps[from + 1].all :
					       0;
		course->steps[i].denied = from < WEIR__REPLAY_TIMES ?
						  course->steps[from].denied + course->steps[from + 1].denied :
						  0;
	}
	course->width *= 2;
}

static void add_to_course(struct weir__replay_course *course, weir_ns at, bool is_denied)
{
	const weir_ns second = UINT64_C(1000000000);

	if (course->width == 0) {
		course->begins = at / second * second;
		course->width = second;
	}
	while ((at - course->begins) / course->width >= WEIR__REPLAY_TIMES)
		widen(course);
	course->steps[(at - course->begins) / course->width].all++;
	course->steps[(at - course->begins) / course->width].denied += is_denied;
}

/* --- waits ------------------------------------------------------------------------------------------------------- */

/* Keeps the longest waits, one for each client and limit, so that a client that retries is listed once. */
static void note_wait(struct weir__replay_stats *stats, const struct weir__log_record *record, uint32_t plan,
		      weir_ns wait, bool is_delay)
{
	const struct weir__slice none = { "", 0 };
	const struct weir__slice client = stats->client != WEIR__REPLAY_NO_NAME && record->values[stats->client].at ?
						  record->values[stats->client] :
						  none;
	const size_t kept = client.n < WEIR__TOP_TEXT ? client.n : WEIR__TOP_TEXT;
	struct weir__replay_wait *place = NULL;

	if (stats->n_waits == WEIR__REPLAY_WAITS && wait <= stats->waits[WEIR__REPLAY_WAITS - 1].wait)
		return;
	for (size_t i = 0; i < stats->n_waits && place == NULL; i++)
		if (stats->waits[i].plan == plan && stats->waits[i].length == client.n &&
		    memcmp(stats->waits[i].client, client.at, kept) == 0)
			place = &stats->waits[i];
	if (place && place->wait >= wait)
		return;
	if (place == NULL)
		place = &stats->waits[stats->n_waits < WEIR__REPLAY_WAITS ? stats->n_waits++ : WEIR__REPLAY_WAITS - 1];
	*place = (struct weir__replay_wait){ .wait = wait,
					     .arrival = record->arrival,
					     .line = record->line,
					     .input = record->input,
					     .plan = plan,
					     .is_delay = is_delay,
					     .length = (uint32_t)client.n };
	memcpy(place->client, client.at, kept);
	for (; place > stats->waits && place[-1].wait < place->wait; place--) {
		const struct weir__replay_wait other = place[-1];

		place[-1] = *place;
		*place = other;
	}
}

/* --- decisions --------------------------------------------------------------------------------------------------- */

static void add_key(struct weir__replay_stats *stats, const struct weir__log_record *record,
		    const struct weir__replay_answer *answer, uint32_t claim)
{
	const struct weir_claim *const of = &answer->claims[claim];
	const uint32_t plan = answer->plans[claim];
	const uint64_t hash = weir__tally_hash(KEYS + (uint64_t)plan, of->key, of->key_length);
	const struct weir__tally_entry *const entry = weir__tally_add(&stats->keys, hash, true);
	struct weir__top_row *row;
	bool is_new;

	if (entry == NULL)
		return;
	stats->limits[plan].keys_denied += entry->denied == 1;
	row = weir__top_offer(&stats->top_keys, hash, entry->denied, &is_new);
	if (row == NULL)
		return;
	if (is_new) {
		char text[WEIR__KEY_TEXT_SIZE];
		const size_t n = weir__guard_key_text(stats->guard, weir_policy_plan_of(stats->policy, plan)->name,
						      of->key, of->key_length, of->key_length, text, sizeof(text));

		row->plan = plan;
		weir__top_set_text(row, (struct weir__slice){ text, n });
	}
	row->last = record->arrival;
}

static void add_claim(struct weir__replay_stats *stats, const struct weir__log_record *record,
		      const struct weir__replay_answer *answer, uint32_t claim)
{
	const struct weir_verdict *const verdict = &answer->verdicts[claim];
	struct weir__replay_limit *const limit = &stats->limits[answer->plans[claim]];
	const uint64_t used = verdict->limit -
			      (verdict->remaining < verdict->limit ? verdict->remaining : verdict->limit);

	limit->requests++;
	limit->is_shadow |= claim >= answer->n_enforced;
	if (verdict->limit > 0) /* the quotient is 10 only if all of it is used */
		limit->used[verdict->limit < UINT64_MAX / 10 ? used * 10 / verdict->limit :
							       used / (verdict->limit / 10)]++;
	if (verdict->allowed) {
		if (answer->verdict.allowed)
			limit->units += answer->claims[claim].cost;
		if (answer->verdict.allowed && verdict->delay > 0) {
			limit->delayed++;
			if (verdict->delay > limit->longest_delay)
				limit->longest_delay = verdict->delay;
		}
		return;
	}
	if (limit->denied++ == 0)
		limit->first = record->arrival;
	limit->last = record->arrival;
	limit->never += verdict->never;
	if (!verdict->never && verdict->retry_after > limit->longest_wait)
		limit->longest_wait = verdict->retry_after;
	add_key(stats, record, answer, claim);
}

static void add_client(struct weir__replay_stats *stats, const struct weir__log_record *record, uint64_t hash,
		       bool is_denied)
{
	const struct weir__tally_entry *entry;
	struct weir__top_row *row;
	bool is_new;

	if (hash == 0) {
		stats->without_client++;
		return;
	}
	entry = weir__tally_add(&stats->clients, hash, is_denied);
	if (entry == NULL || !is_denied)
		return;
	row = weir__top_offer(&stats->top_clients, hash, entry->denied, &is_new);
	if (row == NULL)
		return;
	if (is_new)
		weir__top_set_text(row, record->values[stats->client]);
	row->last = record->arrival;
}

static void add_one(struct weir__replay_stats *stats, const struct weir__log_record *record,
		    const struct weir__replay_answer *answer, uint64_t client)
{
	const bool is_denied = answer->is_decided && !answer->verdict.allowed;

	if (stats->requests++ == 0)
		stats->first = record->arrival;
	stats->last = record->arrival;
	stats->already_denied += record->status == TOO_MANY_REQUESTS;
	add_to_course(&stats->course, record->arrival, is_denied);
	add_client(stats, record, client, is_denied);
	if (!answer->is_decided) {
		if (stats->undecided++ == 0) {
			const size_t n = strnlen(answer->error, sizeof(stats->undecided_example) - 1);

			memcpy(stats->undecided_example, answer->error, n);
			stats->undecided_line = record->line;
			stats->undecided_input = record->input;
		}
		return;
	}
	stats->denied += is_denied;
	stats->unmatched += answer->is_unmatched;
	for (uint32_t i = 0; i < answer->n; i++)
		add_claim(stats, record, answer, i);
	if (answer->decider == WEIR__REPLAY_NO_CLAIM)
		return;
	if (is_denied) {
		stats->limits[answer->plans[answer->decider]].decided++;
		if (!answer->verdict.never)
			note_wait(stats, record, answer->plans[answer->decider], answer->verdict.retry_after, false);
	} else if (answer->verdict.delay > 0) {
		stats->delayed++;
		note_wait(stats, record, answer->plans[answer->decider], answer->verdict.delay, true);
	}
}

void weir__replay_stats_add(struct weir__replay_stats *stats, const struct weir__log_record *const *records,
			    const struct weir__replay_answer *answers, size_t n)
{
	uint64_t clients[WEIR__REPLAY_BATCH];

	for (size_t i = 0; i < n; i++) {
		clients[i] = stats->client == WEIR__REPLAY_NO_NAME ?
				     0 :
				     weir__replay_client_hash(records[i]->values[stats->client]);
		weir__tally_fetch(&stats->clients, clients[i]);
	}
	for (size_t i = 0; i < n; i++)
		add_one(stats, records[i], &answers[i], clients[i]);
}

/* The number of all requests of each listed client. */
static void find_all(struct weir__replay_stats *stats)
{
	for (size_t i = 0; i < stats->top_clients.n; i++) {
		struct weir__top_row *const row = &stats->top_clients.rows[i];

		row->all = weir__tally_all(&stats->clients, row->hash);
	}
}

void weir__replay_stats_end(struct weir__replay_stats *stats)
{
	find_all(stats);
	weir__top_sort(&stats->top_clients);
	weir__top_sort(&stats->top_keys);
}

unsigned weir__replay_used_at(const struct weir__replay_limit *limit, unsigned per_mille)
{
	uint64_t n = 0, seen = 0;

	for (unsigned i = 0; i < WEIR__REPLAY_TENTHS; i++)
		n += limit->used[i];
	for (unsigned i = 0; i < WEIR__REPLAY_TENTHS; i++) {
		seen += limit->used[i];
		if ((unsigned __int128)seen * 1000 >= (unsigned __int128)n * per_mille)
			return i;
	}
	return 0;
}

uint64_t weir__replay_share_of_capacity(const struct weir__replay_stats *stats, uint32_t plan)
{
	const struct weir_limit *const limit = &weir_policy_plan_of(stats->policy, plan)->limit;
	const bool is_bucket = limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
	const unsigned __int128 inflow = (unsigned __int128)(stats->last - stats->first) * limit->count / limit->period;
	const unsigned __int128 capacity = inflow + (is_bucket ? limit->burst : limit->count);
	const unsigned __int128 share = (unsigned __int128)stats->limits[plan].units * 10000 / capacity;

	return share < UINT64_MAX ? (uint64_t)share : UINT64_MAX;
}

size_t weir__replay_stats_bytes(const struct weir__replay_stats *stats)
{
	return weir__tally_bytes(&stats->clients) + weir__tally_bytes(&stats->keys);
}

void weir__replay_stats_free(struct weir__replay_stats *stats)
{
	if (stats == NULL)
		return;
	weir__tally_fini(&stats->clients);
	weir__tally_fini(&stats->keys);
	free(stats);
}
