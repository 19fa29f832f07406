/* guard_list_test.c: a list of limits comes from one policy, whatever changes while it is read. */
#include "guard/guard.h"

#include <pthread.h>
#include <stdatomic.h>

#include "guards.h"

enum { LIMITS = 16, READERS = 4, CHANGES = 200 };

static const weir_ns start = UINT64_C(1700000000000000000);

/* In version n every limit has n/s; odd versions have a key. */
static struct weir_policy *version(unsigned n, unsigned limits)
{
	char text[LIMITS * 64 + 16] = "limits:\n";

	for (unsigned i = 0; i < limits; i++)
		(void)sprintf(text + strlen(text), "  - {name: l%u, limit: %u/s%s}\n", i, n,
			      n % 2 ? ", key: [user]" : "");
	return policy_of(text);
}

static struct weir_table *table;
static struct weir_guard *guard;

static void change_to(unsigned n)
{
	struct weir_message why;

	CHECK(weir_guard_change(guard, version(n, LIMITS), start, &why) == WEIR_OK);
}

static void change_one(const char *plan, const char *text)
{
	struct weir_message why;
	struct weir_limit to;

	CHECK(weir_limit_parse(text, strlen(text), &to, &why) == WEIR_OK);
	CHECK(weir_guard_change_limit(guard, plan, &to, start, &why) == WEIR_OK);
}

/* --- what a list contains ----------------------------------------------------------------------------------------- */

struct seen {
	uint32_t n, all, rows;
	uint64_t least, most; /* of the limits */
	uint32_t keyed;
	void (*meanwhile)(void); /* called at the first row */
	uint32_t plans[LIMITS], n_plans, begun;
};

static struct seen nothing_yet(void)
{
	return (struct seen){ .least = UINT64_MAX };
}

static void note_begin(void *seen_, uint32_t n, uint32_t all)
{
	struct seen *const seen = seen_;

	seen->n = n;
	seen->all = all;
}

static void note_row(void *seen_, const struct weir__guard_row *row)
{
	struct seen *const seen = seen_;

	if (seen->rows++ == 0 && seen->meanwhile)
		seen->meanwhile();
	seen->least = row->now.count < seen->least ? row->now.count : seen->least;
	seen->most = row->now.count > seen->most ? row->now.count : seen->most;
	seen->keyed += row->key[0] != '\0';
	CHECK(!row->is_changed || row->change.to.count == row->now.count);
}

static void check_is_one_version(const struct seen *seen)
{
	CHECK_EQ(seen->least, seen->most);
	CHECK_EQ(seen->keyed, seen->least % 2 ? seen->rows : 0);
}

static void begin_choice(void *seen_)
{
	struct seen *const seen = seen_;

	seen->n_plans = 0;
	seen->begun++;
}

static void visit(void *seen_, uint32_t plan, const struct weir_table_limit *limit)
{
	struct seen *const seen = seen_;

	(void)limit;
	seen->plans[seen->n_plans++] = plan;
}

/* Chooses the limits in reverse order. */
static uint32_t choose(void *seen_, const uint32_t **ret_plans)
{
	struct seen *const seen = seen_;

	for (uint32_t i = 0; i < seen->n_plans / 2; i++) {
		const uint32_t first = seen->plans[i];

		seen->plans[i] = seen->plans[seen->n_plans - 1 - i];
		seen->plans[seen->n_plans - 1 - i] = first;
	}
	*ret_plans = seen->plans;
	return seen->n_plans;
}

static const struct weir__guard_choice choice = { begin_choice, visit, choose, note_row };

static void note_name(void *names_, const struct weir__guard_row *row)
{
	char *const names = names_;

	(void)sprintf(names + strlen(names), "%s ", row->name);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void a_part_of_the_plans(void)
{
	struct seen seen = nothing_yet();

	guard = guard_over(version(2, 5), start, &table);
	weir__guard_list(guard, 1, 3, note_begin, note_row, &seen);
	CHECK(seen.n == 3 && seen.all == 5 && seen.rows == 3);
	seen = nothing_yet();
	weir__guard_list(guard, 4, UINT32_MAX, note_begin, note_row, &seen);
	CHECK(seen.n == 1 && seen.all == 5 && seen.rows == 1);
	seen = nothing_yet();
	weir__guard_list(guard, 9, 3, note_begin, note_row, &seen);
	CHECK(seen.n == 0 && seen.all == 5 && seen.rows == 0);
	end_guard(guard, table);
}

static void begin_nothing(void *names)
{
	(void)names;
}

static uint32_t choose_two(void *names, const uint32_t **ret_plans)
{
	static const uint32_t plans[] = { 3, 0 };

	(void)names;
	*ret_plans = plans;
	return 2;
}

static void visit_name(void *names_, uint32_t plan, const struct weir_table_limit *limit)
{
	char *const names = names_;

	(void)sprintf(names + strlen(names), "%u:%s ", plan, weir_table_limit_name(limit));
}

static void chosen_plans_in_their_order(void)
{
	static const struct weir__guard_choice two = { begin_nothing, visit_name, choose_two, note_name };
	char names[128] = "";

	guard = guard_over(policy_of("domain: shop\n"
				     "descriptors:\n"
				     "  - {key: a, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
				     "  - {key: free, rate_limit: {unlimited: true}}\n"
				     "  - {key: b, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
				     "  - {key: c, rate_limit: {unit: hour, requests_per_unit: 2}}\n"),
			   start, &table);
	CHECK(weir__guard_list_chosen(guard, 3, &two, names));
	CHECK_TEXT(names, "0:shop|a 2:shop|b shop|c shop|a ");
	end_guard(guard, table);
}

static void *change_beside(void *none)
{
	(void)none;
	change_to(7);
	return NULL;
}

static pthread_t beside;

/* The change waits until the list ends, but all its limits are in effect. */
static void replace_policy(void)
{
	(void)pthread_create(&beside, NULL, change_beside, NULL);
	while (weir_guard_changes(guard) == 0)
		;
}

static void the_policy_is_replaced_between_two_rows(void)
{
	struct seen seen = nothing_yet();

	guard = guard_over(version(2, LIMITS), start, &table);
	seen.meanwhile = replace_policy;
	weir__guard_list(guard, 0, LIMITS, note_begin, note_row, &seen);
	(void)pthread_join(beside, NULL);
	CHECK(seen.rows == LIMITS && seen.most == 2);
	check_is_one_version(&seen);
	end_guard(guard, table);
}

static void change_others(void)
{
	change_one("l3", "40/s");
	change_one("l4", "40/s");
}

static void limits_change_between_two_rows(void)
{
	struct seen seen = nothing_yet();

	guard = guard_over(version(2, LIMITS), start, &table);
	seen.meanwhile = change_others;
	weir__guard_list(guard, 0, LIMITS, note_begin, note_row, &seen);
	CHECK(seen.rows == LIMITS && seen.most == 2);
	seen = nothing_yet();
	weir__guard_list(guard, 0, LIMITS, note_begin, note_row, &seen);
	CHECK(seen.least == 2 && seen.most == 40);
	end_guard(guard, table);
}

/* Counts lines with "changed", which mark a limit that is not the policy's. */
static void note_line(void *n_, const char *line)
{
	unsigned *const n = n_;

	*n += strstr(line, "changed") != NULL;
}

static atomic_bool is_over;

static void *read_lists(void *lists_)
{
	const struct weir_attribute ann = { "user", 4, "ann", 3 };
	uint64_t *const lists = lists_;

	for (; !atomic_load(&is_over) || *lists == 0; ++*lists) {
		struct seen seen = nothing_yet();
		unsigned changed = 0;

		weir__guard_list(guard, 0, LIMITS, note_begin, note_row, &seen);
		CHECK(seen.rows == LIMITS);
		check_is_one_version(&seen);
		seen = nothing_yet();
		CHECK(weir__guard_list_chosen(guard, LIMITS, &choice, &seen));
		CHECK(seen.rows == LIMITS && seen.begun > 0);
		check_is_one_version(&seen);
		seen = nothing_yet();
		CHECK(weir__guard_row(guard, "l7", 2, note_row, &seen));
		check_is_one_version(&seen);
		weir_guard_explain(guard, &ann, 1, note_line, &changed);
		CHECK_EQ(changed, 0);
	}
	return NULL;
}

static void the_policy_is_replaced_at_any_time(void)
{
	pthread_t threads[READERS];
	uint64_t lists[READERS] = { 0 };

	guard = guard_over(version(1, LIMITS), start, &table);
	atomic_store(&is_over, false);
	for (int i = 0; i < READERS; i++)
		(void)pthread_create(&threads[i], NULL, read_lists, &lists[i]);
	for (unsigned n = 2; n < CHANGES; n++)
		change_to(n);
	atomic_store(&is_over, true);
	for (int i = 0; i < READERS; i++)
		(void)pthread_join(threads[i], NULL);
	end_guard(guard, table);
}

TESTS(TEST(a_part_of_the_plans), TEST(chosen_plans_in_their_order), TEST(the_policy_is_replaced_between_two_rows),
      TEST(limits_change_between_two_rows), TEST(the_policy_is_replaced_at_any_time))
