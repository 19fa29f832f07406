/* stopper.h: stops an operation before one of its accesses to the table. Then another operation runs, or the first
 * never continues. For programs that link hooked_table.c and set table_hook to on_access. */
#ifndef WEIR_TESTS_STORE_STOPPER_H
#define WEIR_TESTS_STORE_STOPPER_H

#include <setjmp.h>
#include <stdbool.h>

#include "hooked_table.h"

static struct {
	bool is_on, has_stopped;
	unsigned accesses, stop_at;
	void (*then)(void); /* NULL: the operation is killed */
	jmp_buf death;
} stopper;

static inline void on_access(const void *at)
{
	(void)at;
	if (!stopper.is_on || stopper.accesses++ < stopper.stop_at)
		return;
	stopper.is_on = false;
	stopper.has_stopped = true;
	if (stopper.then == NULL)
		longjmp(stopper.death, 1);
	stopper.then();
}

/* Runs the operation, and after this many accesses `then`, or kills it there. False: it has fewer accesses. */
static inline bool stop_after(unsigned accesses, void (*operation)(void), void (*then)(void))
{
	stopper.accesses = 0;
	stopper.stop_at = accesses;
	stopper.then = then;
	stopper.has_stopped = false;
	if (setjmp(stopper.death) == 0) {
		stopper.is_on = true;
		operation();
	}
	stopper.is_on = false;
	return stopper.has_stopped;
}

#endif
