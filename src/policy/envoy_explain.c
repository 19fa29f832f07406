/* envoy_explain.c: explains how a policy in Envoy's format matches a request, level by level. */
#include <stdio.h>

#include "policy/envoy.h"

enum { LINE = 1024, SHOWN = 60, ROOM = 16384 };

/* At most SHOWN bytes, control characters as '?'. */
static const char *shown(char to[SHOWN + 4], const char *bytes, size_t n)
{
	const size_t length = n < SHOWN ? n : SHOWN;

	for (size_t i = 0; i < length; i++)
		to[i] = (unsigned char)bytes[i] < ' ' || bytes[i] == 0x7f ? '?' : bytes[i];
	memcpy(to + length, n > SHOWN ? "..." : "\0\0\0", 4);
	return to;
}

static const char *how(const struct weir__envoy_node *node, const struct weir_attribute *entry)
{
	if (node->name.n == entry->name_length && node->value.at == NULL)
		return "by its key alone";
	return node->value.at && memchr(node->value.at, '*', node->value.n) ? "by a pattern" : "exactly";
}

static void explain_limit(const struct weir_policy *policy, const struct weir__envoy_node *node, char *line)
{
	const struct weir_policy_plan *plan;
	char text[WEIR_LIMIT_TEXT_MAX];

	if (node->plan == WEIR__NO_PLAN) {
		(void)snprintf(line, LINE, "no limit applies: this descriptor has no rate_limit");
		return;
	}
	plan = &policy->plans[node->plan];
	(void)weir_limit_print(&plan->limit, text);
	(void)snprintf(line, LINE, "%s: applies%s: %s%s", plan->name,
		       node->is_shadow ? " in shadow" :
		       node->is_quota  ? " as a quota" :
					 "",
		       plan->is_unlimited ? "unlimited" :
		       plan->is_closed    ? "nothing is allowed" :
					    text,
		       node->is_shared ? ", one for all that match the pattern" : "");
}

static void explain_level(const struct weir__envoy *envoy, uint32_t found, const struct weir_attribute *entry,
			  char *line)
{
	char key[SHOWN + 4], value[SHOWN + 4], name[SHOWN + 4];
	const struct weir__envoy_node *const node = found == WEIR__ENVOY_NONE ? NULL : &envoy->nodes[found];

	(void)shown(key, entry->name, entry->name_length);
	(void)shown(value, entry->value, entry->value_length);
	if (node == NULL)
		(void)snprintf(line, LINE, "%s=%s: no descriptor matches: no limit applies", key, value);
	else
		(void)snprintf(line, LINE, "%s=%s: matches %s, %s, of %s:%u", key, value,
			       shown(name, node->name.at, node->name.n), how(node, entry), node->file, node->at.line);
}

void weir__envoy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			 weir_policy_report *report, void *context)
{
	struct weir_attribute entries[WEIR__ENVOY_ENTRIES_MAX];
	const struct weir__envoy *const envoy = policy->envoy;
	char line[LINE], room[ROOM], name[SHOWN + 4];
	struct weir__slice domain;
	uint32_t at;

	if (!weir__envoy_split(attributes, n, &domain, entries, &n)) {
		report(context, weir__envoy_request);
		return;
	}
	at = weir__envoy_find(envoy, WEIR__ENVOY_NONE, domain);
	if (at == WEIR__ENVOY_NONE) {
		(void)snprintf(line, sizeof(line), "%s: unknown domain: no limit applies",
			       shown(name, domain.at, domain.n));
		report(context, line);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (entries[i].name_length + WEIR__ENVOY_VALUE_MAX >= sizeof(room)) {
			report(context, "an attribute is too long: no limit applies");
			return;
		}
		at = weir__envoy_step(envoy, at, &entries[i], room);
		explain_level(envoy, at, &entries[i], line);
		report(context, line);
		if (at == WEIR__ENVOY_NONE)
			return;
	}
	explain_limit(policy, &envoy->nodes[at], line);
	report(context, line);
}
