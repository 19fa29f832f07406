/* atomic16.h: 16 bytes changed at once.
 *
 * gcc sends its 16-byte __atomic operations to libatomic, which the library must not need; the older __sync builtins
 * compile to cmpxchg16b (with -mcx16) or, on aarch64, to libgcc's own compare-and-swap. A load by compare-and-swap
 * writes, so readers would fight for the line: where the processor promises that aligned 16-byte vector loads are atomic
 * (x86-64 with AVX, by both vendors' manuals), that is used. */
#ifndef WEIR_OS_ATOMIC16_H
#define WEIR_OS_ATOMIC16_H

#include <weir/step.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

__extension__ typedef unsigned __int128 weir__u128_slot;

/* A struct weir_state that threads share: aligned, and touched only by the functions here. */
union weir__atomic16 {
	struct weir_state state;
	weir__u128_slot word;
} __attribute__((aligned(16)));

static inline weir__u128_slot weir__atomic16_word(struct weir_state state)
{
	return (weir__u128_slot)state.hi << 64 | state.lo;
}

/* The builtin promises a full barrier, but on aarch64 clang makes acquire and release of it. */
static inline void weir__atomic16_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb ish" ::: "memory");
#endif
}

/* What was loaded before is older than what is loaded after. Elsewhere than on aarch64 only compilers mix them up. */
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

	/* The builtin wants both numbers as 128 bits put together first, which costs a trip through memory. */
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

/* Acquire, by a swap of what was read for itself: on processors that promise no other way. It must succeed: where a swap
 * is a pair of instructions, what a failed one has read may be torn. */
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

		/* Written out: gcc would take the upper half by way of memory, which others wait for. */
		__asm__ volatile("movdqa %3, %0\n\tmovq %0, %1\n\tpunpckhqdq %0, %0\n\tmovq %0, %2"
				 : "=&x"(both), "=&r"(state.lo), "=r"(state.hi)
				 : "m"(*slot)
				 : "memory");
		return state;
	}
#endif
#if defined(__SANITIZE_THREAD__)
	/* The sanitizer swaps under a lock that halves are not stored under: to swap a slot for itself could undo that. Its
	 * load only reads. */
	const weir__u128_slot word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);

	return (struct weir_state){ (uint64_t)word, (uint64_t)(word >> 64) };
#else
	return weir__atomic16_load_by_swap(slot);
#endif
}

#endif
