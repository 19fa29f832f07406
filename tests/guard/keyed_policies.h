/* keyed_policies.h: a policy in Weir's format and one in Envoy's, with all kinds of keys, for tests of keys. */
#ifndef WEIR_TESTS_KEYED_POLICIES_H
#define WEIR_TESTS_KEYED_POLICIES_H

#include "guards.h"

static const weir_ns start = UINT64_C(1700000000000000000);

static const char own[] = "attributes:\n"
			  "  ip: {type: ip}\n"
			  "  path: {type: path}\n"
			  "limits:\n"
			  "  - {name: all, limit: 100/s}\n"
			  "  - {name: address, key: [ip], limit: 3/hour}\n"
			  "  - {name: net, key: [{attribute: ip, ipv4: 24, ipv6: 48}], limit: 10/s}\n"
			  "  - {name: one, key: [user], limit: 10/s}\n"
			  "  - {name: where, key: [path], match: {where: 'yes'}, limit: 10/s}\n"
			  "  - {name: three, key: [user, ip, path], limit: 2/hour, mode: shadow}\n";
static const char envoys[] = "domain: shop\n"
			     "descriptors:\n"
			     "  - {key: free, rate_limit: {unlimited: true}}\n"
			     "  - key: user\n"
			     "    rate_limit: {unit: hour, requests_per_unit: 2}\n"
			     "    descriptors:\n"
			     "      - {key: path, rate_limit: {unit: hour, requests_per_unit: 1}}\n";

static struct weir_table *table;

#endif
