/* otlp_test.c: trace spans as JSON, and responses of collectors. */
#include "observe/otlp.h"

#include <stdlib.h>

#include "check.h"

static const struct weir__otlp_resource resource = { "shop \"1\"", "0.2.0", "an-instance" };

#define HEAD                                                                                                           \
	"{\"resourceSpans\":[{\"resource\":{\"attributes\":["                                                          \
	"{\"key\":\"service.name\",\"value\":{\"stringValue\":\"shop \\u00221\\u0022\"}},"                             \
	"{\"key\":\"service.version\",\"value\":{\"stringValue\":\"0.2.0\"}},"                                         \
	"{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"an-instance\"}}]},"                             \
	"\"scopeSpans\":[{\"scope\":{\"name\":\"weir\",\"version\":\"0.2.0\"},\"spans\":["
#define TAIL "]}]}]}"

static void whole_requests(void)
{
	const struct weir__span spans[] = {
		{ .trace = { 0x0a, [15] = 0x9c },
		  .id = { 1, [7] = 2 },
		  .parent = { 0xb7, [7] = 0x31 },
		  .has_parent = true,
		  .is_server = true,
		  .is_allowed = false,
		  .algorithm = "token_bucket",
		  .shadow_denied = 2,
		  .key_hash = 255,
		  .begun = UINT64_C(1763300000000000001),
		  .ended = UINT64_C(1763300000000000009),
		  .limit = "per-client",
		  .state = "a=b" },
		{ .trace = { [15] = 1 },
		  .id = { [7] = 1 },
		  .is_allowed = true,
		  .algorithm = "leaky_bucket",
		  .delay = 1000001,
		  .limit = "10/s" },
	};
	char *const text = weir__otlp_write(&resource, spans, 2), *const none = weir__otlp_write(&resource, spans, 0);

	CHECK_TEXT(
		text, HEAD
		"{\"traceId\":\"0a00000000000000000000000000009c\",\"spanId\":\"0100000000000002\",\"name\":\"rate_limit\","
		"\"kind\":2,\"startTimeUnixNano\":\"1763300000000000001\",\"endTimeUnixNano\":\"1763300000000000009\","
		"\"attributes\":[{\"key\":\"rate_limiter.allowed\",\"value\":{\"boolValue\":false}},"
		"{\"key\":\"rate_limiter.algorithm\",\"value\":{\"stringValue\":\"token_bucket\"}},"
		"{\"key\":\"rate_limiter.limit\",\"value\":{\"stringValue\":\"per-client\"}},"
		"{\"key\":\"rate_limiter.key_hash\",\"value\":{\"stringValue\":\"00000000000000ff\"}},"
		"{\"key\":\"rate_limiter.delay_ms\",\"value\":{\"intValue\":\"0\"}},"
		"{\"key\":\"rate_limiter.shadow_denied\",\"value\":{\"intValue\":\"2\"}}],"
		"\"flags\":769,\"status\":{},\"parentSpanId\":\"b700000000000031\",\"traceState\":\"a=b\"},"
		"{\"traceId\":\"00000000000000000000000000000001\",\"spanId\":\"0000000000000001\",\"name\":\"rate_limit\","
		"\"kind\":1,\"startTimeUnixNano\":\"0\",\"endTimeUnixNano\":\"0\","
		"\"attributes\":[{\"key\":\"rate_limiter.allowed\",\"value\":{\"boolValue\":true}},"
		"{\"key\":\"rate_limiter.algorithm\",\"value\":{\"stringValue\":\"leaky_bucket\"}},"
		"{\"key\":\"rate_limiter.limit\",\"value\":{\"stringValue\":\"10/s\"}},"
		"{\"key\":\"rate_limiter.key_hash\",\"value\":{\"stringValue\":\"0000000000000000\"}},"
		"{\"key\":\"rate_limiter.delay_ms\",\"value\":{\"intValue\":\"2\"}}],"
		"\"flags\":257,\"status\":{}}" TAIL);
	CHECK_TEXT(none, HEAD TAIL);
	free(text);
	free(none);
}

/* Names in Envoy's format may have any bytes. */
static void names_of_any_bytes(void)
{
	const struct weir__span span = { .algorithm = "token_bucket", .limit = "a\n\xff\"\\\xc3\xa9\xe2\x82" };
	char *const text = weir__otlp_write(&resource, &span, 1);

	CHECK(strstr(text, "{\"stringValue\":\"a\\u000a\\ufffd\\u0022\\u005c\xc3\xa9\\ufffd\"}") != NULL);
	free(text);
}

static void answers(void)
{
	static const struct {
		const char *text;
		uint64_t rejected;
	} rows[] = {
		{ "", 0 },
		{ "{}", 0 },
		{ "OK", 0 },
		{ "[1]", 0 },
		{ "{\"partialSuccess\":{}}", 0 },
		{ "{\"partialSuccess\":{\"rejectedSpans\":\"12\",\"errorMessage\":\"too old\"}}", 12 },
		{ "{\"partialSuccess\":{\"rejectedSpans\":3}}", 3 },
		{ "{\"partialSuccess\":{\"rejectedSpans\":-3}}", 0 },
		{ "{\"partialSuccess\":{\"rejectedSpans\":true}}", 0 },
		{ "{\"partialSuccess\":{\"rejectedSpans\":\"12\"}", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(weir__otlp_rejected(rows[i].text, strlen(rows[i].text)), rows[i].rejected);
}

TESTS(TEST(whole_requests), TEST(names_of_any_bytes), TEST(answers))
