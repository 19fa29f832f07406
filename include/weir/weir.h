/* weir.h: includes every header of libweir. Weir decides, for every request: go, wait, or no.
 *
 * Where to start:
 *     limit.h         how a limit is written
 *     limiter.h       one limit for many threads
 *     table.h         limits for millions of keys, for threads and processes
 *     store.h         the same calls for a table and for Redis, blocking or for event loops
 *     clock.h         the time to pass in
 *     verdict.h       what comes back
 *     queue.h         items that wait, and leave at a constant rate
 *     canceller.h     ends waits
 *     types.h         times, and the one list of errors
 *     plan.h, step.h  the bare arithmetic, for your own stores */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/canceller.h>
#include <weir/clock.h>
#include <weir/limit.h>
#include <weir/limiter.h>
#include <weir/plan.h>
#include <weir/queue.h>
#include <weir/step.h>
#include <weir/store.h>
#include <weir/table.h>
#include <weir/types.h>
#include <weir/verdict.h>

#endif
