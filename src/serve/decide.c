/* decide.c: the one place that knows both. */
#include "serve/decide.h"

static struct weir_verdict by_table(struct weir_table *table, enum weir__seam_operation operation,
				    const struct weir_claim *claim)
{
	const weir_ns now = weir_table_now(table);

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

	if (commands->seam == NULL)
		return by_table(commands->table, operation, claim);
	(void)weir__seam_ask(commands->seam, operation, claim, 1, &verdict);
	return verdict;
}

struct weir_decision weir__decide_all(struct weir__commands *commands, const struct weir_claim *claims, size_t n)
{
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_decision decision;

	if (commands->seam) {
		(void)weir__seam_ask(commands->seam, WEIR__SEAM_TAKE, claims, n, verdicts);
		return weir__seam_join(verdicts, n);
	}
	(void)weir_table_decide(commands->table, claims, n, weir_table_now(commands->table), NULL, &decision);
	return decision;
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
