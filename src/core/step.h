/* step.h: a step that only the stores of this tree take; the others are in weir/step.h. */
#ifndef WEIR_CORE_STEP_H
#define WEIR_CORE_STEP_H

#include <weir/step.h>

/* Gives back up to n of what sliding counters and logs were charged at that instant, and nothing that was charged later; `granted`
 * tells how much. Other kinds do not know when they were charged, and give back nothing. What is there then, the verdict does
 * not tell. */
struct weir_verdict weir__step_refund_of(const struct weir_plan *plan, void *state, weir_ns charged_at, uint64_t n);

#endif
