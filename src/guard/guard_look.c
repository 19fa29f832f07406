/* guard_look.c: shows the policy's limits and what they would decide. Charges nothing. */
#include <stdio.h>

#include "guard/guard_check.h"
#include "guard/guard_internal.h"
#include "policy/example.h"
#include "store/eventual.h"
#include "store/lease.h"

/* --- views ------------------------------------------------------------------------------------------------------- */

/* Makes a claim of the chosen key. Returns false if there is nothing to look at. */
static bool claim_chosen(const struct weir__bound_policy *bound, const struct weir__guard_chosen *chosen,
			 const struct weir_policy_answer *matched, uint64_t cost, struct weir_policy_claim *ret_claim)
{
	const uint32_t plan = chosen ? weir__bound_policy_plan_named(bound, chosen->plan, chosen->plan_length) :
				       WEIR_POLICY_NO_PLAN;

	if (plan == WEIR_POLICY_NO_PLAN)
		return false;
	for (size_t i = 0; i < matched->n; i++)
		if (matched->claims[i].plan == plan && matched->claims[i].key_length == chosen->key_length &&
		    memcmp(matched->claims[i].key, chosen->key, chosen->key_length) == 0)
			return false;
	*ret_claim = (struct weir_policy_claim){
		.plan = plan, .mode = chosen->mode, .key = chosen->key, .key_length = chosen->key_length, .cost = cost
	};
	return true;
}

static void add_claim(struct weir__guard_look *look, const struct weir_policy_claim *of, struct weir_claim *claims)
{
	look->applies[look->n] = *of;
	claims[look->n++] = (struct weir_claim){ weir__bound_policy_limit(look->bound, of->plan), of->key,
						 of->key_length, of->cost };
}

int weir__guard_look_begin(struct weir__guard_look *look, struct weir_guard *guard, struct weir_policy_answer *matched,
			   const struct weir_attribute *attributes, size_t n, uint64_t cost,
			   const struct weir__guard_chosen *chosen, struct weir_claim *claims,
			   struct weir_message *ret_message)
{
	struct weir_policy_claim claim;
	int error = WEIR_OK;

	*look = (struct weir__guard_look){ .guard = guard, .phase = weir__epoch_enter(&guard->epoch) };
	look->bound = atomic_load(&guard->bound);
	matched->n = 0;
	matched->is_unmatched = false;
	if (!(chosen && n == 0 && look->bound->policy->envoy)) /* a request in Envoy's form needs a domain at least */
		error = weir_policy_match(look->bound->policy, attributes, n, cost, matched, ret_message);
	if (error != WEIR_OK) {
		weir__epoch_leave(&guard->epoch, look->phase);
		return error;
	}
	for (size_t i = 0; i < matched->n; i++)
		add_claim(look, &matched->claims[i], claims);
	look->is_denied = matched->is_unmatched && !(chosen && n == 0) &&
			  look->bound->policy->unmatched == WEIR__UNMATCHED_DENY;
	look->has_chosen = claim_chosen(look->bound, chosen, matched, cost, &claim);
	if (look->has_chosen)
		add_claim(look, &claim, claims);
	return WEIR_OK;
}

/* An unlimited claim has no limit to peek at. It gets its verdict here. */
bool weir__guard_look_next(struct weir__guard_look *look, const struct weir_claim *claims,
			   struct weir_verdict *verdicts, struct weir__store_request *store_request)
{
	while (look->at < look->n && claims[look->at].limit == NULL) {
		verdicts[look->at] = (struct weir_verdict){ .allowed = true, .granted = claims[look->at].cost };
		look->at++;
	}
	if (look->at == look->n)
		return false;
	store_request->operation = WEIR__STORE_PEEK;
	store_request->is_each = true;
	store_request->claims = claims + look->at;
	store_request->verdicts = verdicts + look->at;
	for (store_request->n = 0; look->at < look->n && claims[look->at].limit; look->at++)
		store_request->n++;
	store_request->hashes = NULL;
	store_request->epoch_check = NULL;
	store_request->before = NULL;
	return true;
}

void weir__guard_look_tell(struct weir__guard_look *look, const struct weir_claim *claims,
			   const struct weir_verdict *verdicts,
			   void (*tell)(void *context, const struct weir__guard_view *view), void *context)
{
	const struct weir_policy *const policy = look->bound->policy;
	struct weir__guard_view view;

	for (uint32_t i = 0; i < look->n; i++) {
		const struct weir_policy_claim *const of = &look->applies[i];

		view.applies = !(look->has_chosen && i + 1 == look->n);
		view.name = weir_policy_plan_of(policy, of->plan)->name;
		view.limit = claims[i].limit;
		view.mode = of->mode;
		view.cost = of->cost;
		view.verdict = verdicts[i];
		(void)weir__guard_write_key(policy, of->plan, claims[i].key, claims[i].key_length, claims[i].key_length,
					    view.key, sizeof(view.key));
		tell(context, &view);
	}
	weir__epoch_leave(&look->guard->epoch, look->phase);
	look->bound = NULL;
}

int weir__guard_view(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n, uint64_t cost,
		     const struct weir__guard_chosen *chosen, weir_ns now,
		     void (*tell)(void *context, const struct weir__guard_view *view), void *context,
		     struct weir_message *ret_message)
{
	struct weir_verdict verdicts[WEIR__GUARD_LOOK_CLAIMS];
	struct weir_claim claims[WEIR__GUARD_LOOK_CLAIMS] = { { .limit = NULL } };
	struct weir__store_request store_request = { .now = now };
	struct weir_policy_answer matched;
	struct weir__guard_look look;
	const int error = weir__guard_look_begin(&look, guard, &matched, attributes, n, cost, chosen, claims,
						 ret_message);

	if (error != WEIR_OK)
		return error;
	while (weir__guard_look_next(&look, claims, verdicts, &store_request))
		weir__table_store_decide(guard->table, &store_request);
	weir__guard_look_tell(&look, claims, verdicts, tell, context);
	return WEIR_OK;
}

/* --- explanations ------------------------------------------------------------------------------------------------ */

/* A limit that was changed after its policy was loaded. */
struct changed {
	const char *name;
	const struct weir_policy_plan *plan;
	struct weir_limit limit; /* as it is now */
	char before[WEIR_LIMIT_TEXT_MAX], now[WEIR_LIMIT_TEXT_MAX];
	/* Where, by whom and when; empty: not known. */
	char how[32 + WEIR__CHANGE_BY_SIZE + WEIR__CHANGE_AT_SIZE];
};

/* The changed limits of a request, and the callback. */
struct explaining {
	struct changed changed[WEIR_POLICY_CLAIMS_MAX];
	size_t n;
	weir_policy_report *report;
	void *context;
};

static void write_how(const struct weir__limit_change *change, char *ret_how, size_t size)
{
	char by[WEIR__CHANGE_BY_SIZE], at[WEIR__CHANGE_AT_SIZE];

	weir__limit_change_by(change, by);
	weir__limit_change_at(change, at);
	(void)snprintf(ret_how, size, "%s%s%s%s%s", change->version > 0 ? " on all servers" : "", by[0] ? " by " : "",
		       by, at[0] ? " at " : "", at);
}

static void note_changed(const struct weir__bound_policy *bound, const struct weir_policy_claim *claim,
			 struct explaining *explaining)
{
	const struct weir_policy_plan *const plan = weir_policy_plan_of(bound->policy, claim->plan);
	const struct weir_table_limit *const limit = weir__bound_policy_limit(bound, claim->plan);
	struct changed *const changed = &explaining->changed[explaining->n];
	struct weir__limit_change change;

	if (limit == NULL)
		return;
	changed->plan = plan;
	changed->how[0] = '\0';
	if (weir__guard_change_of(bound, claim->plan, &change))
		write_how(&change, changed->how, sizeof(changed->how));
	changed->limit = weir_table_limit_limit(limit);
	(void)weir_limit_print(&plan->limit, changed->before);
	(void)weir_limit_print(&changed->limit, changed->now);
	changed->name = weir_policy_limit_name(bound->policy, claim->limit);
	explaining->n += strcmp(changed->before, changed->now) != 0;
}

/* Where the limit ends in `NAME: applies: LIMIT`; a mode may follow `applies`. NULL: the line is about another
 * limit. */
static const char *end_of_limit(const struct changed *changed, const char *line)
{
	static const char applies[] = ": applies";
	const size_t name = strlen(changed->name), before = strlen(changed->before);

	if (strncmp(line, changed->name, name) != 0 || strncmp(line + name, applies, strlen(applies)) != 0)
		return NULL;
	line = strstr(line + name + strlen(applies), ": ");
	if (line == NULL || strncmp(line + 2, changed->before, before) != 0)
		return NULL;
	line += 2 + before;
	return *line == '\0' || *line == ',' || *line == ' ' ? line : NULL;
}

static void tell_line(void *explaining_, const char *line)
{
	const struct explaining *const explaining = explaining_;
	char longer[2048];

	for (size_t i = 0; i < explaining->n; i++) {
		const struct changed *const changed = &explaining->changed[i];
		const char *const end = end_of_limit(changed, line);

		if (end) {
			(void)snprintf(longer, sizeof(longer), "%.*s, changed to %s%s%s", (int)(end - line), line,
				       changed->now, changed->how, end);
			line = longer;
			break;
		}
	}
	explaining->report(explaining->context, line);
}

typedef void explain_policy(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			    weir__policy_why_exact *why_exact, weir_policy_report *report, void *context);

const char *weir__guard_why_exact(const struct weir_policy_plan *plan, const struct weir_limit *limit)
{
	struct weir__lease_terms terms;
	struct weir_plan compiled;
	uint64_t ahead;

	if (plan->consistency == WEIR_POLICY_EXACT || plan->store == WEIR_POLICY_STORE_TABLE || plan->is_local ||
	    plan->is_unlimited || weir_plan_compile(limit, &compiled, NULL) != WEIR_OK)
		return "";
	return plan->consistency == WEIR_POLICY_LEASE ?
		       weir__lease_obstacle_text(weir__lease_terms_of(&compiled, plan->stranded, &terms)) :
		       weir__eventual_obstacle_text(weir__eventual_ahead_of(&compiled, plan->ahead, &ahead));
}

static const char *why_exact(void *explaining_, const struct weir_policy_plan *plan)
{
	const struct explaining *const explaining = explaining_;

	for (size_t i = 0; i < explaining->n; i++)
		if (explaining->changed[i].plan == plan)
			return weir__guard_why_exact(plan, &explaining->changed[i].limit);
	return weir__guard_why_exact(plan, &plan->limit);
}

/* Returns false if the policy was replaced meanwhile, so that numbers of the next one may be among the changes. */
static bool note_all_changed(struct weir_guard *guard, const struct weir__bound_policy *bound,
			     const struct weir_attribute *attributes, size_t n, struct explaining *explaining)
{
	struct weir_policy_answer matched;

	explaining->n = 0;
	if (weir_policy_match(bound->policy, attributes, n, 1, &matched, NULL) != WEIR_OK)
		return true;
	(void)pthread_mutex_lock(&guard->noting);
	for (size_t i = 0; i < matched.n; i++)
		note_changed(bound, &matched.claims[i], explaining);
	(void)pthread_mutex_unlock(&guard->noting);
	return weir__guard_is_current(guard, bound);
}

/* The policy reports limits as they were loaded; tell_line adds the changes. */
static void explain_by(explain_policy *by, struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
		       weir_policy_report *report, void *context)
{
	uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *bound = atomic_load(&guard->bound);
	struct explaining explaining = { .n = 0, .report = report, .context = context };

	while (!note_all_changed(guard, bound, attributes, n, &explaining)) {
		weir__epoch_leave(&guard->epoch, phase);
		phase = weir__epoch_enter(&guard->epoch);
		bound = atomic_load(&guard->bound);
	}
	by(bound->policy, attributes, n, why_exact, tell_line, &explaining);
	weir__epoch_leave(&guard->epoch, phase);
}

bool weir__guard_example(struct weir_guard *guard, struct weir__policy_example *ret_example)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const bool is_found = weir__policy_example(bound->policy, ret_example);

	weir__epoch_leave(&guard->epoch, phase);
	return is_found;
}

void weir_guard_explain(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
			weir_policy_report *report, void *context)
{
	explain_by(weir__policy_explain, guard, attributes, n, report, context);
}

void weir__guard_explain(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
			 weir_policy_report *report, void *context)
{
	explain_by(weir__policy_explain_what_applies_first, guard, attributes, n, report, context);
}
