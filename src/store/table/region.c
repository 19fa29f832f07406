/* region.c: creates the memory of a table, attaches to it, and rejects memory that is not a table. */
#include "store/table/region.h"

#include <errno.h>

#include "core/text.h"
#include "core/wide.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/memory_room.h"
#include "store/table/plans.h"
#include "store/table/region_file.h"
#include "store/table/slot.h"

static const char magic[8] = "weirtab";
static const char no_table[] = "not a table of Weir; use another name, or remove it if it was one";

enum {
	BYTE_ORDER_MARK = 0x01020304,
	VERSION = 6, /* of the layout: increment it with every change of the layout */
	LIMITS_MAX_DEFAULT = 64,
	MODE_DEFAULT = 0600,
	ATTACH_TRIES = 100,
	STRIPES_ALL = WEIR__STRIPES + WEIR__STRIPES_COMMON,
	CHECKED_FROM = 1 << 20, /* bytes; the check takes longer than a smaller private table takes to make */
};

/* More limits than anyone needs, and few enough that no sum of sizes overflows. */
static const uint32_t limits_max_most = 1u << 20;

static const size_t line_bytes = WEIR__LINE_BYTES;

/* A quarter of the times that a slot can hold lies before the table was made. */
static const weir_ns before_made = UINT64_C(1) << 58;

static int fail(struct weir_message *ret_message, int error, const char *name, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	if (name) {
		weir__text_add(&why, "shared memory ");
		weir__text_add_quoted(&why, name, strlen(name));
		weir__text_add(&why, ": ");
	}
	weir__text_add(&why, what);
	return error;
}

static int fail_system(struct weir_message *ret_message, const char *name, int system_error)
{
	char room[128];

	errno = system_error;
	return fail(ret_message, WEIR_ERR_SYSTEM, name, strerror_r(system_error, room, sizeof(room)));
}

static int fail_number(struct weir_message *ret_message, int error, const char *name, const char *what, uint64_t is,
		       const char *but, uint64_t wanted)
{
	struct weir__text number;
	char words[200] = "";

	number = (struct weir__text){ words, 0, sizeof(words) };
	weir__text_add(&number, what);
	weir__text_add_number(&number, is);
	weir__text_add(&number, but);
	weir__text_add_number(&number, wanted);
	return fail(ret_message, error, name, words);
}

static size_t round_up(size_t n, size_t multiple)
{
	return (n + multiple - 1) / multiple * multiple;
}

/* A multiple of two lines, so that the counters of two threads never share what processors fetch together. */
static size_t stripe_bytes(uint32_t limits_max)
{
	return round_up(sizeof(struct weir__stripe) + limits_max * sizeof(struct weir__limit_counters), 2 * line_bytes);
}

/* Even a table with few limits has enough old plans for one limit that changes all the time. */
static uint32_t count_old_plans(uint32_t limits_max)
{
	const uint32_t n = limits_max * WEIR__OLD_PLANS_EACH;

	return n < WEIR__OLD_PLANS_LEAST ? WEIR__OLD_PLANS_LEAST : (uint32_t)round_up(n, WEIR__OLD_PLANS_SET);
}

/* The size of everything before the slots. */
static size_t overhead_bytes(uint32_t limits_max, bool in_file)
{
	const size_t bytes = sizeof(struct weir__region_header) + limits_max * sizeof(struct weir__region_limit) +
			     round_up(limits_max * sizeof(uint64_t), line_bytes) +
			     round_up(count_old_plans(limits_max) * sizeof(struct weir__region_old_plan), line_bytes) +
			     STRIPES_ALL * stripe_bytes(limits_max);

	return in_file ? round_up(bytes, WEIR__PAGE_BYTES) : bytes;
}

/* The size of the smallest table with this many limits. */
static size_t least_bytes(uint32_t limits_max, bool in_file)
{
	const size_t slots_bytes = in_file ? WEIR__PAGE_BYTES : WEIR__LINES_LEAST * line_bytes;

	return round_up(overhead_bytes(limits_max, in_file) + slots_bytes, weir__memory_page());
}

size_t weir__region_size(uint64_t keys, uint32_t limits_max)
{
	size_t bytes;

	/* 23.5 bytes per key: of 10 million keys, about 30 in a million are evicted while they are inserted. */
	if (__builtin_mul_overflow(keys / 2 + 1, (size_t)47, &bytes) || bytes > SIZE_MAX / 2)
		return SIZE_MAX;
	return round_up(bytes, weir__memory_page()) + least_bytes(limits_max ? limits_max : LIMITS_MAX_DEFAULT, false);
}

static uint64_t lines_in(size_t size, uint32_t limits_max, size_t arena_bytes, bool in_file)
{
	const size_t overhead = overhead_bytes(limits_max, in_file) + arena_bytes;
	const size_t multiple = in_file ? WEIR__PAGE_BYTES / line_bytes : WEIR__LINES_LEAST;

	return size <= overhead ? 0 : (size - overhead) / line_bytes / multiple * multiple;
}

/* Sets where everything is in memory, from numbers that were checked. */
void weir__region_lay_out(struct weir__region *region, void *memory, const struct weir__region_header *checked)
{
	const bool in_file = checked->made_for & WEIR__REGION_IN_FILE;
	const uint32_t limits_max = checked->limits_max;
	unsigned char *at = (unsigned char *)memory + sizeof(*checked);
	static _Atomic uint64_t regions;

	region->header = memory;
	region->serial = atomic_fetch_add(&regions, 1) + 1;
	region->size_bytes = checked->size_bytes;
	region->file = -1;
	region->is_new = false;
	region->guard = NULL;
	region->truncations_seen = 0;
	memset(region->damaged, 0, sizeof(region->damaged));
	region->limits_max = limits_max;
	region->epoch = checked->epoch;
	region->secret = checked->secret;
	region->limits = (struct weir__region_limit *)(void *)at;
	at += limits_max * sizeof(struct weir__region_limit);
	region->sums = (uint64_t *)(void *)at;
	at += round_up(limits_max * sizeof(uint64_t), line_bytes);
	region->old_plans = (struct weir__region_old_plan *)(void *)at;
	region->n_old_plans = count_old_plans(limits_max);
	at += round_up(region->n_old_plans * sizeof(struct weir__region_old_plan), line_bytes);
	region->stripes = at;
	region->stripe_bytes = stripe_bytes(limits_max);
	at = (unsigned char *)memory + overhead_bytes(limits_max, in_file);
	region->slots = (union weir__atomic16 *)(void *)at;
	region->lines = checked->lines;
	at += region->lines * line_bytes;
	region->arena_bytes = checked->arena_bytes;
	weir__arena_init(&region->arena, at, checked->arena_bytes);
}

static int check_options(const struct weir_table_options *options, struct weir_message *ret_message)
{
	const char *const name = options->shared;

	if (options->limits_max > limits_max_most)
		return fail_number(ret_message, WEIR_ERR_TOO_LARGE, NULL, "limits_max of ", options->limits_max,
				   ": at most ", limits_max_most);
	if (options->arena_bytes > SIZE_MAX / 4)
		return fail_number(ret_message, WEIR_ERR_TOO_LARGE, NULL, "arena_bytes of ", options->arena_bytes,
				   ": at most ", SIZE_MAX / 4);
	if (options->mode & ~0777u)
		return fail(ret_message, WEIR_ERR_LIMIT, name, "invalid mode; use permission bits only, at most 0777");
	if (name && options->file)
		return fail(ret_message, WEIR_ERR_LIMIT, name, "shared and file are both set; use one of the two");
	if (name && (*name == '\0' || *name == '.' || strchr(name, '/') || strlen(name) > WEIR_TABLE_NAME_MAX))
		return fail(ret_message, WEIR_ERR_LIMIT, name,
			    "invalid name; use 1 to 63 bytes, no slash, and no dot at the start");
	return WEIR_OK;
}

uint64_t weir__region_check_of(const struct weir__region_header *header)
{
	static const struct weir__hash_secret known = { 0, 0 }; /* protects against accidents, not against attackers */

	return weir__hash(&known, header, offsetof(struct weir__region_header, check));
}

int weir__region_fill_in(struct weir__region *region, void *memory, const struct weir_table_options *options,
			 struct weir_message *ret_message)
{
	const uint32_t limits_max = options->limits_max ? options->limits_max : LIMITS_MAX_DEFAULT;
	const weir_ns made_at = options->made_at ? options->made_at : weir_clock_now();
	struct weir__region_header *const header = memory;
	const int error = weir__memory_random(&header->secret, sizeof(header->secret));

	if (error != 0)
		return fail_system(ret_message, options->shared, error);
	memcpy(header->magic, magic, sizeof(magic));
	header->byte_order = BYTE_ORDER_MARK;
	header->version = VERSION;
	header->size_bytes = options->size_bytes;
	header->arena_bytes = options->arena_bytes;
	header->lines = lines_in(options->size_bytes, limits_max, options->arena_bytes, options->file);
	header->limits_max = limits_max;
	header->stripes = STRIPES_ALL;
	header->made_for = (options->file ? WEIR__REGION_IN_FILE : 0u) | (options->made_at ? WEIR__REGION_REPLAYS : 0u);
	header->epoch = made_at > before_made ? weir__min(made_at - before_made, UINT64_MAX / 2) : 0;
	header->check = weir__region_check_of(header);
	weir__clock_anchor_init(&header->clock);
	weir__region_lay_out(region, memory, header);
	region->is_new = true;
	return WEIR_OK;
}

static uint64_t hash_of_count(const struct weir__region *region, enum weir__region_count which, uint64_t count)
{
	const uint64_t hashed[] = { count, which };

	return weir__hash(&region->secret, hashed, sizeof(hashed));
}

static bool is_count(const struct weir__region *region, enum weir__region_count which, struct weir_state seen)
{
	return (seen.lo == 0 && seen.hi == 0) || seen.hi == hash_of_count(region, which, seen.lo);
}

bool weir__region_count_is_sound(const struct weir__region *region, enum weir__region_count which)
{
	return is_count(region, which, weir__atomic16_load(&region->header->counts[which]));
}

uint64_t weir__region_count(const struct weir__region *region, enum weir__region_count which)
{
	const struct weir_state seen = weir__atomic16_load(&region->header->counts[which]);

	return is_count(region, which, seen) ? seen.lo : 0;
}

void weir__region_add_count(const struct weir__region *region, enum weir__region_count which, uint64_t n)
{
	struct weir_state seen, next;

	do {
		seen = weir__atomic16_load(&region->header->counts[which]);
		next.lo = (is_count(region, which, seen) ? seen.lo : 0) + n;
		next.hi = hash_of_count(region, which, next.lo);
	} while (!weir__atomic16_swap(&region->header->counts[which], seen, next));
}

/* Call it before memory is reserved: reserving more memory than the machine has may make the kernel kill other
 * processes. */
static int check_room(const struct weir_table_options *options, struct weir_message *ret_message)
{
	struct weir__memory_room room;
	char words[200] = "";
	struct weir__text why = { words, 0, sizeof(words) };

	if (options->size_bytes < CHECKED_FROM && options->shared == NULL && options->file == NULL)
		return WEIR_OK;
	weir__memory_room("", options->shared ? weir__memory_folder() : options->file, &room);
	if (options->size_bytes <= room.bytes)
		return WEIR_OK;
	weir__text_add(&why, "a table of ");
	weir__text_add_number(&why, options->size_bytes);
	weir__text_add(&why, " bytes does not fit: ");
	weir__text_add(&why, room.where);
	weir__text_add(&why, " has ");
	weir__text_add_number(&why, room.bytes);
	weir__text_add(&why, " left; make it smaller, or set overcommit to skip this check");
	return fail(ret_message, WEIR_ERR_TOO_LARGE, options->shared, words);
}

int weir__region_check_size(const struct weir_table_options *options, struct weir_message *ret_message)
{
	const uint32_t limits_max = options->limits_max ? options->limits_max : LIMITS_MAX_DEFAULT;
	const uint64_t lines = lines_in(options->size_bytes, limits_max, options->arena_bytes, options->file);

	if ((options->shared || options->file) && options->size_bytes == 0)
		return fail(ret_message, WEIR_ERR_NO_TABLE, options->shared,
			    "the table does not exist; to make it, set a size");
	if (lines == 0)
		return fail_number(
			ret_message, WEIR_ERR_ROOM, options->shared, "a table of ", options->size_bytes,
			" bytes is too small: with its limits and its arena it needs at least ",
			round_up(least_bytes(limits_max, options->file) + options->arena_bytes, weir__memory_page()));
	if (lines > UINT32_MAX || options->size_bytes > SIZE_MAX / 2)
		return fail_number(ret_message, WEIR_ERR_TOO_LARGE, options->shared, "a table of ", options->size_bytes,
				   " bytes is too large: the maximum is 64 bytes times ", UINT32_MAX);
	return options->overcommit ? WEIR_OK : check_room(options, ret_message);
}

static int open_private(struct weir__region *region, const struct weir_table_options *options,
			struct weir_message *ret_message)
{
	void *memory;
	int error = weir__region_check_size(options, ret_message);

	if (error != WEIR_OK)
		return error;
	error = weir__memory_new(options->size_bytes, &memory);
	if (error != 0)
		return fail_system(ret_message, NULL, error);
	error = weir__region_fill_in(region, memory, options, ret_message);
	if (error != WEIR_OK)
		weir__memory_free(memory, options->size_bytes);
	return error;
}

int weir__region_check_header(const struct weir__region_header *header, size_t mapped,
			      const struct weir_table_options *options, struct weir_message *ret_message)
{
	const bool in_file = header->made_for & WEIR__REGION_IN_FILE;
	const char *const name = options->shared;

	if (mapped < sizeof(*header) || memcmp(header->magic, magic, sizeof(magic)) != 0)
		return fail(ret_message, WEIR_ERR_REGION, name, no_table);
	if (header->byte_order != BYTE_ORDER_MARK)
		return fail(
			ret_message, WEIR_ERR_REGION, name,
			"the table is from a machine with another byte order; remove it, and a new table is made in which all keys are full");
	if (header->version != VERSION)
		return fail_number(
			ret_message, WEIR_ERR_REGION, name, "the table has version ", header->version,
			"; remove it, and a new table is made in which all keys are full: this Weir reads only version ",
			VERSION);
	if (header->size_bytes != mapped)
		return fail_number(ret_message, WEIR_ERR_REGION, name, "the table was made with ", header->size_bytes,
				   " bytes; remove it, and a new table is made in which all keys are full: it now has ",
				   mapped);
	if (header->stripes != STRIPES_ALL || header->limits_max == 0 || header->limits_max > limits_max_most ||
	    header->arena_bytes > header->size_bytes || header->lines == 0 ||
	    header->lines != lines_in(header->size_bytes, header->limits_max, header->arena_bytes, in_file) ||
	    header->epoch > UINT64_MAX / 2 || header->check != weir__region_check_of(header))
		return fail(
			ret_message, WEIR_ERR_REGION, name,
			"the table's header is damaged; remove it, and a new table is made in which all keys are full");
	if (in_file != (options->file != NULL))
		return fail(ret_message, WEIR_ERR_REGION, name,
			    in_file ? "the table is in a file; open it by its path" :
				      "the table is in shared memory; open it by its name");
	if (options->size_bytes != 0 && options->size_bytes != header->size_bytes)
		return fail_number(ret_message, WEIR_ERR_REGION, name, "the table has ", header->size_bytes,
				   " bytes; requested were ", options->size_bytes);
	if (options->limits_max != 0 && options->limits_max != header->limits_max)
		return fail_number(ret_message, WEIR_ERR_REGION, name, "the table has limits_max ", header->limits_max,
				   "; requested were ", options->limits_max);
	if (options->arena_bytes != 0 && options->arena_bytes != header->arena_bytes)
		return fail_number(ret_message, WEIR_ERR_REGION, name, "the table has arena_bytes ",
				   header->arena_bytes, "; requested were ", options->arena_bytes);
	return WEIR_OK;
}

struct weir__region_refusal weir__region_refusal(int system_error)
{
	switch (system_error) {
	case ELOOP:
		return (struct weir__region_refusal){
			WEIR_ERR_FILE_TYPE, "a symbolic link, which is not followed; use the path that it points to"
		};
	case EISDIR:
		return (struct weir__region_refusal){ WEIR_ERR_FILE_TYPE,
						      "a directory, not a table; use another name" };
	case ENODEV:
		return (struct weir__region_refusal){ WEIR_ERR_FILE_TYPE,
						      "a FIFO, socket or device, not a table; use another name" };
	case EINVAL:
		return (struct weir__region_refusal){ WEIR_ERR_REGION, no_table };
	case EPERM:
		return (struct weir__region_refusal){
			WEIR_ERR_REGION, "it belongs to another user; to share it, set a mode with bits for others"
		};
	default:
		return (struct weir__region_refusal){ WEIR_ERR_SYSTEM, NULL };
	}
}

/* WEIR_ERR_SYSTEM with *ret_missing set: the shared memory does not exist. */
static int attach(struct weir__region *region, const struct weir_table_options *options, bool *ret_missing,
		  struct weir_message *ret_message)
{
	struct weir__region_header header = { 0 };
	void *memory;
	size_t mapped;
	int error = weir__memory_attach(options->shared, options->mode, &memory, &mapped);

	*ret_missing = error == ENOENT;
	if (error != 0) {
		const struct weir__region_refusal refusal = weir__region_refusal(error);

		return refusal.why ? fail(ret_message, refusal.error, options->shared, refusal.why) :
				     fail_system(ret_message, options->shared, error);
	}
	if (mapped >= sizeof(header))
		memcpy(&header, memory, sizeof(header)); /* the copy is both checked and used */
	error = weir__region_check_header(&header, mapped, options, ret_message);
	if (error == WEIR_OK)
		weir__region_lay_out(region, memory, &header);
	else
		weir__memory_free(memory, mapped);
	return error;
}

/* The memory has no name until it is complete, so no process attaches to half a table. */
static int make_shared(struct weir__region *region, const struct weir_table_options *options, bool *ret_exists,
		       struct weir_message *ret_message)
{
	void *memory;
	int file, error = weir__region_check_size(options, ret_message);

	*ret_exists = false;
	if (error != WEIR_OK)
		return error;
	error = weir__memory_new_shared(options->size_bytes, options->mode ? options->mode : MODE_DEFAULT, &memory,
					&file);
	if (error != 0)
		return fail_system(ret_message, options->shared, error);
	error = weir__region_fill_in(region, memory, options, ret_message);
	if (error == WEIR_OK) {
		error = weir__memory_publish(file, options->shared);
		*ret_exists = error == EEXIST;
		if (error != 0)
			error = fail_system(ret_message, options->shared, error);
	}
	weir__memory_close(file);
	if (error != WEIR_OK)
		weir__memory_free(memory, options->size_bytes);
	return error;
}

int weir__region_open(struct weir__region *region, const struct weir_table_options *asked,
		      struct weir_message *ret_message)
{
	struct weir_table_options options = *asked;
	bool again = true;
	int error = check_options(&options, ret_message);

	if (error != WEIR_OK)
		return error;
	options.size_bytes -= options.size_bytes % weir__memory_page(); /* rounded down: the kernel gives whole pages */
	if (options.file)
		return weir__region_file_open(region, &options, ret_message);
	if (options.shared == NULL)
		return open_private(region, &options, ret_message);
	/* Other processes may create and unlink it meanwhile, but the number of tries is limited. */
	for (int i = 0; again && i < ATTACH_TRIES; i++) {
		error = attach(region, &options, &again, ret_message);
		if (again)
			error = make_shared(region, &options, &again, ret_message);
	}
	return error;
}

void weir__region_close(struct weir__region *region)
{
	if (region->file >= 0)
		weir__region_file_close(region);
	weir__mapping_guard_free(region->guard);
	weir__memory_free(region->header, region->size_bytes);
}

int weir__region_guard(struct weir__region *region, const struct weir_table_options *options)
{
	const size_t head_bytes = (size_t)((unsigned char *)region->slots - (unsigned char *)region->header);
	char path[WEIR__MEMORY_PATH_SIZE];
	int error = 0;

	if (options->shared)
		error = weir__memory_path(options->shared, path);
	if (error != 0 || (options->shared == NULL && options->file == NULL))
		return error;
	return weir__mapping_guard_new(region->header, region->size_bytes, options->shared ? path : options->file,
				       head_bytes, &region->guard);
}

struct weir__mapping_state weir__region_look(struct weir__region *region)
{
	const struct weir__mapping_state sound = { .is_named = true };
	uint64_t before;

	if (region->guard == NULL)
		return sound;
	before = region->truncations_seen;
	weir__mapping_guard_look(region->guard);
	region->truncations_seen = weir__mapping_guard_state(region->guard).truncations;
	if (region->file >= 0 && region->truncations_seen != before)
		weir__region_mark_lost_pages(region);
	return weir__mapping_guard_state(region->guard);
}

int weir__region_unlink(const char *shared, struct weir_message *ret_message)
{
	const struct weir_table_options options = { .shared = shared };
	int error = check_options(&options, ret_message);

	if (error != WEIR_OK)
		return error;
	error = weir__memory_unlink(shared);
	return error == 0 ? WEIR_OK : fail_system(ret_message, shared, error);
}

/* Writes word by word, so that two threads that write the same text at once do not race. The last word is padded with
 * NULs. */
static void write_words(uint64_t *words, const char *text)
{
	size_t left = strlen(text) + 1;

	for (; left > 0; words++) {
		const size_t n = left < sizeof(*words) ? left : sizeof(*words);
		uint64_t word = 0;

		memcpy(&word, text, n);
		__atomic_store_n(words, word, __ATOMIC_RELAXED);
		text += n;
		left -= n;
	}
}

/* The text always ends with a NUL, whatever the words are. */
static void read_words(const uint64_t *words, char *ret_text, size_t size)
{
	for (size_t i = 0; i < size / sizeof(*words); i++) {
		const uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

		memcpy(ret_text + i * sizeof(word), &word, sizeof(word));
	}
	ret_text[size - 1] = '\0';
}

/* Prints the limit as it is now. Returns false if it is corrupt. */
static bool current_text(const struct weir__region *region, struct weir__region_limit *entry,
			 char text[WEIR_LIMIT_TEXT_MAX])
{
	struct weir__plans_limit last;
	uint64_t number;

	if (!weir__plans_read_last(region, entry, &number, &last) ||
	    (unsigned)last.limit.algorithm > WEIR_SLIDING_COUNTER)
		return false;
	(void)weir_limit_print(&last.limit, text);
	return true;
}

static int refuse_other_limit(const struct weir__region *region, struct weir__region_limit *entry, const char *name,
			      struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);
	char text[WEIR_LIMIT_TEXT_MAX];

	if (!current_text(region, entry, text))
		read_words(entry->text, text, sizeof(text));
	weir__text_add(&why, "the table has a limit ");
	weir__text_add_quoted(&why, name, strlen(name));
	weir__text_add(&why, " of ");
	weir__text_add(&why, text);
	weir__text_add(&why, "; use weir_table_change_limit to change it");
	return WEIR_ERR_CHANGE;
}

static struct weir_state identity_of(const struct weir__region *region, const char *name, const char *text)
{
	return (struct weir_state){ .lo = weir__hash(&region->secret, name, strlen(name)) | 1,
				    .hi = weir__hash(&region->secret, text, strlen(text)) };
}

/* Whether the limit, which may have been changed since it was added, is now the one with this text. */
static bool is_now(const struct weir__region *region, struct weir__region_limit *entry,
		   const struct weir_state *identity, const char *text)
{
	char current[WEIR_LIMIT_TEXT_MAX];

	if (weir__plans_number(entry) == 0)
		return weir__slot_equal(weir__atomic16_load(&entry->identity), *identity);
	return current_text(region, entry, current) && strcmp(current, text) == 0;
}

/* Finds the entry whose name has this hash, or else the first free entry. Returns false if there is neither. */
static bool find_place(const struct weir__region *region, uint64_t wanted, uint32_t *ret_index,
		       struct weir_state *ret_found)
{
	bool has_place = false;

	for (uint32_t n = 0; n < region->limits_max; n++) {
		const uint32_t i = (uint32_t)((wanted + n) % region->limits_max);
		const struct weir_state found = weir__atomic16_load(&region->limits[i].identity);

		if (found.lo == wanted || (!has_place && !weir__limit_is_used(found.lo))) {
			*ret_index = i;
			*ret_found = found;
			has_place = true;
		}
		if (found.lo == wanted || found.lo == 0)
			break;
	}
	return has_place;
}

int weir__region_add_limit(struct weir__region *region, const char *name, const struct weir_limit *limit,
			   uint32_t *ret_index, struct weir_message *ret_message)
{
	char text[WEIR_LIMIT_TEXT_MAX] = "";
	struct weir__region_limit *entry;
	struct weir_state identity, found;
	uint32_t i;

	(void)weir_limit_print(limit, text);
	identity = identity_of(region, name, text);
	/* Only the first free entry may be taken, and entries become free only in recovery. So two threads that add the
	 * same limit try to take the same entry. */
	do {
		if (!find_place(region, identity.lo, &i, &found))
			return fail_number(ret_message, WEIR_ERR_FULL, NULL, "the table has ", region->limits_max,
					   " limits, and limits_max is ", region->limits_max);
		entry = &region->limits[i];
	} while (found.lo != identity.lo && !weir__atomic16_swap(&entry->identity, found, identity));
	if (found.lo != identity.lo || weir__slot_equal(found, identity)) {
		write_words(entry->name, name);
		write_words(entry->text, text);
		weir__plans_begin(entry, limit);
		if (found.lo != identity.lo && region->file >= 0) /* before any charge under it: see region_recover.c */
			(void)weir__file_sync_memory(entry, sizeof(*entry));
	}
	if (!is_now(region, entry, &identity, text))
		return refuse_other_limit(region, entry, name, ret_message);
	*ret_index = i;
	return WEIR_OK;
}

bool weir__region_find_identity(const struct weir__region *region, uint64_t wanted, uint32_t *ret_index)
{
	struct weir_state found;
	uint32_t index;

	if (!find_place(region, wanted, &index, &found) || found.lo != wanted)
		return false;
	*ret_index = index;
	return true;
}

bool weir__region_find_limit(const struct weir__region *region, const char *name, uint32_t *ret_index)
{
	return weir__region_find_identity(region, identity_of(region, name, "").lo, ret_index);
}

bool weir__region_first_limit(const struct weir__region *region, uint32_t index, struct weir_limit *ret_limit)
{
	struct weir__region_limit *const entry = &region->limits[index];
	struct weir__region_words words;

	read_words(entry->name, words.name, sizeof(words.name));
	read_words(entry->text, words.text, sizeof(words.text));
	return weir__slot_equal(weir__atomic16_load(&entry->identity), identity_of(region, words.name, words.text)) &&
	       weir_limit_parse(words.text, strlen(words.text), ret_limit, NULL) == WEIR_OK;
}

bool weir__region_read_limit(const struct weir__region *region, uint32_t index, struct weir__region_words *ret_words)
{
	struct weir__region_limit *const entry = &region->limits[index];
	const struct weir_state identity = weir__atomic16_load(&entry->identity);

	if (!weir__limit_is_used(identity.lo))
		return false;
	read_words(entry->name, ret_words->name, sizeof(ret_words->name));
	read_words(entry->text, ret_words->text, sizeof(ret_words->text));
	if (!weir__slot_equal(identity, identity_of(region, ret_words->name, ret_words->text)) ||
	    (weir__plans_number(entry) > 0 && !current_text(region, entry, ret_words->text)))
		ret_words->name[0] = ret_words->text[0] = '\0';
	return true;
}

weir_ns weir__region_made_at(const struct weir__region *region)
{
	return region->epoch > 0 && region->epoch < UINT64_MAX / 2 ? region->epoch + before_made : 0;
}
