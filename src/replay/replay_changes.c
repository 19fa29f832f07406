/* replay_changes.c: compares decisions one by one. */
#include "replay/replay_changes.h"

#include <stdlib.h>

struct weir__replay_changes *weir__replay_changes_new(size_t client, size_t top)
{
	struct weir__replay_changes *const changes = calloc(1, sizeof(*changes));

	if (changes == NULL)
		return NULL;
	changes->client = client;
	changes->top_denied.most = changes->top_allowed.most = top < WEIR__TOP_MAX ? top : WEIR__TOP_MAX;
	if (!weir__tally_init(&changes->clients)) {
		free(changes);
		return NULL;
	}
	return changes;
}

static bool denies(const struct weir__replay_answer *answer)
{
	return answer->is_decided && !answer->verdict.allowed;
}

static void note_client(struct weir__replay_changes *changes, const struct weir__log_record *record, bool is_denied)
{
	const struct weir__slice none = { NULL, 0 };
	const struct weir__slice client = changes->client == WEIR__REPLAY_NO_NAME ? none :
										    record->values[changes->client];
	const uint64_t hash = weir__replay_client_hash(client);
	const struct weir__tally_entry *const entry = hash ? weir__tally_add(&changes->clients, hash, is_denied) : NULL;
	struct weir__top_row *row;
	bool is_new;

	if (entry == NULL)
		return;
	row = is_denied ? weir__top_offer(&changes->top_denied, hash, entry->denied, &is_new) :
			  weir__top_offer(&changes->top_allowed, hash, entry->all - entry->denied, &is_new);
	if (row == NULL)
		return;
	if (is_new)
		weir__top_set_text(row, client);
	row->last = record->arrival;
}

static void add_one(struct weir__replay_changes *changes, const struct weir__log_record *record,
		    const struct weir__replay_answer *before, const struct weir__replay_answer *after)
{
	const bool was_denied = denies(before), is_denied = denies(after);

	changes->requests++;
	changes->denied_by_both += was_denied && is_denied;
	if (was_denied == is_denied) {
		changes->delayed_longer += !is_denied && after->verdict.delay > before->verdict.delay;
		changes->delayed_shorter += !is_denied && after->verdict.delay < before->verdict.delay;
		return;
	}
	if (changes->newly_denied + changes->newly_allowed == 0) {
		changes->first = record->arrival;
		changes->first_line = record->line;
		changes->first_input = record->input;
	}
	changes->newly_denied += is_denied;
	changes->newly_allowed += was_denied;
	note_client(changes, record, is_denied);
}

void weir__replay_changes_add(struct weir__replay_changes *changes, const struct weir__log_record *const *records,
			      const struct weir__replay_answer *before, const struct weir__replay_answer *after,
			      size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_one(changes, records[i], &before[i], &after[i]);
}

void weir__replay_changes_end(struct weir__replay_changes *changes)
{
	weir__top_sort(&changes->top_denied);
	weir__top_sort(&changes->top_allowed);
}

/* Counts clients that `a` denies at least once and `b` never. */
static uint64_t count_only(const struct weir__replay_stats *a, const struct weir__replay_stats *b)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i <= a->clients.mask; i++)
		n += a->clients.places[i].denied > 0 && weir__tally_denied(&b->clients, a->clients.places[i].hash) == 0;
	return n;
}

struct weir__replay_client_changes weir__replay_changes_of_clients(const struct weir__replay_stats *before,
								   const struct weir__replay_stats *after)
{
	return (struct weir__replay_client_changes){ count_only(after, before), count_only(before, after) };
}

void weir__replay_changes_free(struct weir__replay_changes *changes)
{
	if (changes == NULL)
		return;
	weir__tally_fini(&changes->clients);
	free(changes);
}
