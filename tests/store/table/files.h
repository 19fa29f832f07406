/* files.h: tables in files for tests, at a path of this process, removed when it ends. */
#ifndef WEIR_TESTS_STORE_FILES_H
#define WEIR_TESTS_STORE_FILES_H

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/file.h"
#include "os/memory.h"
#include "store/table/region_file.h"
#include "tables.h"

static char path[100], copy_path[110];
static pid_t owner;

static inline void clean_up(void)
{
	if (getpid() != owner) /* a forked child must not remove the files */
		return;
	unlink(path);
	rmdir(path);
	unlink(copy_path);
}

static inline void choose_path(void)
{
	const char *const folder = getenv("TMPDIR");

	owner = getpid();
	(void)snprintf(path, sizeof(path), "%.60s/weir-test-%d.table", folder ? folder : "/tmp", (int)owner);
	(void)snprintf(copy_path, sizeof(copy_path), "%s.copy", path);
	clean_up();
	atexit(clean_up);
}

static inline struct weir_table_options file_options(uint64_t keys)
{
	return (struct weir_table_options){ .size_bytes = weir_table_size(keys, 4), .file = path, .limits_max = 4 };
}

static inline struct weir_table *file_table(uint64_t keys)
{
	const struct weir_table_options options = file_options(keys);

	return table_with(&options);
}

/* Leaves the file as a killed process does. */
static inline void leave(struct weir_table *table)
{
	weir__file_close(table->region.file);
	table->region.file = -1;
	weir_table_free(table);
}

/* Checks that opening fails with this error and message. */
static inline void check_refused(const struct weir_table_options *options, int error, const char *why)
{
	struct weir_message message = { 0, "" };
	struct weir_table *table = NULL;
	const int found = weir_table_new(options, &table, &message);

	CHECK_EQ(found, error);
	CHECK_TEXT(message.text, why);
	CHECK_EQ(found == WEIR_OK ? error : weir_table_new(options, &table, NULL), error);
	if (found == WEIR_OK)
		weir_table_free(table);
}

#endif
