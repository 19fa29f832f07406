/* vector_memory.h: zeroed memory for subjects. Large blocks take memory only where they are touched, so a log of 2^32
 * events fits. */
#ifndef WEIR_TESTS_VECTOR_MEMORY_H
#define WEIR_TESTS_VECTOR_MEMORY_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { VECTOR_MEMORY_ALIGN = 64, VECTOR_MEMORY_SMALL = 65536 };

/* Stores the size in front of the returned block. */
static inline void *vector_memory(size_t size)
{
	const size_t whole = (size + 2 * VECTOR_MEMORY_ALIGN - 1) / VECTOR_MEMORY_ALIGN * VECTOR_MEMORY_ALIGN;
	unsigned char *memory;

	if (whole <= VECTOR_MEMORY_SMALL) {
		memory = aligned_alloc(VECTOR_MEMORY_ALIGN, whole);
		if (memory != NULL)
			memset(memory, 0, whole);
	} else {
		memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			memory = NULL;
	}
	if (memory == NULL)
		abort();
	memcpy(memory, &whole, sizeof(whole));
	return memory + VECTOR_MEMORY_ALIGN;
}

static inline void vector_memory_drop(void *given)
{
	unsigned char *const memory = given ? (unsigned char *)given - VECTOR_MEMORY_ALIGN : NULL;
	size_t whole;

	if (memory == NULL)
		return;
	memcpy(&whole, memory, sizeof(whole));
	if (whole <= VECTOR_MEMORY_SMALL)
		free(memory);
	else
		munmap(memory, whole);
}

#endif
