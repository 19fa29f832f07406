/* sites.c: sockets opened, taken over, dealt out to workers and closed. */
#include "serve/sites.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *weir__site_wire_word(enum weir__wire_number wire)
{
	static const char *const words[WEIR__WIRES] = { [WEIR__WIRE_RESP] = "resp", [WEIR__WIRE_HTTP] = "http" };

	return words[wire];
}

static bool is_path(const char *where)
{
	return strchr(where, '/') != NULL;
}

/* At any port. */
static bool is_same_host(const char *name, const char *other)
{
	const size_t n = (size_t)(strrchr(name, ':') - name);

	return strncmp(name, other, n + 1) == 0 && strchr(other + n + 1, ':') == NULL;
}

/* `where`: a path or an address; NULL: any that these words stood for. */
static struct weir__site *find(struct weir__sites *inherited, enum weir__wire_number wire, const char *asked,
			       const char *where)
{
	for (size_t i = 0; i < inherited->n; i++) {
		struct weir__site *const one = &inherited->at[i];

		if (one->n > 0 && (one->is_lent || one->wire == wire) && strcmp(one->asked, asked) == 0 &&
		    (where == NULL || is_path(where) || is_same_host(where, one->name)))
			return one;
	}
	return NULL;
}

static bool take_over(struct weir__sites *inherited, enum weir__wire_number wire, const char *asked, const char *where,
		      struct weir__site *ret_site)
{
	struct weir__site *const one = find(inherited, wire, asked, where);

	if (one == NULL)
		return false;
	*ret_site = *one;
	ret_site->wire = wire;
	ret_site->is_inherited = true;
	one->n = 0;
	return true;
}

/* A path has one socket, with its mode from the beginning. */
static int listen_once_more(const struct weir__site *site, const char *where, mode_t mode, int *ret_socket,
			    char ret_name[WEIR__NET_NAME_SIZE])
{
	(void)snprintf(ret_name, WEIR__NET_NAME_SIZE, "%s", where);
	if (is_path(where))
		return weir__net_listen_at_path(where, mode, ret_socket);
	return weir__net_listen(site->n == 0 ? where : site->name, site->n == 0 ? WEIR__LISTEN_FIRST : WEIR__LISTEN_TOO,
				ret_socket, ret_name);
}

/* The site that was taken over, or begun, gets as many sockets as it needs. */
static int complete(struct weir__sites *sites, const char *where, uint32_t workers)
{
	struct weir__site *const site = &sites->at[sites->n];
	uint32_t wanted = is_path(where) ? 1 : workers;
	int error = 0;

	if (sites->mode != 0 && is_path(where) && site->is_inherited && !site->is_lent &&
	    chmod(site->name, sites->mode) != 0)
		error = errno;
	if (site->is_lent) /* others may not listen there, too */
		wanted = 1;
	while (site->n < wanted && error == 0) {
		char name[WEIR__NET_NAME_SIZE];

		error = listen_once_more(site, where, sites->mode, &site->sockets[site->n], name);
		if (error == 0) {
			memcpy(site->name, name, sizeof(name));
			site->n++;
		}
	}
	sites->n += site->n > 0; /* also if there are too few: to be closed */
	return error;
}

static int open_one(struct weir__sites *sites, struct weir__sites *inherited, enum weir__wire_number wire,
		    const char *asked, const char *where, uint32_t workers)
{
	struct weir__site *const site = &sites->at[sites->n];

	if (sites->n == WEIR__SITES_MAX)
		return E2BIG;
	if (!take_over(inherited, wire, asked, where, site)) {
		*site = (struct weir__site){ .wire = wire };
		memcpy(site->asked, asked, strlen(asked) + 1);
	}
	return complete(sites, where, workers);
}

/* Nobody knows now what the name stands for, as a server did that knew it: so this one listens where that one does. */
static int open_unknown(struct weir__sites *sites, struct weir__sites *inherited, enum weir__wire_number wire,
			const char *asked, uint32_t workers)
{
	int error = EINVAL;

	while (sites->n < WEIR__SITES_MAX && take_over(inherited, wire, asked, NULL, &sites->at[sites->n])) {
		error = complete(sites, sites->at[sites->n].name, workers);
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

int weir__sites_open(struct weir__sites *sites, struct weir__sites *inherited, enum weir__wire_number wire,
		     const char *asked, uint32_t workers)
{
	char addresses[WEIR__NET_ADDRESSES][WEIR__NET_NAME_SIZE];
	const size_t first = sites->n;
	size_t n;
	int error, missing = 0;

	if (is_path(asked))
		return open_one(sites, inherited, wire, asked, asked, workers);
	error = weir__net_addresses(asked, addresses, &n);
	if (error == EINVAL)
		return open_unknown(sites, inherited, wire, asked, workers);
	for (size_t i = 0; i < n && error == 0; i++) {
		const struct weir__site *const other = sites->n > first ? &sites->at[first] :
									  find(inherited, wire, asked, NULL);

		if (other)
			take_port(addresses[i], other->name);
		error = open_one(sites, inherited, wire, asked, addresses[i], workers);
		if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) {
			missing = error;
			error = 0;
		}
	}
	return error == 0 && sites->n == first ? missing : error;
}

size_t weir__sites_of_worker(const struct weir__sites *sites, uint32_t worker, uint32_t workers,
			     struct weir__listener *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < sites->n; i++) {
		const struct weir__site *const site = &sites->at[i];

		/* More sockets than workers: each worker has several. Fewer: several workers have the same. */
		for (uint32_t j = worker % site->n; j < site->n; j += workers) {
			if (ret)
				ret[n] = (struct weir__listener){ site->sockets[j], site->wire, site->is_lent };
			n++;
		}
	}
	return n;
}

void weir__sites_close(struct weir__sites *inherited)
{
	for (size_t i = 0; i < inherited->n; i++) {
		struct weir__site *const site = &inherited->at[i];

		if (site->n > 0 && is_path(site->name) && !site->is_lent)
			(void)unlink(site->name);
		for (; site->n > 0; site->n--) {
			if (!site->is_lent)
				weir__net_stop_listening(site->sockets[site->n - 1]);
			weir__net_close(site->sockets[site->n - 1]);
		}
	}
}

void weir__sites_unlink(const struct weir__sites *sites, bool with_inherited)
{
	for (size_t i = 0; i < sites->n; i++)
		if (is_path(sites->at[i].name) && !sites->at[i].is_lent &&
		    (with_inherited || !sites->at[i].is_inherited))
			(void)unlink(sites->at[i].name);
}
