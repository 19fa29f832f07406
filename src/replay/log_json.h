/* log_json.h: lines that are JSON objects. Pure. Fields of inner objects have names with points, as in request.uri. Of an
 * array the first element counts. */
#ifndef WEIR_REPLAY_LOG_JSON_H
#define WEIR_REPLAY_LOG_JSON_H

#include "replay/log_field.h"

struct weir__log_json;

/* WEIR_ERR_SYSTEM: no memory. */
int weir__log_json_new(struct weir__log_fields *fields, struct weir__log_json **ret_json);

/* As weir__log_format_parse. `room` has WEIR__LOG_LINE_MAX bytes, for values with escapes. */
const char *weir__log_json_parse(struct weir__log_json *json, struct weir__log_fields *fields, struct weir__slice bytes,
				 char *room, struct weir__log_line *line);

void weir__log_json_free(struct weir__log_json *json);

#endif
