/* http_json.c: JSON bodies of requests. */
#include "server/http/http_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/duration.h"
#include "engine/limit_ref.h"

enum { SHOWN = 40 /* bytes of a wrong value, in messages */ };

static bool says_type(const struct weir__http_call *call, const char *type)
{
	const size_t length = strlen(type);
	struct weir__http_slice value;

	return weir__http_find(call->request, "content-type", &value) && value.length >= length &&
	       strncasecmp(value.bytes, type, length) == 0 &&
	       (value.length == length || value.bytes[length] == ';' || value.bytes[length] == ' ');
}

/* jansson describes this error in terms of its own API. */
static bool is_nul(const json_error_t *error)
{
	const enum json_error_code code = json_error_code(error);

	return code == json_error_null_character || code == json_error_null_byte_in_key;
}

static json_t *read_body(struct weir__http_call *call)
{
	const struct weir__http_slice body = call->request->body;
	char why[JSON_ERROR_TEXT_LENGTH + 128];
	json_error_t error;
	json_t *const root = json_loadb(body.bytes, body.length, JSON_REJECT_DUPLICATES, &error);

	if (root)
		return root;
	(void)snprintf(why, sizeof(why), "the body: line %d, column %d: %s; use JSON", error.line, error.column,
		       is_nul(&error) ? "a string contains a NUL byte (\\u0000)" : error.text);
	weir__reply_problem(call->reply, 400, why);
	return NULL;
}

static json_t *refuse_type(struct weir__http_call *call)
{
	weir__reply_problem(call->reply, 415,
			    "unsupported Content-Type; send JSON with Content-Type: application/json");
	return NULL;
}

/* A web page of another origin cannot send this type, unless the server has agreed to it (CORS). */
json_t *weir__json_of_body(struct weir__http_call *call)
{
	return says_type(call, "application/json") ? read_body(call) : refuse_type(call);
}

json_t *weir__json_of_most_bodies(struct weir__http_call *call)
{
	return says_type(call, "text/plain") || says_type(call, "multipart/form-data") ? refuse_type(call) :
											 read_body(call);
}

static void describe(const json_t *found, char *text, size_t size)
{
	static const char *const kinds[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "",    [JSON_STRING] = "",     [JSON_INTEGER] = "",
		[JSON_REAL] = "a fraction",  [JSON_TRUE] = "true", [JSON_FALSE] = "false", [JSON_NULL] = "null"
	};

	if (json_is_string(found))
		(void)snprintf(text, size, "found \"%.*s\"; ", SHOWN, json_string_value(found));
	else if (json_is_integer(found))
		(void)snprintf(text, size, "found %" JSON_INTEGER_FORMAT "; ", json_integer_value(found));
	else if (json_is_array(found))
		(void)snprintf(text, size, "found an array of %zu; ", json_array_size(found));
	else
		(void)snprintf(text, size, "found %s; ", kinds[json_typeof(found)]);
}

enum { WHERE_SIZE = 128 };

static void write_where(const struct weir__json *json, const char *member, char where[WHERE_SIZE])
{
	char item[48] = "";

	if (json->item != WEIR__JSON_NO_ITEM)
		(void)snprintf(item, sizeof(item), "%s%s[%zu]", json->array ? "." : "", json->array ? json->array : "",
			       json->item);
	(void)snprintf(where, WHERE_SIZE, "the body%s%s%s: ", item, member ? "." : "", member ? member : "");
}

bool weir__json_refuse(const struct weir__json *json, const char *member, const json_t *found, const char *right)
{
	char where[WHERE_SIZE], what[96] = "", text[640];

	write_where(json, member, where);
	if (found)
		describe(found, what, sizeof(what));
	(void)snprintf(text, sizeof(text), "%s%s%s", where, what, right);
	weir__reply_problem(json->call->reply, 400, text);
	return false;
}

static void list_members(const char *const members[], char *text, size_t size)
{
	size_t length = 0;

	for (size_t i = 0; members[i]; i++)
		length += (size_t)snprintf(text + length, size - length, "%s%s",
					   i == 0                 ? "" :
					   members[i + 1] == NULL ? " and " :
								    ", ",
					   members[i]);
}

static const char *unknown_in(const json_t *object, const char *const members[])
{
	const char *name;
	json_t *value;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		for (i = 0; members[i] && strcmp(members[i], name) != 0; i++)
			;
		if (members[i] == NULL)
			return name;
	}
	return NULL;
}

bool weir__json_has_only(const struct weir__json *json, const json_t *object, const char *const members[])
{
	return weir__json_member_has_only(json, NULL, object, members);
}

bool weir__json_member_has_only(const struct weir__json *json, const char *member, const json_t *object,
				const char *const members[])
{
	const char *const unknown = json_is_object(object) ? unknown_in(object, members) : NULL;
	char right[256], text[384];

	if (json_is_object(object) && unknown == NULL)
		return true;
	list_members(members, right, sizeof(right));
	if (unknown)
		(void)snprintf(text, sizeof(text), "found an unknown member \"%.*s\"; use %s", SHOWN, unknown, right);
	else
		(void)snprintf(text, sizeof(text), "use an object with %s", right);
	return weir__json_refuse(json, member, unknown ? NULL : object, text);
}

bool weir__json_read_number(const struct weir__json *json, const char *member, const json_t *value, uint64_t most,
			    uint64_t *ret_number)
{
	char right[64];

	if (json_is_integer(value) && json_integer_value(value) >= 0 && (uint64_t)json_integer_value(value) <= most) {
		*ret_number = (uint64_t)json_integer_value(value);
		return true;
	}
	(void)snprintf(right, sizeof(right), "use a whole number, 0 to %" PRIu64, most);
	return weir__json_refuse(json, member, value, right);
}

bool weir__json_read_text(const struct weir__json *json, const json_t *object, const char *member, const char *right,
			  struct weir__json_text *ret_text)
{
	const char *const name = strrchr(member, '.'); /* the member of all[2].limit is limit */
	const json_t *const value = json_object_get(object, name ? name + 1 : member);
	char text[256];

	if (json_is_string(value)) {
		*ret_text = (struct weir__json_text){ json_string_value(value), json_string_length(value) };
		return true;
	}
	(void)snprintf(text, sizeof(text), "%s%s", value ? "" : "missing; ", right);
	return weir__json_refuse(json, member, value, text);
}

bool weir__json_read_wait(const struct weir__json *json, const json_t *object, bool *ret_has_wait, weir_ns *ret_wait)
{
	const json_t *const value = json_object_get(object, "wait");

	*ret_has_wait = value != NULL;
	if (value == NULL)
		return true;
	if (json->item != WEIR__JSON_NO_ITEM)
		return weir__json_refuse(json, "wait", NULL, "an item of an array cannot wait; send it by itself");
	return (json_is_string(value) &&
		weir__duration_read(json_string_value(value), json_string_length(value), WEIR__WAIT_MAX, ret_wait)) ||
	       weir__json_refuse(json, "wait", value, WEIR__HTTP_RIGHT_WAIT);
}

/* --- errors shared with RESP ------------------------------------------------------------------------------------ */

static unsigned status_of(enum weir__error_number error)
{
	switch (error) {
	case WEIR__ERROR_NO_LIMIT:
	case WEIR__ERROR_HOLD_UNKNOWN:
		return 404;
	case WEIR__ERROR_NO_POLICY:
	case WEIR__ERROR_HOLD_OTHER:
	case WEIR__ERROR_HOLD_SETTLED:
		return 409;
	case WEIR__ERROR_HOLD_BUSY:
	case WEIR__ERROR_HOLD_FULL:
	case WEIR__ERROR_WAITERS:
	case WEIR__ERROR_CHANGES_WAIT:
	case WEIR__ERROR_UNSHARED:
	case WEIR__ERROR_UNSHARED_PERHAPS:
	case WEIR__ERROR_UNRESET:
	case WEIR__ERROR_UNRESET_PERHAPS:
		return 503;
	default:
		return 400;
	}
}

/* Leaves out the error code at the beginning, since the HTTP status replaces it. */
bool weir__http_refuse_as(struct weir__http_call *call, const char *where, const struct weir__refusal *refusal)
{
	const char *const text = weir__error_rows[refusal->error].text;
	char detail[640];

	(void)snprintf(detail, sizeof(detail), "%s%s%s", where, text + strcspn(text, " ") + 1, refusal->why.text);
	weir__reply_problem(call->reply, status_of(refusal->error), detail);
	return false;
}

bool weir__json_refuse_as(const struct weir__json *json, const char *member, const struct weir__refusal *refusal)
{
	char where[WHERE_SIZE];

	write_where(json, member, where);
	return weir__http_refuse_as(json->call, where, refusal);
}
