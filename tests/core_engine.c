/* core_engine.c: plays the vectors on the plain step functions, without a limiter or a table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/reserve.h"
#include "core/segments.h"
#include "core/step.h"
#include "vector_engine.h"
#include "vector_memory.h"

enum { COMPARED_MAX = 4096 };

struct subject {
	struct weir_plan plan;
	struct weir__debt debt;
	size_t size;
	uint64_t state[];
};

static void *make(const struct weir_limit *limit, uint64_t log_room)
{
	struct subject *subject;
	struct weir_plan plan;
	size_t size;

	if (weir_plan_compile(limit, &plan, NULL) != WEIR_OK)
		return NULL;
	if (plan.kind == WEIR_KIND_LOG)
		plan.room = log_room;
	size = weir_plan_state_size(&plan);
	if (size < weir__segments_size(1))
		size = weir__segments_size(1);
	subject = vector_memory(sizeof(*subject) + size);
	subject->plan = plan;
	subject->size = size;
	return subject;
}

static struct weir_plan plan_at(const struct subject *subject, weir_ns now)
{
	struct weir_plan plan = subject->plan;

	if (weir__reserve_has(&plan) &&
	    weir__reserve_explains(&plan, (const struct weir_state *)subject->state, &subject->debt, now))
		plan.flags |= WEIR_PLAN_RESERVED;
	return plan;
}

/* Runs weir_step_allow on a copy of the state and weir_step_take on the state: verdict and bytes must agree. */
static struct weir_verdict take(void *subject_, weir_ns now, uint64_t cost)
{
	struct subject *subject = subject_;
	const struct weir_plan plan = plan_at(subject, now);
	uint64_t copy[COMPARED_MAX / sizeof(uint64_t)];
	const bool is_compared = subject->size <= sizeof(copy) && cost > 0;
	struct weir_verdict verdict;
	bool allowed = false;

	if (is_compared) {
		memcpy(copy, subject->state, subject->size);
		allowed = weir_step_allow(&plan, copy, now, cost);
	}
	verdict = weir_step_take(&plan, subject->state, now, cost);
	/* For a cost that can never fit, only weir_step_take notices a new clock, so the states may differ. */
	if (is_compared &&
	    (allowed != verdict.allowed || (!verdict.never && memcmp(copy, subject->state, subject->size) != 0))) {
		fprintf(stderr, "weir_step_allow and weir_step_take disagree at %llu\n", (unsigned long long)now);
		abort();
	}
	return verdict;
}

static struct weir_verdict upto(void *subject_, weir_ns now, uint64_t cost)
{
	struct subject *subject = subject_;
	const struct weir_plan plan = plan_at(subject, now);

	return weir_step_upto(&plan, subject->state, now, cost);
}

static struct weir_verdict peek(void *subject_, weir_ns now, uint64_t cost)
{
	struct subject *subject = subject_;
	const struct weir_plan plan = plan_at(subject, now);

	return weir_step_peek(&plan, subject->state, now, cost);
}

static struct weir_verdict refund(void *subject_, weir_ns now, uint64_t n)
{
	struct subject *subject = subject_;
	const struct weir_plan plan = plan_at(subject, now);

	return weir_step_refund(&plan, subject->state, now, n);
}

static struct weir_verdict undo(void *subject_, weir_ns now, uint64_t n, weir_ns charged_at, uint64_t cost)
{
	struct subject *subject = subject_;
	const struct weir_plan plan = plan_at(subject, now);

	return weir__step_undo(&plan, subject->state, now, &(struct weir__charge){ charged_at, cost }, n);
}

static void note_debt(struct subject *subject, weir_ns now)
{
	const struct weir__debt before = subject->debt;

	subject->debt = weir__reserve_debt(&subject->plan, (const struct weir_state *)subject->state, &before, now);
	if (before.at <= subject->debt.at && before.until > subject->debt.until)
		subject->debt.until = before.until;
}

static int change(void *subject_, weir_ns now, const struct weir_limit *limit)
{
	struct subject *subject = subject_;
	const struct weir_plan from = plan_at(subject, now);
	struct weir_plan to;
	int error = weir_plan_compile(limit, &to, NULL);

	if (error == WEIR_OK && from.kind == WEIR_KIND_SEGMENTS && to.kind == WEIR_KIND_COUNTER)
		weir__segments_widen(&to);
	if (error == WEIR_OK)
		error = weir_step_convertible(&from, &to, NULL);
	if (error != WEIR_OK)
		return error;
	if (to.kind == WEIR_KIND_LOG)
		to.room = from.room;
	weir_step_convert(&from, &to, subject->state, now);
	subject->plan = to;
	if (from.flags & WEIR_PLAN_RESERVED)
		note_debt(subject, now);
	return WEIR_OK;
}

static int reserve(void *subject_, weir_ns now, uint64_t cost, struct weir_reservation *ret_reservation,
		   struct weir_verdict *ret_verdict)
{
	struct subject *subject = subject_;
	const struct weir_plan plan = plan_at(subject, now);

	if (!weir__reserve_has(&plan))
		return WEIR_ERR_UNSUPPORTED;
	*ret_verdict = weir__reserve_take(&plan, (struct weir_state *)subject->state, now, cost, UINT64_MAX,
					  ret_reservation);
	if (ret_verdict->granted > 0)
		note_debt(subject, now);
	return WEIR_OK;
}

static void cancel(void *subject_, weir_ns now, struct weir_reservation *reservation)
{
	struct subject *subject = subject_;
	const struct weir_plan plan = plan_at(subject, now);

	weir__reserve_cancel(&plan, (struct weir_state *)subject->state, now, reservation);
	reservation->cost = 0;
}

const struct vector_engine core_engine = {
	.name = "core",
	.make = make,
	.drop = vector_memory_drop,
	.take = take,
	.upto = upto,
	.peek = peek,
	.refund = refund,
	.undo = undo,
	.change = change,
	.reserve = reserve,
	.cancel = cancel,
};
