/* commands_decide.c: commands that ask the table. What takes is gathered; what must know the answers before it is not. */
#include "serve/command.h"

#include <stdio.h>

static bool read_cost(const struct weir__call *call, uint32_t place, uint64_t *ret_cost)
{
	int64_t number = 1;

	if (place < call->n && (!weir__read_signed(&call->arguments[place], &number) || number < 0)) {
		weir__say_error(call, "ERR a cost is a whole number, 0 or more");
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
static const struct weir_table_limit *limit_for(struct weir__call *call, enum weir__space space,
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
	weir__say_error(call, text);
	return NULL;
}

static void gather(struct weir__call *call, const struct weir_table_limit *limit, uint64_t cost,
		   enum weir__answer_form form)
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

void weir__cl_throttle(struct weir__call *call)
{
	int64_t numbers[4] = { 0, 0, 0, 1 };
	const struct weir_table_limit *limit;
	struct weir_limit asked;

	if (call->n != 5 && call->n != 6) {
		weir__refuse(
			call,
			"Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]");
		return;
	}
	for (uint32_t i = 2; i < call->n; i++)
		if (!weir__read_signed(&call->arguments[i], &numbers[i - 2])) {
			weir__refuse(call, "Cell error: invalid digit found in string");
			return;
		}
	if (numbers[1] <= 0 || numbers[2] <= 0) {
		weir__refuse(call, "Cell error: Zero rates are not supported");
		return;
	}
	if (numbers[0] < 0 || numbers[0] == INT64_MAX || numbers[3] < 0 || numbers[2] > INT64_MAX / 1000000000 ||
	    numbers[2] * 1000000000 < numbers[1]) {
		weir__refuse(call, "Cell error: numbers out of range");
		return;
	}
	asked = bucket_of((uint64_t)numbers[0] + 1, (uint64_t)(numbers[2] * 1000000000 / numbers[1]));
	limit = limit_for(call, WEIR__SPACE_CELL, &asked);
	if (limit)
		gather(call, limit, (uint64_t)numbers[3], WEIR__ANSWER_CELL);
}

void weir__throttle(struct weir__call *call)
{
	static const char *const invalid[] = { "ERR invalid max_burst", "ERR invalid count_per_period",
					       "ERR invalid period", "ERR invalid quantity" };
	int64_t numbers[4] = { 0, 0, 0, 1 };
	const struct weir_table_limit *limit;
	struct weir_limit asked;

	if (call->n != 5 && call->n != 6) {
		weir__refuse(call, "ERR wrong number of arguments for 'throttle' command");
		return;
	}
	for (uint32_t i = 2; i < call->n; i++)
		if (!weir__read_signed(&call->arguments[i], &numbers[i - 2]) || numbers[i - 2] < (i < 5)) {
			weir__refuse(call, invalid[i - 2]);
			return;
		}
	if (numbers[2] > INT64_MAX / 1000000000 || numbers[2] * 1000000000 < numbers[1]) {
		weir__refuse(call, "ERR numbers out of range");
		return;
	}
	asked = bucket_of((uint64_t)numbers[0], (uint64_t)(numbers[2] * 1000000000 / numbers[1]));
	limit = limit_for(call, WEIR__SPACE_THROTTLE, &asked);
	if (limit)
		gather(call, limit, (uint64_t)numbers[3], WEIR__ANSWER_THROTTLE);
}

static const struct weir_table_limit *limit_of_text(struct weir__call *call)
{
	const struct weir__resp_slice *const text = &call->arguments[2];
	struct weir_limit asked;
	struct weir_message why;
	char words[sizeof(why.text) + 32];

	if (weir_limit_parse(text->bytes, text->length, &asked, &why) == WEIR_OK)
		return limit_for(call, WEIR__SPACE_TEXT, &asked);
	weir__commands_end_group(call->commands, call->client, call->writer);
	(void)snprintf(words, sizeof(words), "ERR the limit: %s", why.text);
	weir__say_error(call, words);
	return NULL;
}

void weir__take(struct weir__call *call)
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

static void ask_table(struct weir__call *call, ask *question)
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

void weir__upto(struct weir__call *call)
{
	ask_table(call, weir_table_upto);
}

void weir__peek(struct weir__call *call)
{
	ask_table(call, weir_table_peek);
}

void weir__refund(struct weir__call *call)
{
	ask_table(call, weir_table_refund);
}

void weir__reset(struct weir__call *call)
{
	const struct weir_table_limit *const limit = limit_of_text(call);

	weir__commands_end_group(call->commands, call->client, call->writer);
	if (limit)
		weir__resp_write_integer(call->writer,
					 weir_table_reset(call->commands->table, limit, call->arguments[1].bytes,
							  call->arguments[1].length));
}
