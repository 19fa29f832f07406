/* rls.c: any bytes as a gRPC message with a RateLimitRequest. What is read lies in the message and within the bounds, and
 * writing it as metadata does not go beyond its room. */
#include "wire/rls.h"
#include "require.h"
#include "wire/grpc.h"

static struct weir__rls_request request;
static uint8_t written[1 << 16];

static bool is_within(const char *at, size_t n, const uint8_t *data, size_t size)
{
	return n == 0 || ((const uint8_t *)at >= data && n <= size && (const uint8_t *)at + n <= data + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const limits[WEIR_DESCRIPTORS_MAX] = { "10/min" };
	static const struct weir_metadata value = {
		.kind = WEIR_METADATA_NUMBER, .name = "n", .name_length = 1, .text = "1"
	};
	static const struct weir_metadata map = { .kind = WEIR_METADATA_MAP, .members = &value };
	static const struct weir_metadata *const metadata[WEIR_DESCRIPTORS_MAX] = { &map, &map };
	struct weir__protobuf_out out = { written, 0, size * 4 < sizeof(written) ? size * 4 : sizeof(written), false };
	const char *message, *why;
	size_t length, n = 0;
	weir_ns timeout;

	(void)weir__grpc_timeout((const char *)data, size, &timeout);
	(void)weir__grpc_is_type((const char *)data, size);
	if (weir__grpc_message((const char *)data, size, &message, &length, &why) == WEIR__GRPC_OK)
		require(is_within(message, length, data, size), "the message is outside");
	if (weir__rls_read(data, size, &request) != NULL)
		return 0;
	require(request.n <= WEIR_DESCRIPTORS_MAX && request.n_entries <= WEIR__RLS_ENTRIES_MAX, "too many");
	require(request.hits > 0 && is_within(request.domain, request.domain_length, data, size),
		"the domain is outside");
	for (size_t i = 0; i < request.n; i++) {
		const struct weir_descriptor *const descriptor = &request.descriptors[i];

		require(descriptor->unit <= WEIR_UNIT_WEEK, "an unknown unit");
		n += descriptor->n;
		for (size_t j = 0; j < descriptor->n; j++)
			require(is_within(descriptor->entries[j].name, descriptor->entries[j].name_length, data,
					  size) &&
					is_within(descriptor->entries[j].value, descriptor->entries[j].value_length,
						  data, size),
				"an entry is outside");
	}
	require(n == request.n_entries, "entries are of no descriptor");
	weir__rls_write_metadata(&out, &request, limits, metadata);
	require(out.n <= out.size, "written beyond the room");
	return 0;
}
