/* host_list.h: host names under which the server may be called. Pure.
 *
 * The owner of a public name decides what it resolves to. A web page can therefore send requests to this server under
 * its own name (DNS rebinding), and the browser sends that name as Host. Addresses, localhost, and names that no one
 * can register cannot be used in this way. */
#ifndef WEIR_SERVER_HOST_LIST_H
#define WEIR_SERVER_HOST_LIST_H

#include <stdbool.h>
#include <stddef.h>

enum {
	WEIR__HOSTS_MAX = 16,
	WEIR__HOST_NAME_MAX = 127,
	WEIR__HOST_SHOWN = WEIR__HOST_NAME_MAX + 1, /* bytes of one as text, including a comma */
};

/* Names in lower case. *.example.com is any name below example.com, and * is any name. */
struct weir__host_list {
	char at[WEIR__HOSTS_MAX][WEIR__HOST_NAME_MAX + 1];
	size_t n;
};

/* Returns false if the text is not such a name, without a port, or the list is full. */
bool weir__host_list_add(struct weir__host_list *list, const char *text, size_t length);

/* Writes all, separated by commas. Returns the length. */
size_t weir__host_list_show(const struct weir__host_list *list, char *ret_text, size_t size);

/* Whether the list allows the value of a Host header, with or without a port. Addresses and localhost are always
 * allowed. An empty list allows names without a dot, such as those of containers, and names below .localhost, .local,
 * .internal, .svc and .cluster.local, which are not public. */
bool weir__host_list_allows(const struct weir__host_list *list, const char *host, size_t length);

/* Whether a URL's origin, such as http://localhost:8080, is the host of a Host header. A default port may be left out
 * on either side. */
bool weir__host_is_of_origin(const char *host, size_t host_length, const char *origin, size_t origin_length);

#endif
