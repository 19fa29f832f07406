/* loop.h: which of many descriptors is ready. A thin cover of epoll; errors are errno. */
#ifndef WEIR_OS_LOOP_H
#define WEIR_OS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

enum { WEIR__LOOP_EVENTS = 256 };

struct weir__loop {
	int epoll;
	int wake; /* an eventfd: see weir__loop_wake */
};

struct weir__loop_event {
	void *what; /* as it was added */
	bool can_read, can_write, is_over;
};

int weir__loop_init(struct weir__loop *loop);
void weir__loop_close(struct weir__loop *loop);

/* Says when there is something to read; with `writes` also when there is room to write. */
int weir__loop_add(struct weir__loop *loop, int descriptor, void *what);
int weir__loop_change(struct weir__loop *loop, int descriptor, void *what, bool reads, bool writes);
void weir__loop_remove(struct weir__loop *loop, int descriptor);

/* Waits for up to timeout_ms, -1 for ever, and returns how many events there are. Being woken is none. */
int weir__loop_wait(struct weir__loop *loop, int timeout_ms, struct weir__loop_event events[WEIR__LOOP_EVENTS]);

/* Ends a wait from another thread, or a handler of signals. */
void weir__loop_wake(struct weir__loop *loop);

#endif
