/* output.h: files that weir replay and weir tune write. */
#ifndef WEIR_CLI_OUTPUT_H
#define WEIR_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Whether both paths name the same regular file, or will when it is made. */
bool weir__output_is_same(const char *path, const char *other);

/* Whether `path` is one of the n files that are read: opening it would empty it. */
bool weir__output_is_input(const char *path, const char *const *inputs, size_t n);

/* Opens and empties a file that only its owner may read: it can have addresses of clients. Devices and pipes keep their
 * mode. NULL: errno says why. */
FILE *weir__output_open_private(const char *path);

#endif
