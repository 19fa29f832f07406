/* step.h: a step for the stores of this repository only; the public ones are in weir/step.h. */
#ifndef WEIR_CORE_STEP_H
#define WEIR_CORE_STEP_H

#include <weir/step.h>

/* Gives back up to n units of what sliding counters and logs were charged at charged_at, and nothing that was charged
 * later. verdict.granted is how many. Other kinds do not record when they were charged, and give back nothing. The
 * verdict does not fill in remaining. */
struct weir_verdict weir__step_refund_of(const struct weir_plan *plan, void *state, weir_ns charged_at, uint64_t n);

#endif
