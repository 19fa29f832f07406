/* http_json.h: bodies that are JSON, as jansson reads them, and what is said of those that are wrong: where, what was
 * found, and what would be right. */
#ifndef WEIR_SERVE_HTTP_JSON_H
#define WEIR_SERVE_HTTP_JSON_H

#include <jansson.h>

#include "serve/http_call.h"

#define WEIR__JSON_NO_ITEM SIZE_MAX

/* Where in a body something is. */
struct weir__json {
	struct weir__http_call *call;
	size_t item; /* of an array, or NO_ITEM */
};

/* The body, for json_decref. NULL: it is none, and that was answered. */
json_t *weir__json_of_body(struct weir__http_call *call);

/* Answers that a member, or all of it if that is NULL, is wrong: `found`, if it is not NULL, and what would be right.
 * Returns false. */
bool weir__json_refuse(const struct weir__json *json, const char *member, const json_t *found, const char *right);

/* Whether it is an object with none but these members, of which the last is NULL. False: that was answered. */
bool weir__json_has_only(const struct weir__json *json, const json_t *object, const char *const members[]);

/* A whole number from 0 on. False: that was answered. */
bool weir__json_read_number(const struct weir__json *json, const char *member, const json_t *value, uint64_t most,
			    uint64_t *ret_number);

#endif
