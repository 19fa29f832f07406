/* top_view.h: what weir top knows: the document that a server sent last, its limits in the order that was asked for, and which
 * of them is selected. Nothing is drawn here, and nobody is asked. */
#ifndef WEIR_CLI_TOP_VIEW_H
#define WEIR_CLI_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WEIR__TOP_LIMITS_MAX = 256,
	WEIR__TOP_KEYS_MAX = 64,
	WEIR__TOP_SECONDS = 60,
	WEIR__TOP_RATE_SECONDS = 5, /* over which rates are the mean */
	WEIR__TOP_NAME_SIZE = 256,
};

/* A limit. Names are as the server sent them: not for a terminal yet. */
struct weir__top_limit {
	char name[WEIR__TOP_NAME_SIZE], mode[16], algorithm[32], limit[128], key[WEIR__TOP_NAME_SIZE];
	uint64_t allowed, rejected, delayed; /* of the last WEIR__TOP_RATE_SECONDS */
	uint64_t allowed_total, rejected_total;
	int fill;                            /* thousandths; -1: not known */
	uint32_t decided[WEIR__TOP_SECONDS]; /* the oldest first */
	uint32_t denied[WEIR__TOP_SECONDS];
};

struct weir__top_busy_key {
	char key[512];
	uint64_t count, error;
};

struct weir__top_busy_keys {
	struct weir__top_busy_key of[WEIR__TOP_KEYS_MAX];
	size_t n;
};

struct weir__top_server {
	char version[32], service[WEIR__TOP_NAME_SIZE], store[32];
	uint64_t at_ms, uptime_s;
	uint64_t connections[2], requests[2]; /* of RESP and HTTP */
	uint64_t live_keys, capacity_keys, evicted;
	bool has_policy, has_store, has_latency;
	uint64_t policy_limits, policy_changes, policy_failures, store_nodes, store_owed;
	uint64_t answer_p50_ns, answer_p99_ns, answer_p999_ns;
	uint64_t left_out;
	bool is_policy_refused; /* the latest version was */
	bool is_blind; /* observe is off: rates are differences of totals of limits, which is all that is counted */
	bool has_all;
	uint64_t allowed, rejected, delayed; /* requests as wholes, of the last WEIR__TOP_RATE_SECONDS */
};

/* What a limit has counted in the document before. */
struct weir__top_totals {
	char name[WEIR__TOP_NAME_SIZE];
	uint64_t allowed, rejected;
};

enum weir__top_column {
	WEIR__TOP_NAME,
	WEIR__TOP_MODE,
	WEIR__TOP_ALGORITHM,
	WEIR__TOP_ALLOWED,
	WEIR__TOP_REJECTED,
	WEIR__TOP_SHARE,
	WEIR__TOP_DELAYED,
	WEIR__TOP_FILL,
	WEIR__TOP_MINUTE,
	WEIR__TOP_COLUMNS,
};

/* Large: one for the program. */
struct weir__top_view {
	struct weir__top_server server;
	struct weir__top_limit limits[WEIR__TOP_LIMITS_MAX];
	size_t n;
	struct weir__top_totals before[WEIR__TOP_LIMITS_MAX];
	size_t n_before;
	bool has_rates;    /* two documents have come: */
	uint64_t rates[2]; /* tenths of requests in a second, of RESP and HTTP */
	size_t order[WEIR__TOP_LIMITS_MAX];
	size_t n_ordered; /* those that the filter leaves */
	bool is_chosen;   /* somebody has moved the selection: it stays with its limit, else with the first */
	char selected[WEIR__TOP_NAME_SIZE];      /* by name */
	size_t at;                               /* its place in the order */
	struct weir__top_busy_keys busy, denied; /* keys of the selected limit */
	uint64_t keys_for_s;                     /* what these counts are of: so many seconds */
	enum weir__top_column sort;
	bool is_reversed;
	char filter[64];
};

/* A document, all of it. False: it is none, and nothing has changed. */
bool weir__top_view_read(struct weir__top_view *view, const char *json, size_t length);

/* Likewise one of the selected limit alone, of which the keys are taken. */
bool weir__top_view_read_keys(struct weir__top_view *view, const char *json, size_t length);

/* Sorts, filters, and finds the selected one again: else the nearest. */
void weir__top_view_arrange(struct weir__top_view *view);

/* Moves the selection; to the first or the last at most. */
void weir__top_view_move(struct weir__top_view *view, long by);

/* The next column to sort by, of those that are shown: bits, one for each column. */
void weir__top_view_sort_next(struct weir__top_view *view, unsigned shown);

/* NULL: there is none. */
const struct weir__top_limit *weir__top_view_selected(const struct weir__top_view *view);

/* What was rejected of both, in thousandths. */
unsigned weir__top_share(uint64_t allowed, uint64_t rejected);

#endif
