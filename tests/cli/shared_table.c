/* shared_table.c: creates a shared table for tests, or a table in a file if NAME has a slash. Runs the commands on
 * standard input and answers each with a line.
 *
 *     shared_table NAME SIZE_BYTES LIMITS_MAX MODE MADE_AT
 *
 *     limit HEX_NAME TEXT       adds a limit, which later commands use
 *     take HEX_KEY COST         prints 1 or 0
 *     hammer KEYS               takes one for each of that many keys, over and over, until it is killed
 *
 * 0 stands for the default of an option. The program does not remove the table. */
#include <weir/weir.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct weir_table *table;
static const struct weir_table_limit *limit;

static size_t unhex(const char *digits, char *bytes)
{
	unsigned byte;
	size_t n = 0;

	for (; sscanf(digits, "%2x", &byte) == 1; digits += 2)
		bytes[n++] = (char)byte;
	bytes[n] = '\0';
	return n;
}

static void hammer(unsigned keys)
{
	puts("ok");
	fflush(stdout);
	for (unsigned i = 0;; i = (i + 1) % keys)
		(void)weir_table_allow(table, limit, &i, sizeof(i), weir_table_now(table), 1);
}

static void obey(const char *line)
{
	char hex[600], bytes[300], text[200];
	struct weir_message why;
	unsigned number;

	if (sscanf(line, "limit %599s %199[^\n]", hex, text) == 2) {
		unhex(hex, bytes);
		puts(weir_table_add_limit_text(table, bytes, text, &limit, &why) == WEIR_OK ? "ok" : why.text);
	} else if (sscanf(line, "take %599s %u", hex, &number) == 2) {
		const size_t n = unhex(hex, bytes);

		puts(weir_table_allow(table, limit, bytes, n, weir_table_now(table), number) ? "1" : "0");
	} else if (sscanf(line, "hammer %u", &number) == 1 && number > 0) {
		hammer(number);
	} else {
		puts("what?");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct weir_table_options options = { 0 };
	struct weir_message why;
	char line[1000];

	if (argc != 6)
		return 2;
	if (strchr(argv[1], '/'))
		options.file = argv[1];
	else
		options.shared = argv[1];
	options.size_bytes = strtoul(argv[2], NULL, 0);
	options.limits_max = (uint32_t)strtoul(argv[3], NULL, 0);
	options.mode = (uint32_t)strtoul(argv[4], NULL, 0);
	options.made_at = strtoul(argv[5], NULL, 0);
	if (weir_table_new(&options, &table, &why) != WEIR_OK) {
		puts(why.text);
		return 1;
	}
	puts("ok");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	weir_table_free(table);
	return 0;
}
