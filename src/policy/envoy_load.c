/* envoy_load.c: configurations of Envoy's ratelimit service from files. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "os/text_file.h"
#include "policy/envoy.h"

static const size_t policy_most = (size_t)8 << 30, text_most = (size_t)1 << 30;

static void read_one(struct weir__policy_reading *reading, struct weir__slice text, uint32_t options)
{
	struct weir__pool pool = weir__pool_of(policy_most);
	const struct weir__node *const root = weir__document_read(&pool, text, reading->faults);

	if (root)
		weir__envoy_read(reading, root, options);
	weir__pool_free(&pool);
}

/* 0, or an errno that was reported. */
static int load_one(struct weir__policy_reading *reading, const char *path, uint32_t options)
{
	size_t length;
	char *text;
	const int error = weir__text_file_read(path, text_most, &text, &length);

	reading->faults->file = path;
	if (error != 0) {
		weir__fault(reading->faults, (struct weir__mark){ 0, 0 }, "%s", strerror(error));
		return error;
	}
	read_one(reading, (struct weir__slice){ text, length }, options);
	free(text);
	return 0;
}

static int is_taken(const struct dirent *entry)
{
	const struct weir__slice name = weir__slice_of(entry->d_name);
	const char *const end = strrchr(entry->d_name, '.');

	return name.at[0] != '.' && end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0);
}

static int compare(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_each(struct weir__policy_reading *reading, const char *folder, struct dirent **entries, int n,
		     uint32_t options)
{
	int error = 0;

	for (int i = 0; i < n; i++) {
		const size_t size = strlen(folder) + strlen(entries[i]->d_name) + 2;
		char *const path = malloc(size);
		int failed = ENOMEM;

		if (path) {
			(void)snprintf(path, size, "%s/%s", folder, entries[i]->d_name);
			failed = load_one(reading, path, options);
		} else {
			weir__fault(reading->faults, (struct weir__mark){ 0, 0 }, "%s", strerror(failed));
		}
		error = error ? error : failed;
		reading->faults->file = folder;
		free(path);
	}
	return error;
}

static int load_folder(struct weir__policy_reading *reading, const char *folder, uint32_t options)
{
	struct dirent **entries;
	const int n = scandir(folder, &entries, is_taken, compare);
	int error;

	if (n < 0) {
		error = errno;
		weir__fault(reading->faults, (struct weir__mark){ 0, 0 }, "%s", strerror(error));
		return error;
	}
	if (n == 0)
		weir__fault(reading->faults, (struct weir__mark){ 0, 0 },
			    "no file in it ends with .yaml or .yml: each would be a domain");
	error = load_each(reading, folder, entries, n, options);
	for (int i = 0; i < n; i++)
		free(entries[i]);
	free(entries);
	return error;
}

static bool is_folder(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static struct weir_policy *new_policy(struct weir__faults *faults)
{
	struct weir_policy *const policy = calloc(1, sizeof(*policy));

	if (policy)
		policy->pool = weir__pool_of(policy_most);
	else
		weir__fault(faults, (struct weir__mark){ 1, 1 }, "no memory");
	return policy;
}

static int finish(struct weir_policy *policy, const struct weir__faults *faults, int error,
		  struct weir_policy **ret_policy)
{
	if (faults->n == 0) {
		*ret_policy = policy;
		return WEIR_OK;
	}
	weir_policy_free(policy);
	*ret_policy = NULL;
	errno = error;
	return error ? WEIR_ERR_SYSTEM : WEIR_ERR_SYNTAX;
}

int weir_policy_read_envoy(const char *text, size_t length, const char *name, uint32_t options,
			   weir_policy_report *report, void *context, struct weir_policy **ret_policy)
{
	struct weir__faults faults = { name ? name : "policy", report, context, 0 };
	struct weir__policy_reading reading = { .policy = new_policy(&faults), .faults = &faults };

	if (reading.policy)
		read_one(&reading, (struct weir__slice){ text, length }, options);
	return finish(reading.policy, &faults, reading.policy ? 0 : ENOMEM, ret_policy);
}

int weir_policy_load_envoy(const char *path, uint32_t options, weir_policy_report *report, void *context,
			   struct weir_policy **ret_policy)
{
	struct weir__faults faults = { path, report, context, 0 };
	struct weir__policy_reading reading = { .policy = new_policy(&faults), .faults = &faults };
	int error = ENOMEM;

	if (reading.policy)
		error = is_folder(path) ? load_folder(&reading, path, options) : load_one(&reading, path, options);
	return finish(reading.policy, &faults, error, ret_policy);
}
