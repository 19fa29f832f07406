/* guard_keys_read.c: parses keys of the policy's limits from text. */
#include "core/hex.h"
#include "core/text.h"
#include "guard/guard_internal.h"
#include "policy/envoy.h"
#include "policy/key_text.h"

/* The output buffer of a key. */
struct room {
	char *at;
	size_t size, used;
	bool is_full;
};

static bool write_bytes(struct room *room, const void *bytes, size_t n)
{
	room->is_full = room->is_full || n > room->size - room->used;
	if (room->is_full)
		return false;
	if (n > 0)
		memmove(room->at + room->used, bytes, n); /* may overlap: values are normalised in the room */
	room->used += n;
	return true;
}

/* The byte that a leading \xHH stands for; -1: not an escape. */
static int escape_at(struct weir__slice text)
{
	int high, low;

	if (text.n < 4 || text.at[0] != '\\' || text.at[1] != 'x')
		return -1;
	high = weir__hex_digit(text.at[2]);
	low = weir__hex_digit(text.at[3]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static bool has_escape(struct weir__slice text)
{
	const char *at = text.n > 0 ? memchr(text.at, '\\', text.n) : NULL;
	const char *const end = text.at + text.n;

	while (at && escape_at((struct weir__slice){ at, (size_t)(end - at) }) < 0)
		at = memchr(at + 1, '\\', (size_t)(end - at - 1));
	return at != NULL;
}

static bool write_unescaped(struct room *room, struct weir__slice text)
{
	for (size_t i = 0; i < text.n;) {
		const int escaped = escape_at((struct weir__slice){ text.at + i, text.n - i });
		const char byte = escaped < 0 ? text.at[i] : (char)escaped;

		if (!write_bytes(room, &byte, 1))
			return false;
		i += escaped < 0 ? 1 : 4;
	}
	return true;
}

/* Writes an address as a request's value would be. Text that is not an address is written as it is if `may_be_none`. */
static bool write_address(struct room *room, const struct weir__key_part *part, struct weir__slice text,
			  bool may_be_none)
{
	struct weir__address address;
	unsigned bits, cut_to;
	char length;

	if (!weir__key_network(text, &address, &bits))
		return may_be_none && write_bytes(room, "", 1) && write_bytes(room, text.at, text.n);
	cut_to = address.is_v6 ? part->bits_v6 : part->bits_v4;
	if (bits != UINT32_MAX && bits != cut_to)
		return false;
	address = weir__address_mask(&address, cut_to);
	length = (char)weir__address_length(&address);
	return write_bytes(room, &length, 1) && write_bytes(room, address.bytes, weir__address_length(&address));
}

/* `is_shown`: the text follows its NAME=, and may have escapes. Returns false if it is not a value of this part, or
 * does not fit. */
static bool write_value(struct room *room, const struct weir_policy *policy, const struct weir__key_part *part,
			struct weir__slice text, bool is_shown)
{
	const struct weir__attribute *const attribute = &policy->attributes.of[part->attribute];

	if (is_shown && (text.n == 0 || has_escape(text)))
		return (!part->is_address || write_bytes(room, "", 1)) && write_unescaped(room, text);
	/* A value needs at most this much. An address may need more than its text, but is short. */
	if (text.n + 2 > room->size - room->used) {
		room->is_full = true;
		return false;
	}
	/* Normalise one byte further on: an address's length, or a 0 for "not an address", may go in front. */
	text = weir__attribute_normalise(attribute, text, room->at + room->used + 1);
	if (part->is_address)
		return write_address(room, part, text, is_shown);
	return write_bytes(room, text.at, text.n);
}

/* Removes a leading NAME=. Returns false if the text does not begin with it. */
static bool take_name(struct weir__slice *text, struct weir__slice name)
{
	if (!weir__slice_begins_with(*text, name) || text->n == name.n || text->at[name.n] != '=')
		return false;
	*text = (struct weir__slice){ text->at + name.n + 1, text->n - name.n - 1 };
	return true;
}

/* Splits off the value before the next name. *text then begins with that name. Without a next name, the value is all of
 * it. Returns false if the next name is not found. */
static bool take_value(struct weir__slice *text, struct weir__slice next, struct weir__slice *ret_value)
{
	*ret_value = *text;
	if (next.at == NULL)
		return true;
	for (size_t i = 0; i < text->n; i++) {
		const struct weir__slice rest = { text->at + i + 1, text->n - i - 1 };
		struct weir__slice behind = rest;

		if (text->at[i] == ' ' && take_name(&behind, next)) {
			ret_value->n = i;
			*text = rest;
			return true;
		}
	}
	return false;
}

static bool read_parts(struct room *room, const struct weir_policy *policy, const struct weir__policy_limit *limit,
		       struct weir__slice text)
{
	for (unsigned i = 0; i < limit->n_parts; i++) {
		const size_t begin = room->used;
		struct weir__slice value;
		size_t n;

		if (!take_name(&text, weir__key_part_name(policy, limit, i)) ||
		    !take_value(&text, weir__key_part_name(policy, limit, i + 1), &value) ||
		    !write_bytes(room, "\0", 2) || !write_value(room, policy, &limit->parts[i], value, true))
			return false;
		n = room->used - begin - 2; /* less than the room, so it fits in two bytes */
		room->at[begin] = (char)(n & 0xff);
		room->at[begin + 1] = (char)(n >> 8);
	}
	return true;
}

/* Text that needs no change is not copied. */
static bool read_part(struct room *room, const struct weir_policy *policy, const struct weir__key_part *part,
		      struct weir__slice text, struct weir__guard_key *ret_key)
{
	const struct weir__attribute *const attribute = &policy->attributes.of[part->attribute];
	const bool is_shown = take_name(&text, attribute->name);

	if (attribute->type == WEIR__TEXT_ATTRIBUTE && !attribute->is_lowered && !(is_shown && has_escape(text))) {
		ret_key->bytes = text.at;
		ret_key->length = text.n;
		return true;
	}
	if (!write_value(room, policy, part, text, is_shown))
		return false;
	ret_key->bytes = room->at;
	ret_key->length = ret_key->written = room->used;
	return true;
}

/* Whether the text begins with a space and another entry: a = comes before the next space. */
static bool begins_entry(struct weir__slice text)
{
	for (size_t i = 1; text.at[0] == ' ' && i < text.n && text.at[i] != ' '; i++)
		if (text.at[i] == '=')
			return true;
	return false;
}

/* Splits off one of Envoy's entries, NAME=VALUE, and unescapes it into the room. */
static bool take_entry(struct room *room, struct weir__slice *text, struct weir_attribute *ret_entry)
{
	const char *const sign = memchr(text->at, '=', text->n);
	struct weir__slice entry = { text->at, 0 };
	const size_t begin = room->used;
	size_t name_length;

	while (entry.n < text->n && !begins_entry((struct weir__slice){ text->at + entry.n, text->n - entry.n }))
		entry.n++;

	if (sign == NULL || sign >= entry.at + entry.n ||
	    !write_unescaped(room, (struct weir__slice){ entry.at, (size_t)(sign - entry.at) }))
		return false;
	name_length = room->used - begin;
	if (!write_unescaped(room, (struct weir__slice){ sign + 1, entry.n - (size_t)(sign + 1 - entry.at) }))
		return false;
	*ret_entry = (struct weir_attribute){ room->at + begin, name_length, room->at + begin + name_length,
					      room->used - begin - name_length };
	*text = (struct weir__slice){ text->at + entry.n, text->n - entry.n };
	if (text->n > 0) /* the separator */
		*text = (struct weir__slice){ text->at + 1, text->n - 1 };
	return true;
}

/* Makes the key of a request with these entries. Returns false if it is not a key of this plan. */
static bool read_descriptor(struct room *room, const struct weir_policy *policy, uint32_t plan, struct weir__slice text)
{
	struct weir_attribute entries[WEIR__ENVOY_ENTRIES_MAX + 1];
	struct weir_policy_answer matched;
	size_t n = 0;

	do {
		if (n > WEIR__ENVOY_ENTRIES_MAX || text.n == 0 || !take_entry(room, &text, &entries[n++]))
			return false;
	} while (text.n > 0);
	room->used = 0;
	return weir__envoy_match(policy, entries, n, 0, &matched, NULL) == WEIR_OK && matched.n == 1 &&
	       matched.claims[0].plan == plan && write_bytes(room, matched.claims[0].key, matched.claims[0].key_length);
}

static bool read_plain_key(struct room *room, const struct weir_policy *policy, uint32_t plan, struct weir__slice text,
			   struct weir__guard_key *ret_key)
{
	const struct weir__policy_limit *const limit = policy->envoy ? NULL : weir__policy_limit_of_plan(policy, plan);

	ret_key->bytes = text.at;
	ret_key->length = text.n;
	ret_key->written = 0;
	if (limit && limit->n_parts == 0)
		return text.n == 0;
	if (limit && limit->n_parts == 1)
		return read_part(room, policy, &limit->parts[0], text, ret_key);
	if (!(limit ? read_parts(room, policy, limit, text) : read_descriptor(room, policy, plan, text)))
		return false;
	ret_key->bytes = room->at;
	ret_key->length = ret_key->written = room->used;
	return true;
}

/* Whether the prefix is meant, and not the beginning of the value of a limit by one attribute: NAME= follows it. */
static bool has_name_behind(const struct weir_policy *policy, uint32_t plan, struct weir__slice rest)
{
	const struct weir__policy_limit *const limit = policy->envoy ? NULL : weir__policy_limit_of_plan(policy, plan);

	return limit && limit->n_parts == 1 && take_name(&rest, weir__key_part_name(policy, limit, 0));
}

/* The text may begin with the prefix of a tenant, which stays as it is. */
static bool read_key(struct room *room, const struct weir_policy *policy, uint32_t plan, struct weir__slice text,
		     struct weir__guard_key *ret_key)
{
	const size_t n = weir__key_prefix_length(text);
	const struct weir__slice rest = { text.at + n, text.n - n };
	struct room behind;

	if ((n == 0 || !has_name_behind(policy, plan, rest)) && read_plain_key(room, policy, plan, text, ret_key))
		return true;
	if (n == 0 || n > room->size)
		return false;
	room->used = 0;
	behind = (struct room){ room->at + n, room->size - n, 0, false };
	if (!read_plain_key(&behind, policy, plan, rest, ret_key) || ret_key->length > behind.size) {
		room->is_full |= behind.is_full;
		return false;
	}
	if (ret_key->length > 0)
		memmove(behind.at, ret_key->bytes, ret_key->length);
	memcpy(room->at, text.at, n);
	ret_key->bytes = room->at;
	ret_key->length = ret_key->written = n + ret_key->length;
	return true;
}

/* --- error messages ---------------------------------------------------------------------------------------------- */

/* Writes an example of a part. */
static void write_example(const struct weir_policy *policy, const struct weir__key_part *part, char *text, size_t size)
{
	static const unsigned char bytes[4] = { 192, 0, 2, 1 };
	const bool is_path = policy->attributes.of[part->attribute].type == WEIR__PATH_ATTRIBUTE;
	struct weir__slice example = weir__slice_of(is_path ? "/abc" : "abc");
	struct weir__address address;
	char key[1 + sizeof(bytes)];

	if (part->is_address) {
		address = weir__address_of(bytes, false);
		address = weir__address_mask(&address, part->bits_v4);
		key[0] = sizeof(bytes);
		memcpy(key + 1, address.bytes, sizeof(bytes));
		example = (struct weir__slice){ key, sizeof(key) };
	}
	(void)weir__key_part_text(policy, part, example, text, size);
}

/* Writes what the keys of a limit consist of, and an example. */
static void explain_key(const struct weir_policy *policy, const struct weir__policy_limit *limit,
			struct weir__text *why)
{
	char example[WEIR__ATTRIBUTE_NAME_MAX + 32];

	for (unsigned i = 0; i < limit->n_parts; i++) {
		weir__text_add(why, i == 0 ? "" : i + 1 == limit->n_parts ? " and " : ", ");
		weir__text_add(why, weir__key_part_name(policy, limit, i).at);
	}
	weir__text_add(why, ", as in");
	for (unsigned i = 0; i < limit->n_parts; i++) {
		write_example(policy, &limit->parts[i], example, sizeof(example));
		weir__text_add(why, " ");
		weir__text_add(why, example);
	}
	if (limit->n_parts == 1) {
		weir__text_add(why, " or ");
		weir__text_add(why, example + weir__key_part_name(policy, limit, 0).n + 1);
	}
}

static void explain_keys(const struct weir_policy *policy, uint32_t plan, struct weir__text *why)
{
	const struct weir__policy_limit *const limit = policy->envoy ? NULL : weir__policy_limit_of_plan(policy, plan);

	if (limit && limit->n_parts == 0) {
		weir__text_add(why, ", where all requests share the empty key");
		return;
	}
	weir__text_add(why, ", whose keys are made of ");
	if (limit)
		explain_key(policy, limit, why);
	else
		weir__text_add(why, "the domain and the entries of a descriptor, as in domain=shop user=abc");
}

enum { SHOWN = 40 };

static int refuse_key(const struct weir_policy *policy, uint32_t plan, struct weir__slice text, bool is_full,
		      struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);
	char shown[4 * SHOWN + 4];

	(void)weir__key_text(text.at, text.n < SHOWN ? text.n : SHOWN, text.n, shown, sizeof(shown));
	weir__text_add(&why, "\"");
	weir__text_add(&why, shown);
	weir__text_add(&why, is_full ? "\" is too long: all keys of a request have at most 16384 bytes" :
				       "\" is not a key of @");
	if (is_full)
		return WEIR_ERR_FULL;
	weir__text_add(&why, policy->plans[plan].name);
	explain_keys(policy, plan, &why);
	return WEIR_ERR_SYNTAX;
}

int weir__guard_read_key(struct weir_guard *guard, const char *plan, size_t plan_length, const char *text,
			 size_t length, char *room_at, size_t size, struct weir__guard_key *ret_key,
			 struct weir_message *ret_message)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t number = weir__bound_policy_plan_named(bound, plan, plan_length);
	struct room room = { room_at, size, 0, false };
	int error = WEIR_OK;

	ret_key->limit = number == WEIR_POLICY_NO_PLAN ? NULL : weir__bound_policy_limit(bound, number);
	if (ret_key->limit == NULL)
		error = WEIR_ERR_LIMIT;
	else if (!read_key(&room, bound->policy, number, (struct weir__slice){ text, length }, ret_key))
		error = refuse_key(bound->policy, number, (struct weir__slice){ text, length }, room.is_full,
				   ret_message);
	weir__epoch_leave(&guard->epoch, phase);
	return error;
}
