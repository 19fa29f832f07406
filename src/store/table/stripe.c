/* stripe.c: decides which thread counts in which stripe. */
#include "store/table/stripe.h"

__thread struct weir__stripe_in_use weir__stripe_in_use_ __attribute__((tls_model("initial-exec")));

static bool take(struct weir__stripe *stripe, uint64_t owner, uint64_t self)
{
	return owner == self || atomic_compare_exchange_strong(&stripe->owner, &owner, self);
}

/* Returns a stripe that this thread owns already, or else one without an owner, or else one whose owner has ended.
 * NULL: none is left. */
static struct weir__stripe *find_own(const struct weir__region *region)
{
	const uint64_t self = weir__thread_identity();
	uint64_t owner;

	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < WEIR__STRIPES; i++) {
			struct weir__stripe *const stripe = weir__region_stripe(region, i);

			owner = atomic_load(&stripe->owner);
			if ((round == 0 && owner != self) || (round == 1 && owner != 0) ||
			    (round == 2 && weir__thread_is_alive(owner)))
				continue;
			if (take(stripe, owner, self))
				return stripe;
		}
	return NULL;
}

void weir__stripe_find(const struct weir__region *region)
{
	const uint32_t thread = weir__thread_number();
	struct weir__stripe *const own = find_own(region);

	weir__stripe_in_use_ = (struct weir__stripe_in_use){
		.serial = region->serial,
		.stripe = own ? own : weir__region_stripe(region, WEIR__STRIPES + thread % WEIR__STRIPES_COMMON),
		.thread = thread,
		.is_own = own != NULL,
	};
}
