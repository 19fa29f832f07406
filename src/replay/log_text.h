/* log_text.h: lines in nginx's log_format or Apache's LogFormat. Pure. */
#ifndef WEIR_REPLAY_LOG_TEXT_H
#define WEIR_REPLAY_LOG_TEXT_H

#include "replay/log_field.h"

struct weir__log_text;

/* Compiles a format string: with $ in it nginx's, else Apache's. It must outlive the result. WEIR_ERR_SYNTAX: the message
 * says why. */
int weir__log_text_new(const char *definition, struct weir__log_fields *fields, struct weir__log_text **ret_text,
		       struct weir_message *ret_message);

/* As weir__log_format_parse. `room` has WEIR__LOG_LINE_MAX bytes, for values with escapes. */
const char *weir__log_text_parse(const struct weir__log_text *text, struct weir__log_fields *fields,
				 struct weir__slice bytes, char *room, struct weir__log_line *line);

void weir__log_text_free(struct weir__log_text *text);

#endif
