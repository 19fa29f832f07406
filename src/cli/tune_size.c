/* tune_size.c: weir tune without a log: the queue for two rates and a wait, with the reasons, tried on the limiter. */
#include <inttypes.h>
#include <string.h>

#include "cli/tune.h"
#include "cli/words.h"
#include "core/notation.h"

/* A run of this many requests takes about a second. */
#define TRIED_MOST UINT64_C(20000000)

void weir__tune_rate(FILE *out, struct weir__rate rate)
{
	const struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, rate.count, rate.period);
	char text[WEIR_LIMIT_TEXT_MAX];

	weir_limit_print(&limit, text);
	fputs(text, out);
}

void weir__tune_duration(FILE *out, weir_ns duration)
{
	for (size_t i = 0; i < WEIR__PERIOD_WORDS; i++) {
		if (duration % weir__period_words[i].period == 0 && duration > 0) {
			fprintf(out, "%" PRIu64 "%s", duration / weir__period_words[i].period,
				weir__period_words[i].word);
			return;
		}
	}
	fputs("0s", out);
}

static void print_span(weir_ns span)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_span(span, text);
	fputs(text, stdout);
}

struct report {
	const struct weir__sizing_wish *wish;
	struct weir__sizing sizing;
	struct weir_limit limit;
	char text[WEIR_LIMIT_TEXT_MAX];
	uint64_t tried; /* requests; 0: too many to try */
	struct weir__sizing_run run;
};

static const char *of_requests(uint64_t n)
{
	return n == 1 ? "request" : "requests";
}

/* --- the reasons ------------------------------------------------------------------------------------------------- */

static void print_queue(const struct report *report)
{
	const struct weir__sizing *const sizing = &report->sizing;

	printf("  queue     %" PRIu64 " places: in ", sizing->places);
	print_span(report->wish->wait);
	fputs(", ", stdout);
	weir__tune_rate(stdout, report->wish->outflow);
	printf(" lets %" PRIu64 " %s pass, and one more passes at once.\n            The last place waits ",
	       sizing->places - 1, of_requests(sizing->places - 1));
	print_span(sizing->last_waits);
	puts(". The next place would wait longer than you wish.");
}

static void print_overload(const struct report *report)
{
	const struct weir__sizing *const sizing = &report->sizing;

	fputs("  inflow    ", stdout);
	weir__tune_rate(stdout, report->wish->inflow);
	if (!sizing->overflows) {
		fputs(" is at most ", stdout);
		weir__tune_rate(stdout, report->wish->outflow);
		puts(": at an even pace no request waits, and one place is enough.\n"
		     "            The queue is for requests that arrive in bursts.");
		return;
	}
	printf(" is more than the outflow. An empty queue takes %" PRIu64 " %s, then it is full:\n"
	       "            the first denial is after ",
	       sizing->passes, of_requests(sizing->passes));
	print_span(sizing->denies_at);
	printf(". From then on, %" PRIu64 " of %" PRIu64 " requests %s denied.\n", sizing->denied, sizing->denied_of,
	       sizing->denied == 1 ? "is" : "are");
}

static void print_burst(const struct report *report)
{
	const struct weir__sizing *const sizing = &report->sizing;

	printf("  burst     %" PRIu64 " %s in ", sizing->arrive,
	       sizing->arrive == 1 ? "request arrives" : "requests arrive");
	print_span(report->wish->lasts);
	printf(". To deny none of them, the queue needs %" PRIu64 " %s,\n            and the last waits ",
	       sizing->places_needed, sizing->places_needed == 1 ? "place" : "places");
	print_span(sizing->would_wait);
	if (!sizing->is_too_long) {
		puts(": it fits.");
		return;
	}
	fputs(": longer than you wish. An outflow of ", stdout);
	weir__tune_rate(stdout, (struct weir__rate){ sizing->enough, report->wish->outflow.period });
	puts(" is enough.");
}

static void print_rest(const struct report *report)
{
	struct weir_limit bucket = report->limit;
	char text[WEIR_LIMIT_TEXT_MAX];

	fputs("  recovery  a full queue is empty ", stdout);
	print_span(report->sizing.drains);
	puts(" after the last request.");
	bucket.algorithm = WEIR_TOKEN_BUCKET;
	bucket.shape = false;
	weir_limit_print(&bucket, text);
	printf("  instead   %s denies the same requests and delays none:\n"
	       "            use it if your backend can take %" PRIu64 " at once.\n",
	       text, report->sizing.places);
}

static void print_tried(const struct report *report)
{
	const struct weir__sizing_run *const run = &report->run;

	if (report->tried == 0) {
		printf("\nNot tried: this needs more than %" PRIu64 " requests.\n", TRIED_MOST);
		return;
	}
	printf("\nTried on the limiter, %" PRIu64 " %s at ", report->tried, of_requests(report->tried));
	weir__tune_rate(stdout, report->wish->inflow);
	printf(": allowed %" PRIu64 ", denied %" PRIu64, run->allowed, run->denied);
	if (run->denied > 0) {
		fputs(", the first after ", stdout);
		print_span(run->denied_at);
	}
	fputs(", longest wait ", stdout);
	print_span(run->longest_delay);
	puts(".");
}

static void print_policy(const struct report *report)
{
	printf("\nlimits:\n  - name: smooth\n    limit: %s\n    wait: ", report->text);
	weir__tune_duration(stdout, report->wish->wait);
	puts("");
}

static void print_text(const struct report *report)
{
	printf("%s\n\n", report->text);
	print_queue(report);
	print_overload(report);
	if (report->wish->lasts > 0)
		print_burst(report);
	print_rest(report);
	print_tried(report);
	print_policy(report);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static void print_json(const struct report *report)
{
	const struct weir__sizing *const sizing = &report->sizing;
	struct weir__json json = { .out = stdout };

	weir__json_open(&json, NULL, '{');
	weir__json_text(&json, "limit", report->text);
	weir__json_number(&json, "wait_ns", report->wish->wait);
	weir__json_number(&json, "places", sizing->places);
	weir__json_number(&json, "last_waits_ns", sizing->last_waits);
	weir__json_number(&json, "drains_ns", sizing->drains);
	weir__json_word(&json, "overflows", sizing->overflows ? "true" : "false");
	if (sizing->overflows) {
		weir__json_number(&json, "passes", sizing->passes);
		weir__json_number(&json, "denies_at_ns", sizing->denies_at);
		weir__json_number(&json, "denied", sizing->denied);
		weir__json_number(&json, "denied_of", sizing->denied_of);
	}
	if (report->wish->lasts > 0) {
		weir__json_open(&json, "burst", '{');
		weir__json_number(&json, "lasts_ns", report->wish->lasts);
		weir__json_number(&json, "requests", sizing->arrive);
		weir__json_number(&json, "places_needed", sizing->places_needed);
		weir__json_number(&json, "would_wait_ns", sizing->would_wait);
		weir__json_word(&json, "fits", sizing->is_too_long ? "false" : "true");
		if (sizing->is_too_long) {
			weir__json_number(&json, "enough_count", sizing->enough);
			weir__json_number(&json, "enough_period_ns", report->wish->outflow.period);
		}
		weir__json_close(&json, '}');
	}
	if (report->tried > 0) {
		weir__json_open(&json, "tried", '{');
		weir__json_number(&json, "requests", report->tried);
		weir__json_number(&json, "allowed", report->run.allowed);
		weir__json_number(&json, "denied", report->run.denied);
		if (report->run.denied > 0)
			weir__json_number(&json, "denied_at_ns", report->run.denied_at);
		weir__json_number(&json, "longest_wait_ns", report->run.longest_delay);
		weir__json_close(&json, '}');
	}
	weir__json_close(&json, '}');
}

/* --- the command ------------------------------------------------------------------------------------------------- */

/* Enough requests to see the first denial, and the whole burst. */
static uint64_t count_tried(const struct weir__sizing *sizing)
{
	uint64_t n = sizing->overflows ? sizing->passes + 1 : sizing->places;

	if (n < sizing->arrive)
		n = sizing->arrive;
	return n <= TRIED_MOST ? n : 0;
}

int weir__tune_size(const struct weir__sizing_wish *wish, bool is_json)
{
	struct report report = { .wish = wish };
	const char *const wrong = weir__sizing_calculate(wish, &report.sizing);
	struct weir_message why;
	int error;

	if (wrong) {
		fprintf(stderr, "weir tune: %s\n", wrong);
		return WEIR__TUNE_WRONG_USAGE;
	}
	report.limit = weir_limit_of(WEIR_LEAKY_BUCKET, wish->outflow.count, wish->outflow.period);
	report.limit.shape = true;
	report.limit.burst = report.sizing.places;
	report.tried = count_tried(&report.sizing);
	error = weir__sizing_try(&report.limit, wish->inflow, report.tried, &report.run, &why);
	if (error != WEIR_OK) {
		fprintf(stderr, "weir tune: --outflow and --wait: %s\n", why.text);
		return WEIR__TUNE_WRONG_USAGE;
	}
	weir_limit_print(&report.limit, report.text);
	if (is_json)
		print_json(&report);
	else
		print_text(&report);
	return report.sizing.is_too_long ? WEIR__TUNE_MISSED : WEIR__TUNE_DONE;
}
