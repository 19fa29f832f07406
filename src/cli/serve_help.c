/* serve_help.c: the settings as pages: --help, the man page and docs/reference/settings.md, from the same rows and paragraphs.
 *
 * In texts, words that a person would type are between backticks: bold in the man page, plain in --help. */
#include "cli/serve_help.h"

#include <ctype.h>
#include <string.h>

#include "server/resp/resp_command.h"
#include "server/settings.h"

enum { HELP_WIDTH = 88, MARKDOWN_WIDTH = 120, TEXTS = 5, FLAG_SIZE = 64 };

/* A section of the pages. --help leaves sections out. The last one is about users. */
struct section {
	const char *title, *head; /* in the man page, in markdown */
	const char *texts[TEXTS];
	const char *sample; /* between texts[0] and the others; NULL: none */
};

static const char summary[] = "Starts a rate limiter for any Redis client, over RESP, and over HTTP.";
static const char precedence[] =
	"Each option except `--config` is also an environment variable, `WEIR_KEYS` for `--keys`, with commas in lists, and a "
	"key of the configuration file, `keys`. Flags override the environment, the environment overrides the file, and the file "
	"overrides the defaults. A list is replaced as a whole. In flags, `--log_format` is the same as "
	"`--log-format`. An empty variable counts as not set. The server warns about variables that begin with `WEIR_` and are "
	"not settings.";
static const char ending[] =
	"On SIGTERM and SIGINT the server answers all requests that have arrived, and exits. On SIGHUP it reloads policy and users. "
	"On SIGUSR2 it upgrades: it starts the new binary, which takes over.";
static const char config_means[] = "The configuration file, in YAML; `WEIR_CONFIG` sets it, too.";

static const struct section sections[] = {
	{ "VALUES",
	  "Values",
	  { "A count is a plain number, or has `k`, `m` or `g` for thousands, millions and billions: `5m`. "
	    "Bytes are a plain number, or have `KiB`, `MiB`, `GiB` or `TiB`. A duration has one of the units of limits (`ns`, "
	    "`us`, `ms`, `s`, `min`, `hour`, `day`), or is in seconds. Paths are relative to the server's working directory." },
	  NULL },
	{ "CONFIGURATION FILE",
	  "The configuration file",
	  { "A map of settings, at most 1 MiB:",
	    "Unknown and duplicate keys, values of the wrong type and numbers out of range are all reported at once, each "
	    "as FILE:LINE:COLUMN, and the server does not start. `limits` and `attributes` are written as in a policy." },
	  "listen: [127.0.0.1:6380, /run/weir/socket]\n"
	  "keys: 5m\n"
	  "file: /var/lib/weir/table\n"
	  "idle: 5min\n"
	  "users:\n"
	  "  default:\n"
	  "    password_file: /run/secrets/weir\n"
	  "  ops:\n"
	  "    sha256: \"#6a7d3a1b4ab49b8946d09fedbda1e9476930ce736e13a4338d45615a82a044b0\"\n"
	  "    token_sha256: bd913ff68243d41b9611b2690dfbf2b0f6e42ea14536a98232af60e9f64ffdaa\n"
	  "    roles: [operate, read]\n" },
	{ "USERS",
	  "Users",
	  { "Without users, anyone who can connect may do everything, so the server does not listen on an address that other machines can "
	    "reach. With users, each connection authenticates with `AUTH` or `HELLO`, as in Redis: `AUTH password` is for "
	    "the user `default`, and fails if there is none.",
	    "Before that, a client may only send `AUTH`, `HELLO` and `QUIT`, with at most 10 arguments of 16 KiB, and is "
	    "closed when it sends another request while it has 1 KiB of unread replies. Over HTTP, a request without a valid "
	    "token gets its error before the server reads its body.",
	    "A user has a `password`, or a `password_file` with the password as its first line, or the `sha256` of the "
	    "password as 64 hexadecimal digits, which may follow a # as in an ACL of Redis. Passwords have 1 to 512 bytes. "
	    "For HTTP a user has a `token`, or its `token_sha256`, beside the password or instead of it. A request "
	    "sends the header `Authorization: Bearer TOKEN`. Make a token with `openssl rand -hex 32`. "
	    "With mutual TLS (tls_client_ca), a user has a `certificate`, which is a name in the client's certificate, such as "
	    "`spiffe://example.org/web` or `web.example.org`. It needs neither password nor token.",
	    "A user has `roles`, such as `[decide, read]`; `role` is the same with one. The default is `decide`, which may "
	    "check, take, peek and hold, and settle its own holds. `operate` may refund, reset, change limits, and settle any "
	    "hold. `read` may see metrics, keys, top keys and settings. `admin` may do all this and change the policy. "
	    "A `key_prefix`, such as `acme/`, is put in front of all keys of the user, so that tenants share none.",
	    "Users come only from the configuration file: other users of the machine can read flags, and often environments. Make "
	    "the file readable only by the server. Between machines, use TLS (tls_cert)." },
	  NULL },
};

#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

/* --- texts ------------------------------------------------------------------------------------------------------ */

enum style { PLAIN, MARKDOWN };

/* Writes words in lines of at most `width`, of which the first has begun and others begin `indent` further. */
static void wrap(FILE *out, enum style style, const char *text, size_t column, size_t indent, size_t width)
{
	bool is_first = true;

	while (*text) {
		const size_t length = strcspn(text, " ");
		size_t shown = length;

		for (size_t i = 0; i < length; i++)
			shown -= style == PLAIN && text[i] == '`';
		if (!is_first && column + 1 + shown > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (!is_first) {
			putc(' ', out);
			column++;
		}
		for (size_t i = 0; i < length; i++)
			if (style != PLAIN || text[i] != '`')
				putc(text[i], out);
		column += shown;
		is_first = false;
		text += length + (text[length] == ' ');
	}
	putc('\n', out);
}

static void write_default(const struct weir__setting *setting, char *text, size_t size)
{
	if (setting->unset[0] == '\0')
		text[0] = '\0';
	else
		(void)snprintf(text, size, " Default: `%s`.", setting->unset);
}

static void write_range(const struct weir__setting *setting, char *text, size_t size)
{
	char least[32], most[32];

	text[0] = '\0';
	if (weir__settings_is_list(setting))
		(void)snprintf(text, size, " May be given up to %u times.", (unsigned)setting->most);
	if (setting->kind > WEIR__SETTING_DURATION)
		return;
	weir__settings_write_number(setting->kind, setting->least, least, sizeof(least));
	weir__settings_write_number(setting->kind, setting->most, most, sizeof(most));
	(void)snprintf(text, size, " %s to %s.", least, most);
}

/* The commands that each role may use, from the table of commands. Returns NULL after the last role. */
static const char *describe_role(size_t number, char *text, size_t size)
{
	static const struct {
		unsigned role;
		const char *beginning;
	} roles[] = { { 0, "Any user may use" },
		      { WEIR__ROLE_DECIDE, "`decide` may use" },
		      { WEIR__ROLE_OPERATE, "`operate` may use" },
		      { WEIR__ROLE_READ, "`read` may use" },
		      { WEIR__ROLE_ADMIN, "`admin` may use everything, and alone" } };
	size_t length;
	bool is_first = true;

	if (number == sizeof(roles) / sizeof(roles[0]))
		return NULL;
	length = (size_t)snprintf(text, size, "%s", roles[number].beginning);
	for (size_t i = 0; i < weir__command_rows_n && length < size; i++) {
		const struct weir__command_row *const row = &weir__command_rows[i];
		const unsigned may = weir__operation_roles(row->operation), role = roles[number].role;
		char name[WEIR__COMMAND_NAME_SIZE];

		if (role == 0 || role == WEIR__ROLE_ADMIN ? may != role : (may & role) == 0)
			continue;
		weir__write_capitals(row->name, name);
		length += (size_t)snprintf(text + length, size - length, "%s `%s`", is_first ? "" : ",", name);
		is_first = false;
	}
	if (length < size)
		(void)snprintf(text + length, size - length, ".");
	return text;
}

/* The description of a setting with its range and default. */
static const char *describe(const struct weir__setting *setting, char *text, size_t size)
{
	char range[128], unset[64];

	write_range(setting, range, sizeof(range));
	write_default(setting, unset, sizeof(unset));
	(void)snprintf(text, size, "%s%s%s", setting->means, range, unset);
	return text;
}

/* A flag: --log-format for the setting log_format. */
static const char *flag_of(const char *name, char ret_flag[FLAG_SIZE])
{
	(void)snprintf(ret_flag, FLAG_SIZE, "--%s", name);
	for (char *at = ret_flag; *at; at++)
		if (*at == '_')
			*at = '-';
	return ret_flag;
}

/* --- help ------------------------------------------------------------------------------------------------------- */

static void help_row(FILE *out, const char *flag, const char *value, const char *text)
{
	enum { INDENT = 24 };
	char text_of_flag[FLAG_SIZE];
	const int length = fprintf(out, "  %s%s%s", flag_of(flag, text_of_flag), value ? " " : "", value ? value : "");

	if (length < INDENT)
		fprintf(out, "%*s", INDENT - length, "");
	else
		fprintf(out, "\n%*s", INDENT, "");
	wrap(out, PLAIN, text, INDENT, INDENT, HELP_WIDTH);
}

void weir__serve_help(FILE *out)
{
	char text[512];

	fprintf(out, "usage: weir serve [OPTION...]\n\n%s\n\n", summary);
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		if (weir__setting_rows[i].kind != WEIR__SETTING_USERS)
			help_row(out, weir__setting_rows[i].name, weir__setting_rows[i].value,
				 describe(&weir__setting_rows[i], text, sizeof(text)));
	help_row(out, "config", "FILE", config_means);
	help_row(out, "help", NULL,
		 "Show this help. --help-man prints the man page, --help-markdown docs/reference/settings.md.");
	help_row(out, "version", NULL, "Show the version.");
	putc('\n', out);
	wrap(out, PLAIN, precedence, 0, 0, HELP_WIDTH);
	fputs("Users, with passwords and tokens, come only from the file; see man weir-serve.\n\n", out);
	wrap(out, PLAIN, ending, 0, 0, HELP_WIDTH);
}

/* --- the man page ----------------------------------------------------------------------------------------------- */

/* A line of text. Hyphens are what a person types, not where a word may be broken. */
static void man_text(FILE *out, const char *text)
{
	bool is_bold = false;

	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '`') {
			is_bold = !is_bold;
			fputs(is_bold ? "\\fB" : "\\fR", out);
		} else if (*text == '\\') {
			fputs("\\e", out);
		} else if (*text == '-') {
			fputs("\\-", out);
		} else {
			putc(*text, out);
		}
	}
	putc('\n', out);
}

static void man_sample(FILE *out, const char *sample)
{
	fputs(".PP\n.nf\n.RS 4\n", out);
	while (*sample) {
		char line[128];
		const size_t length = strcspn(sample, "\n");

		(void)snprintf(line, sizeof(line), "%.*s", (int)length, sample);
		man_text(out, line);
		sample += length + 1;
	}
	fputs(".RE\n.fi\n", out);
}

static void man_row(FILE *out, const char *flag, const char *value, const char *text)
{
	char text_of_flag[FLAG_SIZE];

	fputs(".TP\n\\fB", out);
	for (const char *at = flag_of(flag, text_of_flag); *at; at++)
		fputs(*at == '-' ? "\\-" : (char[]){ *at, '\0' }, out);
	fprintf(out, "\\fR \\fI%s\\fR\n", value);
	man_text(out, text);
}

void weir__serve_help_man(FILE *out)
{
	char text[512];

	fputs(".TH WEIR\\-SERVE 1 \"\" \"Weir " WEIR_VERSION "\" \"User Commands\"\n", out);
	fputs(".SH NAME\nweir\\-serve \\- rate limiter for clients over RESP, HTTP and gRPC\n", out);
	fputs(".SH SYNOPSIS\n.B weir serve\n.RI [ option ...]\n.SH DESCRIPTION\n", out);
	man_text(out, summary);
	man_text(out, ending);
	fputs(".SH OPTIONS\n", out);
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		if (weir__setting_rows[i].kind != WEIR__SETTING_USERS)
			man_row(out, weir__setting_rows[i].name, weir__setting_rows[i].value,
				describe(&weir__setting_rows[i], text, sizeof(text)));
	man_row(out, "config", "FILE", config_means);
	fputs(".PP\n", out);
	man_text(out, precedence);
	for (size_t i = 0; i < SECTIONS; i++) {
		fprintf(out, ".SH \"%s\"\n", sections[i].title);
		man_text(out, sections[i].texts[0]);
		if (sections[i].sample)
			man_sample(out, sections[i].sample);
		for (size_t j = 1; j < TEXTS && sections[i].texts[j]; j++) {
			fputs(".PP\n", out);
			man_text(out, sections[i].texts[j]);
		}
	}
	for (size_t i = 0; describe_role(i, text, sizeof(text)); i++) {
		fputs(".PP\n", out);
		man_text(out, text);
	}
	fputs(".SH \"EXIT STATUS\"\n0 after a shutdown, 1 when the server could not start, 2 when a setting is wrong.\n",
	      out);
	fputs(".SH \"SEE ALSO\"\n.BR redis\\-cli (1)\n", out);
}

/* --- docs/reference/settings.md ------------------------------------------------------------------------------------------- */

static void markdown_row(FILE *out, const struct weir__setting *setting)
{
	char text[512], flag[FLAG_SIZE];

	fprintf(out, "| `%s` | ", setting->name);
	if (setting->kind != WEIR__SETTING_USERS) {
		fprintf(out, "`%s %s` | `WEIR_", flag_of(setting->name, flag), setting->value);
		for (const char *c = setting->name; *c; c++)
			putc(toupper((unsigned char)*c), out);
		fputs("` | ", out);
	} else {
		fputs("| | ", out);
	}
	fprintf(out, "%s |\n", describe(setting, text, sizeof(text)));
}

void weir__serve_help_markdown(FILE *out)
{
	char text[512];

	fputs("# Settings of `weir serve`\n\n<!-- Made by `./dev docs` from the table in src/server/settings.c: change it there. "
	      "-->\n\n",
	      out);
	wrap(out, MARKDOWN, precedence, 0, 0, MARKDOWN_WIDTH);
	fputs("\n`--config FILE` or `WEIR_CONFIG` names the file.\n\n", out);
	fputs("| in the file | flag | variable | what it is |\n|---|---|---|---|\n", out);
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		markdown_row(out, &weir__setting_rows[i]);
	for (size_t i = 0; i < SECTIONS; i++) {
		fprintf(out, "\n## %s\n\n", sections[i].head);
		wrap(out, MARKDOWN, sections[i].texts[0], 0, 0, MARKDOWN_WIDTH);
		if (sections[i].sample)
			fprintf(out, "\n```yaml\n%s```\n", sections[i].sample);
		for (size_t j = 1; j < TEXTS && sections[i].texts[j]; j++) {
			putc('\n', out);
			wrap(out, MARKDOWN, sections[i].texts[j], 0, 0, MARKDOWN_WIDTH);
		}
	}
	putc('\n', out);
	for (size_t i = 0; describe_role(i, text, sizeof(text)); i++) {
		fputs("- ", out);
		wrap(out, MARKDOWN, text, 2, 2, MARKDOWN_WIDTH);
	}
}
