/* http_reply_test.c: HTTP responses, byte by byte. */
#include "wire/http_reply.h"

#include "check.h"

enum { SIZE = 4096 };

static char out[SIZE];
static struct weir__http_date date;
static struct weir__http_reply reply;

static struct weir__http_reply *begin(size_t size)
{
	weir__http_date_set(&date, UINT64_C(784111777000000000)); /* the example date of RFC 9110 */
	memset(out, 'x', sizeof(out));
	weir__reply_init(&reply, out, size, &date);
	return &reply;
}

static void check_answer(const char *expected)
{
	CHECK(reply.length < SIZE);
	out[reply.length < SIZE ? reply.length : 0] = '\0';
	CHECK_TEXT(out, expected);
}

#define DATE "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"

static void heads_tell_of_bodies(void)
{
	WEIR__REPLY_ADD(begin(SIZE), "ok\n");
	weir__reply_end(&reply, 200, WEIR__TYPE_TEXT);
	check_answer("HTTP/1.1 200 OK\r\n" DATE
		     "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\nok\n");

	begin(SIZE)->says_close = true;
	WEIR__REPLY_HEAD(&reply, "X: ");
	weir__reply_head_number(&reply, UINT64_MAX);
	weir__reply_head_text(&reply, "\r\n");
	weir__reply_end(&reply, 404, WEIR__TYPE_JSON);
	check_answer("HTTP/1.1 404 Not Found\r\n" DATE "Content-Type: application/json\r\nContent-Length: 0\r\n"
		     "Connection: close\r\nX: 18446744073709551615\r\n\r\n");

	begin(SIZE)->is_without_body = true;
	reply.says_keep_alive = true;
	weir__reply_add_number(&reply, 1234567);
	weir__reply_end(&reply, 200, WEIR__TYPE_JSON);
	check_answer("HTTP/1.1 200 OK\r\n" DATE "Content-Type: application/json\r\nContent-Length: 7\r\n"
		     "Connection: keep-alive\r\n\r\n");

	weir__reply_end(begin(SIZE), 204, WEIR__TYPE_JSON);
	check_answer("HTTP/1.1 204 No Content\r\n" DATE "\r\n");

	weir__reply_add_text(begin(SIZE), "what the client has already");
	weir__reply_end(&reply, 304, WEIR__TYPE_HTML);
	check_answer("HTTP/1.1 304 Not Modified\r\n" DATE "\r\n");
}

static void problems_drop_what_was_written(void)
{
	weir__reply_add_text(begin(SIZE), "half an answer");
	weir__reply_problem(&reply, 400, "a \"b\"");
	check_answer(
		"HTTP/1.1 400 Bad Request\r\n" DATE
		"Content-Type: application/problem+json\r\nContent-Length: 77\r\n\r\n"
		"{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"detail\":\"a \\\"b\\\"\"}\n");
}

#define TOO_LONG                                                                                                       \
	"HTTP/1.1 500 Internal Server Error\r\n" DATE                                                                  \
	"Content-Type: application/problem+json\r\nContent-Length: 104\r\n\r\n"                                        \
	"{\"type\":\"about:blank\",\"title\":\"Internal Server Error\",\"status\":500,\"detail\":"                     \
	"\"the response is too long\"}\n"

static void what_does_not_fit_is_an_error(void)
{
	static const char text[WEIR__REPLY_HEADERS_SIZE + 1] = "a";
	const size_t room = 512;

	weir__reply_add(begin(WEIR__REPLY_HEAD_ROOM + room), text, room + 1);
	weir__reply_add_text(&reply, "b");
	weir__reply_end(&reply, 200, WEIR__TYPE_TEXT);
	check_answer(TOO_LONG);
	weir__reply_head(begin(SIZE), text, sizeof(text));
	weir__reply_end(&reply, 200, WEIR__TYPE_TEXT);
	check_answer(TOO_LONG);
	weir__reply_add(begin(WEIR__REPLY_HEAD_ROOM + room), text, room);
	weir__reply_end(&reply, 200, WEIR__TYPE_TEXT);
	CHECK(memcmp(out, "HTTP/1.1 200 OK\r\n", 17) == 0);
	CHECK(weir__reply_room(&reply, 1) == NULL);
}

static void strings_are_those_of_json(void)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *expected;
	} rows[] = {
		{ "", 0, "\"\"" },
		{ "a b", 3, "\"a b\"" },
		{ "\"\\/", 3, "\"\\\"\\\\/\"" },
		{ "\n\0\x1f\x7f", 4, "\"\\n\\u0000\\u001f\\u007f\"" },
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\x8a", 9, "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\x8a\"" },
		/* not UTF-8: an invalid first byte, a truncated character, an overlong one, a surrogate, one beyond
		 * U+10FFFF */
		{ "\xff", 1, "\"\xef\xbf\xbd\"" },
		{ "\xc3", 1, "\"\xef\xbf\xbd\"" },
		{ "\xc3z", 2, "\"\xef\xbf\xbdz\"" },
		{ "\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xe0\x80\xaf", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		weir__reply_add_string(begin(SIZE), rows[i].bytes, rows[i].n);
		CHECK_EQ(reply.body_length, strlen(rows[i].expected));
		out[WEIR__REPLY_HEAD_ROOM + reply.body_length] = '\0';
		CHECK_TEXT(out + WEIR__REPLY_HEAD_ROOM, rows[i].expected);
	}
}

TESTS(TEST(heads_tell_of_bodies), TEST(problems_drop_what_was_written), TEST(what_does_not_fit_is_an_error),
      TEST(strings_are_those_of_json))
