/* audit.c: who, what, and what came of it. */
#include "serve/audit.h"

#include <stdio.h>

#include "os/net.h"
#include "policy/address.h"
#include "serve/policies.h"
#include "serve/tally.h"

static void write_peer(const struct weir__client *client, char ret_peer[WEIR__AUDIT_PEER])
{
	_Static_assert((int)WEIR__ADDRESS_TEXT <= (int)WEIR__AUDIT_PEER, "an address fits");
	struct weir__address address;
	struct weir__net_peer peer;

	(void)snprintf(ret_peer, WEIR__AUDIT_PEER, "-");
	if (client->socket == NULL || weir__net_peer(*client->socket, &peer) != 0)
		return;
	if (peer.is_path) {
		(void)snprintf(ret_peer, WEIR__AUDIT_PEER, "unix");
		return;
	}
	address = weir__address_of(peer.address, peer.is_v6);
	weir__address_write(&address, ret_peer);
}

void weir__audit_who_asks(const struct weir__client *client, enum weir__wire_number wire,
			  struct weir__audit_who *ret_who)
{
	(void)snprintf(ret_who->user, sizeof(ret_who->user), "%s", client->user ? client->user->name : "-");
	write_peer(client, ret_who->peer);
	ret_who->by = wire == WEIR__WIRE_HTTP ? "http" : "resp";
}

struct weir__audit_who weir__audit_nobody(const char *by)
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

/* As settings say for rejections: who does not want keys in the log does not want them here. */
static void add_key(struct weir__log_line *line, const struct weir__context *context, const struct weir_claim *claim)
{
	const bool is_of_policy = context->policies && claim->limit->index != context->limits.counted_as->index;
	char text[WEIR__KEY_TEXT_SIZE], hash[17];

	if (context->settings == NULL || context->settings->log_rejections != WEIR__REJECTIONS_HASH) {
		if (is_of_policy)
			weir__log_text(line, "key", text,
				       weir__guard_key_text(weir__policies_guard(context->policies),
							    weir_table_limit_name(claim->limit), claim->key,
							    claim->key_length, claim->key_length, text, sizeof(text)));
		else
			weir__log_text(line, "key", claim->key, claim->key_length);
		return;
	}
	(void)snprintf(hash, sizeof(hash), "%016llx",
		       (unsigned long long)weir__hash(&claim->limit->secret, claim->key, claim->key_length));
	weir__log_word(line, "key_hash", hash);
}

bool weir__audit_has_line(const struct weir__context *context, const struct weir__client *client,
			  enum weir__store_operation operation)
{
	const bool may_only_decide = client->user && client->user->role != WEIR__ROLE_ADMIN;

	return context->log &&
	       (operation == WEIR__STORE_RESET || (operation == WEIR__STORE_REFUND && !may_only_decide));
}

void weir__audit_key(const struct weir__context *context, const struct weir__audit_who *who,
		     enum weir__store_operation operation, const struct weir_claim *claim,
		     const struct weir_verdict *verdict)
{
	const bool is_reset = operation == WEIR__STORE_RESET;
	struct weir__log_line line;
	char name[WEIR_TABLE_NAME_MAX + WEIR_LIMIT_TEXT_MAX];

	weir__audit_begin(&line, context->log, who, is_reset ? "key_reset" : "key_refunded");
	weir__limits_write_name(context->limits.counted_as, claim->limit, name, sizeof(name));
	weir__log_word(&line, "limit", name);
	add_key(&line, context, claim);
	if (is_reset) {
		weir__log_truth(&line, "was_stored", verdict->allowed);
	} else {
		weir__log_number(&line, "given_back", claim->cost);
		weir__log_number(&line, "remaining", verdict->remaining);
	}
	weir__audit_end(&line, context->log, NULL);
}

void weir__audit_stranger(const struct weir__context *context, const struct weir__client *client,
			  enum weir__wire_number wire, const struct weir__user *claimed)
{
	struct weir__audit_who who;
	struct weir__log_line line;
	uint64_t left_out;

	if (context->tallies == NULL || context->tally == NULL)
		return;
	weir__tally_add(&context->tally->strangers[wire], 1);
	if (context->log == NULL || !weir__tallies_may_tell(context->tallies, WEIR__TOLD_STRANGER, &left_out))
		return;
	weir__audit_who_asks(client, wire, &who);
	(void)snprintf(who.user, sizeof(who.user), "%s", claimed ? claimed->name : "-");
	weir__audit_begin(&line, context->log, &who, "auth_failed");
	if (left_out > 0)
		weir__log_number(&line, "left_out", left_out);
	weir__audit_end(&line, context->log,
			wire == WEIR__WIRE_HTTP ? "wrong token" :
			claimed                 ? "wrong password" :
						  "there is no such user");
}

void weir__audit_policy(struct weir__log *log, uint64_t limits, const char *fault)
{
	const struct weir__audit_who nobody = weir__audit_nobody("file");
	struct weir__log_line line;

	weir__audit_begin(&line, log, &nobody, "policy_reloaded");
	weir__log_number(&line, "limits", limits);
	weir__audit_end(&line, log, *fault ? fault : NULL);
}
