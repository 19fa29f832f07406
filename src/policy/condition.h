/* condition.h: a condition on one attribute that must hold for a limit or an override to apply. */
#ifndef WEIR_POLICY_CONDITION_H
#define WEIR_POLICY_CONDITION_H

#include "policy/values.h"

enum weir__pattern_kind {
	WEIR__PATTERN_IS,      /* equal to the text */
	WEIR__PATTERN_PREFIX,  /* begins with the text */
	WEIR__PATTERN_GLOB,    /* see path.h; a path is matched by segments */
	WEIR__PATTERN_NETWORK, /* an address within the network */
	WEIR__PATTERN_PRESENT, /* any value */
};

struct weir__pattern {
	enum weir__pattern_kind kind;
	struct weir__slice text;
	struct weir__network network;
};

/* Holds if one of the patterns matches or, if negated, when none matches. For a missing attribute only the negation of
 * PRESENT holds: a request without `plan` matches neither `plan: gold` nor `plan: {not: gold}`. */
struct weir__condition {
	unsigned attribute;
	bool is_path; /* the attribute is of type path */
	bool is_negated;
	struct weir__pattern *patterns;
	size_t n;
	size_t n_exact; /* the first n_exact patterns are of kind IS and sorted, see weir__condition_sort */
};

void weir__condition_sort(struct weir__condition *condition);

bool weir__pattern_fits(const struct weir__pattern *pattern, bool is_path, const struct weir__value *value);

bool weir__condition_holds(const struct weir__condition *condition, const struct weir__values *values);

#endif
