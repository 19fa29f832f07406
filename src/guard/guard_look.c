/* guard_look.c: what keys and limits of the policy are, for those who look on. Nothing is decided here. */
#include <stdio.h>

#include "core/utf8.h"
#include "guard/guard_inside.h"
#include "policy/envoy.h"

/* --- keys as text ------------------------------------------------------------------------------------------------ */

/* Text that is cut where it does not fit. */
struct words {
	char *at;
	size_t size, length; /* one byte is for the NUL */
	bool is_full;
};

/* Pieces are not cut: they may be one character. */
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

/* Any bytes, as a value. */
static void put_bytes(struct words *words, const char *bytes, size_t n)
{
	char hex[8];

	for (size_t i = 0; i < n && !words->is_full;) {
		const struct weir__utf8 first = weir__utf8_first((const unsigned char *)bytes + i, n - i);
		const bool is_shown = first.is_character && first.character != '\\' &&
				      !weir__utf8_is_control(first.character) && !weir__utf8_is_unseen(first.character);

		if (is_shown)
			put(words, bytes + i, first.length);
		for (size_t j = 0; !is_shown && j < first.length; j++) {
			(void)snprintf(hex, sizeof(hex), "\\x%02x", (unsigned char)bytes[i + j]);
			put_text(words, hex);
		}
		i += first.length;
	}
}

/* A key that is taken apart. */
struct parts {
	const unsigned char *at;
	size_t n;      /* bytes that are left */
	size_t beyond; /* bytes of it that are not known, behind these */
	bool is_cut;   /* some of those were of the last part that was taken */
};

/* The next part, with its length before it. False: there is none. Of a part whose end is not known what is known is all. */
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

/* False: the policy does not make such a part. */
static bool put_part(struct words *words, const struct weir_policy *policy, const struct weir__key_part *part,
		     struct weir__slice bytes, bool is_cut)
{
	const struct weir__slice name = policy->attributes.of[part->attribute].name;

	put(words, name.at, name.n);
	put_text(words, "=");
	if (!part->is_address) {
		put_bytes(words, bytes.at, bytes.n);
		return true;
	}
	if (bytes.n > 0 && bytes.at[0] == 0) { /* what should be an address and is none */
		put_bytes(words, bytes.at + 1, bytes.n - 1);
		return true;
	}
	return put_address(words, part, bytes) || is_cut;
}

static bool put_key(struct words *words, const struct weir_policy *policy, const struct weir__policy_limit *limit,
		    struct parts parts)
{
	struct weir__slice part;

	if (limit->n_parts <= 1) {
		part = (struct weir__slice){ (const char *)parts.at, parts.n };
		return limit->n_parts == 0 ? parts.n == 0 :
					     put_part(words, policy, &limit->parts[0], part, parts.beyond > 0);
	}
	for (unsigned i = 0; i < limit->n_parts; i++) {
		if (parts.n < 2 && parts.beyond > 0)
			return true;
		if (!take_part(&parts, &part))
			return false;
		put_text(words, i ? " " : "");
		if (!put_part(words, policy, &limit->parts[i], part, parts.is_cut))
			return false;
	}
	return parts.n == 0 && parts.beyond == 0;
}

/* The domain, then names and values of entries. */
static bool put_descriptor(struct words *words, struct parts parts)
{
	struct weir__slice part;

	if (!take_part(&parts, &part))
		return false;
	put_text(words, "domain=");
	put_bytes(words, part.at, part.n);
	while (parts.n >= 2) {
		if (!take_part(&parts, &part))
			return false;
		put_text(words, " ");
		put_bytes(words, part.at, part.n);
		if (parts.n < 2 && (parts.beyond > 0 || parts.is_cut))
			return true;
		if (!take_part(&parts, &part))
			return false;
		put_text(words, "=");
		put_bytes(words, part.at, part.n);
	}
	return parts.n == 0 || parts.beyond > 0;
}

static bool put_by_plan(struct words *words, const struct weir_policy *policy, uint32_t plan, struct parts parts)
{
	if (plan == WEIR_POLICY_NO_PLAN)
		return false;
	if (policy->envoy)
		return put_descriptor(words, parts);
	return policy->n_limits > 0 && put_key(words, policy, weir__guard_limit_of_plan(policy, plan), parts);
}

/* Without a policy, NULL, as any bytes. */
static size_t write_key(const struct weir_policy *policy, uint32_t plan, struct parts parts, char *text, size_t size)
{
	struct words words = { text, size, 0, false };

	if (policy == NULL || !put_by_plan(&words, policy, plan, parts)) {
		words.length = 0;
		words.is_full = false;
		put_bytes(&words, (const char *)parts.at, parts.n);
	}
	if (parts.beyond > 0)
		put_text(&words, "...");
	text[words.length] = '\0';
	return words.length;
}

size_t weir__key_text(const void *key, size_t length, size_t whole, char *text, size_t size)
{
	return write_key(NULL, 0, (struct parts){ key, length, whole - length, false }, text, size);
}

/* A limit whose keys began anew has another name in the table: a sign, 16 digits and that of the plan (bound.c). */
static uint32_t plan_of(const struct weir__bound *bound, const char *name)
{
	const size_t length = strlen(name), anew = name[0] == '~' && length > 17 ? 17 : 0;

	return weir__bound_plan_named(bound, name + anew, length - anew);
}

size_t weir__guard_key_text(struct weir_guard *guard, const char *plan, const void *key, size_t length, size_t whole,
			    char *text, size_t size)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct weir__bound *const bound = atomic_load(&guard->bound);
	const size_t written = write_key(bound->policy, plan_of(bound, plan),
					 (struct parts){ key, length, whole - length, false }, text, size);

	weir__readers_leave(&guard->readers, phase);
	return written;
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

void weir__guard_walk(struct weir_guard *guard, uint32_t most,
		      void (*visit)(void *context, uint32_t plan, const struct weir_table_limit *limit), void *context)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct weir__bound *const bound = atomic_load(&guard->bound);
	const uint32_t n = weir_policy_plans(bound->policy);

	for (uint32_t i = 0; i < n && i < most; i++)
		if (bound->limits[i])
			visit(context, i, bound->limits[i]);
	weir__readers_leave(&guard->readers, phase);
}

static void view_claim(const struct weir_guard *guard, struct weir__seam *seam, const struct weir__bound *bound,
		       const struct weir_policy_claim *of, weir_ns now, struct weir__guard_view *view)
{
	const struct weir_table_limit *const limit = weir__bound_limit(bound, of->plan);
	const struct weir_claim claim = { limit, of->key, of->key_length, of->cost };

	view->name = weir_policy_plan_of(bound->policy, of->plan)->name;
	view->limit = limit;
	view->mode = of->mode;
	view->cost = of->cost;
	view->verdict = (struct weir_verdict){ .allowed = true, .granted = of->cost };
	if (limit && seam)
		(void)weir__seam_ask(seam, WEIR__SEAM_PEEK, &claim, 1, &view->verdict);
	else if (limit)
		view->verdict = weir_table_peek(guard->table, limit, of->key, of->key_length, now, of->cost);
	(void)write_key(bound->policy, of->plan,
			(struct parts){ (const unsigned char *)of->key, of->key_length, 0, false }, view->key,
			sizeof(view->key));
}

int weir__guard_view(struct weir_guard *guard, struct weir__seam *seam, const struct weir_attribute *attributes,
		     size_t n, uint64_t cost, weir_ns now,
		     void (*tell)(void *context, const struct weir__guard_view *view), void *context,
		     struct weir_message *ret_message)
{
	uint32_t phase = 0;
	const struct weir__bound *const bound = weir__guard_enter(guard, seam, &phase);
	struct weir_policy_answer matched;
	struct weir__guard_view view;
	const int error = weir__policy_match(bound->policy, attributes, n, cost, NULL, &matched, ret_message);

	for (size_t i = 0; error == WEIR_OK && i < matched.n; i++) {
		view_claim(guard, seam, bound, &matched.claims[i], now, &view);
		tell(context, &view);
	}
	weir__guard_leave(guard, seam, bound, phase);
	return error;
}
