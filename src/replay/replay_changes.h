/* replay_changes.h: the differences between the decisions of two policies on the same requests.
 *
 * Memory: 16 bytes for each place of a table that is at most three quarters full, with one entry for each client with a
 * request that is decided differently. */
#ifndef WEIR_REPLAY_REPLAY_CHANGES_H
#define WEIR_REPLAY_REPLAY_CHANGES_H

#include "replay/replay_stats.h"

struct weir__replay_changes {
	size_t client; /* which value of a record is the client, or WEIR__REPLAY_NO_NAME */
	uint64_t requests;
	uint64_t newly_denied, newly_allowed;
	uint64_t denied_by_both;
	uint64_t delayed_longer, delayed_shorter; /* allowed by both, with another delay */
	weir_ns first;                            /* arrival of the first request that is decided differently */
	uint64_t first_line;
	uint32_t first_input;
	/* Clients, of those with changes: `denied` counts their newly denied requests, the rest are newly allowed. */
	struct weir__tally clients;
	struct weir__top top_denied, top_allowed;
};

/* NULL: no memory. */
struct weir__replay_changes *weir__replay_changes_new(size_t client, size_t top);

/* Adds the decisions of a batch, by the old and by the new policy. */
void weir__replay_changes_add(struct weir__replay_changes *changes, const struct weir__log_record *const *records,
			      const struct weir__replay_answer *before, const struct weir__replay_answer *after,
			      size_t n);

/* Sorts the lists, after the last record. */
void weir__replay_changes_end(struct weir__replay_changes *changes);

/* Clients that only the new or only the old policy denies, from the tables of both. */
struct weir__replay_client_changes {
	uint64_t newly_denied, newly_allowed;
};
struct weir__replay_client_changes weir__replay_changes_of_clients(const struct weir__replay_stats *before,
								   const struct weir__replay_stats *after);

void weir__replay_changes_free(struct weir__replay_changes *changes); /* NULL is allowed */

#endif
