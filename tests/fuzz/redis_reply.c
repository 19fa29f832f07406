/* redis_reply.c: any bytes as a Redis reply to a call of the script. Every verdict must be plausible.
 *
 * The first byte of an input selects the call. Its top bit says whether the rest is the raw reply or the string that
 * the script returned. That string is also read as changes of limits. */
#include "require.h"
#include "store/redis/redis_call.h"
#include "store/redis/redis_changes.h"

enum { TOKENS_MAX = 16, BYTES_MAX = 1 << 12, CLAIMS = 4, IS_BARE = 0x80 };

static struct weir__redis_plan plans[CLAIMS];
static struct weir__redis_claim claims[CLAIMS + 1];
static struct weir__redis_request requests[] = {
	{ WEIR__REDIS_TAKE, &claims[0], 1 },   { WEIR__REDIS_TAKE, &claims[1], 1 },
	{ WEIR__REDIS_UP_TO, &claims[2], 1 },  { WEIR__REDIS_RESET, &claims[3], 1 },
	{ WEIR__REDIS_TAKE, claims, 5 },       { WEIR__REDIS_PEEK, &claims[1], 1 },
	{ WEIR__REDIS_REFUND, &claims[0], 1 }, { WEIR__REDIS_GRANT, &claims[2], 1 },
	{ WEIR__REDIS_RETURN, &claims[2], 1 }, { WEIR__REDIS_PUSH, &claims[2], 1 },
};

enum { REQUESTS = sizeof(requests) / sizeof(requests[0]) };

static void prepare(void)
{
	static const char *const texts[CLAIMS] = { "10/s burst 5", "10/s leaky queue 5",
						   "281474976710655/s sliding_counter", "7/min sliding_log count all" };
	static const char keys[CLAIMS][2] = { "a", "b", "c", "d" };
	struct weir_limit limit;
	struct weir_plan plan;

	if (claims[0].plan != NULL)
		return;
	for (size_t i = 0; i < CLAIMS; i++) {
		require(weir_limit_parse(texts[i], strlen(texts[i]), &limit, NULL) == WEIR_OK &&
				weir_plan_compile(&limit, &plan, NULL) == WEIR_OK &&
				weir__redis_plan_init(&plans[i], &plan, NULL) == WEIR_OK,
			"a limit cannot be");
		claims[i] = (struct weir__redis_claim){
			.plan = &plans[i], .key = { keys[i], 1 }, .cost = i * i, .lease_duration = 1
		};
	}
	claims[CLAIMS] = claims[1]; /* the same claim twice: one claim with both costs */
}

static void check_verdict(const struct weir_verdict *verdict, enum weir__redis_operation operation,
			  const struct weir__redis_claim *claim, size_t n)
{
	const bool is_reset = operation == WEIR__REDIS_RESET;

	require(verdict->limit == claim->plan->plan.most && verdict->remaining <= verdict->limit,
		"more is left than can be");
	require(!verdict->never || (!verdict->allowed && verdict->retry_after == WEIR_NEVER), "never, and yet");
	require(!verdict->allowed || verdict->retry_after == 0, "allowed, and a retry");
	require(verdict->allowed || (verdict->granted == 0 && verdict->delay == 0), "denied, and yet granted");
	require(verdict->granted <= claim->cost * n && (!is_reset || verdict->granted == 0),
		"granted more than was asked for");
	if (operation == WEIR__REDIS_GRANT)
		require(verdict->allowed == (verdict->delay > 0) && verdict->allowed == (verdict->granted > 0),
			"units without an end, or an end without units");
	else
		require(verdict->delay == 0 || claim->plan->plan.flags & WEIR_PLAN_SHAPE,
			"a delay where nothing shapes");
}

static void answer(const struct weir__redis_call *call, const struct weir__resp_token *tokens, uint32_t n)
{
	struct weir_verdict verdicts[CLAIMS + REQUESTS + 1];
	const struct weir_verdict *next = verdicts;

	memset(verdicts, 0xff, sizeof(verdicts));
	if (weir__redis_call_read(call, tokens, n, verdicts).answer != WEIR__REDIS_DECIDED)
		return;
	for (size_t i = 0; i < call->n; i++)
		for (size_t claim = 0; claim < call->requests[i].n; claim++)
			check_verdict(next++, call->requests[i].operation, &call->requests[i].claims[claim],
				      call->requests[i].n);
}

/* A change that was read is written and reads the same. */
static void read_changes(struct weir__resp_slice rest)
{
	struct weir__resp_slice field, value;
	struct weir__redis_change change, again;
	char written[WEIR__REDIS_CHANGE_VALUE], rewritten[WEIR__REDIS_CHANGE_VALUE];

	while (weir__redis_changes_next(&rest, &field, &value)) {
		if (!weir__redis_change_read(field, value, &change))
			continue;
		require(change.version > 0 && change.name[0] != '\0', "a change without version or name");
		value = (struct weir__resp_slice){ written, weir__redis_change_write(&change, written) };
		require(weir__redis_change_read(field, value, &again), "what was written cannot be read");
		(void)weir__redis_change_write(&again, rewritten);
		require(strcmp(written, rewritten) == 0, "it is read as another change");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir__resp_token tokens[TOKENS_MAX];
	struct weir__resp_reply reply = {
		.tokens = tokens, .tokens_max = TOKENS_MAX, .depth_max = 2, .line_max = 1000, .bulk_max = BYTES_MAX
	};
	struct weir__redis_call call = { 0 };
	size_t used, which;

	prepare();
	if (size == 0 || size > BYTES_MAX)
		return 0;
	/* One request, or several from the first on. */
	which = data[0] & 0xfU;
	call.n = which < REQUESTS ? 1 : which % REQUESTS + 1;
	call.requests = which < REQUESTS ? &requests[which] : requests;
	if (data[0] & IS_BARE) {
		tokens[0] = (struct weir__resp_token){ .type = WEIR__RESP_BULK,
						       .span = 1,
						       .text = { (const char *)data + 1, size - 1 } };
		answer(&call, tokens, 1);
		read_changes(tokens[0].text);
		return 0;
	}
	weir__resp_reply_init(&reply);
	if (weir__resp_reply_read(&reply, (const char *)data + 1, size - 1, &used) == WEIR__RESP_COMPLETE)
		answer(&call, tokens, reply.n);
	return 0;
}
