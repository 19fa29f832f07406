/* uninitialized.h: marks variables that a hardened build does not set to zero.
 *
 * -ftrivial-auto-var-init=zero writes every variable at its declaration. For kilobytes of claims or keys of which a
 * request uses a few bytes, that was most of the instructions of a request. Mark only what is written before it is
 * read. */
#ifndef WEIR_CORE_UNINITIALIZED_H
#define WEIR_CORE_UNINITIALIZED_H

#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define WEIR__UNINITIALIZED __attribute__((uninitialized))
#endif
#endif
#ifndef WEIR__UNINITIALIZED
#define WEIR__UNINITIALIZED
#endif

#endif
