/* region_test.c: the memory of a table: its size, sharing and lifetime. region_attach_test.c tests which attempts to
 * attach fail. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "regions.h"

enum { THREADS = 8, ROUNDS = 300 };

/* --- options ---------------------------------------------------------------------------------------------------- */

static void sizes_that_cannot_be(void)
{
	const size_t least = least_size(LIMITS), page = weir__memory_page();
	struct weir_table_options options = { .size_bytes = least, .limits_max = LIMITS };
	struct weir__region region = opened(&options);

	CHECK(region.lines >= WEIR__LINES_LEAST && region.lines % WEIR__LINES_LEAST == 0);
	weir__region_close(&region);
	options.size_bytes = least - 1; /* rounded down to whole pages */
	check_refused(&options, WEIR_ERR_ROOM,
		      text_of("a table of %zu bytes is too small: with its limits and its arena it needs at least %zu",
			      least - page, least));
	options.size_bytes = 0;
	check_refused(
		&options, WEIR_ERR_ROOM,
		text_of("a table of 0 bytes is too small: with its limits and its arena it needs at least %zu", least));
	options.limits_max = 0; /* 64 */
	check_refused(&options, WEIR_ERR_ROOM,
		      text_of("a table of 0 bytes is too small: with its limits and its arena it needs at least %zu",
			      least_size(64)));
	options.size_bytes = SIZE_MAX;
	check_refused(&options, WEIR_ERR_TOO_LARGE,
		      text_of("a table of %zu bytes is too large: the maximum is 64 bytes times 4294967295",
			      SIZE_MAX - page + 1));
	options.size_bytes = least_size(64) + ((size_t)1 << 32) * 64;
	check_refused(&options, WEIR_ERR_TOO_LARGE,
		      text_of("a table of %zu bytes is too large: the maximum is 64 bytes times 4294967295",
			      options.size_bytes));
	options = (struct weir_table_options){ .size_bytes = page, .shared = name };
	check_refused(
		&options, WEIR_ERR_ROOM,
		text_of("shared memory \"%s\": a table of %zu bytes is too small: with its limits and its arena it needs at least %zu",
			name, page, least_size(64)));
	options.size_bytes = 0;
	check_refused(&options, WEIR_ERR_NO_TABLE,
		      text_of("shared memory \"%s\": the table does not exist; to make it, set a size", name));
}

static void numbers_and_names_that_cannot_be(void)
{
	static const struct {
		const char *name, *shown;
	} names[] = {
		{ "", "" },
		{ "a/b", "a/b" },
		{ "/a", "/a" },
		{ ".", "." },
		{ ".hidden", ".hidden" },
		{ "0123456789012345678901234567890123456789012345678901234567890123",
		  "0123456789012345678901234567890123456789" },
	};
	struct weir_table_options options = { .size_bytes = least_size(LIMITS), .limits_max = (1u << 20) + 1 };
	struct weir_message why;

	check_refused(&options, WEIR_ERR_TOO_LARGE, "limits_max of 1048577: at most 1048576");
	options.limits_max = LIMITS;
	options.mode = 01000;
	check_refused(&options, WEIR_ERR_LIMIT, "invalid mode; use permission bits only, at most 0777");
	options.mode = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *const expected = text_of(
			"shared memory \"%s%s\": invalid name; use 1 to 63 bytes, no slash, and no dot at the start",
			names[i].shown, strlen(names[i].name) > 40 ? "..." : "");

		options.shared = names[i].name;
		check_refused(&options, WEIR_ERR_LIMIT, expected);
		CHECK_EQ(weir_table_unlink(names[i].name, &why), WEIR_ERR_LIMIT);
		CHECK_TEXT(why.text, expected);
	}
}

static void the_longest_name(void)
{
	struct weir_table_options options = shared_options();
	char longest[WEIR_TABLE_NAME_MAX + 1] = "";
	struct weir__region region;

	memset(longest, 'x', WEIR_TABLE_NAME_MAX);
	memcpy(longest, name, strlen(name));
	options.shared = longest;
	region = opened(&options);
	weir__region_close(&region);
	CHECK_EQ(weir_table_unlink(longest, NULL), WEIR_OK);
}

static void so_many_keys_need_so_many_bytes(void)
{
	static const uint64_t keys[] = { 0, 1, 2, 1000, 1000000 };

	for (size_t i = 0; i < 2 * sizeof(keys) / sizeof(keys[0]); i++) {
		const uint32_t limits_max = i % 2 ? 64 : 1000;
		const uint64_t n = keys[i / 2];
		const struct weir_table_options options = { .size_bytes = weir_table_size(n, limits_max),
							    .limits_max = limits_max };
		struct weir__region region = opened(&options);

		CHECK(region.lines * WEIR__LINE_SLOTS >= n);
		CHECK_EQ(region.size_bytes, options.size_bytes);
		CHECK(options.size_bytes - least_size(limits_max) < n * 47 / 2 + 47 + weir__memory_page());
		weir__region_close(&region);
	}
	CHECK_EQ(weir_table_size(UINT64_MAX, 0), SIZE_MAX);
	CHECK_EQ(weir_table_size(UINT64_MAX / 2, 1), SIZE_MAX);
	CHECK_EQ(weir_table_size(1000, 0), weir_table_size(1000, 64));
}

/* --- attaching -------------------------------------------------------------------------------------------------- */

static void who_attaches_gets_the_same_memory(void)
{
	struct weir_table_options options = shared_options();
	struct weir__region first = opened(&options), second, third;

	second = opened(&options);
	options.size_bytes = 0; /* any size */
	options.limits_max = 0;
	third = opened(&options);
	CHECK(first.header != second.header);
	atomic_store(&first.header->forgiven[5], 77);
	first.slots[15].state.lo = 99;
	CHECK_EQ(atomic_load(&second.header->forgiven[5]), 77);
	CHECK_EQ(third.slots[15].state.lo, 99);
	CHECK_EQ(third.limits_max, LIMITS);
	CHECK_EQ(third.lines, first.lines);
	CHECK_EQ(third.secret.k0, first.secret.k0);
	CHECK_EQ(third.epoch, first.epoch);
	weir__region_close(&first);
	weir__region_close(&second);
	weir__region_close(&third);
	third = opened(&options); /* it stays when all have left */
	CHECK_EQ(atomic_load(&third.header->forgiven[5]), 77);
	weir__region_close(&third);
	CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
}

static void the_mode_is_as_asked_whatever_the_umask(void)
{
	static const mode_t modes[][3] = { { 0, 0, 0600 },      { 0, 0777, 0600 },    { 0640, 0, 0640 },
					   { 0666, 022, 0666 }, { 0660, 0777, 0660 }, { 0777, 077, 0777 },
					   { 0600, 0, 0600 } };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct weir_table_options options = shared_options();
		const mode_t before = umask(modes[i][1]);
		struct weir__region region;
		struct stat status;

		options.mode = modes[i][0];
		region = opened(&options);
		umask(before);
		CHECK_EQ(stat(path, &status), 0);
		CHECK_EQ(status.st_mode & 07777, modes[i][2]);
		weir__region_close(&region);
		clean_up();
	}
}

static void unlinked_memory_lives_with_those_who_have_it(void)
{
	const struct weir_table_options options = shared_options();
	struct weir__region old = opened(&options), other;
	struct weir_message why = { 0, "" };

	CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
	atomic_store(&old.header->forgiven[5], 77);
	other = opened(&options);
	CHECK_EQ(atomic_load(&other.header->forgiven[5]), 0);
	CHECK(other.secret.k0 != old.secret.k0 && other.secret.k1 != old.secret.k1);
	weir__region_close(&old);
	weir__region_close(&other);
	CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
	CHECK_EQ(weir_table_unlink(name, &why), WEIR_ERR_SYSTEM);
	CHECK_EQ(errno, ENOENT);
	CHECK_TEXT(why.text, text_of("shared memory \"%s\": No such file or directory", name));
}

/* --- at once ---------------------------------------------------------------------------------------------------- */

static pthread_barrier_t barrier;
static struct weir__region met[THREADS];

static void *meet(void *number)
{
	const struct weir_table_options options = shared_options();
	struct weir__region *const mine = &met[(uintptr_t)number];

	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&barrier);
		*mine = opened(&options);
		atomic_fetch_add(&mine->header->forgiven[0], 1);
		pthread_barrier_wait(&barrier);
		/* All threads have counted in the same memory, or some have not. */
		if ((uintptr_t)number == 0) {
			for (size_t i = 0; i < THREADS; i++)
				CHECK_EQ(atomic_load(&met[i].header->forgiven[0]), THREADS);
			CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
		}
		pthread_barrier_wait(&barrier);
		weir__region_close(mine);
	}
	return NULL;
}

static void all_who_make_it_at_once_get_the_same_one(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, meet, (void *)i);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
}

/* --- the budget ------------------------------------------------------------------------------------------------- */

/* Bytes of address space in use: the sum of /proc/self/maps, whose lines begin with from-to. */
static size_t mapped_now(void)
{
	static char text[1 << 20];
	const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t length = 0, sum = 0;
	ssize_t got;

	while ((got = read(file, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	close(file);
	CHECK(length > 0 && length < sizeof(text) - 1);
	text[length] = '\0';
	for (char *line = text; *line; line = strchr(line, '\n') + 1) {
		char *dash;
		const unsigned long long from = strtoull(line, &dash, 16);

		sum += (size_t)(strtoull(dash + 1, NULL, 16) - from);
	}
	return sum;
}

static void a_mapping_is_no_larger_than_was_asked_for(void)
{
	static const size_t more[] = { 0, 1, 100000, 2 << 20, (2 << 20) + 1, (8 << 20) - 1, 20000000 };
	const size_t page = weir__memory_page();

	(void)weir_clock_now(); /* so that memory for its first call is already allocated */
	for (size_t i = 0; i < 2 * sizeof(more) / sizeof(more[0]); i++) {
		const size_t size = least_size(LIMITS) + more[i / 2], pages = size / page * page;
		const struct weir_table_options options = { .size_bytes = size,
							    .shared = i % 2 ? name : NULL,
							    .limits_max = LIMITS };
		const size_t before = mapped_now();
		struct weir__region region = opened(&options);
		struct stat status = { .st_size = (off_t)pages };

		CHECK(mapped_now() <= before + pages);
		CHECK((unsigned char *)(region.slots + region.lines * WEIR__LINE_SLOTS) <=
		      (unsigned char *)region.header + pages);
		if (options.shared)
			CHECK_EQ(stat(path, &status), 0);
		CHECK_EQ(status.st_size, pages);
		weir__region_close(&region);
		CHECK_EQ(mapped_now(), before);
		clean_up();
	}
}

/* More than any test machine has. Nothing is reserved before it is rejected. */
static void what_does_not_fit_is_refused(void)
{
	struct weir_table_options options = { .size_bytes = (size_t)250 << 30 };
	const char *const names[] = { NULL, name };
	struct weir_message message;
	struct weir__region region;
	int error;

	for (size_t i = 0; i < 2; i++) {
		options.shared = names[i];
		CHECK_EQ(weir__region_open(&region, &options, &message), WEIR_ERR_TOO_LARGE);
		CHECK(strstr(message.text, "a table of 268435456000 bytes does not fit: the ") != NULL);
		CHECK(strstr(message.text, " left; make it smaller, or set overcommit to skip this check") != NULL);
		CHECK(access(path, F_OK) != 0);
	}
	options = (struct weir_table_options){ .size_bytes = (size_t)250 << 30, .file = "no-such-table" };
	CHECK_EQ(weir__region_open(&region, &options, &message), WEIR_ERR_TOO_LARGE);
	CHECK(strstr(message.text, "file \"no-such-table\": a table of 268435456000 bytes does not fit: ") ==
	      message.text);
	CHECK(access("no-such-table", F_OK) != 0);
	/* Private memory is allocated page by page, so this reserves very little. The kernel may still reject it. */
	options = (struct weir_table_options){ .size_bytes = (size_t)250 << 30, .overcommit = true };
	error = weir__region_open(&region, &options, &message);
	CHECK(error == WEIR_OK || error == WEIR_ERR_SYSTEM);
	if (error == WEIR_OK)
		weir__region_close(&region);
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(sizes_that_cannot_be),
		TEST(numbers_and_names_that_cannot_be),
		TEST(the_longest_name),
		TEST(so_many_keys_need_so_many_bytes),
		TEST(who_attaches_gets_the_same_memory),
		TEST(the_mode_is_as_asked_whatever_the_umask),
		TEST(unlinked_memory_lives_with_those_who_have_it),
		TEST(all_who_make_it_at_once_get_the_same_one),
		TEST(a_mapping_is_no_larger_than_was_asked_for),
		TEST(what_does_not_fit_is_refused),
	};

	choose_name();
	atexit(clean_up);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
