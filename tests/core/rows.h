/* rows.h: tests as tables that read like the specification. All rows of a table share one key; time is an argument. */
#ifndef WEIR_TESTS_CORE_ROWS_H
#define WEIR_TESTS_CORE_ROWS_H

#include <stdlib.h>

#include <weir/weir.h>

#include "check.h"

#define NS(n) UINT64_C(n)
#define US(n) (UINT64_C(n) * 1000)
#define MS(n) (UINT64_C(n) * 1000000)
#define S(n) (UINT64_C(n) * 1000000000)

enum row_op { TAKE, PEEK, UPTO, REFUND };

struct row {
	const char *what;
	weir_ns at;
	enum row_op op;
	uint64_t cost;
	struct {
		bool allowed;
		uint64_t remaining;
		weir_ns retry_after, reset_after, delay;
	} expected;
};

static inline struct weir_plan plan_of(const char *text)
{
	struct weir_message why = { 0, "" };
	struct weir_limit limit;
	struct weir_plan plan;

	if (weir_limit_parse(text, strlen(text), &limit, &why) != WEIR_OK ||
	    weir_plan_compile(&limit, &plan, &why) != WEIR_OK) {
		printf("Bail out! \"%s\": %s\n", text, why.text);
		exit(1);
	}
	return plan;
}

/* Empty state with room for any change of the limit. The caller frees it. */
static inline void *fresh_state(const struct weir_plan *plan)
{
	void *state = calloc(1, weir_plan_state_size(plan) + 64);

	if (state == NULL)
		exit(1);
	return state;
}

static inline bool is_same_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
{
	return a->allowed == b->allowed && a->never == b->never && a->limit == b->limit &&
	       a->remaining == b->remaining && a->granted == b->granted && a->retry_after == b->retry_after &&
	       a->reset_after == b->reset_after && a->delay == b->delay;
}

static inline void check_rows(const char *limit, const struct row *rows, size_t n)
{
	static struct weir_verdict (*const steps[])(const struct weir_plan *, void *, weir_ns, uint64_t) = {
		[TAKE] = weir_step_take, [PEEK] = weir_step_peek, [UPTO] = weir_step_upto, [REFUND] = weir_step_refund
	};
	const struct weir_plan plan = plan_of(limit);
	void *const state = fresh_state(&plan);

	for (size_t i = 0; i < n; i++) {
		const struct row *const row = &rows[i];
		const struct weir_verdict v = steps[row->op](&plan, state, row->at, row->cost);

		if (v.allowed != row->expected.allowed || v.remaining != row->expected.remaining ||
		    v.retry_after != row->expected.retry_after || v.reset_after != row->expected.reset_after ||
		    v.delay != row->expected.delay) {
			check_fail(limit, (int)i, row->what);
			printf("# answered: { %s, %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 " }\n",
			       v.allowed ? "true" : "false", v.remaining, v.retry_after, v.reset_after, v.delay);
		}
		CHECK_EQ(v.limit, plan.most);
		CHECK(!v.allowed || v.retry_after == 0);
		CHECK(v.never == (!v.allowed && v.retry_after == WEIR_NEVER) || v.retry_after == UINT64_MAX);
	}
	free(state);
}

#define CHECK_ROWS(limit, ...)                                                                                         \
	do {                                                                                                           \
		static const struct row check_rows_[] = { __VA_ARGS__ };                                               \
		check_rows(limit, check_rows_, sizeof(check_rows_) / sizeof(check_rows_[0]));                          \
	} while (0)

/* Converts the state at now to another limit. */
static inline void change(struct weir_plan *plan, void *state, weir_ns now, const char *text)
{
	struct weir_plan to = plan_of(text);

	CHECK_EQ(weir_step_convertible(plan, &to, NULL), WEIR_OK);
	if (to.kind == WEIR_KIND_LOG)
		to.room = plan->room;
	weir_step_convert(plan, &to, state, now);
	*plan = to;
}

#endif
