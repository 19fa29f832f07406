/* file.h: files that memory is mapped from: made whole before they have a name, locked, and written to the disk. They
 * are opened and mapped by memory.h. Errors are those of errno, positive; 0 is success. */
#ifndef WEIR_OS_FILE_H
#define WEIR_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__FILE_PATH_MAX = 4095 };

/* A file that does not have its name yet. */
struct weir__new_file {
	int file;
	char temporary[WEIR__FILE_PATH_MAX + 1]; /* where the file system knows none without a name; else empty */
};

/* Zeroed, where `path` will be. All of it is set aside on the disk, so that a full one is an error now, and not the end
 * of a process that writes to memory later. */
int weir__file_new(const char *path, size_t size, uint32_t mode, struct weir__new_file *ret_new);

/* Writes it to the disk, then gives it its name: so not even a power cut leaves half of it. EEXIST: somebody else was
 * faster. */
int weir__file_publish(const struct weir__new_file *new_file, const char *path);

/* Closes it if it is not to get its name. */
void weir__file_drop(const struct weir__new_file *new_file);

/* Until all who share this opening of the file have closed it, by fork, does it stay locked. */
void weir__file_close(int file);

enum weir__file_lock { WEIR__FILE_UNLOCKED, WEIR__FILE_SHARED, WEIR__FILE_EXCLUSIVE };

/* Locks one byte for this opening of the file, instead of how it had it locked. Does not wait: EAGAIN, and nothing has
 * changed. */
int weir__file_lock(int file, uint32_t byte, enum weir__file_lock lock);

/* The same, but tries for so long. */
int weir__file_lock_within(int file, uint32_t byte, enum weir__file_lock lock, uint64_t patience_ms);

/* Returns when what was written to it, by memory too, is on the disk: all of it, or only some memory of it. */
int weir__file_sync(int file);
int weir__file_sync_memory(void *memory, size_t size);

/* How often this process, and those that it came from, have forked since the first call. */
uint32_t weir__file_forks(void);

#endif
