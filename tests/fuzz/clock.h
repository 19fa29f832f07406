/* clock.h: how far a fuzz target has advanced its clock. */
#ifndef WEIR_TESTS_FUZZ_CLOCK_H
#define WEIR_TESTS_FUZZ_CLOCK_H

#include <weir/types.h>

extern _Atomic weir_ns fuzz_clock_ahead; /* atomic: the thread that watches for new policies reads the time, too */

#endif
