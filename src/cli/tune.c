/* tune.c: weir tune: reads the arguments. tune_log.c tunes a limit by logs, tune_size.c sizes a queue from two
 * rates. */
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "cli/log_options.h"
#include "cli/output.h"
#include "cli/tune.h"
#include "cli/words.h"
#include "core/decimal.h"
#include "core/duration.h"
#include "replay/log_field.h"

static const char tune_help[] =
	"usage: weir tune LOG... --wish WISH|--bad FROM..TO [--policy POLICY --limit NAME | --key ATTRIBUTES] [OPTION...]\n"
	"       weir tune --inflow RATE --outflow RATE --wait DURATION [--lasts DURATION] [--json]\n"
	"\n"
	"With logs: proposes the algorithm, rate and burst of one limit, with the trade-off curve and the\n"
	"reasons. Chooses without the last part of the log. Then replays the whole log with the proposal, and shows\n"
	"the result for both parts. Reads the logs twice, so they must be files.\n"
	"\n"
	"  --wish WISH       what the limit should achieve. One of these, or the first two or the last two together:\n"
	"                    'denied_clients <= 0.1%': at most this share of clients is ever denied\n"
	"                    'denied <= 0.1%': at most this share of requests is denied\n"
	"                    'passed <= 500/s': at most this much passes in any second\n"
	"                    'p99_wait <= 200ms': 99 % of requests wait at most this long in a queue\n"
	"  --bad FROM..TO    the time of an attack: deny as much of it as possible, while all other requests keep\n"
	"                    the wish. Without --wish, no other request is denied\n"
	"  --policy POLICY   the policy, a file or directory\n"
	"  --limit NAME      which of its limits to tune. What it matches and its key stay as they are\n"
	"  --key ATTRIBUTES  without a policy: a limit with this key, such as ip or user. Default: ip for\n"
	"                    denied_clients and denied, no key for other wishes\n"
	"  --hold-out N      hold out the last N percent of the time, 0 to 90. Default: 25\n"
	"  --horizon TIME    compare pairs of rate and burst by what one client can take in this time.\n"
	"                    Default: 1min\n"
	"  --write FILE      write the proposal to FILE, as a policy in shadow mode\n"
	"  --svg FILE        write the trade-off curve to FILE, as a picture\n"
	"  --memory SIZE     memory for requests, 16MB to 64GB. Default: 512MB, for 16 million requests. If\n"
	"                    they need more, tune uses a sample of clients, and says so\n"
	"  --format FORMAT   the format of the log, as for weir replay. Default: detected\n"
	"  --map TO=FROM     use the field FROM of the log as TO, as for weir replay. May be repeated\n"
	"  --tz ZONE         the zone of times without an offset, as for weir replay. Default: UTC\n"
	"  --reorder TIME    sort lines by arrival within this time, at most 1hour. Default: 10s\n"
	"\n"
	"Without logs: sizes a leaky bucket with a queue, from two rates and the longest acceptable wait.\n"
	"\n"
	"  --inflow RATE     how fast requests arrive, such as 120/s\n"
	"  --outflow RATE    how fast they may leave, such as 100/s\n"
	"  --wait DURATION   the longest acceptable wait, from 1ms to 1day, such as 2s\n"
	"  --lasts DURATION  how long the inflow lasts, at most a week: is the queue long enough for that?\n"
	"\n"
	"  --json            output for programs: durations in ns\n"
	"  --help            show this\n"
	"\n"
	"Exit status: 0 done; 1 a log or the policy cannot be read, or no limit keeps the wish; 2 wrong usage;\n"
	"4 the replay misses the wish in the part that was used to choose, or the inflow lasts too long for\n"
	"this wait and outflow.\n";

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define MEGABYTE UINT64_C(1000000)

enum { HOLD_OUT = 25, HOLD_OUT_MOST = 90, MEMORY_MB = 512, MEMORY_LEAST_MB = 16, MEMORY_MOST_MB = 64000 };

struct arguments {
	struct weir__sizing_wish size;
	struct weir__tune_options log;
	const char *bad;              /* parsed later, because --tz may follow it */
	const char *of_size, *of_log; /* the last option for sizing only, and for logs only; NULL: none */
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

static bool read_wish(struct arguments *arguments, const char *option, const char *value)
{
	struct weir__tune_options *const log = &arguments->log;
	const char *const why = log->n_wishes == WEIR__TUNE_WISHES_MAX ?
					"at most two wishes: two shares, or passed and a wait" :
					weir__tune_wish_read(value, &log->wish);

	if (why)
		return refuse(option, value, why);
	log->wishes[log->n_wishes++] = value;
	return true;
}

static bool read_bad(struct arguments *arguments, const char *option, const char *value)
{
	(void)option;
	arguments->bad = value;
	return true;
}

static bool read_policy(struct arguments *arguments, const char *option, const char *value)
{
	arguments->log.policy = value;
	return value[0] != '\0' || refuse(option, value, "use a file or directory");
}

static bool read_limit(struct arguments *arguments, const char *option, const char *value)
{
	arguments->log.limit = value;
	return value[0] != '\0' || refuse(option, value, "use the name of a limit");
}

static bool read_key(struct arguments *arguments, const char *option, const char *value)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.0123456789,";

	arguments->log.key = value;
	return strspn(value, plain) == strlen(value) ||
	       refuse(option, value, "use names of attributes, with commas between, such as ip or user,plan");
}

static bool read_hold_out(struct arguments *arguments, const char *option, const char *value)
{
	const size_t n = strlen(value);
	uint64_t percent;

	if (!weir__decimal_read(value, n > 0 && value[n - 1] == '%' ? n - 1 : n, HOLD_OUT_MOST, &percent))
		return refuse(option, value, "use a number of percent from 0 to 90");
	arguments->log.hold_out = (uint32_t)percent;
	return true;
}

static bool read_horizon(struct arguments *arguments, const char *option, const char *value)
{
	weir_ns *const horizon = &arguments->log.wish.horizon;

	return (weir__duration_read(value, strlen(value), 7 * DAY, horizon) && *horizon >= SECOND) ||
	       refuse(option, value, "use a duration from 1s to 7day, such as 1min");
}

static bool read_write(struct arguments *arguments, const char *option, const char *value)
{
	arguments->log.write = value;
	return value[0] != '\0' || refuse(option, value, "use the path of a file");
}

static bool read_svg(struct arguments *arguments, const char *option, const char *value)
{
	arguments->log.svg = value;
	return value[0] != '\0' || refuse(option, value, "use the path of a file");
}

static bool read_memory(struct arguments *arguments, const char *option, const char *value)
{
	const size_t n = strlen(value);
	uint64_t megabytes;
	const bool is_gb = n > 2 && strcmp(value + n - 2, "GB") == 0;

	if (n < 3 || (!is_gb && strcmp(value + n - 2, "MB") != 0) ||
	    !weir__decimal_read(value, n - 2, is_gb ? MEMORY_MOST_MB / 1000 : MEMORY_MOST_MB, &megabytes) ||
	    megabytes * (is_gb ? 1000 : 1) < MEMORY_LEAST_MB)
		return refuse(option, value, "use a size from 16MB to 64GB");
	arguments->log.memory = megabytes * (is_gb ? 1000 : 1) * MEGABYTE;
	return true;
}

static bool read_format(struct arguments *arguments, const char *option, const char *value)
{
	(void)option;
	arguments->log.log.format = value;
	return true;
}

static bool read_map(struct arguments *arguments, const char *option, const char *value)
{
	struct weir__log_options *const log = &arguments->log.log;
	const char *const equal = strchr(value, '=');

	if (equal == NULL || equal == value || equal[1] == '\0')
		return refuse(option, value, "use TO=FROM, such as plan=http_x_plan");
	if (log->n_maps == WEIR__TUNE_MAPS_MAX)
		return refuse(option, value, "at most 32 fields can be mapped");
	arguments->log.maps[log->n_maps++] = (struct weir__log_map){ { value, (size_t)(equal - value) },
								     { equal + 1, strlen(equal + 1) } };
	return true;
}

static bool read_zone(struct arguments *arguments, const char *option, const char *value)
{
	const char *const why = weir__log_options_zone(&arguments->log.log, &arguments->log.zone, value);

	return why == NULL || refuse(option, value, why);
}

static bool read_reorder(struct arguments *arguments, const char *option, const char *value)
{
	return weir__duration_read(value, strlen(value), HOUR, &arguments->log.log.reorder) ||
	       refuse(option, value, "use a duration of at most 1hour, such as 10s");
}

static const struct option {
	const char *name;
	bool (*read)(struct arguments *arguments, const char *option, const char *value);
	bool is_of_size;
} options[] = {
	/* clang-format off */
	{ "--bad", read_bad, false },
	{ "--format", read_format, false },
	{ "--hold-out", read_hold_out, false },
	{ "--horizon", read_horizon, false },
	{ "--inflow", read_inflow, true },
	{ "--key", read_key, false },
	{ "--lasts", read_lasts, true },
	{ "--limit", read_limit, false },
	{ "--map", read_map, false },
	{ "--memory", read_memory, false },
	{ "--outflow", read_outflow, true },
	{ "--policy", read_policy, false },
	{ "--reorder", read_reorder, false },
	{ "--svg", read_svg, false },
	{ "--tz", read_zone, false },
	{ "--wait", read_wait, true },
	{ "--wish", read_wish, false },
	{ "--write", read_write, false },
	/* clang-format on */
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

static const struct option *find_option(const char *word, const char **ret_value)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (weir__command_is_option(word, options[i].name, ret_value))
			return &options[i];
	return NULL;
}

static void refuse_option(const char *word)
{
	struct weir__nearest nearest = weir__command_option_name(word);

	for (size_t i = 0; i < OPTIONS; i++)
		weir__nearest_offer(&nearest, options[i].name);
	weir__nearest_offer(&nearest, "--json");
	weir__command_refuse_option(&nearest, "weir tune", "weir tune --help lists them");
}

/* The log is read twice, which a pipe cannot. */
static bool add_log(struct arguments *arguments, const char *path)
{
	struct weir__tune_options *const log = &arguments->log;
	struct stat status;

	if (strcmp(path, "-") == 0 || (stat(path, &status) == 0 && !S_ISREG(status.st_mode)))
		return refuse("log", path, "not a regular file; tune reads a log twice, so save it to a file first");
	if (log->log.n_paths == WEIR__LOG_INPUTS_MAX)
		return refuse("log", path, "too many logs; use at most 256");
	log->paths[log->log.n_paths++] = path;
	arguments->of_log = path;
	return true;
}

static bool read_arguments(int argc, char **argv, struct arguments *arguments)
{
	for (int i = 1; i < argc; i++) {
		const char *value = NULL;
		const struct option *const option = find_option(argv[i], &value);

		if (strcmp(argv[i], "--json") == 0) {
			arguments->log.is_json = true;
			continue;
		}
		if (option == NULL && argv[i][0] == '-' && argv[i][1] != '\0') {
			refuse_option(argv[i]);
			return false;
		}
		if (option == NULL) {
			if (!add_log(arguments, argv[i]))
				return false;
			continue;
		}
		if (value == NULL && i + 1 == argc) {
			fprintf(stderr, "weir tune: %s needs a value\n", option->name);
			return false;
		}
		if (!option->read(arguments, option->name, value ? value : argv[++i]))
			return false;
		*(option->is_of_size ? &arguments->of_size : &arguments->of_log) = option->name;
	}
	return true;
}

/* FROM..TO */
static bool split_bad(struct arguments *arguments)
{
	const char *const bad = arguments->bad, *const dots = strstr(bad, "..");
	const struct weir__log_options *const log = &arguments->log.log;
	struct weir__log_time from, until;

	if (dots == NULL || !weir__log_field_time(log, (struct weir__slice){ bad, (size_t)(dots - bad) }, 0, &from) ||
	    !weir__log_field_time(log, weir__slice_of(dots + 2), 0, &until) || from.at >= until.at)
		return refuse("--bad", bad, "use FROM..TO, such as 2026-03-02T14:00:00Z..2026-03-02T14:10:00Z");
	arguments->log.wish.bad = (struct weir__interval){ from.at, until.at };
	return true;
}

/* An output file must not be an input: the log is read twice, and the policy again, before the files are written. */
static bool check_output(const struct weir__tune_options *log, const char *option, const char *path)
{
	if (path &&
	    (weir__output_is_input(path, log->paths, log->log.n_paths) || weir__output_is_input(path, &log->policy, 1)))
		return refuse(option, path, "weir tune also reads this file; use another file");
	return true;
}

static bool check_log(struct arguments *arguments)
{
	struct weir__tune_options *const log = &arguments->log;
	const char *wrong = NULL;

	if (arguments->bad && !split_bad(arguments))
		return false;
	if (arguments->bad && log->n_wishes == 0)
		(void)read_wish(arguments, "--wish", "denied_clients <= 0%");
	if (log->log.n_paths == 0)
		wrong = "name a log, or use --inflow, --outflow and --wait";
	else if (log->n_wishes == 0)
		wrong = "--wish is missing; use for example --wish 'denied_clients <= 0.1%'";
	else if ((log->policy == NULL) != (log->limit == NULL))
		wrong = "--policy and --limit go together";
	else if (log->policy && log->key)
		wrong = "--key is for tuning without a policy; the limit has its own key";
	else
		wrong = weir__tune_wish_check(&log->wish);
	if (wrong) {
		fprintf(stderr, "weir tune: %s\n", wrong);
		return false;
	}
	if (!weir__log_options_check_paths("weir tune", log->paths, log->log.n_paths))
		return false;
	if (!check_output(log, "--write", log->write) || !check_output(log, "--svg", log->svg))
		return false;
	if (log->write && log->svg && weir__output_is_same(log->write, log->svg))
		return refuse("--svg", log->svg, "--write has the same file; use a different file");
	if (log->key == NULL && weir__tuning_is_of_shares(&log->wish))
		log->key = "ip";
	log->log.paths = log->paths;
	log->log.maps = log->maps;
	return true;
}

static bool check_size(const struct arguments *arguments)
{
	const struct weir__sizing_wish *const size = &arguments->size;
	const char *const missing = size->inflow.count == 0  ? "--inflow" :
				    size->outflow.count == 0 ? "--outflow" :
				    size->wait == 0          ? "--wait" :
							       NULL;

	if (arguments->of_log) {
		fprintf(stderr, "weir tune: %s is for sizing without a log, ", arguments->of_size);
		weir__words_quoted(stderr, arguments->of_log, strlen(arguments->of_log));
		fputs(" is for tuning by a log; use one or the other\n", stderr);
		return false;
	}
	if (missing)
		fprintf(stderr, "weir tune: %s is missing; --inflow, --outflow and --wait go together\n", missing);
	return missing == NULL;
}

int weir__tune(int argc, char **argv)
{
	static struct arguments arguments;

	arguments.log.hold_out = HOLD_OUT;
	arguments.log.memory = MEMORY_MB * MEGABYTE;
	arguments.log.wish.horizon = MINUTE;
	arguments.log.log.reorder = 10 * SECOND;
	for (int i = 1; i < argc; i++) {
		if (weir__command_is_help(argv[i])) {
			fputs(tune_help, stdout);
			return WEIR__TUNE_DONE;
		}
	}
	if (argc < 2) {
		fputs(tune_help, stderr);
		return WEIR__TUNE_WRONG_USAGE;
	}
	if (!read_arguments(argc, argv, &arguments))
		return WEIR__TUNE_WRONG_USAGE;
	if (arguments.of_size)
		return check_size(&arguments) ? weir__tune_size(&arguments.size, arguments.log.is_json) :
						WEIR__TUNE_WRONG_USAGE;
	return check_log(&arguments) ? weir__tune_log(&arguments.log) : WEIR__TUNE_WRONG_USAGE;
}
