/* condition.h: what must be so of one attribute for a limit, or an override, to apply. */
#ifndef WEIR_POLICY_CONDITION_H
#define WEIR_POLICY_CONDITION_H

#include "policy/values.h"

enum weir__pattern_kind {
	WEIR__PATTERN_IS,      /* exactly this */
	WEIR__PATTERN_PREFIX,  /* begins with this */
	WEIR__PATTERN_GLOB,    /* see path.h; of a path by its segments */
	WEIR__PATTERN_NETWORK, /* an address of it */
	WEIR__PATTERN_PRESENT, /* anything */
};

struct weir__pattern {
	enum weir__pattern_kind kind;
	struct weir__slice text;
	struct weir__network network;
};

/* Holds if one of the patterns fits; negated, if none does. Of a missing attribute only the negation of PRESENT holds:
 * what is not there is neither gold nor other than gold. */
struct weir__condition {
	unsigned attribute;
	bool is_path; /* the attribute's type */
	bool is_negated;
	struct weir__pattern *patterns;
	size_t n;
	size_t n_exact; /* the first ones are of kind IS, sorted: see weir__condition_sort */
};

void weir__condition_sort(struct weir__condition *condition);

bool weir__pattern_fits(const struct weir__pattern *pattern, bool is_path, const struct weir__value *value);

bool weir__condition_holds(const struct weir__condition *condition, const struct weir__values *values);

#endif
