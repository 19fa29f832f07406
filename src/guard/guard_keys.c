/* guard_keys.c: writes keys of the policy's limits as text. */
#include "core/text.h"
#include "guard/guard_internal.h"
#include "policy/key_text.h"

bool weir__guard_is_prefix(const char *text, size_t length)
{
	return length > 0 && weir__key_prefix_length((struct weir__slice){ text, length }) == length;
}

int weir__guard_add_prefix(const struct weir__guard_prefix *prefix, size_t *used, const char **key, size_t *length,
			   struct weir_message *ret_message)
{
	char *const to = prefix->room + *used;
	struct weir__text why;

	if (prefix->n + *length > prefix->size - *used) {
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why,
			       "the keys of the request, with the user's key_prefix, are too long: use shorter ones");
		return WEIR_ERR_FULL;
	}
	memcpy(to, prefix->at, prefix->n);
	if (*length > 0)
		memcpy(to + prefix->n, *key, *length);
	*key = to;
	*length += prefix->n;
	*used += *length;
	return WEIR_OK;
}

size_t weir__guard_write_key(const struct weir_policy *policy, uint32_t plan, const void *key, size_t length,
			     size_t whole, char *text, size_t size)
{
	const struct weir__key_bytes bytes = { key, length, whole };
	const bool is_known = policy && plan != WEIR_POLICY_NO_PLAN && (policy->envoy || policy->n_limits > 0);
	const struct weir__policy_limit *const limit = is_known && !policy->envoy ?
							       weir__policy_limit_of_plan(policy, plan) :
							       NULL;

	return weir__policy_key_text(is_known ? policy : NULL, limit, &bytes, text, size);
}

size_t weir__key_text(const void *key, size_t length, size_t whole, char *text, size_t size)
{
	return weir__guard_write_key(NULL, 0, key, length, whole, text, size);
}

/* A limit whose keys started over has another name in the table: ~, 16 hexadecimal digits and the plan's name
 * (name_anew in bound_policy.c). */
static uint32_t plan_of(const struct weir__bound_policy *bound, const char *name)
{
	const size_t length = strlen(name), anew = name[0] == '~' && length > 17 ? 17 : 0;

	return weir__bound_policy_plan_named(bound, name + anew, length - anew);
}

size_t weir__guard_key_text(struct weir_guard *guard, const char *plan, const void *key, size_t length, size_t whole,
			    char *text, size_t size)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const size_t written = weir__guard_write_key(bound->policy, plan_of(bound, plan), key, length, whole, text,
						     size);

	weir__epoch_leave(&guard->epoch, phase);
	return written;
}
