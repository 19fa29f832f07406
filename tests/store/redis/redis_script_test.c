/* redis_script_test.c: the script in a real Redis: many requests in a call against the core, keys that expire, values that
 * are not its own, scripts that are gone, memory that is full. Single steps are the vectors' business (redis_engine.c). */
#include "redis_server.h"

#include "check.h"
#include "core/wide.h"
#include "plans.h"
#include "store/redis/redis_call.h"

enum { US = 1000, MS = 1000000, ROUNDS = 400, REQUESTS_MOST = 64, CLAIMS_MOST = 5, KEYS = 3, DAMAGES = 300 };

static struct redis_server server;

static void __attribute__((destructor)) stop_server(void)
{
	if (server.pid > 0)
		redis_server_stop(&server);
}

static void load_script(void)
{
	redis_server_load(&server, weir__redis_script.text, weir__redis_script.length);
}

/* One that knows the script, and nothing else. */
static void need_server(void)
{
	if (server.pid == 0)
		redis_server_start(&server);
	load_script();
	REDIS_COMMAND(&server, "FLUSHALL");
}

static struct weir__redis_reply ask(const struct weir__redis_request *requests, size_t n, const weir_ns *now,
				    struct weir_verdict *verdicts)
{
	const struct weir__redis_call call = {
		.sha1 = weir__redis_script.sha1, .prefix = { "p:", 2 }, .requests = requests, .n = n, .test_now = now
	};

	redis_server_begin(&server);
	if (weir__redis_call_write(&call, &server.out) != WEIR_OK)
		errx(1, "a call was not written");
	redis_server_ask(&server);
	return weir__redis_call_read(&call, server.tokens, server.reply.n, verdicts);
}

/* One claim on the key p:l:k. */
static struct weir__redis_reply ask_one(enum weir__redis_operation operation, const struct weir__redis_plan *plan,
					uint64_t cost, const weir_ns *now, struct weir_verdict *verdict)
{
	const struct weir__redis_claim claim = { .plan = plan, .name = { "l", 1 }, .key = { "k", 1 }, .cost = cost };
	const struct weir__redis_request request = { operation, &claim, 1 };

	return ask(&request, 1, now, verdict);
}

static bool is_decided(enum weir__redis_operation operation, const struct weir__redis_plan *plan, uint64_t cost,
		       const weir_ns *now, struct weir_verdict *verdict)
{
	const struct weir__redis_reply reply = ask_one(operation, plan, cost, now, verdict);

	if (reply.answer != WEIR__REDIS_DECIDED)
		printf("# answer %d: %.*s\n", (int)reply.answer, (int)reply.error.length, reply.error.bytes);
	return reply.answer == WEIR__REDIS_DECIDED && reply.anew == 0;
}

static const char *const all_kinds[] = {
	"10/s burst 5",
	"7/min burst 10",
	"999983/s burst 1000",
	"9999/day burst 7",
	"5/s leaky queue 4",
	"10/s refill interval burst 30",
	"3/700us refill interval burst 7",
	"10/s fixed_window",
	"10/s fixed_window align first count all",
	"20/s sliding_counter",
	"20/s sliding_counter segments 5 count all",
	"1000000/day sliding_counter",
	"15/s sliding_log",
	"6/s sliding_log count all",
};

enum { KINDS = sizeof(all_kinds) / sizeof(all_kinds[0]) };

/* --- against the core -------------------------------------------------------------------------------------------- */

static uint64_t seed = 20;

/* xorshift */
static uint64_t below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static struct weir__redis_plan plans[KINDS];
static uint64_t *states[KINDS][KEYS]; /* as the core has them */

struct asked {
	size_t kind, key;
	uint64_t cost;
};

static struct asked asked[REQUESTS_MOST][CLAIMS_MOST];
static struct weir__redis_claim claims[REQUESTS_MOST][CLAIMS_MOST];
static struct weir__redis_request requests[REQUESTS_MOST];

static const struct weir_plan *core_plan(const struct asked *one)
{
	return &plans[one->kind].plan;
}

static void *core_state(const struct asked *one)
{
	return states[one->kind][one->key];
}

static struct weir_verdict core_step(enum weir__redis_operation operation, const struct asked *one, weir_ns now)
{
	switch (operation) {
	case WEIR__REDIS_TAKE:
		return weir_step_take(core_plan(one), core_state(one), now, one->cost);
	case WEIR__REDIS_UP_TO:
		return weir_step_upto(core_plan(one), core_state(one), now, one->cost);
	case WEIR__REDIS_PEEK:
		return weir_step_peek(core_plan(one), core_state(one), now, one->cost);
	case WEIR__REDIS_REFUND:
		return weir_step_refund(core_plan(one), core_state(one), now, one->cost);
	default:
		memset(core_state(one), 0, weir_plan_state_size(core_plan(one)));
		return weir_step_peek(core_plan(one), core_state(one), now, 0);
	}
}

/* As src/store/table/table_decide.c, of claims that differ. */
static void core_together(const struct asked *together, size_t n, weir_ns now, struct weir_verdict *verdicts)
{
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		verdicts[i] = core_step(WEIR__REDIS_PEEK, &together[i], now);
		all = all && verdicts[i].allowed;
	}
	for (size_t i = 0; i < n; i++) {
		const bool was_allowed = verdicts[i].allowed;

		if (all) {
			verdicts[i] = core_step(WEIR__REDIS_TAKE, &together[i], now);
		} else if (core_plan(&together[i])->flags & WEIR_PLAN_COUNT_ALL) {
			core_step(WEIR__REDIS_TAKE, &together[i], now);
			verdicts[i] = core_step(WEIR__REDIS_PEEK, &together[i], now);
			verdicts[i].allowed &= was_allowed;
		}
	}
}

static void make_request(size_t i)
{
	static const char names[KINDS][3] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n" };
	static const char keys[KEYS][2] = { "0", "1", "2" };
	const size_t first = below(KINDS);

	requests[i] = (struct weir__redis_request){ WEIR__REDIS_TAKE, claims[i],
						    below(3) ? 1 : 2 + below(CLAIMS_MOST - 1) };
	if (requests[i].n == 1 && below(3) == 0)
		requests[i].operation = (enum weir__redis_operation)(WEIR__REDIS_UP_TO + below(4));
	for (size_t claim = 0; claim < requests[i].n; claim++) {
		/* Of one request each claim has another limit: those of the same key would be one. */
		struct asked *const one = &asked[i][claim];

		*one = (struct asked){ (first + claim) % KINDS, below(KEYS), below(4) ? 1 : below(8) };
		claims[i][claim] = (struct weir__redis_claim){ .plan = &plans[one->kind],
							       .name = { names[one->kind], 1 },
							       .key = { keys[one->key], 1 },
							       .cost = one->cost };
	}
}

static void check_same(const struct weir_verdict *found, const struct weir_verdict *expected, bool is_reset)
{
	if (!is_reset) /* of which the core does not say whether there was something */
		CHECK_EQ(found->allowed, expected->allowed);
	CHECK_EQ(found->never, expected->never);
	CHECK_EQ(found->limit, expected->limit);
	CHECK_EQ(found->remaining, expected->remaining);
	CHECK_EQ(found->granted, expected->granted);
	CHECK_EQ(found->retry_after, expected->retry_after);
	CHECK_EQ(found->reset_after, expected->reset_after);
	CHECK_EQ(found->delay, expected->delay);
}

static void check_call(size_t n, weir_ns now)
{
	static struct weir_verdict found[REQUESTS_MOST * CLAIMS_MOST];
	struct weir_verdict expected[CLAIMS_MOST];
	const struct weir__redis_reply reply = ask(requests, n, &now, found);
	const struct weir_verdict *next = found;

	if (reply.answer != WEIR__REDIS_DECIDED)
		printf("# %.*s\n", (int)reply.error.length, reply.error.bytes);
	CHECK_EQ(reply.answer, WEIR__REDIS_DECIDED);
	CHECK_EQ(reply.anew, 0);
	CHECK_EQ(reply.now, now);
	for (size_t i = 0; i < n && reply.answer == WEIR__REDIS_DECIDED; i++) {
		if (requests[i].n == 1)
			expected[0] = core_step(requests[i].operation, &asked[i][0], now);
		else
			core_together(asked[i], requests[i].n, now, expected);
		for (size_t claim = 0; claim < requests[i].n; claim++)
			check_same(next++, &expected[claim], requests[i].operation == WEIR__REDIS_RESET);
	}
}

/* Keys come again and again, alone and together with others, in calls of 1 to 64 requests. */
static void many_requests_in_a_call_are_decided_one_by_one(void)
{
	weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		plans[kind] = plan_of(all_kinds[kind]);
		for (size_t key = 0; key < KEYS; key++)
			states[kind][key] = calloc(1, weir_plan_state_size(&plans[kind].plan));
	}
	for (unsigned round = 0; round < ROUNDS && !check_failed; round++) {
		const size_t n = below(4) ? 1 + below(6) : 1 + below(REQUESTS_MOST);

		for (size_t i = 0; i < n; i++)
			make_request(i);
		check_call(n, now);
		now += below(10) ? below(300) * MS + below(1000) * US : below(100000) * MS;
		if (below(50) == 0)
			now -= below(80000) * MS;
	}
	for (size_t kind = 0; kind < KINDS; kind++)
		for (size_t key = 0; key < KEYS; key++)
			free(states[kind][key]);
}

/* 200 requests of one plan, each for another key: the loop that is in a hurry; and the same keys again. */
static void a_long_run_of_one_plan(void)
{
	enum { RUN = 200 };
	static struct weir__redis_claim run_claims[RUN];
	static struct weir__redis_request run[RUN];
	static struct weir_verdict verdicts[RUN];
	static char keys[RUN][8];
	const struct weir__redis_plan plan = plan_of("10/s burst 2");
	weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t i = 0; i < RUN; i++) {
		run_claims[i] = (struct weir__redis_claim){ .plan = &plan,
							    .name = { "l", 1 },
							    .key = { keys[i], (size_t)snprintf(keys[i], 8, "%zu", i) },
							    .cost = 1 };
		run[i] = (struct weir__redis_request){ WEIR__REDIS_TAKE, &run_claims[i], 1 };
	}
	for (unsigned taken = 1; taken <= 3; taken++) {
		CHECK_EQ(ask(run, RUN, &now, verdicts).answer, WEIR__REDIS_DECIDED);
		for (size_t i = 0; i < RUN; i++) {
			CHECK_EQ(verdicts[i].allowed, taken <= 2);
			CHECK_EQ(verdicts[i].retry_after, taken <= 2 ? 0 : 100 * MS);
		}
	}
}

/* Keys that come again in the same call, among others: one after another, also when what comes in between is not done by
 * that loop. */
static void keys_come_again_in_a_call(void)
{
	enum { KEYS_OF_RUN = 40, TURNS = 4, RUN = KEYS_OF_RUN * TURNS };
	static struct weir__redis_claim run_claims[RUN];
	static struct weir__redis_request run[RUN];
	static struct weir_verdict verdicts[RUN];
	static char keys[KEYS_OF_RUN][8];
	const struct weir__redis_plan plan = plan_of("10/s burst 2");
	weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t i = 0; i < RUN; i++) {
		const size_t of = i % KEYS_OF_RUN;

		run_claims[i] =
			(struct weir__redis_claim){ .plan = &plan,
						    .name = { "l", 1 },
						    .key = { keys[of], (size_t)snprintf(keys[of], 8, "%zu", of) },
						    .cost = 1 };
		run[i] = (struct weir__redis_request){ WEIR__REDIS_TAKE, &run_claims[i], 1 };
	}
	run[KEYS_OF_RUN + 1].operation = WEIR__REDIS_RESET; /* the second key is forgotten between its turns, */
	run[3].operation = WEIR__REDIS_PEEK;                /* and the fourth is looked at first */
	CHECK_EQ(ask(run, RUN, &now, verdicts).answer, WEIR__REDIS_DECIDED);
	for (size_t i = 0; i < RUN; i++) {
		const size_t of = i % KEYS_OF_RUN, turn = i / KEYS_OF_RUN;
		const size_t taken = of == 3 ? turn : of == 1 && turn >= 1 ? turn - 1 : turn + 1; /* by then */

		CHECK_EQ(verdicts[i].allowed, taken <= 2);
		CHECK_EQ(verdicts[i].remaining, taken <= 2 ? 2 - taken : 0);
	}
	CHECK_EQ(ask(run + 3 * KEYS_OF_RUN, KEYS_OF_RUN, &now, verdicts).answer, WEIR__REDIS_DECIDED);
	for (size_t i = 0; i < KEYS_OF_RUN; i++)
		CHECK(!verdicts[i].allowed);
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

static int64_t number_of(const struct weir__resp_token *token)
{
	char digits[24] = "";

	if (token->type == WEIR__RESP_INTEGER)
		return token->number;
	memcpy(digits, token->text.bytes,
	       token->text.length < sizeof(digits) ? token->text.length : sizeof(digits) - 1);
	return strtoll(digits, NULL, 10);
}

/* Redis's clock. */
static weir_ns time_of_server(void)
{
	const struct weir__resp_token *const tokens = REDIS_COMMAND(&server, "TIME");

	return (weir_ns)number_of(&tokens[1]) * 1000 * MS + (weir_ns)number_of(&tokens[2]) * US;
}

/* On the server's clock: not before it is whole again, and not much later. */
static void keys_expire_when_they_are_whole(void)
{
	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		const struct weir__redis_plan plan = plan_of(all_kinds[kind]);
		const weir_ns before = time_of_server(), grace = 100 * MS, rounding = 2 * MS;
		struct weir_verdict verdict;
		weir_ns after, expires,
			duration = 3 * plan.plan.period; /* of windows, in which a key may have come early */

		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, NULL, &verdict));
		CHECK(verdict.allowed && verdict.reset_after > 0);
		after = time_of_server();
		expires = (weir_ns)number_of(REDIS_COMMAND(&server, "PEXPIRETIME", "p:l:k")) * MS;
		if (plan.plan.kind == WEIR_KIND_BUCKET)
			duration = (weir_ns)(weir__mul(plan.plan.most, plan.plan.period) / plan.plan.count);
		CHECK(expires + rounding >= before + verdict.reset_after + grace);
		CHECK(expires <= after + verdict.reset_after + duration + grace + rounding);
		REDIS_COMMAND(&server, "DEL", "p:l:k");
	}
}

static void what_is_given_back_or_forgotten_needs_no_key(void)
{
	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		const struct weir__redis_plan plan = plan_of(all_kinds[kind]);
		struct weir_verdict verdict;

		CHECK(is_decided(WEIR__REDIS_PEEK, &plan, 1, NULL, &verdict) && verdict.allowed);
		CHECK_EQ(number_of(REDIS_COMMAND(&server, "DBSIZE")), 0);
		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 2, NULL, &verdict) && verdict.allowed);
		CHECK_EQ(number_of(REDIS_COMMAND(&server, "DBSIZE")), 1);
		CHECK(is_decided(WEIR__REDIS_REFUND, &plan, 2, NULL, &verdict) && verdict.allowed);
		CHECK_EQ(number_of(REDIS_COMMAND(&server, "DBSIZE")), 0);
		CHECK(is_decided(WEIR__REDIS_RESET, &plan, 0, NULL, &verdict) && !verdict.allowed);
		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, plan.plan.most, NULL, &verdict) && verdict.allowed);
		CHECK(is_decided(WEIR__REDIS_RESET, &plan, 0, NULL, &verdict) && verdict.allowed);
		CHECK_EQ(verdict.remaining, plan.plan.most);
		CHECK_EQ(number_of(REDIS_COMMAND(&server, "DBSIZE")), 0);
	}
}

/* --- what is not ours -------------------------------------------------------------------------------------------- */

static void set_value(const char *bytes, size_t length)
{
	redis_server_begin(&server);
	weir__resp_write_array(&server.out, 3);
	weir__resp_write_bulk(&server.out, "SET", 3);
	weir__resp_write_bulk(&server.out, "p:l:k", 5);
	weir__resp_write_bulk(&server.out, bytes, length);
	redis_server_ask(&server);
}

static void a_value_of_others_starts_anew_and_is_told(void)
{
	const weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		const struct weir__redis_plan plan = plan_of(all_kinds[kind]);
		const struct weir__redis_plan other = plan_of(kind < 5 ? "10/s fixed_window" : "10/s burst 5");
		struct weir_verdict verdict;
		struct weir__redis_reply reply;

		set_value("hello", 5);
		reply = ask_one(WEIR__REDIS_TAKE, &plan, 1, &now, &verdict);
		CHECK(reply.answer == WEIR__REDIS_DECIDED && reply.anew == 1 && verdict.allowed);
		CHECK_EQ(verdict.remaining, plan.plan.most - 1);
		reply = ask_one(WEIR__REDIS_TAKE, &plan, 1, &now, &verdict);
		CHECK(reply.answer == WEIR__REDIS_DECIDED && reply.anew == 0);
		CHECK_EQ(verdict.remaining, plan.plan.most - 2);
		/* A limit of another kind cannot be carried over. */
		reply = ask_one(WEIR__REDIS_TAKE, &other, 1, &now, &verdict);
		CHECK(reply.answer == WEIR__REDIS_DECIDED && reply.anew == 1 && verdict.allowed);
		CHECK_EQ(verdict.remaining, other.plan.most - 1);
		REDIS_COMMAND(&server, "DEL", "p:l:k");
		REDIS_COMMAND(&server, "HSET", "p:l:k", "a", "b");
		reply = ask_one(WEIR__REDIS_TAKE, &plan, 1, NULL, &verdict);
		CHECK(reply.answer == WEIR__REDIS_DECIDED && reply.anew == 1 && verdict.allowed);
		REDIS_COMMAND(&server, "DEL", "p:l:k");
	}
}

/* Whatever the bytes, there is a verdict, and it is one that can be: the reader looks. */
static void damaged_values_do_no_harm(void)
{
	const weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t kind = 0; kind < KINDS && !check_failed; kind++) {
		const struct weir__redis_plan plan = plan_of(all_kinds[kind]);
		const struct weir__resp_token *token;
		struct weir_verdict verdict;
		char value[200], damaged[200];
		size_t length;

		for (unsigned i = 0; i < 3; i++) {
			const weir_ns then = now + i * 90 * MS;

			CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &then, &verdict));
		}
		token = REDIS_COMMAND(&server, "GET", "p:l:k");
		length = token->text.length;
		CHECK(length > 0 && length < sizeof(value));
		memcpy(value, token->text.bytes, length);
		for (unsigned i = 0; i < DAMAGES; i++) {
			const size_t cut = below(8) ? length : below(length);
			const weir_ns then = now + below(1000) * MS;
			const enum weir__redis_operation operation = (enum weir__redis_operation)(WEIR__REDIS_TAKE +
												  below(5));
			struct weir__redis_reply reply;

			memcpy(damaged, value, length);
			for (uint64_t n = 1 + below(3); n > 0; n--)
				damaged[below(length)] = (char)below(256);
			set_value(damaged, cut);
			reply = ask_one(operation, &plan, 1 + below(3), &then, &verdict);
			if (reply.answer != WEIR__REDIS_DECIDED)
				printf("# %s: answer %d: %.*s\n", all_kinds[kind], (int)reply.answer,
				       (int)reply.error.length, reply.error.bytes);
			CHECK_EQ(reply.answer, WEIR__REDIS_DECIDED);
		}
		REDIS_COMMAND(&server, "DEL", "p:l:k");
	}
}

/* --- limits that change ------------------------------------------------------------------------------------------ */

static const struct {
	const char *from, *to;
} changes[] = {
	{ "10/s burst 10", "10/s burst 20" },
	{ "10/s burst 10", "7/s burst 5" },
	{ "7/min burst 10", "999983/hour burst 30" },
	{ "9999/day burst 20", "11/min burst 21" },
	{ "10/s refill interval burst 30", "7/3s refill interval burst 50" },
	{ "10/s fixed_window", "20/s fixed_window" },
	{ "20/min sliding_counter", "4/min sliding_counter" },
	{ "20/min sliding_log", "30/min sliding_log" },
};

/* So many are taken, then the limit changes, then two more are taken much later. If nobody has told when it changed, it
 * did when the key is next touched. */
static void check_change(size_t row, unsigned cost, bool is_told)
{
	const weir_ns start = UINT64_C(1790000000000000000), late = start + UINT64_C(777) * MS;
	const weir_ns change = is_told ? start + UINT64_C(123) * MS : late;
	struct weir__redis_plan plan = plan_of(changes[row].from);
	const struct weir_plan to = plan_of(changes[row].to).plan;
	struct weir_plan from = plan.plan;
	uint64_t *const state = calloc(1, weir_plan_state_size(&from) + weir_plan_state_size(&to));
	struct weir_verdict found, expected;

	if (from.kind == WEIR_KIND_LOG)
		from.room = to.room;
	weir_step_take(&from, state, start, cost);
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, cost, &start, &found));
	if (is_told)
		CHECK(weir__redis_plan_change(&plan, &to, change, NULL) == WEIR_OK);
	else
		plan = plan_of(changes[row].to);
	weir_step_convert(&from, &to, state, change);
	expected = weir_step_take(&to, state, late, 2);
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 2, &late, &found));
	check_same(&found, &expected, false);
	REDIS_COMMAND(&server, "DEL", "p:l:k");
	free(state);
}

static void a_key_is_carried_over_as_of_the_change(void)
{
	need_server();
	for (size_t row = 0; row < sizeof(changes) / sizeof(changes[0]); row++)
		for (unsigned cost = 0; cost <= 10; cost += 5) {
			check_change(row, cost, true);
			if (cost > 0)
				check_change(row, cost, false);
		}
}

/* One node has heard of a change, another has not, hours later: each takes what the other has used for used. */
static void a_node_that_lags_behind_a_change_forgives_nothing(void)
{
	const weir_ns hour = UINT64_C(3600000000000), start = UINT64_C(1790000000000000000), late = start + 5 * hour;

	need_server();
	for (size_t row = 0; row < sizeof(changes) / sizeof(changes[0]); row++) {
		const struct weir_plan to = plan_of(changes[row].to).plan;
		struct weir__redis_plan old_plan = plan_of(changes[row].from), new_plan = old_plan;
		struct weir_verdict found;
		uint64_t granted = 0;

		CHECK(weir__redis_plan_change(&new_plan, &to, start, NULL) == WEIR_OK);
		for (unsigned i = 0; i < 100; i++) {
			CHECK(is_decided(WEIR__REDIS_TAKE, i % 2 ? &new_plan : &old_plan, 1, &late, &found));
			granted += found.granted;
		}
		CHECK(granted <= (to.most > old_plan.plan.most ? to.most : old_plan.plan.most));
		REDIS_COMMAND(&server, "DEL", "p:l:k");
	}
}

/* --- a Redis that has lost something ------------------------------------------------------------------------------ */

static void a_script_that_is_gone_is_loaded_again(void)
{
	const struct weir__redis_plan plan = plan_of("10/min burst 5");
	struct weir_verdict verdict;

	need_server();
	REDIS_COMMAND(&server, "SCRIPT", "FLUSH");
	CHECK_EQ(ask_one(WEIR__REDIS_TAKE, &plan, 1, NULL, &verdict).answer, WEIR__REDIS_NOSCRIPT);
	CHECK_EQ(number_of(REDIS_COMMAND(&server, "DBSIZE")), 0);
	load_script();
	CHECK_EQ(server.tokens[0].text.length, WEIR__REDIS_SHA1_LENGTH);
	CHECK(memcmp(server.tokens[0].text.bytes, weir__redis_script.sha1, WEIR__REDIS_SHA1_LENGTH) == 0);
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, NULL, &verdict));
	CHECK_EQ(verdict.remaining, 4);
	REDIS_COMMAND(&server, "SCRIPT", "FLUSH");
	CHECK_EQ(ask_one(WEIR__REDIS_TAKE, &plan, 1, NULL, &verdict).answer, WEIR__REDIS_NOSCRIPT);
	load_script();
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, NULL, &verdict));
	CHECK_EQ(verdict.remaining, 3);
}

/* Several limits, and of two different kinds: none is charged. */
static void a_full_memory_charges_nobody(void)
{
	const struct weir__redis_plan bucket = plan_of("10/hour burst 5"), window = plan_of("10/day fixed_window");
	const struct weir__redis_claim together[] = {
		{ .plan = &bucket, .name = { "l", 1 }, .key = { "k", 1 }, .cost = 1 },
		{ .plan = &window, .name = { "w", 1 }, .key = { "k", 1 }, .cost = 1 },
	};
	const struct weir__redis_request both = { WEIR__REDIS_TAKE, together, 2 };
	struct weir_verdict verdicts[2];
	struct weir__redis_reply reply;

	need_server();
	CHECK(is_decided(WEIR__REDIS_TAKE, &bucket, 1, NULL, verdicts));
	REDIS_COMMAND(&server, "CONFIG", "SET", "maxmemory", "1");
	reply = ask(&both, 1, NULL, verdicts);
	CHECK_EQ(reply.answer, WEIR__REDIS_ERROR);
	CHECK(reply.error.length > 3 && memcmp(reply.error.bytes, "OOM", 3) == 0);
	CHECK(is_decided(WEIR__REDIS_PEEK, &bucket, 1, NULL, verdicts)); /* which writes nothing */
	CHECK_EQ(verdicts[0].remaining, 4);
	REDIS_COMMAND(&server, "CONFIG", "SET", "maxmemory", "0");
	CHECK_EQ(ask(&both, 1, NULL, verdicts).answer, WEIR__REDIS_DECIDED);
	CHECK_EQ(verdicts[0].remaining, 3);
	CHECK_EQ(verdicts[1].remaining, 9);
}

TESTS(TEST(many_requests_in_a_call_are_decided_one_by_one), TEST(a_long_run_of_one_plan),
      TEST(keys_come_again_in_a_call), TEST(keys_expire_when_they_are_whole),
      TEST(what_is_given_back_or_forgotten_needs_no_key), TEST(a_value_of_others_starts_anew_and_is_told),
      TEST(damaged_values_do_no_harm), TEST(a_key_is_carried_over_as_of_the_change),
      TEST(a_node_that_lags_behind_a_change_forgives_nothing), TEST(a_script_that_is_gone_is_loaded_again),
      TEST(a_full_memory_charges_nobody))
