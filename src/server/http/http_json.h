/* http_json.h: JSON bodies, read by jansson, and their errors: where, what was found, and what would be right. */
#ifndef WEIR_SERVER_HTTP_HTTP_JSON_H
#define WEIR_SERVER_HTTP_HTTP_JSON_H

#include <jansson.h>

#include "server/http/http_call.h"

#define WEIR__JSON_NO_ITEM SIZE_MAX

/* A place in a body. */
struct weir__json {
	struct weir__http_call *call;
	size_t item;       /* index in an array, or WEIR__JSON_NO_ITEM */
	const char *array; /* the member that is the array; NULL: the body itself */
};

/* A string in the JSON: valid while that is. */
struct weir__json_text {
	const char *bytes;
	size_t length;
};

/* Reads the body; free it with json_decref. Returns NULL, after writing the error response, if it is not JSON or has a
 * different Content-Type. */
json_t *weir__json_of_body(struct weir__http_call *call);
/* The same, also without a Content-Type, or with the one that curl -d sends. Types that a web page can send and a
 * program does not (text/plain, multipart/form-data) are errors. */
json_t *weir__json_of_most_bodies(struct weir__http_call *call);

/* Writes an error response for a member; NULL: the entire object. It has `found`, unless that is NULL, and what would
 * be right. Returns false. */
bool weir__json_refuse(const struct weir__json *json, const char *member, const json_t *found, const char *right);

/* Whether it is an object with no other members than these; the list ends with NULL. Returns false after writing the
 * error response. */
bool weir__json_has_only(const struct weir__json *json, const json_t *object, const char *const members[]);

/* The same for a member, such as all[2]. */
bool weir__json_member_has_only(const struct weir__json *json, const char *member, const json_t *object,
				const char *const members[]);

/* Reads a required string; `right` says what it should be. Returns false after writing the error response. */
bool weir__json_read_text(const struct weir__json *json, const json_t *object, const char *member, const char *right,
			  struct weir__json_text *ret_text);

/* Writes an error response for a member, which may be nested as in all[2].limit. Returns false. */
bool weir__json_refuse_as(const struct weir__json *json, const char *member, const struct weir__refusal *refusal);

/* Reads the attributes of a request; NULL: they are missing, which is an error. Returns false after writing the error
 * response. (http_check.c) */
bool weir__json_read_attributes(const struct weir__json *json, json_t *object, struct weir__http_query *question);

/* Reads an integer from 0 to `most`. Returns false after writing the error response. */
bool weir__json_read_number(const struct weir__json *json, const char *member, const json_t *value, uint64_t most,
			    uint64_t *ret_number);

/* Reads the optional member `wait`, a duration. An item of an array cannot wait, since an array gets one response.
 * Returns false after writing the error response. */
bool weir__json_read_wait(const struct weir__json *json, const json_t *object, bool *ret_has_wait, weir_ns *ret_wait);

#endif
