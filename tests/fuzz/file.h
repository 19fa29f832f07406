/* file.h: the only file of a fuzz target. It is memory of this process. A sanitizer reports any read beyond its end. */
#ifndef WEIR_TESTS_FUZZ_FILE_H
#define WEIR_TESTS_FUZZ_FILE_H

#include <stddef.h>

enum { FUZZ_FILE_MOST = 1 << 16 };

extern unsigned char fuzz_file[FUZZ_FILE_MOST];

/* Creates the file, or resizes it and keeps its bytes. */
void fuzz_file_resize(size_t size);

#endif
