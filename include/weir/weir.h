/* weir.h: includes every header of libweir. Weir is a rate limiter: for each request it decides allowed or denied, and
 * how long to wait.
 *
 * Where to start:
 *     limit.h         how a limit is written
 *     limiter.h       one limit for the threads of one process
 *     table.h         limits for millions of keys, for threads and processes
 *     store.h         the same calls for a table and for Redis, blocking or for event loops
 *     clock.h         the time to pass in
 *     verdict.h       what comes back
 *     queue.h         items that wait, and leave at a constant rate
 *     canceller.h     ends waits
 *     types.h         times, the one list of errors, and the rules that hold for all functions
 *     plan.h, step.h  the arithmetic alone, for your own stores
 *
 * Each header is the manual of its functions. Link with `pkg-config --libs weir`. libweir needs only libc.
 *
 * Include these headers by name, because they belong to other libraries:
 *     policy.h, guard.h  policies from YAML: libweir-policy
 *     redis.h            limits in Redis, and weir_store_redis of store.h: libweir-redis */
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
