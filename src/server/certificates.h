/* certificates.h: the server's certificate, its key and the CAs of clients. They are read again when their files change.
 *
 * A thread of its own reads the files every two seconds, so that a file system that hangs stops no worker, and so that
 * every way to replace files is noticed, also the links of Kubernetes. A pair that does not match changes nothing, and
 * is reported once it stays: usually the second file follows. Connections keep what they began with. */
#ifndef WEIR_SERVER_CERTIFICATES_H
#define WEIR_SERVER_CERTIFICATES_H

#include "os/tls_server.h"
#include "server/settings.h"

struct weir__certificates;

/* Reads the files. `tickets` are keys that the previous server has handed over, taken over by this; NULL: new ones.
 * NULL: after reporting errors as weir__settings_error. */
struct weir__certificates *weir__certificates_new(struct weir__settings *settings, struct weir__ticket_keys *tickets);

/* Begins to watch the files. Returns 0 or an errno. */
int weir__certificates_start(struct weir__certificates *certificates);

/* Call it when all workers have ended. NULL is allowed. */
void weir__certificates_free(struct weir__certificates *certificates);

/* Requests a look at the files, from any thread. Does not wait. */
void weir__certificates_reload(struct weir__certificates *certificates);

/* The current certificate. Release it after use. */
struct weir__tls_server *weir__certificates_share(struct weir__certificates *certificates);

struct weir__ticket_keys *weir__certificates_tickets(struct weir__certificates *certificates);

struct weir__certificates_status {
	int64_t expires_s, client_ca_expires_s; /* Unix time; INT64_MAX: none */
	bool is_refused;                        /* the files have errors, so earlier ones are in use */
	uint64_t reloads;
};
void weir__certificates_status(struct weir__certificates *certificates, struct weir__certificates_status *ret_status);

#endif
