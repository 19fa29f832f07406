/* check_config.c: weir check-config: lists all errors of settings and policies, without a server.
 *
 * The readers of settings and policies report lines, FILE:LINE:COLUMN: MESSAGE. For --json these lines are parsed
 * again. Their form is stable, since editors parse it, too. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/words.h"
#include "guard/guard.h"
#include "policy/compare.h"
#include "server/policy_loader.h"

enum { DONE = 0, FAILED = 1, CALLED_WRONGLY = 2, AHEAD_MUCH = 10 /* percent */ };

static const char check_help[] =
	"usage: weir check-config [--against OLD] [--json] FILE|DIRECTORY|-...\n"
	"\n"
	"Lists all errors in configuration and policy files of weir serve, as FILE:LINE:COLUMN, with\n"
	"what is wrong and what to use. - is standard input. All *.yaml files of a directory are\n"
	"one policy. Files with `domain` at the top level are in the format of Envoy's ratelimit.\n"
	"\n"
	"If a configuration file names a policy, that file or directory is checked, too. A relative path is\n"
	"relative to where you are, as for weir serve, or else to the directory of the file. A policy in etcd\n"
	"or Redis is not read.\n"
	"\n"
	"Also names limits with `consistency: lease` or `eventual` that stay exact, with the reason, and eventual\n"
	"limits that ten servers or fewer may exceed by the whole limit.\n"
	"\n"
	"  --against OLD  show also what happens to the keys of each limit if the policy replaces OLD, a file\n"
	"                 or a directory: they are kept, converted, or start over, and why.\n"
	"                 Also names limits whose consistency changes\n"
	"  --json         output for programs, on standard output: an object with `files` and `diagnostics`,\n"
	"                 which have file, line, column, severity (error, warning, note), message and hint\n"
	"  --help         show this\n"
	"\n"
	"Exit status: 0 no errors, maybe warnings; 1 errors; 2 wrong usage.\n";

static const char standard_input[] = "/dev/stdin";

struct check {
	const char *old_path;
	const struct weir_policy *old; /* NULL: there is nothing to compare with */
	bool is_json;
	struct weir__json json;
};

/* --- diagnostics ------------------------------------------------------------------------------------------------- */

/* Finds ":LINE:COLUMN: " in a line. Returns what follows, or NULL. */
static const char *find_place(const char *line, size_t *ret_file, uint64_t *ret_line, uint64_t *ret_column)
{
	for (const char *colon = strchr(line, ':'); colon; colon = strchr(colon + 1, ':')) {
		char *end;

		if (!isdigit((unsigned char)colon[1]))
			continue;
		*ret_line = strtoull(colon + 1, &end, 10);
		if (*end != ':' || !isdigit((unsigned char)end[1]))
			continue;
		*ret_column = strtoull(end + 1, &end, 10);
		if (end[0] == ':' && end[1] == ' ') {
			*ret_file = (size_t)(colon - line);
			return end + 2;
		}
	}
	return NULL;
}

/* The start of the message, without the severity, which it stores. */
static const char *skip_severity(const char *message, const char **ret_severity)
{
	static const char *const severities[] = { "warning", "note" };

	*ret_severity = "error";
	for (size_t i = 0; i < sizeof(severities) / sizeof(severities[0]); i++) {
		const size_t length = strlen(severities[i]);

		if (strncmp(message, severities[i], length) == 0 && strncmp(message + length, ": ", 2) == 0) {
			*ret_severity = severities[i];
			return message + length + 2;
		}
	}
	return message;
}

/* A message ends with what would be right, after its last semicolon. */
static void print_diagnostic(struct weir__json *json, const char *path, const char *line)
{
	uint64_t row = 0, column = 0;
	size_t file = 0;
	const char *severity, *message = find_place(line, &file, &row, &column), *hint;

	if (message == NULL) {
		const size_t length = strlen(path);
		const bool is_prefix = strncmp(line, path, length) == 0 && strncmp(line + length, ": ", 2) == 0;

		message = is_prefix ? line + length + 2 : line;
		file = is_prefix ? length : 0;
	}
	message = skip_severity(message, &severity);
	hint = strrchr(message, ';');
	weir__json_open(json, NULL, '{');
	weir__json_bytes(json, "file", file > 0 ? line : path, file > 0 ? file : strlen(path));
	if (row > 0) {
		weir__json_number(json, "line", row);
		weir__json_number(json, "column", column);
	}
	weir__json_text(json, "severity", severity);
	weir__json_bytes(json, "message", message, hint ? (size_t)(hint - message) : strlen(message));
	if (hint)
		weir__json_text(json, "hint", hint + 1 + strspn(hint + 1, " "));
	weir__json_close(json, '}');
}

/* Standard input is called "-". The only control characters in the lines are their newlines. */
static void print_diagnostics(struct check *check, const char *path, char *text)
{
	const size_t length = strlen(standard_input);
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strcmp(path, "-") == 0 && strncmp(line, standard_input, length) == 0) {
			line += length - 1;
			*line = '-';
		}
		if (check->is_json)
			print_diagnostic(&check->json, path, line);
		else
			fprintf(stderr, "%s\n", line);
	}
}

/* Reads a policy and prints its errors. */
static struct weir_policy *read_policy(struct check *check, const char *path, char apart[WEIR__POLICY_PATH_SIZE])
{
	char *text = NULL;
	size_t size;
	FILE *const errors = open_memstream(&text, &size);
	struct weir_policy *policy;

	if (errors == NULL) {
		fputs("weir check-config: no memory\n", stderr);
		return NULL;
	}
	policy = weir__policy_loader_check(strcmp(path, "-") == 0 ? standard_input : path, errors, apart);
	fclose(errors);
	print_diagnostics(check, path, text);
	free(text);
	return policy;
}

/* --- consistency ------------------------------------------------------------------------------------------------- */

/* The consistency of the limit: exact, if the policy's is not possible. */
static struct weir__policy_agreement agree(const struct weir_policy_plan *of)
{
	const bool is_shared = of->store != WEIR_POLICY_STORE_TABLE && !of->is_local && !of->is_unlimited;

	if (of->consistency == WEIR_POLICY_EXACT || !is_shared || *weir__guard_why_exact(of, &of->limit) != '\0')
		return (struct weir__policy_agreement){ .consistency = WEIR_POLICY_EXACT };
	return (struct weir__policy_agreement){ of->consistency,
						of->consistency == WEIR_POLICY_LEASE ? of->stranded : of->ahead,
						of->sync };
}

static void print_note(struct check *check, const char *line)
{
	if (check->is_json)
		weir__json_text(&check->json, NULL, line);
	else
		printf("  %s\n", line);
}

/* Names limits that stay exact although the policy says lease or eventual. */
static void print_exact(struct check *check, const struct weir_policy *policy)
{
	char line[256];

	for (uint32_t i = 0; i < weir_policy_plans(policy); i++) {
		const struct weir_policy_plan *const of = weir_policy_plan_of(policy, i);
		const char *const why = weir__guard_why_exact(of, &of->limit);

		if (*why == '\0')
			continue;
		(void)snprintf(line, sizeof(line), "%s stays exact: %s", of->name, why);
		print_note(check, line);
	}
}

/* Names eventual limits that a few servers may exceed by the whole limit. */
static void print_ahead(struct check *check, const struct weir_policy *policy)
{
	char line[256];

	for (uint32_t i = 0; i < weir_policy_plans(policy); i++) {
		const struct weir_policy_plan *const of = weir_policy_plan_of(policy, i);

		if (agree(of).consistency != WEIR_POLICY_EVENTUAL || of->ahead < AHEAD_MUCH)
			continue;
		(void)snprintf(
			line, sizeof(line),
			"%s may be exceeded by its whole limit: with ahead %u%%, %u servers are enough; lower ahead",
			of->name, of->ahead, 1 + (100 + of->ahead - 1) / of->ahead);
		print_note(check, line);
	}
}

/* --- comparing --------------------------------------------------------------------------------------------------- */

struct comparison {
	uint32_t fates[WEIR__FATES];
	struct weir__json *json; /* NULL: for people */
};

static void print_difference(void *comparison_, const struct weir__policy_difference *difference)
{
	struct comparison *const comparison = comparison_;
	char line[WEIR__POLICY_DIFFERENCE_SIZE];

	weir__policy_difference_write(difference, line);
	if (comparison->json)
		weir__json_text(comparison->json, NULL, line);
	else
		printf("  %s\n", line);
	comparison->fates[weir__policy_difference_is_anew(difference) ? WEIR__FATE_ANEW : difference->fate]++;
}

static void print_unmatched(struct check *check, bool denies)
{
	const char *const line = denies ? "requests that no limit applies to: denied, before allowed" :
					  "requests that no limit applies to: allowed, before denied";

	if (check->is_json)
		weir__json_text(&check->json, NULL, line);
	else
		printf("  %s\n", line);
}

/* Prints what happens to keys if the policy replaces the old one. */
static bool compare(struct check *check, const struct weir_policy *policy)
{
	struct comparison comparison = { .json = check->is_json ? &check->json : NULL };
	const uint32_t *const fates = comparison.fates;
	bool is_good;

	if (check->is_json)
		weir__json_open(&check->json, "against", '[');
	else
		printf("if it replaces %s:\n", check->old_path);
	is_good = weir__policy_compare(check->old, policy, agree, print_difference, &comparison);
	if (weir__policy_denies_unmatched(check->old) != weir__policy_denies_unmatched(policy))
		print_unmatched(check, weir__policy_denies_unmatched(policy));
	if (check->is_json)
		weir__json_close(&check->json, ']');
	if (!is_good)
		fputs("weir check-config: no memory to compare policies\n", stderr);
	else if (!check->is_json)
		printf("  kept: %u, converted: %u, anew: %u, new: %u, removed: %u\n", fates[WEIR__FATE_KEPT],
		       fates[WEIR__FATE_CONVERTED], fates[WEIR__FATE_ANEW], fates[WEIR__FATE_ADDED],
		       fates[WEIR__FATE_REMOVED]);
	return is_good;
}

/* --- files ------------------------------------------------------------------------------------------------------- */

struct checked {
	const char *path;
	char apart[WEIR__POLICY_PATH_SIZE];
	struct weir_policy *policy; /* NULL: it has errors */
};

static uint32_t count_local(const struct weir_policy *policy)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < weir_policy_plans(policy); i++)
		n += weir_policy_plan_of(policy, i)->is_local;
	return n;
}

static uint32_t count_overrides(const struct weir_policy *policy)
{
	return weir_policy_plans(policy) - weir_policy_limits(policy) - count_local(policy);
}

static bool print_good(struct check *check, const struct checked *checked)
{
	const uint32_t local = count_local(checked->policy);

	printf("%s: OK: limits: %u, overrides: %u", checked->path, weir_policy_limits(checked->policy),
	       count_overrides(checked->policy));
	if (local > 0)
		printf(", if a store fails: %u", local);
	if (weir__policy_denies_unmatched(checked->policy))
		fputs(", unmatched: deny", stdout);
	if (checked->apart[0])
		printf(", of the policy %s", checked->apart);
	putchar('\n');
	print_exact(check, checked->policy);
	print_ahead(check, checked->policy);
	return check->old == NULL || compare(check, checked->policy);
}

static bool print_file(struct check *check, const struct checked *checked)
{
	struct weir__json *const json = &check->json;
	bool is_good = checked->policy != NULL;

	weir__json_open(json, NULL, '{');
	weir__json_text(json, "file", checked->path);
	weir__json_word(json, "is_good", is_good ? "true" : "false");
	if (checked->apart[0])
		weir__json_text(json, "policy", checked->apart);
	if (is_good) {
		weir__json_number(json, "limits", weir_policy_limits(checked->policy));
		weir__json_number(json, "overrides", count_overrides(checked->policy));
		weir__json_number(json, "if_a_store_fails", count_local(checked->policy));
		weir__json_text(json, "unmatched", weir__policy_denies_unmatched(checked->policy) ? "deny" : "allow");
		weir__json_open(json, "exact", '[');
		print_exact(check, checked->policy);
		weir__json_close(json, ']');
		weir__json_open(json, "ahead", '[');
		print_ahead(check, checked->policy);
		weir__json_close(json, ']');
		if (check->old)
			is_good = compare(check, checked->policy);
	}
	weir__json_close(json, '}');
	return is_good;
}

/* In JSON all diagnostics come before all files, so the policies are kept until then. */
static int check_files(struct check *check, char *const *paths, int n)
{
	struct checked *const files = calloc((size_t)n, sizeof(*files));
	char apart[WEIR__POLICY_PATH_SIZE];
	struct weir_policy *old = NULL;
	bool is_good = files != NULL;

	if (files == NULL) {
		fputs("weir check-config: no memory\n", stderr);
		return FAILED;
	}
	if (check->is_json) {
		weir__json_open(&check->json, NULL, '{');
		weir__json_open(&check->json, "diagnostics", '[');
	}
	if (check->old_path) {
		check->old = old = read_policy(check, check->old_path, apart);
		if (old == NULL)
			fprintf(stderr,
				"weir check-config: --against %s: it has errors, so nothing is compared with it\n",
				check->old_path);
		is_good = old != NULL;
	}
	for (int i = 0; i < n; i++) {
		files[i].path = paths[i];
		files[i].policy = read_policy(check, paths[i], files[i].apart);
		is_good &= files[i].policy != NULL;
		if (!check->is_json && files[i].policy)
			is_good &= print_good(check, &files[i]);
	}
	if (check->is_json) {
		weir__json_close(&check->json, ']');
		weir__json_open(&check->json, "files", '[');
		for (int i = 0; i < n; i++)
			is_good &= print_file(check, &files[i]);
		weir__json_close(&check->json, ']');
		weir__json_close(&check->json, '}');
	}
	for (int i = 0; i < n; i++)
		weir_policy_free(files[i].policy);
	weir_policy_free(old);
	free(files);
	return is_good ? DONE : FAILED;
}

static int refuse_option(const char *word)
{
	struct weir__nearest nearest = weir__command_option_name(word);

	weir__nearest_offer(&nearest, "--against");
	weir__nearest_offer(&nearest, "--json");
	weir__nearest_offer(&nearest, "--help");
	weir__command_refuse_option(
		&nearest, "weir check-config",
		"use --against OLD, --json or --help, and ./ before a path that begins with a dash");
	return CALLED_WRONGLY;
}

int weir__check_config(int argc, char **argv)
{
	struct check check = { .json = { .out = stdout } };
	bool is_wrong = false;
	int n = 0, inputs = 0;

	for (int i = 1; i < argc; i++) { /* moves the paths of files to the front */
		if (weir__command_is_help(argv[i])) {
			fputs(check_help, stdout);
			return DONE;
		}
		const char *value;

		if (strcmp(argv[i], "--json") == 0) {
			check.is_json = true;
		} else if (weir__command_is_option(argv[i], "--against", &value)) {
			is_wrong |= check.old_path || (value == NULL && i + 1 == argc);
			check.old_path = value ? value : argv[i + 1 < argc ? ++i : i];
		} else if (argv[i][0] == '-' && argv[i][1] != '\0') {
			return refuse_option(argv[i]);
		} else {
			inputs += strcmp(argv[i], "-") == 0;
			argv[n++] = argv[i];
		}
	}
	if (n == 0 || is_wrong) {
		fputs(check_help, stderr);
		return CALLED_WRONGLY;
	}
	if (inputs > 1) {
		fputs("weir check-config: - given twice; standard input can be read only once\n", stderr);
		return CALLED_WRONGLY;
	}
	return check_files(&check, argv, n);
}
