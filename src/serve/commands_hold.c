/* commands_hold.c: costs that are estimated now and settled later. */
#include "serve/asked.h"
#include "serve/command.h"

static bool check_id(struct weir__call *call)
{
	struct weir__refusal refusal;

	return weir__asked_check_id(call->arguments[1].length, &refusal) || weir__refuse_as(call, &refusal);
}

static bool read_hold(struct weir__call *call, struct weir__asked *asked, struct weir__hold_request *ret_request)
{
	const struct weir__resp_slice *const id = &call->arguments[1];
	struct weir__refusal refusal;
	uint64_t lasts_ms;

	if (!weir__read_asked(call, 3, 2, asked))
		return false;
	*ret_request = (struct weir__hold_request){ .id = id->bytes,
						    .id_length = id->length,
						    .key = asked->key,
						    .key_length = asked->key_length,
						    .named = asked->named,
						    .asked = &asked->limit };
	return weir__read_number(call, 4, INT64_MAX, WEIR__SAY_COST, &ret_request->cost) &&
	       weir__read_number(call, 5, WEIR__HOLD_MS_MAX, WEIR__SAY_HOLD_TIME, &lasts_ms) &&
	       (weir__asked_check_hold(ret_request, lasts_ms, &refusal) || weir__refuse_as(call, &refusal));
}

void weir__hold(struct weir__call *call)
{
	struct weir__hold_request request;
	struct weir__refusal refusal;
	struct weir_verdict verdict;
	struct weir__asked asked;

	weir__commands_end_group(call->commands, call->client, call->writer);
	if (!read_hold(call, &asked, &request))
		return;
	if (weir__asked_hold(call->commands, &request, &verdict, &refusal))
		weir__answer_verdict(&verdict, call->writer);
	else
		(void)weir__refuse_as(call, &refusal);
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
	const struct weir__resp_slice *const id = &call->arguments[1];
	struct weir__settlement settlement;
	struct weir__refusal refusal;

	weir__commands_end_group(call->commands, call->client, call->writer);
	if (weir__asked_settle(call->commands, id->bytes, id->length, actual, &settlement, &refusal))
		answer_settlement(&settlement, call->writer);
	else
		(void)weir__refuse_as(call, &refusal);
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
