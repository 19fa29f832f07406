/* file.h: files that memory is mapped from. They are complete before they have a name, can be locked, and can be
 * written to the disk. memory.h opens and maps them. Functions return 0 or a positive errno. */
#ifndef WEIR_OS_FILE_H
#define WEIR_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__FILE_PATH_MAX = 4095 };

/* A file that does not have its name yet. */
struct weir__new_file {
	int file;
	char temporary[WEIR__FILE_PATH_MAX + 1]; /* name on file systems without unnamed files; else empty */
};

/* Makes a zeroed file in the directory of `path`. All of its space is reserved on the disk, so that a full disk is an
 * error now, and does not kill a process that writes to the memory later. */
int weir__file_new(const char *path, size_t size, uint32_t mode, struct weir__new_file *ret_new);

/* Writes the file to the disk, then gives it its name, so that not even a power cut leaves half of it. EEXIST: another
 * process was faster. */
int weir__file_publish(const struct weir__new_file *new_file, const char *path);

/* Closes and removes a file that will not get its name. */
void weir__file_drop(const struct weir__new_file *new_file);

/* Closes the file. Its locks stay until all processes that share this open file description, by fork, have closed
 * it. */
void weir__file_close(int file);

enum weir__file_lock { WEIR__FILE_UNLOCKED, WEIR__FILE_SHARED, WEIR__FILE_EXCLUSIVE };

/* Locks one byte for this open file description. Replaces a lock that it has there. Does not wait. EAGAIN: it is locked
 * elsewhere, and nothing has changed. */
int weir__file_lock(int file, uint32_t byte, enum weir__file_lock lock);

/* The same, but retries for up to patience_ms. */
int weir__file_lock_within(int file, uint32_t byte, enum weir__file_lock lock, uint64_t patience_ms);

/* Return when everything written to the file, also through memory, is on the disk. The first function is for the entire
 * file, the second for a part of its memory. */
int weir__file_sync(int file);
int weir__file_sync_memory(void *memory, size_t size);

/* Returns how often this process and its ancestors have forked since the first call. */
uint32_t weir__file_forks(void);

#endif
