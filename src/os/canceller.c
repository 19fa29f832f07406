/* canceller.c: sleeping on a canceller's word, and waking. */
#include "os/canceller.h"

#include "os/futex.h"

void weir_canceller_cancel(struct weir_canceller *canceller)
{
	__atomic_fetch_or(&canceller->private_, 1, __ATOMIC_RELEASE);
	weir__futex_wake_all(&canceller->private_);
}

bool weir_canceller_is_cancelled(const struct weir_canceller *canceller)
{
	return weir__canceller_says_cancelled(weir__canceller_word(canceller));
}

void weir__canceller_sleep_until(struct weir_canceller *canceller, uint32_t word, weir_ns now, weir_ns when)
{
	if (when > now)
		weir__futex_wait(&canceller->private_, word, when == WEIR_NEVER ? WEIR_NEVER : when - now);
}

void weir__canceller_poke(struct weir_canceller *canceller)
{
	__atomic_fetch_add(&canceller->private_, 2, __ATOMIC_RELEASE);
	weir__futex_wake_all(&canceller->private_);
}
