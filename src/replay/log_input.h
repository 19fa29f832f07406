/* log_input.h: one input of a log reader: its bytes, lines and counts. */
#ifndef WEIR_REPLAY_LOG_INPUT_H
#define WEIR_REPLAY_LOG_INPUT_H

#include "replay/log_format.h"

struct weir__log_input;

/* Opens an input and detects its format. Errors as weir__log_reader_new. */
int weir__log_input_new(const struct weir__log_options *options, const char *path, struct weir__log_input **ret_input,
			struct weir_message *ret_message);

/* Parses the next good line. Returns false at the end, or after an error. The line is valid until the next call. */
bool weir__log_input_next(struct weir__log_input *input, struct weir__log_line *ret_line, uint64_t *ret_number);

const struct weir__log_input_info *weir__log_input_info(const struct weir__log_input *input);

/* The maps whose field the lines may have: one bit each. All, if the input is empty or a recording. */
uint64_t weir__log_input_maps(const struct weir__log_input *input);

/* How many bytes of the file have been read; *ret_all is its size, or 0. */
uint64_t weir__log_input_done(const struct weir__log_input *input, uint64_t *ret_all);

void weir__log_input_free(struct weir__log_input *input); /* NULL is allowed */

#endif
