/* loop.c: epoll, level-triggered: a descriptor that is not read to its end is reported again. */
#include "os/loop.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/uninitialized.h"
#include "os/monotonic.h"
#include "os/timer.h"

int weir__loop_init(struct weir__loop *loop)
{
	int error;

	*loop = (struct weir__loop){ .epoll = -1, .wake = -1, .alarm = -1 };
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll >= 0)
		loop->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (loop->wake >= 0)
		loop->alarm = weir__timer_new();
	error = loop->alarm >= 0 ? 0 : errno;
	if (error == 0)
		error = weir__loop_add(loop, loop->wake, loop);
	if (error == 0)
		error = weir__loop_add(loop, loop->alarm, &loop->alarm);
	if (error != 0)
		weir__loop_close(loop);
	return error;
}

void weir__loop_close(struct weir__loop *loop)
{
	weir__timer_free(loop->alarm);
	if (loop->wake >= 0)
		close(loop->wake);
	if (loop->epoll >= 0)
		close(loop->epoll);
}

int weir__loop_add(struct weir__loop *loop, int descriptor, void *what)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data = { .ptr = what } };

	return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0 ? 0 : errno;
}

int weir__loop_change(struct weir__loop *loop, int descriptor, void *what, bool reads, bool writes)
{
	struct epoll_event event = { .data = { .ptr = what } };

	if (reads)
		event.events |= EPOLLIN | EPOLLRDHUP;
	if (writes)
		event.events |= EPOLLOUT;
	return epoll_ctl(loop->epoll, EPOLL_CTL_MOD, descriptor, &event) == 0 ? 0 : errno;
}

int weir__loop_change_to_end(struct weir__loop *loop, int descriptor, void *what, bool writes)
{
	struct epoll_event event = { .events = EPOLLRDHUP, .data = { .ptr = what } };

	if (writes)
		event.events |= EPOLLOUT;
	return epoll_ctl(loop->epoll, EPOLL_CTL_MOD, descriptor, &event) == 0 ? 0 : errno;
}

void weir__loop_remove(struct weir__loop *loop, int descriptor)
{
	(void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, descriptor, NULL);
}

void weir__loop_spin(struct weir__loop *loop, uint64_t most_ns)
{
	loop->spin = (struct weir__spin){ .most_ns = most_ns };
}

/* Returns how often this thread has given up its processor. */
static uint64_t thread_switches(void)
{
	struct rusage used;

	return getrusage(RUSAGE_THREAD, &used) == 0 ? (uint64_t)used.ru_nvcsw + (uint64_t)used.ru_nivcsw : 0;
}

/* Waits until there is an event: spinning for as long as that pays, then asleep. */
static int wait_for_some(struct weir__loop *loop, struct epoll_event found[WEIR__LOOP_EVENTS])
{
	const bool is_awake = weir__spin_is_on(&loop->spin);
	int n = is_awake ? epoll_wait(loop->epoll, found, WEIR__LOOP_EVENTS, 0) : 0;
	uint64_t since, now, waited, switches;

	if (n != 0)
		return n;
	switches = is_awake ? thread_switches() : 0;
	since = now = weir__monotonic_ns();
	while (is_awake && n == 0 && now - since <= loop->spin.most_ns) {
		(void)sched_yield(); /* lets other threads have this processor; thread_switches below detects that */
		n = epoll_wait(loop->epoll, found, WEIR__LOOP_EVENTS, 0);
		now = weir__monotonic_ns();
	}
	switches = is_awake ? thread_switches() - switches : 0;
	if (n == 0) {
		n = epoll_wait(loop->epoll, found, WEIR__LOOP_EVENTS, -1);
		now = weir__monotonic_ns();
	}
	waited = switches > 0 ? WEIR__SPIN_IN_VAIN : now - since;
	weir__spin_note(&loop->spin, waited, now);
	return n;
}

int weir__loop_wait(struct weir__loop *loop, int timeout_ms, struct weir__loop_event events[WEIR__LOOP_EVENTS])
{
	struct epoll_event found[WEIR__LOOP_EVENTS] WEIR__UNINITIALIZED;
	const int n = timeout_ms < 0 && loop->spin.most_ns > 0 ?
			      wait_for_some(loop, found) :
			      epoll_wait(loop->epoll, found, WEIR__LOOP_EVENTS, timeout_ms);
	int told = 0;

	for (int i = 0; i < n; i++) {
		uint64_t ignored;

		if (found[i].data.ptr == loop) {
			(void)!read(loop->wake, &ignored, sizeof(ignored));
			loop->was_woken = true;
			continue;
		}
		if (found[i].data.ptr == &loop->alarm) {
			(void)!read(loop->alarm, &ignored, sizeof(ignored));
			loop->has_rung = true;
			continue;
		}
		events[told++] = (struct weir__loop_event){
			.what = found[i].data.ptr,
			.can_read = found[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR),
			.can_write = found[i].events & EPOLLOUT,
			.is_over = found[i].events & (EPOLLHUP | EPOLLERR),
			.has_left = found[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR),
		};
	}
	return told;
}

void weir__loop_set_alarm(struct weir__loop *loop, uint64_t after_ns)
{
	weir__timer_set(loop->alarm, after_ns);
}

void weir__loop_wake(struct weir__loop *loop)
{
	const uint64_t one = 1;

	(void)!write(loop->wake, &one, sizeof(one));
}
