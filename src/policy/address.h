/* address.h: IPv4 and IPv6 addresses and networks. An IPv4-mapped IPv6 address (::ffff:192.0.2.1) is treated as the
 * IPv4 address. */
#ifndef WEIR_POLICY_ADDRESS_H
#define WEIR_POLICY_ADDRESS_H

#include "policy/slice.h"

enum {
	WEIR__ADDRESS_BYTES = 16,
	WEIR__ADDRESS_TEXT = 46, /* the longest text, with its NUL */
};

struct weir__address {
	unsigned char bytes[WEIR__ADDRESS_BYTES]; /* IPv4: the first four; the others are 0 */
	bool is_v6;
};

struct weir__network {
	struct weir__address address; /* the bits after the prefix are 0 */
	unsigned bits;
};

/* Returns false if the text is not an address. Brackets around IPv6 and a zone after it (%eth0) are ignored. */
bool weir__address_read(struct weir__slice text, struct weir__address *ret_address);

/* From 4 bytes (IPv4) or 16 bytes (IPv6) in network order. */
struct weir__address weir__address_of(const unsigned char *bytes, bool is_v6);

/* Writes the canonical form of inet_ntop. */
void weir__address_write(const struct weir__address *address, char ret_text[WEIR__ADDRESS_TEXT]);

/* Reads ADDRESS or ADDRESS/BITS. Returns false if the text is neither, or has bits set after the prefix
 * (*ret_is_host_bits is true then). ::ffff:10.0.0.0/104 is 10.0.0.0/8. */
bool weir__network_read(struct weir__slice text, struct weir__network *ret_network, bool *ret_is_host_bits);

/* Returns the address with all bits after the first `bits` set to 0. */
struct weir__address weir__address_mask(const struct weir__address *address, unsigned bits);

bool weir__network_equal(const struct weir__network *a, const struct weir__network *b);

bool weir__network_has(const struct weir__network *network, const struct weir__address *address);

static inline unsigned weir__address_length(const struct weir__address *address)
{
	return address->is_v6 ? 16 : 4;
}

#endif
