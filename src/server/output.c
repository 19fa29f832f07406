/* output.c: one block of memory for what is buffered, freed when it is empty. */
#include "server/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/wide.h"
#include "os/net.h"
#include "os/tls.h"

/* Returns how many bytes the socket took, or SIZE_MAX if the connection is lost. */
static size_t write_some(int socket, struct weir__tls *tls, const char *bytes, size_t n)
{
	size_t done = 0;

	while (done < n) {
		const ssize_t written = WEIR__LIKELY(tls == NULL) ? weir__net_write(socket, bytes + done, n - done) :
								    weir__tls_write(tls, bytes + done, n - done);

		if (written == -EAGAIN)
			break;
		if (written < 0 && written != -EINTR)
			return SIZE_MAX;
		done += written > 0 ? (size_t)written : 0;
	}
	return done;
}

/* Makes room for n more bytes: at the end, else by moving the waiting bytes to the front, else in a new block of twice
 * the needed size. */
static bool make_room(struct weir__output *output, size_t n)
{
	const size_t waiting = weir__output_waiting(output), needed = waiting + n;
	char *bytes;

	if (n <= output->size - output->end)
		return true;
	if (needed > output->size / 2) {
		bytes = malloc(2 * needed);
		if (bytes == NULL)
			return false;
		if (waiting > 0)
			memcpy(bytes, output->bytes + output->start, waiting);
		free(output->bytes);
		output->bytes = bytes;
		output->size = 2 * needed;
	} else {
		memmove(output->bytes, output->bytes + output->start, waiting);
	}
	output->start = 0;
	output->end = waiting;
	return true;
}

bool weir__output_write(struct weir__output *output, int socket, struct weir__tls *tls, const char *bytes, size_t n)
{
	const size_t done = weir__output_waiting(output) == 0 ? write_some(socket, tls, bytes, n) : 0;

	if (done == SIZE_MAX)
		return false;
	if (done == n)
		return true;
	if (!make_room(output, n - done))
		return false;
	memcpy(output->bytes + output->end, bytes + done, n - done);
	output->end += n - done;
	return true;
}

bool weir__output_send(struct weir__output *output, int socket, struct weir__tls *tls)
{
	const size_t done = write_some(socket, tls, output->bytes + output->start, weir__output_waiting(output));

	if (done == SIZE_MAX)
		return false;
	output->start += done;
	if (weir__output_waiting(output) == 0)
		weir__output_drop(output);
	return true;
}

void weir__output_drop(struct weir__output *output)
{
	free(output->bytes);
	*output = (struct weir__output){ .bytes = NULL };
}
