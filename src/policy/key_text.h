/* key_text.h: keys as people read them: ip=2001:db8::/64 user=ann. One spelling, wherever a key is shown.
 *
 * What is written is read again as the same bytes (guard/guard_keys.c). A value is read as that of a request is, in any
 * spelling, unless it has an escape, \xHH: then it is taken as it stands. So whatever would be read as something else is
 * written with one. */
#ifndef WEIR_POLICY_KEY_TEXT_H
#define WEIR_POLICY_KEY_TEXT_H

#include "policy/policy.h"

struct weir__key_bytes {
	const void *at;
	size_t n;     /* that are known */
	size_t whole; /* that it has */
};

/* The text of a key of this limit; of one of Envoy's form limit is NULL. What the policy does not make, and anything without
 * a policy, NULL, is shown as any bytes. It is cut where it does not fit; returns its length, without the NUL. */
size_t weir__policy_key_text(const struct weir_policy *policy, const struct weir__policy_limit *limit,
			     const struct weir__key_bytes *key, char *text, size_t size);

/* Of an address, or of ADDRESS/BITS; false: it is neither. *ret_bits is UINT32_MAX without bits. */
bool weir__key_network(struct weir__slice text, struct weir__address *ret_address, unsigned *ret_bits);

/* The name of a part of the limit's keys; .at NULL: there are fewer. */
struct weir__slice weir__key_part_name(const struct weir_policy *policy, const struct weir__policy_limit *limit,
				       unsigned part);

/* NAME=VALUE of one part, with a NUL. Returns its length. */
size_t weir__key_part_text(const struct weir_policy *policy, const struct weir__key_part *part,
			   struct weir__slice bytes, char *text, size_t size);

#endif
