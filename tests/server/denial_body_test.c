/* denial_body_test.c: templates for the body of denials: what is replaced, escaped and rejected. */
#include "server/denial_body.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "test_folder.h"

#define S UINT64_C(1000000000)

static char folder[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 16];

static void write_file(const char *text, size_t n)
{
	FILE *const file = fopen(path, "we");

	CHECK(file && fwrite(text, 1, n, file) == n && fclose(file) == 0);
}

static const char *written(struct weir__denial_body *body, const struct weir_guard_answer *answer)
{
	static char bytes[64 * 1024];
	const struct weir__http_date date = { .length = 0 };
	struct weir__http_reply reply;

	weir__reply_init(&reply, bytes, sizeof(bytes) - 1, &date);
	(void)weir__denial_body_write(body, answer, &reply);
	CHECK(!reply.is_full);
	bytes[WEIR__REPLY_HEAD_ROOM + reply.body_length] = '\0';
	return bytes + WEIR__REPLY_HEAD_ROOM;
}

static struct weir_guard_answer denied(const char *name)
{
	struct weir_guard_answer answer = {
		.verdict = { .limit = 20, .remaining = 3, .retry_after = 2 * S + 1, .reset_after = 60 * S }
	};

	(void)snprintf(answer.decided_by, sizeof(answer.decided_by), "%s", name);
	return answer;
}

static void templates(void)
{
	static const struct {
		const char *type, *text, *expected;
	} rows[] = {
		{ "text/plain", "", "" },
		{ "text/plain", "no variables", "no variables" },
		{ "text/plain", "{limit}", "a<\"b&'\\" },
		{ "text/plain", "{quota} {remaining} {retry_after} {reset}", "20 3 3 60" },
		{ "text/plain", "{reset}{reset}", "6060" },
		{ "application/json", "{\"error\":{\"limit\":\"{limit}\",\"n\":{remaining}}}",
		  "{\"error\":{\"limit\":\"a<\\\"b&'\\\\\",\"n\":3}}" },
		{ "application/problem+json; charset=utf-8", "{limit}", "a<\\\"b&'\\\\" },
		{ "text/html; charset=utf-8", "<b>{limit}</b>", "<b>a&lt;&quot;b&amp;&#39;\\</b>" },
		{ "application/xhtml+xml", "{limit}", "a&lt;&quot;b&amp;&#39;\\" },
		{ "TEXT/HTML", "{limit}", "a&lt;&quot;b&amp;&#39;\\" },
		/* Braces without a variable name are plain text. */
		{ "text/html", "body{color:red} {} { limit } {Limit} {limit {limit",
		  "body{color:red} {} { limit } {Limit} {limit {limit" },
		{ "text/plain", "{{limit}}", "{a<\"b&'\\}" },
	};
	const struct weir_guard_answer answer = denied("a<\"b&'\\");
	struct weir_message why;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__denial_body *body;

		write_file(rows[i].text, strlen(rows[i].text));
		body = weir__denial_body_new(path, rows[i].type, &why);
		CHECK(body != NULL);
		if (body)
			CHECK_TEXT(written(body, &answer), rows[i].expected);
		weir__denial_body_free(body);
	}
}

static void what_is_refused(void)
{
	static char large[WEIR__DENIAL_BODY_MAX + 1], many[65 * 7 + 1];
	struct weir_message why;
	char expected[512];

	write_file("one\n{limit}\n{retry-after} {user}", 32);
	CHECK(weir__denial_body_new(path, "text/plain", &why) == NULL);
	(void)snprintf(expected, sizeof(expected),
		       "%.96s:3: unknown variable {user}; use {limit}, {quota}, {remaining}, {retry_after} or {reset}",
		       path);
	CHECK_TEXT(why.text, expected);
	memset(large, 'x', sizeof(large));
	write_file(large, sizeof(large));
	CHECK(weir__denial_body_new(path, "text/plain", &why) == NULL);
	CHECK(strstr(why.text, "found more than 16384 bytes") != NULL);
	for (size_t i = 0; i < 65; i++)
		memcpy(many + 7 * i, "{limit}", 7);
	write_file(many, 65 * 7);
	CHECK(weir__denial_body_new(path, "text/plain", &why) == NULL);
	CHECK(strstr(why.text, "more than 64 variables") != NULL);
	(void)unlink(path);
	CHECK(weir__denial_body_new(path, "text/plain", &why) == NULL);
	CHECK(strstr(why.text, "No such file") != NULL);
}

/* The largest template, with the longest name in all its variables. */
static void the_largest_fits(void)
{
	static char text[WEIR__DENIAL_BODY_MAX];
	char name[sizeof(((struct weir_guard_answer *)NULL)->decided_by)];
	struct weir_guard_answer answer;
	struct weir__denial_body *body;
	struct weir_message why;

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < 64; i++)
		memcpy(text + 7 * i, "{limit}", 7);
	memset(name, '\001', sizeof(name) - 1); /* six bytes each when escaped */
	name[sizeof(name) - 1] = '\0';
	answer = denied(name);
	write_file(text, sizeof(text));
	body = weir__denial_body_new(path, "application/json", &why);
	CHECK(body != NULL);
	if (body)
		CHECK_EQ(strlen(written(body, &answer)), sizeof(text) - 64 * 7 + 64 * 6 * (sizeof(name) - 1));
	weir__denial_body_free(body);
}

static void reloads(void)
{
	const struct weir_guard_answer answer = denied("l");
	struct weir__denial_body *body;
	struct weir_message why;
	bool is_changed;

	write_file("one {limit}", 11);
	body = weir__denial_body_new(path, "text/plain", &why);
	CHECK(body != NULL);
	if (body == NULL)
		return;
	CHECK(weir__denial_body_reload(body, &is_changed, &why) && !is_changed);
	write_file("two {limit}", 11);
	CHECK(weir__denial_body_reload(body, &is_changed, &why) && is_changed);
	CHECK_TEXT(written(body, &answer), "two l");
	write_file("{what}", 6);
	CHECK(!weir__denial_body_reload(body, &is_changed, &why));
	CHECK_TEXT(written(body, &answer), "two l");
	weir__denial_body_free(body);
}

static void types(void)
{
	static const char *const good[] = { "text/html", "text/html; charset=utf-8", "application/problem+json",
					    "a/b;" },
				 *const bad[] = { "",
						  "text",
						  "text/",
						  "/html",
						  "text/html\r\nX: y",
						  "text/html charset",
						  "te xt/html",
						  "text/html;\x7f",
						  "text/h\xe9" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(weir__denial_type_is(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!weir__denial_type_is(bad[i], strlen(bad[i])));
}

static const struct check_test all[] = { TEST(templates), TEST(what_is_refused), TEST(the_largest_fits), TEST(reloads),
					 TEST(types) };

int main(void)
{
	int status;

	test_folder_new(folder, "denial");
	(void)snprintf(path, sizeof(path), "%s/body", folder);
	status = check_run(all, sizeof(all) / sizeof(all[0]));
	(void)unlink(path);
	(void)rmdir(folder);
	return status;
}
