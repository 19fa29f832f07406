/* log_format.c: the formats by name, and detecting them. */
#include "replay/log_format.h"

#include <errno.h>
#include <stdlib.h>

#include "core/nearest.h"
#include "core/text.h"
#include "replay/log_csv.h"
#include "replay/log_json.h"
#include "replay/log_text.h"

enum kind { TEXT, JSON, CSV };

#define COMBINED                                                                                                       \
	"$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" "           \
	"\"$http_user_agent\""

/* Text formats in the order in which they are tried. `text` is their format string. */
static const struct named {
	const char *name;
	enum kind kind;
	enum weir__log_dialect dialect;
	const char *text;
} named[] = {
	/* Before combined, which would take the virtual host for the beginning of the address. */
	{ "vhost_combined", TEXT, WEIR__LOG_APACHE,
	  "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" },
	/* Before combined, which ignores what follows the user agent. See has_seconds_last. */
	{ "combined_timed", TEXT, WEIR__LOG_NGINX, COMBINED " $request_time" },
	{ "combined", TEXT, WEIR__LOG_NGINX, COMBINED },
	/* The field that is a dash in nginx is the user's of identd in Apache. */
	{ "apache", TEXT, WEIR__LOG_APACHE, "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" },
	{ "common", TEXT, WEIR__LOG_APACHE, "%h %l %u %t \"%r\" %>s %b" },
	{ "caddy", JSON, WEIR__LOG_CADDY, NULL },
	{ "traefik", JSON, WEIR__LOG_TRAEFIK, NULL },
	{ "envoy", JSON, WEIR__LOG_ENVOY, NULL },
	{ "json", JSON, WEIR__LOG_NGINX, NULL },
	{ "csv", CSV, WEIR__LOG_NGINX, NULL },
};

#define NAMED (sizeof(named) / sizeof(named[0]))

struct weir__log_format {
	const char *name;
	enum kind kind;
	struct weir__log_fields fields;
	struct weir__log_text *text; /* the one of its kind */
	struct weir__log_json *json;
	struct weir__log_csv *csv;
	char room[WEIR__LOG_LINE_MAX];
};

static const struct named *find(const char *name)
{
	for (size_t i = 0; i < NAMED; i++)
		if (strcmp(named[i].name, name) == 0)
			return &named[i];
	return NULL;
}

static int refuse_name(const char *name, struct weir_message *ret_message)
{
	struct weir__nearest nearest = weir__nearest_of(name, strlen(name));
	struct weir__text why = weir__text_of_message(ret_message, 0);

	for (size_t i = 0; i < NAMED; i++)
		weir__nearest_offer(&nearest, named[i].name);
	weir__text_add(&why, "unknown format ");
	weir__text_add_quoted(&why, name, strlen(name));
	if (nearest.best) {
		weir__text_add(&why, "; did you mean ");
		weir__text_add(&why, nearest.best);
		weir__text_add(&why, "?");
	}
	weir__text_add(&why, nearest.best ? " Use one of" : "; use one of");
	for (size_t i = 0; i < NAMED; i++) {
		weir__text_add(&why, i ? ", " : " ");
		weir__text_add(&why, named[i].name);
	}
	weir__text_add(&why, ", or a log_format of nginx or a LogFormat of Apache");
	return WEIR_ERR_SYNTAX;
}

int weir__log_format_new(const struct weir__log_options *options, const char *name, struct weir__slice header,
			 struct weir__log_format **ret_format, struct weir_message *ret_message)
{
	const struct named *const row = find(name);
	const bool is_string = row == NULL && strpbrk(name, "$%");
	struct weir__log_format *format;
	int error = WEIR_OK;

	if (row == NULL && !is_string)
		return refuse_name(name, ret_message);
	format = malloc(sizeof(*format));
	if (format == NULL) {
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	memset(format, 0, offsetof(struct weir__log_format, room));
	format->name = name;
	format->kind = row ? row->kind : TEXT;
	weir__log_fields_init(&format->fields, options,
			      row               ? row->dialect :
			      strchr(name, '$') ? WEIR__LOG_NGINX :
						  WEIR__LOG_APACHE);
	if (format->kind == TEXT)
		error = weir__log_text_new(row ? row->text : name, &format->fields, &format->text, ret_message);
	else if (format->kind == JSON)
		error = weir__log_json_new(&format->fields, &format->json);
	else
		error = weir__log_csv_new(header, &format->fields, &format->csv, ret_message);
	if (error != WEIR_OK) {
		weir__log_format_free(format);
		return error;
	}
	*ret_format = format;
	return WEIR_OK;
}

const char *weir__log_format_name(const struct weir__log_format *format)
{
	return format->name;
}

uint64_t weir__log_format_maps(const struct weir__log_format *format)
{
	return format->fields.maps_found;
}

bool weir__log_format_has_header(const struct weir__log_format *format)
{
	return format->kind == CSV;
}

const char *weir__log_format_parse(struct weir__log_format *format, struct weir__slice bytes,
				   struct weir__log_line *ret_line)
{
	weir__log_line_clear(ret_line, format->fields.options->n_wanted);
	switch (format->kind) {
	case TEXT:
		return weir__log_text_parse(format->text, &format->fields, bytes, format->room, ret_line);
	case JSON:
		return weir__log_json_parse(format->json, &format->fields, bytes, format->room, ret_line);
	default:
		return weir__log_csv_parse(format->csv, &format->fields, bytes, format->room, ret_line);
	}
}

void weir__log_format_free(struct weir__log_format *format)
{
	if (format == NULL)
		return;
	weir__log_text_free(format->text);
	weir__log_json_free(format->json);
	weir__log_csv_free(format->csv);
	free(format);
}

/* --- detecting --------------------------------------------------------------------------------------------------- */

/* The formats that were tried, for the lines that follow. */
struct detection {
	const struct weir__log_options *options;
	struct weir__log_format *formats[NAMED];
	struct weir__log_line line;
};

static bool fits(struct detection *detection, const struct named *row, struct weir__slice bytes)
{
	struct weir__log_format **const format = &detection->formats[row - named];
	struct weir_message why;

	if (*format == NULL)
		(void)weir__log_format_new(detection->options, row->name, bytes, format, &why);
	if (*format == NULL)
		return false;
	return row->kind == CSV || weir__log_format_parse(*format, bytes, &detection->line) == NULL;
}

/* JSON is recognised by the name of its time. */
static const char *detect_json(struct detection *detection, struct weir__slice line)
{
	if (memmem(line.at, line.n, "\"StartUTC\"", 10) || memmem(line.at, line.n, "\"ClientHost\"", 12))
		return "traefik";
	if (memmem(line.at, line.n, "\"start_time\"", 12) && memmem(line.at, line.n, "\"response_code\"", 15))
		return "envoy";
	if (memmem(line.at, line.n, "\"ts\"", 4) && memmem(line.at, line.n, "\"request\"", 9) &&
	    fits(detection, find("caddy"), line))
		return "caddy";
	return fits(detection, find("json"), line) ? "json" : NULL;
}

/* Whether the line ends as nginx writes $request_time: in seconds, with three decimals. An integer there may be in any
 * unit. */
static bool has_seconds_last(struct weir__slice line)
{
	const char *const blank = memrchr(line.at, ' ', line.n);
	const char *const end = line.at + line.n;

	if (blank == NULL || end - blank < (ptrdiff_t)sizeof("0.000") || blank == line.at || blank[-1] != '"' ||
	    end[-4] != '.')
		return false;
	for (const char *at = blank + 1; at < end; at++)
		if (at != end - 4 && (*at < '0' || *at > '9'))
			return false;
	return true;
}

static const char *detect_line(struct detection *detection, struct weir__slice line, bool is_first)
{
	if (line.at[0] == '{')
		return detect_json(detection, line);
	for (size_t i = 0; i < NAMED; i++)
		if (named[i].kind == TEXT && fits(detection, &named[i], line) &&
		    (strcmp(named[i].name, "combined_timed") != 0 || has_seconds_last(line)))
			return named[i].name;
	return is_first && fits(detection, find("csv"), line) ? "csv" : NULL;
}

static const char *detect_lines(struct detection *detection, struct weir__slice bytes)
{
	enum { LINES_MAX = 100 };
	const char *found = NULL;

	for (unsigned i = 0; bytes.n > 0 && i < LINES_MAX; i++) {
		const char *const newline = memchr(bytes.at, '\n', bytes.n);
		struct weir__slice line = { bytes.at, newline ? (size_t)(newline - bytes.at) : bytes.n };
		const size_t used = line.n + (newline != NULL);
		const char *name;

		if (line.n > 0 && line.at[line.n - 1] == '\r')
			line.n--;
		name = line.n > 0 && line.n <= WEIR__LOG_LINE_MAX ? detect_line(detection, line, i == 0) : NULL;
		/* Lines that end with seconds are combined_timed if all do. */
		if (name && strcmp(name, "combined_timed") != 0 && (found == NULL || strcmp(name, "combined") == 0))
			return name;
		found = name ? name : found;
		bytes.at += used;
		bytes.n -= used;
	}
	return found;
}

const char *weir__log_format_detect(const struct weir__log_options *options, struct weir__slice bytes)
{
	struct detection *const detection = calloc(1, sizeof(*detection));
	const char *name;

	if (detection == NULL)
		return NULL;
	detection->options = options;
	name = detect_lines(detection, bytes);
	for (size_t i = 0; i < NAMED; i++)
		weir__log_format_free(detection->formats[i]);
	free(detection);
	return name;
}
