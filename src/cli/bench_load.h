/* bench_load.h: connections that ask one server as fast as it answers, from one thread, and what came of it. */
#ifndef WEIR_CLI_BENCH_LOAD_H
#define WEIR_CLI_BENCH_LOAD_H

#include <stdbool.h>

#include "cli/histogram.h"

enum { WEIR__BENCH_CONNECTIONS_MAX = 10000, WEIR__BENCH_PIPELINE_MAX = 1024, WEIR__BENCH_TEXT_SIZE = 256 };

struct weir__bench_plan {
	const char *at;
	const char *user, *password; /* that each connection says; NULL: the default user; nothing is said */
	/* Of a request; NULL ends them. One that is WEIR__BENCH_KEY is another key each time. */
	const char *const *words;
	uint32_t connections, pipeline, seconds;
	uint64_t keys; /* at most 10^12 */
};

#define WEIR__BENCH_KEY "key:000000000000"

struct weir__bench_result {
	uint64_t answers, errors; /* errors are answers, too */
	uint64_t elapsed_ns;
	struct weir__histogram latency_ns;       /* from when a pipeline is sent to when each answer of it is read */
	char first_error[WEIR__BENCH_TEXT_SIZE]; /* that the server gave */
	char why[WEIR__BENCH_TEXT_SIZE];         /* nothing could be measured */
};

/* Ends by itself after `seconds`. False: `why` tells what went wrong. */
bool weir__bench_load(const struct weir__bench_plan *plan, struct weir__bench_result *ret_result);

#endif
