/* audit.h: a line of the log for each administrative change: who has asked for it, what it was, and what came of it. None is
 * left out but for want of room in the log. Of those who say a wrong password there are as many lines as tally.h allows. */
#ifndef WEIR_SERVE_AUDIT_H
#define WEIR_SERVE_AUDIT_H

#include "serve/context.h"
#include "serve/log.h"
#include "serve/worker.h"

enum { WEIR__AUDIT_PEER = 64 };

/* Copied, since the change may be made when whoever asked has gone. */
struct weir__audit_who {
	char user[WEIR__USER_NAME_MAX + 1]; /* - if there is none */
	char peer[WEIR__AUDIT_PEER];        /* an address, unix, or - */
	const char *by;                     /* resp, http, file or signal */
};

void weir__audit_who_asks(const struct weir__client *client, enum weir__wire_number wire,
			  struct weir__audit_who *ret_who);

/* Nobody has asked: a file has changed, or a signal came. */
struct weir__audit_who weir__audit_nobody(const char *by);

/* Begins a line; whoever changes adds what is known of it, and ends it as any other. */
void weir__audit_begin(struct weir__log_line *line, const struct weir__log *log, const struct weir__audit_who *who,
		       const char *what);

/* Whether a line is written of the operation: of a reset, and of a refund unless the user may only decide. For such users a
 * refund is a part of deciding, and as frequent as they like. */
bool weir__audit_has_line(const struct weir__context *context, const struct weir__client *client,
			  enum weir__store_operation operation);

/* A key was reset, or something given back to it. */
void weir__audit_key(const struct weir__context *context, const struct weir__audit_who *who,
		     enum weir__store_operation operation, const struct weir_claim *claim,
		     const struct weir_verdict *verdict);

/* Somebody has said a wrong password or token: counted, and told of unless many have. `claimed` is the user whose name was
 * said; NULL if there is none of that name, which is not repeated: it may be a password in the wrong place. */
void weir__audit_stranger(const struct weir__context *context, const struct weir__client *client,
			  enum weir__wire_number wire, const struct weir__user *claimed);

/* The policy was read from its source: it has so many limits now; nothing has changed if there is a fault in it. */
void weir__audit_policy(struct weir__log *log, uint64_t limits, const char *fault);

/* What came of something: ok, or why not. */
void weir__audit_end(struct weir__log_line *line, struct weir__log *log, const char *why_not);

#endif
