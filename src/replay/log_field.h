/* log_field.h: the meaning of the fields of a log, which all formats share. A format finds the bytes of a field. Here
 * the field's name says what they mean. */
#ifndef WEIR_REPLAY_LOG_FIELD_H
#define WEIR_REPLAY_LOG_FIELD_H

#include "replay/log_line.h"
#include "replay/log_reader.h"

enum weir__log_target {
	WEIR__LOG_IGNORE,
	WEIR__LOG_TIME,     /* when the request was completed */
	WEIR__LOG_START,    /* when it began */
	WEIR__LOG_DURATION, /* in units of `unit` ns */
	WEIR__LOG_REQUEST,  /* GET /path?query HTTP/1.1 */
	WEIR__LOG_STATUS,
	WEIR__LOG_BYTES,
	WEIR__LOG_COST,
	WEIR__LOG_TEXT,    /* an attribute */
	WEIR__LOG_PATH,    /* an attribute, without its query */
	WEIR__LOG_ADDRESS, /* an attribute, without its port */
};

/* Use of one field of the log. */
struct weir__log_field {
	enum weir__log_target to;
	uint8_t value;  /* index of the attribute */
	bool is_strong; /* it replaces a value that another field of the line has set */
	uint64_t unit;
};

/* The names of a kind of log. */
enum weir__log_dialect { WEIR__LOG_NGINX, WEIR__LOG_APACHE, WEIR__LOG_CADDY, WEIR__LOG_ENVOY, WEIR__LOG_TRAEFIK };

enum { WEIR__LOG_USES_MAX = 4, WEIR__LOG_NO_VALUE = 255 };

struct weir__log_fields {
	const struct weir__log_options *options;
	enum weir__log_dialect dialect;
	uint8_t method, path; /* index of these attributes, for WEIR__LOG_REQUEST; NO_VALUE: not wanted */
	uint64_t maps_found;  /* a bit for each map whose field the format has, or may have */
	weir_ns newest;       /* the newest time that was read in options->zone */
	/* The last time that was read: most lines have the time of the line before. */
	struct weir__log_time last;
	size_t last_n;
	char last_text[40];
	char headers[WEIR__LOG_VALUES_MAX][80]; /* for names of fields that wanted attributes may have as headers */
};

void weir__log_fields_init(struct weir__log_fields *fields, const struct weir__log_options *options,
			   enum weir__log_dialect dialect);

/* Finds the uses of the field of this name. Returns their number, at most WEIR__LOG_USES_MAX; 0: ignore the field.
 * Notes the maps that use it in maps_found. */
size_t weir__log_fields_find(struct weir__log_fields *fields, struct weir__slice name,
			     struct weir__log_field *ret_uses);

/* Calls `tell` with each name that a field could have: names of the dialect, of the maps and of wanted attributes. The
 * names live as long as `fields`. */
void weir__log_fields_names(struct weir__log_fields *fields, void (*tell)(void *context, struct weir__slice name),
			    void *context);

/* Stores the value of a field in the line. Returns NULL, or why the line is bad. */
const char *weir__log_field_set(struct weir__log_fields *fields, const struct weir__log_field *field,
				struct weir__slice bytes, struct weir__log_line *line);

/* weir__log_time_read in the zone of the options. Of two instants with the same local time, takes the first that is not
 * more than options->reorder before `newest`. */
bool weir__log_field_time(const struct weir__log_options *options, struct weir__slice bytes, weir_ns newest,
			  struct weir__log_time *ret_time);

/* Prepares for the next line. */
static inline void weir__log_line_clear(struct weir__log_line *line, size_t n_values)
{
	line->has_stamp = line->is_start = line->has_duration = line->has_rest = false;
	line->duration = 0;
	line->cost = 1;
	line->bytes = 0;
	line->status = 0;
	for (size_t i = 0; i < n_values; i++)
		line->values[i].at = NULL;
}

#endif
