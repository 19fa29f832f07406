/* replay.c: weir replay: decides the requests of access logs by a policy, without a server. */
#include "cli/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/log_options.h"
#include "cli/output.h"
#include "cli/words.h"
#include "core/decimal.h"
#include "core/duration.h"
#include "os/monotonic.h"
#include "policy/policy.h"
#include "server/policy_loader.h"

enum { DONE = 0, FAILED = 1, CALLED_WRONGLY = 2, CONDITION_HOLDS = 4 };

#define SECOND UINT64_C(1000000000)
#define YEARS_9 (UINT64_C(9) * 365 * 86400 * SECOND)

static const char replay_help[] =
	"usage: weir replay --policy FILE|DIRECTORY [OPTION...] LOG|-...\n"
	"\n"
	"Decides the requests of access logs by a policy, with the server's own engine, and shows who would\n"
	"have been denied, when and by which limit. - is standard input. Files may be gzip or zstd. Several files,\n"
	"such as rotated ones, are merged by time.\n"
	"\n"
	"  --policy PATH   the policy: a file, or a directory of *.yaml files\n"
	"  --compare OLD   also decide by the policy OLD, and show what changes\n"
	"  --format F      combined, combined_timed, apache, vhost_combined, common, caddy, traefik, envoy, json,\n"
	"                  csv, or a log_format of nginx or a LogFormat of Apache. Detected from the first lines by\n"
	"                  default\n"
	"  --map TO=FROM   use the field FROM of the log as the attribute TO. TO may also be time, start,\n"
	"                  duration_s, duration_ms, duration_us, duration_ns, request, status, bytes or cost\n"
	"  --tz ZONE       time zone of times without an offset: +02:00, Europe/Berlin (UTC)\n"
	"  --reorder T     sort lines by arrival within this time, at most 1hour (10s)\n"
	"  --client NAME   the attribute that tells clients apart (ip)\n"
	"  --keys N        keys in use at once, for the memory of the table (4000000)\n"
	"  --top N         how many clients and keys to list, at most 100 (10)\n"
	"  --json          output for programs\n"
	"  --csv FILE      also write a row for each denied request; with --compare, for each that is decided\n"
	"                  differently. - is standard output, instead of the report\n"
	"  --html FILE     also write a page with plots. It needs no network, and has mode 0600\n"
	"  --html-names N  hashed or plain: the clients in that page (hashed)\n"
	"  --all           with --csv: a row for each request\n"
	"  --fail-if C     exit with status 4 if C is true, as in \"denied_clients > 0.1%\". Repeat it, or join\n"
	"                  conditions by `or`. Metrics: requests denied delayed undecided unmatched clients\n"
	"                  denied_clients denied_keys longest_wait longest_delay newly_denied newly_allowed\n"
	"                  newly_denied_clients newly_allowed_clients bad_lines late_lines evicted. Of one limit:\n"
	"                  denied[NAME]\n"
	"  --quiet         no progress on the terminal\n"
	"  --help          show this\n"
	"\n"
	"Exit status: 0 done; 1 a file cannot be read or has no requests; 2 wrong usage; 3 standard output could\n"
	"not be written; 4 a condition is true.\n";

/* --- options ----------------------------------------------------------------------------------------------------- */

static int complain(const char *option, const char *value, const char *right)
{
	fprintf(stderr, "weir replay: %s ", option);
	weir__words_quoted(stderr, value, strlen(value));
	fprintf(stderr, ": %s\n", right);
	return CALLED_WRONGLY;
}

static int read_map(struct replay_options *options, const char *value)
{
	const char *const equal = strchr(value, '=');

	if (equal == NULL || equal == value || equal[1] == '\0')
		return complain("--map", value, "use TO=FROM, as in --map api_key=http_x_api_key");
	if (options->log.n_maps == REPLAY_MAPS_MAX)
		return complain("--map", value, "at most 64 are allowed");
	options->maps[options->log.n_maps++] = (struct weir__log_map){ { value, (size_t)(equal - value) },
								       weir__slice_of(equal + 1) };
	return DONE;
}

static int read_condition(struct replay_options *options, const char *value)
{
	struct weir_message why;

	if (weir__fail_if_add(&options->fail_if, value, &why) == WEIR_OK)
		return DONE;
	fputs("weir replay: --fail-if ", stderr);
	weir__words_quoted(stderr, value, strlen(value));
	fprintf(stderr, ": at character %zu: %s\n", why.at + 1, why.text);
	return CALLED_WRONGLY;
}

static int read_names(struct replay_options *options, const char *value)
{
	options->has_plain_names = strcmp(value, "plain") == 0;
	return options->has_plain_names || strcmp(value, "hashed") == 0 ?
		       DONE :
		       complain("--html-names", value, "use hashed or plain");
}

static int read_zone(struct replay_options *options, const char *value)
{
	const char *const why = weir__log_options_zone(&options->log, &options->zone, value);

	return why ? complain("--tz", value, why) : DONE;
}

static int read_value(struct replay_options *options, const char *option, const char *value)
{
	const size_t n = strlen(value);

	if (strcmp(option, "--policy") == 0)
		options->policy_path = value;
	else if (strcmp(option, "--compare") == 0)
		options->old_path = value;
	else if (strcmp(option, "--format") == 0)
		options->log.format = value;
	else if (strcmp(option, "--csv") == 0)
		options->csv_path = value;
	else if (strcmp(option, "--html") == 0)
		options->html_path = value;
	else if (strcmp(option, "--html-names") == 0)
		return read_names(options, value);
	else if (strcmp(option, "--client") == 0)
		options->client = weir__slice_of(value);
	else if (strcmp(option, "--map") == 0)
		return read_map(options, value);
	else if (strcmp(option, "--fail-if") == 0)
		return read_condition(options, value);
	else if (strcmp(option, "--tz") == 0)
		return read_zone(options, value);
	else if (strcmp(option, "--reorder") == 0 &&
		 !weir__duration_read(value, n, WEIR__LOG_REORDER_MAX_S * SECOND, &options->log.reorder))
		return complain("--reorder", value, "use a duration of at most 1hour, as in 10s");
	else if (strcmp(option, "--keys") == 0 &&
		 (!weir__decimal_read(value, n, UINT64_C(1) << 32, &options->keys) || options->keys == 0))
		return complain("--keys", value, "use a whole number of at most 4294967296");
	else if (strcmp(option, "--top") == 0 && !weir__decimal_read(value, n, WEIR__TOP_MAX, &options->top))
		return complain("--top", value, "use a whole number of at most 100");
	return DONE;
}

static const char *const with_value[] = { "--policy",  "--compare", "--format",    "--map", "--tz",
					  "--reorder", "--client",  "--keys",      "--top", "--fail-if",
					  "--csv",     "--html",    "--html-names" };
static const char *const without_value[] = { "--json", "--all", "--quiet", "--help" };

/* The option with a value that the word is, alone or as --option=value; NULL: none. */
static const char *find_with_value(const char *word, const char **ret_value)
{
	for (size_t i = 0; i < sizeof(with_value) / sizeof(with_value[0]); i++)
		if (weir__command_is_option(word, with_value[i], ret_value))
			return with_value[i];
	return NULL;
}

static int refuse_option(const char *word)
{
	struct weir__nearest nearest = weir__command_option_name(word);

	for (size_t i = 0; i < sizeof(with_value) / sizeof(with_value[0]); i++)
		weir__nearest_offer(&nearest, with_value[i]);
	for (size_t i = 0; i < sizeof(without_value) / sizeof(without_value[0]); i++)
		weir__nearest_offer(&nearest, without_value[i]);
	weir__command_refuse_option(&nearest, "weir replay",
				    "weir replay --help lists all; write ./ before a path that begins with a dash");
	return CALLED_WRONGLY;
}

/* Opening an output file empties it, so it must not be an input. */
static int check_output(const struct replay_options *options, const char *option, const char *path)
{
	const char *const policies[] = { options->policy_path, options->old_path };

	if (path == NULL || (strcmp(option, "--csv") == 0 && strcmp(path, "-") == 0))
		return DONE;
	if (strcmp(path, "-") == 0)
		return complain(option, path, "use the path of a file");
	if (weir__output_is_input(path, options->log.paths, options->log.n_paths) ||
	    weir__output_is_input(path, policies, 2))
		return complain(option, path, "weir replay also reads this file; use another file");
	return DONE;
}

static int check_outputs(const struct replay_options *options)
{
	int code = check_output(options, "--csv", options->csv_path);

	if (code == DONE)
		code = check_output(options, "--html", options->html_path);
	if (code == DONE && options->csv_path && options->html_path &&
	    weir__output_is_same(options->csv_path, options->html_path))
		code = complain("--html", options->html_path, "--csv has the same file; use a different file");
	return code;
}

static int check_together(const struct replay_options *options)
{
	if (options->policy_path == NULL || options->log.n_paths == 0) {
		fprintf(stderr, "weir replay: %s missing\n%s",
			options->policy_path == NULL ? "--policy FILE is" : "the log is", replay_help);
		return CALLED_WRONGLY;
	}
	if (options->has_all && options->csv_path == NULL) {
		fputs("weir replay: --all needs --csv FILE\n", stderr);
		return CALLED_WRONGLY;
	}
	if (options->is_json && options->csv_path && strcmp(options->csv_path, "-") == 0) {
		fputs("weir replay: --json and --csv - both write to standard output; use --csv FILE\n", stderr);
		return CALLED_WRONGLY;
	}
	for (size_t i = 0; i < options->fail_if.n; i++)
		if (options->old_path == NULL && weir__fail_needs_old(&options->fail_if.of[i])) {
			fprintf(stderr, "weir replay: --fail-if %s needs --compare OLD\n",
				weir__fail_metric_name(options->fail_if.of[i].metric));
			return CALLED_WRONGLY;
		}
	if (!weir__log_options_check_paths("weir replay", options->log.paths, options->log.n_paths))
		return CALLED_WRONGLY;
	return check_outputs(options);
}

/* Moves the paths of logs to the front of argv. */
static int read_options(struct replay_options *options, int argc, char **argv)
{
	int n = 0, inputs = 0;

	options->client = weir__slice_of("ip");
	options->top = 10;
	options->log.reorder = 10 * SECOND;
	options->log.maps = options->maps;
	for (int i = 1; i < argc; i++) {
		const char *value = NULL;
		const char *const option = find_with_value(argv[i], &value);

		if (option) {
			int code;

			if (value == NULL && i + 1 == argc) {
				fprintf(stderr, "weir replay: %s needs a value\n", option);
				return CALLED_WRONGLY;
			}
			code = read_value(options, option, value ? value : argv[++i]);
			if (code != DONE)
				return code;
		} else if (strcmp(argv[i], "--json") == 0) {
			options->is_json = true;
		} else if (strcmp(argv[i], "--all") == 0) {
			options->has_all = true;
		} else if (strcmp(argv[i], "--quiet") == 0) {
			options->is_quiet = true;
		} else if (argv[i][0] == '-' && argv[i][1] != '\0') {
			return refuse_option(argv[i]);
		} else {
			inputs += strcmp(argv[i], "-") == 0;
			argv[n++] = argv[i];
		}
	}
	options->log.paths = (const char *const *)argv;
	options->log.n_paths = (size_t)n;
	if (inputs > 1) {
		fputs("weir replay: - given twice; standard input can be read only once\n", stderr);
		return CALLED_WRONGLY;
	}
	return check_together(options);
}

/* --- preparing --------------------------------------------------------------------------------------------------- */

static int fail(const char *what, int error, const struct weir_message *why)
{
	fprintf(stderr, "weir replay: %s%s%s\n", what, what[0] ? ": " : "",
		why->text[0]             ? why->text :
		error == WEIR_ERR_SYSTEM ? strerror(errno) :
					   weir_strerror(error));
	return FAILED;
}

static bool read_policy(const char *path, struct replay_side *side)
{
	char apart[WEIR__POLICY_PATH_SIZE];

	side->policy = weir__policy_loader_check(path, stderr, apart);
	return side->policy != NULL;
}

static size_t name(struct replay_run *run, struct weir__slice name)
{
	for (size_t i = 0; i < run->n_names; i++)
		if (weir__slice_equal(run->names[i], name))
			return i;
	if (run->n_names == WEIR__LOG_VALUES_MAX)
		return WEIR__REPLAY_NO_NAME;
	run->names[run->n_names] = name;
	return run->n_names++;
}

/* The attributes of both policies, and those that the report shows. */
static void choose_names(struct replay_run *run)
{
	const struct weir_policy *const policies[] = { run->now.policy, run->old.policy };

	for (size_t i = 0; i < 2; i++) {
		struct weir__slice names[WEIR__LOG_VALUES_MAX];
		const size_t n = policies[i] ? weir__replay_names(policies[i], names) : 0;

		for (size_t j = 0; j < n; j++)
			(void)name(run, names[j]);
	}
	run->n_of_policies = run->n_names;
	run->unseen = (uint32_t)((UINT64_C(1) << run->n_names) - 1);
	run->client = name(run, run->options.client);
	run->method = run->options.csv_path ? name(run, weir__slice_of("method")) : WEIR__REPLAY_NO_NAME;
	run->path = run->options.csv_path ? name(run, weir__slice_of("path")) : WEIR__REPLAY_NO_NAME;
}

static bool has_plan(const struct weir_policy *policy, struct weir__slice name)
{
	for (uint32_t i = 0; i < policy->n_plans; i++)
		if (weir__slice_is(name, policy->plans[i].name))
			return true;
	return false;
}

/* The limits that conditions name. */
static int check_limits(const struct replay_run *run)
{
	for (size_t i = 0; i < run->options.fail_if.n; i++) {
		const struct weir__slice limit = run->options.fail_if.of[i].limit;
		struct weir__nearest nearest = weir__nearest_of(limit.at, limit.n);

		if (limit.at == NULL || has_plan(run->now.policy, limit))
			continue;
		for (uint32_t j = 0; j < run->now.policy->n_plans; j++)
			weir__nearest_offer(&nearest, run->now.policy->plans[j].name);
		fputs("weir replay: --fail-if: the policy does not have the limit ", stderr);
		weir__words_quoted(stderr, limit.at, limit.n);
		if (nearest.best)
			fprintf(stderr, "; did you mean %s?", nearest.best);
		fputc('\n', stderr);
		return CALLED_WRONGLY;
	}
	return DONE;
}

static bool open_csv(struct replay_run *run)
{
	const char *const path = run->options.csv_path;

	if (path == NULL)
		return true;
	run->csv = strcmp(path, "-") == 0 ? stdout : weir__output_open_private(path);
	if (run->csv == NULL) {
		fprintf(stderr, "weir replay: --csv %s: %s\n", path, strerror(errno));
		return false;
	}
	weir__replay_csv_head(run);
	return true;
}

/* --- replaying --------------------------------------------------------------------------------------------------- */

static bool begin_side(struct replay_run *run, struct replay_side *side, const struct weir__log_record *first)
{
	const struct weir__replay_options options = {
		.begins = first->arrival, .keys = run->options.keys, .names = run->names, .n_names = run->n_names
	};
	struct weir_policy *const policy = side->policy;
	struct weir_message why = { 0 };
	int error;

	side->policy = NULL;
	error = weir__replay_new(policy, &options, &side->replay, &why);
	if (error != WEIR_OK) {
		(void)fail("", error, &why);
		return false;
	}
	side->stats = weir__replay_stats_new(side->replay, run->client, run->options.top);
	if (side->stats && run->options.html_path)
		side->plots = weir__replay_plots_new(run->client);
	if (side->stats == NULL || (run->options.html_path && side->plots == NULL)) {
		fputs("weir replay: no memory\n", stderr);
		return false;
	}
	return true;
}

static bool begin(struct replay_run *run, const struct weir__log_record *first)
{
	if (!begin_side(run, &run->now, first) || (run->old.policy && !begin_side(run, &run->old, first)))
		return false;
	if (run->old.replay == NULL)
		return true;
	run->changes = weir__replay_changes_new(run->client, run->options.top);
	if (run->changes == NULL)
		fputs("weir replay: no memory\n", stderr);
	return run->changes != NULL;
}

static void hide_progress(struct replay_run *run)
{
	if (run->is_shown)
		fputs("\r\x1b[K", stderr);
	run->is_shown = false;
}

/* One line: requests, requests a second, share done and time left. */
static void show_progress(struct replay_run *run, weir_ns began)
{
	const weir_ns now = weir__monotonic_ns();
	struct weir__log_totals totals;
	uint64_t per_second;

	if (now - run->shown_at < SECOND / 5)
		return;
	run->shown_at = now;
	weir__log_reader_totals(run->reader, &totals);
	per_second = (uint64_t)((unsigned __int128)totals.records * SECOND / (now - began + 1));
	fprintf(stderr, "\r\x1b[K%" PRIu64 " requests, %" PRIu64 "/s", totals.records, per_second);
	if (totals.bytes_all > 0 && totals.bytes_done > 0 && totals.bytes_done <= totals.bytes_all) {
		const uint64_t tenths = totals.bytes_done * 20 / totals.bytes_all;
		const weir_ns left = (weir_ns)((unsigned __int128)(now - began) *
					       (totals.bytes_all - totals.bytes_done) / totals.bytes_done);
		char text[WEIR__WORDS_SIZE];

		weir__words_span(left / SECOND * SECOND, text);
		fprintf(stderr, " [%.*s%.*s] %" PRIu64 " %%, %s left", (int)tenths, "####################",
			(int)(20 - tenths), "....................", totals.bytes_done * 100 / totals.bytes_all, text);
	}
	fflush(stderr);
	run->is_shown = true;
}

/* Looks only at attributes that no request had so far. Soon there are mostly none. */
static void see_attributes(struct replay_run *run, const struct weir__log_record *const *records, size_t n)
{
	for (size_t i = 0; i < run->n_of_policies && run->unseen; i++)
		for (size_t j = 0; j < n && run->unseen & UINT32_C(1) << i; j++)
			if (records[j]->values[i].at)
				run->unseen &= ~(UINT32_C(1) << i);
}

static bool replay_all(struct replay_run *run)
{
	enum { SHOW_EACH = 512 };
	struct weir__replay_answer answers[WEIR__REPLAY_BATCH], old_answers[WEIR__REPLAY_BATCH];
	const bool shows = !run->options.is_quiet && isatty(STDERR_FILENO);
	const weir_ns began = weir__monotonic_ns();
	const struct weir__log_record *const *records;
	weir_ns first = 0;
	size_t n;

	for (uint64_t i = 0; (n = weir__log_reader_next(run->reader, WEIR__REPLAY_BATCH, &records)) > 0; i++) {
		if (run->now.replay == NULL) {
			if (!begin(run, records[0]))
				return false;
			first = records[0]->arrival;
		}
		weir__replay_decide(run->now.replay, records, n, answers);
		weir__replay_stats_add(run->now.stats, records, answers, n);
		if (run->now.plots)
			weir__replay_plots_add(run->now.plots, records, answers, n);
		if (run->changes) {
			weir__replay_decide(run->old.replay, records, n, old_answers);
			weir__replay_stats_add(run->old.stats, records, old_answers, n);
			if (run->old.plots)
				weir__replay_plots_add(run->old.plots, records, old_answers, n);
			weir__replay_changes_add(run->changes, records, old_answers, answers, n);
		}
		see_attributes(run, records, n);
		if (run->csv)
			weir__replay_csv_rows(run, records, n, answers, run->changes ? old_answers : NULL);
		for (size_t j = 0; j < n; j++)
			run->beyond += records[j]->arrival - first > YEARS_9;
		if (shows && i % SHOW_EACH == 0)
			show_progress(run, began);
	}
	hide_progress(run);
	run->took_ns = weir__monotonic_ns() - began;
	return true;
}

static void end_side(struct replay_side *side)
{
	if (side->replay == NULL)
		return;
	weir__replay_stats_end(side->stats);
	weir__replay_table_stats(side->replay, side->stats->last, &side->table);
}

static void end(struct replay_run *run)
{
	end_side(&run->now);
	end_side(&run->old);
	weir__log_reader_totals(run->reader, &run->totals);
	if (run->changes) {
		weir__replay_changes_end(run->changes);
		run->client_changes = weir__replay_changes_of_clients(run->old.stats, run->now.stats);
	}
}

/* --- conditions -------------------------------------------------------------------------------------------------- */

static const struct weir__replay_limit *limit_named(const struct replay_side *side, struct weir__slice name)
{
	for (uint32_t i = 0; i < side->stats->n_limits; i++)
		if (weir__slice_is(name, weir__replay_plan(side, i)))
			return &side->stats->limits[i];
	return NULL;
}

static uint64_t metric_of_limit(const struct weir__replay_limit *limit, enum weir__fail_metric metric,
				uint64_t *ret_whole)
{
	*ret_whole = limit->requests;
	switch (metric) {
	case WEIR__FAIL_DENIED:
		return limit->denied;
	case WEIR__FAIL_DELAYED:
		return limit->delayed;
	case WEIR__FAIL_DENIED_KEYS:
		return limit->keys_denied;
	case WEIR__FAIL_LONGEST_WAIT:
		return limit->longest_wait;
	case WEIR__FAIL_LONGEST_DELAY:
		return limit->longest_delay;
	default:
		return limit->requests;
	}
}

static uint64_t longest(const struct weir__replay_stats *stats, bool is_delay)
{
	weir_ns most = 0;

	for (uint32_t i = 0; i < stats->n_limits; i++) {
		const struct weir__replay_limit *const limit = &stats->limits[i];
		const weir_ns wait = is_delay ? limit->longest_delay : limit->longest_wait;

		if (wait > most && !(limit->is_shadow && limit->decided == 0 && !is_delay))
			most = wait;
	}
	return most;
}

static uint64_t keys_denied(const struct weir__replay_stats *stats)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < stats->n_limits; i++)
		n += stats->limits[i].keys_denied;
	return n;
}

uint64_t weir__replay_metric(const struct replay_run *run, const struct weir__fail_comparison *comparison,
			     uint64_t *ret_whole)
{
	const struct weir__replay_stats *const stats = run->now.stats;

	if (comparison->limit.at)
		return metric_of_limit(limit_named(&run->now, comparison->limit), comparison->metric, ret_whole);
	*ret_whole = stats->requests;
	switch (comparison->metric) {
	case WEIR__FAIL_REQUESTS:
		return stats->requests;
	case WEIR__FAIL_DENIED:
		return stats->denied;
	case WEIR__FAIL_DELAYED:
		return stats->delayed;
	case WEIR__FAIL_UNDECIDED:
		return stats->undecided;
	case WEIR__FAIL_UNMATCHED:
		return stats->unmatched;
	case WEIR__FAIL_DENIED_KEYS:
		return keys_denied(stats);
	case WEIR__FAIL_LONGEST_WAIT:
		return longest(stats, false);
	case WEIR__FAIL_LONGEST_DELAY:
		return longest(stats, true);
	case WEIR__FAIL_NEWLY_DENIED:
		return run->changes->newly_denied;
	case WEIR__FAIL_NEWLY_ALLOWED:
		return run->changes->newly_allowed;
	case WEIR__FAIL_EVICTED:
		return run->now.table.evicted;
	case WEIR__FAIL_BAD_LINES:
	case WEIR__FAIL_LATE_LINES:
		*ret_whole = run->totals.records + run->totals.bad;
		return comparison->metric == WEIR__FAIL_BAD_LINES ? run->totals.bad : run->totals.late;
	default:
		break;
	}
	*ret_whole = stats->clients.n;
	switch (comparison->metric) {
	case WEIR__FAIL_DENIED_CLIENTS:
		return stats->clients.with_denied;
	case WEIR__FAIL_NEWLY_DENIED_CLIENTS:
		return run->client_changes.newly_denied;
	case WEIR__FAIL_NEWLY_ALLOWED_CLIENTS:
		return run->client_changes.newly_allowed;
	default:
		return stats->clients.n;
	}
}

static void print_number(enum weir__fail_metric metric, uint64_t number)
{
	char text[WEIR__WORDS_SIZE];

	if (weir__fail_metric_is_duration(metric)) {
		weir__words_span(number, text);
		fputs(text, stderr);
	} else {
		fprintf(stderr, "%" PRIu64, number);
	}
}

/* Prints the conditions that are true. */
static int check_conditions(const struct replay_run *run)
{
	int code = DONE;

	for (size_t i = 0; i < run->options.fail_if.n; i++) {
		const struct weir__fail_comparison *const comparison = &run->options.fail_if.of[i];
		uint64_t whole;
		const uint64_t value = weir__replay_metric(run, comparison, &whole);

		if (!weir__fail_holds(comparison, value, whole))
			continue;
		code = CONDITION_HOLDS;
		fputs("weir replay: --fail-if: ", stderr);
		weir__words_quoted(stderr, comparison->text.at, comparison->text.n);
		fputs(" is true: ", stderr);
		print_number(comparison->metric, value);
		if (comparison->is_share)
			fprintf(stderr, " of %" PRIu64, whole);
		fputc('\n', stderr);
	}
	return code;
}

/* --- the command ------------------------------------------------------------------------------------------------- */

static bool close_csv(struct replay_run *run)
{
	bool is_good;

	if (run->csv == NULL || run->csv == stdout)
		return true;
	is_good = !ferror(run->csv);
	errno = EIO;
	is_good = fclose(run->csv) == 0 && is_good;
	run->csv = NULL;
	if (!is_good)
		fprintf(stderr, "weir replay: --csv %s: %s\n", run->options.csv_path, strerror(errno));
	return is_good;
}

static bool write_html(const struct replay_run *run)
{
	const char *const path = run->options.html_path;
	FILE *out;
	bool is_good;

	if (path == NULL)
		return true;
	out = weir__output_open_private(path);
	is_good = out && weir__replay_html(run, out);
	if (out)
		is_good = fclose(out) == 0 && is_good;
	if (!is_good)
		fprintf(stderr, "weir replay: --html %s: %s\n", path, strerror(errno ? errno : EIO));
	return is_good;
}

/* Reports inputs that were read only in part. */
static bool report_errors(const struct replay_run *run)
{
	bool is_good = !run->totals.is_out_of_memory;

	if (!is_good)
		fputs("weir replay: no memory for the lines within --reorder; what was read before counts\n", stderr);
	for (size_t i = 0; i < weir__log_reader_inputs(run->reader); i++) {
		const struct weir__log_input_info *const info = weir__log_reader_input(run->reader, i);

		if (info->error == NULL)
			continue;
		fprintf(stderr, "weir replay: ");
		weir__words_safe(stderr, info->path);
		fprintf(stderr, ": %s; the %" PRIu64 " lines before that count\n", info->error, info->lines);
		is_good = false;
	}
	return is_good;
}

static int replay(struct replay_run *run)
{
	struct weir_message why = { 0 };
	bool is_good;
	int error, code;

	if (!read_policy(run->options.policy_path, &run->now) ||
	    (run->options.old_path && !read_policy(run->options.old_path, &run->old)))
		return FAILED;
	code = check_limits(run);
	if (code != DONE)
		return code;
	choose_names(run);
	run->options.log.wanted = run->names;
	run->options.log.n_wanted = run->n_names;
	error = weir__log_reader_new(&run->options.log, &run->reader, &why);
	if (error != WEIR_OK)
		return fail("", error, &why);
	if (!open_csv(run) || !replay_all(run))
		return FAILED;
	end(run);
	is_good = report_errors(run);
	is_good &= close_csv(run);
	if (run->now.replay == NULL) {
		fprintf(stderr, "weir replay: no requests in the log%s: %" PRIu64 " bad lines\n",
			run->options.log.n_paths > 1 ? "s" : "", run->totals.bad);
		weir__replay_report(run, stderr);
		return FAILED;
	}
	is_good &= write_html(run);
	if (run->options.is_json)
		weir__replay_json(run, stdout);
	else if (run->csv != stdout)
		weir__replay_report(run, stdout);
	return is_good ? check_conditions(run) : FAILED;
}

static void free_side(struct replay_side *side)
{
	weir__replay_stats_free(side->stats);
	weir__replay_plots_free(side->plots);
	weir__replay_free(side->replay);
	weir_policy_free(side->policy);
}

int weir__replay(int argc, char **argv)
{
	struct replay_run *run;
	int code;

	for (int i = 1; i < argc; i++)
		if (weir__command_is_help(argv[i])) {
			fputs(replay_help, stdout);
			return DONE;
		}
	run = calloc(1, sizeof(*run));
	if (run == NULL) {
		fputs("weir replay: no memory\n", stderr);
		return FAILED;
	}
	code = read_options(&run->options, argc, argv);
	if (code == DONE)
		code = replay(run);
	weir__log_reader_free(run->reader);
	weir__replay_changes_free(run->changes);
	free_side(&run->now);
	free_side(&run->old);
	(void)close_csv(run);
	free(run);
	return code;
}
