/* canceller.h: ends other threads' waits. */
#ifndef WEIR_CANCELLER_H
#define WEIR_CANCELLER_H

#include <weir/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All zero is ready: `struct weir_canceller c = { 0 };`. One may be given to any number of waits, on any limiters and
 * queues; it must outlive them, and the call that cancels. Waits that share one also wake up together whenever one of
 * them is woken: where many threads wait on one queue, a canceller for each is cheaper. */
struct weir_canceller {
	uint32_t private_;
};

/* Ends every wait that has this canceller, now and later, with WEIR_ERR_CANCELLED; one whose time has come meanwhile
 * still ends with WEIR_OK. It stays cancelled, and no wait with it begins any more. Safe from any thread and from signal handlers. */
WEIR_API void weir_canceller_cancel(struct weir_canceller *canceller);

WEIR_API bool weir_canceller_is_cancelled(const struct weir_canceller *canceller);

#ifdef __cplusplus
}
#endif
#endif
