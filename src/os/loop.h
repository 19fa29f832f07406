/* loop.h: reports which of many descriptors are ready. A thin wrapper of epoll. Functions return 0 or an errno. */
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
	bool was_woken; /* since the owner set this to false */
	struct weir__spin spin;
};

struct weir__loop_event {
	void *what; /* the pointer that was added with the descriptor */
	bool can_read, can_write, is_over;
	bool has_left; /* the peer sends no more, or the connection is over; data it has sent may still be unread */
};

int weir__loop_init(struct weir__loop *loop);
void weir__loop_close(struct weir__loop *loop);

/* The loop reports when there is something to read; with `writes` also when there is room to write. */
int weir__loop_add(struct weir__loop *loop, int descriptor, void *what);
int weir__loop_change(struct weir__loop *loop, int descriptor, void *what, bool reads, bool writes);
/* The loop reports when the peer has left; with `writes` also when there is room to write. */
int weir__loop_change_to_end(struct weir__loop *loop, int descriptor, void *what, bool writes);
void weir__loop_remove(struct weir__loop *loop, int descriptor);

/* Waits for up to timeout_ms (-1: no limit), and returns the number of events. A wake-up or an alarm is not an
 * event. */
int weir__loop_wait(struct weir__loop *loop, int timeout_ms, struct weir__loop_event events[WEIR__LOOP_EVENTS]);

/* Lets waits without a timeout spin for up to most_ns each, while that pays (spin.h). 0, the default: never. */
void weir__loop_spin(struct weir__loop *loop, uint64_t most_ns);

/* Ends a wait after after_ns (0: at once, UINT64_MAX: never) and sets `has_rung`, which the caller clears. A new alarm
 * replaces the old one. It is a separate timer, because timeouts of epoll are late by the thread's timer slack, and by
 * up to a millisecond. */
void weir__loop_set_alarm(struct weir__loop *loop, uint64_t after_ns);

/* Ends a wait, from another thread or a signal handler. */
void weir__loop_wake(struct weir__loop *loop);

#endif
