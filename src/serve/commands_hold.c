/* commands_hold.c: costs that are estimated now and settled later. */
#include "serve/command.h"

static const uint64_t day_ms = 86400000;

static bool check_id(struct weir__call *call)
{
	const size_t length = call->arguments[1].length;

	if (length >= 1 && length <= WEIR__HOLD_ID_MAX)
		return true;
	weir__refuse(call, WEIR__SAY_HOLD_ID);
	return false;
}

static bool read_hold(struct weir__call *call, struct weir_limit *limit, struct weir__hold_request *ret_request)
{
	const struct weir__resp_slice *const id = &call->arguments[1], *const key = &call->arguments[2];
	const struct weir_table_limit *named;
	uint64_t cost, lasts_ms;

	if (!check_id(call))
		return false;
	if (key->length > WEIR__HOLD_KEY_MAX) {
		weir__refuse(call, WEIR__SAY_HOLD_KEY);
		return false;
	}
	if (!weir__read_either(call, 3, &named, limit) ||
	    !weir__read_number(call, 4, INT64_MAX, WEIR__SAY_COST, &cost) ||
	    !weir__read_number(call, 5, day_ms, WEIR__SAY_HOLD_TIME, &lasts_ms))
		return false;
	if (lasts_ms == 0) {
		weir__refuse(call, WEIR__SAY_HOLD_TIME);
		return false;
	}
	*ret_request = (struct weir__hold_request){ .id = id->bytes,
						    .id_length = id->length,
						    .key = key->bytes,
						    .key_length = key->length,
						    .named = named,
						    .asked = limit,
						    .cost = cost,
						    .lasts = lasts_ms * 1000000 };
	return true;
}

/* What is neither a verdict nor a settlement. */
static void say_result(struct weir__call *call, enum weir__hold_result result, enum weir__said_error other,
		       const struct weir_message *why)
{
	if (result == WEIR__HOLD_OTHER)
		weir__refuse(call, other);
	else if (result == WEIR__HOLD_FULL)
		weir__refuse(call, WEIR__SAY_HOLD_FULL);
	else if (result == WEIR__HOLD_UNKNOWN)
		weir__refuse(call, WEIR__SAY_HOLD_UNKNOWN);
	else
		weir__refuse_with(call, WEIR__SAY_LIMIT, why->text);
}

void weir__hold(struct weir__call *call)
{
	struct weir__commands *const commands = call->commands;
	struct weir__hold_request request;
	enum weir__hold_result result = WEIR__HOLD_FULL;
	struct weir_verdict verdict;
	struct weir_limit limit;
	struct weir_message why;

	if (!read_hold(call, &limit, &request))
		return;
	weir__commands_end_group(commands, call->client, call->writer);
	if (commands->holds)
		result = weir__holds_take(commands->holds, &commands->limits, &request, weir_table_now(commands->table),
					  &verdict, &why);
	if (result == WEIR__HOLD_ANSWERED)
		weir__answer_verdict(&verdict, call->writer);
	else
		say_result(call, result, WEIR__SAY_HOLD_OTHER, &why);
}

static void answer_settlement(const struct weir__settlement *settlement, struct weir__resp_writer *writer)
{
	static const char *const names[] = { "held",   "actual", "charged",   "refunded",
					     "beyond", "limit",  "remaining", "reset_after" };
	const int64_t numbers[] = { weir__signed_of(settlement->held),
				    weir__signed_of(settlement->actual),
				    weir__signed_of(settlement->charged),
				    weir__signed_of(settlement->refunded),
				    weir__signed_of(settlement->beyond),
				    weir__signed_of(settlement->verdict.limit),
				    weir__signed_of(settlement->verdict.remaining),
				    weir__signed_of(settlement->verdict.reset_after) };

	weir__answer_numbers(writer, names, numbers, sizeof(numbers) / sizeof(numbers[0]), false);
}

static void settle(struct weir__call *call, uint64_t actual)
{
	struct weir__commands *const commands = call->commands;
	enum weir__hold_result result = WEIR__HOLD_UNKNOWN;
	struct weir__settlement settlement;
	struct weir_message why;

	weir__commands_end_group(commands, call->client, call->writer);
	if (commands->holds)
		result = weir__holds_settle(commands->holds, &commands->limits, call->arguments[1].bytes,
					    call->arguments[1].length, actual, weir_table_now(commands->table),
					    &settlement, &why);
	if (result == WEIR__HOLD_ANSWERED)
		answer_settlement(&settlement, call->writer);
	else
		say_result(call, result, WEIR__SAY_HOLD_SETTLED, &why);
}

void weir__settle(struct weir__call *call)
{
	uint64_t actual;

	if (check_id(call) && weir__read_number(call, 2, INT64_MAX, WEIR__SAY_HOLD_ACTUAL, &actual))
		settle(call, actual);
}

void weir__release(struct weir__call *call)
{
	if (check_id(call))
		settle(call, 0);
}
