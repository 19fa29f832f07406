/* limiters.h: makes limiters from text, for tests. */
#ifndef WEIR_TESTS_STORE_LIMITERS_H
#define WEIR_TESTS_STORE_LIMITERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

/* Allocates `more` bytes beyond what the limiter needs. The caller frees it. */
static inline struct weir_limiter *limiter_of(const char *text, size_t more)
{
	struct weir_message why = { 0, "no memory" };
	struct weir_limiter *limiter;
	struct weir_limit limit;
	void *memory = NULL;
	size_t size = 0;

	if (weir_limit_parse(text, strlen(text), &limit, &why) == WEIR_OK) {
		size = weir_limiter_size(&limit) + more;
		memory = aligned_alloc(WEIR_LIMITER_ALIGN, (size / WEIR_LIMITER_ALIGN + 1) * WEIR_LIMITER_ALIGN);
	}
	if (memory == NULL || weir_limiter_init(memory, size, &limit, &limiter, &why) != WEIR_OK) {
		printf("Bail out! %s: %s\n", text, why.text);
		exit(1);
	}
	return limiter;
}

#endif
