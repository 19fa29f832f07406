/* hooked_accesses.h: what follows its inclusion calls table_hook before each access to shared memory. All that is included
 * before keeps its accesses as they are: so the headers below are. */
#ifndef WEIR_TESTS_STORE_HOOKED_ACCESSES_H
#define WEIR_TESTS_STORE_HOOKED_ACCESSES_H

#include <stdatomic.h>
#include <stdlib.h>

#include "hooked_table.h"
#include "os/atomic16.h"
#include "os/canceller.h"
#include "os/clock.h"
#include "os/memory.h"

static inline void call_hook(const void *at)
{
	if (table_hook)
		table_hook(at);
}

/* So a line is read as under the thread sanitizer, slot by slot, and not by instructions that have no name to hook. */
#undef __SANITIZE_THREAD__
#define __SANITIZE_THREAD__ 1

/* A macro that names itself is not expanded again: that is the function. */
#define weir__atomic16_load(slot) (call_hook(slot), weir__atomic16_load(slot))
#define weir__atomic16_swap(slot, ...) (call_hook(slot), weir__atomic16_swap(slot, __VA_ARGS__))
#define __atomic_load_n(word, order) (call_hook(word), __atomic_load_n(word, order))
#define __atomic_store_n(word, value, order) (call_hook(word), __atomic_store_n(word, value, order))
#undef atomic_load
#define atomic_load(word) (call_hook(word), atomic_load_explicit(word, memory_order_seq_cst))
#undef atomic_store
#define atomic_store(word, value) (call_hook(word), atomic_store_explicit(word, value, memory_order_seq_cst))
#undef atomic_exchange
#define atomic_exchange(word, value) (call_hook(word), atomic_exchange_explicit(word, value, memory_order_seq_cst))
#undef atomic_fetch_add
#define atomic_fetch_add(word, n) (call_hook(word), atomic_fetch_add_explicit(word, n, memory_order_seq_cst))
#undef atomic_compare_exchange_strong
#define atomic_compare_exchange_strong(word, expected, value)                                                          \
	(call_hook(word),                                                                                              \
	 atomic_compare_exchange_strong_explicit(word, expected, value, memory_order_seq_cst, memory_order_seq_cst))

#endif
