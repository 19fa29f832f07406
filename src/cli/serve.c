/* serve.c: weir serve: reads settings from flags, environment and file, and runs the server. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/serve_help.h"
#include "cli/serve_report.h"
#include "cli/words.h"
#include "os/tls_buffers.h"

enum { DONE = 0, FAILED = 1, CALLED_WRONGLY = 2 };

/* Whether an environment variable, without WEIR_, names a setting. */
static bool is_known(const char *name, size_t length)
{
	/* The configuration file; the server and the password of weir take and others. */
	static const char *const others[] = { "config", "at", "password" };
	char small[64];

	if (length >= sizeof(small))
		return false;
	for (size_t i = 0; i < length; i++)
		small[i] = (char)tolower((unsigned char)name[i]);
	small[length] = '\0';
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(small, others[i]) == 0)
			return true;
	return weir__settings_find(small, length) != NULL;
}

/* An unknown variable may be a misspelt setting, or belong to another program. So it is a warning, and the server
 * starts. */
static void warn(const struct weir__settings *settings, FILE *out)
{
	weir__settings_warn_of_old_names(settings, out);
	for (char **one = environ; *one; one++) {
		const size_t length = strcspn(*one, "=");

		if (strncmp(*one, "WEIR_", 5) != 0 || is_known(*one + 5, length - 5))
			continue;
		fputs("weir serve: warning: unknown environment variable ", out);
		weir__words_quoted(out, *one, length);
		fputs("; weir serve --help lists the settings\n", out);
	}
}

static void print_version(FILE *out)
{
	fputs("weir " WEIR_VERSION "\n", out);
}

/* Prints the page that a flag such as --help wants, whatever the other flags are. Returns false if no flag wants a
 * page. */
static bool print_page(int argc, char **argv)
{
	static const struct {
		const char *flag;
		void (*print)(FILE *out);
	} pages[] = { { "--help", weir__serve_help },
		      { "-h", weir__serve_help },
		      { "--version", print_version },
		      { "--help-man", weir__serve_help_man },
		      { "--help-markdown", weir__serve_help_markdown } };

	for (int i = 1; i < argc; i++)
		for (size_t j = 0; j < sizeof(pages) / sizeof(pages[0]); j++)
			if (strcmp(argv[i], pages[j].flag) == 0) {
				pages[j].print(stdout);
				return true;
			}
	return false;
}

/* The command line with the program before its subcommand, for the next server. NULL: no memory. */
static char **whole_command(int argc, char **argv)
{
	char **const whole = calloc((size_t)argc + 2, sizeof(char *));

	if (whole) {
		whole[0] = program_invocation_name;
		memcpy((void *)(whole + 1), (const void *)argv, (size_t)argc * sizeof(char *));
	}
	return whole;
}

int weir__serve(int argc, char **argv)
{
	static struct weir__settings settings;
	struct weir__server_options options = { .warn = warn, .started = weir__serve_report };
	int status;

	weir__tls_buffers_install();
	if (print_page(argc, argv))
		return DONE;
	weir__settings_init(&settings, stderr);
	if (!weir__settings_read(&settings, argc, argv)) {
		weir__settings_fini(&settings);
		return CALLED_WRONGLY;
	}
	options.argv = whole_command(argc, argv);
	if (options.argv == NULL)
		fputs("weir serve: no memory\n", stderr);
	status = options.argv ? weir__server_run(&settings, &options) : FAILED;
	/* A server has done its work even if its first lines could not be written. */
	__fpurge(stdout);
	clearerr(stdout);
	free((void *)options.argv);
	weir__settings_fini(&settings);
	return status;
}
