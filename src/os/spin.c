/* spin.c: when to start spinning, and when to stop. */
#include "os/spin.h"

enum { SHRINKS = 256 /* each wait that pays shortens the rest by 1/256: by half after some 180 */ };

static void note_sleep(struct weir__spin *spin, bool is_short, uint64_t now)
{
	spin->streak = is_short ? spin->streak + 1 : 0;
	if (spin->streak < WEIR__SPIN_STREAK || now < spin->rests_until)
		return;
	spin->streak = 0;
	spin->trust = WEIR__SPIN_TRUST;
}

static void note_spin(struct weir__spin *spin, bool is_short, uint64_t now)
{
	if (is_short) {
		if (spin->trust < WEIR__SPIN_TRUST_MAX)
			spin->trust++;
		else
			spin->rest_ns -= spin->rest_ns / SHRINKS;
		return;
	}
	spin->trust -= WEIR__SPIN_TRUST;
	if (weir__spin_is_on(spin))
		return;
	spin->rest_ns = spin->rest_ns < WEIR__SPIN_REST_LEAST_NS    ? WEIR__SPIN_REST_LEAST_NS :
			spin->rest_ns > WEIR__SPIN_REST_MOST_NS / 2 ? WEIR__SPIN_REST_MOST_NS :
								      2 * spin->rest_ns;
	spin->rests_until = now + spin->rest_ns;
}

void weir__spin_note(struct weir__spin *spin, uint64_t waited_ns, uint64_t now)
{
	const bool is_short = waited_ns <= spin->most_ns;

	if (spin->most_ns == 0)
		return;
	if (weir__spin_is_on(spin))
		note_spin(spin, is_short, now);
	else
		note_sleep(spin, is_short, now);
}
