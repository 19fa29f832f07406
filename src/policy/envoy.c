/* envoy.c: finds the limits that apply to the descriptors of a request. */
#include "policy/envoy.h"

#include <stdio.h>

#include "core/argument.h"
#include "core/text.h"
#include "core/uninitialized.h"

static const uint64_t domain_seed = 5;

static uint64_t hash_of(const struct weir__envoy *envoy, uint32_t parent, struct weir__slice name)
{
	return weir__policy_hash(parent == WEIR__ENVOY_NONE ? domain_seed : envoy->nodes[parent].hash, name.at, name.n);
}

/* Returns the place of a node in the hash table, or the free place to put it. */
static uint32_t place_of(const struct weir__envoy *envoy, uint32_t parent, struct weir__slice name, uint64_t hash)
{
	const uint32_t mask = envoy->places_size - 1;
	uint32_t place = (uint32_t)hash & mask;

	for (; envoy->places[place].number != 0; place = (place + 1) & mask) {
		const struct weir__envoy_node *const node = &envoy->nodes[envoy->places[place].number - 1];

		if (envoy->places[place].hash == hash >> 32 && node->hash == hash && node->parent == parent &&
		    weir__slice_equal(node->name, name))
			break;
	}
	return place;
}

uint32_t weir__envoy_find(const struct weir__envoy *envoy, uint32_t parent, struct weir__slice name)
{
	if (envoy->n == 0)
		return WEIR__ENVOY_NONE;
	/* A free place has number 0, and 0 - 1 is WEIR__ENVOY_NONE. */
	return envoy->places[place_of(envoy, parent, name, hash_of(envoy, parent, name))].number - 1;
}

static bool make_room(struct weir__envoy *envoy, struct weir__pool *pool)
{
	const uint32_t size = envoy->size ? 2 * envoy->size : 16;
	struct weir__envoy_node *nodes;
	struct weir__envoy_place *places;

	if (envoy->n < envoy->size)
		return true;
	if (size > WEIR__ENVOY_NODES_MAX)
		return false;
	nodes = weir__pool_take_array(pool, size, sizeof(*nodes));
	places = weir__pool_take_array(pool, (size_t)2 * size, sizeof(*places));
	if (nodes == NULL || places == NULL)
		return false;
	if (envoy->n > 0)
		memcpy(nodes, envoy->nodes, envoy->n * sizeof(*nodes));
	envoy->nodes = nodes;
	envoy->places = places;
	envoy->size = size;
	envoy->places_size = 2 * size;
	for (uint32_t i = 0; i < envoy->n; i++)
		places[place_of(envoy, nodes[i].parent, nodes[i].name, nodes[i].hash)] =
			(struct weir__envoy_place){ (uint32_t)(nodes[i].hash >> 32), i + 1 };
	return true;
}

uint32_t weir__envoy_add(struct weir__envoy *envoy, struct weir__pool *pool, uint32_t parent, struct weir__slice name)
{
	uint64_t hash;

	if (name.at == NULL || !make_room(envoy, pool))
		return WEIR__ENVOY_NONE;
	hash = hash_of(envoy, parent, name);
	envoy->nodes[envoy->n] = (struct weir__envoy_node){ .name = name,
							    .hash = hash,
							    .parent = parent,
							    .plan = WEIR__NO_PLAN,
							    .first_pattern = WEIR__ENVOY_NONE,
							    .last_pattern = WEIR__ENVOY_NONE,
							    .next_pattern = WEIR__ENVOY_NONE };
	envoy->places[place_of(envoy, parent, name, hash)] = (struct weir__envoy_place){ (uint32_t)(hash >> 32),
											 envoy->n + 1 };
	return envoy->n++;
}

/* --- one descriptor --------------------------------------------------------------------------------------------- */

/* Only the value is a pattern: a '*' in the key is literal. */
static bool fits(const struct weir__envoy_node *node, struct weir__slice name)
{
	const struct weir__slice key = { node->name.at, node->name.n - node->value.n };

	return weir__slice_begins_with(name, key) &&
	       weir__glob_fits(node->value, (struct weir__slice){ name.at + key.n, name.n - key.n });
}

/* The same without the name in one piece. A pattern whose key is only the beginning of the entry's key does not fit. */
static bool fits_long(const struct weir__envoy_node *node, const struct weir_attribute *entry)
{
	const struct weir__slice key = { node->name.at, node->name.n - node->value.n };
	const struct weir__slice name = { entry->name, entry->name_length };
	struct weir__slice begin;

	if (key.n <= name.n || !weir__slice_begins_with(key, name) || key.at[name.n] != '_')
		return false;
	begin = (struct weir__slice){ key.at + name.n + 1, key.n - name.n - 1 };
	return weir__slice_begins_with((struct weir__slice){ entry->value, entry->value_length }, begin) &&
	       weir__glob_fits(node->value,
			       (struct weir__slice){ entry->value + begin.n, entry->value_length - begin.n });
}

static uint32_t step_long(const struct weir__envoy *envoy, uint32_t parent, const struct weir_attribute *entry)
{
	for (uint32_t i = envoy->nodes[parent].first_pattern; i != WEIR__ENVOY_NONE; i = envoy->nodes[i].next_pattern)
		if (fits_long(&envoy->nodes[i], entry))
			return i;
	return weir__envoy_find(envoy, parent, (struct weir__slice){ entry->name, entry->name_length });
}

uint32_t weir__envoy_step(const struct weir__envoy *envoy, uint32_t parent, const struct weir_attribute *entry,
			  char *room)
{
	if (entry->value_length > WEIR__ENVOY_VALUE_MAX)
		return step_long(envoy, parent, entry);

	const struct weir__slice key = { room, entry->name_length };
	const struct weir__slice name = { room, entry->name_length + 1 + entry->value_length };
	uint32_t found;

	if (entry->name_length > 0)
		memcpy(room, entry->name, entry->name_length);
	room[entry->name_length] = '_';
	if (entry->value_length > 0)
		memcpy(room + entry->name_length + 1, entry->value, entry->value_length);
	found = weir__envoy_find(envoy, parent, name);
	if (found != WEIR__ENVOY_NONE)
		return found;
	for (uint32_t i = envoy->nodes[parent].first_pattern; i != WEIR__ENVOY_NONE; i = envoy->nodes[i].next_pattern)
		if (fits(&envoy->nodes[i], name))
			return i;
	return weir__envoy_find(envoy, parent, key);
}

/* The buffer for keys. */
struct room {
	char *at;
	size_t size, used;
};

/* Appends a part of a key. Its length comes first, so that different parts give different keys. */
static bool put(struct room *room, const char *bytes, size_t n)
{
	if (room->size - room->used < 2 || n > room->size - room->used - 2 || n > UINT16_MAX)
		return false;
	room->at[room->used] = (char)(n & 0xff);
	room->at[room->used + 1] = (char)(n >> 8);
	if (n > 0)
		memcpy(room->at + room->used + 2, bytes, n);
	room->used += 2 + n;
	return true;
}

/* 128 bits, so that two long values do not share a count by chance. */
static struct weir__slice hash_text(const char *bytes, size_t n, char room[40])
{
	const int length = snprintf(room, 40, "#%016llx%016llx", (unsigned long long)weir__policy_hash(1, bytes, n),
				    (unsigned long long)weir__policy_hash(2, bytes, n));

	return (struct weir__slice){ room, (size_t)length };
}

/* Walks down the tree by the entries of a descriptor and appends the key. *ret_node is NONE if no node matches, or if
 * the descriptor has an inline limit, which needs no node. Returns false if the key does not fit. */
static bool walk(const struct weir__envoy *envoy, uint32_t domain, const struct weir_descriptor *descriptor,
		 struct room *room, uint32_t *ret_node)
{
	uint32_t at = descriptor->unit == WEIR_UNIT_NONE ? domain : WEIR__ENVOY_NONE;

	if (!put(room, envoy->nodes[domain].name.at, envoy->nodes[domain].name.n))
		return false;
	for (size_t i = 0; i < descriptor->n && (at != WEIR__ENVOY_NONE || descriptor->unit != WEIR_UNIT_NONE); i++) {
		const struct weir_attribute *const entry = &descriptor->entries[i];
		const size_t left = room->size - room->used;
		struct weir__slice value = { entry->value, entry->value_length };
		char hash[40];

		if (value.n > WEIR__ENVOY_VALUE_MAX)
			value = hash_text(value.at, value.n, hash);
		if (entry->name_length >= left || value.n >= left - entry->name_length)
			return false;
		if (at != WEIR__ENVOY_NONE)
			at = weir__envoy_step(envoy, at, entry, room->at + room->used);
		if (at != WEIR__ENVOY_NONE && envoy->nodes[at].is_shared)
			value = envoy->nodes[at].value;
		if (!put(room, entry->name, entry->name_length) || !put(room, value.at, value.n))
			return false;
	}
	*ret_node = at;
	return true;
}

static int refuse(struct weir_message *ret_message, int error, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return error;
}

/* Never cuts a character in two. */
static void put_name(struct weir_descriptor_claim *claim, struct weir__slice name)
{
	size_t n = name.n;

	if (n > WEIR_DESCRIPTOR_NAME_MAX)
		for (n = WEIR_DESCRIPTOR_NAME_MAX; n > 0 && ((unsigned char)name.at[n] & 0xc0) == 0x80;)
			n--;
	memcpy(claim->name, name.at, n);
	claim->name[n] = '\0';
}

/* *ret_node is the node that the descriptor leads to, or NONE. */
static int match_one(const struct weir_policy *policy, uint32_t domain, const struct weir_descriptor *descriptor,
		     uint64_t hits, struct room *room, struct weir_descriptor_claim *claim, uint32_t *ret_node,
		     struct weir_message *ret_message)
{
	const struct weir__envoy *const envoy = policy->envoy;
	const struct weir__envoy_node *node;
	const size_t begin = room->used;

	*claim = (struct weir_descriptor_claim){ .plan = WEIR_POLICY_NO_PLAN };
	*ret_node = WEIR__ENVOY_NONE;
	if (descriptor->unit > WEIR_UNIT_WEEK)
		return refuse(ret_message, WEIR_ERR_LIMIT, "an inline limit needs a unit, 1 to 7");
	if (domain == WEIR__ENVOY_NONE || descriptor->n == 0)
		return WEIR_OK;
	if (!walk(envoy, domain, descriptor, room, ret_node))
		return refuse(ret_message, WEIR_ERR_LIMIT,
			      "descriptors are too long: all keys of a request have at most 16384 bytes");
	node = *ret_node == WEIR__ENVOY_NONE ? NULL : &envoy->nodes[*ret_node];
	if (descriptor->unit != WEIR_UNIT_NONE) {
		claim->limit = weir__envoy_limit(envoy->options, descriptor->unit, descriptor->requests_per_unit,
						 &claim->is_closed);
	} else if (node && node->plan != WEIR__NO_PLAN) {
		claim->plan = node->plan;
		claim->limit = policy->plans[node->plan].limit;
		claim->is_unlimited = policy->plans[node->plan].is_unlimited;
		claim->is_closed = policy->plans[node->plan].is_closed;
		claim->is_quota = node->is_quota;
		claim->mode = node->is_shadow ? WEIR_MODE_SHADOW : WEIR_MODE_ENFORCE;
		claim->metadata = node->metadata;
		if (node->is_named)
			put_name(claim, node->limit_name);
	} else {
		room->used = begin;
		return WEIR_OK;
	}
	claim->applies = true;
	claim->key = room->at + begin;
	claim->key_length = room->used - begin;
	claim->cost = descriptor->has_hits ? descriptor->hits : hits;
	claim->is_refund = descriptor->is_refund;
	if (claim->is_closed && claim->cost > 0)
		claim->cost = 2;
	return WEIR_OK;
}

/* --- a request -------------------------------------------------------------------------------------------------- */

static bool replaces(const struct weir__envoy_node *node, struct weir__slice name)
{
	for (uint32_t i = 0; i < node->n_replaces; i++)
		if (weir__slice_equal(node->replaces[i], name))
			return true;
	return false;
}

/* A limit that is itself replaced still replaces others. An unlimited one is never replaced. */
static void drop_replaced(const struct weir__envoy *envoy, const uint32_t *nodes,
			  struct weir_descriptors_answer *answer)
{
	for (size_t i = 0; i < answer->n; i++) {
		struct weir_descriptor_claim *const claim = &answer->claims[i];
		const bool is_named = claim->applies && !claim->is_unlimited && nodes[i] != WEIR__ENVOY_NONE &&
				      envoy->nodes[nodes[i]].is_named;

		for (size_t j = 0; is_named && claim->applies && j < answer->n; j++)
			if (nodes[j] != WEIR__ENVOY_NONE &&
			    replaces(&envoy->nodes[nodes[j]], envoy->nodes[nodes[i]].limit_name))
				claim->applies = false;
	}
}

static int check_request(const struct weir_policy *policy, size_t domain_length, size_t n,
			 struct weir_message *ret_message)
{
	if (policy->envoy == NULL)
		return refuse(ret_message, WEIR_ERR_UNSUPPORTED,
			      "the policy is in Weir's format, which has no domains; send attributes");
	if (domain_length == 0)
		return refuse(ret_message, WEIR_ERR_LIMIT, "the domain is empty; name the domain in the request");
	if (n == 0 || n > WEIR_DESCRIPTORS_MAX)
		return refuse(ret_message, WEIR_ERR_LIMIT, "wrong number of descriptors; use 1 to 64");
	return WEIR_OK;
}

int weir_policy_match_descriptors(const struct weir_policy *policy, const char *domain, size_t domain_length,
				  const struct weir_descriptor *descriptors, size_t n, uint64_t hits,
				  struct weir_descriptors_answer *ret_answer, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(policy, ret_message);
	if (domain_length > 0)
		WEIR__NOT_NULL(domain, ret_message);
	if (n > 0)
		WEIR__NOT_NULL(descriptors, ret_message);
	WEIR__NOT_NULL(ret_answer, ret_message);

	struct room room = { ret_answer->room, sizeof(ret_answer->room), 0 };
	uint32_t nodes[WEIR_DESCRIPTORS_MAX], top;
	int error;

	ret_answer->n = 0;
	error = check_request(policy, domain_length, n, ret_message);
	if (error != WEIR_OK)
		return error;
	top = weir__envoy_find(policy->envoy, WEIR__ENVOY_NONE, (struct weir__slice){ domain, domain_length });
	for (size_t i = 0; i < n; i++) {
		error = match_one(policy, top, &descriptors[i], hits, &room, &ret_answer->claims[i], &nodes[i],
				  ret_message);
		if (error != WEIR_OK)
			return error;
	}
	ret_answer->n = n;
	drop_replaced(policy->envoy, nodes, ret_answer);
	return WEIR_OK;
}

bool weir__envoy_split(const struct weir_attribute *attributes, size_t n, struct weir__slice *ret_domain,
		       struct weir_attribute entries[WEIR__ENVOY_ENTRIES_MAX], size_t *ret_n)
{
	*ret_domain = (struct weir__slice){ NULL, 0 };
	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		const struct weir__slice name = { attributes[i].name, attributes[i].name_length };

		if (ret_domain->n == 0 && weir__slice_is(name, "domain"))
			*ret_domain = (struct weir__slice){ attributes[i].value, attributes[i].value_length };
		else if (*ret_n < WEIR__ENVOY_ENTRIES_MAX)
			entries[(*ret_n)++] = attributes[i];
		else
			return false;
	}
	return ret_domain->n > 0;
}

const char weir__envoy_request[] = "this policy is in Envoy's format; send domain=NAME and at most 64 other attributes";

/* The request has only one descriptor, so a quota counts as a limit. */
int weir__envoy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
		      uint64_t cost, struct weir_policy_answer *ret_answer, struct weir_message *ret_message)
{
	struct room room = { ret_answer->room, sizeof(ret_answer->room), 0 };
	struct weir_attribute entries[WEIR__ENVOY_ENTRIES_MAX] WEIR__UNINITIALIZED;
	struct weir_descriptor descriptor = { .entries = entries };
	struct weir_descriptor_claim claim;
	struct weir__slice domain;
	uint32_t node;
	int error;

	ret_answer->n = 0;
	ret_answer->is_unmatched = false;
	if (!weir__envoy_split(attributes, n, &domain, entries, &descriptor.n))
		return refuse(ret_message, WEIR_ERR_LIMIT, weir__envoy_request);
	error = match_one(policy, weir__envoy_find(policy->envoy, WEIR__ENVOY_NONE, domain), &descriptor, cost, &room,
			  &claim, &node, ret_message);
	if (error == WEIR_OK && claim.applies)
		ret_answer->claims[ret_answer->n++] = (struct weir_policy_claim){ .limit = claim.plan,
										  .plan = claim.plan,
										  .mode = claim.mode,
										  .key = claim.key,
										  .key_length = claim.key_length,
										  .cost = claim.cost };
	return error;
}
