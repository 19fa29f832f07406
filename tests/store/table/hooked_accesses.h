/* hooked_accesses.h: code after this include calls table_hook before each access to shared memory. Code included
 * earlier is unchanged, which is why the headers below come first. */
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

/* Reads a line slot by slot, as under the thread sanitizer, because vector instructions cannot be hooked. */
#undef __SANITIZE_THREAD__
#define __SANITIZE_THREAD__ 1

/* A macro is not expanded within itself: the inner name is the function. */
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
