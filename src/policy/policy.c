/* policy.c: finds the limits that apply to a request. */
#include "policy/policy.h"

#include <stdlib.h>

#include "core/argument.h"
#include "core/decimal.h"
#include "core/text.h"
#include "core/uninitialized.h"
#include "policy/envoy.h"

void weir_policy_free(struct weir_policy *policy)
{
	if (policy == NULL)
		return;
	weir__pool_free(&policy->pool);
	free(policy);
}

uint32_t weir_policy_limits(const struct weir_policy *policy)
{
	return policy->envoy ? policy->n_plans : policy->n_limits;
}

const char *weir_policy_limit_name(const struct weir_policy *policy, uint32_t limit)
{
	if (policy->envoy)
		return limit < policy->n_plans ? policy->plans[limit].name : NULL;
	return limit < policy->n_limits ? policy->limits[limit].name.at : NULL;
}

uint32_t weir_policy_plans(const struct weir_policy *policy)
{
	return policy->n_plans;
}

const struct weir_policy_plan *weir_policy_plan_of(const struct weir_policy *policy, uint32_t plan)
{
	return plan < policy->n_plans ? &policy->plans[plan] : NULL;
}

const struct weir__policy_limit *weir__policy_limit_of_plan(const struct weir_policy *policy, uint32_t plan)
{
	uint32_t low = 0, high = policy->n_limits;

	if (policy->n_plans == policy->n_limits) /* no limit has overrides */
		return &policy->limits[plan];
	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if (policy->limits[middle].plan <= plan)
			low = middle;
		else
			high = middle;
	}
	return &policy->limits[low];
}

struct weir__override weir__policy_resolve(const struct weir__policy_limit *limit, const struct weir__values *values)
{
	struct weir__override applies = { limit->plan, limit->mode };
	const struct weir__override *instead = NULL;
	const struct weir__entry *entry;
	uint32_t first;

	if (limit->instead == NULL)
		return applies;
	first = limit->overrides.n > 0 ? weir__rules_first(&limit->overrides, values) : UINT32_MAX;
	if (first != UINT32_MAX) {
		instead = &limit->instead[first];
	} else {
		entry = weir__entries_find(&limit->entries, values);
		if (entry)
			instead = &limit->instead[limit->overrides.n + entry->what];
	}
	if (instead == NULL)
		return applies;
	applies.mode = instead->mode;
	if (instead->plan != WEIR__NO_PLAN)
		applies.plan = instead->plan;
	return applies;
}

/* Writes the part of a key for one value. An address is cut to its network. A value of an address attribute that is not
 * an address is used as it is. Returns SIZE_MAX if it does not fit. */
static size_t write_part(const struct weir__key_part *part, const struct weir__value *value, char *room, size_t size)
{
	struct weir__slice bytes = value->text.at ? value->text : part->fallback;
	const bool is_address = value->text.at && value->is_address;
	struct weir__address masked;
	size_t length = 0;

	if (is_address) {
		masked = weir__address_mask(&value->address, value->address.is_v6 ? part->bits_v6 : part->bits_v4);
		bytes = (struct weir__slice){ (const char *)masked.bytes, weir__address_length(&masked) };
	}
	if (bytes.n + part->is_address > size)
		return SIZE_MAX;
	if (part->is_address)
		room[length++] = (char)(is_address ? weir__address_length(&masked) : 0);
	memcpy(room + length, bytes.at, bytes.n);
	return length + bytes.n;
}

bool weir__policy_key(const struct weir__policy_limit *limit, const struct weir__values *values, char *room,
		      size_t size, size_t *ret_length, int *ret_missing)
{
	const size_t head = limit->n_parts > 1 ? 2 : 0; /* in a key of several parts each has its length before it */
	size_t length = 0;

	*ret_missing = -1;
	for (unsigned i = 0; i < limit->n_parts; i++) {
		const struct weir__key_part *const part = &limit->parts[i];
		const struct weir__value *const value = &values->of[part->attribute];
		size_t n;

		if (value->text.at == NULL && part->fallback.at == NULL) {
			*ret_missing = (int)part->attribute;
			return false;
		}
		if (head > size - length)
			return false;
		n = write_part(part, value, room + length + head, size - length - head);
		if (n == SIZE_MAX || n > UINT16_MAX)
			return false;
		if (head) {
			room[length] = (char)(n & 0xff);
			room[length + 1] = (char)(n >> 8);
		}
		length += head + n;
	}
	*ret_length = length;
	return true;
}

/* Whether all requests have the same key under both limits. */
static bool has_same_key(const struct weir__policy_limit *limit, const struct weir__policy_limit *other)
{
	if (limit->n_parts != other->n_parts)
		return false;
	for (unsigned i = 0; i < limit->n_parts; i++) {
		const struct weir__key_part *const a = &limit->parts[i], *const b = &other->parts[i];

		if (a->attribute != b->attribute || a->is_address != b->is_address || a->bits_v4 != b->bits_v4 ||
		    a->bits_v6 != b->bits_v6 || a->fallback.at || b->fallback.at)
			return false;
	}
	return true;
}

static int refuse(struct weir_message *ret_message, const char *what, struct weir__slice name, const char *right)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	weir__text_add_quoted(&why, name.at, name.n);
	weir__text_add(&why, right);
	return WEIR_ERR_LIMIT;
}

static int find_cost(const struct weir_policy *policy, const struct weir__policy_limit *limit,
		     const struct weir__values *values, uint64_t given, uint64_t *ret_cost,
		     struct weir_message *ret_message)
{
	const struct weir__value *const value = limit->cost_attribute < 0 ? NULL : &values->of[limit->cost_attribute];

	if (value && value->text.at) {
		if (weir__decimal_read(value->text.at, value->text.n, UINT64_MAX, ret_cost))
			return WEIR_OK;
		return refuse(ret_message, "the attribute ", policy->attributes.of[limit->cost_attribute].name,
			      " is a cost: use a whole number, 0 or more");
	}
	*ret_cost = limit->cost == UINT64_MAX ? given : limit->cost;
	return WEIR_OK;
}

/* For the simplest limits, the bytes beside a rule are enough. For other limits they are only the beginning. */
static const struct weir__policy_limit *limit_of(const struct weir_policy *policy, const struct weir__found *found)
{
	const struct weir__policy_limit *const beside = found->beside;

	return beside->n_parts <= 1 && beside->instead == NULL ? beside : &policy->limits[found->number];
}

/* The key of the claim after those in the answer. `last` is the limit of the last of these. A key that is shared counts
 * like one of its own, since each claim of a request that waits gets a copy. */
static bool find_key(const struct weir__policy_limit *limit, const struct weir__policy_limit *last,
		     const struct weir__values *values, struct weir_policy_answer *answer, size_t *used,
		     int *ret_missing)
{
	struct weir_policy_claim *const one = &answer->claims[answer->n];
	const size_t size = sizeof(answer->room) - *used;

	*ret_missing = -1;
	if (last && has_same_key(limit, last)) {
		one->key = one[-1].key;
		one->key_length = one[-1].key_length;
		if (one->key_length > size)
			return false;
	} else {
		one->key = answer->room + *used;
		if (!weir__policy_key(limit, values, answer->room + *used, size, &one->key_length, ret_missing))
			return false;
	}
	*used += one->key_length;
	return true;
}

/* Adds the claim of one limit that matches. *last is the limit of the claim before; NULL: there is none. */
static int claim(const struct weir_policy *policy, const struct weir__found *found, const struct weir__values *values,
		 uint64_t cost, struct weir_policy_answer *answer, size_t *used, const struct weir__policy_limit **last,
		 const struct weir__ahead **ret_ahead, struct weir_message *ret_message)
{
	const struct weir__policy_limit *const limit = limit_of(policy, found);
	const struct weir__override applies = weir__policy_resolve(limit, values);
	struct weir_policy_claim *const one = &answer->claims[answer->n];
	int missing;

	if (applies.mode == WEIR_MODE_OFF) {
		/* A request whose key is too long also counts as matched. */
		if (weir__policy_key(limit, values, answer->room + *used, sizeof(answer->room) - *used,
				     &one->key_length, &missing) ||
		    missing < 0)
			answer->is_unmatched = false;
		return WEIR_OK;
	}
	if (!find_key(limit, *last, values, answer, used, &missing))
		return missing >= 0 ? WEIR_OK :
				      refuse(ret_message, "the key of ", policy->limits[found->number].name,
					     " is too long: all keys of a request have at most 16384 bytes");
	if (ret_ahead)
		ret_ahead[answer->n] = applies.plan == limit->plan ? found->ahead : NULL;
	one->limit = found->number;
	one->plan = applies.plan;
	one->mode = applies.mode;
	*last = limit;
	answer->n++;
	answer->is_unmatched = false;
	return find_cost(policy, limit, values, cost, &one->cost, ret_message);
}

int weir__policy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
		       uint64_t cost, struct weir_policy_answer *ret_answer, const struct weir__ahead **ret_ahead,
		       struct weir_message *ret_message)
{
	struct weir__found found[WEIR_POLICY_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct weir__values values WEIR__UNINITIALIZED;
	const struct weir__policy_limit *last = NULL;
	struct weir__slice name;
	size_t used = 0;
	uint32_t n_found;

	if (ret_ahead)
		memset(ret_ahead, 0, WEIR_POLICY_CLAIMS_MAX * sizeof(*ret_ahead));
	if (policy->envoy)
		return weir__envoy_match(policy, attributes, n, cost, ret_answer, ret_message);
	ret_answer->n = 0;
	ret_answer->is_unmatched = true;
	weir__values_begin(&policy->attributes, attributes, n, &values);
	weir__rules_fetch(&policy->rules, &values);
	if (!weir__values_end(&policy->attributes, &values, &name))
		return refuse(ret_message, "the attribute ", name,
			      " is too long: attributes that Weir normalises have at most 8192 bytes in total");
	n_found = weir__rules_all(&policy->rules, &values, found, WEIR_POLICY_CLAIMS_MAX);
	if (n_found > WEIR_POLICY_CLAIMS_MAX)
		return refuse(ret_message, "more than 16 limits apply, ", policy->limits[found[0].number].name,
			      " the first of them");
	for (uint32_t i = 0; i < n_found; i++) {
		const int error = claim(policy, &found[i], &values, cost, ret_answer, &used, &last, ret_ahead,
					ret_message);

		if (error != WEIR_OK)
			return error;
	}
	return WEIR_OK;
}

int weir_policy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
		      uint64_t cost, struct weir_policy_answer *ret_answer, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(policy, ret_message);
	WEIR__NOT_NULL(ret_answer, ret_message);
	if (n > 0)
		WEIR__NOT_NULL(attributes, ret_message);
	return weir__policy_match(policy, attributes, n, cost, ret_answer, NULL, ret_message);
}
