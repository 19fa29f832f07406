/* text_file.h: a whole file, read into memory. */
#ifndef WEIR_OS_TEXT_FILE_H
#define WEIR_OS_TEXT_FILE_H

#include <stddef.h>

/* 0, or an errno: EFBIG if it has more than `most` bytes. What is read has a NUL behind it and is freed by the caller. */
int weir__text_file_read(const char *path, size_t most, char **ret_text, size_t *ret_length);

#endif
