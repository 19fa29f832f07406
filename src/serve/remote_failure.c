/* remote_failure.c: limits of the local table in the place of those in Redis. */
#include "serve/remote_failure.h"

#include "store/inline_limit.h"

static const weir_ns closed_ns = 1000000000; /* when to ask again */

/* The limit that decides here. Its keys are told from others by what it is a share of, and of how many. */
static bool make_share(const struct weir__remote_failure *failure, const struct weir_table_limit *of,
		       struct weir_table_limit *ret_limit)
{
	struct {
		char word[8];
		struct weir__hash_secret secret;
		struct weir_limit limit;
		uint64_t nodes;
	} space;
	struct weir_limit limit = weir_table_limit_limit(of);

	memset(&space, 0, sizeof(space));
	memcpy(space.word, "\0share", 7);
	space.secret = of->secret;
	space.limit.algorithm = limit.algorithm;
	space.limit.count = limit.count;
	space.limit.period = limit.period;
	space.limit.burst = limit.burst;
	space.limit.segments = limit.segments;
	space.limit.refill_interval = limit.refill_interval;
	space.limit.shape = limit.shape;
	space.limit.align_first = limit.align_first;
	space.limit.count_all = limit.count_all;
	space.nodes = failure->nodes;
	limit.count = limit.count / failure->nodes + (limit.count % failure->nodes != 0);
	limit.burst = limit.burst / failure->nodes + (limit.burst % failure->nodes != 0);
	return weir__inline_limit_init(ret_limit, failure->table, &space, sizeof(space), &limit, of, NULL) == WEIR_OK;
}

/* What is asked, by rules: those that the table decides are put together. */
struct question {
	const struct weir__remote_failure *failure;
	weir_ns now;
	size_t n;
	struct weir__remote_rule rules[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim here[WEIR_TABLE_CLAIMS_MAX]; /* .limit NULL: the rule alone says */
	struct weir_table_limit made[WEIR_TABLE_CLAIMS_MAX];
};

/* The same limit twice is one: so the table knows a key that comes twice. */
static const struct weir_table_limit *share_of(struct question *question, const struct weir_claim *claims, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (claims[j].limit == claims[i].limit)
			return question->here[j].limit;
	return make_share(question->failure, claims[i].limit, &question->made[i]) ? &question->made[i] : NULL;
}

/* A share that cannot be is closed: nobody knows what it would admit. */
static void read_rules(struct question *question, const struct weir_claim *claims)
{
	for (size_t i = 0; i < question->n; i++) {
		struct weir__remote_rule *const rule = &question->rules[i];

		*rule = weir__remote_plans_rule(question->failure->plans, claims[i].limit);
		question->here[i] = claims[i];
		question->here[i].limit = NULL;
		if (rule->on_failure == WEIR_STORE_FAILURE_LOCAL && rule->local)
			question->here[i].limit = rule->local;
		else if (rule->on_failure == WEIR_STORE_FAILURE_SHARE || rule->on_failure == WEIR_STORE_FAILURE_LOCAL)
			question->here[i].limit = share_of(question, claims, i);
		if (question->here[i].limit == NULL && rule->on_failure != WEIR_STORE_FAILURE_OPEN)
			rule->on_failure = WEIR_STORE_FAILURE_CLOSED;
	}
}

/* Of a limit that the table does not decide. */
static struct weir_verdict by_rule(const struct question *question, const struct weir_claim *claim, size_t i)
{
	const struct weir_limit limit = weir_table_limit_limit(claim->limit);
	const bool is_bucket = limit.algorithm == WEIR_TOKEN_BUCKET || limit.algorithm == WEIR_LEAKY_BUCKET;
	const uint64_t most = is_bucket ? limit.burst : limit.count;

	if (question->rules[i].on_failure == WEIR_STORE_FAILURE_OPEN)
		return (struct weir_verdict){
			.allowed = true, .limit = most, .remaining = most, .granted = claim->cost
		};
	return (struct weir_verdict){ .limit = most, .retry_after = closed_ns, .reset_after = closed_ns };
}

/* All, or nothing: what is closed lets nothing be charged anywhere. */
static void take(const struct question *question, const struct weir_claim *claims, struct weir_verdict *ret_verdicts,
		 bool *ret_is_closed)
{
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim here[WEIR_TABLE_CLAIMS_MAX];
	struct weir_table *const table = question->failure->table;
	size_t of[WEIR_TABLE_CLAIMS_MAX], n = 0;
	struct weir_decision decision;

	for (size_t i = 0; i < question->n; i++) {
		if (question->here[i].limit) {
			of[n] = i;
			here[n++] = question->here[i];
			continue;
		}
		ret_verdicts[i] = by_rule(question, &claims[i], i);
		*ret_is_closed |= !ret_verdicts[i].allowed;
		weir__table_count(table, claims[i].limit, ret_verdicts[i].allowed);
	}
	if (n > 0 && !*ret_is_closed)
		(void)weir_table_decide(table, here, n, question->now, verdicts, &decision);
	for (size_t i = 0; i < n; i++)
		ret_verdicts[of[i]] = *ret_is_closed ?
					      weir_table_peek(table, here[i].limit, here[i].key, here[i].key_length,
							      question->now, here[i].cost) :
					      verdicts[i];
}

/* Of one limit. */
static struct weir_verdict ask_table(const struct question *question, enum weir__seam_operation operation)
{
	const struct weir_claim *const claim = &question->here[0];
	struct weir_table *const table = question->failure->table;
	struct weir_verdict verdict;

	switch (operation) {
	case WEIR__SEAM_UPTO:
		return weir_table_upto(table, claim->limit, claim->key, claim->key_length, question->now, claim->cost);
	case WEIR__SEAM_REFUND:
		return weir_table_refund(table, claim->limit, claim->key, claim->key_length, question->now,
					 claim->cost);
	case WEIR__SEAM_RESET:
		verdict = weir_table_peek(table, claim->limit, claim->key, claim->key_length, question->now, 0);
		verdict.allowed = weir_table_reset(table, claim->limit, claim->key, claim->key_length);
		return verdict;
	default:
		return weir_table_peek(table, claim->limit, claim->key, claim->key_length, question->now, claim->cost);
	}
}

void weir__remote_decide_without(const struct weir__remote_failure *failure, enum weir__seam_operation operation,
				 const struct weir_claim *claims, size_t n, struct weir_verdict *ret_verdicts,
				 bool *ret_is_closed)
{
	struct question question = { .failure = failure, .now = weir_table_now(failure->table), .n = n };

	*ret_is_closed = false;
	read_rules(&question, claims);
	if (operation == WEIR__SEAM_TAKE) {
		take(&question, claims, ret_verdicts, ret_is_closed);
	} else if (question.here[0].limit) {
		ret_verdicts[0] = ask_table(&question, operation);
	} else {
		ret_verdicts[0] = by_rule(&question, &claims[0], 0);
		*ret_is_closed = !ret_verdicts[0].allowed;
	}
}
