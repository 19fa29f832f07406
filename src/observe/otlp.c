/* otlp.c: spans as JSON.
 *
 * Requests are written by hand. At a million decisions a second, with one in a hundred traced, a library that builds a
 * tree for each span takes a third of a CPU. Responses are few and are parsed by jansson. 64-bit numbers are strings,
 * as in protobuf's JSON. */
#include "observe/otlp.h"

#include <jansson.h>

#include <stdlib.h>

#include "core/hex.h"
#include "core/utf8.h"
#include "wire/digits.h"
#include "wire/http_reply.h"

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };

/* Bits of the field `flags`: sampled, as in traceparent, whether it is known if the parent is remote, and whether it is
 * remote. */
enum { FLAG_SAMPLED = 1, FLAG_KNOWS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 };

enum {
	BYTE_MOST = 6,     /* of a byte of text: \u0000 */
	FIXED_MOST = 1024, /* a span without its texts; also the envelope without the resource's */
	SPAN_MOST = (int)FIXED_MOST + (int)BYTE_MOST * ((int)WEIR__SPAN_LIMIT + (int)WEIR__TRACESTATE_MAX),
};

/* Invalid UTF-8 becomes U+FFFD. */
static char *put_text(char *to, const char *text)
{
	const size_t n = strlen(text), plain = weir__utf8_plain((const unsigned char *)text, n);

	to = weir__put(to, text, plain);
	text += plain;
	for (size_t left = n - plain; left > 0;) {
		const struct weir__utf8 next = weir__utf8_first((const unsigned char *)text, left);

		if (!next.is_character) {
			to = WEIR__PUT(to, "\\ufffd");
		} else if (next.character < 0x20 || next.character == '"' || next.character == '\\') {
			to = WEIR__PUT(to, "\\u00");
			to = weir__hex_write(to, &(unsigned char){ (unsigned char)next.character }, 1);
		} else {
			to = weir__put(to, text, next.length);
		}
		text += next.length;
		left -= next.length;
	}
	return to;
}

static char *put_hex(char *to, const unsigned char *bytes, size_t n)
{
	weir__trace_write_hex(bytes, n, to);
	return to + 2 * n;
}

/* In big-endian order. */
static char *put_hash(char *to, uint64_t hash)
{
	unsigned char bytes[sizeof(hash)];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(hash >> 8 * (sizeof(bytes) - 1 - i));
	return put_hex(to, bytes, sizeof(bytes));
}

/* Rounded up, so that a delay never becomes 0. */
static uint64_t ms_of(weir_ns span)
{
	return span / 1000000 + (span % 1000000 != 0);
}

#define ATTRIBUTE(name, type) "{\"key\":\"" name "\",\"value\":{\"" type "\":"

static char *put_attributes(char *to, const struct weir__span *span)
{
	to = WEIR__PUT(to, ATTRIBUTE("rate_limiter.allowed", "boolValue"));
	to = span->is_allowed ? WEIR__PUT(to, "true}},") : WEIR__PUT(to, "false}},");
	to = WEIR__PUT(to, ATTRIBUTE("rate_limiter.algorithm", "stringValue") "\"");
	to = put_text(to, span->algorithm);
	to = WEIR__PUT(to, "\"}}," ATTRIBUTE("rate_limiter.limit", "stringValue") "\"");
	to = put_text(to, span->limit);
	to = WEIR__PUT(to, "\"}}," ATTRIBUTE("rate_limiter.key_hash", "stringValue") "\"");
	to = put_hash(to, span->key_hash);
	to = WEIR__PUT(to, "\"}}," ATTRIBUTE("rate_limiter.delay_ms", "intValue") "\"");
	to = weir__put_digits(to, ms_of(span->delay));
	if (span->shadow_denied > 0) {
		to = WEIR__PUT(to, "\"}}," ATTRIBUTE("rate_limiter.shadow_denied", "intValue") "\"");
		to = weir__put_digits(to, span->shadow_denied);
	}
	return WEIR__PUT(to, "\"}}");
}

static char *put_span(char *to, const struct weir__span *span)
{
	to = WEIR__PUT(to, "{\"traceId\":\"");
	to = put_hex(to, span->trace, WEIR__TRACE_ID);
	to = WEIR__PUT(to, "\",\"spanId\":\"");
	to = put_hex(to, span->id, WEIR__SPAN_ID);
	to = WEIR__PUT(to, "\",\"name\":\"rate_limit\",\"kind\":");
	to = weir__put_digits(to, span->is_server ? KIND_SERVER : KIND_INTERNAL);
	to = WEIR__PUT(to, ",\"startTimeUnixNano\":\"");
	to = weir__put_digits(to, span->begun);
	to = WEIR__PUT(to, "\",\"endTimeUnixNano\":\"");
	to = weir__put_digits(to, span->ended);
	to = WEIR__PUT(to, "\",\"attributes\":[");
	to = put_attributes(to, span);
	to = WEIR__PUT(to, "],\"flags\":");
	to = weir__put_digits(to, FLAG_SAMPLED | FLAG_KNOWS_REMOTE | (span->has_parent ? FLAG_IS_REMOTE : 0));
	to = WEIR__PUT(to, ",\"status\":{}");
	if (span->has_parent) {
		to = WEIR__PUT(to, ",\"parentSpanId\":\"");
		to = put_hex(to, span->parent, WEIR__SPAN_ID);
		to = WEIR__PUT(to, "\"");
	}
	if (span->state[0] != '\0') {
		to = WEIR__PUT(to, ",\"traceState\":\"");
		to = put_text(to, span->state);
		to = WEIR__PUT(to, "\"");
	}
	return WEIR__PUT(to, "}");
}

char *weir__otlp_write(const struct weir__otlp_resource *resource, const struct weir__span *spans, size_t n)
{
	const size_t texts = strlen(resource->service) + 2 * strlen(resource->version) + strlen(resource->instance);
	char *const text = malloc(FIXED_MOST + BYTE_MOST * texts + n * SPAN_MOST);
	char *to = text;

	if (text == NULL)
		return NULL;
	to = WEIR__PUT(to, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[" ATTRIBUTE("service.name",
											   "stringValue") "\"");
	to = put_text(to, resource->service);
	to = WEIR__PUT(to, "\"}}," ATTRIBUTE("service.version", "stringValue") "\"");
	to = put_text(to, resource->version);
	to = WEIR__PUT(to, "\"}}," ATTRIBUTE("service.instance.id", "stringValue") "\"");
	to = put_text(to, resource->instance);
	to = WEIR__PUT(to, "\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"weir\",\"version\":\"");
	to = put_text(to, resource->version);
	to = WEIR__PUT(to, "\"},\"spans\":[");
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			*to++ = ',';
		to = put_span(to, &spans[i]);
	}
	to = WEIR__PUT(to, "]}]}]}");
	*to = '\0';
	return text;
}

/* rejectedSpans is a string or a number, depending on the collector. */
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
