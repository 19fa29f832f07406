/* tune.h: what the files of weir tune share. */
#ifndef WEIR_CLI_TUNE_H
#define WEIR_CLI_TUNE_H

#include <stdio.h>

#include "cli/json.h"
#include "replay/sizing.h"

enum { WEIR__TUNE_DONE = 0, WEIR__TUNE_FAILED = 1, WEIR__TUNE_WRONG_USAGE = 2, WEIR__TUNE_UNREACHABLE = 3 };

/* tune_size.c: sizes a leaky bucket from two rates, and prints it. Returns the exit status. */
int weir__tune_size(const struct weir__sizing_wish *wish, bool is_json);

/* Writes a rate as in a limit: 120/s. */
void weir__tune_rate(FILE *out, struct weir__rate rate);

/* Writes a duration as the policy reads it: 1500ms. */
void weir__tune_duration(FILE *out, weir_ns duration);

#endif
