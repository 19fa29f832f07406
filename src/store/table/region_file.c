/* region_file.c: opens the file of a table, or creates it.
 *
 * Two bytes of the file are locked. Every process that has the file open holds a shared lock on IN_USE. A process that
 * gets it exclusively is alone. Processes try for that when they open or close the file, and only while they hold GATE,
 * which one process holds at a time. So a process that is not alone always finds a table that has been recovered, even
 * if others were killed during recovery. Locks belong to the open file description and end with it, so dead processes
 * hold none. Every wait has a limit.
 *
 * After a fork, the child shares the open file description. The file is in use until both have closed it, which is
 * right. But each of them would get the exclusive lock while the other still decides. So a process that has forked does
 * not close cleanly. The next process that opens the file then checks all slots instead of the checksums. */
#include "store/table/region_file.h"

#include <errno.h>

#include "core/text.h"
#include "os/file.h"
#include "os/memory.h"

enum {
	IN_USE = 0,
	GATE = 1,
	MODE_DEFAULT = 0600,
	OPEN_TRIES = 100,
	/* How long to wait for GATE. Its holder may be reading all of the file, at 64 MiB per second or more. */
	PATIENCE_MS = 5000,
};

static uint64_t patience_ms(size_t size)
{
	return PATIENCE_MS + (size >> 16);
}

/* Puts the path of the file in front of the message. */
static int name_file(struct weir_message *ret_message, const char *path, int error)
{
	struct weir_message why;
	struct weir__text named;

	if (ret_message == NULL || error == WEIR_OK)
		return error;
	why = *ret_message;
	named = weir__text_of_message(ret_message, 0);
	weir__text_add(&named, "file ");
	weir__text_add_quoted(&named, path, strlen(path));
	weir__text_add(&named, ": ");
	weir__text_add(&named, why.text);
	return error;
}

static int fail(struct weir_message *ret_message, int error, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return error;
}

static int fail_system(struct weir_message *ret_message, int system_error)
{
	char room[128];

	errno = system_error;
	return fail(ret_message, WEIR_ERR_SYSTEM, strerror_r(system_error, room, sizeof(room)));
}

static int fail_to_open(struct weir_message *ret_message, int system_error)
{
	const struct weir__region_refusal refusal = weir__region_refusal(system_error);

	return refusal.why ? fail(ret_message, refusal.error, refusal.why) : fail_system(ret_message, system_error);
}

/* Locks GATE, then IN_USE. GATE stays locked. */
static int lock_in_use(int file, size_t size, bool *ret_is_alone)
{
	int error = weir__file_lock_within(file, GATE, WEIR__FILE_EXCLUSIVE, patience_ms(size));

	if (error != 0)
		return error;
	error = weir__file_lock(file, IN_USE, WEIR__FILE_EXCLUSIVE);
	*ret_is_alone = error == 0;
	return error == EAGAIN ? weir__file_lock(file, IN_USE, WEIR__FILE_SHARED) : error;
}

/* The caller holds GATE. */
static int attach_locked(struct weir__region *region, const struct weir_table_options *options, int file, size_t size,
			 bool is_alone, struct weir_message *ret_message)
{
	struct weir__region_header header = { 0 };
	void *memory;
	int error = weir__memory_map(file, size, &memory);

	if (error != 0)
		return fail_system(ret_message, error);
	if (size >= sizeof(header))
		memcpy(&header, memory, sizeof(header)); /* the copy is both checked and used */
	error = weir__region_check_header(&header, size, options, ret_message);
	if (error == WEIR_OK) {
		weir__region_lay_out(region, memory, &header);
		region->file = file;
		region->forks = weir__file_forks();
		if (is_alone)
			error = weir__region_recover(region, weir_clock_now());
		if (error != 0)
			error = fail_system(ret_message, error);
	}
	if (error != WEIR_OK)
		weir__memory_free(memory, size);
	return error;
}

/* WEIR_ERR_SYSTEM with *ret_missing set: the file does not exist. */
static int attach(struct weir__region *region, const struct weir_table_options *options, bool *ret_missing,
		  struct weir_message *ret_message)
{
	bool is_alone;
	size_t size;
	int file, error = weir__memory_open(options->file, options->mode, &file, &size);

	*ret_missing = error == ENOENT;
	if (error != 0)
		return fail_to_open(ret_message, error);
	error = lock_in_use(file, size, &is_alone);
	if (error == EAGAIN) {
		errno = error;
		error = fail(ret_message, WEIR_ERR_SYSTEM,
			     "another process has held its lock for seconds, while it opens or closes the table");
	} else if (error != 0) {
		error = fail_system(ret_message, error);
	} else {
		error = attach_locked(region, options, file, size, is_alone, ret_message);
	}
	if (error != WEIR_OK) {
		weir__file_close(file);
		return error;
	}
	/* From exclusive to shared, then release GATE. Neither call has to wait. */
	(void)weir__file_lock(file, IN_USE, WEIR__FILE_SHARED);
	(void)weir__file_lock(file, GATE, WEIR__FILE_UNLOCKED);
	return WEIR_OK;
}

/* The file is complete, and locked as in use by this process, before other processes can see it. */
static int make(struct weir__region *region, const struct weir_table_options *options, bool *ret_exists,
		struct weir_message *ret_message)
{
	struct weir__new_file made;
	void *memory;
	int error = weir__region_check_size(options, ret_message);

	*ret_exists = false;
	if (error != WEIR_OK)
		return error;
	error = weir__file_new(options->file, options->size_bytes, options->mode ? options->mode : MODE_DEFAULT, &made);
	if (error != 0)
		return fail_system(ret_message, error);
	error = weir__memory_map(made.file, options->size_bytes, &memory);
	if (error != 0) {
		weir__file_drop(&made);
		return fail_system(ret_message, error);
	}
	error = weir__region_fill_in(region, memory, options, ret_message);
	if (error == WEIR_OK) {
		region->file = made.file;
		region->forks = weir__file_forks();
		weir__region_mark_pages(region);
		error = weir__file_lock(made.file, IN_USE, WEIR__FILE_SHARED);
		if (error == 0)
			error = weir__file_publish(&made, options->file);
		*ret_exists = error == EEXIST;
		if (error != 0)
			error = fail_system(ret_message, error);
	}
	if (error != WEIR_OK) {
		weir__memory_free(memory, options->size_bytes);
		weir__file_drop(&made);
	}
	return error;
}

int weir__region_file_open(struct weir__region *region, const struct weir_table_options *options,
			   struct weir_message *ret_message)
{
	const size_t length = strlen(options->file);
	bool again = length > 0 && length <= WEIR__FILE_PATH_MAX;
	int error = again ? WEIR_OK : fail(ret_message, WEIR_ERR_LIMIT, "invalid path; use 1 to 4095 bytes");

	/* Other processes may create and remove it meanwhile, but the number of tries is limited. */
	for (int i = 0; again && i < OPEN_TRIES; i++) {
		error = attach(region, options, &again, ret_message);
		if (again)
			error = make(region, options, &again, ret_message);
	}
	return name_file(ret_message, options->file, error);
}

/* Whether parts of the memory are not in the file any more. Then it cannot be closed cleanly. */
static bool is_detached(const struct weir__region *region)
{
	return region->guard && weir__mapping_guard_state(region->guard).is_detached;
}

void weir__region_file_close(struct weir__region *region)
{
	const int file = region->file;

	/* If GATE is locked, another process is about to use the file, so this process is not the last. */
	if (region->forks == weir__file_forks() && !is_detached(region) &&
	    weir__file_lock(file, GATE, WEIR__FILE_EXCLUSIVE) == 0 &&
	    weir__file_lock(file, IN_USE, WEIR__FILE_EXCLUSIVE) == 0)
		(void)weir__region_seal(region);
	weir__file_close(file);
	region->file = -1;
}

int weir__region_file_sync(const struct weir__region *region)
{
	const int error = region->file < 0 ? 0 : weir__file_sync(region->file);

	if (error == 0)
		return WEIR_OK;
	errno = error;
	return WEIR_ERR_SYSTEM;
}
