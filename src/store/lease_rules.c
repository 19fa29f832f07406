/* lease_rules.c: which limits are leased or eventual at this server, and on what terms. */
#include "os/monotonic.h"
#include "store/lease_internal.h"

/* The salt depends on everything that makes held units useless when it changes. */
void weir__lease_read_rule(struct lease *lease, const struct weir_table_limit *limit, struct rule *rule)
{
	const uint32_t stranded = lease->options.stranded(lease->options.context, limit);
	struct weir__view view;

	rule->version = lease->version;
	rule->terms = (struct weir__lease_terms){ 0, 0 };
	rule->ahead = 0;
	rule->eventual = (struct weir__eventual){ 0, 0, 0 };
	if (lease->options.eventual)
		lease->options.eventual(lease->options.context, limit, &rule->eventual);
	rule->is_wanted = stranded > 0 || rule->eventual.ahead > 0;
	if (!rule->is_wanted)
		return;
	weir__view_load(limit, &view);
	rule->number = view.number;
	if (!weir__format_has_histories(&view.format))
		(void)weir__eventual_ahead_of(&view.format.plan, rule->eventual.ahead, &rule->ahead);
	if (rule->eventual.budget == 0)
		rule->eventual.budget = lease->options.budget;
	rule->valid = weir__add_saturating(rule->eventual.sync, rule->eventual.budget);
	(void)weir__lease_terms_of(&view.format.plan, stranded, &rule->terms);
	rule->is_window = view.format.plan.kind == WEIR_KIND_WINDOW;
	rule->salt = (lease->anchor ^ rule->terms.most) * UINT64_C(0x9e3779b97f4a7c15) +
		     (rule->terms.duration ^ view.number) * UINT64_C(0xd6e8feb86659fd93);
}

/* Call it after the requests have arrived: a process that was stopped for a while must not spend units whose lease has
 * ended meanwhile. */
void weir__lease_read_clock(struct lease *lease)
{
	const uint64_t anchor = atomic_load_explicit(&lease->options.table->region.header->lease_anchor,
						     memory_order_relaxed);

	lease->at = anchor +
		    (lease->options.boot_clock ? lease->options.boot_clock(lease->options.context) : weir__boot_ns());
	if (WEIR__LIKELY(anchor == lease->anchor))
		return;
	lease->anchor = anchor;
	for (uint32_t i = 0; i < lease->options.table->region.limits_max; i++)
		lease->rules[i].version = 0;
}

/* The lowest bits of the difference are random enough: the same anchor does not occur again. */
void weir__lease_begin(struct weir_table *table, bool goes_on, weir_ns boot_now)
{
	_Atomic uint64_t *const anchor = &table->region.header->lease_anchor;

	atomic_fetch_add(&table->region.header->lease_processes, 1);
	if (goes_on && atomic_load(anchor) != 0)
		return;
	atomic_store(anchor, weir_table_now(table) - boot_now);
}
