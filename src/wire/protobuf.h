/* protobuf.h: reads and writes the wire format of Protocol Buffers, field by field. Pure, and nothing is allocated.
 *
 * The server reads four small messages and writes two. A library would copy each string, or generate code. */
#ifndef WEIR_WIRE_PROTOBUF_H
#define WEIR_WIRE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* --- reading ----------------------------------------------------------------------------------------------------- */

struct weir__protobuf {
	const uint8_t *at, *end;
	bool is_bad; /* not Protocol Buffers */
};

enum weir__protobuf_type {
	WEIR__PROTOBUF_NUMBER = 0,
	WEIR__PROTOBUF_EIGHT = 1,
	WEIR__PROTOBUF_BYTES = 2,
	WEIR__PROTOBUF_FOUR = 5
};

struct weir__protobuf_field {
	uint32_t number;
	enum weir__protobuf_type type;
	uint64_t value;       /* NUMBER */
	const uint8_t *bytes; /* BYTES, in the message */
	size_t length;
};

static inline struct weir__protobuf weir__protobuf_of(const void *bytes, size_t n)
{
	return (struct weir__protobuf){ bytes, (const uint8_t *)bytes + n, false };
}

static inline bool weir__protobuf_varint(struct weir__protobuf *message, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 70 && message->at < message->end; shift += 7) {
		const uint8_t byte = *message->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret_value = value;
			return true;
		}
	}
	message->is_bad = true;
	return false;
}

/* Reads the next field. Returns false at the end, and if the message is bad. Groups, which proto3 does not have, are
 * bad. */
static inline bool weir__protobuf_next(struct weir__protobuf *message, struct weir__protobuf_field *ret_field)
{
	uint64_t key, length = 0;

	if (message->is_bad || message->at == message->end || !weir__protobuf_varint(message, &key))
		return false;
	if (key >> 3 == 0 || key > UINT32_MAX) {
		message->is_bad = true;
		return false;
	}
	ret_field->number = (uint32_t)(key >> 3);
	ret_field->type = (enum weir__protobuf_type)(key & 7);
	ret_field->value = 0;
	ret_field->bytes = message->at;
	ret_field->length = 0;
	switch (key & 7) {
	case WEIR__PROTOBUF_NUMBER:
		return weir__protobuf_varint(message, &ret_field->value);
	case WEIR__PROTOBUF_EIGHT:
		length = 8;
		break;
	case WEIR__PROTOBUF_FOUR:
		length = 4;
		break;
	case WEIR__PROTOBUF_BYTES:
		if (!weir__protobuf_varint(message, &length))
			return false;
		break;
	default:
		message->is_bad = true;
		return false;
	}
	if (length > (uint64_t)(message->end - message->at)) {
		message->is_bad = true;
		return false;
	}
	ret_field->bytes = message->at;
	ret_field->length = (size_t)length;
	message->at += length;
	return true;
}

static inline bool weir__protobuf_is(const struct weir__protobuf_field *field, uint32_t number,
				     enum weir__protobuf_type type)
{
	return field->number == number && field->type == type;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

/* What does not fit is left out, and is_full is set. */
struct weir__protobuf_out {
	uint8_t *bytes;
	size_t n, size;
	bool is_full;
};

static inline void weir__protobuf_put(struct weir__protobuf_out *out, const void *bytes, size_t n)
{
	if (n > out->size - out->n) {
		out->is_full = true;
		return;
	}
	if (n > 0)
		memcpy(out->bytes + out->n, bytes, n);
	out->n += n;
}

static inline void weir__protobuf_put_varint(struct weir__protobuf_out *out, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (uint8_t)(value | 0x80);
	bytes[n++] = (uint8_t)value;
	weir__protobuf_put(out, bytes, n);
}

/* A number; as in proto3, 0 is left out. */
static inline void weir__protobuf_add_number(struct weir__protobuf_out *out, uint32_t number, uint64_t value)
{
	if (value == 0)
		return;
	weir__protobuf_put_varint(out, (uint64_t)number << 3 | WEIR__PROTOBUF_NUMBER);
	weir__protobuf_put_varint(out, value);
}

static inline void weir__protobuf_add_bytes(struct weir__protobuf_out *out, uint32_t number, const void *bytes,
					    size_t n)
{
	weir__protobuf_put_varint(out, (uint64_t)number << 3 | WEIR__PROTOBUF_BYTES);
	weir__protobuf_put_varint(out, n);
	weir__protobuf_put(out, bytes, n);
}

static inline void weir__protobuf_add_text(struct weir__protobuf_out *out, uint32_t number, const char *text)
{
	weir__protobuf_add_bytes(out, number, text, strlen(text));
}

/* A message in a message. Its length takes three bytes, so that it can be written afterwards: readers accept longer
 * varints than necessary. weir__protobuf_begin returns where the message begins, for weir__protobuf_end. */
enum { WEIR__PROTOBUF_LENGTH = 3, WEIR__PROTOBUF_MOST = (1 << 21) - 1 };

static inline size_t weir__protobuf_begin(struct weir__protobuf_out *out, uint32_t number)
{
	static const uint8_t zeros[WEIR__PROTOBUF_LENGTH] = { 0 };

	weir__protobuf_put_varint(out, (uint64_t)number << 3 | WEIR__PROTOBUF_BYTES);
	weir__protobuf_put(out, zeros, sizeof(zeros));
	return out->n;
}

static inline void weir__protobuf_end(struct weir__protobuf_out *out, size_t begin)
{
	const size_t n = out->n - begin;

	if (out->is_full)
		return;
	out->bytes[begin - 3] = (uint8_t)(n | 0x80);
	out->bytes[begin - 2] = (uint8_t)(n >> 7 | 0x80);
	out->bytes[begin - 1] = (uint8_t)(n >> 14 & 0x7f);
}

#endif
