/* region_file_test.c: tables in files: who may open them, exclusive use, and usage after reopening. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "files.h"

enum { KEYS = 1000 };

static const char limit_text[] = "10/hour";

static uint64_t take_all(struct weir_table *table, const char *key)
{
	return weir_table_upto(table, limit_in(table, limit_text), key, strlen(key), weir_table_now(table), 100)
		.granted;
}

static weir_ns full_at(struct weir_table *table, const char *key)
{
	return weir_table_inspect(table, limit_in(table, limit_text), key, strlen(key), weir_table_now(table)).full_at;
}

static uint64_t word_of_file(size_t offset)
{
	const int file = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t word = UINT64_MAX;

	CHECK_EQ(pread(file, &word, sizeof(word), (off_t)offset), sizeof(word));
	close(file);
	return word;
}

static bool is_closed(void)
{
	return word_of_file(offsetof(struct weir__region_header, closed)) != 0;
}

static const char *named(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *named(const char *format, ...)
{
	static char text[300];
	va_list arguments;
	int length;

	length = snprintf(text, sizeof(text), "file \"%.40s%s\": ", path, strlen(path) > 40 ? "..." : "");
	va_start(arguments, format);
	(void)vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
	va_end(arguments);
	return text;
}

/* --- usage ------------------------------------------------------------------------------------------------------ */

static void what_was_owed_is_owed(void)
{
	for (int was_killed = 0; was_killed < 2; was_killed++) {
		struct weir_table *table = file_table(KEYS);
		weir_ns owed_until;

		CHECK_EQ(take_all(table, "key"), 10);
		owed_until = full_at(table, "key");
		(was_killed ? leave : weir_table_free)(table);
		CHECK_EQ(is_closed(), !was_killed);
		table = file_table(KEYS);
		CHECK_EQ(is_closed(), false);
		CHECK_EQ(full_at(table, "key"), owed_until);
		CHECK_EQ(take_all(table, "key"), 0);
		CHECK_EQ(take_all(table, "other"), 10);
		CHECK_EQ(stats_of(table, weir_table_now(table)).damaged_pages, 0);
		CHECK_EQ(stats_of(table, weir_table_now(table)).damaged_slots, 0);
		CHECK_EQ(stats_of(table, weir_table_now(table)).damaged_at, 0);
		CHECK_EQ(weir_table_sync(table), WEIR_OK);
		weir_table_free(table);
		clean_up();
	}
}

/* A table without a file has nothing to sync. */
static void only_files_are_synced(void)
{
	struct weir_table *const table = table_for(KEYS, 0);

	CHECK_EQ(weir_table_sync(table), WEIR_OK);
	weir_table_free(table);
}

static void a_killed_process_leaves_what_it_charged(void)
{
	struct weir_table *table;
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		table = file_table(KEYS);
		take_all(table, "key");
		raise(SIGKILL);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK(!is_closed());
	table = file_table(KEYS);
	CHECK_EQ(take_all(table, "key"), 0);
	weir_table_free(table);
	clean_up();
}

/* --- exclusive use ---------------------------------------------------------------------------------------------- */

static void the_last_one_closes_it(void)
{
	struct weir_table *const first = file_table(KEYS), *const second = file_table(KEYS);

	CHECK_EQ(take_all(first, "key"), 10);
	CHECK_EQ(take_all(second, "key"), 0);
	weir_table_free(first);
	CHECK(!is_closed());
	CHECK_EQ(take_all(second, "other"), 10);
	weir_table_free(second);
	CHECK(is_closed());
	clean_up();
}

/* Recovery would clear the claim. */
static void who_is_not_alone_recovers_nothing(void)
{
	struct weir_table *const first = file_table(KEYS), *second;
	union weir__atomic16 *const slot = first->region.slots + 7;

	slot->state = weir__slot_make(1, 2, 3, WEIR__SLOT_CLAIMED);
	second = file_table(KEYS);
	CHECK_EQ(weir__slot_tag(slot->state), WEIR__SLOT_CLAIMED);
	weir_table_free(first);
	leave(second);
	second = file_table(KEYS);
	CHECK_EQ(second->region.slots[7].state.lo, 0);
	weir_table_free(second);
	clean_up();
}

/* After a fork, a process cannot know whether it is the last user, so it does not mark the file as closed. */
static void after_fork_both_go_on(void)
{
	struct weir_table *table = file_table(KEYS), *other;
	int pipes[2], status;
	char byte = 0;
	pid_t child;

	CHECK_EQ(take_all(table, "key"), 10);
	CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		close(pipes[1]);
		(void)!read(pipes[0], &byte, 1); /* until the parent has left */
		byte = (char)(take_all(table, "key") == 0 && take_all(table, "child") == 10);
		weir_table_free(table);
		_exit(byte ? 0 : 1);
	}
	weir_table_free(table);
	CHECK(!is_closed());
	other = file_table(KEYS); /* not alone: the child has it open */
	other->region.slots[7].state = weir__slot_make(1, 2, 3, WEIR__SLOT_CLAIMED);
	weir_table_free(other);
	CHECK(!is_closed());
	close(pipes[1]);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK(!is_closed());
	close(pipes[0]);
	table = file_table(KEYS);
	CHECK_EQ(table->region.slots[7].state.lo, 0);
	CHECK_EQ(take_all(table, "child"), 0);
	CHECK_EQ(stats_of(table, weir_table_now(table)).damaged_pages, 0);
	weir_table_free(table);
	CHECK(is_closed());
	clean_up();
}

/* A process that opens the file and never finishes. */
static void nobody_waits_for_ever(void)
{
	const struct weir_table_options options = file_options(KEYS);
	struct weir_message why = { 0, "" };
	struct weir_table *table = file_table(KEYS);
	const int file = open(path, O_RDWR | O_CLOEXEC);

	CHECK_EQ(weir__file_lock(file, 1, WEIR__FILE_EXCLUSIVE), 0);
	leave(table);
	CHECK_EQ(weir_table_new(&options, &table, &why), WEIR_ERR_SYSTEM);
	CHECK_EQ(errno, EAGAIN);
	CHECK_TEXT(why.text,
		   named("another process has held its lock for seconds, while it opens or closes the table"));
	close(file);
	weir_table_free(file_table(KEYS));
	clean_up();
}

/* --- errors ----------------------------------------------------------------------------------------------------- */

static void write_at(size_t offset, const void *bytes, size_t n)
{
	const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	CHECK_EQ(pwrite(file, bytes, n, (off_t)offset), n);
	close(file);
}

static void headers_that_are_refused(void)
{
#define WORD(field) offsetof(struct weir__region_header, field), sizeof(((struct weir__region_header *)0)->field)
#define NO_TABLE "not a table of Weir; use another name, or remove it if it was one"
#define DEVICE "a FIFO, socket or device, not a table; use another name"
#define DIRECTORY "a directory, not a table; use another name"
#define SYMLINK "a symbolic link, which is not followed; use the path that it points to"
#define ANEW "; remove it, and a new table is made in which all keys are full"
#define DAMAGED "the table's header is damaged" ANEW
	static const struct {
		size_t offset, size;
		uint64_t value;
		const char *why;
	} rows[] = {
		{ WORD(magic), 0, NO_TABLE },
		{ WORD(byte_order), 0x04030201, "the table is from a machine with another byte order" ANEW },
		{ WORD(version), 1,
		  "the table has version 1; remove it, and a new table is made in which all keys are full: this Weir reads only version 6" },
		{ WORD(limits_max), 5, DAMAGED },
		{ WORD(lines), 1 << 20, DAMAGED },
		{ WORD(made_for), 0, DAMAGED },
		{ WORD(secret.k1), 7, DAMAGED },
		{ WORD(epoch), 7, DAMAGED },
		{ WORD(check), 0, DAMAGED },
	};
#undef WORD
#undef DAMAGED
	const struct weir_table_options whatever = { .file = path };
	unsigned char sound[offsetof(struct weir__region_header, clock)];
	struct weir_table *table = file_table(KEYS);

	memcpy(sound, table->region.header, sizeof(sound));
	leave(table);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_at(rows[i].offset, &rows[i].value, rows[i].size);
		check_refused(&whatever, WEIR_ERR_REGION, named("%s", rows[i].why));
		write_at(0, sound, sizeof(sound));
	}
	for (size_t i = 0; i < offsetof(struct weir__region_header, next_epoch); i++) {
		const unsigned char changed = sound[i] ^ 0x10;

		write_at(i, &changed, 1);
		CHECK_EQ(weir_table_new(&whatever, &table, NULL), WEIR_ERR_REGION);
		write_at(i, &sound[i], 1);
	}
	weir_table_free(table_with(&whatever));
	clean_up();
}

static void another_size_is_refused(void)
{
	struct weir_table_options options = file_options(KEYS);
	const size_t size = options.size_bytes, page = weir__memory_page();

	leave(file_table(KEYS));
	options.size_bytes += page;
	check_refused(&options, WEIR_ERR_REGION,
		      named("the table has %zu bytes; requested were %zu", size, size + page));
	options.size_bytes = 0;
	options.limits_max = 5;
	check_refused(&options, WEIR_ERR_REGION, named("the table has limits_max 4; requested were 5"));
	options.limits_max = 0;
	CHECK_EQ(truncate(path, (off_t)(size - page)), 0);
	check_refused(&options, WEIR_ERR_REGION,
		      named("the table was made with %zu bytes" ANEW ": it now has %zu", size, size - page));
	CHECK_EQ(truncate(path, 100), 0);
	check_refused(&options, WEIR_ERR_REGION, named(NO_TABLE));
	CHECK_EQ(truncate(path, 0), 0);
	check_refused(&options, WEIR_ERR_REGION, named(NO_TABLE));
	clean_up();
}

static void what_is_no_file_is_refused(void)
{
	const struct weir_table_options options = file_options(KEYS);

	CHECK_EQ(mkfifo(path, 0600), 0); /* and the call does not wait for a writer */
	check_refused(&options, WEIR_ERR_FILE_TYPE, named(DEVICE));
	clean_up();
	CHECK_EQ(mkdir(path, 0700), 0);
	check_refused(&options, WEIR_ERR_FILE_TYPE, named(DIRECTORY));
	clean_up();
	CHECK_EQ(symlink("nothing-of-that-name", path), 0); /* nothing is created behind the link */
	check_refused(&options, WEIR_ERR_FILE_TYPE, named(SYMLINK));
	clean_up();
	leave(file_table(KEYS));
	CHECK_EQ(rename(path, copy_path), 0);
	CHECK_EQ(symlink(copy_path, path), 0);
	check_refused(&options, WEIR_ERR_FILE_TYPE, named(SYMLINK));
	clean_up();
}

static void options_that_are_refused(void)
{
	struct weir_table_options options = file_options(KEYS);
	char long_path[WEIR__FILE_PATH_MAX + 2];
	struct weir_message why = { 0, "" };
	struct weir_table *table;

	options.shared = "name";
	check_refused(&options, WEIR_ERR_LIMIT,
		      "shared memory \"name\": shared and file are both set; use one of the two");
	options.shared = NULL;
	options.file = "";
	check_refused(&options, WEIR_ERR_LIMIT, "file \"\": invalid path; use 1 to 4095 bytes");
	memset(long_path, 'a', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = '\0';
	options.file = long_path;
	CHECK_EQ(weir_table_new(&options, &(struct weir_table *){ NULL }, NULL), WEIR_ERR_LIMIT);
	options.file = "/there/is/no/such/folder";
	check_refused(&options, WEIR_ERR_SYSTEM, "file \"/there/is/no/such/folder\": No such file or directory");
	options = (struct weir_table_options){ .file = path };
	check_refused(&options, WEIR_ERR_NO_TABLE, named("the table does not exist; to make it, set a size"));
	options.size_bytes = 4096;
	CHECK_EQ(weir_table_new(&options, &(struct weir_table *){ NULL }, NULL), WEIR_ERR_ROOM);
	CHECK_EQ(access(path, F_OK), -1);
	options.arena_bytes = 5000; /* the size that the message states is enough */
	CHECK_EQ(weir_table_new(&options, &table, &why), WEIR_ERR_ROOM);
	options.size_bytes = strtoul(strstr(why.text, "at least ") + strlen("at least "), NULL, 10);
	weir_table_free(table_with(&options));
	clean_up();
}

/* A file name for shared memory and the reverse are rejected, with the reason. */
static void shared_memory_is_no_file(void)
{
	struct weir_table_options options = { .size_bytes = weir_table_size(KEYS, 4), .limits_max = 4 };
	char name[40], memory[60];

	(void)snprintf(name, sizeof(name), "file-test-%d", (int)getpid());
	(void)snprintf(memory, sizeof(memory), "/dev/shm/weir.%s", name);
	options.shared = name;
	weir_table_free(table_with(&options));
	options.shared = NULL;
	options.file = memory;
	CHECK_EQ(weir_table_new(&options, &(struct weir_table *){ NULL }, NULL), WEIR_ERR_REGION);
	CHECK_EQ(unlink(memory), 0);
	weir_table_free(table_with(&options));
	options.shared = name;
	options.file = NULL;
	CHECK_EQ(weir_table_new(&options, &(struct weir_table *){ NULL }, NULL), WEIR_ERR_REGION);
	CHECK_EQ(unlink(memory), 0);
}

static void other_users(void)
{
	struct weir_table_options options = file_options(KEYS);

	options.mode = 0640;
	leave(table_with(&options));
	CHECK_EQ(word_of_file(0) != 0, true);
	if (geteuid() == 0) {
		CHECK_EQ(chown(path, 65534, 65534), 0);
		options.mode = 0;
		check_refused(&options, WEIR_ERR_REGION,
			      named("it belongs to another user; to share it, set a mode with bits for others"));
		options.mode = 0666;
		weir_table_free(table_with(&options));
	}
	clean_up();
}

/* A full disk is an error when the file is made, and does not kill the process later. */
static void a_full_disk_is_told(void)
{
	const struct weir_table_options options = file_options(1000000);
	struct rlimit before, small;

	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 1 << 20;
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	check_refused(&options, WEIR_ERR_SYSTEM, named("File too large"));
	CHECK_EQ(access(path, F_OK), -1);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(what_was_owed_is_owed),
		TEST(only_files_are_synced),
		TEST(a_killed_process_leaves_what_it_charged),
		TEST(the_last_one_closes_it),
		TEST(who_is_not_alone_recovers_nothing),
		TEST(after_fork_both_go_on),
		TEST(nobody_waits_for_ever),
		TEST(headers_that_are_refused),
		TEST(another_size_is_refused),
		TEST(what_is_no_file_is_refused),
		TEST(options_that_are_refused),
		TEST(shared_memory_is_no_file),
		TEST(other_users),
		TEST(a_full_disk_is_told),
	};

	choose_path();
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
