/* recording_replay.h: repeats the decisions of a recording, and compares.
 *
 * The table is like the server's, with the clock and the order of the recording. So every decision that the server's
 * table made must come out the same, to the nanosecond. Decisions that cannot be compared are counted by reason. */
#ifndef WEIR_REPLAY_RECORDING_REPLAY_H
#define WEIR_REPLAY_RECORDING_REPLAY_H

#include <weir/limit.h>

#include "wire/recording.h"

struct weir__recording_counts {
	uint64_t decisions;   /* in the recording */
	uint64_t compared;    /* repeated here */
	uint64_t differences; /* of these: the verdict differs from the recording */
	/* Not compared, because Redis decided, the fallback decided, nothing decided since Redis failed, only some of
	 * the keys are sampled, the state of a key is not in the recording, or its limit cannot be made here. */
	uint64_t by_store, by_fallback, by_none, partial, unknown, unusable;
	/* Keys whose usage the server forgot because its table was full, or folded because its arena was. The replay
	 * continues from the recorded state. */
	uint64_t evicted, folded;
	uint64_t elsewhere; /* keys that were changed by something that is not in the recording, or is in a gap */
	uint64_t raced;     /* decisions that differ, and that were made while one of their limits was changed */
	uint64_t keys, policies, changes, gaps, lost, unmatched;
	uint64_t own_evicted; /* keys that this replay's table evicted: then differences mean nothing */
	weir_ns begins, ends;
	bool is_ended; /* the recording has its end */
	bool is_plain;
	uint64_t sample;
	/* The first decision that differs. */
	weir_ns different_at;
	char different_limit[WEIR_LIMIT_TEXT_MAX];
};

struct weir__recording_replay;

/* What a replay needs, from a first pass over the frames. */
struct weir__recording_size {
	weir_ns begins;
	uint64_t claims, events;
	uint64_t limits;                            /* with names */
	uint64_t names[WEIR__RECORDING_LIMITS_MAX]; /* hashes of the last name of each id, to count a limit once */
};

void weir__recording_measure(struct weir__recording_size *size, const struct weir__recording_frame *frame);

/* Errors as weir_table_new. */
int weir__recording_replay_new(const struct weir__recording_size *size, struct weir__recording_replay **ret_replay,
			       struct weir_message *ret_message);

void weir__recording_replay_frame(struct weir__recording_replay *replay, const struct weir__recording_frame *frame);

const struct weir__recording_counts *weir__recording_replay_counts(struct weir__recording_replay *replay);

void weir__recording_replay_free(struct weir__recording_replay *replay); /* NULL is allowed */

#endif
