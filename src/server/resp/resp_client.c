/* resp_client.c: commands about a connection and its user. */
#include "server/resp/resp_command.h"

#include <weir/clock.h>

#include <stdio.h>
#include <string.h>

#include "engine/auth_limit.h"
#include "engine/request_audit.h"
#include "server/resp/client_info.h"
#include "server/resp/resp_transaction.h"

/* --- connections ------------------------------------------------------------------------------------------------ */

void weir__ping(struct weir__call *call)
{
	if (call->n > 1)
		weir__resp_write_bulk(call->writer, call->arguments[1].bytes, call->arguments[1].length);
	else
		weir__resp_write_simple(call->writer, "PONG", 4);
}

void weir__echo(struct weir__call *call)
{
	weir__resp_write_bulk(call->writer, call->arguments[1].bytes, call->arguments[1].length);
}

static void say_hello(const struct weir__call *call)
{
	weir__resp_write_map(call->writer, 7);
	weir__say_word(call, "server");
	weir__say_word(call, "weir");
	weir__say_word(call, "version");
	weir__say_word(call, WEIR_VERSION);
	weir__say_word(call, "proto");
	weir__resp_write_integer(call->writer, call->client->resp_version);
	weir__say_word(call, "id");
	weir__resp_write_unsigned(call->writer, call->client->number);
	weir__say_word(call, "mode");
	weir__say_word(call, "standalone");
	weir__say_word(call, "role");
	weir__say_word(call, "master");
	weir__say_word(call, "modules");
	weir__resp_write_array(call->writer, 0);
}

/* --- users ------------------------------------------------------------------------------------------------------ */

/* The user of AUTH without a name. */
static const struct weir__resp_slice unnamed = { WEIR__USER_DEFAULT, sizeof(WEIR__USER_DEFAULT) - 1 };

/* Returns NULL for a client without an address, such as one of a Unix socket. */
static const struct weir__address *address_of(const struct weir__client *client, struct weir__address *memory)
{
	char peer[WEIR__AUDIT_PEER] = "";

	if (client->write_peer)
		client->write_peer(client, peer);
	return weir__address_read(weir__slice_of(peer), memory) ? memory : NULL;
}

static struct weir__auth_source source_of(const struct weir__client *client, struct weir__address *memory)
{
	const struct weir__address *const address = address_of(client, memory);

	return (struct weir__auth_source){ address, address };
}

static bool is_limited(const struct weir__call *call)
{
	struct weir__auth_limit *const limit = call->context->auth_limit;
	struct weir__address memory;
	weir_ns retry_after;

	return limit && call->context->users && call->context->users->n > 0 &&
	       !weir__auth_limit_may_try(limit, source_of(call->client, &memory), weir_clock_now(), &retry_after);
}

static void note_failure(const struct weir__call *call)
{
	struct weir__address memory;

	if (call->context->auth_limit)
		weir__auth_limit_failed(call->context->auth_limit, source_of(call->client, &memory), weir_clock_now());
}

/* Authenticates the client. Without any users, it behaves like a Redis whose default user needs no password. */
static bool pass(struct weir__call *call, const struct weir__resp_slice *name, const struct weir__resp_slice *password)
{
	const struct weir__users *const users = call->context->users;
	const struct weir__user *user = NULL;
	bool is_right;

	if (is_limited(call)) {
		weir__audit_auth_limited(call->context, call->client, WEIR__PROTOCOL_RESP);
		weir__refuse(call, WEIR__ERROR_AUTH_LIMITED);
		call->client->is_leaving = true;
		return false;
	}
	if (users && users->n > 0) {
		user = weir__users_check(users, name->bytes, name->length, password->bytes, password->length);
		is_right = user != NULL;
	} else {
		is_right = name->length == unnamed.length && memcmp(name->bytes, unnamed.bytes, name->length) == 0;
	}
	if (is_right) {
		call->client->user = user;
	} else {
		note_failure(call);
		weir__audit_auth_failure(call->context, call->client, WEIR__PROTOCOL_RESP,
					 users ? weir__users_find(users, name->bytes, name->length) : NULL);
		weir__refuse(call, WEIR__ERROR_WRONGPASS);
	}
	return is_right;
}

void weir__auth(struct weir__call *call)
{
	const struct weir__users *const users = call->context->users;

	if (call->n > 3)
		weir__refuse(call, WEIR__ERROR_SYNTAX);
	else if (call->n == 2 && (users == NULL || users->n == 0))
		weir__refuse(call, WEIR__ERROR_AUTH_NONE);
	else if (pass(call, call->n == 3 ? &call->arguments[1] : &unnamed, &call->arguments[call->n - 1]))
		weir__say_ok(call);
}

static bool is_graphic(const struct weir__resp_slice *text)
{
	for (size_t i = 0; i < text->length; i++)
		if (text->bytes[i] < '!' || text->bytes[i] > '~')
			return false;
	return true;
}

/* Returns false after writing the error reply. An empty name removes the name. */
static bool set_name(struct weir__call *call, const struct weir__resp_slice *name)
{
	if (!is_graphic(name)) {
		weir__refuse(call, WEIR__ERROR_NAME_BYTES);
		return false;
	}
	if (name->length > WEIR__CLIENT_NAME_MAX) {
		weir__refuse(call, WEIR__ERROR_NAME_LENGTH);
		return false;
	}
	memcpy(call->client->name, name->bytes, name->length);
	call->client->name[name->length] = '\0';
	return true;
}

static void refuse_option(struct weir__call *call, const struct weir__resp_slice *option)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "%.*s'", (int)weir__min(option->length, 64), option->bytes);
	weir__refuse_with(call, WEIR__ERROR_HELLO_OPTION, text);
}

/* Applies the options one after another, as in Redis: what was applied before an error stays. */
static bool do_hello_options(struct weir__call *call)
{
	for (uint32_t i = 2; i < call->n; i++) {
		const struct weir__resp_slice *const option = &call->arguments[i];

		if (weir__is_word(option, "AUTH") && i + 2 < call->n) {
			if (!pass(call, option + 1, option + 2))
				return false;
			i += 2;
		} else if (weir__is_word(option, "SETNAME") && i + 1 < call->n) {
			if (!set_name(call, option + 1))
				return false;
			i++;
		} else {
			refuse_option(call, option);
			return false;
		}
	}
	return true;
}

static void set_maps(const struct weir__call *call, bool has_maps)
{
	call->client->has_maps = call->writer->has_maps = has_maps;
}

void weir__hello(struct weir__call *call)
{
	int64_t protocol = call->client->resp_version;

	if (call->n > 1 && !weir__read_signed(&call->arguments[1], &protocol)) {
		weir__refuse(call, WEIR__ERROR_HELLO_NUMBER);
	} else if (protocol < 2 || protocol > 3) {
		weir__refuse(call, WEIR__ERROR_HELLO_VERSION);
	} else if (!do_hello_options(call)) {
		return;
	} else if (weir__client_is_unauthenticated(call->context, call->client)) {
		weir__refuse(call, WEIR__ERROR_NOAUTH_HELLO);
	} else {
		call->client->resp_version = call->writer->resp_version = (int)protocol;
		set_maps(call, call->client->has_maps && protocol == 3);
		say_hello(call);
	}
}

/* Resets the connection to its initial state, for clients that share connections in a pool. */
void weir__reset_connection(struct weir__call *call)
{
	struct weir__client *const client = call->client;

	weir__transaction_drop(client);
	client->user = client->certificate_user;
	client->name[0] = '\0';
	client->resp_version = call->writer->resp_version = 2;
	set_maps(call, false);
	weir__resp_write_simple(call->writer, "RESET", 5);
}

/* Arrays are the default in RESP3, too. Client libraries flatten a map in different ways. With some of them the first
 * element is then the name of the first value, a string that counts as true in most languages. */
void weir__replies(struct weir__call *call)
{
	const bool is_map = weir__is_word(&call->arguments[1], "MAP");

	if (!is_map && !weir__is_word(&call->arguments[1], "ARRAY")) {
		weir__refuse(call, WEIR__ERROR_REPLIES_WORD);
	} else if (is_map && call->client->resp_version < 3) {
		weir__refuse(call, WEIR__ERROR_REPLIES_RESP2);
	} else {
		set_maps(call, is_map);
		weir__say_ok(call);
	}
}

static void who_am_i(struct weir__call *call)
{
	weir__say_word(call, call->client->user ? call->client->user->name : WEIR__USER_DEFAULT);
}

void weir__acl(struct weir__call *call)
{
	static const struct weir__subcommand rows[] = {
		{ "whoami", "the user of this connection", who_am_i, 2, 2 },
	};

	weir__run_subcommand(call, "acl", rows, sizeof(rows) / sizeof(rows[0]));
}

/* --- the connection --------------------------------------------------------------------------------------------- */

void weir__select(struct weir__call *call)
{
	int64_t number;

	if (!weir__read_signed(&call->arguments[1], &number))
		weir__refuse(call, WEIR__ERROR_SELECT_NUMBER);
	else if (number != 0)
		weir__refuse(call, WEIR__ERROR_SELECT_RANGE);
	else
		weir__say_ok(call);
}

/* Cluster clients send these to learn whether this is a cluster. */
void weir__cluster(struct weir__call *call)
{
	weir__refuse(call, WEIR__ERROR_CLUSTER);
}

void weir__quit(struct weir__call *call)
{
	call->client->is_leaving = true;
	weir__say_ok(call);
}

static void client_id(struct weir__call *call)
{
	weir__resp_write_unsigned(call->writer, call->client->number);
}

static void client_get_name(struct weir__call *call)
{
	if (call->client->name[0] == '\0')
		weir__resp_write_null(call->writer);
	else
		weir__say_word(call, call->client->name);
}

static void client_set_name(struct weir__call *call)
{
	if (set_name(call, &call->arguments[2]))
		weir__say_ok(call);
}

/* Clients describe themselves when they connect. The values are checked and ignored. The error texts are the same as in
 * Redis. */
static void client_set_info(struct weir__call *call)
{
	const struct weir__resp_slice *const name = &call->arguments[2], *const value = name + 1;
	char text[160];

	(void)snprintf(text, sizeof(text), "%.*s", (int)weir__min(name->length, 64), name->bytes);
	if (!weir__is_word(name, "lib-name") && !weir__is_word(name, "lib-ver")) {
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "'");
		weir__refuse_with(call, WEIR__ERROR_INFO_OPTION, text);
	} else if (!is_graphic(value)) {
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
			       " cannot contain spaces, newlines or special characters.");
		weir__refuse_with(call, WEIR__ERROR_INFO_BYTES, text);
	} else {
		weir__say_ok(call);
	}
}

/* NO-EVICT and NO-TOUCH are accepted and ignored. */
static void client_switch(struct weir__call *call)
{
	if (weir__is_word(&call->arguments[2], "ON") || weir__is_word(&call->arguments[2], "OFF"))
		weir__say_ok(call);
	else
		weir__refuse(call, WEIR__ERROR_SYNTAX);
}

/* Describes this connection. The reply is empty if it has no socket. */
static void client_info(struct weir__call *call)
{
	char line[WEIR__CLIENT_INFO_SIZE];
	const size_t length = call->client->write_peer ? weir__client_info(call->context, call->client, line) : 0;

	weir__resp_write_verbatim(call->writer, "txt", line, length);
}

void weir__client_command(struct weir__call *call)
{
	static const struct weir__subcommand rows[] = {
		{ "id", "the id of this connection", client_id, 2, 2 },
		{ "info", "details of this connection", client_info, 2, 2 },
		{ "getname", "the name of this connection", client_get_name, 2, 2 },
		{ "setname", "NAME: names this connection", client_set_name, 3, 3 },
		{ "setinfo", "LIB-NAME|LIB-VER TEXT: accepted and ignored", client_set_info, 4, 4 },
		{ "no-evict", "ON|OFF: accepted and ignored", client_switch, 3, 3 },
		{ "no-touch", "ON|OFF: accepted and ignored", client_switch, 3, 3 },
	};

	weir__run_subcommand(call, "client", rows, sizeof(rows) / sizeof(rows[0]));
}

/* --- subcommands ------------------------------------------------------------------------------------------------ */

static void help_subcommands(struct weir__call *call, const struct weir__subcommand *rows, size_t n)
{
	char line[128];

	weir__resp_write_array(call->writer, n);
	for (size_t i = 0; i < n; i++) {
		const int length = snprintf(line, sizeof(line), "%s %s", rows[i].name, rows[i].usage);

		weir__resp_write_simple(call->writer, line, (size_t)length);
	}
}

void weir__run_subcommand(struct weir__call *call, const char *command, const struct weir__subcommand *rows, size_t n)
{
	const struct weir__resp_slice *const word = &call->arguments[1];
	char text[160], name[WEIR__COMMAND_NAME_SIZE];

	if (weir__is_word(word, "HELP")) {
		help_subcommands(call, rows, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (!weir__is_word(word, rows[i].name))
			continue;
		if (call->n >= rows[i].least && call->n <= rows[i].most) {
			rows[i].run(call);
			return;
		}
		(void)snprintf(text, sizeof(text), "%s|%s' command", command, rows[i].name);
		weir__refuse_with(call, WEIR__ERROR_ARITY, text);
		return;
	}
	weir__write_capitals(command, name);
	(void)snprintf(text, sizeof(text), "%.*s'. Try %s HELP.", (int)weir__min(word->length, 64), word->bytes, name);
	weir__refuse_with(call, WEIR__ERROR_SUBCOMMAND, text);
}
