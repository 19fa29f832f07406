/* recording_reader.h: the frames of a recording, from a file that may be compressed, cut or damaged. */
#ifndef WEIR_REPLAY_RECORDING_READER_H
#define WEIR_REPLAY_RECORDING_READER_H

#include "policy/slice.h"
#include "wire/recording.h"

struct weir__recording_reader;

/* "-" is standard input. WEIR_ERR_SYSTEM: the file cannot be read. WEIR_ERR_SYNTAX: it is not a recording, or one of
 * another version. */
int weir__recording_reader_new(const char *path, struct weir__recording_reader **ret_reader,
			       struct weir_message *ret_message);

/* Returns the next frame, or NULL at the end. The frame is valid until the next call. */
const struct weir__recording_frame *weir__recording_reader_next(struct weir__recording_reader *reader);

/* After the end: why the frames end before the recording does. NULL: it is complete, or it was cut between two frames. */
const char *weir__recording_reader_fault(const struct weir__recording_reader *reader);

/* As weir__byte_stream_done. */
uint64_t weir__recording_reader_done(const struct weir__recording_reader *reader, uint64_t *ret_all);

/* How many frames were left out, because a later version of Weir wrote them. */
uint64_t weir__recording_reader_skipped(const struct weir__recording_reader *reader);

void weir__recording_reader_free(struct weir__recording_reader *reader); /* NULL is allowed */

/* Whether bytes begin like a recording. */
bool weir__recording_is(struct weir__slice bytes);

#endif
