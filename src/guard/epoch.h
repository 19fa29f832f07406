/* epoch.h: waits until no reader uses an object that is to be freed. Readers take no lock and never wait.
 *
 * A reader increments a counter of the current phase before it reads the pointer, and decrements it when it is done. A
 * writer replaces the pointer, flips the phase, and waits until the counters of the previous phase are 0. It does so
 * twice, because a reader may have read the phase and not yet incremented the counter. The counters are spread over
 * cache lines, so that threads do not contend. */
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

/* This thread's reader number, which selects its counters: 1 and up; 0: not assigned yet. */
extern __thread uint32_t weir__epoch_reader_number_;
uint32_t weir__epoch_reader_number_new(void);

static inline uint32_t weir__epoch_line(void)
{
	const uint32_t number = weir__epoch_reader_number_;

	return (__builtin_expect(number != 0, 1) ? number : weir__epoch_reader_number_new()) % WEIR__EPOCH_LINES;
}

/* Returns the phase to pass to weir__epoch_leave. */
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

/* Waits until all readers that entered before the call have left. One caller at a time. */
void weir__epoch_wait(struct weir__epoch *epoch);

#endif
