/* denial_body.c: splits a template into pieces, and writes them. */
#include "server/denial_body.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "guard/epoch.h"
#include "os/text_file.h"

enum variable { TEXT, LIMIT, QUOTA, REMAINING, RETRY_AFTER, RESET, VARIABLES };

static const char *const names[VARIABLES] = { [LIMIT] = "limit",
					      [QUOTA] = "quota",
					      [REMAINING] = "remaining",
					      [RETRY_AFTER] = "retry_after",
					      [RESET] = "reset" };

/* With this many variables, each the longest name of a limit and escaped, the body still fits a response. */
enum { USES_MOST = 64 };

struct piece {
	enum variable variable;
	uint32_t at, n; /* of a TEXT */
};

struct text_template {
	char *text;
	size_t length, n;
	struct piece pieces[]; /* in the order of the text */
};

enum escape { PLAIN, JSON, MARKUP };

struct weir__denial_body {
	struct weir__epoch readers; /* of `current` */
	struct text_template *_Atomic current;
	const char *path, *type;
	enum escape escape;
};

/* --- types ------------------------------------------------------------------------------------------------------ */

static bool is_token(char c)
{
	return isascii(c) && (isalnum((unsigned char)c) || (c != '\0' && strchr("!#$&-^_.+", c)));
}

bool weir__denial_type_is(const char *text, size_t length)
{
	size_t type = 0, subtype = 0, at;

	while (type < length && is_token(text[type]))
		type++;
	for (at = type + 1; at < length && is_token(text[at]); at++)
		subtype++;
	if (type == 0 || type >= length || text[type] != '/' || subtype == 0 || (at < length && text[at] != ';'))
		return false;
	for (; at < length; at++)
		if (text[at] < ' ' || text[at] > '~')
			return false;
	return length < 128;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
	const size_t n = strlen(end);

	return length >= n && strncasecmp(text + length - n, end, n) == 0;
}

static enum escape escape_of(const char *type)
{
	const size_t length = strcspn(type, "; ");

	if (ends_with(type, length, "/json") || ends_with(type, length, "+json"))
		return JSON;
	if (ends_with(type, length, "/html") || ends_with(type, length, "/xml") || ends_with(type, length, "+xml"))
		return MARKUP;
	return PLAIN;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* The variable at a brace, and its length with both braces. TEXT: a plain brace; VARIABLES: an unknown variable. */
static enum variable variable_at(const char *text, const char *end, size_t *ret_n)
{
	size_t n = 1;

	while (text + n < end && (islower((unsigned char)text[n]) || text[n] == '_'))
		n++;
	if (n == 1 || text + n == end || text[n] != '}')
		return TEXT;
	*ret_n = n + 1;
	for (enum variable i = LIMIT; i < VARIABLES; i++)
		if (strlen(names[i]) == n - 1 && memcmp(names[i], text + 1, n - 1) == 0)
			return i;
	return VARIABLES;
}

static struct text_template *refuse(const char *path, const char *text, const char *at, size_t n,
				    struct weir_message *ret_message)
{
	unsigned line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	(void)snprintf(ret_message->text, sizeof(ret_message->text),
		       "%.96s:%u: unknown variable %.*s; use {limit}, {quota}, {remaining}, {retry_after} or {reset}",
		       path, line, (int)(n < 40 ? n : 40), at);
	return NULL;
}

static struct text_template *refuse_uses(const char *path, struct weir_message *ret_message)
{
	(void)snprintf(ret_message->text, sizeof(ret_message->text), "%.128s: more than %d variables; use fewer", path,
		       USES_MOST);
	return NULL;
}

/* Takes over the text on success. */
static struct text_template *compile(const char *path, char *text, size_t length, struct weir_message *ret_message)
{
	const char *const end = text + length;
	struct text_template *template;
	size_t braces = 0, uses = 0, n = 0;

	for (const char *at = text; at < end; at++)
		braces += *at == '{';
	template = calloc(1, sizeof(*template) + (2 * braces + 1) * sizeof(template->pieces[0]));
	if (template == NULL) {
		*ret_message = (struct weir_message){ .text = "no memory" };
		return NULL;
	}
	template->text = text;
	template->length = length;
	for (const char *at = text, *from = text;;) {
		const enum variable variable = at < end && *at == '{' ? variable_at(at, end, &n) : TEXT;

		if (variable == VARIABLES || (at < end && variable != TEXT && uses++ == USES_MOST)) {
			free(template);
			return variable == VARIABLES ? refuse(path, text, at, n, ret_message) :
						       refuse_uses(path, ret_message);
		}
		if (at < end && variable == TEXT) {
			at++;
			continue;
		}
		if (at > from)
			template->pieces[template->n++] = (struct piece){ TEXT, (uint32_t)(from - text),
									  (uint32_t)(at - from) };
		if (at == end)
			return template;
		template->pieces[template->n++] = (struct piece){ .variable = variable };
		from = at += n;
	}
}

static struct text_template *read_template(const char *path, struct weir_message *ret_message)
{
	struct text_template *template;
	size_t length;
	char *text;
	const int error = weir__text_file_read(path, WEIR__DENIAL_BODY_MAX, &text, &length);

	if (error != 0) {
		(void)snprintf(ret_message->text, sizeof(ret_message->text), "%.128s: %s", path,
			       error == EFBIG ? "found more than 16384 bytes; use a smaller file" :
						weir__text_file_error(error));
		return NULL;
	}
	template = compile(path, text, length, ret_message);
	if (template == NULL)
		free(text);
	return template;
}

static void free_template(struct text_template *template)
{
	if (template)
		free(template->text);
	free(template);
}

struct weir__denial_body *weir__denial_body_new(const char *path, const char *type, struct weir_message *ret_message)
{
	struct weir__denial_body *const body = aligned_alloc(_Alignof(struct weir__denial_body), sizeof(*body));
	struct text_template *template;

	*ret_message = (struct weir_message){ .text = "no memory" };
	if (body == NULL)
		return NULL;
	memset(body, 0, sizeof(*body));
	body->path = path;
	body->type = type;
	body->escape = escape_of(type);
	template = read_template(path, ret_message);
	atomic_init(&body->current, template);
	if (template)
		return body;
	free(body);
	return NULL;
}

void weir__denial_body_free(struct weir__denial_body *body)
{
	if (body)
		free_template(atomic_load(&body->current));
	free(body);
}

bool weir__denial_body_reload(struct weir__denial_body *body, bool *ret_is_changed, struct weir_message *ret_message)
{
	struct text_template *const next = read_template(body->path, ret_message);
	struct text_template *const before = atomic_load(&body->current);

	if (next == NULL)
		return false;
	*ret_is_changed = next->length != before->length || memcmp(next->text, before->text, next->length) != 0;
	if (!*ret_is_changed) {
		free_template(next);
		return true;
	}
	atomic_store(&body->current, next);
	weir__epoch_wait(&body->readers);
	free_template(before);
	return true;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void add_markup(struct weir__http_reply *reply, const char *text)
{
	for (; *text; text++) {
		const char *const escaped = *text == '&'  ? "&amp;" :
					    *text == '<'  ? "&lt;" :
					    *text == '>'  ? "&gt;" :
					    *text == '"'  ? "&quot;" :
					    *text == '\'' ? "&#39;" :
							    NULL;

		if (escaped)
			weir__reply_add_text(reply, escaped);
		else
			weir__reply_add(reply, text, 1);
	}
}

static void add_name(const struct weir__denial_body *body, struct weir__http_reply *reply, const char *name)
{
	if (body->escape == JSON)
		weir__reply_add_escaped(reply, name, strlen(name));
	else if (body->escape == MARKUP)
		add_markup(reply, name);
	else
		weir__reply_add_text(reply, name);
}

/* In seconds, rounded up, so that a visitor does not retry too early. */
static uint64_t seconds_up(weir_ns span)
{
	return span / 1000000000 + (span % 1000000000 != 0);
}

const char *weir__denial_body_write(struct weir__denial_body *body, const struct weir_guard_answer *answer,
				    struct weir__http_reply *reply)
{
	const uint32_t phase = weir__epoch_enter(&body->readers);
	const struct text_template *const template = atomic_load(&body->current);
	const struct weir_verdict *const verdict = &answer->verdict;
	const uint64_t numbers[VARIABLES] = { [QUOTA] = verdict->limit,
					      [REMAINING] = verdict->remaining,
					      [RETRY_AFTER] = seconds_up(verdict->never ? verdict->reset_after :
											  verdict->retry_after),
					      [RESET] = seconds_up(verdict->reset_after) };

	for (size_t i = 0; i < template->n; i++) {
		const struct piece *const piece = &template->pieces[i];

		if (piece->variable == TEXT)
			weir__reply_add(reply, template->text + piece->at, piece->n);
		else if (piece->variable == LIMIT)
			add_name(body, reply, answer->decided_by);
		else
			weir__reply_add_number(reply, numbers[piece->variable]);
	}
	weir__epoch_leave(&body->readers, phase);
	return body->type;
}
