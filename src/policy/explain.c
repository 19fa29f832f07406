/* explain.c: says for each limit whether it applies to a request, and why. */
#include <stdio.h>

#include "policy/envoy.h"
#include "policy/key_text.h"

enum { LINE = 1280, SHOWN = 64, KEY_SHOWN = 128 };

/* Escapes the value, since the text of a request may contain any bytes. */
static void print_value(char *line, size_t size, struct weir__slice text)
{
	size_t length = 0;

	for (size_t i = 0; i < text.n && i < SHOWN && length + 5 < size; i++) {
		const unsigned char c = (unsigned char)text.at[i];

		if (c < ' ' || c >= 0x7f)
			length += (size_t)snprintf(line + length, size - length, "\\x%02x", c);
		else
			line[length++] = (char)c;
	}
	line[length] = '\0';
	if (text.n > SHOWN && length + 4 < size)
		memcpy(line + length, "...", 4);
}

/* Returns the first condition that does not hold, or NULL. */
static const struct weir__condition *failed(const struct weir__rule *rule, const struct weir__values *values)
{
	for (size_t i = 0; i < rule->n; i++)
		if (!weir__condition_holds(&rule->conditions[i], values))
			return &rule->conditions[i];
	return NULL;
}

static void explain_failed(const struct weir_policy *policy, const struct weir__condition *condition,
			   const struct weir__values *values, char *line, size_t size)
{
	const char *const name = policy->attributes.of[condition->attribute].name.at;
	const struct weir__value *const value = &values->of[condition->attribute];
	char shown[5 * SHOWN];

	if (value->text.at == NULL) {
		(void)snprintf(line, size, "does not apply: the request has no %s", name);
		return;
	}
	print_value(shown, sizeof(shown), value->text);
	(void)snprintf(line, size, "does not apply: %s is '%s'", name, shown);
}

/* Prints the key in the form that is used everywhere. A long key is cut. */
static void print_key(const struct weir_policy *policy, const struct weir__policy_limit *limit,
		      const struct weir__values *values, char *line, size_t size)
{
	char room[sizeof(((struct weir_policy_answer *)NULL)->room)];
	struct weir__key_bytes key = { .at = room };
	int missing;

	if (!weir__policy_key(limit, values, room, sizeof(room), &key.whole, &missing)) {
		(void)snprintf(line, size, "too long");
		return;
	}
	key.n = key.whole < KEY_SHOWN ? key.whole : KEY_SHOWN;
	(void)weir__policy_key_text(policy, limit, &key, line, size);
}

/* Prints how long requests wait, where the state is kept, and what decides if the store fails, where the policy sets
 * it. */
static void print_store(const struct weir_policy *policy, const struct weir_policy_plan *plan, const char *why_exact,
			char *line, size_t size)
{
	static const char *const words[] = { [WEIR_STORE_FAILURE_UNSET] = "",
					     [WEIR_STORE_FAILURE_SHARE] = ", if the store fails a share of it",
					     [WEIR_STORE_FAILURE_OPEN] = ", if the store fails open",
					     [WEIR_STORE_FAILURE_CLOSED] = ", if the store fails closed",
					     [WEIR_STORE_FAILURE_LOCAL] = ", if the store fails " };
	static const char *const stores[] = { [WEIR_POLICY_STORE_UNSET] = "",
					      [WEIR_POLICY_STORE_TABLE] = ", in the table",
					      [WEIR_POLICY_STORE_REDIS] = ", in Redis" };
	char text[WEIR_LIMIT_TEXT_MAX] = "", budget[64] = "", wait[64] = "", agreement[160] = "";

	if (plan->on_store_failure == WEIR_STORE_FAILURE_LOCAL)
		(void)weir_limit_print(&policy->plans[plan->local].limit, text);
	if (plan->store_budget > 0)
		(void)snprintf(budget, sizeof(budget), ", waits %llums for the store",
			       (unsigned long long)plan->store_budget / 1000000);
	if (plan->wait > 0)
		(void)snprintf(wait, sizeof(wait), ", waits up to %llums in its queue",
			       (unsigned long long)plan->wait / 1000000);
	if (*why_exact)
		(void)snprintf(agreement, sizeof(agreement), ", exact (%s)", why_exact);
	else if (plan->consistency == WEIR_POLICY_LEASE && plan->store != WEIR_POLICY_STORE_TABLE)
		(void)snprintf(agreement, sizeof(agreement), ", leased with up to %u%% stranded", plan->stranded);
	else if (plan->consistency == WEIR_POLICY_EVENTUAL && plan->store != WEIR_POLICY_STORE_TABLE)
		(void)snprintf(agreement, sizeof(agreement), ", eventual with up to %u%% ahead, pushed every %llums",
			       plan->ahead, (unsigned long long)plan->sync / 1000000);
	(void)snprintf(line, size, "%s%s%s%s%s%s", wait, stores[plan->store], agreement, words[plan->on_store_failure],
		       text, budget);
}

/* A request, and the callback for its lines. */
struct telling {
	const struct weir_policy *policy;
	struct weir__values values;
	weir__policy_why_exact *why_exact; /* NULL: not known */
	weir_policy_report *report;
	void *context;
};

/* Returns whether the limit applies. */
static bool explain_limit(const struct telling *telling, uint32_t number, char *line, size_t size)
{
	const struct weir_policy *const policy = telling->policy;
	const struct weir__values *const values = &telling->values;
	const struct weir__policy_limit *const limit = &policy->limits[number];
	const struct weir__condition *const condition = failed(&policy->rules.of[number], values);
	const struct weir_policy_plan *plan;
	struct weir__override applies;
	bool is_override;
	char text[WEIR_LIMIT_TEXT_MAX], key[LINE / 2], store[2 * WEIR_LIMIT_TEXT_MAX];

	if (condition) {
		explain_failed(policy, condition, values, line, size);
		return false;
	}
	for (unsigned i = 0; i < limit->n_parts; i++)
		if (values->of[limit->parts[i].attribute].text.at == NULL && limit->parts[i].fallback.at == NULL) {
			(void)snprintf(line, size, "does not apply: its key needs %s, which the request does not have",
				       policy->attributes.of[limit->parts[i].attribute].name.at);
			return false;
		}
	applies = weir__policy_resolve(limit, values);
	is_override = applies.plan != limit->plan;
	plan = &policy->plans[applies.plan];
	if (applies.mode == WEIR_MODE_OFF) {
		(void)snprintf(line, size, "does not apply: it is off%s",
			       limit->mode == WEIR_MODE_OFF ? "" : " by an override");
		return false;
	}
	(void)weir_limit_print(&plan->limit, text);
	print_key(policy, limit, values, key, sizeof(key));
	print_store(policy, plan, telling->why_exact ? telling->why_exact(telling->context, plan) : "", store,
		    sizeof(store));
	(void)snprintf(line, size, "applies%s: %s%s%s, %s%s%s", applies.mode == WEIR_MODE_SHADOW ? " in shadow" : "",
		       plan->is_unlimited ? "unlimited" : text, is_override ? " by the override " : "",
		       is_override ? plan->name : "", limit->n_parts ? "key " : "one for all requests", key, store);
	return true;
}

/* Returns false if nothing is left to report: the policy is in Envoy's format, or an attribute is too long. */
static bool begin(struct telling *telling, const struct weir_attribute *attributes, size_t n)
{
	const struct weir__attributes *const known = &telling->policy->attributes;
	char line[LINE];
	struct weir__slice name;

	if (telling->policy->envoy) {
		weir__envoy_explain(telling->policy, attributes, n, telling->report, telling->context);
		return false;
	}
	weir__values_begin(known, attributes, n, &telling->values);
	if (weir__values_end(known, &telling->values, &name))
		return true;
	(void)snprintf(line, sizeof(line), "the attribute %.*s is too long", (int)name.n, name.at);
	telling->report(telling->context, line);
	return false;
}

/* Reports a limit. With `only_if_applies`, only if it applies. Returns whether it was reported. */
static bool tell(const struct telling *telling, uint32_t number, bool only_if_applies)
{
	char line[LINE], why[LINE - 2 * WEIR__LIMIT_NAME_MAX];

	if (!explain_limit(telling, number, why, sizeof(why)) && only_if_applies)
		return false;
	(void)snprintf(line, sizeof(line), "%s: %s", telling->policy->limits[number].name.at, why);
	telling->report(telling->context, line);
	return true;
}

/* Reports what becomes of the request if no limit matches it. */
static void tell_unmatched(const struct telling *telling, const struct weir_attribute *attributes, size_t n)
{
	struct weir_policy_answer answer;
	struct weir__slice meant;
	char line[LINE], shown[5 * SHOWN], hint[6 * SHOWN] = "";
	size_t misspelled;

	if (weir_policy_match(telling->policy, attributes, n, 1, &answer, NULL) != WEIR_OK || !answer.is_unmatched)
		return;
	misspelled = weir__policy_find_misspelled(telling->policy, attributes, n, &meant);
	if (misspelled < n) {
		print_value(shown, sizeof(shown),
			    (struct weir__slice){ attributes[misspelled].name, attributes[misspelled].name_length });
		(void)snprintf(hint, sizeof(hint), "; did you mean %s= instead of %s=?", meant.at, shown);
	}
	(void)snprintf(line, sizeof(line), "no limit applies: %s%s",
		       telling->policy->unmatched == WEIR__UNMATCHED_DENY ?
			       "denied, because the policy says unmatched: deny" :
			       "allowed",
		       hint);
	telling->report(telling->context, line);
}

void weir__policy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			  weir__policy_why_exact *why_exact, weir_policy_report *report, void *context)
{
	struct telling telling = { .policy = policy, .why_exact = why_exact, .report = report, .context = context };

	if (!begin(&telling, attributes, n))
		return;
	for (uint32_t i = 0; i < policy->n_limits; i++)
		(void)tell(&telling, i, false);
	tell_unmatched(&telling, attributes, n);
}

void weir_policy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			 weir_policy_report *report, void *context)
{
	weir__policy_explain(policy, attributes, n, NULL, report, context);
}

void weir__policy_explain_what_applies_first(const struct weir_policy *policy, const struct weir_attribute *attributes,
					     size_t n, weir__policy_why_exact *why_exact, weir_policy_report *report,
					     void *context)
{
	struct telling telling = { .policy = policy, .why_exact = why_exact, .report = report, .context = context };
	struct weir__found found[WEIR_POLICY_CLAIMS_MAX];
	uint32_t n_found, told = 0, k = 0;

	if (!begin(&telling, attributes, n))
		return;
	tell_unmatched(&telling, attributes, n);
	n_found = weir__rules_all(&policy->rules, &telling.values, found, WEIR_POLICY_CLAIMS_MAX);
	for (uint32_t i = 0; i < n_found && n_found <= WEIR_POLICY_CLAIMS_MAX; i++)
		if (tell(&telling, found[i].number, true))
			found[told++] = found[i];
	for (uint32_t i = 0; i < policy->n_limits; i++)
		if (k < told && found[k].number == i)
			k++;
		else
			(void)tell(&telling, i, false);
}
