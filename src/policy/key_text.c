/* key_text.c: splits a key into the parts from which weir__policy_key or envoy.c built it. */
#include "policy/key_text.h"

#include <stdio.h>

#include "core/decimal.h"
#include "core/utf8.h"
#include "policy/envoy.h"

/* --- values ----------------------------------------------------------------------------------------------------- */

bool weir__key_network(struct weir__slice text, struct weir__address *ret_address, unsigned *ret_bits)
{
	const char *slash;
	struct weir__slice bits;
	uint64_t number;

	*ret_bits = UINT32_MAX;
	if (weir__address_read(text, ret_address))
		return true;
	slash = text.n > 0 ? memchr(text.at, '/', text.n) : NULL;
	if (slash == NULL ||
	    !weir__address_read((struct weir__slice){ text.at, (size_t)(slash - text.at) }, ret_address))
		return false;
	bits = (struct weir__slice){ slash + 1, text.n - (size_t)(slash + 1 - text.at) };
	if (!weir__decimal_read(bits.at, bits.n, 999, &number))
		return false;
	*ret_bits = (unsigned)number;
	return bits.n <= 3;
}

enum { NORMALISED_MOST = 1024 };

/* Whether a value of a key that is not an address would be parsed into the same bytes. Returns false without trying if
 * it has to be normalised and is too long for that. */
static bool reads_as_itself(const struct weir__key_part *part, const struct weir__attribute *attribute,
			    struct weir__slice value)
{
	char room[NORMALISED_MOST];
	struct weir__address address;
	unsigned bits;

	if (value.n == 0)
		return true;
	if (part->is_address && weir__key_network(value, &address, &bits))
		return false;
	if (attribute->type != WEIR__PATH_ATTRIBUTE && !attribute->is_lowered)
		return true;
	return value.n < sizeof(room) && weir__slice_equal(weir__attribute_normalise(attribute, value, room), value);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* Text that is cut if it does not fit. */
struct words {
	char *at;
	size_t size, length; /* one byte is reserved for the NUL */
	bool is_full;
};

/* A piece is written completely or not at all: it may be a multi-byte character. */
static void put(struct words *words, const char *bytes, size_t n)
{
	words->is_full = words->is_full || n >= words->size - words->length;
	if (words->is_full || n == 0)
		return;
	memcpy(words->at + words->length, bytes, n);
	words->length += n;
}

static void put_text(struct words *words, const char *text)
{
	put(words, text, strlen(text));
}

/* The bytes that a parser would take for the end of a value. */
struct ends {
	const char *bytes;       /* any of these bytes; NULL: none */
	struct weir__slice name; /* a space and this name; .at NULL: none */
	bool is_marked;          /* the first byte is escaped, whatever it is */
	bool is_entry;           /* a space, if the rest could be another entry in Envoy's format */
};

/* Whether the rest of a value, after a space, could be taken for the next name. A backslash in the name may look like
 * an escape. If the value ends early, the name itself follows it in the text. */
static bool is_like_name(struct weir__slice rest, struct weir__slice name)
{
	for (size_t i = 0; i < name.n && i < rest.n && name.at[i] != '\\'; i++)
		if (rest.at[i] != name.at[i])
			return false;
	return rest.n <= name.n || memchr(name.at, '\\', name.n) || rest.at[name.n] == '=';
}

static bool ends_value(const struct ends *ends, struct weir__slice rest)
{
	if (ends->is_entry && rest.at[0] == ' ' && memchr(rest.at, '=', rest.n))
		return true;
	if (ends->bytes && rest.at[0] != '\0' && strchr(ends->bytes, rest.at[0]))
		return true;
	return ends->name.at && rest.at[0] == ' ' &&
	       is_like_name((struct weir__slice){ rest.at + 1, rest.n - 1 }, ends->name);
}

static const struct ends no_ends = { .bytes = NULL };

/* Writes any bytes as a value. */
static void put_bytes(struct words *words, struct weir__slice bytes, const struct ends *ends)
{
	char hex[8];

	for (size_t i = 0; i < bytes.n && !words->is_full;) {
		const struct weir__slice rest = { bytes.at + i, bytes.n - i };
		const struct weir__utf8 first = weir__utf8_first((const unsigned char *)rest.at, rest.n);
		const bool is_shown = first.is_character && first.character != '\\' &&
				      !weir__utf8_is_control(first.character) &&
				      !weir__utf8_is_unseen(first.character) && !(i == 0 && ends->is_marked) &&
				      !ends_value(ends, rest);

		if (is_shown)
			put(words, rest.at, first.length);
		for (size_t j = 0; !is_shown && j < first.length; j++) {
			(void)snprintf(hex, sizeof(hex), "\\x%02x", (unsigned char)rest.at[j]);
			put_text(words, hex);
		}
		i += first.length;
	}
}

/* A key that is being split. */
struct parts {
	const unsigned char *at;
	size_t n;      /* bytes left */
	size_t beyond; /* bytes of the key after these that are unknown */
	bool is_cut;   /* some of the unknown bytes belong to the last part taken */
};

/* Takes the next part, which has its length before it. Returns false if there is none. If the end of a part is unknown,
 * returns its known beginning. */
static bool take_part(struct parts *parts, struct weir__slice *ret_part)
{
	size_t n;

	if (parts->n < 2)
		return false;
	n = parts->at[0] | (size_t)parts->at[1] << 8;
	parts->at += 2;
	parts->n -= 2;
	if (n > parts->n) {
		if (n - parts->n > parts->beyond)
			return false;
		parts->beyond -= n - parts->n;
		parts->is_cut = true;
		n = parts->n;
	}
	*ret_part = (struct weir__slice){ (const char *)parts->at, n };
	parts->at += n;
	parts->n -= n;
	return true;
}

static bool put_address(struct words *words, const struct weir__key_part *part, struct weir__slice bytes)
{
	const bool is_v6 = bytes.n == 17 && bytes.at[0] == 16;
	const unsigned bits = is_v6 ? part->bits_v6 : part->bits_v4;
	char text[WEIR__ADDRESS_TEXT], mask[16];
	struct weir__address address;

	if (!is_v6 && !(bytes.n == 5 && bytes.at[0] == 4))
		return false;
	address = weir__address_of((const unsigned char *)bytes.at + 1, is_v6);
	weir__address_write(&address, text);
	put_text(words, text);
	(void)snprintf(mask, sizeof(mask), "/%u", bits);
	if (bits < (is_v6 ? 128 : 32))
		put_text(words, mask);
	return true;
}

/* `next` is the name of the next part. Returns false if the policy cannot have made such a part. */
static bool put_part(struct words *words, const struct weir_policy *policy, const struct weir__key_part *part,
		     struct weir__slice bytes, struct weir__slice next, bool is_cut)
{
	const struct weir__attribute *const attribute = &policy->attributes.of[part->attribute];
	struct ends ends = { .name = next };

	put(words, attribute->name.at, attribute->name.n);
	put_text(words, "=");
	if (part->is_address && (bytes.n == 0 || bytes.at[0] != 0))
		return put_address(words, part, bytes) || is_cut;
	if (part->is_address) /* the value of an address attribute that is not an address */
		bytes = (struct weir__slice){ bytes.at + 1, bytes.n - 1 };
	ends.is_marked = !reads_as_itself(part, attribute, bytes);
	put_bytes(words, bytes, &ends);
	return true;
}

struct weir__slice weir__key_part_name(const struct weir_policy *policy, const struct weir__policy_limit *limit,
				       unsigned part)
{
	return part < limit->n_parts ? policy->attributes.of[limit->parts[part].attribute].name :
				       (struct weir__slice){ NULL, 0 };
}

static bool put_key(struct words *words, const struct weir_policy *policy, const struct weir__policy_limit *limit,
		    struct parts parts)
{
	struct weir__slice part;

	if (limit->n_parts <= 1) {
		part = (struct weir__slice){ (const char *)parts.at, parts.n };
		return limit->n_parts == 0 ? parts.n == 0 :
					     put_part(words, policy, &limit->parts[0], part,
						      (struct weir__slice){ NULL, 0 }, parts.beyond > 0);
	}
	for (unsigned i = 0; i < limit->n_parts; i++) {
		if (parts.n < 2 && parts.beyond > 0)
			return true;
		if (!take_part(&parts, &part))
			return false;
		put_text(words, i ? " " : "");
		if (!put_part(words, policy, &limit->parts[i], part, weir__key_part_name(policy, limit, i + 1),
			      parts.is_cut))
			return false;
	}
	return parts.n == 0 && parts.beyond == 0;
}

/* The domain, then the names and values of the entries. */
static bool put_descriptor(struct words *words, struct parts parts)
{
	static const struct ends of_name = { .bytes = " =" }, of_value = { .is_entry = true };
	struct weir__slice part;

	if (!take_part(&parts, &part))
		return false;
	put_text(words, "domain=");
	put_bytes(words, part, &of_value);
	while (parts.n >= 2) {
		if (!take_part(&parts, &part))
			return false;
		put_text(words, " ");
		put_bytes(words, part, &of_name);
		if (parts.n < 2 && (parts.beyond > 0 || parts.is_cut))
			return true;
		if (!take_part(&parts, &part))
			return false;
		put_text(words, "=");
		put_bytes(words, part, &of_value);
	}
	return parts.n == 0 || parts.beyond > 0;
}

enum { PREFIX_MOST = 32 };

size_t weir__key_prefix_length(struct weir__slice bytes)
{
	for (size_t i = 0; i < bytes.n && i < PREFIX_MOST; i++) {
		const unsigned char c = (unsigned char)bytes.at[i];

		if (c == '/')
			return i > 0 ? i + 1 : 0;
		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    !(c != '\0' && strchr("._@-", c)))
			return 0;
	}
	return 0;
}

/* Whether the key of a limit by one attribute, which is not an address, needs an escape with its prefix, but not
 * without it. */
static bool is_better_split(const struct weir_policy *policy, const struct weir__policy_limit *limit,
			    struct weir__slice bytes, size_t prefix)
{
	const struct weir__key_part *const part = &limit->parts[0];
	const struct weir__attribute *const attribute = &policy->attributes.of[part->attribute];

	return limit->n_parts == 1 && !part->is_address && !reads_as_itself(part, attribute, bytes) &&
	       reads_as_itself(part, attribute, (struct weir__slice){ bytes.at + prefix, bytes.n - prefix });
}

/* Writes a key with its prefix in front. */
static bool put_tenant_key(struct words *words, const struct weir_policy *policy,
			   const struct weir__policy_limit *limit, struct parts parts, size_t prefix)
{
	words->length = 0;
	words->is_full = false;
	put(words, (const char *)parts.at, prefix);
	parts.at += prefix;
	parts.n -= prefix;
	return limit ? put_key(words, policy, limit, parts) : policy->envoy && put_descriptor(words, parts);
}

size_t weir__policy_key_text(const struct weir_policy *policy, const struct weir__policy_limit *limit,
			     const struct weir__key_bytes *key, char *text, size_t size)
{
	const struct parts parts = { key->at, key->n, key->whole - key->n, false };
	struct words words = { text, size, 0, false };
	const struct weir__slice bytes = { key->at, key->n };
	const size_t prefix = policy ? weir__key_prefix_length(bytes) : 0;
	bool is_made = policy && !(prefix > 0 && limit && is_better_split(policy, limit, bytes, prefix)) &&
		       (limit ? put_key(&words, policy, limit, parts) : policy->envoy && put_descriptor(&words, parts));

	if (!is_made && prefix > 0)
		is_made = put_tenant_key(&words, policy, limit, parts, prefix);
	if (!is_made) {
		words.length = 0;
		words.is_full = false;
		put_bytes(&words, (struct weir__slice){ key->at, key->n }, &no_ends);
	}
	if (parts.beyond > 0)
		put_text(&words, "...");
	text[words.length] = '\0';
	return words.length;
}

size_t weir__key_part_text(const struct weir_policy *policy, const struct weir__key_part *part,
			   struct weir__slice bytes, char *text, size_t size)
{
	struct words words = { text, size, 0, false };

	(void)put_part(&words, policy, part, bytes, (struct weir__slice){ NULL, 0 }, false);
	text[words.length] = '\0';
	return words.length;
}
