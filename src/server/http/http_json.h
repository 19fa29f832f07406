/* http_json.h: bodies that are JSON, as jansson reads them, and what is said of those that are wrong: where, what was
 * found, and what would be right. */
#ifndef WEIR_SERVER_HTTP_HTTP_JSON_H
#define WEIR_SERVER_HTTP_HTTP_JSON_H

#include <jansson.h>

#include "server/http/http_call.h"

#define WEIR__JSON_NO_ITEM SIZE_MAX

/* Where in a body something is. */
struct weir__json {
	struct weir__http_call *call;
	size_t item;       /* of an array, or NO_ITEM */
	const char *array; /* the member that the array is; NULL: the body itself */
};

/* A string of it, as long as that is there. */
struct weir__json_text {
	const char *bytes;
	size_t length;
};

/* The body, for json_decref. NULL: it is none, and that was answered. */
json_t *weir__json_of_body(struct weir__http_call *call);
/* Likewise, whatever its Content-Type says. */
json_t *weir__json_of_any_body(struct weir__http_call *call);

/* Answers that a member, or all of it if that is NULL, is wrong: `found`, if it is not NULL, and what would be right.
 * Returns false. */
bool weir__json_refuse(const struct weir__json *json, const char *member, const json_t *found, const char *right);

/* Whether it is an object with none but these members, of which the last is NULL. False: that was answered. */
bool weir__json_has_only(const struct weir__json *json, const json_t *object, const char *const members[]);

/* Likewise of a member, as all[2]. */
bool weir__json_member_has_only(const struct weir__json *json, const char *member, const json_t *object,
				const char *const members[]);

/* A text that there must be; `right` says what it is. False: that was answered. */
bool weir__json_read_text(const struct weir__json *json, const json_t *object, const char *member, const char *right,
			  struct weir__json_text *ret_text);

/* The member, or the member of a member as in all[2].limit, that is refused. Returns false. */
bool weir__json_refuse_as(const struct weir__json *json, const char *member, const struct weir__refusal *refusal);

/* The attributes of a request; NULL: there are none, and that is wrong. False: that was answered. (http_check.c) */
bool weir__json_read_attributes(const struct weir__json *json, json_t *object, struct weir__http_query *question);

/* A whole number from 0 on. False: that was answered. */
bool weir__json_read_number(const struct weir__json *json, const char *member, const json_t *value, uint64_t most,
			    uint64_t *ret_number);

#endif
