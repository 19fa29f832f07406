/* byte_stream.h: reads a file, standard input or a pipe from its beginning to its end, decompressed if it is gzip or
 * zstd. Which of them it is, its first bytes say. Several compressed parts one after the other are one stream. */
#ifndef WEIR_OS_BYTE_STREAM_H
#define WEIR_OS_BYTE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <weir/types.h>

struct weir__byte_stream;

/* Opens a file; "-" is standard input. Returns 0 or an errno: EISDIR if it is a directory. */
int weir__byte_stream_open(const char *path, struct weir__byte_stream **ret_stream);

/* Reads up to size bytes; *ret_n is 0 only at the end. Blocks until there are some. Returns 0 or an errno: EBADMSG if the
 * compressed data are damaged, ENODATA if they end too early. */
int weir__byte_stream_read(struct weir__byte_stream *stream, void *buffer, size_t size, size_t *ret_n);

/* The message for an errno of these functions. */
const char *weir__byte_stream_error(int error);

/* Sets the message to the path and what is wrong with it. Returns `error`. */
int weir__byte_stream_refuse(struct weir_message *ret_message, const char *path, const char *what, int error);

/* How many bytes of the file have been read, before decompression. *ret_all is its size, or 0 if it is not known. */
uint64_t weir__byte_stream_done(const struct weir__byte_stream *stream, uint64_t *ret_all);

void weir__byte_stream_close(struct weir__byte_stream *stream); /* NULL is allowed */

#endif
