/* audit.c: who made a change, what it was, and the result. */
#include "observe/audit.h"

struct weir__audit_who weir__audit_system(const char *by)
{
	return (struct weir__audit_who){ "-", "-", by };
}

void weir__audit_begin(struct weir__log_line *line, const struct weir__log *log, const struct weir__audit_who *who,
		       const char *what)
{
	weir__log_begin(line, weir__log_is_json(log), WEIR__LOG_AUDIT, what);
	weir__log_word(line, "user", who->user);
	weir__log_word(line, "peer", who->peer);
	weir__log_word(line, "by", who->by);
}

void weir__audit_end(struct weir__log_line *line, struct weir__log *log, const char *why_not)
{
	weir__log_word(line, "result", why_not ? why_not : "ok");
	weir__log_end(line, log);
}

void weir__audit_policy(struct weir__log *log, const char *source, uint64_t limits, uint64_t anew, const char *fault)
{
	const struct weir__audit_who by_itself = weir__audit_system(source);
	struct weir__log_line line;

	weir__audit_begin(&line, log, &by_itself, "policy_reloaded");
	weir__log_number(&line, "limits", limits);
	weir__log_number(&line, "anew", anew);
	weir__audit_end(&line, log, *fault ? fault : NULL);
}
