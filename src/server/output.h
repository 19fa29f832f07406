/* output.h: replies on their way to a client. Bytes that the socket does not take at once are buffered, in order. */
#ifndef WEIR_SERVER_OUTPUT_H
#define WEIR_SERVER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct weir__tls;

struct weir__output {
	char *bytes; /* NULL: nothing is buffered */
	size_t start, end, size;
};

static inline size_t weir__output_waiting(const struct weir__output *output)
{
	return output->end - output->start;
}

/* Writes what the socket takes, if nothing is buffered, and buffers the rest. With TLS, that is done by `tls`; NULL: no
 * TLS. Returns false if the connection is lost or memory runs out. */
bool weir__output_write(struct weir__output *output, int socket, struct weir__tls *tls, const char *bytes, size_t n);

/* Writes what is buffered, as far as the socket takes it. Returns false if the connection is lost. */
bool weir__output_send(struct weir__output *output, int socket, struct weir__tls *tls);

void weir__output_drop(struct weir__output *output);

#endif
