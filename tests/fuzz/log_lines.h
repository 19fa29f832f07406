/* log_lines.h: parses a line in memory of exactly its size, for the fuzz targets of log formats. */
#ifndef WEIR_TESTS_FUZZ_LOG_LINES_H
#define WEIR_TESTS_FUZZ_LOG_LINES_H

#include "replay/log_format.h"

#include "require.h"

enum { LOG_WANTED = 6 };

static inline const struct weir__log_options *log_options(void)
{
	static struct weir__slice wanted[LOG_WANTED];
	static struct weir__log_map maps[2];
	static struct weir__log_options options;
	static const char *const names[LOG_WANTED] = { "ip", "method", "path", "user", "user_agent", "x_api_key" };

	for (size_t i = 0; i < LOG_WANTED; i++)
		wanted[i] = weir__slice_of(names[i]);
	maps[0] = (struct weir__log_map){ weir__slice_of("host"), weir__slice_of("a.b") };
	maps[1] = (struct weir__log_map){ weir__slice_of("time"), weir__slice_of("when") };
	options = (struct weir__log_options){ .maps = maps, .n_maps = 1, .wanted = wanted, .n_wanted = LOG_WANTED };
	return &options;
}

/* A good line has a time within the range. Values are not longer than the line, and each of their bytes can be read. */
static inline void log_parse(struct weir__log_format *format, const uint8_t *data, size_t size)
{
	static struct weir__log_line line;
	char *const bytes = malloc(size ? size : 1);
	volatile unsigned char sum = 0;

	if (bytes == NULL)
		abort();
	if (size > 0)
		memcpy(bytes, data, size);
	if (weir__log_format_parse(format, (struct weir__slice){ bytes, size }, &line) == NULL) {
		require(line.has_stamp && line.stamp.at < WEIR__LOG_TIME_END, "a good line without a time");
		require(line.status <= 999, "a status of more than three digits");
		for (size_t i = 0; i < LOG_WANTED; i++) {
			require(line.values[i].at == NULL || line.values[i].n <= size, "a value longer than its line");
			for (size_t j = 0; line.values[i].at && j < line.values[i].n; j++)
				sum = (unsigned char)(sum + (unsigned char)line.values[i].at[j]);
		}
	}
	free(bytes);
}

#endif
