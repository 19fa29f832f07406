/* log_reader.h: reads the requests of one or more logs, in the order of their arrival.
 *
 *     weir__log_reader_new -> { weir__log_reader_next -> records } ... -> 0 -> weir__log_reader_input for the counts
 *
 * Bad lines are counted, and the first few of each input are kept as examples. They are not errors. An error ends the
 * reading of one input: what was read before it counts, and weir__log_reader_input says what went wrong.
 *
 * Arrivals. Servers write a line when a request is completed. If the line has the duration of the request, it arrived
 * that much earlier. If the time of a line has no fraction of a second, the i-th of the n lines of that second, from 0,
 * is taken to be at floor(i * 10^9 / n) ns of it. Lines are sorted by arrival within a window. A line that comes later
 * gets the arrival of the record before it, and is counted.
 *
 * Memory: the wanted attributes of the lines within the reorder window, at most held_max bytes. If they need more, the
 * oldest second is released early. */
#ifndef WEIR_REPLAY_LOG_READER_H
#define WEIR_REPLAY_LOG_READER_H

#include <weir/types.h>

#include "replay/log_record.h"

/* Use the field `from` as the attribute `to`, or as one of these: time, start, duration_s, duration_ms, duration_us,
 * duration_ns, request, status, bytes, cost. */
struct weir__log_map {
	struct weir__slice to, from;
};

struct weir__log_options {
	const char *const *paths; /* of files; "-" is standard input. Compressed ones may be gzip or zstd */
	size_t n_paths;
	/* A name: combined, combined_timed, apache, vhost_combined, common, caddy, envoy, traefik, json or csv. Or a
	 * format string: with $ in it nginx's, with % in it Apache's. NULL: detect it from the first lines of each
	 * input. */
	const char *format;
	const struct weir__log_map *maps;
	size_t n_maps;                     /* at most 64 */
	const struct weir__slice *wanted;  /* names of the attributes to take: ip, method, path, user, host, ... */
	size_t n_wanted;                   /* at most WEIR__LOG_VALUES_MAX */
	int32_t zone_s;                    /* of times without an offset: seconds east of UTC */
	const struct weir__log_zone *zone; /* of these times, instead; NULL: none */
	weir_ns reorder;                   /* the reorder window */
	size_t held_max;                   /* bytes; 0: 256 MiB */
};

enum { WEIR__LOG_EXAMPLES = 3, WEIR__LOG_EXAMPLE_SIZE = 160 };

/* What was read from one input. */
struct weir__log_input_info {
	const char *path;
	const char *format;  /* its name: see struct weir__log_options */
	uint64_t lines;      /* without empty ones */
	uint64_t bad;        /* lines that are not in this format */
	uint64_t bytes;      /* after decompression */
	uint64_t sample;     /* one in this many keys is in a recording; 0 or 1: all */
	uint64_t missing;    /* decisions in its gaps */
	bool has_fractions;  /* times have fractions of a second */
	bool has_rests;      /* lines have more after the last field of their format */
	bool has_durations;  /* lines have the duration of their request, or the time of its start */
	const char *error;   /* why reading ended early; NULL: read to its end */
	uint32_t n_examples; /* of bad lines */
	struct {
		uint64_t line;
		const char *why;
		char text[WEIR__LOG_EXAMPLE_SIZE]; /* the beginning of the line, any bytes */
		size_t length;
	} examples[WEIR__LOG_EXAMPLES];
};

/* What was read from all inputs. */
struct weir__log_totals {
	uint64_t records, bad;
	uint64_t spread;                /* records whose times had no fraction of a second */
	uint64_t late;                  /* records beyond the reorder window */
	weir_ns latest_late;            /* by how much the latest of them was late */
	uint64_t released_early;        /* seconds, because held_max was reached */
	bool is_out_of_memory;          /* the reading ended early */
	uint64_t bytes_done, bytes_all; /* of the files, before decompression. bytes_all 0: not known */
};

struct weir__log_reader;

/* Opens all inputs and detects their formats. WEIR_ERR_SYSTEM: an input cannot be opened. WEIR_ERR_SYNTAX: an unknown
 * format, or one that cannot be detected, or a map of a field that no input has. WEIR_ERR_LIMIT: too many inputs or
 * attributes. The message says which. */
int weir__log_reader_new(const struct weir__log_options *options, struct weir__log_reader **ret_reader,
			 struct weir_message *ret_message);

/* Returns up to `most` records, and their number. They are valid until the next call. 0: the end. */
size_t weir__log_reader_next(struct weir__log_reader *reader, size_t most,
			     const struct weir__log_record *const **ret_records);

size_t weir__log_reader_inputs(const struct weir__log_reader *reader);
const struct weir__log_input_info *weir__log_reader_input(const struct weir__log_reader *reader, size_t input);
void weir__log_reader_totals(const struct weir__log_reader *reader, struct weir__log_totals *ret_totals);

void weir__log_reader_free(struct weir__log_reader *reader); /* NULL is allowed */

#endif
