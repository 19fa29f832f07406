/* memory.c: mappings, and shared memory in /dev/shm. */
#include "os/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The prefix of file names, because other programs use the directory, too. */
static const char folder[] = "/dev/shm", prefix[] = "weir.";

enum { HUGE_PAGE = 2 << 20, PIECE = 16 << 20 };

/* Only advice: without huge pages, small ones do. */
static void ask_for_huge_pages(void *memory, size_t size)
{
	if (size >= HUGE_PAGE)
		(void)madvise(memory, size, MADV_HUGEPAGE);
}

/* The mapping begins at a multiple of the huge page size. */
int weir__memory_new(size_t size, void **ret_memory)
{
	const size_t spare = size >= HUGE_PAGE ? HUGE_PAGE : 0;
	unsigned char *const whole = mmap(NULL, size + spare, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (whole == MAP_FAILED)
		return errno;
	before = spare ? (HUGE_PAGE - (uintptr_t)whole % HUGE_PAGE) % HUGE_PAGE : 0;
	if (before > 0)
		munmap(whole, before);
	if (spare - before > 0)
		munmap(whole + before + size, spare - before);
	ask_for_huge_pages(whole + before, size);
	*ret_memory = whole + before;
	return 0;
}

int weir__memory_map(int file, size_t size, void **ret_memory)
{
	void *const memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	if (memory == MAP_FAILED)
		return errno;
	ask_for_huge_pages(memory, size);
	*ret_memory = memory;
	return 0;
}

/* Whether the file system has room for a new file. An allocation that fails in the middle would first fill the file system,
 * or the memory of the machine, and other programs would fail. */
static int check_room(int file, size_t size)
{
	struct statvfs status;

	if (fstatvfs(file, &status) != 0)
		return errno;
	if (status.f_blocks == 0) /* a file system without a limit */
		return 0;
	return size / status.f_frsize + (size % status.f_frsize != 0) > status.f_bavail ? ENOSPC : 0;
}

/* In pieces, because some kernels undo the entire allocation at any signal. */
int weir__memory_set_aside(int file, size_t size)
{
	const int error = check_room(file, size);

	if (error != 0)
		return error;
	for (size_t done = 0; done < size;) {
		const size_t piece = size - done < PIECE ? size - done : PIECE;
		const int failed = posix_fallocate(file, (off_t)done, (off_t)piece);

		if (failed == 0)
			done += piece;
		else if (failed != EINTR)
			return failed;
	}
	return 0;
}

int weir__memory_new_shared(size_t size, uint32_t mode, void **ret_memory, int *ret_file)
{
	const int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int error;

	if (file < 0)
		return errno;
	error = weir__memory_set_aside(file, size);
	if (error == 0 && fchmod(file, (mode_t)mode) != 0) /* not by open: the exact mode, whatever the umask */
		error = errno;
	if (error == 0)
		error = weir__memory_map(file, size, ret_memory);
	if (error == 0)
		*ret_file = file;
	else
		close(file);
	return error;
}

int weir__memory_path(const char *name, char ret_path[WEIR__MEMORY_PATH_SIZE])
{
	const int length = snprintf(ret_path, WEIR__MEMORY_PATH_SIZE, "%s/%s%s", folder, prefix, name);

	return length < 0 || length >= WEIR__MEMORY_PATH_SIZE ? ENAMETOOLONG : 0;
}

int weir__memory_publish(int file, const char *name)
{
	char from[64], to[WEIR__MEMORY_PATH_SIZE];
	int error = weir__memory_path(name, to);

	if (error != 0)
		return error;
	(void)snprintf(from, sizeof(from), "/proc/self/fd/%d", file);
	return linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

void weir__memory_close(int file)
{
	close(file);
}

static bool is_own_group(gid_t group)
{
	gid_t groups[NGROUPS_MAX];
	const int n = getgroups(NGROUPS_MAX, groups);

	for (int i = 0; i < n; i++)
		if (groups[i] == group)
			return true;
	return group == getegid();
}

static bool is_trusted(const struct stat *status, uint32_t mode)
{
	if (status->st_uid == geteuid() || status->st_uid == 0 || mode & S_IRWXO)
		return true;
	return mode & S_IRWXG && is_own_group(status->st_gid) && !(status->st_mode & S_IWOTH);
}

int weir__memory_open(const char *path, uint32_t mode, int *ret_file, size_t *ret_size)
{
	const int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat status;
	int error = 0;

	if (file < 0)
		return errno == ENXIO ? ENODEV : errno;
	if (fstat(file, &status) != 0)
		error = errno;
	else if (!S_ISREG(status.st_mode))
		error = ENODEV;
	else if (status.st_size <= 0)
		error = EINVAL;
	else if (!is_trusted(&status, mode))
		error = EPERM;
	if (error != 0) {
		close(file);
		return error;
	}
	*ret_file = file;
	*ret_size = (size_t)status.st_size;
	return 0;
}

int weir__memory_attach(const char *name, uint32_t mode, void **ret_memory, size_t *ret_size)
{
	char path[WEIR__MEMORY_PATH_SIZE];
	size_t size = 0;
	int file = -1, error = weir__memory_path(name, path);

	if (error == 0)
		error = weir__memory_open(path, mode, &file, &size);
	if (error != 0)
		return error;
	error = weir__memory_map(file, size, ret_memory);
	if (error == 0)
		*ret_size = size;
	close(file);
	return error;
}

int weir__memory_unlink(const char *name)
{
	char path[WEIR__MEMORY_PATH_SIZE];
	const int error = weir__memory_path(name, path);

	if (error != 0)
		return error;
	return unlink(path) == 0 ? 0 : errno;
}

const char *weir__memory_folder(void)
{
	return folder;
}

int weir__memory_status(const char *name, struct weir__memory_status *ret_status)
{
	char path[WEIR__MEMORY_PATH_SIZE];
	const int error = weir__memory_path(name, path);

	return error == 0 ? weir__memory_file_status(path, ret_status) : error;
}

int weir__memory_file_status(const char *path, struct weir__memory_status *ret_status)
{
	struct stat status;

	if (lstat(path, &status) != 0)
		return errno;
	*ret_status = (struct weir__memory_status){ (uint64_t)status.st_size, status.st_uid, status.st_gid,
						    status.st_mode & 07777 };
	return 0;
}

static int has_prefix(const struct dirent *entry)
{
	return strncmp(entry->d_name, prefix, sizeof(prefix) - 1) == 0 && entry->d_name[sizeof(prefix) - 1] != '\0';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int weir__memory_each(void (*visit)(void *context, const char *name), void *context)
{
	struct dirent **entries;
	const int n = scandir(folder, &entries, has_prefix, by_bytes);

	if (n < 0)
		return errno;
	for (int i = 0; i < n; i++) {
		visit(context, entries[i]->d_name + sizeof(prefix) - 1);
		free(entries[i]);
	}
	free(entries);
	return 0;
}

void weir__memory_free(void *memory, size_t size)
{
	munmap(memory, size);
}

size_t weir__memory_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

void weir__memory_wipe(void *bytes, size_t n)
{
	if (n > 0) /* bytes may be NULL */
		explicit_bzero(bytes, n);
}

int weir__memory_random(void *bytes, size_t n)
{
	unsigned char *at = bytes;

	while (n > 0) {
		const ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno != EINTR)
			return errno;
		if (got > 0) {
			at += got;
			n -= (size_t)got;
		}
	}
	return 0;
}
