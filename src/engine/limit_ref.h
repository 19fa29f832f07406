/* limit_ref.h: what is asked of limits alike over every wire: as text or by name, one or several at once, to be held.
 *
 * Nothing here is answered: what is wrong is a refusal, an error of the list in errors.h, which each wire says in its own
 * way. */
#ifndef WEIR_ENGINE_LIMIT_REF_H
#define WEIR_ENGINE_LIMIT_REF_H

#include <weir/policy.h>

#include "engine/context.h"
#include "engine/errors.h"

struct weir__refusal {
	enum weir__error_number error;
	struct weir_message why; /* what follows the error's own text, or nothing */
};

/* Always false: so whoever refuses can return it. */
bool weir__refusal_set(struct weir__refusal *refusal, enum weir__error_number error, const char *why);

/* A limit that a request states, and the key. */
struct weir__limit_ref {
	const struct weir_table_limit *named; /* that of the policy, for @name; NULL: it is text, and says this: */
	struct weir_limit limit;
	const char *key; /* of @name as its requests have it: in the text that was given, or in the commands' keys */
	size_t key_length;
};

/* Whether it is a name, as in @per-client: no text of a limit begins so. */
static inline bool weir__limit_ref_is_named(const char *text, size_t length)
{
	return length > 0 && text[0] == '@';
}

bool weir__limit_ref_read_text(const char *text, size_t length, struct weir_limit *ret_limit,
			       struct weir__refusal *ret_refusal);

/* With the key as text. Refused with SAY_KEY: that is why. Keys that are written stay until weir__limit_ref_begin. */
bool weir__limit_ref_read(struct weir__context *context, const char *text, size_t length, const char *key,
			  size_t key_length, struct weir__limit_ref *ret_ref, struct weir__refusal *ret_refusal);

/* Before a request over a wire that gathers nothing: no key of another one is needed any more. */
static inline void weir__limit_ref_begin(struct weir__context *context)
{
	context->keys_used = 0;
}

/* The limit of the policy that has this name, which comes without its @. NULL: refused. */
const struct weir_table_limit *weir__limit_ref_find_named(const struct weir__context *context, const char *name,
							  size_t length, struct weir__refusal *ret_refusal);

/* A limit as text or by name, found or made, and the key, at no cost. False: refused. Good until the next is asked for. */
bool weir__limit_ref_find(struct weir__context *context, const char *text, size_t length, const char *key,
			  size_t key_length, struct weir_claim *ret_claim, struct weir__refusal *ret_refusal);

/* A bucket of `burst` that regains `count` units in each period: the state of its key is one instant, whatever these are.
 * A unit takes whole ns, as with redis-cell and throttlecrab. */
enum weir__limit_ref_bucket_result {
	WEIR__LIMIT_REF_BUCKET_SOUND,
	WEIR__LIMIT_REF_BUCKET_FAST, /* a unit would take less than 1 ns */
	WEIR__LIMIT_REF_BUCKET_LONG, /* no table can have it */
};
enum weir__limit_ref_bucket_result weir__limit_ref_bucket(uint64_t burst, uint64_t count, uint64_t period_s,
							  struct weir_limit *ret_limit);

/* max_burst, count, period in seconds and quantity, as throttlecrab has them. False: refused. */
enum { WEIR__THROTTLE_ARGUMENTS = 4 };
bool weir__limit_ref_throttle(const int64_t numbers[WEIR__THROTTLE_ARGUMENTS], struct weir_limit *ret_limit,
			      struct weir__refusal *ret_refusal);
bool weir__limit_ref_throttle_quantity(int64_t quantity, struct weir__refusal *ret_refusal);

/* Its answer: allowed, limit, remaining, reset_after and retry_after, the last two in whole seconds, rounded down. */
enum { WEIR__THROTTLE_NUMBERS = 5 };
void weir__limit_ref_throttle_numbers(const struct weir_claim *claim, const struct weir_verdict *verdict,
				      int64_t ret_numbers[WEIR__THROTTLE_NUMBERS]);

/* Limits of one request. One that would take the place of another among those that are kept, perhaps of this request, is
 * made here. The same limit twice is one: so the table knows a key that comes twice. */
struct weir__limit_refs {
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX];
	struct weir_limit stated[WEIR_TABLE_CLAIMS_MAX];
	struct weir_table_limit made[WEIR_TABLE_CLAIMS_MAX];
	size_t n;
};

/* One more, of which there are fewer than WEIR_TABLE_CLAIMS_MAX. */
bool weir__limit_refs_add(struct weir__limit_refs *refs, struct weir__context *context,
			  const struct weir__limit_ref *ref, uint64_t cost, struct weir__refusal *ret_refusal);

/* Changes the limit of the policy that has this name, until the next policy comes. */
struct weir__audit_who;
bool weir__limit_ref_change(struct weir__context *context, const struct weir__audit_who *who, const char *name,
			    size_t length, const struct weir_limit *to, struct weir__refusal *ret_refusal);

/* Whether the id, the key and the time of a hold are such as may be; lasts_ms is put into the request. */
bool weir__limit_ref_check_id(size_t length, struct weir__refusal *ret_refusal);
bool weir__limit_ref_check_hold(struct weir__hold_request *request, uint64_t lasts_ms,
				struct weir__refusal *ret_refusal);

enum { WEIR__HOLD_MS_MAX = 86400000 };

/* The words for the modes of limits. */
const char *weir__limit_ref_mode_word(enum weir_mode mode);

#endif
