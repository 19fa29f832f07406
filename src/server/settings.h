/* settings.h: the settings of the daemon as one table. The flags, the environment variables, the keys of the file,
 * CONFIG GET, --help, the man page and docs/reference/settings.md are all made from it.
 *
 * A flag overrides the environment, which overrides the file, which overrides the default. All errors are reported with
 * their places, not only the first. Values are copied and have a fixed size; only users have to be freed.
 * The reasons are in docs/internals/settings.md. */
#ifndef WEIR_SERVER_SETTINGS_H
#define WEIR_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/users.h"
#include "os/net.h"
#include "server/forwarded.h"
#include "server/header_map.h"
#include "server/host_list.h"
#include "server/worker.h"

enum {
	WEIR__SETTINGS = 61,
	WEIR__SETTINGS_RENAMED = 4,
	WEIR__WORKERS_MAX = 256,
	WEIR__SETTING_TEXT_SIZE = 1024,             /* of a path or a name, including its NUL */
	WEIR__SETTING_ERRORS_MAX = 50,              /* that are reported */
	WEIR__SETTINGS_FILE_MAX = 16 * 1024 * 1024, /* bytes, including the limits in it */
};

enum weir__setting_kind {
	WEIR__SETTING_COUNT,    /* uint64_t; 500k, 5m */
	WEIR__SETTING_BYTES,    /* uint64_t; 64KiB, 4MiB */
	WEIR__SETTING_DURATION, /* uint64_t, in ns; 30s, 5min; seconds without a unit */
	WEIR__SETTING_CHOICE,   /* uint64_t: index of the word */
	WEIR__SETTING_MODE,     /* uint64_t: file mode in octal digits, as for chmod; 0: not set */
	WEIR__SETTING_TEXT,     /* char[WEIR__SETTING_TEXT_SIZE]; empty: not set */
	WEIR__SETTING_URL,      /* the same: URL of a store; its password is not shown */
	WEIR__SETTING_WHERE,    /* struct weir__setting_list; if `least` is 0, the word none empties it */
	WEIR__SETTING_PROXIES,  /* struct weir__proxies; the word none empties it */
	WEIR__SETTING_HEADERS,  /* struct weir__header_map; the word none empties it */
	WEIR__SETTING_HOSTS,    /* struct weir__host_list; the word none empties it */
	WEIR__SETTING_USERS,    /* struct weir__users; only in the file, since others can see flags and environments */
};

struct weir__setting {
	const char *name; /* in the file; --name as a flag, WEIR_NAME as a variable */
	enum weir__setting_kind kind;
	uint64_t least, most; /* of a number; of the items of a list, or of users */
	const char *unset;    /* the default, as it is written; "": none */
	size_t offset;        /* of the value in struct weir__settings */
	const char *value;    /* placeholder for the value in help */
	const char *means;    /* its description, as a sentence */
	const char *words;    /* of a choice, separated by spaces */
};

extern const struct weir__setting weir__setting_rows[WEIR__SETTINGS];

/* The words of the setting envoy_counts: how descriptors of Envoy's ratelimit count. */
enum weir__envoy_counts { WEIR__COUNTS_TOGETHER, WEIR__COUNTS_EACH };

/* The words of the settings envoy_headers and envoy_metadata. */
enum weir__envoy_headers { WEIR__ENVOY_HEADERS_FALSE, WEIR__ENVOY_HEADERS_TRUE };
enum weir__envoy_metadata { WEIR__ENVOY_METADATA_FALSE, WEIR__ENVOY_METADATA_TRUE };

/* The words of the setting ratelimit_headers: which headers report limits. */
enum weir__ratelimit_headers {
	WEIR__HEADERS_DRAFT11,
	WEIR__HEADERS_X,
	WEIR__HEADERS_BOTH,
	WEIR__HEADERS_NONE,
};

/* The words of the setting on_store_failure: what decides without the store. */
enum weir__on_failure {
	WEIR__ON_FAILURE_SHARE,
	WEIR__ON_FAILURE_OPEN,
	WEIR__ON_FAILURE_CLOSED,
};

/* The words of the setting observe. */
enum weir__observe { WEIR__OBSERVE_ON, WEIR__OBSERVE_OFF };

/* The words of the setting core_dumps. */
enum weir__core_dumps { WEIR__CORE_DUMPS_FALSE, WEIR__CORE_DUMPS_TRUE };

/* The words of the setting denial_reveals. */
enum weir__denial_reveals { WEIR__REVEALS_DECIDED, WEIR__REVEALS_ALL };

/* The words of the setting metrics_open. */
enum weir__metrics_open { WEIR__METRICS_OPEN_FALSE, WEIR__METRICS_OPEN_TRUE };

/* The words of the setting keep_pid. */
enum weir__keep_pid { WEIR__KEEP_PID_AUTO, WEIR__KEEP_PID_ON, WEIR__KEEP_PID_OFF };

/* The words of the setting overcommit. */
enum weir__overcommit { WEIR__OVERCOMMIT_FALSE, WEIR__OVERCOMMIT_TRUE };

/* The words of the setting log_format. */
enum weir__log_format { WEIR__LOG_FORMAT_TEXT, WEIR__LOG_FORMAT_JSON };

/* The words of the setting tls_client_auth: whether clients need a certificate. */
enum weir__tls_client_auth { WEIR__CLIENT_AUTH_REQUIRE, WEIR__CLIENT_AUTH_OPTIONAL };

enum weir__setting_from {
	WEIR__FROM_DEFAULT,
	WEIR__FROM_FILE,
	WEIR__FROM_ENVIRONMENT,
	WEIR__FROM_FLAG,
};

struct weir__setting_place {
	enum weir__setting_from from;
	size_t line, column; /* in the file, from 1 */
};

struct weir__setting_list {
	char at[WEIR__LISTENERS_MAX][WEIR__NET_NAME_SIZE];
	struct weir__setting_place places[WEIR__LISTENERS_MAX];
	size_t n;
};

struct weir__log;

struct weir__settings {
	struct weir__setting_list listen, http, grpc, metrics_listen;
	uint64_t keys, workers, spin_ns, connections, connections_per_address, client_memory, idle_ns, http_idle_ns,
		http2_idle_ns, http2_age_ns, envoy_headers, envoy_metadata, header_time_ns, ratelimit_headers,
		envoy_counts, output, stall_ns, end_delay_ns, drain_ns, arena, inline_share, holds, limits_max,
		store_budget_ns, on_store_failure, deferred_memory, observe, top_keys, trace_one_in, log_format,
		log_denials, socket_mode, overcommit, keep_pid, core_dumps, metrics_open, denial_reveals,
		tls_client_auth;
	char shared[WEIR__SETTING_TEXT_SIZE], file[WEIR__SETTING_TEXT_SIZE], policy[WEIR__SETTING_TEXT_SIZE],
		policy_copy[WEIR__SETTING_TEXT_SIZE], pid_file[WEIR__SETTING_TEXT_SIZE],
		service[WEIR__SETTING_TEXT_SIZE], trace_to[WEIR__SETTING_TEXT_SIZE],
		log_denials_limit[WEIR__SETTING_TEXT_SIZE], auth_limit[WEIR__SETTING_TEXT_SIZE],
		denial_body[WEIR__SETTING_TEXT_SIZE], denial_type[WEIR__SETTING_TEXT_SIZE];
	char store[WEIR__SETTING_TEXT_SIZE], tls_cert[WEIR__SETTING_TEXT_SIZE], tls_key[WEIR__SETTING_TEXT_SIZE],
		tls_client_ca[WEIR__SETTING_TEXT_SIZE];
	struct weir__proxies trusted_proxies;
	struct weir__header_map authorize_headers;
	struct weir__host_list allowed_hosts;
	struct weir__users users;

	struct weir__setting_place places[WEIR__SETTINGS]; /* where each was last set */
	char config[WEIR__SETTING_TEXT_SIZE];              /* path of the file; empty: none */
	struct weir__setting_place config_place;
	/* For settings that were renamed: a bit of enum weir__setting_from for each place that sets it. */
	uint8_t given_by_name[WEIR__SETTINGS_RENAMED], given_by_old_name[WEIR__SETTINGS_RENAMED];
	bool has_policy;   /* the file has limits or other keys of a policy */
	bool lacks_policy; /* the file has settings, but neither limits nor attributes */
	FILE *errors;
	struct weir__log *log; /* of a running server; NULL: it reports to `errors` */
	uint32_t n_errors;
};

/* Sets the defaults. Errors will be reported to `errors`, one line each. */
void weir__settings_init(struct weir__settings *settings, FILE *errors);

/* Wipes and frees the users. */
void weir__settings_fini(struct weir__settings *settings);

/* Reads the file, the environment and the flags (from argv[1] on), then checks the settings against each other. Returns
 * false if anything is wrong, after reporting it. */
bool weir__settings_read(struct weir__settings *settings, int argc, char **argv);

/* settings_file.c: reads the file settings->config. */
void weir__settings_read_file(struct weir__settings *settings);

/* The same, from its text. Returns false if it is not YAML. Reading it as a policy would only repeat that error. */
bool weir__settings_read_text(struct weir__settings *settings, const char *text, size_t length);

/* Finds a setting by its name, or by its former name. NULL: unknown name. */
const struct weir__setting *weir__settings_find(const char *name, size_t length);

/* Remembers that a setting was given by this name. It is an error if one place gives both names of a setting that was
 * renamed. The second function warns of old names. */
void weir__settings_note_name(struct weir__settings *settings, struct weir__setting_place place, const char *name,
			      size_t length);
void weir__settings_warn_of_old_names(const struct weir__settings *settings, FILE *out);

/* Where the setting of this name was set. The name must be known. */
struct weir__setting_place weir__settings_place(const struct weir__settings *settings, const char *name);

/* Sets a value, or adds to a list. A list starts empty when the value comes from another kind of place than its
 * items. */
void weir__settings_put(struct weir__settings *settings, const struct weir__setting *setting,
			struct weir__setting_place place, const char *text, size_t length);

/* Reports an error: the place, then `name` if it is not NULL, then the words. */
__attribute__((format(printf, 4, 5))) void weir__settings_error(struct weir__settings *settings,
								struct weir__setting_place place, const char *name,
								const char *words, ...);

/* Whether it is a list: a YAML list in the file, separated by commas in the environment, one flag per item. */
bool weir__settings_is_list(const struct weir__setting *setting);

/* Writes what would be right for it, as "use ...". */
void weir__settings_write_right(const struct weir__setting *setting, char *ret_text, size_t size);

/* settings_numbers.c: reads and writes a number with its unit, such as 4MiB or 30s. Reading returns false if it is
 * invalid. */
bool weir__settings_read_number(enum weir__setting_kind kind, const char *text, size_t length, uint64_t *ret_number);
void weir__settings_write_number(enum weir__setting_kind kind, uint64_t number, char *ret_text, size_t size);

/* Writes the value as text, for CONFIG GET: numbers without units, durations in seconds if they are whole seconds,
 * lists with commas, users with only their names and roles, as many as fit. Returns the length, which is below
 * WEIR__SETTING_SHOWN. */
enum { WEIR__SETTING_SHOWN = 2560 };
size_t weir__settings_show(const struct weir__settings *settings, const struct weir__setting *setting,
			   char ret_text[WEIR__SETTING_SHOWN]);
size_t weir__settings_show_users(const struct weir__users *users, char ret_text[WEIR__SETTING_SHOWN]);

#endif
