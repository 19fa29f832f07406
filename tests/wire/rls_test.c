/* rls_test.c: messages of Envoy's rate limit service, byte by byte. */
#include "wire/rls.h"

#include "check.h"

static struct weir__rls_request request;

static const char *read_bytes(const char *bytes, size_t n)
{
	return weir__rls_read(bytes, n, &request);
}

#define READ(bytes) read_bytes(bytes, sizeof(bytes) - 1)

static bool is(const char *at, size_t n, const char *text)
{
	return n == strlen(text) && memcmp(at, text, n) == 0;
}

static void whole_requests(void)
{
	/* domain "d"; a descriptor with k=v and limit 10 per MINUTE, hits 7; one that gives back 0; hits 3 */
	CHECK(READ("\12\1d"
		   "\22\22\12\6\12\1k\22\1v\22\4\10\12\20\2\32\2\10\7"
		   "\22\14\12\6\12\1k\22\1w\32\0\40\1"
		   "\30\3") == NULL);
	CHECK(is(request.domain, request.domain_length, "d"));
	CHECK_EQ(request.hits, 3);
	CHECK_EQ(request.n, 2);
	CHECK_EQ(request.descriptors[0].n, 1);
	CHECK(is(request.descriptors[0].entries[0].name, request.descriptors[0].entries[0].name_length, "k"));
	CHECK(is(request.descriptors[0].entries[0].value, request.descriptors[0].entries[0].value_length, "v"));
	CHECK_EQ(request.descriptors[0].unit, WEIR_UNIT_MINUTE);
	CHECK_EQ(request.descriptors[0].requests_per_unit, 10);
	CHECK(request.descriptors[0].has_hits && request.descriptors[0].hits == 7 && !request.descriptors[0].is_refund);
	CHECK(request.descriptors[1].has_hits && request.descriptors[1].hits == 0 && request.descriptors[1].is_refund);
	CHECK_EQ(request.descriptors[1].unit, WEIR_UNIT_NONE);
}

static void what_is_missing_has_a_default(void)
{
	CHECK(READ("") == NULL);
	CHECK(request.domain_length == 0 && request.n == 0 && request.hits == 1);
	CHECK(READ("\22\2\12\0") == NULL); /* an entry without key and value */
	CHECK(request.n == 1 && request.descriptors[0].n == 1 && request.descriptors[0].entries[0].name_length == 0);
	CHECK(!request.descriptors[0].has_hits);
	CHECK(READ("\12\1a\12\1b\30\0") == NULL); /* the last one counts */
	CHECK(is(request.domain, request.domain_length, "b") && request.hits == 1);
	/* unknown fields of each type are skipped */
	CHECK(READ("\170\1\171xxxxxxxx\172\3abc\175xxxx\12\1d") == NULL);
	CHECK(is(request.domain, request.domain_length, "d"));
	/* hits_addend is a uint32 */
	CHECK(READ("\30\205\200\200\200\20") == NULL && request.hits == 5);
}

static void malformed(void)
{
	static const char what[] = "the message is not a RateLimitRequest of envoy.service.ratelimit.v3";

	CHECK_TEXT(READ("\12"), what);                                           /* no length */
	CHECK_TEXT(READ("\12\2d"), what);                                        /* longer than the message */
	CHECK_TEXT(READ("\13"), what);                                           /* a group */
	CHECK_TEXT(READ("\2\1d"), what);                                         /* field 0 */
	CHECK_TEXT(READ("\30\200\200\200\200\200\200\200\200\200\200\1"), what); /* a varint of 11 bytes */
	CHECK_TEXT(READ("\22\2\12\5"), what);
	CHECK_TEXT(READ("\22\4\12\2\12\5"), what);
	CHECK_TEXT(READ("\22\3\32\1\10"), what);
	CHECK_TEXT(READ("\22\2\22\0"), "descriptors.limit.unit: use SECOND, MINUTE, HOUR, DAY, MONTH, YEAR or WEEK");
	CHECK_TEXT(READ("\22\4\22\2\20\10"),
		   "descriptors.limit.unit: use SECOND, MINUTE, HOUR, DAY, MONTH, YEAR or WEEK");
}

static void bounds(void)
{
	static char bytes[65536];
	size_t n = 0;

	for (int i = 0; i < 64; i++, n += 2)
		memcpy(bytes + n, "\22\0", 2);
	CHECK(read_bytes(bytes, n) == NULL && request.n == 64);
	memcpy(bytes + n, "\22\0", 2);
	CHECK_TEXT(read_bytes(bytes, n + 2), "descriptors: use at most 64");
	for (n = 3; n < 3 + 2 * 512; n += 2)
		memcpy(bytes + n, "\12\0", 2);
	memcpy(bytes, "\22\200\10", 3); /* 1024 bytes */
	CHECK(read_bytes(bytes, n) == NULL && request.n_entries == 512);
	memcpy(bytes + n, "\22\2\12\0", 4);
	CHECK_TEXT(read_bytes(bytes, n + 4), "descriptors.entries: use at most 512 in all descriptors");
}

static uint8_t written[4096];
static struct weir__protobuf_out out;

static struct weir__protobuf_out *begin(size_t size)
{
	out = (struct weir__protobuf_out){ written, 0, size, false };
	return &out;
}

#define CHECK_WRITTEN(bytes) CHECK(out.n == sizeof(bytes) - 1 && memcmp(written, bytes, out.n) == 0)

static void statuses(void)
{
	const struct weir__rls_status none = { .code = WEIR__RLS_OK };
	const struct weir__rls_status over = { .code = WEIR__RLS_OVER_LIMIT,
					       .has_limit = true,
					       .has_reset = true,
					       .requests_per_unit = UINT64_C(1) << 40,
					       .remaining = UINT64_MAX,
					       .unit = WEIR_UNIT_WEEK,
					       .name = "n",
					       .reset_s = 300 };

	weir__rls_write_code(begin(sizeof(written)), WEIR__RLS_OVER_LIMIT);
	CHECK_WRITTEN("\10\2");
	weir__rls_write_status(begin(sizeof(written)), &none);
	CHECK_WRITTEN("\22\202\200\0\10\1");
	weir__rls_write_status(begin(sizeof(written)), &over); /* 64-bit numbers saturate */
	CHECK_WRITTEN("\22\236\200\0\10\2\22\213\200\0\10\377\377\377\377\17\20\7\32\1n"
		      "\30\377\377\377\377\17\42\203\200\0\10\254\2");
	weir__rls_write_header(begin(sizeof(written)), "a", "bc");
	CHECK_WRITTEN("\32\207\200\0\12\1a\22\2bc");
	weir__rls_write_status(begin(10), &over);
	CHECK(out.is_full && out.n <= 10);
}

static void metadata(void)
{
	const char *const limits[] = { "10/min" };

	CHECK(READ("\12\1d\22\10\12\6\12\1k\22\1v") == NULL);
	weir__rls_write_metadata(begin(sizeof(written)), &request, limits);
	CHECK(!out.is_full && memmem(written, out.n, "domain", 6) && memmem(written, out.n, "k=v", 3) &&
	      memmem(written, out.n, "10/min", 6) && !memmem(written, out.n, "hitsAddend", 10));
	request.hits = 2;
	weir__rls_write_metadata(begin(sizeof(written)), &request, limits);
	CHECK(memmem(written, out.n, "hitsAddend", 10) && memmem(written, out.n, "\0\0\0\0\0\0\0\100", 8)); /* 2.0 */
	weir__rls_write_metadata(begin(30), &request, limits);
	CHECK(out.is_full && out.n <= 30);
}

TESTS(TEST(whole_requests), TEST(what_is_missing_has_a_default), TEST(malformed), TEST(bounds), TEST(statuses),
      TEST(metadata))
