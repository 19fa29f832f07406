/* document.h: a YAML file as a tree in which every node has its position in the file.
 *
 * Parsed by libyaml. A document has one root. Keys of maps are texts, each at most once. Anchors, aliases and tags are
 * errors: policies do not need them, and a few bytes of aliases can expand to gigabytes. */
#ifndef WEIR_POLICY_DOCUMENT_H
#define WEIR_POLICY_DOCUMENT_H

#include "policy/diagnostics.h"
#include "policy/pool.h"

enum weir__node_kind { WEIR__NODE_TEXT, WEIR__NODE_LIST, WEIR__NODE_MAP };

struct weir__node {
	enum weir__node_kind kind;
	bool is_quoted; /* written in quotes or as a block: a string, whatever it looks like */
	struct weir__mark at;
	struct weir__slice text;    /* of a text; followed by a NUL */
	struct weir__node *key;     /* in a map: its key, a text node */
	struct weir__node *next;    /* in the list or map that it is in */
	struct weir__node *members; /* of a list or map */
	uint32_t n;                 /* number of members */
};

/* Reports all errors. Returns NULL if no tree can be built. A repeated key is reported. The map keeps both members, and
 * weir__node_member finds the first. An empty file is an empty map. */
struct weir__node *weir__document_read(struct weir__pool *pool, struct weir__slice text,
				       struct weir__diagnostics *diagnostics);

/* Returns the value of a key, or NULL. */
const struct weir__node *weir__node_member(const struct weir__node *map, const char *key);

/* "a text", "a list" or "a map", for messages. */
const char *weir__node_kind_words(const struct weir__node *node);

#endif
