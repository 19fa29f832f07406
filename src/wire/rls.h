/* rls.h: the messages of Envoy's rate limit service, envoy.service.ratelimit.v3. Pure. */
#ifndef WEIR_WIRE_RLS_H
#define WEIR_WIRE_RLS_H

#include <weir/policy.h>

#include "wire/protobuf.h"

enum { WEIR__RLS_ENTRIES_MAX = 512 /* of all descriptors of a request together */ };

/* A RateLimitRequest. It points into its message. */
struct weir__rls_request {
	const char *domain;
	size_t domain_length;
	uint64_t hits;      /* at least 1 */
	uint32_t sent_hits; /* hits_addend as it was sent; 0: 0, or not sent */
	struct weir_descriptor descriptors[WEIR_DESCRIPTORS_MAX];
	size_t n;
	struct weir_attribute entries[WEIR__RLS_ENTRIES_MAX];
	size_t n_entries;
};

/* Returns NULL, or what is wrong with the message. */
const char *weir__rls_read(const void *bytes, size_t n, struct weir__rls_request *ret_request);

enum weir__rls_code { WEIR__RLS_OK = 1, WEIR__RLS_OVER_LIMIT = 2 };

/* A DescriptorStatus. */
struct weir__rls_status {
	enum weir__rls_code code;
	bool has_limit, has_reset;
	uint64_t requests_per_unit, remaining; /* written as uint32: larger numbers become UINT32_MAX */
	enum weir_unit unit;
	const char *name; /* of the limit; NULL: none */
	uint64_t reset_s;
};

void weir__rls_write_code(struct weir__protobuf_out *out, enum weir__rls_code code);
void weir__rls_write_status(struct weir__protobuf_out *out, const struct weir__rls_status *status);

/* A header for the response to the client. */
void weir__rls_write_header(struct weir__protobuf_out *out, const char *name, const char *value);

/* The dynamic metadata: the domain, the descriptors of the request with the limits that apply, and the metadata of
 * these limits. Of several values with the same name the first is written, and maps are joined. For each descriptor,
 * `limits` has a text and `metadata` a map; NULL: none. */
void weir__rls_write_metadata(struct weir__protobuf_out *out, const struct weir__rls_request *request,
			      const char *const *limits, const struct weir_metadata *const *metadata);

#endif
