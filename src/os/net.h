/* net.h: sockets of servers and clients: TCP on an address, or a path. All are closed on exec, and do not block unless it
 * says so. Functions return 0 or an errno. */
#ifndef WEIR_OS_NET_H
#define WEIR_OS_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { WEIR__NET_NAME_SIZE = 128 };

/* What was asked for: HOST:PORT, where a host may be an address in brackets; a port of 0 is any that is free. A word with a
 * slash is the path of a socket. EINVAL: it is neither. *ret_name is what it became. Several sockets may listen at the same
 * port, and the kernel deals connections out to them: of those a program opens the first as such, which fails if anybody
 * listens there already, by whatever kind of socket. */
enum weir__net_sharing { WEIR__LISTEN_ALONE, WEIR__LISTEN_FIRST, WEIR__LISTEN_TOO };
int weir__net_listen(const char *where, enum weir__net_sharing sharing, int *ret_socket,
		     char ret_name[WEIR__NET_NAME_SIZE]);

/* The addresses that a HOST:PORT stands for, each as HOST:PORT, none twice. EINVAL: there is no such host; E2BIG: it has more
 * addresses. */
enum { WEIR__NET_ADDRESSES = 8 };
int weir__net_addresses(const char *where, char ret_names[WEIR__NET_ADDRESSES][WEIR__NET_NAME_SIZE], size_t *ret_n);

/* Likewise at a path alone, which gets the mode before anybody can connect; 0 is what the umask leaves of it. */
int weir__net_listen_at_path(const char *path, mode_t mode, int *ret_socket);

/* Whether only this machine can reach it. */
bool weir__net_is_local(const char *where);

/* EAGAIN: nobody is waiting. */
int weir__net_accept(int listener, int *ret_socket);

/* Who is connected: an address as the network has it, or a path. */
struct weir__net_peer {
	bool is_path, is_v6;
	unsigned char address[16]; /* of IPv4 the first four */
};

int weir__net_peer(int socket, struct weir__net_peer *ret_peer);

/* Both ends of a connection, with their ports; of one by a path that path and a port of 0, as Redis tells it. What cannot be told is
 * empty. */
void weir__net_ends(int socket, char ret_peer[WEIR__NET_NAME_SIZE], char ret_here[WEIR__NET_NAME_SIZE],
		    bool *ret_is_path);

/* Bytes, 0 at the end, or -errno. EAGAIN: not now. */
ssize_t weir__net_read(int socket, void *bytes, size_t size);
ssize_t weir__net_write(int socket, const void *bytes, size_t size);

void weir__net_close(int socket);

/* Where a socket listens, as weir__net_listen tells it. False: it is none of TCP or with a path. */
bool weir__net_name(int listener, char ret_name[WEIR__NET_NAME_SIZE]);

/* Whether it is a socket that listens. If so, it does not block from now on. */
bool weir__net_is_listener(int descriptor);

/* Nobody can connect to a listener any more; those whose turn has not come are refused. */
void weir__net_stop_listening(int listener);

/* Says that no more will be written, and whether all that was written has arrived: until then, to close a socket that has
 * something to read may lose it. */
void weir__net_end_writing(int socket);
bool weir__net_has_arrived(int socket);

/* Connects to the first address of `where` that answers. The socket blocks, and so does this: in each case for timeout_ms at
 * most, 0 for ever. Reads and writes that take longer return -EAGAIN. */
int weir__net_connect(const char *where, uint32_t timeout_ms, int *ret_socket);

/* Where to connect to: what a name stands for (os/resolve.h), or a path. */
struct weir__net_address {
	unsigned length;
	_Alignas(8) unsigned char bytes[128]; /* as the kernel has it */
};

/* ENAMETOOLONG: no path of a socket is that long. */
int weir__net_address_of_path(const char *path, struct weir__net_address *ret_address);

/* Begins to connect, and does not wait. When there is room to write, or the socket is over, weir__net_connected says what
 * became of it: 0, or an errno. */
int weir__net_begin_to_connect(const struct weir__net_address *address, int *ret_socket);
int weir__net_connected(int socket);

/* From now on it does not block. */
int weir__net_unblock(int socket);

#endif
