/* echo.c: sends back what it reads, with epoll: the upper bound for a server that decides nothing. A RESP request is
 * also a valid RESP reply, so the same load generator can drive it.
 *
 *     echo HOST:PORT|PATH
 *
 * Prints its address. Runs until it is killed. */
#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "os/loop.h"
#include "os/net.h"

static char bytes[256 * 1024];

/* Retries until the client reads, if the socket is full. Returns false if the connection is lost. */
static bool send_back(int socket, size_t n)
{
	for (size_t sent = 0; sent < n;) {
		const ssize_t now = weir__net_write(socket, bytes + sent, n - sent);

		if (now < 0 && now != -EAGAIN && now != -EINTR)
			return false;
		sent += now > 0 ? (size_t)now : 0;
	}
	return true;
}

static void serve(struct weir__loop *loop, int socket)
{
	const ssize_t n = weir__net_read(socket, bytes, sizeof(bytes));

	if (n == -EAGAIN || n == -EINTR || (n > 0 && send_back(socket, (size_t)n)))
		return;
	weir__loop_remove(loop, socket);
	weir__net_close(socket);
}

static void accept_all(struct weir__loop *loop, int listener)
{
	int socket;

	while (weir__net_accept(listener, &socket) == 0)
		if (weir__loop_add(loop, socket, (void *)(intptr_t)socket) != 0)
			weir__net_close(socket);
}

int main(int argc, char **argv)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	char name[WEIR__NET_NAME_SIZE];
	struct weir__loop loop;
	int listener, error;

	if (argc != 2)
		errx(2, "usage: echo HOST:PORT|PATH");
	error = weir__net_listen(argv[1], WEIR__LISTEN_ALONE, &listener, name);
	if (error == 0)
		error = weir__loop_init(&loop);
	if (error == 0)
		error = weir__loop_add(&loop, listener, (void *)(intptr_t)listener);
	if (error != 0)
		errx(1, "%s: %s", argv[1], strerror(error));
	printf("%s\n", name);
	fflush(stdout);
	for (;;) {
		const int n = weir__loop_wait(&loop, -1, events);

		for (int i = 0; i < n; i++)
			if ((int)(intptr_t)events[i].what == listener)
				accept_all(&loop, listener);
			else
				serve(&loop, (int)(intptr_t)events[i].what);
	}
}
