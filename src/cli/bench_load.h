/* bench_load.h: one thread with many connections that send requests to a server as fast as it replies, and the
 * result. */
#ifndef WEIR_CLI_BENCH_LOAD_H
#define WEIR_CLI_BENCH_LOAD_H

#include <stdbool.h>

#include "cli/histogram.h"
#include "cli/stream.h"

enum { WEIR__BENCH_CONNECTIONS_MAX = 10000, WEIR__BENCH_PIPELINE_MAX = 1024, WEIR__BENCH_TEXT_SIZE = 256 };

struct weir__bench_plan {
	const char *at;
	struct weir__tls_files files; /* for an address with TLS */
	/* Sent by each connection. user NULL: the default user. password NULL: no AUTH is sent. */
	const char *user, *password;
	/* Words of the request, ended by NULL. A word that is WEIR__BENCH_KEY is replaced by a random key in each
	 * request. */
	const char *const *words;
	uint32_t connections, pipeline, seconds;
	uint64_t keys; /* at most 10^12 */
};

#define WEIR__BENCH_KEY "key:000000000000"

struct weir__bench_result {
	uint64_t answers, errors; /* includes error replies */
	uint64_t elapsed_ns;
	struct weir__histogram latency_ns;       /* from sending a pipeline to reading each reply to it */
	char first_error[WEIR__BENCH_TEXT_SIZE]; /* the first error reply of the server */
	char why[WEIR__BENCH_TEXT_SIZE];         /* why the measurement failed */
};

/* Runs for `seconds`. Returns false if the measurement failed; `why` then gives the reason. */
bool weir__bench_load(const struct weir__bench_plan *plan, struct weir__bench_result *ret_result);

#endif
