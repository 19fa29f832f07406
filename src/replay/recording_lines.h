/* recording_lines.h: the requests of a recording as lines of a log, to be decided by another policy. */
#ifndef WEIR_REPLAY_RECORDING_LINES_H
#define WEIR_REPLAY_RECORDING_LINES_H

#include "replay/log_line.h"
#include "replay/log_reader.h"
#include "replay/recording_reader.h"

struct weir__recording_lines;

/* Errors as weir__recording_reader_new. */
int weir__recording_lines_new(const struct weir__log_options *options, const char *path,
			      struct weir__recording_lines **ret_lines, struct weir_message *ret_message);

enum weir__recording_line {
	WEIR__RECORDING_LINE_GOOD,
	WEIR__RECORDING_LINE_STATED, /* a request with an inline limit, so without attributes */
	WEIR__RECORDING_LINE_NONE,   /* the end */
};

/* The next request. A denied one has status 429. The line is valid until the next call. */
enum weir__recording_line weir__recording_lines_next(struct weir__recording_lines *lines,
						     struct weir__log_line *ret_line);

/* What the recording lacks, as far as it was read: it has one in *ret_sample keys, and *ret_missing decisions are
 * missing in its gaps. */
void weir__recording_lines_left_out(const struct weir__recording_lines *lines, uint64_t *ret_sample,
				    uint64_t *ret_missing);

/* As weir__recording_reader_fault and weir__byte_stream_done. */
const char *weir__recording_lines_fault(const struct weir__recording_lines *lines);
uint64_t weir__recording_lines_done(const struct weir__recording_lines *lines, uint64_t *ret_all);

void weir__recording_lines_free(struct weir__recording_lines *lines); /* NULL is allowed */

#endif
