/* replay.c: reads a log as weir replay does, and decides nothing.
 *
 *     replay [FORMAT] FILE
 *
 * Takes ip, method, path and user_agent of each line, and sorts the lines by arrival. Prints the time as JSON. */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "replay/log_reader.h"

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
	const struct weir__slice wanted[] = { weir__slice_of("ip"), weir__slice_of("method"), weir__slice_of("path"),
					      weir__slice_of("user_agent") };
	const char *const path = argv[argc - 1];
	const struct weir__log_options options = { .paths = &path,
						   .n_paths = 1,
						   .format = argc == 3 ? argv[1] : NULL,
						   .wanted = wanted,
						   .n_wanted = 4,
						   .reorder = UINT64_C(10000000000) };
	const struct weir__log_record *const *records;
	struct weir__log_reader *reader;
	struct weir__log_totals totals;
	struct weir_message why;
	const uint64_t began = now_ns();

	if (argc != 2 && argc != 3)
		errx(2, "usage: replay [FORMAT] FILE");
	if (weir__log_reader_new(&options, &reader, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	while (weir__log_reader_next(reader, 64, &records) > 0)
		;
	weir__log_reader_totals(reader, &totals);
	printf("{\"ns\": %" PRIu64 ", \"lines\": %" PRIu64 ", \"bad\": %" PRIu64 "}\n", now_ns() - began,
	       totals.records, totals.bad);
	weir__log_reader_free(reader);
	return 0;
}
