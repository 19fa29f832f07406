/* policy.h: which limits apply to a request, by its attributes.
 *
 * A policy is read from YAML (docs/policies.md) and never changes. It says of a request, given as attributes such as ip,
 * path or api_key, which of its limits match, with which key each, by which limit or override, and at which cost. It
 * decides nothing: see weir/guard.h, which joins a policy and a table.
 *
 * Functions that only read a policy may be called from any number of threads at once. */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include <weir/limit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a request says of itself. Names that a policy does not know are not looked at. */
struct weir_attribute {
	const char *name;
	size_t name_length;
	const char *value; /* any bytes */
	size_t value_length;
};

#define WEIR_POLICY_CLAIMS_MAX 16 /* limits that may apply to one request */

enum weir_mode {
	WEIR_MODE_ENFORCE,
	WEIR_MODE_SHADOW, /* decided and counted, but it changes no answer */
	WEIR_MODE_OFF,
};

struct weir_policy;

/* A limit, or one that an override has put in its place. */
struct weir_policy_plan {
	const char *name; /* of the limit; of an override with what sets it apart: at most 63 bytes */
	struct weir_limit limit;
	bool is_unlimited; /* it applies, and admits everything */
};

/* That a limit applies to a request. */
struct weir_policy_claim {
	uint32_t limit; /* its number: the order of the file */
	uint32_t plan;  /* a number for weir_policy_plan_of */
	enum weir_mode mode;
	const char *key; /* good until the struct weir_policy_answer is used again */
	size_t key_length;
	uint64_t cost;
};

/* What a policy says of a request. Large: one for each thread will do. */
struct weir_policy_answer {
	struct weir_policy_claim claims[WEIR_POLICY_CLAIMS_MAX]; /* in the order of the file */
	size_t n;
	char room[16384]; /* for keys */
};

/* Called for everything that is wrong, one line each: FILE:LINE:COLUMN: what was found, what would be right. */
typedef void weir_policy_report(void *context, const char *line);

/* Reads a policy from text. `name` is the file's, for messages and to find the files that it names beside it; NULL: it may
 * name none. WEIR_ERR_SYNTAX: something is wrong, and all of it was reported. WEIR_ERR_SYSTEM: no memory. */
WEIR_API int weir_policy_read(const char *text, size_t length, const char *name, weir_policy_report *report,
			      void *context, struct weir_policy **ret_policy);

/* The same from a file. WEIR_ERR_SYSTEM: errno tells, and a line was reported. */
WEIR_API int weir_policy_load(const char *path, weir_policy_report *report, void *context,
			      struct weir_policy **ret_policy);

WEIR_API void weir_policy_free(struct weir_policy *policy);

/* Which limits apply. `cost` is that of limits that do not say where to take it from. WEIR_ERR_LIMIT: an attribute that
 * is a cost is no number, more limits match than may, or attributes do not fit; the message tells. */
WEIR_API int weir_policy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			       uint64_t cost, struct weir_policy_answer *ret_answer, struct weir_message *ret_message);

WEIR_API uint32_t weir_policy_limits(const struct weir_policy *policy);
WEIR_API const char *weir_policy_limit_name(const struct weir_policy *policy, uint32_t limit);
WEIR_API uint32_t weir_policy_plans(const struct weir_policy *policy);
WEIR_API const struct weir_policy_plan *weir_policy_plan_of(const struct weir_policy *policy, uint32_t plan);

/* One line for each limit: that it matches, with which key and plan; or why it does not. */
WEIR_API void weir_policy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
				  weir_policy_report *report, void *context);

#ifdef __cplusplus
}
#endif
#endif
