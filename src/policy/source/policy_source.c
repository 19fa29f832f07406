/* policy_source.c: a policy in a file or a directory. */
#include "policy/source/policy_source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "os/folder.h"
#include "os/memory.h"
#include "os/text_file.h"
#include "os/watch.h"

/* Bytes per file. The policy's memory bounds all files together. */
static const size_t text_most = (size_t)1 << 30;

enum { NAMED_MAX = 64, LINKS_MAX = 64 }; /* files that are watched; a policy may have more */

struct path_source {
	struct weir__policy_source source; /* first, so that a pointer to it is one to the struct */
	struct weir__watch watch;
	char path[PATH_MAX];
	/* Files of the directory that were symbolic links when last read. Their targets are watched, too. */
	char *links[LINKS_MAX];
	size_t n_links;
	bool has_more_links;
};

/* Wipes the texts: files of settings may contain passwords. */
void weir__policy_version_free(struct weir__policy_version *version)
{
	for (size_t i = 0; i < version->n; i++) {
		weir__memory_wipe((void *)(uintptr_t)version->parts[i].text.at, version->parts[i].text.n);
		free((void *)(uintptr_t)version->parts[i].text.at);
		free((void *)(uintptr_t)version->parts[i].file);
	}
	free(version->parts);
	*version = (struct weir__policy_version){ NULL, 0 };
}

/* A policy without a list of limits may be a file that is being written. */
bool weir__policy_has_limits(const struct weir_policy *policy, struct weir__diagnostics *diagnostics)
{
	if (!policy->has_list)
		weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 },
				      "no limits found; for a policy without limits, write limits: []");
	return policy->has_list;
}

static bool refuse(struct weir__diagnostics *diagnostics, const char *path, const char *why)
{
	diagnostics->file = path;
	weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 }, "%s", why);
	return false;
}

/* Takes ownership of the name. */
static bool add_file(struct weir__diagnostics *diagnostics, char *name, struct weir__policy_version *version)
{
	size_t length;
	char *text;
	int error = name ? weir__text_file_read(name, text_most, &text, &length) : ENOMEM;

	if (error != 0) {
		(void)refuse(diagnostics, name ? name : "policy", weir__text_file_error(error));
		diagnostics->file = "policy"; /* the name was freed */
		free(name);
		return false;
	}
	version->parts[version->n++] = (struct weir__policy_part){ .text = { text, length }, .file = name };
	return true;
}

static bool read_folder(const char *path, struct weir__diagnostics *diagnostics, struct weir__policy_version *version)
{
	static const char *const endings[] = { ".yaml", NULL };
	struct weir__folder_files files;
	const int error = weir__folder_read(path, endings, &files);
	bool is_good = true;

	if (error != 0)
		return refuse(diagnostics, path, strerror(error));
	if (files.n == 0)
		is_good = refuse(diagnostics, path, "no .yaml file found in it");
	else if (files.n > WEIR__POLICY_FILES_MAX)
		is_good = refuse(diagnostics, path, "more than 256 .yaml files in it");
	for (size_t i = 0; i < files.n && is_good; i++) {
		is_good = add_file(diagnostics, files.paths[i], version);
		files.paths[i] = NULL; /* owned by the version now, or freed */
	}
	weir__folder_free(&files);
	return is_good;
}

static void forget_links(struct path_source *source)
{
	for (size_t i = 0; i < source->n_links; i++)
		free(source->links[i]);
	source->n_links = 0;
	source->has_more_links = false;
}

static void note_links(struct path_source *source, const struct weir__policy_version *version)
{
	struct stat status;

	forget_links(source);
	for (size_t i = 0; i < version->n; i++) {
		char *link;

		if (lstat(version->parts[i].file, &status) != 0 || !S_ISLNK(status.st_mode))
			continue;
		link = source->n_links < LINKS_MAX ? strdup(version->parts[i].file) : NULL;
		if (link)
			source->links[source->n_links++] = link;
		else
			source->has_more_links = true;
	}
}

static bool read_path(struct weir__policy_source *source_, struct weir__diagnostics *diagnostics,
		      struct weir__policy_version *ret_version)
{
	struct path_source *const source = (void *)source_;
	struct weir__policy_version version = { calloc(WEIR__POLICY_FILES_MAX, sizeof(*version.parts)), 0 };
	bool is_good;

	if (version.parts == NULL)
		return refuse(diagnostics, source->path, strerror(ENOMEM));
	if (weir__folder_is(source->path))
		is_good = read_folder(source->path, diagnostics, &version);
	else
		is_good = add_file(diagnostics, strdup(source->path), &version);
	if (!is_good) {
		weir__policy_version_free(&version);
		return false;
	}
	note_links(source, &version);
	*ret_version = version;
	return true;
}

static bool take(struct weir__policy_source *source_)
{
	struct path_source *const source = (void *)source_;

	return weir__watch_take(&source->watch);
}

static bool follow(struct weir__policy_source *source_, const char *const *files, size_t n)
{
	struct path_source *const source = (void *)source_;
	const char *paths[1 + NAMED_MAX + LINKS_MAX] = { source->path };
	size_t n_paths = 1;
	bool is_more;

	for (size_t i = 0; i < n && i < NAMED_MAX; i++)
		paths[n_paths++] = files[i];
	for (size_t i = 0; i < source->n_links; i++)
		paths[n_paths++] = source->links[i];
	is_more = weir__watch_follow(&source->watch, paths, n_paths);
	source_->is_blind = source->watch.is_blind || n > NAMED_MAX || source->has_more_links;
	return is_more;
}

static void free_source(struct weir__policy_source *source_)
{
	struct path_source *const source = (void *)source_;

	weir__watch_fini(&source->watch);
	forget_links(source);
	free(source);
}

struct weir__policy_source *weir__policy_source_of_path(const char *path)
{
	struct path_source *const source = calloc(1, sizeof(*source));

	if (source == NULL || strlen(path) >= sizeof(source->path)) {
		free(source);
		return NULL;
	}
	memcpy(source->path, path, strlen(path) + 1);
	weir__watch_init(&source->watch);
	source->source = (struct weir__policy_source){ .descriptor = source->watch.descriptor,
						       .is_blind = true,
						       .read = read_path,
						       .take = take,
						       .follow = follow,
						       .free = free_source };
	return &source->source;
}
