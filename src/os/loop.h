/* loop.h: which of many descriptors is ready. A thin cover of epoll; errors are errno. */
#ifndef WEIR_OS_LOOP_H
#define WEIR_OS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "os/spin.h"

enum { WEIR__LOOP_EVENTS = 256 };

struct weir__loop {
	int epoll;
	int wake;  /* an eventfd: see weir__loop_wake */
	int alarm; /* a timerfd: see weir__loop_set_alarm */
	bool has_rung;
	bool was_woken; /* since its owner set this to false */
	struct weir__spin spin;
};

struct weir__loop_event {
	void *what; /* as it was added */
	bool can_read, can_write, is_over;
	bool has_left; /* the other end sends no more, or is over; whatever it has sent may still be there */
};

int weir__loop_init(struct weir__loop *loop);
void weir__loop_close(struct weir__loop *loop);

/* Says when there is something to read; with `writes` also when there is room to write. */
int weir__loop_add(struct weir__loop *loop, int descriptor, void *what);
int weir__loop_change(struct weir__loop *loop, int descriptor, void *what, bool reads, bool writes);
/* Says when the other end has left, and with `writes` also when there is room to write. */
int weir__loop_change_to_end(struct weir__loop *loop, int descriptor, void *what, bool writes);
void weir__loop_remove(struct weir__loop *loop, int descriptor);

/* Waits for up to timeout_ms, -1 for ever, and returns how many events there are. Being woken is none. */
int weir__loop_wait(struct weir__loop *loop, int timeout_ms, struct weir__loop_event events[WEIR__LOOP_EVENTS]);

/* Waits without an end are spent awake for up to so long each, while that pays (spin.h); 0 is never, and so it begins. */
void weir__loop_spin(struct weir__loop *loop, uint64_t most_ns);

/* Ends a wait after so many ns, 0 at once, UINT64_MAX never; another alarm takes the place of this one. `has_rung` is then
 * set, for the caller to clear. A timer of its own, because timeouts of epoll are late by the thread's timer slack, and by
 * up to a millisecond. */
void weir__loop_set_alarm(struct weir__loop *loop, uint64_t after_ns);

/* Ends a wait from another thread, or a handler of signals. */
void weir__loop_wake(struct weir__loop *loop);

#endif
