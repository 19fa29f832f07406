/* fail_if.h: conditions on the result of a replay, for CI. Pure, and exact: no floating point.
 *
 *     CONDITION = COMPARISON { "or" COMPARISON }
 *     COMPARISON = METRIC [ "[" LIMIT "]" ] OPERATOR NUMBER [ UNIT ]
 *     OPERATOR = ">" | ">=" | "<" | "<=" | "=" | "==" | "!="
 *     NUMBER = digits, perhaps with a point and more digits
 *     UNIT = "%" | "ns" | "us" | "ms" | "s" | "min" | "hour" | "day"
 *
 * A percentage compares the metric with its whole: denied_clients > 0.1% is about all clients. */
#ifndef WEIR_REPLAY_FAIL_IF_H
#define WEIR_REPLAY_FAIL_IF_H

#include <weir/types.h>

#include "policy/slice.h"

enum weir__fail_metric {
	WEIR__FAIL_REQUESTS,
	WEIR__FAIL_DENIED, /* of requests */
	WEIR__FAIL_DELAYED,
	WEIR__FAIL_UNDECIDED,
	WEIR__FAIL_UNMATCHED,
	WEIR__FAIL_CLIENTS,
	WEIR__FAIL_DENIED_CLIENTS, /* of clients */
	WEIR__FAIL_DENIED_KEYS,
	WEIR__FAIL_LONGEST_WAIT, /* a duration */
	WEIR__FAIL_LONGEST_DELAY,
	WEIR__FAIL_NEWLY_DENIED, /* these four need an old policy */
	WEIR__FAIL_NEWLY_ALLOWED,
	WEIR__FAIL_NEWLY_DENIED_CLIENTS,
	WEIR__FAIL_NEWLY_ALLOWED_CLIENTS,
	WEIR__FAIL_BAD_LINES, /* of lines */
	WEIR__FAIL_LATE_LINES,
	WEIR__FAIL_EVICTED,
	WEIR__FAIL_METRICS
};

enum { WEIR__FAIL_MAX = 32 };

struct weir__fail_comparison {
	enum weir__fail_metric metric;
	struct weir__slice limit;           /* .at NULL: all limits */
	bool is_less, is_equal, is_greater; /* the results of the comparison that make it true */
	bool is_share;
	uint64_t number, divisor; /* number / divisor, in ns if the metric is a duration, in percent if is_share */
	struct weir__slice text;  /* the comparison as it was written */
};

struct weir__fail_if {
	size_t n;
	struct weir__fail_comparison of[WEIR__FAIL_MAX]; /* the condition is true if one of them is */
};

/* Adds the comparisons of a text, which must outlive them. WEIR_ERR_SYNTAX: the message says where and why.
 * WEIR_ERR_FULL: more than WEIR__FAIL_MAX. */
int weir__fail_if_add(struct weir__fail_if *fail_if, const char *text, struct weir_message *ret_message);

/* Whether the comparison needs the replay of an old policy, too. */
bool weir__fail_needs_old(const struct weir__fail_comparison *comparison);

/* Whether it is true for this value. `whole` is the total for percentages. */
bool weir__fail_holds(const struct weir__fail_comparison *comparison, uint64_t value, uint64_t whole);

const char *weir__fail_metric_name(enum weir__fail_metric metric);

/* The total for percentages of the metric, such as "clients". NULL: percentages are not possible. */
const char *weir__fail_metric_whole(enum weir__fail_metric metric);

bool weir__fail_metric_is_duration(enum weir__fail_metric metric);

#endif
