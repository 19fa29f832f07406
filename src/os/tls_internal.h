/* tls_internal.h: a TLS connection, as the files of both sides see it. Only for src/os/tls*.c. */
#ifndef WEIR_OS_TLS_INTERNAL_H
#define WEIR_OS_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "os/tls.h"

struct weir__tls {
	SSL *ssl;
	int socket;
	bool is_server, wants_to_write, is_over, has_read, has_heard;
	bool read_was_short;     /* the last read from the socket got less than there was room for */
	bool is_dry;             /* the socket has no more bytes */
	bool is_drained;         /* see weir__tls_read_all */
	unsigned n_without_data; /* calls of weir__tls_read_all in a row that read messages without data */
	char *name;              /* of the server; NULL on the server's side */
	char *why;               /* NULL: no failure yet, or no memory for the text */
	const char *alpn;        /* on the server's side: see weir__tls_accept */
	unsigned long error;     /* OpenSSL's error after a failure; 0: the connection ended */
};

/* tls.c: a connection in its first state, without an SSL. NULL: no memory. */
struct weir__tls *weir__tls_make(SSL_CTX *context, int socket);

/* tls.c: the words for the first error in OpenSSL's queue, which is then cleared. */
const char *weir__tls_reason(void);

/* tls.c: rejects encrypted keys: a server has no terminal to prompt for a password. */
int weir__tls_no_password(char *buffer, int size, int is_for_writing, void *context);

/* tls.c: ends the connection, and writes why. `error` is from SSL_get_error. */
void weir__tls_explain(struct weir__tls *tls, int error);

#endif
