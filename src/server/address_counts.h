/* address_counts.h: counts the connections of each address, over all workers, so that one address does not take them
 * all.
 *
 * Only addresses with open connections take memory, 48 bytes each. An IPv6 address counts as its network of 64 bits,
 * since one machine usually has all of its addresses. Loopback addresses and trusted proxies are exempt: many clients
 * share them. Unix sockets have no address. A lock guards the counts. It is held only while a connection is accepted or
 * closed. */
#ifndef WEIR_SERVER_ADDRESS_COUNTS_H
#define WEIR_SERVER_ADDRESS_COUNTS_H

#include <stdint.h>

#include "policy/address.h"

struct weir__address_counts;
struct weir__address_count; /* of one address */
struct weir__proxies;

/* Each address may have at most `most` connections. `connections` is the bound for all addresses together. `proxies`
 * must outlive the counts. NULL: no memory. */
struct weir__address_counts *weir__address_counts_new(uint32_t most, uint64_t connections,
						      const struct weir__proxies *proxies);
void weir__address_counts_free(struct weir__address_counts *counts); /* NULL is allowed */

/* Counts a connection. Returns false if the address has as many as it may. Pass *ret_count to
 * weir__address_counts_leave. It is NULL if the connection was not counted: the address is exempt, or memory ran out.
 * `counts` may be NULL: nothing is counted. */
bool weir__address_counts_join(struct weir__address_counts *counts, const struct weir__address *address,
			       struct weir__address_count **ret_count);

/* Call it when a connection is closed. NULL is allowed. */
void weir__address_counts_leave(struct weir__address_counts *counts, struct weir__address_count *count);

#endif
