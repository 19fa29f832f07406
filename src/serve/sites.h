/* sites.h: where a server listens, with the sockets of all its workers.
 *
 * A name is listened at by all addresses that it stands for, each of which is a site: at one port, also if that is any which is
 * free. An address of it that this machine does not have, such as that of IPv6 where there is none, is left out if another one
 * is there.
 *
 * At a port each worker has a socket of its own, and the kernel deals connections out to them; a path has one, which they
 * share. A server that takes over from another one gets its sockets, with whoever has connected and not been accepted yet:
 * none of them may be closed as long as its site is still listened at, however many workers there are. Sockets that a manager
 * such as systemd has opened stay open there, and are its own to remove. */
#ifndef WEIR_SERVE_SITES_H
#define WEIR_SERVE_SITES_H

#include "os/net.h"
#include "serve/settings.h"
#include "serve/worker.h"

enum { WEIR__SITES_MAX = WEIR__LISTENERS_MAX * WEIR__WIRES * 2 /* names mostly stand for two addresses */ };

struct weir__site {
	enum weir__wire_number wire;
	char asked[WEIR__NET_NAME_SIZE]; /* as the setting has it, */
	char name[WEIR__NET_NAME_SIZE];  /* and what it became: a port of 0 is one that was free */
	int sockets[WEIR__WORKERS_MAX];
	uint32_t n;
	bool is_inherited;
	bool is_lent; /* by the system's manager: of either wire, and never closed or removed for others */
};

struct weir__sites {
	struct weir__site at[WEIR__SITES_MAX];
	size_t n;
	mode_t mode; /* of paths; 0: as the umask has it */
};

/* The word of a wire, as in messages and settings: resp, http. */
const char *weir__site_wire_word(enum weir__wire_number wire);

/* Listens at one more place, for so many workers: by the sockets of inherited sites that were asked for by the same words, and
 * are at the same addresses, which are taken out of `inherited`. 0 or an errno; E2BIG: there are too many addresses. */
int weir__sites_open(struct weir__sites *sites, struct weir__sites *inherited, enum weir__wire_number wire,
		     const char *asked, uint32_t workers);

/* The sockets that a worker listens at, at most WEIR__SITES_MAX * WEIR__WORKERS_MAX. Returns how many. If ret is NULL they
 * are counted only. */
size_t weir__sites_of_worker(const struct weir__sites *sites, uint32_t worker, uint32_t workers,
			     struct weir__listener *ret);

/* Nobody listens any more at what is left of these. */
void weir__sites_close(struct weir__sites *inherited);

/* Removes the paths. */
void weir__sites_unlink(const struct weir__sites *sites, bool with_inherited);

#endif
