/* guard_look_test.c: views of limits without a charge, and explanations. */
#include "guard/guard.h"

#include "keyed_policies.h"

static void note_view(void *text_, const struct weir__guard_view *view)
{
	char *const text = text_;

	(void)sprintf(text + strlen(text), "%s(%s) %s%s %" PRIu64 "\n", view->name, view->key,
		      view->limit ? view->verdict.allowed ? "yes" : "no" : "free",
		      view->mode == WEIR_MODE_SHADOW ? " shadow" :
		      view->applies                  ? "" :
						       " chosen",
		      view->verdict.remaining);
}

static void view_with(struct weir_guard *guard, const char *const *words, uint64_t cost,
		      const struct weir__guard_chosen *chosen, const char *expected)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	struct weir_message why;
	char text[1024] = "";

	CHECK_EQ(weir__guard_view(guard, attributes, n, cost, chosen, start, note_view, text, &why), WEIR_OK);
	CHECK_TEXT(text, expected);
}

static void view(struct weir_guard *guard, const char *const *words, uint64_t cost, const char *expected)
{
	view_with(guard, words, cost, NULL, expected);
}

static void views_charge_nothing(void)
{
	struct weir_guard *const guard = guard_over(policy_of(own), start, &table);
	struct weir_guard_answer answer;
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("ip=10.0.0.1", "user=ann", "path=/x"), attributes);

	for (int i = 0; i < 4; i++)
		CHECK(weir_guard_check(guard, attributes, n, 1, start, &answer, NULL) == WEIR_OK);
	for (int i = 0; i < 2; i++)
		view(guard, WORDS("ip=10.0.0.1", "user=ann", "path=/x"), 1,
		     "all() yes 97\naddress(ip=10.0.0.1) no 0\nnet(ip=10.0.0.0/24) yes 7\none(user=ann) yes 7\n"
		     "three(user=ann ip=10.0.0.1 path=/x) no shadow 0\n");
	view(guard, WORDS("ip=10.0.0.1"), 0, "all() yes 97\naddress(ip=10.0.0.1) yes 0\nnet(ip=10.0.0.0/24) yes 7\n");
	end_guard(guard, table);
}

/* A key can be chosen by its bytes, whatever the request's attributes are. If it also applies, it is listed once. */
static void a_key_is_viewed_that_was_chosen(void)
{
	struct weir_guard *const guard = guard_over(policy_of(own), start, &table);
	const struct weir__guard_chosen one = { "one", "ann", 3, 3, WEIR_MODE_ENFORCE };
	const struct weir__guard_chosen gone = { "gone", "ann", 4, 3, WEIR_MODE_ENFORCE };
	struct weir_guard_answer answer;
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("user=ann"), attributes);

	CHECK(weir_guard_check(guard, attributes, n, 1, start, &answer, NULL) == WEIR_OK);
	view_with(guard, WORDS("ip=10.0.0.1"), 1, &one,
		  "all() yes 99\naddress(ip=10.0.0.1) yes 3\nnet(ip=10.0.0.0/24) yes 10\none(user=ann) yes chosen 9\n");
	view_with(guard, WORDS("user=ann"), 1, &one, "all() yes 99\none(user=ann) yes 9\n");
	view_with(guard, WORDS("user=bob"), 1, &one,
		  "all() yes 99\none(user=bob) yes 10\none(user=ann) yes chosen 9\n");
	view_with(guard, WORDS("user=ann"), 1, &gone, "all() yes 99\none(user=ann) yes 9\n");
	end_guard(guard, table);
}

static void views_of_envoys_form(void)
{
	struct weir_guard *const guard = guard_over(policy_of(envoys), start, &table);

	view(guard, WORDS("domain=shop", "user=ann"), 3, "shop|user(domain=shop user=ann) no 2\n");
	view(guard, WORDS("domain=shop", "free=x"), 3, "shop|free(domain=shop free=x) free 0\n");
	view(guard, WORDS("domain=other", "user=ann"), 1, "");
	end_guard(guard, table);
}

/* --- explanations ------------------------------------------------------------------------------------------------ */

static void note_line(void *text_, const char *line)
{
	char *const text = text_;

	(void)sprintf(text + strlen(text), "%s\n", line);
}

static void explain(struct weir_guard *guard, const char *const *words, const char *expected)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	char text[1024] = "";

	weir_guard_explain(guard, attributes, n, note_line, text);
	CHECK_TEXT(text, expected);
}

static void change(struct weir_guard *guard, const char *plan, const char *to)
{
	struct weir_limit limit;
	struct weir_message why;

	CHECK_EQ(weir_limit_parse(to, strlen(to), &limit, &why), WEIR_OK);
	CHECK_EQ(weir_guard_change_limit(guard, plan, &limit, start, &why), WEIR_OK);
}

static void changes_are_explained(void)
{
	static const char text[] =
		"limits:\n"
		"  - {name: all, limit: 100/s}\n"
		"  - {name: all:of, limit: 100/s, mode: shadow}\n"
		"  - {name: one, key: [user], limit: 10/s, overrides: [{when: {plan: gold}, limit: 50/s}]}\n"
		"  - {name: two, match: {user: bob}, limit: 10/s}\n";
	struct weir_guard *const guard = guard_over(policy_of(text), start, &table);

	change(guard, "all", "1000/s");
	change(guard, "two", "1/s");
	explain(guard, WORDS("user=ann"),
		"all: applies: 100/s, changed to 1000/s, one for all requests\n"
		"all:of: applies in shadow: 100/s, one for all requests\n"
		"one: applies: 10/s, key user=ann\n"
		"two: does not apply: user is 'ann'\n");
	change(guard, "all", "100/s");
	change(guard, "all:of", "7/s");
	change(guard, "one|plan=gold", "60/s");
	explain(guard, WORDS("user=ann", "plan=gold"),
		"all: applies: 100/s, one for all requests\n"
		"all:of: applies in shadow: 100/s, changed to 7/s, one for all requests\n"
		"one: applies: 50/s, changed to 60/s by the override one|plan=gold, key user=ann\n"
		"two: does not apply: user is 'ann'\n");
	end_guard(guard, table);
}

/* A lease follows the limit as it is now. */
static void limits_that_stay_exact_are_explained(void)
{
	static const char text[] = "limits:\n"
				   "  - {name: few, limit: 5/s, consistency: lease}\n"
				   "  - {name: many, limit: 500/s, consistency: lease}\n";
	struct weir_guard *const guard = guard_over(policy_of(text), start, &table);

	explain(guard, WORDS("user=ann"),
		"few: applies: 5/s, one for all requests, exact (servers may hold fewer than 2 units; raise stranded or the "
		"limit)\n"
		"many: applies: 500/s, one for all requests, leased with up to 5% stranded\n");
	change(guard, "few", "50/s");
	change(guard, "many", "7/s");
	explain(guard, WORDS("user=ann"),
		"few: applies: 5/s, changed to 50/s, one for all requests, leased with up to 5% stranded\n"
		"many: applies: 500/s, changed to 7/s, one for all requests, exact (servers may hold fewer than 2 units; raise "
		"stranded or the limit)\n");
	end_guard(guard, table);
}

static void changes_of_envoys_form_are_explained(void)
{
	struct weir_guard *const guard = guard_over(policy_of(envoys), start, &table);

	change(guard, "shop|user", "5/hour fixed_window");
	explain(guard, WORDS("domain=shop", "user=ann"),
		"user=ann: matches user, by its key alone, of p.yaml:4\n"
		"shop|user: applies: 2/hour fixed_window, changed to 5/hour fixed_window\n");
	end_guard(guard, table);
}

TESTS(TEST(views_charge_nothing), TEST(a_key_is_viewed_that_was_chosen), TEST(views_of_envoys_form),
      TEST(changes_are_explained), TEST(limits_that_stay_exact_are_explained),
      TEST(changes_of_envoys_form_are_explained))
