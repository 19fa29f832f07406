/* read.c: reads policies in Weir's own format: a list of limits, and the declarations of attributes. All errors are
 * reported. A policy with errors is not made. */
#include "policy/read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/argument.h"
#include "core/decimal.h"
#include "os/text_file.h"
#include "policy/envoy.h"

static const size_t policy_most = (size_t)8 << 30, text_most = (size_t)1 << 30;

bool weir__policy_no_memory(const struct weir__policy_reading *reading, struct weir__mark at)
{
	weir__diagnostics_add(reading->diagnostics, at, "no memory for it");
	return false;
}

static void refuse_key(struct weir__diagnostics *diagnostics, const struct weir__node *key, const char *what,
		       const char *const *keys)
{
	char known[256] = "";
	size_t length = 0;

	for (; *keys && length < sizeof(known); keys++)
		length += (size_t)snprintf(known + length, sizeof(known) - length, "%s%s", length ? ", " : "", *keys);
	weir__diagnostics_add(diagnostics, key->at, "unknown key '%s' in %s; use %s", key->text.at, what, known);
}

bool weir__node_check_keys(struct weir__diagnostics *diagnostics, const struct weir__node *map, const char *what,
			   const char *const *keys)
{
	if (map->kind != WEIR__NODE_MAP) {
		weir__diagnostics_add(diagnostics, map->at, "found %s; %s must be a map", weir__node_kind_words(map),
				      what);
		return false;
	}
	for (const struct weir__node *member = map->members; member; member = member->next) {
		const char *const *key = keys;

		while (*key && !weir__slice_is(member->key->text, *key))
			key++;
		if (*key == NULL)
			refuse_key(diagnostics, member->key, what, keys);
	}
	return true;
}

const struct weir__node *weir__node_text(struct weir__diagnostics *diagnostics, const struct weir__node *node,
					 const char *what)
{
	if (node->kind == WEIR__NODE_TEXT)
		return node;
	weir__diagnostics_add(diagnostics, node->at, "found %s; %s must be a string", weir__node_kind_words(node),
			      what);
	return NULL;
}

static bool read_bool(struct weir__diagnostics *diagnostics, const struct weir__node *node)
{
	const bool is_true = node && node->kind == WEIR__NODE_TEXT && weir__slice_is(node->text, "true");

	if (node && !is_true && !(node->kind == WEIR__NODE_TEXT && weir__slice_is(node->text, "false")))
		weir__diagnostics_add(diagnostics, node->at, "invalid %s; use true or false", node->key->text.at);
	return is_true;
}

static bool read_number(struct weir__diagnostics *diagnostics, const struct weir__node *node, uint64_t most,
			uint64_t *ret_number)
{
	if (node->kind == WEIR__NODE_TEXT && weir__decimal_read(node->text.at, node->text.n, most, ret_number))
		return true;
	weir__diagnostics_add(diagnostics, node->at, "invalid %s; use a whole number, 0 to %llu", node->key->text.at,
			      (unsigned long long)most);
	return false;
}

/* --- attributes ------------------------------------------------------------------------------------------------- */

int weir__policy_attribute(const struct weir__policy_reading *reading, const struct weir__node *name)
{
	int number;

	if (weir__node_text(reading->diagnostics, name, "the name of an attribute") == NULL)
		return -1;
	if (!weir__attribute_is_name(name->text)) {
		weir__diagnostics_add(reading->diagnostics, name->at,
				      "invalid attribute name '%.80s'; use 1 to 63 bytes without control characters",
				      name->text.at);
		return -1;
	}
	number = weir__attributes_find(&reading->policy->attributes, name->text);
	if (number < 0)
		number = weir__attributes_add(&reading->policy->attributes,
					      weir__pool_copy(&reading->policy->pool, name->text));
	if (number < 0)
		weir__diagnostics_add(reading->diagnostics, name->at,
				      "too many attributes, at '%s'; a policy has at most %d", name->text.at,
				      WEIR__ATTRIBUTES_MAX);
	else
		reading->policy->used |= UINT32_C(1) << number;
	return number;
}

static void add_known_attributes(struct weir__attributes *attributes)
{
	const int ip = weir__attributes_add(attributes, weir__slice_of("ip"));
	const int path = weir__attributes_add(attributes, weir__slice_of("path"));
	const int host = weir__attributes_add(attributes, weir__slice_of("host"));

	attributes->of[ip].type = WEIR__ADDRESS_ATTRIBUTE;
	attributes->of[path].type = WEIR__PATH_ATTRIBUTE;
	attributes->of[host].is_lowered = true;
}

static void read_attribute(const struct weir__policy_reading *reading, const struct weir__node *node)
{
	static const char *const keys[] = { "type", "lower", "default", NULL };
	const int number = weir__policy_attribute(reading, node->key);
	const struct weir__node *type, *lower, *fallback;
	struct weir__attribute *attribute;

	if (number < 0 || !weir__node_check_keys(reading->diagnostics, node, "an attribute", keys))
		return;
	attribute = &reading->policy->attributes.of[number];
	type = weir__node_member(node, "type");
	lower = weir__node_member(node, "lower");
	fallback = weir__node_member(node, "default");
	if (type && weir__node_text(reading->diagnostics, type, "type")) {
		if (weir__slice_is(type->text, "ip"))
			attribute->type = WEIR__ADDRESS_ATTRIBUTE;
		else if (weir__slice_is(type->text, "path"))
			attribute->type = WEIR__PATH_ATTRIBUTE;
		else if (weir__slice_is(type->text, "text"))
			attribute->type = WEIR__TEXT_ATTRIBUTE;
		else
			weir__diagnostics_add(reading->diagnostics, type->at, "unknown type '%s'; use text, ip or path",
					      type->text.at);
	}
	if (lower)
		attribute->is_lowered = read_bool(reading->diagnostics, lower);
	if (fallback && weir__node_text(reading->diagnostics, fallback, "default"))
		attribute->fallback = weir__pool_copy(&reading->policy->pool, fallback->text);
}

static void read_attributes(const struct weir__policy_reading *reading, const struct weir__node *map)
{
	if (map == NULL)
		return;
	if (map->kind != WEIR__NODE_MAP) {
		weir__diagnostics_add(reading->diagnostics, map->at, "found %s; attributes must be a map",
				      weir__node_kind_words(map));
		return;
	}
	for (const struct weir__node *member = map->members; member; member = member->next)
		read_attribute(reading, member);
}

/* --- keys and costs --------------------------------------------------------------------------------------------- */

static void read_bits(const struct weir__policy_reading *reading, const struct weir__node *node, unsigned most,
		      unsigned *bits)
{
	uint64_t number;

	if (node && read_number(reading->diagnostics, node, most, &number))
		*bits = (unsigned)number;
}

static void read_part_map(const struct weir__policy_reading *reading, const struct weir__node *node,
			  struct weir__key_part *part)
{
	static const char *const keys[] = { "attribute", "ipv4", "ipv6", "default", NULL };
	const struct weir__node *const attribute = weir__node_member(node, "attribute");
	const struct weir__node *const fallback = weir__node_member(node, "default");
	int number;

	(void)weir__node_check_keys(reading->diagnostics, node, "a part of a key", keys);
	if (attribute == NULL) {
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "a part of a key needs an attribute; use {attribute: ip, ipv6: 56}");
		return;
	}
	number = weir__policy_attribute(reading, attribute);
	part->attribute = number < 0 ? 0 : (unsigned)number;
	read_bits(reading, weir__node_member(node, "ipv4"), 32, &part->bits_v4);
	read_bits(reading, weir__node_member(node, "ipv6"), 128, &part->bits_v6);
	if (fallback && weir__node_text(reading->diagnostics, fallback, "default"))
		part->fallback = weir__pool_copy(&reading->policy->pool, fallback->text);
}

static void read_part(const struct weir__policy_reading *reading, const struct weir__node *node,
		      struct weir__policy_limit *limit)
{
	struct weir__key_part *const part = &limit->parts[limit->n_parts];
	const uint32_t before = reading->diagnostics->n;
	int number;

	if (limit->n_parts == WEIR__KEY_PARTS_MAX) {
		weir__diagnostics_add(reading->diagnostics, node->at, "a key has at most %d parts",
				      WEIR__KEY_PARTS_MAX);
		return;
	}
	*part = (struct weir__key_part){ .bits_v4 = WEIR__BITS_V4, .bits_v6 = WEIR__BITS_V6 };
	if (node->kind == WEIR__NODE_MAP) {
		read_part_map(reading, node, part);
	} else {
		number = weir__policy_attribute(reading, node);
		part->attribute = number < 0 ? 0 : (unsigned)number;
	}
	part->is_address = reading->policy->attributes.of[part->attribute].type == WEIR__ADDRESS_ATTRIBUTE;
	for (unsigned i = 0; i < limit->n_parts && reading->diagnostics->n == before; i++)
		if (limit->parts[i].attribute == part->attribute)
			weir__diagnostics_add(reading->diagnostics, node->at, "duplicate attribute in this key");
	limit->n_parts++;
}

static void read_key(const struct weir__policy_reading *reading, const struct weir__node *node,
		     struct weir__policy_limit *limit)
{
	if (node == NULL)
		return;
	if (node->kind != WEIR__NODE_LIST) {
		read_part(reading, node, limit);
		return;
	}
	for (const struct weir__node *member = node->members; member; member = member->next)
		read_part(reading, member, limit);
}

static void read_cost(const struct weir__policy_reading *reading, const struct weir__node *node,
		      struct weir__policy_limit *limit)
{
	static const char *const keys[] = { "attribute", "default", NULL };
	const struct weir__node *attribute, *otherwise;

	limit->cost_attribute = -1;
	limit->cost = UINT64_MAX;
	if (node == NULL)
		return;
	if (node->kind != WEIR__NODE_MAP) {
		(void)read_number(reading->diagnostics, node, INT64_MAX, &limit->cost);
		return;
	}
	(void)weir__node_check_keys(reading->diagnostics, node, "a cost", keys);
	attribute = weir__node_member(node, "attribute");
	otherwise = weir__node_member(node, "default");
	limit->cost = 1;
	if (attribute)
		limit->cost_attribute = weir__policy_attribute(reading, attribute);
	else
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "invalid cost; use a number, or an attribute as in {attribute: items}");
	if (otherwise)
		(void)read_number(reading->diagnostics, otherwise, INT64_MAX, &limit->cost);
	if (limit->cost_attribute < 0)
		limit->cost = UINT64_MAX; /* the error was reported; this skips check_cost */
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

static bool is_name(struct weir__slice name)
{
	for (size_t i = 0; i < name.n; i++) {
		const char c = name.at[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
		      c == '_' || c == '.' || c == '/' || c == ':'))
			return false;
	}
	return name.n > 0 && name.n <= WEIR__LIMIT_NAME_MAX;
}

static void read_name(const struct weir__policy_reading *reading, const struct weir__node *node,
		      const struct weir__node *name, struct weir__policy_limit *limit)
{
	limit->name = weir__slice_of("");
	if (name == NULL) {
		weir__diagnostics_add(reading->diagnostics, node->at, "a limit needs a name; use name: NAME");
		return;
	}
	if (weir__node_text(reading->diagnostics, name, "name") == NULL)
		return;
	if (!is_name(name->text)) {
		weir__diagnostics_add(reading->diagnostics, name->at,
				      "invalid name '%.80s'; use 1 to 40 letters, digits and -_./:", name->text.at);
		return;
	}
	limit->name = weir__pool_copy(&reading->policy->pool, name->text);
	if (limit->name.at == NULL)
		(void)weir__policy_no_memory(reading, name->at);
}

static void read_limit(struct weir__policy_reading *reading, const struct weir__node *node,
		       struct weir__policy_limit *limit, struct weir__rule *rule)
{
	static const char *const keys[] = { "name",         "limit",
					    "key",          "match",
					    "cost",         "mode",
					    "overrides",    "overrides_from",
					    "store",        "on_store_failure",
					    "store_budget", "consistency",
					    "wait",         NULL };
	const struct weir__node *match, *text;
	const uint32_t before = reading->diagnostics->n;

	limit->at = node->at;
	limit->file = reading->diagnostics->file;
	limit->plan = WEIR__NO_PLAN;
	if (!weir__node_check_keys(reading->diagnostics, node, "a limit", keys))
		return;
	read_name(reading, node, weir__node_member(node, "name"), limit);
	match = weir__node_member(node, "match");
	text = weir__node_member(node, "limit");
	limit->mode = weir__policy_read_mode(reading->diagnostics, weir__node_member(node, "mode"), WEIR_MODE_ENFORCE);
	if (match)
		(void)weir__policy_read_rule(reading, match, rule);
	read_key(reading, weir__node_member(node, "key"), limit);
	read_cost(reading, weir__node_member(node, "cost"), limit);
	if (text == NULL)
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "a limit needs a rate; use limit: 100/s burst 200");
	else if (weir__node_text(reading->diagnostics, text, "limit") && limit->name.at)
		limit->plan = weir__policy_read_plan(
			reading, limit, limit->name, text->text,
			(struct weir__mark){ text->at.line, text->at.column + text->is_quoted });
	weir__policy_read_failure(reading, node, limit, limit->plan, weir__slice_of(""));
	weir__policy_read_wait(reading, node, limit, limit->plan);
	if (reading->diagnostics->n == before || weir__node_member(node, "overrides"))
		weir__policy_read_overrides(reading, weir__node_member(node, "overrides"),
					    weir__node_member(node, "overrides_from"), limit, rule);
}

static int compare_names(const void *a_, const void *b_)
{
	const struct weir__policy_limit *const *const a = a_, *const *const b = b_;
	const size_t n = (*a)->name.n < (*b)->name.n ? (*a)->name.n : (*b)->name.n;
	const int order = n ? memcmp((*a)->name.at, (*b)->name.at, n) : 0;

	if (order != 0)
		return order;
	if ((*a)->name.n != (*b)->name.n)
		return (*a)->name.n < (*b)->name.n ? -1 : 1;
	return *a < *b ? -1 : 1;
}

static void refuse_name(const struct weir__policy_reading *reading, const struct weir__policy_limit *limit,
			const struct weir__policy_limit *before)
{
	const bool is_elsewhere = strcmp(limit->file, before->file) != 0;

	reading->diagnostics->file = limit->file;
	weir__diagnostics_add(reading->diagnostics, limit->at, "duplicate name '%s'; it was first given in line %u%s%s",
			      limit->name.at, before->at.line, is_elsewhere ? " of " : "",
			      is_elsewhere ? before->file : "");
}

/* State is stored by the limit's name, so names must be unique. */
static void check_names(const struct weir__policy_reading *reading)
{
	const struct weir_policy *const policy = reading->policy;
	const struct weir__policy_limit **const sorted = calloc(policy->n_limits + 1, sizeof(*sorted));

	if (sorted == NULL) {
		(void)weir__policy_no_memory(reading, (struct weir__mark){ 1, 1 });
		return;
	}
	for (uint32_t i = 0; i < policy->n_limits; i++)
		sorted[i] = &policy->limits[i];
	qsort(sorted, policy->n_limits, sizeof(*sorted), compare_names);
	for (uint32_t i = 1; i < policy->n_limits; i++)
		if (sorted[i]->name.n > 0 && weir__slice_equal(sorted[i - 1]->name, sorted[i]->name))
			refuse_name(reading, sorted[i], sorted[i - 1]);
	free(sorted);
}

/* Returns the number of limits in a file; 0 after a report. */
static uint32_t count_limits(const struct weir__policy_reading *reading, const struct weir__node *list)
{
	if (list == NULL)
		return 0;
	if (list->kind != WEIR__NODE_LIST) {
		weir__diagnostics_add(reading->diagnostics, list->at, "found %s; limits must be a list",
				      weir__node_kind_words(list));
		return 0;
	}
	if (list->n > WEIR__LIMITS_MAX) {
		weir__diagnostics_add(reading->diagnostics, list->at, "more than %d limits", WEIR__LIMITS_MAX);
		return 0;
	}
	return list->n;
}

static struct weir__rule *make_limits(const struct weir__policy_reading *reading, uint64_t n)
{
	struct weir_policy *const policy = reading->policy;
	struct weir__rule *const rules = weir__pool_take_array(&policy->pool, n, sizeof(*rules));

	if (n > WEIR__LIMITS_MAX) {
		weir__diagnostics_add(reading->diagnostics, (struct weir__mark){ 1, 1 },
				      "with this file more than %d limits", WEIR__LIMITS_MAX);
		return NULL;
	}
	policy->limits = weir__pool_take_array(&policy->pool, n, sizeof(policy->limits[0]));
	if (policy->limits == NULL || rules == NULL) {
		(void)weir__policy_no_memory(reading, (struct weir__mark){ 1, 1 });
		return NULL;
	}
	policy->n_limits = (uint32_t)n;
	return rules;
}

static void read_limits(struct weir__policy_reading *reading, const struct weir__node *list, struct weir__rule *rules)
{
	struct weir_policy *const policy = reading->policy;
	const bool is_list = list && list->kind == WEIR__NODE_LIST && list->n <= WEIR__LIMITS_MAX;

	for (const struct weir__node *node = is_list ? list->members : NULL; node; node = node->next) {
		const uint32_t number = (uint32_t)(policy->rules.n++);

		read_limit(reading, node, &policy->limits[number], &rules[number]);
	}
}

static void finish_limits(const struct weir__policy_reading *reading, const struct weir__rule *rules)
{
	struct weir_policy *const policy = reading->policy;

	check_names(reading);
	if (!weir__rules_init(&policy->rules, &policy->pool, rules, policy->n_limits))
		(void)weir__policy_no_memory(reading, (struct weir__mark){ 1, 1 });
	if (reading->diagnostics->n > 0)
		return;
	weir__policy_check_crowd(reading);
	weir__rules_keep_beside(&policy->rules, &policy->pool, policy->limits, sizeof(policy->limits[0]),
				offsetof(struct weir__policy_limit, parts[1]));
}

/* --- files ------------------------------------------------------------------------------------------------------ */

bool weir__policy_is_top_key(struct weir__slice key)
{
	return weir__slice_is(key, "limits") || weir__slice_is(key, "attributes") || weir__slice_is(key, "unmatched");
}

static void check_top(struct weir__diagnostics *diagnostics, const struct weir__node *root)
{
	for (const struct weir__node *member = root->members; member; member = member->next)
		if (!weir__policy_is_top_key(member->key->text))
			weir__diagnostics_add(diagnostics, member->key->at,
					      "unknown key '%s' in a policy; use limits, attributes, unmatched",
					      member->key->text.at);
}

/* Not every file of a policy need have `unmatched`, but all that have it must agree. */
static void read_unmatched(struct weir__policy_reading *reading, const struct weir__node *node)
{
	struct weir_policy *const policy = reading->policy;
	enum weir__unmatched unmatched;

	if (node == NULL || weir__node_text(reading->diagnostics, node, "unmatched") == NULL)
		return;
	if (weir__slice_is(node->text, "allow")) {
		unmatched = WEIR__UNMATCHED_ALLOW;
	} else if (weir__slice_is(node->text, "deny")) {
		unmatched = WEIR__UNMATCHED_DENY;
	} else {
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "unknown value of unmatched '%.80s'; use allow or deny", node->text.at);
		return;
	}
	if (policy->unmatched == WEIR__UNMATCHED_UNSET) {
		policy->unmatched = unmatched;
		reading->unmatched_in = reading->diagnostics->file;
	} else if (policy->unmatched != unmatched) {
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "unmatched is '%s' here and in %s '%s'; use the same value, or set it only once",
				      node->text.at, reading->unmatched_in,
				      policy->unmatched == WEIR__UNMATCHED_DENY ? "deny" : "allow");
	}
}

static size_t folder_of(const char *file)
{
	const char *const slash = file ? strrchr(file, '/') : NULL;

	return slash ? (size_t)(slash + 1 - file) : 0;
}

/* The documents of a policy's files. NULL: the file has errors, or is in Envoy's format. */
struct documents {
	struct weir__pool pool;
	const struct weir__node *roots[WEIR__POLICY_FILES_MAX];
};

static void begin_part(struct weir__policy_reading *reading, const struct weir__policy_part *part)
{
	reading->diagnostics->file = part->file ? part->file : "policy";
	reading->folder = part->is_text ? NULL : part->file;
	reading->folder_length = folder_of(reading->folder);
}

/* Hashes depth first. It includes kinds and numbers of members, so that texts at different places give different
 * hashes. */
static uint64_t hash_node(uint64_t hash, const struct weir__node *node)
{
	const uint64_t what[] = { (uint64_t)node->kind, node->is_quoted, node->n };

	hash = weir__policy_hash(hash, what, sizeof(what));
	if (node->key)
		hash = weir__policy_hash(hash, node->key->text.at, node->key->text.n);
	if (node->kind == WEIR__NODE_TEXT)
		return weir__policy_hash(hash, node->text.at, node->text.n);
	for (const struct weir__node *member = node->members; member; member = member->next)
		hash = hash_node(hash, member);
	return hash;
}

/* Skips settings in the same file, which are not part of the policy. */
static void identify(struct weir_policy *policy, const struct weir__node *root, uint32_t options)
{
	const uint64_t what = options & ~(uint64_t)WEIR__POLICY_HAS_OTHERS;
	const bool is_envoy = weir__envoy_is(root);

	policy->identity = weir__policy_hash(policy->identity, &what, sizeof(what));
	for (const struct weir__node *member = root->members; member; member = member->next)
		if (is_envoy || weir__policy_is_top_key(member->key->text))
			policy->identity = hash_node(policy->identity, member);
}

static void identify_named_files(struct weir_policy *policy)
{
	for (const struct weir__policy_file *file = policy->files; file; file = file->next)
		policy->identity = weir__policy_hash(policy->identity, &file->hash, sizeof(file->hash));
}

static uint64_t read_documents(struct weir__policy_reading *reading, const struct weir__policy_part *parts, size_t n,
			       uint32_t options, struct documents *documents)
{
	uint64_t limits = 0;
	size_t envoys = 0;

	for (size_t i = 0; i < n; i++) {
		const struct weir__node *root, *list;

		begin_part(reading, &parts[i]);
		root = weir__document_read(&documents->pool, parts[i].text, reading->diagnostics);
		if (root && root->kind != WEIR__NODE_MAP) {
			weir__diagnostics_add(reading->diagnostics, root->at,
					      "found %s; a policy must be a map with limits",
					      weir__node_kind_words(root));
			root = NULL;
		}
		documents->roots[i] = NULL;
		if (root == NULL)
			continue;
		identify(reading->policy, root, options);
		if (weir__envoy_is(root)) {
			weir__envoy_read(reading, root, options);
			envoys++;
			continue;
		}
		documents->roots[i] = root;
		if (!(options & WEIR__POLICY_HAS_OTHERS))
			check_top(reading->diagnostics, root);
		read_attributes(reading, weir__node_member(root, "attributes"));
		read_unmatched(reading, weir__node_member(root, "unmatched"));
		list = weir__node_member(root, "limits");
		reading->policy->has_list |= list != NULL;
		limits += count_limits(reading, list);
	}
	if (envoys > 0 && envoys < n)
		weir__diagnostics_add(
			reading->diagnostics, (struct weir__mark){ 1, 1 },
			"this file is in Weir's format, and others of the policy are in Envoy's; use one or the "
			"other");
	reading->policy->has_list |= envoys > 0;
	return limits;
}

/* Reads all attributes before all limits, so that an attribute's type does not depend on the order of files. */
static void read_parts(struct weir__policy_reading *reading, const struct weir__policy_part *parts, size_t n,
		       uint32_t options, struct documents *documents)
{
	const uint64_t limits = read_documents(reading, parts, n, options, documents);
	struct weir__rule *const rules = make_limits(reading, limits);

	for (size_t i = 0; rules && i < n; i++) {
		begin_part(reading, &parts[i]);
		if (documents->roots[i])
			read_limits(reading, weir__node_member(documents->roots[i], "limits"), rules);
	}
	if (rules)
		finish_limits(reading, rules);
}

struct weir_policy *weir__policy_of_parts(const struct weir__policy_part *parts, size_t n,
					  struct weir__diagnostics *diagnostics, uint32_t options)
{
	struct weir_policy *const policy = calloc(1, sizeof(*policy));
	struct weir__policy_reading reading = { .policy = policy, .diagnostics = diagnostics };
	struct documents documents = { .pool = weir__pool_of(policy_most) };

	if (policy == NULL || n > WEIR__POLICY_FILES_MAX) {
		weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 },
				      policy ? "a policy has at most %d files" : "no memory", WEIR__POLICY_FILES_MAX);
		free(policy);
		return NULL;
	}
	policy->pool = weir__pool_of(policy_most);
	policy->pool.is_looked_up = true;
	add_known_attributes(&policy->attributes);
	read_parts(&reading, parts, n, options, &documents);
	weir__pool_free(&documents.pool);
	identify_named_files(policy);
	if (diagnostics->n == 0)
		return policy;
	weir_policy_free(policy);
	return NULL;
}

int weir_policy_read(const char *text, size_t length, const char *name, weir_policy_report *report, void *context,
		     struct weir_policy **ret_policy)
{
	if (length > 0)
		WEIR__NOT_NULL(text, NULL);
	WEIR__NOT_NULL(ret_policy, NULL);

	struct weir__diagnostics diagnostics = { name ? name : "policy", report, context, 0 };
	const struct weir__policy_part part = { .text = { text, length }, .file = name };

	*ret_policy = weir__policy_of_parts(&part, 1, &diagnostics, 0);
	return *ret_policy ? WEIR_OK : WEIR_ERR_SYNTAX;
}

int weir_policy_load(const char *path, weir_policy_report *report, void *context, struct weir_policy **ret_policy)
{
	WEIR__NOT_NULL(path, NULL);
	WEIR__NOT_NULL(ret_policy, NULL);

	size_t length;
	char *text;
	int error = weir__text_file_read(path, text_most, &text, &length);

	if (error == EISDIR)
		return weir_policy_load_envoy(path, 0, report, context, ret_policy);
	if (error != 0) {
		struct weir__diagnostics diagnostics = { path, report, context, 0 };

		weir__diagnostics_add(&diagnostics, (struct weir__mark){ 0, 0 }, "%s", weir__text_file_error(error));
		errno = error;
		return WEIR_ERR_SYSTEM;
	}
	error = weir_policy_read(text, length, path, report, context, ret_policy);
	free(text);
	return error;
}
