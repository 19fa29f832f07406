/* watch_test.c: every kind of file change is reported, and nothing else. */
#include "os/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

/* In memory if possible. This test creates and removes directories quickly, and an ext4 without a journal reuses freed
 * inodes only after some seconds, so mkdir would fail with ENOSPC. */
static char folder[] = "/dev/shm/watch_test.XXXXXX";
static char folder_here[] = "watch_test.XXXXXX";

/* --- files ------------------------------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
	FILE *const file = fopen(path, "w");

	CHECK(file != NULL && fputs(text, file) >= 0);
	if (file)
		fclose(file);
}

static void make_folder(const char *path)
{
	if (mkdir(path, 0700) != 0)
		check_fail(__FILE__, __LINE__, strerror(errno));
}

/* --- whether a change is reported -------------------------------------------------------------------------------- */

/* The kernel reports a change before the call that made it returns, so there is no need to wait. */
static bool is_told(struct weir__watch *watch)
{
	struct pollfd ready = { .fd = watch->descriptor, .events = POLLIN };
	const bool is_readable = poll(&ready, 1, 0) == 1;
	const bool is_changed = weir__watch_take(watch);

	CHECK(is_readable || !is_changed);
	return is_changed;
}

static void follow(struct weir__watch *watch, const char *path)
{
	(void)weir__watch_follow(watch, &path, 1);
}

static void begin(struct weir__watch *watch, const char *path)
{
	weir__watch_init(watch);
	CHECK(watch->descriptor >= 0);
	follow(watch, path);
	CHECK(!watch->is_blind);
	CHECK(!is_told(watch));
}

/* --- changes ----------------------------------------------------------------------------------------------------- */

static void change_by_writing(void)
{
	write_file("config/policy.yaml", "2");
}

static void change_by_renaming(void)
{
	write_file("config/new", "2");
	CHECK_EQ(rename("config/new", "config/policy.yaml"), 0);
}

static void change_by_a_backup(void)
{
	CHECK_EQ(rename("config/policy.yaml", "config/policy.yaml~"), 0);
	write_file("config/policy.yaml", "2");
	CHECK_EQ(unlink("config/policy.yaml~"), 0);
}

static void change_by_removing(void)
{
	CHECK_EQ(unlink("config/policy.yaml"), 0);
	write_file("config/policy.yaml", "2");
}

static void change_by_appending(void)
{
	const int file = open("config/policy.yaml", O_WRONLY | O_APPEND);

	CHECK(file >= 0 && write(file, "2", 1) == 1);
	close(file);
}

static void change_by_mode(void)
{
	CHECK_EQ(chmod("config/policy.yaml", 0640), 0);
	CHECK_EQ(chmod("config/policy.yaml", 0600), 0);
}

static void change_the_folder(void)
{
	CHECK_EQ(rename("config", "config.old"), 0);
	make_folder("config");
	write_file("config/policy.yaml", "2");
	CHECK_EQ(unlink("config.old/policy.yaml"), 0);
	CHECK_EQ(rmdir("config.old"), 0);
}

static const struct {
	const char *name;
	void (*change)(void);
} changes[] = {
	{ "truncated and written", change_by_writing },
	{ "a different file renamed to it", change_by_renaming },
	{ "renamed to a backup, then written", change_by_a_backup },
	{ "removed and made anew", change_by_removing },
	{ "appended to", change_by_appending },
	{ "its mode", change_by_mode },
	{ "its directory moved away and made anew", change_the_folder },
};

/* Each change twice: the second starts from the result of the first. */
static void changes_are_told(void)
{
	static const char *const paths[] = { "config/policy.yaml", "config", "./config/", "config//policy.yaml" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct weir__watch watch;

		begin(&watch, paths[i]);
		for (size_t j = 0; j < 2 * sizeof(changes) / sizeof(changes[0]); j++) {
			changes[j / 2].change();
			if (!is_told(&watch)) {
				printf("# %s: %s\n", paths[i], changes[j / 2].name);
				CHECK(false);
			}
			follow(&watch, paths[i]);
			CHECK(!watch.is_blind);
			CHECK(!is_told(&watch));
		}
		weir__watch_fini(&watch);
	}
}

/* As Kubernetes mounts a ConfigMap: the file is a link through a directory link that is replaced. */
static void a_swap_of_links_is_told(void)
{
	struct weir__watch watch;

	make_folder("mount");
	make_folder("mount/..1");
	write_file("mount/..1/policy.yaml", "1");
	CHECK_EQ(symlink("..1", "mount/..data"), 0);
	CHECK_EQ(symlink("..data/policy.yaml", "mount/policy.yaml"), 0);
	begin(&watch, "mount/policy.yaml");
	make_folder("mount/..2");
	write_file("mount/..2/policy.yaml", "2");
	CHECK_EQ(symlink("..2", "mount/..data_tmp"), 0);
	CHECK(is_told(&watch));
	follow(&watch, "mount/policy.yaml");
	CHECK_EQ(rename("mount/..data_tmp", "mount/..data"), 0);
	CHECK(is_told(&watch));
	follow(&watch, "mount/policy.yaml");
	CHECK(!is_told(&watch));
	write_file("mount/..1/policy.yaml", "nobody's any more");
	CHECK(!is_told(&watch));
	write_file("mount/..2/policy.yaml", "3");
	CHECK(is_told(&watch));
	weir__watch_fini(&watch);
}

static void a_link_to_elsewhere_is_followed(void)
{
	struct weir__watch watch;

	make_folder("elsewhere");
	write_file("elsewhere/policy.yaml", "1");
	CHECK_EQ(symlink("../elsewhere/policy.yaml", "config/link.yaml"), 0);
	begin(&watch, "config/link.yaml");
	write_file("elsewhere/policy.yaml", "2");
	CHECK(is_told(&watch));
	weir__watch_fini(&watch);
}

static void what_happens_beside_the_folder_is_not_told(void)
{
	struct weir__watch watch;

	begin(&watch, "config/policy.yaml");
	make_folder("other");
	write_file("other/policy.yaml", "1");
	write_file("policy.yaml", "1");
	CHECK(!is_told(&watch));
	weir__watch_fini(&watch);
}

static void what_is_not_there_makes_it_blind(void)
{
	static const char *const paths[] = { "config/policy.yaml", "missing/deep/policy.yaml" };
	struct weir__watch watch;

	weir__watch_init(&watch);
	CHECK(weir__watch_follow(&watch, paths, 1));
	CHECK(!watch.is_blind);
	CHECK(!weir__watch_follow(&watch, paths, 1)); /* nothing new */
	(void)weir__watch_follow(&watch, paths, 2);
	CHECK(watch.is_blind);
	make_folder("missing");
	make_folder("missing/deep");
	CHECK(weir__watch_follow(&watch, paths, 2));
	CHECK(!watch.is_blind);
	weir__watch_fini(&watch);
}

static void without_inotify_it_is_blind(void)
{
	struct weir__watch watch;

	weir__watch_init(&watch);
	weir__watch_fini(&watch);
	follow(&watch, "config/policy.yaml");
	CHECK(watch.is_blind);
	CHECK_EQ(watch.n, 0);
	CHECK(!weir__watch_take(&watch));
}

static void links_that_go_round_end(void)
{
	struct weir__watch watch;

	CHECK_EQ(symlink("b", "config/a"), 0);
	CHECK_EQ(symlink("a", "config/b"), 0);
	weir__watch_init(&watch);
	follow(&watch, "config/a");
	CHECK(watch.is_blind);
	weir__watch_fini(&watch);
}

static void folders_are_bounded(void)
{
	static char names[WEIR__WATCH_FOLDERS_MAX + 1][32];
	const char *paths[WEIR__WATCH_FOLDERS_MAX + 1];
	struct weir__watch watch;

	for (size_t i = 0; i <= WEIR__WATCH_FOLDERS_MAX; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "many%zu", i);
		make_folder(names[i]);
		paths[i] = names[i];
	}
	weir__watch_init(&watch);
	(void)weir__watch_follow(&watch, paths, WEIR__WATCH_FOLDERS_MAX + 1);
	CHECK_EQ(watch.n, WEIR__WATCH_FOLDERS_MAX);
	CHECK(watch.is_blind);
	(void)weir__watch_follow(&watch, paths, 1);
	CHECK_EQ(watch.n, 2); /* the directory itself and its parent */
	CHECK(!watch.is_blind);
	weir__watch_fini(&watch);
}

static const struct check_test all[] = {
	TEST(changes_are_told),
	TEST(a_swap_of_links_is_told),
	TEST(a_link_to_elsewhere_is_followed),
	TEST(what_happens_beside_the_folder_is_not_told),
	TEST(what_is_not_there_makes_it_blind),
	TEST(without_inotify_it_is_blind),
	TEST(links_that_go_round_end),
	TEST(folders_are_bounded),
};

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status, (void)type, (void)place;
	return remove(path);
}

int main(void)
{
	const char *const made = mkdtemp(folder) ? folder : mkdtemp(folder_here);
	int failures;

	if (made == NULL || chdir(made) != 0) {
		perror("a directory in memory or in the working directory");
		return 1;
	}
	make_folder("config");
	write_file("config/policy.yaml", "1");
	failures = check_run(all, sizeof(all) / sizeof(all[0]));
	if (chdir("..") != 0 || nftw(made, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
		perror(made);
	return failures;
}
