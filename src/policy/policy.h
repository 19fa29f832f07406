/* policy.h: a policy in memory. read.c (Weir's own YAML) or envoy_read.c makes it. After that it never changes. The
 * reasons are in docs/internals/policies.md. */
#ifndef WEIR_POLICY_POLICY_H
#define WEIR_POLICY_POLICY_H

#include <weir/policy.h>

#include "policy/entries.h"
#include "policy/rules.h"

enum {
	WEIR__KEY_PARTS_MAX = 8,
	WEIR__PLAN_NAME_MAX = 63,
	WEIR__LIMIT_NAME_MAX = 40,
	WEIR__LIMITS_MAX = 1 << 20,
	WEIR__NO_PLAN = WEIR_POLICY_NO_PLAN,
	/* The default prefix that the address in a key is cut to. A subscriber has at least a /64 of IPv6. */
	WEIR__BITS_V4 = 32,
	WEIR__BITS_V6 = 64,
};

/* A part of a key. */
struct weir__key_part {
	unsigned attribute;
	bool is_address;             /* the attribute is of type address: a first byte distinguishes addresses */
	unsigned bits_v4, bits_v6;   /* prefix lengths for addresses */
	struct weir__slice fallback; /* used if the attribute is missing; .at NULL: the limit then does not apply */
};

/* What applies instead of the limit: another limit, another mode, or both. */
struct weir__override {
	uint32_t plan; /* NO_PLAN: the limit's own plan */
	enum weir_mode mode;
};

/* The fields that every matching request reads come first, up to the first part of the key, to touch few cache
 * lines. */
struct weir__policy_limit {
	uint64_t cost;      /* of a request without the cost attribute; UINT64_MAX: the caller's cost */
	int cost_attribute; /* -1: the cost is not an attribute */
	enum weir_mode mode;
	uint32_t plan;
	unsigned n_parts;
	const struct weir__override *instead; /* the overrides' plans and modes; NULL: no overrides */
	struct weir__key_part parts[WEIR__KEY_PARTS_MAX];
	struct weir__rules overrides; /* the first that holds applies */
	struct weir__entries entries; /* from a file, tried after `overrides` */
	struct weir__slice name;
	struct weir__mark at;
	/* The file that `at` is in. Valid only while the policy is read. */
	const char *file;
};

/* What the policy does with requests that no limit matches. */
enum weir__unmatched {
	WEIR__UNMATCHED_UNSET, /* the same as ALLOW */
	WEIR__UNMATCHED_ALLOW,
	WEIR__UNMATCHED_DENY,
};

struct weir__envoy;

/* A file that a policy names. */
struct weir__policy_file {
	struct weir__slice path;
	uint64_t hash; /* weir__policy_hash of its content, with seed 0 */
	struct weir__policy_file *next;
};

struct weir_policy {
	struct weir__pool pool;
	/* NULL: a policy in Weir's own format, which has the fields below. Else only the plans are used. */
	struct weir__envoy *envoy;
	struct weir__attributes attributes;
	struct weir__rules rules; /* one for each limit */
	struct weir__policy_limit *limits;
	uint32_t n_limits;
	bool has_list; /* `limits` is present, perhaps as an empty list */
	enum weir__unmatched unmatched;
	uint32_t used; /* the attributes that limits use, a bit each */
	struct weir_policy_plan *plans;
	uint32_t n_plans;
	bool has_waits;                  /* a plan has a `wait` */
	struct weir__policy_file *files; /* one for each time that a file is named */
	/* Hash of the policy's content. It ignores file names, comments and settings. */
	uint64_t identity;
};

/* weir_policy_match. ret_ahead gets, for each claim, what weir__rules_look_ahead set for the limit, or NULL if a plan
 * other than the limit's own applies. ret_ahead may be NULL. */
int weir__policy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
		       uint64_t cost, struct weir_policy_answer *ret_answer, const struct weir__ahead **ret_ahead,
		       struct weir_message *ret_message);

/* Says why a limit that the policy leases stays exact. Empty: it does not. */
typedef const char *weir__policy_why_exact(void *context, const struct weir_policy_plan *plan);

/* weir_policy_explain, which also says of limits that the policy leases whether they stay exact. why_exact gets the
 * context, too. */
void weir__policy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			  weir__policy_why_exact *why_exact, weir_policy_report *report, void *context);

/* weir__policy_explain, with the limits that apply before all others, for callers with room for a few lines. If more
 * limits apply than a request may have, the request is an error, and all limits are in the order of the file. */
void weir__policy_explain_what_applies_first(const struct weir_policy *policy, const struct weir_attribute *attributes,
					     size_t n, weir__policy_why_exact *why_exact, weir_policy_report *report,
					     void *context);

/* For a request that no limit matches: finds an attribute whose name may be misspelled. Returns its index, and
 * *ret_meant is the name that limits use. Returns n if no name seems misspelled. */
size_t weir__policy_find_misspelled(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
				    struct weir__slice *ret_meant);

/* The limit that a plan belongs to, in a policy that has limits. The plans of a limit's overrides follow its own plan,
 * before the next limit's plan. */
const struct weir__policy_limit *weir__policy_limit_of_plan(const struct weir_policy *policy, uint32_t plan);

/* Returns the plan and mode of a limit for a request that it matches. */
struct weir__override weir__policy_resolve(const struct weir__policy_limit *limit, const struct weir__values *values);

/* Writes the key. Returns false if an attribute is missing (*ret_missing is its number) or the key does not fit
 * (*ret_missing is -1). */
bool weir__policy_key(const struct weir__policy_limit *limit, const struct weir__values *values, char *room,
		      size_t size, size_t *ret_length, int *ret_missing);

#endif
