/* regions.h: shared memory for tests, under a name of this process, removed when it ends. */
#ifndef WEIR_TESTS_STORE_REGIONS_H
#define WEIR_TESTS_STORE_REGIONS_H

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/memory.h"
#include "store/table/region.h"
#include "tables.h"

enum { LIMITS = 3 };

static const char *const shared_folder = "/dev/shm", *const file_prefix = "weir.";

/* Of this process. */
static char name[WEIR_TABLE_NAME_MAX + 1], path[WEIR_TABLE_NAME_MAX + 40];

static inline void clean_up(void)
{
	unlink(path);
	rmdir(path);
}

static inline void choose_name(void)
{
	(void)snprintf(name, sizeof(name), "region-test-%d", (int)getpid());
	(void)snprintf(path, sizeof(path), "%s/%s%s", shared_folder, file_prefix, name);
}

/* The size of a table with these limits: header, entries, stripes of counters, 16 slots. */
static inline size_t needed_size(uint32_t limits_max)
{
	const size_t counters = sizeof(struct weir__stripe) + limits_max * sizeof(struct weir__limit_counters);
	const size_t old_plans = limits_max < 22 ? 256 : (limits_max * 12 + 15) / 16 * 16;

	return sizeof(struct weir__region_header) + limits_max * sizeof(struct weir__region_limit) +
	       (limits_max * sizeof(uint64_t) + 63) / 64 * 64 + old_plans * sizeof(struct weir__region_old_plan) +
	       (WEIR__STRIPES + WEIR__STRIPES_COMMON) * ((counters + 127) / 128 * 128) + 256;
}

/* In whole pages. */
static inline size_t least_size(uint32_t limits_max)
{
	const size_t page = weir__memory_page();

	return (needed_size(limits_max) + page - 1) / page * page;
}

static inline struct weir_table_options shared_options(void)
{
	return (struct weir_table_options){ .size_bytes = least_size(LIMITS), .shared = name, .limits_max = LIMITS };
}

/* Checks that opening fails with this error and message. */
static inline void check_refused(const struct weir_table_options *options, int error, const char *why)
{
	struct weir_message message = { 0, "" };
	struct weir__region region;
	const int found = weir__region_open(&region, options, &message);

	CHECK_EQ(found, error);
	CHECK_TEXT(message.text, why);
	CHECK_EQ(found == WEIR_OK ? error : weir__region_open(&region, options, NULL), error);
	if (found == WEIR_OK)
		weir__region_close(&region);
}

static inline const char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline const char *text_of(const char *format, ...)
{
	static char text[300];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return text;
}

static inline struct weir__region opened(const struct weir_table_options *options)
{
	struct weir_message why = { 0, "" };
	struct weir__region region;

	if (weir__region_open(&region, options, &why) != WEIR_OK) {
		printf("Bail out! no region: %s\n", why.text);
		exit(1);
	}
	return region;
}

#endif
