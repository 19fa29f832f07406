/* resp_hold.c: WEIR.HOLD, WEIR.SETTLE and WEIR.RELEASE. */
#include "core/uninitialized.h"
#include "server/resp/resp_command.h"

static bool check_id(struct weir__call *call)
{
	struct weir__refusal refusal WEIR__UNINITIALIZED;

	return weir__limit_ref_check_id(call->arguments[1].length, &refusal) || weir__refuse_as(call, &refusal);
}

static bool read_hold(struct weir__call *call, struct weir__limit_ref *ref, struct weir__hold_request *ret_request)
{
	const struct weir__resp_slice *const id = &call->arguments[1];
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	uint64_t lasts_ms;

	if (!weir__read_limit_ref(call, 3, 2, ref))
		return false;
	*ret_request = (struct weir__hold_request){ .id = id->bytes,
						    .id_length = id->length,
						    .key = ref->key,
						    .key_length = ref->key_length,
						    .named = ref->named,
						    .stated = &ref->limit };
	return weir__read_number(call, 4, INT64_MAX, WEIR__ERROR_COST, &ret_request->cost) &&
	       weir__read_number(call, 5, WEIR__HOLD_MS_MAX, WEIR__ERROR_HOLD_TIME, &lasts_ms) &&
	       (weir__limit_ref_check_hold(ret_request, lasts_ms, &refusal) || weir__refuse_as(call, &refusal));
}

static void write_hold(struct weir__request *request, void *writer)
{
	weir__answer_verdict(&((const struct weir__hold_take *)(const void *)request)->verdict, writer);
}

void weir__hold(struct weir__call *call)
{
	struct weir__hold_request request WEIR__UNINITIALIZED;
	struct weir__hold_take take;
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct weir__limit_ref ref;

	weir__resp_end_group(call->resp, call->client, call->writer);
	if (!read_hold(call, &ref, &request))
		return;
	weir__hold_take_init(&take, call->context, call->client, write_hold);
	weir__end_run(call, weir__hold_take_run(&take, &request, &refusal), &take.request, &refusal);
}

static void write_settlement(struct weir__request *request, void *writer)
{
	static const char *const names[] = { "held",   "actual", "charged",   "refunded",
					     "beyond", "limit",  "remaining", "reset_after" };
	const struct weir__settlement *const settlement =
		&((const struct weir__hold_settle *)(const void *)request)->settlement;
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
	struct weir__hold_settle settle;
	struct weir__refusal refusal WEIR__UNINITIALIZED;

	weir__resp_end_group(call->resp, call->client, call->writer);
	weir__hold_settle_init(&settle, call->context, call->client, write_settlement);
	weir__end_run(call, weir__hold_settle_run(&settle, id->bytes, id->length, actual, &refusal), &settle.request,
		      &refusal);
}

void weir__settle(struct weir__call *call)
{
	uint64_t actual;

	if (check_id(call) && weir__read_number(call, 2, INT64_MAX, WEIR__ERROR_HOLD_ACTUAL, &actual))
		settle(call, actual);
}

void weir__release(struct weir__call *call)
{
	if (check_id(call))
		settle(call, 0);
}
