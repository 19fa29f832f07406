/* policy_loader.c: reads the policy after a notification of a change, once the files have not changed for a moment. */
#include "server/policy_loader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "guard/guard.h"
#include "observe/audit.h"
#include "os/loop.h"
#include "os/text_file.h"
#include "policy/source/policy_copy.h"
#include "policy/source/policy_identity.h"
#include "policy/source/policy_remote.h"
#include "policy/source/policy_source.h"
#include "policy/source/policy_text.h"
#include "server/arena_plan.h"
#include "server/policy_upload.h"
#include "server/stores.h"

static const weir_ns ms = 1000000;
static const weir_ns quiet_ns = UINT64_C(100000000);     /* without a change before a read */
static const weir_ns patience_ns = UINT64_C(2000000000); /* the longest that a change waits */
static const weir_ns poll_ns = UINT64_C(2000000000);     /* between reads without notification */

enum { PLANS_LEAST = 1024 };

/* The errors of a version. */
struct report {
	char first[WEIR__POLICY_ERROR_SIZE];
	uint64_t hash; /* of all lines */
	FILE *lines;   /* in memory */
	char *text;
	size_t size;
};

struct weir__policy_loader {
	struct weir__policy_source *source;
	bool has_settings; /* the file also holds settings: their names are not errors */
	bool may_lack_limits;
	uint32_t envoy; /* WEIR_ENVOY_..., for policies in Envoy's form */
	FILE *errors;   /* where errors are reported */
	struct weir__log *log;
	struct weir__settings *started; /* the settings of the file at the start */
	struct weir__settings *said;    /* the settings of the file now */
	uint64_t differences;           /* between the two, as last reported: a bit for each setting */
	struct weir_policy *first;      /* NULL once there is a guard */
	char *copy;                     /* where each valid version of a remote source is written; NULL: nowhere */
	uint64_t plans_set;
	uint64_t keys; /* keys that the arena must have room for; 0: a store decides */
	struct weir__policy_identity current;
	bool is_put;    /* the policy in force was uploaded; `current` is what the source last had */
	uint64_t wrong; /* hash of the errors that were last reported */
	struct weir_table *table;
	bool has_store; /* the store must be able to hold all limits */
	struct weir_guard *guard;

	struct weir__loop loop;
	pthread_t thread;
	bool is_running;
	_Atomic bool is_stopping;
	_Atomic uint64_t asked;
	weir_ns changed_at, touched_at; /* first and last notification since the last look; 0: none */
	weir_ns looked_at;
	struct weir__policy_upload_queue *uploads;
	struct weir__policy_text *policy_text;
	pthread_mutex_t lock; /* of `info` */
	struct weir__policy_loader_info info;
};

/* --- errors ----------------------------------------------------------------------------------------------------- */

static bool report_init(struct report *report)
{
	*report = (struct report){ .hash = 1 };
	report->lines = open_memstream(&report->text, &report->size);
	return report->lines != NULL;
}

static void report_fini(struct report *report)
{
	fclose(report->lines);
	free(report->text);
}

static void add_line(void *report_, const char *line)
{
	struct report *const report = report_;

	fflush(report->lines);
	if (strstr(report->text, line)) /* reading the settings has reported it already */
		return;
	if (report->first[0] == '\0')
		(void)snprintf(report->first, sizeof(report->first), "%s", line);
	report->hash = weir__policy_hash(report->hash, line, strlen(line));
	fprintf(report->lines, "%s\n", line);
}

static void print_report(struct report *report, const struct weir__diagnostics *diagnostics, FILE *errors)
{
	if (diagnostics->n > WEIR__DIAGNOSTICS_MOST)
		fprintf(report->lines, "more errors follow; fix these first\n");
	fflush(report->lines);
	fputs(report->text, errors);
	fflush(errors);
}

/* --- settings in the same file ------------------------------------------------------------------------------------ */

static bool is_same_setting(const struct weir__setting *setting, const struct weir__settings *a,
			    const struct weir__settings *b)
{
	char of_a[WEIR__SETTING_SHOWN], of_b[WEIR__SETTING_SHOWN];

	(void)weir__settings_show(a, setting, of_a);
	(void)weir__settings_show(b, setting, of_b);
	return strcmp(of_a, of_b) == 0;
}

/* Reports each set of changed settings once. Users may change (user_reload.h). */
static void tell_differences(struct weir__policy_loader *loader, const char *file)
{
	char names[512] = "";
	uint64_t differences = 0;
	size_t length = 0;

	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		if (weir__setting_rows[i].kind != WEIR__SETTING_USERS &&
		    !is_same_setting(&weir__setting_rows[i], loader->started, loader->said)) {
			differences |= UINT64_C(1) << i;
			length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s", length ? ", " : "",
						   weir__setting_rows[i].name);
		}
	if (differences != 0 && differences != loader->differences)
		fprintf(loader->errors,
			"weir serve: %s: changed, but not in effect until you restart: %s; only "
			"limits and users change without a restart\n",
			file, names);
	loader->differences = differences;
}

static void forward_lines(char *text, struct weir__diagnostics *diagnostics)
{
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (++diagnostics->n <= WEIR__DIAGNOSTICS_MOST)
			diagnostics->report(diagnostics->context, line);
}

/* Returns false if the text is not YAML. Reading it as a policy would only repeat that error. */
static bool read_settings(const struct weir__policy_part *part, struct weir__settings *settings,
			  struct weir__diagnostics *diagnostics)
{
	char *text = NULL;
	size_t size;
	FILE *const errors = open_memstream(&text, &size);
	bool is_yaml;

	if (errors == NULL) {
		weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 }, "no memory to read it");
		return false;
	}
	weir__settings_init(settings, errors);
	(void)snprintf(settings->config, sizeof(settings->config), "%s", part->file);
	is_yaml = weir__settings_read_text(settings, part->text.at, part->text.n);
	weir__settings_fini(settings); /* user_reload.c reads the users */
	fclose(errors);
	settings->errors = NULL;
	forward_lines(text, diagnostics);
	free(text);
	return is_yaml;
}

/* --- versions ----------------------------------------------------------------------------------------------------- */

static struct weir_policy *compile(struct weir__policy_loader *loader, const struct weir__policy_version *version,
				   struct weir__diagnostics *diagnostics)
{
	struct weir_policy *policy;

	if (loader->has_settings && !read_settings(&version->parts[0], loader->said, diagnostics))
		return NULL;
	policy = weir__policy_of_parts(version->parts, version->n, diagnostics,
				       loader->envoy | (loader->has_settings ? WEIR__POLICY_HAS_OTHERS : 0));
	diagnostics->file = version->parts[0].file;
	if (policy && !(loader->may_lack_limits && loader->said->lacks_policy) &&
	    !weir__policy_has_limits(policy, diagnostics)) {
		weir_policy_free(policy);
		return NULL;
	}
	return policy;
}

static void show(struct weir__policy_loader *loader, const struct weir__policy_version *version)
{
	weir__policy_text_set(loader->policy_text, version, weir__policy_version_hash(version), false,
			      loader->has_settings ? "the policy is in the configuration file, which is not shown" :
						     NULL);
}

/* --- the first version -------------------------------------------------------------------------------------------- */

static struct weir__policy_loader *new_of_path(const char *path, bool has_settings, FILE *errors, struct weir__log *log)
{
	struct weir__policy_loader *const loader = calloc(1, sizeof(*loader));

	if (loader == NULL)
		return NULL;
	loader->has_settings = has_settings;
	loader->errors = errors;
	loader->log = log;
	loader->started = calloc(1, sizeof(*loader->started));
	loader->said = calloc(1, sizeof(*loader->said));
	loader->source = weir__policy_remote_is(path) ?
				 weir__policy_source_of_url(path, weir__log_stream(loader->log, WEIR__LOG_WARNING)) :
				 weir__policy_source_of_path(path);
	loader->uploads = weir__policy_upload_queue_new();
	loader->policy_text = weir__policy_text_new();
	(void)pthread_mutex_init(&loader->lock, NULL);
	if (loader->started && loader->said && loader->source && loader->uploads && loader->policy_text)
		return loader;
	weir__policy_loader_free(loader);
	return NULL;
}

/* An error is only reported: the policy works without a copy. */
static void keep_copy(struct weir__policy_loader *loader, const struct weir__policy_version *version)
{
	const int error = loader->copy ? weir__policy_copy_write(loader->copy, version) : 0;

	if (error != 0)
		fprintf(loader->errors, "weir serve: %s: %s: the copy of the policy was not written\n", loader->copy,
			strerror(error));
}

/* Reads the copy: the last valid version of a source that has none now. It counts as the source's own version, so that
 * the same version from the source is not a change. */
static struct weir_policy *read_copy(struct weir__policy_loader *loader, struct weir__diagnostics *diagnostics)
{
	struct weir__policy_version version;
	struct weir_policy *policy = NULL;
	const int error = weir__policy_copy_read(loader->copy, &version);

	if (error != 0) {
		diagnostics->file = loader->copy;
		weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 }, "%s; no copy to start from",
				      weir__text_file_error(error));
		return NULL;
	}
	policy = compile(loader, &version, diagnostics);
	if (policy) {
		const char *const path = version.parts[0].file;

		version.parts[0].file = loader->source->name;
		loader->current = weir__policy_identify(&version, policy);
		show(loader, &version);
		version.parts[0].file = path;
		fprintf(weir__log_stream(loader->log, WEIR__LOG_WARNING),
			"weir serve: using the last valid policy, from its copy %s\n", loader->copy);
	}
	weir__policy_version_free(&version);
	return policy;
}

static struct weir_policy *read_first(struct weir__policy_loader *loader, struct weir__diagnostics *diagnostics)
{
	struct weir__policy_version version;
	struct weir_policy *policy = NULL;

	if (!loader->source->read(loader->source, diagnostics, &version))
		return NULL;
	policy = compile(loader, &version, diagnostics);
	if (policy) {
		loader->current = weir__policy_identify(&version, policy);
		show(loader, &version);
		keep_copy(loader, &version);
	}
	weir__policy_version_free(&version);
	return policy;
}

/* Reads the first version, and reports all its errors. */
static bool load(struct weir__policy_loader *loader,
		 struct weir_policy *(*read)(struct weir__policy_loader *loader, struct weir__diagnostics *diagnostics))
{
	struct weir__diagnostics diagnostics = { .file = "policy", .report = add_line };
	struct report report;

	if (!report_init(&report))
		return false;
	diagnostics.context = &report;
	loader->first = read(loader, &diagnostics);
	if (loader->first == NULL || diagnostics.n > 0)
		print_report(&report, &diagnostics, loader->errors);
	if (loader->first == NULL) {
		loader->info.failures++;
		memcpy(loader->info.last_error, report.first, sizeof(report.first));
	}
	report_fini(&report);
	*loader->started = *loader->said;
	return loader->first != NULL;
}

static bool load_first(struct weir__policy_loader *loader)
{
	return load(loader, read_first) || (loader->copy && load(loader, read_copy));
}

bool weir__policy_loader_is_set(const struct weir__settings *settings)
{
	return settings->policy[0] != '\0' || settings->has_policy;
}

struct weir__policy_loader *weir__policy_loader_new(const struct weir__settings *settings)
{
	const bool is_apart = settings->policy[0] != '\0';
	struct weir__policy_loader *const loader = new_of_path(is_apart ? settings->policy : settings->config,
							       !is_apart, settings->errors, settings->log);

	if (loader == NULL) {
		fputs("weir serve: no memory for a policy\n", settings->errors);
		return NULL;
	}
	loader->plans_set = settings->limits_max;
	loader->envoy = settings->envoy_counts == WEIR__COUNTS_EACH ? WEIR_ENVOY_COUNT_EACH : 0;
	loader->has_store = settings->store[0] != '\0';
	loader->keys = settings->keys;
	if (settings->policy_copy[0] != '\0')
		loader->copy = strdup(settings->policy_copy);
	if (load_first(loader)) {
		loader->errors = weir__log_stream(loader->log, WEIR__LOG_WARNING);
		return loader;
	}
	weir__policy_loader_free(loader);
	return NULL;
}

static const char no_redis[] = "store: redis, but the server has no Redis; set `store` to its URL, as in "
			       "--store redis://127.0.0.1:6379, or write store: table";

/* Whether the file has settings. Then it describes the server, unless flags add to it. A file of limits alone says
 * nothing about the server. */
static bool has_any_setting(const struct weir__settings *settings)
{
	bool has = false;

	for (size_t i = 0; i < WEIR__SETTINGS && !has; i++)
		has = weir__settings_place(settings, weir__setting_rows[i].name).from != WEIR__FROM_DEFAULT;
	return has;
}

/* Whether a server with these settings has the stores that the policy names. */
static bool has_stores(const struct weir__settings *settings, const char *path, const struct weir_policy *policy,
		       FILE *errors)
{
	if (settings->store[0] != '\0' || !has_any_setting(settings))
		return true;
	for (uint32_t i = 0; i < weir_policy_plans(policy); i++) {
		const struct weir_policy_plan *const plan = weir_policy_plan_of(policy, i);

		if (plan->store != WEIR_POLICY_STORE_REDIS)
			continue;
		fprintf(errors, "%s: limit \"%s\": %s\n", path, plan->name, no_redis);
		return false;
	}
	return true;
}

/* Checks only if the size of the arena is set. Otherwise the size depends on the machine that serves. */
static void check_arena(const struct weir__settings *settings, const char *path, const struct weir_policy *policy,
			FILE *errors)
{
	char line[WEIR__ARENA_WARNING_SIZE];

	if (weir__settings_place(settings, "arena").from != WEIR__FROM_DEFAULT &&
	    weir__arena_plan_warn(policy, settings->keys, settings->store[0] != '\0', settings->arena, line))
		fprintf(errors, "%s: warning: %s\n", path, line);
}

static bool is_there(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0;
}

/* Finds the policy that the settings in the file `path` name. A relative path is relative to the working directory of
 * the server. If it is not found from here, it is tried from the directory of the file, in case the server is started
 * there. */
static void find_apart(const char *policy, const char *path, char found[WEIR__POLICY_PATH_SIZE])
{
	const char *const slash = strrchr(path, '/');

	(void)snprintf(found, WEIR__POLICY_PATH_SIZE, "%s", policy);
	if (policy[0] == '/' || slash == NULL || is_there(policy))
		return;
	(void)snprintf(found, WEIR__POLICY_PATH_SIZE, "%.*s/%s", (int)(slash - path), path, policy);
	if (!is_there(found))
		(void)snprintf(found, WEIR__POLICY_PATH_SIZE, "%s", policy);
}

/* Checks the policy that settings name. A policy in etcd or Redis is not read: that needs a network, and a check must
 * give the same result everywhere. The result is then the policy of the file itself, which has no limits. */
static struct weir_policy *check_apart(const struct weir__settings *settings, const char *path, FILE *errors,
				       struct weir_policy *empty, char ret_apart[WEIR__POLICY_PATH_SIZE])
{
	const struct weir__setting *const setting = weir__settings_find("policy", strlen("policy"));
	char shown[WEIR__SETTING_SHOWN];
	struct weir__policy_loader *loader;
	struct weir_policy *policy = NULL;

	if (weir__policy_remote_is(settings->policy)) {
		(void)weir__settings_show(settings, setting, shown);
		fprintf(errors, "%s: note: policy: %s: not read; only policies in files are checked\n", path, shown);
		return empty;
	}
	weir_policy_free(empty);
	find_apart(settings->policy, path, ret_apart);
	loader = new_of_path(ret_apart, false, errors, NULL);
	if (loader == NULL) {
		fputs("weir: no memory for a policy\n", errors);
		return NULL;
	}
	loader->envoy = settings->envoy_counts == WEIR__COUNTS_EACH ? WEIR_ENVOY_COUNT_EACH : 0;
	if (load_first(loader))
		policy = loader->first;
	loader->first = NULL;
	weir__policy_loader_free(loader);
	return policy;
}

struct weir_policy *weir__policy_loader_check(const char *path, FILE *errors, char ret_apart[WEIR__POLICY_PATH_SIZE])
{
	struct stat status;
	const bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
	struct weir__policy_loader *const loader = new_of_path(path, !is_folder, errors, NULL);
	struct weir_policy *policy = NULL;

	ret_apart[0] = '\0';
	if (loader == NULL) {
		fputs("weir: no memory for a policy\n", errors);
		return NULL;
	}
	loader->may_lack_limits = !is_folder; /* it may have settings only */
	if (load_first(loader))
		policy = loader->first;
	if (loader->has_settings && policy && loader->said->policy[0] != '\0')
		policy = check_apart(loader->said, path, errors, policy, ret_apart);
	if (loader->has_settings)
		weir__settings_warn_of_old_names(loader->said, errors);
	if (loader->has_settings && policy)
		check_arena(loader->said, path, policy, errors);
	if (loader->has_settings && policy && !has_stores(loader->said, path, policy, errors)) {
		weir_policy_free(policy);
		policy = NULL;
	}
	loader->first = NULL;
	weir__policy_loader_free(loader);
	return policy;
}

uint32_t weir__policy_loader_limits(const struct weir__policy_loader *loader)
{
	const uint32_t n = loader->first ? weir_policy_plans(loader->first) : 0;

	uint64_t most = 2 * (uint64_t)n;

	if (most < PLANS_LEAST)
		most = PLANS_LEAST;
	if (loader->plans_set > 0)
		most = loader->plans_set;
	return most < WEIR__LIMITS_MAX ? (uint32_t)most + 1 :
					 WEIR__LIMITS_MAX; /* + 1: the daemon's own limit, which counts inline limits */
}

size_t weir__policy_loader_arena(const struct weir__policy_loader *loader)
{
	return loader->first && loader->keys > 0 ?
		       weir__arena_plan_size(loader->first, loader->keys, loader->has_store) :
		       0;
}

/* --- reloading ---------------------------------------------------------------------------------------------------- */

static void follow(struct weir__policy_loader *loader)
{
	const struct weir__policy_identity *const current = &loader->current;
	const char **const paths = calloc(current->n + 1, sizeof(*paths));

	for (size_t i = 0; paths && i < current->n; i++)
		paths[i] = current->files[i].path;
	if (loader->source->follow(loader->source, paths, paths ? current->n : 0))
		loader->changed_at = loader->touched_at = weir_clock_now();
	free((void *)paths);
}

static void note_good(struct weir__policy_loader *loader, bool is_change)
{
	(void)pthread_mutex_lock(&loader->lock);
	loader->info.last_error[0] = '\0';
	loader->info.limits = weir__guard_limits(loader->guard);
	if (is_change) {
		loader->info.changes++;
		loader->info.loaded_at = weir_clock_now();
	}
	(void)pthread_mutex_unlock(&loader->lock);
	loader->wrong = 0;
}

/* For audit lines: a URL without its password, or "file". */
static const char *name_of_source(const struct weir__policy_loader *loader)
{
	return loader->source->name ? loader->source->name : "file";
}

/* Does not report the same errors again, for example when something else in the directory changed. */
static void note_wrong(struct weir__policy_loader *loader, struct report *report,
		       const struct weir__diagnostics *diagnostics)
{
	if (report->hash == loader->wrong)
		return;
	loader->wrong = report->hash;
	fputs("weir serve: the new policy has errors; keeping the current policy:\n", loader->errors);
	print_report(report, diagnostics, loader->errors);
	weir__audit_policy(loader->log, name_of_source(loader), weir__guard_limits(loader->guard), 0, report->first);
	(void)pthread_mutex_lock(&loader->lock);
	loader->info.failures++;
	memcpy(loader->info.last_error, report->first, sizeof(report->first));
	(void)pthread_mutex_unlock(&loader->lock);
}

/* What the operator can do about an error of the table. */
static const char *hint_of(int error)
{
	return error == WEIR_ERR_FULL ?
		       ": raise the setting limits_max, which also counts the limits of earlier policies "
		       "since the table was made" :
		       "";
}

/* Writes the warning that a policy does not fit the arena. Empty: it fits. */
static void warn_of_arena(const struct weir__policy_loader *loader, const struct weir_policy *policy,
			  char ret_line[WEIR__ARENA_WARNING_SIZE])
{
	if (loader->keys == 0 || !weir__arena_plan_warn(policy, loader->keys, loader->has_store,
							loader->table->region.arena_bytes, ret_line))
		ret_line[0] = '\0';
}

static void tell_warning(const struct weir__policy_loader *loader, const char *line)
{
	if (line[0] == '\0')
		return;
	fprintf(loader->errors, "weir serve: the policy: warning: %s\n", line);
	fflush(loader->errors);
}

/* Limits whose keys start over. The first few are reported, and all are counted. */
struct anew {
	FILE *lines; /* in memory */
	char *text;
	size_t size;
	uint32_t n;
};

static void note_anew(void *anew_, const struct weir__policy_difference *difference)
{
	struct anew *const anew = anew_;
	char line[WEIR__POLICY_DIFFERENCE_SIZE];

	if (!weir__policy_difference_is_anew(difference))
		return;
	weir__policy_difference_write(difference, line);
	if (anew->n++ < WEIR__BOUND_POLICY_ANEW && anew->lines)
		fprintf(anew->lines, "weir serve: the policy: %s\n", line);
}

static void tell_anew(struct weir__policy_loader *loader, struct anew *anew)
{
	if (anew->n > WEIR__BOUND_POLICY_ANEW && anew->lines)
		fprintf(anew->lines, "weir serve: the policy: keys of %u more limits start over\n",
			anew->n - WEIR__BOUND_POLICY_ANEW);
	if (anew->lines) {
		fflush(anew->lines);
		fputs(anew->text, loader->errors);
		fflush(loader->errors);
	}
	(void)pthread_mutex_lock(&loader->lock);
	loader->info.anew = anew->n;
	(void)pthread_mutex_unlock(&loader->lock);
}

static void anew_fini(struct anew *anew)
{
	if (anew->lines)
		fclose(anew->lines);
	free(anew->text);
}

static void tell_plan_anew(void *loader_, const char *plan)
{
	const struct weir__policy_loader *const loader = loader_;

	fprintf(loader->errors,
		"weir serve: the policy: %s: keys start over, because the table has a limit of this name whose algorithm, "
		"period of the window, or options differ\n",
		plan);
}

/* At the start the last policy is unknown, but a table that outlived the server has its limits. */
static void tell_anew_at_start(struct weir__policy_loader *loader)
{
	loader->info.anew = weir__guard_list_anew(loader->guard, tell_plan_anew, loader);
	if (loader->info.anew > WEIR__BOUND_POLICY_ANEW)
		fprintf(loader->errors, "weir serve: the policy: keys of %u more limits start over\n",
			loader->info.anew - WEIR__BOUND_POLICY_ANEW);
}

static bool change(struct weir__policy_loader *loader, const struct weir__policy_version *version,
		   struct weir__diagnostics *diagnostics)
{
	struct weir_policy *const policy = compile(loader, version, diagnostics);
	struct weir__policy_identity identity;
	struct weir_message why;
	struct anew anew = { .n = 0 };
	char warning[WEIR__ARENA_WARNING_SIZE];
	int error;

	if (policy == NULL)
		return false;
	identity = weir__policy_identify(version, policy);
	warn_of_arena(loader, policy, warning);
	anew.lines = open_memstream(&anew.text, &anew.size);
	(void)weir__guard_compare(loader->guard, policy, note_anew, &anew); /* before the guard owns the policy */
	error = weir_guard_change(loader->guard, policy, weir_table_now(loader->table), &why);
	if (error != WEIR_OK) {
		diagnostics->file = version->parts[0].file;
		weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 }, "%s%s", why.text, hint_of(error));
		weir__policy_forget(&identity);
		anew_fini(&anew);
		return false;
	}
	tell_anew(loader, &anew);
	anew_fini(&anew);
	tell_warning(loader, warning);
	weir__policy_forget(&loader->current);
	loader->current = identity;
	loader->is_put = false;
	weir__audit_policy(loader->log, name_of_source(loader), weir__guard_limits(loader->guard), anew.n, "");
	show(loader, version);
	keep_copy(loader, version);
	if (loader->has_settings)
		tell_differences(loader, version->parts[0].file);
	return true;
}

/* An uploaded policy stays in force until the source changes, or a reload is requested. */
static bool look_at(struct weir__policy_loader *loader, bool is_asked, struct weir__diagnostics *diagnostics,
		    bool *ret_is_change)
{
	struct weir__policy_version version;
	bool is_good = true;

	if (!loader->source->read(loader->source, diagnostics, &version))
		return false;
	*ret_is_change = (loader->is_put && is_asked) || !weir__policy_is_current(&loader->current, &version);
	if (*ret_is_change)
		is_good = change(loader, &version, diagnostics);
	weir__policy_version_free(&version);
	return is_good;
}

static void look(struct weir__policy_loader *loader, bool is_asked)
{
	struct weir__diagnostics diagnostics = { .file = "policy", .report = add_line };
	struct report report;
	bool is_change = false;

	if (!report_init(&report))
		return;
	diagnostics.context = &report;
	loader->changed_at = loader->touched_at = 0;
	follow(loader); /* first: notifies of later changes */
	if (look_at(loader, is_asked, &diagnostics, &is_change))
		note_good(loader, is_change);
	else
		note_wrong(loader, &report, &diagnostics);
	report_fini(&report);
	follow(loader); /* now also the files that this version names */
	loader->looked_at = weir_clock_now();
}

/* --- uploads ------------------------------------------------------------------------------------------------------ */

static void note_put(void *loader_, const struct weir__policy_upload *upload)
{
	struct weir__policy_loader *const loader = loader_;
	struct weir__policy_part part = { .text = { upload->text, upload->length }, .file = "body" };
	const struct weir__policy_lines *const anew = &upload->outcome.anew;
	const char *line = anew->text;

	for (uint32_t i = 0; i < anew->n && i < WEIR__BOUND_POLICY_ANEW; i++, line += strlen(line) + 1)
		fprintf(loader->errors, "weir serve: the policy: %s\n", line);
	if (anew->n + anew->more > WEIR__BOUND_POLICY_ANEW)
		fprintf(loader->errors, "weir serve: the policy: keys of %llu more limits start over\n",
			(unsigned long long)(anew->n + anew->more - WEIR__BOUND_POLICY_ANEW));
	fflush(loader->errors);
	tell_warning(loader, upload->outcome.warning);
	(void)pthread_mutex_lock(&loader->lock);
	loader->info.anew = (uint32_t)(anew->n + anew->more);
	(void)pthread_mutex_unlock(&loader->lock);
	loader->is_put = true;
	weir__policy_text_set(loader->policy_text, &(struct weir__policy_version){ &part, 1 }, upload->outcome.version,
			      true, NULL);
	note_good(loader, true);
}

static void do_uploads(struct weir__policy_loader *loader)
{
	while (weir__policy_upload_queue_do(loader->uploads, loader->guard, loader->table, note_put, loader))
		;
}

bool weir__policy_loader_send(struct weir__policy_loader *loader, struct weir__policy_upload *upload)
{
	bool has_room;

	upload->envoy = loader->envoy;
	upload->keys = loader->keys;
	upload->has_store = loader->has_store;
	has_room = weir__policy_upload_queue_add(loader->uploads, upload);
	if (has_room)
		weir__loop_wake(&loader->loop);
	return has_room;
}

struct weir__policy_text *weir__policy_loader_text(struct weir__policy_loader *loader)
{
	return loader->policy_text;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static bool is_due(const struct weir__policy_loader *loader, weir_ns now)
{
	if (loader->changed_at != 0 &&
	    (now >= loader->touched_at + quiet_ns || now >= loader->changed_at + patience_ns))
		return true;
	return loader->source->is_blind && now >= loader->looked_at + poll_ns;
}

static int timeout_ms(const struct weir__policy_loader *loader, weir_ns now)
{
	weir_ns at = WEIR_NEVER;

	if (loader->source->is_blind)
		at = loader->looked_at + poll_ns;
	if (loader->changed_at != 0 && loader->touched_at + quiet_ns < at)
		at = loader->touched_at + quiet_ns;
	if (at == WEIR_NEVER)
		return -1;
	return at <= now ? 0 : (int)((at - now) / ms) + 1;
}

static void *keep(void *loader_)
{
	struct weir__policy_loader *const loader = loader_;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	while (!atomic_load(&loader->is_stopping)) {
		const int n = weir__loop_wait(&loader->loop, timeout_ms(loader, weir_clock_now()), events);
		const uint64_t asked = atomic_load(&loader->asked);
		const weir_ns now = weir_clock_now();

		if (n > 0 && loader->source->take(loader->source)) {
			loader->touched_at = now;
			if (loader->changed_at == 0)
				loader->changed_at = now;
		}
		do_uploads(loader);
		if (asked > loader->info.reloads || is_due(loader, now)) {
			look(loader, asked > loader->info.reloads);
			(void)pthread_mutex_lock(&loader->lock);
			loader->info.reloads = asked;
			(void)pthread_mutex_unlock(&loader->lock);
		}
	}
	return NULL;
}

static bool start_thread(struct weir__policy_loader *loader)
{
	int error = weir__loop_init(&loader->loop);

	if (error != 0)
		return false;
	if (loader->source->descriptor >= 0)
		error = weir__loop_add(&loader->loop, loader->source->descriptor, loader);
	if (error == 0)
		error = pthread_create(&loader->thread, NULL, keep, loader);
	if (error != 0)
		weir__loop_close(&loader->loop);
	return error == 0;
}

static int check_with_store(const struct weir_limit *limit, enum weir_policy_store store,
			    struct weir_message *ret_message)
{
	return store == WEIR_POLICY_STORE_TABLE ? WEIR_OK : weir__stores_check_limit(limit, ret_message);
}

static int check_without_store(const struct weir_limit *limit, enum weir_policy_store store,
			       struct weir_message *ret_message)
{
	(void)limit;
	if (store != WEIR_POLICY_STORE_REDIS)
		return WEIR_OK;
	(void)snprintf(ret_message->text, sizeof(ret_message->text), "%s", no_redis);
	return WEIR_ERR_LIMIT;
}

bool weir__policy_loader_start(struct weir__policy_loader *loader, struct weir_table *table)
{
	struct weir_policy *const first = loader->first;
	struct weir_message why;
	int error;

	char warning[WEIR__ARENA_WARNING_SIZE];

	loader->first = NULL;
	loader->table = table;
	warn_of_arena(loader, first, warning);
	error = weir__guard_new(table, first, loader->has_store ? check_with_store : check_without_store,
				&loader->guard, &why);
	if (error != WEIR_OK) {
		fprintf(loader->errors, "weir serve: the policy: %s%s\n", why.text, hint_of(error));
		return false;
	}
	loader->info.loaded_at = loader->looked_at = weir_clock_now();
	loader->info.limits = weir__guard_limits(loader->guard);
	tell_anew_at_start(loader);
	tell_warning(loader, warning);
	follow(loader);
	loader->is_running = start_thread(loader);
	if (!loader->is_running)
		fputs("weir serve: no thread or file descriptor to watch the policy\n", loader->errors);
	return loader->is_running;
}

void weir__policy_loader_free(struct weir__policy_loader *loader)
{
	if (loader == NULL)
		return;
	if (loader->is_running) {
		atomic_store(&loader->is_stopping, true);
		weir__loop_wake(&loader->loop);
		(void)pthread_join(loader->thread, NULL);
		weir__loop_close(&loader->loop);
	}
	weir_guard_free(loader->guard);
	weir_policy_free(loader->first);
	weir__policy_upload_queue_free(loader->uploads);
	weir__policy_text_free(loader->policy_text);
	if (loader->source)
		loader->source->free(loader->source);
	weir__policy_forget(&loader->current);
	free(loader->copy);
	free(loader->started);
	free(loader->said);
	(void)pthread_mutex_destroy(&loader->lock);
	free(loader);
}

struct weir_guard *weir__policy_loader_guard(struct weir__policy_loader *loader)
{
	return loader->guard;
}

uint64_t weir__policy_loader_reload(struct weir__policy_loader *loader)
{
	const uint64_t ticket = atomic_fetch_add(&loader->asked, 1) + 1;

	weir__loop_wake(&loader->loop);
	return ticket;
}

void weir__policy_loader_info(struct weir__policy_loader *loader, struct weir__policy_loader_info *ret_info)
{
	(void)pthread_mutex_lock(&loader->lock);
	*ret_info = loader->info;
	(void)pthread_mutex_unlock(&loader->lock);
}
