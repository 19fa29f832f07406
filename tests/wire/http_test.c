/* http_test.c: HTTP requests in every split, and which are rejected. */
#include "http_transcript.h"

#include "rows.h"

static struct http_transcript transcript;

static const char *read_requests(const char *bytes, size_t size, struct pieces pieces)
{
	http_transcribe(&transcript, bytes, size, pieces);
	return transcript.text;
}

static void requests(void)
{
	static const struct row rows[] = {
		ROW("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / ? {Host: a} = +\n"),
		ROW("GET /v1/check?ip=1.2.3.4&cost=2 HTTP/1.1\r\nHost: a\r\n\r\n",
		    "GET /v1/check ?ip=1.2.3.4&cost=2 {Host: a} = +\n"),
		ROW("HEAD /? HTTP/1.1\r\nhOsT:\ta \t \r\nX:\r\n\r\n", "HEAD / ? {hOsT: a, X: } = +\n"),
		ROW("GET http://a.example/b?c HTTP/1.1\r\nHost: a.example\r\n\r\n",
		    "GET /b ?c {Host: a.example} = +\n"),
		ROW("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * ? {Host: a} = +\n"),
		ROW("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / ? {Host: a} = +\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		    "GET / ? {Host: a, Connection: close} = -\n"),
		ROW("GET / HTTP/1.0\r\n\r\n", "GET / ? {} = -\n"),
		ROW("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / ? {Connection: keep-alive} = +\n"),
		ROW("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\nGE",
		    "GET /a ? {Host: a} = +\nGET /b ? {Host: a} = +\nmore\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
		    "GET / ? {Host: a, Connection: Upgrade, Upgrade: h2c} = +\nGET /b ? {Host: a} = +\n"),
		ROW("GET / HTTP/1.1\r\nHost: \x80\xff\r\n\r\n", "GET / ? {Host: \\x80\\xff} = +\n"),
	};

	CHECK_ROWS(read_requests, rows);
}

#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define SAID_CHUNKED "POST / ? {Host: a, Transfer-Encoding: chunked} ="

static void bodies(void)
{
	static const struct row rows[] = {
		ROW("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na\n\0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		    "POST / ? {Host: a, Content-Length: 5} =a\\x0a\\x00\\x0d\\x0a +\nGET / ? {Host: a} = +\n"),
		ROW("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		    "POST / ? {Host: a, Content-Length: 0} = +\n"),
		ROW("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab", "more\n"),
		ROW(CHUNKED "0\r\n\r\n", SAID_CHUNKED " +\n"),
		ROW(CHUNKED "3\r\nabc\r\n00A\r\n\n 23456789\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		    SAID_CHUNKED "abc\\x0a\\x2023456789 +\nGET / ? {Host: a} = +\n"),
		ROW(CHUNKED "3;a=b\r\nabc\r\n1;d\r\nd\r\n0\r\nContent-Length: 9\r\nX: y\r\n\r\n",
		    SAID_CHUNKED "abcd +\n"),
		ROW(CHUNKED "3\r\nab", "more\n"),
	};

	CHECK_ROWS(read_requests, rows);
}

#define SYNTAX "400 malformed HTTP/1.1 request (RFC 9112) at "
#define BARE_LF "400 a line ends with LF; use CR LF at "
#define FOLDED "400 a header line begins with a space; write each header on one line at "
#define VERSION "505 unsupported HTTP version; use HTTP/1.1 or HTTP/1.0 at "
#define METHOD "501 CONNECT and PRI are not supported; use GET, HEAD, POST, PUT or DELETE at "
#define CODING "501 unsupported Transfer-Encoding; use chunked, once, with HTTP/1.1 at "

static void ambiguous_heads(void)
{
	static const struct row rows[] = {
		ROW("GET / HTTP/1.1\nHost: a\r\n\r\n", BARE_LF "14\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\n\r\n", SYNTAX "23\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\r\n\n", BARE_LF "25\n"),
		ROW("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BARE_LF "0\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", SYNTAX "24\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", FOLDED "25\n"),
		ROW("GET / HTTP/1.1\r\nX: a\r\n\tb\r\nHost: a\r\n\r\n", FOLDED "22\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", SYNTAX "23\n"),
		ROW("GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n", SYNTAX "18\n"),
		ROW("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", SYNTAX "5\n"),
		ROW("GET / HTTP/1.1\r\nHost : a\r\n\r\n", SYNTAX "20\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", SYNTAX "26\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "400 a header has no name before its colon at 27\n"),
		ROW("GET / HTTP/1.1\r\n\r\n", "400 missing Host header at 0\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n", "400 more than one Host header; send one at 25\n"),
		ROW("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
		    "400 invalid target; use a path, with or without a query, and without a fragment at 4\n"),
		ROW("GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n", SYNTAX "5\n"),
		ROW("get / HTTP/1.1\r\nHost: a\r\n\r\n", SYNTAX "0\n"),
		ROW("GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n",
		    "417 unsupported Expect; use 100-continue at 25\n"),
		ROW("GET / HTTP/2.0\r\nHost: a\r\n\r\n", VERSION "4\n"),
		ROW("GET / HTTP/0.9\r\nHost: a\r\n\r\n", VERSION "4\n"),
		ROW("GET / HTTP/1.2\r\nHost: a\r\n\r\n", VERSION "14\n"),
		ROW("GET /\r\n\r\n", VERSION "4\n"),
		ROW("GET / RTSP/1.0\r\nHost: a\r\n\r\n", VERSION "4\n"),
		ROW("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", METHOD "8\n"),
		ROW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", METHOD "24\n"),
	};

	CHECK_ROWS(read_requests, rows);
}

#define POST "POST / HTTP/1.1\r\nHost: a\r\n"

static void ambiguous_lengths(void)
{
	static const struct row rows[] = {
		ROW(POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", SYNTAX "61\n"),
		ROW(POST "Content-Length: 3, 3\r\n\r\nabc", SYNTAX "43\n"),
		ROW(POST "Content-Length: +3\r\n\r\nabc", SYNTAX "42\n"),
		ROW(POST "Content-Length: 0x3\r\n\r\nabc", SYNTAX "43\n"),
		ROW(POST "Content-Length: \r\n\r\n", SYNTAX "44\n"),
		ROW(POST "Content-Length: 99999999999999999999\r\n\r\n", SYNTAX "62\n"),
		ROW(POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", SYNTAX "75\n"),
		ROW(POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", SYNTAX "75\n"),
		ROW(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", CODING "26\n"),
		ROW(POST "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", CODING "26\n"),
		ROW(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", CODING "26\n"),
		ROW(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", SYNTAX "74\n"),
		ROW("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", CODING "17\n"),
	};

	CHECK_ROWS(read_requests, rows);
}

static void bad_chunks(void)
{
	static const struct row rows[] = {
		ROW(CHUNKED "3\nabc\r\n0\r\n\r\n", SYNTAX "56\n"),
		ROW(CHUNKED "3\r\nabc\n0\r\n\r\n", SYNTAX "56\n"),
		ROW(CHUNKED "3\r\nabcd\r\n0\r\n\r\n", SYNTAX "56\n"),
		ROW(CHUNKED "3;a\nb\r\nabc\r\n0\r\n\r\n", BARE_LF "56\n"),
		ROW(CHUNKED "0x3\r\nabc\r\n0\r\n\r\n", SYNTAX "56\n"),
		ROW(CHUNKED "-3\r\nabc\r\n0\r\n\r\n", SYNTAX "56\n"),
		ROW(CHUNKED "\r\n", SYNTAX "56\n"),
		ROW(CHUNKED "3 \r\nabc\r\n0\r\n\r\n", SYNTAX "56\n"),
		ROW(CHUNKED "fffffffffffffffff\r\n", SYNTAX "56\n"),
		ROW(CHUNKED "20001\r\n", "413 the body is too long; use at most 131072 bytes at 56\n"),
		ROW(CHUNKED "0\r\nX: y\r\n\n", BARE_LF "56\n"),
		ROW(CHUNKED "0\r\nX: y\r\n z\r\n\r\n", FOLDED "56\n"),
		ROW(CHUNKED "0\r\nX y\r\n\r\n", SYNTAX "56\n"),
	};

	CHECK_ROWS(read_requests, rows);
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static char text[1 << 20]; /* a request as it grows */
static size_t size;

static void add(const char *bytes, size_t n)
{
	CHECK(n <= sizeof(text) - size);
	memcpy(text + size, bytes, n);
	size += n;
}

static void add_text(const char *words)
{
	add(words, strlen(words));
}

static void add_many(char byte, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(&byte, 1);
}

static void check_begin(const char *expected)
{
	static const size_t eaches[] = { 97, 4096, SIZE_MAX };

	for (size_t i = 0; i < sizeof(eaches) / sizeof(eaches[0]); i++) {
		http_transcribe(&transcript, text, size, (struct pieces){ eaches[i], eaches[i] });
		transcript.text[strnlen(transcript.text, strlen(expected))] = '\0';
		CHECK_TEXT(transcript.text, expected);
	}
	size = 0;
}

static void heads_have_a_size(void)
{
	add_text("GET /");
	add_many('a', WEIR__HTTP_HEAD_MAX - 27);
	add_text(" HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EQ(size, WEIR__HTTP_HEAD_MAX);
	check_begin("GET /a");
	add_text("GET /");
	add_many('a', WEIR__HTTP_HEAD_MAX - 26);
	add_text(" HTTP/1.1\r\nHost: a\r\n\r\n");
	check_begin("431 ");
	add_text("GET /");
	add_many('a', WEIR__HTTP_HEAD_MAX);
	check_begin("414 ");
	add_text("GET / HTTP/1.1\r\nHost: a\r\nX: ");
	add_many('b', WEIR__HTTP_HEAD_MAX);
	check_begin("431 headers too long; request line");
}

static void headers_have_a_number(void)
{
	for (int extra = 0; extra < 2; extra++) {
		add_text("GET / HTTP/1.1\r\nHost: a\r\n");
		for (int i = 0; i < WEIR__HTTP_HEADERS_MAX - 1 + extra; i++)
			add_text("X: y\r\n");
		add_text("\r\n");
		check_begin(extra ? "431 too many headers; use at most 64" : "GET / ? {Host: a, X: y");
	}
}

static void bodies_have_a_size(void)
{
	add_text("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 131072\r\n\r\n");
	add_many('a', WEIR__HTTP_BODY_MAX);
	check_begin("POST / ?");
	add_text("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 131073\r\n\r\n");
	check_begin("413 ");
	add_text(CHUNKED);
	for (int i = 0; i < WEIR__HTTP_BODY_MAX / 4; i++)
		add_text("4\r\nabcd\r\n");
	add_text("0\r\n\r\n");
	check_begin("POST / ?");
	add_text(CHUNKED);
	for (int i = 0; i < WEIR__HTTP_BODY_MAX / 4; i++)
		add_text("4\r\nabcd\r\n");
	add_text("1\r\n");
	check_begin("413 ");
}

static void what_nobody_reads_has_a_size(void)
{
	add_text(CHUNKED "1;");
	add_many('a', WEIR__HTTP_EXTRA_MAX);
	add_text("\r\nb\r\n0\r\n\r\n");
	check_begin("POST / ?");
	add_text(CHUNKED "1;");
	add_many('a', WEIR__HTTP_EXTRA_MAX + 1);
	check_begin("431 chunk extensions");
	add_text(CHUNKED "0\r\n");
	for (int i = 0; i < WEIR__HTTP_EXTRA_MAX / 2 + 1; i++)
		add_text("a: b\r\n");
	check_begin("431 chunk extensions");
}

/* --- the rest --------------------------------------------------------------------------------------------------- */

static void headers_are_found(void)
{
	char bytes[] = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x \r\nauthorization: y\r\n\r\n";
	struct weir__http_reader reader;
	struct weir__http_request request;
	struct weir__http_slice value;
	size_t used;

	weir__http_init(&reader);
	CHECK(weir__http_read(&reader, bytes, strlen(bytes), &used, &request) == WEIR__HTTP_COMPLETE);
	CHECK(weir__http_find(&request, "authorization", &value));
	CHECK_EQ(value.length, 8);
	CHECK(memcmp(value.bytes, "Bearer x", 8) == 0);
	CHECK(!weir__http_find(&request, "authorisation", &value));
}

static void clients_may_wait_to_be_told(void)
{
	char bytes[] = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx";
	struct weir__http_reader reader;
	struct weir__http_request request;
	size_t used;

	weir__http_init(&reader);
	CHECK(weir__http_read(&reader, bytes, strlen(bytes) - 1, &used, &request) == WEIR__HTTP_MORE);
	CHECK(reader.expects_continue);
	CHECK(weir__http_read(&reader, bytes, strlen(bytes), &used, &request) == WEIR__HTTP_COMPLETE);
}

static void queries_are_decoded(void)
{
	static const struct {
		const char *from, *to;
	} rows[] = { { "", "" },      { "abc", "abc" },  { "a%20b+c", "a b c" }, { "%41%7a%7A", "Azz" },
		     { "%", NULL },   { "%4", NULL },    { "%4g", NULL },        { "%g4", NULL },
		     { "a%2", NULL }, { "%25%2B", "%+" } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char bytes[32];
		struct weir__http_slice slice = { bytes, strlen(rows[i].from) };

		memcpy(bytes, rows[i].from, slice.length);
		CHECK(weir__http_decode(&slice) == (rows[i].to != NULL));
		if (rows[i].to) {
			CHECK_EQ(slice.length, strlen(rows[i].to));
			CHECK(memcmp(bytes, rows[i].to, slice.length) == 0);
		}
	}
}

TESTS(TEST(requests), TEST(bodies), TEST(ambiguous_heads), TEST(ambiguous_lengths), TEST(bad_chunks),
      TEST(heads_have_a_size), TEST(headers_have_a_number), TEST(bodies_have_a_size),
      TEST(what_nobody_reads_has_a_size), TEST(headers_are_found), TEST(clients_may_wait_to_be_told),
      TEST(queries_are_decoded))
