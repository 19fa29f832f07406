/* document.h: a YAML file as a tree that knows where everything was written.
 *
 * Read by libyaml. A document has one root; maps have texts for keys, each once. Anchors, aliases and tags are refused:
 * nothing here needs them, and a few bytes of aliases can stand for gigabytes. */
#ifndef WEIR_POLICY_DOCUMENT_H
#define WEIR_POLICY_DOCUMENT_H

#include "policy/diagnostics.h"
#include "policy/pool.h"

enum weir__node_kind { WEIR__NODE_TEXT, WEIR__NODE_LIST, WEIR__NODE_MAP };

struct weir__node {
	enum weir__node_kind kind;
	bool is_quoted; /* a text in quotes is a text, whatever it looks like */
	struct weir__mark at;
	struct weir__slice text;    /* of a text; NUL behind it */
	struct weir__node *key;     /* in a map: its key, a text */
	struct weir__node *next;    /* in the list or map it is in */
	struct weir__node *members; /* of a list or map */
	uint32_t n;                 /* of them */
};

/* Reports what is wrong; NULL: nothing can be made of it. A key that comes again is reported, too, and the map goes on with
 * what it had. An empty file is an empty map. */
struct weir__node *weir__document_read(struct weir__pool *pool, struct weir__slice text,
				       struct weir__diagnostics *diagnostics);

/* The value of a key, or NULL. */
const struct weir__node *weir__node_member(const struct weir__node *map, const char *key);

/* "a text", "a list", "a map": for messages. */
const char *weir__node_kind_words(const struct weir__node *node);

#endif
