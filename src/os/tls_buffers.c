/* tls_buffers.c: keeps two buffers per thread, one to read a record and one to write. */
#include "os/tls_buffers.h"

#include <malloc.h>
#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/wide.h"

/* OpenSSL's buffers have room for a record of 16 KiB, its head and tag. SLACK: bytes that malloc may add. */
enum { LEAST = 16 * 1024, SIZE = 18 * 1024, SLACK = 64, KEPT = 2 };

static _Thread_local struct {
	bool is_on;
	unsigned n;
	void *at[KEPT];
} kept;

void *weir__tls_buffers_take(size_t n)
{
	if (WEIR__LIKELY(!kept.is_on || n < LEAST || n > SIZE))
		return malloc(n);
	return kept.n > 0 ? kept.at[--kept.n] : malloc(SIZE);
}

void weir__tls_buffers_give(void *bytes)
{
	size_t size;

	if (kept.is_on && kept.n < KEPT && bytes) {
		size = malloc_usable_size(bytes);
		if (size >= SIZE && size < SIZE + SLACK) {
			kept.at[kept.n++] = bytes;
			return;
		}
	}
	free(bytes);
}

void weir__tls_buffers_begin(void)
{
	kept.is_on = true;
}

void weir__tls_buffers_end(void)
{
	kept.is_on = false;
	while (kept.n > 0)
		free(kept.at[--kept.n]);
}

static void *take(size_t n, const char *file, int line)
{
	(void)file, (void)line;
	return weir__tls_buffers_take(n);
}

static void *resize(void *bytes, size_t n, const char *file, int line)
{
	(void)file, (void)line;
	return realloc(bytes, n);
}

static void give(void *bytes, const char *file, int line)
{
	(void)file, (void)line;
	weir__tls_buffers_give(bytes);
}

void weir__tls_buffers_install(void)
{
	(void)CRYPTO_set_mem_functions(take, resize, give);
}
