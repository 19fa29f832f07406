/* log_csv.h: lines of CSV, RFC 4180, whose first line names the columns. Pure. If the first line has tabs and no commas,
 * tabs separate; else semicolons, if it has them and no commas. A value does not contain newlines. */
#ifndef WEIR_REPLAY_LOG_CSV_H
#define WEIR_REPLAY_LOG_CSV_H

#include "replay/log_field.h"

struct weir__log_csv;

/* WEIR_ERR_SYNTAX: the header has no column with a time, or too many columns. */
int weir__log_csv_new(struct weir__slice header, struct weir__log_fields *fields, struct weir__log_csv **ret_csv,
		      struct weir_message *ret_message);

/* As weir__log_format_parse. `room` has WEIR__LOG_LINE_MAX bytes, for values with quotes in them. */
const char *weir__log_csv_parse(const struct weir__log_csv *csv, struct weir__log_fields *fields,
				struct weir__slice bytes, char *room, struct weir__log_line *line);

void weir__log_csv_free(struct weir__log_csv *csv);

#endif
