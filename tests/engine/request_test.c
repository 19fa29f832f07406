/* request_test.c: requests that their store completes later, in any order, or at once. The address sanitizer finds
 * leaks. */
/* Covers: src/engine/context.c, src/engine/operations.c, src/os/mailbox.c */
#include "engine/request.h"

#include "engine/operations.h"
#include "guard/guards.h"
#include "store/fallback_store.h"
#include "store/table/inline_limit.h"
#include "store/table/tables.h"

enum { WAITING_MAX = 16, WRITTEN_MAX = 16 };

/* --- a store that completes on command ---------------------------------------------------------------------------- */

struct late {
	struct weir__store store; /* first, so that a pointer to it can be cast */
	struct weir_table *table;
	const char *how; /* for each call: n is now, l is later; the last letter is for all further calls */
	struct weir__store_request *waiting[WAITING_MAX];
	size_t n_waiting;
	weir_ns asked_at[WAITING_MAX]; /* of the first calls */
	size_t n_asked;
};

static bool submit(struct weir__store *store, struct weir__store_request *request)
{
	struct late *const late = (struct late *)(void *)store;
	const bool is_now = *late->how == 'n';

	if (late->how[1] != '\0')
		late->how++;
	if (late->n_asked < WAITING_MAX)
		late->asked_at[late->n_asked++] = request->now;
	if (!is_now) {
		request->outcome = WEIR__STORE_UNREACHED;
		request->is_closed = false;
		request = request->caller->keep(request);
		if (request == NULL)
			return true;
		late->waiting[late->n_waiting++] = request;
	}
	weir__table_store_decide(late->table, request);
	return is_now;
}

/* Completes the i-th waiting call. */
static void complete(struct late *late, size_t i)
{
	struct weir__store_request *const request = late->waiting[i];

	memmove((void *)(late->waiting + i), (const void *)(late->waiting + i + 1),
		(--late->n_waiting - i) * sizeof(late->waiting[0]));
	weir__store_complete(&late->store, request);
}

static void complete_all(struct late *late)
{
	while (late->n_waiting > 0)
		complete(late, late->n_waiting - 1);
}

static void free_nothing(struct weir__store *store)
{
	(void)store;
}

/* --- a worker without sockets ------------------------------------------------------------------------------------ */

struct fixture {
	struct weir_table *table;
	struct late late;
	struct weir__context context;
	struct weir__client client;
	const struct weir_table_limit *hundred;
	int64_t written[WRITTEN_MAX]; /* numbers of the requests with a reply */
	size_t n_written;
	struct weir_guard_answer answer; /* of the last check */
	struct weir_verdict first;       /* and of its first claim */
};

/* Writes finished replies in order, as a protocol does. */
static void ready(void *worker, struct weir__client *client)
{
	while (client->first && client->first->is_done) {
		client->first->write(client->first, worker);
		weir__request_free_first(client);
	}
}

static void begin(struct fixture *fixture, struct weir_table *table)
{
	memset(fixture, 0, sizeof(*fixture));
	fixture->table = table;
	fixture->hundred = limit_in(table, "100/1000day");
	fixture->late =
		(struct late){ .store = { .submit = submit, .free = free_nothing }, .table = table, .how = "l" };
	weir__context_init(&fixture->context, table, fixture->hundred);
	fixture->context.store = &fixture->late.store;
	fixture->context.ready = ready;
	fixture->context.worker = fixture;
}

static void make(struct fixture *fixture)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0) + (1 << 20),
						    .arena_bytes = 1 << 20 };

	begin(fixture, table_with(&options));
}

static void check_idle(const struct fixture *fixture)
{
	CHECK(fixture->client.first == NULL && fixture->client.last == NULL);
	CHECK_EQ(fixture->client.n_in_flight, 0);
	CHECK_EQ(fixture->client.n_unanswered, 0);
	CHECK_EQ(fixture->context.n_in_flight, 0);
	CHECK_EQ(fixture->late.n_waiting, 0);
}

static void unmake(struct fixture *fixture)
{
	check_idle(fixture);
	weir__context_fini(&fixture->context);
	weir_table_free(fixture->table);
}

static uint64_t left_of(struct fixture *fixture, const char *key)
{
	return weir_table_peek(fixture->table, fixture->hundred, key, strlen(key), weir_table_now(fixture->table), 0)
		.remaining;
}

static void write_number(struct weir__request *request, void *fixture_)
{
	struct fixture *const fixture = fixture_;

	fixture->written[fixture->n_written++] = ((const struct weir__decide *)(const void *)request)->repeated;
}

/* Takes 1 + number from the key. Overwrites the key before it returns. */
static enum weir__run_result take(struct fixture *fixture, int64_t number, const char *key)
{
	const size_t length = strlen(key);
	char copy[32];
	const struct weir_claim claim = { fixture->hundred, copy, length, 1 + (uint64_t)number };
	struct weir__decide decide;
	enum weir__run_result result;

	memcpy(copy, key, length + 1);
	weir__decide_init(&decide, &fixture->context, &fixture->client, WEIR__PROTOCOL_RESP, write_number);
	decide.repeated = number;
	result = weir__decide_run(&decide, WEIR__STORE_TAKE, &claim, 1);
	memset(copy, 'x', sizeof(copy));
	if (result == WEIR__RUN_DONE)
		CHECK_EQ(decide.verdict.granted, 1 + (uint64_t)number);
	return result;
}

/* --- order ------------------------------------------------------------------------------------------------------- */

/* Five requests complete in every possible order. */
static void replies_have_the_order_of_requests(void)
{
	struct fixture fixture;

	make(&fixture);
	for (size_t order = 0; order < 120; order++) {
		size_t rest = order;

		fixture.n_written = 0;
		for (int64_t i = 0; i < 5; i++)
			CHECK_EQ(take(&fixture, i, "a"), WEIR__RUN_LATER);
		for (size_t n = 5; n > 0; rest /= n--)
			complete(&fixture.late, rest % n);
		CHECK_EQ(fixture.n_written, 5);
		for (int64_t i = 0; i < 5; i++)
			CHECK_EQ(fixture.written[i], i);
		check_idle(&fixture);
		(void)weir_table_reset(fixture.table, fixture.hundred, "a", 1);
	}
	unmake(&fixture);
}

static void memory_of_a_request_serves_the_next(void)
{
	struct fixture fixture;
	uint32_t spare = WEIR__SPARE_REQUESTS_MAX < 5 ? WEIR__SPARE_REQUESTS_MAX : 5;

	make(&fixture);
	for (int64_t i = 0; i < 5; i++)
		CHECK_EQ(take(&fixture, i, "a"), WEIR__RUN_LATER);
	CHECK_EQ(fixture.context.n_spare_requests, 0);
	complete_all(&fixture.late);
	CHECK_EQ(fixture.context.n_spare_requests, spare);
	CHECK_EQ(take(&fixture, 0, "b"), WEIR__RUN_LATER);
	CHECK_EQ(fixture.context.n_spare_requests, spare > 0 ? spare - 1 : 0);
	complete_all(&fixture.late);
	CHECK_EQ(fixture.context.n_spare_requests, spare);
	unmake(&fixture);
}

static void the_first_does_not_wait_for_the_others(void)
{
	struct fixture fixture;

	make(&fixture);
	for (int64_t i = 0; i < 3; i++)
		CHECK_EQ(take(&fixture, i, "a"), WEIR__RUN_LATER);
	complete(&fixture.late, 1);
	CHECK_EQ(fixture.n_written, 0);
	complete(&fixture.late, 0);
	CHECK_EQ(fixture.n_written, 2);
	complete(&fixture.late, 0);
	CHECK_EQ(fixture.n_written, 3);
	CHECK_EQ(left_of(&fixture, "a"), 94);
	unmake(&fixture);
}

static void write_replies(struct weir__request *request, void *fixture_)
{
	struct fixture *const fixture = fixture_;
	size_t n;
	const char *const replies = weir__request_replies(request, &n);

	CHECK_EQ(n, 3);
	CHECK(memcmp(replies, "+9\n", 3) == 0);
	fixture->written[fixture->n_written++] = 9;
}

static void replies_that_are_there_wait_for_those_before_them(void)
{
	struct fixture fixture;

	make(&fixture);
	CHECK_EQ(take(&fixture, 0, "a"), WEIR__RUN_LATER);
	CHECK(weir__request_add_replies(&fixture.context, &fixture.client, 2, "+9\n", 3, write_replies));
	CHECK_EQ(take(&fixture, 1, "a"), WEIR__RUN_LATER);
	CHECK_EQ(fixture.client.n_unanswered, 4);
	complete(&fixture.late, 1);
	CHECK_EQ(fixture.n_written, 0);
	complete(&fixture.late, 0);
	CHECK(fixture.n_written == 3 && fixture.written[0] == 0 && fixture.written[1] == 9 && fixture.written[2] == 1);
	unmake(&fixture);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void write_group(struct weir__request *request, void *fixture_)
{
	struct fixture *const fixture = fixture_;

	for (uint32_t i = 0; i < request->n_claims; i++)
		fixture->written[fixture->n_written++] = request->verdicts[i].allowed;
	CHECK_EQ(request->claims[0].key_length, 1);
	CHECK_EQ(*(const char *)request->claims[0].key, 'a');
	CHECK(request->claims[0].limit == request->claims[2].limit && request->claims[1].limit == fixture->hundred);
}

/* Keys and inline limits belong to the caller and are gone when the call returns. */
static void a_group_takes_its_keys_and_limits_along(void)
{
	struct fixture fixture;
	struct weir_table_limit two;
	struct weir_limit limit;
	struct weir_claim claims[4];
	struct weir_verdict verdicts[4];
	struct weir__request group;
	char key[] = "a";

	make(&fixture);
	CHECK_EQ(weir_limit_parse("2/1000day", 9, &limit, NULL), WEIR_OK);
	CHECK_EQ(weir__inline_limit_init(&two, fixture.table, "s", 1, &limit, fixture.hundred, NULL), WEIR_OK);
	for (size_t i = 0; i < 4; i++)
		claims[i] = (struct weir_claim){ i == 1 ? fixture.hundred : &two, key, 1, 1 };
	weir__take_each_init(&group, sizeof(group), &fixture.context, claims, verdicts);
	group.write = write_group;
	CHECK(!weir__take_each_run(&group, &fixture.client, 4));
	memset(&two, 0xff, sizeof(two));
	memset((void *)claims, 0xff, sizeof(claims));
	memset(key, 'x', 1);
	CHECK_EQ(fixture.client.n_unanswered, 4);
	complete_all(&fixture.late);
	CHECK_EQ(fixture.n_written, 4);
	CHECK(fixture.written[0] && fixture.written[1] && fixture.written[2] && !fixture.written[3]);
	unmake(&fixture);
}

struct whole {
	struct weir__request request;
	size_t n_left, n_done;
};

static void part_done(struct weir__request *part)
{
	struct whole *const whole = (struct whole *)(void *)part->whole;

	whole->n_done++;
	if (--whole->n_left == 0)
		weir__request_finish(&whole->request);
}

static void write_whole(struct weir__request *request, void *fixture_)
{
	struct fixture *const fixture = fixture_;

	fixture->written[fixture->n_written++] = (int64_t)((const struct whole *)(const void *)request)->n_done;
}

/* Parts complete one by one; the whole is done with the last. The parts are refunds, because a refund records
 * its client for the audit log. */
static void run_whole(struct fixture *fixture, size_t n)
{
	static const struct weir__request_kind kind = { .advance = NULL };
	struct whole *const whole = calloc(1, sizeof(*whole));
	const struct weir_claim claim = { fixture->hundred, "a", 1, 1 };

	CHECK(whole != NULL);
	if (whole == NULL)
		return;
	weir__request_init(&whole->request, sizeof(*whole), &kind, &fixture->context, &fixture->client);
	whole->request.write = write_whole;
	whole->n_left = n;
	for (size_t i = 0; i < n; i++) {
		struct weir__decide decide;

		weir__decide_init(&decide, &fixture->context, &fixture->client, WEIR__PROTOCOL_HTTP, NULL);
		decide.request.whole = &whole->request;
		decide.request.done = part_done;
		CHECK_EQ(weir__decide_run(&decide, WEIR__STORE_REFUND, &claim, 1), WEIR__RUN_LATER);
	}
	weir__request_wait(&whole->request);
}

static void a_request_of_parts_is_answered_with_the_last(void)
{
	struct fixture fixture;

	make(&fixture);
	run_whole(&fixture, 3);
	CHECK_EQ(fixture.client.n_in_flight, 1); /* that the client waits for */
	CHECK_EQ(fixture.context.n_in_flight, 4);
	complete(&fixture.late, 2);
	complete(&fixture.late, 0);
	CHECK_EQ(fixture.n_written, 0);
	complete(&fixture.late, 0);
	CHECK(fixture.n_written == 1 && fixture.written[0] == 3);
	unmake(&fixture);
}

/* --- clients that leave ------------------------------------------------------------------------------------------ */

static void who_leaves_is_charged_and_leaves_nothing_behind(void)
{
	struct fixture fixture;

	make(&fixture);
	for (int64_t i = 0; i < 4; i++)
		CHECK_EQ(take(&fixture, 1, "a"), WEIR__RUN_LATER);
	CHECK(weir__request_add_replies(&fixture.context, &fixture.client, 1, "+9\n", 3, write_replies));
	run_whole(&fixture, 2);
	complete(&fixture.late, 2); /* done, but behind others */
	weir__requests_abandon(&fixture.client);
	CHECK(fixture.client.first == NULL && fixture.client.n_in_flight == 0);
	memset(&fixture.client, 0xff, sizeof(fixture.client)); /* not accessed any more */
	CHECK_EQ(fixture.context.n_in_flight, 6);
	complete_all(&fixture.late);
	CHECK_EQ(fixture.context.n_in_flight, 0);
	CHECK_EQ(fixture.n_written, 0);
	CHECK_EQ(left_of(&fixture, "a"), 94); /* 8 taken, 2 given back */
	memset(&fixture.client, 0, sizeof(fixture.client));
	unmake(&fixture);
}

/* --- too many ---------------------------------------------------------------------------------------------------- */

static void beyond_the_most_the_store_is_not_reached(void)
{
	struct fixture fixture;
	struct weir__decide decide;
	struct weir_claim claim;

	make(&fixture);
	claim = (struct weir_claim){ fixture.hundred, "a", 1, 1 };
	fixture.context.n_in_flight = WEIR__IN_FLIGHT_MAX;
	weir__decide_init(&decide, &fixture.context, &fixture.client, WEIR__PROTOCOL_RESP, write_number);
	memset((void *)decide.verdicts, 0, sizeof(decide.verdicts)); /* no function sets these */
	CHECK_EQ(weir__decide_run(&decide, WEIR__STORE_TAKE, &claim, 1), WEIR__RUN_DONE);
	CHECK_EQ(decide.request.store_request.outcome, WEIR__STORE_UNREACHED);
	CHECK_EQ(left_of(&fixture, "a"), 100);
	fixture.context.n_in_flight = WEIR__IN_FLIGHT_MAX - 1;
	CHECK_EQ(take(&fixture, 0, "a"), WEIR__RUN_LATER);
	fixture.context.n_in_flight = 1;
	complete_all(&fixture.late);
	unmake(&fixture);
}

static void then_the_fallback_decides(void)
{
	struct fixture fixture;
	struct weir__fallback_options options = { .otherwise = { .mode = WEIR__FALLBACK_SHARE, .budget = 1 } };

	make(&fixture);
	options.store = &fixture.late.store;
	options.table = fixture.table;
	fixture.context.store = weir__fallback_store_new(&options);
	CHECK(fixture.context.store != NULL);
	fixture.context.n_in_flight = WEIR__IN_FLIGHT_MAX;
	CHECK_EQ(take(&fixture, 4, "a"), WEIR__RUN_DONE);
	fixture.context.n_in_flight = 0;
	CHECK_EQ(take(&fixture, 4, "a"), WEIR__RUN_LATER);
	complete_all(&fixture.late);
	CHECK_EQ(fixture.n_written, 1);
	CHECK_EQ(left_of(&fixture, "a"), 90); /* the table holds the state of both the store and the mirror */
	fixture.context.store->free(fixture.context.store);
	unmake(&fixture);
}

/* --- holds ------------------------------------------------------------------------------------------------------- */

static void write_nothing(struct weir__request *request, void *fixture)
{
	(void)request;
	((struct fixture *)fixture)->n_written++;
}

static enum weir__run_result hold(struct fixture *fixture, const struct weir_table_limit *limit, uint64_t cost,
				  struct weir__refusal *ret_refusal)
{
	const struct weir__hold_request request = {
		.id = "i", .key = "a", .id_length = 1, .key_length = 1, .named = limit, .cost = cost, .lasts = S(3600)
	};
	struct weir__hold_take take_hold;

	weir__hold_take_init(&take_hold, &fixture->context, &fixture->client, write_nothing);
	return weir__hold_take_run(&take_hold, &request, ret_refusal);
}

static enum weir__run_result settle(struct fixture *fixture, uint64_t actual, struct weir__refusal *ret_refusal)
{
	struct weir__hold_settle hold_settle;

	weir__hold_settle_init(&hold_settle, &fixture->context, &fixture->client, write_nothing);
	return weir__hold_settle_run(&hold_settle, "i", 1, actual, ret_refusal);
}

/* The log entry is found by the time of the charge, not by the time of the reply. */
static void holds_are_settled_later(void)
{
	const struct weir_table_limit *log;
	struct weir__refusal refusal;
	struct fixture fixture;
	weir_ns now;

	make(&fixture);
	log = limit_in(fixture.table, "10/1000day sliding_log");
	fixture.context.holds = weir__holds_new(8);
	CHECK_EQ(hold(&fixture, log, 4, &refusal), WEIR__RUN_LATER);
	CHECK_EQ(hold(&fixture, log, 4, &refusal), WEIR__RUN_REFUSED);
	CHECK_EQ(refusal.error, WEIR__ERROR_HOLD_BUSY);
	for (now = weir_table_now(fixture.table); weir_table_now(fixture.table) < now + MS(5);)
		; /* longer than the workers' clocks differ */
	complete_all(&fixture.late);
	CHECK_EQ(fixture.n_written, 1);
	CHECK_EQ(hold(&fixture, log, 4, &refusal), WEIR__RUN_DONE);
	CHECK_EQ(settle(&fixture, 1, &refusal), WEIR__RUN_LATER);
	CHECK_EQ(settle(&fixture, 1, &refusal), WEIR__RUN_REFUSED);
	CHECK_EQ(refusal.error, WEIR__ERROR_HOLD_BUSY);
	complete_all(&fixture.late);
	CHECK_EQ(settle(&fixture, 1, &refusal), WEIR__RUN_DONE);
	CHECK_EQ(weir_table_peek(fixture.table, log, "a", 1, weir_table_now(fixture.table), 0).remaining, 9);
	weir__holds_free(fixture.context.holds);
	unmake(&fixture);
}

static void a_hold_stays_when_its_client_leaves(void)
{
	struct weir__refusal refusal;
	struct fixture fixture;

	make(&fixture);
	fixture.context.holds = weir__holds_new(8);
	CHECK_EQ(hold(&fixture, fixture.hundred, 7, &refusal), WEIR__RUN_LATER);
	weir__requests_abandon(&fixture.client);
	complete_all(&fixture.late);
	CHECK_EQ(weir__holds_n(fixture.context.holds), 1);
	CHECK_EQ(settle(&fixture, 1, &refusal), WEIR__RUN_LATER);
	weir__requests_abandon(&fixture.client);
	complete_all(&fixture.late);
	CHECK_EQ(left_of(&fixture, "a"), 99);
	weir__holds_free(fixture.context.holds);
	unmake(&fixture);
}

/* --- by a policy ------------------------------------------------------------------------------------------------- */

static void write_check(struct weir__request *request, void *fixture_)
{
	struct fixture *const fixture = fixture_;

	fixture->n_written++;
	fixture->answer = ((const struct weir__check *)(const void *)request)->check.answer;
	fixture->first = request->verdicts[0];
}

/* The attributes are gone when this returns. */
static enum weir__run_result check_user(struct fixture *fixture, struct weir_guard *guard)
{
	char name[] = "user", value[] = "ann";
	const struct weir_attribute attribute = { name, 4, value, 3 };
	struct weir_message why;
	struct weir__check check;
	enum weir__run_result result;

	weir__check_init(&check, &fixture->context, &fixture->client, write_check);
	result = weir__check_run(&check, guard, &attribute, 1, 1, &why);
	if (result == WEIR__RUN_DONE) /* the verdicts are freed with the check */
		fixture->answer = check.check.answer;
	memset(name, 'x', 4);
	memset(value, 'x', 3);
	return result;
}

static struct weir_guard *make_guarded(struct fixture *fixture)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_over(
		policy_of("limits:\n"
			  "  - {name: each, key: user, limit: 2/1000day}\n"
			  "  - {name: some, key: user, limit: 1/1000day, mode: shadow}\n"),
		weir_clock_now(), &table);

	begin(fixture, table);
	return guard;
}

static void checks_ask_twice_now_or_later(void)
{
	static const struct {
		const char *how;
		enum weir__run_result result;
	} rows[] = { { "ll", WEIR__RUN_LATER },
		     { "nl", WEIR__RUN_LATER },
		     { "ln", WEIR__RUN_LATER },
		     { "nn", WEIR__RUN_DONE } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture fixture;
		struct weir_guard *const guard = make_guarded(&fixture);

		for (size_t asked = 0; asked < 3; asked++) {
			fixture.late.how = rows[i].how;
			CHECK_EQ(check_user(&fixture, guard), rows[i].result);
			complete_all(&fixture.late);
			CHECK_EQ(fixture.n_written, rows[i].result == WEIR__RUN_LATER ? asked + 1 : 0);
			CHECK_EQ(fixture.answer.verdict.allowed, asked < 2);
			CHECK_EQ(fixture.answer.shadow_denied, asked >= 1);
			CHECK_TEXT(fixture.answer.decided_by, "each");
			if (rows[i].result == WEIR__RUN_LATER)
				CHECK(fixture.first.limit == 2 &&
				      fixture.first.remaining == (asked < 2 ? 1 - asked : 0));
		}
		check_idle(&fixture);
		end_guard(guard, fixture.table);
	}
}

static void a_second_question_has_its_own_time(void)
{
	struct fixture fixture;
	struct weir_guard *const guard = make_guarded(&fixture);
	weir_ns now = weir_table_now(fixture.table);

	CHECK_EQ(check_user(&fixture, guard), WEIR__RUN_LATER);
	while (weir_table_now(fixture.table) <= now + US(10))
		;
	complete(&fixture.late, 0);
	CHECK_EQ(fixture.late.n_asked, 2);
	CHECK(fixture.late.asked_at[1] > fixture.late.asked_at[0]);
	complete_all(&fixture.late);
	check_idle(&fixture);
	end_guard(guard, fixture.table);
}

/* The client leaves before the store replies. Limits in shadow are charged nevertheless, and the policy is released. */
static void a_check_goes_on_without_its_client(void)
{
	for (size_t n = 0; n < 2; n++) {
		struct fixture fixture;
		struct weir_guard *const guard = make_guarded(&fixture);

		CHECK_EQ(check_user(&fixture, guard), WEIR__RUN_LATER);
		for (size_t i = 0; i < n; i++)
			complete(&fixture.late, 0);
		weir__requests_abandon(&fixture.client);
		complete_all(&fixture.late);
		CHECK_EQ(fixture.late.n_asked, 2);
		CHECK_EQ(fixture.n_written, 0);
		check_idle(&fixture);
		fixture.late.how = "n";
		CHECK_EQ(check_user(&fixture, guard), WEIR__RUN_DONE);
		CHECK_EQ(fixture.answer.shadow_denied, 1);
		end_guard(guard, fixture.table);
	}
}

TESTS(TEST(replies_have_the_order_of_requests), TEST(memory_of_a_request_serves_the_next),
      TEST(the_first_does_not_wait_for_the_others), TEST(replies_that_are_there_wait_for_those_before_them),
      TEST(a_group_takes_its_keys_and_limits_along), TEST(a_request_of_parts_is_answered_with_the_last),
      TEST(who_leaves_is_charged_and_leaves_nothing_behind), TEST(beyond_the_most_the_store_is_not_reached),
      TEST(then_the_fallback_decides), TEST(holds_are_settled_later), TEST(a_hold_stays_when_its_client_leaves),
      TEST(checks_ask_twice_now_or_later), TEST(a_second_question_has_its_own_time),
      TEST(a_check_goes_on_without_its_client))
