/* tls_buffers.h: an allocator for OpenSSL that keeps the last buffers of each thread.
 *
 * With SSL_MODE_RELEASE_BUFFERS, an idle connection has no buffers, which saves 34 KiB. But OpenSSL then allocates and
 * frees a buffer for each record that it reads or writes. Here a worker keeps the last buffers, so the next record
 * needs no malloc. */
#ifndef WEIR_OS_TLS_BUFFERS_H
#define WEIR_OS_TLS_BUFFERS_H

#include <stddef.h>

/* Makes OpenSSL allocate with these functions. Call it before anything uses OpenSSL: after that it does nothing. */
void weir__tls_buffers_install(void);

/* Between these two, the calling thread keeps buffers. */
void weir__tls_buffers_begin(void);
void weir__tls_buffers_end(void);

/* As malloc and free. */
void *weir__tls_buffers_take(size_t n);
void weir__tls_buffers_give(void *bytes);

#endif
