/* tls_buffers_test.c: which memory a thread keeps. A buffer of OpenSSL has room for a record: 16 KiB and some. */
#include "os/tls_buffers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { BUFFER = 16 * 1024 + 400 };

static void a_buffer_is_used_again(void)
{
	void *first, *second, *third;

	weir__tls_buffers_begin();
	first = weir__tls_buffers_take(BUFFER);
	second = weir__tls_buffers_take(BUFFER + 300);
	third = weir__tls_buffers_take(BUFFER);
	CHECK(first && second && third);
	memset(second, 1, BUFFER + 300);
	weir__tls_buffers_give(first);
	weir__tls_buffers_give(second);
	weir__tls_buffers_give(third); /* one too many: it is freed */
	CHECK(weir__tls_buffers_take(BUFFER + 300) == second);
	CHECK(weir__tls_buffers_take(BUFFER) == first);
	memset(first, 1, 18 * 1024); /* each has room for the largest */
	weir__tls_buffers_give(first);
	weir__tls_buffers_give(second);
	weir__tls_buffers_end();
}

/* The thread keeps no memory of other sizes, or it would later use a small block as a buffer. */
static void other_sizes_are_not_kept(void)
{
	static const size_t sizes[] = { 0, 1, 1000, 16 * 1024 - 1, 18 * 1024 + 100, 100000 };
	void *buffer;

	weir__tls_buffers_begin();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *const bytes = weir__tls_buffers_take(sizes[i]);

		CHECK(bytes != NULL);
		memset(bytes, 1, sizes[i]);
		weir__tls_buffers_give(bytes);
		buffer = weir__tls_buffers_take(BUFFER);
		CHECK(buffer != NULL);
		memset(buffer, 1, 18 * 1024); /* if this were the smaller block, a sanitizer would report it */
		free(buffer);
	}
	weir__tls_buffers_give(NULL);
	weir__tls_buffers_end();
}

static void *other_thread(void *bytes)
{
	weir__tls_buffers_give(bytes); /* this thread keeps none */
	return weir__tls_buffers_take(BUFFER);
}

static void threads_have_their_own(void)
{
	pthread_t thread;
	void *bytes, *of_other;

	weir__tls_buffers_begin();
	bytes = weir__tls_buffers_take(BUFFER);
	CHECK(pthread_create(&thread, NULL, other_thread, bytes) == 0);
	CHECK(pthread_join(thread, &of_other) == 0 && of_other != NULL);
	weir__tls_buffers_give(of_other);
	weir__tls_buffers_end(); /* LeakSanitizer reports buffers that this does not free */
}

TESTS(TEST(a_buffer_is_used_again), TEST(other_sizes_are_not_kept), TEST(threads_have_their_own))
