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
	CHECK_TEXT(READ("\0\1\12\1d"), what);                                    /* field 0, a number */
	CHECK_TEXT(READ("\212\200\200\200\200\1\1d"), what);                     /* field 2^32 + 1 */
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
	const struct weir_metadata *const none[] = { NULL };

	CHECK(READ("\12\1d\22\10\12\6\12\1k\22\1v") == NULL);
	weir__rls_write_metadata(begin(sizeof(written)), &request, limits, none);
	CHECK(!out.is_full && memmem(written, out.n, "domain", 6) && memmem(written, out.n, "k=v", 3) &&
	      memmem(written, out.n, "10/min", 6) && !memmem(written, out.n, "hitsAddend", 10) &&
	      !memmem(written, out.n, "metadata", 8));
	CHECK(READ("\12\1d\22\10\12\6\12\1k\22\1v\30\2") == NULL);
	weir__rls_write_metadata(begin(sizeof(written)), &request, limits, none);
	CHECK(memmem(written, out.n, "hitsAddend", 10) && memmem(written, out.n, "\0\0\0\0\0\0\0\100", 8)); /* 2.0 */
	weir__rls_write_metadata(begin(30), &request, limits, none);
	CHECK(out.is_full && out.n <= 30);
	/* bytes that are not UTF-8 */
	CHECK(READ("\12\1d\22\12\12\10\12\1k\22\3a\377"
		   "b") == NULL);
	weir__rls_write_metadata(begin(sizeof(written)), &request, limits, none);
	CHECK(memmem(written, out.n,
		     "k=a\xef\xbf\xbd"
		     "b",
		     7));
}

#define VALUE(kind_, name_, ...)                                                                                       \
	{                                                                                                              \
		.kind = WEIR_METADATA_##kind_, .name = (name_), .name_length = strlen(name_), __VA_ARGS__              \
	}
#define TEXT_OF(text_) .text = (text_), .text_length = strlen(text_)

static bool ends_with(const char *bytes, size_t n)
{
	return !out.is_full && out.n >= n && memcmp(written + out.n - n, bytes, n) == 0;
}

#define ENDS_WITH(bytes) ends_with(bytes, sizeof(bytes) - 1)

/* {a: 1, b: {c: [x, null], d: true}} and {a: {e: 3}, b: {c: no, f: false}, g: -0.5}: a and c are those of the first map. */
static void merged_metadata(void)
{
	const struct weir_metadata null = VALUE(NULL, ""), x = VALUE(TEXT, "", TEXT_OF("x"), .next = &null);
	const struct weir_metadata d = VALUE(TRUE, "d"), c = VALUE(LIST, "c", .members = &x, .next = &d);
	const struct weir_metadata b = VALUE(MAP, "b", .members = &c), a = VALUE(NUMBER, "a", TEXT_OF("1"), .next = &b);
	const struct weir_metadata first = VALUE(MAP, "metadata", .members = &a);
	const struct weir_metadata e = VALUE(NUMBER, "e", TEXT_OF("3")), f = VALUE(FALSE, "f");
	const struct weir_metadata other_c = VALUE(TEXT, "c", TEXT_OF("no"), .next = &f),
				   g = VALUE(NUMBER, "g", TEXT_OF("-0.5"));
	const struct weir_metadata other_b = VALUE(MAP, "b", .members = &other_c, .next = &g);
	const struct weir_metadata other_a = VALUE(MAP, "a", .members = &e, .next = &other_b);
	const struct weir_metadata second = VALUE(MAP, "metadata", .members = &other_a), empty = VALUE(MAP, "metadata");
	const struct weir_metadata *const maps[] = { NULL, &first, &empty, &second }, *const only_empty[] = { &empty };
	const char *const limits[] = { NULL, NULL, NULL, NULL };

	CHECK(READ("\12\1d\22\0\22\0\22\0\22\0") == NULL);
	weir__rls_write_metadata(begin(sizeof(written)), &request, limits, maps);
	/* A member is 12 length (12 1 NAME) (22 length VALUE); lengths take three bytes. */
	CHECK(ENDS_WITH(
		"\12\215\201\0\12\10metadata\22\377\200\0*\373\200\0"
		"\12\222\200\0\12\201\200\0a\22\211\200\0\21\0\0\0\0\0\0\360?"
		"\12\313\200\0\12\201\200\0b\22\302\200\0*\276\200\0"
		"\12\234\200\0\12\201\200\0c\22\223\200\0\62\217\200\0\12\205\200\0\32\201\200\0x\12\202\200\0\10\0"
		"\12\213\200\0\12\201\200\0d\22\202\200\0\40\1"
		"\12\213\200\0\12\201\200\0f\22\202\200\0\40\0"
		"\12\222\200\0\12\201\200\0g\22\211\200\0\21\0\0\0\0\0\0\340\277"));
	CHECK(READ("\12\1d\22\0") == NULL);
	weir__rls_write_metadata(begin(sizeof(written)), &request, limits, only_empty);
	CHECK(!memmem(written, out.n, "metadata", 8));
}

TESTS(TEST(whole_requests), TEST(what_is_missing_has_a_default), TEST(malformed), TEST(bounds), TEST(statuses),
      TEST(metadata), TEST(merged_metadata))
