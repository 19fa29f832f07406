/* region_attach_test.c: which tables a process may attach to, and the errors otherwise. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "regions.h"

static void another_one_than_was_asked_for(void)
{
	const size_t page = weir__memory_page();
	struct weir_table_options options = shared_options();
	struct weir__region region = opened(&options), same;

	options.size_bytes += page - 1; /* cut to the same */
	same = opened(&options);
	weir__region_close(&same);
	options.size_bytes++;
	check_refused(&options, WEIR_ERR_REGION,
		      text_of("shared memory \"%s\": the table has %zu bytes; requested were %zu", name,
			      options.size_bytes - page, options.size_bytes));
	options.size_bytes -= page;
	options.limits_max = 64;
	check_refused(&options, WEIR_ERR_REGION,
		      text_of("shared memory \"%s\": the table has limits_max 3; requested were 64", name));
	weir__region_close(&region);
	clean_up();
}

/* Invalid headers. A row changes one word of a valid header of SIZE bytes. */
static void headers_that_are_refused(void)
{
#define WORD(field) offsetof(struct weir__region_header, field), sizeof(((struct weir__region_header *)0)->field)
#define NO_TABLE "not a table of Weir; use another name, or remove it if it was one"
#define DEVICE "a FIFO, socket or device, not a table; use another name"
#define DIRECTORY "a directory, not a table; use another name"
#define SYMLINK "a symbolic link, which is not followed; use the path that it points to"
#define ANEW "; remove it, and a new table is made in which all keys are full"
#define DAMAGED "the table's header is damaged" ANEW
	enum { SIZE = 65536 }; /* for pages of up to as much */
	static const struct {
		size_t offset, size;
		uint64_t value;
		const char *why;
	} rows[] = {
		{ WORD(magic), 0, NO_TABLE },
		{ WORD(magic), UINT64_C(0x0162617472696577), NO_TABLE }, /* "weirtab", but no NUL */
		{ WORD(byte_order), 0x04030201, "the table is from a machine with another byte order" ANEW },
		{ WORD(version), 0,
		  "the table has version 0; remove it, and a new table is made in which all keys are full: this Weir reads only version 6" },
		{ WORD(version), 5,
		  "the table has version 5; remove it, and a new table is made in which all keys are full: this Weir reads only version 6" },
		{ WORD(size_bytes), 0, "the table was made with 0 bytes" ANEW ": it now has 65536" },
		{ WORD(size_bytes), SIZE - 1, "the table was made with 65535 bytes" ANEW ": it now has 65536" },
		{ WORD(size_bytes), SIZE + 1, "the table was made with 65537 bytes" ANEW ": it now has 65536" },
		{ WORD(size_bytes), UINT64_MAX,
		  "the table was made with 18446744073709551615 bytes" ANEW ": it now has 65536" },
		{ WORD(lines), 0, DAMAGED },
		{ WORD(lines), 8, DAMAGED },
		{ WORD(limits_max), 0, DAMAGED },
		{ WORD(limits_max), UINT32_MAX, DAMAGED },
		{ WORD(limits_max), 2, DAMAGED },
		{ WORD(stripes), 8, DAMAGED },
		{ WORD(epoch), UINT64_MAX, DAMAGED },
		{ WORD(epoch), 1, DAMAGED },
		{ WORD(made_for), WEIR__REGION_IN_FILE, DAMAGED },
		{ WORD(secret.k0), 1, DAMAGED },
		{ WORD(check), 1, DAMAGED },
	};
#undef WORD
#undef DAMAGED
	const struct weir_table_options options = { .size_bytes = SIZE, .shared = name, .limits_max = LIMITS };
	const struct weir_table_options whatever = { .shared = name };
	struct weir__region region;
	unsigned char sound[offsetof(struct weir__region_header, clock)];

	if (SIZE % weir__memory_page() != 0)
		return;
	region = opened(&options);
	memcpy(sound, region.header, sizeof(sound));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memcpy((unsigned char *)region.header + rows[i].offset, &rows[i].value, rows[i].size);
		check_refused(&whatever, WEIR_ERR_REGION, text_of("shared memory \"%s\": %s", name, rows[i].why));
		memcpy(region.header, sound, sizeof(sound));
	}
	weir__region_close(&region);
	clean_up();
}

/* A process that is attached continues with the values that it has read. */
static void a_header_that_is_overwritten_later(void)
{
	const struct weir_table_options options = shared_options();
	struct weir_table *const table = table_with(&options);
	const struct weir_table_limit *const limit = limit_in(table, "1/hour");
	const weir_ns now = weir_table_now(table);
	const uint64_t capacity = stats_of(table, now).capacity;

	memset(table->region.header, 0xff, offsetof(struct weir__region_header, clock));
	CHECK(weir_table_allow(table, limit, "key", 3, now, 1) && !weir_table_allow(table, limit, "key", 3, now, 1));
	CHECK(limit_in(table, "1/hour") == limit);
	CHECK(limit_in(table, "2/hour")->index != limit->index);
	CHECK_EQ(stats_of(table, now).capacity, capacity);
	CHECK_EQ(stats_of(table, now).limits_max, LIMITS);
	weir_table_free(table);
	clean_up();
}

static void make_file(size_t size, const char *bytes)
{
	const int file = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

	CHECK(file >= 0);
	CHECK_EQ(pwrite(file, bytes, strlen(bytes), 0), strlen(bytes));
	CHECK_EQ(ftruncate(file, (off_t)size), 0);
	close(file);
}

static void what_is_no_table(void)
{
	const struct weir_table_options options = shared_options();
	const char *const why = text_of("shared memory \"%s\": " NO_TABLE, name);
	static const size_t sizes[] = { 0, 1, 8, sizeof(struct weir__region_header) - 1, 4096, 100000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		make_file(sizes[i], "not a table");
		CHECK_EQ(truncate(path, (off_t)sizes[i]), 0);
		check_refused(&options, WEIR_ERR_REGION, why);
		clean_up();
	}
	CHECK_EQ(mkfifo(path, 0600), 0); /* and the call does not wait for a writer */
	check_refused(&options, WEIR_ERR_FILE_TYPE, text_of("shared memory \"%s\": " DEVICE, name));
	clean_up();
	CHECK_EQ(mkdir(path, 0700), 0);
	check_refused(&options, WEIR_ERR_FILE_TYPE, text_of("shared memory \"%s\": " DIRECTORY, name));
	clean_up();
	CHECK_EQ(symlink("/dev/null", path), 0);
	check_refused(&options, WEIR_ERR_FILE_TYPE, text_of("shared memory \"%s\": " SYMLINK, name));
	clean_up();
	CHECK_EQ(symlink("nothing-of-that-name", path), 0); /* nothing is created behind the link */
	check_refused(&options, WEIR_ERR_FILE_TYPE, text_of("shared memory \"%s\": " SYMLINK, name));
	clean_up();
}

/* A valid table behind a link is rejected. */
static void links_are_not_followed(void)
{
	struct weir_table_options options = shared_options();
	struct weir__region region = opened(&options);
	char link_name[WEIR_TABLE_NAME_MAX + 1], link_path[sizeof(path) + 8];

	(void)snprintf(link_name, sizeof(link_name), "region-link-%d", (int)getpid());
	(void)snprintf(link_path, sizeof(link_path), "%s/%s%s", shared_folder, file_prefix, link_name);
	CHECK_EQ(symlink(path, link_path), 0);
	options.shared = link_name;
	check_refused(&options, WEIR_ERR_FILE_TYPE, text_of("shared memory \"%s\": " SYMLINK, link_name));
	unlink(link_path);
	weir__region_close(&region);
	clean_up();
}

static void what_is_not_permitted(void)
{
	const struct weir_table_options options = shared_options();
	const bool is_root = geteuid() == 0;
	struct weir__region region = opened(&options);

	if (is_root)
		CHECK_EQ(seteuid(65534), 0);
	else
		CHECK_EQ(chmod(path, 0), 0);
	check_refused(&options, WEIR_ERR_SYSTEM, text_of("shared memory \"%s\": Permission denied", name));
	CHECK_EQ(errno, EACCES);
	if (is_root)
		CHECK_EQ(seteuid(0), 0);
	weir__region_close(&region);
	clean_up();
}

/* Another user's table may contain anything: only a process that asks for such a mode attaches to it. Only root can
 * test this. */
static void what_belongs_to_others(void)
{
	static const struct {
		uid_t user;
		gid_t group;
		mode_t mode, asked;
		bool is_trusted;
	} rows[] = {
		{ 0, 0, 0600, 0, true },
		{ 65534, 65534, 0600, 0, false },
		{ 65534, 65534, 0666, 0, false },
		{ 65534, 65534, 0666, 0600, false },
		{ 65534, 65534, 0666, 0666, true },
		{ 65534, 65534, 0660, 0660, false },
		{ 65534, 0, 0660, 0660, true },
		{ 65534, 0, 0660, 0600, false },
		{ 65534, 0, 0666, 0660, false },
	};

	for (size_t i = 0; geteuid() == 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_table_options options = shared_options();
		struct weir__region region = opened(&options);

		weir__region_close(&region);
		CHECK_EQ(chown(path, rows[i].user, rows[i].group), 0);
		CHECK_EQ(chmod(path, rows[i].mode), 0);
		options.mode = rows[i].asked;
		if (!rows[i].is_trusted) {
			check_refused(
				&options, WEIR_ERR_REGION,
				text_of("shared memory \"%s\": it belongs to another user; to share it, set a mode with bits for others",
					name));
		} else {
			region = opened(&options);
			weir__region_close(&region);
		}
		clean_up();
	}
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(another_one_than_was_asked_for),
		TEST(headers_that_are_refused),
		TEST(a_header_that_is_overwritten_later),
		TEST(what_is_no_table),
		TEST(links_are_not_followed),
		TEST(what_is_not_permitted),
		TEST(what_belongs_to_others),
	};

	choose_name();
	atexit(clean_up);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
