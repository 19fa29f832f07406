/* log_lines_test.c: log lines as text and as JSON, and what happens to them when the reader is slow. */
/* Covers: src/observe/log.c, src/os/descriptor.c */
#include "observe/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define BYTES(literal) literal, sizeof(literal) - 1

/* The text of a line after its time. */
static const char *said(struct weir__log_line *line)
{
	static char text[WEIR__LOG_LINE + 1];
	FILE *const out = fmemopen(text, sizeof(text), "w");
	const char *z;

	weir__log_print(line, out);
	fclose(out);
	z = strchr(text, 'Z');
	CHECK(z != NULL);
	return z ? z + 1 : text;
}

static void text_is_escaped(void)
{
	static const struct {
		const char *what, *bytes;
		size_t n;
		const char *text, *json;
	} rows[] = {
		{ "a plain word", BYTES("user:42"), "user:42", "user:42" },
		{ "nothing at all", BYTES(""), "\"\"", "" },
		{ "a space", BYTES("a b"), "\"a b\"", "a b" },
		{ "what looks like another part", BYTES("a=b"), "\"a=b\"", "a=b" },
		{ "quotes and a backslash", BYTES("\"\\"), "\"\\\"\\\\\"", "\\\"\\\\" },
		{ "a line end", BYTES("a\nweir serve: b"), "\"a\\x0aweir serve: b\"", "a\\u000aweir serve: b" },
		{ "an escape sequence of terminals", BYTES("\x1b[2J"), "\"\\x1b[2J\"", "\\u001b[2J" },
		{ "a NUL, and DEL", BYTES("\0\x7f"), "\"\\x00\\x7f\"", "\\u0000\\u007f" },
		{ "letters beyond ASCII", BYTES("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"", "gr\xc3\xbc\xc3\x9f" },
		{ "a control character of two bytes", BYTES("\xc2\x9b"), "\"\\xc2\\x9b\"", "\\u009b" },
		{ "what turns the order of letters", BYTES("\xe2\x80\xae"), "\"\\xe2\\x80\\xae\"", "\\u202e" },
		{ "a hidden letter outside the first plane", BYTES("\xf3\xa0\x80\xa2"), "\"\\xf3\\xa0\\x80\\xa2\"",
		  "\\udb40\\udc22" },
		{ "four bytes", BYTES("\xf0\x9f\x98\x80"), "\"\xf0\x9f\x98\x80\"", "\xf0\x9f\x98\x80" },
		{ "bytes that are not UTF-8", BYTES("a\xff\xc3"), "\"a\\xff\\xc3\"", "a\\\\xff\\\\xc3" },
		{ "an overlong form", BYTES("\xc0\xaf"), "\"\\xc0\\xaf\"", "\\\\xc0\\\\xaf" },
	};
	char expected[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__log_line line;

		weir__log_begin(&line, false, WEIR__LOG_INFO, "denied");
		weir__log_text(&line, "key", rows[i].bytes, rows[i].n);
		(void)snprintf(expected, sizeof(expected), " key=%s\n", rows[i].text);
		CHECK_TEXT(said(&line), expected);
		weir__log_begin(&line, true, WEIR__LOG_INFO, "denied");
		weir__log_text(&line, "key", rows[i].bytes, rows[i].n);
		(void)snprintf(expected, sizeof(expected),
			       "\",\"level\":\"info\",\"event\":\"denied\",\"key\":\"%s\"}\n", rows[i].json);
		CHECK_TEXT(said(&line), expected);
		if (check_failed)
			printf("# that was: %s\n", rows[i].what);
	}
}

static void a_line_has_parts(void)
{
	struct weir__log_line line;

	weir__log_begin(&line, true, WEIR__LOG_AUDIT, "limit_changed");
	weir__log_word(&line, "limit", "per-client");
	weir__log_number(&line, "n", UINT64_MAX);
	weir__log_truth(&line, "shadow", true);
	CHECK_TEXT(said(&line), "\",\"level\":\"audit\",\"event\":\"limit_changed\",\"limit\":\"per-client\","
				"\"n\":18446744073709551615,\"shadow\":true}\n");
	weir__log_begin(&line, false, WEIR__LOG_AUDIT, "limit_changed");
	weir__log_number(&line, "n", 7);
	CHECK(strncmp(line.bytes, BYTES("weir serve: audit limit_changed time=20")) == 0);
	CHECK_TEXT(said(&line), " n=7\n");
}

/* A line that is too long ends properly and says that it was cut. */
static void a_long_line_is_cut(void)
{
	char bytes[2 * WEIR__LOG_LINE];

	for (int is_json = 0; is_json < 2; is_json++)
		for (size_t n = WEIR__LOG_LINE - 256; n < sizeof(bytes); n += 7)
			for (int kind = 0; kind < 3; kind++) {
				static const char fill[] = { 'a', '\n', (char)0xff };
				struct weir__log_line line;
				const char *end;

				memset(bytes, fill[kind], n);
				weir__log_begin(&line, is_json, WEIR__LOG_INFO, "denied");
				weir__log_text(&line, "key", bytes, n);
				weir__log_text(&line, "path", bytes, n);
				weir__log_number(&line, "n", 1);
				end = said(&line);
				CHECK(line.length <= WEIR__LOG_LINE && line.is_cut);
				CHECK(strlen(end) > 20 && strcmp(end + strlen(end) - (is_json ? 13 : 10),
								 is_json ? ",\"cut\":true}\n" : " cut=true\n") == 0);
			}
}

/* --- the queue ----------------------------------------------------------------------------------------------------- */

/* Counts lines until the other end is closed, or one has this word. */
static uint64_t count_lines(FILE *in, const char *until, char *ret_last, size_t size)
{
	uint64_t n = 0;

	while (fgets(ret_last, (int)size, in)) {
		if (until && strstr(ret_last, until))
			return n;
		n++;
	}
	return n;
}

/* A log that writes into a pipe. Returns both ends: where its lines can be read, and where it writes. */
static struct weir__log *piped_log(FILE **ret_in, int *ret_end)
{
	struct weir__log *log;
	int ends[2];

	CHECK(pipe(ends) == 0);
	log = weir__log_new(ends[1], false);
	*ret_in = fdopen(ends[0], "r");
	*ret_end = ends[1];
	CHECK(log != NULL && *ret_in != NULL);
	return log;
}

static void sentences_and_streams(void)
{
	char text[WEIR__LOG_LINE];
	FILE *in;
	int end;
	struct weir__log *const log = piped_log(&in, &end);

	weir__log_say(log, WEIR__LOG_INFO, "process %d\x1b serves", 7);
	fprintf(weir__log_stream(log, WEIR__LOG_WARNING), "weir serve: %s", "one ");
	fprintf(weir__log_stream(log, WEIR__LOG_WARNING), "line\nlimits.yaml:1:2: another\n");
	weir__log_free(log);
	close(end);
	CHECK(fgets(text, sizeof(text), in));
	CHECK_TEXT(text, "weir serve: process 7\\x1b serves\n");
	CHECK(fgets(text, sizeof(text), in));
	CHECK_TEXT(text, "weir serve: one line\n");
	CHECK(fgets(text, sizeof(text), in));
	CHECK_TEXT(text, "limits.yaml:1:2: another\n");
	CHECK(fgets(text, sizeof(text), in) == NULL);
	fclose(in);
}

static void what_nobody_reads_is_left_out(void)
{
	const uint64_t most = 1000000;
	uint64_t handed = 0, read;
	char text[WEIR__LOG_LINE];
	FILE *in;
	int end;
	struct weir__log *const log = piped_log(&in, &end);

	for (; handed < most && weir__log_left_out(log) < 100; handed++)
		weir__log_say(log, WEIR__LOG_INFO, "line %llu", (unsigned long long)handed);
	CHECK(handed < most);
	read = count_lines(in, "were dropped", text, sizeof(text));
	CHECK_TEXT(text, "weir serve: 100 log lines were dropped, because standard error was not read in time\n");
	CHECK_EQ(read + 100, handed);
	weir__log_say(log, WEIR__LOG_INFO, "goes on");
	weir__log_free(log);
	close(end);
	CHECK_EQ(count_lines(in, NULL, text, sizeof(text)), 1);
	CHECK_TEXT(text, "weir serve: goes on\n");
	fclose(in);
}

static void the_end_does_not_wait_for_ever(void)
{
	struct weir__log *log;
	int ends[2];

	CHECK(pipe(ends) == 0);
	log = weir__log_new(ends[1], true);
	CHECK(log != NULL);
	while (weir__log_left_out(log) == 0)
		weir__log_say(log, WEIR__LOG_INFO, "this is not read");
	weir__log_free(log);
	close(ends[0]);
	close(ends[1]);
}

TESTS(TEST(text_is_escaped), TEST(a_line_has_parts), TEST(a_long_line_is_cut), TEST(sentences_and_streams),
      TEST(what_nobody_reads_is_left_out), TEST(the_end_does_not_wait_for_ever))
