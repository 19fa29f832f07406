/* The formats of log lines: what each makes of a line, which it refuses, and how they are detected.
 *
 * Covers: src/replay/log_csv.c, src/replay/log_field.c, src/replay/log_json.c, src/replay/log_text.c */
#include "replay/log_format.h"

#include <stdlib.h>

#include "check.h"

#define S UINT64_C(1000000000)
#define NINE UINT64_C(1795031433) /* 2026-11-18T19:50:33Z */

static const char *const wanted_names[] = { "ip", "method", "path", "user", "host", "user_agent", "x_api_key" };

enum { WANTED = sizeof(wanted_names) / sizeof(wanted_names[0]) };

static struct weir__slice wanted[WANTED];

static struct weir__log_options options_with(const struct weir__log_map *maps, size_t n_maps)
{
	for (size_t i = 0; i < WANTED; i++)
		wanted[i] = weir__slice_of(wanted_names[i]);
	return (struct weir__log_options){ .maps = maps, .n_maps = n_maps, .wanted = wanted, .n_wanted = WANTED };
}

/* "STAMP DURATION STATUS BYTES ip=... method=..." in ns, or why the line is bad. */
static const char *parse_with(const struct weir__log_options *options, const char *name, const char *header,
			      const char *line, size_t n)
{
	static char text[8192];
	struct weir__log_line *const parsed = malloc(sizeof(*parsed));
	/* Memory of exactly this size, so that a sanitizer sees a read beyond it. */
	char *const bytes = malloc(n ? n : 1);
	struct weir__log_format *format;
	struct weir_message why;
	const char *bad;
	size_t length;

	if (weir__log_format_new(options, name, weir__slice_of(header), &format, &why) != WEIR_OK) {
		(void)snprintf(text, sizeof(text), "format: %s", why.text);
		free(parsed);
		free(bytes);
		return text;
	}
	memcpy(bytes, line, n);
	bad = weir__log_format_parse(format, (struct weir__slice){ bytes, n }, parsed);
	if (bad) {
		(void)snprintf(text, sizeof(text), "%s", bad);
	} else {
		length = (size_t)snprintf(text, sizeof(text), "%s%" PRIu64 " %" PRIu64 " %u %" PRIu64,
					  parsed->is_start ? "start " : "", parsed->stamp.at,
					  parsed->has_duration ? parsed->duration : 0, (unsigned)parsed->status,
					  parsed->bytes);
		for (size_t i = 0; i < WANTED; i++)
			if (parsed->values[i].at)
				length += (size_t)snprintf(text + length, sizeof(text) - length, " %s=%.*s",
							   wanted_names[i], (int)parsed->values[i].n,
							   parsed->values[i].at);
	}
	weir__log_format_free(format);
	free(parsed);
	free(bytes);
	return text;
}

static const char *parse(const char *name, const char *line)
{
	const struct weir__log_options options = options_with(NULL, 0);

	return parse_with(&options, name, "", line, strlen(line));
}

static void combined(void)
{
	CHECK_TEXT(parse("combined",
			 "10.0.0.1 - ann [18/Nov/2026:19:50:33 +0000] \"GET /a/b?c=d HTTP/1.1\" 200 12 \"-\" "
			 "\"curl/8\""),
		   "1795031433000000000 0 200 12 ip=10.0.0.1 method=GET path=/a/b user=ann user_agent=curl/8");
	CHECK_TEXT(parse("combined",
			 "::1 - - [18/Nov/2026:19:50:33 +0000] \"GET http://h/p?q HTTP/1.1\" 200 - \"-\" \"-\" 0.1"),
		   "1795031433000000000 0 200 0 ip=::1 method=GET path=/p");
	/* nginx escapes what is not printable, Apache quotes. */
	CHECK_TEXT(parse("combined",
			 "1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET /\\x22\\xC3\\xA4 HTTP/1.1\" 200 1 \"-\" "
			 "\"a \\\"b\\\" \\\\\""),
		   "1795031433000000000 0 200 1 ip=1.1.1.1 method=GET path=/\"\xc3\xa4 user_agent=a \"b\" \\");
	/* What does not look like a request has no method and no path. */
	CHECK_TEXT(parse("combined", "1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"\\x16\\x03\" 400 1 \"-\" \"-\""),
		   "1795031433000000000 0 400 1 ip=1.1.1.1");
	CHECK_TEXT(parse("combined", "1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"-\" 400 0 \"-\" \"-\""),
		   "1795031433000000000 0 400 0 ip=1.1.1.1");
}

static void bad_text_lines_are_refused(void)
{
	CHECK_TEXT(parse("combined", ""), "it does not have all fields of the format");
	CHECK_TEXT(parse("combined", "garbage"), "it does not have all fields of the format");
	CHECK_TEXT(parse("combined", "1.1.1.1 - - [99/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\""),
		   "its time is in no known form, or not from 1970 to 2262");
	CHECK_TEXT(parse("combined", "1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" abc 1 \"-\" \"-\""),
		   "its status is not a number of three digits");
	CHECK_TEXT(parse("combined", "1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 x \"-\" \"-\""),
		   "its size is not a number");
	CHECK_TEXT(parse("combined", "1.1.1.1 - - [-] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\""), "it has no time");
	CHECK_TEXT(parse("combined", "1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"\\\""),
		   "it does not have all fields of the format");
}

static void format_strings(void)
{
	CHECK_TEXT(parse("$http_x_api_key|${remote_addr}|$msec|$request_time|$request_method $uri",
			 "secret|10.0.0.1|1795031433.250|0.125|POST /x"),
		   "1795031433250000000 125000000 0 0 ip=10.0.0.1 method=POST path=/x x_api_key=secret");
	CHECK_TEXT(
		parse("%v:%p %h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{X-Api-Key}i\\\" %D",
		      "example.org:443 1.2.3.4 - bob [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"k\" 1500"),
		"start 1795031433000000000 1500000 200 5 ip=1.2.3.4 method=GET path=/ user=bob host=example.org x_api_key=k");
	CHECK_TEXT(parse("%h %{msec}t %400,501{User-agent}i", "1.2.3.4 1795031433007 ua"),
		   "start 1795031433007000000 0 0 0 ip=1.2.3.4 user_agent=ua");
	CHECK_TEXT(parse("$remote_addr$time_local", ""),
		   "format: format: \"$time_local\": a variable directly behind another; put a character between them");
	CHECK_TEXT(
		parse("$remote_addr $status", ""),
		"format: format: \"$time_local\" or another time is missing: without it nothing is known of when requests came");
	CHECK_TEXT(parse("$remote_addr $", ""), "format: format: \"$\": not a variable");
	CHECK_TEXT(parse("%h %", ""), "format: format: \"%\": not a variable");
	CHECK_TEXT(
		parse("combind", ""),
		"format: unknown format \"combind\"; did you mean combined? Use one of vhost_combined, combined_timed, "
		"combined, apache, common, caddy, traefik, envoy, json, csv, or a log_format of nginx or "
		"a LogFormat of Apache");
}

static void json(void)
{
	CHECK_TEXT(
		parse("caddy",
		      "{\"level\":\"info\",\"ts\":1795031433.5,\"request\":{\"remote_ip\":\"10.0.0.1\",\"client_ip\":"
		      "\"10.0.0.2\",\"method\":\"GET\",\"host\":\"h\",\"uri\":\"/x?y\",\"headers\":{\"User-Agent\":[\"a\","
		      "\"b\"],\"X-Api-Key\":[\"k\"]}},\"user_id\":\"\",\"duration\":0.25,\"size\":7,\"status\":200}"),
		"1795031433500000000 250000000 200 7 ip=10.0.0.2 method=GET path=/x host=h user_agent=a x_api_key=k");
	CHECK_TEXT(
		parse("traefik",
		      "{\"ClientAddr\":\"10.0.0.1:99\",\"ClientHost\":\"10.0.0.1\",\"DownstreamStatus\":200,"
		      "\"DownstreamContentSize\":3,\"Duration\":1500,\"RequestMethod\":\"GET\",\"RequestPath\":\"/\","
		      "\"StartLocal\":\"2026-11-18T20:50:33+01:00\",\"StartUTC\":\"2026-11-18T19:50:33.000000001Z\"}"),
		"start 1795031433000000001 1500 200 3 ip=10.0.0.1 method=GET path=/");
	CHECK_TEXT(parse("envoy",
			 "{\"start_time\":\"2026-11-18T19:50:33.250Z\",\"duration\":12,\"response_code\":429,\"path\":"
			 "\"/a\",\"x-envoy-original-path\":\"/b\",\"method\":\"PUT\",\"authority\":\"h\","
			 "\"downstream_remote_address\":\"[::1]:55\",\"user_agent\":null,\"bytes_sent\":1}"),
		   "start 1795031433250000000 12000000 429 1 ip=::1 method=PUT path=/b host=h");
	CHECK_TEXT(
		parse("json",
		      " { \"time_iso8601\" : \"2026-11-18T19:50:33+00:00\" , \"remote_addr\" : \"1.1.1.1\", "
		      "\"request\": \"GET /\\u00e4\\ud83d\\ude00\\ud800\\/ HTTP/1.1\", \"a\": [1, {\"b\": []}, \"]\"], \"c\": {} } "),
		"1795031433000000000 0 0 0 ip=1.1.1.1 method=GET path=/\xc3\xa4\xf0\x9f\x98\x80\xef\xbf\xbd/");
}

static void bad_json_lines_are_refused(void)
{
	static const char *const wrong[] = {
		"{",          "}",     "{\"a\"",    "{\"a\":",          "{\"a\":1",         "{\"a\":1,}",
		"{\"a\" 1}",  "[1]",   "{\"a\":\"", "{\"a\":\"\\\"}",   "{\"a\":[1,2}",     "{\"a\":[1 2]}",
		"{\"a\":{]}", "{a:1}", "",          "{\"a\":,\"b\":1}", "{\"a\":1 \"b\":2}"
	};
	char deep[200];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK_TEXT(parse("json", wrong[i]), "it is not a JSON object");
	CHECK_TEXT(parse("json", "{}"), "it has no time");
	CHECK_TEXT(parse("json", "{\"time\":1} x"), "text follows the JSON object");
	memset(deep, '[', sizeof(deep));
	memcpy(deep, "{\"a\":", 5);
	deep[sizeof(deep) - 1] = '\0';
	CHECK_TEXT(parse("json", deep), "it is not a JSON object");
}

/* The names of one line are remembered for the next: it may have others. */
static void json_lines_may_differ(void)
{
	const struct weir__log_options options = options_with(NULL, 0);
	struct weir__log_line *const line = malloc(sizeof(*line));
	struct weir__log_format *format;
	struct weir_message why;

	CHECK_EQ(weir__log_format_new(&options, "json", weir__slice_of(""), &format, &why), WEIR_OK);
	CHECK(weir__log_format_parse(format,
				     weir__slice_of("{\"time\":5,\"a\":{\"ip\":\"9.9.9.9\"},\"ip\":\"1.1.1.1\"}"),
				     line) == NULL);
	CHECK(weir__slice_is(line->values[0], "1.1.1.1"));
	CHECK(weir__log_format_parse(format, weir__slice_of("{\"ip\":\"2.2.2.2\",\"time\":6}"), line) == NULL);
	CHECK(weir__slice_is(line->values[0], "2.2.2.2"));
	CHECK_EQ(line->stamp.at, 6 * S);
	CHECK(weir__log_format_parse(format, weir__slice_of("{\"time\":7,\"ip\":{\"ip\":\"9.9.9.9\"},\"x\":1}"),
				     line) == NULL);
	CHECK(line->values[0].at == NULL);
	weir__log_format_free(format);
	free(line);
}

static const char *parse_csv(const char *header, const char *line, const struct weir__log_map *maps, size_t n_maps)
{
	const struct weir__log_options options = options_with(maps, n_maps);

	return parse_with(&options, "csv", header, line, strlen(line));
}

static void csv(void)
{
	const struct weir__log_map maps[] = { { weir__slice_of("time"), weir__slice_of("when") },
					      { weir__slice_of("ip"), weir__slice_of("from") },
					      { weir__slice_of("duration_ms"), weir__slice_of("took") },
					      { weir__slice_of("x_api_key"), weir__slice_of("from") } };

	CHECK_TEXT(parse_csv("time,ip,method,path,status", "2026-11-18T19:50:33.5Z,1.1.1.1,GET,\"/a,\"\"b\"\"\",200",
			     NULL, 0),
		   "1795031433500000000 0 200 0 ip=1.1.1.1 method=GET path=/a,\"b\"");
	CHECK_TEXT(parse_csv("when;from;took;path", "1795031433;1.1.1.1;250;/", maps, 4),
		   "1795031433000000000 250000000 0 0 ip=1.1.1.1 path=/ x_api_key=1.1.1.1");
	CHECK_TEXT(parse_csv("time\tip", "1795031433\t1.1.1.1", NULL, 0), "1795031433000000000 0 0 0 ip=1.1.1.1");
	CHECK_TEXT(parse_csv("time,ip,user", "1795031433,,", NULL, 0), "1795031433000000000 0 0 0");
	CHECK_TEXT(parse_csv("time,ip", "1795031433", NULL, 0), "it does not have as many columns as the header");
	CHECK_TEXT(parse_csv("time,ip", "1795031433,1.1.1.1,x", NULL, 0),
		   "it does not have as many columns as the header");
	CHECK_TEXT(parse_csv("time,ip", "1795031433,\"1.1.1.1", NULL, 0), "it has a quote that does not end");
	CHECK_TEXT(parse_csv("time,ip", "1795031433,\"1.1.1.1\"x", NULL, 0), "it has a quote that does not end");
	CHECK_TEXT(parse_csv("a,b", "", NULL, 0),
		   "format: csv: no column of the header is a time; use --map time=COLUMN");
	CHECK_TEXT(parse_csv("", "", NULL, 0), "format: csv: no column of the header is a time; use --map time=COLUMN");
}

/* A map replaces the field that the dialect would use. */
static void maps_replace_fields(void)
{
	const struct weir__log_map maps[] = { { weir__slice_of("ip"), weir__slice_of("http_x_forwarded_for") },
					      { weir__slice_of("start"), weir__slice_of("began") },
					      { weir__slice_of("path"), weir__slice_of("a.b") } };
	const struct weir__log_options options = options_with(maps, 3);
	const char *const line =
		"{\"remote_addr\":\"1.1.1.1\",\"http_x_forwarded_for\":\"2.2.2.2\",\"time\":3,\"began\":2,"
		"\"path\":\"/no\",\"a\":{\"b\":\"/yes?x\"}}";

	CHECK_TEXT(parse_with(&options, "json", "", line, strlen(line)), "start 2000000000 0 0 0 ip=2.2.2.2 path=/yes");
}

static const char *detect(const char *bytes)
{
	const struct weir__log_options options = options_with(NULL, 0);
	const char *const name = weir__log_format_detect(&options, weir__slice_of(bytes));

	return name ? name : "none";
}

#define COMBINED "1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\""

static void formats_are_detected(void)
{
	CHECK_TEXT(detect("1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n"),
		   "combined");
	CHECK_TEXT(
		detect("garbage\n\n1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" 0.5"),
		"combined");
	CHECK_TEXT(detect(COMBINED " 0.004\n" COMBINED " 12.345\n"), "combined_timed");
	CHECK_TEXT(detect(COMBINED " 0.004\r\ngarbage\n"), "combined_timed");
	CHECK_TEXT(detect(COMBINED " 0.004\n" COMBINED "\n"), "combined");
	CHECK_TEXT(detect(COMBINED " 0.004\n" COMBINED " 4\n"), "combined");
	CHECK_TEXT(detect(COMBINED " 4000\n"), "combined"); /* in Apache, microseconds */
	CHECK_TEXT(detect(COMBINED " .004\n"), "combined");
	CHECK_TEXT(detect(COMBINED " 0.004 0.003\n"), "combined");
	CHECK_TEXT(detect(COMBINED " \"-\" 0.004\n"), "combined");
	CHECK_TEXT(detect("1.1.1.1 id - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\r\n"),
		   "apache");
	CHECK_TEXT(detect("h:80 1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n"),
		   "vhost_combined");
	CHECK_TEXT(detect("1.1.1.1 - - [18/Nov/2026:19:50:33 +0000] \"GET / HTTP/1.1\" 200 1\n"), "common");
	CHECK_TEXT(detect("{\"ts\":1,\"request\":{\"uri\":\"/\"}}\n"), "caddy");
	CHECK_TEXT(detect("{\"ClientHost\":\"a\",\"StartUTC\":\"2026-11-18T19:50:33Z\"}\n"), "traefik");
	CHECK_TEXT(detect("{\"start_time\":\"2026-11-18T19:50:33Z\",\"response_code\":200}\n"), "envoy");
	CHECK_TEXT(detect("{\"msec\":\"1795031433.1\"}\n"), "json");
	CHECK_TEXT(detect("time,ip\n1,2\n"), "csv");
	CHECK_TEXT(detect("{\"a\":1}\n"), "none");
	CHECK_TEXT(detect("what is this\n"), "none");
	CHECK_TEXT(detect(""), "none");
}

/* Every beginning of a good line, and the line with each byte changed: refused or read, never out of bounds. */
static void cut_and_changed_lines_are_safe(void)
{
	static const struct {
		const char *name, *header, *line;
	} rows[] = {
		{ "combined", "",
		  "1.1.1.1 - a [18/Nov/2026:19:50:33 +0000] \"GET /\\x22?q HTTP/1.1\" 200 1 \"\\\"r\" \"u\"" },
		{ "caddy", "",
		  "{\"ts\":1.5e3,\"request\":{\"uri\":\"/\\u00e4\\ud83d\\ude00\",\"headers\":{\"X\":[\"a\"]}},\"status\":200}" },
		{ "csv", "time,ip,path", "1795031433,\"1.1.1.1\",\"/\"\"\"" },
	};
	const struct weir__log_options options = options_with(NULL, 0);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const size_t n = strlen(rows[i].line);

		for (size_t cut = 0; cut <= n; cut++)
			CHECK(parse_with(&options, rows[i].name, rows[i].header, rows[i].line, cut)[0]);
		for (size_t at = 0; at < n; at++)
			for (int byte = 0; byte < 256; byte += 5) {
				char changed[256];

				memcpy(changed, rows[i].line, n);
				changed[at] = (char)byte;
				CHECK(parse_with(&options, rows[i].name, rows[i].header, changed, n)[0]);
			}
	}
}

TESTS(TEST(combined), TEST(bad_text_lines_are_refused), TEST(format_strings), TEST(json),
      TEST(bad_json_lines_are_refused), TEST(json_lines_may_differ), TEST(csv), TEST(maps_replace_fields),
      TEST(formats_are_detected), TEST(cut_and_changed_lines_are_safe))
