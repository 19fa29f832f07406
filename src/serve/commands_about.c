/* commands_about.c: what the server and its commands are. */
#include "serve/command.h"

#include <inttypes.h>
#include <stdio.h>

/* --- about commands --------------------------------------------------------------------------------------------- */

static void describe(const struct weir__call *call, const struct weir__command *row)
{
	weir__resp_write_array(call->writer, 6);
	weir__say_word(call, row->name);
	weir__resp_write_integer(call->writer, row->most == row->least ? row->least : -row->least);
	weir__resp_write_set(call->writer, 1);
	weir__resp_write_simple(call->writer, row->flags & WEIR__IS_DECISION ? "write" : "fast",
				row->flags & WEIR__IS_DECISION ? 5 : 4);
	weir__resp_write_integer(call->writer, row->key);
	weir__resp_write_integer(call->writer, row->key);
	weir__resp_write_integer(call->writer, row->key ? 1 : 0);
}

void weir__command_command(struct weir__call *call)
{
	if (call->n > 1 && weir__is_word(&call->arguments[1], "COUNT")) {
		weir__resp_write_unsigned(call->writer, weir__command_rows_n);
	} else if (call->n > 1 && weir__is_word(&call->arguments[1], "DOCS")) {
		weir__resp_write_map(call->writer, weir__command_rows_n);
		for (size_t i = 0; i < weir__command_rows_n; i++) {
			weir__say_word(call, weir__command_rows[i].name);
			weir__resp_write_map(call->writer, 2);
			weir__say_word(call, "summary");
			weir__say_word(call, weir__command_rows[i].does);
			weir__say_word(call, "arguments");
			weir__resp_write_array(call->writer, 0);
		}
	} else {
		weir__resp_write_array(call->writer, weir__command_rows_n);
		for (size_t i = 0; i < weir__command_rows_n; i++)
			describe(call, &weir__command_rows[i]);
	}
}

void weir__info(struct weir__call *call)
{
	char text[1024];
	struct weir_table_limit_stats decisions;
	int length;

	weir_table_limit_stats(call->commands->table, call->commands->limits.counted_as, &decisions);
	length = snprintf(text, sizeof(text),
			  "# Server\r\nweir_version:" WEIR_VERSION
			  "\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
			  "\r\n# Decisions\r\nallowed:%" PRIu64 "\r\ndenied:%" PRIu64 "\r\n",
			  decisions.allowed, decisions.denied);
	weir__resp_write_verbatim(call->writer, "txt", text, (size_t)length);
}

void weir__help(struct weir__call *call)
{
	char line[256];

	weir__resp_write_array(call->writer, weir__command_rows_n);
	for (size_t i = 0; i < weir__command_rows_n; i++) {
		const int length = snprintf(line, sizeof(line), "%s %s: %s", weir__command_rows[i].name,
					    weir__command_rows[i].usage, weir__command_rows[i].does);

		weir__resp_write_simple(call->writer, line, (size_t)length);
	}
}
