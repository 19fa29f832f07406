/* tls.h: TLS of a client, by OpenSSL, on a socket that does not block. TLS 1.2 or later.
 *
 * Whoever has the socket waits for it: what is not possible now is EAGAIN, and then weir__tls_wants_to_write says whether
 * room to write is what is missing, or something to read. No signal is raised by a connection that is over. */
#ifndef WEIR_OS_TLS_H
#define WEIR_OS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { WEIR__TLS_WHY_SIZE = 240 };

/* Files of PEM; empty ones are not given. */
struct weir__tls_files {
	const char *ca;          /* who signs servers' certificates; empty: those whom this system trusts */
	const char *certificate; /* of this client, with those between it and its CA */
	const char *key;         /* of the certificate; empty: it is in the same file */
};

/* What connections have in common. May be used by several threads. */
struct weir__tls_context;

/* Without `verifies` any certificate will do: then nobody knows who is at the other end. EINVAL: ret_why says what is wrong
 * with which file. ENOMEM. */
int weir__tls_context_new(const struct weir__tls_files *files, bool verifies, struct weir__tls_context **ret_context,
			  char ret_why[WEIR__TLS_WHY_SIZE]);
void weir__tls_context_free(struct weir__tls_context *context);

struct weir__tls;

/* On a connected socket, which stays the caller's. The name, or address, is what the certificate must be for; a name is
 * also told to the server. NULL: no memory, or no such name can be. */
struct weir__tls *weir__tls_new(struct weir__tls_context *context, int socket, const char *name);

/* Says goodbye if that does not take any waiting. NULL is allowed. */
void weir__tls_free(struct weir__tls *tls);

/* Until this is 0 nothing is read or written. EAGAIN; else it is over, and weir__tls_why says why. */
int weir__tls_shake(struct weir__tls *tls);

/* Bytes, 0 at the end, or -EAGAIN; else it is over. A write that was refused is tried again with the same bytes, and maybe
 * more behind them. */
ssize_t weir__tls_read(struct weir__tls *tls, void *bytes, size_t size);
ssize_t weir__tls_write(struct weir__tls *tls, const void *bytes, size_t size);

bool weir__tls_wants_to_write(const struct weir__tls *tls);

/* There is something to read that the socket does not know of any more. */
bool weir__tls_has_unread(const struct weir__tls *tls);

const char *weir__tls_why(const struct weir__tls *tls);

#endif
