/* http_authorize.c: forward auth. Before a proxy passes a request on, it calls /v1/authorize and describes the request
 * in headers: method, target, host, and X-Forwarded-For.
 *
 * Proxies name these headers differently, and pass on headers of clients whose names they do not set themselves. If two
 * headers state the same part of the request with different values, it is an error: the client may have invented one of
 * them. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/duration.h"
#include "guard/guard.h"
#include "os/net.h"
#include "server/http/http_call.h"
#include "server/settings.h"

enum { ATTRIBUTES_MAX = 4 + WEIR__HEADER_MAP_MAX };

enum part { METHOD, TARGET, HOST, PARTS };

static const struct {
	const char *header;
	size_t length;
	enum part part;
} sources[] = {
#define SOURCE(header, part)                                                                                           \
	{                                                                                                              \
		header, sizeof(header) - 1, part                                                                       \
	}
	SOURCE("x-original-method", METHOD), SOURCE("x-forwarded-method", METHOD), SOURCE("x-original-uri", TARGET),
	SOURCE("x-original-url", TARGET),    SOURCE("x-forwarded-uri", TARGET),    SOURCE("x-original-host", HOST),
	SOURCE("x-forwarded-host", HOST),
#undef SOURCE
};

static const char *const contradictions[PARTS] = {
	"X-Original-Method and X-Forwarded-Method differ: let the proxy set one, and remove the other",
	"X-Original-URI, X-Original-URL and X-Forwarded-Uri differ: let the proxy set one, and remove the others",
	"X-Original-Host and X-Forwarded-Host differ: let the proxy set one, and remove the other",
};

/* The proxied request, as far as its headers describe it. */
struct original {
	struct weir__http_slice parts[PARTS]; /* .bytes NULL: not stated */
	struct weir__slice chain[WEIR__HTTP_HEADERS_MAX];
	size_t n_chain;
	struct weir_attribute attributes[ATTRIBUTES_MAX];
	size_t n;
};

/* --- parts ------------------------------------------------------------------------------------------------------ */

static bool is_same(struct weir__http_slice a, struct weir__http_slice b)
{
	return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

static const char *put_part(struct original *original, enum part part, struct weir__http_slice value)
{
	struct weir__http_slice *const known = &original->parts[part];

	if (known->bytes && !is_same(*known, value))
		return contradictions[part];
	*known = value;
	return NULL;
}

static const char *take_method(struct original *original, struct weir__http_slice value)
{
	for (size_t i = 0; i < value.length; i++)
		if (!isalpha((unsigned char)value.bytes[i]) && value.bytes[i] != '-')
			return "X-Original-Method or X-Forwarded-Method: use a method, such as POST";
	return put_part(original, METHOD, value);
}

static bool is_of_host(char c)
{
	return isalnum((unsigned char)c) || (c != '\0' && strchr(".-_:[]", c));
}

/* Takes a name or an address in lower case and without the port, so that all spellings of a host are one. */
static const char *take_host(struct original *original, struct weir__http_slice value)
{
	const char *const colon = memrchr(value.bytes, ':', value.length);

	if (value.length == 0)
		return NULL;
	for (size_t i = 0; i < value.length; i++) {
		if (!is_of_host(value.bytes[i]))
			return "X-Original-Host or X-Forwarded-Host: use one host, such as shop.example:8443";
		value.bytes[i] = (char)tolower((unsigned char)value.bytes[i]);
	}
	if (colon && (value.bytes[0] != '[' || colon[-1] == ']'))
		value.length = (size_t)(colon - value.bytes);
	if (value.length > 1 && value.bytes[value.length - 1] == '.')
		value.length--;
	return put_part(original, HOST, value);
}

/* What follows SCHEME://, or NULL. The scheme must be at the start: a plain path may contain a URL in its query. */
static char *behind_scheme(struct weir__http_slice value)
{
	size_t n = 0;

	while (n < value.length && isalpha((unsigned char)value.bytes[n]))
		n++;
	return n > 0 && value.length - n > 3 && memcmp(value.bytes + n, "://", 3) == 0 ? value.bytes + n + 3 : NULL;
}

/* Takes a path with its query, or a full URL, which then also states the host. */
static const char *take_target(struct original *original, struct weir__http_slice value)
{
	char *const end = value.bytes + value.length, *const host = behind_scheme(value);
	const char *fault = NULL;
	char *path = host;

	if (host) {
		while (path < end && *path != '/' && *path != '?')
			path++;
		fault = take_host(original, (struct weir__http_slice){ host, (size_t)(path - host) });
		value = (struct weir__http_slice){ path, (size_t)(end - path) };
	}
	return fault ? fault : put_part(original, TARGET, value);
}

static const char *take_source(struct original *original, enum part part, struct weir__http_slice value)
{
	if (value.length == 0) /* counts as missing */
		return NULL;
	if (part == METHOD)
		return take_method(original, value);
	return part == TARGET ? take_target(original, value) : take_host(original, value);
}

/* --- headers ---------------------------------------------------------------------------------------------------- */

static bool is_named(struct weir__http_slice name, const char *header, size_t length)
{
	return name.length == length && strncasecmp(name.bytes, header, length) == 0;
}

static void add(struct original *original, const char *name, size_t name_length, const char *value, size_t length)
{
	original->attributes[original->n++] = (struct weir_attribute){ name, name_length, value, length };
}

/* Takes a header that the settings name. Two different values are an error: it is unknown which one the service behind
 * the proxy uses. */
static const char *take_named(struct original *original, const struct weir__header_row *row,
			      struct weir__http_slice value)
{
	for (size_t i = 0; i < original->n; i++) {
		const struct weir_attribute *const known = &original->attributes[i];

		if (known->name != row->attribute)
			continue;
		if (known->value_length == value.length && memcmp(known->value, value.bytes, value.length) == 0)
			return NULL;
		return "a header of the setting authorize_headers has two different values: send one";
	}
	add(original, row->attribute, row->attribute_length, value.bytes, value.length);
	return NULL;
}

static const char *take_header(struct original *original, const struct weir__header_map *map,
			       struct weir__http_slice name, struct weir__http_slice value)
{
	const char *fault = NULL;

	for (size_t i = 0; map && fault == NULL && i < map->n; i++)
		if (is_named(name, map->at[i].header, map->at[i].header_length))
			fault = take_named(original, &map->at[i], value);
	if (fault || name.length < 2 || (name.bytes[0] | 0x20) != 'x' || name.bytes[1] != '-')
		return fault;
	if (is_named(name, "x-forwarded-for", 15)) {
		original->chain[original->n_chain++] = (struct weir__slice){ value.bytes, value.length };
		return NULL;
	}
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		if (is_named(name, sources[i].header, sources[i].length))
			return take_source(original, sources[i].part, value);
	return NULL;
}

/* Returns NULL, or what is wrong. */
static const char *read_headers(const struct weir__http_request *request, const struct weir__header_map *map,
				struct original *original)
{
	const struct weir__http_reader *const reader = request->reader;
	const char *fault = NULL;

	memset(original->parts, 0, sizeof(original->parts));
	original->n = original->n_chain = 0;
	for (uint32_t i = 0; i < reader->n && fault == NULL; i++) {
		const struct weir__http_header *const header = &reader->headers[i];

		fault = take_header(
			original, map,
			(struct weir__http_slice){ request->bytes + header->name.at, header->name.length },
			(struct weir__http_slice){ request->bytes + header->value.at, header->value.length });
	}
	return fault;
}

/* --- the request ------------------------------------------------------------------------------------------------ */

static struct weir__caller caller_of(int socket)
{
	struct weir__caller caller = { .is_unix = false };
	struct weir__net_peer peer;

	if (weir__net_peer(socket, &peer) != 0)
		return caller;
	caller.is_unix = peer.is_path;
	caller.has_address = !peer.is_path;
	if (caller.has_address)
		caller.address = weir__address_of(peer.address, peer.is_v6);
	return caller;
}

bool weir__http_peer_address(const struct weir__http_call *call, struct weir__address *ret_address)
{
	const struct weir__caller caller = caller_of(call->socket);

	*ret_address = caller.address;
	return caller.has_address;
}

bool weir__http_client_address(const struct weir__http_call *call, struct weir__address *ret_address)
{
	static const struct weir__proxies none;
	const struct weir__settings *const settings = call->context->settings;
	const struct weir__caller caller = caller_of(call->socket);
	const struct weir__http_reader *const reader = call->request->reader;
	struct weir__slice chain[WEIR__HTTP_HEADERS_MAX];
	size_t n = 0;

	for (uint32_t i = 0; i < reader->n; i++) {
		const struct weir__http_header *const header = &reader->headers[i];
		const struct weir__http_slice name = { call->request->bytes + header->name.at, header->name.length };

		if (is_named(name, "x-forwarded-for", 15))
			chain[n++] = (struct weir__slice){ call->request->bytes + header->value.at,
							   header->value.length };
	}
	return weir__forwarded_client(settings ? &settings->trusted_proxies : &none, &caller, chain, n, ret_address);
}

static void add_client(const struct weir__http_call *call, struct original *original, char text[WEIR__ADDRESS_TEXT])
{
	static const struct weir__proxies none;
	const struct weir__settings *const settings = call->context->settings;
	const struct weir__caller caller = caller_of(call->socket);
	struct weir__address client;

	if (!weir__forwarded_client(settings ? &settings->trusted_proxies : &none, &caller, original->chain,
				    original->n_chain, &client))
		return;
	weir__address_write(&client, text);
	add(original, "ip", 2, text, strlen(text));
}

static void add_parts(struct original *original)
{
	const struct weir__http_slice *const parts = original->parts;
	const char *query;

	if (parts[METHOD].bytes)
		add(original, "method", 6, parts[METHOD].bytes, parts[METHOD].length);
	if (parts[HOST].bytes)
		add(original, "host", 4, parts[HOST].bytes, parts[HOST].length);
	if (parts[TARGET].bytes == NULL)
		return;
	query = memchr(parts[TARGET].bytes, '?', parts[TARGET].length);
	add(original, "path", 4, parts[TARGET].bytes,
	    query ? (size_t)(query - parts[TARGET].bytes) : parts[TARGET].length);
}

/* The parameters of the query. */
struct told {
	unsigned denied_status;
	bool has_wait;
	weir_ns wait;
};

/* Reads deny=403 and wait=5s. 403 is for nginx, for which any status but 401 and 403 is an error. A query with any
 * other parameter is ignored: a proxy may have passed on the client's query. A parameter that occurs twice is an error:
 * one of the two may be the client's. Returns NULL, or what is wrong. */
static const char *read_query(struct weir__http_slice query, struct told *ret_told)
{
	const char *const end = query.bytes + query.length;
	unsigned n_deny = 0, n_wait = 0, n_other = 0;
	struct weir__http_slice wait = { NULL, 0 };
	bool is_403 = false;

	*ret_told = (struct told){ .denied_status = 429 };
	for (char *at = query.bytes; at < end;) {
		char *const sign = memchr(at, '&', (size_t)(end - at));
		const size_t n = (size_t)((sign ? sign : end) - at);

		if (n >= 5 && memcmp(at, "deny=", 5) == 0) {
			n_deny++;
			is_403 = n == 8 && memcmp(at + 5, "403", 3) == 0;
		} else if (n >= 5 && memcmp(at, "wait=", 5) == 0) {
			n_wait++;
			wait = (struct weir__http_slice){ at + 5, n - 5 };
		} else {
			n_other++;
		}
		at += n + 1;
	}
	if (n_deny > 1)
		return "the query: deny: given twice; use it once";
	if (n_wait > 1)
		return "the query: wait: given twice; use it once";
	if (n_other > 0)
		return NULL;
	ret_told->denied_status = is_403 ? 403 : 429;
	ret_told->has_wait = n_wait > 0;
	return n_wait == 0 || weir__duration_read(wait.bytes, wait.length, WEIR__WAIT_MAX, &ret_told->wait) ?
		       NULL :
		       "the query: wait: " WEIR__HTTP_RIGHT_WAIT;
}

void weir__http_authorize(struct weir__http_call *call)
{
	const struct weir__settings *const settings = call->context->settings;
	struct weir_guard *const guard = weir__http_guard(call);
	char client[WEIR__ADDRESS_TEXT];
	struct original original;
	const char *fault;
	struct told told;

	if (guard == NULL)
		return;
	fault = read_query(call->request->query, &told);
	if (fault == NULL)
		fault = read_headers(call->request, settings ? &settings->authorize_headers : NULL, &original);
	if (fault) {
		weir__reply_problem(call->reply, 400, fault);
		return;
	}
	add_client(call, &original, client);
	add_parts(&original);
	weir__http_run_check_wait(call, guard, original.attributes, original.n, 1, told.denied_status, true,
				  told.has_wait ? &told.wait : NULL);
}
