/* forwarded.c: reads chains of proxies from their right end. */
#include "server/forwarded.h"

#include <stdio.h>

#include "core/decimal.h"

/* --- proxies ---------------------------------------------------------------------------------------------------- */

bool weir__proxies_add(struct weir__proxies *proxies, const char *text, size_t length)
{
	const struct weir__slice word = { text, length };
	bool has_host_bits;

	if (weir__slice_is(word, "unix")) {
		proxies->has_unix = true;
		return true;
	}
	if (proxies->n == WEIR__PROXIES_MAX ||
	    !weir__network_read(word, &proxies->networks[proxies->n], &has_host_bits))
		return false;
	proxies->n++;
	return true;
}

size_t weir__proxies_show(const struct weir__proxies *proxies, char *ret_text, size_t size)
{
	char address[WEIR__ADDRESS_TEXT];
	size_t length = 0;

	for (size_t i = 0; i < proxies->n; i++) {
		weir__address_write(&proxies->networks[i].address, address);
		length += (size_t)snprintf(ret_text + length, size - length, "%s%s/%u", i ? "," : "", address,
					   proxies->networks[i].bits);
	}
	if (proxies->has_unix)
		length += (size_t)snprintf(ret_text + length, size - length, "%sunix", proxies->n ? "," : "");
	return length;
}

bool weir__proxies_have(const struct weir__proxies *proxies, const struct weir__address *address)
{
	for (size_t i = 0; i < proxies->n; i++)
		if (weir__network_has(&proxies->networks[i], address))
			return true;
	return false;
}

/* --- chains ----------------------------------------------------------------------------------------------------- */

static struct weir__slice trimmed(struct weir__slice text)
{
	while (text.n > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
		text.at++;
		text.n--;
	}
	while (text.n > 0 && (text.at[text.n - 1] == ' ' || text.at[text.n - 1] == '\t'))
		text.n--;
	return text;
}

static bool is_port(struct weir__slice text)
{
	uint64_t port;

	return text.n <= 5 && weir__decimal_read(text.at, text.n, 65535, &port);
}

/* Reads ADDRESS, 192.0.2.1:PORT, [2001:db8::1] or [2001:db8::1]:PORT. Without brackets a port follows only if there is
 * exactly one colon: several belong to an IPv6 address. */
static bool read_hop(struct weir__slice text, struct weir__address *ret_address)
{
	const char *const end = text.at + text.n;
	const char *colon = memchr(text.at, ':', text.n);

	if (text.at[0] == '[') {
		colon = memchr(text.at, ']', text.n);
		if (colon == NULL)
			return false;
		colon++;
	} else if (colon == NULL || memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
		colon = end;
	}
	if (colon < end && (*colon != ':' || !is_port((struct weir__slice){ colon + 1, (size_t)(end - colon - 1) })))
		return false;
	return weir__address_read((struct weir__slice){ text.at, (size_t)(colon - text.at) }, ret_address);
}

/* Follows one line to the left. Returns false if the chain ends in this line. */
static bool follow(const struct weir__proxies *proxies, struct weir__slice line, bool *is_known,
		   struct weir__address *client)
{
	while (line.n > 0) {
		const char *const comma = memrchr(line.at, ',', line.n);
		const char *const begin = comma ? comma + 1 : line.at;
		const struct weir__slice hop = trimmed(
			(struct weir__slice){ begin, line.n - (size_t)(begin - line.at) });
		struct weir__address address;

		line.n = comma ? (size_t)(comma - line.at) : 0;
		if (hop.n == 0) /* a list may have empty elements */
			continue;
		if (!read_hop(hop, &address))
			return false;
		*client = address;
		*is_known = true;
		if (!weir__proxies_have(proxies, &address))
			return false;
	}
	return true;
}

bool weir__forwarded_client(const struct weir__proxies *proxies, const struct weir__caller *caller,
			    const struct weir__slice *lines, size_t n, struct weir__address *ret_client)
{
	struct weir__address client = caller->address;
	bool is_known = caller->has_address;
	bool is_followed = caller->is_unix ? proxies->has_unix : is_known && weir__proxies_have(proxies, &client);

	while (is_followed && n-- > 0)
		is_followed = follow(proxies, lines[n], &is_known, &client);
	if (is_known)
		*ret_client = client;
	return is_known;
}
