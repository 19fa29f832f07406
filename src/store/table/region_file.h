/* region_file.h: the memory of a table in a file, which carries on after the last process has left it, and after a reboot.
 *
 * Whoever has the file open holds a shared lock on it. Who opens it and gets the exclusive one is alone, and recovers:
 * nobody knows how the last ones left it. A file can be older than what was charged (the kernel writes pages when it
 * likes), hold pages of different ages, or bytes that nobody wrote.
 *
 * So a page of slots begins with a mark, a slot that is no key's: 32 bits of a keyed hash of the page's number, and 28 of
 * its contents, which count only if the table was closed cleanly. A page without its mark was damaged, and starts anew. A
 * slot never crosses a sector of the disk: it is as it was or as it is, whatever happened to its page. */
#ifndef WEIR_STORE_TABLE_REGION_FILE_H
#define WEIR_STORE_TABLE_REGION_FILE_H

#include "store/table/region.h"

enum {
	WEIR__PAGE_BYTES = 4096, /* of a file, whatever the processor's are */
	WEIR__PAGE_SLOTS = WEIR__PAGE_BYTES / 16,
};

/* Attaches to the file of options->file, or makes it. */
int weir__region_file_open(struct weir__region *region, const struct weir_table_options *options,
			   struct weir_message *ret_message);

/* Closes the file, cleanly if this is the last one. The memory stays. */
void weir__region_file_close(struct weir__region *region);

/* weir_table_sync. */
int weir__region_file_sync(const struct weir__region *region);

/* Slots that are marks. */
static inline uint64_t weir__region_marks(const struct weir__region *region)
{
	return region->file < 0 ? 0 : region->lines * WEIR__LINE_SLOTS / WEIR__PAGE_SLOTS;
}

/* Marks the pages of new memory. */
void weir__region_mark_pages(const struct weir__region *region);

/* What is found is made a sound table, by who is alone with it: it can be killed anywhere, and be done again. `now` is the
 * time of day. Errors are those of errno, of writing to the disk. */
int weir__region_recover(struct weir__region *region, weir_ns now);

/* The part of it that is about histories; their slots have been looked at. */
void weir__region_recover_histories(struct weir__region *region);

/* Writes the checksums of all pages, by who is alone: as after weir__region_recover, but to be closed. */
int weir__region_seal(struct weir__region *region);

#endif
