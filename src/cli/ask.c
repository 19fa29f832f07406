/* ask.c: the commands that send one request to a server: weir take, and the others in the table below. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ask_report.h"
#include "cli/command.h"
#include "cli/link.h"
#include "cli/manage.h"
#include "cli/password.h"
#include "cli/words.h"

enum {
	ADMITTED = 0,
	DENIED = 1,
	CALLED_WRONGLY = 2,
	FAILED = 3,
	GO_ON = -1,
	OPERANDS_MAX = 48,
	ATTRIBUTES_MAX = 30, /* with their values, the command and COST, the most that a request may have */
	WORDS_MAX = 2 * OPERANDS_MAX + 5, /* the command, COST and WAIT, and their numbers */

	PATIENCE_MS = 10000,     /* the time limit for a reply that should take a millisecond */
	WAIT_MS_MOST = 86400000, /* the longest wait that a server accepts */
};

/* The requests that can be sent. Operands in brackets are optional. With `repeats`, the full list of operands may be
 * repeated. */
static const struct question {
	const char *name, *command, *operands, *does;
	int least, most;
	bool repeats, can_wait, has_attributes; /* operands are NAME=VALUE */
	bool has_here;
	int cost_at; /* index of the operand that may be granted in part, or -1 */
	struct weir__ask_words words;
	/* The commands that need more than one request have their own function. */
	enum weir__manage_result (*run)(struct weir__link *link, bool is_json);
} questions[] = {
	/* clang-format off */
	{ "take", "WEIR.TAKE", "KEY LIMIT [COST]", "Takes from a limit at a server: allows and charges, or denies", 2, 3, false, true, false, false, -1,
	  { "allowed", "denied", NULL, NULL }, NULL },
	{ "upto", "WEIR.UPTO", "KEY LIMIT COST", "Takes what is available from a limit at a server, at most COST", 3, 3, false, false, false, false, 2,
	  { "allowed", "denied", NULL, NULL }, NULL },
	{ "peek", "WEIR.PEEK", "KEY LIMIT [COST]", "Shows what take would return, without charging", 2, 3, false, false, false, false, -1,
	  { "would be allowed", "would be denied", NULL, NULL }, NULL },
	{ "refund", "WEIR.REFUND", "KEY LIMIT N", "Refunds N units of a limit at a server, never above full", 3, 3, false, false, false, false, -1,
	  { "refunded", "not refunded", NULL, NULL }, NULL },
	{ "reset", "WEIR.RESET", "KEY LIMIT", "Resets a key at a server: nothing of its limit is used", 2, 2, false, false, false, false, -1,
	  { NULL, NULL, "reset", "nothing to reset: the key was full" }, NULL },
	{ "inspect", "WEIR.INSPECT", "KEY LIMIT", "Shows the state of a key at a server", 2, 2, false, false, false, false, -1,
	  { NULL, NULL, NULL, NULL }, NULL },
	{ "all", "WEIR.ALL", "KEY LIMIT COST", "Takes from several limits at a server, all or none", 3, 3, true, false, false, false, -1,
	  { "allowed", "denied", NULL, NULL }, NULL },
	{ "hold", "WEIR.HOLD", "ID KEY LIMIT COST TTL_MS", "Takes an estimated cost at a server, to be settled later", 5, 5, false, false, false, false, -1,
	  { "allowed", "denied", NULL, NULL }, NULL },
	{ "settle", "WEIR.SETTLE", "ID ACTUAL", "Settles a hold at a server: charges or refunds the difference", 2, 2, false, false, false,
	  false, -1, { NULL, NULL, NULL, NULL }, NULL },
	{ "release", "WEIR.RELEASE", "ID", "Releases a hold at a server: refunds all of it", 1, 1, false, false, false, false, -1,
	  { NULL, NULL, NULL, NULL }, NULL },
	{ "check", "WEIR.CHECK", "ATTRIBUTE=VALUE", "Decides by all limits of a server's policy that apply to a request", 1, 1, true, true, true,
	  false, -1, { "allowed", "denied", NULL, NULL }, NULL },
	{ "ping", "PING", "", "Shows whether a server replies", 0, 0, false, false, false, false, -1, { NULL, NULL, NULL, NULL }, NULL },
	{ "info", "INFO", "[SECTION]", "Shows the state of a server. Sections: server, clients, decisions, table, policy, store, observing", 0, 1, false, false,
	  false, false, -1, { NULL, NULL, NULL, NULL }, NULL },
	{ "change", "WEIR.CHANGE", "NAME LIMIT", "Changes one limit of a server's policy until the policy changes; needs role operate", 2, 2,
	  false, false, false, true, -1, { NULL, NULL, NULL, NULL }, NULL },
	{ "limits", "WEIR.LIMITS", "", "Shows the limits of a server's policy, as they are now", 0, 0, false, false, false, false, -1,
	  { NULL, NULL, NULL, NULL }, weir__manage_limits },
	{ "reload", "WEIR.RELOAD", "",
	  "Reloads policy and users of a server, and waits until the policy is in force or has errors; needs role admin", 0, 0, false, false,
	  false, false, -1, { NULL, NULL, NULL, NULL }, weir__manage_reload },
	/* clang-format on */
};

struct arguments {
	const struct question *question;
	const char *at, *user, *password_file, *wait, *cost;
	struct weir__tls_files files;
	uint32_t wait_ms;
	bool is_json, is_here;
	const char *operands[OPERANDS_MAX];
	int n;
};

/* --- arguments -------------------------------------------------------------------------------------------------- */

static int help(const struct question *question)
{
	const char *const operands = question->operands;

	printf("usage: weir %s%s%s", question->name, *operands ? " " : "", operands);
	if (question->repeats)
		printf(" [%s ...]", operands);
	printf(" [OPTION...]\n\n%s.\n\n" WEIR__LINK_AT_HELP WEIR__LINK_USER_HELP, question->does);
	if (question->has_here)
		printf("  --here                change only this server, not all servers of its store\n");
	if (question->can_wait)
		printf("  --wait MS             wait up to this many milliseconds to be allowed\n");
	if (question->has_attributes)
		printf("  --cost N              the cost, for limits that do not take it from an attribute. Default: 1\n");
	printf("  --json                output for programs: times in UTC, durations in ns\n"
	       "  --                    ends the options, for a KEY that begins with a dash\n"
	       "  --help                show this\n"
	       "\n"
	       "Exit status: 0 allowed, or done; 1 denied%s; 2 wrong usage; 3 the server cannot be reached,\n"
	       "or replied with an error.\n",
	       question->run == weir__manage_reload ? ", or the policy has errors" : "");
	return ADMITTED;
}

static int complain(const struct question *question, const char *word, const char *right)
{
	fprintf(stderr, "weir %s: ", question->name);
	weir__words_quoted(stderr, word, strlen(word));
	fprintf(stderr, ": %s\n", right);
	return CALLED_WRONGLY;
}

static int read_wait(struct arguments *arguments)
{
	const char *const text = arguments->wait;
	const size_t length = strlen(text);
	unsigned long ms;

	ms = length > 0 && length <= 9 && strspn(text, "0123456789") == length ? strtoul(text, NULL, 10) : ULONG_MAX;
	if (ms > WAIT_MS_MOST)
		return complain(arguments->question, text, "--wait takes milliseconds, 0 to 86400000");
	arguments->wait_ms = (uint32_t)ms;
	return GO_ON;
}

/* Where the value of an option goes, and the value if it is OPTION=VALUE. NULL: unknown option, which is compared with
 * the known ones, or an option without a value. */
static const char **place_of(struct arguments *arguments, const char *option, struct weir__nearest *nearest,
			     const char **ret_value)
{
	const struct {
		const char *name;
		const char **place;
	} options[] = {
		{ "--at", &arguments->at },
		{ "--user", &arguments->user },
		{ "--password-file", &arguments->password_file },
		{ "--cacert", &arguments->files.ca },
		{ "--cert", &arguments->files.certificate },
		{ "--key", &arguments->files.key },
		{ "--wait", arguments->question->can_wait ? &arguments->wait : NULL },
		{ "--cost", arguments->question->has_attributes ? &arguments->cost : NULL },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i].place && weir__command_is_option(option, options[i].name, ret_value))
			return options[i].place;
		if (options[i].place)
			weir__nearest_offer(nearest, options[i].name);
	}
	weir__nearest_offer(nearest, "--json");
	weir__nearest_offer(nearest, "--help");
	if (arguments->question->has_here)
		weir__nearest_offer(nearest, "--here");
	return NULL;
}

static int refuse_option(const struct question *question, const struct weir__nearest *nearest)
{
	char whose[32];

	(void)snprintf(whose, sizeof(whose), "weir %s", question->name);
	weir__command_refuse_option(nearest, whose,
				    *question->operands ?
					    "--help lists them, and -- comes before a KEY that begins with a dash" :
					    "--help lists them");
	return CALLED_WRONGLY;
}

/* Returns GO_ON or the exit code. Advances *i to the value if the option has one. */
static int read_option(int argc, char **argv, int *i, struct arguments *arguments)
{
	const char *const option = argv[*i];
	struct weir__nearest nearest = weir__command_option_name(option);
	const char *value = NULL;
	const char **const place = place_of(arguments, option, &nearest, &value);

	if (weir__command_is_help(option))
		return help(arguments->question);
	if (strcmp(option, "--json") == 0) {
		arguments->is_json = true;
		return GO_ON;
	}
	if (arguments->question->has_here && strcmp(option, "--here") == 0) {
		arguments->is_here = true;
		return GO_ON;
	}
	if (place == NULL)
		return refuse_option(arguments->question, &nearest);
	if (value == NULL && *i + 1 == argc) {
		fprintf(stderr, "weir %s: %s needs a value; see weir %s --help\n", arguments->question->name, option,
			arguments->question->name);
		return CALLED_WRONGLY;
	}
	*place = value ? value : argv[++*i];
	return place == &arguments->wait ? read_wait(arguments) : GO_ON;
}

/* --- operands ---------------------------------------------------------------------------------------------------- */

/* Whether the operand at this position is a number, judged by its name in the usage text. */
static bool is_number_at(const struct question *question, int place)
{
	static const char *const numbers[] = { "COST", "[COST]", "N", "ACTUAL", "TTL_MS" };
	const char *word = question->operands;

	for (int i = question->repeats ? place % question->most : place; i > 0 && *word; i--) {
		word += strcspn(word, " ");
		word += *word == ' ';
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcspn(word, " ") == strlen(numbers[i]) && strncmp(word, numbers[i], strlen(numbers[i])) == 0)
			return true;
	return false;
}

static bool is_number(const char *text)
{
	errno = 0;
	return *text && text[strspn(text, "0123456789")] == '\0' && strtoll(text, NULL, 10) >= 0 && errno == 0;
}

static int check_numbers(const struct arguments *arguments)
{
	static const char right[] = "use a whole number, 0 to 9223372036854775807";

	for (int i = 0; i < arguments->n; i++)
		if (is_number_at(arguments->question, i) && !is_number(arguments->operands[i]))
			return complain(arguments->question, arguments->operands[i], right);
	return arguments->cost && !is_number(arguments->cost) ? complain(arguments->question, arguments->cost, right) :
								GO_ON;
}

static int check_attributes(const struct arguments *arguments)
{
	for (int i = 0; i < arguments->n; i++) {
		const char *const equal = strchr(arguments->operands[i], '=');

		if (equal == NULL || equal == arguments->operands[i])
			return complain(arguments->question, arguments->operands[i], "use NAME=VALUE for an attribute");
		if (i == ATTRIBUTES_MAX)
			return complain(arguments->question, arguments->operands[i],
					"too many attributes; use at most 30");
	}
	return GO_ON;
}

static int check_operands(const struct arguments *arguments)
{
	const struct question *const question = arguments->question;
	const bool fits = question->repeats ? arguments->n > 0 && arguments->n % question->most == 0 :
					      arguments->n >= question->least && arguments->n <= question->most;

	if (fits) {
		const int code = question->has_attributes ? check_attributes(arguments) : GO_ON;

		return code == GO_ON ? check_numbers(arguments) : code;
	}
	fprintf(stderr, "weir %s: takes %s%s, not %d argument%s; see weir %s --help\n", question->name,
		*question->operands ? question->operands : "none", question->repeats ? ", once or more" : "",
		arguments->n, arguments->n == 1 ? "" : "s", question->name);
	return CALLED_WRONGLY;
}

/* A negative number in place of a number is not an option: check_numbers reports it with the valid range. */
static bool is_option(const struct arguments *arguments, const char *word)
{
	const bool is_below = word[0] == '-' && word[1] >= '0' && word[1] <= '9';

	return word[0] == '-' && word[1] != '\0' && !(is_below && is_number_at(arguments->question, arguments->n));
}

static int read_arguments(int argc, char **argv, struct arguments *arguments)
{
	bool takes_options = true;

	for (int i = 1; i < argc; i++) {
		int code = GO_ON;

		if (takes_options && strcmp(argv[i], "--") == 0)
			takes_options = false;
		else if (takes_options && is_option(arguments, argv[i]))
			code = read_option(argc, argv, &i, arguments);
		else if (arguments->n == OPERANDS_MAX)
			code = complain(arguments->question, argv[i], "too many arguments; use at most 48");
		else
			arguments->operands[arguments->n++] = argv[i];
		if (code != GO_ON)
			return code;
	}
	return check_operands(arguments);
}

/* Returns GO_ON or the exit code. *ret_password is NULL if no password is set. */
static int read_password(const struct arguments *arguments, char memory[WEIR__PASSWORD_SIZE], const char **ret_password)
{
	const char *word;
	const char *const right = weir__password_read(arguments->user, arguments->password_file, memory, ret_password,
						      &word);

	return right ? complain(arguments->question, word, right) : GO_ON;
}

/* --- the request ------------------------------------------------------------------------------------------------ */

/* Always sends COST, so that an attribute may also be named cost. */
static size_t words_of_attributes(const struct arguments *arguments, struct weir__resp_slice words[WORDS_MAX])
{
	const char *const cost = arguments->cost ? arguments->cost : "1";
	size_t n = 0;

	words[n++] = (struct weir__resp_slice){ arguments->question->command, strlen(arguments->question->command) };
	words[n++] = (struct weir__resp_slice){ "COST", 4 };
	words[n++] = (struct weir__resp_slice){ cost, strlen(cost) };
	if (arguments->wait) {
		words[n++] = (struct weir__resp_slice){ "WAIT", 4 };
		words[n++] = (struct weir__resp_slice){ arguments->wait, strlen(arguments->wait) };
	}
	for (int i = 0; i < arguments->n; i++) {
		const char *const name = arguments->operands[i], *const equal = strchr(name, '=');

		words[n++] = (struct weir__resp_slice){ name, (size_t)(equal - name) };
		words[n++] = (struct weir__resp_slice){ equal + 1, strlen(equal + 1) };
	}
	return n;
}

static size_t words_of(const struct arguments *arguments, struct weir__resp_slice words[WORDS_MAX])
{
	size_t n = 0;

	if (arguments->question->has_attributes)
		return words_of_attributes(arguments, words);
	words[n++].bytes = arguments->question->command;
	for (int i = 0; i < arguments->n; i++)
		words[n++].bytes = arguments->operands[i];
	if (arguments->wait) {
		if (arguments->n == arguments->question->least)
			words[n++].bytes = "1";
		words[n++].bytes = "WAIT";
		words[n++].bytes = arguments->wait;
	}
	if (arguments->is_here)
		words[n++].bytes = "HERE";
	for (size_t i = 0; i < n; i++)
		words[i].length = strlen(words[i].bytes);
	return n;
}

static int report(const struct arguments *arguments, const struct weir__resp_token *answer)
{
	const struct question *const question = arguments->question;
	const char *const cost = question->cost_at < 0 ? NULL : arguments->operands[question->cost_at];

	if (answer->type == WEIR__RESP_ERROR) {
		char text[WEIR__LINK_WHY_SIZE];

		(void)snprintf(text, sizeof(text), "%.*s", (int)answer->text.length, answer->text.bytes);
		fprintf(stderr, "weir %s: the server replied: ", question->name);
		weir__words_safe(stderr, text);
		putc('\n', stderr);
		return FAILED;
	}
	weir__ask_report(answer, &question->words, cost ? strtoull(cost, NULL, 10) : 0, arguments->is_json);
	return weir__ask_report_admits(answer) ? ADMITTED : DENIED;
}

static int complain_of_link(const struct question *question, const struct weir__link *link, int code)
{
	fprintf(stderr, "weir %s: ", question->name);
	weir__words_safe(stderr, link->why);
	putc('\n', stderr);
	return code;
}

static int send(const struct arguments *arguments, struct weir__link *link)
{
	struct weir__resp_slice words[WORDS_MAX];
	enum weir__manage_result result;

	if (arguments->question->run == NULL) {
		const size_t n = words_of(arguments, words);

		return weir__link_ask(link, words, n) == WEIR__LINK_OK ?
			       report(arguments, &link->tokens[0]) :
			       complain_of_link(arguments->question, link, FAILED);
	}
	result = arguments->question->run(link, arguments->is_json);
	if (result == WEIR__MANAGE_FAILED)
		return complain_of_link(arguments->question, link, FAILED);
	return result == WEIR__MANAGE_REFUSED ? DENIED : ADMITTED;
}

static int ask(const struct arguments *arguments, const char *password)
{
	static struct weir__link link; /* too large for the stack */
	const struct weir__tls_files files = weir__stream_files(&arguments->files);
	const enum weir__link_result result = weir__link_open(&link, arguments->at, arguments->user, password, &files,
							      PATIENCE_MS + arguments->wait_ms);
	int code;

	if (result != WEIR__LINK_OK)
		return complain_of_link(arguments->question, &link,
					result == WEIR__LINK_WRONG ? CALLED_WRONGLY : FAILED);
	code = send(arguments, &link);
	weir__link_close(&link);
	return code;
}

int weir__ask(int argc, char **argv)
{
	struct arguments arguments = { .at = weir__link_default() };
	char memory[WEIR__PASSWORD_SIZE];
	const char *password;
	int code;

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
		if (strcmp(argv[0], questions[i].name) == 0)
			arguments.question = &questions[i];
	code = read_arguments(argc, argv, &arguments);
	if (code == GO_ON)
		code = read_password(&arguments, memory, &password);
	return code == GO_ON ? ask(&arguments, password) : code;
}
