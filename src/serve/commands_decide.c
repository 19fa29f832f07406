/* commands_decide.c: commands that ask the table. What takes is gathered; what must know the answers before it is not. */
#include "serve/asked.h"
#include "serve/audit.h"
#include "serve/command.h"
#include "serve/decide.h"
#include "serve/sight.h"
#include "serve/witness.h"

#include <stdio.h>

/* --- decisions -------------------------------------------------------------------------------------------------- */

/* Rounded as redis-cell does: up, if there is a millisecond more. */
static int64_t seconds_of_cell(weir_ns span)
{
	const int64_t s = (int64_t)(span / 1000000000);

	return s + (span % 1000000000 >= 1000000);
}

int64_t weir__signed_of(uint64_t number)
{
	return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static void answer_cell(const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	const int64_t numbers[] = { !verdict->allowed, weir__signed_of(verdict->limit),
				    weir__signed_of(verdict->remaining),
				    verdict->allowed || verdict->never ? -1 : seconds_of_cell(verdict->retry_after),
				    seconds_of_cell(verdict->reset_after) };

	weir__resp_write_integers(writer, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

static void answer_throttle(const struct weir_claim *claim, const struct weir_verdict *verdict,
			    struct weir__resp_writer *writer)
{
	int64_t numbers[WEIR__THROTTLE_NUMBERS];

	weir__asked_throttle_numbers(claim, verdict, numbers);
	weir__resp_write_integers(writer, numbers, WEIR__THROTTLE_NUMBERS);
}

void weir__answer_numbers(struct weir__resp_writer *writer, const char *const names[], const int64_t numbers[],
			  size_t n, bool begins_with_truth)
{
	if (writer->protocol < 3) {
		weir__resp_write_integers(writer, numbers, n);
		return;
	}
	weir__resp_write_map(writer, n);
	for (size_t i = 0; i < n; i++) {
		weir__resp_write_simple(writer, names[i], strlen(names[i]));
		if (i == 0 && begins_with_truth)
			weir__resp_write_boolean(writer, numbers[i] != 0);
		else
			weir__resp_write_integer(writer, numbers[i]);
	}
}

/* The last name is for decisions on several limits. */
static const char *const names_of_verdict[] = { "allowed",     "limit",       "remaining", "granted",
						"retry_after", "reset_after", "delay",     "decided_by" };
enum { VERDICT_NUMBERS = 7 };

/* retry is -1 if no wait will help. */
static void numbers_of_verdict(const struct weir_verdict *verdict, int64_t numbers[VERDICT_NUMBERS])
{
	numbers[0] = verdict->allowed;
	numbers[1] = weir__signed_of(verdict->limit);
	numbers[2] = weir__signed_of(verdict->remaining);
	numbers[3] = weir__signed_of(verdict->granted);
	numbers[4] = verdict->never ? -1 : weir__signed_of(verdict->retry_after);
	numbers[5] = weir__signed_of(verdict->reset_after);
	numbers[6] = weir__signed_of(verdict->delay);
}

void weir__answer_verdict(const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	int64_t numbers[VERDICT_NUMBERS];

	numbers_of_verdict(verdict, numbers);
	weir__answer_numbers(writer, names_of_verdict, numbers, VERDICT_NUMBERS, true);
}

static void answer(enum weir__answer_form form, const struct weir_claim *claim, const struct weir_verdict *verdict,
		   struct weir__resp_writer *writer)
{
	switch (form) {
	case WEIR__ANSWER_CELL:
		answer_cell(verdict, writer);
		break;
	case WEIR__ANSWER_THROTTLE:
		answer_throttle(claim, verdict, writer);
		break;
	default:
		weir__answer_verdict(verdict, writer);
	}
}

void weir__commands_end_group(struct weir__commands *commands, struct weir__client *client,
			      struct weir__resp_writer *writer)
{
	struct weir_verdict verdicts[WEIR__GROUP];
	weir_ns now;

	(void)client;
	commands->keys_used = 0;
	if (commands->n == 0)
		return;
	now = weir_table_now(commands->table);
	weir_table_take_batch(commands->table, commands->claims, commands->n, now, verdicts);
	weir__decide_time(commands, now);
	weir__sight_each(commands->sight, commands->claims, verdicts, commands->n, now);
	for (size_t i = 0; i < commands->n; i++)
		answer(commands->forms[i], &commands->claims[i], &verdicts[i], writer);
	commands->n = 0;
}

const struct weir_table_limit *weir__find_limit(struct weir__call *call, enum weir__space space,
						const struct weir_limit *asked)
{
	struct weir__commands *const commands = call->commands;
	const struct weir_table_limit *limit;
	struct weir_message why;

	if (weir__limits_will_drop(&commands->limits, space, asked)) /* it may be one that was gathered */
		weir__commands_end_group(commands, call->client, call->writer);
	if (weir__limits_find(&commands->limits, space, asked, &limit, &why) == WEIR_OK)
		return limit;
	weir__refuse_with(call, space == WEIR__SPACE_CELL ? WEIR__SAY_CELL_LIMIT : WEIR__SAY_LIMIT, why.text);
	return NULL;
}

/* The last claim: what another store is asked is gathered behind it, and what brings a traceparent has a span of its own. */
__attribute__((noinline)) static void decide_alone(struct weir__call *call, enum weir__answer_form form)
{
	struct weir__commands *const commands = call->commands;
	const struct weir_claim claim = commands->claims[commands->n];
	struct weir_verdict verdict;

	weir__commands_end_group(commands, call->client, call->writer);
	verdict = weir__decide_one(commands, WEIR__SEAM_TAKE, &claim);
	answer(form, &claim, &verdict, call->writer);
}

static void gather_claim(struct weir__call *call, const struct weir_claim *claim, enum weir__answer_form form)
{
	struct weir__commands *const commands = call->commands;

	commands->claims[commands->n] = *claim;
	if (WEIR__UNLIKELY(commands->seam != NULL) ||
	    (WEIR__UNLIKELY(commands->witness != NULL) && weir__witness_has_parent(commands->witness))) {
		decide_alone(call, form);
		return;
	}
	commands->forms[commands->n] = form;
	commands->n++;
}

static void gather(struct weir__call *call, const struct weir_table_limit *limit, uint64_t cost,
		   enum weir__answer_form form)
{
	const struct weir_claim claim = {
		.limit = limit, .key = call->arguments[1].bytes, .key_length = call->arguments[1].length, .cost = cost
	};

	gather_claim(call, &claim, form);
}

/* The words of a limit in three numbers, with what is between them. */
struct numbers {
	const char *bytes;
	size_t n;
	uint64_t lengths;
};

static inline struct numbers numbers_of(const struct weir__call *call)
{
	const struct weir__resp_slice *const of = &call->arguments[2];

	return (struct numbers){ of[0].bytes, (size_t)(of[2].bytes + of[2].length - of[0].bytes),
				 (uint64_t)of[0].length << 32 | (uint64_t)of[1].length << 16 | of[2].length };
}

/* With as much of the argument as is enough; what would end the line of an error is written as a space. */
__attribute__((noinline)) static void refuse_cell_number(struct weir__call *call, const struct weir__resp_slice *word)
{
	char text[129];

	(void)snprintf(text, sizeof(text), "%.*s", (int)weir__min(word->length, sizeof(text) - 1), word->bytes);
	weir__refuse_with(call, WEIR__SAY_CELL_NUMBER, text);
}

/* A max_burst below 0 is a limit that admits nothing, ever. What the key owes is told by another limit of the same rate, of
 * which more is asked than it ever has: so nothing is stored, and it is seen as denied. Another store is not asked: it would carry
 * the key over to that limit. */
static void deny_cell(struct weir__call *call, const struct weir_table_limit *limit, int64_t max_burst)
{
	const struct weir_claim claim = { limit, call->arguments[1].bytes, call->arguments[1].length, 2 };
	int64_t numbers[] = { 1, max_burst + 1, 0, -1, 0 };

	weir__commands_end_group(call->commands, call->client, call->writer);
	if (call->commands->seam == NULL) {
		const struct weir_verdict verdict = weir__decide_one(call->commands, WEIR__SEAM_TAKE, &claim);

		numbers[4] = seconds_of_cell(verdict.reset_after);
	}
	weir__resp_write_integers(call->writer, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

/* NULL: that was answered. The quantity stays as it is if none is given. */
__attribute__((noinline)) static const struct weir_table_limit *read_cell(struct weir__call *call, int64_t *quantity)
{
	const struct weir_table_limit *limit;
	enum weir__bucket_fault fault = WEIR__BUCKET_FAST;
	int64_t numbers[3];
	struct weir_limit asked;

	for (uint32_t i = 0; i + 2 < call->n; i++)
		if (!weir__read_signed(&call->arguments[i + 2], i < 3 ? &numbers[i] : quantity)) {
			refuse_cell_number(call, &call->arguments[i + 2]);
			return NULL;
		}
	if (numbers[1] > 0 && numbers[2] > 0)
		fault = weir__asked_bucket(numbers[0] < 0 ? 1 : (uint64_t)numbers[0] + 1, (uint64_t)numbers[1],
					   (uint64_t)numbers[2], &asked);
	if (fault != WEIR__BUCKET_SOUND) {
		weir__refuse(call, fault == WEIR__BUCKET_FAST ? WEIR__SAY_CELL_ZERO : WEIR__SAY_CELL_SPAN);
		return NULL;
	}
	limit = weir__find_limit(call, WEIR__SPACE_CELL, &asked);
	if (limit == NULL || numbers[0] >= 0)
		return limit;
	deny_cell(call, limit, numbers[0]);
	return NULL;
}

/* A quantity below 0 moves the instant of redis-cell back; here no further than to now. */
__attribute__((noinline)) static void give_back_cell(struct weir__call *call, const struct weir_table_limit *limit,
						     int64_t quantity)
{
	const struct weir_claim claim = { limit, call->arguments[1].bytes, call->arguments[1].length,
					  quantity < -INT64_MAX ? INT64_MAX : (uint64_t)-quantity };
	struct weir_verdict verdict;

	weir__commands_end_group(call->commands, call->client, call->writer);
	verdict = weir__decide_one(call->commands, WEIR__SEAM_REFUND, &claim);
	weir__audit_key(call->commands, call->client, WEIR__WIRE_RESP, WEIR__SEAM_REFUND, &claim, &verdict);
	answer_cell(&verdict, call->writer);
}

void weir__cl_throttle(struct weir__call *call)
{
	struct weir__limits *const limits = &call->commands->limits;
	const struct weir_table_limit *limit;
	struct numbers numbers;
	int64_t quantity = 1;

	if (call->n != 5 && call->n != 6) {
		weir__refuse(call, WEIR__SAY_CELL_USAGE);
		return;
	}
	numbers = numbers_of(call);
	limit = weir__limits_recall(limits, WEIR__SPACE_CELL, numbers.bytes, numbers.n, numbers.lengths);
	if (WEIR__UNLIKELY(limit == NULL)) {
		limit = read_cell(call, &quantity);
		if (limit == NULL)
			return;
		weir__limits_remember(limits, WEIR__SPACE_CELL, numbers.bytes, numbers.n, numbers.lengths, limit);
	} else if (call->n == 6 && !weir__read_signed(&call->arguments[5], &quantity)) {
		refuse_cell_number(call, &call->arguments[5]);
		return;
	}
	if (WEIR__LIKELY(quantity >= 0))
		gather(call, limit, (uint64_t)quantity, WEIR__ANSWER_CELL);
	else
		give_back_cell(call, limit, quantity);
}

static bool read_throttle_number(struct weir__call *call, uint32_t place, int64_t *ret_number)
{
	static const enum weir__said_error invalid[WEIR__THROTTLE_ASKED] = { WEIR__SAY_THROTTLE_BURST,
									     WEIR__SAY_THROTTLE_COUNT,
									     WEIR__SAY_THROTTLE_PERIOD,
									     WEIR__SAY_THROTTLE_QUANTITY };

	if (weir__read_signed(&call->arguments[place], ret_number))
		return true;
	weir__refuse(call, invalid[place - 2]);
	return false;
}

/* NULL: that was answered. */
static const struct weir_table_limit *read_throttle(struct weir__call *call, int64_t *quantity)
{
	int64_t numbers[WEIR__THROTTLE_ASKED] = { 0, 0, 0, 1 };
	struct weir__refusal refusal;
	struct weir_limit asked;

	for (uint32_t i = 2; i < call->n; i++)
		if (!read_throttle_number(call, i, &numbers[i - 2]))
			return NULL;
	*quantity = numbers[3];
	if (weir__asked_throttle(numbers, &asked, &refusal))
		return weir__find_limit(call, WEIR__SPACE_THROTTLE, &asked);
	weir__refuse_as(call, &refusal);
	return NULL;
}

void weir__throttle(struct weir__call *call)
{
	struct weir__limits *const limits = &call->commands->limits;
	const struct weir_table_limit *limit;
	struct weir__refusal refusal;
	struct numbers numbers;
	int64_t quantity = 1;

	if (call->n != 5 && call->n != 6) {
		weir__refuse_with(call, WEIR__SAY_ARITY, "throttle' command");
		return;
	}
	numbers = numbers_of(call);
	limit = weir__limits_recall(limits, WEIR__SPACE_THROTTLE, numbers.bytes, numbers.n, numbers.lengths);
	if (WEIR__UNLIKELY(limit == NULL)) {
		limit = read_throttle(call, &quantity);
		if (limit == NULL)
			return;
		weir__limits_remember(limits, WEIR__SPACE_THROTTLE, numbers.bytes, numbers.n, numbers.lengths, limit);
	} else if (call->n == 6 && !read_throttle_number(call, 5, &quantity)) {
		return;
	}
	if (weir__asked_throttle_quantity(quantity, &refusal))
		gather(call, limit, (uint64_t)quantity, WEIR__ANSWER_THROTTLE);
	else
		weir__refuse_as(call, &refusal);
}

/* --- limits as text --------------------------------------------------------------------------------------------- */

bool weir__read_limit(struct weir__call *call, uint32_t place, struct weir_limit *ret_limit)
{
	const struct weir__resp_slice *const text = &call->arguments[place];
	struct weir__refusal refusal;

	return weir__asked_read_text(text->bytes, text->length, ret_limit, &refusal) || weir__refuse_as(call, &refusal);
}

bool weir__read_asked(struct weir__call *call, uint32_t place, uint32_t key_place, struct weir__asked *ret_asked)
{
	const struct weir__resp_slice *const text = &call->arguments[place], *const key = &call->arguments[key_place];
	struct weir__refusal refusal;

	return weir__asked_read(call->commands, text->bytes, text->length, key->bytes, key->length, ret_asked,
				&refusal) ||
	       weir__refuse_as(call, &refusal);
}

/* The limit and the key of a command. False: that was answered. */
static bool read_key(struct weir__call *call, struct weir_claim *ret_claim)
{
	struct weir__commands *const commands = call->commands;
	const struct weir__resp_slice *const text = &call->arguments[2];
	struct weir__asked asked;

	*ret_claim = (struct weir_claim){ .limit = weir__limits_recall(&commands->limits, WEIR__SPACE_TEXT, text->bytes,
								       text->length, 0),
					  .key = call->arguments[1].bytes,
					  .key_length = call->arguments[1].length };
	if (ret_claim->limit)
		return true;
	if (WEIR__UNLIKELY(commands->keys_used > WEIR__GUARD_KEY_ROOM)) /* for any key there is room then */
		weir__commands_end_group(commands, call->client, call->writer);
	if (!weir__read_asked(call, 2, 1, &asked))
		return false;
	if (asked.named) {
		*ret_claim = (struct weir_claim){ asked.named, asked.key, asked.key_length, 0 };
		return true;
	}
	ret_claim->limit = weir__find_limit(call, WEIR__SPACE_TEXT, &asked.limit);
	if (ret_claim->limit)
		weir__limits_remember(&commands->limits, WEIR__SPACE_TEXT, text->bytes, text->length, 0,
				      ret_claim->limit);
	return ret_claim->limit != NULL;
}

static bool read_cost(struct weir__call *call, uint32_t place, uint64_t *ret_cost)
{
	*ret_cost = 1;
	return place >= call->n || weir__read_number(call, place, INT64_MAX, WEIR__SAY_COST, ret_cost);
}

static void take_or_wait(struct weir__call *call, uint64_t cost, weir_ns patience)
{
	struct weir__commands *const commands = call->commands;
	struct weir__asked asked;
	struct weir_message why;
	struct weir_verdict verdict;
	struct weir__wait_request request = { .limits = &commands->limits,
					      .asked = &asked.limit,
					      .cost = cost,
					      .patience = patience,
					      .owner = call->client };

	if (commands->seam || call->client->is_in_exec) {
		weir__refuse(call, commands->seam ? WEIR__SAY_WAIT_STORE : WEIR__SAY_WAIT_MULTI);
		return;
	}
	weir__commands_end_group(commands, call->client, call->writer);
	if (!weir__read_asked(call, 2, 1, &asked))
		return;
	request.named = asked.named;
	request.key = asked.key;
	request.key_length = asked.key_length;
	if (commands->waiting == NULL) {
		weir__refuse(call, WEIR__SAY_WAITERS);
		return;
	}
	switch (weir__waiting_begin(commands->waiting, &request, weir_table_now(commands->table), &verdict,
				    &call->client->waiter, &why)) {
	case WEIR__WAIT_OVER:
		weir__answer_verdict(&verdict, call->writer);
		break;
	case WEIR__WAIT_FULL:
		weir__refuse(call, WEIR__SAY_WAITERS);
		break;
	case WEIR__WAIT_REFUSED:
		weir__refuse_with(call, WEIR__SAY_LIMIT, why.text);
		break;
	default:
		break; /* whoever owns the client answers when it is over */
	}
}

void weir__take(struct weir__call *call)
{
	const bool waits = call->n >= 5, has_cost = call->n == 4 || call->n == 6;
	const uint64_t day_ms = 86400000;
	struct weir_claim claim;
	uint64_t cost = 1, timeout_ms;

	if (waits && !weir__is_word(&call->arguments[call->n - 2], "WAIT")) {
		weir__refuse(call, WEIR__SAY_TAKE_SYNTAX);
		return;
	}
	if (has_cost && !weir__read_number(call, 3, INT64_MAX, WEIR__SAY_COST, &cost))
		return;
	if (waits) {
		if (weir__read_number(call, call->n - 1, day_ms, WEIR__SAY_TIMEOUT, &timeout_ms))
			take_or_wait(call, cost, timeout_ms * 1000000);
		return;
	}
	if (!read_key(call, &claim))
		return;
	claim.cost = cost;
	gather_claim(call, &claim, WEIR__ANSWER_WEIR);
}

static void ask(struct weir__call *call, enum weir__seam_operation operation)
{
	struct weir_verdict verdict;
	struct weir_claim claim;

	if (!read_key(call, &claim) || !read_cost(call, 3, &claim.cost))
		return;
	weir__commands_end_group(call->commands, call->client, call->writer);
	verdict = weir__decide_one(call->commands, operation, &claim);
	weir__audit_key(call->commands, call->client, WEIR__WIRE_RESP, operation, &claim, &verdict);
	weir__answer_verdict(&verdict, call->writer);
}

void weir__upto(struct weir__call *call)
{
	ask(call, WEIR__SEAM_UPTO);
}

void weir__peek(struct weir__call *call)
{
	ask(call, WEIR__SEAM_PEEK);
}

void weir__refund(struct weir__call *call)
{
	ask(call, WEIR__SEAM_REFUND);
}

void weir__reset(struct weir__call *call)
{
	struct weir_verdict verdict;
	struct weir_claim claim;

	if (!read_key(call, &claim))
		return;
	weir__commands_end_group(call->commands, call->client, call->writer);
	verdict = weir__decide_one(call->commands, WEIR__SEAM_RESET, &claim);
	weir__audit_key(call->commands, call->client, WEIR__WIRE_RESP, WEIR__SEAM_RESET, &claim, &verdict);
	weir__resp_write_integer(call->writer, verdict.allowed);
}

static void say_number(const struct weir__call *call, const char *name, uint64_t number)
{
	weir__say_word(call, name);
	weir__resp_write_integer(call->writer, weir__signed_of(number));
}

void weir__inspect(struct weir__call *call)
{
	char text[WEIR_LIMIT_TEXT_MAX];
	struct weir_table_key key;
	struct weir_limit stated;
	struct weir_claim claim;

	if (!read_key(call, &claim))
		return;
	weir__commands_end_group(call->commands, call->client, call->writer);
	key = weir__decide_inspect(call->commands, &claim);
	stated = weir_table_limit_limit(claim.limit);
	(void)weir_limit_print(&stated, text);
	weir__resp_write_map(call->writer, 7);
	weir__say_word(call, "is_stored");
	weir__resp_write_boolean(call->writer, key.is_stored);
	say_number(call, "whole_at", key.whole_at);
	say_number(call, "limit", key.verdict.limit);
	say_number(call, "remaining", key.verdict.remaining);
	say_number(call, "reset_after", key.verdict.reset_after);
	weir__say_word(call, "algorithm");
	weir__say_word(call, weir_algorithm_name(stated.algorithm));
	weir__say_word(call, "text");
	weir__say_word(call, text);
}

/* --- several limits --------------------------------------------------------------------------------------------- */

static bool read_claim(struct weir__call *call, struct weir__several *several, uint32_t at)
{
	struct weir__refusal refusal;
	struct weir__asked asked;
	uint64_t cost;

	return weir__read_asked(call, at + 1, at, &asked) &&
	       weir__read_number(call, at + 2, INT64_MAX, WEIR__SAY_COST, &cost) &&
	       (weir__several_add(several, call->commands, &asked, cost, &refusal) || weir__refuse_as(call, &refusal));
}

void weir__all(struct weir__call *call)
{
	const size_t n = (call->n - 1) / 3;
	int64_t numbers[VERDICT_NUMBERS + 1];
	struct weir_decision decision;
	struct weir__several several;
	weir_ns reset_after;

	if ((call->n - 1) % 3 != 0) {
		weir__refuse(call, WEIR__SAY_CLAIMS);
		return;
	}
	weir__commands_end_group(call->commands, call->client, call->writer);
	several.n = 0;
	while (several.n < n)
		if (!read_claim(call, &several, 1 + 3 * (uint32_t)several.n))
			return;
	decision = weir__decide_all(call->commands, several.claims, n, &reset_after);
	numbers_of_verdict(&decision.verdict, numbers);
	numbers[VERDICT_NUMBERS] = (int64_t)decision.decided_by + 1;
	weir__answer_numbers(call->writer, names_of_verdict, numbers, VERDICT_NUMBERS + 1, true);
}
