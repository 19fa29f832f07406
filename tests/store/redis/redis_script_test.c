/* redis_script_test.c: the script in a real Redis: many requests in a call compared with the core, keys that expire,
 * foreign values, lost scripts, full memory. The vectors test single steps (redis_engine.c). */
#include "core/reserve.h"
#include "core/step.h"
#include "redis_server.h"

#include "check.h"
#include "core/wide.h"
#include "plans.h"
#include "store/redis/redis_call.h"
#include "store/table/decision.h"
#include "store/table/inline_limit.h"

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

/* A Redis that has the script and no keys. */
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
	const struct weir__redis_claim claim = { .plan = plan,
						 .name = { "l", 1 },
						 .key = { "k", 1 },
						 .cost = cost,
						 .lease_duration = 1000 * MS,
						 .lease_most = 3 };
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
static uint64_t *states[KINDS][KEYS]; /* the core's states */

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

/* As src/store/table/table_decide.c, for distinct claims. */
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
			verdicts[i].allowed = was_allowed;
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
		/* Each claim of a request has another limit; two of the same key would be merged. */
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

/* Keys repeat, alone and together with others, in calls of 1 to 64 requests. */
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

/* 200 requests of one plan, each with another key: the script's fast loop. Then the same keys again. */
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

/* Keys that repeat in one call, among others, are decided in order, also when the requests in between do not use the
 * fast loop. */
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

/* By the server's clock: not before the key is full, and not much later. */
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
		struct weir_verdict verdict;
		struct weir__redis_reply reply;

		set_value("hello", 5);
		reply = ask_one(WEIR__REDIS_TAKE, &plan, 1, &now, &verdict);
		CHECK(reply.answer == WEIR__REDIS_DECIDED && reply.anew == 1 && verdict.allowed);
		CHECK_EQ(verdict.remaining, plan.plan.most - 1);
		reply = ask_one(WEIR__REDIS_TAKE, &plan, 1, &now, &verdict);
		CHECK(reply.answer == WEIR__REDIS_DECIDED && reply.anew == 0);
		CHECK_EQ(verdict.remaining, plan.plan.most - 2);
		REDIS_COMMAND(&server, "DEL", "p:l:k");
		REDIS_COMMAND(&server, "HSET", "p:l:k", "a", "b");
		reply = ask_one(WEIR__REDIS_TAKE, &plan, 1, NULL, &verdict);
		CHECK(reply.answer == WEIR__REDIS_DECIDED && reply.anew == 1 && verdict.allowed);
		REDIS_COMMAND(&server, "DEL", "p:l:k");
	}
}

/* For any bytes there is a valid verdict: the reader checks that. Half of the values have lent units. */
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

		if (kind % 2)
			CHECK(is_decided(WEIR__REDIS_GRANT, &plan, 1, &now, &verdict));
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
												  below(11));
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

/* --- leases ------------------------------------------------------------------------------------------------------ */

static const weir_ns lent_at = UINT64_C(1790000000000000000), one_s = UINT64_C(1000) * MS;

static uint64_t left_at(const struct weir__redis_plan *plan, weir_ns now)
{
	struct weir_verdict verdict = { 0 };

	CHECK(is_decided(WEIR__REDIS_PEEK, plan, 0, &now, &verdict));
	return verdict.remaining;
}

static uint64_t lend(const struct weir__redis_plan *plan, uint64_t units, weir_ns now, weir_ns duration)
{
	const struct weir__redis_claim claim = { .plan = plan,
						 .name = { "l", 1 },
						 .key = { "k", 1 },
						 .cost = units,
						 .lease_duration = duration,
						 .lease_most = 1000 };
	const struct weir__redis_request request = { WEIR__REDIS_GRANT, &claim, 1 };
	struct weir_verdict verdict = { 0 };

	CHECK(ask(&request, 1, &now, &verdict).answer == WEIR__REDIS_DECIDED);
	CHECK(verdict.granted == 0 || verdict.delay >= duration + duration / 1000);
	return verdict.granted;
}

/* The longest lease of all is 12.51 s. */
static void lent_units_do_not_outlive_a_new_clock(void)
{
	const struct weir__redis_plan plan = plan_of("10/s burst 5");
	const weir_ns long_ago = lent_at - 100 * one_s, end = long_ago + UINT64_C(12510) * MS;

	need_server();
	CHECK_EQ(lend(&plan, 3, lent_at, one_s), 3);
	CHECK_EQ(left_at(&plan, lent_at - 59 * one_s), 2);
	CHECK_EQ(left_at(&plan, long_ago), 2);
	CHECK_EQ(left_at(&plan, end - US), 2);
	CHECK_EQ(left_at(&plan, end), 2); /* charged now */
	CHECK_EQ(left_at(&plan, end + 99 * MS), 2);
	CHECK_EQ(left_at(&plan, end + 100 * MS), 3);
	CHECK_EQ(left_at(&plan, end + 300 * MS), 5);
}

static void a_reset_forgets_what_is_lent(void)
{
	const struct weir__redis_plan plan = plan_of("10/s burst 5");
	struct weir_verdict verdict;

	need_server();
	CHECK_EQ(lend(&plan, 3, lent_at, one_s), 3);
	CHECK(is_decided(WEIR__REDIS_RESET, &plan, 0, &lent_at, &verdict));
	CHECK(verdict.allowed); /* there was something to forget */
	CHECK_EQ(left_at(&plan, lent_at), 5);
}

/* Redis does not know which lent units were spent. So until their lease ends, they cannot be given back, except by the
 * server that holds them. */
static void a_refund_gives_back_what_was_charged(void)
{
	static const char *const limits[] = { "20/day burst 20", "20/day fixed_window", "20/day sliding_counter" };

	need_server();
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir__redis_plan plan = plan_of(limits[i]);
		const weir_ns ended = lent_at + 2 * one_s;
		struct weir_verdict verdict;

		CHECK(is_decided(WEIR__REDIS_RESET, &plan, 0, &lent_at, &verdict));
		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 2, &lent_at, &verdict));
		CHECK_EQ(lend(&plan, 9, lent_at, one_s), 9);
		CHECK(is_decided(WEIR__REDIS_REFUND, &plan, 3, &lent_at, &verdict));
		CHECK_EQ(verdict.remaining, 11); /* 2 of 3 */
		CHECK_EQ(left_at(&plan, ended), 11);
		CHECK(is_decided(WEIR__REDIS_REFUND, &plan, 3, &ended, &verdict));
		CHECK_EQ(verdict.remaining, 14);
	}
}

/* A ninth end is one too many. Its units are lent again when the first lease has ended. */
static void leases_of_a_key_have_few_ends(void)
{
	const struct weir__redis_plan plan = plan_of("10/s burst 50");

	need_server();
	for (unsigned i = 1; i <= 8; i++)
		CHECK_EQ(lend(&plan, 1, lent_at, i * one_s), 1);
	CHECK_EQ(lend(&plan, 1, lent_at, 9100 * one_s / 1000), 0);
	CHECK_EQ(lend(&plan, 1, lent_at, 8 * one_s), 1); /* the same end */
	CHECK_EQ(left_at(&plan, lent_at), 41);
	CHECK_EQ(lend(&plan, 1, lent_at + 1250 * one_s / 1000, 9100 * one_s / 1000), 1);
}

/* The first request takes the fast path, which does not know leases. */
static void a_take_and_a_grant_of_one_key_in_a_call(void)
{
	const struct weir__redis_plan plan = plan_of("10/s burst 5");
	struct weir__redis_claim of[4];
	struct weir__redis_request calls[4];
	struct weir_verdict verdicts[4];
	const enum weir__redis_operation operations[] = { WEIR__REDIS_TAKE, WEIR__REDIS_GRANT, WEIR__REDIS_TAKE,
							  WEIR__REDIS_RETURN };
	const struct weir__resp_token *value;

	need_server();
	for (size_t i = 0; i < 4; i++) {
		of[i] = (struct weir__redis_claim){ .plan = &plan,
						    .name = { "l", 1 },
						    .key = { "k", 1 },
						    .cost = 1,
						    .lease_duration = one_s,
						    .lease_most = 5 };
		calls[i] = (struct weir__redis_request){ operations[i], &of[i], 1 };
	}
	CHECK(ask(calls, 3, &lent_at, verdicts).answer == WEIR__REDIS_DECIDED);
	CHECK(verdicts[0].remaining == 4 && verdicts[1].granted == 1 && verdicts[2].remaining == 2);
	value = REDIS_COMMAND(&server, "GET", "p:l:k");
	CHECK(value->text.length == 55 + 13 + 1 && value->text.bytes[0] == 4);
	of[3].lease_end_us = (lent_at + verdicts[1].delay) / US;
	CHECK(ask(&calls[3], 1, &lent_at, verdicts).answer == WEIR__REDIS_DECIDED);
	CHECK(verdicts[0].granted == 1 && verdicts[0].remaining == 3);
	value = REDIS_COMMAND(&server, "GET", "p:l:k");
	CHECK(value->text.length == 55 && value->text.bytes[0] == 3); /* a plain value again */
}

/* Until the last lease has ended and its units have refilled. */
static void lent_units_keep_their_key(void)
{
	static const char *const texts[] = { "10/s burst 5", "5/2s refill interval burst 7", "20/10s sliding_counter",
					     "20/hour fixed_window" };

	need_server();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct weir__redis_plan plan = plan_of(texts[i]);
		const weir_ns before = time_of_server();
		struct weir_verdict verdict;
		weir_ns expires, full = before;

		CHECK(is_decided(WEIR__REDIS_GRANT, &plan, 3, NULL, &verdict));
		CHECK_EQ(verdict.granted, 3);
		if (plan.plan.kind == WEIR_KIND_WINDOW)
			full += verdict.reset_after;
		else
			full += verdict.delay + verdict.reset_after;
		expires = (weir_ns)number_of(REDIS_COMMAND(&server, "PEXPIRETIME", "p:l:k")) * MS;
		CHECK(expires >= full);
		REDIS_COMMAND(&server, "DEL", "p:l:k");
	}
}

/* Debt of pushes stays, however long it is. An older server would take it for a clock that has stepped back. */
static void pushed_units_become_debt(void)
{
	const struct weir__redis_plan plan = plan_of("10/hour burst 5");
	struct weir_verdict verdict;

	need_server();
	CHECK(is_decided(WEIR__REDIS_PUSH, &plan, 5, &lent_at, &verdict));
	CHECK(verdict.granted == 5 && verdict.remaining == 0);
	CHECK(is_decided(WEIR__REDIS_PUSH, &plan, 1, &lent_at, &verdict));
	CHECK(verdict.granted == 1 && verdict.reset_after == 6 * 360 * one_s);
	CHECK_EQ(left_at(&plan, lent_at + 720 * one_s - MS), 0);
	CHECK_EQ(left_at(&plan, lent_at + 720 * one_s), 1);
	CHECK_EQ(left_at(&plan, lent_at - 61 * one_s), 0); /* a new clock: one burst is owed */
	CHECK_EQ(left_at(&plan, lent_at - 61 * one_s + 360 * one_s), 1);
}

enum { RESERVING_MOST = 6 };

/* A call with pushes and other requests for keys of one plan. */
struct reserving {
	enum weir__redis_operation operation;
	const char *key;
	uint64_t cost, reserved;
	bool allowed;
	uint64_t remaining;
};

static void check_reserving(const struct weir__redis_plan *plan, const struct reserving *steps, size_t n)
{
	struct weir__redis_claim of[RESERVING_MOST];
	struct weir__redis_request calls[RESERVING_MOST] = { 0 };
	struct weir_verdict verdicts[RESERVING_MOST];

	for (size_t i = 0; i < n; i++) {
		of[i] = (struct weir__redis_claim){ .plan = plan,
						    .name = { "l", 1 },
						    .key = { steps[i].key, 1 },
						    .cost = steps[i].cost,
						    .charged_at = WEIR_NEVER,
						    .lease_duration = one_s,
						    .lease_most = 20,
						    .reserved = steps[i].reserved };
		calls[i] = (struct weir__redis_request){ steps[i].operation, &of[i], 1 };
	}
	CHECK(ask(calls, n, &lent_at, verdicts).answer == WEIR__REDIS_DECIDED);
	for (size_t i = 0; i < n; i++)
		if (verdicts[i].allowed != steps[i].allowed || verdicts[i].remaining != steps[i].remaining) {
			check_fail(__FILE__, __LINE__, "a call that reserves");
			printf("# request %zu: allowed %d, remaining %" PRIu64 "\n", i, verdicts[i].allowed,
			       verdicts[i].remaining);
		}
}

/* Each row is a call. Units that one reserves are free again in the next. */
static void reserved_units_last_for_a_call(void)
{
	static const char *const limits[] = { "20/day burst 20", "20/day refill interval burst 20",
					      "20/day fixed_window", "20/day sliding_counter" };
	static const struct reserving calls[][RESERVING_MOST] = {
		/* they count as used, and are not charged */
		{ { WEIR__REDIS_PUSH, "k", 2, 5, true, 13 },
		  { WEIR__REDIS_TAKE, "k", 14, 0, false, 13 },
		  { WEIR__REDIS_TAKE, "k", 3, 0, true, 10 },
		  { WEIR__REDIS_PEEK, "k", 11, 0, false, 10 },
		  { WEIR__REDIS_UP_TO, "k", 99, 0, true, 0 } },
		{ { WEIR__REDIS_PEEK, "k", 5, 0, true, 5 }, { WEIR__REDIS_REFUND, "k", 9, 0, true, 14 } },
		/* a later push of the key says anew how many */
		{ { WEIR__REDIS_PUSH, "k", 0, 5, true, 9 },
		  { WEIR__REDIS_PUSH, "k", 1, 2, true, 11 },
		  { WEIR__REDIS_TAKE, "k", 1, 0, true, 10 },
		  { WEIR__REDIS_PUSH, "k", 0, 0, true, 12 } },
		/* each key has its own */
		{ { WEIR__REDIS_PUSH, "k", 0, 12, true, 0 },
		  { WEIR__REDIS_PUSH, "m", 0, 1, true, 19 },
		  { WEIR__REDIS_TAKE, "n", 20, 0, true, 0 },
		  { WEIR__REDIS_TAKE, "m", 19, 0, true, 0 },
		  { WEIR__REDIS_TAKE, "k", 1, 0, false, 0 } },
		{ { WEIR__REDIS_TAKE, "m", 1, 0, true, 0 }, { WEIR__REDIS_TAKE, "k", 2, 0, true, 10 } },
		/* more than the limit has; units that are pushed are charged in any case */
		{ { WEIR__REDIS_PUSH, "k", 0, UINT64_MAX, true, 0 },
		  { WEIR__REDIS_TAKE, "k", 1, 0, false, 0 },
		  { WEIR__REDIS_PUSH, "k", 4, UINT64_MAX, true, 0 } },
		{ { WEIR__REDIS_PEEK, "k", 6, 0, true, 6 } },
		/* they cannot be lent, and lent units stay lent */
		{ { WEIR__REDIS_PUSH, "k", 0, 4, true, 2 }, { WEIR__REDIS_GRANT, "k", 3, 0, true, 0 } },
		{ { WEIR__REDIS_PEEK, "k", 5, 0, false, 4 } },
	};

	need_server();
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir__redis_plan plan = plan_of(limits[i]);

		REDIS_COMMAND(&server, "FLUSHALL");
		for (size_t call = 0; call < sizeof(calls) / sizeof(calls[0]); call++) {
			size_t n = 0;

			while (n < RESERVING_MOST && calls[call][n].key)
				n++;
			check_reserving(&plan, calls[call], n);
		}
	}
}

/* A key of which units were only reserved is not stored, and the value of another has no lots. */
static void reserved_units_are_not_stored(void)
{
	static const struct reserving nothing[] = { { WEIR__REDIS_PUSH, "k", 0, 5, true, 0 },
						    { WEIR__REDIS_TAKE, "k", 1, 0, false, 0 } },
				      one[] = { { WEIR__REDIS_PUSH, "k", 0, 4, true, 1 },
						{ WEIR__REDIS_TAKE, "k", 1, 0, true, 0 } };
	const struct weir__redis_plan plan = plan_of("10/s burst 5");
	const struct weir__resp_token *value;

	need_server();
	check_reserving(&plan, nothing, 2);
	CHECK_EQ(number_of(REDIS_COMMAND(&server, "EXISTS", "p:l:k")), 0);
	check_reserving(&plan, one, 2);
	value = REDIS_COMMAND(&server, "GET", "p:l:k");
	CHECK(value->text.length == 55 && value->text.bytes[0] == 3);
	CHECK_EQ(left_at(&plan, lent_at), 4);
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

/* Takes `cost`, changes the limit, then takes two more much later. If the old plan has taken once more after the
 * change, the key is converted at its next use. */
static void check_change(size_t row, unsigned cost, bool is_used_since)
{
	const weir_ns start = UINT64_C(1790000000000000000), late = start + UINT64_C(777) * MS;
	const weir_ns told = start + UINT64_C(123) * MS, since = told + 200 * MS;
	const weir_ns change = is_used_since ? late : told;
	struct weir__redis_plan plan = plan_of(changes[row].from);
	const struct weir_plan to = plan_of(changes[row].to).plan;
	struct weir_plan from = plan.plan;
	uint64_t *const state = calloc(1, weir_plan_state_size(&from) + weir_plan_state_size(&to));
	struct weir_verdict found, expected;

	if (from.kind == WEIR_KIND_LOG)
		from.room = to.room;
	weir_step_take(&from, state, start, cost);
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, cost, &start, &found));
	if (is_used_since) {
		expected = weir_step_take(&from, state, since, 1);
		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &since, &found));
		check_same(&found, &expected, false);
	}
	CHECK(weir__redis_plan_change(&plan, &to, told, NULL) == WEIR_OK);
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
			check_change(row, cost, false);
			if (cost == 5)
				check_change(row, cost, true);
		}
}

/* One node knows of a change, another does not, hours later: each counts the other's usage. */
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

/* Which plan decides: of two nodes with different plans, the plan that was set last decides for both. */

static struct weir__redis_plan plan_set_at(const char *text, weir_ns at)
{
	struct weir__redis_plan plan = plan_of(text);

	weir__redis_plan_set_at(&plan, at);
	return plan;
}

static void forget(void)
{
	REDIS_COMMAND(&server, "DEL", "p:l:k");
}

/* The instant of the plan in the stored value, in ns. */
static weir_ns stored_instant(void)
{
	const struct weir__resp_token *const token = REDIS_COMMAND(&server, "GETRANGE", "p:l:k", "28", "34");
	uint64_t us = 0;

	for (size_t i = 0; i < token->text.length; i++)
		us |= (uint64_t)(unsigned char)token->text.bytes[i] << (8 * i);
	return us * US;
}

/* All kinds against all others. The node with the older plan gets the verdict that the other node would get. */
static void an_older_plan_is_not_asked(void)
{
	const weir_ns now = UINT64_C(1790000000000000000), before = now - 2000 * US, after = now - 1000 * US;

	need_server();
	for (size_t stored = 0; stored < KINDS; stored++)
		for (size_t asks = 0; asks < KINDS; asks++) {
			const struct weir__redis_plan newer = plan_set_at(all_kinds[stored], after);
			const struct weir__redis_plan older = plan_set_at(all_kinds[asks], asks % 2 ? after : before);
			static const enum weir__redis_operation operations[] = {
				WEIR__REDIS_TAKE,   WEIR__REDIS_PEEK, WEIR__REDIS_UP_TO,
				WEIR__REDIS_REFUND, WEIR__REDIS_TAKE,
			};

			forget();
			for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
				struct weir_verdict expected, found;

				/* What the node with the newer plan would get, then the other, from the same state. */
				forget();
				for (size_t taken = 0; taken < 3; taken++)
					CHECK(is_decided(WEIR__REDIS_TAKE, &newer, 1, &now, &found));
				CHECK(is_decided(operations[i], &newer, 2, &now, &expected));
				forget();
				for (size_t taken = 0; taken < 3; taken++)
					CHECK(is_decided(WEIR__REDIS_TAKE, &newer, 1, &now, &found));
				CHECK(is_decided(operations[i], &older, 2, &now, &found));
				check_same(&found, &expected, false);
				CHECK_EQ(stored_instant(), after);
			}
		}
}

static void a_newer_plan_of_another_kind_starts_anew(void)
{
	const weir_ns now = UINT64_C(1790000000000000000), before = now - 2000 * US, after = now - 1000 * US;

	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		const struct weir__redis_plan older = plan_set_at(all_kinds[kind], before);
		const struct weir__redis_plan newer = plan_set_at(kind < 5 ? "10/s fixed_window" : "10/s burst 5",
								  after);
		struct weir_verdict found;

		if (older.plan.kind == newer.plan.kind)
			continue;
		forget();
		CHECK(is_decided(WEIR__REDIS_TAKE, &older, 2, &now, &found));
		CHECK(is_decided(WEIR__REDIS_PEEK, &newer, 1, &now, &found)); /* not told as damaged */
		CHECK_EQ(found.remaining, newer.plan.most);
		CHECK_EQ(stored_instant(), before);
		CHECK(is_decided(WEIR__REDIS_TAKE, &newer, 1, &now, &found));
		CHECK_EQ(found.remaining, newer.plan.most - 1);
		CHECK_EQ(stored_instant(), after);
		CHECK(is_decided(WEIR__REDIS_TAKE, &older, 1, &now, &found));
		CHECK_EQ(found.limit, newer.plan.most);
		CHECK_EQ(found.remaining, newer.plan.most - 2);
	}
}

/* Servers that load the same policy one after another have the same numbers, set at different instants. */
static void the_latest_instant_of_the_same_plan_stays(void)
{
	const weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		const struct weir__redis_plan first = plan_set_at(all_kinds[kind], now - 3000 * US);
		const struct weir__redis_plan second = plan_set_at(all_kinds[kind], now - 2000 * US);
		const struct weir__redis_plan third = plan_set_at(all_kinds[kind], now - 1000 * US);
		struct weir_verdict found;

		forget();
		CHECK(is_decided(WEIR__REDIS_TAKE, &second, 1, &now, &found));
		CHECK(is_decided(WEIR__REDIS_TAKE, &first, 1, &now, &found));
		CHECK_EQ(found.remaining, first.plan.most - 2);
		CHECK_EQ(stored_instant(), second.set_at);
		/* Also by a request that is denied. */
		CHECK(is_decided(WEIR__REDIS_TAKE, &third, third.plan.most - 1, &now, &found));
		CHECK(!found.allowed);
		CHECK_EQ(stored_instant(), third.set_at);
	}
}

/* Joint decisions, and several plans of a key in one call. */
static void requests_of_one_call_have_one_plan_each(void)
{
	const weir_ns now = UINT64_C(1790000000000000000);
	const struct weir__redis_plan older = plan_set_at("10/s burst 50", now - 2000 * US);
	const struct weir__redis_plan newer = plan_set_at("10/s burst 5", now - 1000 * US);
	const struct weir__redis_plan window = plan_set_at("3/s fixed_window", 0);
	const struct weir__redis_claim by_older[] = {
		{ .plan = &older, .name = { "l", 1 }, .key = { "k", 1 }, .cost = 2 },
		{ .plan = &window, .name = { "w", 1 }, .key = { "k", 1 }, .cost = 1 },
	};
	const struct weir__redis_claim by_newer = { .plan = &newer, .name = { "l", 1 }, .key = { "k", 1 }, .cost = 2 };
	const struct weir__redis_request call[] = {
		{ WEIR__REDIS_TAKE, &by_older[0], 1 }, { WEIR__REDIS_TAKE, &by_newer, 1 },
		{ WEIR__REDIS_TAKE, by_older, 2 },     { WEIR__REDIS_RESET, &by_older[0], 1 },
		{ WEIR__REDIS_TAKE, &by_older[0], 1 },
	};
	struct weir_verdict found[6];

	need_server();
	CHECK_EQ(ask(call, 5, &now, found).answer, WEIR__REDIS_DECIDED);
	CHECK(found[0].limit == 50 && found[0].remaining == 48);
	CHECK(found[1].limit == 5 && found[1].remaining == 1); /* 2 were used, and 2 more */
	CHECK(found[2].limit == 5 && !found[2].allowed && found[2].remaining == 1);
	CHECK(found[3].limit == 3 && found[3].remaining == 3);
	CHECK(found[4].allowed); /* there was something to forget */
	CHECK(found[5].limit == 50 && found[5].remaining == 48);
}

/* A node that does not know Redis's clock states the age of its plan. */
static void a_plan_may_say_its_age(void)
{
	const weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		struct weir__redis_plan plan = plan_of(all_kinds[kind]);
		struct weir_verdict found;

		forget();
		weir__redis_plan_set_age(&plan, 5 * MS);
		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &now, &found));
		CHECK_EQ(stored_instant(), now - 5 * MS);
		weir__redis_plan_set_age(&plan, UINT64_MAX); /* before the clock began */
		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &now, &found));
		CHECK_EQ(stored_instant(), now - 5 * MS);
		forget();
		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &now, &found));
		CHECK_EQ(stored_instant(), US);
	}
}

/* --- values of earlier versions ------------------------------------------------------------------------------------ */

/* Cuts a value to the format of versions 1 and 2: without the plan's instant, and for both kinds of buckets without the
 * last use at the end. */
static void make_old(unsigned char version, bool is_bucket)
{
	const struct weir__resp_token *const token = REDIS_COMMAND(&server, "GET", "p:l:k");
	enum { TAG = 28, SET_AT = 7, USED_AT = 7 };
	char value[512];
	size_t length = token->text.length - SET_AT;

	CHECK(token->text.length > TAG + SET_AT && token->text.length < sizeof(value));
	memcpy(value, token->text.bytes, TAG);
	memcpy(value + TAG, token->text.bytes + TAG + SET_AT, length - TAG);
	value[0] = (char)version;
	set_value(value, is_bucket ? length - USED_AT : length);
}

static void values_of_earlier_versions_are_read(void)
{
	const weir_ns now = UINT64_C(1790000000000000000), late = now + 30 * MS;

	need_server();
	for (size_t kind = 0; kind < KINDS; kind++)
		for (unsigned char version = 1; version <= 2; version++) {
			const struct weir__redis_plan plan = plan_set_at(all_kinds[kind], now - 1000 * US);
			const bool is_bucket = plan.plan.kind <= WEIR_KIND_INTERVAL;
			struct weir_verdict found, expected;

			for (unsigned is_old = 0; is_old < 2; is_old++) {
				forget();
				for (unsigned i = 0; i < 3; i++) {
					const weir_ns then = now + i * 2 * MS;

					CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &then, &found));
				}
				if (is_old)
					make_old(version, is_bucket);
				CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &late, is_old ? &found : &expected));
			}
			check_same(&found, &expected, false);
			CHECK_EQ(stored_instant(), plan.set_at);
			CHECK(is_decided(WEIR__REDIS_PEEK, &plan, 1, &late, &found));
			CHECK_EQ(found.remaining, expected.remaining);
		}
}

/* A bucket as version 1 wrote it: version, kind, options; count, microseconds of a token, rest, burst; full at (set below),
 * rest. */
static void an_old_value_has_these_bytes(void)
{
	unsigned char value[41] = { 1, 0, 0, 1, 0, 0, 0, 0, 0, 0xa0, 0x86, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10 };
	const weir_ns now = UINT64_C(1790000000000000000);
	struct weir__redis_plan plan = plan_of("10/s burst 10");
	const struct weir_plan to = plan_of("10/s burst 20").plan;
	const uint64_t full_at = (now + 500 * MS) / US;
	struct weir_verdict found;

	need_server();
	for (size_t i = 0; i < 7; i++)
		value[28 + i] = (unsigned char)(full_at >> (8 * i));
	set_value((const char *)value, sizeof(value));
	CHECK(is_decided(WEIR__REDIS_PEEK, &plan, 1, &now, &found));
	CHECK(found.remaining == 5 && found.reset_after == 500 * MS);
	CHECK(weir__redis_plan_change(&plan, &to, now - 1000 * US, NULL) == WEIR_OK);
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &now, &found));
	CHECK(found.remaining == 14 && found.limit == 20);
}

/* --- keys that other plans charge, too ---------------------------------------------------------------------------- */

/* CL.THROTTLE with other numbers is not a change: the instant at which the key is full stays. The table does the same,
 * in whole nanoseconds. */
static void shared_keys_are_as_in_a_table(void)
{
	static const char *const texts[] = { "1/s burst 5", "30/min burst 30", "1/min burst 2", "10/s burst 100",
					     "1/hour burst 3" };
	enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 4), .limits_max = 4 };
	struct weir_table *table;
	const struct weir_table_limit *counted_as;
	struct weir_table_limit limits[TEXTS];
	struct weir__redis_plan shared[TEXTS];
	weir_ns now;

	need_server();
	CHECK(weir_table_new(&options, &table, NULL) == WEIR_OK);
	CHECK(weir_table_add_limit_text(table, "inline", "1/s", &counted_as, NULL) == WEIR_OK);
	for (size_t i = 0; i < TEXTS; i++) {
		struct weir_limit limit;

		CHECK(weir_limit_parse(texts[i], strlen(texts[i]), &limit, NULL) == WEIR_OK);
		CHECK(weir__inline_limit_init(&limits[i], table, "\0cell", 5, &limit, counted_as, NULL) == WEIR_OK);
		weir__inline_limit_share(&limits[i]);
		CHECK(weir__redis_plan_init(&shared[i], &limits[i].plan, NULL) == WEIR_OK);
	}
	now = weir_table_now(table) / US * US;
	for (unsigned round = 0; round < ROUNDS && !check_failed; round++) {
		const size_t i = below(TEXTS);
		const uint64_t cost = below(4) ? 1 : below(40);
		struct weir_verdict expected = weir_table_take(table, &limits[i], "k", 1, now, cost), found;

		CHECK(is_decided(WEIR__REDIS_TAKE, &shared[i], cost, &now, &found));
		check_same(&found, &expected, false);
		now += below(10) ? below(3000) * MS + below(1000) * US : below(100000) * MS;
	}
	weir_table_free(table);
}

/* --- one charge, undone -------------------------------------------------------------------------------------------- */

enum { CHARGES = 12 };

static struct charge {
	weir_ns at;
	uint64_t cost;
} charges[CHARGES];

static uint64_t undone(const struct weir__redis_plan *plan, const struct charge *charge, uint64_t n, weir_ns now)
{
	const struct weir__redis_claim claim = { .plan = plan,
						 .name = { "l", 1 },
						 .key = { "k", 1 },
						 .cost = n,
						 .charged_at = charge->at,
						 .charged_cost = charge->cost };
	const struct weir__redis_request request = { WEIR__REDIS_UNDO, &claim, 1 };
	struct weir_verdict verdict = { 0 };
	const struct weir__redis_reply reply = ask(&request, 1, &now, &verdict);

	if (reply.answer != WEIR__REDIS_DECIDED)
		printf("# %.*s\n", (int)reply.error.length, reply.error.bytes);
	CHECK(reply.answer == WEIR__REDIS_DECIDED && verdict.allowed);
	return verdict.granted;
}

/* The core's state after the same undo: fractions of a token are given back, too. */
static void check_as_core(const struct weir__redis_plan *plan, size_t which, uint64_t n, uint64_t back, weir_ns now)
{
	const struct weir__charge charge = { charges[which].at, charges[which].cost };
	struct weir_state state = { 0, 0 };
	struct weir_verdict found, expected;

	for (size_t i = 0; i < CHARGES; i++)
		if (charges[i].cost > 0)
			CHECK(weir_step_take(&plan->plan, &state, charges[i].at, charges[i].cost).allowed);
	CHECK_EQ(weir__step_undo(&plan->plan, &state, now, &charge, n).granted, back);
	expected = weir_step_peek(&plan->plan, &state, now, 1);
	CHECK(is_decided(WEIR__REDIS_PEEK, plan, 1, &now, &found));
	check_same(&found, &expected, false);
}

/* The core's state if one of the charges had been smaller by `less`. */
static void check_as_if_less(const struct weir__redis_plan *plan, size_t which, uint64_t less, weir_ns now)
{
	/* Without the charge, their interval or window may have started later. */
	const bool is_anchored = plan->plan.kind == WEIR_KIND_INTERVAL || plan->plan.flags & WEIR_PLAN_FIRST;
	uint64_t *const state = calloc(1, weir_plan_state_size(&plan->plan));
	struct weir_verdict found, expected;

	for (size_t i = 0; i < CHARGES; i++)
		if (charges[i].cost > (i == which ? less : 0))
			CHECK(weir_step_take(&plan->plan, state, charges[i].at,
					     charges[i].cost - (i == which ? less : 0))
				      .allowed);
	expected = weir_step_peek(&plan->plan, state, now, 1);
	CHECK(is_decided(WEIR__REDIS_PEEK, plan, 1, &now, &found));
	if (is_anchored)
		CHECK_EQ(found.remaining, expected.remaining);
	else
		check_same(&found, &expected, false);
	free(state);
}

static weir_ns charge_often(const struct weir__redis_plan *plan)
{
	const weir_ns step = weir__saturate(weir__mul(plan->plan.period, 3) /
					    (plan->plan.kind <= WEIR_KIND_INTERVAL ? plan->plan.count : 10)) +
			     2000;
	weir_ns now = UINT64_C(1790000000000000000);

	for (size_t i = 0; i < CHARGES; i++) {
		struct weir_verdict found;

		now += (1 + below(step)) / US * US;
		CHECK(is_decided(WEIR__REDIS_UP_TO, plan, 1 + below(4), &now, &found));
		charges[i] = (struct charge){ now, found.granted };
	}
	return now + below(2 * step) / US * US;
}

static void an_undo_leaves_what_a_smaller_charge_would(void)
{
	uint64_t given = 0;

	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		const struct weir__redis_plan plan = plan_of(all_kinds[kind]);
		const bool counts_all = plan.plan.flags & WEIR_PLAN_COUNT_ALL;

		for (unsigned round = 0; round < 60 && !check_failed; round++) {
			const weir_ns now = charge_often(&plan);
			const size_t which = CHARGES - 1 - below(round % 2 ? CHARGES : 3);
			const uint64_t n = below(6), back = undone(&plan, &charges[which], n, now);

			CHECK(back <= n && back <= charges[which].cost && (back == 0 || !counts_all));
			if (plan.plan.kind == WEIR_KIND_BUCKET)
				check_as_core(&plan, which, n, back, now);
			else if (!counts_all)
				check_as_if_less(&plan, which, back, now);
			given += back;
			forget();
		}
	}
	CHECK(given > 200);
}

/* An immediate undo gives back everything, a later one less. */
static void an_undo_gives_back_what_has_not_refilled(void)
{
	static const struct {
		const char *limit;
		weir_ns after;
		uint64_t back; /* of 4 */
	} rows[] = {
		{ "10/s burst 10", 0, 4 },
		{ "10/s burst 10", 100 * MS, 3 },
		{ "10/s burst 10", 101 * MS, 3 },
		{ "10/s burst 10", 400 * MS, 0 },
		{ "10/s leaky queue 9", 101 * MS, 3 },
		{ "3/s refill interval burst 10", 999 * MS, 4 },
		{ "3/s refill interval burst 10", 1000 * MS, 1 },
		{ "3/s refill interval burst 10", UINT64_C(2000) * MS, 0 },
		{ "10/s fixed_window", 999 * MS, 4 },
		{ "10/s fixed_window", 1000 * MS, 0 },
		{ "10/s fixed_window count all", 0, 0 },
		{ "10/s sliding_counter", UINT64_C(1999) * MS, 4 },
		{ "10/s sliding_counter", UINT64_C(2000) * MS, 0 },
		{ "10/s sliding_log", 999 * MS, 4 },
		{ "10/s sliding_log", 1000 * MS, 0 },
	};
	const struct charge charge = { UINT64_C(1790000000000000000), 4 };

	need_server();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir__redis_plan plan = plan_of(rows[i].limit);
		struct weir_verdict found;

		CHECK(is_decided(WEIR__REDIS_TAKE, &plan, charge.cost, &charge.at, &found) && found.allowed);
		CHECK_EQ(undone(&plan, &charge, 9, charge.at + rows[i].after), rows[i].back);
		forget();
	}
}

/* Burst 3, 1/s: the first of two charges is undone at once. After a second all 3 are there, and taken. Then nothing of
 * the other charge is left to undo. */
static void an_undo_gives_nothing_that_is_not_its_own(void)
{
	const weir_ns start = UINT64_C(1790000000000000000), later = start + 1000 * MS;
	const struct weir__redis_plan plan = plan_of("1/s burst 3");
	const struct charge two = { start, 2 }, one = { start, 1 };
	struct weir_verdict found;

	need_server();
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 2, &start, &found) && found.allowed);
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &start, &found) && found.allowed);
	CHECK_EQ(undone(&plan, &two, 2, start), 2);
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 3, &later, &found) && found.allowed);
	CHECK_EQ(undone(&plan, &one, 1, later), 0);
	CHECK(is_decided(WEIR__REDIS_TAKE, &plan, 1, &later, &found) && !found.allowed);
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

/* With several limits of different kinds, none is charged. */
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

/* --- departures -------------------------------------------------------------------------------------------------- */

static struct weir_verdict departed(enum weir__redis_operation operation, const struct weir__redis_claim *of, size_t n,
				    weir_ns now, struct weir_verdict *verdicts)
{
	const struct weir__redis_request request = { operation, of, n };
	const struct weir__redis_reply reply = ask(&request, 1, &now, verdicts);

	if (reply.answer != WEIR__REDIS_DECIDED)
		printf("# %.*s\n", (int)reply.error.length, reply.error.bytes);
	CHECK(reply.answer == WEIR__REDIS_DECIDED && reply.anew == 0);
	return verdicts[0];
}

/* A delay that is accepted to the nanosecond, and one nanosecond less. */
static void a_departure_beyond_the_longest_delay_is_denied(void)
{
	static const char *const texts[] = { "10/s leaky queue 9", "7/min leaky queue 9", "999983/s leaky queue 9" };
	const weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct weir__redis_plan plan = plan_of(texts[i]);
		struct weir__redis_claim claim = {
			.plan = &plan, .name = { "l", 1 }, .key = { "k", 1 }, .cost = 2, .max_delay = 0
		};
		struct weir_state state = { 0, 0 };
		struct weir_verdict found, expected;
		weir_ns delay;

		REDIS_COMMAND(&server, "FLUSHALL");
		expected = weir_step_take(&plan.plan, &state, now, 2);
		found = departed(WEIR__REDIS_DEPART, &claim, 1, now, &found);
		check_same(&found, &expected, false);
		delay = weir_step_peek(&plan.plan, &state, now, 2).delay;
		CHECK(delay > 0);
		claim.max_delay = delay - 1;
		found = departed(WEIR__REDIS_DEPART, &claim, 1, now, &found);
		CHECK(!found.allowed && !found.never && found.granted == 0 && found.delay == 0);
		CHECK_EQ(found.retry_after, delay);
		CHECK_EQ(found.remaining, 7);
		claim.max_delay = delay;
		expected = weir_step_take(&plan.plan, &state, now, 2);
		found = departed(WEIR__REDIS_DEPART, &claim, 1, now, &found);
		check_same(&found, &expected, false);
		CHECK_EQ(found.delay, delay);
		claim.max_delay = WEIR_NEVER;
		claim.cost = 10;
		CHECK(departed(WEIR__REDIS_DEPART, &claim, 1, now, &found).never);
	}
}

/* Limits without a queue decide a departure as a take. */
static void a_departure_of_other_limits_is_a_take(void)
{
	weir_ns now = UINT64_C(1790000000000000000);

	need_server();
	for (size_t kind = 0; kind < KINDS; kind++) {
		const struct weir__redis_plan plan = plan_of(all_kinds[kind]);
		uint64_t *const state = calloc(1, weir_plan_state_size(&plan.plan));
		struct weir_verdict found, expected;

		REDIS_COMMAND(&server, "FLUSHALL");
		for (int i = 0; i < 40 && !(plan.plan.flags & WEIR_PLAN_SHAPE); i++) {
			const struct weir__redis_claim claim = {
				.plan = &plan, .name = { "l", 1 }, .key = { "k", 1 }, .cost = below(4)
			};

			now += below(100) * MS;
			expected = weir_step_take(&plan.plan, state, now, claim.cost);
			found = departed(WEIR__REDIS_DEPART, &claim, 1, now, &found);
			check_same(&found, &expected, false);
		}
		free(state);
	}
}

/* Two queues together, all or nothing, and cancelled departures: always as the core does. */
static void departures_are_as_in_the_core(void)
{
	static const char *const texts[] = { "10/s leaky queue 20", "7/min leaky queue 20", "999983/s leaky queue 20",
					     "3/700us leaky queue 20" };
	enum { MADE = 6 };

	need_server();
	for (int run = 0; run < 60; run++) {
		const struct weir__redis_plan both[] = { plan_of(texts[run % 4]), plan_of(texts[run / 4 % 4]) };
		struct weir_state core[2] = { { 0, 0 }, { 0, 0 } };
		struct weir_verdict found[2], expected[2];
		struct weir__redis_claim of[2], made[MADE][2];
		weir_ns now = UINT64_C(1790000000000000000);
		size_t n_made = 0;

		REDIS_COMMAND(&server, "FLUSHALL");
		for (int i = 0; i < 40; i++) {
			const weir_ns max_delay = both[0].plan.period / both[0].plan.count * below(20);
			bool all = true;

			now += below(3) * weir__min(both[0].plan.period / both[0].plan.count, both[1].plan.period) /
			       1000 * 1000;
			if (n_made > 0 && below(3) == 0) {
				const size_t which = below(n_made), k = below(2);

				found[0] = departed(WEIR__REDIS_CANCEL, &made[which][k], 1, now, found);
				CHECK_EQ(found[0].granted, weir__reserve_cancel_departure(
								   &both[k].plan, &core[k], now, made[which][k].cost,
								   made[which][k].charged_full_at));
				continue;
			}
			for (int k = 0; k < 2; k++) {
				of[k] = (struct weir__redis_claim){ .plan = &both[k],
								    .name = { k ? "b" : "a", 1 },
								    .key = { "k", 1 },
								    .cost = below(4),
								    .max_delay = max_delay };
				expected[k] = weir_step_peek(&both[k].plan, &core[k], now, of[k].cost);
				if (expected[k].allowed && expected[k].delay > max_delay)
					weir__verdict_deny_late(&expected[k]);
				all = all && expected[k].allowed;
			}
			for (int k = 0; k < 2 && all; k++)
				expected[k] = weir_step_take(&both[k].plan, &core[k], now, of[k].cost);
			(void)departed(WEIR__REDIS_DEPART, of, 2, now, found);
			for (int k = 0; k < 2; k++) {
				check_same(&found[k], &expected[k], false);
				of[k].charged_at = now;
				of[k].charged_cost = of[k].cost;
				of[k].charged_full_at = now + found[k].reset_after;
			}
			if (all)
				memcpy(made[n_made < MADE ? n_made++ : below(MADE)], of, sizeof(of));
		}
	}
}

/* After a change of the limit, a departure cannot be given back. */
static void a_departure_of_an_older_plan_stays(void)
{
	const weir_ns now = UINT64_C(1790000000000000000), later = now + 10 * MS;
	struct weir__redis_plan plan = plan_of("10/s leaky queue 9"), next = plan_of("5/s leaky queue 9");
	struct weir__redis_claim claim = {
		.plan = &plan, .name = { "l", 1 }, .key = { "k", 1 }, .cost = 3, .max_delay = WEIR_NEVER
	};
	struct weir_verdict found;

	need_server();
	REDIS_COMMAND(&server, "FLUSHALL");
	weir__redis_plan_set_at(&plan, now - MS);
	weir__redis_plan_set_at(&next, now + MS);
	(void)departed(WEIR__REDIS_DEPART, &claim, 1, now, &found);
	(void)departed(WEIR__REDIS_DEPART, &claim, 1, now, &found);
	claim.charged_at = now;
	claim.charged_cost = 3;
	claim.charged_full_at = now + found.reset_after;
	claim.plan = &next;
	CHECK_EQ(departed(WEIR__REDIS_CANCEL, &claim, 1, later, &found).granted, 0);
	claim.plan = &plan;
	CHECK_EQ(departed(WEIR__REDIS_CANCEL, &claim, 1, later, &found).granted, 0); /* the newer plan decides */
}

TESTS(TEST(many_requests_in_a_call_are_decided_one_by_one), TEST(a_long_run_of_one_plan),
      TEST(keys_come_again_in_a_call), TEST(keys_expire_when_they_are_whole),
      TEST(what_is_given_back_or_forgotten_needs_no_key), TEST(a_value_of_others_starts_anew_and_is_told),
      TEST(damaged_values_do_no_harm), TEST(lent_units_do_not_outlive_a_new_clock), TEST(a_reset_forgets_what_is_lent),
      TEST(a_refund_gives_back_what_was_charged), TEST(leases_of_a_key_have_few_ends),
      TEST(a_take_and_a_grant_of_one_key_in_a_call), TEST(lent_units_keep_their_key), TEST(pushed_units_become_debt),
      TEST(reserved_units_last_for_a_call), TEST(reserved_units_are_not_stored),
      TEST(a_key_is_carried_over_as_of_the_change), TEST(a_node_that_lags_behind_a_change_forgives_nothing),
      TEST(an_older_plan_is_not_asked), TEST(a_newer_plan_of_another_kind_starts_anew),
      TEST(the_latest_instant_of_the_same_plan_stays), TEST(requests_of_one_call_have_one_plan_each),
      TEST(a_plan_may_say_its_age), TEST(values_of_earlier_versions_are_read), TEST(an_old_value_has_these_bytes),
      TEST(shared_keys_are_as_in_a_table), TEST(an_undo_leaves_what_a_smaller_charge_would),
      TEST(an_undo_gives_back_what_has_not_refilled), TEST(an_undo_gives_nothing_that_is_not_its_own),
      TEST(a_departure_beyond_the_longest_delay_is_denied), TEST(a_departure_of_other_limits_is_a_take),
      TEST(departures_are_as_in_the_core), TEST(a_departure_of_an_older_plan_stays),
      TEST(a_script_that_is_gone_is_loaded_again), TEST(a_full_memory_charges_nobody))
