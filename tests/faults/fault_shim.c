/* fault_shim.c: makes one call of malloc or of the kernel fail. Load it with LD_PRELOAD.
 *
 * A site is a call of one of the functions below from the program, libyaml or jansson. It is written as MODULE+OFFSET
 * FUNCTION, which is the same in every run of a binary.
 *
 *     FAULT_SITES=FILE   appends each site that is reached, once per process
 *     FAULT_SITE=SITE    the first call from this site fails
 *     FAULT_DONE=FILE    created when the call has failed, in any process; no other call fails then */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netdb.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#pragma GCC visibility push(default) /* replaces functions of libc */

enum { MODULES = 3, SITES = 1 << 14, LINE = 160 };

static struct module {
	const char *name;
	uintptr_t begin, end, base;
} modules[MODULES] = { { "weir", 0, 0, 0 }, { "libyaml", 0, 0, 0 }, { "libjansson", 0, 0, 0 } };

static _Atomic uintptr_t seen[SITES];
static atomic_bool is_ready;
static const char *sites_path, *target, *done_path;

static int find_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct module *module = NULL;

	(void)size;
	(void)context;
	if (info->dlpi_name[0] == '\0' && modules[0].end == 0)
		module = &modules[0];
	for (int i = 1; i < MODULES; i++)
		if (strstr(info->dlpi_name, modules[i].name))
			module = &modules[i];
	if (module == NULL)
		return 0;
	module->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
			module->begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			module->end = module->begin + info->dlpi_phdr[i].p_memsz;
		}
	return 0;
}

__attribute__((constructor)) static void begin(void)
{
	dl_iterate_phdr(find_module, NULL);
	sites_path = getenv("FAULT_SITES");
	target = getenv("FAULT_SITE");
	done_path = getenv("FAULT_DONE");
	atomic_store(&is_ready, true);
}

/* Returns the length of the site's line, 0 if the caller is in another module. */
static int write_site(uintptr_t caller, const char *function, char line[LINE])
{
	for (int i = 0; i < MODULES; i++)
		if (caller >= modules[i].begin && caller < modules[i].end)
			return snprintf(line, LINE, "%s+%lx %s", modules[i].name,
					(unsigned long)(caller - modules[i].base), function);
	return 0;
}

/* Whether this process reaches the site for the first time. */
static bool is_new(uintptr_t caller)
{
	for (size_t i = caller % SITES;; i = (i + 1) % SITES) {
		uintptr_t found = atomic_load(&seen[i]);

		if (found == 0 && atomic_compare_exchange_strong(&seen[i], &found, caller))
			return true;
		if (found == caller)
			return false;
	}
}

/* Must not call a function of this file, so it opens files by syscall(). */
static bool fails(void *caller, const char *function)
{
	const int error = errno;
	bool is_failing = false;
	char line[LINE];
	int n;

	if (!atomic_load(&is_ready) || (sites_path == NULL && target == NULL) || !is_new((uintptr_t)caller))
		return false;
	n = write_site((uintptr_t)caller, function, line);
	if (n > 0 && sites_path) {
		const int file = (int)syscall(SYS_openat, AT_FDCWD, sites_path,
					      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

		line[n] = '\n';
		(void)syscall(SYS_write, file, line, n + 1);
		(void)syscall(SYS_close, file);
	} else if (n > 0 && strcmp(line, target) == 0) {
		const int file = (int)syscall(SYS_openat, AT_FDCWD, done_path, O_WRONLY | O_EXCL | O_CREAT | O_CLOEXEC,
					      0600);

		is_failing = file >= 0;
		if (file >= 0)
			(void)syscall(SYS_close, file);
	}
	errno = error;
	return is_failing;
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t size)
{
	return fails(__builtin_return_address(0), "malloc") ? no_memory() : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails(__builtin_return_address(0), "calloc") ? no_memory() : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
	return fails(__builtin_return_address(0), "realloc") ? no_memory() : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return fails(__builtin_return_address(0), "aligned_alloc") ? no_memory() : __libc_memalign(alignment, size);
}

char *strdup(const char *text)
{
	const size_t size = strlen(text) + 1;
	char *const copy = fails(__builtin_return_address(0), "strdup") ? no_memory() : __libc_malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

/* --- the kernel -------------------------------------------------------------------------------------------------- */

/* Defines a libc function that can fail with a value and an errno. */
#define SHIM(type, name, failed, error, parameters, arguments)                                                         \
	type name parameters                                                                                           \
	{                                                                                                              \
		static type(*next) parameters;                                                                         \
                                                                                                                       \
		if (fails(__builtin_return_address(0), #name)) {                                                       \
			errno = error;                                                                                 \
			return failed;                                                                                 \
		}                                                                                                      \
		if (next == NULL)                                                                                      \
			*(void **)&next = dlsym(RTLD_NEXT, #name);                                                     \
		return next arguments;                                                                                 \
	}

/* The same for a function with an optional last argument. */
#define SHIM_MORE(type, name, failed, error, parameters, last, more, arguments)                                        \
	type name parameters                                                                                           \
	{                                                                                                              \
		static type(*next) parameters;                                                                         \
		va_list list;                                                                                          \
		long more;                                                                                             \
                                                                                                                       \
		va_start(list, last);                                                                                  \
		more = va_arg(list, long);                                                                             \
		va_end(list);                                                                                          \
		if (fails(__builtin_return_address(0), #name)) {                                                       \
			errno = error;                                                                                 \
			return failed;                                                                                 \
		}                                                                                                      \
		if (next == NULL)                                                                                      \
			*(void **)&next = dlsym(RTLD_NEXT, #name);                                                     \
		return next arguments;                                                                                 \
	}

/* clang-format off */
SHIM_MORE(int, open64, -1, EMFILE, (const char *path, int flags, ...), flags, mode, (path, flags, mode))
SHIM_MORE(int, fcntl64, -1, ENOLCK, (int file, int command, ...), command, argument, (file, command, argument))
SHIM(int, __open64_2, -1, EMFILE, (const char *path, int flags), (path, flags))
SHIM(FILE *, fopen64, NULL, EMFILE, (const char *path, const char *mode), (path, mode))
SHIM(ssize_t, read, -1, EIO, (int file, void *bytes, size_t n), (file, bytes, n))
SHIM(ssize_t, pread64, -1, EIO, (int file, void *bytes, size_t n, off64_t at), (file, bytes, n, at))
SHIM(ssize_t, write, -1, ENOSPC, (int file, const void *bytes, size_t n), (file, bytes, n))
SHIM(ssize_t, pwrite64, -1, ENOSPC, (int file, const void *bytes, size_t n, off64_t at), (file, bytes, n, at))
SHIM(int, ftruncate64, -1, ENOSPC, (int file, off64_t size), (file, size))
SHIM(int, fallocate64, -1, ENOSPC, (int file, int mode, off64_t at, off64_t n), (file, mode, at, n))
SHIM(int, posix_fallocate64, ENOSPC, 0, (int file, off64_t at, off64_t n), (file, at, n))
SHIM(int, fstat64, -1, EIO, (int file, struct stat64 *status), (file, status))
SHIM(int, stat64, -1, EACCES, (const char *path, struct stat64 *status), (path, status))
SHIM(int, lstat64, -1, EACCES, (const char *path, struct stat64 *status), (path, status))
SHIM(int, statvfs64, -1, EIO, (const char *path, struct statvfs64 *status), (path, status))
SHIM(int, fsync, -1, EIO, (int file), (file))
SHIM(int, fdatasync, -1, EIO, (int file), (file))
SHIM(int, rename, -1, EIO, (const char *from, const char *to), (from, to))
SHIM(int, unlink, -1, EACCES, (const char *path), (path))
SHIM(int, chmod, -1, EPERM, (const char *path, mode_t mode), (path, mode))
SHIM(int, fchmod, -1, EPERM, (int file, mode_t mode), (file, mode))
SHIM(void *, mmap64, MAP_FAILED, ENOMEM, (void *at, size_t n, int protection, int flags, int file, off64_t offset), (at, n, protection, flags, file, offset))
SHIM(int, msync, -1, EIO, (void *at, size_t n, int flags), (at, n, flags))
SHIM(int, madvise, -1, EAGAIN, (void *at, size_t n, int advice), (at, n, advice))
SHIM(int, shm_open, -1, EMFILE, (const char *name, int flags, mode_t mode), (name, flags, mode))
SHIM(int, shm_unlink, -1, EACCES, (const char *name), (name))
SHIM(int, socket, -1, EMFILE, (int domain, int type, int protocol), (domain, type, protocol))
SHIM(int, bind, -1, EADDRNOTAVAIL, (int file, const struct sockaddr *address, socklen_t n), (file, address, n))
SHIM(int, listen, -1, EADDRINUSE, (int file, int backlog), (file, backlog))
SHIM(int, accept4, -1, ENFILE, (int file, struct sockaddr *address, socklen_t *n, int flags), (file, address, n, flags))
SHIM(int, connect, -1, ENETUNREACH, (int file, const struct sockaddr *address, socklen_t n), (file, address, n))
SHIM(ssize_t, recv, -1, ECONNRESET, (int file, void *bytes, size_t n, int flags), (file, bytes, n, flags))
SHIM(ssize_t, send, -1, ECONNRESET, (int file, const void *bytes, size_t n, int flags), (file, bytes, n, flags))
SHIM(int, setsockopt, -1, ENOBUFS, (int file, int level, int name, const void *value, socklen_t n), (file, level, name, value, n))
SHIM(int, getsockopt, -1, ENOBUFS, (int file, int level, int name, void *value, socklen_t *n), (file, level, name, value, n))
SHIM(int, getsockname, -1, ENOBUFS, (int file, struct sockaddr *address, socklen_t *n), (file, address, n))
SHIM(int, getpeername, -1, ENOTCONN, (int file, struct sockaddr *address, socklen_t *n), (file, address, n))
SHIM(int, getaddrinfo, EAI_MEMORY, ENOMEM, (const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found), (name, service, hints, found))
SHIM(int, epoll_create1, -1, EMFILE, (int flags), (flags))
SHIM(int, epoll_ctl, -1, ENOSPC, (int file, int operation, int of, struct epoll_event *event), (file, operation, of, event))
SHIM(int, eventfd, -1, EMFILE, (unsigned value, int flags), (value, flags))
SHIM(int, pipe2, -1, EMFILE, (int files[2], int flags), (files, flags))
SHIM(int, timerfd_create, -1, EMFILE, (clockid_t clock, int flags), (clock, flags))
SHIM(int, inotify_init1, -1, EMFILE, (int flags), (flags))
SHIM(int, inotify_add_watch, -1, ENOSPC, (int file, const char *path, uint32_t mask), (file, path, mask))
SHIM(ssize_t, getrandom, -1, ENOSYS, (void *bytes, size_t n, unsigned flags), (bytes, n, flags))
SHIM(int, pthread_create, EAGAIN, EAGAIN, (pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context), (thread, attributes, run, context))
SHIM(int, posix_spawnp, EAGAIN, EAGAIN, (pid_t *process, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const argv[], char *const environment[]), (process, file, actions, attributes, argv, environment))
/* clang-format on */
