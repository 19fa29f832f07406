/* resolve.c: getaddrinfo, in threads. */
#include "os/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "os/thread_start.h"

enum { HOST_SIZE = 256, PORT_SIZE = 8 };

struct weir__resolve {
	pthread_mutex_t lock;
	struct weir__loop *loop; /* NULL: the result is not wanted any more, and the thread frees this */
	bool is_over;
	char host[HOST_SIZE], port[PORT_SIZE];
	const char *why;
	unsigned n;
	struct weir__net_address addresses[WEIR__RESOLVE_ADDRESSES];
};

static _Atomic uint32_t threads;

static void keep(struct weir__resolve *resolve, const struct addrinfo *found)
{
	for (; found && resolve->n < WEIR__RESOLVE_ADDRESSES; found = found->ai_next) {
		struct weir__net_address *const address = &resolve->addresses[resolve->n];

		if (found->ai_addrlen > sizeof(address->bytes))
			continue;
		address->length = found->ai_addrlen;
		memcpy(address->bytes, found->ai_addr, found->ai_addrlen);
		resolve->n++;
	}
}

static int look_up(struct weir__resolve *resolve, int flags)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags };
	struct addrinfo *found;
	const int error = getaddrinfo(resolve->host, resolve->port, &hints, &found);

	if (error == 0) {
		keep(resolve, found);
		freeaddrinfo(found);
	}
	return error;
}

static void forget(struct weir__resolve *resolve)
{
	(void)pthread_mutex_destroy(&resolve->lock);
	free(resolve);
}

/* Only this thread touches the result until it is over. It wakes the loop under the lock, so that the loop still
 * exists. */
static void *run(void *context)
{
	struct weir__resolve *const resolve = context;
	const int error = look_up(resolve, 0);
	bool is_wanted;

	(void)pthread_mutex_lock(&resolve->lock);
	resolve->why = error == 0 ? NULL : gai_strerror(error);
	resolve->is_over = true;
	is_wanted = resolve->loop != NULL;
	if (is_wanted)
		weir__loop_wake(resolve->loop);
	(void)pthread_mutex_unlock(&resolve->lock);
	if (!is_wanted)
		forget(resolve);
	atomic_fetch_sub(&threads, 1);
	return NULL;
}

static int start(struct weir__resolve *resolve)
{
	pthread_t thread;
	int error;

	if (atomic_fetch_add(&threads, 1) >= WEIR__RESOLVE_THREADS) {
		atomic_fetch_sub(&threads, 1);
		return EAGAIN;
	}
	error = weir__thread_start(&thread, run, resolve);
	if (error != 0)
		atomic_fetch_sub(&threads, 1);
	else
		(void)pthread_detach(thread);
	return error;
}

int weir__resolve_new(const char *host, uint16_t port, struct weir__loop *loop, struct weir__resolve **ret_resolve)
{
	struct weir__resolve *const resolve = calloc(1, sizeof(*resolve));
	int error = 0;

	if (resolve == NULL)
		return ENOMEM;
	(void)pthread_mutex_init(&resolve->lock, NULL);
	resolve->loop = loop;
	(void)snprintf(resolve->host, sizeof(resolve->host), "%s", host);
	(void)snprintf(resolve->port, sizeof(resolve->port), "%u", port);
	if (strlen(host) >= HOST_SIZE) {
		resolve->is_over = true;
		resolve->why = "the name is too long";
	} else if (look_up(resolve, AI_NUMERICHOST) == 0) {
		resolve->is_over = true;
	} else {
		error = start(resolve);
	}
	if (error != 0)
		forget(resolve);
	else
		*ret_resolve = resolve;
	return error;
}

bool weir__resolve_is_over(struct weir__resolve *resolve,
			   struct weir__net_address ret_addresses[WEIR__RESOLVE_ADDRESSES], unsigned *ret_n,
			   const char **ret_why)
{
	bool is_over;

	(void)pthread_mutex_lock(&resolve->lock);
	is_over = resolve->is_over;
	(void)pthread_mutex_unlock(&resolve->lock);
	if (is_over) {
		memcpy(ret_addresses, resolve->addresses, sizeof(resolve->addresses));
		*ret_n = resolve->n;
		*ret_why = resolve->why || resolve->n > 0 ? resolve->why : "it has no address";
	}
	return is_over;
}

void weir__resolve_free(struct weir__resolve *resolve)
{
	bool is_ours;

	if (resolve == NULL)
		return;
	(void)pthread_mutex_lock(&resolve->lock);
	resolve->loop = NULL;
	is_ours = resolve->is_over;
	(void)pthread_mutex_unlock(&resolve->lock);
	if (is_ours)
		forget(resolve);
}
