/* serve_report.c: listen addresses, and commands that can be pasted into a shell. */
#include "cli/serve_report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/words.h"
#include "guard/guard.h"
#include "observe/log.h"
#include "policy/example.h"

/* Without TLS: a client of a TLS address needs the CA, whose file is not known here. */
static const char *first_name(const struct weir__listeners *listeners, enum weir__service service)
{
	for (size_t i = 0; i < listeners->n; i++)
		if (listeners->at[i].service == service && !listeners->at[i].is_tls)
			return listeners->at[i].name;
	return "";
}

static void tell_store(const struct weir__server_started *started)
{
	const struct weir__setting *const setting = weir__settings_find("store", strlen("store"));
	char shown[WEIR__SETTING_SHOWN];

	if (started->has_store && weir__settings_show(started->settings, setting, shown) > 0)
		printf("weir serve: limits are kept in %s\n", shown);
}

/* A line of JSON for each address. */
static void tell_json(const struct weir__listeners *listeners)
{
	for (size_t i = 0; i < listeners->n; i++) {
		struct weir__log_line line;

		weir__log_begin(&line, true, WEIR__LOG_INFO, "listening");
		weir__log_word(&line, "protocol", weir__service_word(listeners->at[i].service));
		weir__log_word(&line, "at", listeners->at[i].name);
		if (listeners->at[i].is_tls)
			weir__log_word(&line, "tls", "true");
		weir__log_print(&line, stdout);
	}
}

/* --- commands to try --------------------------------------------------------------------------------------------- */

static bool is_installed(const char *program)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	while (path && *path) {
		const size_t length = strcspn(path, ":");

		(void)snprintf(file, sizeof(file), "%.*s/%s", (int)length, path, program);
		if (length > 0 && access(file, X_OK) == 0)
			return true;
		path += length + (path[length] == ':');
	}
	return false;
}

/* The options of redis-cli for this address. Its default is 127.0.0.1, where a server on all addresses listens, too. */
static void tell_where(const char *where)
{
	const char *const colon = strrchr(where, ':');
	const int length = colon ? (int)(colon - where) : 0;

	if (strchr(where, '/')) {
		printf("-s ");
		weir__words_for_shell(stdout, where);
		return;
	}
	if (strncmp(where, "[::]:", 5) == 0)
		printf("-h ::1 ");
	else if (length > 2 && *where == '[')
		printf("-h %.*s ", length - 2, where + 1);
	else if (strncmp(where, "127.0.0.1:", 10) != 0 && strncmp(where, "0.0.0.0:", 8) != 0)
		printf("-h %.*s ", length, where);
	printf("-p %s", colon ? colon + 1 : "6380");
}

/* The first user with a password or, for HTTP, with a token. NULL: none. */
static const struct weir__user *find_user(const struct weir__users *users, bool has_token)
{
	for (size_t i = 0; i < users->n; i++)
		if (has_token ? users->at[i].has_token : users->at[i].has_password)
			return &users->at[i];
	return NULL;
}

struct suggestions {
	const struct weir__server_started *started;
	bool has_begun;
	bool is_redis; /* by redis-cli; else by weir itself, which is always installed */
	const struct weir__user *user;
	const char *at;
};

static void begin(struct suggestions *suggestions)
{
	fputs(suggestions->has_begun ? "     " : "try: ", stdout);
	suggestions->has_begun = true;
}

/* Begins a command: `redis` for redis-cli, or `weir` for weir itself. */
static void suggest(struct suggestions *suggestions, const char *redis, const char *weir)
{
	begin(suggestions);
	if (suggestions->is_redis) {
		printf("redis-cli ");
		tell_where(suggestions->at);
		if (suggestions->user)
			printf(" --user %s --askpass", suggestions->user->name);
		printf(" %s", redis);
	} else {
		weir__words_for_shell(stdout, program_invocation_name);
		printf(" %s --at ", weir);
		weir__words_for_shell(stdout, suggestions->at);
		if (suggestions->user)
			printf(" --user %s", suggestions->user->name);
	}
}

static void suggest_check(struct suggestions *suggestions, const struct weir__policy_example *example)
{
	char word[sizeof(example->room) + 2];

	suggest(suggestions, "WEIR.CHECK", "check");
	for (size_t i = 0; i < example->n; i++) {
		const struct weir_attribute *const one = &example->attributes[i];

		putchar(' ');
		(void)snprintf(word, sizeof(word), "%.*s", (int)one->name_length, one->name);
		if (suggestions->is_redis) {
			weir__words_for_shell(stdout, word);
			putchar(' ');
			(void)snprintf(word, sizeof(word), "%.*s", (int)one->value_length, one->value);
		} else {
			(void)snprintf(word, sizeof(word), "%.*s=%.*s", (int)one->name_length, one->name,
				       (int)one->value_length, one->value);
		}
		weir__words_for_shell(stdout, word);
	}
	putchar('\n');
}

/* As part of a query of a URL. */
static void print_encoded(const char *bytes, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/:";

	for (size_t i = 0; i < n; i++)
		if (memchr(plain, bytes[i], sizeof(plain) - 1))
			putchar(bytes[i]);
		else
			printf("%%%02X", (unsigned char)bytes[i]);
}

/* Without an example, an inline limit: the sixth request within a minute is denied. A client that may not decide can
 * see whether the server is ready. */
static void suggest_http(struct suggestions *suggestions, const char *at, const struct weir__policy_example *example,
			 bool may_decide)
{
	const bool has_users = suggestions->started->settings->users.n > 0;
	const bool is_path = strchr(at, '/') != NULL;

	begin(suggestions);
	printf("curl ");
	if (has_users && may_decide)
		printf("-H \"Authorization: Bearer $TOKEN\" ");
	if (may_decide && !example)
		printf("-i -H 'Content-Type: application/json' -d '{\"key\":\"user:42\",\"limit\":\"5/min\"}' ");
	if (is_path) {
		printf("--unix-socket ");
		weir__words_for_shell(stdout, at);
		putchar(' ');
	}
	printf("'http://%s/%s", is_path ? "localhost" : at, !may_decide ? "readyz" : example ? "v1/check" : "v1/take");
	for (size_t i = 0; may_decide && example && i < example->n; i++) {
		const struct weir_attribute *const one = &example->attributes[i];

		putchar(i == 0 ? '?' : '&');
		print_encoded(one->name, one->name_length);
		putchar('=');
		print_encoded(one->value, one->value_length);
	}
	puts("'");
}

/* Users come only from the configuration file. */
static void tell_secrets(const struct suggestions *suggestions, const struct weir__user *token_user)
{
	const char *const config = suggestions->started->settings->config;

	if (suggestions->user && !suggestions->is_redis)
		printf("     set WEIR_PASSWORD to the password of %s, from %s or its password_file\n",
		       suggestions->user->name, config);
	else if (suggestions->user)
		printf("     the password of %s is in %s or its password_file\n", suggestions->user->name, config);
	if (token_user)
		printf("     set TOKEN to the token of %s, from %s\n", token_user->name, config);
}

static void tell_commands(const struct weir__server_started *started)
{
	static struct weir__policy_example room; /* large */
	const struct weir__users *const users = &started->settings->users;
	const struct weir__policy_example *const example =
		started->guard && weir__guard_example(started->guard, &room) ? &room : NULL;
	const char *const http = first_name(started->listeners, WEIR__SERVICE_HTTP);
	const struct weir__user *const token_user = find_user(users, true);
	struct suggestions suggestions = { .started = started,
					   .is_redis = is_installed("redis-cli"),
					   .user = find_user(users, false),
					   .at = first_name(started->listeners, WEIR__SERVICE_RESP) };
	const bool has_curl = *http && is_installed("curl");

	if (has_curl)
		suggest_http(&suggestions, http, example, users->n == 0 || token_user);
	if (*suggestions.at == '\0')
		return;
	if ((users->n == 0 || suggestions.user) && example) {
		suggest_check(&suggestions, example);
	} else if (users->n == 0 || suggestions.user) {
		suggest(&suggestions, "WEIR.TAKE user:42 5/min", "take user:42 5/min");
		putchar('\n');
	}
	tell_secrets(&suggestions, has_curl ? token_user : NULL);
}

void weir__serve_report(const struct weir__server_started *started)
{
	static const char *const words[WEIR__SERVICES] = { [WEIR__SERVICE_RESP] = "RESP",
							   [WEIR__SERVICE_HTTP] = "HTTP",
							   [WEIR__SERVICE_METRICS] = "metrics",
							   [WEIR__SERVICE_GRPC] = "gRPC" };
	const struct weir__listeners *const listeners = started->listeners;

	if (weir__log_is_json(started->log)) {
		tell_json(listeners);
	} else {
		for (size_t i = 0; i < listeners->n; i++)
			printf("weir serve: %s at %s%s\n", words[listeners->at[i].service],
			       listeners->at[i].is_tls ? "tls://" : "", listeners->at[i].name);
		tell_store(started);
		tell_commands(started);
	}
	fflush(stdout);
}
