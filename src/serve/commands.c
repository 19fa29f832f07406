/* commands.c: one row for each command, from which help, COMMAND and the checks of arguments are made. */
#include "serve/command.h"

#include <stdio.h>
#include <strings.h>

const struct weir__command weir__command_rows[] = {
	{ "cl.throttle", "KEY MAX_BURST COUNT PERIOD [QUANTITY]",
	  "as redis-cell: 0 is allowed, limit, left, retry and reset in s", weir__cl_throttle, 1, INT32_MAX,
	  WEIR__IS_DECISION, 1 },
	{ "throttle", "KEY MAX_BURST COUNT PERIOD [QUANTITY]",
	  "as throttlecrab: 1 is allowed, limit, left, reset and retry in s", weir__throttle, 1, INT32_MAX,
	  WEIR__IS_DECISION, 1 },
	{ "weir.take", "KEY LIMIT [COST]",
	  "admits and charges, or not: allowed, limit, left, retry, reset, delay in ns", weir__take, 3, 4,
	  WEIR__IS_DECISION, 1 },
	{ "weir.upto", "KEY LIMIT COST", "charges as many as there are, at most COST", weir__upto, 4, 4,
	  WEIR__IS_DECISION, 1 },
	{ "weir.peek", "KEY LIMIT [COST]", "what take would answer; charges nothing", weir__peek, 3, 4,
	  WEIR__IS_DECISION, 1 },
	{ "weir.refund", "KEY LIMIT N", "gives N back", weir__refund, 4, 4, WEIR__IS_DECISION, 1 },
	{ "weir.reset", "KEY LIMIT", "forgets what the key owes: 1, or 0 if that was nothing", weir__reset, 3, 3,
	  WEIR__IS_DECISION, 1 },
	{ "ping", "[TEXT]", "PONG, or the text", weir__ping, 1, 2, WEIR__IS_FAST, 0 },
	{ "echo", "TEXT", "the text", weir__echo, 2, 2, WEIR__IS_FAST, 0 },
	{ "hello", "[2|3 [SETNAME NAME]]", "what this is; 3 changes to RESP3", weir__hello, 1, 10, WEIR__IS_FAST, 0 },
	{ "select", "0", "there is one database", weir__select, 2, 2, WEIR__IS_FAST, 0 },
	{ "quit", "", "says OK and closes", weir__quit, 1, INT32_MAX, WEIR__IS_FAST, 0 },
	{ "client", "ID|GETNAME|SETNAME|SETINFO ...", "of this connection", weir__client_command, 2, INT32_MAX,
	  WEIR__IS_FAST, 0 },
	{ "command", "[COUNT|DOCS|INFO ...]", "what commands there are", weir__command_command, 1, INT32_MAX, 0, 0 },
	{ "info", "[SECTION]", "the server and its table", weir__info, 1, INT32_MAX, 0, 0 },
	{ "config", "GET PATTERN", "no settings that Redis has", weir__config, 3, INT32_MAX, 0, 0 },
	{ "help", "", "this list", weir__help, 1, 1, 0, 0 },
};

const size_t weir__command_rows_n = sizeof(weir__command_rows) / sizeof(weir__command_rows[0]);

bool weir__is_word(const struct weir__resp_slice *slice, const char *word)
{
	return slice->length == strlen(word) && strncasecmp(slice->bytes, word, slice->length) == 0;
}

void weir__say_error(const struct weir__call *call, const char *text)
{
	weir__resp_write_error(call->writer, text, strlen(text));
}

void weir__say_ok(const struct weir__call *call)
{
	weir__resp_write_simple(call->writer, "OK", 2);
}

void weir__say_word(const struct weir__call *call, const char *word)
{
	weir__resp_write_bulk(call->writer, word, strlen(word));
}

void weir__refuse(struct weir__call *call, const char *text)
{
	weir__commands_end_group(call->commands, call->client, call->writer);
	weir__say_error(call, text);
}

bool weir__read_signed(const struct weir__resp_slice *slice, int64_t *ret_number)
{
	const bool is_negative = slice->length > 0 && *slice->bytes == '-';
	size_t i = slice->length > 0 && (*slice->bytes == '-' || *slice->bytes == '+');
	int64_t number = 0;

	if (i == slice->length)
		return false;
	for (; i < slice->length; i++) {
		const int digit = slice->bytes[i] - '0';

		if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
		    (is_negative ? __builtin_sub_overflow(number, digit, &number) :
				   __builtin_add_overflow(number, digit, &number)))
			return false;
	}
	*ret_number = number;
	return true;
}

/* --- which ------------------------------------------------------------------------------------------------------ */

static const struct weir__command *find(const struct weir__resp_slice *name)
{
	for (size_t i = 0; i < weir__command_rows_n; i++)
		if (weir__is_word(name, weir__command_rows[i].name))
			return &weir__command_rows[i];
	return NULL;
}

/* A browser that was made to talk to us begins with one of these. As Redis does, nothing of it is answered, nor is what
 * follows looked at. */
static bool is_of_http(const struct weir__resp_slice *name)
{
	return weir__is_word(name, "POST") || weir__is_word(name, "Host:");
}

/* As Redis says it: with the first words of what was meant, of which 128 bytes are enough. */
static void refuse_unknown(struct weir__call *call)
{
	char text[512];
	int length = snprintf(text, sizeof(text), "ERR unknown command '%.*s', with args beginning with: ",
			      (int)weir__min(call->arguments[0].length, 128), call->arguments[0].bytes);
	const int most = length + 128;

	if (is_of_http(&call->arguments[0])) {
		call->client->is_leaving = true;
		return;
	}
	for (uint32_t i = 1; i < call->n && length < most; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "'%.*s' ",
				   (int)weir__min(call->arguments[i].length, (uint64_t)(most - length)),
				   call->arguments[i].bytes);
	weir__resp_write_error(call->writer, text, (size_t)length);
}

static void refuse_arity(struct weir__call *call, const struct weir__command *row)
{
	char text[128];
	const int length = snprintf(text, sizeof(text), "ERR wrong number of arguments for '%s' command", row->name);

	weir__commands_end_group(call->commands, call->client, call->writer);
	weir__resp_write_error(call->writer, text, (size_t)length);
}

void weir__commands_init(struct weir__commands *commands, struct weir_table *table,
			 const struct weir_table_limit *counted_as)
{
	commands->table = table;
	commands->n = 0;
	weir__limits_init(&commands->limits, table, counted_as);
}

bool weir__commands_do(struct weir__commands *commands, struct weir__client *client,
		       const struct weir__resp_slice *arguments, uint32_t n, struct weir__resp_writer *writer)
{
	struct weir__call call = { commands, client, arguments, n, writer };
	const struct weir__command *const row = find(&arguments[0]);

	if (writer->length + (commands->n + 1) * WEIR__DECISION_MOST + WEIR__ANSWER_MOST +
		    (n > 1 ? arguments[1].length : 0) >
	    writer->size)
		return false;
	if (commands->n == WEIR__GROUP || row == NULL || !(row->flags & WEIR__IS_DECISION))
		weir__commands_end_group(commands, client, writer);
	if (row == NULL)
		refuse_unknown(&call);
	else if ((int64_t)n < row->least || (int64_t)n > row->most)
		refuse_arity(&call, row);
	else
		row->run(&call);
	return true;
}
