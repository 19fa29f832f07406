/* curl_socket.h: sockets for libcurl that child programs do not inherit. */
#ifndef WEIR_OS_CURL_SOCKET_H
#define WEIR_OS_CURL_SOCKET_H

#include <curl/curl.h>

/* For CURLOPT_OPENSOCKETFUNCTION. */
curl_socket_t weir__curl_socket_open(void *context, curlsocktype purpose, struct curl_sockaddr *address);

#endif
