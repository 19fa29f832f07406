/* guard_changes_test.c: changes of single limits: which are applied, and what is recorded. */
#include "guard/guard.h"

#include "guards.h"

static const weir_ns start = UINT64_C(1000000000000000000);
static struct weir_table *table;

static const char text[] = "limits:\n"
			   "  - {name: a, limit: 100/s}\n"
			   "  - {name: b, limit: 10/hour fixed_window}\n";

static struct weir__limit_change change_to(const char *limit, uint64_t version)
{
	struct weir__limit_change change = { .user = "alice", .peer = "unix", .at = start, .version = version };

	CHECK_EQ(weir_limit_parse(limit, strlen(limit), &change.to, NULL), WEIR_OK);
	return change;
}

/* The result of a change: "made", "kept" or the error. */
static const char *change(struct weir_guard *guard, const char *plan, const char *limit, uint64_t version,
			  uint64_t identity)
{
	static struct weir_message why;
	const struct weir__limit_change what = change_to(limit, version);
	struct weir_limit before;
	bool is_made;
	const int error = weir__guard_change_limit(guard, plan, &what, identity, start, &is_made, &before, &why);

	CHECK(error == WEIR_OK || !is_made);
	return error != WEIR_OK ? why.text : is_made ? "made" : "kept";
}

static void note_row(void *row, const struct weir__guard_row *of)
{
	*(struct weir__guard_row *)row = *of;
}

/* The current limit and where it was changed. */
static const char *row_of(struct weir_guard *guard, const char *plan)
{
	static char shown[256];
	struct weir__guard_row row;
	char now[WEIR_LIMIT_TEXT_MAX];
	struct weir_limit limit;

	CHECK(weir__guard_row(guard, plan, strlen(plan), note_row, &row));
	limit = weir_table_limit_limit(row.limit);
	(void)weir_limit_print(&limit, now);
	(void)snprintf(shown, sizeof(shown), "%s%s", now,
		       !row.is_changed        ? "" :
		       row.change.version > 0 ? " on all" :
						" here");
	return shown;
}

static void the_latest_change_wins(void)
{
	struct weir_guard *const guard = guard_over(policy_of(text), start, &table);
	const uint64_t identity = weir__guard_identity(guard);

	CHECK_TEXT(row_of(guard, "a"), "100/s");
	CHECK_TEXT(change(guard, "a", "50/s", 5, identity), "made");
	CHECK_TEXT(change(guard, "a", "40/s", 4, identity), "kept");
	CHECK_TEXT(change(guard, "a", "50/s", 5, identity), "kept");
	CHECK_TEXT(row_of(guard, "a"), "50/s on all");
	CHECK_TEXT(change(guard, "a", "60/s", 0, 0), "made");
	CHECK_TEXT(row_of(guard, "a"), "60/s here");
	CHECK_TEXT(change(guard, "a", "50/s", 5, identity), "kept"); /* older than the change on this server */
	CHECK_TEXT(row_of(guard, "a"), "60/s here");
	CHECK_TEXT(change(guard, "a", "70/s", 6, identity), "made");
	CHECK_TEXT(row_of(guard, "a"), "70/s on all");
	CHECK_TEXT(row_of(guard, "b"), "10/hour fixed_window");
	CHECK_EQ(weir__guard_changed(guard), 1);
	end_guard(guard, table);
}

static void changes_of_another_policy_are_refused(void)
{
	struct weir_guard *const guard = guard_over(policy_of(text), start, &table);
	const uint64_t identity = weir__guard_identity(guard);
	struct weir_message why;

	CHECK_TEXT(change(guard, "a", "50/s", 5, identity + 1), "another policy took effect in the meantime");
	CHECK_TEXT(change(guard, "a", "50/s", 5, identity), "made");
	CHECK_EQ(weir_guard_change(guard, policy_of("limits: [{name: a, limit: 200/s}]\n"), start, &why), WEIR_OK);
	CHECK(weir__guard_identity(guard) != identity);
	CHECK_TEXT(row_of(guard, "a"), "200/s");
	CHECK_EQ(weir__guard_changed(guard), 0);
	CHECK_TEXT(change(guard, "a", "50/s", 6, identity), "another policy took effect in the meantime");
	end_guard(guard, table);
}

static void what_cannot_be_changed_is_refused(void)
{
	struct weir_guard *const guard = guard_over(policy_of(text), start, &table);
	static const struct {
		const char *plan, *limit, *why;
	} rows[] = {
		{ "c", "5/s", "the policy has no limit \"c\"" },
		{ "a", "5/s fixed_window",
		  "a limit in use keeps its algorithm and options; only the rate and burst of a bucket, or the count of a window, may change" },
		{ "b", "5/day fixed_window", "a window in use keeps its period; only its count may change" },
	};
	struct weir_message why;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir__limit_change what = change_to(rows[i].limit, 1);

		CHECK_TEXT(change(guard, rows[i].plan, rows[i].limit, 0, 0), rows[i].why);
		CHECK(weir__guard_check_change(guard, rows[i].plan, &what.to, start, &why) != WEIR_OK);
		CHECK_TEXT(why.text, rows[i].why);
	}
	CHECK_EQ(weir__guard_changed(guard), 0);
	end_guard(guard, table);
}

static void to_check_changes_nothing(void)
{
	struct weir_guard *const guard = guard_over(policy_of(text), start, &table);
	const struct weir__limit_change what = change_to("5/hour fixed_window", 1);
	struct weir_message why;

	for (int i = 0; i < 100; i++)
		CHECK_EQ(weir__guard_check_change(guard, "b", &what.to, start, &why), WEIR_OK);
	CHECK_TEXT(row_of(guard, "b"), "10/hour fixed_window");
	CHECK_TEXT(change(guard, "b", "6/hour fixed_window", 0, 0), "made");
	end_guard(guard, table);
}

static void note_shared(void *shown, const char *plan, const struct weir__limit_change *of)
{
	char limit[WEIR_LIMIT_TEXT_MAX];

	(void)weir_limit_print(&of->to, limit);
	(void)snprintf((char *)shown + strlen(shown), 256 - strlen(shown), "%s=%s at %u ", plan, limit,
		       (unsigned)of->version);
}

static void shared_changes_are_listed(void)
{
	struct weir_guard *const guard = guard_over(policy_of(text), start, &table);
	const uint64_t identity = weir__guard_identity(guard);
	char shown[256] = "";

	weir__guard_list_shared(guard, identity, note_shared, shown);
	CHECK_TEXT(shown, "");
	CHECK_TEXT(change(guard, "a", "50/s", 5, identity), "made");
	CHECK_TEXT(change(guard, "b", "6/hour fixed_window", 0, 0), "made");
	CHECK_TEXT(change(guard, "a", "60/s", 0, 0), "made");
	weir__guard_list_shared(guard, identity, note_shared, shown);
	CHECK_TEXT(shown, "a=50/s at 5 "); /* the shared change stays listed after a change on this server */
	weir__guard_list_shared(guard, identity + 1, note_shared, shown);
	CHECK_TEXT(shown, "a=50/s at 5 ");
	end_guard(guard, table);
}

static void identities_are_of_what_is_said(void)
{
	static const struct {
		const char *text;
		bool is_same;
	} rows[] = {
		{ "# a comment\nlimits:\n- name: a\n  limit: 100/s\n", true },
		{ "limits: [{limit: 100/s, name: a}]\n", false }, /* the order of keys may matter */
		{ "limits: [{name: a, limit: 101/s}]\n", false },
		{ "limits: [{name: a, limit: 100/s, mode: shadow}]\n", false },
		{ "limits: [{name: a, limit: 100/s, match: {path: /a}}]\n", false },
		{ "limits: [{name: a, limit: 100/s}, {name: b, limit: 1/s}]\n", false },
		{ "attributes: {net: {type: ip}}\nlimits: [{name: a, limit: 100/s}]\n", false },
	};
	struct weir_policy *const policy = policy_of("limits: [{name: a, limit: 100/s}]\n");

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_policy *const other = policy_of(rows[i].text);

		if (other == NULL || (other->identity == policy->identity) != rows[i].is_same)
			check_fail(__FILE__, __LINE__, rows[i].text);
		weir_policy_free(other);
	}
	weir_policy_free(policy);
}

static void who_and_when_are_shown(void)
{
	static const struct {
		const char *user, *peer, *by;
	} rows[] = {
		{ "", "", "" },
		{ "-", "-", "" },
		{ "alice", "-", "alice" },
		{ "-", "unix", "unix" },
		{ "alice", "192.0.2.1", "alice (192.0.2.1)" },
	};
	struct weir__limit_change of = { .at = 0 };
	char by[WEIR__CHANGE_BY_SIZE], at[WEIR__CHANGE_AT_SIZE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)snprintf(of.user, sizeof(of.user), "%s", rows[i].user);
		(void)snprintf(of.peer, sizeof(of.peer), "%s", rows[i].peer);
		weir__limit_change_by(&of, by);
		CHECK_TEXT(by, rows[i].by);
	}
	weir__limit_change_at(&of, at);
	CHECK_TEXT(at, "");
	of.at = UINT64_C(1769853600999000000);
	weir__limit_change_at(&of, at);
	CHECK_TEXT(at, "2026-01-31T10:00:00Z");
}

TESTS(TEST(the_latest_change_wins), TEST(changes_of_another_policy_are_refused),
      TEST(what_cannot_be_changed_is_refused), TEST(to_check_changes_nothing), TEST(shared_changes_are_listed),
      TEST(identities_are_of_what_is_said), TEST(who_and_when_are_shown))
