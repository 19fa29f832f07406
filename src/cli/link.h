/* link.h: a connection to a server, of a program that asks one thing at a time and waits for the answer. RESP3, so that
 * answers name what they hold. */
#ifndef WEIR_CLI_LINK_H
#define WEIR_CLI_LINK_H

#include "wire/resp.h"

/* Answers beyond that are refused: none of ours comes near. */
enum { WEIR__LINK_BYTES = 256 * 1024, WEIR__LINK_TOKENS = 1024, WEIR__LINK_WHY_SIZE = 512 };

struct weir__link {
	int socket;
	size_t used; /* bytes of the last answer */
	size_t n;    /* bytes that have come */
	struct weir__resp_token tokens[WEIR__LINK_TOKENS];
	char bytes[WEIR__LINK_BYTES];
	char why[WEIR__LINK_WHY_SIZE]; /* after a failure: what happened, in a sentence without its full stop */
};

enum weir__link_result {
	WEIR__LINK_OK,
	WEIR__LINK_WRONG,  /* what was asked for makes no sense: no address, for one */
	WEIR__LINK_FAILED, /* no server, none that answers in time, or one that does not speak RESP3 */
};

/* Connects, and says who it is if `password` is not NULL; `user` may be NULL for the default one. Whatever is waited for,
 * it is for timeout_ms at most. On success, weir__link_close it. */
enum weir__link_result weir__link_open(struct weir__link *link, const char *where, const char *user,
				       const char *password, uint32_t timeout_ms);
void weir__link_close(struct weir__link *link);

/* Asks. The answer begins at link->tokens[0] and is good until the next question; an error is an answer, too. */
enum weir__link_result weir__link_ask(struct weir__link *link, const struct weir__resp_slice *words, size_t n);

#endif
