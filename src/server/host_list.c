/* host_list.c: host names under which the server may be called. */
#include "server/host_list.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct slice {
	const char *bytes;
	size_t length;
};

/* Suffixes that no one can register as a public name (RFC 6761, RFC 6762, ICANN's .internal, Kubernetes). */
static const char *const private_suffixes[] = { ".localhost", ".local", ".internal", ".svc", ".cluster.local" };

static bool is_of_name(char c)
{
	return isascii(c) && (isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_');
}

bool weir__host_list_add(struct weir__host_list *list, const char *text, size_t length)
{
	const size_t stars = length > 0 && text[0] == '*' ? 1 : 0;

	if (list->n == WEIR__HOSTS_MAX || length == 0 || length > WEIR__HOST_NAME_MAX ||
	    (stars == 1 && length > 1 && (text[1] != '.' || length == 2)) || text[length - 1] == '.')
		return false;
	for (size_t i = stars; i < length; i++)
		if (!is_of_name(text[i]))
			return false;
	for (size_t i = 0; i < length; i++)
		list->at[list->n][i] = (char)tolower((unsigned char)text[i]);
	list->at[list->n++][length] = '\0';
	return true;
}

size_t weir__host_list_show(const struct weir__host_list *list, char *ret_text, size_t size)
{
	size_t length = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < list->n; i++)
		length += (size_t)snprintf(ret_text + length, size - length, "%s%s", i ? "," : "", list->at[i]);
	return length;
}

static bool ends_in(struct slice name, const char *suffix)
{
	const size_t length = strlen(suffix);

	return name.length > length && strncasecmp(name.bytes + name.length - length, suffix, length) == 0;
}

static bool is_same(struct slice name, const char *other)
{
	return name.length == strlen(other) && strncasecmp(name.bytes, other, name.length) == 0;
}

static bool is_address(struct slice name)
{
	if (name.length > 0 && name.bytes[0] == '[')
		return true;
	for (size_t i = 0; i < name.length; i++)
		if (name.bytes[i] != '.' && (name.bytes[i] < '0' || name.bytes[i] > '9'))
			return false;
	return name.length > 0;
}

/* The part before the port. An address of IPv6 is in brackets. A dot at the end is left out: the name means the
 * same. */
static struct slice name_of(const char *host, size_t length)
{
	const char *const colon = memrchr(host, ':', length);
	struct slice name = { host, length };

	if (colon && (host[0] != '[' || colon[-1] == ']'))
		name.length = (size_t)(colon - host);
	if (name.length > 1 && name.bytes[name.length - 1] == '.')
		name.length--;
	return name;
}

static bool is_private(struct slice name)
{
	if (name.length == 0)
		return true; /* an empty Host is not the name of a page */
	for (size_t i = 0; i < sizeof(private_suffixes) / sizeof(private_suffixes[0]); i++)
		if (ends_in(name, private_suffixes[i]))
			return true;
	return memchr(name.bytes, '.', name.length) == NULL;
}

bool weir__host_list_allows(const struct weir__host_list *list, const char *host, size_t length)
{
	const struct slice name = name_of(host, length);

	if (is_address(name) || is_same(name, "localhost"))
		return true;
	if (list->n == 0)
		return is_private(name);
	for (size_t i = 0; i < list->n; i++) {
		const char *const allowed = list->at[i];

		if (allowed[0] == '*' ? allowed[1] == '\0' || ends_in(name, allowed + 1) : is_same(name, allowed))
			return true;
	}
	return false;
}

bool weir__host_is_of_origin(const char *host, size_t host_length, const char *origin, size_t origin_length)
{
	static const struct {
		const char *scheme, *port;
	} schemes[] = { { "http://", ":80" }, { "https://", ":443" } };

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		const size_t n = strlen(schemes[i].scheme), port = strlen(schemes[i].port);
		struct slice of_origin = { origin + n, origin_length - n }, of_host = { host, host_length };

		if (origin_length <= n || strncasecmp(origin, schemes[i].scheme, n) != 0)
			continue;
		if (ends_in(of_origin, schemes[i].port))
			of_origin.length -= port;
		if (ends_in(of_host, schemes[i].port))
			of_host.length -= port;
		return of_origin.length == of_host.length &&
		       strncasecmp(of_origin.bytes, of_host.bytes, of_host.length) == 0;
	}
	return false;
}
