/* address.h: addresses of IPv4 and IPv6, and networks of them. An IPv4 address that is written as one of IPv6
 * (::ffff:192.0.2.1) is the IPv4 address. */
#ifndef WEIR_POLICY_ADDRESS_H
#define WEIR_POLICY_ADDRESS_H

#include "policy/slice.h"

enum {
	WEIR__ADDRESS_BYTES = 16,
	WEIR__ADDRESS_TEXT = 46, /* the longest as text, with its NUL */
};

struct weir__address {
	unsigned char bytes[WEIR__ADDRESS_BYTES]; /* of IPv4 the first four; the others are 0 */
	bool is_v6;
};

struct weir__network {
	struct weir__address address; /* what is beyond the bits is 0 */
	unsigned bits;
};

/* False: it is none. Brackets around IPv6 are taken off, a zone behind it (%eth0) is not part of it. */
bool weir__address_read(struct weir__slice text, struct weir__address *ret_address);

/* From 4 bytes, or 16 of IPv6, as the network has them. */
struct weir__address weir__address_of(const unsigned char *bytes, bool is_v6);

/* In the one spelling that libc writes. */
void weir__address_write(const struct weir__address *address, char ret_text[WEIR__ADDRESS_TEXT]);

/* ADDRESS or ADDRESS/BITS; false: it is neither, or has bits set beyond its length (*ret_is_host_bits). ::ffff:10.0.0.0/104
 * is 10.0.0.0/8. */
bool weir__network_read(struct weir__slice text, struct weir__network *ret_network, bool *ret_is_host_bits);

/* The address without what is beyond so many bits. */
struct weir__address weir__address_mask(const struct weir__address *address, unsigned bits);

bool weir__network_equal(const struct weir__network *a, const struct weir__network *b);

bool weir__network_has(const struct weir__network *network, const struct weir__address *address);

static inline unsigned weir__address_length(const struct weir__address *address)
{
	return address->is_v6 ? 16 : 4;
}

#endif
