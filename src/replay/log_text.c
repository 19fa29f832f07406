/* log_text.c: compiles a format string into a list of variables, each with the literal text behind it. Splits a line by
 * searching for these literals one after the other. */
#include "replay/log_text.h"

#include <errno.h>
#include <stdlib.h>

#include "core/text.h"

enum { VARIABLES_MAX = 64 };

struct variable {
	struct weir__log_field uses[WEIR__LOG_USES_MAX];
	uint8_t n_uses;
	bool is_quoted;             /* between quotes: \" does not end it */
	struct weir__slice literal; /* behind it. Empty: it is the rest of the line */
};

struct weir__log_text {
	struct weir__slice lead; /* literal before the first variable */
	size_t n;
	struct variable variables[VARIABLES_MAX];
	char literals[]; /* of all variables */
};

/* --- compiling --------------------------------------------------------------------------------------------------- */

struct compiler {
	struct weir__log_text *text;
	struct weir__log_fields *fields;
	const char *at;
	char *end; /* of the literals */
	struct weir_message *message;
};

static int refuse(const struct compiler *compiler, const char *what, const char *at, size_t n, const char *right)
{
	struct weir__text why = weir__text_of_message(compiler->message, 0);

	weir__text_add(&why, what);
	weir__text_add_quoted(&why, at, n);
	weir__text_add(&why, right);
	return WEIR_ERR_SYNTAX;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* $name and ${name} */
static struct weir__slice take_nginx(struct compiler *compiler)
{
	const bool has_braces = compiler->at[1] == '{';
	const char *const start = compiler->at + 1 + has_braces;
	const char *end = start;

	while (is_word(*end))
		end++;
	if (end == start || (has_braces && *end != '}'))
		return (struct weir__slice){ NULL, 0 };
	compiler->at = end + has_braces;
	return (struct weir__slice){ start, (size_t)(end - start) };
}

/* %a, %>s, %{Name}i, %400,!501{Name}i: the statuses are skipped. */
static struct weir__slice take_apache(struct compiler *compiler)
{
	const char *start = compiler->at + 1 + strspn(compiler->at + 1, "0123456789,!<");
	const char *end = start;

	if (*end == '{')
		end = strchr(end, '}') ? strchr(end, '}') + 1 : start;
	else if (*end == '>')
		end++;
	else if (*end == '^')
		end += end[1] && end[2] ? 2 : 0;
	if (!is_word(*end))
		return (struct weir__slice){ NULL, 0 };
	compiler->at = end + 1;
	return (struct weir__slice){ start, (size_t)(compiler->at - start) };
}

/* Copies the text up to the next variable. In a configuration file quotes are written \". */
static struct weir__slice take_literal(struct compiler *compiler, char mark)
{
	const char *const start = compiler->end;

	while (*compiler->at && (*compiler->at != mark || (mark == '%' && compiler->at[1] == '%'))) {
		if (*compiler->at == mark ||
		    (*compiler->at == '\\' && strchr("\"\\'", compiler->at[1]) && compiler->at[1]))
			compiler->at++;
		else if (compiler->at[0] == '\\' && compiler->at[1] == 't') {
			*compiler->end++ = '\t';
			compiler->at += 2;
			continue;
		}
		*compiler->end++ = *compiler->at++;
	}
	return (struct weir__slice){ start, (size_t)(compiler->end - start) };
}

static bool is_of_time(const struct variable *variable)
{
	for (size_t i = 0; i < variable->n_uses; i++)
		if (variable->uses[i].to == WEIR__LOG_TIME || variable->uses[i].to == WEIR__LOG_START)
			return true;
	return false;
}

static int compile(struct compiler *compiler, char mark)
{
	struct weir__log_text *const text = compiler->text;
	const char *const time_name = compiler->fields->dialect == WEIR__LOG_APACHE ? "%t" : "$time_local";
	bool has_time = false;

	text->lead = take_literal(compiler, mark);
	while (*compiler->at) {
		struct variable *const variable = &text->variables[text->n];
		const struct weir__slice before = text->n ? variable[-1].literal : text->lead;
		const char *const start = compiler->at;
		const struct weir__slice name = mark == '$' ? take_nginx(compiler) : take_apache(compiler);

		if (name.at == NULL)
			return refuse(compiler, "format: ", start, strlen(start), ": not a variable");
		if (text->n == VARIABLES_MAX)
			return refuse(compiler, "format: ", start, strlen(start), ": more than 64 variables");
		if (text->n > 0 && before.n == 0)
			return refuse(compiler, "format: ", start, strlen(start),
				      ": a variable directly behind another; put a character between them");
		variable->literal = take_literal(compiler, mark);
		variable->n_uses = (uint8_t)weir__log_fields_find(compiler->fields, name, variable->uses);
		variable->is_quoted = before.n > 0 && before.at[before.n - 1] == '"' && variable->literal.n > 0 &&
				      variable->literal.at[0] == '"';
		has_time |= is_of_time(variable);
		text->n++;
	}
	if (!has_time)
		return refuse(compiler, "format: ", time_name, strlen(time_name),
			      " or another time is missing: without it nothing is known of when requests came");
	return WEIR_OK;
}

int weir__log_text_new(const char *definition, struct weir__log_fields *fields, struct weir__log_text **ret_text,
		       struct weir_message *ret_message)
{
	struct weir__log_text *const text = calloc(1, sizeof(*text) + strlen(definition) + 1);
	struct compiler compiler = { text, fields, definition, NULL, ret_message };
	int error;

	if (text == NULL) {
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	compiler.end = text->literals;
	error = compile(&compiler, strchr(definition, '$') ? '$' : '%');
	if (error != WEIR_OK) {
		weir__log_text_free(text);
		return error;
	}
	*ret_text = text;
	return WEIR_OK;
}

void weir__log_text_free(struct weir__log_text *text)
{
	free(text);
}

/* --- parsing ----------------------------------------------------------------------------------------------------- */

static bool is_escaped(const char *start, const char *at)
{
	bool odd = false;

	while (at > start && *--at == '\\')
		odd = !odd;
	return odd;
}

/* Finds the literal behind a variable. NULL: not found. */
static const char *find_end(const struct variable *variable, const char *start, const char *end)
{
	const struct weir__slice literal = variable->literal;

	for (const char *at = start;; at++) {
		at = memchr(at, literal.at[0], (size_t)(end - at));
		if (at == NULL || (size_t)(end - at) < literal.n)
			return NULL;
		if (literal.n > 1 && memcmp(at, literal.at, literal.n) != 0)
			continue;
		if (!variable->is_quoted || at == start || at[-1] != '\\' || !is_escaped(start, at))
			return at;
	}
}

static int hex_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' :
	       c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 :
				      -1;
}

/* Decodes \xHH of nginx and Apache, and \" \\ \n \t and so on of Apache. Returns the bytes in `room`, which
 * advances. */
static struct weir__slice unescape(struct weir__slice bytes, char **room)
{
	static const char letters[] = "nrtbvf", meant[] = "\n\r\t\b\v\f";
	char *const start = *room;
	char *to = start;

	for (size_t i = 0; i < bytes.n; i++) {
		const char next = i + 1 < bytes.n ? bytes.at[i + 1] : '\0';
		const char *letter;

		if (bytes.at[i] != '\\' || next == '\0') {
			*to++ = bytes.at[i];
		} else if (next == 'x' && i + 3 < bytes.n && hex_of(bytes.at[i + 2]) >= 0 &&
			   hex_of(bytes.at[i + 3]) >= 0) {
			*to++ = (char)(hex_of(bytes.at[i + 2]) * 16 + hex_of(bytes.at[i + 3]));
			i += 3;
		} else {
			letter = strchr(letters, next);
			*to++ = letter ? meant[letter - letters] : next;
			i++;
		}
	}
	*room = to;
	return (struct weir__slice){ start, (size_t)(to - start) };
}

const char *weir__log_text_parse(const struct weir__log_text *text, struct weir__log_fields *fields,
				 struct weir__slice bytes, char *room, struct weir__log_line *line)
{
	const char *const end = bytes.at + bytes.n;
	const bool has_escapes = memchr(bytes.at, '\\', bytes.n) != NULL;
	const char *at = bytes.at;

	if (!weir__slice_begins_with(bytes, text->lead))
		return "it does not begin as the format says";
	at += text->lead.n;
	for (const struct variable *variable = text->variables; variable < text->variables + text->n; variable++) {
		const char *const last = variable->literal.n ? find_end(variable, at, end) : end;
		struct weir__slice field;

		if (last == NULL)
			return "it does not have all fields of the format";
		field = (struct weir__slice){ at, (size_t)(last - at) };
		at = last + variable->literal.n;
		if (variable->n_uses == 0)
			continue;
		if (has_escapes && memchr(field.at, '\\', field.n))
			field = unescape(field, &room);
		for (size_t i = 0; i < variable->n_uses; i++) {
			const char *const why = weir__log_field_set(fields, &variable->uses[i], field, line);

			if (why)
				return why;
		}
	}
	line->has_rest = at < end;
	return line->has_stamp ? NULL : "it has no time";
}
