/* example.h: an example of a request that a policy limits, for people who want to try the policy. */
#ifndef WEIR_POLICY_EXAMPLE_H
#define WEIR_POLICY_EXAMPLE_H

#include "policy/policy.h"

/* Names and values are in `room`, so that the policy may be replaced meanwhile. */
struct weir__policy_example {
	struct weir_attribute attributes[WEIR__ATTRIBUTES_MAX];
	size_t n; /* 1 or more */
	size_t used;
	char room[2048];
};

/* Makes attributes that a limit applies to, for the first limit for which that is easy. Returns false if it finds no
 * such limit, and for a policy in Envoy's form, whose requests have descriptors. */
bool weir__policy_example(const struct weir_policy *policy, struct weir__policy_example *ret_example);

#endif
