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

static bool take_over(struct weir__sites *inherited, enum weir__wire_number wire, const char *asked,
		      struct weir__site *ret_site)
{
	for (size_t i = 0; i < inherited->n; i++) {
		struct weir__site *const one = &inherited->at[i];

		if (one->n > 0 && (one->is_lent || one->wire == wire) && strcmp(one->asked, asked) == 0) {
			*ret_site = *one;
			ret_site->wire = wire;
			ret_site->is_inherited = true;
			one->n = 0;
			return true;
		}
	}
	return false;
}

/* A path has one socket, with its mode from the beginning. */
static int listen_once_more(const struct weir__site *site, mode_t mode, int *ret_socket,
			    char ret_name[WEIR__NET_NAME_SIZE])
{
	(void)snprintf(ret_name, WEIR__NET_NAME_SIZE, "%s", site->asked);
	if (is_path(site->asked))
		return weir__net_listen_at_path(site->asked, mode, ret_socket);
	return weir__net_listen(site->n == 0 ? site->asked : site->name,
				site->n == 0 ? WEIR__LISTEN_FIRST : WEIR__LISTEN_TOO, ret_socket, ret_name);
}

int weir__sites_open(struct weir__sites *sites, struct weir__sites *inherited, enum weir__wire_number wire,
		     const char *asked, uint32_t workers)
{
	struct weir__site *const site = &sites->at[sites->n];
	uint32_t wanted = is_path(asked) ? 1 : workers;
	int error = 0;

	if (!take_over(inherited, wire, asked, site)) {
		*site = (struct weir__site){ .wire = wire };
		memcpy(site->asked, asked, strlen(asked) + 1);
	} else if (sites->mode != 0 && is_path(asked) && !site->is_lent && chmod(site->name, sites->mode) != 0) {
		error = errno;
	}
	if (site->is_lent) /* others may not listen there, too */
		wanted = 1;
	while (site->n < wanted && error == 0) {
		char name[WEIR__NET_NAME_SIZE];

		error = listen_once_more(site, sites->mode, &site->sockets[site->n], name);
		if (error == 0) {
			memcpy(site->name, name, sizeof(name));
			site->n++;
		}
	}
	sites->n += site->n > 0; /* also if there are too few: to be closed */
	return error;
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
