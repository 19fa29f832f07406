/* audit.h: a log line for each administrative change: who made it, what it was, and its result.
 *
 * No line is left out, except when the log itself is full. engine/request_audit.h writes the lines of requests. */
#ifndef WEIR_OBSERVE_AUDIT_H
#define WEIR_OBSERVE_AUDIT_H

#include "observe/log.h"

enum { WEIR__AUDIT_USER = 64, WEIR__AUDIT_PEER = 64 };

/* A copy, because the change may be made after the client has disconnected. */
struct weir__audit_who {
	char user[WEIR__AUDIT_USER]; /* "-" without a user */
	char peer[WEIR__AUDIT_PEER]; /* an address, unix, or - */
	const char *by;              /* resp, http, file, signal, or the URL of a policy */
};

/* For a change that no client made: a file changed, or a signal arrived. */
struct weir__audit_who weir__audit_system(const char *by);

/* Begins a line. The caller adds fields that describe the change, then ends the line. */
void weir__audit_begin(struct weir__log_line *line, const struct weir__log *log, const struct weir__audit_who *who,
		       const char *what);

/* `why_not` is NULL if the change was made. */
void weir__audit_end(struct weir__log_line *line, struct weir__log *log, const char *why_not);

/* Logs that the policy was reloaded from `source` and now has this many limits, and how many of them have keys that
 * start over. A non-empty fault means that the policy is invalid and nothing has changed. */
void weir__audit_policy(struct weir__log *log, const char *source, uint64_t limits, uint64_t anew, const char *fault);

#endif
