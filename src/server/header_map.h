/* header_map.h: which HTTP headers become attributes of a request, and under which names. Pure. */
#ifndef WEIR_SERVER_HEADER_MAP_H
#define WEIR_SERVER_HEADER_MAP_H

#include <stdbool.h>
#include <stddef.h>

enum {
	WEIR__HEADER_MAP_MAX = 16,
	WEIR__HEADER_NAME_MAX = 63,                         /* of a header, and of an attribute */
	WEIR__HEADER_SHOWN = 2 * WEIR__HEADER_NAME_MAX + 2, /* bytes of one as text, including a comma */
};

struct weir__header_row {
	char header[WEIR__HEADER_NAME_MAX + 1]; /* in lower case */
	char attribute[WEIR__HEADER_NAME_MAX + 1];
	size_t header_length, attribute_length;
};

struct weir__header_map {
	struct weir__header_row at[WEIR__HEADER_MAP_MAX];
	size_t n;
};

/* Adds HEADER=ATTRIBUTE. Without =ATTRIBUTE, the name is the header in lower case, with _ for each -. An attribute has
 * only one header: a client must not choose which of two identifies it. Returns false if the text is invalid, the
 * attribute is taken, or the map is full. */
bool weir__header_map_add(struct weir__header_map *map, const char *text, size_t length);

/* Writes all, separated by commas. Returns the length. */
size_t weir__header_map_show(const struct weir__header_map *map, char *ret_text, size_t size);

#endif
