/* stopper.h: an operation that is stopped before one of its accesses to the table; then another one is done, or it never
 * goes on. For programs that link hooked_table.c, whose table_hook is on_access. */
#ifndef WEIR_TESTS_STORE_STOPPER_H
#define WEIR_TESTS_STORE_STOPPER_H

#include <setjmp.h>
#include <stdbool.h>

#include "hooked_table.h"

static struct {
	bool is_on, has_stopped;
	unsigned accesses, stop_at;
	void (*then)(void); /* NULL: it is killed */
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

/* Does it, and after so many accesses something else; or it is killed there. False: it has fewer. */
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
