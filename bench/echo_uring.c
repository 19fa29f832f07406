/* echo_uring.c: echo.c with io_uring, to compare. io_uring needs one system call for all ready connections, epoll needs
 * one to find them and two for each. bench/serve.py builds it, because nothing else needs liburing.
 *
 *     echo_uring PORT
 *
 * Listens at 127.0.0.1. Runs until it is killed. */
#include <arpa/inet.h>
#include <err.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 16384, BUFFER_SIZE = 64 * 1024, ENTRIES = 4096, CQES = 256 };

enum what { ACCEPT, RECEIVE, SEND };

/* Each connection has one pending request at any time. */
static struct connection {
	char *bytes;
	size_t n, sent;
} connections[DESCRIPTORS_MAX];

static struct io_uring ring;

static struct io_uring_sqe *next(void)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(&ring);

	if (entry == NULL) { /* full: submit the pending entries first */
		io_uring_submit(&ring);
		entry = io_uring_get_sqe(&ring);
	}
	if (entry == NULL)
		errx(1, "no room for a request");
	return entry;
}

/* Call it after io_uring_prep_..., which clears the data. */
static void mark(struct io_uring_sqe *entry, enum what what, int descriptor)
{
	io_uring_sqe_set_data64(entry, (uint64_t)what << 32 | (uint32_t)descriptor);
}

static void receive(int descriptor)
{
	struct io_uring_sqe *const entry = next();

	io_uring_prep_recv(entry, descriptor, connections[descriptor].bytes, BUFFER_SIZE, 0);
	mark(entry, RECEIVE, descriptor);
}

static void send_rest(int descriptor)
{
	struct connection *const connection = &connections[descriptor];
	struct io_uring_sqe *const entry = next();

	io_uring_prep_send(entry, descriptor, connection->bytes + connection->sent, connection->n - connection->sent,
			   MSG_NOSIGNAL);
	mark(entry, SEND, descriptor);
}

static void accept_next(int listener)
{
	struct io_uring_sqe *const entry = next();

	io_uring_prep_accept(entry, listener, NULL, NULL, SOCK_CLOEXEC);
	mark(entry, ACCEPT, listener);
}

static void begin(int descriptor)
{
	const int on = 1;

	if (descriptor >= DESCRIPTORS_MAX)
		errx(1, "too many connections");
	(void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connections[descriptor].bytes == NULL)
		connections[descriptor].bytes = malloc(BUFFER_SIZE);
	if (connections[descriptor].bytes == NULL)
		err(1, "malloc");
	receive(descriptor);
}

static void handle(const struct io_uring_cqe *done)
{
	const uint64_t data = io_uring_cqe_get_data64(done);
	const int descriptor = (int)(uint32_t)data;
	struct connection *const connection = &connections[descriptor];

	if (data >> 32 == ACCEPT) {
		if (done->res >= 0)
			begin(done->res);
		accept_next(descriptor);
	} else if (done->res <= 0) {
		close(descriptor);
	} else if (data >> 32 == RECEIVE) {
		connection->n = (size_t)done->res;
		connection->sent = 0;
		send_rest(descriptor);
	} else {
		connection->sent += (size_t)done->res;
		if (connection->sent < connection->n)
			send_rest(descriptor);
		else
			receive(descriptor);
	}
}

static int listen_at(const char *port)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons((uint16_t)atoi(port)),
					     .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(listener, (const struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 1024) != 0)
		err(1, "%s", port);
	return listener;
}

int main(int argc, char **argv)
{
	struct io_uring_params options = { .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN };
	int error;

	if (argc != 2)
		errx(2, "usage: echo_uring PORT");
	error = io_uring_queue_init_params(ENTRIES, &ring, &options);
	if (error != 0)
		errx(1, "io_uring: %s", strerror(-error));
	accept_next(listen_at(argv[1]));
	for (;;) {
		struct io_uring_cqe *done[CQES];
		unsigned n;

		io_uring_submit_and_wait(&ring, 1);
		while ((n = io_uring_peek_batch_cqe(&ring, done, CQES)) > 0) {
			for (unsigned i = 0; i < n; i++)
				handle(done[i]);
			io_uring_cq_advance(&ring, n);
		}
	}
}
