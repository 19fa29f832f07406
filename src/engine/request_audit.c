/* request_audit.c: who made a change, what it was, and the result. */
#include "engine/request_audit.h"

#include <stdio.h>

#include "observe/counters.h"
#include "observe/log_key.h"

_Static_assert((int)WEIR__USER_NAME_MAX < (int)WEIR__AUDIT_USER, "a name fits");

void weir__audit_who_of(const struct weir__client *client, enum weir__protocol protocol,
			struct weir__audit_who *ret_who)
{
	(void)snprintf(ret_who->user, sizeof(ret_who->user), "%s", client->user ? client->user->name : "-");
	if (client->write_peer)
		client->write_peer(client, ret_who->peer);
	else
		(void)snprintf(ret_who->peer, sizeof(ret_who->peer), "-");
	ret_who->by = weir__protocol_word(protocol);
}

void weir__audit_key(const struct weir__context *context, const struct weir__audit_who *who,
		     enum weir__store_operation operation, const struct weir_claim *claim,
		     const struct weir_verdict *verdict)
{
	const bool is_reset = operation == WEIR__STORE_RESET;
	struct weir__log_line line;
	char name[WEIR_TABLE_NAME_MAX + WEIR_LIMIT_TEXT_MAX];

	weir__audit_begin(&line, context->log, who, is_reset ? "key_reset" : "key_refunded");
	weir__inline_limit_write_name(context->limits.counted_as, claim->limit, name, sizeof(name));
	weir__log_word(&line, "limit", name);
	/* The setting log_denials decides whether keys are shown, as in the log of denials. */
	if (context->hides_keys)
		weir__log_key_hash(&line, weir__hash(&claim->limit->secret, claim->key, claim->key_length));
	else
		weir__log_key(&line, context->guard, context->limits.counted_as, claim);
	if (is_reset) {
		weir__log_truth(&line, "was_stored", verdict->allowed);
	} else {
		weir__log_number(&line, "given_back", claim->cost);
		weir__log_number(&line, "remaining", verdict->remaining);
	}
	weir__audit_end(&line, context->log, NULL);
}

void weir__audit_change(struct weir__log *log, const struct weir__audit_who *who, const char *plan,
			const struct weir_limit *from, const struct weir_limit *to, bool is_shared, const char *why_not)
{
	char before[WEIR_LIMIT_TEXT_MAX] = "", after[WEIR_LIMIT_TEXT_MAX];
	struct weir__log_line line;

	if (from)
		(void)weir_limit_print(from, before);
	(void)weir_limit_print(to, after);
	weir__audit_begin(&line, log, who, "limit_changed");
	weir__log_word(&line, "limit", plan);
	weir__log_word(&line, "before", before);
	weir__log_word(&line, "after", after);
	weir__log_word(&line, "servers", is_shared ? "all" : "here");
	weir__audit_end(&line, log, why_not);
}

void weir__audit_auth_failure(const struct weir__context *context, const struct weir__client *client,
			      enum weir__protocol protocol, const struct weir__user *claimed)
{
	struct weir__audit_who who;
	struct weir__log_line line;
	uint64_t left_out;

	if (context->counters_set == NULL || context->counters == NULL)
		return;
	weir__counters_add(&context->counters->auth_failures[protocol], 1);
	if (context->log == NULL ||
	    !weir__counters_set_may_log(context->counters_set, WEIR__COUNTERS_LINE_AUTH_FAILURE, &left_out))
		return;
	weir__audit_who_of(client, protocol, &who);
	(void)snprintf(who.user, sizeof(who.user), "%s", claimed ? claimed->name : "-");
	weir__audit_begin(&line, context->log, &who, "auth_failed");
	if (left_out > 0)
		weir__log_number(&line, "left_out", left_out);
	weir__audit_end(&line, context->log,
			protocol != WEIR__PROTOCOL_RESP ? "wrong token" :
			claimed                         ? "wrong password" :
							  "unknown user");
}

void weir__audit_auth_limited(const struct weir__context *context, const struct weir__client *client,
			      enum weir__protocol protocol)
{
	struct weir__audit_who who;
	struct weir__log_line line;
	uint64_t left_out;

	if (context->counters_set == NULL || context->counters == NULL)
		return;
	weir__counters_add(&context->counters->auth_limited[protocol], 1);
	if (context->log == NULL ||
	    !weir__counters_set_may_log(context->counters_set, WEIR__COUNTERS_LINE_AUTH_LIMITED, &left_out))
		return;
	weir__audit_who_of(client, protocol, &who);
	weir__audit_begin(&line, context->log, &who, "auth_limited");
	if (left_out > 0)
		weir__log_number(&line, "left_out", left_out);
	weir__audit_end(&line, context->log, "too many wrong passwords or tokens from this address");
}
