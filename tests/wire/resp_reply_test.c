/* resp_reply_test.c: RESP replies in every split, and which are rejected. */
#include "wire/resp.h"

#include "rows.h"
#include "transcript.h"

enum { TOKENS_MAX = 12, DEPTH_MAX = 3, LINE_MAX_BYTES = 40, BULK_MAX = 100 };

static struct weir__resp_token tokens[TOKENS_MAX];
static struct weir__resp_reply reply = { .tokens = tokens,
					 .tokens_max = TOKENS_MAX,
					 .depth_max = DEPTH_MAX,
					 .line_max = LINE_MAX_BYTES,
					 .bulk_max = BULK_MAX };
static struct transcript transcript;

static const char *read_replies(const char *bytes, size_t size, struct pieces pieces)
{
	transcript_replies(&transcript, &reply, bytes, size, pieces);
	return transcript.text;
}

#define VALUE "bad: a reply does not hold what its type says"
#define LINE "bad: a line of a reply does not end in CR LF, or is too long"
#define SIZE "bad: a reply is too large or too deep"
#define TYPE "bad: unknown type of reply"

static void values(void)
{
	static const struct row rows[] = {
		ROW("+OK\r\n+\r\n", "+OK\n+\n0 left"),
		ROW("-ERR no\r\n!5\r\nE a\rb\r\n", "-ERR\\x20no\n-E\\x20a\\x0db\n0 left"),
		ROW(":1\r\n:-1\r\n:+1\r\n:0\r\n", ":1\n:-1\n:1\n:0\n0 left"),
		ROW(":-9223372036854775808\r\n", ":-9223372036854775808\n0 left"),
		ROW("$3\r\na\0b\r\n$0\r\n\r\n", "$a\\x00b\n$\n0 left"),
		ROW("=7\r\ntxt:a:b\r\n=4\r\nmkd:\r\n", "=a:b\n=\n0 left"),
		ROW("_\r\n$-1\r\n*-1\r\n", "_\n_\n_\n0 left"),
		ROW("#t\r\n#f\r\n", "#1\n#0\n0 left"),
		ROW(",1\r\n,-1.5\r\n,+.5e-3\r\n,1E9\r\n", ",1\n,-1.5\n,+.5e-3\n,1E9\n0 left"),
		ROW(",inf\r\n,-inf\r\n,nan\r\n", ",inf\n,-inf\n,nan\n0 left"),
		ROW("(123456789012345678901234567890\r\n(-1\r\n", "(123456789012345678901234567890\n(-1\n0 left"),
		ROW("$3\r\nab", "6 left"),
		ROW("", "0 left"),
	};

	CHECK_ROWS(read_replies, rows);
}

static void elements(void)
{
	static const struct row rows[] = {
		ROW("*0\r\n*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n+OK\r\n",
		    "*0/1\n*5/6 :0 :16 :15 :-1 :2\n+OK\n0 left"),
		ROW("*2\r\n*2\r\n:1\r\n*0\r\n$1\r\na\r\n", "*2/5 *2/3 :1 *0/1 $a\n0 left"),
		ROW("%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n_\r\n", "%4/6 +a :1 +b ~1/2 _\n0 left"),
		ROW(">2\r\n+message\r\n$1\r\na\r\n:1\r\n", ">2/3 +message $a\n:1\n0 left"),
		/* an attribute precedes a value and is not a value itself */
		ROW("|1\r\n+ttl\r\n:9\r\n$1\r\na\r\n", "|2/3 +ttl :9 $a\n0 left"),
		ROW("*2\r\n|1\r\n+ttl\r\n:9\r\n:1\r\n|0\r\n:2\r\n", "*2/7 |2/3 +ttl :9 :1 |0/1 :2\n0 left"),
		ROW("|0\r\n", "4 left"),
		ROW("*2\r\n:1\r\n", "8 left"),
	};

	CHECK_ROWS(read_replies, rows);
}

static void nonsense_is_refused(void)
{
	static const struct row rows[] = {
		ROW("x", TYPE),
		ROW("\r\n", TYPE),
		ROW("+OK\r\n*1\r\n?", "+OK\n" TYPE),
		ROW("+a\rb\r\n", LINE),
		ROW("$1\r\nab\r\n", LINE),
		ROW("$1\r\na\nb", LINE),
		ROW("$1\r\nab\n", LINE),
		ROW(":\r\n", VALUE),
		ROW(":01\r\n", VALUE),
		ROW(":+\r\n", VALUE),
		ROW(":+-1\r\n", VALUE),
		ROW(":9223372036854775808\r\n", VALUE),
		ROW("_x\r\n", VALUE),
		ROW("#\r\n", VALUE),
		ROW("#x\r\n", VALUE),
		ROW("#tt\r\n", VALUE),
		ROW(",\r\n", VALUE),
		ROW(",.\r\n", VALUE),
		ROW(",1e\r\n", VALUE),
		ROW(",1e+\r\n", VALUE),
		ROW(",1.5x\r\n", VALUE),
		ROW(",-\r\n", VALUE),
		ROW(",infinity\r\n", VALUE),
		ROW("(\r\n", VALUE),
		ROW("(-\r\n", VALUE),
		ROW("(1.5\r\n", VALUE),
		ROW("$?\r\n", VALUE),
		ROW("$-2\r\n", VALUE),
		ROW("%-1\r\n", VALUE),
		ROW("=-1\r\n", VALUE),
		ROW("=3\r\ntxt\r\n", VALUE),
		ROW("=4\r\ntxt.\r\n", VALUE),
	};

	CHECK_ROWS(read_replies, rows);
}

static void replies_have_a_most(void)
{
	static const struct row rows[] = {
		ROW("*11\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
		    "*11/12 :1 :1 :1 :1 :1 :1 :1 :1 :1 :1 :1\n0 left"),
		ROW("*12\r\n", SIZE),
		ROW("%6\r\n", SIZE),
		ROW("%9223372036854775807\r\n", SIZE),
		ROW("*2\r\n*9\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*1\r\n", SIZE),
		ROW("*2\r\n*9\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n|0\r\n:", SIZE),
		ROW("*1\r\n*1\r\n*1\r\n:1\r\n", "*1/4 *1/3 *1/2 :1\n0 left"),
		ROW("*1\r\n*1\r\n*1\r\n*0\r\n", "*1/4 *1/3 *1/2 *0/1\n0 left"),
		ROW("*1\r\n*1\r\n*1\r\n*1\r\n", SIZE),
		ROW("$100\r\n", "6 left"),
		ROW("$101\r\n", SIZE),
		ROW("$9223372036854775807\r\n", SIZE),
		ROW("+123456789012345678901234567890123456789\r\n", "+123456789012345678901234567890123456789\n0 left"),
		ROW("+1234567890123456789012345678901234567890\r\n", LINE),
	};

	CHECK_ROWS(read_replies, rows);
}

TESTS(TEST(values), TEST(elements), TEST(nonsense_is_refused), TEST(replies_have_a_most))
