/* http_routes.c: a row for each path and method, found by a hash, and which clients may use it.
 *
 * A path with parameters is found by what precedes them: two words between slashes, as in /v1/limits/. */
#include <weir/clock.h>

#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "core/wide.h"
#include "engine/auth_limit.h"
#include "engine/request_audit.h"
#include "server/http/http_call.h"
#include "server/settings.h"

/* clang-format off */
const struct weir__route weir__routes[] = {
	{ HTTP_GET, WEIR__OP_CHECK, "/v1/check", weir__http_get_check, 0, 0,
	  "decides by all limits of the policy that apply; the query has the attributes and the cost" },
	{ HTTP_POST, WEIR__OP_CHECK, "/v1/check", weir__http_post_check, 0, WEIR__CHECK_MOST,
	  "the same, from JSON: `{\"attributes\": {...}, \"cost\": 1}`, or up to 1000 of these in an array" },
	{ HTTP_POST, WEIR__OP_TAKE, "/v1/take", weir__http_take, WEIR__ROUTE_REFUNDS, 900 * 1024,
	  "decides by one limit, as text or by @name, or by several at once; up to 1000 of these in an array" },
	{ HTTP_POST, WEIR__OP_HOLD, "/v1/hold", weir__http_hold, 0, 0, "takes an estimated cost, to be settled later by its id" },
	{ HTTP_POST, WEIR__OP_SETTLE, "/v1/settle", weir__http_settle, 0, 0, "charges or refunds the difference to the actual cost" },
	{ HTTP_POST, WEIR__OP_SETTLE, "/v1/release", weir__http_release, 0, 0, "refunds the whole hold" },
	{ HTTP_GET, WEIR__OP_INSPECT, "/v1/keys/{limit}/{key}", weir__http_get_key, 0, 0, "the state of a key" },
	{ HTTP_DELETE, WEIR__OP_RESET, "/v1/keys/{limit}/{key}", weir__http_delete_key, 0, 0,
	  "forgets what a key has used" },
	{ HTTP_GET, WEIR__OP_LIMITS, "/v1/limits", weir__http_get_limits, 0, 256 * 1024,
	  "limits and overrides of the policy, 50 at a time, from number `first` on" },
	{ HTTP_GET, WEIR__OP_LIMITS, "/v1/limits/{name}", weir__http_get_limit, 0, 0, "one limit of the policy" },
	{ HTTP_PUT, WEIR__OP_CHANGE, "/v1/limits/{name}", weir__http_put_limit, 0, 0,
	  "changes a limit until the policy changes, on all servers of the store or, with `here=true`, only on this one" },
	{ HTTP_GET, WEIR__OP_EXPLAIN, "/v1/explain", weir__http_get_explain, 0, 0,
	  "a line for each limit of the policy, those that apply first: its key, or why it does not apply" },
	{ HTTP_POST, WEIR__OP_EXPLAIN, "/v1/explain", weir__http_post_explain, 0, 0, "the same, from JSON" },
	{ HTTP_GET, WEIR__OP_POLICY, "/v1/policy", weir__http_get_policy, 0, 900 * 1024, "the policy in force" },
	{ HTTP_PUT, WEIR__OP_POLICY_PUT, "/v1/policy", weir__http_put_policy, 0, 0,
	  "replaces the policy, until its file changes or it is reloaded" },
	{ HTTP_POST, WEIR__OP_POLICY_VALIDATE, "/v1/policy/validate", weir__http_validate_policy, 0, 0,
	  "lists all errors of a policy; changes nothing" },
	{ HTTP_GET, WEIR__OP_LIVE, "/v1/live", weir__http_live, 0, 900 * 1024,
	  "the live document: the last `seconds` of each limit and its top `keys`; only one `limit`, or those that match a `filter`" },
	{ HTTP_GET, WEIR__OP_LIVE, "/v1/live/key", weir__http_live_key, 0, 0,
	  "what each limit that applies to a request would decide, without charging: the query is as for /v1/check; "
	  "with `limit` and `raw`, what that limit would decide for this key" },
	{ HTTP_GET, WEIR__OP_METRICS, "/metrics", weir__http_metrics, WEIR__ROUTE_METRICS, 900 * 1024, "metrics for Prometheus" },
	{ HTTP_POST, WEIR__OP_TAKE, "/throttle", weir__http_throttle, 0, 0, "like throttlecrab" },
	{ HTTP_GET, WEIR__OP_CONNECTION, "/health", weir__http_health, WEIR__ROUTE_OPEN, 0, "200 and OK, like throttlecrab" },
	{ HTTP_POST, WEIR__OP_CHECK, "/json", weir__http_envoy, WEIR__ROUTE_REFUNDS, 0, "like Envoy's ratelimit, with a policy in Envoy's format" },
	{ HTTP_GET, WEIR__OP_CONNECTION, "/healthcheck", weir__http_healthcheck, WEIR__ROUTE_OPEN, 0, "200 and OK, like Envoy's ratelimit; 500 when it is shutting down, or has not reached its store yet" },
	{ HTTP_GET, WEIR__OP_CONNECTION, "/", weir__http_page, WEIR__ROUTE_OPEN, 256 * 1024, "the [live page](../guides/observe.md#the-page), for a browser" },
	{ HTTP_GET, WEIR__OP_CONNECTION, "/openapi.json", weir__http_openapi, WEIR__ROUTE_OPEN, 256 * 1024,
	  "the OpenAPI 3.1 description of all routes" },
	{ HTTP_GET, WEIR__OP_CHECK, "/v1/authorize", weir__http_authorize, WEIR__ROUTE_ANY, 0,
	  "decides about a request that a proxy describes in headers: 200, or 429, or 403 with `?deny=403`; any method" },
	{ HTTP_GET, WEIR__OP_CONNECTION, "/healthz", weir__http_healthz, WEIR__ROUTE_OPEN | WEIR__ROUTE_METRICS, 0, "200 as long as the server runs" },
	{ HTTP_GET, WEIR__OP_CONNECTION, "/readyz", weir__http_readyz, WEIR__ROUTE_OPEN | WEIR__ROUTE_METRICS, 0, "200, or 503 when it is shutting down, or when its store is down and `on_store_failure` is `closed`" },
};
/* clang-format on */

const size_t weir__routes_n = sizeof(weir__routes) / sizeof(weir__routes[0]);

/* --- finding ---------------------------------------------------------------------------------------------------- */

enum { PLACES = 256, PLACE_BITS = 8, METHODS = 5 };

static const llhttp_method_t methods[METHODS] = { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_PATCH };

/* A path, or the part of it before its parameters, including the last slash. */
struct place {
	const char *path;
	size_t length; /* 0: empty */
	unsigned parameters;
	const struct weir__route *rows[METHODS];
};

static struct place places[PLACES];
static pthread_once_t places_once = PTHREAD_ONCE_INIT;

static size_t place_of(const char *path, size_t length, unsigned parameters)
{
	static const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t hash = length + ((uint64_t)parameters << 32), word = 0;

	for (; length >= 8; path += 8, length -= 8) {
		memcpy(&word, path, 8);
		hash = (hash ^ word) * factor;
		hash ^= hash >> 32;
	}
	for (word = 0; length > 0; length--)
		word = word << 8 | (unsigned char)*path++;
	return (size_t)((hash ^ word) * factor >> (64 - PLACE_BITS));
}

/* The entry of a path, or the empty entry where it would be. */
static struct place *find_place(const char *path, size_t length, unsigned parameters)
{
	for (size_t i = place_of(path, length, parameters);; i = (i + 1) % PLACES)
		if (places[i].length == 0 || (places[i].length == length && places[i].parameters == parameters &&
					      memcmp(places[i].path, path, length) == 0))
			return &places[i];
}

static int number_of(llhttp_method_t method)
{
	for (int i = 0; i < METHODS; i++)
		if (methods[i] == method || (method == HTTP_HEAD && methods[i] == HTTP_GET))
			return i;
	return -1;
}

static void fill_places(void)
{
	for (size_t i = 0; i < weir__routes_n; i++) {
		const struct weir__route *const row = &weir__routes[i];
		const size_t length = strcspn(row->path, "{");
		struct place *place;
		unsigned parameters = 0;

		for (const char *at = row->path + length; *at; at++)
			parameters += *at == '{';
		place = find_place(row->path, length, parameters);
		place->path = row->path;
		place->length = length;
		place->parameters = parameters;
		place->rows[number_of(row->method)] = row;
	}
}

_Static_assert(sizeof(weir__routes) / sizeof(weir__routes[0]) * 2 <= PLACES, "half of the places stay free");

void weir__routes_init(void)
{
	(void)pthread_once(&places_once, fill_places);
}

/* Splits what follows the third slash. Returns false if there are too many parts, or one cannot be decoded. */
static bool read_parameters(struct weir__http_call *call, struct weir__http_slice rest, unsigned *ret_n)
{
	const char *const end = rest.bytes + rest.length;
	unsigned n = 0;

	for (char *at = rest.bytes; at <= end; n++) {
		char *const slash = memchr(at, '/', (size_t)(end - at));
		const char *const behind = slash ? slash : end;

		if (n == WEIR__PARAMETERS_MAX)
			return false;
		call->parameters[n] = (struct weir__http_slice){ at, (size_t)(behind - at) };
		if (!weir__http_decode_path(&call->parameters[n]))
			return false;
		at += behind - at + 1;
	}
	*ret_n = n;
	return true;
}

static const struct place *find_with_parameters(struct weir__http_call *call)
{
	const struct weir__http_slice path = call->request->path;
	const char *const end = path.bytes + path.length;
	char *at = path.bytes;
	const struct place *place;
	unsigned n;

	for (int slashes = 0; slashes < 3; slashes++) {
		at = memchr(at, '/', (size_t)(end - at));
		if (at == NULL)
			return NULL;
		at++;
	}
	for (n = 1; n <= WEIR__PARAMETERS_MAX; n++) {
		place = find_place(path.bytes, (size_t)(at - path.bytes), n);
		if (place->length > 0)
			break;
	}
	if (n > WEIR__PARAMETERS_MAX || !read_parameters(call, (struct weir__http_slice){ at, (size_t)(end - at) }, &n))
		return NULL;
	place = find_place(path.bytes, (size_t)(at - path.bytes), n);
	return place->length > 0 ? place : NULL;
}

static void refuse_method(struct weir__http_call *call, const struct place *place)
{
	const char *separator = "";

	WEIR__REPLY_HEAD(call->reply, "Allow: ");
	for (int i = 0; i < METHODS; i++)
		if (place->rows[i]) {
			weir__reply_head_text(call->reply, separator);
			weir__reply_head_text(call->reply, llhttp_method_name(methods[i]));
			weir__reply_head_text(call->reply, methods[i] == HTTP_GET ? ", HEAD" : "");
			separator = ", ";
		}
	WEIR__REPLY_HEAD(call->reply, "\r\n");
	weir__reply_problem(call->reply, 405, "method not allowed for this path: the Allow header lists the others");
}

const struct weir__route *weir__routes_find(struct weir__http_call *call)
{
	const struct weir__http_slice path = call->request->path;
	const int method = number_of(call->request->method);
	const struct place *place = find_place(path.bytes, path.length, 0);

	if (place->length == 0)
		place = find_with_parameters(call);
	if (call->is_of_metrics && !(place && place->rows[0] && (place->rows[0]->flags & WEIR__ROUTE_METRICS))) {
		weir__reply_problem(call->reply, 404, "this address serves only /metrics, /healthz and /readyz");
		return NULL;
	}
	if (place == NULL) {
		weir__reply_problem(call->reply, 404, "unknown path; /openapi.json describes all paths");
		return NULL;
	}
	if (method >= 0 && place->rows[method])
		return place->rows[method];
	if (place->rows[0] && (place->rows[0]->flags & WEIR__ROUTE_ANY))
		return place->rows[0];
	refuse_method(call, place);
	return NULL;
}

/* --- permission ------------------------------------------------------------------------------------------------- */

/* Each request authenticates itself: one connection of a proxy may carry requests of many users. A token is stronger than
 * the certificate of the connection. */
static const struct weir__user *user_of(const struct weir__http_call *call)
{
	static const char scheme[] = "bearer ";
	const size_t length = sizeof(scheme) - 1;
	struct weir__http_slice value;

	if (!weir__http_find(call->request, "authorization", &value))
		return call->client->certificate_user;
	if (value.length <= length || strncasecmp(value.bytes, scheme, length) != 0)
		return NULL;
	return weir__users_by_token(call->context->users, value.bytes + length, value.length - length);
}

static struct weir__auth_source source_of(const struct weir__http_call *call, struct weir__address memory[2])
{
	return (struct weir__auth_source){ weir__http_client_address(call, &memory[0]) ? &memory[0] : NULL,
					   weir__http_peer_address(call, &memory[1]) ? &memory[1] : NULL };
}

/* Returns true, after the reply, if the address has sent too many wrong tokens. Requests without a token are not
 * limited, since they guess nothing. */
static bool is_limited(struct weir__http_call *call)
{
	struct weir__auth_limit *const limit = call->context->auth_limit;
	struct weir__address memory[2];
	struct weir__http_slice value;
	weir_ns retry_after;

	if (limit == NULL || call->client->is_proven || !weir__http_find(call->request, "authorization", &value) ||
	    weir__auth_limit_may_try(limit, source_of(call, memory), weir_clock_now(), &retry_after))
		return false;
	weir__audit_auth_limited(call->context, call->client, call->protocol);
	WEIR__REPLY_HEAD(call->reply, "Retry-After: ");
	weir__reply_head_number(call->reply, weir__add_saturating(retry_after, 999999999) / 1000000000);
	WEIR__REPLY_HEAD(call->reply, "\r\n");
	weir__reply_problem(call->reply, 429, "too many wrong tokens from this address: retry later");
	return true;
}

static void refuse_unauthenticated(struct weir__http_call *call)
{
	struct weir__address memory[2];
	struct weir__http_slice value;

	WEIR__REPLY_HEAD(call->reply, "WWW-Authenticate: Bearer realm=\"weir\"");
	if (weir__http_find(call->request, "authorization", &value)) {
		WEIR__REPLY_HEAD(call->reply, ", error=\"invalid_token\"");
		weir__audit_auth_failure(call->context, call->client, call->protocol, NULL);
		if (call->context->auth_limit)
			weir__auth_limit_failed(call->context->auth_limit, source_of(call, memory), weir_clock_now());
	}
	WEIR__REPLY_HEAD(call->reply, "\r\n");
	weir__reply_problem(
		call->reply, 401,
		"authentication required: send Authorization: Bearer TOKEN, with the token of a user from the configuration file");
}

bool weir__routes_is_open(const struct weir__http_call *call, const struct weir__route *route)
{
	const struct weir__settings *const settings = call->context->settings;

	return (route->flags & WEIR__ROUTE_OPEN) ||
	       (route->operation == WEIR__OP_METRICS &&
		(call->is_of_metrics || (settings && settings->metrics_open == WEIR__METRICS_OPEN_TRUE)));
}

bool weir__routes_permit(struct weir__http_call *call, const struct weir__route *route)
{
	const struct weir__users *const users = call->context->users;
	const bool has_users = users && users->n > 0;

	call->client->user = NULL;
	if (weir__http_is_from_page(call, route))
		return false;
	if (!has_users || weir__routes_is_open(call, route))
		return true;
	if (weir__http_is_disputed(call->request, "authorization")) {
		weir__reply_problem(call->reply, 400, "two different Authorization headers: send one");
		return false;
	}
	if (is_limited(call))
		return false;
	call->client->user = user_of(call);
	call->client->is_proven = call->client->user != NULL;
	if (call->client->user == NULL) {
		refuse_unauthenticated(call);
		return false;
	}
	if ((route->flags & WEIR__ROUTE_REFUNDS) && weir__user_may(call->client->user, WEIR__OP_REFUND))
		return true;
	return weir__http_permit_operation(call, route->operation);
}

bool weir__http_permit_operation(struct weir__http_call *call, enum weir__operation operation)
{
	char fault[WEIR__ROLE_FAULT];

	if (weir__client_may(call->client, operation))
		return true;
	weir__operation_explain_role(call->client->user, operation, fault);
	weir__reply_problem(call->reply, 403, fault);
	return false;
}

/* Finding a route decodes the path in place, and it is found again when the request is complete. So this uses a
 * copy. */
bool weir__routes_permit_body(struct weir__http_call *call)
{
	struct weir__http_request *const request = call->request;
	const struct weir__users *const users = call->context->users;
	char path[WEIR__HTTP_HEAD_MAX];
	const struct weir__route *route;

	if (users == NULL || users->n == 0)
		return true;
	call->client->user = user_of(call);
	if (call->client->user)
		return true;
	request->path.bytes = memcpy(path, request->path.bytes, request->path.length);
	route = weir__routes_find(call);
	return route && weir__routes_permit(call, route);
}
