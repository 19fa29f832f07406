/* tune_check.h: the results of a replay for one limit, for the part of the log by which it was chosen, and for the
 * rest.
 *
 * Memory is bounded: about 25 to 65 bytes a key, up to a budget. When it is reached, only a sample of the keys is
 * counted, see key_index.h. All requests are counted in any case. */
#ifndef WEIR_REPLAY_TUNE_CHECK_H
#define WEIR_REPLAY_TUNE_CHECK_H

#include "replay/key_index.h"
#include "replay/replay.h"
#include "replay/tuning.h"

enum weir__tune_part_name { WEIR__TUNE_CHOSEN_BY, WEIR__TUNE_HELD_OUT, WEIR__TUNE_PARTS };

struct weir__tune_part {
	struct weir__demand_tried tried;
	uint64_t keys, keys_denied; /* outside of the bad interval; of the sample */
	/* With the wish `passed`: the most that passed in any of its periods. The wish's count + 1 means more than its
	 * count. */
	uint64_t passed_most;
};

struct weir__tune_passed {
	weir_ns at;
	uint64_t cost;
};

struct weir__tune_check {
	const struct weir__tuning_wish *wish;
	uint32_t plan;
	size_t bytes_most;
	struct weir__key_index keys;
	uint8_t *seen; /* for each key, a bit for each part that it is in, and whether it was denied there */
	uint32_t seen_size;
	struct weir__tune_passed *ring; /* what passed within the last period */
	size_t ring_size, ring_start, ring_n;
	uint64_t ring_sum;
	struct weir__tune_part parts[WEIR__TUNE_PARTS];
	uint64_t undecided; /* requests that the policy cannot decide */
};

/* `plan` is the plan of the limit. The keys are a sample with this shift at least. Returns false if there was no
 * memory. */
bool weir__tune_check_init(struct weir__tune_check *check, const struct weir__tuning_wish *wish, uint32_t plan,
			   struct weir__hash_secret secret, unsigned shift, size_t bytes_most);

/* Returns false if there was no memory. */
bool weir__tune_check_add(struct weir__tune_check *check, weir_ns at, const struct weir__replay_answer *answer);

/* Counts the keys. */
void weir__tune_check_end(struct weir__tune_check *check);

void weir__tune_check_fini(struct weir__tune_check *check);

#endif
