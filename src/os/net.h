/* net.h: sockets of servers and clients: TCP, or Unix sockets by path. All are closed on exec, and do not block unless
 * stated. Functions return 0 or an errno. */
#ifndef WEIR_OS_NET_H
#define WEIR_OS_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { WEIR__NET_NAME_SIZE = 128 };

/* Listens at `where`: HOST:PORT, where the host may be an address in brackets, and port 0 means any free one; or, with
 * a slash in it, the path of a Unix socket. EINVAL: neither. ret_name is the actual address. With FIRST and TOO several
 * sockets listen at the same port, and the kernel distributes connections among them. A program opens its first socket
 * with FIRST, which fails if any other socket already listens there, and the others with TOO. */
enum weir__net_sharing { WEIR__LISTEN_ALONE, WEIR__LISTEN_FIRST, WEIR__LISTEN_TOO };
int weir__net_listen(const char *where, enum weir__net_sharing sharing, int *ret_socket,
		     char ret_name[WEIR__NET_NAME_SIZE]);

/* Lists the addresses of a HOST:PORT, each as HOST:PORT, without duplicates. EINVAL: unknown host. E2BIG: it has more
 * than WEIR__NET_ADDRESSES. */
enum { WEIR__NET_ADDRESSES = 8 };
int weir__net_addresses(const char *where, char ret_names[WEIR__NET_ADDRESSES][WEIR__NET_NAME_SIZE], size_t *ret_n);

/* Listens at a path. The path gets the mode before any client can connect; 0: the mode follows from the umask. */
int weir__net_listen_at_path(const char *path, mode_t mode, int *ret_socket);

/* Returns whether only this machine can reach it. */
bool weir__net_is_local(const char *where);

/* EAGAIN: no connection is waiting. */
int weir__net_accept(int listener, int *ret_socket);

/* The peer of a connection: an address in network byte order, or a Unix socket. */
struct weir__net_peer {
	bool is_path, is_v6;
	unsigned char address[16]; /* IPv4: the first four bytes */
};

int weir__net_peer(int socket, struct weir__net_peer *ret_peer);

/* Writes both ends of a connection, with their ports. For a Unix socket that is the path and port 0, as in Redis. An
 * end that is unknown is empty. */
void weir__net_ends(int socket, char ret_peer[WEIR__NET_NAME_SIZE], char ret_here[WEIR__NET_NAME_SIZE],
		    bool *ret_is_path);

/* Return the number of bytes, 0 at the end, or -errno. EAGAIN: not now. */
ssize_t weir__net_read(int socket, void *bytes, size_t size);
ssize_t weir__net_write(int socket, const void *bytes, size_t size);

void weir__net_close(int socket);

/* Makes the kernel drop unsent data when the socket is closed. By default it would keep the data for a client that does
 * not read. */
void weir__net_discard_at_close(int socket);

/* Writes the address of a listener, as weir__net_listen does. Returns false if it is neither TCP nor a Unix socket with
 * a path. */
bool weir__net_name(int listener, char ret_name[WEIR__NET_NAME_SIZE]);

/* Returns whether it is a listening socket. If so, it does not block from now on. */
bool weir__net_is_listener(int descriptor);

/* Stops a listener: no client can connect any more, and connections that were not accepted yet are refused. */
void weir__net_stop_listening(int listener);

/* The first announces that no more will be written. The second returns whether all that was written has arrived. Before
 * that, closing a socket that has something to read may lose what was written. */
void weir__net_end_writing(int socket);
bool weir__net_has_arrived(int socket);

/* Bytes that were written and that the other side has not acknowledged. For a Unix socket: that it has not read, with
 * some of the kernel's own. 0 if that is unknown. */
size_t weir__net_unsent(int socket);

/* Connects to the first address of `where` that accepts. The socket blocks, and so does this call, each time for
 * timeout_ms at most (0: no limit). Reads and writes that take longer return -EAGAIN. */
int weir__net_connect(const char *where, uint32_t timeout_ms, int *ret_socket);

/* An address to connect to: resolved from a name (os/resolve.h), or a path. */
struct weir__net_address {
	unsigned length;
	_Alignas(8) unsigned char bytes[128]; /* a struct sockaddr */
};

/* ENAMETOOLONG: too long for the path of a socket. */
int weir__net_address_of_path(const char *path, struct weir__net_address *ret_address);

/* Begins to connect, and does not wait. When there is room to write, or the socket is over, weir__net_connected returns
 * the result: 0, or an errno. */
int weir__net_begin_to_connect(const struct weir__net_address *address, int *ret_socket);
int weir__net_connected(int socket);

/* Makes a socket non-blocking. */
int weir__net_unblock(int socket);

#endif
