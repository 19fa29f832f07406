/* text_file.h: reads an entire file into memory. */
#ifndef WEIR_OS_TEXT_FILE_H
#define WEIR_OS_TEXT_FILE_H

#include <stddef.h>

/* Returns 0 or an errno: EFBIG if the file has more than `most` bytes. The text ends with a NUL, and the caller frees
 * it. */
int weir__text_file_read(const char *path, size_t most, char **ret_text, size_t *ret_length);

#endif
