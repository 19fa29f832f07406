/* envoy_read.c: parses configurations of Envoy's ratelimit service. It accepts what that service accepts, and reports
 * everything that the service rejects, all errors at once. */

#include <stdio.h>

#include "policy/envoy.h"

static const struct {
	const char *word;
	enum weir_unit unit;
	weir_ns seconds;
} units[] = { { "second", WEIR_UNIT_SECOND, 1 },
	      { "minute", WEIR_UNIT_MINUTE, 60 },
	      { "hour", WEIR_UNIT_HOUR, 3600 },
	      { "day", WEIR_UNIT_DAY, 86400 },
	      { "week", WEIR_UNIT_WEEK, UINT64_C(604800) },
	      { "month", WEIR_UNIT_MONTH, UINT64_C(2592000) },
	      { "year", WEIR_UNIT_YEAR, UINT64_C(31536000) } };

enum { UNITS = sizeof(units) / sizeof(units[0]) };

struct weir_limit weir__envoy_limit(uint32_t options, enum weir_unit unit, uint64_t requests, bool *ret_is_closed)
{
	weir_ns period = 0;
	struct weir_limit limit;

	for (unsigned i = 0; i < UNITS; i++)
		if (units[i].unit == unit)
			period = units[i].seconds * UINT64_C(1000000000);
	limit = weir_limit_of(WEIR_FIXED_WINDOW, requests > 0 ? requests : 1, period);
	limit.count_all = options & WEIR_ENVOY_COUNT_EACH;
	*ret_is_closed = requests == 0;
	return limit;
}

/* --- YAML values ------------------------------------------------------------------------------------------------ */

static bool is_word(const struct weir__node *node, const char *const *words)
{
	if (node->kind != WEIR__NODE_TEXT || node->is_quoted)
		return false;
	while (*words && !weir__slice_is(node->text, *words))
		words++;
	return *words != NULL;
}

static const char *const nothing[] = { "", "~", "null", "Null", "NULL", NULL };
static const char *const yes[] = { "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y", NULL };
static const char *const no[] = { "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N", NULL };

/* Returns the value of a key. NULL if the key is missing or its value is empty or null. */
static const struct weir__node *member(const struct weir__node *map, const char *key)
{
	const struct weir__node *const node = weir__node_member(map, key);

	return node == NULL || is_word(node, nothing) ? NULL : node;
}

static struct weir__slice read_text(const struct weir__policy_reading *reading, const struct weir__node *map,
				    const char *key)
{
	const struct weir__node *const node = member(map, key);

	if (node == NULL || weir__node_text(reading->diagnostics, node, key) == NULL)
		return (struct weir__slice){ "", 0 };
	return node->text;
}

static bool read_bool(const struct weir__policy_reading *reading, const struct weir__node *map, const char *key)
{
	const struct weir__node *const node = member(map, key);

	if (node == NULL || is_word(node, no))
		return false;
	if (is_word(node, yes))
		return true;
	weir__diagnostics_add(reading->diagnostics, node->at, "invalid %s; use true or false", key);
	return false;
}

static uint64_t read_requests(const struct weir__policy_reading *reading, const struct weir__node *map)
{
	const struct weir__node *const node = member(map, "requests_per_unit");
	bool is_number = node && node->kind == WEIR__NODE_TEXT && !node->is_quoted &&
			 (node->text.n == 1 || node->text.at[0] != '0') && node->text.at[0] != '_';
	uint64_t number = 0;

	if (node == NULL)
		return 0;
	for (size_t i = 0; is_number && i < node->text.n; i++) {
		const unsigned digit = (unsigned)(unsigned char)node->text.at[i] - '0';

		if (node->text.at[i] == '_') /* 1_000_000 */
			continue;
		number = 10 * number + digit;
		is_number = digit <= 9 && number <= UINT32_MAX;
	}
	if (!is_number)
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "invalid requests_per_unit; use a whole number, 0 to 4294967295");
	return is_number ? number : 0;
}

/* Returns the first member of a list, or NULL. */
static const struct weir__node *read_list(const struct weir__policy_reading *reading, const struct weir__node *map,
					  const char *key)
{
	const struct weir__node *const node = member(map, key);

	if (node == NULL)
		return NULL;
	if (node->kind == WEIR__NODE_LIST)
		return node->members;
	weir__diagnostics_add(reading->diagnostics, node->at, "found %s; %s must be a list",
			      weir__node_kind_words(node), key);
	return NULL;
}

/* A known key is accepted at any place, even where it has no meaning, as Envoy's service does. */
static void check_keys(struct weir__diagnostics *diagnostics, const struct weir__node *map)
{
	static const char *const keys[] = { "domain",
					    "descriptors",
					    "key",
					    "value",
					    "rate_limit",
					    "unit",
					    "requests_per_unit",
					    "unlimited",
					    "name",
					    "replaces",
					    "shadow_mode",
					    "quota_mode",
					    "detailed_metric",
					    "value_to_metric",
					    "share_threshold",
					    "metadata",
					    NULL };

	(void)weir__node_check_keys(diagnostics, map, "an Envoy configuration", keys);
	for (const struct weir__node *value = map->members; value; value = value->next) {
		if (weir__slice_is(value->key->text, "metadata")) /* any keys */
			continue;
		if (value->kind == WEIR__NODE_MAP)
			check_keys(diagnostics, value);
		for (const struct weir__node *item = value->kind == WEIR__NODE_LIST ? value->members : NULL; item;
		     item = item->next)
			if (item->kind == WEIR__NODE_MAP)
				check_keys(diagnostics, item);
			else
				weir__diagnostics_add(diagnostics, item->at, "found %s; lists must contain maps",
						      weir__node_kind_words(item));
	}
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

/* Returns NONE if the word is missing or not a unit. */
static enum weir_unit unit_of(struct weir__slice word)
{
	for (unsigned i = 0; i < UNITS; i++) {
		size_t same = 0;

		while (same < word.n && units[i].word[same] != '\0' && (word.at[same] | 0x20) == units[i].word[same])
			same++;
		if (same == word.n && units[i].word[same] == '\0')
			return units[i].unit;
	}
	return WEIR_UNIT_NONE;
}

static void read_replaces(const struct weir__policy_reading *reading, const struct weir__node *map,
			  struct weir__envoy_node *to)
{
	const struct weir__node *const first = read_list(reading, map, "replaces");
	const uint32_t n = first ? member(map, "replaces")->n : 0;

	if (n > WEIR__ENVOY_REPLACES_MAX) {
		weir__diagnostics_add(reading->diagnostics, first->at, "too many limits to replace; use at most %d",
				      WEIR__ENVOY_REPLACES_MAX);
		return;
	}
	to->replaces = weir__pool_take_array(&reading->policy->pool, n, sizeof(to->replaces[0]));
	if (to->replaces == NULL) {
		(void)weir__policy_no_memory(reading, map->at);
		return;
	}
	for (const struct weir__node *node = first; node; node = node->next) {
		struct weir__slice name;

		if (node->kind != WEIR__NODE_MAP) /* it was reported */
			continue;
		name = read_text(reading, node, "name");
		if (name.n == 0)
			weir__diagnostics_add(reading->diagnostics, node->at,
					      "an item of replaces needs a name; use {name: NAME}");
		else if (weir__slice_equal(name, to->limit_name))
			weir__diagnostics_add(reading->diagnostics, node->at, "'%s' replaces itself", name.at);
		else
			to->replaces[to->n_replaces++] = weir__pool_copy(&reading->policy->pool, name);
	}
}

/* Writes the names from the domain down to a node, with '|' between them. Returns the length, of which at most `size`
 * bytes were written. Clears *is_plain if a name has a character that makes the path ambiguous. */
static size_t write_path(const struct weir__envoy *envoy, uint32_t number, char *room, size_t size, bool *is_plain)
{
	const struct weir__envoy_node *const node = &envoy->nodes[number];
	size_t length = 0;

	if (node->parent != WEIR__ENVOY_NONE) {
		length = write_path(envoy, node->parent, room, size, is_plain);
		if (length < size)
			room[length] = '|';
		length++;
	}
	for (size_t i = 0; i < node->name.n; i++, length++) {
		const char c = node->name.at[i];

		*is_plain = *is_plain && c != '|' && c != '~' && (unsigned char)c >= ' ';
		if (length < size)
			room[length] = (unsigned char)c < ' ' ? '?' : c;
	}
	return length;
}

/* A path that is too long, or is ambiguous, gets a hash at its end, to distinguish it from others. */
static const char *plan_name(const struct weir__policy_reading *reading, const struct weir__envoy *envoy,
			     uint32_t number)
{
	enum { HASH = 17 /* '~' and 16 digits */ };
	char name[WEIR__PLAN_NAME_MAX + 1];
	bool is_plain = true;
	size_t length = write_path(envoy, number, name, WEIR__PLAN_NAME_MAX, &is_plain);

	if (!weir__policy_clean_name(name, length < WEIR__PLAN_NAME_MAX ? length : WEIR__PLAN_NAME_MAX))
		is_plain = false;
	if (!is_plain || length > WEIR__PLAN_NAME_MAX) {
		if (length > WEIR__PLAN_NAME_MAX - HASH)
			length = WEIR__PLAN_NAME_MAX - HASH;
		(void)snprintf(name + length, HASH + 1, "~%016llx", (unsigned long long)envoy->nodes[number].hash);
		length += HASH;
	}
	return weir__pool_copy(&reading->policy->pool, (struct weir__slice){ name, length }).at;
}

static void read_limit(struct weir__policy_reading *reading, const struct weir__node *map, uint32_t number)
{
	struct weir__envoy *const envoy = reading->policy->envoy;
	struct weir__envoy_node *const to = &envoy->nodes[number];
	const struct weir__slice word = read_text(reading, map, "unit");
	const enum weir_unit unit = unit_of(word);
	const uint64_t requests = read_requests(reading, map);
	const struct weir__node *const at = member(map, "unit");
	struct weir_policy_plan plan = { .is_unlimited = read_bool(reading, map, "unlimited"),
					 .is_shadow = to->is_shadow,
					 .local = WEIR_POLICY_NO_PLAN };

	if (plan.is_unlimited && unit != WEIR_UNIT_NONE)
		weir__diagnostics_add(reading->diagnostics, at->at, "unit and unlimited are both set; remove one");
	else if (!plan.is_unlimited && unit == WEIR_UNIT_NONE)
		weir__diagnostics_add(reading->diagnostics, at ? at->at : map->at,
				      "unknown unit '%s'; use second, minute, hour, day, week, month or year", word.at);
	to->limit_name = weir__pool_copy(&reading->policy->pool, read_text(reading, map, "name"));
	to->is_named = to->limit_name.n > 0;
	read_replaces(reading, map, to);
	plan.limit = weir__envoy_limit(envoy->options, unit != WEIR_UNIT_NONE ? unit : WEIR_UNIT_SECOND, requests,
				       &plan.is_closed);
	plan.is_closed = plan.is_closed && !plan.is_unlimited;
	plan.name = plan_name(reading, envoy, number);
	to->plan = weir__policy_add_plan(reading, &plan, map->at);
}

/* --- metadata --------------------------------------------------------------------------------------------------- */

/* A decimal number, as in JSON, but also with a '+', and without digits on one side of the point. */
static bool is_number(struct weir__slice text)
{
	size_t i = text.n > 0 && (text.at[0] == '-' || text.at[0] == '+'), digits = 0, exponent = 0;

	for (; i < text.n && text.at[i] >= '0' && text.at[i] <= '9'; i++)
		digits++;
	if (i < text.n && text.at[i] == '.')
		for (i++; i < text.n && text.at[i] >= '0' && text.at[i] <= '9'; i++)
			digits++;
	if (digits == 0 || i == text.n)
		return digits > 0;
	if ((text.at[i] | 0x20) != 'e')
		return false;
	i++;
	i += i < text.n && (text.at[i] == '-' || text.at[i] == '+');
	for (; i < text.n && text.at[i] >= '0' && text.at[i] <= '9'; i++)
		exponent++;
	return exponent > 0 && i == text.n;
}

static enum weir_metadata_kind metadata_kind_of(const struct weir__node *node)
{
	if (node->kind != WEIR__NODE_TEXT)
		return node->kind == WEIR__NODE_MAP ? WEIR_METADATA_MAP : WEIR_METADATA_LIST;
	if (is_word(node, nothing))
		return WEIR_METADATA_NULL;
	if (is_word(node, yes))
		return WEIR_METADATA_TRUE;
	if (is_word(node, no))
		return WEIR_METADATA_FALSE;
	return !node->is_quoted && is_number(node->text) ? WEIR_METADATA_NUMBER : WEIR_METADATA_TEXT;
}

/* Copies a value, and counts it in *n. Returns NULL without memory, and if there are too many values. */
static struct weir_metadata *copy_metadata(struct weir__pool *pool, const struct weir__node *node, uint32_t *n)
{
	struct weir_metadata *const to = ++*n > WEIR__ENVOY_METADATA_MAX ? NULL : weir__pool_take(pool, sizeof(*to));
	const struct weir_metadata **end;

	if (to == NULL)
		return NULL;
	*to = (struct weir_metadata){ .kind = metadata_kind_of(node) };
	if (node->key) {
		to->name = weir__pool_copy(pool, node->key->text).at;
		to->name_length = node->key->text.n;
	}
	if (node->kind == WEIR__NODE_TEXT) {
		to->text = weir__pool_copy(pool, node->text).at;
		to->text_length = node->text.n;
	}
	if ((node->key && to->name == NULL) || (node->kind == WEIR__NODE_TEXT && to->text == NULL))
		return NULL;
	end = &to->members;
	for (const struct weir__node *one = node->members; one; one = one->next) {
		struct weir_metadata *const copy = copy_metadata(pool, one, n);

		if (copy == NULL)
			return NULL;
		*end = copy;
		end = &copy->next;
	}
	return to;
}

static void read_metadata(const struct weir__policy_reading *reading, const struct weir__node *map,
			  struct weir__envoy_node *to)
{
	const struct weir__node *const node = member(map, "metadata");
	uint32_t n = 0;

	if (node == NULL)
		return;
	if (node->kind != WEIR__NODE_MAP) {
		weir__diagnostics_add(reading->diagnostics, node->at, "found %s; metadata must be a map",
				      weir__node_kind_words(node));
		return;
	}
	to->metadata = copy_metadata(&reading->policy->pool, node, &n);
	if (n > WEIR__ENVOY_METADATA_MAX)
		weir__diagnostics_add(reading->diagnostics, node->at, "too many values in metadata; use at most %d",
				      WEIR__ENVOY_METADATA_MAX);
	else if (to->metadata == NULL)
		(void)weir__policy_no_memory(reading, node->at);
}

/* --- descriptors ------------------------------------------------------------------------------------------------ */

static void refuse_again(const struct weir__policy_reading *reading, const struct weir__envoy_node *before,
			 struct weir__mark at, const char *what)
{
	weir__diagnostics_add(reading->diagnostics, at, "duplicate %s '%s'; it was first given in %s:%u", what,
			      before->name.at, before->file, before->at.line);
}

/* Returns KEY_VALUE, or KEY without a value. .at NULL: no memory. */
static struct weir__slice name_of(const struct weir__policy_reading *reading, struct weir__slice key,
				  struct weir__slice value)
{
	const size_t length = key.n + (value.n > 0 ? 1 + value.n : 0);
	char *const name = weir__pool_take(&reading->policy->pool, length + 1);

	if (name == NULL)
		return (struct weir__slice){ NULL, 0 };
	memcpy(name, key.at, key.n);
	if (value.n > 0) {
		name[key.n] = '_';
		memcpy(name + key.n + 1, value.at, value.n);
	}
	return (struct weir__slice){ name, length };
}

static uint32_t add_node(const struct weir__policy_reading *reading, uint32_t parent, struct weir__slice name,
			 struct weir__mark at, const char *what)
{
	struct weir__envoy *const envoy = reading->policy->envoy;
	uint32_t number;

	if (name.at) {
		number = weir__envoy_find(envoy, parent, name);
		if (number != WEIR__ENVOY_NONE) {
			refuse_again(reading, &envoy->nodes[number], at, what);
			return WEIR__ENVOY_NONE;
		}
	}
	number = weir__envoy_add(envoy, &reading->policy->pool, parent, name);
	if (number == WEIR__ENVOY_NONE) {
		weir__diagnostics_add(reading->diagnostics, at, "no memory for it, or more than %d descriptors",
				      WEIR__ENVOY_NODES_MAX);
		return WEIR__ENVOY_NONE;
	}
	envoy->nodes[number].file = envoy->file;
	envoy->nodes[number].at = at;
	return number;
}

static void add_pattern(struct weir__envoy *envoy, uint32_t parent, uint32_t number)
{
	struct weir__envoy_node *const above = &envoy->nodes[parent];

	if (above->first_pattern == WEIR__ENVOY_NONE)
		above->first_pattern = number;
	else
		envoy->nodes[above->last_pattern].next_pattern = number;
	above->last_pattern = number;
}

static void read_descriptors(struct weir__policy_reading *reading, const struct weir__node *map, uint32_t parent);

static void read_descriptor(struct weir__policy_reading *reading, const struct weir__node *map, uint32_t parent)
{
	const struct weir__slice key = read_text(reading, map, "key"), value = read_text(reading, map, "value");
	const bool is_pattern = value.n > 0 && memchr(value.at, '*', value.n);
	const bool is_shared = read_bool(reading, map, "share_threshold");
	const struct weir__node *const limit = member(map, "rate_limit");
	struct weir__envoy_node *node;
	uint32_t number;

	(void)read_bool(reading, map, "detailed_metric");
	(void)read_bool(reading, map, "value_to_metric");
	if (key.n == 0) {
		if (member(map, "key") == NULL ||
		    member(map, "key")->kind == WEIR__NODE_TEXT) /* otherwise it was reported */
			weir__diagnostics_add(reading->diagnostics, map->at, "a descriptor needs a key; use key: NAME");
		return;
	}
	if (value.n > WEIR__ENVOY_VALUE_MAX)
		weir__diagnostics_add(reading->diagnostics, map->at, "the value is too long; use at most %d bytes",
				      WEIR__ENVOY_VALUE_MAX);
	if (is_shared && !is_pattern)
		weir__diagnostics_add(reading->diagnostics, map->at,
				      "share_threshold needs a pattern, and '%s' is not one; use a value with a '*'",
				      value.at);
	number = add_node(reading, parent, name_of(reading, key, value), map->at, "descriptor");
	if (number == WEIR__ENVOY_NONE)
		return;
	node = &reading->policy->envoy->nodes[number];
	if (value.n > 0)
		node->value = (struct weir__slice){ node->name.at + key.n + 1, value.n };
	node->is_shared = is_shared && is_pattern;
	node->is_shadow = read_bool(reading, map, "shadow_mode");
	node->is_quota = read_bool(reading, map, "quota_mode");
	read_metadata(reading, map, node);
	if (is_pattern)
		add_pattern(reading->policy->envoy, parent, number);
	if (limit && limit->kind == WEIR__NODE_MAP)
		read_limit(reading, limit, number);
	else if (limit)
		weir__diagnostics_add(reading->diagnostics, limit->at, "found %s; rate_limit must be a map",
				      weir__node_kind_words(limit));
	read_descriptors(reading, map, number);
}

/* The recursion is as deep as the document, which document.c bounds. */
static void read_descriptors(struct weir__policy_reading *reading, const struct weir__node *map, uint32_t parent)
{
	for (const struct weir__node *node = read_list(reading, map, "descriptors"); node; node = node->next)
		if (node->kind == WEIR__NODE_MAP) /* otherwise it was reported */
			read_descriptor(reading, node, parent);
}

/* --- a document ------------------------------------------------------------------------------------------------- */

bool weir__envoy_is(const struct weir__node *root)
{
	return root->kind == WEIR__NODE_MAP && weir__node_member(root, "domain");
}

void weir__envoy_read(struct weir__policy_reading *reading, const struct weir__node *root, uint32_t options)
{
	struct weir_policy *const policy = reading->policy;
	struct weir__slice domain;
	uint32_t number;

	if (root->kind != WEIR__NODE_MAP) {
		weir__diagnostics_add(reading->diagnostics, root->at,
				      "found %s; an Envoy configuration must be a map with a domain",
				      weir__node_kind_words(root));
		return;
	}
	if (policy->envoy == NULL)
		policy->envoy = weir__pool_take(&policy->pool, sizeof(*policy->envoy));
	if (policy->envoy)
		policy->envoy->file = weir__pool_copy(&policy->pool, weir__slice_of(reading->diagnostics->file)).at;
	if (policy->envoy == NULL || policy->envoy->file == NULL) {
		(void)weir__policy_no_memory(reading, root->at);
		return;
	}
	policy->envoy->options = options;
	check_keys(reading->diagnostics, root);
	if (weir__node_member(root, "unmatched"))
		weir__diagnostics_add(
			reading->diagnostics, weir__node_member(root, "unmatched")->at,
			"unmatched is not supported in Envoy's format, where requests without a limit are "
			"allowed");
	domain = read_text(reading, root, "domain");
	if (domain.n == 0) {
		weir__diagnostics_add(reading->diagnostics, root->at,
				      "the file needs a domain at the top level; use domain: NAME");
		return;
	}
	number = options & WEIR_ENVOY_MERGE_DOMAINS ? weir__envoy_find(policy->envoy, WEIR__ENVOY_NONE, domain) :
						      WEIR__ENVOY_NONE;
	if (number == WEIR__ENVOY_NONE)
		number = add_node(reading, WEIR__ENVOY_NONE, weir__pool_copy(&policy->pool, domain), root->at,
				  "domain");
	if (number != WEIR__ENVOY_NONE)
		read_descriptors(reading, root, number);
}
