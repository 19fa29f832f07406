/* file.c: making, locking and syncing files. */
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/memory.h"

enum { TRY_EACH_MS = 1, NAME_TRIES = 100 };

/* Writes the directory of a path, in a form that can be opened. */
static int folder_of(const char *path, char folder[WEIR__FILE_PATH_MAX + 1])
{
	const char *const slash = strrchr(path, '/');
	const size_t length = slash ? (size_t)(slash - path) + 1 : 1;

	if (strlen(path) > WEIR__FILE_PATH_MAX)
		return ENAMETOOLONG;
	memcpy(folder, slash ? path : ".", length);
	folder[length] = '\0';
	return 0;
}

/* For file systems without O_TMPFILE. */
static int open_temporary(const char *path, struct weir__new_file *new_file)
{
	uint32_t number;
	int error;

	for (int i = 0; i < NAME_TRIES; i++) {
		error = weir__memory_random(&number, sizeof(number));
		if (error != 0)
			return error;
		if ((size_t)snprintf(new_file->temporary, sizeof(new_file->temporary), "%s.%08x", path,
				     (unsigned)number) >= sizeof(new_file->temporary))
			return ENAMETOOLONG;
		new_file->file = open(new_file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (new_file->file >= 0 || errno != EEXIST)
			break;
	}
	return new_file->file >= 0 ? 0 : errno;
}

int weir__file_new(const char *path, size_t size, uint32_t mode, struct weir__new_file *ret_new)
{
	char folder[WEIR__FILE_PATH_MAX + 1];
	int error = folder_of(path, folder);

	if (error != 0)
		return error;
	ret_new->temporary[0] = '\0';
	ret_new->file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (ret_new->file < 0)
		error = errno == EOPNOTSUPP || errno == EISDIR ? open_temporary(path, ret_new) : errno;
	if (error != 0)
		return error;
	error = weir__memory_set_aside(ret_new->file, size);
	if (error == 0 && fchmod(ret_new->file, (mode_t)mode) != 0) /* the exact mode, whatever the umask */
		error = errno;
	if (error != 0)
		weir__file_drop(ret_new);
	return error;
}

/* Makes the name survive a power cut. Some file systems do not support this (EINVAL), and then need nothing. */
static int sync_folder(const char *path)
{
	char folder[WEIR__FILE_PATH_MAX + 1];
	int file, error = folder_of(path, folder);

	if (error != 0)
		return error;
	file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (file < 0)
		return errno == EACCES ? 0 : errno; /* a directory may be writable and not readable */
	if (fsync(file) != 0 && errno != EINVAL)
		error = errno;
	close(file);
	return error;
}

int weir__file_publish(const struct weir__new_file *new_file, const char *path)
{
	char unnamed[64];
	const char *from = new_file->temporary;
	int error = weir__file_sync(new_file->file);

	if (error != 0)
		return error;
	if (*from == '\0') {
		(void)snprintf(unnamed, sizeof(unnamed), "/proc/self/fd/%d", new_file->file);
		from = unnamed;
	}
	if (linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
		return errno;
	if (new_file->temporary[0] != '\0')
		unlink(new_file->temporary);
	return sync_folder(path);
}

void weir__file_drop(const struct weir__new_file *new_file)
{
	if (new_file->temporary[0] != '\0')
		unlink(new_file->temporary);
	close(new_file->file);
}

void weir__file_close(int file)
{
	close(file);
}

int weir__file_lock(int file, uint32_t byte, enum weir__file_lock lock)
{
	static const short types[] = { F_UNLCK, F_RDLCK, F_WRLCK };
	struct flock wanted = { .l_type = types[lock], .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	if (fcntl(file, F_OFD_SETLK, &wanted) == 0)
		return 0;
	return errno == EACCES ? EAGAIN : errno;
}

int weir__file_lock_within(int file, uint32_t byte, enum weir__file_lock lock, uint64_t patience_ms)
{
	static const struct timespec a_while = { .tv_nsec = 1000000 }; /* TRY_EACH_MS */
	int error = weir__file_lock(file, byte, lock);

	for (uint64_t waited = 0; error == EAGAIN && waited < patience_ms; waited += TRY_EACH_MS) {
		(void)nanosleep(&a_while, NULL);
		error = weir__file_lock(file, byte, lock);
	}
	return error;
}

int weir__file_sync(int file)
{
	return fdatasync(file) == 0 ? 0 : errno;
}

int weir__file_sync_memory(void *memory, size_t size)
{
	const uintptr_t page = weir__memory_page(), start = (uintptr_t)memory / page * page;

	return msync((void *)start, size + (uintptr_t)memory - start, MS_SYNC) == 0 ? 0 : errno;
}

static _Atomic uint32_t forks;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
	atomic_fetch_add(&forks, 1);
}

static void watch(void)
{
	(void)pthread_atfork(count_fork, NULL, NULL);
}

uint32_t weir__file_forks(void)
{
	pthread_once(&watched, watch);
	return atomic_load(&forks);
}
