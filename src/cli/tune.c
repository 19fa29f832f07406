/* tune.c: weir tune: reads the arguments. tune_size.c sizes a queue from two rates. */
#include <string.h>

#include "cli/command.h"
#include "cli/tune.h"
#include "cli/words.h"
#include "core/duration.h"

static const char tune_help[] =
	"usage: weir tune --inflow RATE --outflow RATE --wait DURATION [--lasts DURATION] [--json]\n"
	"\n"
	"Sizes a leaky bucket with a queue: as many places as requests may wait for, with the reasons,\n"
	"tried on the limiter, and as a policy.\n"
	"\n"
	"  --inflow RATE     how fast requests arrive, such as 120/s\n"
	"  --outflow RATE    how fast they may leave, such as 100/s\n"
	"  --wait DURATION   the longest acceptable wait, from 1ms to 1day, such as 2s\n"
	"  --lasts DURATION  how long the inflow lasts, at most a week: is the queue long enough for that?\n"
	"  --json            output for programs: durations in ns\n"
	"  --help            show this\n"
	"\n"
	"Exit status: 0 done; 1 the inflow lasts too long for this wait and outflow; 2 wrong usage.\n";

#define MS UINT64_C(1000000)
#define DAY (86400 * 1000 * MS)

struct arguments {
	struct weir__sizing_wish size;
	bool is_json;
};

static bool refuse(const char *option, const char *value, const char *right)
{
	fprintf(stderr, "weir tune: %s ", option);
	weir__words_quoted(stderr, value, strlen(value));
	fprintf(stderr, ": %s\n", right);
	return false;
}

static bool read_rate(const char *option, const char *value, struct weir__rate *ret_rate)
{
	struct weir_limit limit;
	struct weir_message why;

	if (strchr(value, ' ') || weir_limit_parse(value, strlen(value), &limit, &why) != WEIR_OK || limit.count == 0 ||
	    limit.period == 0)
		return refuse(option, value, "use a rate such as 120/s or 90/min");
	*ret_rate = (struct weir__rate){ limit.count, limit.period };
	return true;
}

static bool read_inflow(struct arguments *arguments, const char *option, const char *value)
{
	return read_rate(option, value, &arguments->size.inflow);
}

static bool read_outflow(struct arguments *arguments, const char *option, const char *value)
{
	return read_rate(option, value, &arguments->size.outflow);
}

/* What `wait` of a policy accepts. */
static bool read_wait(struct arguments *arguments, const char *option, const char *value)
{
	weir_ns wait;

	if (!weir__duration_read(value, strlen(value), DAY, &wait) || wait < MS || wait % MS != 0)
		return refuse(option, value, "use whole milliseconds from 1ms to 1day, such as 2s");
	arguments->size.wait = wait;
	return true;
}

static bool read_lasts(struct arguments *arguments, const char *option, const char *value)
{
	if (!weir__duration_read(value, strlen(value), 7 * DAY, &arguments->size.lasts) || arguments->size.lasts == 0)
		return refuse(option, value, "use a duration of at most a week, such as 10s");
	return true;
}

static const struct option {
	const char *name;
	bool (*read)(struct arguments *arguments, const char *option, const char *value);
} options[] = {
	{ "--inflow", read_inflow },
	{ "--outflow", read_outflow },
	{ "--wait", read_wait },
	{ "--lasts", read_lasts },
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

static const struct option *find_option(const char *word)
{
	for (size_t i = 0; i < OPTIONS; i++) {
		const size_t length = strlen(options[i].name);

		if (strncmp(word, options[i].name, length) == 0 && (word[length] == '\0' || word[length] == '='))
			return &options[i];
	}
	return NULL;
}

static void refuse_option(const char *word)
{
	struct weir__nearest nearest = weir__nearest_of(word, strcspn(word, "="));

	for (size_t i = 0; i < OPTIONS; i++)
		weir__nearest_offer(&nearest, options[i].name);
	weir__nearest_offer(&nearest, "--json");
	weir__command_refuse_option(&nearest, "weir tune", "weir tune --help lists them");
}

static bool read_arguments(int argc, char **argv, struct arguments *arguments)
{
	for (int i = 1; i < argc; i++) {
		const struct option *const option = find_option(argv[i]);
		const char *value;

		if (strcmp(argv[i], "--json") == 0) {
			arguments->is_json = true;
			continue;
		}
		if (option == NULL) {
			refuse_option(argv[i]);
			return false;
		}
		value = strchr(argv[i], '=');
		value = value ? value + 1 : i + 1 < argc ? argv[++i] : "";
		if (!option->read(arguments, option->name, value))
			return false;
	}
	return true;
}

int weir__tune(int argc, char **argv)
{
	struct arguments arguments = { .is_json = false };

	for (int i = 1; i < argc; i++) {
		if (weir__command_is_help(argv[i])) {
			fputs(tune_help, stdout);
			return WEIR__TUNE_DONE;
		}
	}
	if (!read_arguments(argc, argv, &arguments))
		return WEIR__TUNE_WRONG_USAGE;
	if (arguments.size.inflow.count == 0 || arguments.size.outflow.count == 0 || arguments.size.wait == 0) {
		fputs(tune_help, stderr);
		return WEIR__TUNE_WRONG_USAGE;
	}
	return weir__tune_size(&arguments.size, arguments.is_json);
}
