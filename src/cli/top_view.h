/* top_view.h: the state of weir top: the last document of the server, its limits in sorted order, and the selected
 * limit. Draws nothing and sends nothing. */
#ifndef WEIR_CLI_TOP_VIEW_H
#define WEIR_CLI_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WEIR__TOP_LIMITS_MAX = 256,
	WEIR__TOP_KEYS_MAX = 64,
	WEIR__TOP_SECONDS = 60,
	WEIR__TOP_RATE_SECONDS = 5, /* rates are means over this many seconds */
	WEIR__TOP_NAME_SIZE = 256,
};

/* A limit. Names are as the server sent them. Escape them before printing to a terminal. */
struct weir__top_limit {
	char name[WEIR__TOP_NAME_SIZE], mode[16], algorithm[32], limit[128], key[WEIR__TOP_NAME_SIZE];
	bool is_exact; /* the server says so; earlier versions do not */
	bool is_eventual;
	uint64_t eventual_bound;             /* units of a key by which all servers together may exceed the limit */
	uint64_t lease_bound;                /* units of a key that all servers together may hold; 0: not leased */
	uint64_t allowed, rejected, delayed; /* in the last WEIR__TOP_RATE_SECONDS */
	uint64_t allowed_total, rejected_total;
	int fill;                            /* thousandths of the limit that are left; -1: unknown */
	uint32_t decided[WEIR__TOP_SECONDS]; /* decisions per second, the oldest first */
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
	uint64_t connections[2], requests[2]; /* of RESP and of HTTP */
	uint64_t live_keys, capacity_keys, evicted, folded;
	bool has_policy, has_store, has_latency;
	uint64_t policy_limits, policy_changes, policy_failures, store_nodes, store_deferred, store_calls_per_1000,
		lease_held, eventual_waiting;
	uint64_t answer_p50_ns, answer_p99_ns, answer_p999_ns;
	uint64_t left_out;
	uint64_t unmatched;     /* requests that no limit of the policy applied to */
	bool is_policy_refused; /* the latest version was rejected */
	/* `observe` is off: the server counts only the limits' totals, so rates are differences of totals. */
	bool is_blind;
	bool has_all;
	uint64_t allowed, rejected, delayed; /* whole requests, in the last WEIR__TOP_RATE_SECONDS */
};

/* The totals of a limit in the previous document. */
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

/* Large; the program has one. */
struct weir__top_view {
	struct weir__top_server server;
	struct weir__top_limit limits[WEIR__TOP_LIMITS_MAX];
	size_t n;
	struct weir__top_totals before[WEIR__TOP_LIMITS_MAX];
	size_t n_before;
	bool has_rates;    /* two documents have been read: `rates` is valid */
	uint64_t rates[2]; /* requests per second in tenths, of RESP and of HTTP */
	size_t order[WEIR__TOP_LIMITS_MAX];
	size_t n_ordered; /* limits that match the filter */
	/* The user has moved the selection: it follows its limit. Else it stays on the first. */
	bool is_chosen;
	char selected[WEIR__TOP_NAME_SIZE];      /* name of the selected limit */
	size_t at;                               /* its index in `order` */
	struct weir__top_busy_keys busy, denied; /* top keys of the selected limit */
	uint64_t keys_for_s;                     /* the counts cover this many seconds; 0: unknown */
	enum weir__top_column sort;
	bool is_reversed;
	char filter[64];
};

/* Reads a full document. Returns false, and leaves the view unchanged, if it is not one. */
bool weir__top_view_read(struct weir__top_view *view, const char *json, size_t length);

/* Reads a document of the selected limit alone and takes its keys. Returns false as above. */
bool weir__top_view_read_keys(struct weir__top_view *view, const char *json, size_t length);

/* Sorts, filters, and finds the selected limit again, or selects the one at its place. */
void weir__top_view_arrange(struct weir__top_view *view);

/* Moves the selection, at most to the first or the last limit. */
void weir__top_view_move(struct weir__top_view *view, long by);

/* Sorts by the next visible column. `shown` has a bit for each column. */
void weir__top_view_sort_next(struct weir__top_view *view, unsigned shown);

/* NULL: no limit is selected. */
const struct weir__top_limit *weir__top_view_selected(const struct weir__top_view *view);

/* The rejected part of all decisions, in thousandths. */
unsigned weir__top_share(uint64_t allowed, uint64_t rejected);

#endif
