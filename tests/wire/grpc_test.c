/* grpc_test.c: messages, timeouts, status codes, content types. */
#include "wire/grpc.h"

#include "check.h"

static void messages(void)
{
	static const struct {
		const char *body;
		size_t n;
		enum weir__grpc_status status;
	} rows[] = {
		{ "\0\0\0\0\0", 5, WEIR__GRPC_OK },
		{ "\0\0\0\0\2ab", 7, WEIR__GRPC_OK },
		{ "", 0, WEIR__GRPC_INVALID_ARGUMENT },
		{ "\0\0\0\0", 4, WEIR__GRPC_INVALID_ARGUMENT },
		{ "\0\0\0\0\3ab", 7, WEIR__GRPC_INVALID_ARGUMENT },
		{ "\0\0\0\0\1ab", 7, WEIR__GRPC_INVALID_ARGUMENT },
		{ "\0\377\377\377\377ab", 7, WEIR__GRPC_INVALID_ARGUMENT },
		{ "\0\0\0\0\0\0\0\0\0\0", 10, WEIR__GRPC_INVALID_ARGUMENT }, /* two messages */
		{ "\1\0\0\0\2ab", 7, WEIR__GRPC_UNIMPLEMENTED },             /* compressed */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *message = NULL, *why = NULL;
		size_t length = 99;

		CHECK_EQ(weir__grpc_message(rows[i].body, rows[i].n, &message, &length, &why), rows[i].status);
		if (rows[i].status == WEIR__GRPC_OK)
			CHECK(message == rows[i].body + 5 && length == rows[i].n - 5);
		else
			CHECK(why != NULL && message == NULL && length == 99);
	}
}

static void heads(void)
{
	unsigned char head[WEIR__GRPC_HEAD];

	weir__grpc_put_head(head, 0x01020304);
	CHECK(memcmp(head, "\0\1\2\3\4", 5) == 0);
}

static void timeouts(void)
{
	static const struct {
		const char *text;
		bool is_valid;
		weir_ns timeout;
	} rows[] = {
		{ "20m", true, 20000000 },
		{ "1u", true, 1000 },
		{ "7n", true, 7 },
		{ "0n", true, 0 },
		{ "3S", true, 3000000000 },
		{ "2M", true, 120000000000 },
		{ "1H", true, 3600000000000 },
		{ "99999999m", true, UINT64_C(99999999000000) },
		{ "99999999H", true, UINT64_MAX }, /* more than 64 bits of nanoseconds */
		{ "100000000m", false, 0 },
		{ "m", false, 0 },
		{ "20", false, 0 },
		{ "20s", false, 0 },
		{ "-1m", false, 0 },
		{ "2 m", false, 0 },
		{ "", false, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		weir_ns timeout = 1;

		CHECK_EQ(weir__grpc_timeout(rows[i].text, strlen(rows[i].text), &timeout), rows[i].is_valid);
		CHECK_EQ(timeout, rows[i].is_valid ? rows[i].timeout : 1);
	}
}

static void content_types(void)
{
	static const struct {
		const char *text;
		bool is_grpc;
	} rows[] = {
		{ "application/grpc", true },           { "application/grpc+proto", true },
		{ "application/grpc;v=1", true },       { "application/grpc+proto; v=1", true },
		{ "application/grpc+json", false },     { "application/grpc-web", false },
		{ "application/grpc+protobuf", false }, { "application/json", false },
		{ "application/grp", false },           { "", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(weir__grpc_is_type(rows[i].text, strlen(rows[i].text)), rows[i].is_grpc);
}

static void statuses_of_http(void)
{
	CHECK_EQ(weir__grpc_status_of(401), 16);
	CHECK_EQ(weir__grpc_status_of(403), 7);
	CHECK_EQ(weir__grpc_status_of(413), 8);
	CHECK_EQ(weir__grpc_status_of(503), 14);
	CHECK_EQ(weir__grpc_status_of(418), 13);
}

TESTS(TEST(messages), TEST(heads), TEST(timeouts), TEST(content_types), TEST(statuses_of_http))
