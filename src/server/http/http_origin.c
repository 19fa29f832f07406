/* http_origin.c: rejects requests that a foreign web page sends through the browser of a user who can reach this
 * server.
 *
 * A page of another origin is recognized by Sec-Fetch-Site, which browsers send to localhost and over TLS, or by
 * Origin. A page whose host name resolves to this server (DNS rebinding) has the same origin, and is recognized by its
 * Host. */
#include <string.h>
#include <strings.h>

#include "os/net.h"
#include "server/http/http_call.h"
#include "server/settings.h"

/* Headers of a request that say where it comes from; .bytes NULL: not sent. */
struct origin {
	struct weir__http_slice host, origin, site, mode;
};

static bool is_named(const char *name, const char *word, size_t length)
{
	return strncasecmp(name, word, length) == 0;
}

static void read_origin(const struct weir__http_request *request, struct origin *ret_origin)
{
	const struct weir__http_reader *const reader = request->reader;

	*ret_origin = (struct origin){ .host = { NULL, 0 } };
	for (uint32_t i = 0; i < reader->n; i++) {
		const struct weir__http_header *const header = &reader->headers[i];
		const char *const name = request->bytes + header->name.at;
		const struct weir__http_slice value = { request->bytes + header->value.at, header->value.length };

		if (header->name.length == 4 && is_named(name, "host", 4))
			ret_origin->host = value;
		else if (header->name.length == 6 && is_named(name, "origin", 6))
			ret_origin->origin = value;
		else if (header->name.length == 14 && is_named(name, "sec-fetch-site", 14))
			ret_origin->site = value;
		else if (header->name.length == 14 && is_named(name, "sec-fetch-mode", 14))
			ret_origin->mode = value;
	}
}

static bool is_word(struct weir__http_slice value, const char *word)
{
	return value.bytes && value.length == strlen(word) && strncasecmp(value.bytes, word, value.length) == 0;
}

/* `none` is an address that the user typed. `same-site` includes other ports of this host. */
static bool is_of_another_page(const struct origin *origin)
{
	if (origin->site.bytes)
		return !is_word(origin->site, "same-origin") && !is_word(origin->site, "none");
	return origin->origin.bytes &&
	       !(origin->host.bytes && weir__host_is_of_origin(origin->host.bytes, origin->host.length,
							       origin->origin.bytes, origin->origin.length));
}

/* Pages cannot reach Unix sockets. */
static bool is_by_path(const struct weir__http_call *call)
{
	struct weir__net_peer peer;

	return weir__net_peer(call->socket, &peer) == 0 && peer.is_path;
}

bool weir__http_is_from_page(struct weir__http_call *call, const struct weir__route *route)
{
	static const struct weir__host_list none = { .n = 0 };
	const struct weir__settings *const settings = call->context->settings;
	const struct weir__host_list *const allowed = settings ? &settings->allowed_hosts : &none;
	const struct weir__users *const users = call->context->users;
	const bool is_forwarded = route->run == weir__http_authorize;
	struct origin origin;

	read_origin(call->request, &origin);
	/* Any page may link to the live page. Proxies forward a visitor's headers to /v1/authorize. */
	if (!is_forwarded && is_of_another_page(&origin) &&
	    !(route->run == weir__http_page && is_word(origin.mode, "navigate")) && !is_by_path(call)) {
		weir__reply_problem(
			call->reply, 403,
			"a web page of another origin sent this request (Origin, Sec-Fetch-Site): only the page of this "
			"server may; call Weir from your own server");
		return true;
	}
	/* A page has no token, but a browser may send the certificate of its user for it. Metrics without a token are checked
	 * as if there were no users. */
	if (allowed->n == 0 &&
	    (is_forwarded || (users && users->n > 0 && call->client->certificate_user == NULL &&
			      !(route->operation == WEIR__OP_METRICS && weir__routes_is_open(call, route)))))
		return false;
	if (origin.host.bytes && !weir__host_list_allows(allowed, origin.host.bytes, origin.host.length) &&
	    !is_by_path(call)) {
		weir__reply_problem(call->reply, 403,
				    "unknown host name in Host, which may come from a web page: call the server by "
				    "address or as localhost, or add the name to the setting allowed_hosts");
		return true;
	}
	return false;
}
