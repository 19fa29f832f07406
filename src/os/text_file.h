/* text_file.h: reads an entire file into memory, without waiting for other processes, and replaces one at once. */
#ifndef WEIR_OS_TEXT_FILE_H
#define WEIR_OS_TEXT_FILE_H

#include <stddef.h>

/* Only regular files, and links to them, are read: a FIFO or a device could make the caller wait for ever. Also allowed
 * are /dev/null, and the descriptors that a caller gave this process on purpose, by the names /dev/stdin, /dev/fd/N and
 * /proc/self/fd/N. Returns 0 or an errno: EFBIG if the file has more than `most` bytes, ENXIO if it is not a regular
 * file, EISDIR if it is a directory. The text ends with a NUL, and the caller frees it. */
int weir__text_file_read(const char *path, size_t most, char **ret_text, size_t *ret_length);

/* Whether such a file can be opened, for libraries that open it by themselves. Returns 0 or the same errno. */
int weir__text_file_check(const char *path);

/* Writes a temporary file beside the path and renames it, so that readers find the old or the new text, also after a
 * power cut. Returns 0 or an errno. */
int weir__text_file_replace(const char *path, unsigned mode, const char *text, size_t length);

/* The message for an errno of these functions. */
const char *weir__text_file_error(int error);

#endif
