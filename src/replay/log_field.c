/* log_field.c: the names of fields, and what their bytes mean. */
#include "replay/log_field.h"

#include "replay/log_zone.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

/* A field name of a dialect. Later rows for the same attribute are for logs without the earlier fields. */
struct known {
	const char *name;
	const char *attribute; /* NULL: it is not an attribute */
	uint64_t unit;
	enum weir__log_target to;
	bool is_strong;
};

static const struct known nginx_names[] = {
	{ "time_local", NULL, 0, WEIR__LOG_TIME, false },
	{ "time_iso8601", NULL, 0, WEIR__LOG_TIME, false },
	{ "msec", NULL, 0, WEIR__LOG_TIME, true },
	{ "time", NULL, 0, WEIR__LOG_TIME, false },
	{ "ts", NULL, 0, WEIR__LOG_TIME, false },
	{ "timestamp", NULL, 0, WEIR__LOG_TIME, false },
	{ "@timestamp", NULL, 0, WEIR__LOG_TIME, false },
	{ "start", NULL, 0, WEIR__LOG_START, true },
	{ "start_time", NULL, 0, WEIR__LOG_START, true },
	{ "request_time", NULL, WEIR__LOG_SECOND, WEIR__LOG_DURATION, false },
	{ "duration", NULL, WEIR__LOG_SECOND, WEIR__LOG_DURATION, false },
	{ "duration_s", NULL, WEIR__LOG_SECOND, WEIR__LOG_DURATION, false },
	{ "duration_ms", NULL, MS, WEIR__LOG_DURATION, false },
	{ "duration_us", NULL, US, WEIR__LOG_DURATION, false },
	{ "duration_ns", NULL, 1, WEIR__LOG_DURATION, false },
	{ "request", NULL, 0, WEIR__LOG_REQUEST, false },
	{ "status", "status", 0, WEIR__LOG_STATUS, false },
	{ "status_code", "status", 0, WEIR__LOG_STATUS, false },
	{ "body_bytes_sent", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "bytes_sent", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "bytes", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "size", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "cost", "cost", 0, WEIR__LOG_COST, false },
	{ "ip", "ip", 0, WEIR__LOG_ADDRESS, true },
	{ "remote_addr", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "client_ip", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "remote_ip", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "client", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "remote_user", "user", 0, WEIR__LOG_TEXT, false },
	{ "request_method", "method", 0, WEIR__LOG_TEXT, true },
	{ "method", "method", 0, WEIR__LOG_TEXT, true },
	{ "request_uri", "path", 0, WEIR__LOG_PATH, true },
	{ "path", "path", 0, WEIR__LOG_PATH, false },
	{ "uri", "path", 0, WEIR__LOG_PATH, false },
	{ "url", "path", 0, WEIR__LOG_PATH, false },
	{ "http_host", "host", 0, WEIR__LOG_TEXT, true },
	{ "host", "host", 0, WEIR__LOG_TEXT, false },
	{ "http_user_agent", "user_agent", 0, WEIR__LOG_TEXT, false },
	{ "http_referer", "referer", 0, WEIR__LOG_TEXT, false },
	{ 0 },
};

static const struct known apache_names[] = {
	{ "t", NULL, 0, WEIR__LOG_START, false },
	{ "{sec}t", NULL, 0, WEIR__LOG_START, false },
	{ "{msec}t", NULL, 0, WEIR__LOG_START, true },
	{ "{usec}t", NULL, 0, WEIR__LOG_START, true },
	{ "{begin:sec}t", NULL, 0, WEIR__LOG_START, false },
	{ "{begin:msec}t", NULL, 0, WEIR__LOG_START, true },
	{ "{begin:usec}t", NULL, 0, WEIR__LOG_START, true },
	{ "{end:sec}t", NULL, 0, WEIR__LOG_TIME, false },
	{ "{end:msec}t", NULL, 0, WEIR__LOG_TIME, true },
	{ "{end:usec}t", NULL, 0, WEIR__LOG_TIME, true },
	{ "D", NULL, US, WEIR__LOG_DURATION, false },
	{ "T", NULL, WEIR__LOG_SECOND, WEIR__LOG_DURATION, false },
	{ "{s}T", NULL, WEIR__LOG_SECOND, WEIR__LOG_DURATION, false },
	{ "{ms}T", NULL, MS, WEIR__LOG_DURATION, false },
	{ "{us}T", NULL, US, WEIR__LOG_DURATION, false },
	{ "r", NULL, 0, WEIR__LOG_REQUEST, false },
	{ "s", "status", 0, WEIR__LOG_STATUS, false },
	{ ">s", "status", 0, WEIR__LOG_STATUS, true },
	{ "b", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "B", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "O", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "a", "ip", 0, WEIR__LOG_ADDRESS, true },
	{ "h", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "u", "user", 0, WEIR__LOG_TEXT, false },
	{ "m", "method", 0, WEIR__LOG_TEXT, true },
	{ "U", "path", 0, WEIR__LOG_PATH, true },
	{ "{Host}i", "host", 0, WEIR__LOG_TEXT, true },
	{ "v", "host", 0, WEIR__LOG_TEXT, false },
	{ "V", "host", 0, WEIR__LOG_TEXT, false },
	{ "{User-Agent}i", "user_agent", 0, WEIR__LOG_TEXT, false },
	{ "{User-agent}i", "user_agent", 0, WEIR__LOG_TEXT, false },
	{ "{Referer}i", "referer", 0, WEIR__LOG_TEXT, false },
	{ 0 },
};

static const struct known caddy_names[] = {
	{ "ts", NULL, 0, WEIR__LOG_TIME, false },
	{ "duration", NULL, WEIR__LOG_SECOND, WEIR__LOG_DURATION, false },
	{ "status", "status", 0, WEIR__LOG_STATUS, false },
	{ "size", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "request.client_ip", "ip", 0, WEIR__LOG_ADDRESS, true },
	{ "request.remote_ip", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "request.remote_addr", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "user_id", "user", 0, WEIR__LOG_TEXT, false },
	{ "request.method", "method", 0, WEIR__LOG_TEXT, false },
	{ "request.uri", "path", 0, WEIR__LOG_PATH, false },
	{ "request.host", "host", 0, WEIR__LOG_TEXT, false },
	{ "request.headers.User-Agent", "user_agent", 0, WEIR__LOG_TEXT, false },
	{ "request.headers.Referer", "referer", 0, WEIR__LOG_TEXT, false },
	{ 0 },
};

static const struct known envoy_names[] = {
	{ "start_time", NULL, 0, WEIR__LOG_START, false },
	{ "duration", NULL, MS, WEIR__LOG_DURATION, false },
	{ "response_code", "status", 0, WEIR__LOG_STATUS, false },
	{ "bytes_sent", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "downstream_remote_address", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "downstream_remote_address_without_port", "ip", 0, WEIR__LOG_ADDRESS, true },
	{ "method", "method", 0, WEIR__LOG_TEXT, false },
	{ ":method", "method", 0, WEIR__LOG_TEXT, false },
	{ "x-envoy-original-path", "path", 0, WEIR__LOG_PATH, true },
	{ "x_envoy_original_path", "path", 0, WEIR__LOG_PATH, true },
	{ "path", "path", 0, WEIR__LOG_PATH, false },
	{ ":path", "path", 0, WEIR__LOG_PATH, false },
	{ "authority", "host", 0, WEIR__LOG_TEXT, false },
	{ ":authority", "host", 0, WEIR__LOG_TEXT, false },
	{ "user_agent", "user_agent", 0, WEIR__LOG_TEXT, false },
	{ "user-agent", "user_agent", 0, WEIR__LOG_TEXT, false },
	{ 0 },
};

static const struct known traefik_names[] = {
	{ "StartUTC", NULL, 0, WEIR__LOG_START, true },
	{ "StartLocal", NULL, 0, WEIR__LOG_START, false },
	{ "Duration", NULL, 1, WEIR__LOG_DURATION, false },
	{ "DownstreamStatus", "status", 0, WEIR__LOG_STATUS, false },
	{ "DownstreamContentSize", "bytes", 0, WEIR__LOG_BYTES, false },
	{ "ClientHost", "ip", 0, WEIR__LOG_ADDRESS, true },
	{ "ClientAddr", "ip", 0, WEIR__LOG_ADDRESS, false },
	{ "ClientUsername", "user", 0, WEIR__LOG_TEXT, false },
	{ "RequestMethod", "method", 0, WEIR__LOG_TEXT, false },
	{ "RequestPath", "path", 0, WEIR__LOG_PATH, false },
	{ "RequestHost", "host", 0, WEIR__LOG_TEXT, false },
	{ "request_User-Agent", "user_agent", 0, WEIR__LOG_TEXT, false },
	{ "request_Referer", "referer", 0, WEIR__LOG_TEXT, false },
	{ 0 },
};

static const struct known *const dialects[] = {
	[WEIR__LOG_NGINX] = nginx_names, [WEIR__LOG_APACHE] = apache_names,   [WEIR__LOG_CADDY] = caddy_names,
	[WEIR__LOG_ENVOY] = envoy_names, [WEIR__LOG_TRAEFIK] = traefik_names,
};

/* What a map can set, besides attributes. */
static const struct known roles[] = {
	{ "time", NULL, 0, WEIR__LOG_TIME, true },
	{ "start", NULL, 0, WEIR__LOG_START, true },
	{ "duration", NULL, WEIR__LOG_SECOND, WEIR__LOG_DURATION, true },
	{ "duration_s", NULL, WEIR__LOG_SECOND, WEIR__LOG_DURATION, true },
	{ "duration_ms", NULL, MS, WEIR__LOG_DURATION, true },
	{ "duration_us", NULL, US, WEIR__LOG_DURATION, true },
	{ "duration_ns", NULL, 1, WEIR__LOG_DURATION, true },
	{ "request", NULL, 0, WEIR__LOG_REQUEST, true },
	{ "status", "status", 0, WEIR__LOG_STATUS, true },
	{ "bytes", "bytes", 0, WEIR__LOG_BYTES, true },
	{ "cost", "cost", 0, WEIR__LOG_COST, true },
	{ 0 },
};

static uint8_t wanted_index(const struct weir__log_options *options, struct weir__slice name)
{
	for (size_t i = 0; i < options->n_wanted; i++)
		if (weir__slice_equal(options->wanted[i], name))
			return (uint8_t)i;
	return WEIR__LOG_NO_VALUE;
}

void weir__log_fields_init(struct weir__log_fields *fields, const struct weir__log_options *options,
			   enum weir__log_dialect dialect)
{
	memset(fields, 0, sizeof(*fields));
	fields->options = options;
	fields->dialect = dialect;
	fields->method = wanted_index(options, weir__slice_of("method"));
	fields->path = wanted_index(options, weir__slice_of("path"));
}

/* --- names ------------------------------------------------------------------------------------------------------- */

static bool is_mapped(const struct weir__log_options *options, struct weir__slice to)
{
	for (size_t i = 0; i < options->n_maps; i++)
		if (weir__slice_equal(options->maps[i].to, to))
			return true;
	return false;
}

static const struct known *find(const struct known *among, struct weir__slice name)
{
	for (; among->name; among++)
		if (weir__slice_is(name, among->name))
			return among;
	return NULL;
}

static enum weir__log_target target_of(struct weir__slice attribute)
{
	if (weir__slice_is(attribute, "path"))
		return WEIR__LOG_PATH;
	return weir__slice_is(attribute, "ip") ? WEIR__LOG_ADDRESS : WEIR__LOG_TEXT;
}

/* Whether a map sets what this row would set: then the row does not count. A map to `time` also replaces a start. */
static bool is_replaced(const struct weir__log_options *options, const struct known *row)
{
	for (size_t i = 0; i < options->n_maps; i++) {
		const struct known *const role = find(roles, options->maps[i].to);
		const bool has_time = role && (role->to == WEIR__LOG_TIME || role->to == WEIR__LOG_START);

		if (role && role->to == row->to)
			return true;
		if (has_time && (row->to == WEIR__LOG_TIME || row->to == WEIR__LOG_START))
			return true;
	}
	return row->attribute && is_mapped(options, weir__slice_of(row->attribute));
}

static size_t add_use(const struct weir__log_fields *fields, const struct known *row, struct weir__slice attribute,
		      struct weir__log_field *uses, size_t n)
{
	const enum weir__log_target to = row ? row->to : target_of(attribute);
	const uint8_t value = attribute.at ? wanted_index(fields->options, attribute) : WEIR__LOG_NO_VALUE;
	const bool is_text = to >= WEIR__LOG_TEXT;
	const struct weir__log_field role = { to, 0, row && row->is_strong, row ? row->unit : 0 };

	if (!is_text && n < WEIR__LOG_USES_MAX)
		uses[n++] = role;
	if (value != WEIR__LOG_NO_VALUE && n < WEIR__LOG_USES_MAX)
		uses[n++] = (struct weir__log_field){ is_text ? to : WEIR__LOG_TEXT, value, role.is_strong, 0 };
	return n;
}

static struct weir__slice attribute_of(const struct known *row)
{
	return row->attribute ? weir__slice_of(row->attribute) : (struct weir__slice){ NULL, 0 };
}

/* A header's name as an attribute: X-Api-Key is x_api_key. */
static bool is_header(struct weir__slice header, struct weir__slice attribute)
{
	if (header.n != attribute.n)
		return false;
	for (size_t i = 0; i < header.n; i++) {
		const char c = header.at[i];

		if ((c == '-' ? '_' : c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) != attribute.at[i])
			return false;
	}
	return true;
}

/* What a dialect writes before the name of a header. */
static const char *const before_headers[] = {
	[WEIR__LOG_NGINX] = "http_", [WEIR__LOG_APACHE] = "{",         [WEIR__LOG_CADDY] = "request.headers.",
	[WEIR__LOG_ENVOY] = "",      [WEIR__LOG_TRAEFIK] = "request_",
};

/* The part of a field's name that is the name of a header. .at NULL: it is not a header. */
static struct weir__slice header_of(enum weir__log_dialect dialect, struct weir__slice name)
{
	const struct weir__slice before = weir__slice_of(before_headers[dialect]);
	const size_t end = dialect == WEIR__LOG_APACHE ? 2 : 0;

	if (!weir__slice_begins_with(name, before) || name.n < before.n + end ||
	    (end && memcmp(name.at + name.n - end, "}i", end) != 0))
		return (struct weir__slice){ NULL, 0 };
	return (struct weir__slice){ name.at + before.n, name.n - before.n - end };
}

/* The name of a field that has the header of an attribute: x_api_key is X-Api-Key where headers keep their case. */
static struct weir__slice name_of_header(enum weir__log_dialect dialect, struct weir__slice attribute, char *room,
					 size_t size)
{
	const bool has_case = dialect == WEIR__LOG_CADDY || dialect == WEIR__LOG_TRAEFIK;
	const struct weir__slice before = weir__slice_of(before_headers[dialect]);
	bool is_first = true;

	if (before.n + attribute.n > size)
		return (struct weir__slice){ NULL, 0 };
	memcpy(room, before.at, before.n);
	for (size_t i = 0; i < attribute.n; i++) {
		const char c = attribute.at[i];

		room[before.n + i] = (char)(c == '_' && dialect != WEIR__LOG_NGINX       ? '-' :
					    has_case && is_first && c >= 'a' && c <= 'z' ? c - ('a' - 'A') :
											   c);
		is_first = c == '_';
	}
	return (struct weir__slice){ room, before.n + attribute.n };
}

size_t weir__log_fields_find(struct weir__log_fields *fields, struct weir__slice name, struct weir__log_field *ret_uses)
{
	const struct weir__log_options *const options = fields->options;
	const struct known *const row = find(dialects[fields->dialect], name);
	const struct weir__slice header = header_of(fields->dialect, name);
	size_t n = 0;

	for (size_t i = 0; i < options->n_maps; i++)
		if (weir__slice_equal(options->maps[i].from, name)) {
			const struct known *const role = find(roles, options->maps[i].to);

			if (n < WEIR__LOG_USES_MAX)
				fields->maps_found |= UINT64_C(1) << i;
			n = add_use(fields, role, role ? attribute_of(role) : options->maps[i].to, ret_uses, n);
		}
	if (row && !is_replaced(options, row))
		return add_use(fields, row, attribute_of(row), ret_uses, n);
	for (size_t i = 0; row == NULL && i < options->n_wanted; i++) {
		const struct weir__slice wanted = options->wanted[i];

		if ((weir__slice_equal(wanted, name) || (header.n > 0 && is_header(header, wanted))) &&
		    !is_mapped(options, wanted))
			n = add_use(fields, NULL, wanted, ret_uses, n);
	}
	return n;
}

void weir__log_fields_names(struct weir__log_fields *fields, void (*tell)(void *context, struct weir__slice name),
			    void *context)
{
	const struct weir__log_options *const options = fields->options;

	for (const struct known *row = dialects[fields->dialect]; row->name; row++)
		tell(context, weir__slice_of(row->name));
	for (size_t i = 0; i < options->n_maps; i++)
		tell(context, options->maps[i].from);
	for (size_t i = 0; i < options->n_wanted; i++) {
		const struct weir__slice header = name_of_header(fields->dialect, options->wanted[i],
								 fields->headers[i], sizeof(fields->headers[i]));

		tell(context, options->wanted[i]);
		if (header.at)
			tell(context, header);
	}
}

/* --- bytes ------------------------------------------------------------------------------------------------------- */

bool weir__log_field_time(const struct weir__log_options *options, struct weir__slice bytes, weir_ns newest,
			  struct weir__log_time *ret_time)
{
	struct weir__log_time time;
	int64_t at_s, least_s;

	if (!weir__log_time_read(bytes.at, bytes.n, options->zone ? 0 : options->zone_s, &time))
		return false;
	if (options->zone && !time.has_offset) {
		least_s = newest > options->reorder ? (int64_t)((newest - options->reorder) / WEIR__LOG_SECOND) : 0;
		at_s = weir__log_zone_instant(options->zone, (int64_t)(time.at / WEIR__LOG_SECOND), least_s);
		if (at_s < 0 || (uint64_t)at_s >= WEIR__LOG_TIME_END / WEIR__LOG_SECOND)
			return false;
		time.at = (weir_ns)at_s * WEIR__LOG_SECOND + time.at % WEIR__LOG_SECOND;
	}
	*ret_time = time;
	return true;
}

static const char *set_time(struct weir__log_fields *fields, bool is_start, bool is_strong, struct weir__slice bytes,
			    struct weir__log_line *line)
{
	if (line->has_stamp && !is_strong)
		return NULL;
	if (bytes.n != fields->last_n || memcmp(bytes.at, fields->last_text, bytes.n) != 0) {
		if (!weir__log_field_time(fields->options, bytes, fields->newest, &fields->last))
			return "its time is in no known form, or not from 1970 to 2262";
		fields->last_n = bytes.n <= sizeof(fields->last_text) ? bytes.n : 0;
		memcpy(fields->last_text, bytes.at, fields->last_n);
		if (fields->last.at > fields->newest)
			fields->newest = fields->last.at;
	}
	line->stamp = fields->last;
	line->has_stamp = true;
	line->is_start = is_start;
	return NULL;
}

static bool read_digits(struct weir__slice bytes, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (bytes.n == 0 || bytes.n > 18)
		return false;
	for (size_t i = 0; i < bytes.n; i++) {
		if (bytes.at[i] < '0' || bytes.at[i] > '9')
			return false;
		number = number * 10 + (uint64_t)(bytes.at[i] - '0');
	}
	*ret_number = number;
	return true;
}

/* The path of a URI, without query, fragment, scheme and host. */
static struct weir__slice path_of(struct weir__slice uri)
{
	const char *end;

	if (uri.at == NULL)
		return uri;
	if (uri.n > 0 && uri.at[0] != '/') {
		const char *const scheme = memmem(uri.at, uri.n, "://", 3);

		if (scheme) {
			const char *const rest = scheme + 3;
			const char *const slash = memchr(rest, '/', uri.n - (size_t)(rest - uri.at));

			if (slash == NULL)
				return (struct weir__slice){ "/", 1 };
			uri = (struct weir__slice){ slash, uri.n - (size_t)(slash - uri.at) };
		}
	}
	end = memchr(uri.at, '?', uri.n);
	if (end)
		uri.n = (size_t)(end - uri.at);
	end = memchr(uri.at, '#', uri.n);
	if (end)
		uri.n = (size_t)(end - uri.at);
	return uri;
}

/* An address without its port: 10.0.0.1:80 and [::1]:80. */
static struct weir__slice address_of(struct weir__slice text)
{
	const char *colon, *end;

	if (text.n > 0 && text.at[0] == '[') {
		end = memchr(text.at, ']', text.n);
		return end ? (struct weir__slice){ text.at + 1, (size_t)(end - text.at - 1) } : text;
	}
	colon = memchr(text.at, ':', text.n);
	if (colon && memchr(colon + 1, ':', text.n - (size_t)(colon + 1 - text.at)) == NULL)
		text.n = (size_t)(colon - text.at);
	return text;
}

/* GET /path HTTP/1.1. A path with blanks ends at the last one. */
static void set_request(const struct weir__log_fields *fields, struct weir__slice bytes, struct weir__log_line *line)
{
	const char *const first = memchr(bytes.at, ' ', bytes.n);
	const char *last;
	struct weir__slice uri;

	if (first == NULL)
		return;
	if (fields->method != WEIR__LOG_NO_VALUE && line->values[fields->method].at == NULL)
		line->values[fields->method] = (struct weir__slice){ bytes.at, (size_t)(first - bytes.at) };
	if (fields->path == WEIR__LOG_NO_VALUE || line->values[fields->path].at)
		return;
	uri = (struct weir__slice){ first + 1, bytes.n - (size_t)(first + 1 - bytes.at) };
	last = memrchr(uri.at, ' ', uri.n);
	if (last)
		uri.n = (size_t)(last - uri.at);
	line->values[fields->path] = path_of(uri);
}

const char *weir__log_field_set(struct weir__log_fields *fields, const struct weir__log_field *field,
				struct weir__slice bytes, struct weir__log_line *line)
{
	struct weir__slice *const value = &line->values[field->value];
	uint64_t number;

	if (bytes.n == 0 || (bytes.n == 1 && bytes.at[0] == '-'))
		return NULL;
	switch (field->to) {
	case WEIR__LOG_IGNORE:
		return NULL;
	case WEIR__LOG_TIME:
	case WEIR__LOG_START:
		return set_time(fields, field->to == WEIR__LOG_START, field->is_strong, bytes, line);
	case WEIR__LOG_DURATION:
		if (!weir__log_decimal_read(bytes.at, bytes.n, field->unit, &line->duration))
			return "its duration is not a number";
		line->has_duration = true;
		return NULL;
	case WEIR__LOG_REQUEST:
		set_request(fields, bytes, line);
		return NULL;
	case WEIR__LOG_STATUS:
		if (!read_digits(bytes, &number) || number > 999)
			return "its status is not a number of three digits";
		line->status = (uint16_t)number;
		return NULL;
	case WEIR__LOG_BYTES:
		if (!weir__log_decimal_read(bytes.at, bytes.n, 1, &line->bytes))
			return "its size is not a number";
		return NULL;
	case WEIR__LOG_COST:
		return read_digits(bytes, &line->cost) ? NULL : "its cost is not a whole number";
	case WEIR__LOG_TEXT:
	case WEIR__LOG_PATH:
	case WEIR__LOG_ADDRESS:
		if (value->at == NULL || field->is_strong)
			*value = field->to == WEIR__LOG_TEXT ? bytes :
				 field->to == WEIR__LOG_PATH ? path_of(bytes) :
							       address_of(bytes);
		return NULL;
	}
	return NULL;
}
