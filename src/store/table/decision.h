/* decision.h: which of several limits decided a request, and the decision's verdict. Every store uses it, and so does
 * everything that shows decided_by. */
#ifndef WEIR_STORE_TABLE_DECISION_H
#define WEIR_STORE_TABLE_DECISION_H

#include <weir/table.h>

/* Whether claim a decides rather than claim b, which precedes it. A limit that denies goes before one that allows. Of
 * two that deny, `never` goes before any wait, and then the longer wait goes first. Of two that allow, the one with
 * less remaining goes first. */
static inline bool weir__verdict_decides_more(const struct weir_verdict *a, const struct weir_verdict *b)
{
	if (a->allowed != b->allowed)
		return !a->allowed;
	if (a->allowed)
		return a->remaining < b->remaining;
	return a->never != b->never ? a->never : a->retry_after > b->retry_after;
}

/* Denies a request that would depart later than its caller accepts. retry_after is how long it would have had to
 * wait. */
static inline void weir__verdict_deny_late(struct weir_verdict *verdict)
{
	verdict->allowed = false;
	verdict->retry_after = verdict->delay;
	verdict->granted = verdict->delay = 0;
}

/* The decision on n claims, n >= 1, from their verdicts. */
static inline struct weir_decision weir__decision_of(const struct weir_verdict *verdicts, size_t n)
{
	struct weir_decision decision = { .decided_by = 0 };
	weir_ns delay = verdicts[0].delay;

	for (size_t i = 1; i < n; i++) {
		if (weir__verdict_decides_more(&verdicts[i], &verdicts[decision.decided_by]))
			decision.decided_by = i;
		if (verdicts[i].delay > delay)
			delay = verdicts[i].delay;
	}
	decision.verdict = verdicts[decision.decided_by];
	decision.verdict.delay = decision.verdict.allowed ? delay : 0;
	return decision;
}

#endif
