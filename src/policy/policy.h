/* policy.h: a policy as it is kept. Made by read.c (Weir's own YAML) or envoy_read.c, never changed. */
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
	/* What the key of an address is cut to, unless told otherwise: a subscriber has at least a /64 of IPv6. */
	WEIR__BITS_V4 = 32,
	WEIR__BITS_V6 = 64,
};

/* What a key is made of. */
struct weir__key_part {
	unsigned attribute;
	bool is_address;             /* the attribute's type: then a byte tells addresses from what is none */
	unsigned bits_v4, bits_v6;   /* of addresses */
	struct weir__slice fallback; /* where it is missing; .at NULL: then the limit does not apply */
};

/* What applies instead of the limit: another one, another mode, or both. */
struct weir__override {
	uint32_t plan; /* NO_PLAN: that of the limit */
	enum weir_mode mode;
};

/* What every request that it matches looks at comes first, up to the first part of the key, in as few lines of the cache as
 * will do. */
struct weir__policy_limit {
	uint64_t cost;      /* UINT64_MAX: the caller's; of an attribute, where it is missing */
	int cost_attribute; /* -1: none */
	enum weir_mode mode;
	uint32_t plan;
	unsigned n_parts;
	const struct weir__override *instead; /* NULL: there is nothing that applies instead */
	struct weir__key_part parts[WEIR__KEY_PARTS_MAX];
	struct weir__rules overrides; /* the first that holds */
	struct weir__entries entries; /* then these, from a file */
	struct weir__slice name;
	struct weir__mark at;
	const char *file; /* in which that is; good while it is read */
};

struct weir__envoy;

/* A file that a policy names. */
struct weir__policy_file {
	struct weir__slice path;
	uint64_t hash; /* weir__policy_hash of what was read, with a seed of 0 */
	struct weir__policy_file *next;
};

struct weir_policy {
	struct weir__pool pool;
	struct weir__envoy *envoy; /* NULL: it is one of Weir's own, and has what follows. Else plans alone */
	struct weir__attributes attributes;
	struct weir__rules rules; /* one for each limit */
	struct weir__policy_limit *limits;
	uint32_t n_limits;
	bool has_list; /* `limits` was there, if only as an empty list */
	struct weir_policy_plan *plans;
	uint32_t n_plans;
	struct weir__policy_file *files; /* each as often as it is named */
};

/* weir_policy_match; ret_ahead, for each claim, has what weir__rules_look_ahead has said of the limit, or NULL if another plan
 * than the limit's own applies. */
int weir__policy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
		       uint64_t cost, struct weir_policy_answer *ret_answer, const struct weir__ahead **ret_ahead,
		       struct weir_message *ret_message);

/* weir_policy_explain, with the limits that apply before all others: for those who have room for some lines alone. Of a
 * request to which more apply than may, which is refused, all are in the order of the file. */
void weir__policy_explain_what_applies_first(const struct weir_policy *policy, const struct weir_attribute *attributes,
					     size_t n, weir_policy_report *report, void *context);

/* What of a limit applies to a request that it matches. */
struct weir__override weir__policy_resolve(const struct weir__policy_limit *limit, const struct weir__values *values);

/* Writes the key; false: an attribute is missing (*ret_missing), or there is no room (then that is -1). */
bool weir__policy_key(const struct weir__policy_limit *limit, const struct weir__values *values, char *room,
		      size_t size, size_t *ret_length, int *ret_missing);

#endif
