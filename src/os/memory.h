/* memory.h: memory from the kernel, private or shared by name, on huge pages where the kernel provides them. Sizes are
 * whole pages. Functions return 0 or a positive errno. */
#ifndef WEIR_OS_MEMORY_H
#define WEIR_OS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Allocates zeroed memory. The kernel provides each page when it is first touched. */
int weir__memory_new(size_t size, void **ret_memory);

/* Allocates zeroed shared memory that has no name yet, so a process killed now leaves nothing behind. All of it is
 * reserved, so touching it later cannot fail. */
int weir__memory_new_shared(size_t size, uint32_t mode, void **ret_memory, int *ret_file);

/* Gives the complete memory its name, in one step. EEXIST: another process was faster. */
int weir__memory_publish(int file, const char *name);

/* Closes the file of weir__memory_new_shared; the memory stays. */
void weir__memory_close(int file);

/* Attaches to memory by its name. ENOENT: not found. ELOOP: a symbolic link. EISDIR: a directory. ENODEV: a FIFO, a
 * socket or a device. EINVAL: an empty file. EPERM: it belongs to another user, and not to root. The owner can write
 * anything into the memory. Attaching to another user's memory is therefore allowed only if `mode` has bits for others,
 * or has bits for the group while the memory has a group of this process and is not writable by others. */
int weir__memory_attach(const char *name, uint32_t mode, void **ret_memory, size_t *ret_size);

/* The same for a file by its path. weir__memory_open only opens it; weir__memory_map maps it. */
int weir__memory_open(const char *path, uint32_t mode, int *ret_file, size_t *ret_size);
int weir__memory_map(int file, size_t size, void **ret_memory);

/* Reserves space on the disk for all of a new file. ENOSPC: the file system has no room for it. Nothing is reserved then. */
int weir__memory_set_aside(int file, size_t size);

int weir__memory_unlink(const char *name);

/* Writes the path of shared memory. ENAMETOOLONG: a name of more than 250 bytes. */
enum { WEIR__MEMORY_PATH_SIZE = 264 };
int weir__memory_path(const char *name, char ret_path[WEIR__MEMORY_PATH_SIZE]);

/* The directory that has the shared memory. */
const char *weir__memory_folder(void);

/* What `ls -l` shows of named memory; mode is the permission bits. ENOENT: not found. */
struct weir__memory_status {
	uint64_t size_bytes;
	uint32_t owner, group, mode;
};

int weir__memory_status(const char *name, struct weir__memory_status *ret_status);
int weir__memory_file_status(const char *path, struct weir__memory_status *ret_status);

/* Visits the existing names, in the order of their bytes. A name may be gone by then, or not be memory. */
int weir__memory_each(void (*visit)(void *context, const char *name), void *context);

void weir__memory_free(void *memory, size_t size);

size_t weir__memory_page(void);

/* Overwrites bytes, even where a compiler would drop a memset because the bytes are not read again. */
void weir__memory_wipe(void *bytes, size_t n);

/* Fills in random bytes from the kernel, which are not predictable. */
int weir__memory_random(void *bytes, size_t n);

#endif
