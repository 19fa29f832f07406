/* region_file.h: the memory of a table in a file, which outlives the last process that uses it, and a reboot.
 *
 * Every process that has the file open holds a shared lock on it. A process that opens the file and gets the exclusive
 * lock is alone with it and recovers it, since the state in which the last processes left it is unknown. A file can be
 * older than the last charges (the kernel writes pages when it likes), and can hold pages of different ages, or bytes
 * that no process wrote.
 *
 * So a page of slots begins with a mark, a slot that belongs to no key. It holds 32 bits of a keyed hash of the page's
 * number and 28 bits of a keyed hash of its contents. The 28 bits are valid only if the table was closed cleanly. A
 * page without its mark was damaged and is emptied. A slot never crosses a disk sector, so it has either its old or its
 * new content, even if a write of its page was torn. The reasons are in docs/internals/table-files.md. */
#ifndef WEIR_STORE_TABLE_REGION_FILE_H
#define WEIR_STORE_TABLE_REGION_FILE_H

#include "store/table/region.h"

enum {
	WEIR__PAGE_BYTES = 4096, /* of a file, whatever the page size of the processor */
	WEIR__PAGE_SLOTS = WEIR__PAGE_BYTES / 16,
};

/* Attaches to the file options->file, or creates it. */
int weir__region_file_open(struct weir__region *region, const struct weir_table_options *options,
			   struct weir_message *ret_message);

/* Closes the file, cleanly if this process is the last to use it. The memory stays mapped. */
void weir__region_file_close(struct weir__region *region);

/* weir_table_sync. */
int weir__region_file_sync(const struct weir__region *region);

/* How many slots are marks. */
static inline uint64_t weir__region_marks(const struct weir__region *region)
{
	return region->file < 0 ? 0 : region->lines * WEIR__LINE_SLOTS / WEIR__PAGE_SLOTS;
}

/* Writes the marks of new memory. */
void weir__region_mark_pages(const struct weir__region *region);

/* Writes the marks of pages that were lost while the table is in use. A key that got the place of a mark is lost. */
void weir__region_mark_lost_pages(const struct weir__region *region);

/* Repairs the table that is found in a file. The caller must be alone with it. If it is killed at any point, recovery
 * can simply run again. `now` is the time of day. Returns 0 or an errno from writing to the disk. */
int weir__region_recover(struct weir__region *region, weir_ns now);

/* Counts damage that recovery has found. */
void weir__region_count_damage(struct weir__region *region, enum weir__region_count which, uint64_t n);

/* The part of recovery for everything before the slots. `closed` is that word of the header, as it was before it was
 * cleared. */
void weir__region_recover_limits(struct weir__region *region, uint64_t closed);

/* Writes the checksums of everything before the slots. Returns the word `closed` of the header. */
struct weir_state weir__region_seal_limits(struct weir__region *region);

/* Reads lo of `closed`. 0: the file was not closed cleanly. A damaged word is counted. */
uint64_t weir__region_read_closed(struct weir__region *region);

/* The part of recovery for histories. Their slots have been checked already. */
void weir__region_recover_histories(struct weir__region *region);

/* Writes the checksums of all pages and marks the file as cleanly closed. The caller must be alone with it. Returns 0
 * or an errno. */
int weir__region_seal(struct weir__region *region);

#endif
