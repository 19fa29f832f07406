/* region_file.c: opens the file of a table, or makes it.
 *
 * Two bytes of the file are locked. IN_USE is locked by all who have it open, shared; who gets it exclusively is alone. Who
 * opens or closes the file asks for that behind GATE, which is passed one at a time: so whoever is not alone comes to a
 * table that somebody has recovered, also if others were killed while they were at it. Locks belong to the opening of the
 * file and go with it, so the dead hold none. Nobody waits without end.
 *
 * A child after fork has the same opening. The file is in use until both have closed it, as it should be; but each of them
 * would get the exclusive lock while the other one decides. So who has forked does not close cleanly: whoever opens the
 * file next then looks at all slots instead of checksums. */
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
	/* To pass the gate: somebody may be reading all of the file, at 64 MiB a second at least. */
	PATIENCE_MS = 5000,
};

static uint64_t patience_ms(size_t size)
{
	return PATIENCE_MS + (size >> 16);
}

/* Says of which file it is. */
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
	switch (system_error) {
	case EINVAL:
		return fail(ret_message, WEIR_ERR_REGION, "this is no table of Weir's");
	case EPERM:
		return fail(ret_message, WEIR_ERR_REGION,
			    "it belongs to another user; ask for a mode with bits for others if that is meant");
	default:
		return fail_system(ret_message, system_error);
	}
}

/* Through the gate, which stays locked. */
static int lock_in_use(int file, size_t size, bool *ret_is_alone)
{
	int error = weir__file_lock_within(file, GATE, WEIR__FILE_EXCLUSIVE, patience_ms(size));

	if (error != 0)
		return error;
	error = weir__file_lock(file, IN_USE, WEIR__FILE_EXCLUSIVE);
	*ret_is_alone = error == 0;
	return error == EAGAIN ? weir__file_lock(file, IN_USE, WEIR__FILE_SHARED) : error;
}

/* Behind the gate. */
static int attach_locked(struct weir__region *region, const struct weir_table_options *options, int file, size_t size,
			 bool is_alone, struct weir_message *ret_message)
{
	struct weir__region_header header = { 0 };
	void *memory;
	int error = weir__memory_map(file, size, &memory);

	if (error != 0)
		return fail_system(ret_message, error);
	if (size >= sizeof(header))
		memcpy(&header, memory, sizeof(header)); /* what is checked is what is used */
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

/* WEIR_ERR_SYSTEM with *ret_missing set: there is no such file. */
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
			     "somebody else has been opening or closing it for seconds, and holds it locked");
	} else if (error != 0) {
		error = fail_system(ret_message, error);
	} else {
		error = attach_locked(region, options, file, size, is_alone, ret_message);
	}
	if (error != WEIR_OK) {
		weir__file_close(file);
		return error;
	}
	/* From exclusive to shared, and out of the way: neither has to wait. */
	(void)weir__file_lock(file, IN_USE, WEIR__FILE_SHARED);
	(void)weir__file_lock(file, GATE, WEIR__FILE_UNLOCKED);
	return WEIR_OK;
}

/* Whole, and in use by this process, before others can see it. */
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
	int error = again ? WEIR_OK : fail(ret_message, WEIR_ERR_LIMIT, "a path has 1 to 4095 bytes");

	/* Others may make and remove it meanwhile; not for ever. */
	for (int i = 0; again && i < OPEN_TRIES; i++) {
		error = attach(region, options, &again, ret_message);
		if (again)
			error = make(region, options, &again, ret_message);
	}
	return name_file(ret_message, options->file, error);
}

void weir__region_file_close(struct weir__region *region)
{
	const int file = region->file;

	/* If the gate is locked somebody is about to use the file: then this one is not the last. */
	if (region->forks == weir__file_forks() && weir__file_lock(file, GATE, WEIR__FILE_EXCLUSIVE) == 0 &&
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
