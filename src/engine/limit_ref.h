/* limit_ref.h: how requests refer to limits, the same over every protocol. A limit is given as text or by name, alone,
 * with others or for a hold.
 *
 * Nothing here writes a reply. An invalid request results in a weir__refusal: an error from errors.h, which each
 * protocol writes in its own form. */
#ifndef WEIR_ENGINE_LIMIT_REF_H
#define WEIR_ENGINE_LIMIT_REF_H

#include <weir/policy.h>

#include "engine/context.h"
#include "engine/errors.h"

struct weir__refusal {
	enum weir__error_number error;
	struct weir_message why; /* the detail after the error's text, or empty */
};

/* Returns false, so that a caller can return the call itself. */
bool weir__refusal_set(struct weir__refusal *refusal, enum weir__error_number error, const char *why);

/* A limit as a request states it, and the key. */
struct weir__limit_ref {
	const struct weir_table_limit *named; /* the policy's limit for @name; NULL: inline, see `limit` */
	struct weir_limit limit;
	const char *key; /* for @name in the policy's byte form; points into the request or into context->keys */
	size_t key_length;
};

/* Whether the text is a name, as in @per-client. No inline limit begins with @. */
static inline bool weir__limit_ref_is_named(const char *text, size_t length)
{
	return length > 0 && text[0] == '@';
}

bool weir__limit_ref_read_text(const char *text, size_t length, struct weir_limit *ret_limit,
			       struct weir__refusal *ret_refusal);

/* The prefix of the client's keys, with all of context->keys as its room. Returns false if the client has no prefix. */
static inline bool weir__limit_ref_prefix(struct weir__context *context, const struct weir__client *client,
					  struct weir__guard_prefix *ret_prefix)
{
	const struct weir__user *const user = client->user;

	if (user == NULL || user->prefix_length == 0)
		return false;
	*ret_prefix = (struct weir__guard_prefix){ user->key_prefix, user->prefix_length, context->keys,
						   sizeof(context->keys) };
	return true;
}

/* Puts the prefix of the client, if it has one, in front of the key, in context->keys. Returns false, and the refusal,
 * if it does not fit. */
bool weir__limit_ref_add_prefix(struct weir__context *context, const struct weir__client *client, const char **key,
				size_t *length, struct weir__refusal *ret_refusal);

/* Parses a limit and a key given as text, and puts the client's prefix in front of the key. Returns false if either is
 * invalid; for a bad key the error is WEIR__ERROR_KEY. Keys that are built in context->keys stay valid until
 * weir__limit_ref_begin. */
bool weir__limit_ref_read(struct weir__context *context, const struct weir__client *client, const char *text,
			  size_t length, const char *key, size_t key_length, struct weir__limit_ref *ret_ref,
			  struct weir__refusal *ret_refusal);

/* Call before a request of a protocol that does not batch requests: frees the keys that earlier requests built. */
static inline void weir__limit_ref_begin(struct weir__context *context)
{
	context->keys_used = 0;
}

/* Finds the policy's limit of this name, without the @. Returns NULL, and the refusal, if the policy has no limit of
 * this name. */
const struct weir_table_limit *weir__limit_ref_find_named(const struct weir__context *context, const char *name,
							  size_t length, struct weir__refusal *ret_refusal);

/* Finds or makes the limit and fills in the claim with cost 0. Returns false, and the refusal, if it is invalid. The
 * claim is valid until the next call. */
bool weir__limit_ref_find(struct weir__context *context, const struct weir__client *client, const char *text,
			  size_t length, const char *key, size_t key_length, struct weir_claim *ret_claim,
			  struct weir__refusal *ret_refusal);

/* Makes a bucket of `burst` that refills `count` units per period. The state of a key is one instant for any numbers,
 * so all such buckets can share it. A unit takes a whole number of ns, as in redis-cell and throttlecrab. */
enum weir__limit_ref_bucket_result {
	WEIR__LIMIT_REF_BUCKET_SOUND,
	WEIR__LIMIT_REF_BUCKET_FAST, /* a unit would take less than 1 ns */
	WEIR__LIMIT_REF_BUCKET_LONG, /* too long for any table */
};
enum weir__limit_ref_bucket_result weir__limit_ref_bucket(uint64_t burst, uint64_t count, uint64_t period_s,
							  struct weir_limit *ret_limit);

/* The numbers are max_burst, count, period in seconds, and quantity, as in throttlecrab. Returns false if they are
 * invalid. */
enum { WEIR__THROTTLE_ARGUMENTS = 4 };
bool weir__limit_ref_throttle(const int64_t numbers[WEIR__THROTTLE_ARGUMENTS], struct weir_limit *ret_limit,
			      struct weir__refusal *ret_refusal);
bool weir__limit_ref_throttle_quantity(int64_t quantity, struct weir__refusal *ret_refusal);

/* The reply of THROTTLE: allowed, limit, remaining, reset_after and retry_after. The last two are in whole seconds,
 * rounded down. */
enum { WEIR__THROTTLE_NUMBERS = 5 };
void weir__limit_ref_throttle_numbers(const struct weir_claim *claim, const struct weir_verdict *verdict,
				      int64_t ret_numbers[WEIR__THROTTLE_NUMBERS]);

/* The limits of one request. A limit that would evict another limit from the cache, perhaps one of the same request, is
 * made in `made`. Equal limits share one pointer, so that the table recognises a key that occurs twice. */
struct weir__limit_refs {
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX];
	struct weir_limit stated[WEIR_TABLE_CLAIMS_MAX];
	struct weir_table_limit made[WEIR_TABLE_CLAIMS_MAX];
	size_t n;
};

/* Adds a claim. n must be below WEIR_TABLE_CLAIMS_MAX. Returns false if the limit is invalid. */
bool weir__limit_refs_add(struct weir__limit_refs *refs, struct weir__context *context,
			  const struct weir__limit_ref *ref, uint64_t cost, struct weir__refusal *ret_refusal);

/* Changes the policy's limit of this name on this server, until the next policy is loaded. */
struct weir__audit_who;
bool weir__limit_ref_change(struct weir__context *context, const struct weir__audit_who *who, const char *name,
			    size_t length, const struct weir_limit *to, struct weir__refusal *ret_refusal);

/* Whether the policy's limit of this name can be changed this way, on all servers. A rejected change is logged like a
 * change. */
bool weir__limit_ref_check_change(struct weir__context *context, const struct weir__audit_who *who, const char *name,
				  size_t length, const struct weir_limit *to, struct weir__refusal *ret_refusal);

/* Checks the id, key and duration of a hold and sets request->lasts from lasts_ms. Returns false if one is out of
 * range. */
bool weir__limit_ref_check_id(size_t length, struct weir__refusal *ret_refusal);
bool weir__limit_ref_check_hold(struct weir__hold_request *request, uint64_t lasts_ms,
				struct weir__refusal *ret_refusal);

enum { WEIR__HOLD_MS_MAX = 86400000 };

/* "enforce", "shadow" or "off". */
const char *weir__limit_ref_mode_word(enum weir_mode mode);

#endif
