/* log_field.c: the names of fields, and what their bytes mean. */
#include "replay/log_field.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

/* A name that a dialect knows. Later rows of the same attribute are for logs that lack the earlier ones. */
struct known {
	const char *name;
	enum weir__log_target to;
	const char *attribute; /* NULL: it is not an attribute */
	uint64_t unit;
	bool is_strong;
};

static const struct known nginx_names[] = {
	{ "time_local", WEIR__LOG_TIME, NULL, 0, false },
	{ "time_iso8601", WEIR__LOG_TIME, NULL, 0, false },
	{ "msec", WEIR__LOG_TIME, NULL, 0, true },
	{ "time", WEIR__LOG_TIME, NULL, 0, false },
	{ "ts", WEIR__LOG_TIME, NULL, 0, false },
	{ "timestamp", WEIR__LOG_TIME, NULL, 0, false },
	{ "@timestamp", WEIR__LOG_TIME, NULL, 0, false },
	{ "start", WEIR__LOG_START, NULL, 0, true },
	{ "start_time", WEIR__LOG_START, NULL, 0, true },
	{ "request_time", WEIR__LOG_DURATION, NULL, WEIR__LOG_SECOND, false },
	{ "duration", WEIR__LOG_DURATION, NULL, WEIR__LOG_SECOND, false },
	{ "duration_s", WEIR__LOG_DURATION, NULL, WEIR__LOG_SECOND, false },
	{ "duration_ms", WEIR__LOG_DURATION, NULL, MS, false },
	{ "duration_us", WEIR__LOG_DURATION, NULL, US, false },
	{ "duration_ns", WEIR__LOG_DURATION, NULL, 1, false },
	{ "request", WEIR__LOG_REQUEST, NULL, 0, false },
	{ "status", WEIR__LOG_STATUS, "status", 0, false },
	{ "status_code", WEIR__LOG_STATUS, "status", 0, false },
	{ "body_bytes_sent", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "bytes_sent", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "bytes", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "size", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "cost", WEIR__LOG_COST, "cost", 0, false },
	{ "ip", WEIR__LOG_ADDRESS, "ip", 0, true },
	{ "remote_addr", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "client_ip", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "remote_ip", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "client", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "remote_user", WEIR__LOG_TEXT, "user", 0, false },
	{ "request_method", WEIR__LOG_TEXT, "method", 0, true },
	{ "method", WEIR__LOG_TEXT, "method", 0, true },
	{ "request_uri", WEIR__LOG_PATH, "path", 0, true },
	{ "path", WEIR__LOG_PATH, "path", 0, false },
	{ "uri", WEIR__LOG_PATH, "path", 0, false },
	{ "url", WEIR__LOG_PATH, "path", 0, false },
	{ "http_host", WEIR__LOG_TEXT, "host", 0, true },
	{ "host", WEIR__LOG_TEXT, "host", 0, false },
	{ "http_user_agent", WEIR__LOG_TEXT, "user_agent", 0, false },
	{ "http_referer", WEIR__LOG_TEXT, "referer", 0, false },
	{ 0 },
};

static const struct known apache_names[] = {
	{ "t", WEIR__LOG_START, NULL, 0, false },
	{ "{sec}t", WEIR__LOG_START, NULL, 0, false },
	{ "{msec}t", WEIR__LOG_START, NULL, 0, true },
	{ "{usec}t", WEIR__LOG_START, NULL, 0, true },
	{ "{begin:sec}t", WEIR__LOG_START, NULL, 0, false },
	{ "{begin:msec}t", WEIR__LOG_START, NULL, 0, true },
	{ "{begin:usec}t", WEIR__LOG_START, NULL, 0, true },
	{ "{end:sec}t", WEIR__LOG_TIME, NULL, 0, false },
	{ "{end:msec}t", WEIR__LOG_TIME, NULL, 0, true },
	{ "{end:usec}t", WEIR__LOG_TIME, NULL, 0, true },
	{ "D", WEIR__LOG_DURATION, NULL, US, false },
	{ "T", WEIR__LOG_DURATION, NULL, WEIR__LOG_SECOND, false },
	{ "{s}T", WEIR__LOG_DURATION, NULL, WEIR__LOG_SECOND, false },
	{ "{ms}T", WEIR__LOG_DURATION, NULL, MS, false },
	{ "{us}T", WEIR__LOG_DURATION, NULL, US, false },
	{ "r", WEIR__LOG_REQUEST, NULL, 0, false },
	{ "s", WEIR__LOG_STATUS, "status", 0, false },
	{ ">s", WEIR__LOG_STATUS, "status", 0, true },
	{ "b", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "B", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "O", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "a", WEIR__LOG_ADDRESS, "ip", 0, true },
	{ "h", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "u", WEIR__LOG_TEXT, "user", 0, false },
	{ "m", WEIR__LOG_TEXT, "method", 0, true },
	{ "U", WEIR__LOG_PATH, "path", 0, true },
	{ "{Host}i", WEIR__LOG_TEXT, "host", 0, true },
	{ "v", WEIR__LOG_TEXT, "host", 0, false },
	{ "V", WEIR__LOG_TEXT, "host", 0, false },
	{ "{User-Agent}i", WEIR__LOG_TEXT, "user_agent", 0, false },
	{ "{User-agent}i", WEIR__LOG_TEXT, "user_agent", 0, false },
	{ "{Referer}i", WEIR__LOG_TEXT, "referer", 0, false },
	{ 0 },
};

static const struct known caddy_names[] = {
	{ "ts", WEIR__LOG_TIME, NULL, 0, false },
	{ "duration", WEIR__LOG_DURATION, NULL, WEIR__LOG_SECOND, false },
	{ "status", WEIR__LOG_STATUS, "status", 0, false },
	{ "size", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "request.client_ip", WEIR__LOG_ADDRESS, "ip", 0, true },
	{ "request.remote_ip", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "request.remote_addr", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "user_id", WEIR__LOG_TEXT, "user", 0, false },
	{ "request.method", WEIR__LOG_TEXT, "method", 0, false },
	{ "request.uri", WEIR__LOG_PATH, "path", 0, false },
	{ "request.host", WEIR__LOG_TEXT, "host", 0, false },
	{ "request.headers.User-Agent", WEIR__LOG_TEXT, "user_agent", 0, false },
	{ "request.headers.Referer", WEIR__LOG_TEXT, "referer", 0, false },
	{ 0 },
};

static const struct known envoy_names[] = {
	{ "start_time", WEIR__LOG_START, NULL, 0, false },
	{ "duration", WEIR__LOG_DURATION, NULL, MS, false },
	{ "response_code", WEIR__LOG_STATUS, "status", 0, false },
	{ "bytes_sent", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "downstream_remote_address", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "downstream_remote_address_without_port", WEIR__LOG_ADDRESS, "ip", 0, true },
	{ "method", WEIR__LOG_TEXT, "method", 0, false },
	{ ":method", WEIR__LOG_TEXT, "method", 0, false },
	{ "x-envoy-original-path", WEIR__LOG_PATH, "path", 0, true },
	{ "x_envoy_original_path", WEIR__LOG_PATH, "path", 0, true },
	{ "path", WEIR__LOG_PATH, "path", 0, false },
	{ ":path", WEIR__LOG_PATH, "path", 0, false },
	{ "authority", WEIR__LOG_TEXT, "host", 0, false },
	{ ":authority", WEIR__LOG_TEXT, "host", 0, false },
	{ "user_agent", WEIR__LOG_TEXT, "user_agent", 0, false },
	{ "user-agent", WEIR__LOG_TEXT, "user_agent", 0, false },
	{ 0 },
};

static const struct known traefik_names[] = {
	{ "StartUTC", WEIR__LOG_START, NULL, 0, true },
	{ "StartLocal", WEIR__LOG_START, NULL, 0, false },
	{ "Duration", WEIR__LOG_DURATION, NULL, 1, false },
	{ "DownstreamStatus", WEIR__LOG_STATUS, "status", 0, false },
	{ "DownstreamContentSize", WEIR__LOG_BYTES, "bytes", 0, false },
	{ "ClientHost", WEIR__LOG_ADDRESS, "ip", 0, true },
	{ "ClientAddr", WEIR__LOG_ADDRESS, "ip", 0, false },
	{ "ClientUsername", WEIR__LOG_TEXT, "user", 0, false },
	{ "RequestMethod", WEIR__LOG_TEXT, "method", 0, false },
	{ "RequestPath", WEIR__LOG_PATH, "path", 0, false },
	{ "RequestHost", WEIR__LOG_TEXT, "host", 0, false },
	{ "request_User-Agent", WEIR__LOG_TEXT, "user_agent", 0, false },
	{ "request_Referer", WEIR__LOG_TEXT, "referer", 0, false },
	{ 0 },
};

static const struct known *const dialects[] = {
	[WEIR__LOG_NGINX] = nginx_names, [WEIR__LOG_APACHE] = apache_names,   [WEIR__LOG_CADDY] = caddy_names,
	[WEIR__LOG_ENVOY] = envoy_names, [WEIR__LOG_TRAEFIK] = traefik_names,
};

/* What a map can name besides attributes. */
static const struct known roles[] = {
	{ "time", WEIR__LOG_TIME, NULL, 0, true },
	{ "start", WEIR__LOG_START, NULL, 0, true },
	{ "duration", WEIR__LOG_DURATION, NULL, WEIR__LOG_SECOND, true },
	{ "duration_s", WEIR__LOG_DURATION, NULL, WEIR__LOG_SECOND, true },
	{ "duration_ms", WEIR__LOG_DURATION, NULL, MS, true },
	{ "duration_us", WEIR__LOG_DURATION, NULL, US, true },
	{ "duration_ns", WEIR__LOG_DURATION, NULL, 1, true },
	{ "request", WEIR__LOG_REQUEST, NULL, 0, true },
	{ "status", WEIR__LOG_STATUS, "status", 0, true },
	{ "bytes", WEIR__LOG_BYTES, "bytes", 0, true },
	{ "cost", WEIR__LOG_COST, "cost", 0, true },
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

/* Whether a map gives what this row would: then the row does not count. A map to `time` also replaces a start. */
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

size_t weir__log_fields_find(const struct weir__log_fields *fields, struct weir__slice name,
			     struct weir__log_field *ret_uses)
{
	const struct weir__log_options *const options = fields->options;
	const struct known *const row = find(dialects[fields->dialect], name);
	const struct weir__slice header = header_of(fields->dialect, name);
	size_t n = 0;

	for (size_t i = 0; i < options->n_maps; i++)
		if (weir__slice_equal(options->maps[i].from, name)) {
			const struct known *const role = find(roles, options->maps[i].to);

			n = add_use(fields, role, role ? attribute_of(role) : options->maps[i].to, ret_uses, n);
		}
	if (row && !is_replaced(options, row))
		return add_use(fields, row, attribute_of(row), ret_uses, n);
	for (size_t i = 0; row == NULL && i < options->n_wanted; i++) {
		const struct weir__slice wanted = options->wanted[i];

		if ((weir__slice_equal(wanted, name) || (header.at && is_header(header, wanted))) &&
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

static const char *set_time(struct weir__log_fields *fields, bool is_start, bool is_strong, struct weir__slice bytes,
			    struct weir__log_line *line)
{
	if (line->has_stamp && !is_strong)
		return NULL;
	if (bytes.n != fields->last_n || memcmp(bytes.at, fields->last_text, bytes.n) != 0) {
		if (!weir__log_time_read(bytes.at, bytes.n, fields->options->zone_s, &fields->last))
			return "its time is none that Weir knows";
		fields->last_n = bytes.n <= sizeof(fields->last_text) ? bytes.n : 0;
		memcpy(fields->last_text, bytes.at, fields->last_n);
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
