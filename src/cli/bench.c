/* bench.c: measures a server that is already running, from the machine that this command runs on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/bench_load.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/link.h"
#include "cli/password.h"
#include "cli/words.h"
#include "os/net.h"

enum { DONE = 0, HAD_ERRORS = 1, CALLED_WRONGLY = 2, FAILED = 3, GO_ON = -1 };

static const char help[] = "usage: weir bench resp [OPTION...]\n"
			   "\n"
			   "Sends requests to a server (weir serve) as fast as it replies, from one thread, and\n"
			   "reports requests per second and latency. It starts no server.\n"
			   "\n"
			   "  --at WHERE       HOST:PORT, tls://HOST:PORT, or the path of a socket (with a\n"
			   "                   slash). Default: WEIR_AT from the environment, or else\n"
			   "                   " WEIR__LINK_HERE "\n"
			   "  --connections N  1 to 10000. Default: 50\n"
			   "  --pipeline N     requests that a connection sends at once, 1 to 1024. Default: 1\n"
			   "  --seconds N      1 to 3600. Default: 5\n"
			   "  --keys N         how many keys to choose from at random, such as 500, 10k or 1m.\n"
			   "                   Default: 1m\n"
			   "  --command NAME   cl.throttle, weir.take or ping. Default: cl.throttle\n"
			   "  --user USER      the user to authenticate as, if the server has users. Default:\n"
			   "                   default\n"
			   "  --password-file FILE\n"
			   "                   a file with the password as its first line. Without it the password\n"
			   "                   is WEIR_PASSWORD from the environment, if set\n"
			   "  --cacert FILE    with tls://, CAs that may sign the server's certificate, in PEM.\n"
			   "                   Default: WEIR_CACERT, or else the CAs of this system\n"
			   "  --cert FILE, --key FILE\n"
			   "                   with tls://, the client's certificate and its key. Default:\n"
			   "                   WEIR_CERT and WEIR_KEY from the environment\n"
			   "  --yes-remote     allow a server on another machine; use it only on your own\n"
			   "  --json           output for programs: durations in ns\n"
			   "  --help           show this\n"
			   "\n"
			   "The limit never denies, and no key is full again during the run, so each request writes.\n"
			   "Latency is from sending a pipeline to reading the reply; percentiles are at most 1 % too\n"
			   "high. If the load program saturates its processor, that is what you measure, not the\n"
			   "server: look at both in top.\n"
			   "\n"
			   "Exit status: 0 done; 1 some replies were errors; 2 wrong usage; 3 the server cannot\n"
			   "be reached, or the connection was lost.\n";

static const struct weir__command measures[] = { { "resp", NULL, "RESP" } };

/* Both limits allow one unit per 3 minutes with a burst of 3000000. */
static const char *const cl_throttle[] = { "CL.THROTTLE", WEIR__BENCH_KEY, "2999999", "1", "180", NULL };
static const char *const weir_take[] = { "WEIR.TAKE", WEIR__BENCH_KEY, "1/3min burst 3000000", NULL };
static const char *const ping[] = { "PING", NULL };
static const char *const *const requests[] = { cl_throttle, weir_take, ping };

struct options {
	struct weir__bench_plan plan;
	const char *password_file;
	bool is_json, may_be_remote;
};

/* --- options ---------------------------------------------------------------------------------------------------- */

static int complain(const char *word, const char *right)
{
	fputs("weir bench: ", stderr);
	weir__words_quoted(stderr, word, strlen(word));
	fprintf(stderr, ": %s\n", right);
	return CALLED_WRONGLY;
}

/* Digits, optionally followed by k or m. */
static bool read_number(const char *text, uint64_t most, uint64_t *ret_number)
{
	const size_t digits = strspn(text, "0123456789");
	const char unit = text[digits];
	const uint64_t times = unit == 'k' ? 1000 : unit == 'm' ? 1000000 : 1;

	if (digits == 0 || digits > 13 || strlen(text + digits) > (times > 1))
		return false;
	*ret_number = strtoull(text, NULL, 10) * times;
	return *ret_number >= 1 && *ret_number <= most;
}

static int read_command(struct weir__bench_plan *plan, const char *name)
{
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		if (strcasecmp(name, requests[i][0]) == 0) {
			plan->words = requests[i];
			return GO_ON;
		}
	return complain(name, "--command takes cl.throttle, weir.take or ping");
}

static int read_value(struct options *options, const char *option, const char *value)
{
	static const char *const others[] = { "--command", "--keys", "--yes-remote", "--json", "--help" };
	struct weir__nearest nearest = weir__nearest_of(option, strlen(option));
	struct weir__bench_plan *const plan = &options->plan;
	uint64_t keys, number = 0;
	const struct {
		const char *name, *right;
		uint64_t most;
		uint32_t *place;
	} numbers[] = {
		{ "--connections", "--connections takes 1 to 10000", WEIR__BENCH_CONNECTIONS_MAX, &plan->connections },
		{ "--pipeline", "--pipeline takes 1 to 1024", WEIR__BENCH_PIPELINE_MAX, &plan->pipeline },
		{ "--seconds", "--seconds takes 1 to 3600", 3600, &plan->seconds },
	};
	const struct {
		const char *name, **place;
	} texts[] = { { "--at", &plan->at },
		      { "--user", &plan->user },
		      { "--password-file", &options->password_file },
		      { "--cacert", &plan->files.ca },
		      { "--cert", &plan->files.certificate },
		      { "--key", &plan->files.key } };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(option, numbers[i].name) != 0)
			continue;
		if (!read_number(value, numbers[i].most, &number))
			return complain(value, numbers[i].right);
		*numbers[i].place = (uint32_t)number;
		return GO_ON;
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(option, texts[i].name) == 0) {
			*texts[i].place = value;
			return GO_ON;
		}
	if (strcmp(option, "--command") == 0)
		return read_command(plan, value);
	if (strcmp(option, "--keys") != 0) {
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			weir__nearest_offer(&nearest, numbers[i].name);
		for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
			weir__nearest_offer(&nearest, texts[i].name);
		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			weir__nearest_offer(&nearest, others[i]);
		weir__command_refuse_option(&nearest, "weir bench", "weir bench --help lists them");
		return CALLED_WRONGLY;
	}
	if (!read_number(value, UINT64_C(1000000000000), &keys))
		return complain(value, "--keys takes 1 to 1000000000000, as in 500, 10k or 1m");
	plan->keys = keys;
	return GO_ON;
}

static int read_options(int argc, char **argv, struct options *options)
{
	bool is_tls;

	for (int i = 1; i < argc; i++) {
		int code = GO_ON;

		if (weir__command_is_help(argv[i])) {
			fputs(help, stdout);
			return DONE;
		}
		if (i == 1 && argv[i][0] != '-') {
			if (strcmp(argv[i], measures[0].name) != 0) {
				weir__command_refuse(measures, 1, "weir bench", argv[i], "weir bench --help");
				return CALLED_WRONGLY;
			}
		} else if (strcmp(argv[i], "--json") == 0) {
			options->is_json = true;
		} else if (strcmp(argv[i], "--yes-remote") == 0) {
			options->may_be_remote = true;
		} else if (i + 1 == argc) {
			code = complain(argv[i],
					"unknown option, or one that needs a value; weir bench --help lists them");
		} else {
			code = read_value(options, argv[i], argv[i + 1]);
			i++;
		}
		if (code != GO_ON)
			return code;
	}
	if (argc < 2 || strcmp(argv[1], "resp") != 0) {
		fputs("weir bench: missing argument; use weir bench resp, or see weir bench --help\n", stderr);
		return CALLED_WRONGLY;
	}
	if (!options->may_be_remote && !weir__net_is_local(weir__stream_where(options->plan.at, &is_tls)))
		return complain(options->plan.at,
				"other machines can reach this address; if you may load that server, use "
				"--yes-remote");
	return GO_ON;
}

/* --- the report ------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned per_mille;
} shares[] = { { "p50", 500 }, { "p99", 990 }, { "p99.9", 999 }, { "max", 1000 } };

#define SHARES (sizeof(shares) / sizeof(shares[0]))

static uint64_t per_second(const struct weir__bench_result *result)
{
	/* In us, so that 10^10 replies do not overflow. */
	return result->answers * 1000000 / (result->elapsed_ns / 1000);
}

static void print(const struct weir__bench_plan *plan, const struct weir__bench_result *result)
{
	char text[WEIR__WORDS_SIZE];

	printf("%s, %" PRIu32 " connections, pipeline %" PRIu32 ", %" PRIu64 " keys, %" PRIu32 " s\n", plan->words[0],
	       plan->connections, plan->pipeline, plan->keys, plan->seconds);
	printf("requests a second  %" PRIu64 "\n", per_second(result));
	for (size_t i = 0; i < SHARES; i++) {
		weir__words_span(weir__histogram_at(&result->latency_ns, shares[i].per_mille), text);
		printf("latency, %-9s %s\n", shares[i].name, text);
	}
	printf("errors             %" PRIu64 " of %" PRIu64, result->errors, result->answers);
	if (result->errors > 0) {
		fputs(", the first: ", stdout);
		weir__words_safe(stdout, result->first_error);
	}
	putchar('\n');
}

static void print_json(const struct weir__bench_plan *plan, const struct weir__bench_result *result)
{
	struct weir__json json = { .out = stdout };

	weir__json_open(&json, NULL, '{');
	weir__json_text(&json, "command", plan->words[0]);
	weir__json_text(&json, "at", plan->at);
	weir__json_number(&json, "connections", plan->connections);
	weir__json_number(&json, "pipeline", plan->pipeline);
	weir__json_number(&json, "keys", plan->keys);
	weir__json_number(&json, "elapsed_ns", result->elapsed_ns);
	weir__json_number(&json, "requests", result->answers);
	weir__json_number(&json, "requests_per_second", per_second(result));
	weir__json_number(&json, "errors", result->errors);
	if (result->errors > 0)
		weir__json_text(&json, "first_error", result->first_error);
	weir__json_open(&json, "latency_ns", '{');
	for (size_t i = 0; i < SHARES; i++)
		weir__json_number(&json, shares[i].name, weir__histogram_at(&result->latency_ns, shares[i].per_mille));
	weir__json_close(&json, '}');
	weir__json_close(&json, '}');
}

int weir__bench(int argc, char **argv)
{
	struct options options = { .plan = { .at = weir__link_default(),
					     .words = cl_throttle,
					     .connections = 50,
					     .pipeline = 1,
					     .seconds = 5,
					     .keys = 1000000 } };
	static struct weir__bench_result result; /* too large for the stack */
	char memory[WEIR__PASSWORD_SIZE];
	const char *word, *wrong;
	const int code = read_options(argc, argv, &options);

	if (code != GO_ON)
		return code;
	wrong = weir__password_read(options.plan.user, options.password_file, memory, &options.plan.password, &word);
	if (wrong)
		return complain(word, wrong);
	options.plan.files = weir__stream_files(&options.plan.files);
	if (!weir__bench_load(&options.plan, &result)) {
		fprintf(stderr, "weir bench: ");
		weir__words_safe(stderr, result.why);
		putc('\n', stderr);
		return FAILED;
	}
	if (options.is_json)
		print_json(&options.plan, &result);
	else
		print(&options.plan, &result);
	return result.errors > 0 ? HAD_ERRORS : DONE;
}
