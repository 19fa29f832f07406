/* file.h: the only file that there is for a fuzz target. It is memory of this process; behind its end nothing may be read,
 * which a sanitizer sees to the byte. */
#ifndef WEIR_TESTS_FUZZ_FILE_H
#define WEIR_TESTS_FUZZ_FILE_H

#include <stddef.h>

enum { FUZZ_FILE_MOST = 1 << 16 };

extern unsigned char fuzz_file[FUZZ_FILE_MOST];

/* From now on there is one, of so many bytes. What is in it stays. */
void fuzz_file_resize(size_t size);

#endif
