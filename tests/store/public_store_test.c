/* public_store_test.c: the public store on a table decides as the table does, and completes each submitted request
 * once.
 *
 * Covers: src/store/store.c, src/store/submitter.c */
#include <weir/store.h>

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "core/rows.h"
#include "store/store_internal.h"

#define START S(4000000000)

struct fixture {
	struct weir_table *table;
	struct weir_store *store;
	const struct weir_table_limit *ten, *five;
	weir_ns now;
};

static weir_ns now_of(void *fixture)
{
	return ((struct fixture *)fixture)->now;
}

static const struct weir_table_limit *add(struct weir_store *store, const char *name, const char *text)
{
	const struct weir_table_limit *limit = NULL;
	struct weir_message why = { 0, "" };

	if (weir_store_add_limit_text(store, name, text, &limit, &why) != WEIR_OK) {
		check_fail(__FILE__, __LINE__, why.text);
		exit(1);
	}
	return limit;
}

static void begin(struct fixture *fixture)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0), .made_at = START };

	if (weir_table_new(&options, &fixture->table, NULL) != WEIR_OK ||
	    weir_store_table(fixture->table, &fixture->store, NULL) != WEIR_OK)
		exit(1);
	fixture->now = START;
	CHECK_EQ(weir_store_set_clock(fixture->store, now_of, fixture), WEIR_OK);
	fixture->ten = add(fixture->store, "ten", "10/s burst 10");
	fixture->five = add(fixture->store, "five", "5/s burst 5");
}

static void end(struct fixture *fixture)
{
	weir_store_free(fixture->store);
	weir_table_free(fixture->table);
}

/* --- blocking calls ---------------------------------------------------------------------------------------------- */

static void decides_on_its_clock(void)
{
	struct weir_store_answer answer;
	struct fixture fixture;

	begin(&fixture);
	CHECK_EQ(weir_store_wait(fixture.store, 0, NULL), WEIR_OK);
	CHECK(weir_store_get_table(fixture.store) == fixture.table);
	CHECK_EQ(weir_store_take(fixture.store, fixture.ten, "a", 1, 10, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	CHECK_EQ(answer.verdict.remaining, 0);
	CHECK_EQ(answer.decided_at, START);
	CHECK_EQ(answer.fallback_nodes, 0);
	CHECK_EQ(weir_store_take(fixture.store, fixture.ten, "a", 1, 1, &answer), WEIR_OK);
	CHECK(!answer.verdict.allowed);
	CHECK_EQ(answer.verdict.retry_after, MS(100));
	fixture.now += MS(100);
	CHECK_EQ(weir_store_take(fixture.store, fixture.ten, "a", 1, 1, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	end(&fixture);
}

static void each_operation(void)
{
	struct weir_store_answer answer;
	struct fixture fixture;

	begin(&fixture);
	CHECK_EQ(weir_store_upto(fixture.store, fixture.ten, "a", 1, 99, &answer), WEIR_OK);
	CHECK_EQ(answer.verdict.granted, 10);
	CHECK_EQ(weir_store_refund(fixture.store, fixture.ten, "a", 1, 4, &answer), WEIR_OK);
	CHECK_EQ(weir_store_peek(fixture.store, fixture.ten, "a", 1, 4, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	CHECK_EQ(answer.verdict.remaining, 4);
	CHECK_EQ(weir_store_reset(fixture.store, fixture.ten, "a", 1, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	CHECK_EQ(weir_store_reset(fixture.store, fixture.ten, "a", 1, &answer), WEIR_OK);
	CHECK(!answer.verdict.allowed);
	CHECK_EQ(weir_store_peek(fixture.store, fixture.ten, "a", 1, 0, &answer), WEIR_OK);
	CHECK_EQ(answer.verdict.remaining, 10);
	end(&fixture);
}

static void all_or_nothing_and_each(void)
{
	struct weir_verdict verdicts[WEIR_STORE_BATCH_MAX + 1];
	struct weir_claim many[WEIR_STORE_BATCH_MAX + 1];
	struct weir_store_answer answer;
	struct fixture fixture;

	begin(&fixture);
	for (size_t i = 0; i <= WEIR_STORE_BATCH_MAX; i++)
		many[i] = (struct weir_claim){ fixture.ten, "a", 1, 1 };
	many[1] = (struct weir_claim){ fixture.five, "a", 1, 6 };
	CHECK_EQ(weir_store_decide(fixture.store, many, 2, verdicts, &answer), WEIR_OK);
	CHECK(!answer.verdict.allowed && answer.verdict.never);
	CHECK_EQ(answer.decided_by, 1);
	CHECK(verdicts[0].allowed && !verdicts[1].allowed);
	many[1].cost = 5;
	CHECK_EQ(weir_store_decide(fixture.store, many, 2, NULL, &answer), WEIR_OK);
	CHECK(answer.verdict.allowed);
	CHECK_EQ(answer.decided_by, 1);
	CHECK_EQ(weir_store_peek(fixture.store, fixture.ten, "a", 1, 1, &answer), WEIR_OK);
	CHECK_EQ(answer.verdict.remaining, 9); /* the denied decision was charged nowhere */
	CHECK_EQ(weir_store_take_batch(fixture.store, many, WEIR_STORE_BATCH_MAX, verdicts, &answer), WEIR_OK);
	CHECK(verdicts[0].allowed && !verdicts[1].allowed && verdicts[9].allowed && !verdicts[10].allowed);
	CHECK_EQ(answer.decided_at, START);
	CHECK_EQ(weir_store_decide(fixture.store, many, 0, NULL, &answer), WEIR_ERR_LIMIT);
	CHECK_EQ(weir_store_decide(fixture.store, many, WEIR_TABLE_CLAIMS_MAX + 1, NULL, &answer), WEIR_ERR_LIMIT);
	CHECK_EQ(weir_store_take_batch(fixture.store, many, 0, verdicts, NULL), WEIR_ERR_LIMIT);
	CHECK_EQ(weir_store_take_batch(fixture.store, many, WEIR_STORE_BATCH_MAX + 1, verdicts, NULL), WEIR_ERR_LIMIT);
	end(&fixture);
}

static void limits_change(void)
{
	const struct weir_table_limit *again;
	struct weir_store_answer answer;
	struct weir_message why;
	struct fixture fixture;

	begin(&fixture);
	CHECK_EQ(weir_store_add_limit_text(fixture.store, "ten", "10/s burst 10", &again, &why), WEIR_OK);
	CHECK(again == fixture.ten);
	CHECK_EQ(weir_store_add_limit_text(fixture.store, "ten", "11/s burst 10", &again, &why), WEIR_ERR_CHANGE);
	CHECK_EQ(weir_store_add_limit_text(fixture.store, "x", "11/fortnight", &again, &why), WEIR_ERR_SYNTAX);
	CHECK_EQ(weir_store_take(fixture.store, fixture.ten, "a", 1, 4, &answer), WEIR_OK);
	CHECK_EQ(weir_store_change_limit_text(fixture.store, fixture.ten, "20/s burst 20", &why), WEIR_OK);
	CHECK_EQ(weir_store_peek(fixture.store, fixture.ten, "a", 1, 1, &answer), WEIR_OK);
	CHECK_EQ(answer.verdict.limit, 20);
	CHECK_EQ(answer.verdict.remaining, 16);
	CHECK_EQ(weir_store_change_limit_text(fixture.store, fixture.ten, "20/s sliding_counter", &why),
		 WEIR_ERR_CHANGE);
	CHECK_EQ(weir_store_set_failure(fixture.store, fixture.ten, WEIR_STORE_FAILURE_LOCAL, NULL, 0, &why),
		 WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "a local limit and WEIR_STORE_FAILURE_LOCAL go together: give both or neither");
	CHECK_EQ(weir_store_set_failure(fixture.store, fixture.ten, WEIR_STORE_FAILURE_OPEN, fixture.five, 0, &why),
		 WEIR_ERR_LIMIT);
	end(&fixture);
}

/* The rules that fallback_store.c and redis_plan_cache.c read. */
static void rules_are_found(void)
{
	struct weir__fallback_rule rule = { .mode = WEIR__FALLBACK_NONE, .budget = 7 };
	struct fixture fixture;
	uint64_t version;

	begin(&fixture);
	version = weir__store_version(fixture.store);
	weir__store_find_rule(fixture.store, fixture.ten, &rule);
	CHECK_EQ(rule.mode, WEIR__FALLBACK_NONE);
	CHECK_EQ(rule.budget, 7);
	CHECK(weir__store_since(fixture.store, fixture.ten) > 0);
	CHECK_EQ(
		weir_store_set_failure(fixture.store, fixture.ten, WEIR_STORE_FAILURE_LOCAL, fixture.five, MS(3), NULL),
		WEIR_OK);
	CHECK(weir__store_version(fixture.store) != version);
	weir__store_find_rule(fixture.store, fixture.ten, &rule);
	CHECK_EQ(rule.mode, WEIR__FALLBACK_LOCAL);
	CHECK(rule.local == fixture.five);
	CHECK_EQ(rule.budget, MS(3));
	rule = (struct weir__fallback_rule){ .mode = WEIR__FALLBACK_NONE, .budget = 7 };
	CHECK_EQ(weir_store_set_failure(fixture.store, fixture.ten, WEIR_STORE_FAILURE_UNSET, NULL, 0, NULL), WEIR_OK);
	weir__store_find_rule(fixture.store, fixture.ten, &rule);
	CHECK_EQ(rule.mode, WEIR__FALLBACK_NONE);
	CHECK_EQ(rule.budget, 7);
	CHECK(weir__store_since(fixture.store, fixture.ten) > 0);
	end(&fixture);
}

/* Two tables of one name, in shared memory and in a file, as in two processes. */
static void stores_share_a_table(void)
{
	char name[40], path[64];

	(void)snprintf(name, sizeof(name), "weir-public-store-%d", (int)getpid());
	(void)snprintf(path, sizeof(path), "/dev/shm/%s.table", name);
	for (int in_file = 0; in_file < 2; in_file++) {
		const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0),
							    .shared = in_file ? NULL : name,
							    .file = in_file ? path : NULL };
		struct weir_store_answer answer;
		struct weir_table *tables[2];
		struct weir_store *stores[2];

		for (int i = 0; i < 2; i++)
			if (weir_table_new(&options, &tables[i], NULL) != WEIR_OK ||
			    weir_store_table(tables[i], &stores[i], NULL) != WEIR_OK)
				exit(1);
		CHECK_EQ(weir_store_take(stores[0], add(stores[0], "ten", "10/1000day"), "a", 1, 7, &answer), WEIR_OK);
		CHECK_EQ(weir_store_upto(stores[1], add(stores[1], "ten", "10/1000day"), "a", 1, 7, &answer), WEIR_OK);
		CHECK_EQ(answer.verdict.granted, 3);
		for (int i = 0; i < 2; i++) {
			weir_store_free(stores[i]);
			weir_table_free(tables[i]);
		}
	}
	CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
	CHECK_EQ(unlink(path), 0);
}

/* --- submitters -------------------------------------------------------------------------------------------------- */

struct seen {
	struct weir_submitter *submitter;
	const struct weir_table_limit *again; /* not NULL: the completion takes once more */
	size_t n, denied;
	int submit_error;
};

static bool is_readable(const struct weir_submitter *submitter)
{
	struct pollfd look = { .fd = weir_submitter_descriptor(submitter), .events = POLLIN };

	return poll(&look, 1, 0) == 1;
}

static void done(void *seen_, int error, const struct weir_store_answer *answer, const struct weir_verdict *verdicts)
{
	struct seen *const seen = seen_;

	CHECK_EQ(error, WEIR_OK);
	CHECK_EQ(verdicts[answer->decided_by].allowed, answer->verdict.allowed);
	seen->n++;
	seen->denied += !answer->verdict.allowed;
	if (seen->again) {
		const struct weir_claim claim = { seen->again, "again", 5, 1 };

		seen->again = NULL;
		seen->submit_error = weir_submitter_submit(seen->submitter, WEIR_STORE_TAKE, &claim, 1, done, seen);
	}
}

static void completes_in_dispatch(void)
{
	struct seen seen = { .n = 0 };
	char key[] = "key";
	struct weir_claim claims[2];
	struct fixture fixture;

	begin(&fixture);
	CHECK_EQ(weir_submitter_new(fixture.store, &seen.submitter, NULL), WEIR_OK);
	CHECK(!is_readable(seen.submitter));
	CHECK_EQ(weir_submitter_dispatch(seen.submitter), 0);
	claims[0] = (struct weir_claim){ fixture.ten, key, 3, 6 };
	claims[1] = (struct weir_claim){ fixture.five, key, 3, 1 };
	CHECK_EQ(weir_submitter_submit(seen.submitter, WEIR_STORE_TAKE, claims, 2, done, &seen), WEIR_OK);
	CHECK_EQ(weir_submitter_submit(seen.submitter, WEIR_STORE_TAKE, claims, 2, done, &seen), WEIR_OK);
	key[0] = 'x'; /* keys are copied */
	CHECK_EQ(weir_submitter_submit(seen.submitter, WEIR_STORE_UPTO, claims, 2, done, &seen), WEIR_ERR_LIMIT);
	CHECK_EQ(weir_submitter_submit(seen.submitter, WEIR_STORE_TAKE, claims, 0, done, &seen), WEIR_ERR_LIMIT);
	CHECK_EQ(seen.n, 0);
	CHECK_EQ(weir_submitter_in_flight(seen.submitter), 2);
	CHECK(is_readable(seen.submitter));
	weir_submitter_flush(seen.submitter); /* results are pending, so it stays readable */
	CHECK(is_readable(seen.submitter));
	CHECK_EQ(weir_submitter_dispatch(seen.submitter), 2);
	CHECK_EQ(seen.n, 2);
	CHECK_EQ(seen.denied, 1);
	CHECK(!is_readable(seen.submitter));
	CHECK_EQ(weir_submitter_in_flight(seen.submitter), 0);
	weir_submitter_free(seen.submitter);
	end(&fixture);
}

static void completions_may_submit(void)
{
	struct weir_claim claim;
	struct seen seen = { .n = 0 };
	struct fixture fixture;

	begin(&fixture);
	CHECK_EQ(weir_submitter_new(fixture.store, &seen.submitter, NULL), WEIR_OK);
	seen.again = fixture.ten;
	claim = (struct weir_claim){ fixture.ten, "a", 1, 1 };
	CHECK_EQ(weir_submitter_submit(seen.submitter, WEIR_STORE_TAKE, &claim, 1, done, &seen), WEIR_OK);
	CHECK_EQ(weir_submitter_dispatch(seen.submitter), 1); /* the second is left for the next turn */
	CHECK_EQ(seen.submit_error, WEIR_OK);
	CHECK(is_readable(seen.submitter));
	CHECK_EQ(weir_submitter_dispatch(seen.submitter), 1);
	CHECK_EQ(seen.n, 2);
	/* While it is freed, it accepts nothing more. */
	seen.again = fixture.ten;
	CHECK_EQ(weir_submitter_submit(seen.submitter, WEIR_STORE_PEEK, &claim, 1, done, &seen), WEIR_OK);
	weir_submitter_free(seen.submitter);
	CHECK_EQ(seen.n, 3);
	CHECK_EQ(seen.submit_error, WEIR_ERR_CLOSED);
	end(&fixture);
}

static void a_store_frees_its_submitters(void)
{
	struct seen seen = { .n = 0 };
	struct weir_submitter *other;
	struct weir_claim claim;
	struct fixture fixture;

	begin(&fixture);
	CHECK_EQ(weir_submitter_new(fixture.store, &seen.submitter, NULL), WEIR_OK);
	CHECK_EQ(weir_submitter_new(fixture.store, &other, NULL), WEIR_OK);
	claim = (struct weir_claim){ fixture.ten, "a", 1, 1 };
	CHECK_EQ(weir_submitter_submit(seen.submitter, WEIR_STORE_TAKE, &claim, 1, done, &seen), WEIR_OK);
	CHECK_EQ(weir_submitter_submit(other, WEIR_STORE_TAKE, &claim, 1, done, &seen), WEIR_OK);
	end(&fixture);
	CHECK_EQ(seen.n, 2);
	weir_store_free(NULL);
	weir_submitter_free(NULL);
}

static void a_full_submitter(void)
{
	struct seen seen = { .n = 0 };
	struct weir_claim claim;
	struct fixture fixture;

	begin(&fixture);
	CHECK_EQ(weir_submitter_new(fixture.store, &seen.submitter, NULL), WEIR_OK);
	claim = (struct weir_claim){ fixture.ten, "a", 1, 1 };
	for (int i = 0; i < WEIR_SUBMITTER_MAX; i++)
		if (weir_submitter_submit(seen.submitter, WEIR_STORE_TAKE, &claim, 1, done, &seen) != WEIR_OK)
			check_fail(__FILE__, __LINE__, "full too early");
	CHECK_EQ(weir_submitter_submit(seen.submitter, WEIR_STORE_TAKE, &claim, 1, done, &seen), WEIR_ERR_FULL);
	CHECK_EQ(weir_submitter_dispatch(seen.submitter), WEIR_SUBMITTER_MAX);
	CHECK_EQ(seen.denied, WEIR_SUBMITTER_MAX - 10);
	end(&fixture);
}

/* --- statistics -------------------------------------------------------------------------------------------------- */

struct counted {
	size_t n;
	uint64_t allowed, denied; /* of ten */
	char text[WEIR_LIMIT_TEXT_MAX];
};

static void count(void *counted_, const struct weir_store_limit_stats *stats)
{
	struct counted *const counted = counted_;

	counted->n++;
	if (strcmp(stats->name, "ten") != 0)
		return;
	counted->allowed = stats->allowed;
	counted->denied = stats->denied;
	(void)weir_limit_print(&stats->limit, counted->text);
}

static void statistics(void)
{
	struct weir_store_stats stats = { .size_bytes = sizeof(stats), .nodes = 99 };
	struct counted counted = { .n = 0 };
	struct weir_store_answer answer;
	struct fixture fixture;

	begin(&fixture);
	CHECK_EQ(weir_store_take(fixture.store, fixture.ten, "a", 1, 10, &answer), WEIR_OK);
	CHECK_EQ(weir_store_take(fixture.store, fixture.ten, "a", 1, 1, &answer), WEIR_OK);
	CHECK_EQ(weir_store_change_limit_text(fixture.store, fixture.ten, "20/s burst 10", NULL), WEIR_OK);
	weir_store_each_limit(fixture.store, count, &counted);
	CHECK_EQ(counted.n, 2);
	CHECK_EQ(counted.allowed, 1);
	CHECK_EQ(counted.denied, 1);
	CHECK_TEXT(counted.text, "20/s burst 10");
	CHECK_EQ(weir_store_stats(fixture.store, &stats), WEIR_OK);
	CHECK_EQ(stats.health, WEIR_STORE_UP);
	CHECK_EQ(stats.nodes, 1);
	CHECK_EQ(stats.decided, 0);
	CHECK_EQ(stats.keys_live, 1);
	CHECK(stats.keys_capacity >= 1000);
	CHECK_TEXT(stats.last_error, "");
	end(&fixture);
}

/* A program that was compiled before fields were added at the end. */
static void statistics_of_an_older_program(void)
{
	struct weir_store_stats stats;
	struct fixture fixture;

	begin(&fixture);
	memset(&stats, 0x55, sizeof(stats));
	stats.size_bytes = offsetof(struct weir_store_stats, calls);
	CHECK_EQ(weir_store_stats(fixture.store, &stats), WEIR_OK);
	CHECK_EQ(stats.size_bytes, offsetof(struct weir_store_stats, calls));
	CHECK_EQ(stats.nodes, 1);
	CHECK_EQ(stats.calls, UINT64_C(0x5555555555555555));
	stats.size_bytes = 0;
	CHECK_EQ(weir_store_stats(fixture.store, &stats), WEIR_ERR_LIMIT);
	end(&fixture);
}

TESTS(TEST(decides_on_its_clock), TEST(each_operation), TEST(all_or_nothing_and_each), TEST(limits_change),
      TEST(rules_are_found), TEST(stores_share_a_table), TEST(completes_in_dispatch), TEST(completions_may_submit),
      TEST(a_store_frees_its_submitters), TEST(a_full_submitter), TEST(statistics),
      TEST(statistics_of_an_older_program))
