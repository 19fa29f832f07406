/* commands_client.c: commands about a connection and who is at its other end. */
#include "serve/command.h"

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
	weir__resp_write_integer(call->writer, call->client->protocol);
	weir__say_word(call, "id");
	weir__resp_write_unsigned(call->writer, call->client->number);
	weir__say_word(call, "mode");
	weir__say_word(call, "standalone");
	weir__say_word(call, "role");
	weir__say_word(call, "master");
	weir__say_word(call, "modules");
	weir__resp_write_array(call->writer, 0);
}

void weir__hello(struct weir__call *call)
{
	int64_t protocol = call->client->protocol;

	if (call->n > 1 && (!weir__read_signed(&call->arguments[1], &protocol) || protocol < 2 || protocol > 3)) {
		weir__say_error(call, "NOPROTO unsupported protocol version");
		return;
	}
	for (uint32_t i = 2; i < call->n; i += 2)
		if (!weir__is_word(&call->arguments[i], "SETNAME") || i + 1 == call->n) {
			weir__say_error(
				call,
				weir__is_word(&call->arguments[i], "AUTH") ?
					"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?" :
					"ERR Syntax error in HELLO option");
			return;
		}
	call->client->protocol = call->writer->protocol = (int)protocol;
	say_hello(call);
}

void weir__select(struct weir__call *call)
{
	int64_t number;

	if (!weir__read_signed(&call->arguments[1], &number))
		weir__say_error(call, "ERR value is not an integer or out of range");
	else if (number != 0)
		weir__say_error(call, "ERR DB index is out of range");
	else
		weir__say_ok(call);
}

void weir__quit(struct weir__call *call)
{
	call->client->is_leaving = true;
	weir__say_ok(call);
}

void weir__client_command(struct weir__call *call)
{
	const struct weir__resp_slice *const what = &call->arguments[1];

	if (weir__is_word(what, "ID"))
		weir__resp_write_unsigned(call->writer, call->client->number);
	else if (weir__is_word(what, "SETNAME") || weir__is_word(what, "SETINFO") || weir__is_word(what, "NO-EVICT") ||
		 weir__is_word(what, "NO-TOUCH"))
		weir__say_ok(call);
	else if (weir__is_word(what, "GETNAME"))
		weir__resp_write_null(call->writer);
	else
		weir__say_error(call, "ERR unknown subcommand. Try CLIENT ID, GETNAME, SETNAME or SETINFO.");
}
