/* settings_test.c: settings of every type and from every source, and the errors for invalid ones. */
/* Covers: src/server/settings_file.c, src/server/settings_numbers.c */
#include "server/settings.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"

/* --- values read and errors reported ------------------------------------------------------------------------------ */

enum { ARGUMENTS = 8 };

struct told {
	struct weir__settings settings;
	char *errors;
	bool is_right;
};

static char config_path[] = "settings_test.XXXXXX";

static void write_config(const char *text)
{
	FILE *const file = fopen(config_path, "w");

	CHECK(file != NULL && fputs(text, file) >= 0);
	if (file)
		fclose(file);
}

/* Reads settings as the daemon does: a file if `config` is not NULL, a variable if `variable` is not, and flags. */
static struct told *read_all(const char *config, const char *variable, const char *value, const char *const *flags)
{
	static struct told told;
	char *argv[ARGUMENTS + 4] = { (char *)"serve" };
	int argc = 1;
	size_t size;
	FILE *errors;

	free(told.errors);
	told.errors = NULL;
	errors = open_memstream(&told.errors, &size);
	weir__settings_fini(&told.settings);
	weir__settings_init(&told.settings, errors);
	if (config) {
		write_config(config);
		argv[argc++] = (char *)"--config";
		argv[argc++] = config_path;
	}
	for (; flags && *flags; flags++)
		argv[argc++] = (char *)(uintptr_t)*flags;
	if (variable)
		setenv(variable, value, 1);
	told.is_right = weir__settings_read(&told.settings, argc, argv);
	if (variable)
		unsetenv(variable);
	fclose(errors);
	return &told;
}

static const char *shown(const struct told *told, const char *name)
{
	static char text[WEIR__SETTING_SHOWN];

	weir__settings_show(&told->settings, weir__settings_find(name, strlen(name)), text);
	return text;
}

/* --- values ------------------------------------------------------------------------------------------------------ */

/* NULL: the value is invalid. */
static const struct {
	const char *name, *text, *shown;
} values[] = {
	{ "keys", "1", "1" },
	{ "keys", "500k", "500000" },
	{ "keys", "5m", "5000000" },
	{ "keys", "5M", "5000000" },
	{ "keys", "10g", "10000000000" },
	{ "keys", "10000000000", "10000000000" },
	{ "keys", "10000000001", NULL },
	{ "keys", "0", NULL },
	{ "keys", "-1", NULL },
	{ "keys", "+1", NULL },
	{ "keys", " 1", NULL },
	{ "keys", "1.5m", NULL },
	{ "keys", "m", NULL },
	{ "keys", "1e6", NULL },
	{ "keys", "0x10", NULL },
	{ "keys", "5MiB", NULL },
	{ "keys", "18446744073709551616", NULL },
	{ "keys", "18446744073709551615g", NULL },
	{ "arena", "0", "0" },
	{ "arena", "65536", "65536" },
	{ "arena", "64KiB", "65536" },
	{ "arena", "64kib", "65536" },
	{ "arena", "3GiB", "3221225472" },
	{ "arena", "1TiB", "1099511627776" },
	{ "arena", "1025GiB", NULL },
	{ "arena", "64k", NULL },
	{ "arena", "64KB", NULL },
	{ "inline_share", "1", "1" },
	{ "inline_share", "99", "99" },
	{ "inline_share", "0", NULL },
	{ "inline_share", "100", NULL },
	{ "output", "65536", "65536" },
	{ "output", "65535", NULL },
	{ "output", "1GiB", "1073741824" },
	{ "output", "1073741825", NULL },
	{ "stall", "100ms", "100ms" },
	{ "stall", "99ms", NULL },
	{ "idle", "0", "0" },
	{ "idle", "300", "300" },
	{ "idle", "5min", "300" },
	{ "idle", "1hour", "3600" },
	{ "idle", "1500ms", "1500ms" },
	{ "idle", "365day", "31536000" },
	{ "idle", "366day", NULL },
	{ "idle", "5m", NULL },
	{ "idle", "min", NULL },
	{ "workers", "256", "256" },
	{ "workers", "257", NULL },
	{ "connections", "1000000", "1000000" },
	{ "connections", "1000001", NULL },
	{ "holds", "1", "1" },
	{ "holds", "16777217", NULL },
	{ "socket_mode", "0660", "0660" },
	{ "socket_mode", "600", "0600" },
	{ "socket_mode", "0777", "0777" },
	{ "socket_mode", "1777", NULL },
	{ "socket_mode", "0", NULL },
	{ "socket_mode", "0680", NULL },
	{ "socket_mode", "00660", NULL },
	{ "socket_mode", "rw", NULL },
	{ "socket_mode", "", NULL },
	{ "shared", "shop", "shop" },
	{ "file", "some where/table", "some where/table" },
	{ "file", "", NULL },
	{ "overcommit", "true", "true" },
	{ "overcommit", "false", "false" },
	{ "overcommit", "yes", NULL },
	{ "auth_limit", "5/min burst 10", "5/min burst 10" },
	{ "core_dumps", "true", "true" },
	{ "core_dumps", "on", NULL },
	{ "keep_pid", "auto", "auto" },
	{ "keep_pid", "on", "on" },
	{ "keep_pid", "off", "off" },
	{ "keep_pid", "true", NULL },
	{ "pid_file", "/run/weir.pid", "/run/weir.pid" },
	{ "listen", "127.0.0.1:0", "127.0.0.1:0" },
	{ "listen", "[::1]:65535", "[::1]:65535" },
	{ "listen", "./socket", "./socket" },
	{ "listen", "nowhere", NULL },
	{ "listen", ":6380", NULL },
	{ "listen", "localhost:", NULL },
	{ "listen", "localhost:65536", NULL },
	{ "listen", "localhost:99999999999999999999", NULL },
	{ "listen", "localhost:6k", NULL },
	{ "listen", "", NULL },
	{ "listen", "none", NULL },
	{ "http", "none", "" },
	{ "http", "127.0.0.1:0", "127.0.0.1:0" },
	{ "http", "nothing", NULL },
	{ "trusted_proxies", "10.0.0.0/8", "10.0.0.0/8" },
	{ "trusted_proxies", "192.0.2.7", "192.0.2.7/32" },
	{ "trusted_proxies", "::ffff:192.0.2.7", "192.0.2.7/32" },
	{ "trusted_proxies", "2001:DB8::/32", "2001:db8::/32" },
	{ "trusted_proxies", "unix", "unix" },
	{ "trusted_proxies", "none", "" },
	{ "trusted_proxies", "10.0.0.1/8", NULL },
	{ "trusted_proxies", "10.0.0.0/33", NULL },
	{ "trusted_proxies", "localhost", NULL },
	{ "trusted_proxies", "", NULL },
	{ "allowed_hosts", "Weir.example.com", "weir.example.com" },
	{ "allowed_hosts", "*.example.com", "*.example.com" },
	{ "allowed_hosts", "*", "*" },
	{ "allowed_hosts", "none", "" },
	{ "allowed_hosts", "weir.example.com:8080", NULL },
	{ "allowed_hosts", "http://weir", NULL },
	{ "allowed_hosts", "weir*", NULL },
	{ "allowed_hosts", "", NULL },
	{ "authorize_headers", "X-API-Key=api_key", "x-api-key=api_key" },
	{ "authorize_headers", "X-API-Key", "x-api-key=x_api_key" },
	{ "authorize_headers", "none", "" },
	{ "authorize_headers", "x-real-ip=ip", NULL },
	{ "authorize_headers", "host", NULL },
	{ "authorize_headers", "x api key", NULL },
	{ "authorize_headers", "=a", NULL },
	{ "authorize_headers", "a=", NULL },
	{ "authorize_headers", "", NULL },
	{ "header_time", "100ms", "100ms" },
	{ "header_time", "0", NULL },
	{ "ratelimit_headers", "draft11", "draft11" },
	{ "ratelimit_headers", "none", "none" },
	{ "ratelimit_headers", "x", "x" },
	{ "ratelimit_headers", "draft", NULL },
	{ "ratelimit_headers", "x both", NULL },
	{ "ratelimit_headers", "", NULL },
};

static void values_of_all_kinds(void)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char flag[256], begin[64];
		const char *const flags[] = { flag, NULL };
		struct told *told;

		(void)snprintf(flag, sizeof(flag), "--%s=%s", values[i].name, values[i].text);
		(void)snprintf(begin, sizeof(begin), "weir serve: --%s: \"", values[i].name);
		for (char *at = begin; *at; at++)
			if (*at == '_') /* messages spell flags as --help does */
				*at = '-';
		told = read_all(NULL, NULL, NULL, flags);
		if (values[i].shown) {
			CHECK_TEXT(told->errors, "");
			CHECK_TEXT(shown(told, values[i].name), values[i].shown);
		} else if (told->is_right || strncmp(told->errors, begin, strlen(begin)) != 0 ||
			   strstr(told->errors, ": use ") == NULL) {
			printf("# %s\n", flag);
			CHECK_TEXT(told->errors, begin);
		}
	}
}

static void defaults_are_those_of_the_table(void)
{
	const struct told *const told = read_all(NULL, NULL, NULL, NULL);

	CHECK_TEXT(told->errors, "");
	CHECK_TEXT(shown(told, "listen"), "127.0.0.1:6380");
	CHECK_TEXT(shown(told, "keys"), "1000000");
	CHECK_TEXT(shown(told, "arena"), "16777216");
	CHECK_TEXT(shown(told, "shared"), "");
	CHECK_TEXT(shown(told, "file"), "");
	CHECK_TEXT(shown(told, "connections"), "10000");
	CHECK_TEXT(shown(told, "idle"), "0");
	CHECK_TEXT(shown(told, "http_idle"), "60");
	CHECK_TEXT(shown(told, "http2_idle"), "600");
	CHECK_TEXT(shown(told, "http2_age"), "0");
	CHECK_TEXT(shown(told, "grpc"), "127.0.0.1:8081");
	CHECK_TEXT(shown(told, "envoy_counts"), "each");
	CHECK_TEXT(shown(told, "envoy_headers"), "false");
	CHECK_TEXT(shown(told, "output"), "16777216");
	CHECK_TEXT(shown(told, "stall"), "30");
	CHECK_TEXT(shown(told, "holds"), "65536");
	CHECK_TEXT(shown(told, "policy"), "");
	CHECK_TEXT(shown(told, "limits_max"), "0");
	CHECK_TEXT(shown(told, "users"), "");
	CHECK(told->settings.workers >= 1 && told->settings.workers <= WEIR__WORKERS_MAX);
}

static void old_names_are_warned_about_once(void)
{
	static const char *const flags[] = { "--plans", "5", "--plans=6", NULL };
	const struct told *const told = read_all("plans: 7\n", "WEIR_PROXIES", "unix", flags);
	char warnings[512] = "";
	FILE *const out = fmemopen(warnings, sizeof(warnings), "w");

	CHECK_TEXT(told->errors, "");
	weir__settings_warn_of_old_names(&told->settings, out);
	(void)fclose(out);
	CHECK_TEXT(warnings, "weir serve: warning: the setting plans is now named limits_max\n"
			     "weir serve: warning: the setting proxies is now named trusted_proxies\n");
	weir__settings_warn_of_old_names(&read_all("limits_max: 7\n", NULL, NULL, NULL)->settings, stdout);
}

static void one_place_has_one_name(void)
{
	static const char *const flags[] = { "--plans", "5", "--limits-max=6", NULL };
	static const char again[] = "plans was renamed to limits_max, and both are set: use only the new name\n",
			  warning[] = "weir serve: warning: the setting plans is now named limits_max\n";
	char expected[512];

	(void)snprintf(expected, sizeof(expected), "%s:2:1: %s%s", config_path, again, warning);
	CHECK_TEXT(read_all("plans: 7\nlimits_max: 8\n", NULL, NULL, NULL)->errors, expected);
	CHECK_TEXT(read_all("limits_max: 7\nplans: 8\n", NULL, NULL, NULL)->errors, expected);
	(void)snprintf(expected, sizeof(expected), "weir serve: %s%s", again, warning);
	CHECK_TEXT(read_all(NULL, NULL, NULL, flags)->errors, expected);
	CHECK_TEXT(read_all("plans: 7\n", "WEIR_LIMITS_MAX", "8", NULL)->errors, "");
	(void)snprintf(
		expected, sizeof(expected),
		"weir serve: WEIR_LIMITS_MAX: \"abc\": use a whole number from 0 to 1000000, written as 1000, 500k or 5m\n%s",
		warning);
	CHECK_TEXT(read_all(NULL, "WEIR_PLANS", "abc", NULL)->errors, expected);
}

/* --- precedence ------------------------------------------------------------------------------------------------- */

static const struct {
	const char *file, *variable, *value, *flags[ARGUMENTS], *name, *shown;
} orders[] = {
	{ "keys: 2", NULL, NULL, { NULL }, "keys", "2" },
	{ "keys: 2", "WEIR_KEYS", "3", { NULL }, "keys", "3" },
	{ "keys: 2", "WEIR_KEYS", "3", { "--keys", "4" }, "keys", "4" },
	{ NULL, "WEIR_KEYS", "3", { "--keys=4" }, "keys", "4" },
	{ NULL, NULL, NULL, { "--keys", "4", "--keys", "5" }, "keys", "5" },
	{ NULL, NULL, NULL, { "--log_format", "json" }, "log_format", "json" },
	{ NULL, NULL, NULL, { "--log-format=json" }, "log_format", "json" },
	{ "keys: 2", "WEIR_KEYS", "", { NULL }, "keys", "2" },
	{ "listen: [a:1, b:2]", NULL, NULL, { NULL }, "listen", "a:1,b:2" },
	{ "listen: a:1", NULL, NULL, { NULL }, "listen", "a:1" },
	{ "listen: [a:1, b:2]", "WEIR_LISTEN", "c:3,d:4", { NULL }, "listen", "c:3,d:4" },
	{ "listen: [a:1, b:2]", "WEIR_LISTEN", "c:3,d:4", { "--listen", "e:5" }, "listen", "e:5" },
	{ NULL, NULL, NULL, { "--listen", "e:5", "--listen=./f" }, "listen", "e:5,./f" },
	{ "http: [a:1, b:2]", NULL, NULL, { "--http", "none" }, "http", "" },
	{ "http: none", NULL, NULL, { "--http", "e:5" }, "http", "e:5" },
	{ NULL, NULL, NULL, { NULL }, "trusted_proxies", "127.0.0.0/8,::1/128,unix" },
	{ NULL,
	  NULL,
	  NULL,
	  { "--trusted_proxies=unix", "--trusted_proxies=10.0.0.1" },
	  "trusted_proxies",
	  "10.0.0.1/32,unix" },
	{ "trusted_proxies: [10.0.0.0/8, unix]",
	  "WEIR_TRUSTED_PROXIES",
	  "::1,192.0.2.1",
	  { NULL },
	  "trusted_proxies",
	  "::1/128,192.0.2.1/32" },
	{ "authorize_headers: [a, b-c=d]", NULL, NULL, { NULL }, "authorize_headers", "a=a,b-c=d" },
	{ "plans: 7", NULL, NULL, { NULL }, "limits_max", "7" }, /* former names */
	{ "plans: 7", "WEIR_PROXIES", "unix", { NULL }, "trusted_proxies", "unix" },
	{ "limits_max: 7", "WEIR_PLANS", "8", { "--plans=9" }, "limits_max", "9" },
	{ "", NULL, NULL, { NULL }, "keys", "1000000" },
	{ "# nothing\n---\n", NULL, NULL, { NULL }, "keys", "1000000" },
	{ "limits: []\nkeys: 7\nattributes: {}\n", NULL, NULL, { NULL }, "keys", "7" }, /* a policy is not read here */
	{ "policy: limits.yaml", NULL, NULL, { "--policy=limits" }, "policy", "limits" },
	{ "policy: 'etcd://u:hunter2@h:1/k'", NULL, NULL, { NULL }, "policy", "etcd://u:***@h:1/k" },
	{ "{\"keys\": \"5m\"}", NULL, NULL, { NULL }, "keys", "5000000" },
};

static void a_flag_beats_the_environment_beats_the_file(void)
{
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		const struct told *const told = read_all(orders[i].file, orders[i].variable, orders[i].value,
							 orders[i].flags);

		CHECK_TEXT(told->errors, "");
		CHECK_TEXT(shown(told, orders[i].name), orders[i].shown);
	}
}

static void the_environment_names_the_file(void)
{
	write_config("keys: 7\n");
	CHECK_TEXT(shown(read_all(NULL, "WEIR_CONFIG", config_path, NULL), "keys"), "7");
}

/* --- errors ----------------------------------------------------------------------------------------------------- */

#define KEYS_RIGHT "use a whole number from 1 to 10000000000, written as 1000, 500k or 5m\n"
#define UNKNOWN(place)                                                                                                 \
	"FILE:" place                                                                                                  \
	": users.web: found an unknown key; use password, password_file or sha256, token or token_sha256, certificate, roles and key_prefix\n"
#define PREFIX_RIGHT "use 1 to 31 letters, digits and . _ @ -, then a slash, as in acme/\n"
#define WHERE_RIGHT                                                                                                    \
	"use HOST:PORT, tls://HOST:PORT or the path of a socket, such as 127.0.0.1:6380, [::1]:6380 or ./socket\n"

/* FILE stands for the path of the file. */
static const struct {
	const char *file, *variable, *value, *flags[ARGUMENTS], *errors;
} n_errors[] = {
	{ NULL, NULL, NULL, { "--keys", "none" }, "weir serve: --keys: \"none\": " KEYS_RIGHT },
	{ NULL, "WEIR_KEYS", "none", { NULL }, "weir serve: WEIR_KEYS: \"none\": " KEYS_RIGHT },
	{ "keys: none", NULL, NULL, { NULL }, "FILE:1:7: keys: \"none\": " KEYS_RIGHT },
	{ "keys: none",
	  "WEIR_KEYS",
	  "nil",
	  { "--keys=no" },
	  "FILE:1:7: keys: \"none\": " KEYS_RIGHT "weir serve: WEIR_KEYS: \"nil\": " KEYS_RIGHT
	  "weir serve: --keys: \"no\": " KEYS_RIGHT },
	{ NULL, NULL, NULL, { "--keys" }, "weir serve: --keys needs a value: N; see weir serve --help\n" },
	{ NULL, NULL, NULL, { "--config" }, "weir serve: --config needs a value: FILE; see weir serve --help\n" },
	{ NULL, NULL, NULL, { "--foo" }, "weir serve: unknown option --foo; weir serve --help lists them\n" },
	{ NULL, NULL, NULL, { "--what", "x" }, "weir serve: unknown option --what; weir serve --help lists them\n" },
	{ NULL, NULL, NULL, { "keys" }, "weir serve: unknown argument keys; weir serve --help lists the options\n" },
	{ NULL,
	  NULL,
	  NULL,
	  { "--users", "a" },
	  "weir serve: --users: set users only in the configuration file: other users of the machine can see flags\n" },
	{ NULL,
	  "WEIR_USERS",
	  "a",
	  { NULL },
	  "weir serve: WEIR_USERS: set users only in the configuration file: other processes may see the environment\n" },
	{ NULL, "WEIR_LISTEN", "a:1,,b:2", { NULL }, "weir serve: WEIR_LISTEN: \"\": " WHERE_RIGHT },
	{ "file: t",
	  NULL,
	  NULL,
	  { "--shared", "s" },
	  "weir serve: --shared: shared and file are both set; use one of the two\n"
	  "FILE:1:7: file: shared and file are both set; use one of the two\n" },
	{ "policy: consul://h/k\npolicy_copy: c\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:1:9: policy: \"consul://h/k\": unknown source; use a path, etcd://HOST:PORT/KEY or "
	  "redis://HOST:PORT/DATABASE?policy_key=KEY, with etcds:// or rediss:// for TLS\n" },
	{ NULL,
	  NULL,
	  NULL,
	  { "--policy=etcd://u:hunter2@h" },
	  "weir serve: --policy: \"etcd://u:***@h\": at 18: missing key; put it after the host, as in etcd://127.0.0.1:2379/weir/policy\n" },
	{ "policy_copy: c\n",
	  NULL,
	  NULL,
	  { "--policy=limits.yaml" },
	  "FILE:1:14: policy_copy: only for a policy in etcd or Redis; leave it out\n" },
	/* all at once, each with its place */
	{ "keys: [1]\nkeyz: 1\nidle: 5m\nlisten:\n- x\n- a:1\n-\nkeys: 3\narena: {}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:8:1: duplicate key 'keys'; it was first given in line 1\n"
	  "FILE:1:7: keys: found a list; " KEYS_RIGHT
	  "FILE:2:1: keyz: found an unknown setting; use listen, http, grpc, metrics_listen, metrics_open, tls_cert, tls_key, tls_client_ca, tls_client_auth, socket_mode, keys, arena, inline_share, shared, file, overcommit, store, store_budget, on_store_failure, deferred_memory, workers, spin, connections, connections_per_address, client_memory, idle, http_idle, http2_idle, http2_age, "
	  "header_time, ratelimit_headers, trusted_proxies, authorize_headers, denial_reveals, denial_body, denial_type, allowed_hosts, output, stall, end_delay, drain, keep_pid, pid_file, core_dumps, holds, policy, policy_copy, envoy_counts, envoy_headers, envoy_metadata, limits_max, service, observe, top_keys, trace_to, trace_one_in, log_format, log_denials, log_denials_limit, auth_limit, users, limits, attributes or unmatched\n"
	  "FILE:3:7: idle: \"5m\": use a duration from 0 to 365day, written as 30s, 5min or 1hour\n"
	  "FILE:5:3: listen: \"x\": " WHERE_RIGHT "FILE:7:2: listen: found nothing; " WHERE_RIGHT
	  "FILE:9:8: arena: found a map; use bytes from 0 to 1TiB, written as 65536, 64KiB or 4MiB\n" },
	{ "keys:\n", NULL, NULL, { NULL }, "FILE:1:6: keys: found nothing; " KEYS_RIGHT },
	{ "keys: ~\n", NULL, NULL, { NULL }, "FILE:1:7: keys: found nothing; " KEYS_RIGHT },
	{ "[keys]", NULL, NULL, { NULL }, "FILE:1:1: found a list; use a map of settings, such as keys: 5m\n" },
	{ "keys", NULL, NULL, { NULL }, "FILE:1:1: found a value; use a map of settings, such as keys: 5m\n" },
	{ "? [a]\n: 1\n", NULL, NULL, { NULL }, "FILE:1:3: found a list as a key; a key must be a string\n" },
	{ "keys: 1\n---\nkeys: 2\n", NULL, NULL, { NULL }, "FILE:2:1: found a second YAML document; a file has one\n" },
	{ "keys: &n 7\nconnections: *n\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:1:7: found an anchor (&) or tag (!), which is not supported; write the value out\n" },
	{ "keys: 1\nidle: [\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:3:1: not valid YAML: did not find expected node content while parsing a flow node\n" },
	{ "keys: 1\nfile: a\xff\n", NULL, NULL, { NULL }, "FILE:2:8: not valid YAML: invalid leading UTF-8 octet\n" },
	/* users; messages do not repeat what may be a password */
	{ "users: hunter2",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:1:8: users: found a value; use a map of names, each with a password or token, and roles\n" },
	{ "users: {}",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:1:8: users: found an empty map; use a map of names, each with a password or token, and roles\n" },
	{ "users: {web: hunter2}",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:1:14: users.web: found a value; use a map with password, password_file or sha256, token or token_sha256, certificate, roles and key_prefix\n" },
	{ "users: {hunter 2: {password: a}}",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:1:9: users: found an invalid name; use 1 to 63 letters, digits and . _ @ -\n" },
	{ "users:\n  web: {role: admin}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:2:3: users.web: found neither password, token nor certificate; use one of password, password_file and sha256, "
	  "or one of token and token_sha256, or certificate, or several of these\n" },
	{ "users:\n  web: {certificate: spiffe://a/b}\n  web2: {certificate: spiffe://a/b}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:3:3: users.web2: found the same certificate as users.web; use another\n" },
	{ "users:\n  web: {certificate: 'a b'}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:2:22: users.web.certificate: use a name in the client's certificate (subjectAltName), without URI: or DNS:, "
	  "such as spiffe://example.org/web or web.example.org\n" },
	{ "users:\n  web:\n    password: #hunter2\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:3:14: users.web.password: use text, in quotes if it has a # or a colon\n" },
	{ "users:\n  web: {password: a, sha256: b, role: king, hunter2: 1}\n  web: {password: a}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:3:3: duplicate key 'web'; it was first given in line 2\n"
	  "FILE:2:30: users.web.sha256: use the 64 hexadecimal digits that sha256sum prints for the password\n"
	  "FILE:2:39: users.web.role: use decide, operate, read or admin, or a list of them\n"
	  "FILE:2:45: users.web: found an unknown key; use password, password_file or sha256, token or token_sha256, certificate, roles and key_prefix\n"
	  "FILE:2:3: users.web: found more than one password; use one of password, password_file and sha256\n" },
	{ "users:\n  a: {password: a, roles: [decide, king]}\n  b: {password: a, roles: []}\n  c: {password: a, roles: {admin: 1}}\n"
	  "  d: {password: a, roles: [read], role: read}\n  e: {password: a, role: ~}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:2:27: users.a.roles: use decide, operate, read or admin, each in the list\n"
	  "FILE:3:27: users.b.roles: use decide, operate, read or admin, at least one\n"
	  "FILE:4:27: users.c.roles: use decide, operate, read or admin, or a list of them\n"
	  "FILE:5:3: users.d: found both roles and role; use roles\n"
	  "FILE:6:26: users.e.role: use decide, operate, read or admin, or a list of them\n" },
	{ "users:\n  a: {password: a, key_prefix: acme}\n  b: {password: a, key_prefix: a/b/}\n  c: {password: a, key_prefix: /}\n"
	  "  d: {password: a, key_prefix: abcdefghijklmnopqrstuvwxyz012345/}\n  e: {password: a, key_prefix: ok/, role: admin}\n"
	  "  f: {password: a, key_prefix: \"a b/\"}\n  g: {password: a, key_prefix: abcdefghijklmnopqrstuvwxyz01234/}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:2:32: users.a.key_prefix: " PREFIX_RIGHT "FILE:3:32: users.b.key_prefix: " PREFIX_RIGHT
	  "FILE:4:32: users.c.key_prefix: " PREFIX_RIGHT "FILE:5:32: users.d.key_prefix: " PREFIX_RIGHT
	  "FILE:6:3: users.e: found key_prefix and the role admin, which sees all keys; use one of the two\n"
	  "FILE:7:32: users.f.key_prefix: " PREFIX_RIGHT },
	{ "users:\n  web: {password: a, roel: admin}\n  ops: {pasword: a, tokens: b, token: c, rule: d, Role: x, tooken : y}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:2:22: users.web.roel: found an unknown key; did you mean role?\n"
	  "FILE:3:9: users.ops.pasword: found an unknown key; did you mean password?\n"
	  "FILE:3:21: users.ops.tokens: found an unknown key; did you mean token?\n"
	  "FILE:3:42: users.ops.rule: found an unknown key; did you mean role?\n"
	  "FILE:3:51: users.ops.Role: found an unknown key; did you mean role?\n"
	  "FILE:3:60: users.ops.tooken: found an unknown key; did you mean token?\n" },
	{ "users:\n  web: {password: a, roled1: 1, passwrod1: 1, tok: 1, \"\": 1, sha256sum: 1}\n",
	  NULL,
	  NULL,
	  { NULL },
	  UNKNOWN("2:22") UNKNOWN("2:33") UNKNOWN("2:47") UNKNOWN("2:55") UNKNOWN("2:62") },
	{ "users:\n  web: {token: hunter 2, token_sha256: b}\n  ops: {token: a}\n  all: {token: a}\n",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:2:16: users.web.token: use 1 to 512 letters, digits and - . _ ~ + / =\n"
	  "FILE:2:40: users.web.token_sha256: use the 64 hexadecimal digits that sha256sum prints for the token\n"
	  "FILE:2:3: users.web: found more than one token; use one of token and token_sha256\n"
	  "FILE:4:3: users.all: found the same token as users.ops; use another\n" },
	{ "users: {web: {password_file: ./no/such/file}}",
	  NULL,
	  NULL,
	  { NULL },
	  "FILE:1:30: users.web.password_file: No such file or directory\n" },
};

/* Replaces each FILE by the path. */
static char *with_path(const char *text)
{
	static char whole[4096];
	size_t length = 0;

	for (; *text && length + sizeof(config_path) < sizeof(whole); text++)
		if (strncmp(text, "FILE:", 5) == 0) {
			length += (size_t)snprintf(whole + length, sizeof(whole) - length, "%s", config_path);
			text += 3;
		} else {
			whole[length++] = *text;
		}
	whole[length] = '\0';
	return whole;
}

static void faults_tell_where_and_what_would_be_right(void)
{
	for (size_t i = 0; i < sizeof(n_errors) / sizeof(n_errors[0]); i++) {
		const struct told *const told = read_all(n_errors[i].file, n_errors[i].variable, n_errors[i].value,
							 n_errors[i].flags);

		CHECK(!told->is_right);
		CHECK_TEXT(told->errors, with_path(n_errors[i].errors));
	}
}

static size_t lines_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void faults_are_bounded(void)
{
	static char file[4096];
	size_t length = 0;
	const struct told *told;

	for (int i = 0; i < 60; i++)
		length += (size_t)snprintf(file + length, sizeof(file) - length, "unknown%d: 1\n", i);
	told = read_all(file, NULL, NULL, NULL);
	CHECK_EQ(lines_of(told->errors), WEIR__SETTING_ERRORS_MAX + 1);
	CHECK(strstr(told->errors, "weir serve: more errors follow; fix these first\n") != NULL);
}

static void a_file_that_cannot_be_read(void)
{
	static const char *const missing[] = { "--config", "./no/such/file", NULL },
				 *const folder[] = { "--config=.", NULL }, *const empty[] = { "--config=", NULL };
	static char large[WEIR__SETTINGS_FILE_MAX + 2];

	CHECK_TEXT(read_all(NULL, NULL, NULL, missing)->errors,
		   "weir serve: --config: ./no/such/file: No such file or directory\n");
	CHECK_TEXT(read_all(NULL, "WEIR_CONFIG", "./no/such/file", NULL)->errors,
		   "weir serve: WEIR_CONFIG: ./no/such/file: No such file or directory\n");
	CHECK_TEXT(read_all(NULL, NULL, NULL, folder)->errors, "weir serve: --config: .: Is a directory\n");
	CHECK_TEXT(read_all(NULL, NULL, NULL, empty)->errors, "weir serve: --config: use a path of 1 to 1023 bytes\n");
	memset(large, '\n', sizeof(large) - 1);
	CHECK(strstr(read_all(large, NULL, NULL, NULL)->errors, "found more than 16777216 bytes") != NULL);
	large[WEIR__SETTINGS_FILE_MAX] = '\0';
	CHECK_TEXT(read_all(large, NULL, NULL, NULL)->errors, "");
}

static void too_many(void)
{
	static char file[WEIR__USERS_MAX * 32 + 8192];
	size_t length = (size_t)snprintf(file, sizeof(file), "listen:\n");
	const struct told *told;

	for (int i = 0; i < WEIR__LISTENERS_MAX + 1; i++)
		length += (size_t)snprintf(file + length, sizeof(file) - length, "- a:%d\n", i);
	length += (size_t)snprintf(file + length, sizeof(file) - length, "users:\n");
	for (int i = 0; i < WEIR__USERS_MAX + 1; i++)
		length += (size_t)snprintf(file + length, sizeof(file) - length, "  user%d: {password: a}\n", i);
	told = read_all(file, NULL, NULL, NULL);
	CHECK_TEXT(told->errors, with_path("FILE:18:3: listen: too many; use at most 16\n"
					   "FILE:10020:3: users.user10000: too many; use at most 10000\n"));
	CHECK(strstr(shown(told, "users"), "user0:decide,user1:decide,") == shown(told, "users"));
	CHECK(strstr(shown(told, "users"), ",... 9") != NULL && strstr(shown(told, "users"), " more") != NULL);
	CHECK_EQ(told->settings.users.n, WEIR__USERS_MAX);
}

/* --- users ------------------------------------------------------------------------------------------------------- */

static const struct weir__user *check(const struct told *told, const char *name, const char *password)
{
	return weir__users_check(&told->settings.users, name, strlen(name), password, strlen(password));
}

static void users_have_passwords_and_roles(void)
{
	char password_path[] = "settings_test.XXXXXX", text[1024];
	const int descriptor = mkstemp(password_path);
	const struct told *told;

	CHECK(descriptor >= 0 && write(descriptor, "tops3cret\nno part of it", 23) == 23);
	close(descriptor);
	(void)snprintf(
		text, sizeof(text),
		"users:\n"
		"  default: {password: abc}\n"
		"  mounted: {password_file: %s, role: decide}\n"
		"  ops: {sha256: \"#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\", role: admin}\n"
		"  low: {sha256: BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD, roles: [read, operate]}\n",
		password_path);
	told = read_all(text, NULL, NULL, NULL);
	(void)unlink(password_path);
	CHECK_TEXT(told->errors, "");
	CHECK_TEXT(shown(told, "users"), "default:decide,mounted:decide,ops:admin,low:operate+read");
	CHECK(check(told, "default", "abc") == &told->settings.users.at[0]);
	CHECK(check(told, "mounted", "tops3cret") == &told->settings.users.at[1]);
	CHECK(check(told, "ops", "abc") == &told->settings.users.at[2]); /* the SHA-256 of abc, from FIPS 180 */
	CHECK(check(told, "low", "abc") == &told->settings.users.at[3]);
	CHECK(check(told, "default", "abd") == NULL);
	CHECK(check(told, "default", "") == NULL);
	CHECK(check(told, "default", "ABC") == NULL);
	CHECK(check(told, "nobody", "abc") == NULL);
	CHECK(check(told, "", "abc") == NULL);
	CHECK(check(told, "ops", "#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == NULL);
}

static void passwords_have_a_longest(void)
{
	static char text[1024], password[WEIR__PASSWORD_MAX + 2];

	memset(password, 'x', WEIR__PASSWORD_MAX);
	(void)snprintf(text, sizeof(text), "users: {a: {password: %s}}", password);
	CHECK(check(read_all(text, NULL, NULL, NULL), "a", password) != NULL);
	password[WEIR__PASSWORD_MAX] = 'x';
	CHECK(check(read_all(text, NULL, NULL, NULL), "a", password) == NULL);
	(void)snprintf(text, sizeof(text), "users: {a: {password: %s}}", password);
	CHECK_TEXT(read_all(text, NULL, NULL, NULL)->errors,
		   with_path("FILE:1:23: users.a.password: use 1 to 512 bytes\n"));
}

static const struct check_test all[] = {
	TEST(values_of_all_kinds),
	TEST(defaults_are_those_of_the_table),
	TEST(old_names_are_warned_about_once),
	TEST(one_place_has_one_name),
	TEST(a_flag_beats_the_environment_beats_the_file),
	TEST(the_environment_names_the_file),
	TEST(faults_tell_where_and_what_would_be_right),
	TEST(faults_are_bounded),
	TEST(a_file_that_cannot_be_read),
	TEST(too_many),
	TEST(users_have_passwords_and_roles),
	TEST(passwords_have_a_longest),
};

int main(void)
{
	const int descriptor = mkstemp(config_path);
	int failures;

	if (descriptor < 0) {
		perror("a file in the working directory");
		return 1;
	}
	close(descriptor);
	for (size_t i = 0; i < WEIR__SETTINGS; i++) { /* of the environment of this test */
		char name[64] = "WEIR_";

		for (size_t j = 0; weir__setting_rows[i].name[j]; j++)
			name[5 + j] = (char)(weir__setting_rows[i].name[j] - 'a' + 'A');
		unsetenv(name);
	}
	unsetenv("WEIR_CONFIG");
	failures = check_run(all, sizeof(all) / sizeof(all[0]));
	(void)unlink(config_path);
	return failures;
}
