/* redis_call_test.c: calls of the script as bytes, and parsing of its replies. */
#include "store/redis/redis_call.h"

#include <stdlib.h>

#include "check.h"
#include "plans.h"

static struct weir__redis_plan plans[WEIR__REDIS_CALL_PLANS_MAX + 1];

static struct weir__redis_plan *use_plan(const char *text)
{
	plans[0] = plan_of(text);
	return &plans[0];
}

static struct weir__resp_slice slice_of(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

static struct weir__redis_claim claim_of(const struct weir__redis_plan *plan, const char *key, uint64_t cost)
{
	return (struct weir__redis_claim){ .plan = plan, .name = slice_of("l"), .key = slice_of(key), .cost = cost };
}

static const char sha1[] = "0123456789012345678901234567890123456789";

static struct weir__redis_call call_of(const struct weir__redis_request *requests, size_t n)
{
	return (struct weir__redis_call){ .sha1 = sha1, .prefix = slice_of("p:"), .requests = requests, .n = n };
}

/* --- written ----------------------------------------------------------------------------------------------------- */

static struct weir__resp_slice arguments[1100];

/* Reads back what was written: the arguments of a command. Returns how many. */
static uint32_t written(const struct weir__redis_call *call)
{
	static char bytes[1 << 17];
	struct weir__resp_writer writer = { .bytes = bytes, .size = sizeof(bytes), .resp_version = 2 };
	struct weir__resp_request request = {
		.arguments = arguments, .arguments_max = 1100, .line_max = 100, .bulk_max = 1 << 16
	};
	size_t used;

	CHECK(weir__redis_call_write(call, &writer) == WEIR_OK);
	weir__resp_request_init(&request);
	CHECK(weir__resp_request_read(&request, bytes, writer.length, &used) == WEIR__RESP_COMPLETE);
	CHECK_EQ(used, writer.length);
	return request.n;
}

static void check_argument(uint32_t i, const char *expected, size_t length)
{
	CHECK_EQ(arguments[i].length, length);
	CHECK(arguments[i].length == length && memcmp(arguments[i].bytes, expected, length) == 0);
}

static void a_request_is_keys_runs_and_plans(void)
{
	const struct weir__redis_claim claim = claim_of(use_plan("10/s"), "k", 3);
	const struct weir__redis_request request = { WEIR__REDIS_TAKE, &claim, 1 };
	const struct weir__redis_call call = call_of(&request, 1);

	CHECK_EQ(written(&call), 6);
	check_argument(0, "EVALSHA", 7);
	check_argument(1, sha1, 40);
	check_argument(2, "1", 1);
	check_argument(3, "p:l:k", 5);
	check_argument(4, "\1\1\1\0\0\3\0\0\0\0\0\0\1\0", 14);
	check_argument(5, (const char *)plans[0].bytes, WEIR__REDIS_PLAN_BYTES);
}

static void a_time_is_for_tests_alone(void)
{
	const struct weir__redis_claim claim = claim_of(use_plan("10/s"), "k", 3);
	const struct weir__redis_request request = { WEIR__REDIS_PEEK, &claim, 1 };
	struct weir__redis_call call = call_of(&request, 1);
	weir_ns now = 1790000000123456000;

	call.test_now = &now;
	CHECK_EQ(written(&call), 7);
	check_argument(6, "1790000000123456", 16);
}

static void runs_differ_in_nothing_but_keys(void)
{
	const struct weir__redis_plan *const plan = use_plan("10/s");
	const struct weir__redis_claim claims[] = { claim_of(plan, "a", 1), claim_of(plan, "b", 1),
						    claim_of(plan, "c", 2), claim_of(plan, "d", 2) };
	const struct weir__redis_request requests[] = { { WEIR__REDIS_TAKE, &claims[0], 1 },
							{ WEIR__REDIS_TAKE, &claims[1], 1 },
							{ WEIR__REDIS_TAKE, &claims[2], 1 },
							{ WEIR__REDIS_PEEK, &claims[3], 1 } };
	const struct weir__redis_call call = call_of(requests, 4);

	CHECK_EQ(written(&call), 9);
	check_argument(7, "\1\1\1\0\0\1\0\0\0\0\0\0\2\0\1\1\0\0\2\0\0\0\0\0\0\1\0\3\1\0\0\2\0\0\0\0\0\0\1\0", 40);
}

/* An undo includes its charge, and is never part of a run. */
static void an_undo_has_its_charge(void)
{
	struct weir__redis_claim claims[] = { claim_of(use_plan("10/s"), "a", 1), claim_of(&plans[0], "b", 1) };
	const struct weir__redis_request requests[] = { { WEIR__REDIS_UNDO, &claims[0], 1 },
							{ WEIR__REDIS_UNDO, &claims[1], 1 } };
	const struct weir__redis_call call = call_of(requests, 2);

	claims[0].charged_at = 258999;
	claims[0].charged_cost = 3;
	claims[1].charged_at = claims[1].charged_cost = UINT64_MAX;
	CHECK_EQ(written(&call), 7);
	check_argument(5,
		       "\1\6\1\0\0\1\0\0\0\0\0\0\1\0\2\1\0\0\0\0\0\3\0\0\0\0\0\0"
		       "\6\1\0\0\1\0\0\0\0\0\0\1\0\0\0\0\0\0\0\20\0\0\0\0\0\0\20",
		       55);
}

static void a_key_that_comes_again_is_told(void)
{
	const struct weir__redis_plan *const plan = use_plan("10/s");
	const struct weir__redis_claim claims[] = { claim_of(plan, "a", 1), claim_of(plan, "b", 1),
						    claim_of(plan, "a", 1) };
	const struct weir__redis_request requests[] = { { WEIR__REDIS_TAKE, &claims[0], 1 },
							{ WEIR__REDIS_TAKE, &claims[1], 1 },
							{ WEIR__REDIS_TAKE, &claims[2], 1 } };
	const struct weir__redis_call call = call_of(requests, 3);

	CHECK_EQ(written(&call), 8);
	check_argument(6, "\0\1\1\0\0\1\0\0\0\0\0\0\3\0", 14);
}

/* The same key twice in a request is one claim. Costs beyond every limit are clamped to one value. */
static void claims_of_one_key_are_one(void)
{
	const struct weir__redis_plan *const plan = use_plan("10/s");
	const struct weir__redis_claim claims[] = { claim_of(plan, "a", 1), claim_of(plan, "b", UINT64_MAX),
						    claim_of(plan, "a", 4) };
	const struct weir__redis_request request = { WEIR__REDIS_TAKE, claims, 3 };
	const struct weir__redis_call call = call_of(&request, 1);

	CHECK_EQ(written(&call), 7);
	check_argument(3, "p:l:a", 5);
	check_argument(4, "p:l:b", 5);
	check_argument(5, "\1\1\2\0\0\5\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\x10", 23);
}

static int refused(const struct weir__redis_call *call)
{
	static char bytes[1 << 17];
	struct weir__resp_writer writer = { .bytes = bytes, .size = sizeof(bytes), .resp_version = 2 };

	return weir__redis_call_write(call, &writer);
}

static void what_cannot_be_asked(void)
{
	struct weir__redis_claim claims[WEIR__REDIS_CLAIMS_MAX + 1];
	struct weir__redis_request request = { WEIR__REDIS_TAKE, claims, WEIR__REDIS_CLAIMS_MAX + 1 };
	struct weir__redis_call call = call_of(&request, 1);
	const weir_ns between = 1001, too_late = (WEIR__REDIS_TIME_MAX_US + 1) * 1000;
	static char keys[WEIR__REDIS_CLAIMS_MAX + 1][4];

	use_plan("10/s");
	plans[1] = plans[0];
	for (size_t i = 0; i <= WEIR__REDIS_CLAIMS_MAX; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "%zu", i);
		claims[i] = claim_of(&plans[0], keys[i], 1);
	}
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
	request.n = WEIR__REDIS_CLAIMS_MAX;
	CHECK(refused(&call) == WEIR_OK);
	request.n = 0;
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
	request.n = 2;
	request.operation = WEIR__REDIS_UP_TO;
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
	request.operation = WEIR__REDIS_TAKE;
	claims[1] = claim_of(&plans[1], keys[0], 1); /* under another plan */
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
	request.n = 1;
	call.n = 0;
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
	call.n = 1;
	call.test_now = &between;
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
	call.test_now = &too_late;
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
}

/* Two numbers follow, and they never share a run. */
static void leases_and_pushes(void)
{
	struct weir__redis_claim claims[4];
	struct weir__redis_request requests[4] = { 0 };
	struct weir__redis_call call = call_of(requests, 4);

	use_plan("10/s");
	for (size_t i = 0; i < 4; i++) {
		claims[i] = claim_of(&plans[0], "a", 3);
		claims[i].lease_duration = 258001; /* rounded up to 259 us */
		claims[i].lease_most = UINT64_MAX; /* capped at 2^52 */
		claims[i].lease_end_us = 260;
		claims[i].charged_at = 261999;
		claims[i].reserved = 258;
		requests[i] = (struct weir__redis_request){ WEIR__REDIS_GRANT, &claims[i], 1 };
	}
	requests[2].operation = WEIR__REDIS_RETURN;
	requests[3].operation = WEIR__REDIS_PUSH;
	CHECK_EQ(written(&call), 9);
	check_argument(7,
		       "\0"
		       "\11\1\0\0\3\0\0\0\0\0\0\1\0\3\1\0\0\0\0\0\0\0\0\0\0\0\20"
		       "\11\1\0\0\3\0\0\0\0\0\0\1\0\3\1\0\0\0\0\0\0\0\0\0\0\0\20"
		       "\12\1\0\0\3\0\0\0\0\0\0\1\0\4\1\0\0\0\0\0\0\0\0\0\0\0\0"
		       "\13\1\0\0\3\0\0\0\0\0\0\1\0\5\1\0\0\0\0\0\2\1\0\0\0\0\0",
		       109);
	call.n = 1;
	claims[0].lease_duration = WEIR__REDIS_LEASE_MAX;
	CHECK(refused(&call) == WEIR_OK);
	claims[0].lease_duration++;
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
	claims[0].lease_duration = 0;
	CHECK(refused(&call) == WEIR_ERR_LIMIT);
}

/* Each push has its own instant and its own reserved units, at most 2^52. They count for the requests after it, which are
 * runs of their own. */
static void pushes_reserve_units(void)
{
	struct weir__redis_claim claims[4];
	struct weir__redis_request requests[4] = { 0 };
	struct weir__redis_call call = call_of(requests, 4);

	use_plan("10/s");
	for (size_t i = 0; i < 4; i++) {
		claims[i] = claim_of(&plans[0], i % 2 == 0 ? "a" : "b", i < 2 ? 0 : 1);
		claims[i].charged_at = i == 0 ? 1999 : WEIR_NEVER; /* never: capped at 2^52 us */
		claims[i].reserved = i == 0 ? 7 : UINT64_MAX;
		requests[i] = (struct weir__redis_request){ i < 2 ? WEIR__REDIS_PUSH : WEIR__REDIS_TAKE, &claims[i],
							    1 };
	}
	CHECK_EQ(written(&call), 9);
	check_argument(3, "p:l:a", 5);
	check_argument(4, "p:l:b", 5);
	check_argument(7,
		       "\0"
		       "\13\1\0\0\0\0\0\0\0\0\0\1\0\1\0\0\0\0\0\0\7\0\0\0\0\0\0"
		       "\13\1\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\20\0\0\0\0\0\0\20"
		       "\1\1\0\0\1\0\0\0\0\0\0\2\0",
		       68);
}

static void what_does_not_fit_one_call(void)
{
	static struct weir__redis_claim claims[WEIR__REDIS_CALL_CLAIMS_MAX + 1];
	static struct weir__redis_request requests[WEIR__REDIS_CALL_CLAIMS_MAX + 1];
	static char keys[WEIR__REDIS_CALL_CLAIMS_MAX + 1][8];
	struct weir__redis_call call = call_of(requests, WEIR__REDIS_CALL_CLAIMS_MAX + 1);
	struct weir__resp_writer small = { .bytes = keys[0], .size = 1, .resp_version = 2 };

	use_plan("10/s");
	for (size_t i = 0; i <= WEIR__REDIS_CALL_CLAIMS_MAX; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "%zu", i);
		claims[i] = claim_of(&plans[0], keys[i], 1);
		requests[i] = (struct weir__redis_request){ WEIR__REDIS_TAKE, &claims[i], 1 };
	}
	CHECK(refused(&call) == WEIR_ERR_FULL);
	call.n--;
	CHECK_EQ(written(&call), 5 + WEIR__REDIS_CALL_CLAIMS_MAX);
	check_argument(4 + WEIR__REDIS_CALL_CLAIMS_MAX - 1, "\1\1\1\0\0\1\0\0\0\0\0\0\0\2", 14); /* all in one run */
	for (size_t i = 0; i <= WEIR__REDIS_CALL_PLANS_MAX; i++)
		claims[i].plan = &plans[i];
	call.n = WEIR__REDIS_CALL_PLANS_MAX;
	CHECK(refused(&call) == WEIR_OK);
	call.n++;
	CHECK(refused(&call) == WEIR_ERR_FULL);
	call.n = 1;
	CHECK(weir__redis_call_write(&call, &small) == WEIR_ERR_ROOM);
	CHECK_EQ(small.length, 158);
}

/* --- read -------------------------------------------------------------------------------------------------------- */

static struct weir__redis_reply answer_to(const struct weir__redis_call *call, enum weir__resp_type type,
					  const char *bytes, size_t length, struct weir_verdict *verdicts)
{
	const struct weir__resp_token token = { .type = type, .span = 1, .text = { bytes, length } };

	return weir__redis_call_read(call, &token, 1, verdicts);
}

#define NO_SPAN "\0\0\0\0\0\0\0\0\0"
#define HEAD "\1\2\0\0\0\100\102\17\0\0\0\0" /* two began anew; 1 s */

static void an_answer_becomes_a_verdict(void)
{
	static const char bytes[] = HEAD
		"\1\7\0\0\0\0\0\3\0\0\0\0\0\0\350\3"                 /* allowed: 7 left; 3 us and 1000 ns */
		"\4\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1\0" /* denied: whole after 5 us; in 2001 ns */
		"\2\12\0\0\0\0\0\0\0\0\0\0\0\0\0\0";                 /* never */
	const struct weir__redis_plan *const plan = use_plan("10/s");
	const struct weir__redis_claim claims[] = { claim_of(plan, "a", 3), claim_of(plan, "b", 1),
						    claim_of(plan, "c", 11) };
	const struct weir__redis_request requests[] = { { WEIR__REDIS_TAKE, &claims[0], 1 },
							{ WEIR__REDIS_TAKE, &claims[1], 1 },
							{ WEIR__REDIS_TAKE, &claims[2], 1 } };
	const struct weir__redis_call call = call_of(requests, 3);
	struct weir_verdict verdicts[3];
	const struct weir__redis_reply reply = answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, verdicts);

	CHECK_EQ(reply.answer, WEIR__REDIS_DECIDED);
	CHECK_EQ(reply.anew, 2);
	CHECK_EQ(reply.now, 1000000000);
	CHECK(verdicts[0].allowed && !verdicts[0].never);
	CHECK_EQ(verdicts[0].limit, 10);
	CHECK_EQ(verdicts[0].remaining, 7);
	CHECK_EQ(verdicts[0].granted, 3);
	CHECK_EQ(verdicts[0].reset_after, 4000);
	CHECK_EQ(verdicts[0].retry_after, 0);
	CHECK(!verdicts[1].allowed && !verdicts[1].never);
	CHECK_EQ(verdicts[1].retry_after, 2001);
	CHECK_EQ(verdicts[1].reset_after, 5000);
	CHECK_EQ(verdicts[1].granted, 0);
	CHECK(!verdicts[2].allowed && verdicts[2].never);
	CHECK_EQ(verdicts[2].retry_after, WEIR_NEVER);
}

static void a_wait_of_one_that_shapes_is_its_delay(void)
{
	static const char bytes[] = HEAD "\5\1\0\0\0\0\0\5\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1\0";
	const struct weir__redis_claim claim = claim_of(use_plan("10/s leaky queue 5"), "a", 1);
	const struct weir__redis_request request = { WEIR__REDIS_TAKE, &claim, 1 };
	const struct weir__redis_call call = call_of(&request, 1);
	struct weir_verdict verdict;

	CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, &verdict).answer, WEIR__REDIS_DECIDED);
	CHECK(verdict.allowed);
	CHECK_EQ(verdict.delay, 2001);
	CHECK_EQ(verdict.retry_after, 0);
}

/* Another node has changed the limit: that limit decides, whatever the plan of the claim says. */
static void a_verdict_by_another_plan_has_its_limit(void)
{
	static const char bytes[] = HEAD
		"\21\17\0\0\0\0\0\3\0\0\0\0\0\0\350\3\20\0\0\0\0\0"               /* allowed: 15 of 16 */
		"\25\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1\0\5\0\0\0\0\0" /* departs in 2001 ns */
		"\22\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0";                  /* never */
	const struct weir__redis_plan *const plan = use_plan("10/s");
	const struct weir__redis_claim claims[] = { claim_of(plan, "a", 1), claim_of(plan, "b", 1),
						    claim_of(plan, "c", 5) };
	const struct weir__redis_request requests[] = { { WEIR__REDIS_TAKE, &claims[0], 1 },
							{ WEIR__REDIS_TAKE, &claims[1], 1 },
							{ WEIR__REDIS_TAKE, &claims[2], 1 } };
	const struct weir__redis_request forgotten[] = { { WEIR__REDIS_FORGOTTEN, NULL, 2 },
							 { WEIR__REDIS_TAKE, &claims[2], 1 } };
	const struct weir__redis_call call = call_of(requests, 3), rest = call_of(forgotten, 2);
	struct weir_verdict verdicts[3];

	CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, verdicts).answer, WEIR__REDIS_DECIDED);
	CHECK(verdicts[0].allowed && verdicts[0].limit == 16 && verdicts[0].remaining == 15);
	CHECK(verdicts[1].allowed && verdicts[1].limit == 5 && verdicts[1].delay == 2001);
	CHECK(verdicts[2].never && verdicts[2].limit == 4 && verdicts[2].remaining == 4);
	CHECK_EQ(answer_to(&rest, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, verdicts).answer, WEIR__REDIS_DECIDED);
	CHECK(verdicts[0].never && verdicts[0].limit == 4);
	for (size_t length = 12; length < sizeof(bytes) - 1; length++)
		CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, length, verdicts).answer, WEIR__REDIS_STRANGE);
}

static void a_grant_says_when_it_ends(void)
{
	static const char bytes[] = HEAD
		"\15\7\0\0\0\0\0\3\0\0\0\0\0\0\0\0\372\0\0\0\0\0\0\0\0\2\0\0\0\0\0" /* 2 for 250 us */
		"\4\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1\0";               /* none: retry in 2001 ns */
	static const char strange[][48] = {
		HEAD "\11\7\0\0\0\0\0" NO_SPAN "\2\0\0\0\0\0",         /* no end */
		HEAD "\15\7\0\0\0\0\0" NO_SPAN NO_SPAN "\2\0\0\0\0\0", /* ends at once */
		HEAD "\5\7\0\0\0\0\0" NO_SPAN "\1\0\0\0\0\0\0\0\0",    /* no units */
	};
	struct weir__redis_claim claims[] = { claim_of(use_plan("10/s"), "a", 3), claim_of(&plans[0], "b", 3) };
	const struct weir__redis_request requests[] = { { WEIR__REDIS_GRANT, &claims[0], 1 },
							{ WEIR__REDIS_GRANT, &claims[1], 1 } };
	const struct weir__redis_call call = call_of(requests, 2), one = call_of(requests, 1);
	struct weir_verdict verdicts[2];

	claims[0].lease_duration = claims[1].lease_duration = 1000;
	CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, verdicts).answer, WEIR__REDIS_DECIDED);
	CHECK(verdicts[0].allowed);
	CHECK_EQ(verdicts[0].granted, 2);
	CHECK_EQ(verdicts[0].remaining, 7);
	CHECK_EQ(verdicts[0].delay, 250000);
	CHECK_EQ(verdicts[0].retry_after, 0);
	CHECK(!verdicts[1].allowed);
	CHECK_EQ(verdicts[1].delay, 0);
	CHECK_EQ(verdicts[1].retry_after, 2001);
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
		for (size_t length = 12; length <= sizeof(strange[i]); length++)
			CHECK_EQ(answer_to(&one, WEIR__RESP_BULK, strange[i], length, verdicts).answer,
				 WEIR__REDIS_STRANGE);
}

/* Of forgotten requests only the number of their verdicts is known. */
static void answers_of_the_forgotten_are_skipped(void)
{
	static const char bytes[] = HEAD "\4\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1\0"
					 "\11\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0\377\0\0\0\0\0"
					 "\1\7\0\0\0\0\0\3\0\0\0\0\0\0\350\3"
					 "\2\12\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
	const struct weir__redis_claim claim = claim_of(use_plan("10/s"), "a", 1);
	struct weir__redis_request requests[] = { { WEIR__REDIS_FORGOTTEN, NULL, 2 },
						  { WEIR__REDIS_TAKE, &claim, 1 },
						  { WEIR__REDIS_FORGOTTEN, NULL, 1 } };
	const struct weir__redis_call call = call_of(requests, 3);
	struct weir_verdict verdict;

	CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, &verdict).answer, WEIR__REDIS_DECIDED);
	CHECK_EQ(verdict.remaining, 7);
	for (size_t length = 12; length < sizeof(bytes) - 1; length++)
		CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, length, &verdict).answer, WEIR__REDIS_STRANGE);
	requests[2].n = 2;
	CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, &verdict).answer, WEIR__REDIS_STRANGE);
	CHECK(refused(&call) == WEIR_ERR_LIMIT); /* to ask for them makes no sense */
}

static void a_request_has_an_answer_for_each_key(void)
{
	const struct weir__redis_plan *const plan = use_plan("10/s");
	const struct weir__redis_claim claims[] = { claim_of(plan, "a", 1), claim_of(plan, "b", 1),
						    claim_of(plan, "a", 4) };
	struct weir__redis_request request = { WEIR__REDIS_TAKE, claims, 3 };

	CHECK_EQ(weir__redis_call_answers(&request), 2);
	request.operation = WEIR__REDIS_PEEK;
	CHECK_EQ(weir__redis_call_answers(&request), 0); /* it cannot be asked */
}

static void errors_are_told_apart(void)
{
	const struct weir__redis_claim claim = claim_of(use_plan("10/s"), "a", 1);
	const struct weir__redis_request request = { WEIR__REDIS_TAKE, &claim, 1 };
	const struct weir__redis_call call = call_of(&request, 1);
	struct weir_verdict verdict;
	struct weir__redis_reply reply;

	CHECK_EQ(answer_to(&call, WEIR__RESP_ERROR, "NOSCRIPT No matching script.", 28, &verdict).answer,
		 WEIR__REDIS_NOSCRIPT);
	reply = answer_to(&call, WEIR__RESP_ERROR, "OOM command not allowed", 23, &verdict);
	CHECK_EQ(reply.answer, WEIR__REDIS_ERROR);
	CHECK_EQ(reply.error.length, 23);
	CHECK_EQ(answer_to(&call, WEIR__RESP_ERROR, "", 0, &verdict).answer, WEIR__REDIS_ERROR);
}

/* Every reply with a wrong length or an impossible value. */
static void what_the_script_does_not_say(void)
{
	static const char right[] = HEAD "\14\1\0\0\0\0\0\5\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1\0\0\0\0\0\0\0";
	static const struct {
		size_t at;
		char byte;
	} faults[] = {
		{ 0, 2 },     /* another version */
		{ 11, 0x11 }, /* a time beyond all */
		{ 12, 32 },   /* an unknown word */
		{ 12, 28 },   /* a limit that is missing */
		{ 12, 15 },   /* allowed, and never */
		{ 12, 14 },   /* never, and a wait */
		{ 13, 11 },   /* more left than the limit */
		{ 25, 0x11 }, /* a duration beyond all */
		{ 27, 4 },    /* 1025 ns */
		{ 37, 1 },    /* granted, but not allowed */
	};
	const struct weir__redis_claim claim = claim_of(use_plan("10/s"), "a", 1);
	const struct weir__redis_request request = { WEIR__REDIS_TAKE, &claim, 1 };
	const struct weir__redis_call call = call_of(&request, 1);
	struct weir_verdict verdict;
	char bytes[sizeof(right)];

	CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, right, sizeof(right) - 1, &verdict).answer, WEIR__REDIS_DECIDED);
	for (size_t length = 0; length <= sizeof(right); length++)
		if (length != sizeof(right) - 1)
			CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, right, length, &verdict).answer,
				 WEIR__REDIS_STRANGE);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		memcpy(bytes, right, sizeof(right));
		bytes[faults[i].at] = faults[i].byte;
		CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(right) - 1, &verdict).answer,
			 WEIR__REDIS_STRANGE);
	}
	CHECK_EQ(answer_to(&call, WEIR__RESP_SIMPLE, right, sizeof(right) - 1, &verdict).answer, WEIR__REDIS_STRANGE);
	CHECK_EQ(weir__redis_call_read(&call, NULL, 0, &verdict).answer, WEIR__REDIS_STRANGE);
}

/* `granted` says whether there was something to reset. A reset is never denied, and never waits. */
static void a_reset_is_never_refused(void)
{
	static const char words[] = { 8, 10 }; /* denied, and never */
	char bytes[] = HEAD "\11\12\0\0\0\0\0" NO_SPAN "\1\0\0\0\0\0";
	static const char waits[] = HEAD "\15\12\0\0\0\0\0" NO_SPAN "\2\0\0\0\0\0\0\1\0\1\0\0\0\0\0";
	const struct weir__redis_claim claim = claim_of(use_plan("10/s"), "a", 1);
	const struct weir__redis_request request = { WEIR__REDIS_RESET, &claim, 1 };
	const struct weir__redis_call call = call_of(&request, 1);
	struct weir_verdict verdict;

	CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, &verdict).answer, WEIR__REDIS_DECIDED);
	CHECK(verdict.allowed && verdict.granted == 0);
	for (size_t i = 0; i < sizeof(words); i++) {
		bytes[sizeof(HEAD) - 1] = words[i];
		CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, bytes, sizeof(bytes) - 1, &verdict).answer,
			 WEIR__REDIS_STRANGE);
	}
	CHECK_EQ(answer_to(&call, WEIR__RESP_BULK, waits, sizeof(waits) - 1, &verdict).answer, WEIR__REDIS_STRANGE);
}

TESTS(TEST(a_request_is_keys_runs_and_plans), TEST(a_time_is_for_tests_alone), TEST(runs_differ_in_nothing_but_keys),
      TEST(an_undo_has_its_charge), TEST(a_verdict_by_another_plan_has_its_limit), TEST(a_key_that_comes_again_is_told),
      TEST(claims_of_one_key_are_one), TEST(what_cannot_be_asked), TEST(leases_and_pushes), TEST(pushes_reserve_units),
      TEST(what_does_not_fit_one_call), TEST(an_answer_becomes_a_verdict), TEST(a_grant_says_when_it_ends),
      TEST(a_wait_of_one_that_shapes_is_its_delay), TEST(answers_of_the_forgotten_are_skipped),
      TEST(a_request_has_an_answer_for_each_key), TEST(errors_are_told_apart), TEST(what_the_script_does_not_say),
      TEST(a_reset_is_never_refused))
