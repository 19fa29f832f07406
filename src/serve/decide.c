/* decide.c: the one place that knows both. */
#include "serve/decide.h"

#include "guard/ear.h"
#include "guard/guard.h"
#include "serve/remote.h"
#include "serve/sight.h"
#include "serve/witness.h"

void weir__decide_time(struct weir__commands *commands, weir_ns begun)
{
	weir_ns now;

	if (!weir__sight_is_timed(commands->sight))
		return;
	now = weir_table_now(commands->table);
	weir__spans_add(&commands->sight->spans[WEIR__SPAN_DECISION], now > begun ? now - begun : 0, 1);
}

static struct weir_verdict by_table(struct weir_table *table, enum weir__seam_operation operation,
				    const struct weir_claim *claim, weir_ns now)
{
	switch (operation) {
	case WEIR__SEAM_UPTO:
		return weir_table_upto(table, claim->limit, claim->key, claim->key_length, now, claim->cost);
	case WEIR__SEAM_PEEK:
		return weir_table_peek(table, claim->limit, claim->key, claim->key_length, now, claim->cost);
	case WEIR__SEAM_REFUND:
		return weir_table_refund(table, claim->limit, claim->key, claim->key_length, now, claim->cost);
	case WEIR__SEAM_RESET:
		return (struct weir_verdict){ .allowed = weir_table_reset(table, claim->limit, claim->key,
									  claim->key_length) };
	default:
		return weir_table_take(table, claim->limit, claim->key, claim->key_length, now, claim->cost);
	}
}

struct weir_verdict weir__decide_one(struct weir__commands *commands, enum weir__seam_operation operation,
				     const struct weir_claim *claim)
{
	struct weir_verdict verdict;
	weir_ns now;

	if (commands->seam) {
		(void)weir__seam_ask(commands->seam, operation, claim, 1, &verdict);
		return verdict;
	}
	now = weir_table_now(commands->table);
	verdict = by_table(commands->table, operation, claim, now);
	if (operation == WEIR__SEAM_TAKE || operation == WEIR__SEAM_UPTO) {
		weir__decide_time(commands, now);
		weir__sight_each(commands->sight, claim, &verdict, 1, now);
	}
	return verdict;
}

/* What is told of all is how much is left of the one that has decided. */
static void name_decider(struct weir_decision *decision, const struct weir_verdict *verdicts, weir_ns *ret_reset_after)
{
	const struct weir_verdict *const decider = &verdicts[decision->decided_by];

	decision->verdict.limit = decider->limit;
	decision->verdict.remaining = decider->remaining;
	*ret_reset_after = decider->reset_after;
}

struct weir_decision weir__decide_all(struct weir__commands *commands, const struct weir_claim *claims, size_t n,
				      weir_ns *ret_reset_after)
{
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_decision decision;
	weir_ns now;

	if (commands->seam) {
		(void)weir__seam_ask(commands->seam, WEIR__SEAM_TAKE, claims, n, verdicts);
		decision = weir__seam_join(verdicts, n);
	} else {
		now = weir_table_now(commands->table);
		(void)weir_table_decide(commands->table, claims, n, now, verdicts, &decision);
		weir__decide_time(commands, now);
		weir__sight_together(commands->sight, claims, verdicts, n, false, now);
	}
	name_decider(&decision, verdicts, ret_reset_after);
	return decision;
}

/* --- by the policy ----------------------------------------------------------------------------------------------- */

/* A decision that the table makes, and who looks at it. What another store decides is seen behind the seam (remote.c). */
struct listening {
	struct weir__ear ear;
	struct weir__commands *commands;
	weir_ns now;
};

static void hear(void *listening_, const struct weir_claim *claims, const struct weir_verdict *verdicts, size_t n,
		 bool is_shadow)
{
	const struct listening *const listening = listening_;

	weir__sight_together(listening->commands->sight, claims, verdicts, n, is_shadow, listening->now);
}

static const struct weir__ear *listen(struct listening *listening, struct weir__commands *commands)
{
	*listening = (struct listening){ { hear, listening }, commands, weir_table_now(commands->table) };
	return commands->sight && commands->seam == NULL ? &listening->ear : NULL;
}

static void begin_hearing(struct weir__commands *commands, const struct weir_attribute *attributes, size_t n)
{
	if (WEIR__LIKELY(commands->witness == NULL))
		return;
	weir__witness_open(commands->witness, attributes, n);
	if (commands->remote && weir__witness_has_put_off(commands->witness))
		weir__witness_take_up(commands->witness, weir__remote_request(commands->remote));
}

/* Limits in shadow are asked once the others are known: then what was heard of these waits for the next run. */
static void end_hearing(struct weir__commands *commands, const struct weir_guard_answer *answer)
{
	if (WEIR__LIKELY(commands->witness == NULL))
		return;
	if (commands->remote && commands->seam->is_not_yet && weir__witness_has_heard(commands->witness))
		weir__witness_put_off(commands->witness, weir__remote_request(commands->remote));
	else
		weir__witness_close(commands->witness, answer);
}

int weir__decide_check(struct weir__commands *commands, struct weir_guard *guard,
		       const struct weir_attribute *attributes, size_t n, uint64_t cost,
		       struct weir_guard_answer *ret_answer, struct weir_message *ret_message)
{
	struct listening listening;
	const struct weir__ear *const ear = listen(&listening, commands);
	int error;

	begin_hearing(commands, attributes, n);
	error = weir__guard_check(guard, commands->seam, ear, attributes, n, cost, listening.now, ret_answer,
				  ret_message);
	end_hearing(commands, error == WEIR_OK ? ret_answer : NULL);
	if (ear)
		weir__decide_time(commands, listening.now);
	return error;
}

int weir__decide_descriptors(struct weir__commands *commands, struct weir_guard *guard,
			     const struct weir__descriptors *descriptors, struct weir_guard_answer *ret_answer,
			     struct weir_guard_status *ret_statuses, struct weir_message *ret_message)
{
	struct listening listening;
	const struct weir__ear *const ear = listen(&listening, commands);
	int error;

	begin_hearing(commands, NULL, 0);
	error = weir__guard_check_descriptors(guard, commands->seam, ear, descriptors->domain,
					      descriptors->domain_length, descriptors->at, descriptors->n,
					      descriptors->hits, listening.now, ret_answer, ret_statuses, ret_message);
	end_hearing(commands, error == WEIR_OK ? ret_answer : NULL);
	if (ear)
		weir__decide_time(commands, listening.now);
	return error;
}

struct weir_table_key weir__decide_inspect(struct weir__commands *commands, const struct weir_claim *claim)
{
	const weir_ns now = weir_table_now(commands->table);
	struct weir_table_key key;

	if (commands->seam == NULL)
		return weir_table_inspect(commands->table, claim->limit, claim->key, claim->key_length, now);
	(void)weir__seam_ask(commands->seam, WEIR__SEAM_PEEK, claim, 1, &key.verdict);
	key.is_stored = key.verdict.reset_after > 0;
	key.whole_at = key.is_stored ? now + key.verdict.reset_after : 0;
	return key;
}
