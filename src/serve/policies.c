/* policies.c: looks when something tells it to, and once what is written has been left alone for a moment. */
#include "serve/policies.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "guard/guard.h"
#include "os/loop.h"
#include "serve/audit.h"
#include "serve/policy_copy.h"
#include "serve/policy_errands.h"
#include "serve/policy_far.h"
#include "serve/policy_identity.h"
#include "serve/policy_shown.h"
#include "serve/policy_source.h"
#include "serve/stores.h"

static const weir_ns ms = 1000000;
static const weir_ns quiet_ns = UINT64_C(100000000);     /* of which files must have been left alone, */
static const weir_ns patience_ns = UINT64_C(2000000000); /* unless that takes so long */
static const weir_ns poll_ns = UINT64_C(2000000000);     /* where nothing tells of changes */

enum { PLANS_LEAST = 1024 };

/* What was wrong with a version. */
struct report {
	char first[WEIR__POLICY_ERROR_SIZE];
	uint64_t hash; /* of all lines */
	FILE *lines;   /* in memory */
	char *text;
	size_t size;
};

struct weir__policies {
	struct weir__policy_source *source;
	bool has_settings; /* in the same file: the names of these are no faults */
	bool may_lack_limits;
	uint32_t envoy; /* WEIR_ENVOY_..., by which policies of that form are read */
	FILE *errors;   /* where faults are told */
	struct weir__log *log;
	struct weir__settings *started; /* what the file said of settings at the start */
	struct weir__settings *said;    /* and says now */
	uint64_t differences;           /* of the two, that were told: a bit for each */
	struct weir_policy *first;      /* until there is a guard */
	char *copy;                     /* where each good version of a server's is written; NULL: nowhere */
	uint64_t plans_set;
	struct weir__policy_identity current;
	bool is_put;    /* in force is one that came with a request; `current` is what the source last had */
	uint64_t wrong; /* hash of what was last told to be wrong */
	struct weir_table *table;
	bool has_store; /* which must be able to have all limits */
	struct weir_guard *guard;

	struct weir__loop loop;
	pthread_t thread;
	bool is_running;
	_Atomic bool is_stopping;
	_Atomic uint64_t asked;
	weir_ns changed_at, touched_at; /* first and last that was told and not looked at; 0: nothing was */
	weir_ns looked_at;
	struct weir__policy_errands *errands;
	struct weir__policy_shown *shown;
	pthread_mutex_t lock; /* of the next */
	struct weir__policies_info info;
};

/* --- faults ----------------------------------------------------------------------------------------------------- */

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
	if (strstr(report->text, line)) /* the settings' reader has said so, too */
		return;
	if (report->first[0] == '\0')
		(void)snprintf(report->first, sizeof(report->first), "%s", line);
	report->hash = weir__policy_hash(report->hash, line, strlen(line));
	fprintf(report->lines, "%s\n", line);
}

static void print_report(struct report *report, const struct weir__faults *faults, FILE *errors)
{
	if (faults->n > WEIR__FAULTS_MOST)
		fprintf(report->lines, "there is more; mend these first\n");
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

/* Told once for each set of them. Users may change (roster.h). */
static void tell_differences(struct weir__policies *policies, const char *file)
{
	char names[512] = "";
	uint64_t differences = 0;
	size_t length = 0;

	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		if (weir__setting_rows[i].kind != WEIR__SETTING_USERS &&
		    !is_same_setting(&weir__setting_rows[i], policies->started, policies->said)) {
			differences |= UINT64_C(1) << i;
			length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s", length ? ", " : "",
						   weir__setting_rows[i].name);
		}
	if (differences != 0 && differences != policies->differences)
		fprintf(policies->errors,
			"weir serve: %s: other than at the start: %s; settings are read when weir serve starts, "
			"limits and users whenever they change\n",
			file, names);
	policies->differences = differences;
}

static void forward_lines(char *text, struct weir__faults *faults)
{
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (++faults->n <= WEIR__FAULTS_MOST)
			faults->report(faults->context, line);
}

/* False: it is no YAML, and to read it as a policy would only say so again. */
static bool read_settings(const struct weir__policy_part *part, struct weir__settings *settings,
			  struct weir__faults *faults)
{
	char *text = NULL;
	size_t size;
	FILE *const errors = open_memstream(&text, &size);
	bool is_yaml;

	if (errors == NULL) {
		weir__fault(faults, (struct weir__mark){ 1, 1 }, "no memory to read it");
		return false;
	}
	weir__settings_init(settings, errors);
	(void)snprintf(settings->config, sizeof(settings->config), "%s", part->file);
	is_yaml = weir__settings_read_text(settings, part->text.at, part->text.n);
	fclose(errors);
	settings->errors = NULL;
	forward_lines(text, faults);
	free(text);
	return is_yaml;
}

/* --- versions ----------------------------------------------------------------------------------------------------- */

/* Reads a version as a policy. */
static struct weir_policy *compile(struct weir__policies *policies, const struct weir__policy_version *version,
				   struct weir__faults *faults)
{
	struct weir_policy *policy;

	if (policies->has_settings && !read_settings(&version->parts[0], policies->said, faults))
		return NULL;
	policy = weir__policy_of_parts(version->parts, version->n, faults,
				       policies->envoy | (policies->has_settings ? WEIR__POLICY_HAS_OTHERS : 0));
	faults->file = version->parts[0].file;
	if (policy && !(policies->may_lack_limits && policies->said->lacks_policy) &&
	    !weir__policy_has_limits(policy, faults)) {
		weir_policy_free(policy);
		return NULL;
	}
	return policy;
}

static void show(struct weir__policies *policies, const struct weir__policy_version *version)
{
	weir__policy_shown_set(policies->shown, version, weir__policy_version_hash(version), false,
			       policies->has_settings ? "it is in the file of the settings, which is not shown" : NULL);
}

/* --- the first ---------------------------------------------------------------------------------------------------- */

static struct weir__policies *new_of_path(const char *path, bool has_settings, FILE *errors, struct weir__log *log)
{
	struct weir__policies *const policies = calloc(1, sizeof(*policies));

	if (policies == NULL)
		return NULL;
	policies->has_settings = has_settings;
	policies->errors = errors;
	policies->log = log;
	policies->started = calloc(1, sizeof(*policies->started));
	policies->said = calloc(1, sizeof(*policies->said));
	policies->source = weir__policy_far_is(path) ?
				   weir__policy_source_of_url(path,
							      weir__log_stream(policies->log, WEIR__LOG_WARNING)) :
				   weir__policy_source_of_path(path);
	policies->errands = weir__policy_errands_new();
	policies->shown = weir__policy_shown_new();
	(void)pthread_mutex_init(&policies->lock, NULL);
	if (policies->started && policies->said && policies->source && policies->errands && policies->shown)
		return policies;
	weir__policies_free(policies);
	return NULL;
}

/* That it cannot be written is told; the policy is as good without. */
static void keep_copy(struct weir__policies *policies, const struct weir__policy_version *version)
{
	const int error = policies->copy ? weir__policy_copy_write(policies->copy, version) : 0;

	if (error != 0)
		fprintf(policies->errors, "weir serve: %s: %s: there is no copy of this policy\n", policies->copy,
			strerror(error));
}

/* The last good one of a source that has none now. It is taken for the source's: that may have the same again. */
static struct weir_policy *read_copy(struct weir__policies *policies, struct weir__faults *faults)
{
	struct weir__policy_version version;
	struct weir_policy *policy = NULL;
	const int error = weir__policy_copy_read(policies->copy, &version);

	if (error != 0) {
		faults->file = policies->copy;
		weir__fault(faults, (struct weir__mark){ 1, 1 }, "%s; there is no copy to begin with", strerror(error));
		return NULL;
	}
	policy = compile(policies, &version, faults);
	if (policy) {
		const char *const path = version.parts[0].file;

		version.parts[0].file = policies->source->name;
		policies->current = weir__policy_identify(&version, policy);
		show(policies, &version);
		version.parts[0].file = path;
		fprintf(weir__log_stream(policies->log, WEIR__LOG_WARNING),
			"weir serve: the policy is that of %s, the last good one\n", policies->copy);
	}
	weir__policy_version_free(&version);
	return policy;
}

static struct weir_policy *read_first(struct weir__policies *policies, struct weir__faults *faults)
{
	struct weir__policy_version version;
	struct weir_policy *policy = NULL;

	if (!policies->source->read(policies->source, faults, &version))
		return NULL;
	policy = compile(policies, &version, faults);
	if (policy) {
		policies->current = weir__policy_identify(&version, policy);
		show(policies, &version);
		keep_copy(policies, &version);
	}
	weir__policy_version_free(&version);
	return policy;
}

/* A first version, with all that is wrong told. */
static bool load(struct weir__policies *policies,
		 struct weir_policy *(*read)(struct weir__policies *policies, struct weir__faults *faults))
{
	struct weir__faults faults = { .file = "policy", .report = add_line };
	struct report report;

	if (!report_init(&report))
		return false;
	faults.context = &report;
	policies->first = read(policies, &faults);
	if (policies->first == NULL || faults.n > 0)
		print_report(&report, &faults, policies->errors);
	if (policies->first == NULL) {
		policies->info.failures++;
		memcpy(policies->info.last_error, report.first, sizeof(report.first));
	}
	report_fini(&report);
	*policies->started = *policies->said;
	return policies->first != NULL;
}

static bool load_first(struct weir__policies *policies)
{
	return load(policies, read_first) || (policies->copy && load(policies, read_copy));
}

bool weir__policies_is_set(const struct weir__settings *settings)
{
	return settings->policy[0] != '\0' || settings->has_policy;
}

struct weir__policies *weir__policies_new(const struct weir__settings *settings)
{
	const bool is_apart = settings->policy[0] != '\0';
	struct weir__policies *const policies = new_of_path(is_apart ? settings->policy : settings->config, !is_apart,
							    settings->errors, settings->log);

	if (policies == NULL) {
		fputs("weir serve: no memory for a policy\n", settings->errors);
		return NULL;
	}
	policies->plans_set = settings->plans;
	policies->envoy = settings->envoy_counts == WEIR__COUNTS_EACH ? WEIR_ENVOY_COUNT_EACH : 0;
	policies->has_store = settings->store[0] != '\0';
	if (settings->policy_copy[0] != '\0')
		policies->copy = strdup(settings->policy_copy);
	if (load_first(policies)) {
		policies->errors = weir__log_stream(policies->log, WEIR__LOG_WARNING);
		return policies;
	}
	weir__policies_free(policies);
	return NULL;
}

struct weir_policy *weir__policies_check(const char *path, FILE *errors)
{
	struct stat status;
	const bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
	struct weir__policies *const policies = new_of_path(path, !is_folder, errors, NULL);
	struct weir_policy *policy = NULL;

	if (policies == NULL) {
		fputs("weir: no memory for a policy\n", errors);
		return NULL;
	}
	policies->may_lack_limits = !is_folder; /* it may be a file of settings */
	if (load_first(policies))
		policy = policies->first;
	policies->first = NULL;
	weir__policies_free(policies);
	return policy;
}

uint32_t weir__policies_plans(const struct weir__policies *policies)
{
	const uint32_t n = policies->first ? weir_policy_plans(policies->first) : 0;

	uint64_t most = 2 * (uint64_t)n;

	if (most < PLANS_LEAST)
		most = PLANS_LEAST;
	if (policies->plans_set > 0)
		most = policies->plans_set;
	return most < WEIR__LIMITS_MAX ? (uint32_t)most + 1 :
					 WEIR__LIMITS_MAX; /* one that counts is the daemon's own */
}

/* --- others ------------------------------------------------------------------------------------------------------- */

static void follow(struct weir__policies *policies)
{
	const struct weir__policy_identity *const current = &policies->current;
	const char **const paths = calloc(current->n + 1, sizeof(*paths));

	for (size_t i = 0; paths && i < current->n; i++)
		paths[i] = current->files[i].path;
	if (policies->source->follow(policies->source, paths, paths ? current->n : 0))
		policies->changed_at = policies->touched_at = weir_clock_now();
	free((void *)paths);
}

static void note_good(struct weir__policies *policies, bool is_change)
{
	(void)pthread_mutex_lock(&policies->lock);
	policies->info.last_error[0] = '\0';
	policies->info.limits = weir__guard_limits(policies->guard);
	if (is_change) {
		policies->info.changes++;
		policies->info.loaded_at = weir_clock_now();
	}
	(void)pthread_mutex_unlock(&policies->lock);
	policies->wrong = 0;
}

/* What is as wrong as before, as when something else in the directory has changed, is not told again. */
static void note_wrong(struct weir__policies *policies, struct report *report, const struct weir__faults *faults)
{
	if (report->hash == policies->wrong)
		return;
	policies->wrong = report->hash;
	fputs("weir serve: the policy stays as it is, since what was read is wrong:\n", policies->errors);
	print_report(report, faults, policies->errors);
	weir__audit_policy(policies->log, weir__guard_limits(policies->guard), report->first);
	(void)pthread_mutex_lock(&policies->lock);
	policies->info.failures++;
	memcpy(policies->info.last_error, report->first, sizeof(report->first));
	(void)pthread_mutex_unlock(&policies->lock);
}

/* Of what the table says, what the one can do who has set the server up. */
static const char *hint_of(int error)
{
	return error == WEIR_ERR_FULL ?
		       ": the setting plans says how many a table is made for, those of earlier policies "
		       "among them" :
		       "";
}

static bool change(struct weir__policies *policies, const struct weir__policy_version *version,
		   struct weir__faults *faults)
{
	struct weir_policy *const policy = compile(policies, version, faults);
	struct weir__policy_identity identity;
	struct weir_message why;
	int error;

	if (policy == NULL)
		return false;
	identity = weir__policy_identify(version, policy);
	error = weir_guard_change(policies->guard, policy, weir_table_now(policies->table), &why);
	if (error != WEIR_OK) {
		faults->file = version->parts[0].file;
		weir__fault(faults, (struct weir__mark){ 1, 1 }, "%s%s", why.text, hint_of(error));
		weir__policy_forget(&identity);
		return false;
	}
	weir__policy_forget(&policies->current);
	policies->current = identity;
	policies->is_put = false;
	weir__audit_policy(policies->log, weir__guard_limits(policies->guard), "");
	show(policies, version);
	keep_copy(policies, version);
	if (policies->has_settings)
		tell_differences(policies, version->parts[0].file);
	return true;
}

/* What came with a request stays until the source has something else, or is asked for. */
static bool look_at(struct weir__policies *policies, bool is_asked, struct weir__faults *faults, bool *ret_is_change)
{
	struct weir__policy_version version;
	bool is_good = true;

	if (!policies->source->read(policies->source, faults, &version))
		return false;
	*ret_is_change = (policies->is_put && is_asked) || !weir__policy_is_current(&policies->current, &version);
	if (*ret_is_change)
		is_good = change(policies, &version, faults);
	weir__policy_version_free(&version);
	return is_good;
}

static void look(struct weir__policies *policies, bool is_asked)
{
	struct weir__faults faults = { .file = "policy", .report = add_line };
	struct report report;
	bool is_change = false;

	if (!report_init(&report))
		return;
	faults.context = &report;
	policies->changed_at = policies->touched_at = 0;
	follow(policies); /* first: what changes from here on is told */
	if (look_at(policies, is_asked, &faults, &is_change))
		note_good(policies, is_change);
	else
		note_wrong(policies, &report, &faults);
	report_fini(&report);
	follow(policies); /* also what this version names */
	policies->looked_at = weir_clock_now();
}

/* --- those that come with requests ---------------------------------------------------------------------------------- */

static void note_put(void *policies_, const char *text, size_t length, uint64_t version)
{
	struct weir__policies *const policies = policies_;
	struct weir__policy_part part = { .text = { text, length }, .file = "body" };

	policies->is_put = true;
	weir__policy_shown_set(policies->shown, &(struct weir__policy_version){ &part, 1 }, version, true, NULL);
	note_good(policies, true);
}

static void do_errands(struct weir__policies *policies)
{
	while (weir__policy_errands_do(policies->errands, policies->guard, policies->table, note_put, policies))
		;
}

bool weir__policies_send(struct weir__policies *policies, struct weir__policy_errand *errand)
{
	bool has_room;

	errand->envoy = policies->envoy;
	has_room = weir__policy_errands_add(policies->errands, errand);
	if (has_room)
		weir__loop_wake(&policies->loop);
	return has_room;
}

struct weir__policy_shown *weir__policies_shown(struct weir__policies *policies)
{
	return policies->shown;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static bool is_due(const struct weir__policies *policies, weir_ns now)
{
	if (policies->changed_at != 0 &&
	    (now >= policies->touched_at + quiet_ns || now >= policies->changed_at + patience_ns))
		return true;
	return policies->source->is_blind && now >= policies->looked_at + poll_ns;
}

static int timeout_ms(const struct weir__policies *policies, weir_ns now)
{
	weir_ns at = WEIR_NEVER;

	if (policies->source->is_blind)
		at = policies->looked_at + poll_ns;
	if (policies->changed_at != 0 && policies->touched_at + quiet_ns < at)
		at = policies->touched_at + quiet_ns;
	if (at == WEIR_NEVER)
		return -1;
	return at <= now ? 0 : (int)((at - now) / ms) + 1;
}

static void *keep(void *policies_)
{
	struct weir__policies *const policies = policies_;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	while (!atomic_load(&policies->is_stopping)) {
		const int n = weir__loop_wait(&policies->loop, timeout_ms(policies, weir_clock_now()), events);
		const uint64_t asked = atomic_load(&policies->asked);
		const weir_ns now = weir_clock_now();

		if (n > 0 && policies->source->take(policies->source)) {
			policies->touched_at = now;
			if (policies->changed_at == 0)
				policies->changed_at = now;
		}
		do_errands(policies);
		if (asked > policies->info.reloads || is_due(policies, now)) {
			look(policies, asked > policies->info.reloads);
			(void)pthread_mutex_lock(&policies->lock);
			policies->info.reloads = asked;
			(void)pthread_mutex_unlock(&policies->lock);
		}
	}
	return NULL;
}

static bool start_thread(struct weir__policies *policies)
{
	int error = weir__loop_init(&policies->loop);

	if (error != 0)
		return false;
	if (policies->source->descriptor >= 0)
		error = weir__loop_add(&policies->loop, policies->source->descriptor, policies);
	if (error == 0)
		error = pthread_create(&policies->thread, NULL, keep, policies);
	if (error != 0)
		weir__loop_close(&policies->loop);
	return error == 0;
}

bool weir__policies_start(struct weir__policies *policies, struct weir_table *table)
{
	struct weir_policy *const first = policies->first;
	struct weir_message why;
	int error;

	policies->first = NULL;
	policies->table = table;
	error = weir__guard_new(table, first, policies->has_store ? weir__stores_check_limit : NULL, &policies->guard,
				&why);
	if (error != WEIR_OK) {
		fprintf(policies->errors, "weir serve: the policy: %s%s\n", why.text, hint_of(error));
		return false;
	}
	policies->info.loaded_at = policies->looked_at = weir_clock_now();
	policies->info.limits = weir__guard_limits(policies->guard);
	follow(policies);
	policies->is_running = start_thread(policies);
	if (!policies->is_running)
		fputs("weir serve: there is no thread, or no descriptor, to watch the policy\n", policies->errors);
	return policies->is_running;
}

void weir__policies_free(struct weir__policies *policies)
{
	if (policies == NULL)
		return;
	if (policies->is_running) {
		atomic_store(&policies->is_stopping, true);
		weir__loop_wake(&policies->loop);
		(void)pthread_join(policies->thread, NULL);
		weir__loop_close(&policies->loop);
	}
	weir_guard_free(policies->guard);
	weir_policy_free(policies->first);
	weir__policy_errands_free(policies->errands);
	weir__policy_shown_free(policies->shown);
	if (policies->source)
		policies->source->free(policies->source);
	weir__policy_forget(&policies->current);
	free(policies->copy);
	free(policies->started);
	free(policies->said);
	(void)pthread_mutex_destroy(&policies->lock);
	free(policies);
}

struct weir_guard *weir__policies_guard(struct weir__policies *policies)
{
	return policies->guard;
}

uint64_t weir__policies_reload(struct weir__policies *policies)
{
	const uint64_t ticket = atomic_fetch_add(&policies->asked, 1) + 1;

	weir__loop_wake(&policies->loop);
	return ticket;
}

void weir__policies_info(struct weir__policies *policies, struct weir__policies_info *ret_info)
{
	(void)pthread_mutex_lock(&policies->lock);
	*ret_info = policies->info;
	(void)pthread_mutex_unlock(&policies->lock);
}
