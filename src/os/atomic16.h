/* atomic16.h: 16 bytes changed at once.
 *
 * gcc compiles 16-byte __atomic operations to calls of libatomic, which the library must not depend on. The older
 * __sync builtins compile to cmpxchg16b (with -mcx16) or, on aarch64, to libgcc's own compare-and-swap. A load by
 * compare-and-swap writes, so readers would contend for the cache line. Where the processor guarantees that aligned
 * 16-byte vector loads are atomic (x86-64 with AVX, by both vendors' manuals), the load uses those. */
#ifndef WEIR_OS_ATOMIC16_H
#define WEIR_OS_ATOMIC16_H

#include <weir/step.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

__extension__ typedef unsigned __int128 weir__u128_slot;

/* A struct weir_state that threads share. It is aligned, and only the functions here access it. */
union weir__atomic16 {
	struct weir_state state;
	weir__u128_slot word;
} __attribute__((aligned(16)));

static inline weir__u128_slot weir__atomic16_word(struct weir_state state)
{
	return (weir__u128_slot)state.hi << 64 | state.lo;
}

/* The builtin promises a full barrier, but on aarch64 clang compiles it to acquire and release only. */
static inline void weir__atomic16_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb ish" ::: "memory");
#endif
}

/* Orders the loads before it before the loads after it. Only aarch64 needs an instruction for that. Elsewhere only the
 * compiler could reorder them. */
static inline void weir__read_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb ishld" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Full barrier. */
static inline bool weir__atomic16_swap(union weir__atomic16 *slot, struct weir_state expected, struct weir_state next)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
	bool swapped;

	/* The builtin needs both numbers assembled as 128 bits first, which goes through memory. */
	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(swapped), "+m"(*slot), "+a"(expected.lo), "+d"(expected.hi)
			 : "b"(next.lo), "c"(next.hi)
			 : "memory");
	return swapped;
#else
	bool swapped;

	weir__atomic16_barrier();
	swapped = __sync_bool_compare_and_swap(&slot->word, weir__atomic16_word(expected), weir__atomic16_word(next));
	weir__atomic16_barrier();
	return swapped;
#endif
}

/* Acquire. Swaps the value that was read for itself, for processors that guarantee no other atomic load. The swap must
 * succeed: where a swap is a pair of instructions, a failed one may have read a torn value. */
static __attribute__((noinline, unused)) struct weir_state weir__atomic16_load_by_swap(union weir__atomic16 *slot)
{
	struct weir_state seen;

	do {
		seen.lo = __atomic_load_n(&slot->state.lo, __ATOMIC_RELAXED);
		seen.hi = __atomic_load_n(&slot->state.hi, __ATOMIC_RELAXED);
	} while (!weir__atomic16_swap(slot, seen, seen));
	return seen;
}

/* Acquire. */
static inline struct weir_state weir__atomic16_load(union weir__atomic16 *slot)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	if (__builtin_expect(__builtin_cpu_supports("avx"), 1)) {
		struct weir_state state;
		__m128i both;

		/* In assembly, because gcc would extract the upper half through memory, and later instructions would
		 * wait for that. */
		__asm__ volatile("movdqa %3, %0\n\tmovq %0, %1\n\tpunpckhqdq %0, %0\n\tmovq %0, %2"
				 : "=&x"(both), "=&r"(state.lo), "=r"(state.hi)
				 : "m"(*slot)
				 : "memory");
		return state;
	}
#endif
#if defined(__SANITIZE_THREAD__)
	/* ThreadSanitizer swaps 16 bytes under a lock, but stores to one half do not take that lock. Swapping a slot
	 * for itself could undo such a store. Its 16-byte load only reads. */
	const weir__u128_slot word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);

	return (struct weir_state){ (uint64_t)word, (uint64_t)(word >> 64) };
#else
	return weir__atomic16_load_by_swap(slot);
#endif
}

#endif
