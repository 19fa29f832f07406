/* tune.h: what the files of weir tune share. */
#ifndef WEIR_CLI_TUNE_H
#define WEIR_CLI_TUNE_H

#include <stdio.h>

#include "cli/json.h"
#include "replay/arrivals.h"
#include "replay/log_reader.h"
#include "replay/log_zone.h"
#include "replay/sizing.h"
#include "replay/tune_check.h"
#include "replay/tuning.h"

/* Exit statuses, as of weir replay. */
enum { WEIR__TUNE_DONE = 0, WEIR__TUNE_FAILED = 1, WEIR__TUNE_WRONG_USAGE = 2, WEIR__TUNE_MISSED = 4 };

enum { WEIR__TUNE_WISHES_MAX = 2, WEIR__TUNE_MAPS_MAX = 32 };

/* tune_size.c: sizes a leaky bucket from two rates, and prints it. Returns the exit status. */
int weir__tune_size(const struct weir__sizing_wish *wish, bool is_json);

/* Writes a rate as in a limit: 120/s. */
void weir__tune_rate(FILE *out, struct weir__rate rate);

/* Writes a duration as the policy reads it: 1500ms. */
void weir__tune_duration(FILE *out, weir_ns duration);

/* What weir tune is to do with logs. */
struct weir__tune_options {
	const char *paths[WEIR__LOG_INPUTS_MAX];
	struct weir__log_map maps[WEIR__TUNE_MAPS_MAX];
	struct weir__log_options log;
	struct weir__log_zone zone;
	const char *policy, *limit; /* both or none */
	const char *key;            /* attributes with commas between; NULL: not given */
	const char *write;          /* a file for the policy; NULL: none */
	const char *svg;            /* a file for the curve; NULL: none */
	const char *wishes[WEIR__TUNE_WISHES_MAX];
	size_t n_wishes;
	struct weir__tuning_wish wish; /* `until` is not set */
	uint32_t hold_out;             /* percent of the time */
	size_t memory;                 /* bytes for arrivals */
	bool is_json;
};

/* tune_wish.c: reads a wish into options->wish. Returns NULL, or what would be right. */
const char *weir__tune_wish_read(const char *text, struct weir__tuning_wish *wish);

/* Returns NULL, or why these wishes do not go together. */
const char *weir__tune_wish_check(const struct weir__tuning_wish *wish);

/* tune_log.c: tunes a limit by logs. Returns the exit status. */
int weir__tune_log(const struct weir__tune_options *options);

/* What it found, for tune_report.c. */
struct weir__tune_found {
	const struct weir__tune_options *options;
	const struct weir__tuning_wish *wish; /* with `until` */
	const struct weir_policy *policy;
	uint32_t limit; /* its index in the policy */
	const struct weir__tuning *tuning;
	const struct weir__tune_check *check;
	struct weir__log_totals totals;
	weir_ns first, last;
	uint64_t applies;   /* requests to which the limit applies */
	uint64_t elsewhere; /* requests to which an override applies instead */
	unsigned shift;     /* one of 2^shift keys was used */
	uint64_t evicted;
	size_t bytes;
	bool was_spread;
};

/* Whether a part of the log keeps the wish. */
bool weir__tune_keeps(const struct weir__tune_found *found, enum weir__tune_part_name part);

void weir__tune_report_text(const struct weir__tune_found *found);
void weir__tune_report_json(const struct weir__tune_found *found);

/* tune_plot.c: writes the curve as SVG. */
void weir__tune_plot(FILE *out, const struct weir__tune_found *found);

/* Writes the limit as a policy. */
void weir__tune_report_policy(FILE *out, const struct weir__tune_found *found);

#endif
