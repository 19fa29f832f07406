/* mapping_guard.c: the handler of SIGBUS calls only async-signal-safe functions. It takes only its own lock, and no
 * code that holds this lock can raise SIGBUS. */
#include "os/mapping_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/memory.h"

enum {
	GUARDS_MOST = 8,
	REPEATS_MOST = 16,                  /* of one address, although the file has its size */
	COPIED_EACH_TIME = 4 * 1024 * 1024, /* a larger head is copied less often */
	NO_ROOM_TRIES = 50,                 /* a file system may have no room for a moment only */
	NO_ROOM_PAUSE_NS = 1000000,
};

struct weir__mapping_guard {
	unsigned char *memory;
	size_t size, head_bytes, page;
	int file;
	unsigned char *heads[2];
	_Atomic unsigned head; /* which of the two is complete */
	uint64_t looks;
	_Atomic bool is_mending;
	uintptr_t last_address; /* of SIGBUS; under is_mending */
	int repeats;
	_Atomic uint64_t truncations;
	_Atomic bool is_detached, is_named;
	char path[];
};

static struct weir__mapping_guard *_Atomic guards[GUARDS_MOST];
static struct sigaction before;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static size_t round_up(size_t n, size_t multiple)
{
	return (n + multiple - 1) / multiple * multiple;
}

static const unsigned char *head_of(const struct weir__mapping_guard *guard)
{
	return guard->heads[atomic_load(&guard->head)];
}

/* Whether to retry what has failed with errno. */
static bool is_to_retry(int *tries)
{
	const struct timespec pause = { .tv_nsec = NO_ROOM_PAUSE_NS };

	if (errno == EINTR)
		return true;
	if (errno != ENOSPC || ++*tries > NO_ROOM_TRIES)
		return false;
	(void)nanosleep(&pause, NULL);
	return true;
}

/* Writes the part of the head that was cut off, then extends the file. The other threads that touch the head meanwhile
 * wait in the handler, so they never see it empty. */
static bool extend(const struct weir__mapping_guard *guard, size_t at)
{
	int tries = 0;

	while (at < guard->head_bytes) {
		const ssize_t n = pwrite(guard->file, head_of(guard) + at, guard->head_bytes - at, (off_t)at);

		if (n <= 0 && !is_to_retry(&tries))
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	for (;;) {
		if (fallocate(guard->file, 0, 0, (off_t)guard->size) == 0)
			return true;
		if (errno == EOPNOTSUPP)
			return ftruncate(guard->file, (off_t)guard->size) == 0;
		if (!is_to_retry(&tries))
			return false;
	}
}

/* Replaces the pages from `from` on by memory. The head is complete before it is visible. */
static bool detach(const struct weir__mapping_guard *guard, size_t from, size_t end)
{
	const size_t head_end = round_up(guard->head_bytes, guard->page);
	const size_t rest = from > head_end ? from : head_end;

	if (from < head_end && from < end) {
		const size_t n = head_end - from;
		unsigned char *const copy = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (copy == MAP_FAILED)
			return false;
		memcpy(copy, head_of(guard) + from, guard->head_bytes - from);
		if (mremap(copy, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, guard->memory + from) == MAP_FAILED)
			return false;
	}
	return rest >= end || mmap(guard->memory + rest, end - rest, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static bool mend_truncated(struct weir__mapping_guard *guard, size_t at)
{
	const size_t from = round_up(at, guard->page);

	atomic_fetch_add(&guard->truncations, 1);
	if (extend(guard, at))
		return true;
	/* The page with the end of the file stays; the kernel has zeroed its rest. */
	if (at < guard->head_bytes && at < from)
		memcpy(guard->memory + at, head_of(guard) + at,
		       (from < guard->head_bytes ? from : guard->head_bytes) - at);
	atomic_store(&guard->is_detached, true);
	return detach(guard, from, guard->size);
}

/* The file has its size. So another thread has just extended it, or the page cannot be read or written. */
static bool mend_page(struct weir__mapping_guard *guard, uintptr_t address)
{
	const size_t at = (size_t)(address - (uintptr_t)guard->memory) / guard->page * guard->page;

	guard->repeats = address == guard->last_address ? guard->repeats + 1 : 0;
	guard->last_address = address;
	if (guard->repeats < REPEATS_MOST)
		return true;
	guard->repeats = 0;
	atomic_store(&guard->is_detached, true);
	return detach(guard, at, at + guard->page);
}

/* address 0: no page was touched. Returns false if it cannot repair the mapping. */
static bool mend(struct weir__mapping_guard *guard, uintptr_t address)
{
	struct stat status;
	bool done = true;

	while (atomic_exchange(&guard->is_mending, true))
		(void)sched_yield();
	if (fstat(guard->file, &status) != 0)
		done = false;
	else if ((size_t)status.st_size < guard->size && !atomic_load(&guard->is_detached))
		done = mend_truncated(guard, (size_t)status.st_size);
	else if (address != 0)
		done = mend_page(guard, address);
	atomic_store(&guard->is_mending, false);
	return done;
}

static struct weir__mapping_guard *find(uintptr_t address)
{
	for (int i = 0; i < GUARDS_MOST; i++) {
		struct weir__mapping_guard *const guard = atomic_load(&guards[i]);

		if (guard && address - (uintptr_t)guard->memory < guard->size)
			return guard;
	}
	return NULL;
}

static void handle(int signal, siginfo_t *info, void *context)
{
	const int saved = errno;
	struct weir__mapping_guard *const guard = find((uintptr_t)info->si_addr);
	const bool is_done = guard && mend(guard, (uintptr_t)info->si_addr);

	errno = saved;
	if (is_done)
		return;
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(signal, info, context);
	else
		(void)sigaction(SIGBUS, &before, NULL); /* it is raised again */
}

static void install(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	action.sa_sigaction = handle;
	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGBUS, &action, &before);
}

/* By words, since other threads write meanwhile. */
static void copy_head(struct weir__mapping_guard *guard)
{
	const unsigned next = 1 - atomic_load(&guard->head);
	uint64_t *const to = (uint64_t *)(void *)guard->heads[next];
	const uint64_t *const from = (const uint64_t *)(const void *)guard->memory;

	for (size_t i = 0; i < guard->head_bytes / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	atomic_store(&guard->head, next);
}

static void look_at_name(struct weir__mapping_guard *guard)
{
	struct stat named, status;

	atomic_store(&guard->is_named, fstat(guard->file, &status) == 0 && lstat(guard->path, &named) == 0 &&
					       named.st_ino == status.st_ino && named.st_dev == status.st_dev);
}

void weir__mapping_guard_look(struct weir__mapping_guard *guard)
{
	const uint64_t each = guard->head_bytes / COPIED_EACH_TIME + 1;

	(void)mend(guard, 0);
	look_at_name(guard);
	if (guard->looks++ % each == 0)
		copy_head(guard);
}

struct weir__mapping_state weir__mapping_guard_state(const struct weir__mapping_guard *guard)
{
	return (struct weir__mapping_state){ .truncations = atomic_load(&guard->truncations),
					     .is_detached = atomic_load(&guard->is_detached),
					     .is_named = atomic_load(&guard->is_named) };
}

static bool enter(struct weir__mapping_guard *guard)
{
	for (int i = 0; i < GUARDS_MOST; i++) {
		struct weir__mapping_guard *none = NULL;

		if (atomic_compare_exchange_strong(&guards[i], &none, guard))
			return true;
	}
	return false;
}

static void drop(struct weir__mapping_guard *guard)
{
	if (guard->file >= 0)
		close(guard->file);
	free(guard->heads[0]);
	free(guard->heads[1]);
	free(guard);
}

int weir__mapping_guard_new(void *memory, size_t size, const char *path, size_t head_bytes,
			    struct weir__mapping_guard **ret_guard)
{
	struct weir__mapping_guard *const guard = calloc(1, sizeof(*guard) + strlen(path) + 1);
	int error;

	if (guard == NULL)
		return ENOMEM;
	memcpy(guard->path, path, strlen(path) + 1);
	guard->memory = memory;
	guard->size = size;
	guard->head_bytes = head_bytes;
	guard->page = weir__memory_page();
	guard->heads[0] = malloc(head_bytes);
	guard->heads[1] = malloc(head_bytes);
	guard->file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	error = guard->file < 0 ? errno : guard->heads[0] && guard->heads[1] ? 0 : ENOMEM;
	if (error == 0) {
		copy_head(guard);
		look_at_name(guard);
		(void)pthread_once(&installed, install);
		error = enter(guard) ? 0 : EAGAIN;
	}
	if (error == 0)
		*ret_guard = guard;
	else
		drop(guard);
	return error;
}

void weir__mapping_guard_free(struct weir__mapping_guard *guard)
{
	if (guard == NULL)
		return;
	for (int i = 0; i < GUARDS_MOST; i++) {
		struct weir__mapping_guard *self = guard;

		(void)atomic_compare_exchange_strong(&guards[i], &self, NULL);
	}
	drop(guard);
}
