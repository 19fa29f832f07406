/* limit_row.c: where a limit is kept, how servers agree on it, and what it has counted. */
#include "engine/limit_row.h"

#include <string.h>

#include "engine/limit_ref.h"

static const char *store_word(const struct weir__context *context, const struct weir__guard_row *row)
{
	const bool has_redis = context->store->status != NULL;

	return has_redis && !row->is_local && row->store != WEIR_POLICY_STORE_TABLE ? "redis" : "table";
}

/* Whether the limit is in Redis and its policy has this consistency. The plan may still make it exact. */
static bool has_plan(const struct weir__context *context, const struct weir__guard_row *row,
		     enum weir_policy_consistency consistency, struct weir_plan *ret_plan)
{
	return row->consistency == consistency && row->limit != NULL &&
	       strcmp(store_word(context, row), "redis") == 0 &&
	       weir_plan_compile(&row->now, ret_plan, NULL) == WEIR_OK;
}

uint64_t weir__limit_row_ahead(const struct weir__context *context, const struct weir__guard_row *row)
{
	struct weir_plan plan;
	uint64_t ahead = 0;

	if (has_plan(context, row, WEIR_POLICY_EVENTUAL, &plan))
		(void)weir__eventual_ahead_of(&plan, row->ahead, &ahead);
	return ahead;
}

uint64_t weir__limit_row_bound(const struct weir__context *context, uint64_t ahead)
{
	struct weir__store_status status;

	if (ahead == 0 || context->store->status == NULL)
		return 0;
	context->store->status(context->store, &status);
	return status.nodes > 1 ? (status.nodes - 1) * ahead : 0;
}

const char *weir__limit_row_consistency(const struct weir__lease_terms *terms, uint64_t ahead)
{
	return terms->most > 0 ? "lease" : ahead > 0 ? "eventual" : "exact";
}

bool weir__limit_row_is_leased(const struct weir__context *context, const struct weir__guard_row *row,
			       struct weir__lease_terms *ret_terms)
{
	struct weir_plan plan;

	*ret_terms = (struct weir__lease_terms){ 0, 0 };
	if (!has_plan(context, row, WEIR_POLICY_LEASE, &plan))
		return false;
	return weir__lease_terms_of(&plan, row->stranded, ret_terms) == WEIR__LEASE_POSSIBLE;
}

void weir__limit_row(const struct weir__context *context, const struct weir__guard_row *row,
		     struct weir__limit_row *ret_row)
{
	struct weir_table_limit_stats stats = { 0, 0 };
	struct weir__lease_terms terms;

	(void)weir__limit_row_is_leased(context, row, &terms);
	*ret_row = (struct weir__limit_row){ .name = row->name,
					     .mode = weir__limit_ref_mode_word(row->mode),
					     .key = row->key,
					     .store = store_word(context, row),
					     .consistency = weir__limit_row_consistency(
						     &terms, weir__limit_row_ahead(context, row)),
					     .wait = row->wait,
					     .text = "unlimited",
					     .changed = "" };
	if (row->limit == NULL)
		return;
	if (row->is_changed) {
		ret_row->changed = row->change.version > 0 ? "all" : "here";
		weir__limit_change_by(&row->change, ret_row->changed_by);
		ret_row->changed_at_s = row->change.at / 1000000000;
	}
	(void)weir_limit_print(&row->now, ret_row->text);
	weir_table_limit_stats(context->table, row->limit, &stats);
	ret_row->allowed = stats.allowed;
	ret_row->denied = stats.denied;
}
