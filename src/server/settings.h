/* settings.h: what can be set when the daemon starts, as one table: from it come the flags, the variables of the
 * environment, the keys of the file, CONFIG GET, --help, the man page and docs/settings.md.
 *
 * A flag beats the environment, that beats the file, and that the default. All that is wrong is told, not only the first
 * of it, and where it was said. Everything has a fixed size: values are copied, and nothing is to be freed. */
#ifndef WEIR_SERVER_SETTINGS_H
#define WEIR_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/users.h"
#include "os/net.h"
#include "server/forwarded.h"
#include "server/header_map.h"
#include "server/worker.h"

enum {
	WEIR__SETTINGS = 37,
	WEIR__WORKERS_MAX = 256,
	WEIR__SETTING_TEXT_SIZE = 1024,             /* of a path or a name, with its NUL */
	WEIR__SETTING_ERRORS_MAX = 50,              /* that are told */
	WEIR__SETTINGS_FILE_MAX = 16 * 1024 * 1024, /* bytes, with the limits that are in it */
};

enum weir__setting_kind {
	WEIR__SETTING_COUNT,    /* uint64_t; 500k, 5m */
	WEIR__SETTING_BYTES,    /* uint64_t; 64KiB, 4MiB */
	WEIR__SETTING_DURATION, /* uint64_t, in ns; 30s, 5min; without a unit seconds */
	WEIR__SETTING_CHOICE,   /* uint64_t: which of the words, from 0 */
	WEIR__SETTING_MODE,     /* uint64_t: who may read and write, as chmod has it in octal digits; 0 is none */
	WEIR__SETTING_TEXT,     /* char[WEIR__SETTING_TEXT_SIZE]; empty is none */
	WEIR__SETTING_URL,      /* likewise: of a store, which may have a password in it, that is not shown */
	WEIR__SETTING_WHERE,    /* struct weir__setting_list; if `least` is 0, the word none is an empty one */
	WEIR__SETTING_PROXIES,  /* struct weir__proxies; the word none is an empty one */
	WEIR__SETTING_HEADERS,  /* struct weir__header_map; likewise */
	WEIR__SETTING_USERS,    /* struct weir__users; in the file alone, since others see flags and environments */
};

struct weir__setting {
	const char *name; /* in the file; --name as a flag, WEIR_NAME as a variable */
	enum weir__setting_kind kind;
	uint64_t least, most; /* of a number; items of a list, users */
	const char *unset;    /* the value if nobody gives one, as it is written; "" is none */
	size_t offset;        /* of the value in struct weir__settings */
	const char *value;    /* what stands for a value in help */
	const char *means;    /* a sentence */
	const char *words;    /* of a choice, with spaces between them */
};

extern const struct weir__setting weir__setting_rows[WEIR__SETTINGS];

/* How descriptors of Envoy's ratelimit count: the words of the setting envoy_counts. */
enum weir__envoy_counts { WEIR__COUNTS_TOGETHER, WEIR__COUNTS_EACH };

/* Which headers tell of limits: the words of the setting ratelimit_headers. */
enum weir__ratelimit_headers {
	WEIR__HEADERS_DRAFT11,
	WEIR__HEADERS_X,
	WEIR__HEADERS_BOTH,
	WEIR__HEADERS_NONE,
};

/* What decides without the store: the words of the setting on_store_failure. */
enum weir__on_failure {
	WEIR__ON_FAILURE_SHARE,
	WEIR__ON_FAILURE_OPEN,
	WEIR__ON_FAILURE_CLOSED,
};

/* The words of the setting observe. */
enum weir__observe { WEIR__OBSERVE_ON, WEIR__OBSERVE_OFF };

/* The words of the setting log_format. */
enum weir__log_format { WEIR__LOG_FORMAT_TEXT, WEIR__LOG_FORMAT_JSON };

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
	struct weir__setting_list listen, http;
	uint64_t keys, workers, spin_ns, connections, idle_ns, http_idle_ns, header_time_ns, ratelimit_headers,
		envoy_counts, output, stall_ns, end_delay_ns, drain_ns, arena, holds, plans, store_budget_ns,
		on_store_failure, observe, top_keys, trace_one_in, log_format, log_rejections, socket_mode;
	char shared[WEIR__SETTING_TEXT_SIZE], file[WEIR__SETTING_TEXT_SIZE], policy[WEIR__SETTING_TEXT_SIZE],
		policy_copy[WEIR__SETTING_TEXT_SIZE], service[WEIR__SETTING_TEXT_SIZE],
		trace_to[WEIR__SETTING_TEXT_SIZE], log_rejections_limit[WEIR__SETTING_TEXT_SIZE];
	char store[WEIR__SETTING_TEXT_SIZE];
	struct weir__proxies proxies;
	struct weir__header_map authorize_headers;
	struct weir__users users;

	struct weir__setting_place places[WEIR__SETTINGS]; /* where each was said last */
	char config[WEIR__SETTING_TEXT_SIZE];              /* the path of the file; empty: there is none */
	struct weir__setting_place config_place;
	bool has_policy;   /* the file has limits or attributes in it */
	bool lacks_policy; /* it has settings, and neither of these */
	FILE *errors;
	struct weir__log *log; /* where a server that runs tells what it tells; NULL: to `errors` */
	uint32_t faults;
};

/* The defaults. What is wrong will be told to `errors`, a line for each fault. */
void weir__settings_init(struct weir__settings *settings, FILE *errors);

/* The file, the environment and the flags, of which argv[0] is none; then whether they fit together. False: something is
 * wrong, and was told. */
bool weir__settings_read(struct weir__settings *settings, int argc, char **argv);

/* settings_file.c: the file of settings->config. */
void weir__settings_read_file(struct weir__settings *settings);

/* The same from its text. False: it is no YAML, and whoever reads it for something else would only say so again. */
bool weir__settings_read_text(struct weir__settings *settings, const char *text, size_t length);

const struct weir__setting *weir__settings_find(const char *name, size_t length);

/* Where the setting of this name, which there is, was said. */
struct weir__setting_place weir__settings_place(const struct weir__settings *settings, const char *name);

/* Sets one, or adds to a list, which begins anew when it comes from elsewhere than what it has. */
void weir__settings_put(struct weir__settings *settings, const struct weir__setting *setting,
			struct weir__setting_place place, const char *text, size_t length);

/* Tells a fault: where, then `name` if it is not NULL, then the words. */
__attribute__((format(printf, 4, 5))) void weir__settings_error(struct weir__settings *settings,
								struct weir__setting_place place, const char *name,
								const char *words, ...);

/* A list: in the file one, with commas in the environment, a flag for each. */
bool weir__settings_is_list(const struct weir__setting *setting);

/* What would be right for it, as "use ...". */
void weir__settings_write_right(const struct weir__setting *setting, char *ret_text, size_t size);

/* settings_numbers.c: a number as it is written: 4MiB, 30s. False: it is none. */
bool weir__settings_read_number(enum weir__setting_kind kind, const char *text, size_t length, uint64_t *ret_number);
void weir__settings_write_number(enum weir__setting_kind kind, uint64_t number, char *ret_text, size_t size);

/* The value as text, for CONFIG GET: numbers without units, times in seconds as far as they are whole, lists with
 * commas; of users their names and roles, and nothing else. Returns its length, which is below WEIR__SETTING_SHOWN. */
enum { WEIR__SETTING_SHOWN = 2560 };
size_t weir__settings_show(const struct weir__settings *settings, const struct weir__setting *setting,
			   char ret_text[WEIR__SETTING_SHOWN]);
size_t weir__settings_show_users(const struct weir__users *users, char ret_text[WEIR__SETTING_SHOWN]);

/* serve_help.c */
void weir__serve_help(FILE *out);
void weir__serve_help_man(FILE *out);
void weir__serve_help_markdown(FILE *out);

#endif
