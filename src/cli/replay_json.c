/* replay_json.c: the report of weir replay for programs. */
#include <string.h>

#include "cli/json.h"
#include "cli/replay.h"
#include "cli/words.h"
#include "policy/policy.h"

static void instant(struct weir__json *json, const char *name, weir_ns at)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_instant(at, text);
	weir__json_text(json, name, text);
}

static void text_of(struct weir__json *json, const char *name, const char *text, size_t length)
{
	weir__json_bytes(json, name, text, length < WEIR__TOP_TEXT ? length : WEIR__TOP_TEXT);
}

static void print_input(struct weir__json *json, const struct weir__log_input_info *info)
{
	weir__json_open(json, NULL, '{');
	weir__json_text(json, "file", info->path);
	if (info->format)
		weir__json_text(json, "format", info->format);
	else
		weir__json_word(json, "format", "null");
	weir__json_number(json, "lines", info->lines);
	weir__json_number(json, "bad_lines", info->bad);
	weir__json_word(json, "has_fractions", info->has_fractions ? "true" : "false");
	weir__json_word(json, "has_durations", info->has_durations ? "true" : "false");
	if (info->sample > 1)
		weir__json_number(json, "sample", info->sample);
	if (info->missing > 0)
		weir__json_number(json, "missing", info->missing);
	if (info->error)
		weir__json_text(json, "error", info->error);
	weir__json_open(json, "bad_examples", '[');
	for (uint32_t i = 0; i < info->n_examples; i++) {
		weir__json_open(json, NULL, '{');
		weir__json_number(json, "line", info->examples[i].line);
		weir__json_text(json, "why", info->examples[i].why);
		weir__json_bytes(json, "text", info->examples[i].text, info->examples[i].length);
		weir__json_close(json, '}');
	}
	weir__json_close(json, ']');
	weir__json_close(json, '}');
}

static void print_limit(struct weir__json *json, const struct replay_side *side, uint32_t plan)
{
	const struct weir__replay_limit *const limit = &side->stats->limits[plan];
	const struct weir_policy_plan *const of = weir_policy_plan_of(side->stats->policy, plan);
	char text[WEIR_LIMIT_TEXT_MAX];

	weir__json_open(json, NULL, '{');
	weir__json_text(json, "name", of->name);
	if (!of->is_unlimited) {
		(void)weir_limit_print(&of->limit, text);
		weir__json_text(json, "limit", text);
	}
	weir__json_number(json, "requests", limit->requests);
	weir__json_number(json, "denied", limit->denied);
	weir__json_number(json, "decided", limit->decided);
	weir__json_number(json, "denied_keys", limit->keys_denied);
	weir__json_number(json, "denied_never", limit->never);
	weir__json_number(json, "delayed", limit->delayed);
	weir__json_number(json, "units_allowed", limit->units);
	weir__json_number(json, "longest_wait_ns", limit->longest_wait);
	weir__json_number(json, "longest_delay_ns", limit->longest_delay);
	weir__json_word(json, "is_shadow", limit->is_shadow ? "true" : "false");
	if (limit->denied > 0) {
		instant(json, "first_denied", limit->first);
		instant(json, "last_denied", limit->last);
	}
	if (limit->requests > 0 && weir__policy_limit_of_plan(side->stats->policy, plan)->n_parts == 0)
		weir__json_number(json, "capacity_used_hundredths_of_percent",
				  weir__replay_share_of_capacity(side->stats, plan));
	weir__json_open(json, "used_tenths", '[');
	for (size_t i = 0; i < WEIR__REPLAY_TENTHS; i++)
		weir__json_number(json, NULL, limit->used[i]);
	weir__json_close(json, ']');
	weir__json_close(json, '}');
}

static void print_top(struct weir__json *json, const char *name, const struct replay_side *side,
		      const struct weir__top *top, bool is_of_keys)
{
	weir__json_open(json, name, '[');
	for (size_t i = 0; i < top->n; i++) {
		const struct weir__top_row *const row = &top->rows[i];

		weir__json_open(json, NULL, '{');
		text_of(json, is_of_keys ? "key" : "client", row->text, row->length);
		if (is_of_keys)
			weir__json_text(json, "limit", weir__replay_plan(side, row->plan));
		weir__json_number(json, "n", row->number);
		if (row->all > 0)
			weir__json_number(json, "requests", row->all);
		instant(json, "last", row->last);
		weir__json_close(json, '}');
	}
	weir__json_close(json, ']');
}

static void print_waits(struct weir__json *json, const struct replay_run *run, const struct replay_side *side)
{
	weir__json_open(json, "longest_waits", '[');
	for (size_t i = 0; i < side->stats->n_waits; i++) {
		const struct weir__replay_wait *const wait = &side->stats->waits[i];

		weir__json_open(json, NULL, '{');
		weir__json_number(json, "wait_ns", wait->wait);
		weir__json_word(json, "is_delay", wait->is_delay ? "true" : "false");
		weir__json_text(json, "limit", weir__replay_plan(side, wait->plan));
		text_of(json, "client", wait->client, wait->length);
		instant(json, "at", wait->arrival);
		weir__json_text(json, "file", weir__log_reader_input(run->reader, wait->input)->path);
		weir__json_number(json, "line", wait->line);
		weir__json_close(json, '}');
	}
	weir__json_close(json, ']');
}

static void print_course(struct weir__json *json, const struct weir__replay_course *course)
{
	size_t n = WEIR__REPLAY_TIMES;

	while (n > 0 && course->steps[n - 1].all == 0)
		n--;
	weir__json_open(json, "over_time", '{');
	instant(json, "begins", course->begins);
	weir__json_number(json, "step_ns", course->width);
	weir__json_open(json, "requests", '[');
	for (size_t i = 0; i < n; i++)
		weir__json_number(json, NULL, course->steps[i].all);
	weir__json_close(json, ']');
	weir__json_open(json, "denied", '[');
	for (size_t i = 0; i < n; i++)
		weir__json_number(json, NULL, course->steps[i].denied);
	weir__json_close(json, ']');
	weir__json_close(json, '}');
}

static void print_side(struct weir__json *json, const struct replay_run *run, const struct replay_side *side,
		       const char *name, const char *path)
{
	const struct weir__replay_stats *const stats = side->stats;

	weir__json_open(json, name, '{');
	weir__json_text(json, "policy", path);
	weir__json_number(json, "requests", stats->requests);
	weir__json_number(json, "denied", stats->denied);
	weir__json_number(json, "delayed", stats->delayed);
	weir__json_number(json, "undecided", stats->undecided);
	if (stats->undecided > 0)
		weir__json_text(json, "undecided_example", stats->undecided_example);
	weir__json_number(json, "unmatched", stats->unmatched);
	weir__json_number(json, "clients", stats->clients.n);
	weir__json_number(json, "denied_clients", stats->clients.with_denied);
	weir__json_number(json, "requests_without_client", stats->without_client);
	weir__json_open(json, "limits", '[');
	for (uint32_t i = 0; i < stats->n_limits; i++)
		print_limit(json, side, i);
	weir__json_close(json, ']');
	print_top(json, "top_clients", side, &stats->top_clients, false);
	print_top(json, "top_keys", side, &stats->top_keys, true);
	print_waits(json, run, side);
	print_course(json, &stats->course);
	weir__json_open(json, "memory", '{');
	weir__json_number(json, "table_bytes", side->table.size_bytes);
	weir__json_number(json, "count_bytes", weir__replay_stats_bytes(stats));
	weir__json_number(json, "evicted", side->table.evicted);
	weir__json_number(json, "folded", side->table.folded);
	weir__json_close(json, '}');
	weir__json_close(json, '}');
}

static void print_changes(struct weir__json *json, const struct replay_run *run)
{
	const struct weir__replay_changes *const changes = run->changes;

	weir__json_open(json, "changes", '{');
	weir__json_number(json, "newly_denied", changes->newly_denied);
	weir__json_number(json, "newly_allowed", changes->newly_allowed);
	weir__json_number(json, "denied_by_both", changes->denied_by_both);
	weir__json_number(json, "delayed_longer", changes->delayed_longer);
	weir__json_number(json, "delayed_shorter", changes->delayed_shorter);
	weir__json_number(json, "newly_denied_clients", run->client_changes.newly_denied);
	weir__json_number(json, "newly_allowed_clients", run->client_changes.newly_allowed);
	if (changes->newly_denied + changes->newly_allowed > 0) {
		instant(json, "first", changes->first);
		weir__json_text(json, "first_file", weir__log_reader_input(run->reader, changes->first_input)->path);
		weir__json_number(json, "first_line", changes->first_line);
	}
	print_top(json, "top_newly_denied", &run->now, &changes->top_denied, false);
	print_top(json, "top_newly_allowed", &run->now, &changes->top_allowed, false);
	weir__json_close(json, '}');
}

static void print_conditions(struct weir__json *json, const struct replay_run *run)
{
	weir__json_open(json, "fail_if", '[');
	for (size_t i = 0; i < run->options.fail_if.n; i++) {
		const struct weir__fail_comparison *const comparison = &run->options.fail_if.of[i];
		uint64_t whole;
		const uint64_t value = weir__replay_metric(run, comparison, &whole);

		weir__json_open(json, NULL, '{');
		weir__json_bytes(json, "condition", comparison->text.at, comparison->text.n);
		weir__json_number(json, "value", value);
		if (comparison->is_share)
			weir__json_number(json, "of", whole);
		weir__json_word(json, "is_true", weir__fail_holds(comparison, value, whole) ? "true" : "false");
		weir__json_close(json, '}');
	}
	weir__json_close(json, ']');
}

void weir__replay_json(const struct replay_run *run, FILE *out)
{
	struct weir__json json = { .out = out };

	weir__json_open(&json, NULL, '{');
	weir__json_open(&json, "inputs", '[');
	for (size_t i = 0; i < weir__log_reader_inputs(run->reader); i++)
		print_input(&json, weir__log_reader_input(run->reader, i));
	weir__json_close(&json, ']');
	instant(&json, "from", run->now.stats->first);
	instant(&json, "to", run->now.stats->last);
	weir__json_number(&json, "took_ns", run->took_ns);
	weir__json_number(&json, "status_429", run->now.stats->already_denied);
	weir__json_number(&json, "spread_over_their_second", run->totals.spread);
	weir__json_number(&json, "late_lines", run->totals.late);
	weir__json_number(&json, "latest_late_ns", run->totals.latest_late);
	weir__json_number(&json, "seconds_released_early", run->totals.released_early);
	weir__json_number(&json, "beyond_9_years", run->beyond);
	weir__json_open(&json, "missing_attributes", '[');
	for (size_t i = 0; i < run->n_of_policies; i++)
		if (run->unseen & UINT32_C(1) << i)
			weir__json_bytes(&json, NULL, run->names[i].at, run->names[i].n);
	weir__json_close(&json, ']');
	print_side(&json, run, &run->now, "replay", run->options.policy_path);
	if (run->changes) {
		print_side(&json, run, &run->old, "old", run->options.old_path);
		print_changes(&json, run);
	}
	print_conditions(&json, run);
	weir__json_close(&json, '}');
}
