/* notify.c: one datagram to a Unix socket. */
#include "os/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int weir__notify(const char *lines)
{
	const char *const name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t length = name ? strlen(name) : 0;
	int file, error = 0;

	if (length == 0)
		return 0;
	if ((name[0] != '/' && name[0] != '@') || length >= sizeof(address.sun_path))
		return EAFNOSUPPORT; /* such as vsock:, for virtual machines */
	memcpy(address.sun_path, name, length);
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (file < 0)
		return errno;
	if (sendto(file, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&address,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
		error = errno;
	(void)close(file);
	return error;
}
