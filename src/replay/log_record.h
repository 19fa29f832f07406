/* log_record.h: one request of a log, as replays decide it. */
#ifndef WEIR_REPLAY_LOG_RECORD_H
#define WEIR_REPLAY_LOG_RECORD_H

#include <weir/types.h>

#include "policy/slice.h"

enum {
	WEIR__LOG_VALUES_MAX = 32,         /* attributes that a reader takes from each line */
	WEIR__LOG_LINE_MAX = 64 * 1024,    /* longer lines are bad lines */
	WEIR__LOG_INPUTS_MAX = 256,        /* files of one replay */
	WEIR__LOG_REORDER_MAX_S = 60 * 60, /* the longest reorder window */
};

struct weir__log_record {
	weir_ns arrival; /* never before the arrival of the previous record */
	uint64_t cost;   /* 1 if the log does not say */
	uint64_t bytes;  /* of the response; 0 if the log does not say */
	uint64_t line;   /* in its input, from 1 */
	uint32_t input;  /* index of its input */
	uint16_t status; /* of the response; 0: the log does not say */
	bool is_spread;  /* the log has only the second: the record is one of several spread evenly over it */
	bool is_late;    /* beyond the reorder window: its arrival was set to the previous record's */
	/* What the server decided, in a recording. NULL: the record is not from a recording. */
	const struct weir__log_recorded *recorded;
	/* The values of the `wanted` attributes of the reader, in that order. .at NULL: the line does not have it. A
	 * path has no query. */
	struct weir__slice values[];
};

#endif
