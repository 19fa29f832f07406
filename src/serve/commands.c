/* commands.c: one row for each command, from which help, COMMAND and the checks of arguments are made. */
#include "serve/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

struct call {
	struct weir__commands *commands;
	struct weir__client *client;
	const struct weir__resp_slice *arguments; /* the command first */
	uint32_t n;
	struct weir__resp_writer *writer;
};

typedef void run(struct call *call);

static run cl_throttle, throttle, take, upto, peek, refund, reset, ping, echo, hello, select_database, quit, client,
	command, info, config, help;

enum { IS_DECISION = 1, IS_FAST = 2 };

static const struct row {
	const char *name, *usage, *does;
	run *run;
	int least, most; /* arguments, the command with them */
	int flags;
	int key; /* place of the key, or 0 */
} rows[] = {
	{ "cl.throttle", "KEY MAX_BURST COUNT PERIOD [QUANTITY]",
	  "as redis-cell: 0 is allowed, limit, left, retry and reset in s", cl_throttle, 1, INT32_MAX, IS_DECISION, 1 },
	{ "throttle", "KEY MAX_BURST COUNT PERIOD [QUANTITY]",
	  "as throttlecrab: 1 is allowed, limit, left, reset and retry in s", throttle, 1, INT32_MAX, IS_DECISION, 1 },
	{ "weir.take", "KEY LIMIT [COST]",
	  "admits and charges, or not: allowed, limit, left, retry, reset, delay in ns", take, 3, 4, IS_DECISION, 1 },
	{ "weir.upto", "KEY LIMIT COST", "charges as many as there are, at most COST", upto, 4, 4, IS_DECISION, 1 },
	{ "weir.peek", "KEY LIMIT [COST]", "what take would answer; charges nothing", peek, 3, 4, IS_DECISION, 1 },
	{ "weir.refund", "KEY LIMIT N", "gives N back", refund, 4, 4, IS_DECISION, 1 },
	{ "weir.reset", "KEY LIMIT", "forgets what the key owes: 1, or 0 if that was nothing", reset, 3, 3, IS_DECISION,
	  1 },
	{ "ping", "[TEXT]", "PONG, or the text", ping, 1, 2, IS_FAST, 0 },
	{ "echo", "TEXT", "the text", echo, 2, 2, IS_FAST, 0 },
	{ "hello", "[2|3 [SETNAME NAME]]", "what this is; 3 changes to RESP3", hello, 1, 10, IS_FAST, 0 },
	{ "select", "0", "there is one database", select_database, 2, 2, IS_FAST, 0 },
	{ "quit", "", "says OK and closes", quit, 1, INT32_MAX, IS_FAST, 0 },
	{ "client", "ID|GETNAME|SETNAME|SETINFO ...", "of this connection", client, 2, INT32_MAX, IS_FAST, 0 },
	{ "command", "[COUNT|DOCS|INFO ...]", "what commands there are", command, 1, INT32_MAX, 0, 0 },
	{ "info", "[SECTION]", "the server and its table", info, 1, INT32_MAX, 0, 0 },
	{ "config", "GET PATTERN", "no settings that Redis has", config, 3, INT32_MAX, 0, 0 },
	{ "help", "", "this list", help, 1, 1, 0, 0 },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool is_word(const struct weir__resp_slice *slice, const char *word)
{
	return slice->length == strlen(word) && strncasecmp(slice->bytes, word, slice->length) == 0;
}

static void say_error(const struct call *call, const char *text)
{
	weir__resp_write_error(call->writer, text, strlen(text));
}

static void say_ok(const struct call *call)
{
	weir__resp_write_simple(call->writer, "OK", 2);
}

static void say_word(const struct call *call, const char *word)
{
	weir__resp_write_bulk(call->writer, word, strlen(word));
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

/* A whole number of 64 bits with a sign, as redis-cell and throttlecrab read them. */
static bool read_signed(const struct weir__resp_slice *slice, int64_t *ret_number)
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

static bool read_cost(const struct call *call, uint32_t place, uint64_t *ret_cost)
{
	int64_t number = 1;

	if (place < call->n && (!read_signed(&call->arguments[place], &number) || number < 0)) {
		say_error(call, "ERR a cost is a whole number, 0 or more");
		return false;
	}
	*ret_cost = (uint64_t)number;
	return true;
}

/* --- decisions -------------------------------------------------------------------------------------------------- */

/* Rounded as redis-cell does: up, if there is a millisecond more. */
static int64_t seconds_of_cell(weir_ns span)
{
	const int64_t s = (int64_t)(span / 1000000000);

	return s + (span % 1000000000 >= 1000000);
}

static int64_t signed_of(uint64_t number)
{
	return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static void answer_cell(const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	const int64_t numbers[] = { !verdict->allowed, signed_of(verdict->limit), signed_of(verdict->remaining),
				    verdict->allowed || verdict->never ? -1 : seconds_of_cell(verdict->retry_after),
				    seconds_of_cell(verdict->reset_after) };

	weir__resp_write_integers(writer, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

static void answer_throttle(const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	const int64_t numbers[] = { verdict->allowed, signed_of(verdict->limit), signed_of(verdict->remaining),
				    (int64_t)(verdict->reset_after / 1000000000),
				    verdict->never ? 0 : (int64_t)(verdict->retry_after / 1000000000) };

	weir__resp_write_integers(writer, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

/* retry is -1 if no wait will help. */
static void answer_weir(const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	static const char *const names[] = { "allowed",     "limit",       "remaining", "granted",
					     "retry_after", "reset_after", "delay" };
	const int64_t numbers[] = { verdict->allowed,
				    signed_of(verdict->limit),
				    signed_of(verdict->remaining),
				    signed_of(verdict->granted),
				    verdict->never ? -1 : signed_of(verdict->retry_after),
				    signed_of(verdict->reset_after),
				    signed_of(verdict->delay) };
	const size_t n = sizeof(numbers) / sizeof(numbers[0]);

	if (writer->protocol < 3) {
		weir__resp_write_integers(writer, numbers, n);
		return;
	}
	weir__resp_write_map(writer, n);
	for (size_t i = 0; i < n; i++) {
		weir__resp_write_simple(writer, names[i], strlen(names[i]));
		if (i == 0)
			weir__resp_write_boolean(writer, verdict->allowed);
		else
			weir__resp_write_integer(writer, numbers[i]);
	}
}

static void answer(enum weir__answer_form form, const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	switch (form) {
	case WEIR__ANSWER_CELL:
		answer_cell(verdict, writer);
		break;
	case WEIR__ANSWER_THROTTLE:
		answer_throttle(verdict, writer);
		break;
	default:
		answer_weir(verdict, writer);
	}
}

void weir__commands_end_group(struct weir__commands *commands, struct weir__client *client,
			      struct weir__resp_writer *writer)
{
	struct weir_verdict verdicts[WEIR__GROUP];

	(void)client;
	if (commands->n == 0)
		return;
	weir_table_take_batch(commands->table, commands->claims, commands->n, weir_table_now(commands->table),
			      verdicts);
	for (size_t i = 0; i < commands->n; i++)
		answer(commands->forms[i], &verdicts[i], writer);
	commands->n = 0;
}

/* The limit of a request, found or made. NULL: that was answered. */
static const struct weir_table_limit *limit_for(struct call *call, enum weir__space space,
						const struct weir_limit *asked)
{
	struct weir__commands *const commands = call->commands;
	const struct weir_table_limit *limit;
	struct weir_message why;
	char text[sizeof(why.text) + 8];

	if (weir__limits_will_drop(&commands->limits, space, asked)) /* it may be one that was gathered */
		weir__commands_end_group(commands, call->client, call->writer);
	if (weir__limits_find(&commands->limits, space, asked, &limit, &why) == WEIR_OK)
		return limit;
	weir__commands_end_group(commands, call->client, call->writer);
	(void)snprintf(text, sizeof(text), "ERR %s", why.text);
	say_error(call, text);
	return NULL;
}

static void gather(struct call *call, const struct weir_table_limit *limit, uint64_t cost, enum weir__answer_form form)
{
	struct weir__commands *const commands = call->commands;

	commands->claims[commands->n] = (struct weir_claim){
		.limit = limit, .key = call->arguments[1].bytes, .key_length = call->arguments[1].length, .cost = cost
	};
	commands->forms[commands->n] = form;
	commands->n++;
}

/* A bucket of `burst` that regains one unit each `each` ns: the state of its key is one instant, whatever these are. */
static struct weir_limit bucket_of(uint64_t burst, uint64_t each)
{
	return (struct weir_limit){
		.algorithm = WEIR_TOKEN_BUCKET, .count = 1, .period = each, .burst = burst, .segments = 1
	};
}

static void refuse(struct call *call, const char *text)
{
	weir__commands_end_group(call->commands, call->client, call->writer);
	say_error(call, text);
}

static void cl_throttle(struct call *call)
{
	int64_t numbers[4] = { 0, 0, 0, 1 };
	const struct weir_table_limit *limit;
	struct weir_limit asked;

	if (call->n != 5 && call->n != 6) {
		refuse(call,
		       "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]");
		return;
	}
	for (uint32_t i = 2; i < call->n; i++)
		if (!read_signed(&call->arguments[i], &numbers[i - 2])) {
			refuse(call, "Cell error: invalid digit found in string");
			return;
		}
	if (numbers[1] <= 0 || numbers[2] <= 0) {
		refuse(call, "Cell error: Zero rates are not supported");
		return;
	}
	if (numbers[0] < 0 || numbers[0] == INT64_MAX || numbers[3] < 0 || numbers[2] > INT64_MAX / 1000000000 ||
	    numbers[2] * 1000000000 < numbers[1]) {
		refuse(call, "Cell error: numbers out of range");
		return;
	}
	asked = bucket_of((uint64_t)numbers[0] + 1, (uint64_t)(numbers[2] * 1000000000 / numbers[1]));
	limit = limit_for(call, WEIR__SPACE_CELL, &asked);
	if (limit)
		gather(call, limit, (uint64_t)numbers[3], WEIR__ANSWER_CELL);
}

static void throttle(struct call *call)
{
	static const char *const invalid[] = { "ERR invalid max_burst", "ERR invalid count_per_period",
					       "ERR invalid period", "ERR invalid quantity" };
	int64_t numbers[4] = { 0, 0, 0, 1 };
	const struct weir_table_limit *limit;
	struct weir_limit asked;

	if (call->n != 5 && call->n != 6) {
		refuse(call, "ERR wrong number of arguments for 'throttle' command");
		return;
	}
	for (uint32_t i = 2; i < call->n; i++)
		if (!read_signed(&call->arguments[i], &numbers[i - 2]) || numbers[i - 2] < (i < 5)) {
			refuse(call, invalid[i - 2]);
			return;
		}
	if (numbers[2] > INT64_MAX / 1000000000 || numbers[2] * 1000000000 < numbers[1]) {
		refuse(call, "ERR numbers out of range");
		return;
	}
	asked = bucket_of((uint64_t)numbers[0], (uint64_t)(numbers[2] * 1000000000 / numbers[1]));
	limit = limit_for(call, WEIR__SPACE_THROTTLE, &asked);
	if (limit)
		gather(call, limit, (uint64_t)numbers[3], WEIR__ANSWER_THROTTLE);
}

static const struct weir_table_limit *limit_of_text(struct call *call)
{
	const struct weir__resp_slice *const text = &call->arguments[2];
	struct weir_limit asked;
	struct weir_message why;
	char words[sizeof(why.text) + 32];

	if (weir_limit_parse(text->bytes, text->length, &asked, &why) == WEIR_OK)
		return limit_for(call, WEIR__SPACE_TEXT, &asked);
	weir__commands_end_group(call->commands, call->client, call->writer);
	(void)snprintf(words, sizeof(words), "ERR the limit: %s", why.text);
	say_error(call, words);
	return NULL;
}

static void take(struct call *call)
{
	const struct weir_table_limit *const limit = limit_of_text(call);
	uint64_t cost;

	if (limit == NULL)
		return;
	if (call->n > 3)
		weir__commands_end_group(call->commands, call->client, call->writer);
	if (read_cost(call, 3, &cost))
		gather(call, limit, cost, WEIR__ANSWER_WEIR);
}

typedef struct weir_verdict ask(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				size_t key_length, weir_ns now, uint64_t cost);

static void ask_table(struct call *call, ask *question)
{
	struct weir_table *const table = call->commands->table;
	const struct weir_table_limit *const limit = limit_of_text(call);
	struct weir_verdict verdict;
	uint64_t cost;

	weir__commands_end_group(call->commands, call->client, call->writer);
	if (limit == NULL || !read_cost(call, 3, &cost))
		return;
	verdict = question(table, limit, call->arguments[1].bytes, call->arguments[1].length, weir_table_now(table),
			   cost);
	answer_weir(&verdict, call->writer);
}

static void upto(struct call *call)
{
	ask_table(call, weir_table_upto);
}

static void peek(struct call *call)
{
	ask_table(call, weir_table_peek);
}

static void refund(struct call *call)
{
	ask_table(call, weir_table_refund);
}

static void reset(struct call *call)
{
	const struct weir_table_limit *const limit = limit_of_text(call);

	weir__commands_end_group(call->commands, call->client, call->writer);
	if (limit)
		weir__resp_write_integer(call->writer,
					 weir_table_reset(call->commands->table, limit, call->arguments[1].bytes,
							  call->arguments[1].length));
}

/* --- connections ------------------------------------------------------------------------------------------------ */

static void ping(struct call *call)
{
	if (call->n > 1)
		weir__resp_write_bulk(call->writer, call->arguments[1].bytes, call->arguments[1].length);
	else
		weir__resp_write_simple(call->writer, "PONG", 4);
}

static void echo(struct call *call)
{
	weir__resp_write_bulk(call->writer, call->arguments[1].bytes, call->arguments[1].length);
}

static void say_hello(const struct call *call)
{
	weir__resp_write_map(call->writer, 7);
	say_word(call, "server");
	say_word(call, "weir");
	say_word(call, "version");
	say_word(call, WEIR_VERSION);
	say_word(call, "proto");
	weir__resp_write_integer(call->writer, call->client->protocol);
	say_word(call, "id");
	weir__resp_write_unsigned(call->writer, call->client->number);
	say_word(call, "mode");
	say_word(call, "standalone");
	say_word(call, "role");
	say_word(call, "master");
	say_word(call, "modules");
	weir__resp_write_array(call->writer, 0);
}

static void hello(struct call *call)
{
	int64_t protocol = call->client->protocol;

	if (call->n > 1 && (!read_signed(&call->arguments[1], &protocol) || protocol < 2 || protocol > 3)) {
		say_error(call, "NOPROTO unsupported protocol version");
		return;
	}
	for (uint32_t i = 2; i < call->n; i += 2)
		if (!is_word(&call->arguments[i], "SETNAME") || i + 1 == call->n) {
			say_error(
				call,
				is_word(&call->arguments[i], "AUTH") ?
					"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?" :
					"ERR Syntax error in HELLO option");
			return;
		}
	call->client->protocol = call->writer->protocol = (int)protocol;
	say_hello(call);
}

static void select_database(struct call *call)
{
	int64_t number;

	if (!read_signed(&call->arguments[1], &number))
		say_error(call, "ERR value is not an integer or out of range");
	else if (number != 0)
		say_error(call, "ERR DB index is out of range");
	else
		say_ok(call);
}

static void quit(struct call *call)
{
	call->client->is_leaving = true;
	say_ok(call);
}

static void client(struct call *call)
{
	const struct weir__resp_slice *const what = &call->arguments[1];

	if (is_word(what, "ID"))
		weir__resp_write_unsigned(call->writer, call->client->number);
	else if (is_word(what, "SETNAME") || is_word(what, "SETINFO") || is_word(what, "NO-EVICT") ||
		 is_word(what, "NO-TOUCH"))
		say_ok(call);
	else if (is_word(what, "GETNAME"))
		weir__resp_write_null(call->writer);
	else
		say_error(call, "ERR unknown subcommand. Try CLIENT ID, GETNAME, SETNAME or SETINFO.");
}

/* --- about commands --------------------------------------------------------------------------------------------- */

static void describe(const struct call *call, const struct row *row)
{
	weir__resp_write_array(call->writer, 6);
	say_word(call, row->name);
	weir__resp_write_integer(call->writer, row->most == row->least ? row->least : -row->least);
	weir__resp_write_set(call->writer, 1);
	weir__resp_write_simple(call->writer, row->flags & IS_DECISION ? "write" : "fast",
				row->flags & IS_DECISION ? 5 : 4);
	weir__resp_write_integer(call->writer, row->key);
	weir__resp_write_integer(call->writer, row->key);
	weir__resp_write_integer(call->writer, row->key ? 1 : 0);
}

static void command(struct call *call)
{
	if (call->n > 1 && is_word(&call->arguments[1], "COUNT")) {
		weir__resp_write_integer(call->writer, ROWS);
	} else if (call->n > 1 && is_word(&call->arguments[1], "DOCS")) {
		weir__resp_write_map(call->writer, ROWS);
		for (size_t i = 0; i < ROWS; i++) {
			say_word(call, rows[i].name);
			weir__resp_write_map(call->writer, 2);
			say_word(call, "summary");
			say_word(call, rows[i].does);
			say_word(call, "arguments");
			weir__resp_write_array(call->writer, 0);
		}
	} else {
		weir__resp_write_array(call->writer, ROWS);
		for (size_t i = 0; i < ROWS; i++)
			describe(call, &rows[i]);
	}
}

static void info(struct call *call)
{
	char text[1024];
	struct weir_table_limit_stats decisions;
	int length;

	weir_table_limit_stats(call->commands->table, call->commands->limits.counted_as, &decisions);
	length = snprintf(text, sizeof(text),
			  "# Server\r\nweir_version:" WEIR_VERSION
			  "\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
			  "\r\n# Decisions\r\nallowed:%" PRIu64 "\r\ndenied:%" PRIu64 "\r\n",
			  decisions.allowed, decisions.denied);
	weir__resp_write_verbatim(call->writer, "txt", text, (size_t)length);
}

static void config(struct call *call)
{
	if (is_word(&call->arguments[1], "GET"))
		weir__resp_write_map(call->writer, 0);
	else
		say_error(call, "ERR settings are changed where weir serve is started");
}

static void help(struct call *call)
{
	char line[256];

	weir__resp_write_array(call->writer, ROWS);
	for (size_t i = 0; i < ROWS; i++) {
		const int length = snprintf(line, sizeof(line), "%s %s: %s", rows[i].name, rows[i].usage, rows[i].does);

		weir__resp_write_simple(call->writer, line, (size_t)length);
	}
}

/* --- which ------------------------------------------------------------------------------------------------------ */

static const struct row *find(const struct weir__resp_slice *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (is_word(name, rows[i].name))
			return &rows[i];
	return NULL;
}

/* As Redis says it: with the first words of what was meant. */
static void refuse_unknown(struct call *call)
{
	char text[512];
	int length = snprintf(text, sizeof(text), "ERR unknown command '%.*s', with args beginning with: ",
			      (int)weir__min(call->arguments[0].length, 128), call->arguments[0].bytes);

	for (uint32_t i = 1; i < call->n && length < 128 + 64; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "'%.*s' ",
				   (int)weir__min(call->arguments[i].length, 128), call->arguments[i].bytes);
	weir__resp_write_error(call->writer, text, (size_t)length);
}

static void refuse_arity(struct call *call, const struct row *row)
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
	struct call call = { commands, client, arguments, n, writer };
	const struct row *const row = find(&arguments[0]);

	if (writer->length + (commands->n + 1) * WEIR__DECISION_MOST + WEIR__ANSWER_MOST +
		    (n > 1 ? arguments[1].length : 0) >
	    writer->size)
		return false;
	if (commands->n == WEIR__GROUP || row == NULL || !(row->flags & IS_DECISION))
		weir__commands_end_group(commands, client, writer);
	if (row == NULL)
		refuse_unknown(&call);
	else if ((int64_t)n < row->least || (int64_t)n > row->most)
		refuse_arity(&call, row);
	else
		row->run(&call);
	return true;
}
