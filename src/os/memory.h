/* memory.h: memory from the kernel, of this process or shared by name, on huge pages where the kernel gives them. Sizes
 * are whole pages. Errors are those of errno, positive; 0 is success. */
#ifndef WEIR_OS_MEMORY_H
#define WEIR_OS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed; given out by the kernel page by page, as it is touched. */
int weir__memory_new(size_t size, void **ret_memory);

/* Zeroed shared memory that has no name yet: a process killed now leaves nothing behind. All of it is set aside, so
 * that touching it later cannot fail. */
int weir__memory_new_shared(size_t size, uint32_t mode, void **ret_memory, int *ret_file);

/* Gives it a name, at once and whole. EEXIST: somebody else was faster. */
int weir__memory_publish(int file, const char *name);

/* Closes the file of new_shared; the memory stays. */
void weir__memory_close(int file);

/* Memory that has a name. ENOENT: there is none. EINVAL: it is no memory. EPERM: it is of another user, not root. Whoever
 * made the memory can write what it likes; so that is allowed only if `mode` has bits for all, or for the group, and it
 * is of a group of this process's and not writable for all. */
int weir__memory_attach(const char *name, uint32_t mode, void **ret_memory, size_t *ret_size);

/* The same for a file by its path, which is only opened; and its memory. */
int weir__memory_open(const char *path, uint32_t mode, int *ret_file, size_t *ret_size);
int weir__memory_map(int file, size_t size, void **ret_memory);

/* Sees to it that all of a file has its place on the disk. */
int weir__memory_set_aside(int file, size_t size);

int weir__memory_unlink(const char *name);

/* What `ls -l` tells of memory that has a name; mode is the permission bits. ENOENT: there is none. */
struct weir__memory_status {
	uint64_t size_bytes;
	uint32_t owner, group, mode;
};

int weir__memory_status(const char *name, struct weir__memory_status *ret_status);
int weir__memory_file_status(const char *path, struct weir__memory_status *ret_status);

/* Visits the names that there are, in the order of their bytes. What is visited may be gone by then, or no memory. */
int weir__memory_each(void (*visit)(void *context, const char *name), void *context);

void weir__memory_free(void *memory, size_t size);

size_t weir__memory_page(void);

/* Overwrites bytes, also where a compiler would leave out a memset because nothing reads them again. */
void weir__memory_wipe(void *bytes, size_t n);

/* Fills bytes that nobody can guess. */
int weir__memory_random(void *bytes, size_t n);

#endif
