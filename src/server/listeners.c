/* listeners.c: opens sockets, takes them over, assigns them to workers and closes them. */
#include "server/listeners.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_path(const char *where)
{
	return strchr(where, '/') != NULL;
}

/* Compares without the port. */
static bool is_same_host(const char *name, const char *other)
{
	const size_t n = (size_t)(strrchr(name, ':') - name);

	return strncmp(name, other, n + 1) == 0 && strchr(other + n + 1, ':') == NULL;
}

/* `where` is a path or an address; NULL: any address of this setting. */
static struct weir__listen_address *find(struct weir__listeners *inherited, enum weir__service service,
					 const char *setting, const char *where)
{
	for (size_t i = 0; i < inherited->n; i++) {
		struct weir__listen_address *const one = &inherited->at[i];

		if (one->n > 0 && (one->is_lent || one->service == service) && strcmp(one->setting, setting) == 0 &&
		    (where == NULL || is_path(where) || is_same_host(where, one->name)))
			return one;
	}
	return NULL;
}

static bool take_over(struct weir__listeners *inherited, enum weir__service service, const char *setting,
		      const char *where, struct weir__listen_address *ret_address)
{
	struct weir__listen_address *const one = find(inherited, service, setting, where);

	if (one == NULL)
		return false;
	*ret_address = *one;
	ret_address->service = service;
	ret_address->is_inherited = true;
	one->n = 0;
	return true;
}

/* A path has one socket, created with its mode. */
static int listen_once_more(const struct weir__listen_address *address, const char *where, mode_t mode, int *ret_socket,
			    char ret_name[WEIR__NET_NAME_SIZE])
{
	(void)snprintf(ret_name, WEIR__NET_NAME_SIZE, "%s", where);
	if (is_path(where))
		return weir__net_listen_at_path(where, mode, ret_socket);
	return weir__net_listen(address->n == 0 ? where : address->name,
				address->n == 0 ? WEIR__LISTEN_FIRST : WEIR__LISTEN_TOO, ret_socket, ret_name);
}

/* Opens as many sockets as the address still needs. */
static int complete(struct weir__listeners *listeners, const char *where, uint32_t workers)
{
	struct weir__listen_address *const address = &listeners->at[listeners->n];
	uint32_t wanted = is_path(where) ? 1 : workers;
	int error = 0;

	if (listeners->mode != 0 && is_path(where) && address->is_inherited && !address->is_lent &&
	    chmod(address->name, listeners->mode) != 0)
		error = errno;
	if (address->is_lent) /* the kernel may not let another socket listen there */
		wanted = 1;
	while (address->n < wanted && error == 0) {
		char name[WEIR__NET_NAME_SIZE];

		error = listen_once_more(address, where, listeners->mode, &address->sockets[address->n], name);
		if (error == 0) {
			memcpy(address->name, name, sizeof(name));
			address->n++;
		}
	}
	listeners->n += address->n > 0; /* also on an error: the caller closes them */
	return error;
}

static int open_one(struct weir__listeners *listeners, struct weir__listeners *inherited, enum weir__service service,
		    const char *setting, const char *where, uint32_t workers)
{
	struct weir__listen_address *const address = &listeners->at[listeners->n];

	if (listeners->n == WEIR__LISTEN_ADDRESSES_MAX)
		return E2BIG;
	if (!take_over(inherited, service, setting, where, address)) {
		*address = (struct weir__listen_address){ .service = service };
		memcpy(address->setting, setting, strlen(setting) + 1);
	}
	return complete(listeners, where, workers);
}

/* For a name that cannot be resolved now, although the previous server could. This server listens where that one
 * does. */
static int open_unknown(struct weir__listeners *listeners, struct weir__listeners *inherited,
			enum weir__service service, const char *setting, uint32_t workers)
{
	int error = EINVAL;

	while (listeners->n < WEIR__LISTEN_ADDRESSES_MAX &&
	       take_over(inherited, service, setting, NULL, &listeners->at[listeners->n])) {
		error = complete(listeners, listeners->at[listeners->n].name, workers);
		if (error != 0)
			break;
	}
	return error;
}

static void take_port(char where[WEIR__NET_NAME_SIZE], const char *of)
{
	char *const colon = strrchr(where, ':');

	(void)snprintf(colon, WEIR__NET_NAME_SIZE - (size_t)(colon - where), "%s", strrchr(of, ':'));
}

static int open_all(struct weir__listeners *listeners, struct weir__listeners *inherited, enum weir__service service,
		    const char *setting, uint32_t workers)
{
	char addresses[WEIR__NET_ADDRESSES][WEIR__NET_NAME_SIZE];
	const size_t first = listeners->n;
	size_t n;
	int error, missing = 0;

	if (is_path(setting))
		return open_one(listeners, inherited, service, setting, setting, workers);
	error = weir__net_addresses(setting, addresses, &n);
	if (error == EINVAL)
		return open_unknown(listeners, inherited, service, setting, workers);
	for (size_t i = 0; i < n && error == 0; i++) {
		const struct weir__listen_address *const other = listeners->n > first ?
									 &listeners->at[first] :
									 find(inherited, service, setting, NULL);

		if (other)
			take_port(addresses[i], other->name);
		error = open_one(listeners, inherited, service, setting, addresses[i], workers);
		if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) {
			missing = error;
			error = 0;
		}
	}
	return error == 0 && listeners->n == first ? missing : error;
}

const char *weir__listeners_where(const char *setting, bool *ret_is_tls)
{
	static const char prefix[] = "tls://";
	const size_t n = sizeof(prefix) - 1;

	*ret_is_tls = strncmp(setting, prefix, n) == 0;
	return *ret_is_tls ? setting + n : setting;
}

/* The next server may listen with TLS at the socket of one that did not: an address is the same with and without. */
int weir__listeners_open(struct weir__listeners *listeners, struct weir__listeners *inherited,
			 enum weir__service service, const char *setting, uint32_t workers)
{
	const size_t first = listeners->n;
	bool is_tls;
	const char *const where = weir__listeners_where(setting, &is_tls);
	const int error = open_all(listeners, inherited, service, where, workers);

	for (size_t i = first; i < listeners->n; i++)
		listeners->at[i].is_tls = is_tls;
	return error;
}

size_t weir__listeners_of_worker(const struct weir__listeners *listeners, uint32_t worker, uint32_t workers,
				 struct weir__listener *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < listeners->n; i++) {
		const struct weir__listen_address *const address = &listeners->at[i];

		/* With more sockets than workers, a worker has several. With fewer, several workers share one. */
		for (uint32_t j = worker % address->n; j < address->n; j += workers) {
			if (ret)
				ret[n] = (struct weir__listener){ address->sockets[j], address->service,
								  address->is_lent, address->is_tls };
			n++;
		}
	}
	return n;
}

void weir__listeners_close(struct weir__listeners *inherited)
{
	for (size_t i = 0; i < inherited->n; i++) {
		struct weir__listen_address *const address = &inherited->at[i];

		if (address->n > 0 && is_path(address->name) && !address->is_lent)
			(void)unlink(address->name);
		for (; address->n > 0; address->n--) {
			if (!address->is_lent)
				weir__net_stop_listening(address->sockets[address->n - 1]);
			weir__net_close(address->sockets[address->n - 1]);
		}
	}
}

void weir__listeners_unlink(const struct weir__listeners *listeners, bool with_inherited)
{
	for (size_t i = 0; i < listeners->n; i++)
		if (is_path(listeners->at[i].name) && !listeners->at[i].is_lent &&
		    (with_inherited || !listeners->at[i].is_inherited))
			(void)unlink(listeners->at[i].name);
}
