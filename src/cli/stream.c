/* stream.c: a socket, and TLS on it. */
#include "cli/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/net.h"

const char *weir__stream_where(const char *at, bool *ret_is_tls)
{
	static const char *const prefixes[] = { "tls://", "rediss://" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		const size_t n = strlen(prefixes[i]);

		*ret_is_tls = strncmp(at, prefixes[i], n) == 0;
		if (*ret_is_tls)
			return at + n;
	}
	return at;
}

struct weir__tls_files weir__stream_files(const struct weir__tls_files *options)
{
	return (struct weir__tls_files){
		.ca = options->ca ? options->ca : getenv("WEIR_CACERT"),
		.certificate = options->certificate ? options->certificate : getenv("WEIR_CERT"),
		.key = options->key ? options->key : getenv("WEIR_KEY"),
	};
}

int weir__stream_context(const char *at, const struct weir__tls_files *files, struct weir__tls_context **ret_context,
			 char ret_why[WEIR__TLS_WHY_SIZE])
{
	bool is_tls;

	*ret_context = NULL;
	(void)weir__stream_where(at, &is_tls);
	return is_tls ? weir__tls_context_new(files, true, ret_context, ret_why) : 0;
}

/* The name that the certificate must have: the host, without the brackets of an IPv6 address. */
static void host_of(const char *where, char ret_host[WEIR__NET_NAME_SIZE])
{
	const char *const colon = strrchr(where, ':');
	size_t n = colon ? (size_t)(colon - where) : strlen(where);

	if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	}
	(void)snprintf(ret_host, WEIR__NET_NAME_SIZE, "%.*s", (int)n, where);
}

int weir__stream_open(struct weir__stream *stream, const char *at, struct weir__tls_context *context,
		      uint32_t timeout_ms, char ret_why[WEIR__TLS_WHY_SIZE])
{
	bool is_tls;
	const char *const where = weir__stream_where(at, &is_tls);
	char host[WEIR__NET_NAME_SIZE];
	int error;

	if (is_tls ? strchr(where, '/') != NULL : strstr(where, "://") != NULL) /* http:// is not a path */
		return EINVAL;
	error = weir__net_connect(where, timeout_ms, &stream->socket);
	stream->tls = NULL;
	if (error != 0 || !is_tls)
		return error;
	host_of(where, host);
	stream->tls = weir__tls_new(context, stream->socket, host);
	error = stream->tls ? weir__tls_shake(stream->tls) : ENOMEM;
	if (error == 0)
		return 0;
	if (error == EAGAIN)
		error = ETIMEDOUT;
	else if (stream->tls)
		(void)snprintf(ret_why, WEIR__TLS_WHY_SIZE, "%s", weir__tls_why(stream->tls));
	weir__stream_close(stream);
	return error;
}

void weir__stream_close(struct weir__stream *stream)
{
	weir__tls_free(stream->tls);
	weir__net_close(stream->socket);
}

ssize_t weir__stream_read(struct weir__stream *stream, void *bytes, size_t size)
{
	return stream->tls ? weir__tls_read(stream->tls, bytes, size) : weir__net_read(stream->socket, bytes, size);
}

ssize_t weir__stream_write(struct weir__stream *stream, const void *bytes, size_t size)
{
	return stream->tls ? weir__tls_write(stream->tls, bytes, size) : weir__net_write(stream->socket, bytes, size);
}
