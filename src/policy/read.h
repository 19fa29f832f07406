/* read.h: what the files that make a policy of YAML share. */
#ifndef WEIR_POLICY_READ_H
#define WEIR_POLICY_READ_H

#include "policy/document.h"
#include "policy/policy.h"

struct weir__policy_reading {
	struct weir_policy *policy;
	struct weir__diagnostics *diagnostics;
	const char *folder; /* of files that are named; NULL: none may be */
	size_t folder_length;
	uint32_t plans_size; /* room in policy->plans */
};

/* One that has run out of memory: that was reported. */
bool weir__policy_no_memory(const struct weir__policy_reading *reading, struct weir__mark at);

/* Keys of a map that are not in the list, which ends with NULL, are reported; false if it is no map. */
bool weir__node_check_keys(struct weir__diagnostics *diagnostics, const struct weir__node *map, const char *what,
			   const char *const *keys);

/* A text, else that is reported and NULL returned. */
const struct weir__node *weir__node_text(struct weir__diagnostics *diagnostics, const struct weir__node *node,
					 const char *what);

/* The number of an attribute that is named, or -1 after a report. */
int weir__policy_attribute(const struct weir__policy_reading *reading, const struct weir__node *name);

/* read_conditions.c: the conditions of `match` and `when`. False: something was reported. */
bool weir__policy_read_rule(const struct weir__policy_reading *reading, const struct weir__node *map,
			    struct weir__rule *ret_rule);

/* Whether whatever meets a rule meets the other, as far as can be told. */
bool weir__rule_implies(const struct weir__rule *rule, const struct weir__rule *other);

/* Whether nothing can meet both, as far as can be told. */
bool weir__rules_exclude(const struct weir__rule *a, const struct weir__rule *b);

/* Whether a rule holds only where the attribute is missing. */
bool weir__rule_needs_absence(const struct weir__rule *rule, unsigned attribute);

/* read_plans.c: a limit that was written for `of`, whose name and cost are known, under the name of its plan; the plan's
 * number, or NO_PLAN after a report. One that a table cannot have is reported, too: it is where limits are decided, also when
 * a store beside it fails. */
uint32_t weir__policy_read_plan(struct weir__policy_reading *reading, const struct weir__policy_limit *of,
				struct weir__slice name, struct weir__slice text, struct weir__mark at);

/* The number of a plan that is added, or NO_PLAN after a report. A name that is NULL: there was no memory for it. */
uint32_t weir__policy_add_plan(struct weir__policy_reading *reading, const struct weir_policy_plan *plan,
			       struct weir__mark at);

/* A name for a plan: the limit's, and what sets it apart. */
struct weir__slice weir__policy_plan_name(const struct weir__policy_reading *reading, struct weir__slice limit,
					  struct weir__slice apart);

/* read_failure.c: what the map of a limit or override says of a store that fails, for the plan that it has, or NO_PLAN if that
 * could not be read. What an override does not say is as the limit says it. `apart` is what sets its name apart. */
void weir__policy_read_failure(struct weir__policy_reading *reading, const struct weir__node *map,
			       const struct weir__policy_limit *limit, uint32_t plan, struct weir__slice apart);

/* The same of an override that says nothing of it. */
void weir__policy_inherit_failure(struct weir__policy_reading *reading, const struct weir__policy_limit *limit,
				  uint32_t plan);

/* Reads `mode`; what it says, or `otherwise` if it says nothing. */
enum weir_mode weir__policy_read_mode(struct weir__diagnostics *diagnostics, const struct weir__node *node,
				      enum weir_mode otherwise);
bool weir__policy_mode_of(struct weir__slice word, enum weir_mode *ret_mode);

/* read_overrides.c: overrides of a limit that was read, but for these: a list, and the name of a file, or NULL. `match` is the
 * limit's. */
void weir__policy_read_overrides(struct weir__policy_reading *reading, const struct weir__node *list,
				 const struct weir__node *from, struct weir__policy_limit *limit,
				 const struct weir__rule *match);

/* read_entries.c: overrides from a file; `before` overrides were written out. Sets limit->entries and limit->instead. */
bool weir__policy_read_entries(struct weir__policy_reading *reading, struct weir__policy_limit *limit,
			       const struct weir__node *from, const struct weir__override *before, uint32_t n_before);

/* read_crowd.c: reports if more limits can apply to one request than may. */
void weir__policy_check_crowd(const struct weir__policy_reading *reading);

enum { WEIR__POLICY_FILES_MAX = 256 };

/* A file of a policy. */
struct weir__policy_part {
	struct weir__slice text;
	const char *file; /* NULL: it is none, and may name none */
	bool is_text;     /* `file` is only what messages call it: as NULL */
};

/* Beside WEIR_ENVOY_...: keys at the tops of files that a policy has not are somebody else's, who checks them. */
enum { WEIR__POLICY_HAS_OTHERS = 1 << 16 };

/* One policy of all files; NULL: something was reported. */
struct weir_policy *weir__policy_of_parts(const struct weir__policy_part *parts, size_t n,
					  struct weir__diagnostics *diagnostics, uint32_t options);

#endif
