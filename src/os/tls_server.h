/* tls_server.h: the server's side of TLS. Reading, writing and the handshake are in tls.h.
 *
 * A struct weir__tls_server has a certificate, its key and the CAs of clients. It is immutable and reference-counted,
 * so that the server can replace it while connections still use the old one. The reasons are in
 * docs/internals/tls.md. */
#ifndef WEIR_OS_TLS_SERVER_H
#define WEIR_OS_TLS_SERVER_H

#include <stdint.h>

#include "os/ticket_keys.h"
#include "os/tls.h"

/* The content of a PEM file. NULL: not given. */
struct weir__tls_pem {
	const char *at;
	size_t n;
};

struct weir__tls_identity {
	struct weir__tls_pem certificate; /* with its intermediate certificates */
	struct weir__tls_pem key;         /* NULL: it is in the same file */
	struct weir__tls_pem client_ca;   /* CAs that sign clients' certificates; NULL: request no certificates */
	bool is_client_optional;          /* a client needs no certificate, but a wrong one is refused */
};

/* The parts of an identity, in the order of its members. */
enum weir__tls_part { WEIR__TLS_PART_CERTIFICATE, WEIR__TLS_PART_KEY, WEIR__TLS_PART_CLIENT_CA };

/* Why a handshake failed. "It" is the client. */
enum weir__tls_failure {
	WEIR__TLS_CLOSED,         /* the client ended the connection, perhaps in the middle of a message */
	WEIR__TLS_PLAIN,          /* it does not speak TLS */
	WEIR__TLS_VERSION,        /* it offers no version that the server allows */
	WEIR__TLS_NO_CERTIFICATE, /* it has no certificate, and the server requires one */
	WEIR__TLS_UNTRUSTED,      /* its certificate is not from a trusted CA, or not for clients */
	WEIR__TLS_EXPIRED,        /* its certificate, or a CA's, has expired or is not valid yet */
	WEIR__TLS_REJECTED,       /* it does not trust the server's certificate */
	WEIR__TLS_OTHER,
	WEIR__TLS_FAILURES,
};

struct weir__tls_server;

/* `tickets` must outlive it, and all connections. EINVAL: ret_why says what is wrong, and *ret_part where. ENOMEM: no
 * memory. */
int weir__tls_server_new(const struct weir__tls_identity *identity, struct weir__ticket_keys *tickets,
			 struct weir__tls_server **ret_server, enum weir__tls_part *ret_part,
			 char ret_why[WEIR__TLS_WHY_SIZE]);
struct weir__tls_server *weir__tls_server_share(struct weir__tls_server *server); /* returns it */
void weir__tls_server_release(struct weir__tls_server *server);                   /* NULL is allowed */

/* When the first certificate of the chain, or of the clients' CAs, expires. Unix time; INT64_MAX: there are no
 * certificates. */
int64_t weir__tls_server_expires_s(const struct weir__tls_server *server);
int64_t weir__tls_server_client_ca_expires_s(const struct weir__tls_server *server);

/* Begins TLS on an accepted socket, which the caller still owns. `alpn` lists the protocols that the server speaks
 * there, best first, separated by spaces. It must outlive the connection. A client that offers only other protocols is
 * refused, so that a message for one protocol is never read as another. NULL: no memory. */
struct weir__tls *weir__tls_accept(struct weir__tls_server *server, int socket, const char *alpn);

/* After the handshake: whether client and server agreed on this protocol. Without ALPN they agree on none. */
bool weir__tls_has_alpn(const struct weir__tls *tls, const char *protocol);

/* Continues the handshake, as weir__tls_shake, and rejects a resumed session whose client certificate has expired. */
int weir__tls_server_shake(struct weir__tls *tls);

/* Whether the client has sent anything. */
bool weir__tls_has_heard(const struct weir__tls *tls);

/* After a failed handshake. */
enum weir__tls_failure weir__tls_failure(const struct weir__tls *tls);

/* After the handshake: the names in the client's certificate (subjectAltName), URIs first, then DNS names, then email
 * addresses. Names that are longer, have a NUL or are beyond these are left out. 0: the client has no certificate. */
enum { WEIR__TLS_NAMES_MAX = 16, WEIR__TLS_NAME_SIZE = 256 };
size_t weir__tls_peer_names(const struct weir__tls *tls, char ret_names[WEIR__TLS_NAMES_MAX][WEIR__TLS_NAME_SIZE]);

#endif
