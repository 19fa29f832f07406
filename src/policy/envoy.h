/* envoy.h: a policy in the format of Envoy's ratelimit service: a tree of descriptors for each domain.
 *
 * A descriptor is named KEY_VALUE, or KEY if it has no value. One hash lookup finds it below its parent, however many
 * descriptors there are. Patterns below the same parent are tried in the order of the file. */
#ifndef WEIR_POLICY_ENVOY_H
#define WEIR_POLICY_ENVOY_H

#include "policy/read.h"

enum {
	WEIR__ENVOY_NONE = UINT32_MAX,
	WEIR__ENVOY_NODES_MAX = 1 << 20,
	WEIR__ENVOY_REPLACES_MAX = 256,
	WEIR__ENVOY_METADATA_MAX = 64, /* values of a descriptor */
	/* Bytes of a value that is written into a key. A longer one is written as its hash. If it were an error instead, a
	 * client could send a long header, and Envoy would let the request pass where it fails open. */
	WEIR__ENVOY_VALUE_MAX = 512,
	WEIR__ENVOY_ENTRIES_MAX = 64, /* of a request that is sent as attributes */
};

/* A domain or a descriptor. The fields that every request reads come first, to share one cache line: most nodes are not
 * cached. */
struct weir__envoy_node {
	struct weir__slice name; /* the domain's name, KEY_VALUE or KEY */
	uint64_t hash;           /* of all names from the domain down to this node */
	uint32_t parent;         /* NONE: this is a domain */
	uint32_t plan;           /* NO_PLAN: it has no limit of its own */
	uint32_t first_pattern;  /* first child whose value has a '*', or NONE */
	uint32_t n_replaces;
	bool is_shared;           /* all values that match its pattern share one state */
	bool is_shadow, is_quota; /* mode of its limit */
	bool is_named;            /* its limit has a name */

	struct weir__slice limit_name;        /* by which other limits replace it */
	const struct weir_metadata *metadata; /* NULL: none */
	struct weir__slice *replaces;         /* names of the limits that this one replaces */
	struct weir__slice value;             /* the part of the name after KEY_; .at NULL: no value */
	uint32_t last_pattern;                /* last child whose value has a '*', or NONE */
	uint32_t next_pattern;                /* next sibling whose value has a '*', or NONE */
	const char *file;
	struct weir__mark at;
};

struct weir__envoy {
	struct weir__envoy_node *nodes;
	uint32_t n, size;
	struct weir__envoy_place {
		uint32_t hash;   /* upper half, to skip nodes with another hash without reading them */
		uint32_t number; /* node number + 1; 0: free */
	} * places; /* hash table by the lower half; its size is a power of two, at least twice the nodes */
	uint32_t places_size;
	uint32_t options; /* WEIR_ENVOY_... flags */
	const char *file; /* the file that is being read, or was read last */
};

/* Returns the node of this name below `parent`, or NONE. */
uint32_t weir__envoy_find(const struct weir__envoy *envoy, uint32_t parent, struct weir__slice name);

/* Returns the number of the new node. NONE: no memory, or too many nodes. The name is not copied. */
uint32_t weir__envoy_add(struct weir__envoy *envoy, struct weir__pool *pool, uint32_t parent, struct weir__slice name);

/* Returns the node below `parent` that matches an entry of a request, or NONE. KEY_VALUE is written into `room`. */
uint32_t weir__envoy_step(const struct weir__envoy *envoy, uint32_t parent, const struct weir_attribute *entry,
			  char *room);

/* Matches a request that is sent as attributes. `domain` is the domain. The other attributes are the entries of one
 * descriptor, in order. */
int weir__envoy_match(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
		      uint64_t cost, struct weir_policy_answer *ret_answer, struct weir_message *ret_message);

/* Splits such a request into domain and entries. Returns false without a domain or with too many entries.
 * weir__envoy_request is the message for that. */
bool weir__envoy_split(const struct weir_attribute *attributes, size_t n, struct weir__slice *ret_domain,
		       struct weir_attribute entries[WEIR__ENVOY_ENTRIES_MAX], size_t *ret_n);
extern const char weir__envoy_request[];

/* envoy_explain.c: reports a line for each level of such a request, then the limit that applies. */
void weir__envoy_explain(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
			 weir_policy_report *report, void *context);

/* envoy_read.c: whether a document is in Envoy's format, which has `domain` at the top level. */
bool weir__envoy_is(const struct weir__node *root);

/* Adds a document to reading->policy, which may be empty or have other documents. */
void weir__envoy_read(struct weir__policy_reading *reading, const struct weir__node *root, uint32_t options);

/* The limit of `requests` per unit. For 0 requests *ret_is_closed is true, since a limit cannot express that. */
struct weir_limit weir__envoy_limit(uint32_t options, enum weir_unit unit, uint64_t requests, bool *ret_is_closed);

#endif
