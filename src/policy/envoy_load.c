/* envoy_load.c: loads configurations of Envoy's ratelimit service from files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/argument.h"
#include "os/folder.h"
#include "os/text_file.h"
#include "policy/envoy.h"

static const size_t policy_most = (size_t)8 << 30, text_most = (size_t)1 << 30;

static void read_one(struct weir__policy_reading *reading, struct weir__slice text, uint32_t options)
{
	struct weir__pool pool = weir__pool_of(policy_most);
	const struct weir__node *const root = weir__document_read(&pool, text, reading->diagnostics);

	if (root)
		weir__envoy_read(reading, root, options);
	weir__pool_free(&pool);
}

/* Returns 0, or an errno that has been reported. */
static int load_one(struct weir__policy_reading *reading, const char *path, uint32_t options)
{
	size_t length;
	char *text;
	const int error = weir__text_file_read(path, text_most, &text, &length);

	reading->diagnostics->file = path;
	if (error != 0) {
		weir__diagnostics_add(reading->diagnostics, (struct weir__mark){ 0, 0 }, "%s",
				      weir__text_file_error(error));
		return error;
	}
	read_one(reading, (struct weir__slice){ text, length }, options);
	free(text);
	return 0;
}

static int load_each(struct weir__policy_reading *reading, const char *folder, const struct weir__folder_files *files,
		     uint32_t options)
{
	int error = 0;

	for (size_t i = 0; i < files->n; i++) {
		const int failed = load_one(reading, files->paths[i], options);

		error = error ? error : failed;
		reading->diagnostics->file = folder;
	}
	return error;
}

static int load_folder(struct weir__policy_reading *reading, const char *folder, uint32_t options)
{
	static const char *const endings[] = { ".yaml", ".yml", NULL };
	struct weir__folder_files files;
	int error = weir__folder_read(folder, endings, &files);

	if (error != 0) {
		weir__diagnostics_add(reading->diagnostics, (struct weir__mark){ 0, 0 }, "%s", strerror(error));
		return error;
	}
	if (files.n == 0)
		weir__diagnostics_add(reading->diagnostics, (struct weir__mark){ 0, 0 },
				      "no .yaml or .yml file found; add one for each domain");
	error = load_each(reading, folder, &files, options);
	weir__folder_free(&files);
	return error;
}

static struct weir_policy *new_policy(struct weir__diagnostics *diagnostics)
{
	struct weir_policy *const policy = calloc(1, sizeof(*policy));

	if (policy)
		policy->pool = weir__pool_of(policy_most);
	else
		weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 }, "no memory");
	return policy;
}

static int finish(struct weir_policy *policy, const struct weir__diagnostics *diagnostics, int error,
		  struct weir_policy **ret_policy)
{
	if (diagnostics->n == 0) {
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
	if (length > 0)
		WEIR__NOT_NULL(text, NULL);
	WEIR__NOT_NULL(ret_policy, NULL);

	struct weir__diagnostics diagnostics = { name ? name : "policy", report, context, 0 };
	struct weir__policy_reading reading = { .policy = new_policy(&diagnostics), .diagnostics = &diagnostics };

	if (reading.policy)
		read_one(&reading, (struct weir__slice){ text, length }, options);
	return finish(reading.policy, &diagnostics, reading.policy ? 0 : ENOMEM, ret_policy);
}

int weir_policy_load_envoy(const char *path, uint32_t options, weir_policy_report *report, void *context,
			   struct weir_policy **ret_policy)
{
	WEIR__NOT_NULL(path, NULL);
	WEIR__NOT_NULL(ret_policy, NULL);

	struct weir__diagnostics diagnostics = { path, report, context, 0 };
	struct weir__policy_reading reading = { .policy = new_policy(&diagnostics), .diagnostics = &diagnostics };
	int error = ENOMEM;

	if (reading.policy)
		error = weir__folder_is(path) ? load_folder(&reading, path, options) :
						load_one(&reading, path, options);
	return finish(reading.policy, &diagnostics, error, ret_policy);
}
