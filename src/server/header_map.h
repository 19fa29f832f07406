/* header_map.h: which headers of HTTP are attributes of a request, by which names. Pure. */
#ifndef WEIR_SERVER_HEADER_MAP_H
#define WEIR_SERVER_HEADER_MAP_H

#include <stdbool.h>
#include <stddef.h>

enum {
	WEIR__HEADER_MAP_MAX = 16,
	WEIR__HEADER_NAME_MAX = 63,                         /* of a header, and of an attribute */
	WEIR__HEADER_SHOWN = 2 * WEIR__HEADER_NAME_MAX + 2, /* bytes of one as text, with a comma */
};

struct weir__header_row {
	char header[WEIR__HEADER_NAME_MAX + 1]; /* in small letters */
	char attribute[WEIR__HEADER_NAME_MAX + 1];
	size_t header_length, attribute_length;
};

struct weir__header_map {
	struct weir__header_row at[WEIR__HEADER_MAP_MAX];
	size_t n;
};

/* Adds HEADER=ATTRIBUTE; without the second, the attribute has the header's name in small letters with _ for each -. Each
 * attribute has one header: who asks shall not choose by which of two it is known. False: it cannot be. */
bool weir__header_map_add(struct weir__header_map *map, const char *text, size_t length);

/* All, with commas. Returns the length. */
size_t weir__header_map_show(const struct weir__header_map *map, char *ret_text, size_t size);

#endif
