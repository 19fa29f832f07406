/* replay.h: what the files of weir replay share: its options, and its result. */
#ifndef WEIR_CLI_REPLAY_H
#define WEIR_CLI_REPLAY_H

#include <stdio.h>

#include "replay/fail_if.h"
#include "replay/log_reader.h"
#include "replay/log_zone.h"
#include "replay/replay_changes.h"
#include "replay/replay_plots.h"

enum { REPLAY_MAPS_MAX = 64 };

struct replay_options {
	const char *policy_path, *old_path; /* old_path NULL: no comparison */
	struct weir__log_options log;
	struct weir__log_zone zone;
	struct weir__log_map maps[REPLAY_MAPS_MAX];
	struct weir__slice client; /* the attribute that tells clients apart */
	uint64_t keys, top;
	bool is_json, is_quiet, has_all; /* has_all: --csv has allowed requests, too */
	const char *html_path;           /* NULL: no HTML report */
	bool has_plain_names;            /* in the HTML report; false: hashed */
	const char *csv_path;            /* NULL: none; "-": standard output, instead of the report */
	struct weir__fail_if fail_if;
};

/* A policy and its replay. */
struct replay_side {
	struct weir_policy *policy;  /* NULL: the side does not exist, or the replay owns it */
	struct weir__replay *replay; /* NULL: there were no requests */
	struct weir__replay_stats *stats;
	struct weir__replay_plots *plots; /* NULL: no HTML report */
	struct weir_table_stats table;    /* at the end */
};

struct replay_run {
	struct replay_options options;
	struct weir__slice names[WEIR__LOG_VALUES_MAX]; /* of the values of the records */
	size_t n_names, n_of_policies;                  /* those of the policies come first */
	uint32_t unseen;                                /* a bit for each of those that no request had so far */
	size_t client, method, path;                    /* indexes of these values */
	struct weir__log_reader *reader;
	struct replay_side now, old;
	struct weir__replay_changes *changes; /* NULL: no comparison */
	struct weir__replay_client_changes client_changes;
	struct weir__log_totals totals;
	uint64_t beyond; /* requests more than 9 years after the first: the table's clock does not go on after that */
	uint64_t took_ns;
	FILE *csv;
	bool is_shown; /* a progress line is on the terminal */
	weir_ns shown_at;
};

/* The value of a metric, and the total for its percentage. */
uint64_t weir__replay_metric(const struct replay_run *run, const struct weir__fail_comparison *comparison,
			     uint64_t *ret_whole);

/* replay_report.c: for people. */
void weir__replay_report(const struct replay_run *run, FILE *out);

/* Prints notes on what the log cannot show, and where the numbers are not exact. A note begins with "- ", and its other
 * lines with two blanks. */
void weir__replay_notes(FILE *out, const struct replay_run *run);

/* replay_json.c */
void weir__replay_json(const struct replay_run *run, FILE *out);

/* replay_html.c: one page. Returns false if it cannot be written. */
bool weir__replay_html(const struct replay_run *run, FILE *out);

/* replay_csv.c: one row for each denied request; with a comparison, for each that is decided differently. */
void weir__replay_csv_head(const struct replay_run *run);
void weir__replay_csv_rows(const struct replay_run *run, const struct weir__log_record *const *records, size_t n,
			   const struct weir__replay_answer *answers, const struct weir__replay_answer *old_answers);

/* The plan of a claim. */
static inline const char *weir__replay_plan(const struct replay_side *side, uint32_t plan)
{
	return weir_policy_plan_of(weir__replay_policy(side->replay), plan)->name;
}

#endif
