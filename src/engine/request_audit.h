/* request_audit.h: log lines about what requests change, and about wrong passwords. */
#ifndef WEIR_ENGINE_REQUEST_AUDIT_H
#define WEIR_ENGINE_REQUEST_AUDIT_H

#include "engine/context.h"
#include "observe/audit.h"
#include "observe/protocol.h"

void weir__audit_who_of(const struct weir__client *client, enum weir__protocol protocol,
			struct weir__audit_who *ret_who);

/* Logs that a key was reset, or that a cost was refunded to it. */
void weir__audit_key(const struct weir__context *context, const struct weir__audit_who *who,
		     enum weir__store_operation operation, const struct weir_claim *claim,
		     const struct weir_verdict *verdict);

/* Logs that a limit was changed, on all servers of the store or on this one alone. `from` NULL: not known. `why_not` is
 * NULL if the change was made. */
void weir__audit_change(struct weir__log *log, const struct weir__audit_who *who, const char *plan,
			const struct weir_limit *from, const struct weir_limit *to, bool is_shared,
			const char *why_not);

/* Counts a wrong password or token, and logs it as often as counters.h allows. `claimed` is the user whose name the
 * client sent; NULL: unknown user. An unknown name is not logged, because it may be a password in the wrong field. */
void weir__audit_auth_limited(const struct weir__context *context, const struct weir__client *client,
			      enum weir__protocol protocol);
void weir__audit_auth_failure(const struct weir__context *context, const struct weir__client *client,
			      enum weir__protocol protocol, const struct weir__user *claimed);

#endif
