/* grpc.c: frames of messages, timeouts, status codes. */
#include "wire/grpc.h"

#include <string.h>

enum weir__grpc_status weir__grpc_status_of(unsigned http_status)
{
	static const struct {
		unsigned http;
		enum weir__grpc_status grpc;
	} rows[] = {
		{ 400, WEIR__GRPC_INVALID_ARGUMENT },   { 401, WEIR__GRPC_UNAUTHENTICATED },
		{ 403, WEIR__GRPC_PERMISSION_DENIED },  { 404, WEIR__GRPC_UNIMPLEMENTED },
		{ 405, WEIR__GRPC_UNIMPLEMENTED },      { 409, WEIR__GRPC_FAILED_PRECONDITION },
		{ 413, WEIR__GRPC_RESOURCE_EXHAUSTED }, { 429, WEIR__GRPC_RESOURCE_EXHAUSTED },
		{ 431, WEIR__GRPC_RESOURCE_EXHAUSTED }, { 501, WEIR__GRPC_UNIMPLEMENTED },
		{ 503, WEIR__GRPC_UNAVAILABLE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].http == http_status)
			return rows[i].grpc;
	return WEIR__GRPC_INTERNAL;
}

enum weir__grpc_status weir__grpc_message(const char *body, size_t n, const char **ret_message, size_t *ret_length,
					  const char **ret_why)
{
	const unsigned char *const head = (const unsigned char *)body;
	size_t length;

	if (n < WEIR__GRPC_HEAD) {
		*ret_why = "the request has no message; send one, behind its 5 bytes of head";
		return WEIR__GRPC_INVALID_ARGUMENT;
	}
	length = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
	if (head[0] != 0) {
		*ret_why = "compressed messages are not supported; send the message with identity encoding";
		return WEIR__GRPC_UNIMPLEMENTED;
	}
	if (length != n - WEIR__GRPC_HEAD) {
		*ret_why = "the message has another length than its head says, or another message follows; send one";
		return WEIR__GRPC_INVALID_ARGUMENT;
	}
	*ret_message = body + WEIR__GRPC_HEAD;
	*ret_length = length;
	return WEIR__GRPC_OK;
}

void weir__grpc_put_head(unsigned char to[WEIR__GRPC_HEAD], size_t n)
{
	to[0] = 0;
	to[1] = (unsigned char)(n >> 24);
	to[2] = (unsigned char)(n >> 16);
	to[3] = (unsigned char)(n >> 8);
	to[4] = (unsigned char)n;
}

bool weir__grpc_timeout(const char *text, size_t n, weir_ns *ret_timeout)
{
	static const struct {
		char letter;
		weir_ns ns;
	} units[] = {
		{ 'm', 1000000 },    { 'u', 1000 },        { 'n', 1 },
		{ 'S', 1000000000 }, { 'M', 60000000000 }, { 'H', 3600000000000 },
	};
	weir_ns number = 0;

	if (n < 2 || n > 9)
		return false;
	for (size_t i = 0; i + 1 < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		number = number * 10 + (weir_ns)(text[i] - '0');
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].letter == text[n - 1]) { /* at most 99999999 hours, which fit 64 bits only saturated */
			if (__builtin_mul_overflow(number, units[i].ns, ret_timeout))
				*ret_timeout = UINT64_MAX;
			return true;
		}
	return false;
}

bool weir__grpc_is_type(const char *type, size_t n)
{
	static const char grpc[] = "application/grpc";
	const size_t length = sizeof(grpc) - 1;

	if (n < length || memcmp(type, grpc, length) != 0)
		return false;
	return n == length || type[length] == ';' ||
	       (n >= length + 6 && memcmp(type + length, "+proto", 6) == 0 &&
		(n == length + 6 || type[length + 6] == ';'));
}
