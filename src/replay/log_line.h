/* log_line.h: one parsed line of a log, before it has a place in the order of arrivals. */
#ifndef WEIR_REPLAY_LOG_LINE_H
#define WEIR_REPLAY_LOG_LINE_H

#include "replay/log_record.h"
#include "replay/log_time.h"

struct weir__log_line {
	struct weir__log_time stamp; /* when the request was completed, or began */
	bool has_stamp;
	bool is_start; /* it is when the request began */
	bool has_duration;
	bool has_rest; /* the line has more after the last field of its format */
	weir_ns duration;
	uint64_t cost, bytes;
	uint16_t status;
	struct weir__slice values[WEIR__LOG_VALUES_MAX]; /* in the line or in the format's room. .at NULL: missing */
};

#endif
