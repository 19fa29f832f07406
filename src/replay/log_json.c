/* log_json.c: looks names up in a small tree, one level for each part between points. The lines of a log usually have
 * the same names in the same order, so each name is first compared with the one at the same place of the previous line.
 * Values that are not wanted are skipped, not parsed. */
#include "replay/log_json.h"

#include <errno.h>
#include <stdlib.h>

enum { NODES_MAX = 512, PLACES = 64, DEPTH_MAX = 32, NAME_MAX_BYTES = 48, NO_NODE = 0, ROOT = 1 };

struct node {
	struct weir__slice name;
	uint16_t next, children; /* NO_NODE: none */
	uint8_t n_uses;
	struct weir__log_field uses[WEIR__LOG_USES_MAX];
};

struct weir__log_json {
	uint16_t n;
	struct node nodes[NODES_MAX];
	/* The name that was last found at each place of a line. */
	struct place {
		uint16_t parent, node;
		uint8_t n;
		char name[NAME_MAX_BYTES];
	} places[PLACES];
};

/* --- names ------------------------------------------------------------------------------------------------------- */

static uint16_t child_of(const struct weir__log_json *json, uint16_t node, struct weir__slice name)
{
	for (uint16_t child = json->nodes[node].children; child != NO_NODE; child = json->nodes[child].next)
		if (weir__slice_equal(json->nodes[child].name, name))
			return child;
	return NO_NODE;
}

static struct weir__slice first_part(struct weir__slice *rest)
{
	const char *const point = memchr(rest->at, '.', rest->n);
	const struct weir__slice part = { rest->at, point ? (size_t)(point - rest->at) : rest->n };
	const size_t used = part.n + (point != NULL);

	rest->at += used;
	rest->n -= used;
	return part;
}

/* The node of a name, which may itself have points. */
static uint16_t find(const struct weir__log_json *json, uint16_t node, struct weir__slice name)
{
	do
		node = child_of(json, node, first_part(&name));
	while (node != NO_NODE && name.n > 0);
	return node;
}

struct names {
	struct weir__log_json *json;
	struct weir__log_fields *fields;
};

static uint16_t add_node(struct weir__log_json *json, uint16_t parent, struct weir__slice name)
{
	struct node *const added = &json->nodes[json->n];

	if (json->n == NODES_MAX)
		return NO_NODE;
	*added = (struct node){ .name = name, .next = json->nodes[parent].children };
	json->nodes[parent].children = json->n;
	return json->n++;
}

static void add_name(void *names_, struct weir__slice name)
{
	struct names *const names = names_;
	struct weir__slice rest = name;
	uint16_t node = ROOT;

	do {
		const struct weir__slice part = first_part(&rest);
		const uint16_t child = child_of(names->json, node, part);

		node = child != NO_NODE ? child : add_node(names->json, node, part);
	} while (node != NO_NODE && rest.n > 0);
	if (node != NO_NODE)
		names->json->nodes[node].n_uses = (uint8_t)weir__log_fields_find(names->fields, name,
										 names->json->nodes[node].uses);
}

int weir__log_json_new(struct weir__log_fields *fields, struct weir__log_json **ret_json)
{
	struct weir__log_json *const json = calloc(1, sizeof(*json));
	struct names names = { .json = json, .fields = fields };

	if (json == NULL) {
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	json->n = ROOT + 1;
	weir__log_fields_names(fields, add_name, &names);
	*ret_json = json;
	return WEIR_OK;
}

void weir__log_json_free(struct weir__log_json *json)
{
	free(json);
}

/* --- parsing ----------------------------------------------------------------------------------------------------- */

struct scan {
	struct weir__log_json *json;
	struct weir__log_fields *fields;
	struct weir__log_line *line;
	const char *at, *end;
	char *room;
	unsigned depth, place; /* how deep, and how many names have been met */
	const char *why;
};

static void skip_blanks(struct scan *scan)
{
	while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r'))
		scan->at++;
}

static bool fail(struct scan *scan)
{
	if (scan->why == NULL)
		scan->why = "it is not a JSON object";
	return false;
}

static bool take(struct scan *scan, char c)
{
	skip_blanks(scan);
	if (scan->at == scan->end || *scan->at != c)
		return false;
	scan->at++;
	return true;
}

/* A string, whose first quote has been taken. Returns its bytes as they are written. */
static bool take_string(struct scan *scan, struct weir__slice *ret_bytes, bool *ret_has_escapes)
{
	const char *const start = scan->at;
	const char *at = start;

	*ret_has_escapes = false;
	for (;; at++) {
		const char *back;

		at = memchr(at, '"', (size_t)(scan->end - at));
		if (at == NULL)
			return fail(scan);
		for (back = at; back > start && back[-1] == '\\';)
			back--;
		if ((at - back) % 2 == 0)
			break;
	}
	*ret_bytes = (struct weir__slice){ start, (size_t)(at - start) };
	*ret_has_escapes = memchr(start, '\\', ret_bytes->n) != NULL;
	scan->at = at + 1;
	return true;
}

static bool read_hex(const char *at, const char *end, uint32_t *ret_number)
{
	uint32_t number = 0;

	if (end - at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		const char c = at[i];
		const int digit = c >= '0' && c <= '9' ? c - '0' :
				  c >= 'a' && c <= 'f' ? c - 'a' + 10 :
				  c >= 'A' && c <= 'F' ? c - 'A' + 10 :
							 -1;

		if (digit < 0)
			return false;
		number = number * 16 + (uint32_t)digit;
	}
	*ret_number = number;
	return true;
}

static char *put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	}
	return to;
}

/* The characters of a string with escapes, in the room. They take no more bytes than the escapes. Half of a surrogate
 * pair becomes U+FFFD. */
static struct weir__slice unescape(struct scan *scan, struct weir__slice bytes)
{
	static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
	const char *const end = bytes.at + bytes.n;
	char *const start = scan->room;
	char *to = start;

	for (const char *at = bytes.at; at < end; at++) {
		uint32_t c, low;
		const char *letter;

		if (*at != '\\' || at + 1 == end) {
			*to++ = *at;
			continue;
		}
		at++;
		if (*at == 'u' && read_hex(at + 1, end, &c)) {
			at += 4;
			if (c >= 0xd800 && c < 0xdc00 && end - at > 6 && at[1] == '\\' && at[2] == 'u' &&
			    read_hex(at + 3, end, &low) && low >= 0xdc00 && low < 0xe000) {
				c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
				at += 6;
			}
			to = put_utf8(to, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
			continue;
		}
		letter = *at ? strchr(letters, *at) : NULL;
		*to++ = letter ? meant[letter - letters] : *at;
	}
	scan->room = to;
	return (struct weir__slice){ start, (size_t)(to - start) };
}

static bool use(struct scan *scan, uint16_t node, struct weir__slice bytes)
{
	const struct node *const of = &scan->json->nodes[node];

	for (size_t i = 0; i < of->n_uses; i++) {
		const char *const why = weir__log_field_set(scan->fields, &of->uses[i], bytes, scan->line);

		if (why) {
			scan->why = why;
			return false;
		}
	}
	return true;
}

/* The node of a name at the next place of the line. */
static uint16_t look_up(struct scan *scan, uint16_t parent, struct weir__slice name)
{
	struct place *const place = &scan->json->places[scan->place++ % PLACES];

	if (place->n == name.n && place->parent == parent && memcmp(place->name, name.at, name.n) == 0)
		return place->node;
	if (name.n == 0 || name.n > NAME_MAX_BYTES)
		return find(scan->json, parent, name);
	place->parent = parent;
	place->node = find(scan->json, parent, name);
	place->n = (uint8_t)name.n;
	memcpy(place->name, name.at, name.n);
	return place->node;
}

static bool scan_value(struct scan *scan, uint16_t node);

static bool scan_members(struct scan *scan, uint16_t node)
{
	if (take(scan, '}'))
		return true;
	do {
		struct weir__slice name;
		bool has_escapes;

		if (!take(scan, '"') || !take_string(scan, &name, &has_escapes) || !take(scan, ':'))
			return fail(scan);
		if (!scan_value(scan, node == NO_NODE ? NO_NODE : look_up(scan, node, name)))
			return false;
	} while (take(scan, ','));
	return take(scan, '}') || fail(scan);
}

/* The elements of an array count as values of its name: of several the first, unless the field is strong. */
static bool scan_elements(struct scan *scan, uint16_t node)
{
	if (take(scan, ']'))
		return true;
	do {
		if (!scan_value(scan, node))
			return false;
		node = NO_NODE;
	} while (take(scan, ','));
	return take(scan, ']') || fail(scan);
}

static bool scan_inner(struct scan *scan, uint16_t node, bool is_object)
{
	bool is_good;

	if (scan->depth == DEPTH_MAX)
		return fail(scan);
	scan->depth++;
	is_good = is_object ? scan_members(scan, node) : scan_elements(scan, node);
	scan->depth--;
	return is_good;
}

/* Whether the byte ends a number, true, false or null. */
static bool ends_word(char c)
{
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\r';
}

static bool scan_value(struct scan *scan, uint16_t node)
{
	const char *start;
	struct weir__slice bytes;
	bool has_escapes;

	skip_blanks(scan);
	if (scan->at == scan->end)
		return fail(scan);
	start = scan->at;
	switch (*scan->at) {
	case '"':
		scan->at++;
		if (!take_string(scan, &bytes, &has_escapes))
			return false;
		if (node == NO_NODE || scan->json->nodes[node].n_uses == 0)
			return true;
		return use(scan, node, has_escapes ? unescape(scan, bytes) : bytes);
	case '{':
	case '[':
		scan->at++;
		return scan_inner(scan, node, *start == '{');
	default:
		while (scan->at < scan->end && !ends_word(*scan->at))
			scan->at++;
		bytes = (struct weir__slice){ start, (size_t)(scan->at - start) };
		if (bytes.n == 0)
			return fail(scan);
		return node == NO_NODE || weir__slice_is(bytes, "null") || use(scan, node, bytes);
	}
}

const char *weir__log_json_parse(struct weir__log_json *json, struct weir__log_fields *fields, struct weir__slice bytes,
				 char *room, struct weir__log_line *line)
{
	struct scan scan = {
		.json = json, .fields = fields, .line = line, .at = bytes.at, .end = bytes.at + bytes.n, .room = room
	};

	if (!take(&scan, '{') || !scan_members(&scan, ROOT))
		return scan.why ? scan.why : "it is not a JSON object";
	skip_blanks(&scan);
	if (scan.at != scan.end)
		return "text follows the JSON object";
	return line->has_stamp ? NULL : "it has no time";
}
