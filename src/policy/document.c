/* document.c: builds a tree from libyaml's events. */
#include "policy/document.h"

#include <yaml.h>

enum {
	DEPTH_MOST = 32,
	MEMBERS_MOST = 16384, /* of a map */
	SHORT = 64,           /* members of a map whose keys are searched one by one */
	CHAINS = 1024,        /* of the keys of a longer map; a power of 2 */
};

/* A list or map whose end has not been read. */
struct level {
	struct weir__node *node, *last; /* `last` is its last member */
	struct weir__node *key;         /* in a map: a key whose value has not been read */
	struct weir__node **chains;     /* of a long map: its keys by hash, linked by `next`; NULL: it is short */
};

struct reading {
	struct weir__pool *pool;
	struct weir__diagnostics *diagnostics;
	struct weir__node *root;
	struct level levels[DEPTH_MOST];
	unsigned depth;
	bool is_over;   /* parsing ends here */
	bool is_broken; /* the tree is unusable */
};

static struct weir__mark mark_of(yaml_mark_t mark)
{
	return (struct weir__mark){ (uint32_t)mark.line + 1, (uint32_t)mark.column + 1 };
}

static void refuse_size(struct reading *reading, struct weir__mark at)
{
	weir__diagnostics_add(reading->diagnostics, at, "the file is too large");
	reading->is_over = reading->is_broken = true;
}

static struct weir__node *new_node(struct reading *reading, enum weir__node_kind kind, yaml_mark_t at)
{
	struct weir__node *const node = weir__pool_take(reading->pool, sizeof(*node));

	if (node == NULL) {
		refuse_size(reading, mark_of(at));
		return NULL;
	}
	node->kind = kind;
	node->at = mark_of(at);
	return node;
}

static struct weir__node **chain_of(const struct level *level, struct weir__slice key)
{
	uint32_t hash = 2166136261; /* FNV-1a */

	for (size_t i = 0; i < key.n; i++)
		hash = (hash ^ (unsigned char)key.at[i]) * 16777619;
	return &level->chains[(hash ^ hash >> 16) & (CHAINS - 1)];
}

static void add_to_chain(const struct level *level, struct weir__node *key)
{
	struct weir__node **const chain = chain_of(level, key->text);

	key->next = *chain;
	*chain = key;
}

/* Most maps are short. A list of users may have thousands of keys, so the keys of a long map are found by hash.
 * MEMBERS_MOST bounds a hostile map, whose keys may all have the same hash. */
static bool find_key(struct reading *reading, struct level *level, struct weir__slice key, struct weir__mark *ret_first)
{
	const struct weir__node *found = NULL;

	if (level->chains == NULL && level->node->n >= SHORT) {
		level->chains = weir__pool_take_array(reading->pool, CHAINS, sizeof(*level->chains));
		for (struct weir__node *member = level->node->members; level->chains && member; member = member->next)
			add_to_chain(level, member->key);
	}
	if (level->chains) {
		for (found = *chain_of(level, key); found && !weir__slice_equal(found->text, key);)
			found = found->next;
	} else {
		for (const struct weir__node *member = level->node->members; member && found == NULL;
		     member = member->next)
			found = weir__slice_equal(member->key->text, key) ? member->key : NULL;
	}
	if (found)
		*ret_first = found->at;
	return found != NULL;
}

static void add_key(struct reading *reading, struct level *level, struct weir__node *node)
{
	struct weir__mark first;

	if (node->kind != WEIR__NODE_TEXT) {
		weir__diagnostics_add(reading->diagnostics, node->at, "found %s as a key; a key must be a string",
				      weir__node_kind_words(node));
		reading->is_over = reading->is_broken = true;
		return;
	}
	if (level->node->n == MEMBERS_MOST) {
		weir__diagnostics_add(reading->diagnostics, node->at, "more than %d keys in one map", MEMBERS_MOST);
		reading->is_over = reading->is_broken = true;
	} else if (find_key(reading, level, node->text, &first)) {
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "duplicate key '%s'; it was first given in line %u", node->text.at, first.line);
	} else if (level->chains) {
		add_to_chain(level, node);
	}
	level->key = node;
}

static void add_member(struct level *level, struct weir__node *node)
{
	node->key = level->key;
	level->key = NULL;
	if (level->last)
		level->last->next = node;
	else
		level->node->members = node;
	level->last = node;
	level->node->n++;
}

/* Adds a node to the list or map that is open, as a key, a value or an item, or makes it the root. */
static void add_node(struct reading *reading, struct weir__node *node)
{
	struct level *const level = reading->depth ? &reading->levels[reading->depth - 1] : NULL;

	if (level == NULL)
		reading->root = node;
	else if (level->node->kind == WEIR__NODE_MAP && level->key == NULL)
		add_key(reading, level, node);
	else
		add_member(level, node);
}

static void begin(struct reading *reading, const yaml_event_t *event, enum weir__node_kind kind)
{
	struct weir__node *const node = new_node(reading, kind, event->start_mark);

	if (node == NULL)
		return;
	if (reading->depth == DEPTH_MOST) {
		weir__diagnostics_add(reading->diagnostics, node->at, "more than %d nested lists and maps", DEPTH_MOST);
		reading->is_over = reading->is_broken = true;
		return;
	}
	add_node(reading, node);
	reading->levels[reading->depth++] = (struct level){ .node = node };
}

static void add_text(struct reading *reading, const yaml_event_t *event)
{
	const char *const value = (const char *)event->data.scalar.value;
	struct weir__node *const node = new_node(reading, WEIR__NODE_TEXT, event->start_mark);

	if (node == NULL)
		return;
	node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	node->text = weir__pool_copy(reading->pool, (struct weir__slice){ value, event->data.scalar.length });
	if (node->text.at == NULL)
		refuse_size(reading, node->at);
	else if (memchr(value, '\0', event->data.scalar.length))
		weir__diagnostics_add(reading->diagnostics, node->at, "a string with a NUL byte");
	if (!reading->is_over)
		add_node(reading, node);
}

static void refuse(struct reading *reading, yaml_mark_t at, const char *what)
{
	weir__diagnostics_add(reading->diagnostics, mark_of(at),
			      "found %s, which is not supported; write the value out", what);
	reading->is_over = reading->is_broken = true;
}

static void take_event(struct reading *reading, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_ALIAS_EVENT:
		refuse(reading, event->start_mark, "an alias (*)");
		break;
	case YAML_DOCUMENT_START_EVENT:
		if (reading->root) {
			weir__diagnostics_add(reading->diagnostics, mark_of(event->start_mark),
					      "found a second YAML document; a file has one");
			reading->is_over = reading->is_broken = true;
		}
		break;
	case YAML_SCALAR_EVENT:
		if (event->data.scalar.anchor || event->data.scalar.tag)
			refuse(reading, event->start_mark, "an anchor (&) or tag (!)");
		else
			add_text(reading, event);
		break;
	case YAML_SEQUENCE_START_EVENT:
		if (event->data.sequence_start.anchor || event->data.sequence_start.tag)
			refuse(reading, event->start_mark, "an anchor (&) or tag (!)");
		else
			begin(reading, event, WEIR__NODE_LIST);
		break;
	case YAML_MAPPING_START_EVENT:
		if (event->data.mapping_start.anchor || event->data.mapping_start.tag)
			refuse(reading, event->start_mark, "an anchor (&) or tag (!)");
		else
			begin(reading, event, WEIR__NODE_MAP);
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		if (reading->depth > 0)
			reading->depth--;
		break;
	case YAML_STREAM_END_EVENT:
		reading->is_over = true;
		break;
	default:
		break;
	}
}

/* For bytes that are not UTF-8 libyaml reports only an offset. The line and column are counted here. */
static void refuse_syntax(const yaml_parser_t *parser, struct weir__slice text, struct weir__diagnostics *diagnostics)
{
	struct weir__mark at = mark_of(parser->problem_mark);

	if (parser->error == YAML_READER_ERROR) {
		at = (struct weir__mark){ 1, 1 };
		for (size_t i = 0; i < parser->problem_offset && i < text.n; i++) {
			at.column = text.at[i] == '\n' ? 1 : at.column + 1;
			at.line += text.at[i] == '\n';
		}
	}
	weir__diagnostics_add(diagnostics, at, "not valid YAML: %s%s%s",
			      parser->problem ? parser->problem : "no memory", parser->context ? " " : "",
			      parser->context ? parser->context : "");
}

struct weir__node *weir__document_read(struct weir__pool *pool, struct weir__slice text,
				       struct weir__diagnostics *diagnostics)
{
	struct reading reading = { .pool = pool, .diagnostics = diagnostics };
	yaml_parser_t parser;

	if (!yaml_parser_initialize(&parser)) {
		weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 }, "no memory to read it");
		return NULL;
	}
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text.at, text.n);
	while (!reading.is_over) {
		yaml_event_t event;

		if (!yaml_parser_parse(&parser, &event)) {
			refuse_syntax(&parser, text, diagnostics);
			reading.is_broken = true;
			break;
		}
		take_event(&reading, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	if (reading.is_broken)
		return NULL;
	if (reading.root == NULL) {
		reading.root = weir__pool_take(pool, sizeof(*reading.root));
		if (reading.root)
			*reading.root = (struct weir__node){ .kind = WEIR__NODE_MAP, .at = { 1, 1 } };
	}
	return reading.root;
}

const struct weir__node *weir__node_member(const struct weir__node *map, const char *key)
{
	for (const struct weir__node *member = map->members; member; member = member->next)
		if (weir__slice_is(member->key->text, key))
			return member;
	return NULL;
}

const char *weir__node_kind_words(const struct weir__node *node)
{
	switch (node->kind) {
	case WEIR__NODE_LIST:
		return "a list";
	case WEIR__NODE_MAP:
		return "a map";
	default:
		return "a string";
	}
}
