/* resp_request_test.c: RESP requests in every split, and which are rejected. */
#include "wire/resp.h"

#include "rows.h"
#include "transcript.h"

enum { ARGUMENTS_MAX = 20, BULK_MAX = 20000 };

static struct weir__resp_slice arguments[ARGUMENTS_MAX];
static struct weir__resp_request request = {
	.arguments = arguments, .arguments_max = ARGUMENTS_MAX, .line_max = WEIR__RESP_LINE_MAX, .bulk_max = BULK_MAX
};
static struct transcript transcript;

static const char *read_requests(const char *bytes, size_t size, struct pieces pieces)
{
	transcript_requests(&transcript, &request, bytes, size, pieces);
	return transcript.text;
}

static void multibulks(void)
{
	static const struct row rows[] = {
		ROW("*1\r\n$4\r\nPING\r\n", "PING\n0 left"),
		ROW("*6\r\n$11\r\nCL.THROTTLE\r\n$6\r\nuser42\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n1\r\n",
		    "CL.THROTTLE user42 15 30 60 1\n0 left"),
		ROW("*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "GET \n0 left"),
		ROW("*2\r\n$3\r\nGET\r\n$5\r\n\r\n\0*$\r\n", "GET \\x0d\\x0a\\x00*$\n0 left"),
		ROW("*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n*1\r\n$1\r\nc", "a\nb\n9 left"),
		ROW("*0\r\n*-1\r\n*-9\r\n*1\r\n$1\r\na\r\n*0\r\n", "a\n0 left"),
		/* any bytes in place of CR LF, as Redis accepts them */
		ROW("*1\rx$1\ryaXY*1\r\n$1\r\nb\r\n", "a\nb\n0 left"),
		ROW("*1\r\n$1\r", "7 left"),
		ROW("", "0 left"),
	};

	CHECK_ROWS(read_requests, rows);
}

static void lines(void)
{
	static const struct row rows[] = {
		ROW("PING\r\n", "PING\n0 left"),
		ROW("PING\nPING\n", "PING\nPING\n0 left"),
		ROW("\r\n\n \r\n\t\v\f\nPING", "4 left"),
		ROW("  SET  a\tb \r\n", "SET a b\n0 left"),
		ROW("a\vb \vc\rd\n", "a\\x0bb c d\n0 left"),
		ROW("x \"a b\" 'c d'\n", "x a\\x20b c\\x20d\n0 left"),
		ROW("x\"a b\" \"\" ''\n", "xa\\x20b  \n0 left"),
		ROW("\"\\n\\r\\t\\b\\a\\\\\\\"\\q\\x41\\xfF\\xg0\"\n",
		    "\\x0a\\x0d\\x09\\x08\\x07\\x5c\"qA\\xffxg0\n0 left"),
		ROW("'\\'\\n\\\\ '\n", "'\\x5cn\\x5c\\x5c\\x20\n0 left"),
		ROW("a\\n b'c\n", "bad: unbalanced quotes in request"),
		ROW("\"a\n", "bad: unbalanced quotes in request"),
		ROW("\"a\\\n", "bad: unbalanced quotes in request"),
		ROW("\"a\\\"\n", "bad: unbalanced quotes in request"),
		ROW("'a'b\n", "bad: unbalanced quotes in request"),
		ROW("\"a\"\"b\"\n", "bad: unbalanced quotes in request"),
		ROW("'a'\vb\n", "a b\n0 left"),
		ROW("a\0b\n", "a\\x00b\n0 left"),
		ROW("PING\r\n*1\r\n$4\r\nPING\r\nPING\r\n", "PING\nPING\nPING\n0 left"),
		ROW("$1\r\n", "$1\n0 left"),
		ROW("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20\n",
		    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20\n0 left"),
		ROW("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21\n", "bad: too big inline request"),
	};

	CHECK_ROWS(read_requests, rows);
}

static void lengths_are_numbers(void)
{
	static const char *const wrong[] = { "",
					     "+1",
					     "01",
					     "-0",
					     "-",
					     "1 ",
					     " 1",
					     "1a",
					     "1\n",
					     "2147483648",
					     "9223372036854775808",
					     "-9223372036854775809",
					     "99999999999999999999999" };
	static const struct row rows[] = {
		ROW("*-9223372036854775808\r\nPING\n", "PING\n0 left"),
		ROW("*20\r\n", "5 left"),
		ROW("*21\r\n", "bad: invalid multibulk length"),
		ROW("*1\r\n$20000\r\n", "12 left"),
		ROW("*1\r\n$20001\r\n", "bad: invalid bulk length"),
		ROW("*1\r\n$-1\r\n", "bad: invalid bulk length"),
		/* complete, so that the fast path sees them */
		ROW("*01\r\n$1\r\na\r\n", "bad: invalid multibulk length"),
		ROW("*1\r\n$01\r\na\r\n", "bad: invalid bulk length"),
		ROW("*1\r\n$00\r\n\r\n", "bad: invalid bulk length"),
		ROW("*1\0\r\n", "bad: invalid multibulk length"),
		ROW("*1\r\nPING", "8 left"),
		ROW("*1\r\nPING\r\n", "bad: expected '$', got '?'"),
		ROW("*1\r\n\r\n", "bad: expected '$', got '?'"),
	};
	char line[64];

	CHECK_ROWS(read_requests, rows);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		(void)snprintf(line, sizeof(line), "*%s\r\n", wrong[i]);
		check_row(read_requests, &(struct row){ line, strlen(line), "bad: invalid multibulk length" });
		(void)snprintf(line, sizeof(line), "*1\r\n$%s\r\n", wrong[i]);
		check_row(read_requests, &(struct row){ line, strlen(line), "bad: invalid bulk length" });
	}
}

/* `head`, then `byte` n times, then `tail`. */
static void check_long(const char *head, char byte, size_t n, const char *tail, size_t each, const char *expected)
{
	static char bytes[2 * WEIR__RESP_LINE_MAX];
	const size_t head_length = strlen(head);
	const struct row row = { bytes, head_length + n + strlen(tail), expected };

	memcpy(bytes, head, head_length);
	memset(bytes + head_length, byte, n);
	memcpy(bytes + head_length + n, tail, strlen(tail));
	check_split(read_requests, &row, at_once);
	check_split(read_requests, &row, (struct pieces){ each, each });
}

static void lines_have_a_most(void)
{
	static const struct {
		const char *head;
		char byte;
		size_t n; /* for a line of 65,536 bytes */
		const char *tail, *fits, *too_long;
	} rows[] = {
		{ "", 'a', 65536, "\n", "<65536 bytes, 3b6f0000>\n0 left", "bad: too big inline request" },
		{ "", 'a', 65535, "\r\n", "<65535 bytes, 78350061>\n0 left", "bad: too big inline request" },
		{ "*", '1', 65535, "\r\n", "bad: invalid multibulk length", "bad: too big mbulk count string" },
		{ "*1\r\n$", '1', 65535, "\r\n", "bad: invalid bulk length", "bad: too big bulk count string" },
		{ "*1\r\n", 'x', 65536, "\r\n", "bad: expected '$', got '?'", "bad: too big bulk count string" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		check_long(rows[i].head, rows[i].byte, rows[i].n, rows[i].tail, 97, rows[i].fits);
		check_long(rows[i].head, rows[i].byte, rows[i].n + 1, rows[i].tail, 97, rows[i].too_long);
		check_long(rows[i].head, rows[i].byte, rows[i].n + 2, "", 97, rows[i].too_long);
	}
}

static void strangers_may_send_less(void)
{
	static const struct row rows[] = {
		ROW("*10\r\n", "5 left"),
		ROW("*11\r\n", "bad: unauthenticated multibulk length"),
		ROW("*21\r\n", "bad: invalid multibulk length"),
		ROW("*1\r\n$16384\r\n", "12 left"),
		ROW("*1\r\n$16385\r\n", "bad: unauthenticated bulk length"),
		ROW("*1\r\n$20001\r\n", "bad: invalid bulk length"),
		ROW("1 2 3 4 5 6 7 8 9 10 11\n", "1 2 3 4 5 6 7 8 9 10 11\n0 left"),
	};

	request.is_unauthenticated = true;
	CHECK_ROWS(read_requests, rows);
	request.is_unauthenticated = false;
}

static void faults_have_answers(void)
{
	static const struct row rows[] = {
		ROW("*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
		ROW("*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
		ROW("*1\r\nx\r\n", "-ERR Protocol error: expected '$', got 'x'\r\n"),
		ROW("*1\r\n\r\n", "-ERR Protocol error: expected '$', got ' '\r\n"),
		ROW("'\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
	};
	char room[128], bytes[16];
	struct weir__resp_writer writer = { room, sizeof(room) - 1, 0, 2, false };
	size_t used;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memcpy(bytes, rows[i].bytes, rows[i].size);
		weir__resp_request_init(&request);
		CHECK_EQ(weir__resp_request_read(&request, bytes, rows[i].size, &used), WEIR__RESP_BAD);
		writer.length = 0;
		CHECK(weir__resp_write_protocol_error(&writer, &request));
		room[writer.length] = '\0';
		CHECK_TEXT(room, rows[i].expected);
	}
}

/* A reader must not need a byte that it has seen. After each call, all seen bytes but the first `kept` are overwritten
 * with an end of line. */
static void check_once(const char *head, size_t kept, char end, const char *tail, enum weir__resp_status expected)
{
	enum { DIGITS = 100 };
	char buffer[2 * DIGITS];
	const size_t before = strlen(head), size = before + DIGITS + strlen(tail);
	size_t used;

	memset(buffer, '1', sizeof(buffer));
	memcpy(buffer, head, before);
	memcpy(buffer + before + DIGITS, tail, strlen(tail));
	weir__resp_request_init(&request);
	for (size_t n = 1; n < size; n++) {
		CHECK_EQ(weir__resp_request_read(&request, buffer, n, &used), WEIR__RESP_MORE);
		if (n > kept && n <= before + DIGITS)
			memset(buffer + kept, end, n - kept);
	}
	CHECK_EQ(weir__resp_request_read(&request, buffer, size, &used), expected);
}

static void no_line_is_read_twice(void)
{
	check_once("a", 1, '\n', "\n", WEIR__RESP_COMPLETE);
	check_once("*", 1, '\r', "\r\n", WEIR__RESP_BAD);
	check_once("*1\r\n$", 5, '\r', "\r\n", WEIR__RESP_BAD);
	check_once("*2\r\n$1\r\na\r\n$", 12, '\r', "\r\n", WEIR__RESP_BAD);
}

static void no_bulk_is_read_twice(void)
{
	static const char bytes[] = "*2\r\n$4\r\nECHO\r\n$15000\r\n";
	static char buffer[16384];
	const size_t size = sizeof(bytes) - 1 + 15000 + 2;
	size_t used;

	memcpy(buffer, bytes, sizeof(bytes) - 1);
	weir__resp_request_init(&request);
	for (size_t n = 1; n < size; n++) {
		CHECK_EQ(weir__resp_request_read(&request, buffer, n, &used), WEIR__RESP_MORE);
		if (n == sizeof(bytes) - 1)
			memset(buffer, '!', n);
	}
	CHECK_EQ(weir__resp_request_read(&request, buffer, size, &used), WEIR__RESP_COMPLETE);
	CHECK_EQ(used, size);
	CHECK_EQ(request.n, 2);
	CHECK_EQ(request.arguments[0].length, 4);
	CHECK_EQ(request.arguments[1].length, 15000);
	CHECK(request.arguments[1].bytes == buffer + sizeof(bytes) - 1);
}

static void the_shortest_bulk_max(void)
{
	static const struct row rows[] = {
		ROW("*1\r\n$3\r\nabc\r\n", "abc\n0 left"),
		ROW("*1\r\n$4\r\nabcd\r\n", "bad: invalid bulk length"),
	};

	request.bulk_max = 3;
	CHECK_ROWS(read_requests, rows);
	request.bulk_max = BULK_MAX;
}

TESTS(TEST(multibulks), TEST(lines), TEST(lengths_are_numbers), TEST(lines_have_a_most), TEST(strangers_may_send_less),
      TEST(faults_have_answers), TEST(no_line_is_read_twice), TEST(no_bulk_is_read_twice), TEST(the_shortest_bulk_max))
