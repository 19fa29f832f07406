/* http_envoy.c: POST /json, as in Envoy's ratelimit: a RateLimitRequest as protojson, decided by a policy in Envoy's
 * form.
 *
 * Members may have either of their names, hitsAddend or hits_addend. A number may be a string, null counts as missing,
 * and an unknown member is an error. The Content-Type may be missing, as for Envoy's ratelimit. Types that only a web
 * page would send are rejected. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/uninitialized.h"
#include "guard/guard.h"
#include "server/http/http_call.h"
#include "server/http/http_json.h"

enum { ENTRIES_MAX = 512 /* of all descriptors together */ };

static const struct unit {
	const char *name;
	uint64_t seconds;
} units[] = {
	[WEIR_UNIT_NONE] = { "UNKNOWN", 0 },     [WEIR_UNIT_SECOND] = { "SECOND", 1 },
	[WEIR_UNIT_MINUTE] = { "MINUTE", 60 },   [WEIR_UNIT_HOUR] = { "HOUR", 3600 },
	[WEIR_UNIT_DAY] = { "DAY", 86400 },      [WEIR_UNIT_MONTH] = { "MONTH", 2592000 },
	[WEIR_UNIT_YEAR] = { "YEAR", 31536000 }, [WEIR_UNIT_WEEK] = { "WEEK", 604800 },
};

enum { UNITS = sizeof(units) / sizeof(units[0]) };

/* A request, which points into the JSON. */
struct request {
	const char *domain;
	size_t domain_length;
	uint64_t hits;
	struct weir_descriptor descriptors[WEIR_DESCRIPTORS_MAX];
	size_t n;
	struct weir_attribute entries[ENTRIES_MAX];
	size_t n_entries;
};

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* NULL: missing, or null. */
static json_t *member(const json_t *object, const char *name, const char *other)
{
	json_t *value = json_object_get(object, name);

	if (value == NULL && other)
		value = json_object_get(object, other);
	return json_is_null(value) ? NULL : value;
}

/* A missing member is empty. */
static bool read_text(const struct weir__json *json, const json_t *object, const char *name, const char **ret_text,
		      size_t *ret_length)
{
	const json_t *const value = member(object, name, NULL);

	*ret_text = value ? json_string_value(value) : "";
	*ret_length = value ? json_string_length(value) : 0;
	return *ret_text != NULL || weir__json_refuse(json, name, value, "use a string");
}

/* A missing member is 0. */
static bool read_number(const struct weir__json *json, const char *name, const json_t *value, uint64_t most,
			uint64_t *ret_number)
{
	const char *const digits = json_string_value(value);
	uint64_t number = 0;

	*ret_number = 0;
	if (value == NULL)
		return true;
	if (digits == NULL)
		return weir__json_read_number(json, name, value, most, ret_number);
	for (const char *at = digits; *at; at++)
		if (*at < '0' || *at > '9' || __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number) || number > most)
			return weir__json_refuse(json, name, value, "use a whole number, 0 or more");
	*ret_number = number;
	return *digits != '\0' || weir__json_refuse(json, name, value, "use a whole number, 0 or more");
}

static bool read_unit(const struct weir__json *json, const json_t *value, enum weir_unit *ret_unit)
{
	uint64_t number = json_is_integer(value) ? (uint64_t)json_integer_value(value) : UNITS;

	for (uint64_t i = 0; i < UNITS && json_is_string(value); i++)
		if (strcmp(units[i].name, json_string_value(value)) == 0)
			number = i;
	if (number == 0 || number >= UNITS)
		return weir__json_refuse(json, "limit.unit", value,
					 "use SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR");
	*ret_unit = (enum weir_unit)number;
	return true;
}

/* An inline limit. */
static bool read_limit(const struct weir__json *json, const json_t *object, struct weir_descriptor *descriptor)
{
	static const char *const members[] = { "requestsPerUnit", "requests_per_unit", "unit", NULL };
	uint64_t number;

	if (!weir__json_has_only(json, object, members) ||
	    !read_number(json, "limit.requestsPerUnit", member(object, "requestsPerUnit", "requests_per_unit"),
			 UINT32_MAX, &number) ||
	    !read_unit(json, member(object, "unit", NULL), &descriptor->unit))
		return false;
	descriptor->requests_per_unit = (uint32_t)number;
	return true;
}

static bool read_entries(const struct weir__json *json, const json_t *array, struct request *request,
			 struct weir_descriptor *descriptor)
{
	static const char *const members[] = { "key", "value", NULL };

	descriptor->entries = &request->entries[request->n_entries];
	descriptor->n = json_array_size(array);
	if (array && !json_is_array(array))
		return weir__json_refuse(json, "entries", array, "use an array of objects with key and value");
	if (descriptor->n > ENTRIES_MAX - request->n_entries)
		return weir__json_refuse(json, "entries", NULL, "use at most 512 in all descriptors");
	for (size_t i = 0; i < descriptor->n; i++) {
		struct weir_attribute *const entry = &request->entries[request->n_entries++];
		const json_t *const object = json_array_get(array, i);

		if (!weir__json_has_only(json, object, members) ||
		    !read_text(json, object, "key", &entry->name, &entry->name_length) ||
		    !read_text(json, object, "value", &entry->value, &entry->value_length))
			return false;
	}
	return true;
}

static bool read_descriptor(const struct weir__json *json, const json_t *object, struct request *request)
{
	static const char *const members[] = { "entries",     "limit",          "hitsAddend",
					       "hits_addend", "isNegativeHits", "is_negative_hits",
					       NULL };
	struct weir_descriptor *const descriptor = &request->descriptors[request->n++];
	const json_t *hits, *limit, *is_refund;

	*descriptor = (struct weir_descriptor){ .unit = WEIR_UNIT_NONE };
	if (!weir__json_has_only(json, object, members))
		return false;
	hits = member(object, "hitsAddend", "hits_addend");
	limit = member(object, "limit", NULL);
	is_refund = member(object, "isNegativeHits", "is_negative_hits");
	if (is_refund && !json_is_boolean(is_refund))
		return weir__json_refuse(json, "isNegativeHits", is_refund, "use true or false");
	descriptor->is_refund = json_is_true(is_refund);
	descriptor->has_hits = hits != NULL;
	return read_number(json, "hitsAddend", hits, UINT64_MAX, &descriptor->hits) &&
	       (limit == NULL || read_limit(json, limit, descriptor)) &&
	       read_entries(json, member(object, "entries", NULL), request, descriptor);
}

static bool read_descriptors(struct weir__http_call *call, const json_t *array, struct request *request)
{
	struct weir__json json = { call, WEIR__JSON_NO_ITEM, "descriptors" };

	if (array && (!json_is_array(array) || json_array_size(array) > WEIR_DESCRIPTORS_MAX))
		return weir__json_refuse(&json, "descriptors", json_is_array(array) ? NULL : array,
					 "use an array of up to 64 objects with entries");
	for (json.item = 0; json.item < json_array_size(array); json.item++)
		if (!read_descriptor(&json, json_array_get(array, json.item), request))
			return false;
	return true;
}

static bool read_request(struct weir__http_call *call, const json_t *root, struct request *request)
{
	static const char *const members[] = { "domain", "descriptors", "hitsAddend", "hits_addend", NULL };
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };

	request->n = request->n_entries = 0;
	if (!weir__json_has_only(&json, root, members) ||
	    !read_text(&json, root, "domain", &request->domain, &request->domain_length) ||
	    !read_number(&json, "hitsAddend", member(root, "hitsAddend", "hits_addend"), UINT32_MAX, &request->hits))
		return false;
	if (request->hits == 0) /* as in protobuf, where 0 and missing are the same */
		request->hits = 1;
	return read_descriptors(call, member(root, "descriptors", NULL), request);
}

/* --- responses -------------------------------------------------------------------------------------------------- */

static void add_limit(struct weir__http_reply *reply, const struct weir_guard_status *status)
{
	const uint64_t seconds = status->claim.limit.period / 1000000000;
	const char *unit = units[WEIR_UNIT_NONE].name;

	for (size_t i = 1; i < UNITS; i++)
		if (units[i].seconds == seconds)
			unit = units[i].name;
	WEIR__REPLY_ADD(reply, ",\"currentLimit\":{\"requestsPerUnit\":");
	weir__reply_add_number(reply, status->verdict.limit);
	WEIR__REPLY_ADD(reply, ",\"unit\":\"");
	weir__reply_add_text(reply, unit);
	WEIR__REPLY_ADD(reply, "\"");
	if (status->claim.name[0] != '\0') {
		WEIR__REPLY_ADD(reply, ",\"name\":");
		weir__reply_add_string(reply, status->claim.name, strlen(status->claim.name));
	}
	WEIR__REPLY_ADD(reply, "}");
}

/* Zeros are left out, as in protojson. */
static void add_status(struct weir__http_reply *reply, const struct weir__descriptors_check *check, size_t i)
{
	const struct weir_guard_status *const status = &check->statuses[i];
	const struct weir_verdict *const verdict = &status->verdict;
	const bool is_denied = weir__descriptors_denies(check, i);
	const uint64_t remaining = status->claim.is_unlimited ? UINT32_MAX : verdict->remaining;

	weir__reply_add_text(reply, is_denied ? "{\"code\":\"OVER_LIMIT\"" : "{\"code\":\"OK\"");
	if (status->claim.applies && !status->claim.is_unlimited)
		add_limit(reply, status);
	if (status->claim.applies && remaining > 0) {
		WEIR__REPLY_ADD(reply, ",\"limitRemaining\":");
		weir__reply_add_number(reply, remaining);
	}
	if (status->claim.applies && !status->claim.is_unlimited) {
		WEIR__REPLY_ADD(reply, ",\"durationUntilReset\":\"");
		weir__reply_add_number(reply, weir__descriptors_reset_s(check, i));
		WEIR__REPLY_ADD(reply, "s\"");
	}
	WEIR__REPLY_ADD(reply, "}");
}

static void write_statuses(struct weir__request *request, void *call_)
{
	const struct weir__descriptors_check *const check =
		(const struct weir__descriptors_check *)(const void *)request;
	const bool is_allowed = check->check.answer.verdict.allowed;
	struct weir__http_call *const call = call_;
	struct weir__http_reply *const reply = call->reply;

	weir__reply_add_text(reply, is_allowed ? "{\"overallCode\":\"OK\",\"statuses\":[" :
						 "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":[");
	for (size_t i = 0; i < check->check.n; i++) {
		weir__reply_add_text(reply, i == 0 ? "" : ",");
		add_status(reply, check, i);
	}
	WEIR__REPLY_ADD(reply, "]}");
	weir__reply_end(reply, is_allowed ? 200 : 429, WEIR__TYPE_JSON);
}

static void run(struct weir__http_call *call, struct weir_guard *guard, const struct request *request)
{
	const struct weir__descriptors asked = { request->domain, request->domain_length, request->descriptors,
						 request->n, request->hits };
	struct weir__descriptors_check check WEIR__UNINITIALIZED;
	struct weir_message why;

	weir__descriptors_init(&check, call->context, call->client, write_statuses);
	weir__http_begin(call, &check.request);
	weir__http_end_run(call, weir__descriptors_run(&check, guard, &asked, &why), &check.request, &why);
}

static bool is_permitted(struct weir__http_call *call, const struct request *request)
{
	bool refunds = false, checks = false;

	for (size_t i = 0; i < request->n; i++) {
		refunds |= request->descriptors[i].is_refund;
		checks |= !request->descriptors[i].is_refund;
	}
	return (!refunds || weir__http_permit_operation(call, WEIR__OP_REFUND)) &&
	       (!checks || weir__http_permit_operation(call, WEIR__OP_CHECK));
}

void weir__http_envoy(struct weir__http_call *call)
{
	json_t *const root = weir__json_of_most_bodies(call);
	struct weir_guard *const guard = root ? weir__http_guard(call) : NULL;
	struct request request WEIR__UNINITIALIZED;

	if (guard && read_request(call, root, &request) && is_permitted(call, &request))
		run(call, guard, &request);
	json_decref(root);
}
