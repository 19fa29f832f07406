/* require.h: checks for fuzz targets. A failed check prints its message and aborts, so that the fuzzer saves the
 * input. */
#ifndef WEIR_TESTS_FUZZ_REQUIRE_H
#define WEIR_TESTS_FUZZ_REQUIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A target defines it; libFuzzer and replay.c call it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static inline void require_same(const char *text, const char *other, const char *what)
{
	if (strcmp(text, other) == 0)
		return;
	fprintf(stderr, "%s\n%s\n--\n%s\n", what, text, other);
	abort();
}

#endif
