/* key_text.h: keys as text, such as ip=2001:db8::/64 user=ann. Every place that shows a key uses this form.
 *
 * The text can be parsed back into the same bytes (guard/guard_keys.c). The parser reads a value like the value of a
 * request, in any spelling. A value with an escape, \xHH, is taken literally instead. So a value that would be parsed
 * into other bytes is written with an escape. */
#ifndef WEIR_POLICY_KEY_TEXT_H
#define WEIR_POLICY_KEY_TEXT_H

#include "policy/policy.h"

struct weir__key_bytes {
	const void *at;
	size_t n;     /* bytes that are known */
	size_t whole; /* bytes that the key has */
};

/* The length of the prefix of a tenant that the bytes may begin with: letters, digits and . _ @ - up to the first
 * slash. 0: no prefix. */
size_t weir__key_prefix_length(struct weir__slice bytes);

/* Writes the text of a key of this limit. A key that only a request with a prefix can have is shown with the prefix in
 * front, as acme/ip=192.0.2.1. `limit` is NULL for a policy in Envoy's format. A key that the policy cannot have made,
 * or any key if `policy` is NULL, is written as plain bytes. The text is cut if it does not fit. Returns its length,
 * without the NUL. */
size_t weir__policy_key_text(const struct weir_policy *policy, const struct weir__policy_limit *limit,
			     const struct weir__key_bytes *key, char *text, size_t size);

/* Parses ADDRESS or ADDRESS/BITS. Returns false if it is neither. *ret_bits is UINT32_MAX without bits. */
bool weir__key_network(struct weir__slice text, struct weir__address *ret_address, unsigned *ret_bits);

/* Returns the name of a part of the limit's keys. .at NULL: the keys have fewer parts. */
struct weir__slice weir__key_part_name(const struct weir_policy *policy, const struct weir__policy_limit *limit,
				       unsigned part);

/* Writes NAME=VALUE of one part, with a NUL. Returns its length. */
size_t weir__key_part_text(const struct weir_policy *policy, const struct weir__key_part *part,
			   struct weir__slice bytes, char *text, size_t size);

#endif
