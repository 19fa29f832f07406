/* envoy.h: a policy in the form of Envoy's ratelimit service, as it is kept: a tree of descriptors for each domain.
 *
 * A descriptor goes by KEY_VALUE, or KEY where it has no value. It is found under the one above it by one look into a
 * table, however many there are; patterns are tried in the order of the file, those of one place alone. */
#ifndef WEIR_POLICY_ENVOY_H
#define WEIR_POLICY_ENVOY_H

#include "policy/read.h"

enum {
	WEIR__ENVOY_NONE = UINT32_MAX,
	WEIR__ENVOY_NODES_MAX = 1 << 20,
	WEIR__ENVOY_REPLACES_MAX = 256,
	WEIR__ENVOY_ENTRIES_MAX = 64, /* of a request that is given as attributes */
};

/* A domain, or a descriptor. What every request looks at comes first: it is one cache line of many that are cold. */
struct weir__envoy_node {
	struct weir__slice name; /* the domain; KEY_VALUE; KEY */
	uint64_t hash;           /* of the names down to this one */
	uint32_t parent;         /* NONE: a domain */
	uint32_t plan;           /* NO_PLAN: it has no limit itself */
	uint32_t first_pattern;  /* of those below it whose value has a '*'; NONE: there are none */
	uint32_t n_replaces;
	bool is_shared;           /* what fits its pattern has one state */
	bool is_shadow, is_quota; /* of its limit */
	bool is_named;            /* its limit has a name, */

	struct weir__slice limit_name; /* by which others replace it */
	struct weir__slice *replaces;  /* names of limits */
	struct weir__slice value;      /* the end of the name; .at NULL: it has none */
	uint32_t last_pattern;         /* of those below it */
	uint32_t next_pattern;         /* beside this one; NONE */
	const char *file;
	struct weir__mark at;
};

struct weir__envoy {
	struct weir__envoy_node *nodes;
	uint32_t n, size;
	struct weir__envoy_place {
		uint32_t hash;   /* its upper half: nodes of others are not looked at */
		uint32_t number; /* + 1; 0: free */
	} * places;              /* by the lower half. A power of two, at least twice as many as nodes */
	uint32_t places_size;
	uint32_t options; /* WEIR_ENVOY_... */
	const char *file; /* that is read, or was read last */
};

/* The node of this name below `parent`, or NONE. */
uint32_t weir__envoy_find(const struct weir__envoy *envoy, uint32_t parent, struct weir__slice name);

/* Its number; NONE: no memory, or there are too many. The name is not copied. */
uint32_t weir__envoy_add(struct weir__envoy *envoy, struct weir__pool *pool, uint32_t parent, struct weir__slice name);

/* The node that an entry of a request leads to from `parent`, or NONE. `room` is for KEY_VALUE. */
uint32_t weir__envoy_step(const struct weir__envoy *envoy, uint32_t parent, const struct weir_attribute *entry,
			  char *room);

/* A request as attributes: `domain` is the domain, the others are the entries of one descriptor, in their order. */
int weir__envoy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
		      uint64_t cost, struct weir_policy_answer *ret_answer, struct weir_message *ret_message);

/* Takes such a request apart; false: there is no domain, or there are too many entries, and weir__envoy_request says so. */
bool weir__envoy_split(const struct weir_attribute *attributes, size_t n, struct weir__slice *ret_domain,
		       struct weir_attribute entries[WEIR__ENVOY_ENTRIES_MAX], size_t *ret_n);
extern const char weir__envoy_request[];

/* envoy_explain.c: a line for each level of such a request, and what comes of it. */
void weir__envoy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			 weir_policy_report *report, void *context);

/* envoy_read.c: whether a document is one of Envoy's: it has a domain at its top. */
bool weir__envoy_is(const struct weir__node *root);

/* Adds what a document says to reading->policy, of which it may be the first. */
void weir__envoy_read(struct weir__policy_reading *reading, const struct weir__node *root, uint32_t options);

/* The limit of so many in a unit; *ret_is_closed: of none, which `limit` then does not tell. */
struct weir_limit weir__envoy_limit(uint32_t options, enum weir_unit unit, uint64_t requests, bool *ret_is_closed);

#endif
