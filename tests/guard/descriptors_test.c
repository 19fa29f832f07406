/* descriptors_test.c: decisions for descriptors, by a policy in Envoy's format and a table. */
/* Covers: src/guard/guard_descriptors.c */
#include <weir/guard.h>

#include <pthread.h>

#include "../policy/envoys.h"
#include "guards.h"

static const weir_ns start = UINT64_C(1700000040000000000); /* not at the start of a minute, an hour or a day */

static const char config[] = "domain: shop\n"
			     "descriptors:\n"
			     "  - {key: all, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
			     "  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}\n"
			     "  - {key: canary, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
			     "  - {key: free, rate_limit: {unlimited: true}}\n"
			     "  - {key: shut, rate_limit: {unit: minute, requests_per_unit: 0}}\n"
			     "  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
			     "  - {key: more, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}\n";

static struct weir_table *table;
static struct weir_guard_status statuses[WEIR_DESCRIPTORS_MAX];

static struct weir_guard_answer ask_request(struct weir_guard *guard, const struct request *request, uint64_t hits)
{
	struct weir_guard_answer answer = { .limits = 99 };
	struct weir_message why = { 0 };

	if (weir_guard_check_descriptors(guard, "shop", 4, request->descriptors, request->n, hits, start, &answer,
					 statuses, &why) != WEIR_OK)
		check_fail(__FILE__, __LINE__, why.text);
	return answer;
}

static struct weir_guard_answer ask(struct weir_guard *guard, const char *const *words)
{
	struct request request;

	request_of(words, &request);
	return ask_request(guard, &request, 1);
}

static void all_or_nothing(void)
{
	struct weir_guard *const guard = guard_over(envoy_of(config, 0), start, &table);
	struct weir_guard_answer answer;

	answer = ask(guard, WORDS("all=1", "user=ann"));
	CHECK(answer.verdict.allowed && answer.limits == 2 && answer.is_limited);
	CHECK_TEXT(answer.decided_by, "shop|user");
	CHECK_EQ(statuses[0].verdict.remaining, 2);
	CHECK_EQ(statuses[1].verdict.remaining, 1);
	CHECK_EQ(statuses[1].claim.limit.count, 2);
	CHECK(ask(guard, WORDS("all=1", "user=ann")).verdict.allowed);
	for (int i = 0; i < 3; i++) {
		answer = ask(guard, WORDS("all=1", "user=ann"));
		CHECK(!answer.verdict.allowed && answer.verdict.retry_after > 0);
		CHECK_TEXT(answer.decided_by, "shop|user");
		CHECK(statuses[0].verdict.allowed && !statuses[1].verdict.allowed);
	}
	/* the denied requests were not charged to `all`: one is left */
	CHECK(ask(guard, WORDS("all=1", "user=bob")).verdict.allowed);
	CHECK(!ask(guard, WORDS("all=1", "user=bob")).verdict.allowed);
	end_guard(guard, table);
}

/* The reply has the numbers of the limit that it names. */
static void numbers_are_of_the_decider(void)
{
	static const char two[] = "domain: shop\n"
				  "descriptors:\n"
				  "  - {key: day, rate_limit: {unit: day, requests_per_unit: 3}}\n"
				  "  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 2}}\n";
	struct weir_guard *const guard = guard_over(envoy_of(two, 0), start, &table);

	for (int i = 0; i < 3; i++) {
		const struct weir_guard_answer answer = ask(guard, WORDS("day=1", "minute=1"));
		const struct weir_verdict *const own = &statuses[1].verdict;

		CHECK_EQ(answer.verdict.allowed, i < 2);
		CHECK_TEXT(answer.decided_by, "shop|minute");
		CHECK(answer.verdict.limit == 2 && answer.verdict.remaining == own->remaining);
		CHECK(answer.verdict.retry_after == own->retry_after && answer.verdict.reset_after == own->reset_after);
		CHECK(statuses[0].verdict.reset_after > own->reset_after);
	}
	end_guard(guard, table);
}

static void each_counts(void)
{
	struct weir_guard *const guard = guard_over(envoy_of(config, WEIR_ENVOY_COUNT_EACH), start, &table);
	struct request request;

	CHECK(ask(guard, WORDS("all=1", "user=ann")).verdict.allowed);
	CHECK(ask(guard, WORDS("all=1", "user=ann")).verdict.allowed);
	CHECK(!ask(guard, WORDS("all=1", "user=ann")).verdict.allowed);
	CHECK(statuses[0].verdict.allowed && !statuses[1].verdict.allowed);
	/* `all` counted the denied request, too */
	CHECK(!ask(guard, WORDS("all=1", "user=bob")).verdict.allowed);
	CHECK(!statuses[0].verdict.allowed && statuses[1].verdict.allowed);
	/* bob has one left; a cost of 2 is denied, but counts */
	request_of(WORDS("user=bob"), &request);
	CHECK(!ask_request(guard, &request, 2).verdict.allowed);
	CHECK(!ask_request(guard, &request, 1).verdict.allowed);
	CHECK(ask_request(guard, &request, 0).limits == 1);
	/* a look does not see what a later descriptor takes */
	request_of(WORDS("user=eve", "user=eve"), &request);
	request.descriptors[0].has_hits = true;
	CHECK(ask_request(guard, &request, 1).verdict.allowed);
	CHECK_EQ(statuses[0].verdict.remaining, statuses[1].verdict.remaining + 1);
	end_guard(guard, table);
}

static void what_applies_and_does_not_deny(void)
{
	struct weir_guard *const guard = guard_over(envoy_of(config, 0), start, &table);
	struct weir_guard_answer answer;

	answer = ask(guard, WORDS("nothing=here"));
	CHECK(answer.verdict.allowed && answer.limits == 0 && !answer.is_limited && !statuses[0].claim.applies);
	answer = ask(guard, WORDS("free=1"));
	CHECK(answer.verdict.allowed && answer.limits == 1 && !answer.is_limited && statuses[0].claim.is_unlimited);
	CHECK(ask(guard, WORDS("canary=1")).shadow_denied == 0);
	answer = ask(guard, WORDS("canary=1"));
	CHECK(answer.verdict.allowed && answer.shadow_denied == 1 && !statuses[0].verdict.allowed);
	end_guard(guard, table);
}

static void none_at_all(void)
{
	struct weir_guard *const guard = guard_over(envoy_of(config, 0), start, &table);
	const struct weir_guard_answer answer = ask(guard, WORDS("shut=1", "user=ann"));
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("domain=shop", "shut=1"), attributes);
	struct weir_guard_answer by_attributes;
	struct weir_message why;

	CHECK(!answer.verdict.allowed && answer.verdict.never && answer.verdict.remaining == 0);
	CHECK_TEXT(answer.decided_by, "shop|shut");
	CHECK(statuses[0].verdict.limit == 0 && statuses[1].verdict.allowed);
	CHECK(weir_guard_check(guard, attributes, n, 1, start, &by_attributes, &why) == WEIR_OK);
	CHECK(!by_attributes.verdict.allowed);
	end_guard(guard, table);
}

static void quotas_deny_together(void)
{
	static const uint32_t options[] = { 0, WEIR_ENVOY_COUNT_EACH };

	for (int i = 0; i < 2; i++) {
		struct weir_guard *const guard = guard_over(envoy_of(config, options[i]), start, &table);
		struct weir_guard_answer answer;

		CHECK(ask(guard, WORDS("quota=1", "more=1", "user=ann")).verdict.allowed);
		CHECK(ask(guard, WORDS("quota=1", "more=1")).verdict.allowed);
		CHECK(!statuses[0].verdict.allowed && statuses[1].verdict.allowed);
		answer = ask(guard, WORDS("quota=1", "more=1", "user=ann"));
		CHECK(!answer.verdict.allowed && !statuses[0].verdict.allowed && !statuses[1].verdict.allowed);
		/* ann was charged if every descriptor counts */
		CHECK_EQ(ask(guard, WORDS("user=ann")).verdict.allowed, options[i] == 0);
		end_guard(guard, table);
	}
}

/* Quotas of the same backend and model, or with the same entries, are a group. It is used up if one of them is. */
static void groups_of_quotas(void)
{
	static const char models[] =
		"domain: shop\n"
		"descriptors:\n"
		"  - key: backend_name\n"
		"    descriptors:\n"
		"      - {key: model_name_override, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 9}}\n"
		"      - {key: user, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
		"  - {key: user, descriptors: [{key: backend_name, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}]}\n"
		"  - {key: test, quota_mode: true, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}\n"
		"  - {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n";
	static const uint32_t options[] = { 0, WEIR_ENVOY_COUNT_EACH };

	for (int i = 0; i < 2; i++) {
		struct weir_guard *const guard = guard_over(envoy_of(models, options[i]), start, &table);
		const char *const *const one = WORDS("backend_name=a user=ann", "user=eve backend_name=a");

		CHECK(ask(guard, one).verdict.allowed);
		CHECK(!ask(guard, WORDS("backend_name=a user=ann", "user=bob backend_name=a")).verdict.allowed);
		CHECK(!statuses[0].verdict.allowed && statuses[1].verdict.allowed);
		/* with a model it is another group */
		CHECK(ask(guard, WORDS("backend_name=a user=ann", "backend_name=a model_name_override=m"))
			      .verdict.allowed);
		CHECK(!statuses[0].verdict.allowed && statuses[1].verdict.allowed);
		/* one in shadow never denies */
		CHECK(ask(guard, WORDS("backend_name=a user=ann", "test=1")).verdict.allowed);
		CHECK(ask(guard, WORDS("q=1", "q=2")).verdict.allowed);
		CHECK(ask(guard, WORDS("q=1", "q=3")).verdict.allowed);
		CHECK(!ask(guard, WORDS("q=1", "q=2")).verdict.allowed);
		end_guard(guard, table);
	}
}

/* A cost of 0 asks whether anything is left. If nothing is, it denies the request, so that others count nothing where all
 * count together. */
static void looks(void)
{
	static const uint32_t options[] = { 0, WEIR_ENVOY_COUNT_EACH };

	for (int i = 0; i < 2; i++) {
		struct weir_guard *const guard = guard_over(envoy_of(config, options[i]), start, &table);
		struct weir_guard_answer answer;
		struct request request;

		request_of(WORDS("user=ann"), &request);
		CHECK(ask_request(guard, &request, 0).verdict.allowed);
		CHECK_EQ(statuses[0].verdict.remaining, 2);
		CHECK(ask_request(guard, &request, 2).verdict.allowed);
		CHECK(!ask_request(guard, &request, 0).verdict.allowed);
		request_of(WORDS("all=1", "user=ann", "more=1"), &request);
		request.descriptors[1].has_hits = true;
		answer = ask_request(guard, &request, 1);
		CHECK(!answer.verdict.allowed && answer.verdict.retry_after > 0);
		CHECK_TEXT(answer.decided_by, "shop|user");
		CHECK(statuses[0].verdict.allowed && !statuses[1].verdict.allowed);
		CHECK(ask(guard, WORDS("all=1", "more=1")).verdict.allowed);
		CHECK_EQ(statuses[0].verdict.remaining, options[i] == 0 ? 2 : 1);
		CHECK_EQ(statuses[1].verdict.remaining, options[i] == 0 ? 1 : 0);
		/* what the same request takes does not deny its look */
		request_of(WORDS("user=bob", "user=bob"), &request);
		request.descriptors[0].has_hits = true;
		CHECK(ask_request(guard, &request, 2).verdict.allowed || options[i] != 0);
		request_of(WORDS("shut=1"), &request);
		CHECK(!ask_request(guard, &request, 0).verdict.allowed);
		CHECK(statuses[0].verdict.limit == 0 && statuses[0].verdict.remaining == 0);
		request_of(WORDS("canary=1"), &request);
		CHECK(ask_request(guard, &request, 1).verdict.allowed &&
		      ask_request(guard, &request, 0).verdict.allowed);
		CHECK(!statuses[0].verdict.allowed);
		end_guard(guard, table);
	}
}

static void limits_that_come_with_requests(void)
{
	struct weir_guard *const guard = guard_over(envoy_of(config, 0), start, &table);
	struct weir_guard_answer answer;
	struct weir_message why = { 0 };
	struct request request;

	request_of(WORDS("user=ann"), &request);
	request.descriptors[0].unit = WEIR_UNIT_HOUR;
	request.descriptors[0].requests_per_unit = 1;
	answer = ask_request(guard, &request, 1);
	CHECK(answer.verdict.allowed && answer.verdict.limit == 1);
	CHECK_TEXT(answer.decided_by, "~given 1/hour fixed_window");
	CHECK(!ask_request(guard, &request, 1).verdict.allowed);
	/* the policy's own limit was not charged */
	CHECK_EQ(ask(guard, WORDS("user=ann")).verdict.remaining, 1);
	request.descriptors[0].requests_per_unit = UINT32_MAX;
	CHECK_EQ(ask_request(guard, &request, UINT32_MAX - 7).verdict.remaining, 7);
	for (uint32_t i = 2; i < WEIR_GUARD_GIVEN_MAX; i++) {
		request.descriptors[0].requests_per_unit = i;
		CHECK(ask_request(guard, &request, 1).verdict.allowed);
	}
	request.descriptors[0].requests_per_unit = WEIR_GUARD_GIVEN_MAX + 1;
	CHECK_EQ(weir_guard_check_descriptors(guard, "shop", 4, request.descriptors, 1, 1, start, &answer, statuses,
					      &why),
		 WEIR_ERR_FULL);
	CHECK_TEXT(why.text, "more than 64 different inline limits; name them in the policy");
	request.descriptors[0].requests_per_unit = 1;
	CHECK(!ask_request(guard, &request, 1).verdict.allowed);
	end_guard(guard, table);
}

static void too_many_together(void)
{
	static const uint32_t options[] = { 0, WEIR_ENVOY_COUNT_EACH };
	struct weir_attribute entry = { "user", 4, "ann", 3 };
	struct weir_descriptor descriptors[WEIR_TABLE_CLAIMS_MAX + 1];
	struct weir_guard_answer answer;
	struct weir_message why;

	for (int i = 0; i <= WEIR_TABLE_CLAIMS_MAX; i++)
		descriptors[i] = (struct weir_descriptor){ .entries = &entry, .n = 1 };
	for (int i = 0; i < 2; i++) {
		struct weir_guard *const guard = guard_over(envoy_of(config, options[i]), start, &table);

		CHECK_EQ(weir_guard_check_descriptors(guard, "shop", 4, descriptors, WEIR_TABLE_CLAIMS_MAX + 1, 1,
						      start, &answer, statuses, &why),
			 options[i] ? WEIR_OK : WEIR_ERR_LIMIT);
		/* the third of the same descriptor is denied */
		CHECK(options[i] == 0 || (!answer.verdict.allowed && statuses[1].verdict.allowed));
		end_guard(guard, table);
	}
}

/* --- threads ---------------------------------------------------------------------------------------------------- */

enum { THREADS = 3, ASKED = 400 };

static void *bring_limits(void *guard)
{
	struct weir_guard_status own[WEIR_DESCRIPTORS_MAX];
	struct weir_guard_answer answer;
	struct weir_message why;
	struct request request;
	uintptr_t admitted = 0;

	request_of(WORDS("user=ann"), &request);
	request.descriptors[0].unit = WEIR_UNIT_YEAR;
	for (uint32_t i = 0; i < ASKED; i++) {
		request.descriptors[0].requests_per_unit = 1 + i % 40;
		if (weir_guard_check_descriptors(guard, "shop", 4, request.descriptors, 1, 1, start, &answer, own,
						 &why) == WEIR_OK)
			admitted += answer.verdict.allowed;
	}
	return (void *)admitted;
}

/* 40 limits, of 1 to 40; the threads together send 30 requests to each. */
static void many_bring_the_same(void)
{
	struct weir_guard *const guard = guard_over(envoy_of(config, 0), start, &table);
	pthread_t threads[THREADS];
	uintptr_t admitted = 0, expected = 0;

	for (int i = 0; i < THREADS; i++)
		(void)pthread_create(&threads[i], NULL, bring_limits, guard);
	for (int i = 0; i < THREADS; i++) {
		void *one;

		(void)pthread_join(threads[i], &one);
		admitted += (uintptr_t)one;
	}
	for (uintptr_t i = 1; i <= 40; i++)
		expected += i < 30 ? i : 30;
	CHECK_EQ(admitted, expected);
	end_guard(guard, table);
}

TESTS(TEST(all_or_nothing), TEST(numbers_are_of_the_decider), TEST(each_counts), TEST(what_applies_and_does_not_deny),
      TEST(none_at_all), TEST(quotas_deny_together), TEST(groups_of_quotas), TEST(looks),
      TEST(limits_that_come_with_requests), TEST(too_many_together), TEST(many_bring_the_same))
