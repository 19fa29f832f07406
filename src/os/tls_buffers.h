/* tls_buffers.h: memory for OpenSSL, which keeps a few buffers per thread.
 *
 * A connection without buffers saves 34 KiB (SSL_MODE_RELEASE_BUFFERS), so OpenSSL allocates one for each record that it reads
 * or writes, and frees it. Here a worker keeps the last ones, and the next record takes them without malloc. */
#ifndef WEIR_OS_TLS_BUFFERS_H
#define WEIR_OS_TLS_BUFFERS_H

#include <stddef.h>

/* Makes OpenSSL allocate by these functions. Call it before anything uses OpenSSL; otherwise it does nothing. */
void weir__tls_buffers_install(void);

/* Between these two, the calling thread keeps buffers. */
void weir__tls_buffers_begin(void);
void weir__tls_buffers_end(void);

/* As malloc and free. */
void *weir__tls_buffers_take(size_t n);
void weir__tls_buffers_give(void *bytes);

#endif
