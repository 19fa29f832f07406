/* loop.c: epoll, level-triggered: what is not read to its end is told again. */
#include "os/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

int weir__loop_init(struct weir__loop *loop)
{
	int error;

	*loop = (struct weir__loop){ .epoll = -1, .wake = -1, .alarm = -1 };
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll >= 0)
		loop->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (loop->wake >= 0)
		loop->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
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
	if (loop->alarm >= 0)
		close(loop->alarm);
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

int weir__loop_wait(struct weir__loop *loop, int timeout_ms, struct weir__loop_event events[WEIR__LOOP_EVENTS])
{
	struct epoll_event found[WEIR__LOOP_EVENTS];
	const int n = epoll_wait(loop->epoll, found, WEIR__LOOP_EVENTS, timeout_ms);
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
	const uint64_t second = 1000000000, longest = second * 86400;
	struct itimerspec alarm = { { 0, 0 }, { 0, 0 } }; /* all zero disarms it */

	if (after_ns != UINT64_MAX) {
		after_ns = after_ns < 1 ? 1 : after_ns > longest ? longest : after_ns;
		alarm.it_value.tv_sec = (time_t)(after_ns / second);
		alarm.it_value.tv_nsec = (long)(after_ns % second);
	}
	(void)timerfd_settime(loop->alarm, 0, &alarm, NULL);
}

void weir__loop_wake(struct weir__loop *loop)
{
	const uint64_t one = 1;

	(void)!write(loop->wake, &one, sizeof(one));
}
