/* tls.h: TLS 1.2 or later with OpenSSL, on a non-blocking socket. This file has the client's side and what both sides
 * share; tls_server.h has the rest of the server's side.
 *
 * The caller waits for the socket. A call that cannot proceed returns EAGAIN. weir__tls_wants_to_write then says
 * whether it waits for room to write, or for bytes to read. A write to a closed connection raises no SIGPIPE. */
#ifndef WEIR_OS_TLS_H
#define WEIR_OS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { WEIR__TLS_WHY_SIZE = 240 };

/* Paths of PEM files; empty: not given. */
struct weir__tls_files {
	const char *ca;          /* CAs that sign servers' certificates; empty: those that this system trusts */
	const char *certificate; /* the client's, with its intermediate certificates */
	const char *key;         /* the certificate's key; empty: it is in the same file */
};

/* Settings that connections share. Several threads may use it. */
struct weir__tls_context;

/* Without `verifies` any certificate is accepted, so the identity of the server is unknown. EINVAL: ret_why says what
 * is wrong with which file. ENOMEM: no memory. */
int weir__tls_context_new(const struct weir__tls_files *files, bool verifies, struct weir__tls_context **ret_context,
			  char ret_why[WEIR__TLS_WHY_SIZE]);
void weir__tls_context_free(struct weir__tls_context *context);

struct weir__tls;

/* Begins TLS on a connected socket, which the caller still owns. The certificate must be for this name or address; a
 * name is also sent to the server (SNI). NULL: no memory, or an invalid name. */
struct weir__tls *weir__tls_new(struct weir__tls_context *context, int socket, const char *name);

/* Sends the closing message if that does not block. Then frees the connection; NULL is allowed. */
void weir__tls_end_writing(struct weir__tls *tls);
void weir__tls_free(struct weir__tls *tls);

/* Continues the handshake. Call it until it returns 0, before anything is read or written. EAGAIN: call again. Any
 * other errno: the connection is over, and weir__tls_why says why. */
int weir__tls_shake(struct weir__tls *tls);

/* Return the number of bytes, 0 at the end, or -EAGAIN. Any other -errno: the connection is over. Repeat a write that
 * returned -EAGAIN with the same bytes, and maybe more behind them. */
ssize_t weir__tls_read(struct weir__tls *tls, void *bytes, size_t size);
ssize_t weir__tls_write(struct weir__tls *tls, const void *bytes, size_t size);

/* Reads until it has `size` bytes, or the socket has no more, or the bound for one turn is reached.
 * weir__tls_is_drained then says whether OpenSSL has no more bytes that it has already read from the socket. If it has,
 * call this again: epoll may not report them. */
ssize_t weir__tls_read_all(struct weir__tls *tls, void *bytes, size_t size);
bool weir__tls_is_drained(const struct weir__tls *tls);

bool weir__tls_wants_to_write(const struct weir__tls *tls);

/* Whether OpenSSL has bytes that it has already read from the socket. */
bool weir__tls_has_unread(const struct weir__tls *tls);

const char *weir__tls_why(const struct weir__tls *tls);

#endif
