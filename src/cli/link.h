/* link.h: a client connection to a server that sends one request at a time and waits for the reply. It uses RESP3 and
 * requests maps, which name their members. */
#ifndef WEIR_CLI_LINK_H
#define WEIR_CLI_LINK_H

#include "cli/stream.h"
#include "wire/resp.h"

/* A longer reply is an error. The server's replies are far below these sizes. */
enum { WEIR__LINK_BYTES = 256 * 1024, WEIR__LINK_TOKENS = 2048, WEIR__LINK_WHY_SIZE = 512 };

struct weir__link {
	struct weir__stream stream;
	struct weir__tls_context *tls; /* NULL: plain */
	size_t used;                   /* bytes of the last reply */
	size_t n;                      /* bytes received */
	struct weir__resp_token tokens[WEIR__LINK_TOKENS];
	char bytes[WEIR__LINK_BYTES];
	char why[WEIR__LINK_WHY_SIZE]; /* after a failure: the reason, as a sentence without a full stop */
};

enum weir__link_result {
	WEIR__LINK_OK,
	WEIR__LINK_WRONG,  /* wrong arguments, such as an invalid address */
	WEIR__LINK_FAILED, /* no server, no reply in time, or the server does not speak RESP3 */
};

/* The server to use if --at is not given: WEIR_AT from the environment if it is set and not empty, else
 * WEIR__LINK_HERE. */
#define WEIR__LINK_HERE "127.0.0.1:6380"
const char *weir__link_default(void);

/* Help lines for the option with the server's address, in the help of every command that calls a server. */
#define WEIR__LINK_AT_HELP                                                                                             \
	"  --at WHERE            HOST:PORT, tls://HOST:PORT, or the path of a socket (with a slash).\n"                \
	"                        Default: WEIR_AT from the environment, or else " WEIR__LINK_HERE "\n"

/* Help lines for the options to authenticate. */
#define WEIR__LINK_USER_HELP                                                                                           \
	"  --user USER           the user to authenticate as, if the server has users. Default: default\n"             \
	"  --password-file FILE  a file with the password as its first line. Without it the password\n"                \
	"                        is WEIR_PASSWORD from the environment, if set\n" WEIR__STREAM_HELP

/* Connects, and authenticates if `password` is not NULL. `user` may be NULL for the default user. `files` are for an
 * address with TLS. Each wait on the
 * connection lasts at most timeout_ms, now and in later requests. On success, close with weir__link_close. */
enum weir__link_result weir__link_open(struct weir__link *link, const char *where, const char *user,
				       const char *password, const struct weir__tls_files *files, uint32_t timeout_ms);
void weir__link_close(struct weir__link *link);

/* Sends a request. The reply begins at link->tokens[0] and stays valid until the next request. An error reply also
 * returns WEIR__LINK_OK. */
enum weir__link_result weir__link_ask(struct weir__link *link, const struct weir__resp_slice *words, size_t n);

#endif
