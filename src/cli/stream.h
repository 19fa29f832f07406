/* stream.h: a connection to a server, plain or with TLS. The address says which: tls://HOST:PORT and rediss://HOST:PORT
 * are TLS. */
#ifndef WEIR_CLI_STREAM_H
#define WEIR_CLI_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "os/tls.h"

/* Of the options in every help. */
#define WEIR__STREAM_HELP                                                                                              \
	"  --cacert FILE         with tls://, CAs that may sign the server's certificate, in PEM. Default:\n"          \
	"                        WEIR_CACERT from the environment, or else the CAs of this system\n"                   \
	"  --cert FILE, --key FILE\n"                                                                                  \
	"                        with tls://, the client's certificate and its key. Default: WEIR_CERT\n"              \
	"                        and WEIR_KEY\n"

struct weir__stream {
	int socket;
	struct weir__tls *tls; /* NULL: plain */
};

/* Returns the address without tls:// or rediss://. */
const char *weir__stream_where(const char *at, bool *ret_is_tls);

/* The files of the options, or of the environment where one is NULL. */
struct weir__tls_files weir__stream_files(const struct weir__tls_files *options);

/* What connections share. *ret_context is NULL if the address has no TLS. Returns 0 or an errno, with ret_why. */
int weir__stream_context(const char *at, const struct weir__tls_files *files, struct weir__tls_context **ret_context,
			 char ret_why[WEIR__TLS_WHY_SIZE]);

/* Connects. The socket blocks, for timeout_ms at most. Returns 0 or an errno. EPROTO: TLS failed, as ret_why says. */
int weir__stream_open(struct weir__stream *stream, const char *at, struct weir__tls_context *context,
		      uint32_t timeout_ms, char ret_why[WEIR__TLS_WHY_SIZE]);
void weir__stream_close(struct weir__stream *stream);

/* Return the number of bytes, 0 at the end, or -errno. */
ssize_t weir__stream_read(struct weir__stream *stream, void *bytes, size_t size);
ssize_t weir__stream_write(struct weir__stream *stream, const void *bytes, size_t size);

#endif
