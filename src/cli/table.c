/* table.c: inspects shared tables and table files while other processes use them. Reads the arguments, finds the table,
 * limit and key, and reports what is missing. table_report.c prints the results. It attaches like any process. It never
 * creates a table or adds a limit, counts nothing, and never blocks the processes that use the table. Opening a file
 * that no process uses recovers the file, as any first open does. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/table_limits.h"
#include "cli/table_report.h"
#include "cli/words.h"

enum { DONE = 0, NOT_FOUND = 1, FAILED = 2, GO_ON = -1, OPERANDS_MAX = 3, NAMES_SHOWN = 10 };

/* Accepts tables of any owner: this command makes no decisions by their contents, and it shows the owner. */
static const uint32_t any_owner = 0666;

static const char help_head[] =
	"usage: weir table list [--json]\n"
	"       weir table info TABLE [--json]\n"
	"       weir table get TABLE LIMIT KEY [--hex] [--json]\n"
	"       weir table reset TABLE LIMIT KEY [--hex] [--json]\n"
	"\n"
	"Inspects shared tables and files while others use them, without blocking anyone. TABLE\n"
	"is a name, or the path of a file if it has a slash, as in ./limits. You need permission\n"
	"to read and write the table: list shows its owner and mode.\n"
	"\n";

static const char help_tail[] =
	"\n"
	"  --hex   KEY is pairs of hexadecimal digits, for keys that are not text\n"
	"  --json  output for programs: times in UTC, durations in ns; the bytes of a value that\n"
	"          is not UTF-8 are in a member NAME_hex\n"
	"  --      ends the options, for a KEY that begins with a dash\n"
	"  --help  show this\n"
	"\n"
	"Exit status: 0 done; 1 table or limit not found, or nothing to reset;\n"
	"2 wrong usage, or an error of the system or the table; 3 standard output could not be\n"
	"written.\n";

static int list(int argc, char **argv);
static int info(int argc, char **argv);
static int get(int argc, char **argv);
static int reset(int argc, char **argv);

static const struct weir__command commands[] = {
	{ "list", list, "all shared tables" },
	{ "info", info, "size, usage, limits and counters; reads the whole table, about 0.1 s per GiB" },
	{ "get", get, "the state of a key, and when one more request is allowed; charges nothing" },
	{ "reset", reset, "resets a key, and shows what it had used" },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

struct arguments {
	bool is_json, is_hex;
	char *operands[OPERANDS_MAX];
	int n_operands;
};

static void help(FILE *out)
{
	fputs(help_head, out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-6s  %s\n", commands[i].name, commands[i].does);
	fputs(help_tail, out);
}

/* Prints one line to standard error: the problem, the quoted bytes that it is about, and what would be right. */
static void complain(const char *before, const char *bytes, const char *after)
{
	fprintf(stderr, "weir table: %s", before);
	weir__words_quoted(stderr, bytes, strlen(bytes));
	fprintf(stderr, "%s\n", after);
}

/* Prints a message of the library, which may quote names and bytes that other processes wrote into the table. */
static void pass_on(const struct weir_message *why, const char *after)
{
	fputs("weir table: ", stderr);
	weir__words_safe(stderr, why->text);
	fprintf(stderr, "%s\n", after);
}

/* --- arguments -------------------------------------------------------------------------------------------------- */

static int read_option(const char *word, bool takes_hex, struct arguments *arguments)
{
	struct weir__nearest nearest = weir__nearest_of(word, strlen(word));

	if (weir__command_is_help(word)) {
		help(stdout);
		return DONE;
	}
	if (strcmp(word, "--json") == 0) {
		arguments->is_json = true;
		return GO_ON;
	}
	if (takes_hex && strcmp(word, "--hex") == 0) {
		arguments->is_hex = true;
		return GO_ON;
	}
	if (takes_hex)
		weir__nearest_offer(&nearest, "--hex");
	weir__nearest_offer(&nearest, "--json");
	weir__nearest_offer(&nearest, "--help");
	weir__command_refuse_option(&nearest, "weir table",
				    takes_hex ? "use --hex, --json or --help, and -- before a KEY that begins with a "
						"dash" :
						"use --json or --help");
	return FAILED;
}

/* Reads as many operands as `names` has, in any order with the options. Returns GO_ON or the exit code. */
static int read_arguments(int argc, char **argv, const char *const names[], struct arguments *ret_arguments)
{
	struct arguments arguments = { .is_json = false };
	bool takes_options = true;
	int wanted = 0;

	while (wanted < OPERANDS_MAX && names[wanted])
		wanted++;
	for (int i = 1; i < argc; i++) {
		if (takes_options && strcmp(argv[i], "--") == 0) {
			takes_options = false;
		} else if (takes_options && argv[i][0] == '-' && argv[i][1] != '\0') {
			const int code = read_option(argv[i], wanted == OPERANDS_MAX, &arguments);

			if (code != GO_ON)
				return code;
		} else if (arguments.n_operands == wanted) {
			complain("", argv[i], ": too many arguments; see weir table --help");
			return FAILED;
		} else {
			arguments.operands[arguments.n_operands++] = argv[i];
		}
	}
	if (arguments.n_operands < wanted) {
		fprintf(stderr, "weir table: %s needs %s, too; see weir table --help\n", argv[0],
			names[arguments.n_operands]);
		return FAILED;
	}
	*ret_arguments = arguments;
	return GO_ON;
}

/* Returns 16 if `c` is not a hexadecimal digit. */
static unsigned digit_of(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *const found = strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);

	return found ? (unsigned)(found - digits) : 16;
}

/* Decodes in place: the bytes are shorter than their digits. */
static int read_key(const struct arguments *arguments, struct weir__key_report *report)
{
	char *const text = arguments->operands[2];
	size_t length = strlen(text);

	if (arguments->is_hex) {
		for (size_t i = 0; i < length; i++)
			if (length % 2 != 0 || digit_of(text[i]) > 15) {
				complain("--hex ", text, ": use pairs of the digits 0-9 and a-f, as in 00ff");
				return FAILED;
			}
		length /= 2;
		for (size_t i = 0; i < length; i++)
			text[i] = (char)(digit_of(text[2 * i]) << 4 | digit_of(text[2 * i + 1]));
	}
	report->key = text;
	report->key_length = length;
	return GO_ON;
}

/* --- tables and limits ------------------------------------------------------------------------------------------ */

static bool is_file(const char *table)
{
	return strchr(table, '/') != NULL;
}

static int status_of(const char *table, struct weir__memory_status *ret_status)
{
	return is_file(table) ? weir__memory_file_status(table, ret_status) : weir__memory_status(table, ret_status);
}

/* A size of 0 attaches to a table and never creates one. */
static int open_table(const char *name, struct weir_table **ret_table)
{
	const struct weir_table_options options = { .shared = is_file(name) ? NULL : name,
						    .file = is_file(name) ? name : NULL,
						    .mode = any_owner };
	struct weir_message why;
	const int error = weir_table_new(&options, ret_table, &why);
	bool may_not;

	if (error == WEIR_OK)
		return GO_ON;
	if (error == WEIR_ERR_NO_TABLE) {
		if (is_file(name))
			complain("file not found: ", name, "");
		else
			complain("unknown shared table ", name,
				 access(name, F_OK) == 0 ? "; for the file of this name, write ./ before it" :
							   "; weir table list shows all tables");
		return NOT_FOUND;
	}
	may_not = error == WEIR_ERR_SYSTEM && errno == EACCES;
	pass_on(&why, may_not ? "; you need to be its owner, or have read and write permission by its mode" : "");
	return FAILED;
}

/* Prints the names of the limits that the table has. */
static void list_limits(const struct weir_table *table)
{
	struct weir__limit_rows limits;
	int shown = 0;

	if (weir__limit_rows_init(&limits, table)) {
		for (size_t i = 0; i < limits.n && shown <= NAMES_SHOWN; i++) {
			const char *const name = limits.rows[i].words.name;

			if (*name == '\0')
				continue;
			fputs(shown == 0 ? "; it has " : ", ", stderr);
			if (shown++ < NAMES_SHOWN)
				weir__words_quoted(stderr, name, strlen(name));
			else
				fputs("...", stderr);
		}
		weir__limit_rows_fini(&limits);
	}
	fputs(shown == 0 ? "; it has none yet\n" : "\n", stderr);
}

/* To get a handle, adds the limit again, which finds an existing one. First checks that the limit exists, so that
 * nothing is added. */
static int find_limit(struct weir_table *table, const char *table_name, const char *name,
		      struct weir__region_words *ret_words, const struct weir_table_limit **ret_limit)
{
	struct weir_message why;
	uint32_t index;

	if (!weir__region_find_limit(&table->region, name, &index)) {
		fputs("weir table: ", stderr);
		weir__words_quoted(stderr, table_name, strlen(table_name));
		fputs(" has no limit ", stderr);
		weir__words_quoted(stderr, name, strlen(name));
		list_limits(table);
		return NOT_FOUND;
	}
	if (!weir__region_read_limit(&table->region, index, ret_words) || ret_words->text[0] == '\0') {
		complain(
			"the limit ", name,
			" cannot be read: it is damaged, or the process that added it was killed; add it again to repair it");
		return FAILED;
	}
	if (weir_table_add_limit_text(table, ret_words->name, ret_words->text, ret_limit, &why) != WEIR_OK) {
		pass_on(&why, "");
		return FAILED;
	}
	return GO_ON;
}

/* --- the commands ----------------------------------------------------------------------------------------------- */

static const char *problem_of(int error)
{
	switch (error) {
	case WEIR_OK:
		return NULL;
	case WEIR_ERR_LIMIT:
		return "invalid table name";
	case WEIR_ERR_SYSTEM:
		return strerror(errno);
	default:
		return weir_strerror(error);
	}
}

static void list_one(void *list, const char *name)
{
	const struct weir_table_options options = { .shared = name, .mode = any_owner };
	struct weir__memory_status status;
	struct weir__region region;
	int error;

	if (weir__memory_status(name, &status) != 0)
		return; /* removed meanwhile */
	error = weir__region_open(&region, &options, NULL);
	if (error == WEIR_ERR_NO_TABLE)
		return;
	weir__table_list_add(list, name, &status, problem_of(error));
	if (error == WEIR_OK)
		weir__region_close(&region);
}

static int list(int argc, char **argv)
{
	static const char *const names[OPERANDS_MAX] = { NULL };
	struct weir__table_list rows;
	struct arguments arguments;
	int error, code = read_arguments(argc, argv, names, &arguments);

	if (code != GO_ON)
		return code;
	weir__table_list_begin(&rows, arguments.is_json);
	error = weir__memory_each(list_one, &rows);
	if (error != 0) {
		fprintf(stderr, "weir table: shared memory cannot be listed: %s\n", strerror(error));
		return FAILED;
	}
	weir__table_list_end(&rows);
	return DONE;
}

static int info(int argc, char **argv)
{
	static const char *const names[OPERANDS_MAX] = { "TABLE" };
	struct weir__memory_status status;
	struct arguments arguments;
	struct weir_table *table;
	int code = read_arguments(argc, argv, names, &arguments);

	if (code == GO_ON)
		code = open_table(arguments.operands[0], &table);
	if (code != GO_ON)
		return code;
	if (status_of(arguments.operands[0], &status) != 0) { /* removed after it was attached */
		complain("the table ", arguments.operands[0], " was removed just now");
		code = NOT_FOUND;
	} else if (!weir__table_report_info(table, arguments.operands[0], &status, arguments.is_json)) {
		fputs("weir table: no memory for the list of limits\n", stderr);
		code = FAILED;
	} else {
		code = DONE;
	}
	weir_table_free(table);
	return code;
}

/* A key that was looked up, with its table and limit. */
struct look {
	struct arguments arguments;
	struct weir_table *table;
	const struct weir_table_limit *limit;
	struct weir__region_words words;
	struct weir__key_report report;
};

/* Returns GO_ON with a table to free, or the exit code. */
static int look_up(int argc, char **argv, struct look *look)
{
	static const char *const names[OPERANDS_MAX] = { "TABLE", "LIMIT", "KEY" };
	struct weir__key_report *const report = &look->report;
	char *const *const operands = look->arguments.operands;
	int code = read_arguments(argc, argv, names, &look->arguments);

	if (code == GO_ON)
		code = read_key(&look->arguments, report);
	if (code == GO_ON)
		code = open_table(operands[0], &look->table);
	if (code != GO_ON)
		return code;
	code = find_limit(look->table, operands[0], operands[1], &look->words, &look->limit);
	if (code != GO_ON) {
		weir_table_free(look->table);
		return code;
	}
	report->table = operands[0];
	report->limit = look->words.name;
	report->text = look->words.text;
	report->now = weir__table_clamp(look->table, weir_table_now(look->table)); /* as the table counts time */
	report->known = weir__table_inspect(look->table, look->limit, report->key, report->key_length, report->now, 1);
	return GO_ON;
}

static int get(int argc, char **argv)
{
	struct look look;
	const int code = look_up(argc, argv, &look);

	if (code != GO_ON)
		return code;
	weir__table_report_key(&look.report, look.arguments.is_json);
	weir_table_free(look.table);
	return DONE;
}

static int reset(int argc, char **argv)
{
	struct look look;
	const struct weir__key_report *const report = &look.report;
	int code = look_up(argc, argv, &look);

	if (code != GO_ON)
		return code;
	/* The key may have been evicted since it was looked up. */
	if (report->known.is_stored && weir_table_reset(look.table, look.limit, report->key, report->key_length)) {
		weir__table_report_forgotten(report, look.arguments.is_json);
		code = DONE;
	} else {
		fputs("weir table: nothing is stored for ", stderr);
		weir__words_quoted(stderr, report->key, report->key_length);
		fputs(" under ", stderr);
		weir__words_quoted(stderr, report->limit, strlen(report->limit));
		fputs(": the key is full\n", stderr);
		code = NOT_FOUND;
	}
	weir_table_free(look.table);
	return code;
}

/* SIGBUS: a process that may write the memory or file can truncate it, and reading it then raises this signal. */
static void memory_is_gone(int signal_number)
{
	static const char why[] = "weir table: the table was truncated while it was read\n";

	(void)signal_number;
	(void)!write(STDERR_FILENO, why, sizeof(why) - 1);
	_exit(FAILED);
}

int weir__table(int argc, char **argv)
{
	const struct sigaction on_bus_error = { .sa_handler = memory_is_gone };
	const struct weir__command *command;

	if (argc < 2) {
		help(stderr);
		return FAILED;
	}
	if (weir__command_is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
		help(stdout);
		return DONE;
	}
	command = weir__command_find(commands, COMMANDS, argv[1]);
	if (command == NULL) {
		weir__command_refuse(commands, COMMANDS, "weir table", argv[1], "weir table --help");
		return FAILED;
	}
	sigaction(SIGBUS, &on_bus_error, NULL);
	return command->run(argc - 1, argv + 1);
}
