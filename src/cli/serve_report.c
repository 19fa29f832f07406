/* serve_report.c: listen addresses, and commands that can be pasted into a shell. */
#include "cli/serve_report.h"

#include <stdio.h>
#include <string.h>

#include "cli/words.h"
#include "observe/log.h"

static const char *first_name(const struct weir__listeners *listeners, enum weir__service service)
{
	for (size_t i = 0; i < listeners->n; i++)
		if (listeners->at[i].service == service)
			return listeners->at[i].name;
	return "";
}

static void tell_http(const struct weir__server_started *started, const char *where)
{
	const char *const what = started->has_policy ? "v1/check?ip=203.0.113.7" : "readyz";
	const char *const who = started->settings->users.n > 0 ? "-H 'Authorization: Bearer TOKEN' " : "";

	if (strchr(where, '/')) {
		printf("     curl %s--unix-socket ", who);
		weir__words_for_shell(stdout, where);
		printf(" 'http://localhost/%s'\n", what);
	} else {
		printf("     curl %s'http://%s/%s'\n", who, where, what);
	}
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
		weir__log_print(&line, stdout);
	}
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

static void tell_try(const struct weir__server_started *started, const char *head, const char *request)
{
	printf("%s redis-cli ", head);
	tell_where(first_name(started->listeners, WEIR__SERVICE_RESP));
	if (started->settings->users.n > 0)
		printf(" --user %s --askpass", started->settings->users.at[0].name);
	printf(" %s\n", request);
}

void weir__serve_report(const struct weir__server_started *started)
{
	static const char *const words[WEIR__SERVICES] = {
		[WEIR__SERVICE_RESP] = "RESP", [WEIR__SERVICE_HTTP] = "HTTP", [WEIR__SERVICE_METRICS] = "metrics"
	};
	const struct weir__listeners *const listeners = started->listeners;
	const char *const http = first_name(listeners, WEIR__SERVICE_HTTP);

	if (weir__log_is_json(started->log)) {
		tell_json(listeners);
	} else {
		for (size_t i = 0; i < listeners->n; i++)
			printf("weir serve: %s at %s\n", words[listeners->at[i].service], listeners->at[i].name);
		tell_store(started);
		tell_try(started, "try:", "CL.THROTTLE user:42 15 30 60");
		tell_try(started, "    ", "WEIR.TAKE user:42 '100/min burst 20'");
		tell_try(started, "    ", "WEIR.INSPECT user:42 '100/min burst 20'");
		if (*http)
			tell_http(started, http);
	}
	fflush(stdout);
}
