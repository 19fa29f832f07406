/* log_format.h: the formats of log lines. Pure: a line in, its fields out. No line makes it allocate.
 *
 * To add a format, write its parser, and add it to weir__log_format_new and to weir__log_format_detect. */
#ifndef WEIR_REPLAY_LOG_FORMAT_H
#define WEIR_REPLAY_LOG_FORMAT_H

#include "replay/log_field.h"

struct weir__log_format;

/* Makes a format by its name or format string: see struct weir__log_options, which must outlive it. For csv, `header` is
 * the first line. WEIR_ERR_SYNTAX: the message says what is wrong. */
int weir__log_format_new(const struct weir__log_options *options, const char *name, struct weir__slice header,
			 struct weir__log_format **ret_format, struct weir_message *ret_message);

/* Detects the format from the first bytes of a log. Returns its name, or NULL. */
const char *weir__log_format_detect(const struct weir__log_options *options, struct weir__slice bytes);

const char *weir__log_format_name(const struct weir__log_format *format);

/* The maps whose field a line of this format may have: one bit each. */
uint64_t weir__log_format_maps(const struct weir__log_format *format);

/* Whether the first line is a header and not a request. */
bool weir__log_format_has_header(const struct weir__log_format *format);

/* Parses a line without its newline, of at most WEIR__LOG_LINE_MAX bytes. Returns NULL, or why it is bad. Values point
 * into the line or into the format, until the next call. */
const char *weir__log_format_parse(struct weir__log_format *format, struct weir__slice bytes,
				   struct weir__log_line *ret_line);

void weir__log_format_free(struct weir__log_format *format); /* NULL is allowed */

#endif
