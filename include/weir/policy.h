/* policy.h: which limits apply to a request, by its attributes.
 *
 * A policy is read from YAML (docs/reference/policy.md) and never changes. You describe a request by attributes such as ip,
 * path or api_key. The policy says which of its limits match the request, and for each limit the key, the override if
 * there is one, and the cost. It decides nothing: guard.h puts a policy in front of a table or a store.
 *
 * Policies have a second format: the configuration of Envoy's ratelimit service, with one file per domain and
 * descriptors in it. Requests to such a policy are descriptors, too: see the end of this header.
 *
 * Threads. Any number of threads may use one policy at once, except for weir_policy_free.
 *
 * Ownership. Free a policy by weir_policy_free, unless a guard took it. Names and plans that functions return belong to
 * the policy. Attributes are not kept.
 *
 * This is part of libweir-policy, which needs libyaml. */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include <weir/limit.h>
#include <weir/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One attribute of a request. Names that the policy does not use are ignored. */
struct weir_attribute {
	const char *name;
	size_t name_length;
	const char *value; /* any bytes */
	size_t value_length;
};

#define WEIR_POLICY_CLAIMS_MAX 16 /* the most limits that may apply to one request */

enum weir_mode {
	WEIR_MODE_ENFORCE,
	WEIR_MODE_SHADOW, /* decided and counted, but never changes the verdict */
	WEIR_MODE_OFF,
};

/* Where the state of a limit is kept. A guard on a table keeps everything there. */
enum weir_policy_store {
	WEIR_POLICY_STORE_UNSET, /* the policy does not say: where the server keeps its state */
	WEIR_POLICY_STORE_TABLE, /* in this server's table */
	WEIR_POLICY_STORE_REDIS, /* in the server's Redis, shared with other servers */
};

/* How servers that share a limit in Redis agree on it. A limit in a table is always exact. */
enum weir_policy_consistency {
	WEIR_POLICY_EXACT,    /* Redis decides every request */
	WEIR_POLICY_LEASE,    /* a server draws units in advance and spends them without calling Redis */
	WEIR_POLICY_EVENTUAL, /* a server decides by the state that Redis last reported, and pushes its charges later */
};

#define WEIR_POLICY_NO_PLAN UINT32_MAX

struct weir_policy;

/* A limit, or an override of one. */
struct weir_policy_plan {
	const char *name; /* of the limit; for an override, with a suffix that identifies it. At most 63 bytes */
	struct weir_limit limit;
	bool is_unlimited; /* it applies, and allows everything */
	/* Envoy's format only: it never changes the verdict. In Weir's own format limits and overrides have a mode. */
	bool is_shadow;
	/* It applies, and denies everything: `limit` is 1 per period, and every cost above 0 becomes 2. */
	bool is_closed;
	enum weir_store_failure on_store_failure; /* UNSET: the policy does not say */
	uint32_t local;       /* LOCAL: the plan of the local limit, which several plans may share. Else NO_PLAN */
	bool is_local;        /* this plan is such a local limit, and applies to nothing else */
	weir_ns store_budget; /* how long a decision waits for the store at most; 0: the policy does not say */
	enum weir_policy_store store;
	enum weir_policy_consistency consistency; /* the library decides exactly in any case; the server leases */
	uint32_t stranded; /* LEASE: the most units that all servers may hold unspent, in percent of the limit */
	uint32_t
		ahead; /* EVENTUAL: the most units that Redis has not confirmed to one server, in percent of the limit */
	weir_ns sync;  /* EVENTUAL: how often a server pushes its charges to Redis */
	/* Of a limit that shapes: how long a server holds back the response of /v1/authorize at most. 0: it does not.
	 * The library returns the delay and never waits. */
	weir_ns wait;
};

/* One limit that applies to a request. */
struct weir_policy_claim {
	uint32_t limit; /* its index, in the order of the file */
	uint32_t plan;  /* an index for weir_policy_plan_of */
	enum weir_mode mode;
	const char *key; /* valid until the struct weir_policy_answer is used again */
	size_t key_length;
	uint64_t cost;
};

/* The limits that apply to a request. Large: allocate one per thread. */
struct weir_policy_answer {
	struct weir_policy_claim claims[WEIR_POLICY_CLAIMS_MAX]; /* in the order of the file */
	size_t n;
	/* No limit matches the request, not even one with `mode: off`. Never true in Envoy's format, where requests
	 * without a limit are normal. */
	bool is_unmatched;
	char room[16384]; /* for keys */
};

/* Called once per line of a report, without a newline. Errors are reported as FILE:LINE:COLUMN: what was found, what
 * would be right. The line is valid only during the call. */
typedef void weir_policy_report(void *context, const char *line);

/* Reads a policy from text[0..length), which is not kept. `name` is the file's path. It appears in messages, and files
 * that the policy names are looked up beside it. If `name` is NULL, the policy may not name files. On failure,
 * *ret_policy is NULL. WEIR_ERR_SYNTAX: the text has errors, or there was no memory. All errors were reported. */
WEIR_API int weir_policy_read(const char *text, size_t length, const char *name, weir_policy_report *report,
			      void *context, struct weir_policy **ret_policy);

/* The same from a file. A directory, or a file with `domain` at its top, is read as by weir_policy_load_envoy.
 * WEIR_ERR_SYSTEM: see errno; a line was reported. */
WEIR_API int weir_policy_load(const char *path, weir_policy_report *report, void *context,
			      struct weir_policy **ret_policy);

/* Frees the policy. No other thread may use it any more. NULL is allowed. */
WEIR_API void weir_policy_free(struct weir_policy *policy);

/* Finds the limits that apply to a request. `cost` is used for limits that do not say which attribute to take the cost
 * from. A policy in Envoy's format takes the attribute `domain` as the domain, and the other attributes, in their
 * order, as the entries of one descriptor. WEIR_ERR_LIMIT: a cost attribute is not a number, more than
 * WEIR_POLICY_CLAIMS_MAX limits match, the keys do not fit, or a required domain is missing; the message says which. */
WEIR_API int weir_policy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			       uint64_t cost, struct weir_policy_answer *ret_answer, struct weir_message *ret_message);

/* Returns the number of limits. In Envoy's format every plan is a limit. */
WEIR_API uint32_t weir_policy_limits(const struct weir_policy *policy);

/* Returns the name of a limit, by its index, or NULL if the index is out of range. The policy owns the name. */
WEIR_API const char *weir_policy_limit_name(const struct weir_policy *policy, uint32_t limit);

/* Returns the number of plans: limits, overrides and local limits. */
WEIR_API uint32_t weir_policy_plans(const struct weir_policy *policy);

/* Returns a plan, by its index, or NULL if the index is out of range. The policy owns the plan. */
WEIR_API const struct weir_policy_plan *weir_policy_plan_of(const struct weir_policy *policy, uint32_t plan);

/* Reports one line per limit: that it matches, with which key and plan, or why it does not match. If no limit matches,
 * one more line says what becomes of the request, and which attribute may be misspelled. */
WEIR_API void weir_policy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
				  weir_policy_report *report, void *context);

/* --- Envoy's format --------------------------------------------------------------------------------------------- */

/* Options for reading it. */
enum {
	WEIR_ENVOY_MERGE_DOMAINS = 1, /* several files may have the same domain; their contents are merged */
	/* Every descriptor counts a request, whatever the others decide, even if it denies the request itself. Without
	 * this option a denied request is counted nowhere. */
	WEIR_ENVOY_COUNT_EACH = 2,
};

/* Reads one file in Envoy's format. Like weir_policy_read, but the text cannot name other files. WEIR_ERR_SYSTEM: no
 * memory. */
WEIR_API int weir_policy_read_envoy(const char *text, size_t length, const char *name, uint32_t options,
				    weir_policy_report *report, void *context, struct weir_policy **ret_policy);

/* Reads a file or a directory. From a directory it reads all files whose names end with .yaml or .yml and do not begin
 * with a dot, in the order of their names. WEIR_ERR_SYSTEM: see errno; a line was reported. */
WEIR_API int weir_policy_load_envoy(const char *path, uint32_t options, weir_policy_report *report, void *context,
				    struct weir_policy **ret_policy);

/* The window of a limit; windows begin at multiples of it. The numbers are from Envoy's protocol. */
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

#define WEIR_DESCRIPTORS_MAX 64 /* the most descriptors in one request */

/* One descriptor of a request. */
struct weir_descriptor {
	const struct weir_attribute *entries; /* name and value of each entry, in their order */
	size_t n;
	bool has_hits; /* true: this descriptor costs `hits`; 0 counts nothing, and is denied if nothing is left */
	uint64_t hits;
	enum weir_unit unit; /* NONE: the policy has the limit. Else an inline limit, of this unit: */
	uint32_t requests_per_unit;
	bool is_refund; /* true: gives back up to `hits` of what the current window counts, and always allows */
};

/* A value in the `metadata` of a descriptor. */
struct weir_metadata {
	enum weir_metadata_kind {
		WEIR_METADATA_NULL,
		WEIR_METADATA_FALSE,
		WEIR_METADATA_TRUE,
		WEIR_METADATA_NUMBER, /* `text` has its digits */
		WEIR_METADATA_TEXT,
		WEIR_METADATA_LIST,
		WEIR_METADATA_MAP,
	} kind;
	const char *name; /* in a map: its key. Like `text`, it is UTF-8 and ends with a NUL */
	size_t name_length;
	const char *text;
	size_t text_length;
	const struct weir_metadata *members; /* of a list or map: the first one */
	const struct weir_metadata *next;    /* the next one in the same list or map */
};

#define WEIR_DESCRIPTOR_NAME_MAX 63 /* bytes of the name of a limit in a claim; a longer one is cut */

/* The limit that applies to a descriptor. */
struct weir_descriptor_claim {
	bool applies;  /* false: no limit applies, and the other fields have no meaning */
	uint32_t plan; /* an index for weir_policy_plan_of; NO_PLAN: an inline limit */
	struct weir_limit limit;
	bool is_unlimited, is_closed; /* as in struct weir_policy_plan */
	bool is_quota; /* quotas deny a request only if all groups of quotas of the request are used up */
	enum weir_mode mode;
	const char *key; /* valid until the struct weir_descriptors_answer is used again */
	size_t key_length;
	uint64_t cost;
	bool is_refund;                          /* of the descriptor */
	char name[WEIR_DESCRIPTOR_NAME_MAX + 1]; /* `name` of rate_limit; empty: it has none */
	const struct weir_metadata *metadata;    /* a map, which the policy owns; NULL: the limit has none */
};

/* The limits that apply to the descriptors of a request. Large: allocate one per thread. */
struct weir_descriptors_answer {
	struct weir_descriptor_claim claims[WEIR_DESCRIPTORS_MAX]; /* one for each descriptor */
	size_t n;
	char room[16384]; /* for keys */
};

/* Finds the limit of each descriptor. On one level, KEY_VALUE takes precedence over patterns, in the order of the file,
 * and those over KEY alone. A limit applies to a descriptor with as many entries as the limit is levels deep. A limit
 * does not apply if another limit of the request replaces it. `hits` is the cost of descriptors without their own.
 * WEIR_ERR_LIMIT: the domain is empty, there are no descriptors or too many, an inline limit has an unknown unit, or
 * the keys do not fit; the message says which. WEIR_ERR_UNSUPPORTED: the policy is in Weir's own format. */
WEIR_API int weir_policy_match_descriptors(const struct weir_policy *policy, const char *domain, size_t domain_length,
					   const struct weir_descriptor *descriptors, size_t n, uint64_t hits,
					   struct weir_descriptors_answer *ret_answer,
					   struct weir_message *ret_message);

#ifdef __cplusplus
}
#endif
#endif
