/* limiter_engine.c: plays the vectors on weir_limiter. */
#include <stdlib.h>

#include "vector_engine.h"
#include "vector_memory.h"

static void *make(const struct weir_limit *limit, uint64_t log_room)
{
	struct weir_limit largest = *limit;
	struct weir_limiter *limiter;
	size_t size;

	if (weir_limiter_size(limit) == 0)
		return NULL;
	if (limit->algorithm == WEIR_SLIDING_LOG)
		largest.count = log_room;
	size = weir_limiter_size(&largest);
	if (weir_limiter_init(vector_memory(size), size, limit, &limiter, NULL) != WEIR_OK)
		abort();
	return limiter;
}

static struct weir_verdict take(void *limiter, weir_ns now, uint64_t cost)
{
	return weir_limiter_take(limiter, now, cost);
}

static struct weir_verdict upto(void *limiter, weir_ns now, uint64_t cost)
{
	return weir_limiter_upto(limiter, now, cost);
}

static struct weir_verdict peek(void *limiter, weir_ns now, uint64_t cost)
{
	return weir_limiter_peek(limiter, now, cost);
}

static struct weir_verdict refund(void *limiter, weir_ns now, uint64_t n)
{
	return weir_limiter_refund(limiter, now, n);
}

static int change(void *limiter, weir_ns now, const struct weir_limit *limit)
{
	return weir_limiter_change(limiter, now, limit, NULL);
}

static int reserve(void *limiter, weir_ns now, uint64_t cost, struct weir_reservation *ret_reservation,
		   struct weir_verdict *ret_verdict)
{
	return weir_limiter_reserve(limiter, now, cost, UINT64_MAX, ret_reservation, ret_verdict);
}

static void cancel(void *limiter, weir_ns now, struct weir_reservation *reservation)
{
	weir_limiter_cancel(limiter, now, reservation);
}

const struct vector_engine limiter_engine = {
	.name = "limiter",
	.make = make,
	.drop = vector_memory_drop,
	.take = take,
	.upto = upto,
	.peek = peek,
	.refund = refund,
	.change = change,
	.reserve = reserve,
	.cancel = cancel,
};
