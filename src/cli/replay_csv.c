/* replay_csv.c: decisions as CSV, RFC 4180. Bytes of the log that are not visible characters become \xNN, and a value
 * that a spreadsheet would take for a formula begins with an apostrophe. */
#include <inttypes.h>

#include "cli/replay.h"
#include "cli/words.h"

static void print_value(FILE *out, struct weir__slice value)
{
	weir__words_in_csv(out, value.at, value.n);
}

static void print_field(FILE *out, const struct weir__log_record *record, size_t value)
{
	fputc(',', out);
	if (value != WEIR__REPLAY_NO_NAME && record->values[value].at)
		print_value(out, record->values[value]);
}

/* decision, limit, retry_after_ns, delay_ns */
static void print_answer(FILE *out, const struct replay_side *side, const struct weir__replay_answer *answer)
{
	const char *const what = !answer->is_decided ? "error" : answer->verdict.allowed ? "allowed" : "denied";

	fprintf(out, ",%s,", what);
	if (answer->decider != WEIR__REPLAY_NO_CLAIM)
		print_value(out, weir__slice_of(weir__replay_plan(side, answer->plans[answer->decider])));
	else if (answer->is_decided && !answer->verdict.allowed)
		fputs("(unmatched)", out);
	fputc(',', out);
	if (answer->is_decided && !answer->verdict.allowed) {
		if (answer->verdict.never)
			fputs("never", out);
		else
			fprintf(out, "%" PRIu64, answer->verdict.retry_after);
	}
	fprintf(out, ",%" PRIu64, answer->is_decided ? answer->verdict.delay : 0);
}

void weir__replay_csv_head(const struct replay_run *run)
{
	fputs("arrival,arrival_ns,file,line,client,method,path,decision,limit,retry_after_ns,delay_ns", run->csv);
	if (run->options.old_path)
		fputs(",old_decision,old_limit,old_retry_after_ns,old_delay_ns", run->csv);
	fputs("\r\n", run->csv);
}

static bool is_wanted(const struct replay_run *run, const struct weir__replay_answer *answer,
		      const struct weir__replay_answer *old_answer)
{
	const bool is_denied = answer->is_decided && !answer->verdict.allowed;

	if (run->options.has_all)
		return true;
	if (old_answer == NULL)
		return is_denied;
	return is_denied != (old_answer->is_decided && !old_answer->verdict.allowed);
}

void weir__replay_csv_rows(const struct replay_run *run, const struct weir__log_record *const *records, size_t n,
			   const struct weir__replay_answer *answers, const struct weir__replay_answer *old_answers)
{
	for (size_t i = 0; i < n; i++) {
		const struct weir__log_record *const record = records[i];
		const struct weir__replay_answer *const old_answer = old_answers ? &old_answers[i] : NULL;
		char text[WEIR__WORDS_SIZE];

		if (!is_wanted(run, &answers[i], old_answer))
			continue;
		weir__words_instant(record->arrival, text);
		fprintf(run->csv, "%s,%" PRIu64 ",", text, record->arrival);
		print_value(run->csv, weir__slice_of(weir__log_reader_input(run->reader, record->input)->path));
		fprintf(run->csv, ",%" PRIu64, record->line);
		print_field(run->csv, record, run->client);
		print_field(run->csv, record, run->method);
		print_field(run->csv, record, run->path);
		print_answer(run->csv, &run->now, &answers[i]);
		if (old_answer)
			print_answer(run->csv, &run->old, old_answer);
		fputs("\r\n", run->csv);
	}
}
