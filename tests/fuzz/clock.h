/* clock.h: how far the clock of fuzz targets is ahead of where it began. */
#ifndef WEIR_TESTS_FUZZ_CLOCK_H
#define WEIR_TESTS_FUZZ_CLOCK_H

#include <weir/types.h>

extern _Atomic weir_ns fuzz_clock_ahead; /* a thread that looks for other policies asks for the time, too */

#endif
