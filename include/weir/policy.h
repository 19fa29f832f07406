/* policy.h: which limits apply to a request, by its attributes.
 *
 * A policy is read from YAML (docs/policies.md) and never changes. It says of a request, given as attributes such as ip,
 * path or api_key, which of its limits match, with which key each, by which limit or override, and at which cost. It
 * decides nothing: see weir/guard.h, which joins a policy and a table.
 *
 * Configurations of Envoy's ratelimit service are a second form of policies: a file for each domain, with descriptors in
 * it. Requests to those are descriptors, too; see the end.
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

/* What decides where the state of a limit is kept by a store that may fail, when that does not answer in time. A table does
 * not fail: there it says nothing. */
enum weir_store_failure {
	WEIR_STORE_FAILURE_UNSET,  /* the policy does not say */
	WEIR_STORE_FAILURE_SHARE,  /* this node decides by its share of the limit */
	WEIR_STORE_FAILURE_OPEN,   /* what comes is admitted */
	WEIR_STORE_FAILURE_CLOSED, /* it is denied */
	WEIR_STORE_FAILURE_LOCAL,  /* this node decides by a limit for that case */
};

#define WEIR_POLICY_NO_PLAN UINT32_MAX

struct weir_policy;

/* A limit, or one that an override has put in its place. */
struct weir_policy_plan {
	const char *name; /* of the limit; of an override with what sets it apart: at most 63 bytes */
	struct weir_limit limit;
	bool is_unlimited; /* it applies, and admits everything */
	bool is_shadow;    /* of Envoy's form: it changes no answer; of Weir's own, limits and overrides have a mode */
	bool is_closed; /* it applies, and admits nothing: `limit` is 1 in its period, and what costs anything costs 2 */
	enum weir_store_failure on_store_failure;
	uint32_t local;       /* LOCAL: the plan of the limit for that case, which several may share; else NO_PLAN */
	bool is_local;        /* it is such a plan itself, and applies to nothing else */
	weir_ns store_budget; /* how long a decision waits for the store, at most; 0: the policy does not say */
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

/* The same from a file; a directory, and a file with `domain` at its top, is read as weir_policy_load_envoy does.
 * WEIR_ERR_SYSTEM: errno tells, and a line was reported. */
WEIR_API int weir_policy_load(const char *path, weir_policy_report *report, void *context,
			      struct weir_policy **ret_policy);

WEIR_API void weir_policy_free(struct weir_policy *policy);

/* Which limits apply. `cost` is that of limits that do not say where to take it from. A policy of Envoy's form takes the
 * attribute `domain` for the domain and the others, in their order, for the entries of one descriptor. WEIR_ERR_LIMIT: an
 * attribute that is a cost is no number, more limits match than may, attributes do not fit, or there is no domain where
 * there has to be one; the message tells. */
WEIR_API int weir_policy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			       uint64_t cost, struct weir_policy_answer *ret_answer, struct weir_message *ret_message);

WEIR_API uint32_t weir_policy_limits(const struct weir_policy *policy);
WEIR_API const char *weir_policy_limit_name(const struct weir_policy *policy, uint32_t limit);
WEIR_API uint32_t weir_policy_plans(const struct weir_policy *policy);
WEIR_API const struct weir_policy_plan *weir_policy_plan_of(const struct weir_policy *policy, uint32_t plan);

/* One line for each limit: that it matches, with which key and plan; or why it does not. */
WEIR_API void weir_policy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
				  weir_policy_report *report, void *context);

/* --- Envoy's form ----------------------------------------------------------------------------------------------- */

/* How to read it. */
enum {
	WEIR_ENVOY_MERGE_DOMAINS = 1, /* several files may have the same domain: it has what all of them say */
	/* Every descriptor counts a request, whatever the others say of it, and also what it denies itself. Without this a
	 * request that is denied is counted nowhere. */
	WEIR_ENVOY_COUNT_EACH = 2,
};

/* Reads one file of it. As weir_policy_read, but that it names no files. */
WEIR_API int weir_policy_read_envoy(const char *text, size_t length, const char *name, uint32_t options,
				    weir_policy_report *report, void *context, struct weir_policy **ret_policy);

/* A file, or a directory: of that all files whose names end with .yaml or .yml and do not begin with a dot, in the order of
 * their names. WEIR_ERR_SYSTEM: errno tells, and a line was reported. */
WEIR_API int weir_policy_load_envoy(const char *path, uint32_t options, weir_policy_report *report, void *context,
				    struct weir_policy **ret_policy);

/* What limits count in: windows that begin at multiples of it. As on Envoy's wire. */
enum weir_unit {
	WEIR_UNIT_NONE = 0,
	WEIR_UNIT_SECOND = 1,
	WEIR_UNIT_MINUTE = 2,
	WEIR_UNIT_HOUR = 3,
	WEIR_UNIT_DAY = 4,
	WEIR_UNIT_MONTH = 5, /* 30 days */
	WEIR_UNIT_YEAR = 6,  /* 365 days */
	WEIR_UNIT_WEEK = 7,
};

#define WEIR_DESCRIPTORS_MAX 64 /* of one request */

/* One of those that a request has. */
struct weir_descriptor {
	const struct weir_attribute *entries; /* name and value of each, in their order */
	size_t n;
	bool has_hits; /* then `hits` is what this one costs; 0 looks, and counts nothing */
	uint64_t hits;
	enum weir_unit unit; /* NONE: the policy tells the limit. Else the request does, and it is this: */
	uint32_t requests_per_unit;
};

/* What limit applies to a descriptor. */
struct weir_descriptor_claim {
	bool applies;  /* false: none does, and the rest says nothing */
	uint32_t plan; /* a number for weir_policy_plan_of; NO_PLAN: the limit came with the request */
	struct weir_limit limit;
	bool is_unlimited, is_closed; /* as in struct weir_policy_plan */
	bool is_quota;                /* a request is denied only if all of a request's quotas are used up */
	enum weir_mode mode;
	const char *key; /* good until the struct weir_descriptors_answer is used again */
	size_t key_length;
	uint64_t cost;
};

/* Large: one for each thread will do. */
struct weir_descriptors_answer {
	struct weir_descriptor_claim claims[WEIR_DESCRIPTORS_MAX]; /* one for each descriptor */
	size_t n;
	char room[16384]; /* for keys */
};

/* Which limits apply. Of what lies at one level, KEY_VALUE comes before patterns, in the order of the file, and those before
 * KEY alone; a limit applies to a descriptor with as many entries as it is deep. A limit that another one of the request
 * replaces does not apply. `hits` is the cost of descriptors that have none of their own. WEIR_ERR_LIMIT: the domain is
 * empty, there are no descriptors or too many, or they do not fit; the message tells. WEIR_ERR_UNSUPPORTED: the policy is
 * of Weir's own form. */
WEIR_API int weir_policy_match_descriptors(const struct weir_policy *policy, const char *domain, size_t domain_length,
					   const struct weir_descriptor *descriptors, size_t n, uint64_t hits,
					   struct weir_descriptors_answer *ret_answer,
					   struct weir_message *ret_message);

#ifdef __cplusplus
}
#endif
#endif
