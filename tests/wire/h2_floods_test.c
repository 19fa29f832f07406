/* h2_floods_test.c: budgets of frames. A frame is written by its type, its flags and its length. */
#include "wire/h2_floods.h"

#include "check.h"

#define S UINT64_C(1000000000)

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION, UNKNOWN = 200 };

static struct weir__h2_floods floods;
static const char preface[] = WEIR__H2_PREFACE_BYTES;

static void begin(weir_ns now)
{
	weir__h2_floods_init(&floods, now);
	CHECK(weir__h2_floods_read(&floods, preface, sizeof(preface) - 1, now));
}

static size_t put(char *to, unsigned type, unsigned flags, size_t length)
{
	const char head[9] = {
		(char)(length >> 16), (char)(length >> 8), (char)length, (char)type, (char)flags, 0, 0, 0, 1
	};

	memcpy(to, head, sizeof(head));
	memset(to + sizeof(head), 'x', length);
	return sizeof(head) + length;
}

/* Returns how many of these frames are read before a budget is exceeded, at most `most`. */
static unsigned count(unsigned type, unsigned flags, size_t length, unsigned most, weir_ns now)
{
	static char frame[70000];
	const size_t n = put(frame, type, flags, length);
	unsigned done = 0;

	while (done < most && weir__h2_floods_read(&floods, frame, n, now))
		done++;
	return done;
}

static void each_kind_has_a_budget(void)
{
	static const struct {
		unsigned type, flags;
		size_t length;
		unsigned most;
		enum weir__h2_flood flood;
	} rows[] = {
		{ RST_STREAM, 0, 4, 1000, WEIR__H2_FLOOD_RESETS },
		{ PING, 0, 8, 100, WEIR__H2_FLOOD_PINGS },
		{ SETTINGS, 0, 0, 32, WEIR__H2_FLOOD_SETTINGS },
		{ SETTINGS, 1, 0, 32, WEIR__H2_FLOOD_SETTINGS },
		{ PRIORITY, 0, 5, 2000, WEIR__H2_FLOOD_OTHERS },
		{ WINDOW_UPDATE, 0, 4, 2000, WEIR__H2_FLOOD_OTHERS },
		{ DATA, 0, 0, 2000, WEIR__H2_FLOOD_OTHERS },
		{ UNKNOWN, 0, 1, 2000, WEIR__H2_FLOOD_OTHERS },
		{ DATA, 0, 63, 2000, WEIR__H2_FLOOD_OTHERS },
		{ DATA, 1, 0, 2000, WEIR__H2_FLOOD_OTHERS },
		{ DATA, 8, 256, 2000, WEIR__H2_FLOOD_OTHERS },
		{ PING, 1, 8, 2000, WEIR__H2_FLOOD_OTHERS },
		{ DATA, 0, 64, 5000, WEIR__H2_FLOOD_NONE },
		/* of one stream: all but the first begin no stream */
		{ HEADERS, 5, 20, 2001, WEIR__H2_FLOOD_OTHERS },
		{ HEADERS, 5, 256, 6, WEIR__H2_FLOOD_LONG_HEADS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(S);
		CHECK_EQ(count(rows[i].type, rows[i].flags, rows[i].length, 5000, S), rows[i].most);
		CHECK_EQ(floods.flood, rows[i].flood);
	}
}

static void requests_have_no_budget(void)
{
	char frame[9 + 20];

	begin(S);
	for (unsigned i = 1; i < 100000; i += 2) {
		const size_t n = put(frame, HEADERS, 5, 20);

		frame[6] = (char)(i >> 16);
		frame[7] = (char)(i >> 8);
		frame[8] = (char)i;
		CHECK(weir__h2_floods_read(&floods, frame, n, S));
	}
}

static void budgets_refill(void)
{
	begin(S);
	CHECK_EQ(count(RST_STREAM, 0, 4, 1000, S), 1000);
	CHECK_EQ(count(RST_STREAM, 0, 4, 1000, 2 * S), 33);
	begin(S);
	CHECK_EQ(count(PING, 0, 8, 100, S), 100);
	weir__h2_floods_responded(&floods);
	CHECK_EQ(count(PING, 0, 8, 100, S), 2);
	begin(S);
	CHECK_EQ(count(PING, 0, 8, 99, S), 99);
	CHECK_EQ(count(PING, 0, 8, 1000, UINT64_MAX), 100); /* never more than the burst */
	begin(S);
	CHECK_EQ(count(WINDOW_UPDATE, 0, 4, 2000, S), 2000);
	weir__h2_floods_sent(&floods, 16 * 1024 + 1023);
	CHECK_EQ(count(WINDOW_UPDATE, 0, 4, 1000, S), 16);
	begin(2 * S);
	CHECK_EQ(count(PING, 0, 8, 1000, S), 100); /* a clock that steps back refills nothing */
}

static void header_blocks_are_bounded(void)
{
	begin(S);
	CHECK_EQ(count(HEADERS, 0, 16384, 1, S), 1);
	CHECK_EQ(count(CONTINUATION, 0, 16384, 9, S), 3);
	CHECK_EQ(floods.flood, WEIR__H2_FLOOD_BLOCK);
	begin(S);
	CHECK_EQ(count(HEADERS, 0, 1, 1, S), 1);
	CHECK_EQ(count(CONTINUATION, 0, 0, 99, S), 8);
	CHECK_EQ(floods.flood, WEIR__H2_FLOOD_BLOCK);
	/* a block ends with the next HEADERS, here of the same stream */
	begin(S);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(count(HEADERS, 0, 1, 1, S) + count(CONTINUATION, 4, 1, 7, S), 8);
	CHECK_TEXT(weir__h2_flood_word(WEIR__H2_FLOOD_BLOCK), "header_block");
	CHECK_TEXT(weir__h2_flood_word(WEIR__H2_FLOOD_PINGS), "pings");
}

/* Frames are found wherever the bytes are split. */
static void pieces_make_no_difference(void)
{
	static char bytes[4096];

	for (size_t size = 1; size < 40; size++) {
		size_t n = sizeof(preface) - 1;

		memcpy(bytes, preface, n);
		for (int i = 0; i < 101; i++)
			n += put(bytes + n, PING, 0, 8);
		weir__h2_floods_init(&floods, S);
		for (size_t at = 0; at < n - 17; at += size)
			CHECK(weir__h2_floods_read(&floods, bytes + at, size < n - 17 - at ? size : n - 17 - at, S));
		CHECK(!weir__h2_floods_read(&floods, bytes + n - 17, 17, S));
		CHECK(!weir__h2_floods_read(&floods, bytes, 1, 100 * S)); /* it stays so */
	}
}

TESTS(TEST(each_kind_has_a_budget), TEST(requests_have_no_budget), TEST(budgets_refill),
      TEST(header_blocks_are_bounded), TEST(pieces_make_no_difference))
