/* rls.c: RateLimitRequest and RateLimitResponse. */
#include "wire/rls.h"

#include <stdlib.h>

#include "core/utf8.h"

/* --- the request ------------------------------------------------------------------------------------------------- */

static const char malformed[] = "the message is not a RateLimitRequest of envoy.service.ratelimit.v3";

static const char *read_entry(const struct weir__protobuf_field *of, struct weir_attribute *ret_entry)
{
	struct weir__protobuf message = weir__protobuf_of(of->bytes, of->length);
	struct weir__protobuf_field field;

	*ret_entry = (struct weir_attribute){ "", 0, "", 0 };
	while (weir__protobuf_next(&message, &field))
		if (weir__protobuf_is(&field, 1, WEIR__PROTOBUF_BYTES)) {
			ret_entry->name = (const char *)field.bytes;
			ret_entry->name_length = field.length;
		} else if (weir__protobuf_is(&field, 2, WEIR__PROTOBUF_BYTES)) {
			ret_entry->value = (const char *)field.bytes;
			ret_entry->value_length = field.length;
		}
	return message.is_bad ? malformed : NULL;
}

/* An inline limit, which replaces the limit of the policy. */
static const char *read_limit(const struct weir__protobuf_field *of, struct weir_descriptor *descriptor)
{
	struct weir__protobuf message = weir__protobuf_of(of->bytes, of->length);
	struct weir__protobuf_field field;
	uint64_t unit = WEIR_UNIT_NONE;

	descriptor->requests_per_unit = 0;
	while (weir__protobuf_next(&message, &field))
		if (weir__protobuf_is(&field, 1, WEIR__PROTOBUF_NUMBER))
			descriptor->requests_per_unit = (uint32_t)field.value;
		else if (weir__protobuf_is(&field, 2, WEIR__PROTOBUF_NUMBER))
			unit = field.value;
	if (message.is_bad)
		return malformed;
	if (unit == WEIR_UNIT_NONE || unit > WEIR_UNIT_WEEK)
		return "descriptors.limit.unit: use SECOND, MINUTE, HOUR, DAY, MONTH, YEAR or WEEK";
	descriptor->unit = (enum weir_unit)unit;
	return NULL;
}

static bool read_hits(const struct weir__protobuf_field *of, struct weir_descriptor *descriptor)
{
	struct weir__protobuf message = weir__protobuf_of(of->bytes, of->length);
	struct weir__protobuf_field field;

	descriptor->has_hits = true;
	descriptor->hits = 0;
	while (weir__protobuf_next(&message, &field))
		if (weir__protobuf_is(&field, 1, WEIR__PROTOBUF_NUMBER))
			descriptor->hits = field.value;
	return !message.is_bad;
}

static const char *read_descriptor(const struct weir__protobuf_field *of, struct weir__rls_request *request)
{
	struct weir_descriptor *const descriptor = &request->descriptors[request->n];
	struct weir__protobuf message = weir__protobuf_of(of->bytes, of->length);
	struct weir__protobuf_field field;
	const char *why = NULL;

	if (request->n == WEIR_DESCRIPTORS_MAX)
		return "descriptors: use at most 64";
	request->n++;
	*descriptor = (struct weir_descriptor){ .entries = &request->entries[request->n_entries],
						.unit = WEIR_UNIT_NONE };
	while (why == NULL && weir__protobuf_next(&message, &field)) {
		if (weir__protobuf_is(&field, 1, WEIR__PROTOBUF_BYTES)) {
			if (request->n_entries == WEIR__RLS_ENTRIES_MAX)
				return "descriptors.entries: use at most 512 in all descriptors";
			why = read_entry(&field, &request->entries[request->n_entries++]);
			descriptor->n++;
		} else if (weir__protobuf_is(&field, 2, WEIR__PROTOBUF_BYTES)) {
			why = read_limit(&field, descriptor);
		} else if (weir__protobuf_is(&field, 3, WEIR__PROTOBUF_BYTES)) {
			if (!read_hits(&field, descriptor))
				return malformed;
		} else if (weir__protobuf_is(&field, 4, WEIR__PROTOBUF_NUMBER)) {
			descriptor->is_refund = field.value != 0;
		}
	}
	return message.is_bad ? malformed : why;
}

const char *weir__rls_read(const void *bytes, size_t n, struct weir__rls_request *ret_request)
{
	struct weir__protobuf message = weir__protobuf_of(bytes, n);
	struct weir__protobuf_field field;
	const char *why = NULL;
	uint32_t hits = 0;

	ret_request->domain = "";
	ret_request->domain_length = ret_request->n = ret_request->n_entries = 0;
	while (why == NULL && weir__protobuf_next(&message, &field)) {
		if (weir__protobuf_is(&field, 1, WEIR__PROTOBUF_BYTES)) {
			ret_request->domain = (const char *)field.bytes;
			ret_request->domain_length = field.length;
		} else if (weir__protobuf_is(&field, 2, WEIR__PROTOBUF_BYTES)) {
			why = read_descriptor(&field, ret_request);
		} else if (weir__protobuf_is(&field, 3, WEIR__PROTOBUF_NUMBER)) {
			hits = (uint32_t)field.value;
		}
	}
	ret_request->sent_hits = hits;
	ret_request->hits = hits == 0 ? 1 : hits; /* in protobuf, 0 and missing are the same */
	return message.is_bad ? malformed : why;
}

/* --- the response ------------------------------------------------------------------------------------------------ */

static uint64_t saturate(uint64_t number)
{
	return number > UINT32_MAX ? UINT32_MAX : number;
}

void weir__rls_write_code(struct weir__protobuf_out *out, enum weir__rls_code code)
{
	weir__protobuf_add_number(out, 1, code);
}

void weir__rls_write_status(struct weir__protobuf_out *out, const struct weir__rls_status *status)
{
	const size_t begin = weir__protobuf_begin(out, 2);
	size_t inner;

	weir__protobuf_add_number(out, 1, status->code);
	if (status->has_limit) {
		inner = weir__protobuf_begin(out, 2);
		weir__protobuf_add_number(out, 1, saturate(status->requests_per_unit));
		weir__protobuf_add_number(out, 2, status->unit);
		if (status->name)
			weir__protobuf_add_text(out, 3, status->name);
		weir__protobuf_end(out, inner);
	}
	weir__protobuf_add_number(out, 3, saturate(status->remaining));
	if (status->has_reset) {
		inner = weir__protobuf_begin(out, 4);
		weir__protobuf_add_number(out, 1, status->reset_s);
		weir__protobuf_end(out, inner);
	}
	weir__protobuf_end(out, begin);
}

void weir__rls_write_header(struct weir__protobuf_out *out, const char *name, const char *value)
{
	const size_t begin = weir__protobuf_begin(out, 3);

	weir__protobuf_add_text(out, 1, name);
	weir__protobuf_add_text(out, 2, value);
	weir__protobuf_end(out, begin);
}

/* A string must be UTF-8, or readers reject the whole response. But a client may have sent any bytes. */
static void put_string(struct weir__protobuf_out *out, const char *bytes, size_t n)
{
	for (size_t at = 0; at < n;) {
		const struct weir__utf8 next = weir__utf8_first((const unsigned char *)bytes + at, n - at);

		if (next.is_character)
			weir__protobuf_put(out, bytes + at, next.length);
		else
			weir__protobuf_put(out, "\xef\xbf\xbd", 3); /* U+FFFD */
		at += next.length;
	}
}

static void add_string(struct weir__protobuf_out *out, uint32_t number, const char *bytes, size_t n)
{
	const size_t begin = weir__protobuf_begin(out, number);

	put_string(out, bytes, n);
	weir__protobuf_end(out, begin);
}

/* A google.protobuf.Struct is a map from names to Values. In a Value, field 1 is null, 2 a number as a double, 3 a
 * string, 4 a bool, 5 a Struct and 6 a list of Values. The field must be written even if its value is 0. End both
 * messages that these return by weir__protobuf_end, the inner one first. */
enum { OF_NULL = 1, OF_NUMBER, OF_STRING, OF_BOOL, OF_STRUCT, OF_LIST };

struct member {
	size_t entry, value;
};

static struct member begin_member(struct weir__protobuf_out *out, const char *name)
{
	struct member member;

	member.entry = weir__protobuf_begin(out, 1);
	weir__protobuf_add_text(out, 1, name);
	member.value = weir__protobuf_begin(out, 2);
	return member;
}

static void end_member(struct weir__protobuf_out *out, struct member member)
{
	weir__protobuf_end(out, member.value);
	weir__protobuf_end(out, member.entry);
}

static void add_text_member(struct weir__protobuf_out *out, const char *name, const char *text, size_t n)
{
	const struct member member = begin_member(out, name);

	add_string(out, OF_STRING, text, n);
	end_member(out, member);
}

/* Struct has only doubles. No decision depends on one. */
static void add_double(struct weir__protobuf_out *out, double value)
{
	weir__protobuf_put_varint(out, OF_NUMBER << 3 | WEIR__PROTOBUF_EIGHT);
	weir__protobuf_put(out, &value, sizeof(value));
}

static void add_number_member(struct weir__protobuf_out *out, const char *name, uint64_t number)
{
	const struct member member = begin_member(out, name);

	add_double(out, (double)number);
	end_member(out, member);
}

static void add_entries(struct weir__protobuf_out *out, const struct weir_descriptor *descriptor)
{
	const struct member member = begin_member(out, "entries");
	const size_t list = weir__protobuf_begin(out, OF_LIST);

	for (size_t i = 0; i < descriptor->n; i++) {
		const struct weir_attribute *const entry = &descriptor->entries[i];
		const size_t value = weir__protobuf_begin(out, 1), text = weir__protobuf_begin(out, OF_STRING);

		put_string(out, entry->name, entry->name_length);
		weir__protobuf_put(out, "=", 1);
		put_string(out, entry->value, entry->value_length);
		weir__protobuf_end(out, text);
		weir__protobuf_end(out, value);
	}
	weir__protobuf_end(out, list);
	end_member(out, member);
}

/* --- the metadata of limits ---------------------------------------------------------------------------------------- */

static const struct weir_metadata *find(const struct weir_metadata *map, const struct weir_metadata *named)
{
	const struct weir_metadata *at = map->members;

	while (at && (at->name_length != named->name_length || memcmp(at->name, named->name, at->name_length) != 0))
		at = at->next;
	return at;
}

/* The recursion is as deep as the policy's YAML, which is bounded, as is the number of its values. */
static void add_value(struct weir__protobuf_out *out, const struct weir_metadata *const *values, size_t n);

/* Writes the members of joined maps. A member is written where it first occurs, joined with later maps of the same
 * name. */
static void add_members(struct weir__protobuf_out *out, const struct weir_metadata *const *maps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (const struct weir_metadata *member = maps[i]->members; member; member = member->next) {
			const struct weir_metadata *values[WEIR_DESCRIPTORS_MAX] = { member };
			size_t n_values = 1, entry, value;
			bool is_first = true;

			for (size_t j = 0; j < i && is_first; j++)
				is_first = find(maps[j], member) == NULL;
			if (!is_first)
				continue;
			for (size_t j = i + 1; j < n && member->kind == WEIR_METADATA_MAP; j++) {
				const struct weir_metadata *const other = find(maps[j], member);

				if (other && other->kind == WEIR_METADATA_MAP)
					values[n_values++] = other;
			}
			entry = weir__protobuf_begin(out, 1);
			add_string(out, 1, member->name, member->name_length);
			value = weir__protobuf_begin(out, 2);
			add_value(out, values, n_values);
			weir__protobuf_end(out, value);
			weir__protobuf_end(out, entry);
		}
}

static void add_items(struct weir__protobuf_out *out, const struct weir_metadata *list)
{
	for (const struct weir_metadata *item = list->members; item; item = item->next) {
		const size_t value = weir__protobuf_begin(out, 1);

		add_value(out, &item, 1);
		weir__protobuf_end(out, value);
	}
}

/* Joins several values that are maps. */
static void add_value(struct weir__protobuf_out *out, const struct weir_metadata *const *values, size_t n)
{
	const struct weir_metadata *const value = values[0];
	size_t begin;

	switch (value->kind) {
	case WEIR_METADATA_NULL:
		weir__protobuf_put_varint(out, OF_NULL << 3 | WEIR__PROTOBUF_NUMBER);
		weir__protobuf_put_varint(out, 0);
		break;
	case WEIR_METADATA_FALSE:
	case WEIR_METADATA_TRUE:
		weir__protobuf_put_varint(out, OF_BOOL << 3 | WEIR__PROTOBUF_NUMBER);
		weir__protobuf_put_varint(out, value->kind == WEIR_METADATA_TRUE);
		break;
	case WEIR_METADATA_NUMBER:
		add_double(out, strtod(value->text, NULL));
		break;
	case WEIR_METADATA_TEXT:
		add_string(out, OF_STRING, value->text, value->text_length);
		break;
	case WEIR_METADATA_LIST:
		begin = weir__protobuf_begin(out, OF_LIST);
		add_items(out, value);
		weir__protobuf_end(out, begin);
		break;
	case WEIR_METADATA_MAP:
		begin = weir__protobuf_begin(out, OF_STRUCT);
		add_members(out, values, n);
		weir__protobuf_end(out, begin);
		break;
	}
}

static void add_metadata(struct weir__protobuf_out *out, const struct weir_metadata *const *metadata, size_t n)
{
	const struct weir_metadata *maps[WEIR_DESCRIPTORS_MAX];
	size_t n_maps = 0;
	struct member member;

	for (size_t i = 0; i < n; i++)
		if (metadata[i] && metadata[i]->members)
			maps[n_maps++] = metadata[i];
	if (n_maps == 0)
		return;
	member = begin_member(out, "metadata");
	add_value(out, maps, n_maps);
	end_member(out, member);
}

void weir__rls_write_metadata(struct weir__protobuf_out *out, const struct weir__rls_request *request,
			      const char *const *limits, const struct weir_metadata *const *metadata)
{
	const size_t begin = weir__protobuf_begin(out, 6);
	struct member descriptors;
	size_t list;

	add_text_member(out, "domain", request->domain, request->domain_length);
	descriptors = begin_member(out, "descriptors");
	list = weir__protobuf_begin(out, OF_LIST);
	for (size_t i = 0; i < request->n; i++) {
		const struct weir_descriptor *const descriptor = &request->descriptors[i];
		const size_t value = weir__protobuf_begin(out, 1), object = weir__protobuf_begin(out, OF_STRUCT);

		add_entries(out, descriptor);
		if (limits[i])
			add_text_member(out, "limit", limits[i], strlen(limits[i]));
		if (descriptor->has_hits)
			add_number_member(out, "hitsAddend", descriptor->hits);
		weir__protobuf_end(out, object);
		weir__protobuf_end(out, value);
	}
	weir__protobuf_end(out, list);
	end_member(out, descriptors);
	if (request->sent_hits > 0)
		add_number_member(out, "hitsAddend", request->sent_hits);
	add_metadata(out, metadata, request->n);
	weir__protobuf_end(out, begin);
}
