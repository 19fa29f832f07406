/* header_map.c: headers that become attributes. */
#include "server/header_map.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Attributes that /v1/authorize sets itself. */
static const char *const taken[] = { "ip", "method", "path", "host" };

static bool is_header(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isascii(text[i]) ||
		    (!isalnum((unsigned char)text[i]) && (text[i] == '\0' || !strchr("-_", text[i]))))
			return false;
	return length >= 1 && length <= WEIR__HEADER_NAME_MAX;
}

static bool is_attribute(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isgraph((unsigned char)text[i]) || text[i] == '=' || text[i] == ',')
			return false;
	return length >= 1 && length <= WEIR__HEADER_NAME_MAX;
}

static bool is_free(const struct weir__header_map *map, const char *attribute)
{
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (strcmp(taken[i], attribute) == 0)
			return false;
	for (size_t i = 0; i < map->n; i++)
		if (strcmp(map->at[i].attribute, attribute) == 0)
			return false;
	return true;
}

bool weir__header_map_add(struct weir__header_map *map, const char *text, size_t length)
{
	const char *const sign = memchr(text, '=', length);
	struct weir__header_row row = { .header_length = sign ? (size_t)(sign - text) : length };

	row.attribute_length = sign ? length - row.header_length - 1 : length;
	if (map->n == WEIR__HEADER_MAP_MAX || !is_header(text, row.header_length) ||
	    (sign && !is_attribute(sign + 1, row.attribute_length)))
		return false;
	for (size_t i = 0; i < row.header_length; i++)
		row.header[i] = (char)tolower((unsigned char)text[i]);
	for (size_t i = 0; i < row.attribute_length; i++)
		row.attribute[i] = (char)(sign ? sign[1 + i] : row.header[i] == '-' ? '_' : row.header[i]);
	if (!is_free(map, row.attribute))
		return false;
	map->at[map->n++] = row;
	return true;
}

size_t weir__header_map_show(const struct weir__header_map *map, char *ret_text, size_t size)
{
	size_t length = 0;

	for (size_t i = 0; i < map->n; i++)
		length += (size_t)snprintf(ret_text + length, size - length, "%s%s=%s", i ? "," : "", map->at[i].header,
					   map->at[i].attribute);
	return length;
}
