/* listeners.h: where a server listens, with the sockets of all its workers.
 *
 * The server listens at every address that a name resolves to, at one port, even if that is port 0 (any free one). It
 * skips an address that this machine does not have, such as IPv6 on a machine without it, if the name has another
 * address.
 *
 * At a port each worker has its own socket, and the kernel distributes connections among them. A path has one socket
 * that the workers share. A server that takes over from another gets its sockets, including connections that are not
 * accepted yet. So none of them may be closed while the server still listens at its address, however many workers there
 * are. Sockets that a manager such as systemd has opened stay open there, and only the manager removes them. */
#ifndef WEIR_SERVER_LISTENERS_H
#define WEIR_SERVER_LISTENERS_H

#include "os/net.h"
#include "server/settings.h"
#include "server/worker.h"

enum {
	WEIR__LISTEN_ADDRESSES_MAX = WEIR__LISTENERS_MAX * WEIR__SERVICES * 2 /* names mostly stand for two addresses */
};

struct weir__listen_address {
	enum weir__service service;
	char setting[WEIR__NET_NAME_SIZE]; /* as written in the setting, without tls:// */
	char name[WEIR__NET_NAME_SIZE];    /* the actual address, with the port that replaced 0 */
	int sockets[WEIR__WORKERS_MAX];
	uint32_t n;
	bool is_tls;
	bool is_inherited;
	bool is_lent; /* by systemd: for any service, and never shut down or removed here */
};

struct weir__listeners {
	struct weir__listen_address at[WEIR__LISTEN_ADDRESSES_MAX];
	size_t n;
	mode_t mode; /* of paths; 0: the umask decides */
};

/* The address without tls:// in front. *ret_is_tls: whether that was there. */
const char *weir__listeners_where(const char *setting, bool *ret_is_tls);

/* Listens at one more setting, for this many workers. Takes over, and removes from `inherited`, the sockets of
 * inherited listeners with the same setting and address. Returns 0 or an errno; E2BIG: too many addresses. */
int weir__listeners_open(struct weir__listeners *listeners, struct weir__listeners *inherited,
			 enum weir__service service, const char *setting, uint32_t workers);

/* The sockets that a worker listens at, at most WEIR__LISTEN_ADDRESSES_MAX * WEIR__WORKERS_MAX. Returns their number.
 * If `ret` is NULL, it only counts them. */
size_t weir__listeners_of_worker(const struct weir__listeners *listeners, uint32_t worker, uint32_t workers,
				 struct weir__listener *ret);

/* Closes the inherited sockets that were not taken over, and removes their paths. */
void weir__listeners_close(struct weir__listeners *inherited);

/* Removes the paths of Unix sockets, but not lent ones. */
void weir__listeners_unlink(const struct weir__listeners *listeners, bool with_inherited);

#endif
