/* loop.c: epoll, level-triggered: what is not read to its end is told again. */
#include "os/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int weir__loop_init(struct weir__loop *loop)
{
	int error;

	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0)
		return errno;
	loop->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (loop->wake < 0) {
		error = errno;
		close(loop->epoll);
		return error;
	}
	return weir__loop_add(loop, loop->wake, loop);
}

void weir__loop_close(struct weir__loop *loop)
{
	close(loop->wake);
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
			continue;
		}
		events[told++] = (struct weir__loop_event){
			.what = found[i].data.ptr,
			.can_read = found[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR),
			.can_write = found[i].events & EPOLLOUT,
			.is_over = found[i].events & (EPOLLHUP | EPOLLERR),
		};
	}
	return told;
}

void weir__loop_wake(struct weir__loop *loop)
{
	const uint64_t one = 1;

	(void)!write(loop->wake, &one, sizeof(one));
}
