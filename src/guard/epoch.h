/* epoch.h: who still looks at what is to be freed. Readers take no lock and never wait.
 *
 * A reader counts itself in before it looks, under the phase that it finds, and out when it is done. Whoever has put
 * something else in the place of what readers look at turns the phase over and waits until nobody is counted under the
 * one before; twice, since a reader may have read the phase and not yet counted itself. Counts are spread over lines, so
 * that threads do not meet. */
#ifndef WEIR_GUARD_EPOCH_H
#define WEIR_GUARD_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { WEIR__EPOCH_LINES = 64 };

struct weir__epoch {
	_Atomic uint32_t phase;
	struct {
		_Alignas(64) _Atomic uint32_t n[2];
	} lines[WEIR__EPOCH_LINES];
};

/* Where this thread counts itself: a number, 1 and up; 0: it has none yet. */
extern __thread uint32_t weir__epoch_reader_number_;
uint32_t weir__epoch_reader_number_new(void);

static inline uint32_t weir__epoch_line(void)
{
	const uint32_t number = weir__epoch_reader_number_;

	return (__builtin_expect(number != 0, 1) ? number : weir__epoch_reader_number_new()) % WEIR__EPOCH_LINES;
}

/* Returns what to leave with. */
static inline uint32_t weir__epoch_enter(struct weir__epoch *epoch)
{
	const uint32_t phase = atomic_load(&epoch->phase) & 1;

	atomic_fetch_add(&epoch->lines[weir__epoch_line()].n[phase], 1);
	return phase;
}

static inline void weir__epoch_leave(struct weir__epoch *epoch, uint32_t phase)
{
	atomic_fetch_sub(&epoch->lines[weir__epoch_line()].n[phase], 1);
}

/* Waits until all who entered before have left. One at a time. */
void weir__epoch_wait(struct weir__epoch *epoch);

#endif
