/* net.c: sockets. */
#include "os/net.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, HOST_SIZE = 256, PORT_SIZE = 16 };

static bool is_path(const char *where)
{
	return strchr(where, '/') != NULL;
}

static int fail_and_close(int socket, int error)
{
	close(socket);
	return error;
}

static bool split(const char *where, char host[HOST_SIZE], char port[PORT_SIZE])
{
	const char *const colon = strrchr(where, ':');
	size_t length = colon ? (size_t)(colon - where) : 0;

	if (colon == NULL || length == 0 || colon[1] == '\0' || strlen(colon + 1) >= PORT_SIZE ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	if (*where == '[' && colon[-1] == ']') {
		where++;
		length -= 2;
	} else if (memchr(where, ':', length)) {
		return false; /* an IPv6 address needs brackets, to tell which colon is the port's */
	}
	if (length >= HOST_SIZE)
		return false;
	memcpy(host, where, length);
	host[length] = '\0';
	memcpy(port, colon + 1, strlen(colon + 1) + 1);
	return true;
}

static int resolve(const char *where, bool is_listener, struct addrinfo **ret_found)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICSERV | (is_listener ? AI_PASSIVE : 0) };
	char host[HOST_SIZE], port[PORT_SIZE];

	if (!split(where, host, port) || getaddrinfo(host, port, &hints, ret_found) != 0)
		return EINVAL;
	return 0;
}

static void write_address(const struct sockaddr *address, socklen_t length, char name[WEIR__NET_NAME_SIZE])
{
	char host[64], port[PORT_SIZE];

	if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		(void)snprintf(name, WEIR__NET_NAME_SIZE, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
			       port);
}

static void write_name(int socket, char name[WEIR__NET_NAME_SIZE])
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t length = sizeof(address);

	if (getsockname(socket, (struct sockaddr *)&address, &length) == 0)
		write_address((struct sockaddr *)&address, length, name);
}

static bool is_among(char names[][WEIR__NET_NAME_SIZE], size_t n, const char *name)
{
	size_t i = 0;

	while (i < n && strcmp(names[i], name) != 0)
		i++;
	return i < n;
}

int weir__net_addresses(const char *where, char ret_names[WEIR__NET_ADDRESSES][WEIR__NET_NAME_SIZE], size_t *ret_n)
{
	struct addrinfo *found;
	int error = resolve(where, true, &found);
	size_t n = 0;

	if (error != 0)
		return error;
	for (const struct addrinfo *one = found; one && error == 0; one = one->ai_next) {
		char name[WEIR__NET_NAME_SIZE] = "";

		write_address(one->ai_addr, one->ai_addrlen, name);
		if (*name == '\0' || is_among(ret_names, n, name))
			continue;
		if (n == WEIR__NET_ADDRESSES)
			error = E2BIG;
		else
			memcpy(ret_names[n++], name, sizeof(name));
	}
	freeaddrinfo(found);
	*ret_n = n;
	return error != 0 ? error : n > 0 ? 0 : EINVAL;
}

static int path_address(const char *where, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(where) >= sizeof(address->sun_path))
		return ENAMETOOLONG;
	memcpy(address->sun_path, where, strlen(where) + 1);
	return 0;
}

/* Whether a socket at this path has no listener any more. A killed server leaves such a socket behind, which would
 * prevent listening. */
static bool is_dead(const struct sockaddr_un *address)
{
	const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); /* a live one may be busy */
	struct stat status;
	bool dead;

	if (probe < 0)
		return false;
	dead = lstat(address->sun_path, &status) == 0 && S_ISSOCK(status.st_mode) &&
	       connect(probe, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;
	close(probe);
	return dead;
}

int weir__net_listen_at_path(const char *path, mode_t mode, int *ret_socket)
{
	struct sockaddr_un address;
	int listener, error = path_address(path, &address);

	if (error != 0)
		return error;
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0)
		return errno;
	if (is_dead(&address))
		unlink(path);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    (mode != 0 && chmod(path, mode) != 0) || listen(listener, BACKLOG) != 0)
		return fail_and_close(listener, errno);
	*ret_socket = listener;
	return 0;
}

/* Detects after some minutes that a client's machine has gone silently, as Redis does. Accepted sockets inherit this
 * from the listener. */
static void watch_peers(int listener)
{
	const int on = 1, idle_s = 300, each_s = 100, tries = 3;

	(void)setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(listener, IPPROTO_TCP, TCP_KEEPINTVL, &each_s, sizeof(each_s));
	(void)setsockopt(listener, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
}

static bool set_on(int socket, int option)
{
	const int on = 1;

	return setsockopt(socket, SOL_SOCKET, option, &on, sizeof(on)) == 0;
}

static int listen_at_address(const char *where, enum weir__net_sharing sharing, int *ret_socket)
{
	struct addrinfo *found;
	int listener, error = resolve(where, true, &found);

	if (error != 0)
		return error;
	listener = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0) {
		error = errno;
	} else if (!set_on(listener, SO_REUSEADDR) ||
		   (sharing == WEIR__LISTEN_TOO && !set_on(listener, SO_REUSEPORT)) ||
		   bind(listener, found->ai_addr, found->ai_addrlen) != 0 ||
		   (sharing == WEIR__LISTEN_FIRST && !set_on(listener, SO_REUSEPORT)) ||
		   listen(listener, BACKLOG) != 0) {
		error = fail_and_close(listener, errno);
	} else {
		watch_peers(listener);
	}
	freeaddrinfo(found);
	*ret_socket = listener;
	return error;
}

int weir__net_listen(const char *where, enum weir__net_sharing sharing, int *ret_socket,
		     char ret_name[WEIR__NET_NAME_SIZE])
{
	const int error = is_path(where) ? weir__net_listen_at_path(where, 0, ret_socket) :
					   listen_at_address(where, sharing, ret_socket);

	if (error != 0)
		return error;
	(void)snprintf(ret_name, WEIR__NET_NAME_SIZE, "%s", where);
	if (!is_path(where))
		write_name(*ret_socket, ret_name);
	return 0;
}

static bool is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
	return address->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

bool weir__net_is_local(const char *where)
{
	struct addrinfo *found;
	bool all = true;

	if (is_path(where))
		return true;
	if (resolve(where, true, &found) != 0)
		return false;
	for (const struct addrinfo *one = found; one; one = one->ai_next)
		all &= is_loopback(one->ai_addr);
	freeaddrinfo(found);
	return all;
}

int weir__net_accept(int listener, int *ret_socket)
{
	const int on = 1, accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (accepted < 0)
		return errno == EWOULDBLOCK ? EAGAIN : errno;
	/* A response is one write, and must be sent at once. Unix sockets do not have this option. */
	(void)setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	*ret_socket = accepted;
	return 0;
}

int weir__net_peer(int socket, struct weir__net_peer *ret_peer)
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t length = sizeof(address);
	const struct sockaddr_in *const v4 = (const struct sockaddr_in *)(const void *)&address;
	const struct sockaddr_in6 *const v6 = (const struct sockaddr_in6 *)(const void *)&address;

	if (getpeername(socket, (struct sockaddr *)&address, &length) != 0)
		return errno;
	if (address.ss_family != AF_UNIX && address.ss_family != AF_INET && address.ss_family != AF_INET6)
		return EAFNOSUPPORT;
	*ret_peer = (struct weir__net_peer){ .is_path = address.ss_family == AF_UNIX,
					     .is_v6 = address.ss_family == AF_INET6 };
	if (address.ss_family == AF_INET)
		memcpy(ret_peer->address, &v4->sin_addr, sizeof(v4->sin_addr));
	else if (address.ss_family == AF_INET6)
		memcpy(ret_peer->address, &v6->sin6_addr, sizeof(v6->sin6_addr));
	return 0;
}

ssize_t weir__net_read(int socket, void *bytes, size_t size)
{
	const ssize_t n = recv(socket, bytes, size, 0); /* faster than read, which goes through the file layer */

	return n < 0 ? -errno : n;
}

ssize_t weir__net_write(int socket, const void *bytes, size_t size)
{
	const ssize_t n = send(socket, bytes, size, MSG_NOSIGNAL);

	return n < 0 ? -errno : n;
}

void weir__net_close(int socket)
{
	close(socket);
}

void weir__net_stop_listening(int listener)
{
	(void)shutdown(listener, SHUT_RDWR);
}

bool weir__net_name(int listener, char ret_name[WEIR__NET_NAME_SIZE])
{
	struct sockaddr_un address = { .sun_family = AF_UNSPEC };
	socklen_t length = sizeof(address);

	ret_name[0] = '\0';
	if (getsockname(listener, (struct sockaddr *)&address, &length) == 0 && address.sun_family == AF_UNIX)
		(void)snprintf(ret_name, WEIR__NET_NAME_SIZE, "%.*s", (int)sizeof(address.sun_path), address.sun_path);
	else
		write_name(listener, ret_name);
	return ret_name[0] != '\0';
}

void weir__net_ends(int socket, char ret_peer[WEIR__NET_NAME_SIZE], char ret_here[WEIR__NET_NAME_SIZE],
		    bool *ret_is_path)
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t length = sizeof(address);
	size_t end;

	ret_peer[0] = '\0';
	(void)weir__net_name(socket, ret_here);
	*ret_is_path = is_path(ret_here);
	if (*ret_is_path) {
		end = strlen(ret_here);
		(void)snprintf(ret_here + end, WEIR__NET_NAME_SIZE - end, ":0");
		memcpy(ret_peer, ret_here, WEIR__NET_NAME_SIZE);
	} else if (getpeername(socket, (struct sockaddr *)&address, &length) == 0) {
		write_address((struct sockaddr *)&address, length, ret_peer);
	}
}

bool weir__net_is_listener(int descriptor)
{
	socklen_t length = sizeof(int);
	int listens;

	return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0 &&
	       weir__net_unblock(descriptor) == 0;
}

void weir__net_end_writing(int socket)
{
	(void)shutdown(socket, SHUT_WR);
}

void weir__net_discard_at_close(int socket)
{
	const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

	(void)setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

bool weir__net_has_arrived(int socket)
{
	socklen_t length = sizeof(int);
	int family, waiting;

	/* What was written to a Unix socket is at its other end already. */
	return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0 || family == AF_UNIX ||
	       ioctl(socket, SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

size_t weir__net_unsent(int socket)
{
	int waiting;

	return ioctl(socket, SIOCOUTQ, &waiting) == 0 && waiting > 0 ? (size_t)waiting : 0;
}

static int set_timeout(int socket, uint32_t timeout_ms)
{
	const struct timeval most = { .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * INT64_C(1000) };

	return setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == 0 &&
			       setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) == 0 ?
		       0 :
		       errno;
}

static int connect_to(const struct sockaddr *address, socklen_t length, uint32_t timeout_ms, int *ret_socket)
{
	const int on = 1, connected = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error;

	if (connected < 0)
		return errno;
	error = set_timeout(connected, timeout_ms);
	if (error == 0 && connect(connected, address, length) != 0)
		error = errno == EINPROGRESS ? ETIMEDOUT : errno;
	if (error != 0)
		return fail_and_close(connected, error);
	(void)setsockopt(connected, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	*ret_socket = connected;
	return 0;
}

int weir__net_connect(const char *where, uint32_t timeout_ms, int *ret_socket)
{
	struct sockaddr_un address;
	struct addrinfo *found;
	int error;

	if (is_path(where)) {
		error = path_address(where, &address);
		if (error != 0)
			return error;
		return connect_to((const struct sockaddr *)&address, sizeof(address), timeout_ms, ret_socket);
	}
	error = resolve(where, false, &found);
	if (error != 0)
		return error;
	error = EINVAL;
	for (const struct addrinfo *one = found; one && error != 0; one = one->ai_next)
		error = connect_to(one->ai_addr, one->ai_addrlen, timeout_ms, ret_socket);
	freeaddrinfo(found);
	return error;
}

int weir__net_unblock(int socket)
{
	const int flags = fcntl(socket, F_GETFL);

	return flags >= 0 && fcntl(socket, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : errno;
}

int weir__net_address_of_path(const char *path, struct weir__net_address *ret_address)
{
	struct sockaddr_un address;
	const int error = path_address(path, &address);

	if (error != 0)
		return error;
	*ret_address = (struct weir__net_address){ .length = sizeof(address) };
	memcpy(ret_address->bytes, &address, sizeof(address));
	return 0;
}

int weir__net_begin_to_connect(const struct weir__net_address *address, int *ret_socket)
{
	const struct sockaddr *const where = (const struct sockaddr *)(const void *)address->bytes;
	const int on = 1, begun = socket(where->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (begun < 0)
		return errno;
	(void)setsockopt(begun, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* Unix sockets do not have this option */
	if (connect(begun, where, address->length) != 0 && errno != EINPROGRESS)
		return fail_and_close(begun, errno);
	*ret_socket = begun;
	return 0;
}

int weir__net_connected(int socket)
{
	socklen_t length = sizeof(int);
	int error;

	return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}
