/* otlp.c: by jansson. Numbers of 64 bits are strings there, as protobuf writes them in JSON. */
#include "serve/otlp.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };

/* Of the field `flags`: what traceparent says, and that it is known whether the parent is another program's. */
enum { FLAG_SAMPLED = 1, FLAG_KNOWS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 };

static json_t *number_of(uint64_t number)
{
	char digits[24];

	(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	return json_string(digits);
}

/* Takes the value over. */
static void add(json_t *attributes, const char *name, const char *type, json_t *value)
{
	(void)json_array_append_new(attributes, json_pack("{s:s, s:{s:o}}", "key", name, "value", type, value));
}

static void add_text(json_t *attributes, const char *name, const char *text)
{
	add(attributes, name, "stringValue", json_string(text));
}

/* Rounded up: who has waited has waited for something. */
static uint64_t ms_of(weir_ns span)
{
	return span / 1000000 + (span % 1000000 != 0);
}

static json_t *attributes_of(const struct weir__span *span)
{
	json_t *const attributes = json_array();
	char hash[2 * sizeof(span->key_hash) + 1];

	(void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)span->key_hash);
	add(attributes, "rate_limiter.allowed", "boolValue", json_boolean(span->is_allowed));
	add_text(attributes, "rate_limiter.algorithm", span->algorithm);
	add_text(attributes, "rate_limiter.limit", span->limit);
	add_text(attributes, "rate_limiter.key_hash", hash);
	add(attributes, "rate_limiter.delay_ms", "intValue", number_of(ms_of(span->delay)));
	if (span->shadow_denied > 0)
		add(attributes, "rate_limiter.shadow_denied", "intValue", number_of(span->shadow_denied));
	return attributes;
}

static json_t *json_of(const struct weir__span *span)
{
	char trace[2 * WEIR__TRACE_ID + 1], id[2 * WEIR__SPAN_ID + 1], parent[2 * WEIR__SPAN_ID + 1];
	json_t *json;

	weir__trace_write_hex(span->trace, WEIR__TRACE_ID, trace);
	weir__trace_write_hex(span->id, WEIR__SPAN_ID, id);
	weir__trace_write_hex(span->parent, WEIR__SPAN_ID, parent);
	json = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:i, s:{}}", "traceId", trace, "spanId", id, "name",
			 "rate_limit", "kind", span->is_server ? KIND_SERVER : KIND_INTERNAL, "startTimeUnixNano",
			 number_of(span->begun), "endTimeUnixNano", number_of(span->ended), "attributes",
			 attributes_of(span), "flags",
			 FLAG_SAMPLED | FLAG_KNOWS_REMOTE | (span->has_parent ? FLAG_IS_REMOTE : 0), "status");
	if (span->has_parent)
		(void)json_object_set_new(json, "parentSpanId", json_string(parent));
	if (span->state[0] != '\0')
		(void)json_object_set_new(json, "traceState", json_string(span->state));
	return json;
}

char *weir__otlp_write(const struct weir__otlp_resource *resource, const struct weir__span *spans, size_t n)
{
	json_t *const attributes = json_array(), *const list = json_array();
	json_t *root;
	char *text;

	add_text(attributes, "service.name", resource->service);
	add_text(attributes, "service.version", resource->version);
	add_text(attributes, "service.instance.id", resource->instance);
	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(list, json_of(&spans[i]));
	root = json_pack("{s:[{s:{s:o}, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceSpans", "resource", "attributes",
			 attributes, "scopeSpans", "scope", "name", "weir", "version", resource->version, "spans",
			 list);
	text = root && json_array_size(list) == n ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	return text;
}

/* It is a string, or a number, by whoever writes it. */
uint64_t weir__otlp_rejected(const char *answer, size_t length)
{
	json_t *const root = json_loadb(answer, length, 0, NULL);
	const json_t *const rejected = json_object_get(json_object_get(root, "partialSuccess"), "rejectedSpans");
	uint64_t n = 0;

	if (json_is_string(rejected))
		n = strtoull(json_string_value(rejected), NULL, 10);
	else if (json_is_integer(rejected) && json_integer_value(rejected) > 0)
		n = (uint64_t)json_integer_value(rejected);
	json_decref(root);
	return n;
}
