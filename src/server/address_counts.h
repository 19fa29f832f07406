/* address_counts.h: how many connections each address has, over all workers, so that one address does not take all.
 *
 * Only addresses with open connections take memory, 48 bytes each. An IPv6 address counts as its network of 64 bits,
 * since one machine usually has all of that. Loopback addresses and trusted proxies are exempt: many clients share
 * them. Unix sockets have no address. A lock guards it, which is held for accepting and closing only. */
#ifndef WEIR_SERVER_ADDRESS_COUNTS_H
#define WEIR_SERVER_ADDRESS_COUNTS_H

#include <stdint.h>

#include "policy/address.h"

struct weir__address_counts;
struct weir__address_count; /* of one address */
struct weir__proxies;

/* At most `most` connections each. `connections` is how many there may be in all. `proxies` must outlive the counts.
 * NULL: no memory. */
struct weir__address_counts *weir__address_counts_new(uint32_t most, uint64_t connections,
						      const struct weir__proxies *proxies);
void weir__address_counts_free(struct weir__address_counts *counts); /* NULL is allowed */

/* Counts a connection. Returns false if the address has as many as it may. *ret_count is for leaving. It is NULL if the
 * connection was not counted: the address is exempt, or memory ran out. `counts` may be NULL: nothing is counted. */
bool weir__address_counts_join(struct weir__address_counts *counts, const struct weir__address *address,
			       struct weir__address_count **ret_count);

/* A connection is closed. NULL is allowed. */
void weir__address_counts_leave(struct weir__address_counts *counts, struct weir__address_count *count);

#endif
