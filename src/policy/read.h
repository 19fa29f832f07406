/* read.h: shared by the files that read a policy from YAML. */
#ifndef WEIR_POLICY_READ_H
#define WEIR_POLICY_READ_H

#include "policy/document.h"
#include "policy/policy.h"

struct weir__policy_reading {
	struct weir_policy *policy;
	struct weir__diagnostics *diagnostics;
	const char *folder; /* where named files are; NULL: the policy may not name files */
	size_t folder_length;
	uint32_t plans_size;      /* capacity of policy->plans */
	const char *unmatched_in; /* the file that says `unmatched`, if one does */
};

/* Whether this is a key at the top of a policy in Weir's own format. */
bool weir__policy_is_top_key(struct weir__slice key);

/* Reports that memory ran out. Returns false. */
bool weir__policy_no_memory(const struct weir__policy_reading *reading, struct weir__mark at);

/* Reports keys of a map that are not in `keys`, which ends with NULL. Returns false if the node is not a map. */
bool weir__node_check_keys(struct weir__diagnostics *diagnostics, const struct weir__node *map, const char *what,
			   const char *const *keys);

/* Returns the node if it is a text. Otherwise reports that and returns NULL. */
const struct weir__node *weir__node_text(struct weir__diagnostics *diagnostics, const struct weir__node *node,
					 const char *what);

/* Returns the number of the named attribute, or -1 after a report. An unknown attribute is added. */
int weir__policy_attribute(const struct weir__policy_reading *reading, const struct weir__node *name);

/* read_conditions.c: reads the conditions of `match` and `when`. Returns false if something was reported. */
bool weir__policy_read_rule(const struct weir__policy_reading *reading, const struct weir__node *map,
			    struct weir__rule *ret_rule);

/* Whether every request that meets `rule` also meets `other`. False if that is unknown. */
bool weir__rule_implies(const struct weir__rule *rule, const struct weir__rule *other);

/* Whether no request can meet both rules. False if that is unknown. */
bool weir__rules_exclude(const struct weir__rule *a, const struct weir__rule *b);

/* Whether a rule holds only if the attribute is missing. */
bool weir__rule_needs_absence(const struct weir__rule *rule, unsigned attribute);

/* read_plans.c: parses a limit and adds it as a plan called `name`. `of` is the policy limit that it is for, with its
 * name and cost set. Returns the plan's number, or NO_PLAN after a report. A limit that a table cannot hold is
 * reported, too, since a table decides when a store fails. */
uint32_t weir__policy_read_plan(struct weir__policy_reading *reading, const struct weir__policy_limit *of,
				struct weir__slice name, struct weir__slice text, struct weir__mark at);

/* Returns the number of the new plan, or NO_PLAN after a report. plan->name NULL means that memory ran out. */
uint32_t weir__policy_add_plan(struct weir__policy_reading *reading, const struct weir_policy_plan *plan,
			       struct weir__mark at);

/* Replaces control characters by question marks. Returns whether there were none. */
bool weir__policy_clean_name(char *name, size_t length);

/* The name of a plan: the limit's name and a suffix that distinguishes the plan. */
struct weir__slice weir__policy_plan_name(const struct weir__policy_reading *reading, struct weir__slice limit,
					  struct weir__slice apart);

/* read_failure.c: reads the store settings of a limit or override, and sets them in `plan`. `plan` is NO_PLAN if the
 * plan could not be read. An override inherits from the limit what it does not set. `apart` is the suffix of the
 * override's name. */
void weir__policy_read_failure(struct weir__policy_reading *reading, const struct weir__node *map,
			       const struct weir__policy_limit *limit, uint32_t plan, struct weir__slice apart);

/* The same for an override that sets nothing. */
void weir__policy_inherit_failure(struct weir__policy_reading *reading, const struct weir__policy_limit *limit,
				  uint32_t plan);

/* A whole number of ms or s, in ns. Returns 0 if the text is not one. */
weir_ns weir__policy_time_of(struct weir__slice text);

/* read_consistency.c: reads `consistency` of a limit or an override, and sets it in `plan`. */
void weir__policy_read_consistency(const struct weir__policy_reading *reading, const struct weir__node *node,
				   uint32_t plan);

/* read_wait.c: reads `wait` of a limit or an override, and sets it in `plan`. An override that shapes and does not set
 * it inherits it. */
void weir__policy_read_wait(struct weir__policy_reading *reading, const struct weir__node *map,
			    const struct weir__policy_limit *limit, uint32_t plan);
void weir__policy_inherit_wait(struct weir__policy_reading *reading, const struct weir__policy_limit *limit,
			       uint32_t plan);

/* Returns the mode that `node` has, or `otherwise` if it is missing or wrong. */
enum weir_mode weir__policy_read_mode(struct weir__diagnostics *diagnostics, const struct weir__node *node,
				      enum weir_mode otherwise);
bool weir__policy_mode_of(struct weir__slice word, enum weir_mode *ret_mode);

/* read_overrides.c: reads the overrides of a limit, after everything else of the limit. `list` and `from`, the name of
 * a file, may be NULL. `match` is the limit's rule. */
void weir__policy_read_overrides(struct weir__policy_reading *reading, const struct weir__node *list,
				 const struct weir__node *from, struct weir__policy_limit *limit,
				 const struct weir__rule *match);

/* read_entries.c: reads overrides from a file. `before` are the n_before overrides of the policy itself. Sets
 * limit->entries and limit->instead. */
bool weir__policy_read_entries(struct weir__policy_reading *reading, struct weir__policy_limit *limit,
			       const struct weir__node *from, const struct weir__override *before, uint32_t n_before);

/* read_crowd.c: reports if more limits can apply to one request than are allowed. */
void weir__policy_check_crowd(const struct weir__policy_reading *reading);

enum { WEIR__POLICY_FILES_MAX = 256 };

/* A file of a policy. */
struct weir__policy_part {
	struct weir__slice text;
	const char *file; /* NULL: the text is not from a file and may not name files */
	bool is_text;     /* `file` is only a name for messages; the text may not name files */
};

/* A flag beside WEIR_ENVOY_...: top-level keys that do not belong to a policy are allowed, since another module checks
 * them. */
enum { WEIR__POLICY_HAS_OTHERS = 1 << 16 };

/* Makes one policy of all files. NULL: something was reported. */
struct weir_policy *weir__policy_of_parts(const struct weir__policy_part *parts, size_t n,
					  struct weir__diagnostics *diagnostics, uint32_t options);

#endif
