/* resp_write_test.c: every reply in both protocols, with just enough room and with too little, and read back. */
#include "wire/resp.h"

#include "check.h"
#include "transcript.h"

static char room[256];
static struct weir__resp_writer writer;

static void simple(void)
{
	weir__resp_write_simple(&writer, "OK", 2);
}

static void lines_in_a_line(void)
{
	weir__resp_write_simple(&writer, "a\r\nb", 4);
}

static void error(void)
{
	weir__resp_write_error(&writer, "ERR no", 6);
}

static void integers(void)
{
	static const int64_t numbers[] = { 0, 9, 10, 99, 100, 12345, -1, INT64_MAX, INT64_MIN };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		weir__resp_write_integer(&writer, numbers[i]);
}

static void throttle(void)
{
	static const int64_t numbers[] = { 0, 16, 15, -1, 2 };

	weir__resp_write_integers(&writer, numbers, 5);
}

static void unsigned_numbers(void)
{
	weir__resp_write_unsigned(&writer, INT64_MAX);
	weir__resp_write_unsigned(&writer, UINT64_MAX);
}

static void doubles(void)
{
	weir__resp_write_double(&writer, 15, 1);
	weir__resp_write_double(&writer, -1500, 3);
	weir__resp_write_double(&writer, 2000, 3);
	weir__resp_write_double(&writer, 0, 9);
	weir__resp_write_double(&writer, 7, 3);
	weir__resp_write_double(&writer, INT64_MIN, 18);
}

static void bulks(void)
{
	weir__resp_write_bulk(&writer, "a\r\nb", 4);
	weir__resp_write_bulk(&writer, NULL, 0);
}

static void bulk_of_slices(void)
{
	static const struct weir__resp_slice slices[] = { { "ab", 2 }, { NULL, 0 }, { "\r\nc", 3 } };

	weir__resp_write_bulk_of(&writer, slices, 3);
	weir__resp_write_bulk_of(&writer, NULL, 0);
}

static void verbatim(void)
{
	weir__resp_write_verbatim(&writer, "txt", "hello", 5);
}

static void booleans(void)
{
	weir__resp_write_boolean(&writer, true);
	weir__resp_write_boolean(&writer, false);
}

static void nulls(void)
{
	weir__resp_write_null(&writer);
	weir__resp_write_null_array(&writer);
}

static void heads(void)
{
	weir__resp_write_array(&writer, 3);
	weir__resp_write_map(&writer, 1);
	weir__resp_write_simple(&writer, "k", 1);
	weir__resp_write_integer(&writer, 1);
	weir__resp_write_set(&writer, 0);
	weir__resp_write_push(&writer, 0);
}

/* The bytes written, and what our own reader makes of them. */
static const struct {
	void (*write)(void);
	const char *written[2];
	const char *read[2];
} rows[] = {
	{ simple, { "+OK\r\n", "+OK\r\n" }, { "+OK\n0 left", "+OK\n0 left" } },
	{ lines_in_a_line, { "+a  b\r\n", "+a  b\r\n" }, { "+a\\x20\\x20b\n0 left", "+a\\x20\\x20b\n0 left" } },
	{ error, { "-ERR no\r\n", "-ERR no\r\n" }, { "-ERR\\x20no\n0 left", "-ERR\\x20no\n0 left" } },
	{ integers,
	  { ":0\r\n:9\r\n:10\r\n:99\r\n:100\r\n:12345\r\n:-1\r\n:9223372036854775807\r\n:-9223372036854775808\r\n",
	    ":0\r\n:9\r\n:10\r\n:99\r\n:100\r\n:12345\r\n:-1\r\n:9223372036854775807\r\n:-9223372036854775808\r\n" },
	  { ":0\n:9\n:10\n:99\n:100\n:12345\n:-1\n:9223372036854775807\n:-9223372036854775808\n0 left",
	    ":0\n:9\n:10\n:99\n:100\n:12345\n:-1\n:9223372036854775807\n:-9223372036854775808\n0 left" } },
	{ throttle,
	  { "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n" },
	  { "*5/6 :0 :16 :15 :-1 :2\n0 left", "*5/6 :0 :16 :15 :-1 :2\n0 left" } },
	{ unsigned_numbers,
	  { ":9223372036854775807\r\n$20\r\n18446744073709551615\r\n",
	    ":9223372036854775807\r\n(18446744073709551615\r\n" },
	  { ":9223372036854775807\n$18446744073709551615\n0 left",
	    ":9223372036854775807\n(18446744073709551615\n0 left" } },
	{ doubles,
	  { "$3\r\n1.5\r\n$4\r\n-1.5\r\n$1\r\n2\r\n$1\r\n0\r\n$5\r\n0.007\r\n$21\r\n-9.223372036854775808\r\n",
	    ",1.5\r\n,-1.5\r\n,2\r\n,0\r\n,0.007\r\n,-9.223372036854775808\r\n" },
	  { "$1.5\n$-1.5\n$2\n$0\n$0.007\n$-9.223372036854775808\n0 left",
	    ",1.5\n,-1.5\n,2\n,0\n,0.007\n,-9.223372036854775808\n0 left" } },
	{ bulks,
	  { "$4\r\na\r\nb\r\n$0\r\n\r\n", "$4\r\na\r\nb\r\n$0\r\n\r\n" },
	  { "$a\\x0d\\x0ab\n$\n0 left", "$a\\x0d\\x0ab\n$\n0 left" } },
	{ bulk_of_slices,
	  { "$5\r\nab\r\nc\r\n$0\r\n\r\n", "$5\r\nab\r\nc\r\n$0\r\n\r\n" },
	  { "$ab\\x0d\\x0ac\n$\n0 left", "$ab\\x0d\\x0ac\n$\n0 left" } },
	{ verbatim, { "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n" }, { "$hello\n0 left", "=hello\n0 left" } },
	{ booleans, { ":1\r\n:0\r\n", "#t\r\n#f\r\n" }, { ":1\n:0\n0 left", "#1\n#0\n0 left" } },
	{ nulls, { "$-1\r\n*-1\r\n", "_\r\n_\r\n" }, { "_\n_\n0 left", "_\n_\n0 left" } },
	{ heads,
	  { "*3\r\n*2\r\n+k\r\n:1\r\n*0\r\n*0\r\n", "*3\r\n%1\r\n+k\r\n:1\r\n~0\r\n>0\r\n" },
	  { "*3/6 *2/3 +k :1 *0/1 *0/1\n0 left", "*3/6 %2/3 +k :1 ~0/1 >0/1\n0 left" } },
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static void replies_are_written(void)
{
	for (size_t i = 0; i < ROWS; i++)
		for (int protocol = 2; protocol <= 3; protocol++) {
			writer = (struct weir__resp_writer){ room, sizeof(room) - 1, 0, protocol, false };
			rows[i].write();
			CHECK(writer.length < sizeof(room));
			room[writer.length] = '\0';
			CHECK_TEXT(room, rows[i].written[protocol - 2]);
		}
}

static void they_are_read_back(void)
{
	static struct weir__resp_token tokens[32];
	static struct transcript transcript;
	struct weir__resp_reply reply = {
		.tokens = tokens, .tokens_max = 32, .depth_max = 2, .line_max = 100, .bulk_max = 100
	};

	for (size_t i = 0; i < ROWS; i++)
		for (int protocol = 2; protocol <= 3; protocol++) {
			const char *written = rows[i].written[protocol - 2];

			transcript_replies(&transcript, &reply, written, strlen(written), at_once);
			CHECK_TEXT(transcript.text, rows[i].read[protocol - 2]);
		}
}

static void the_size_that_would_do_is_known(void)
{
	for (size_t i = 0; i < ROWS; i++)
		for (int protocol = 2; protocol <= 3; protocol++) {
			const char *written = rows[i].written[protocol - 2];
			const size_t needed = strlen(written);

			for (size_t size = 0; size <= needed; size++) {
				char *exact = malloc(size + 1); /* a sanitizer sees a write beyond it */

				exact[size] = '!';
				writer = (struct weir__resp_writer){ exact, size, 0, protocol, false };
				rows[i].write();
				CHECK_EQ(writer.length, needed);
				CHECK(exact[size] == '!');
				if (size == needed)
					CHECK(memcmp(exact, written, needed) == 0);
				free(exact);
			}
		}
}

static void functions_say_whether_it_fits(void)
{
	writer = (struct weir__resp_writer){ room, 9, 0, 3, false };
	CHECK(weir__resp_write_integer(&writer, 1));
	CHECK(weir__resp_write_simple(&writer, "OK", 2));
	CHECK_EQ(writer.length, 9);
	CHECK(!weir__resp_write_null(&writer));
	CHECK(!weir__resp_write_bulk(&writer, "", 0));
	CHECK(!weir__resp_write_integer(&writer, 1));
	CHECK(!weir__resp_write_integers(&writer, (int64_t[]){ 1 }, 1));
	CHECK_EQ(writer.length, 9 + 3 + 6 + 4 + 8);
}

static void every_number_of_digits(void)
{
	char expected[32];

	for (uint64_t power = 1; power != 0; power = power > UINT64_MAX / 10 ? 0 : power * 10)
		for (uint64_t number = power - 1; number <= power + 1; number++) {
			writer = (struct weir__resp_writer){ room, sizeof(room) - 1, 0, 3, false };
			weir__resp_write_unsigned(&writer, number);
			room[writer.length] = '\0';
			(void)snprintf(expected, sizeof(expected), "%c%" PRIu64 "\r\n", number > INT64_MAX ? '(' : ':',
				       number);
			CHECK_TEXT(room, expected);
		}
}

TESTS(TEST(replies_are_written), TEST(they_are_read_back), TEST(the_size_that_would_do_is_known),
      TEST(functions_say_whether_it_fits), TEST(every_number_of_digits))
