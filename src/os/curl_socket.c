/* curl_socket.c: opens sockets with SOCK_CLOEXEC, which libcurl does not set. */
#include "os/curl_socket.h"

#include <sys/socket.h>

curl_socket_t weir__curl_socket_open(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)context, (void)purpose;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}
