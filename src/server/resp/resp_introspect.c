/* resp_introspect.c: COMMAND, which describes the commands to clients, in the format of Redis 7. */
#include "server/resp/resp_command.h"

#include <ctype.h>

/* --- COMMAND INFO ----------------------------------------------------------------------------------------------- */

static void say_names(const struct weir__call *call, const char *const names[], uint64_t n)
{
	weir__resp_write_set(call->writer, n);
	for (uint64_t i = 0; i < n; i++)
		weir__resp_write_simple(call->writer, names[i], strlen(names[i]));
}

/* The flags by Redis's names. As ACL categories they have an @ before each. `admin` marks commands that the role
 * `decide` may not use. */
static uint64_t flags_of(const struct weir__command_row *row, bool as_categories, const char *names[3])
{
	uint64_t n = 0;

	if (row->flags & WEIR__IS_WRITE)
		names[n++] = as_categories ? "@write" : "write";
	else if (row->key)
		names[n++] = as_categories ? "@read" : "readonly";
	if (row->flags & (WEIR__IS_FAST | WEIR__IS_DECISION))
		names[n++] = as_categories ? "@fast" : "fast";
	if (!weir__operation_is_common(row->operation))
		names[n++] = as_categories ? "@admin" : "admin";
	return n;
}

static void say_flags(const struct weir__call *call, const struct weir__command_row *row, bool as_categories)
{
	const char *names[3];

	say_names(call, names, flags_of(row, as_categories, names));
}

static void say_member(const struct weir__call *call, const char *name, int64_t number)
{
	weir__say_word(call, name);
	weir__resp_write_integer(call->writer, number);
}

/* Where the keys are: from the first index to the last, in steps. */
static void say_key_specs(const struct weir__call *call, const struct weir__command_row *row)
{
	static const char *const flags[] = { "RW", "access", "update" };

	weir__resp_write_array(call->writer, row->key ? 1 : 0);
	if (!row->key)
		return;
	weir__resp_write_map(call->writer, 3);
	weir__say_word(call, "flags");
	say_names(call, flags, 3);
	weir__say_word(call, "begin_search");
	weir__resp_write_map(call->writer, 2);
	weir__say_word(call, "type");
	weir__say_word(call, "index");
	weir__say_word(call, "spec");
	weir__resp_write_map(call->writer, 1);
	say_member(call, "index", row->key);
	weir__say_word(call, "find_keys");
	weir__resp_write_map(call->writer, 2);
	weir__say_word(call, "type");
	weir__say_word(call, "range");
	weir__say_word(call, "spec");
	weir__resp_write_map(call->writer, 3);
	say_member(call, "lastkey", row->last_key < 0 ? row->last_key : row->last_key - row->key);
	say_member(call, "keystep", row->key_step);
	say_member(call, "limit", 0);
}

static void describe(const struct weir__call *call, const struct weir__command_row *row)
{
	weir__resp_write_array(call->writer, 10);
	weir__say_word(call, row->name);
	weir__resp_write_integer(
		call->writer, row->most == row->least && !(row->flags & WEIR__TAKES_TRACE) ? row->least : -row->least);
	say_flags(call, row, false);
	weir__resp_write_integer(call->writer, row->key);
	weir__resp_write_integer(call->writer, row->last_key);
	weir__resp_write_integer(call->writer, row->key_step);
	say_flags(call, row, true);
	weir__resp_write_array(call->writer, 0); /* tips */
	say_key_specs(call, row);
	weir__resp_write_array(call->writer, 0); /* subcommands */
}

/* --- COMMAND DOCS ----------------------------------------------------------------------------------------------- */

/* A part of a usage: a word, or a group in brackets. */
struct part {
	struct weir__resp_slice name;
	struct weir__resp_slice token; /* literal word before it; may be empty */
	bool is_optional, is_multiple;
};

/* Reads the part at *at, and moves *at to the next one. Returns false at the end. */
static bool next_part(const char **at, struct part *ret_part)
{
	const char *begin = *at, *end;
	int depth = 0;

	if (*begin == '\0')
		return false;
	for (end = begin; *end && (*end != ' ' || depth > 0); end++)
		depth += (*end == '[') - (*end == ']');
	*at = *end ? end + 1 : end;
	*ret_part = (struct part){ .is_optional = *begin == '[' };
	if (ret_part->is_optional) {
		begin++;
		end--;
	}
	if (end - begin > 4 && memcmp(end - 4, " ...", 4) == 0) {
		ret_part->is_multiple = true;
		end -= 4;
	}
	if (isupper((unsigned char)*begin)) {
		const char *const space = memchr(begin, ' ', (size_t)(end - begin));

		if (space) {
			ret_part->token = (struct weir__resp_slice){ begin, (size_t)(space - begin) };
			begin = space + 1;
		}
	}
	ret_part->name = (struct weir__resp_slice){ begin, (size_t)(end - begin) };
	return true;
}

static bool is_number(const struct weir__resp_slice *name)
{
	static const char *const numbers[] = { "cost",   "n",        "actual", "max_burst",  "count",
					       "period", "quantity", "ttl_ms", "timeout_ms", "protocol" };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (weir__is_word(name, numbers[i]))
			return true;
	return false;
}

static void say_part(const struct weir__call *call, const struct part *part)
{
	const char *flags[2];
	uint64_t n = 0;

	if (part->is_optional)
		flags[n++] = "optional";
	if (part->is_multiple)
		flags[n++] = "multiple";
	weir__resp_write_map(call->writer, 2u + (part->token.length > 0) + (n > 0));
	weir__say_word(call, "name");
	weir__resp_write_bulk(call->writer, part->name.bytes, part->name.length);
	weir__say_word(call, "type");
	weir__say_word(call, weir__is_word(&part->name, "key") ? "key" : is_number(&part->name) ? "integer" : "string");
	if (part->token.length > 0) {
		weir__say_word(call, "token");
		weir__resp_write_bulk(call->writer, part->token.bytes, part->token.length);
	}
	if (n > 0) {
		weir__say_word(call, "flags");
		say_names(call, flags, n);
	}
}

static void document(const struct weir__call *call, const struct weir__command_row *row)
{
	const char *at = row->usage;
	struct part part;
	uint64_t n = 0;

	while (next_part(&at, &part))
		n++;
	weir__say_word(call, row->name);
	weir__resp_write_map(call->writer, n > 0 ? 4 : 3);
	weir__say_word(call, "summary");
	weir__say_word(call, row->does);
	weir__say_word(call, "since");
	weir__say_word(call, WEIR_VERSION);
	weir__say_word(call, "group");
	weir__say_word(call, row->flags & WEIR__IS_DECISION ? "weir" : "connection");
	if (n == 0)
		return;
	weir__say_word(call, "arguments");
	weir__resp_write_array(call->writer, n);
	for (at = row->usage; next_part(&at, &part);)
		say_part(call, &part);
}

/* --- subcommands ------------------------------------------------------------------------------------------------ */

static void say_all(struct weir__call *call)
{
	weir__resp_write_array(call->writer, weir__command_rows_n);
	for (size_t i = 0; i < weir__command_rows_n; i++)
		describe(call, &weir__command_rows[i]);
}

static void say_info(struct weir__call *call)
{
	if (call->n == 2) {
		say_all(call);
		return;
	}
	weir__resp_write_array(call->writer, call->n - 2);
	for (uint32_t i = 2; i < call->n; i++) {
		const struct weir__command_row *const row = weir__command_named(&call->arguments[i]);

		if (row)
			describe(call, row);
		else
			weir__resp_write_null_array(call->writer);
	}
}

/* As in Redis, unknown commands are left out. */
static void say_docs(struct weir__call *call)
{
	uint64_t known = 0;

	for (uint32_t i = 2; i < call->n; i++)
		known += weir__command_named(&call->arguments[i]) != NULL;
	weir__resp_write_map(call->writer, call->n == 2 ? weir__command_rows_n : known);
	for (size_t i = 0; call->n == 2 && i < weir__command_rows_n; i++)
		document(call, &weir__command_rows[i]);
	for (uint32_t i = 2; i < call->n; i++) {
		const struct weir__command_row *const row = weir__command_named(&call->arguments[i]);

		if (row)
			document(call, row);
	}
}

static bool has_category(const struct weir__command_row *row, const struct weir__resp_slice *category)
{
	const char *names[3];
	const uint64_t n = flags_of(row, true, names);

	for (uint64_t i = 0; i < n; i++)
		if (weir__is_word(category, names[i] + 1)) /* without the @ */
			return true;
	return false;
}

/* FILTERBY MODULE matches no command: there are no modules, as HELLO says. */
static bool is_listed(const struct weir__call *call, const struct weir__command_row *row)
{
	if (call->n == 2)
		return true;
	if (weir__is_word(&call->arguments[3], "PATTERN"))
		return weir__matches(&call->arguments[4], row->name);
	return weir__is_word(&call->arguments[3], "ACLCAT") && has_category(row, &call->arguments[4]);
}

static void say_list(struct weir__call *call)
{
	const bool is_filtered = call->n == 5 && weir__is_word(&call->arguments[2], "FILTERBY") &&
				 (weir__is_word(&call->arguments[3], "PATTERN") ||
				  weir__is_word(&call->arguments[3], "ACLCAT") ||
				  weir__is_word(&call->arguments[3], "MODULE"));
	uint64_t n = 0;

	if (call->n > 2 && !is_filtered) {
		weir__refuse(call, WEIR__ERROR_SYNTAX);
		return;
	}
	for (size_t i = 0; i < weir__command_rows_n; i++)
		n += is_listed(call, &weir__command_rows[i]);
	weir__resp_write_array(call->writer, n);
	for (size_t i = 0; i < weir__command_rows_n; i++)
		if (is_listed(call, &weir__command_rows[i]))
			weir__say_word(call, weir__command_rows[i].name);
}

static void say_keys(struct weir__call *call)
{
	const struct weir__command_row *const row = weir__command_named(&call->arguments[2]);
	uint64_t keys = 0, bytes = 0;
	int64_t n, last; /* n: arguments of the command in question, including its name */

	if (row == NULL || row->key == 0) {
		weir__refuse(call, row ? WEIR__ERROR_KEYS_NONE : WEIR__ERROR_KEYS_COMMAND);
		return;
	}
	n = weir__without_trace(row, call->arguments + 2, call->n - 2);
	last = row->last_key < 0 ? n + row->last_key : row->last_key;
	if (n < row->least || n > row->most || last >= n || last < row->key) {
		weir__refuse(call, WEIR__ERROR_KEYS_ARITY);
		return;
	}
	for (int64_t i = row->key; i <= last; i += row->key_step, keys++)
		bytes += call->arguments[i + 2].length;
	if (bytes > WEIR__ANSWER_MOST / 2) {
		weir__refuse(call, WEIR__ERROR_KEYS_LONG);
		return;
	}
	weir__resp_write_array(call->writer, keys);
	for (int64_t i = row->key; i <= last; i += row->key_step)
		weir__resp_write_bulk(call->writer, call->arguments[i + 2].bytes, call->arguments[i + 2].length);
}

static void say_count(struct weir__call *call)
{
	weir__resp_write_unsigned(call->writer, weir__command_rows_n);
}

void weir__command_command(struct weir__call *call)
{
	static const struct weir__subcommand rows[] = {
		{ "count", "how many commands there are", say_count, 2, 2 },
		{ "list", "[FILTERBY PATTERN|ACLCAT|MODULE WORD]: their names", say_list, 2, UINT32_MAX },
		{ "info", "[NAME...]: numbers of arguments and positions of keys", say_info, 2, UINT32_MAX },
		{ "docs", "[NAME...]: what they do, and their arguments", say_docs, 2, UINT32_MAX },
		{ "getkeys", "COMMAND ARGUMENT...: which of the arguments are keys", say_keys, 3, UINT32_MAX },
	};

	if (call->n == 1)
		say_all(call);
	else
		weir__run_subcommand(call, "command", rows, sizeof(rows) / sizeof(rows[0]));
}
