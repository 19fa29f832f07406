/* listeners.h: where a server listens, with the sockets of all its workers.
 *
 * A name is listened at by all addresses that it stands for, each of which is a address: at one port, also if that is any which is
 * free. An address of it that this machine does not have, such as that of IPv6 where there is none, is left out if another one
 * is there.
 *
 * At a port each worker has a socket of its own, and the kernel deals connections out to them; a path has one, which they
 * share. A server that takes over from another one gets its sockets, with whoever has connected and not been accepted yet:
 * none of them may be closed as long as its address is still listened at, however many workers there are. Sockets that a manager
 * such as systemd has opened stay open there, and are its own to remove. */
#ifndef WEIR_SERVER_LISTENERS_H
#define WEIR_SERVER_LISTENERS_H

#include "os/net.h"
#include "server/settings.h"
#include "server/worker.h"

enum {
	WEIR__LISTEN_ADDRESSES_MAX = WEIR__LISTENERS_MAX * WEIR__PROTOCOLS *
				     2 /* names mostly stand for two addresses */
};

struct weir__listen_address {
	enum weir__protocol protocol;
	char setting[WEIR__NET_NAME_SIZE]; /* as the setting has it, */
	char name[WEIR__NET_NAME_SIZE];    /* and what it became: a port of 0 is one that was free */
	int sockets[WEIR__WORKERS_MAX];
	uint32_t n;
	bool is_inherited;
	bool is_lent; /* by the system's manager: of either wire, and never closed or removed for others */
};

struct weir__listeners {
	struct weir__listen_address at[WEIR__LISTEN_ADDRESSES_MAX];
	size_t n;
	mode_t mode; /* of paths; 0: as the umask has it */
};

/* The word of a wire, as in messages and settings: resp, http. */
const char *weir__listeners_protocol_word(enum weir__protocol protocol);

/* Listens at one more place, for so many workers: by the sockets of inherited listeners that were asked for by the same words, and
 * are at the same addresses, which are taken out of `inherited`. 0 or an errno; E2BIG: there are too many addresses. */
int weir__listeners_open(struct weir__listeners *listeners, struct weir__listeners *inherited,
			 enum weir__protocol protocol, const char *setting, uint32_t workers);

/* The sockets that a worker listens at, at most WEIR__LISTEN_ADDRESSES_MAX * WEIR__WORKERS_MAX. Returns how many. If ret is NULL they
 * are counted only. */
size_t weir__listeners_of_worker(const struct weir__listeners *listeners, uint32_t worker, uint32_t workers,
				 struct weir__listener *ret);

/* Nobody listens any more at what is left of these. */
void weir__listeners_close(struct weir__listeners *inherited);

/* Removes the paths. */
void weir__listeners_unlink(const struct weir__listeners *listeners, bool with_inherited);

#endif
