/* file.c: replaces os/file.c and os/memory.c, so that opening a table makes no system calls. No other process has the
 * file, so locks always succeed. Written data counts as synced. */
#include "file.h"

#include <errno.h>
#include <sanitizer/asan_interface.h>
#include <string.h>

#include "os/file.h"
#include "os/memory.h"

enum { FILE_NUMBER = 3, PAGE = 4096 };

unsigned char fuzz_file[FUZZ_FILE_MOST] __attribute__((aligned(PAGE)));

static bool is_there;
static size_t file_size;

void fuzz_file_resize(size_t size)
{
	is_there = true;
	file_size = size;
	ASAN_UNPOISON_MEMORY_REGION(fuzz_file, size);
	ASAN_POISON_MEMORY_REGION(fuzz_file + size, sizeof(fuzz_file) - size);
}

/* --- memory.h --------------------------------------------------------------------------------------------------- */

int weir__memory_open(const char *path, uint32_t mode, int *ret_file, size_t *ret_size)
{
	(void)path;
	(void)mode;
	if (!is_there || file_size == 0)
		return is_there ? EINVAL : ENOENT;
	*ret_file = FILE_NUMBER;
	*ret_size = file_size;
	return 0;
}

int weir__memory_map(int file, size_t size, void **ret_memory)
{
	if (file != FILE_NUMBER || size != file_size)
		return EINVAL;
	fuzz_file_resize(size);
	*ret_memory = fuzz_file;
	return 0;
}

/* Not accessible until it is mapped again. */
void weir__memory_free(void *memory, size_t size)
{
	ASAN_POISON_MEMORY_REGION(memory, size);
}

size_t weir__memory_page(void)
{
	return PAGE;
}

/* The same secret for every table, so that an input always means the same. */
int weir__memory_random(void *bytes, size_t n)
{
	memset(bytes, 1, n);
	return 0;
}

/* Memory without a file is not available. */
int weir__memory_new(size_t size, void **ret_memory)
{
	(void)size;
	(void)ret_memory;
	return ENOMEM;
}

int weir__memory_new_shared(size_t size, uint32_t mode, void **ret_memory, int *ret_file)
{
	(void)mode;
	(void)ret_file;
	return weir__memory_new(size, ret_memory);
}

int weir__memory_attach(const char *name, uint32_t mode, void **ret_memory, size_t *ret_size)
{
	(void)name;
	(void)mode;
	(void)ret_memory;
	(void)ret_size;
	return ENOENT;
}

int weir__memory_publish(int file, const char *name)
{
	(void)file;
	(void)name;
	return ENOENT;
}

int weir__memory_path(const char *name, char ret_path[WEIR__MEMORY_PATH_SIZE])
{
	(void)name;
	(void)ret_path;
	return ENAMETOOLONG;
}

const char *weir__memory_folder(void)
{
	return ".";
}

int weir__memory_unlink(const char *name)
{
	(void)name;
	return ENOENT;
}

void weir__memory_close(int file)
{
	(void)file;
}

/* --- file.h ----------------------------------------------------------------------------------------------------- */

int weir__file_new(const char *path, size_t size, uint32_t mode, struct weir__new_file *ret_new)
{
	(void)path;
	(void)mode;
	if (size > FUZZ_FILE_MOST)
		return ENOSPC;
	fuzz_file_resize(size);
	memset(fuzz_file, 0, size);
	*ret_new = (struct weir__new_file){ .file = FILE_NUMBER };
	return 0;
}

int weir__file_publish(const struct weir__new_file *new_file, const char *path)
{
	(void)new_file;
	(void)path;
	return 0;
}

void weir__file_drop(const struct weir__new_file *new_file)
{
	(void)new_file;
	is_there = false;
}

void weir__file_close(int file)
{
	(void)file;
}

int weir__file_lock(int file, uint32_t byte, enum weir__file_lock lock)
{
	(void)file;
	(void)byte;
	(void)lock;
	return 0;
}

int weir__file_lock_within(int file, uint32_t byte, enum weir__file_lock lock, uint64_t patience_ms)
{
	(void)patience_ms;
	return weir__file_lock(file, byte, lock);
}

int weir__file_sync(int file)
{
	(void)file;
	return 0;
}

int weir__file_sync_memory(void *memory, size_t size)
{
	(void)memory;
	(void)size;
	return 0;
}

uint32_t weir__file_forks(void)
{
	return 0;
}
