/* grpc.h: what gRPC adds to HTTP/2: a frame around each message, a timeout, and status codes. Pure. */
#ifndef WEIR_WIRE_GRPC_H
#define WEIR_WIRE_GRPC_H

#include <weir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The status codes that the server sends. */
enum weir__grpc_status {
	WEIR__GRPC_OK = 0,
	WEIR__GRPC_CANCELLED = 1,
	WEIR__GRPC_INVALID_ARGUMENT = 3,
	WEIR__GRPC_DEADLINE_EXCEEDED = 4,
	WEIR__GRPC_NOT_FOUND = 5,
	WEIR__GRPC_PERMISSION_DENIED = 7,
	WEIR__GRPC_RESOURCE_EXHAUSTED = 8,
	WEIR__GRPC_FAILED_PRECONDITION = 9,
	WEIR__GRPC_UNIMPLEMENTED = 12,
	WEIR__GRPC_INTERNAL = 13,
	WEIR__GRPC_UNAVAILABLE = 14,
	WEIR__GRPC_UNAUTHENTICATED = 16,
};

/* The status of an HTTP error. */
enum weir__grpc_status weir__grpc_status_of(unsigned http_status);

enum { WEIR__GRPC_HEAD = 5 }; /* before each message: whether it is compressed, and its length */

/* Finds the one message in the body of a request. Returns OK, or the status, with a message in *ret_why. */
enum weir__grpc_status weir__grpc_message(const char *body, size_t n, const char **ret_message, size_t *ret_length,
					  const char **ret_why);

/* Writes the head of a message of n bytes. */
void weir__grpc_put_head(unsigned char to[WEIR__GRPC_HEAD], size_t n);

/* Reads the value of grpc-timeout, such as 20m for 20 milliseconds. Returns false if it is invalid. */
bool weir__grpc_timeout(const char *text, size_t n, weir_ns *ret_timeout);

/* Whether a Content-Type is one of gRPC with Protocol Buffers. */
bool weir__grpc_is_type(const char *type, size_t n);

#endif
