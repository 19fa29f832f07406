/* replay_report.c: the report of weir replay for people. */
#include <inttypes.h>
#include <string.h>

#include "cli/replay.h"
#include "cli/words.h"
#include "policy/policy.h"

/* 3.12 %, rounded to the nearest hundredth. A number above 0 is never shown as 0.00. */
static void print_share(FILE *out, uint64_t part, uint64_t whole)
{
	const uint64_t hundredths = whole == 0 ? 0 : (uint64_t)(((unsigned __int128)part * 10000 + whole / 2) / whole);

	if (part > 0 && hundredths == 0)
		fputs("<0.01 %", out);
	else
		fprintf(out, "%" PRIu64 ".%02" PRIu64 " %%", hundredths / 100, hundredths % 100);
}

static void print_instant(FILE *out, weir_ns at)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_instant(at / UINT64_C(1000000000) * UINT64_C(1000000000), text);
	fprintf(out, "%.19sZ", text);
}

static const char *span(weir_ns ns, char text[WEIR__WORDS_SIZE])
{
	if (ns == 0)
		return "-";
	weir__words_span(ns, text);
	return text;
}

static void print_text(FILE *out, const char *text, size_t length)
{
	weir__words_safe_bytes(out, text, length < WEIR__TOP_TEXT ? length : WEIR__TOP_TEXT);
	if (length > WEIR__TOP_TEXT)
		fputs("...", out);
}

static void print_name(FILE *out, const struct weir__log_input_info *info)
{
	weir__words_safe(out, strcmp(info->path, "-") == 0 ? "standard input" : info->path);
}

/* Where a request is: the line, and of several logs which one. */
static void print_line(FILE *out, const struct replay_run *run, uint32_t input, uint64_t line)
{
	if (weir__log_reader_inputs(run->reader) > 1) {
		print_name(out, weir__log_reader_input(run->reader, input));
		fputc(' ', out);
	}
	fprintf(out, "line %" PRIu64, line);
}

/* --- inputs ------------------------------------------------------------------------------------------------------ */

static void print_input(FILE *out, const struct weir__log_input_info *info)
{
	print_name(out, info);
	if (info->format == NULL) {
		fputs(": empty\n", out);
		return;
	}
	fputs(": ", out);
	weir__words_safe(out, info->format);
	fprintf(out, ", %" PRIu64 " lines", info->lines);
	if (info->bad > 0)
		fprintf(out, ", %" PRIu64 " of them bad", info->bad);
	fputc('\n', out);
	for (uint32_t i = 0; i < info->n_examples; i++) {
		fprintf(out, "  line %" PRIu64 ": %s: ", info->examples[i].line, info->examples[i].why);
		weir__words_safe_bytes(out, info->examples[i].text, info->examples[i].length);
		fputc('\n', out);
	}
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

static int width_of_names(const struct replay_side *side)
{
	size_t most = sizeof("limit") - 1;

	for (uint32_t i = 0; i < side->stats->n_limits; i++) {
		const size_t n = strlen(weir__replay_plan(side, i));

		most = n > most && side->stats->limits[i].requests > 0 ? n : most;
	}
	return (int)most;
}

static const char *use_of(unsigned tenths, char text[16])
{
	if (tenths >= WEIR__REPLAY_TENTHS - 1)
		return "all";
	(void)snprintf(text, 16, "<%u0 %%", tenths + 1);
	return text;
}

static void print_limit(FILE *out, const struct replay_side *side, uint32_t plan, int width)
{
	const struct weir__replay_limit *const limit = &side->stats->limits[plan];
	char wait[WEIR__WORDS_SIZE], half[16], most[16];

	fprintf(out, "  %-*s %10" PRIu64 " %10" PRIu64 " %8" PRIu64 "  %-12s %-6s %s", width,
		weir__replay_plan(side, plan), limit->requests, limit->denied, limit->keys_denied,
		span(limit->denied ? limit->longest_wait : limit->longest_delay, wait),
		use_of(weir__replay_used_at(limit, 500), half), use_of(weir__replay_used_at(limit, 990), most));
	if (limit->is_shadow)
		fputs("  in shadow", out);
	if (limit->delayed > 0)
		fprintf(out, "  %" PRIu64 " delayed", limit->delayed);
	if (limit->never > 0)
		fprintf(out, "  %" PRIu64 " cost more than its capacity", limit->never);
	fputc('\n', out);
	if (limit->denied > 0) {
		fprintf(out, "  %-*s first denied ", width, "");
		print_instant(out, limit->first);
		fputs(", last ", out);
		print_instant(out, limit->last);
		fputc('\n', out);
	}
	if (limit->requests > 0 && weir__policy_limit_of_plan(side->stats->policy, plan)->n_parts == 0) {
		const uint64_t share = weir__replay_share_of_capacity(side->stats, plan);

		fprintf(out, "  %-*s %" PRIu64 ".%02" PRIu64 " %% of its capacity used\n", width, "", share / 100,
			share % 100);
	}
}

static void print_limits(FILE *out, const struct replay_side *side)
{
	const int width = width_of_names(side);
	uint32_t without = 0;

	fprintf(out, "\n  %-*s %10s %10s %8s  %-12s %-6s %s\n", width, "limit", "requests", "denied", "keys",
		"longest wait", "p50", "p99");
	for (uint32_t i = 0; i < side->stats->n_limits; i++)
		if (side->stats->limits[i].requests > 0)
			print_limit(out, side, i, width);
		else
			without++;
	if (without > 0)
		fprintf(out, "  %u limit%s or override%s applied to no request\n", without, without > 1 ? "s" : "",
			without > 1 ? "s" : "");
	fputs("  denied: requests that this limit alone would have denied. p50, p99: how much of the limit was in use\n"
	      "  after a request\n",
	      out);
}

/* --- lists ------------------------------------------------------------------------------------------------------- */

static void print_clients(FILE *out, const char *title, const struct weir__top *top, bool has_all)
{
	if (top->n == 0)
		return;
	fprintf(out, "\n%s\n", title);
	for (size_t i = 0; i < top->n; i++) {
		const struct weir__top_row *const row = &top->rows[i];

		fprintf(out, "  %10" PRIu64, row->number);
		if (has_all)
			fprintf(out, " of %-10" PRIu64, row->all);
		fputs("  last at ", out);
		print_instant(out, row->last);
		fputs("  ", out);
		print_text(out, row->text, row->length);
		fputc('\n', out);
	}
}

static void print_keys(FILE *out, const struct replay_side *side)
{
	const struct weir__top *const top = &side->stats->top_keys;

	if (top->n == 0)
		return;
	fputs("\nkeys with the most denials\n", out);
	for (size_t i = 0; i < top->n; i++) {
		const struct weir__top_row *const row = &top->rows[i];

		fprintf(out, "  %10" PRIu64 "  %s  ", row->number, weir__replay_plan(side, row->plan));
		print_text(out, row->length ? row->text : "(all requests)",
			   row->length ? row->length : sizeof("(all requests)") - 1);
		fputc('\n', out);
	}
}

static void print_waits(FILE *out, const struct replay_run *run, const struct replay_side *side)
{
	const struct weir__replay_stats *const stats = side->stats;

	if (stats->n_waits == 0)
		return;
	fputs("\nlongest waits, one for each client and limit\n", out);
	for (size_t i = 0; i < stats->n_waits; i++) {
		const struct weir__replay_wait *const wait = &stats->waits[i];
		char text[WEIR__WORDS_SIZE];

		fprintf(out, "  %12s  %s by %s at ", span(wait->wait, text), wait->is_delay ? "delayed" : "denied",
			weir__replay_plan(side, wait->plan));
		print_instant(out, wait->arrival);
		fputs(", ", out);
		print_line(out, run, wait->input, wait->line);
		fputs("  ", out);
		print_text(out, wait->client, wait->length);
		fputc('\n', out);
	}
}

/* When most was denied: the steps of the course with the most denials. */
static void print_course(FILE *out, const struct weir__replay_stats *stats)
{
	enum { ROWS = 5 };
	const struct weir__replay_course *const course = &stats->course;
	uint64_t below = UINT64_MAX;
	size_t last = WEIR__REPLAY_TIMES;
	char text[WEIR__WORDS_SIZE];

	if (stats->denied == 0)
		return;
	weir__words_span(course->width, text);
	fprintf(out, "\nwhen most was denied, in steps of %s\n", text);
	for (int row = 0; row < ROWS; row++) {
		size_t best = WEIR__REPLAY_TIMES;

		for (size_t i = 0; i < WEIR__REPLAY_TIMES; i++) {
			const uint64_t denied = course->steps[i].denied;

			if (denied == 0 || denied > below || (denied == below && i <= last))
				continue;
			if (best == WEIR__REPLAY_TIMES || denied > course->steps[best].denied)
				best = i;
		}
		if (best == WEIR__REPLAY_TIMES)
			break;
		below = course->steps[best].denied;
		last = best;
		fputs("  ", out);
		print_instant(out, course->begins + best * course->width);
		fprintf(out, "  %" PRIu64 " of %" PRIu64 " requests\n", below, course->steps[best].all);
	}
}

/* --- what to know about it --------------------------------------------------------------------------------------- */

static void print_table(FILE *out, const char *whose, const struct replay_side *side)
{
	if (side->table.evicted > 0)
		fprintf(out,
			"- Memory was short%s: %" PRIu64
			" keys were evicted and started over. Use --keys with a higher "
			"number.\n",
			whose, side->table.evicted);
	if (side->table.folded > 0)
		fprintf(out,
			"- Memory for sliding logs and segments was short%s: %" PRIu64
			" keys were denied too much. Use --keys with\n  a higher number.\n",
			whose, side->table.folded);
	if (side->stats->clients.uncounted > 0)
		fprintf(out, "- %" PRIu64 " requests%s came from clients beyond the %" PRIu64 " that are counted.\n",
			side->stats->clients.uncounted, whose, side->stats->clients.n);
}

/* A limit whose key no request has denies nothing, so without this note the report would look too good. */
static void print_unseen(FILE *out, const struct replay_run *run)
{
	for (size_t i = 0; i < run->n_of_policies; i++) {
		const struct weir__slice name = run->names[i];

		if (!(run->unseen & UINT32_C(1) << i))
			continue;
		fputs("- The policy uses the attribute ", out);
		weir__words_quoted(out, name.at, name.n);
		fputs(", and no request has it. If the log has it under another name,\n  use --map ", out);
		weir__words_safe_bytes(out, name.at, name.n);
		fputs("=FIELD.\n", out);
	}
}

void weir__replay_notes(FILE *out, const struct replay_run *run)
{
	const struct weir__replay_stats *const stats = run->now.stats;
	char text[WEIR__WORDS_SIZE];
	size_t tables = 0;
	bool has_durations = true, has_rests = false;
	uint64_t sample = 0, missing = 0;

	print_unseen(out, run);
	fputs("- A log cannot tell which requests a denial would cause or prevent: denied clients may retry, or leave.\n",
	      out);
	if (stats->already_denied > 0)
		fprintf(out,
			"- %" PRIu64
			" requests had status 429: your server denied them already. They are decided like all "
			"others.\n",
			stats->already_denied);
	if (run->totals.spread > 0)
		fprintf(out,
			"- The log has only the second of %" PRIu64
			" requests. The i-th of n in a second, from 0, was decided at\n"
			"  i/n of it, so short bursts look smoother than they were.\n",
			run->totals.spread);
	for (size_t i = 0; i < weir__log_reader_inputs(run->reader); i++) {
		const struct weir__log_input_info *const info = weir__log_reader_input(run->reader, i);

		has_durations &= info->format == NULL || info->has_durations;
		has_rests |= info->has_rests && !info->has_durations;
		sample = info->sample > sample ? info->sample : sample;
		missing += info->missing;
	}
	if (sample > 1)
		fprintf(out,
			"- The recording has one in %" PRIu64
			" keys. A limit that counts several of them together saw fewer requests than\n"
			"  on the server.\n",
			sample);
	if (missing > 0)
		fprintf(out, "- The recording has gaps: %" PRIu64 " decisions of the server are missing.\n", missing);
	if (!has_durations)
		fputs("- The log does not say how long requests took: they were decided when they were completed, not when\n"
		      "  they arrived.\n",
		      out);
	if (has_rests)
		fputs("- Lines have more fields than their format. If one of them is the duration of the request, name all\n"
		      "  fields with --format.\n",
		      out);
	if (run->totals.late > 0) {
		weir__words_span(run->totals.latest_late, text);
		fprintf(out,
			"- %" PRIu64
			" requests came later in the log than --reorder allows, at most by %s. They were decided "
			"late.\n",
			run->totals.late, text);
	}
	if (run->totals.released_early > 0)
		fprintf(out,
			"- %" PRIu64 " seconds of the log did not fit into memory and were sorted only in part. Use a "
			"shorter --reorder.\n",
			run->totals.released_early);
	if (run->beyond > 0)
		fprintf(out,
			"- %" PRIu64
			" requests came more than 9 years after the first. They were all decided at the same time.\n",
			run->beyond);
	if (stats->without_client > 0) {
		fprintf(out, "- %" PRIu64 " requests have no client: no attribute ", stats->without_client);
		weir__words_quoted(out, run->options.client.at, run->options.client.n);
		fputs(".\n", out);
	}
	print_table(out, "", &run->now);
	if (run->old.replay)
		print_table(out, " for the old policy", &run->old);
	tables = run->now.table.size_bytes + weir__replay_stats_bytes(stats);
	if (run->old.replay)
		tables += run->old.table.size_bytes + weir__replay_stats_bytes(run->old.stats);
	weir__words_size(tables, text);
	fprintf(out,
		"- Memory: %s at most, for the table, %zu bytes for each place of a client or denied key, and the top "
		"%" PRIu64 " of them.\n",
		text, sizeof(struct weir__tally_entry), run->options.top);
}

/* --- the report -------------------------------------------------------------------------------------------------- */

static void print_side(FILE *out, const struct replay_run *run, const struct replay_side *side)
{
	const struct weir__replay_stats *const stats = side->stats;

	fprintf(out, "requests  %" PRIu64 ", denied %" PRIu64 " (", stats->requests, stats->denied);
	print_share(out, stats->denied, stats->requests);
	fputs(")\n", out);
	fprintf(out, "clients   %" PRIu64 ", denied at least once %" PRIu64 " (", stats->clients.n,
		stats->clients.with_denied);
	print_share(out, stats->clients.with_denied, stats->clients.n);
	fputs(")\n", out);
	if (stats->delayed > 0)
		fprintf(out, "delayed   %" PRIu64 " of the allowed requests\n", stats->delayed);
	if (stats->unmatched > 0)
		fprintf(out, "unmatched %" PRIu64 ": no limit applies to them\n", stats->unmatched);
	if (stats->undecided > 0) {
		fprintf(out, "errors    %" PRIu64 ": the policy cannot decide them; ", stats->undecided);
		print_line(out, run, stats->undecided_input, stats->undecided_line);
		fprintf(out, ": %s\n", stats->undecided_example);
	}
	print_limits(out, side);
}

static void print_changes(FILE *out, const struct replay_run *run)
{
	const struct weir__replay_changes *const changes = run->changes;

	fprintf(out, "\n");
	weir__words_safe(out, run->options.policy_path);
	fputs(" instead of ", out);
	weir__words_safe(out, run->options.old_path);
	fprintf(out, "\n  newly denied   %" PRIu64 " requests (", changes->newly_denied);
	print_share(out, changes->newly_denied, changes->requests);
	fprintf(out, "), %" PRIu64 " clients that the old policy never denies\n", run->client_changes.newly_denied);
	fprintf(out, "  newly allowed  %" PRIu64 " requests (", changes->newly_allowed);
	print_share(out, changes->newly_allowed, changes->requests);
	fprintf(out, "), %" PRIu64 " clients that the new policy never denies\n", run->client_changes.newly_allowed);
	fprintf(out, "  denied by both %" PRIu64 " requests\n", changes->denied_by_both);
	if (changes->delayed_longer + changes->delayed_shorter > 0)
		fprintf(out, "  delayed longer %" PRIu64 " requests, shorter %" PRIu64 "\n", changes->delayed_longer,
			changes->delayed_shorter);
	if (changes->newly_denied + changes->newly_allowed > 0) {
		fputs("  the first at ", out);
		print_instant(out, changes->first);
		fputs(", ", out);
		print_line(out, run, changes->first_input, changes->first_line);
		fputc('\n', out);
	}
	print_clients(out, "clients with the most newly denied requests", &changes->top_denied, false);
	print_clients(out, "clients with the most newly allowed requests", &changes->top_allowed, false);
}

void weir__replay_report(const struct replay_run *run, FILE *out)
{
	for (size_t i = 0; i < weir__log_reader_inputs(run->reader); i++)
		print_input(out, weir__log_reader_input(run->reader, i));
	if (run->now.replay == NULL)
		return;
	fputs("from ", out);
	print_instant(out, run->now.stats->first);
	fputs(" to ", out);
	print_instant(out, run->now.stats->last);
	fputs("\n\n", out);
	print_side(out, run, &run->now);
	print_clients(out, "clients with the most denied requests", &run->now.stats->top_clients, true);
	print_keys(out, &run->now);
	print_waits(out, run, &run->now);
	print_course(out, run->now.stats);
	if (run->changes) {
		fputs("\nwith the old policy\n", out);
		print_side(out, run, &run->old);
		print_changes(out, run);
	}
	fputs("\nwhat to know about these numbers\n", out);
	weir__replay_notes(out, run);
}
