/* canceller.h: ends waits of other threads, in limiters, tables and queues.
 *
 * Pass a canceller to the calls that wait, and call weir_canceller_cancel when the program shuts down or a client
 * leaves. Any thread may call the functions below.
 *
 *     static struct weir_canceller stop;
 *
 *     weir_limiter_wait(mail, 1, WEIR_NEVER, &stop);      returns WEIR_ERR_CANCELLED
 *     weir_canceller_cancel(&stop);                       when another thread or a signal handler calls this */
#ifndef WEIR_CANCELLER_H
#define WEIR_CANCELLER_H

#include <weir/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All zero is ready to use: `struct weir_canceller c = { 0 };`. One canceller may be passed to any number of waits, on
 * any limiters, tables and queues. It must outlive those waits and the call that cancels. Waits that share a canceller
 * also wake up together whenever one of them is woken. Where many threads wait on one queue, a canceller per thread is
 * cheaper. */
struct weir_canceller {
	uint32_t private_;
};

/* Ends every wait with this canceller, now and later, with WEIR_ERR_CANCELLED. A wait whose time has come meanwhile
 * still returns WEIR_OK. The canceller stays cancelled, and no new wait with it begins. Safe from any thread and from
 * signal handlers. */
WEIR_API void weir_canceller_cancel(struct weir_canceller *canceller);

/* Returns whether weir_canceller_cancel was called. Safe from any thread and from signal handlers. */
WEIR_API bool weir_canceller_is_cancelled(const struct weir_canceller *canceller);

#ifdef __cplusplus
}
#endif
#endif
